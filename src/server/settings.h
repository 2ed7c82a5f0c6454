// What a request was understood to ask for, as llama-server tells it in an answer's
// generation_settings, in its slots and, of a request that asks for nothing, in its props.
#ifndef SERVER_SETTINGS_H
#define SERVER_SETTINGS_H

#include "base/json.h"
#include "server/ask.h"

// An object. body: the request's, whose lists and texts are told too; NULL: without them.
void settings_write(struct str *out, const struct ask *a, struct json_object *body);
// Of a request that says nothing.
void settings_default(struct str *out, const struct text_model *m, const struct defaults *d);

#endif
