// JSON documents through json-c: integers stay exact, strings may hold NULs. The readers below
// never convert between types behind the caller's back.
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <json-c/json.h>

#include "base/error.h"
#include "base/str.h"

enum { JSON_DEPTH = 128, JSON_VALUES = 8 << 20 };

// Parses a whole text of at most JSON_VALUES values (NaN and Infinity pass, as Python writes them),
// which may not be just "null". `what` names the source in errors. The caller owns the document
// (json_object_put).
struct json_object *json_read(struct sv text, const char *what, struct error *e);
// As json_read, but what JSON itself has not, as comments, other quotes or NaN, is an error: for
// what programs send.
struct json_object *json_read_strict(struct sv text, const char *what, struct error *e);
struct json_object *json_read_file(const char *path, size_t limit, struct error *e);

// Members; NULL or the default when the key is absent, null, or of another type.
struct json_object *json_at(struct json_object *o, const char *key);
struct sv json_text(struct json_object *o);                     // empty unless a string
struct sv json_text_at(struct json_object *o, const char *key); // empty unless a string
bool json_bool_at(struct json_object *o, const char *key, bool otherwise);
int64_t json_int_at(struct json_object *o, const char *key, int64_t otherwise);
double json_number_at(struct json_object *o, const char *key, double otherwise);

// Gives `to` the members of `from` (shared, in place of its own of the same names); from may be
// NULL or no object, which has none.
void json_add_members(struct json_object *to, struct json_object *from);

// The bytes of memory that parsing a text takes, at most: up to 300 times those of the text. JSON
// in its strings counts too, for who parses that.
size_t json_cost(struct sv text);

// What a value is, for errors: "a string", "an object", "null", ...
const char *json_kind(struct json_object *o);

void json_quote(struct str *out, struct sv text); // with the quotes; invalid UTF-8 becomes U+FFFD
void json_member(struct str *out, const char *name, struct sv text); // "name":"text"

#endif
