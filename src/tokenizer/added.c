#include "tokenizer/added.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "tokenizer/fields.h"
#include "tokenizer/unicode.h"

// The reference numbers what the model doesn't know in the order of the list, whatever the file
// says.
static int32_t next_id(const struct added *a, const struct vocab *v) {
    return (int32_t)(v->n + a->unknown);
}

// The id of a token whose entry says `id`.
static bool set_id(struct added *a, const struct vocab *v, struct added_token *t, struct sv text,
                   int64_t id, bool given, struct error *e) {
    struct sv other;
    t->id = vocab_id(v, text);
    if (t->id < 0 && given) {
        t->id = (int32_t)id;
        return !vocab_token(v, t->id, &other) ||
               fail(e, "id %d of \"%.60s\" is that of \"%.*s\"", t->id, text.p,
                    other.n < 60 ? (int)other.n : 60, other.p);
    }
    if (t->id < 0) t->id = next_id(a, v), a->unknown++;
    if (t->id >= VOCAB_LIMIT) return fail(e, "\"%.60s\" is one token too many", text.p);
    if (t->id != id)
        log_say(LOG_WARN, "added token \"%.*s\" has id %lld in the list, but is %d", (int)text.n,
                text.p, (long long)id, t->id);
    return true;
}

static bool read_token(struct added *a, struct json_object *j, const struct vocab *v, bool given,
                       struct error *e) {
    struct sv text;
    int64_t id;
    struct added_token t = {0};
    if (!json_object_is_type(j, json_type_object))
        return fail(e, "%.60s is not an object", json_object_to_json_string(j));
    if (!field_text(j, "content", &text, e) || !field_int(j, "id", 0, VOCAB_LIMIT - 1, &id, e) ||
        !field_bool(j, "special", false, &t.special, e) ||
        !field_bool(j, "single_word", false, &t.single_word, e) ||
        !field_bool(j, "lstrip", false, &t.lstrip, e) ||
        !field_bool(j, "rstrip", false, &t.rstrip, e) ||
        !field_bool(j, "normalized", !t.special, &t.normalized, e))
        return false;
    // The reference passes over these two as well. A token that the model knows has the model's id.
    if (!text.n || !map_put(&a->by_text, text, (int64_t)a->n)) return true;
    if (!set_id(a, v, &t, text, id, given, e)) return false;
    str_add(&t.text, text);
    a->token = mem_grow(a->token, &a->cap, a->n + 1, sizeof *a->token);
    a->token[a->n++] = t;
    return true;
}

static int32_t child_of(const struct added_tree *t, int32_t node, unsigned char byte) {
    if (node == 0) return t->root[byte];
    int32_t k = t->node[node].child;
    while (k && t->node[k].byte != byte) k = t->node[k].next;
    return k;
}

static int32_t new_node(struct added_tree *t, unsigned char byte, int32_t next) {
    t->node = mem_grow(t->node, &t->cap, t->n + 1, sizeof *t->node);
    t->node[t->n] = (struct added_node){.next = next, .token = -1, .byte = byte};
    return (int32_t)t->n++;
}

// Of two tokens with the same text, the first keeps it.
static void plant(struct added_tree *t, struct sv text, int32_t token) {
    int32_t at = 0;
    if (!t->n) new_node(t, 0, 0);
    for (size_t i = 0; i < text.n; i++) {
        unsigned char byte = (unsigned char)text.p[i];
        int32_t k = child_of(t, at, byte);
        if (!k) {
            k = new_node(t, byte, at ? t->node[at].child : 0);
            if (at)
                t->node[at].child = k;
            else
                t->root[byte] = k;
        }
        at = k;
    }
    if (text.n && t->node[at].token < 0) t->node[at].token = token;
}

static bool plant_all(struct added *a, bool special, const struct normalizer *z, struct error *e) {
    for (size_t i = 0; i < a->n; i++) {
        struct added_token *t = &a->token[i];
        if (t->special != special) continue;
        if (t->normalized) {
            if (!norm_run(z, str_sv(&t->text), true, &t->shown, e)) return false;
        } else {
            str_add(&t->shown, str_sv(&t->text));
        }
        plant(t->normalized ? &a->normal : &a->raw, str_sv(&t->shown), (int32_t)i);
    }
    return true;
}

static int32_t id_at(const struct added *a, size_t i) { return a->token[a->by_id[i]].id; }

// Whether by_id[i] goes behind by_id[k]. Of tokens with one id, which a vocabulary with holes can
// lead to, an ordinary one is found before a special one, a later one before an earlier one.
static bool behind(const struct added *a, size_t i, size_t k) {
    int32_t x = a->by_id[i], y = a->by_id[k];
    if (id_at(a, i) != id_at(a, k)) return id_at(a, i) > id_at(a, k);
    bool special = a->token[x].special, other = a->token[y].special;
    return special == other ? x < y : special;
}

// Heap sort: the tokens nearly always come in order, and qsort takes no context.
static void sift(struct added *a, size_t i, size_t n) {
    for (size_t kid; (kid = 2 * i + 1) < n; i = kid) {
        if (kid + 1 < n && behind(a, kid + 1, kid)) kid++;
        if (!behind(a, kid, i)) return;
        int32_t swap = a->by_id[i];
        a->by_id[i] = a->by_id[kid];
        a->by_id[kid] = swap;
    }
}

static void index_ids(struct added *a) {
    a->by_id = mem_array(a->n, sizeof *a->by_id);
    for (size_t i = 0; i < a->n; i++) a->by_id[i] = (int32_t)i;
    for (size_t i = a->n / 2; i-- > 0;) sift(a, i, a->n);
    for (size_t n = a->n; n-- > 1;) {
        int32_t swap = a->by_id[0];
        a->by_id[0] = a->by_id[n];
        a->by_id[n] = swap;
        sift(a, 0, n);
    }
}

bool added_read(struct added *a, struct json_object *list, bool given, const struct vocab *v,
                const struct normalizer *z, struct error *e) {
    unicode_init();
    if (list && !json_object_is_type(list, json_type_array))
        return fail(e, "key \"added_tokens\" is not an array");
    for (size_t i = 0; list && i < json_object_array_length(list); i++)
        if (!read_token(a, json_object_array_get_idx(list, i), v, given, e))
            return fail_in(e, "added_tokens[%zu]", i);
    index_ids(a);
    return (plant_all(a, true, z, e) && plant_all(a, false, z, e)) || fail_in(e, "added_tokens");
}

void added_free(struct added *a) {
    for (size_t i = 0; i < a->n; i++) {
        str_free(&a->token[i].text);
        str_free(&a->token[i].shown);
    }
    free(a->token);
    free(a->by_id);
    free(a->raw.node);
    free(a->normal.node);
    map_free(&a->by_text);
    *a = (struct added){0};
}

const struct added_token *added_by_id(const struct added *a, int32_t id) {
    size_t low = 0, high = a->n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (id_at(a, mid) < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < a->n && id_at(a, low) == id ? &a->token[a->by_id[low]] : NULL;
}

const struct added_token *added_by_text(const struct added *a, struct sv text) {
    int64_t i = map_get(&a->by_text, text);
    return i < 0 ? NULL : &a->token[i];
}

bool added_skipped(const struct added *a, int32_t id) {
    const struct added_token *t = added_by_id(a, id);
    const struct added_token *same = t ? added_by_text(a, str_sv(&t->shown)) : NULL;
    return same && same->special;
}

// The longest token that begins at text[i], or -1; *end is behind it.
static int32_t longest(const struct added_tree *t, struct sv text, size_t i, size_t *end) {
    int32_t found = -1;
    for (int32_t at = 0; i < text.n; i++) {
        at = child_of(t, at, (unsigned char)text.p[i]);
        if (!at) break;
        if (t->node[at].token >= 0) found = t->node[at].token, *end = i + 1;
    }
    return found;
}

static bool word_touches(struct sv text, size_t from, size_t to) {
    size_t at;
    return (from > 0 && unicode_word(unicode_before(text, from, &at))) ||
           (to < text.n && unicode_word(unicode_next(text, &to)));
}

static void add_part(struct added_parts *out, size_t from, size_t to, int32_t id) {
    out->p = mem_grow(out->p, &out->cap, out->n + 1, sizeof *out->p);
    out->p[out->n++] = (struct added_part){from, to, id};
}

void added_split(const struct added *a, const struct added_tree *tree, struct sv text,
                 struct added_parts *out) {
    size_t done = 0; // where the part before ends
    for (size_t i = 0, end = 0; tree->n && i < text.n;) {
        int32_t k = longest(tree, text, i, &end);
        if (k < 0) {
            i++;
            continue;
        }
        const struct added_token *t = &a->token[k];
        size_t from = i, to = end;
        i = end;
        if (t->special && a->split_special) continue;
        if (t->single_word && word_touches(text, from, to)) continue;
        for (size_t at; t->lstrip && from > done; from = at)
            if (!unicode_space(unicode_before(text, from, &at))) break;
        if (t->lstrip && from < done) from = done; // the token before took the space and more
        for (size_t next = to; t->rstrip && to < text.n; to = next)
            if (!unicode_space(unicode_next(text, &next))) break;
        if (t->lstrip && from >= to) continue;
        if (done < from) add_part(out, done, from, -1);
        add_part(out, from, to, t->id);
        done = to;
    }
    if (done < text.n) add_part(out, done, text.n, -1);
}
