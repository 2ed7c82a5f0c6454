// Fields of a request's JSON, checked: what is wrong is refused with the field's name.
#ifndef SERVER_BODY_H
#define SERVER_BODY_H

#include "base/json.h"
#include "server/refusal.h"

bool body_wrong_kind(struct refusal *r, const char *name, const char *wanted,
                     struct json_object *v);

// These leave *out as it is when the field is absent or null.
bool body_flag(struct json_object *o, const char *name, bool *out, struct refusal *r);
bool body_number(struct json_object *o, const char *name, double least, double most, float *out,
                 struct refusal *r);
// A whole number may be written as 3.0 or 1e3.
bool body_whole(struct json_object *o, const char *name, int64_t least, int64_t most, int64_t *out,
                struct refusal *r);

#endif
