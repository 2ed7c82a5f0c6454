#include "grammar/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "grammar/grammar.h"

enum { KINDS_TRIED = 16 }; // properties that may tell the branches of a oneOf apart

bool schema_refuse(struct schema *x, const struct place *at, const char *key, const char *fmt,
                   ...) {
    struct error why = {0};
    va_list args;
    va_start(args, fmt);
    vfail(&why, fmt, args);
    va_end(args);
    return fail(x->e, "JSON schema, #%s%s%s: %s", at->at, *key ? "/" : "", key, why.text);
}

bool schema_cost(struct schema *x, size_t steps) { return effort_work(x->s->effort, steps, x->e); }

static bool hold(struct schema *x, size_t bytes) { return effort_hold(x->s->effort, bytes, x->e); }

static bool too_many_parts(struct schema *x, const struct place *at) {
    return schema_refuse(x, at, "", "the schema has more than %d parts", SCHEMA_WORK);
}

static const char *keep_text(struct schema *x, const struct str *s) {
    char *p = arena_alloc(&x->arena, s->n + 1);
    memcpy(p, str_c(s), s->n);
    return p;
}

static struct place *push(struct schema *x, struct places *p, struct place place) {
    if (!json_object_is_type(place.schema, json_type_object) &&
        !json_object_is_type(place.schema, json_type_boolean)) {
        schema_refuse(x, &place, "", "a schema must be an object or a boolean, not %s",
                      json_kind(place.schema));
        return NULL;
    }
    if (!schema_cost(x, 1 + p->n)) return NULL;
    for (size_t i = 0; i < p->n; i++)
        if (p->p[i].schema == place.schema) return &p->p[i];
    if (p->n == SCHEMA_PLACES) {
        schema_refuse(x, &place, "", "more than %d schemas apply here at once", SCHEMA_PLACES);
        return NULL;
    }
    if (!hold(x, sizeof place)) return NULL;
    if ((p->n & (p->n - 1)) == 0) { // grows at powers of two
        struct place *bigger = arena_alloc(&x->arena, (p->n ? 2 * p->n : 1) * sizeof *bigger);
        if (p->n) memcpy(bigger, p->p, p->n * sizeof *bigger);
        p->p = bigger;
    }
    p->p[p->n++] = place;
    return &p->p[p->n - 1];
}

struct place *schema_add(struct schema *x, struct places *p, struct json_object *schema,
                         const char *at, const char *key) {
    struct str path = {0};
    size_t n = strlen(at) + strlen(key);
    if (!schema_cost(x, n) || !hold(x, n)) return NULL;
    str_printf(&path, "%s%s%s", at, *key ? "/" : "", key);
    struct place place = {.schema = schema, .at = keep_text(x, &path)};
    str_free(&path);
    return push(x, p, place);
}

struct place *schema_add_in(struct schema *x, struct places *p, const struct place *in,
                            const char *key, struct json_object *schema, struct sv name) {
    struct str path = {0};
    str_puts(&path, key);
    str_addc(&path, '/');
    for (size_t i = 0; i < name.n; i++) {
        if (name.p[i] == '~')
            str_puts(&path, "~0");
        else if (name.p[i] == '/')
            str_puts(&path, "~1");
        else
            str_addc(&path, name.p[i]);
    }
    struct place *made = schema_add(x, p, schema, in->at, str_c(&path));
    str_free(&path);
    return made;
}

void schema_comes_by(struct schema *x, struct place *to, const struct place *from) {
    if (to->by || to->schema == from->schema) return;
    struct place *by = arena_alloc(&x->arena, sizeof *by);
    *by = *from;
    to->by = by;
}

bool schema_never(const struct places *p) {
    for (size_t i = 0; i < p->n; i++)
        if (json_object_is_type(p->p[i].schema, json_type_boolean) &&
            !json_object_get_boolean(p->p[i].schema))
            return true;
    return false;
}

// --- choices -------------------------------------------------------------------------------------

// The first place of the list with branches that none is chosen of yet.
static struct place *find_choice(const struct places *p, const char **key, int *bit) {
    for (size_t i = 0; i < p->n; i++) {
        struct place *at = &p->p[i];
        *key = "anyOf";
        *bit = DONE_ANY;
        if (!(at->done & DONE_ANY) && json_at(at->schema, "anyOf")) return at;
        *key = "oneOf";
        *bit = DONE_ONE;
        if (!(at->done & DONE_ONE) && json_at(at->schema, "oneOf")) return at;
    }
    return NULL;
}

// The list with branch i of a choice in place of the choice.
static bool branch(struct schema *x, const struct places *p, const struct place *at,
                   const char *key, int bit, size_t i, struct places *out) {
    char number[32];
    struct json_object *list = json_at(at->schema, key);
    snprintf(number, sizeof number, "%zu", i);
    *out = (struct places){0};
    for (size_t k = 0; k < p->n; k++) {
        struct place *copy = push(x, out, p->p[k]);
        if (!copy) return false;
        if (p->p[k].schema == at->schema) copy->done |= bit;
    }
    struct place *way =
        schema_add_in(x, out, at, key, json_object_array_get_idx(list, i), sv(number));
    if (way) schema_comes_by(x, way, at);
    return way != NULL;
}

// Whether what is written for one of the lists never obeys another one, as far as that is easy to
// see; refused if not.
static bool all_apart(struct schema *x, const struct place *at, const struct places *list,
                      size_t n);

static int32_t choose(struct schema *x, const struct places *p, const struct place *at,
                      const char *key, int bit) {
    struct json_object *list = json_at(at->schema, key);
    size_t n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
    if (!n) return schema_refuse(x, at, key, "it must be a list of schemas");
    if (n > SYN_RULES) return schema_refuse(x, at, key, "it has %zu branches", n);
    struct places *way = arena_alloc(&x->arena, n * sizeof *way);
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) ok = branch(x, p, at, key, bit, i, &way[i]);
    if (!ok || (bit == DONE_ONE && !all_apart(x, at, way, n))) return 0;
    int32_t alt = syn_alt(x->s);
    for (size_t i = 0; i < n && !x->e->set; i++) syn_add(x->s, alt, schema_value(x, &way[i]));
    return alt;
}

// --- values --------------------------------------------------------------------------------------

struct sv schema_json(struct json_object *v) {
    return v ? sv(json_object_to_json_string_ext(v, JSON_C_TO_STRING_PLAIN |
                                                        JSON_C_TO_STRING_NOSLASHESCAPE))
             : sv("null");
}

void schema_value_text(struct str *out, struct json_object *v) {
    if (json_object_is_type(v, json_type_int) || json_object_is_type(v, json_type_double))
        str_printf(out, "%.17g", json_object_get_double(v));
    else
        str_add(out, schema_json(v));
}

static int32_t one_of_values(struct schema *x, const struct shape *h) {
    struct json_object **value;
    size_t n;
    int32_t alt = syn_alt(x->s);
    if (!schema_values(x, h, &value, &n)) return 0;
    for (size_t i = 0; i < n && !x->e->set; i++) syn_add(x->s, alt, schema_constant(x, value[i]));
    free(value);
    return alt;
}

static int32_t arguments(struct schema *x, const struct shape *h) {
    if (h->values)
        return schema_refuse(x, h->values, "",
                             "an enum of whole arguments can't be written in calls");
    return h->types & TYPE_OBJECT ? schema_object(x, h) : syn_alt(x->s);
}

int32_t schema_of_shape(struct schema *x, const struct shape *h) {
    if (x->level == LEVEL_ARGUMENTS) return arguments(x, h);
    if (x->level == LEVEL_TAG) return schema_tagged(x, h);
    if (h->values) return one_of_values(x, h);
    struct syntax *s = x->s;
    int32_t alt = syn_alt(s);
    if (h->types & TYPE_OBJECT) syn_add(s, alt, schema_object(x, h));
    if (h->types & TYPE_ARRAY) syn_add(s, alt, schema_array(x, h));
    if (h->types & TYPE_STRING) syn_add(s, alt, schema_string(x, h));
    if (h->types & (TYPE_INTEGER | TYPE_FRACTION)) syn_add(s, alt, schema_number(x, h));
    if (h->types & TYPE_BOOLEAN) syn_add(s, alt, schema_word(x, "true", "True"));
    if (h->types & TYPE_BOOLEAN) syn_add(s, alt, schema_word(x, "false", "False"));
    if (h->types & TYPE_NULL) syn_add(s, alt, schema_word(x, "null", "None"));
    return alt;
}

static int32_t value_node(struct schema *x, struct places *p) {
    const char *key;
    int bit;
    if (!schema_flatten(x, p)) return 0;
    if (schema_never(p)) return syn_alt(x->s);
    struct place *at = find_choice(p, &key, &bit);
    if (at) return choose(x, p, at, key, bit);
    struct shape h;
    int32_t node = schema_shape(x, p, &h) ? schema_of_shape(x, &h) : 0;
    shape_free(&h);
    return node;
}

int32_t schema_value(struct schema *x, const struct places *list) {
    static const struct place top = {.at = ""};
    struct places p = {0};
    struct str key = {0};
    str_printf(&key, "%d %u ", x->level, x->level == LEVEL_TAG ? x->kinds : 0);
    for (size_t i = 0; i < list->n; i++) {
        if (!push(x, &p, list->p[i])) break;
        str_printf(&key, "%s %d ", list->p[i].at, list->p[i].done);
    }
    schema_cost(x, key.n);
    int64_t rule = map_get(&x->rules, str_sv(&key));
    const struct place *at = p.n ? &p.p[p.n - 1] : &top;
    if (rule < 0 && !x->e->set && hold(x, key.n)) {
        rule = syn_rule(x->s, sv_n(at->at, strlen(at->at)));
        map_put(&x->rules, str_sv(&key), rule);
        x->work += 1 + list->n / 2; // a long list is as much as many
        if (x->work > SCHEMA_WORK) too_many_parts(x, at);
        if (++x->depth > SCHEMA_DEPTH)
            schema_refuse(x, at, "", "the schema is nested deeper than %d", SCHEMA_DEPTH);
        int32_t node = x->e->set ? 0 : value_node(x, &p);
        syn_define(x->s, (int32_t)rule, node);
        x->depth--;
    }
    str_free(&key);
    return x->e->set ? 0 : syn_call(x->s, (int32_t)rule);
}

// --- what is apart -------------------------------------------------------------------------------

static bool add_value(struct map *known, struct sv text, int64_t number) {
    return map_put(known, text, number) || map_get(known, text) == number;
}

// Adds the values of a shape to those that are known, by their text, with a number; false when one
// of them is known by another, or there are too many to tell.
static bool add_values(struct schema *x, const struct shape *h, struct map *known, int64_t number) {
    struct json_object **value = NULL;
    size_t n;
    if (!h->values && !(h->types & ~(unsigned)(TYPE_NULL | TYPE_BOOLEAN)))
        return (!(h->types & TYPE_NULL) || add_value(known, sv("null"), number)) &&
               (!(h->types & TYPE_BOOLEAN) ||
                (add_value(known, sv("true"), number) && add_value(known, sv("false"), number)));
    bool ok = h->values && schema_values(x, h, &value, &n);
    for (size_t i = 0; ok && i < n; i++) {
        struct str text = {0};
        schema_value_text(&text, value[i]);
        ok = schema_cost(x, text.n) && add_value(known, str_sv(&text), number);
        str_free(&text);
    }
    free(value);
    return ok;
}

static bool values_apart(struct schema *x, const struct shape *a, const struct shape *b) {
    struct map known = {0};
    bool ok = add_values(x, a, &known, 0) && add_values(x, b, &known, 1);
    map_free(&known);
    return ok;
}

static bool requires(struct schema *x, const struct places *p, struct sv name) {
    for (size_t i = 0; i < p->n; i++) {
        struct json_object *list = json_at(p->p[i].schema, "required");
        if (!json_object_is_type(list, json_type_array)) continue;
        if (!schema_cost(x, json_object_array_length(list))) return false;
        for (size_t k = 0; k < json_object_array_length(list); k++)
            if (sv_eq(json_text(json_object_array_get_idx(list, k)), name)) return true;
    }
    return false;
}

// The schemas of a property in "properties". False: none has one.
static bool property(struct schema *x, const struct places *p, const char *name,
                     struct places *out) {
    *out = (struct places){0};
    for (size_t i = 0; i < p->n; i++) {
        struct json_object *schema = json_at(json_at(p->p[i].schema, "properties"), name);
        if (schema) schema_add_in(x, out, &p->p[i], "properties", schema, sv(name));
    }
    return out->n > 0;
}

// Objects of list a always have a property that objects of b never have. In what is written, those
// are also objects that say nothing of additionalProperties.
static bool never_has(const struct places *b, const char *name, bool written) {
    bool closed = false;
    for (size_t i = 0; i < b->n; i++) {
        struct json_object *o = b->p[i].schema, *more = json_at(o, "additionalProperties");
        bool no = json_object_is_type(more, json_type_boolean) && !json_object_get_boolean(more);
        if (json_at(json_at(o, "properties"), name) || json_at(o, "patternProperties"))
            return false;
        if (more && !no) return false;
        closed |= no || (written && json_at(o, "properties"));
    }
    return closed;
}

static bool lists_apart(struct schema *x, const struct places *a, const struct places *b);

static bool members_apart(struct schema *x, const struct places *a, const struct places *b,
                          bool *written) {
    for (size_t i = 0; i < a->n; i++) {
        struct json_object *list = json_at(a->p[i].schema, "required");
        if (!json_object_is_type(list, json_type_array)) continue;
        for (size_t k = 0; k < json_object_array_length(list); k++) {
            struct json_object *item = json_object_array_get_idx(list, k);
            struct places u, v;
            if (!json_object_is_type(item, json_type_string)) continue;
            const char *name = json_object_get_string(item);
            bool too = requires(x, b, sv(name));
            if (!too && never_has(b, name, false)) return true;
            *written |= !too && never_has(b, name, true);
            if (too && property(x, a, name, &u) && property(x, b, name, &v) &&
                lists_apart(x, &u, &v))
                return true;
        }
    }
    return false;
}

// Each direction needs one reason: b's values written never obey a, and a's never b.
static bool objects_apart(struct schema *x, const struct places *a, const struct places *b) {
    bool of_b = false, of_a = false;
    return members_apart(x, a, b, &of_b) || members_apart(x, b, a, &of_a) || (of_a && of_b);
}

static bool lists_apart(struct schema *x, const struct places *a, const struct places *b) {
    struct places u = *a, v = *b;
    struct shape p, q;
    if (x->depth > SCHEMA_DEPTH || ++x->work > SCHEMA_WORK) return false;
    x->depth++;
    if (!schema_flatten(x, &u) || !schema_flatten(x, &v)) return false;
    bool ok = schema_shape(x, &u, &p);
    ok = schema_shape(x, &v, &q) && ok;
    unsigned both = ok ? p.types & q.types : TYPE_ANY;
    bool apart = ok && (!both || schema_never(&u) || schema_never(&v));
    if (ok && !apart && p.values && q.values) apart = values_apart(x, &p, &q);
    if (ok && !apart && both == TYPE_OBJECT && !p.values && !q.values)
        apart = objects_apart(x, &u, &v);
    if (ok && !apart && both == TYPE_STRING && p.has_text && q.has_text)
        apart = dfa_and(&p.text, &q.text, x->e) && dfa_empty(&p.text);
    shape_free(&p);
    shape_free(&q);
    x->depth--;
    return apart;
}

// Whether each list is of values alone, and none of them is another one's.
static bool all_values(struct schema *x, const struct places *list, size_t n) {
    struct map known = {0};
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) {
        struct places flat = list[i];
        struct shape h = {0};
        x->work++;
        ok = schema_flatten(x, &flat) && schema_shape(x, &flat, &h) &&
             add_values(x, &h, &known, (int64_t)i);
        shape_free(&h);
    }
    map_free(&known);
    return ok;
}

// Whether all have a property, as a "kind", and its values differ. own: room for [n].
static bool tells_apart(struct schema *x, const struct places *list, size_t n,
                        struct json_object *name, struct places *own) {
    if (!json_object_is_type(name, json_type_string)) return false;
    for (size_t i = 0; i < n; i++)
        if (!requires(x, &list[i], json_text(name)) ||
            !property(x, &list[i], json_object_get_string(name), &own[i]))
            return false;
    return all_values(x, own, n);
}

static bool all_kinds(struct schema *x, const struct places *list, size_t n) {
    struct places *flat = arena_alloc(&x->arena, 2 * n * sizeof *flat), *own = flat + n;
    for (size_t i = 0; i < n; i++) {
        struct shape h = {0};
        flat[i] = list[i];
        bool ok = schema_flatten(x, &flat[i]) && schema_shape(x, &flat[i], &h);
        shape_free(&h);
        if (!ok || h.types != TYPE_OBJECT || h.values) return false;
    }
    for (size_t i = 0; i < flat[0].n; i++) {
        struct json_object *names = json_at(flat[0].p[i].schema, "required");
        if (!json_object_is_type(names, json_type_array)) continue;
        for (size_t k = 0; k < json_object_array_length(names) && k < KINDS_TRIED; k++)
            if (tells_apart(x, flat, n, json_object_array_get_idx(names, k), own)) return true;
    }
    return false;
}

static bool all_apart(struct schema *x, const struct place *at, const struct places *list,
                      size_t n) {
    if (all_values(x, list, n) || all_kinds(x, list, n)) return true;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = i + 1; k < n && !x->e->set; k++) {
            if (lists_apart(x, &list[i], &list[k]) || x->e->set) continue;
            if (x->work > SCHEMA_WORK) return too_many_parts(x, at);
            return schema_refuse(x, at, "oneOf",
                                 "a value may obey both of the branches %zu and %zu, which "
                                 "can't be held (use anyOf, or a property with a const)",
                                 i, k);
        }
    }
    return !x->e->set;
}

// --- the whole -----------------------------------------------------------------------------------

static bool old_draft(struct json_object *schema) {
    struct sv name = json_text_at(schema, "$schema");
    return sv_find(name, sv("draft-03"), 0) >= 0 || sv_find(name, sv("draft-04"), 0) >= 0 ||
           sv_find(name, sv("draft-06"), 0) >= 0 || sv_find(name, sv("draft-07"), 0) >= 0;
}

static int32_t read_as(struct syntax *s, struct json_object *schema, const struct notation *n,
                       enum schema_level level) {
    struct schema x = {.s = s,
                       .root = schema,
                       .how = n,
                       .level = level,
                       .e = s->e,
                       .refs_alone = old_draft(schema)};
    struct places p = {0};
    int32_t root = syn_rule(s, sv("root"));
    x.anything = json_object_new_boolean(true);
    schema_basics(&x);
    if (schema_add(&x, &p, schema, "", "")) syn_define(s, root, schema_value(&x, &p));
    json_object_put(x.anything);
    map_free(&x.rules);
    arena_free(&x.arena);
    return root;
}

int32_t schema_read(struct syntax *s, struct json_object *schema) {
    static const struct notation json = {.kind = NOTATION_JSON};
    return read_as(s, schema, &json, LEVEL_INSIDE);
}

int32_t notation_arguments(struct syntax *s, struct json_object *schema, const struct notation *n) {
    return read_as(s, schema, n, LEVEL_ARGUMENTS);
}
