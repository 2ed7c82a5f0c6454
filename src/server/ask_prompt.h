// Prompts of completions: text, token ids, or lists of both, one or several.
#ifndef SERVER_ASK_PROMPT_H
#define SERVER_ASK_PROMPT_H

#include "base/json.h"
#include "server/ask.h"

// Appends the ids of a text, or of a list of texts and ids. special: a text that comes first has
// the tokens that begin and end a text. plain: what spells a special token in a text is none.
bool ask_ids(struct json_object *v, const char *name, bool special, bool plain,
             const struct text_model *m, struct ids *out, struct refusal *r);

// Sets a's prompt, and what is echoed of it if that is asked for, and its `more`. False with a
// refusal, also of a prompt that the context can't hold.
bool ask_prompts(struct ask *a, struct json_object *o, const struct text_model *m,
                 struct refusal *r);
bool ask_check_length(size_t tokens, const char *param, const struct text_model *m,
                      struct refusal *r);
// For who only counts, after what `read` tells the success of: a prompt that is too long was
// counted all the same.
bool ask_counted(bool read, struct refusal *r);

// The i-th of a's prompts, and what of it is echoed.
const struct ids *ask_prompt(const struct ask *a, size_t i);
struct sv ask_echoed(const struct ask *a, size_t i);

#endif
