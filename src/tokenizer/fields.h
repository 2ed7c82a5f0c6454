// Typed members of tokenizer.json. Where the readers of base/json.h fall back to a default on any
// doubt, these accept an absent or null key only where a default is given, and refuse a wrong type
// by name: a tokenizer that is read half is a wrong tokenizer.
#ifndef TOKENIZER_FIELDS_H
#define TOKENIZER_FIELDS_H

#include "base/json.h"

// The text of a member; an error when it is absent or not a string. Lives as long as o.
bool field_text(struct json_object *o, const char *key, struct sv *out, struct error *e);
// The same, but empty when absent or null.
bool field_text_or(struct json_object *o, const char *key, struct sv *out, struct error *e);
bool field_bool(struct json_object *o, const char *key, bool otherwise, bool *out, struct error *e);
bool field_int(struct json_object *o, const char *key, int64_t low, int64_t high, int64_t *out,
               struct error *e);
// An array or object member, NULL with an error when it is absent or something else.
struct json_object *field_array(struct json_object *o, const char *key, struct error *e);
// A string of exactly one character.
bool field_char(struct json_object *o, const char *key, const char *otherwise, int32_t *out,
                struct error *e);
// The member "type", for a stage that is an object; an error when it has none.
bool field_type(struct json_object *stage, struct sv *out, struct error *e);

#endif
