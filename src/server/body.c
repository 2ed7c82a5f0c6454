#include "server/body.h"

#include <math.h>

bool body_wrong_kind(struct refusal *r, const char *name, const char *wanted,
                     struct json_object *v) {
    return refuse(r, 400, name, "\"%s\" must be %s, not %s", name, wanted, json_kind(v));
}

bool body_flag(struct json_object *o, const char *name, bool *out, struct refusal *r) {
    struct json_object *v = json_at(o, name);
    if (!v) return true;
    if (!json_object_is_type(v, json_type_boolean)) return body_wrong_kind(r, name, "a boolean", v);
    *out = json_object_get_boolean(v);
    return true;
}

bool body_number(struct json_object *o, const char *name, double least, double most, float *out,
                 struct refusal *r) {
    struct json_object *v = json_at(o, name);
    if (!v) return true;
    if (!json_object_is_type(v, json_type_double) && !json_object_is_type(v, json_type_int))
        return body_wrong_kind(r, name, "a number", v);
    double d = json_object_get_double(v);
    if (!(d >= least && d <= most)) // also when it is NaN
        return refuse(r, 400, name, "\"%s\" is %g; it must be from %g to %g", name, d, least, most);
    *out = (float)d;
    return true;
}

// The whole number that the number v is, also when it is written as 3.0 or 1e3. False when it is
// none; *fits tells whether *out holds it.
static bool whole(struct json_object *v, int64_t *out, bool *fits) {
    double d = json_object_get_double(v);
    if (json_object_is_type(v, json_type_int)) {
        *out = json_object_get_int64(v);
        *fits = *out < INT64_MAX || json_object_get_uint64(v) == INT64_MAX;
        return true;
    }
    if (d != floor(d)) return false;
    const double limit = 9223372036854775808.0; // 2^63
    *fits = d >= -limit && d < limit;
    *out = *fits ? (int64_t)d : 0;
    return true;
}

bool body_whole(struct json_object *o, const char *name, int64_t least, int64_t most, int64_t *out,
                struct refusal *r) {
    struct json_object *v = json_at(o, name);
    if (!v) return true;
    if (!json_object_is_type(v, json_type_double) && !json_object_is_type(v, json_type_int))
        return body_wrong_kind(r, name, "a whole number", v);
    bool fits;
    int64_t n;
    const char *text = json_object_to_json_string_ext(v, JSON_C_TO_STRING_PLAIN);
    if (!whole(v, &n, &fits))
        return refuse(r, 400, name, "\"%s\" must be a whole number, not %.40s", name, text);
    if (!fits || n < least || n > most)
        return refuse(r, 400, name, "\"%s\" is %.40s; it must be from %lld to %lld", name, text,
                      (long long)least, (long long)most);
    *out = n;
    return true;
}
