#include "grammar/kinds.h"

static unsigned kind_named(struct sv name) {
    static const struct {
        const char *name;
        unsigned kind;
    } known[] = {
        {"string", KIND_STRING},   {"integer", KIND_INTEGER}, {"number", KIND_NUMBER},
        {"boolean", KIND_BOOLEAN}, {"object", KIND_OBJECT},   {"array", KIND_ARRAY},
        {"null", KIND_NULL},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (sv_is(name, known[i].name)) return known[i].kind;
    return 0;
}

static unsigned kind_of(struct json_object *v) {
    switch (json_object_get_type(v)) {
    case json_type_null: return KIND_NULL;
    case json_type_boolean: return KIND_BOOLEAN;
    case json_type_int: return KIND_INTEGER;
    case json_type_double: return KIND_NUMBER;
    case json_type_string: return KIND_STRING;
    case json_type_object: return KIND_OBJECT;
    case json_type_array: return KIND_ARRAY;
    }
    return 0;
}

static unsigned kinds_within(struct json_object *schema, int depth);

// The kinds of all schemas in a list. open: one that doesn't say may be of any ("anyOf").
static unsigned list_kinds(struct json_object *list, bool open, int depth) {
    unsigned kinds = 0;
    if (!json_object_is_type(list, json_type_array)) return 0;
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        unsigned one = kinds_within(json_object_array_get_idx(list, i), depth);
        if (open && !one) return 0;
        kinds |= one;
    }
    return kinds;
}

static unsigned kinds_within(struct json_object *schema, int depth) {
    struct json_object *type = json_at(schema, "type"), *values = json_at(schema, "enum"), *one;
    unsigned kinds = 0;
    if (depth == 0 || !json_object_is_type(schema, json_type_object)) return 0;
    if (json_object_is_type(type, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(type); i++)
            kinds |= kind_named(json_text(json_object_array_get_idx(type, i)));
    } else {
        kinds = kind_named(json_text(type));
    }
    if (!kinds && json_object_is_type(values, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(values); i++)
            kinds |= kind_of(json_object_array_get_idx(values, i));
    }
    if (!kinds && json_object_object_get_ex(schema, "const", &one)) kinds = kind_of(one);
    if (!kinds) kinds = list_kinds(json_at(schema, "anyOf"), true, depth - 1);
    if (!kinds) kinds = list_kinds(json_at(schema, "oneOf"), true, depth - 1);
    if (!kinds) kinds = list_kinds(json_at(schema, "allOf"), false, depth - 1);
    if (kinds && json_bool_at(schema, "nullable", false)) kinds |= KIND_NULL;
    return kinds;
}

unsigned schema_kinds(struct json_object *schema) { return kinds_within(schema, 8); }

struct json_object *schema_member(struct json_object *schema, struct sv key) {
    struct json_object *members = json_at(schema, "properties");
    if (!json_object_is_type(members, json_type_object)) return NULL;
    json_object_object_foreach(members, name, v) {
        if (sv_is(key, name)) return v;
    }
    return NULL;
}
