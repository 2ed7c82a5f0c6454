// Within grammar/: a JSON Schema on its way to a grammar.
//
// A value may have to obey several schemas at once: those at the places that $ref, allOf, and a
// chosen branch of anyOf or oneOf lead to. Each list of places gets a rule, so recursion ends. What
// all places of a list say together about a value's own kind is a shape.
//
// What is written is JSON, or another notation of it (notation.h).
#ifndef GRAMMAR_SCHEMA_H
#define GRAMMAR_SCHEMA_H

#include "base/arena.h"
#include "base/json.h"
#include "base/map.h"
#include "grammar/dfa.h"
#include "grammar/notation.h"
#include "grammar/syntax.h"

enum {
    SCHEMA_DEPTH = 96,       // of lists of places within each other
    SCHEMA_WORK = 50000,     // lists of places that are looked at
    SCHEMA_VALUES = 1 << 20, // values of an enum, times those that each is compared with
    SCHEMA_PLACES = 256,     // in a list
    SCHEMA_PATTERNS = 4,     // of patternProperties, for one object
    SCHEMA_MEMBERS = 2000,   // properties of one object
    SCHEMA_COUNTED = 64,     // the same when they are counted
    SCHEMA_UNIQUE = 8,       // values of an array without repetitions
    SCHEMA_MULTIPLE = 1000,  // of multipleOf
};

// Keywords of a place that other places in its list stand for.
enum { DONE_REF = 1, DONE_ALL = 2, DONE_ANY = 4, DONE_ONE = 8 };

struct place {
    struct json_object *schema; // an object, or a boolean
    const char *at;             // JSON pointer
    int done;
    const struct place *by; // what led here without a value in between, for circles
};

struct places {
    struct place *p; // in the arena
    size_t n;
};

enum {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_INTEGER = 4,
    TYPE_FRACTION = 8, // "number" is both
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
    TYPE_ANY = 127,
};

struct bound {
    struct json_object *value; // NULL: none
    bool exclusive;
};

struct shape {
    const struct places *places;
    unsigned types;
    const struct place *values; // whose enum or const all values are of, NULL: there is none
    struct bound least, most;
    int64_t multiple;
    int64_t min_length, max_length, min_items, max_items, min_members, max_members; // max -1: none
    const struct place *unique;
    struct dfa text; // that a string must be of
    bool has_text;
};

// Where a value stands in a notation: it is all the arguments of a call; one of them, between tags;
// or within one. JSON that is no call is the last from the beginning.
enum schema_level { LEVEL_ARGUMENTS, LEVEL_TAG, LEVEL_INSIDE };

struct schema {
    struct syntax *s;
    const struct notation *how;
    enum schema_level level;
    unsigned kinds; // LEVEL_TAG: what a reader takes the value for (kinds.h)
    bool words;     // Python's words stand for JSON's
    struct json_object *root;
    struct json_object *anything; // the schema true
    struct error *e;
    struct arena arena;
    struct map rules; // by the list of places
    size_t work;
    int depth;
    bool refs_alone; // before 2019-09, what stands beside a $ref doesn't count
    int32_t space, text, character, integer, number; // rules
};

bool schema_cost(struct schema *x, size_t steps); // of work; false: it is too much

// All of these return a node of x->s, or 0 after an error.

// schema.c
int32_t schema_of_shape(struct schema *x, const struct shape *h);
int32_t schema_value(struct schema *x, const struct places *list); // a call of the list's rule
struct place *schema_add(struct schema *x, struct places *p, struct json_object *schema,
                         const char *at, const char *key);
// The same for a name that is no constant, or an index, behind the key.
struct place *schema_add_in(struct schema *x, struct places *p, const struct place *in,
                            const char *key, struct json_object *schema, struct sv name);
void schema_comes_by(struct schema *x, struct place *to, const struct place *from);
bool schema_refuse(struct schema *x, const struct place *at, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
bool schema_never(const struct places *p); // one of the schemas is false

// schema_flat.c: follows $ref and allOf. False: an error.
bool schema_flatten(struct schema *x, struct places *p);
bool schema_shape(struct schema *x, const struct places *p, struct shape *out);
void shape_free(struct shape *h);
// The values of an enum or const that the whole shape allows, for the caller to free.
bool schema_values(struct schema *x, const struct shape *h, struct json_object ***out, size_t *n);

// schema_scalar.c
int32_t schema_string(struct schema *x, const struct shape *h);
// The texts that its pattern, format and lengths leave; d is the caller's in any case.
bool schema_texts(struct schema *x, const struct shape *h, struct dfa *d);
int32_t schema_number(struct schema *x, const struct shape *h);
bool schema_in_bounds(const struct shape *h, struct json_object *number);
bool schema_format(struct schema *x, const struct place *at, struct sv name, struct dfa *out);
void schema_basics(struct schema *x); // the rules that every schema has

// schema_object.c and schema_array.c
int32_t schema_object(struct schema *x, const struct shape *h);
int32_t schema_array(struct schema *x, const struct shape *h);

// schema_notation.c: each of these is a node in the notation.
int32_t schema_text(struct schema *x, const struct dfa *d); // texts of d, quoted
int32_t schema_word(struct schema *x, const char *json, const char *python);
int32_t schema_constant(struct schema *x, struct json_object *v);
int32_t schema_key(struct schema *x, struct sv name); // of an object that is no call's arguments
// Of an argument: a name that can't be written is refused at its place.
int32_t schema_argument(struct schema *x, const struct place *at, struct sv name);
int32_t schema_tagged(struct schema *x, const struct shape *h); // all behind the key's name
int32_t schema_tag_end(struct schema *x, int32_t key);          // key: a node, its name again
bool schema_names(struct dfa *keys, struct error *e); // leaves those that need no quotes anywhere

// The JSON text of a value.
struct sv schema_json(struct json_object *v);
// Appends a text that values have which are the same, but for what is inside of lists and objects.
void schema_value_text(struct str *out, struct json_object *v);

#endif
