// What a request's JSON asks for: the OpenAI API's bodies of completions and chat completions,
// checked field by field. A field that would change the answer and that this server can't honour
// is refused by its name; one that would not is ignored.
#ifndef SERVER_ASK_H
#define SERVER_ASK_H

#include "engine/text.h"
#include "server/refusal.h"

enum { ASK_STOPS = 16, ASK_STOP_BYTES = 1024, ASK_STOP_IDS = 256, ASK_BIASES = 65536 };
enum { ASK_MOST = 1000000000 }; // of tokens, and of counts of them

struct ask {
    bool stream, include_usage;
    size_t choices; // answers to make
    bool logprobs;  // tell each token's, and those of
    int64_t tops;   // so many of the likeliest
    bool echo;      // the prompt comes before the answer
    struct str echoed;
    struct text_prompt prompt; // of a chat, or its ids alone
    struct json_object *tools; // that the model may call, or NULL; owned
    bool one_call;             // and only one of them
    int64_t max_new;           // -1: as many as the context holds
    struct sampling sampling;  // its arrays are the ask's
    struct loop loop;
    struct ids stop_ids; // that end the answer
    struct str stop[ASK_STOPS];
    size_t stops;
};

// chat: the body is of chat/completions, else of completions. kwargs: template variables of all
// chats, or NULL. False with a refusal. ask must be freed in any case.
bool ask_read(struct ask *a, bool chat, struct sv body, const struct text_model *m,
              struct json_object *kwargs, struct refusal *r);
void ask_free(struct ask *a);

#endif
