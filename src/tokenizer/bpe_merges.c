// Reading the merges of tokenizer.json. A long list looks up a million tokens, each somewhere else
// in memory; so merges are taken in batches, and memory is fetched for all before the first waits.
#include "base/jread.h"
#include "tokenizer/bpe.h"

enum { BATCH = 64 };

struct side {
    size_t at, n; // in the batch's text
    uint32_t hash;
    int32_t id;
};

struct batch {
    struct side side[2 * BATCH];
    struct str text, joint; // joint: what one merge makes
    size_t n;               // merges
    int32_t rank;           // of the first
    int32_t guess;          // the id that the next result is likely to have: saves looking it up
};

static void add_side(struct batch *w, const struct vocab *v, size_t k, struct sv token) {
    uint32_t hash = vocab_hash(token);
    w->side[2 * w->n + k] = (struct side){w->text.n, token.n, hash, -1};
    str_add(&w->text, token);
    vocab_fetch(v, hash);
}

// A merge is "left right" or ["left", "right"]; its first token is read.
static bool read_merge(struct batch *w, const struct vocab *v, struct jread *j, enum jtoken t,
                       struct error *e) {
    if (t == J_STRING) {
        struct sv line = j->text;
        ptrdiff_t space = sv_find(line, sv(" "), 0);
        if (space < 0 || sv_find(line, sv(" "), (size_t)space + 1) >= 0)
            return fail(e, "\"%.*s\" is not two tokens", line.n < 60 ? (int)line.n : 60, line.p);
        add_side(w, v, 0, sv_cut(line, 0, (size_t)space));
        add_side(w, v, 1, sv_cut(line, (size_t)space + 1, line.n));
        return true;
    }
    for (size_t k = 0; t == J_ARRAY && k < 2; k++) {
        if (jread_next(j) != J_STRING) return fail(e, "it is not two tokens");
        add_side(w, v, k, j->text);
    }
    return (t == J_ARRAY && jread_next(j) == J_ARRAY_END) || fail(e, "it is not two tokens");
}

static struct sv text_of(const struct batch *w, const struct side *s) {
    return sv_cut(str_sv(&w->text), s->at, s->at + s->n);
}

static bool find_sides(struct batch *w, const struct vocab *v, struct error *e) {
    for (size_t i = 0; i < 2 * w->n; i++) vocab_fetch_text(v, w->side[i].hash);
    for (size_t i = 0; i < 2 * w->n; i++) {
        struct side *s = &w->side[i];
        struct sv token = text_of(w, s);
        s->id = vocab_find(v, token, s->hash);
        if (s->id >= 0) continue;
        fail(e, "token \"%.*s\" is not in model.vocab", token.n < 60 ? (int)token.n : 60, token.p);
        return fail_in(e, "merges[%d]", w->rank + (int)(i / 2));
    }
    return true;
}

// The id of what a merge makes, -1: it isn't in the vocabulary.
static int32_t find_joint(struct batch *w, const struct bpe *b, const struct vocab *v, size_t i) {
    struct sv likely, right = text_of(w, &w->side[2 * i + 1]);
    str_clear(&w->joint);
    str_add(&w->joint, text_of(w, &w->side[2 * i]));
    str_add(&w->joint, sv_cut(right, b->prefix.n, right.n));
    if (vocab_token(v, w->guess, &likely) && sv_eq(likely, str_sv(&w->joint))) return w->guess;
    return vocab_id(v, str_sv(&w->joint));
}

// Adds the merges of the batch and empties it.
static bool settle(struct batch *w, struct bpe *b, const struct vocab *v, struct error *e) {
    if (!find_sides(w, v, e)) return false;
    for (size_t i = 0; i < w->n; i++) bpe_merge_fetch(b, w->side[2 * i].id, w->side[2 * i + 1].id);
    for (size_t i = 0; i < w->n; i++) {
        int32_t id = find_joint(w, b, v, i), rank = w->rank + (int32_t)i;
        if (id < 0)
            return fail(e, "merges[%d]: its result \"%.60s\" is not in model.vocab", rank,
                        str_c(&w->joint));
        w->guess = id + 1;
        bpe_merge_put(b, (struct bpe_merge){w->side[2 * i].id, w->side[2 * i + 1].id, rank, id});
    }
    w->rank += (int32_t)w->n;
    w->n = 0;
    str_clear(&w->text);
    return true;
}

bool bpe_read_merges(struct bpe *b, const struct vocab *v, struct sv list, struct error *e) {
    if (!list.n) return fail(e, "key \"merges\" is missing (an array is needed)");
    struct jread j;
    struct batch w = {0};
    bpe_reserve(b, list.n / 40); // a merge of a long list takes 20 to 40 bytes
    jread_open(&j, list, "merges", e);
    enum jtoken t = jread_next(&j);
    bool ok = t == J_ARRAY || fail(e, "key \"merges\" is %s, not an array", jtoken_name(t));
    while (ok && (t = jread_next(&j)) != J_ARRAY_END) {
        bool first = w.rank == 0 && w.n == 0;
        if (first && t == J_STRING && sv_starts(j.text, sv("#version"))) {
            w.rank = 1;
            continue;
        }
        ok = read_merge(&w, v, &j, t, e) || fail_in(e, "merges[%d]", w.rank + (int)w.n);
        if (ok && ++w.n == BATCH) ok = settle(&w, b, v, e);
        if (w.rank > INT32_MAX - 2 * BATCH) ok = fail(e, "too many merges");
    }
    ok = ok && settle(&w, b, v, e);
    jread_close(&j);
    str_free(&w.text);
    str_free(&w.joint);
    return ok;
}
