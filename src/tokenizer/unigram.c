#include "tokenizer/unigram.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/jread.h"
#include "base/mem.h"
#include "tokenizer/fields.h"
#include "tokenizer/unicode.h"

static const double unk_penalty = 10; // below the least score

struct unigram_node { // the best way to what ends here
    double score;
    int32_t id;
    int32_t from; // -1: no way
};

// The score as C writes numbers, whatever the program's locale.
static bool read_score(struct jread *j, locale_t c, double *score) {
    enum jtoken t = jread_next(j);
    if (t == J_INT) return *score = (double)j->i, true;
    char text[64]; // more digits change nothing
    if (t != J_NUMBER || j->text.n >= sizeof text) return false;
    memcpy(text, j->text.p, j->text.n);
    text[j->text.n] = 0;
    *score = strtod_l(text, NULL, c);
    return true;
}

// ["token", score]
static bool read_token(struct unigram *u, struct vocab *v, struct jread *j, locale_t c,
                       struct error *e) {
    double score;
    size_t id = v->size;
    if (jread_next(j) != J_STRING) return fail(e, "it is not a token and its score");
    if (!vocab_append(v, j->text, e) || !trie_put(&u->trie, j->text, (int32_t)id, e)) return false;
    if (!read_score(j, c, &score) || jread_next(j) != J_ARRAY_END)
        return fail(e, "it is not a token and its score");
    u->score = mem_grow(u->score, &u->cap, id + 1, sizeof *u->score);
    u->score[id] = score;
    if (id == 0 || score < u->unk_score) u->unk_score = score;
    return true;
}

static bool read_list(struct unigram *u, struct vocab *v, struct sv list, struct error *e) {
    struct jread j;
    locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    jread_open(&j, list, "vocab", e);
    enum jtoken t = jread_next(&j);
    bool ok = t == J_ARRAY || fail(e, "key \"vocab\" is %s, not a list", jtoken_name(t));
    while (ok && (t = jread_next(&j)) == J_ARRAY)
        ok = read_token(u, v, &j, c, e) || fail_in(e, "vocab[%zu]", v->size);
    if (ok && t != J_ARRAY_END) ok = fail(e, "vocab[%zu] is not a token and its score", v->size);
    jread_close(&j);
    freelocale(c);
    u->unk_score -= unk_penalty;
    return ok;
}

bool unigram_read(struct unigram *u, struct vocab *v, struct json_object *model, struct sv list,
                  struct error *e) {
    int64_t unk = -1;
    if (!field_bool(model, "byte_fallback", false, &u->byte_fallback, e) ||
        !read_list(u, v, list, e) ||
        (json_at(model, "unk_id") && !field_int(model, "unk_id", 0, (int64_t)v->size - 1, &unk, e)))
        return false;
    u->unk = (int32_t)unk;
    vocab_bytes(v, u->byte);
    return true;
}

bool unigram_of_spm(struct unigram *u, const struct spm *s, const struct vocab *v,
                    struct error *e) {
    bool any = false;
    *u = (struct unigram){.piece = s->piece, .unk = s->unk, .byte_fallback = s->byte_fallback};
    u->score = mem_array(v->size, sizeof *u->score);
    for (size_t id = 0; id < v->size; id++) {
        enum spm_kind kind = s->piece[id].kind;
        double score = u->score[id] = (double)s->piece[id].score;
        struct sv text;
        if ((kind != SPM_NORMAL && kind != SPM_USER) || !vocab_token(v, (int32_t)id, &text))
            continue;
        if (!trie_put(&u->trie, text, (int32_t)id, e)) return false;
        if (kind != SPM_NORMAL) continue;
        if (!any || score < u->unk_score) u->unk_score = score;
        if (!any || score > u->most) u->most = score;
        any = true;
    }
    u->unk_score -= unk_penalty;
    vocab_bytes(v, u->byte);
    return true;
}

void unigram_free(struct unigram *u) {
    trie_free(&u->trie);
    free(u->score);
    *u = (struct unigram){0};
}

void unigram_work_free(struct unigram_work *w) {
    free(w->node);
    ids_free(&w->ids);
    ids_free(&w->starts);
    ids_free(&w->ends);
    *w = (struct unigram_work){0};
}

static void offer(const struct unigram *u, struct unigram_node *to, double score, int32_t id,
                  size_t from) {
    if (to->from >= 0 && score <= to->score) return;
    if (u->piece) score = (double)(float)score;
    *to = (struct unigram_node){score, id, (int32_t)from};
}

// A piece of the user's beats all others over its n bytes.
static double score_of(const struct unigram *u, int32_t id, size_t n) {
    if (!u->piece || u->piece[id].kind != SPM_USER) return u->score[id];
    return (double)((float)n * (float)u->most) - 0.1;
}

// Fills the nodes: for each place in the text the best way that leads there.
static bool search(const struct unigram *u, struct unigram_node *node, struct sv text) {
    for (size_t at = 0, next = 0; at < text.n; at = next) {
        unicode_next(text, &next);
        double score = node[at].score;
        bool covered = false;
        int32_t k = 0;
        for (size_t i = at; u->trie.nodes && i < text.n; i++) {
            k = trie_step(&u->trie, k, (unsigned char)text.p[i]);
            if (!k) break;
            int32_t id = u->trie.value[k];
            if (id < 0) continue;
            offer(u, &node[i + 1], score + score_of(u, id, i + 1 - at), id, at);
            covered |= i + 1 == next;
        }
        if (covered) continue;
        double unk = score + u->unk_score;
        if (u->unk < 0 && (node[next].from < 0 || unk > node[next].score)) return false;
        if (u->unk >= 0) offer(u, &node[next], u->piece ? (double)(float)unk : unk, u->unk, at);
    }
    return true;
}

// The ids of one token of the best way. Unknown characters in a row are one, which may after all be
// in the vocabulary of a tokenizer.json.
static bool add_token(const struct unigram *u, const struct vocab *v, int32_t id, struct sv text,
                      struct ids *out) {
    if (!u->piece)
        id = vocab_id(v, text);
    else if (id == u->unk)
        id = -1;
    if (id < 0 && u->byte_fallback) {
        bool all = true;
        for (size_t i = 0; i < text.n; i++) all &= u->byte[(unsigned char)text.p[i]] >= 0;
        for (size_t i = 0; all && i < text.n; i++) ids_push(out, u->byte[(unsigned char)text.p[i]]);
        if (all) return true;
    }
    if (id < 0) id = u->unk;
    if (id >= 0) ids_push(out, id);
    return id >= 0;
}

bool unigram_encode(const struct unigram *u, const struct vocab *v, struct unigram_work *w,
                    struct sv piece, struct ids *out, struct error *e) {
    static const char *const no_unk =
        "a character is not in the vocabulary and there is no unk_id for it";
    if (piece.n >= INT32_MAX) return fail(e, "a piece of %zu bytes is too long", piece.n);
    w->node = mem_grow(w->node, &w->cap, piece.n + 1, sizeof *w->node);
    for (size_t i = 0; i <= piece.n; i++) w->node[i] = (struct unigram_node){0, -1, -1};
    w->node[0].from = 0;
    if (!search(u, w->node, piece)) return fail(e, "model: %s", no_unk);
    w->starts.n = w->ends.n = w->ids.n = 0;
    bool joined = false; // the token before (behind, in the text) is a run of unknown ones
    for (int32_t end = (int32_t)piece.n; end > 0; end = w->node[end].from) {
        struct unigram_node k = w->node[end];
        bool unknown = u->unk >= 0 && k.id == u->unk;
        if (unknown && joined) {
            w->starts.id[w->starts.n - 1] = k.from;
        } else {
            ids_push(&w->starts, k.from);
            ids_push(&w->ends, end);
            ids_push(&w->ids, k.id);
        }
        joined = unknown;
    }
    for (size_t i = w->starts.n; i-- > 0;) {
        struct sv text = sv_cut(piece, (size_t)w->starts.id[i], (size_t)w->ends.id[i]);
        if (!add_token(u, v, w->ids.id[i], text, out)) return fail(e, "model: %s", no_unk);
    }
    return true;
}
