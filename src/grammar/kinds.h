// What kinds of values a schema says at first sight, without following references. Readers of
// values that are written without quotes go by it, and so does what writes a grammar for them.
#ifndef GRAMMAR_KINDS_H
#define GRAMMAR_KINDS_H

#include "base/json.h"

// Of values, as JSON Schema has them.
enum {
    KIND_STRING = 1,
    KIND_INTEGER = 2,
    KIND_NUMBER = 4,
    KIND_BOOLEAN = 8,
    KIND_OBJECT = 16,
    KIND_ARRAY = 32,
    KIND_NULL = 64,
};

unsigned schema_kinds(struct json_object *schema); // 0: it doesn't say
// The schema in "properties" for a member; NULL where there is none.
struct json_object *schema_member(struct json_object *schema, struct sv key);

#endif
