// Objects of a JSON Schema: the properties that have a name in the order of the schema, and then
// others, as far as there may be any. What a schema says of other properties only by leaving
// additionalProperties out counts as no where it lists properties.
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "grammar/kinds.h"
#include "grammar/schema.h"

struct member {
    const char *name;
    bool required;
    int32_t rule; // of the whole member, -1: it can't be there
};

struct object {
    struct schema *x;
    enum { BRACES, WORDS, TAGS } form; // {KEY:VALUE,...}, (KEY=VALUE, ...), tags
    const struct shape *h;
    struct member *member;
    size_t n, cap;
    struct map names;
    int32_t other; // a rule for any other member, -1: there are none
    bool counted;
    int32_t *rule; // [n + 1, counts] of what may come from member i on after some members
    size_t counts;
};

// --- which members -------------------------------------------------------------------------------

static bool add_name(struct object *o, const struct place *at, const char *key, const char *name,
                     bool required) {
    int64_t found = map_get(&o->names, sv(name));
    if (o->member && found >= 0) {
        o->member[found].required |= required;
        return true;
    }
    if (o->n == SCHEMA_MEMBERS)
        return schema_refuse(o->x, at, key, "an object may have %d properties", SCHEMA_MEMBERS);
    o->member = mem_grow(o->member, &o->cap, o->n + 1, sizeof *o->member);
    map_put(&o->names, sv(name), (int64_t)o->n);
    o->member[o->n++] = (struct member){.name = name, .required = required, .rule = -1};
    return true;
}

static bool add_properties(struct object *o, const struct place *at) {
    struct json_object *list = json_at(at->schema, "properties");
    if (!list) return true;
    if (!json_object_is_type(list, json_type_object))
        return schema_refuse(o->x, at, "properties", "it must be an object");
    json_object_object_foreach(list, name, value) {
        (void)value;
        if (!add_name(o, at, "properties", name, false)) return false;
    }
    return true;
}

static bool add_required(struct object *o, const struct place *at) {
    struct json_object *list = json_at(at->schema, "required");
    size_t n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
    for (size_t i = 0; i < n; i++) {
        struct json_object *name = json_object_array_get_idx(list, i);
        if (!json_object_is_type(name, json_type_string))
            return schema_refuse(o->x, at, "required", "it must be a list of names");
        if (!add_name(o, at, "required", json_object_get_string(name), true)) return false;
    }
    return true;
}

static bool add_members(struct object *o) {
    for (size_t i = 0; i < o->h->places->n; i++)
        if (!add_properties(o, &o->h->places->p[i])) return false;
    for (size_t i = 0; i < o->h->places->n; i++)
        if (!add_required(o, &o->h->places->p[i])) return false;
    return true;
}

// --- patterns ------------------------------------------------------------------------------------

struct key_pattern {
    const struct place *at;
    const char *pattern;
    struct json_object *schema;
    struct dfa keys;
};

struct key_patterns {
    struct key_pattern p[SCHEMA_PATTERNS];
    size_t n;
};

static void free_patterns(struct key_patterns *k) {
    for (size_t i = 0; i < k->n; i++) dfa_free(&k->p[i].keys);
}

static bool add_patterns(struct object *o, const struct place *at, struct key_patterns *k) {
    struct json_object *list = json_at(at->schema, "patternProperties");
    struct error why = {0};
    if (!list) return true;
    if (!json_object_is_type(list, json_type_object))
        return schema_refuse(o->x, at, "patternProperties", "it must be an object");
    json_object_object_foreach(list, pattern, schema) {
        if (k->n == SCHEMA_PATTERNS)
            return schema_refuse(o->x, at, "patternProperties",
                                 "more than %d patterns for one object can't be held",
                                 SCHEMA_PATTERNS);
        struct key_pattern *p = &k->p[k->n++];
        *p = (struct key_pattern){.at = at, .pattern = pattern, .schema = schema};
        if (!dfa_regex(&p->keys, o->x->s->effort, sv(pattern), true, &why))
            return schema_refuse(o->x, at, "patternProperties", "%s", why.text);
    }
    return true;
}

// Adds the schemas that a place has for a member: those of its name and of the patterns in `set`
// (bits), else that of all others. False: it says that there is none.
static bool add_schemas(struct object *o, const struct place *at, const char *name,
                        const struct key_patterns *k, unsigned set, struct places *out) {
    struct json_object *own = name ? json_at(json_at(at->schema, "properties"), name) : NULL;
    struct json_object *more = json_at(at->schema, "additionalProperties");
    bool found = own != NULL;
    if (own) schema_add_in(o->x, out, at, "properties", own, sv(name));
    for (size_t i = 0; i < k->n; i++) {
        if (k->p[i].at != at || !(set >> i & 1)) continue;
        schema_add_in(o->x, out, at, "patternProperties", k->p[i].schema, sv(k->p[i].pattern));
        found = true;
    }
    if (found || !more) return true;
    if (json_object_is_type(more, json_type_boolean)) return json_object_get_boolean(more);
    return schema_add(o->x, out, more, at->at, "additionalProperties") != NULL;
}

// KEY : VALUE, with white space. key: a node.
static int32_t member_rule(struct object *o, int32_t key, int32_t value, const char *name) {
    struct syntax *s = o->x->s;
    int32_t seq = syn_seq(s), rule = syn_rule(s, sv(name));
    syn_add(s, seq, key);
    syn_add(s, seq, syn_call(s, o->x->space));
    syn_add(s, seq, syn_text(s, sv(o->form == WORDS ? "=" : ":")));
    syn_add(s, seq, syn_call(s, o->x->space));
    syn_add(s, seq, value);
    syn_add(s, seq, syn_call(s, o->x->space));
    syn_define(s, rule, seq);
    return rule;
}

// key, key_again: nodes.
static int32_t tag_rule(struct object *o, int32_t key, int32_t value, int32_t key_again,
                        const char *name) {
    struct syntax *s = o->x->s;
    const struct notation *n = o->x->how;
    int32_t seq = syn_seq(s), rule = syn_rule(s, sv(name));
    syn_add(s, seq, syn_mark(s, sv(n->key_open)));
    syn_add(s, seq, key);
    if (n->quoted) syn_add(s, seq, syn_text(s, sv("\"")));
    syn_add(s, seq, value);
    syn_add(s, seq, schema_tag_end(o->x, key_again));
    syn_add(s, seq, syn_call(s, o->x->space));
    syn_define(s, rule, seq);
    return rule;
}

// The value of a member, which has one in a tag of its own where the members do. name NULL: any.
static int32_t member_value(struct object *o, const char *name, const struct places *value) {
    struct schema *x = o->x;
    if (o->form != TAGS) return schema_value(x, value);
    struct json_object *own = name ? schema_member(x->root, sv(name)) : NULL;
    x->level = LEVEL_TAG;
    x->kinds = own ? schema_kinds(own) : 0;
    int32_t node = schema_value(x, value);
    x->level = LEVEL_INSIDE;
    return node;
}

static void make_member(struct object *o, struct member *m, const struct key_patterns *k) {
    struct schema *x = o->x;
    struct places value = {0};
    struct sv name = sv(m->name);
    unsigned set = 0;
    bool may = schema_cost(x, o->h->places->n + k->n * name.n);
    for (size_t i = 0; i < k->n; i++)
        if (dfa_has(&k->p[i].keys, sv(m->name))) set |= 1u << i;
    for (size_t i = 0; i < o->h->places->n; i++)
        may = add_schemas(o, &o->h->places->p[i], m->name, k, set, &value) && may;
    if (!may || schema_never(&value) || x->e->set) return;
    int32_t node = member_value(o, m->name, &value);
    const struct place *at = o->h->places->p;
    if (o->form == TAGS)
        m->rule =
            tag_rule(o, schema_argument(x, at, name), node, schema_argument(x, at, name), m->name);
    else if (o->form == WORDS)
        m->rule = member_rule(o, schema_argument(x, at, name), node, m->name);
    else
        m->rule = member_rule(o, schema_key(x, name), node, m->name);
}

// The keys that match the patterns of a set and no others, and that are no member's name.
static bool other_keys(struct object *o, const struct key_patterns *k, unsigned set,
                       struct dfa *keys) {
    struct error *e = o->x->e;
    struct effort *f = o->x->s->effort;
    struct dfa names = {0};
    struct sv *word = mem_array(o->n, sizeof *word);
    for (size_t i = 0; i < o->n; i++) word[i] = sv(o->member[i].name);
    bool ok = dfa_length(keys, f, 0, -1, e);
    if (o->n)
        ok = ok && dfa_words(&names, f, word, o->n, e) && dfa_not(&names, e) &&
             dfa_and(keys, &names, e);
    dfa_free(&names);
    free(word);
    for (size_t i = 0; i < k->n && ok; i++) {
        struct dfa one;
        ok = dfa_regex(&one, f, sv(k->p[i].pattern), true, e);
        if (ok && !(set >> i & 1)) ok = dfa_not(&one, e);
        ok = ok && dfa_and(keys, &one, e);
        dfa_free(&one);
    }
    return ok;
}

// Whether the list leaves it open if there are members that it has no schema for.
static bool is_open(const struct places *p) {
    bool open = true;
    for (size_t i = 0; i < p->n; i++) {
        if (json_at(p->p[i].schema, "additionalProperties")) return true;
        open &=
            !json_at(p->p[i].schema, "properties") && !json_at(p->p[i].schema, "patternProperties");
    }
    return open;
}

// A node for such keys; *may: there are any.
static int32_t other_key(struct object *o, const struct key_patterns *k, unsigned set, bool *may) {
    struct schema *x = o->x;
    struct dfa keys = {0};
    bool bare = o->form != BRACES || x->how->kind == NOTATION_QUOTED;
    int32_t node = 0;
    bool ok = other_keys(o, k, set, &keys) && (!bare || schema_names(&keys, x->e));
    *may = ok && !dfa_empty(&keys);
    if (*may && bare)
        node = syn_call(x->s, dfa_rule(x->s, &keys, 0, "key"));
    else if (*may)
        node = schema_text(x, &keys);
    dfa_free(&keys);
    return node;
}

static void add_others(struct object *o, const struct key_patterns *k, unsigned set, int32_t alt) {
    struct syntax *s = o->x->s;
    struct places value = {0};
    bool may = set || is_open(o->h->places);
    for (size_t i = 0; i < o->h->places->n; i++)
        may = add_schemas(o, &o->h->places->p[i], NULL, k, set, &value) && may;
    if (!may || schema_never(&value) || o->x->e->set) return;
    bool any = o->form == BRACES && o->x->how->kind != NOTATION_QUOTED && !o->n && !k->n;
    int32_t key = any ? syn_call(s, o->x->text) : other_key(o, k, set, &may);
    if (!may) return;
    int32_t node = member_value(o, NULL, &value);
    int32_t rule = o->form == TAGS ? tag_rule(o, key, node, other_key(o, k, set, &may), "other")
                                   : member_rule(o, key, node, "other");
    syn_add(s, alt, syn_call(s, rule));
    if (o->other < 0) o->other = syn_rule(s, sv("other"));
}

static bool make_members(struct object *o) {
    struct key_patterns k = {0};
    bool ok = true;
    for (size_t i = 0; i < o->h->places->n && ok; i++)
        ok = add_patterns(o, &o->h->places->p[i], &k);
    for (size_t i = 0; i < o->n && ok && !o->x->e->set; i++) make_member(o, &o->member[i], &k);
    int32_t alt = syn_alt(o->x->s);
    for (unsigned set = 0; ok && set < 1u << k.n; set++) add_others(o, &k, set, alt);
    if (o->other >= 0) syn_define(o->x->s, o->other, alt);
    free_patterns(&k);
    return ok && !o->x->e->set;
}

// --- their order ---------------------------------------------------------------------------------

static void add_comma(struct object *o, int32_t seq, bool wanted) {
    if (!wanted || o->form == TAGS) return;
    syn_add(o->x->s, seq, syn_text(o->x->s, sv(",")));
    syn_add(o->x->s, seq, syn_call(o->x->s, o->x->space));
}

// What may come after all named members, of which there were so many.
static int32_t rest(struct object *o, int64_t count) {
    struct syntax *s = o->x->s;
    const struct shape *h = o->h;
    int64_t most = h->max_members < 0 ? -1 : h->max_members - count;
    int64_t least = o->counted && h->min_members > count ? h->min_members - count : 0;
    int32_t alt = syn_alt(s);
    if (h->max_members >= 0 && most < 0 && o->counted) return alt;
    if (!least) syn_add(s, alt, syn_seq(s));
    if (o->other < 0 || most == 0) return alt;
    if (least > 1)
        schema_refuse(o->x, h->places->p, "minProperties",
                      "it can't be held with properties that have no names, as those may be the "
                      "same twice");
    int32_t seq = syn_seq(s), more = syn_seq(s);
    add_comma(o, seq, count > 0);
    syn_add(s, seq, syn_call(s, o->other));
    add_comma(o, more, true);
    syn_add(s, more, syn_call(s, o->other));
    syn_add(s, seq, syn_repeat(s, more, 0, most < 0 ? -1 : most - 1));
    syn_add(s, alt, seq);
    return alt;
}

static int32_t rule_at(struct object *o, size_t i, size_t count) {
    return o->rule[i * o->counts + count];
}

static int32_t from_member(struct object *o, size_t i, size_t count) {
    struct syntax *s = o->x->s;
    const struct member *m = &o->member[i];
    int32_t alt = syn_alt(s);
    size_t next = o->counted || !count ? count + 1 : count;
    bool full = o->counted && o->h->max_members >= 0 && (int64_t)next > o->h->max_members;
    if (m->rule >= 0 && !full && next < o->counts) {
        int32_t seq = syn_seq(s);
        add_comma(o, seq, count > 0);
        syn_add(s, seq, syn_call(s, m->rule));
        syn_add(s, seq, syn_call(s, rule_at(o, i + 1, next)));
        syn_add(s, alt, seq);
    }
    if (!m->required) syn_add(s, alt, syn_call(s, rule_at(o, i + 1, count)));
    return alt;
}

static bool needs_count(const struct object *o) {
    size_t required = 0;
    for (size_t i = 0; i < o->n; i++) required += o->member[i].required;
    bool most = o->h->max_members >= 0 && (o->other >= 0 || (size_t)o->h->max_members < o->n);
    return most || o->h->min_members > (int64_t)required;
}

static int32_t in_order(struct object *o) {
    struct syntax *s = o->x->s;
    o->counted = needs_count(o);
    if (o->counted && o->n > SCHEMA_COUNTED)
        return schema_refuse(o->x, o->h->places->p, "",
                             "more than %d properties can't be counted (minProperties, "
                             "maxProperties)",
                             SCHEMA_COUNTED);
    o->counts = o->counted ? o->n + 1 : 2;
    o->rule = mem_array((o->n + 1) * o->counts, sizeof *o->rule);
    for (size_t i = o->n + 1; i-- > 0 && !s->e->set;) {
        for (size_t count = 0; count < o->counts && count <= i && !s->e->set; count++) {
            int32_t node = i < o->n ? from_member(o, i, count) : rest(o, (int64_t)count);
            o->rule[i * o->counts + count] = syn_rule(s, sv("members"));
            syn_define(s, rule_at(o, i, count), node);
        }
    }
    return s->e->set ? 0 : syn_call(s, o->rule[0]);
}

int32_t schema_object(struct schema *x, const struct shape *h) {
    struct object o = {.x = x, .h = h, .other = -1};
    struct syntax *s = x->s;
    enum schema_level level = x->level;
    if (level == LEVEL_ARGUMENTS && x->how->kind == NOTATION_TAGS) o.form = TAGS;
    if (level == LEVEL_ARGUMENTS && x->how->kind == NOTATION_PYTHON) o.form = WORDS;
    int32_t seq = syn_seq(s);
    x->level = LEVEL_INSIDE;
    if (add_members(&o) && make_members(&o)) {
        if (o.form != TAGS) syn_add(s, seq, syn_text(s, sv(o.form == WORDS ? "(" : "{")));
        syn_add(s, seq, syn_call(s, x->space));
        syn_add(s, seq, in_order(&o));
        if (o.form != TAGS) syn_add(s, seq, syn_text(s, sv(o.form == WORDS ? ")" : "}")));
    }
    x->level = level;
    free(o.member);
    free(o.rule);
    map_free(&o.names);
    return seq;
}
