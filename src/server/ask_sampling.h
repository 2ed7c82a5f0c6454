// What a request says of its sampling: llama-server's fields, OpenAI's, and vLLM's.
#ifndef SERVER_ASK_SAMPLING_H
#define SERVER_ASK_SAMPLING_H

#include "base/json.h"
#include "server/ask.h"

// What holds where a request says nothing; d NULL: the server's options neither.
struct sampling ask_sampling_default(const struct text_model *m, const struct defaults *d);

// Sets a's sampling, loop and stop_ids. False with a refusal.
bool ask_sampling(struct ask *a, struct json_object *o, const struct text_model *m,
                  struct refusal *r);

#endif
