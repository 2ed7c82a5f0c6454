// What a request of Anthropic's Messages API asks for.
#ifndef SERVER_ASK_ANTHROPIC_H
#define SERVER_ASK_ANTHROPIC_H

#include "server/ask.h"

// For struct api.
bool ask_messages(struct ask *a, struct json_object *o, const struct text_model *m,
                  const struct server_options *opt, struct refusal *r);
// Only to count the prompt's tokens: it may be longer than the context. False with a refusal.
bool ask_count(struct ask *a, struct json_object *o, const struct text_model *m,
               const struct server_options *opt, struct refusal *r);

#endif
