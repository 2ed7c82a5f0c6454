#include "tokenizer/fields.h"

static bool wrong(struct json_object *v, const char *key, const char *want, struct error *e) {
    if (!v) return fail(e, "key \"%s\" is missing (%s is needed)", key, want);
    return fail(e, "key \"%s\" is %.60s, not %s", key, json_object_to_json_string(v), want);
}

bool field_text_or(struct json_object *o, const char *key, struct sv *out, struct error *e) {
    struct json_object *v = json_at(o, key);
    if (v && !json_object_is_type(v, json_type_string)) return wrong(v, key, "a string", e);
    *out = json_text(v);
    return true;
}

bool field_text(struct json_object *o, const char *key, struct sv *out, struct error *e) {
    if (!json_at(o, key)) return wrong(NULL, key, "a string", e);
    return field_text_or(o, key, out, e);
}

bool field_bool(struct json_object *o, const char *key, bool otherwise, bool *out,
                struct error *e) {
    struct json_object *v = json_at(o, key);
    if (v && !json_object_is_type(v, json_type_boolean)) return wrong(v, key, "true or false", e);
    *out = v ? json_object_get_boolean(v) : otherwise;
    return true;
}

bool field_int(struct json_object *o, const char *key, int64_t low, int64_t high, int64_t *out,
               struct error *e) {
    struct json_object *v = json_at(o, key);
    if (!json_object_is_type(v, json_type_int)) return wrong(v, key, "a whole number", e);
    *out = json_object_get_int64(v);
    if (*out < low || *out > high)
        return fail(e, "key \"%s\" is %.60s, outside %lld to %lld", key,
                    json_object_to_json_string(v), (long long)low, (long long)high);
    return true;
}

struct json_object *field_array(struct json_object *o, const char *key, struct error *e) {
    struct json_object *v = json_at(o, key);
    if (json_object_is_type(v, json_type_array)) return v;
    wrong(v, key, "an array", e);
    return NULL;
}

bool field_char(struct json_object *o, const char *key, const char *otherwise, int32_t *out,
                struct error *e) {
    struct sv text = sv(otherwise);
    size_t len = 0;
    if (json_at(o, key) && !field_text_or(o, key, &text, e)) return false;
    *out = text.n ? utf8_decode(text, 0, &len) : -1;
    if (*out < 0 || len != text.n) return wrong(json_at(o, key), key, "one character", e);
    return true;
}

bool field_type(struct json_object *stage, struct sv *out, struct error *e) {
    if (!json_object_is_type(stage, json_type_object))
        return fail(e, "%.60s is not an object", json_object_to_json_string(stage));
    return field_text(stage, "type", out, e);
}
