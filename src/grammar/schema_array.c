// Arrays of a JSON Schema.
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "grammar/schema.h"

// The list of schemas for single items at the beginning: prefixItems, or before 2020 a list in
// items.
static struct json_object *prefix_of(const struct place *at, const char **key) {
    struct json_object *list = json_at(at->schema, "prefixItems");
    *key = "prefixItems";
    if (list) return list;
    list = json_at(at->schema, "items");
    *key = "items";
    return json_object_is_type(list, json_type_array) ? list : NULL;
}

static bool longest_prefix(struct schema *x, const struct shape *h, size_t *out) {
    *out = 0;
    for (size_t i = 0; i < h->places->n; i++) {
        const char *key;
        struct json_object *list = prefix_of(&h->places->p[i], &key);
        if (list && !json_object_is_type(list, json_type_array))
            return schema_refuse(x, &h->places->p[i], key, "it must be a list of schemas");
        size_t n = list ? json_object_array_length(list) : 0;
        if (n > SCHEMA_MEMBERS)
            return schema_refuse(x, &h->places->p[i], key, "it has %zu schemas; it may have %d", n,
                                 SCHEMA_MEMBERS);
        if (n > *out) *out = n;
    }
    return true;
}

// The schemas of item i; those from the longest prefix on are all alike. False: an error.
static bool item_schemas(struct schema *x, const struct shape *h, size_t i, struct places *out) {
    *out = (struct places){0};
    if (!schema_cost(x, h->places->n)) return false;
    for (size_t k = 0; k < h->places->n; k++) {
        const struct place *at = &h->places->p[k];
        const char *key, *rest = "items";
        char number[32];
        struct json_object *list = prefix_of(at, &key);
        snprintf(number, sizeof number, "%zu", i);
        if (list && i < json_object_array_length(list)) {
            if (!schema_add_in(x, out, at, key, json_object_array_get_idx(list, i), sv(number)))
                return false;
            continue;
        }
        if (list && json_object_is_type(json_at(at->schema, "items"), json_type_array))
            rest = "additionalItems";
        struct json_object *schema = json_at(at->schema, rest);
        if (schema && !schema_add(x, out, schema, at->at, rest)) return false;
    }
    return true;
}

// A node for one item and the white space behind it, with the comma before it if it isn't first.
static int32_t item(struct schema *x, const struct places *p, bool first) {
    struct syntax *s = x->s;
    int32_t seq = syn_seq(s);
    if (schema_never(p)) return syn_alt(s);
    if (!first) {
        syn_add(s, seq, syn_text(s, sv(",")));
        syn_add(s, seq, syn_call(s, x->space));
    }
    syn_add(s, seq, schema_value(x, p));
    syn_add(s, seq, syn_call(s, x->space));
    return seq;
}

// The items from `at` on, all alike.
static int32_t rest(struct schema *x, const struct shape *h, size_t at) {
    struct syntax *s = x->s;
    struct places p;
    int64_t least = h->min_items - (int64_t)at, most = h->max_items - (int64_t)at;
    if (!item_schemas(x, h, at, &p)) return 0;
    if (least < 0) least = 0;
    int32_t alt = syn_alt(s);
    if (h->max_items >= 0 && (most < 0 || most < least)) return alt;
    if (!least) syn_add(s, alt, syn_seq(s));
    if (h->max_items >= 0 && most == 0) return alt;
    int32_t seq = syn_seq(s);
    syn_add(s, seq, item(x, &p, at == 0));
    syn_add(
        s, seq,
        syn_repeat(s, item(x, &p, false), least ? least - 1 : 0, h->max_items < 0 ? -1 : most - 1));
    syn_add(s, alt, seq);
    return alt;
}

static int32_t with_prefix(struct schema *x, const struct shape *h, size_t prefix) {
    struct syntax *s = x->s;
    int32_t node = rest(x, h, prefix);
    for (size_t i = prefix; i-- > 0 && !s->e->set;) {
        struct places p;
        int32_t after = syn_rule(s, sv("items")), alt = syn_alt(s), seq = syn_seq(s);
        syn_define(s, after, node);
        if ((int64_t)i >= h->min_items) syn_add(s, alt, syn_seq(s));
        if (h->max_items < 0 || (int64_t)i < h->max_items) {
            if (!item_schemas(x, h, i, &p)) return 0;
            syn_add(s, seq, item(x, &p, i == 0));
            syn_add(s, seq, syn_call(s, after));
            syn_add(s, alt, seq);
        }
        node = alt;
    }
    return node;
}

// --- items that differ ---------------------------------------------------------------------------

static int bits(unsigned set) {
    int n = 0;
    for (; set; set &= set - 1) n++;
    return n;
}

// A rule for each set of values that were there.
static int32_t different(struct schema *x, const struct shape *h, struct json_object **value,
                         size_t n) {
    struct syntax *s = x->s;
    int32_t first = (int32_t)s->rules;
    for (unsigned set = 0; set < 1u << n; set++) syn_rule(s, sv("items"));
    for (unsigned set = 0; set < 1u << n && !s->e->set; set++) {
        int32_t alt = syn_alt(s);
        if (bits(set) >= h->min_items) syn_add(s, alt, syn_seq(s));
        for (size_t i = 0; i < n; i++) {
            if (set >> i & 1 || (h->max_items >= 0 && bits(set) >= h->max_items)) continue;
            int32_t seq = syn_seq(s);
            if (set) {
                syn_add(s, seq, syn_text(s, sv(",")));
                syn_add(s, seq, syn_call(s, x->space));
            }
            syn_add(s, seq, schema_constant(x, value[i]));
            syn_add(s, seq, syn_call(s, x->space));
            syn_add(s, seq, syn_call(s, first + (int32_t)(set | 1u << i)));
            syn_add(s, alt, seq);
        }
        syn_define(s, first + (int32_t)set, alt);
    }
    return syn_call(s, first);
}

// Values of an enum may be written twice in it. Returns how many differ, of which the first
// SCHEMA_UNIQUE + 1 are enough.
static size_t each_once(struct schema *x, struct json_object **value, size_t n) {
    struct map known = {0};
    size_t kept = 0;
    for (size_t i = 0; i < n && kept <= SCHEMA_UNIQUE; i++) {
        struct str text = {0};
        schema_value_text(&text, value[i]);
        bool inside = json_object_is_type(value[i], json_type_array) ||
                      json_object_is_type(value[i], json_type_object);
        bool fresh = schema_cost(x, text.n) && map_put(&known, str_sv(&text), 0);
        if (fresh && (!inside || !kept)) value[kept++] = value[i];
        str_free(&text);
    }
    map_free(&known);
    return kept;
}

static int32_t unique(struct schema *x, const struct shape *h, size_t prefix) {
    struct places p;
    struct shape of;
    struct json_object **value = NULL;
    size_t n = 0;
    int32_t node = 0;
    if (!item_schemas(x, h, prefix, &p) || !schema_flatten(x, &p)) return 0;
    bool ok = schema_shape(x, &p, &of) && of.values && !prefix;
    if (ok) ok = schema_values(x, &of, &value, &n);
    size_t kept = ok ? each_once(x, value, n) : 0;
    if (ok && kept <= SCHEMA_UNIQUE)
        node = different(x, h, value, kept);
    else
        schema_refuse(x, h->unique, "uniqueItems",
                      "it can be held only for an enum of up to %d texts", SCHEMA_UNIQUE);
    free(value);
    shape_free(&of);
    return node;
}

int32_t schema_array(struct schema *x, const struct shape *h) {
    struct syntax *s = x->s;
    int32_t seq = syn_seq(s);
    size_t prefix;
    if (!longest_prefix(x, h, &prefix)) return 0;
    syn_add(s, seq, syn_text(s, sv("[")));
    syn_add(s, seq, syn_call(s, x->space));
    if (h->unique && (h->max_items < 0 || h->max_items > 1))
        syn_add(s, seq, unique(x, h, prefix));
    else
        syn_add(s, seq, with_prefix(x, h, prefix));
    syn_add(s, seq, syn_text(s, sv("]")));
    return seq;
}
