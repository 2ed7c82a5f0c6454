// A request of the Responses API as a chat completion that asks for the same, with what of it is
// kept beside the answer. A field that would change the answer and that this server can't honour is
// refused by its name.
#ifndef SERVER_RESPONSES_ASK_H
#define SERVER_RESPONSES_ASK_H

#include "base/json.h"
#include "server/refusal.h"
#include "server/service.h"

struct responses_ask {
    struct json_object *chat; // the body for ask_chat
    bool store;               // the answer
    struct str items;         // that the model gets, as the store has them
    struct str echo;          // members of a response, each with a comma before it
    struct budget *trees;     // what the chat's memory was taken from
    size_t taken;
};

// Reads a body, with the response that it goes on from. q is all zero before, and to be freed in
// any case. False with a refusal.
bool responses_ask_read(struct responses_ask *q, struct json_object *body, struct service *s,
                        struct refusal *r);
// What ask_chat refuses, in the names of this API.
void responses_ask_rename(struct refusal *r);
void responses_ask_drop_chat(struct responses_ask *q); // once it was read
void responses_ask_free(struct responses_ask *q);

#endif
