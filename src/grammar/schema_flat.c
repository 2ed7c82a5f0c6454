// What a list of places says: references followed, keywords read, and what can't be held refused.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "grammar/schema.h"

// --- references ----------------------------------------------------------------------------------

// One step of a JSON pointer, with its escapes and those of a URI taken out.
static void unescape(struct sv part, struct str *out) {
    str_clear(out);
    for (size_t i = 0; i < part.n; i++) {
        int high = i + 2 < part.n ? hex_digit(part.p[i + 1]) : -1;
        int low = i + 2 < part.n ? hex_digit(part.p[i + 2]) : -1;
        if (part.p[i] == '%' && high >= 0 && low >= 0) {
            str_addc(out, (char)(high << 4 | low));
            i += 2;
        } else {
            str_addc(out, part.p[i]);
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < out->n; i++) {
        char c = out->p[i];
        if (c == '~' && i + 1 < out->n && (out->p[i + 1] == '0' || out->p[i + 1] == '1'))
            c = out->p[++i] == '0' ? '~' : '/';
        out->p[kept++] = c;
    }
    out->n = kept;
    if (out->p) out->p[kept] = 0;
}

static struct json_object *step_into(struct json_object *o, const struct str *name) {
    if (json_object_is_type(o, json_type_object)) return json_at(o, str_c(name));
    if (!json_object_is_type(o, json_type_array) || !name->n || name->n > 6) return NULL;
    size_t index = 0;
    for (size_t i = 0; i < name->n; i++) {
        if (name->p[i] < '0' || name->p[i] > '9') return NULL;
        index = index * 10 + (size_t)(name->p[i] - '0');
    }
    return index < json_object_array_length(o) ? json_object_array_get_idx(o, index) : NULL;
}

static bool follow(struct schema *x, const struct place *at, struct places *p) {
    struct sv ref = json_text_at(at->schema, "$ref");
    struct json_object *o = x->root;
    struct str name = {0}, path = {0};
    if (!schema_cost(x, ref.n)) return false;
    if (!ref.n || ref.p[0] != '#' || (ref.n > 1 && ref.p[1] != '/'))
        return schema_refuse(x, at, "$ref",
                             "\"%.*s\" leads out of this document (there may be #/...)",
                             (int)(ref.n < 80 ? ref.n : 80), ref.p);
    for (size_t i = 2; i <= ref.n && o && ref.n > 1;) {
        size_t end = i;
        while (end < ref.n && ref.p[end] != '/') end++;
        unescape(sv_cut(ref, i, end), &name);
        o = step_into(o, &name);
        i = end + 1;
    }
    str_add(&path, sv_cut(ref, 1, ref.n));
    for (const struct place *by = at; by && o; by = by->by) {
        if (by->schema != o) continue;
        schema_refuse(x, at, "$ref", "it comes back to itself without a value in between");
        break;
    }
    if (!o && !x->e->set)
        schema_refuse(x, at, "$ref", "there is nothing at \"%.*s\"", (int)(ref.n < 80 ? ref.n : 80),
                      ref.p);
    struct place *to = x->e->set ? NULL : schema_add(x, p, o, str_c(&path), "");
    if (to) schema_comes_by(x, to, at);
    str_free(&name);
    str_free(&path);
    return !x->e->set;
}

static bool add_all(struct schema *x, const struct place *at, struct places *p) {
    struct json_object *list = json_at(at->schema, "allOf");
    if (!json_object_is_type(list, json_type_array))
        return schema_refuse(x, at, "allOf", "it must be a list of schemas");
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        char number[32];
        snprintf(number, sizeof number, "%zu", i);
        struct place *to =
            schema_add_in(x, p, at, "allOf", json_object_array_get_idx(list, i), sv(number));
        if (!to) return false;
        schema_comes_by(x, to, at);
    }
    return true;
}

bool schema_flatten(struct schema *x, struct places *p) {
    struct places flat = {0};
    for (size_t i = 0; i < p->n; i++) {
        struct place *to = schema_add(x, &flat, p->p[i].schema, p->p[i].at, "");
        if (!to) return false;
        to->done |= p->p[i].done;
        to->by = p->p[i].by;
    }
    for (size_t i = 0; i < flat.n; i++) {
        struct place at = flat.p[i];
        bool ref = json_at(at.schema, "$ref") && !(at.done & DONE_REF);
        bool all = json_at(at.schema, "allOf") && !(at.done & DONE_ALL);
        flat.p[i].done |= DONE_REF | DONE_ALL;
        if (json_at(at.schema, "$ref") && x->refs_alone)
            all = false, flat.p[i].schema = x->anything;
        if (ref && !follow(x, &at, &flat)) return false;
        if (all && !add_all(x, &at, &flat)) return false;
    }
    *p = flat;
    return true;
}

// --- keywords ------------------------------------------------------------------------------------

static const char *const refused[][2] = {
    {"not", "what a value must not be can't be held"},
    {"if", "conditions can't be held (use anyOf)"},
    {"contains", "it can't be held"},
    {"minContains", "it can't be held"},
    {"maxContains", "it can't be held"},
    {"propertyNames", "it can't be held (use patternProperties)"},
    {"dependentRequired", "it can't be held"},
    {"dependentSchemas", "it can't be held"},
    {"dependencies", "it can't be held"},
    {"unevaluatedItems", "it can't be held (use items)"},
    {"unevaluatedProperties", "it can't be held (use additionalProperties)"},
    {"$dynamicRef", "it can't be held (use $ref)"},
    {"$recursiveRef", "it can't be held (use $ref)"},
};

static const struct {
    const char *name;
    unsigned bits;
} types[] = {
    {"null", TYPE_NULL},       {"boolean", TYPE_BOOLEAN},
    {"integer", TYPE_INTEGER}, {"number", TYPE_INTEGER | TYPE_FRACTION},
    {"string", TYPE_STRING},   {"array", TYPE_ARRAY},
    {"object", TYPE_OBJECT},
};

static unsigned type_bits(struct sv name) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (sv_is(name, types[i].name)) return types[i].bits;
    return 0;
}

static bool read_types(struct schema *x, const struct place *at, struct shape *h, bool *typed) {
    struct json_object *type = json_at(at->schema, "type");
    unsigned bits = type_bits(json_text(type));
    if (!type) return true;
    size_t n = json_object_is_type(type, json_type_array) ? json_object_array_length(type) : 0;
    for (size_t i = 0; i < n; i++) {
        unsigned one = type_bits(json_text(json_object_array_get_idx(type, i)));
        if (!one) return schema_refuse(x, at, "type", "it lists what is no type");
        bits |= one;
    }
    if (!bits)
        return schema_refuse(x, at, "type", "it must be the name of a type, or a list of them");
    h->types &= bits;
    *typed = true;
    return true;
}

// What a schema without a type is about, by its keywords.
static unsigned meant_types(struct json_object *o) {
    static const struct {
        const char *key;
        unsigned bits;
    } keys[] = {
        {"properties", TYPE_OBJECT},
        {"patternProperties", TYPE_OBJECT},
        {"additionalProperties", TYPE_OBJECT},
        {"required", TYPE_OBJECT},
        {"minProperties", TYPE_OBJECT},
        {"maxProperties", TYPE_OBJECT},
        {"items", TYPE_ARRAY},
        {"prefixItems", TYPE_ARRAY},
        {"minItems", TYPE_ARRAY},
        {"maxItems", TYPE_ARRAY},
        {"uniqueItems", TYPE_ARRAY},
        {"pattern", TYPE_STRING},
        {"format", TYPE_STRING},
        {"minLength", TYPE_STRING},
        {"maxLength", TYPE_STRING},
        {"minimum", TYPE_INTEGER | TYPE_FRACTION},
        {"maximum", TYPE_INTEGER | TYPE_FRACTION},
        {"exclusiveMinimum", TYPE_INTEGER | TYPE_FRACTION},
        {"exclusiveMaximum", TYPE_INTEGER | TYPE_FRACTION},
        {"multipleOf", TYPE_INTEGER | TYPE_FRACTION},
    };
    unsigned bits = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_at(o, keys[i].key)) bits |= keys[i].bits;
    return bits;
}

static bool read_count(struct schema *x, const struct place *at, const char *key, int64_t *out,
                       bool most) {
    struct json_object *v = json_at(at->schema, key);
    if (!v) return true;
    double d = json_object_get_double(v);
    bool number = json_object_is_type(v, json_type_int) || json_object_is_type(v, json_type_double);
    if (!number || d < 0 || d != floor(d))
        return schema_refuse(x, at, key, "it must be a whole number, 0 or more");
    if (d > SYN_REPEATS)
        return schema_refuse(x, at, key, "it is more than %d, the most that can be counted",
                             SYN_REPEATS);
    if (most ? *out < 0 || d < (double)*out : d > (double)*out) *out = (int64_t)d;
    return true;
}

static bool is_number(struct json_object *v) {
    return json_object_is_type(v, json_type_int) || json_object_is_type(v, json_type_double);
}

// Whether a bound is tighter than one that is there: sign -1 for the least, 1 for the most.
static bool read_bound(struct schema *x, const struct place *at, const char *key, bool exclusive,
                       int sign, struct bound *b) {
    struct json_object *v = json_at(at->schema, key);
    if (!v || (exclusive && json_object_is_type(v, json_type_boolean))) return true;
    if (!is_number(v)) return schema_refuse(x, at, key, "it must be a number");
    if (!isfinite(json_object_get_double(v)))
        return schema_refuse(x, at, key, "it must be a number that JSON can say");
    double now = b->value ? sign * json_object_get_double(b->value) : 0;
    double new = sign *json_object_get_double(v);
    if (b->value && (new > now || (new >= now && !exclusive))) return true;
    *b = (struct bound){v, exclusive};
    return true;
}

static bool is_true(struct json_object *v) {
    return json_object_is_type(v, json_type_boolean) && json_object_get_boolean(v);
}

static bool read_numbers(struct schema *x, const struct place *at, struct shape *h) {
    struct json_object *o = at->schema, *m = json_at(o, "multipleOf");
    // Draft 4 has exclusiveMinimum: true beside minimum.
    bool ok =
        read_bound(x, at, "minimum", is_true(json_at(o, "exclusiveMinimum")), -1, &h->least) &&
        read_bound(x, at, "maximum", is_true(json_at(o, "exclusiveMaximum")), 1, &h->most) &&
        read_bound(x, at, "exclusiveMinimum", true, -1, &h->least) &&
        read_bound(x, at, "exclusiveMaximum", true, 1, &h->most);
    if (!ok || !m) return ok;
    double d = is_number(m) ? json_object_get_double(m) : 0;
    if (!(d >= 1 && d <= SCHEMA_MULTIPLE) || d != floor(d))
        return schema_refuse(x, at, "multipleOf",
                             "only whole numbers from 1 to %d can be held exactly",
                             SCHEMA_MULTIPLE);
    int64_t a = h->multiple, b = (int64_t)d;
    for (int64_t t; b; a = b, b = t) t = a % b;
    h->multiple = h->multiple / a * (int64_t)d;
    if (h->multiple > SCHEMA_MULTIPLE)
        return schema_refuse(x, at, "multipleOf", "together with others it is more than %d",
                             SCHEMA_MULTIPLE);
    return true;
}

static bool add_text(struct schema *x, const struct place *at, const char *key, struct dfa *d,
                     struct shape *h) {
    struct error why = {0};
    if (!h->has_text) {
        h->text = *d;
        h->has_text = true;
        return true;
    }
    bool ok = dfa_and(&h->text, d, &why);
    dfa_free(d);
    return ok || schema_refuse(x, at, key, "%s", why.text);
}

static bool read_strings(struct schema *x, const struct place *at, struct shape *h) {
    struct json_object *pattern = json_at(at->schema, "pattern"),
                       *format = json_at(at->schema, "format");
    struct error why = {0};
    struct dfa d = {0};
    if (pattern) {
        if (!json_object_is_type(pattern, json_type_string))
            return schema_refuse(x, at, "pattern", "it must be a string");
        if (!dfa_regex(&d, x->s->effort, json_text(pattern), true, &why)) {
            dfa_free(&d);
            return schema_refuse(x, at, "pattern", "%s", why.text);
        }
        if (!add_text(x, at, "pattern", &d, h)) return false;
    }
    d = (struct dfa){0};
    if (!format || !schema_format(x, at, json_text(format), &d)) return !x->e->set;
    return add_text(x, at, "format", &d, h);
}

static bool is_annotation(struct json_object *v) {
    return is_true(v) ||
           (json_object_is_type(v, json_type_object) && !json_object_object_length(v));
}

static bool read_place(struct schema *x, const struct place *at, struct shape *h, bool *typed,
                       unsigned *meant) {
    struct json_object *o = at->schema;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct json_object *v = json_at(o, refused[i][0]);
        bool ignored = v && !strncmp(refused[i][0], "unevaluated", 11) && is_annotation(v);
        if (v && !ignored) return schema_refuse(x, at, refused[i][0], "%s", refused[i][1]);
    }
    if (*at->at && json_at(o, "$id") && json_at(o, "$ref"))
        return schema_refuse(x, at, "$id", "a $ref beside another $id can't be followed");
    if (json_object_object_get_ex(o, "enum", NULL) || json_object_object_get_ex(o, "const", NULL))
        if (!h->values) h->values = at;
    if (is_true(json_at(o, "uniqueItems"))) h->unique = at;
    *meant |= meant_types(o);
    return read_types(x, at, h, typed) && read_numbers(x, at, h) && read_strings(x, at, h) &&
           read_count(x, at, "minLength", &h->min_length, false) &&
           read_count(x, at, "maxLength", &h->max_length, true) &&
           read_count(x, at, "minItems", &h->min_items, false) &&
           read_count(x, at, "maxItems", &h->max_items, true) &&
           read_count(x, at, "minProperties", &h->min_members, false) &&
           read_count(x, at, "maxProperties", &h->max_members, true);
}

bool schema_shape(struct schema *x, const struct places *p, struct shape *h) {
    *h = (struct shape){.places = p, .types = TYPE_ANY, .multiple = 1};
    h->max_length = h->max_items = h->max_members = -1;
    bool typed = false;
    unsigned meant = 0;
    for (size_t i = 0; i < p->n; i++)
        if (json_object_is_type(p->p[i].schema, json_type_object) &&
            !read_place(x, &p->p[i], h, &typed, &meant))
            return false;
    if (!typed && meant && !h->values) h->types = meant;
    return true;
}

void shape_free(struct shape *h) {
    if (h->has_text) dfa_free(&h->text);
    h->has_text = false;
}

// --- values --------------------------------------------------------------------------------------

static bool same_value(struct json_object *a, struct json_object *b) {
    if (is_number(a) && is_number(b)) {
        if (json_object_get_type(a) == json_object_get_type(b)) return json_object_equal(a, b);
        return fabs(json_object_get_double(a) - json_object_get_double(b)) <= 0;
    }
    return json_object_equal(a, b);
}

// Steps that a comparison with a value may take.
static size_t cost_of(struct json_object *v) {
    size_t cost = 1;
    if (json_object_is_type(v, json_type_string)) return cost + json_text(v).n / 16;
    if (json_object_is_type(v, json_type_array))
        for (size_t i = 0; i < json_object_array_length(v); i++)
            cost += cost_of(json_object_array_get_idx(v, i));
    if (json_object_is_type(v, json_type_object)) {
        json_object_object_foreach(v, name, value) {
            (void)name;
            cost += 32 + cost_of(value);
        }
    }
    return cost;
}

// cost: cost_of(v).
static bool in_list(struct schema *x, const struct place *at, struct json_object *v, size_t cost) {
    struct json_object *list = NULL, *one = NULL;
    bool found = true;
    if (json_object_object_get_ex(at->schema, "const", &one)) found = same_value(one, v);
    if (!json_object_object_get_ex(at->schema, "enum", &list) || !found) return found;
    for (size_t i = 0; i < json_object_array_length(list) && schema_cost(x, cost); i++)
        if (same_value(json_object_array_get_idx(list, i), v)) return true;
    return false;
}

static unsigned type_of(struct json_object *v) {
    switch (json_object_get_type(v)) {
    case json_type_null: return TYPE_NULL;
    case json_type_boolean: return TYPE_BOOLEAN;
    case json_type_int: return TYPE_INTEGER;
    case json_type_double:
        return floor(json_object_get_double(v)) >= json_object_get_double(v) ? TYPE_INTEGER
                                                                             : TYPE_FRACTION;
    case json_type_string: return TYPE_STRING;
    case json_type_array: return TYPE_ARRAY;
    case json_type_object: return TYPE_OBJECT;
    }
    return 0;
}

// v: one of h->values' own.
static bool fits_shape(struct schema *x, const struct shape *h, struct json_object *v) {
    unsigned type = type_of(v);
    size_t cost = cost_of(v);
    if (!(h->types & type) || !schema_cost(x, cost + h->places->n)) return false;
    for (size_t i = 0; i < h->places->n; i++) {
        const struct place *at = &h->places->p[i];
        bool own = at->schema == h->values->schema && !json_at(at->schema, "const");
        if (!own && json_object_is_type(at->schema, json_type_object) && !in_list(x, at, v, cost))
            return false;
    }
    if (type & (TYPE_INTEGER | TYPE_FRACTION)) return schema_in_bounds(h, v);
    if (type != TYPE_STRING) return true;
    int64_t n = (int64_t)utf8_count(json_text(v));
    return n >= h->min_length && (h->max_length < 0 || n <= h->max_length) &&
           (!h->has_text || dfa_has(&h->text, json_text(v)));
}

// The values of an enum can be looked at, but not what is inside of them.
static bool looks_inside(struct schema *x, const struct shape *h, unsigned type) {
    for (size_t i = 0; i < h->places->n; i++) {
        const struct place *at = &h->places->p[i];
        if (json_object_is_type(at->schema, json_type_object) && (meant_types(at->schema) & type))
            return !schema_refuse(x, at, "",
                                  "objects or arrays in an enum beside keywords about what is "
                                  "inside of them can't be held");
    }
    return false;
}

bool schema_values(struct schema *x, const struct shape *h, struct json_object ***out, size_t *n) {
    struct json_object *list = NULL, *one = NULL;
    bool is_enum = json_object_object_get_ex(h->values->schema, "enum", &list);
    json_object_object_get_ex(h->values->schema, "const", &one);
    *n = 0;
    *out = NULL;
    size_t count = 1, most = SCHEMA_VALUES;
    for (size_t i = 0; i < h->places->n; i++) {
        struct json_object *other = json_at(h->places->p[i].schema, "enum");
        if (!other) continue;
        if (!json_object_is_type(other, json_type_array))
            return schema_refuse(x, &h->places->p[i], "enum", "it must be a list");
        if (is_enum && other != list) most /= 1 + json_object_array_length(other); // each with each
    }
    if (is_enum) count = json_object_array_length(list);
    if (count > most)
        return schema_refuse(x, h->values, "enum", "it has %zu values, which is too many", count);
    *out = mem_array(count, sizeof **out);
    for (size_t i = 0; i < count; i++) {
        struct json_object *v = is_enum ? json_object_array_get_idx(list, i) : one;
        if (!fits_shape(x, h, v)) continue;
        unsigned inside = type_of(v) & (TYPE_ARRAY | TYPE_OBJECT);
        if (inside && looks_inside(x, h, inside)) break;
        (*out)[(*n)++] = v;
    }
    if (!x->e->set) return true;
    free(*out);
    *out = NULL;
    return false;
}
