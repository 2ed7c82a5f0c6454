// What the parts of chat/ share: a chat's templates (or what stands for one), and which of them
// answers a request.
#ifndef CHAT_PARTS_H
#define CHAT_PARTS_H

#include "chat/chat.h"
#include "chat/coded.h"
#include "chat/jinja.h"

struct chat_template {
    char *name;
    struct str source;
    const struct coded *coded; // NULL: a template
    struct jinja *compiled;    // NULL: coded, or see error
    struct error error;
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

#endif
