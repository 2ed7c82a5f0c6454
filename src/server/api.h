// One API's way to ask for an answer and to tell it. completion.c does the rest: it waits for the
// tokens, makes text, reasoning and calls of them, and hands those on in their order.
#ifndef SERVER_API_H
#define SERVER_API_H

#include "chat/reply.h"
#include "engine/text.h"
#include "server/options.h"
#include "server/refusal.h"

struct ask;
struct choice;
struct completion;

struct api {
    const char *id; // what a completion's id begins with
    bool chat;      // an answer may have reasoning and calls; else it is text
    // Reads the body, an object, into a, which is all zero but its defaults and who waits for it.
    // False with a refusal, or without one when a->unwanted has ended it.
    bool (*read)(struct ask *a, struct json_object *body, const struct text_model *m,
                 const struct server_options *opt, struct refusal *r);
    // The whole answer: every choice has its `said` and `finish`.
    void (*whole)(struct str *out, struct completion *c);
    // The events of a stream. open comes once and first, then part and finish of each choice (part
    // never after that choice's finish), and end once.
    void (*open)(struct str *out, struct completion *c);
    void (*part)(struct str *out, struct completion *c, struct choice *ch,
                 const struct reply_event *e);
    void (*finish)(struct str *out, struct completion *c, struct choice *ch);
    void (*end)(struct str *out, struct completion *c);
    // Where the ask wants it, when a step has worked at a prompt; may write nothing. NULL: none.
    void (*progress)(struct str *out, struct completion *c);
    void (*lost)(struct str *out, struct completion *c, const struct refusal *why); // or this
    void (*close)(struct completion *c);                       // frees c->own; NULL: there is none
    void (*refusal)(struct str *out, const struct refusal *r); // the JSON of an error
};

extern const struct api api_chat, api_completions; // OpenAI's
extern const struct api api_messages;              // Anthropic's

#endif
