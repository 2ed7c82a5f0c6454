// Chats that a model's publisher renders in code and not by a template.
#ifndef CHAT_CODED_H
#define CHAT_CODED_H

#include "chat/chat.h"

// What is to be rendered. The messages are objects that each have a role, and a content that is
// text, a list of objects and texts, or missing; null members are gone, and reasoning is under
// reasoning_content.
struct coded_call {
    struct json_object *messages, *tools, *kwargs; // tools and kwargs: or NULL
    bool generate, go_on;                          // as chat_options has them; never both
};

struct coded {
    const char *source;           // stands for a template's: it names the marks of a reply
    const char *const *variables; // of kwargs, up to NULL
    bool (*render)(const struct coded_call *call, struct chat_prompt *out, struct error *e);
};

extern const struct coded coded_kimi_k3, coded_deepseek_v32, coded_deepseek_v4;

// For a checkpoint folder without a template: how that model_type's chat is rendered, or a template
// that its publisher's code amounts to. At most one of the two is not empty.
struct built_in {
    const struct coded *coded;
    const char *source;
};
struct built_in built_in_chat(const char *dir, struct sv model_type);

bool coded_knows(const struct coded *c, const char *variable);

// What the renderers share (coded.c).
struct json_object *coded_message(const struct coded_call *call, size_t i);
struct sv coded_role(const struct coded_call *call, size_t i);
// A message's content: how many pieces of text it has, and each of them; what is no text is an
// error that names it.
size_t coded_pieces(struct json_object *message);
bool coded_piece(const struct coded_call *call, size_t i, size_t k, struct sv *text,
                 struct error *e);
// All pieces, with `between` between them.
bool coded_content(const struct coded_call *call, size_t i, const char *between, struct str *out,
                   struct error *e);
// How many calls a message has in its tool_calls, which must be a list if it is there.
bool coded_calls(const struct coded_call *call, size_t i, size_t *n, struct error *e);
// The object with name and arguments of call k in a message's tool_calls, and its name; NULL and an
// error when it isn't one.
struct json_object *coded_function(const struct coded_call *call, size_t i, size_t k,
                                   struct sv *name, struct error *e);
// What a function is called with: an object that the caller owns. Of text that isn't JSON: NULL
// without an error; of other JSON: NULL with one.
struct json_object *coded_arguments(size_t i, size_t k, struct json_object *function,
                                    struct error *e);
// A variable that must be true or false; *value stays where it is missing.
bool coded_flag(const struct coded_call *call, const char *variable, bool *value, struct error *e);

#endif
