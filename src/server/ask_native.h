// llama-server's own bodies: /completion and /infill.
#ifndef SERVER_ASK_NATIVE_H
#define SERVER_ASK_NATIVE_H

#include "base/json.h"
#include "server/ask.h"

// For struct api.
bool ask_native(struct ask *a, struct json_object *o, const struct text_model *m,
                const struct server_options *opt, struct refusal *r);
bool ask_infill(struct ask *a, struct json_object *o, const struct text_model *m,
                const struct server_options *opt, struct refusal *r);

#endif
