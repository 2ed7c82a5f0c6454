// What the parts of chat/ share: a chat's templates (or what stands for one), and which of them
// answers a request.
#ifndef CHAT_PARTS_H
#define CHAT_PARTS_H

#include "chat/chat.h"
#include "chat/coded.h"
#include "chat/jinja.h"

// How a template takes a message that calls tools: the content where there is none, and whether
// arguments are text or an object.
struct call_form {
    enum { CONTENT_MISSING, CONTENT_NULL, CONTENT_EMPTY } content;
    bool text;
    bool told; // the prompt has the call in it
};

struct chat_template {
    char *name;
    struct str source;
    const struct coded *coded; // NULL: a template
    struct jinja *compiled;    // NULL: coded, or see error
    struct error error;
    struct call_form calls;
    bool generic; // it shows no format of calls: see reply.h
    bool system;  // of one that is generic: it knows that role
};

struct chat {
    struct chat_template *at;
    size_t n, cap;
    struct json_object *tokens; // special tokens by variable name
    bool thinks;                // unless it is told otherwise
};

// The template for a request: "tool_use" where there are tools and one of that name; NULL: none.
const struct chat_template *chat_pick(const struct chat *c, bool tools);
bool chat_usable(const struct chat_template *t, struct error *e);

// The first form in which the template tells of a call; where there is none, no content and an
// object, as transformers has it.
struct call_form call_form_of(const struct chat_template *t, struct json_object *tokens);
// Whether the prompt has what a system message says.
bool system_told(const struct chat_template *t, struct json_object *tokens);
// A conversation for a template that knows no calls, without calls and results: a new list, the
// caller's, which also tells of the options' tools. system: the template knows that role.
struct json_object *generic_messages(struct json_object *messages, const struct chat_options *opt,
                                     bool system);
// Changes a message, but nothing that it holds. Arguments that are no object's text stay.
void call_fit(struct json_object *message, struct call_form form);

#endif
