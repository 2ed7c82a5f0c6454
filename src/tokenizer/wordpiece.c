#include "tokenizer/wordpiece.h"

#include "tokenizer/fields.h"
#include "tokenizer/unicode.h"

static bool read_unk(struct wordpiece *w, const struct vocab *v, struct json_object *model,
                     struct sv otherwise, struct error *e) {
    struct sv unk = otherwise;
    if (json_at(model, "unk_token") && !field_text(model, "unk_token", &unk, e)) return false;
    str_add(&w->unk, unk);
    w->unk_id = vocab_id(v, unk);
    return true;
}

bool wordpiece_read(struct wordpiece *w, const struct vocab *v, struct json_object *model,
                    struct error *e) {
    struct sv prefix = sv("##"), token;
    w->most = 100;
    if (!read_unk(w, v, model, sv("[UNK]"), e) ||
        (json_at(model, "continuing_subword_prefix") &&
         !field_text(model, "continuing_subword_prefix", &prefix, e)) ||
        (json_at(model, "max_input_chars_per_word") &&
         !field_int(model, "max_input_chars_per_word", 0, INT64_MAX, &w->most, e)))
        return false;
    for (int32_t id = 0; id < (int32_t)v->size; id++)
        if (vocab_token(v, id, &token) && !trie_put(&w->trie, token, id, e)) return false;
    w->inside = w->trie.nodes ? trie_walk(&w->trie, 0, prefix) : -1;
    return true;
}

bool wordlevel_read(struct wordpiece *w, const struct vocab *v, struct json_object *model,
                    struct error *e) {
    return read_unk(w, v, model, sv("<unk>"), e);
}

void wordpiece_free(struct wordpiece *w) {
    trie_free(&w->trie);
    str_free(&w->unk);
    *w = (struct wordpiece){0};
}

static bool add_unk(const struct wordpiece *w, struct ids *out, struct error *e) {
    if (w->unk_id < 0)
        return fail(e, "model.unk_token \"%.60s\" is needed, but is not in model.vocab",
                    str_c(&w->unk));
    ids_push(out, w->unk_id);
    return true;
}

// The longest token at text[at] that begins in the tree at `node`; -1: none. *end is behind it.
static int32_t longest(const struct trie *t, int32_t node, struct sv text, size_t at, size_t *end) {
    int32_t found = -1;
    for (size_t i = at; node >= 0 && i < text.n; i++) {
        node = trie_step(t, node, (unsigned char)text.p[i]);
        if (!node) break;
        if (t->value[node] >= 0) found = t->value[node], *end = i + 1;
    }
    return found;
}

bool wordpiece_encode(const struct wordpiece *w, struct sv piece, struct ids *out,
                      struct error *e) {
    int64_t chars = 0;
    for (size_t i = 0; i < piece.n; chars++) unicode_next(piece, &i);
    size_t before = out->n;
    bool whole = chars <= w->most && w->trie.nodes;
    for (size_t at = 0, end = 0; whole && at < piece.n; at = end) {
        int32_t id = longest(&w->trie, at ? w->inside : 0, piece, at, &end);
        whole = id >= 0;
        if (whole) ids_push(out, id);
    }
    if (whole) return true;
    out->n = before;
    return add_unk(w, out, e);
}

bool wordlevel_encode(const struct wordpiece *w, const struct vocab *v, struct sv piece,
                      struct ids *out, struct error *e) {
    int32_t id = vocab_id(v, piece);
    if (id < 0) return add_unk(w, out, e);
    ids_push(out, id);
    return true;
}
