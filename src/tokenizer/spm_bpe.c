#include "tokenizer/spm_bpe.h"

#include <stdlib.h>

#include "base/mem.h"
#include "tokenizer/unicode.h"

struct scored {
    float score;
    int32_t id;
};

static int by_score(const void *a, const void *b) {
    const struct scored *x = a, *y = b;
    return x->score > y->score ? -1 : x->score < y->score;
}

void spm_bpe_open(struct spm_bpe *b, const struct spm *s, const struct vocab *v) {
    struct scored *list = mem_array(v->size, sizeof *list);
    size_t n = 0;
    *b = (struct spm_bpe){.spm = s, .rank = mem_array(v->size, sizeof *b->rank)};
    for (size_t id = 0; id < v->size; id++) {
        enum spm_kind kind = s->piece[id].kind;
        bool made = kind == SPM_NORMAL || kind == SPM_USER || kind == SPM_UNUSED;
        struct sv text;
        b->rank[id] = -1;
        if (!made || !vocab_token(v, (int32_t)id, &text)) continue;
        if (text.n > b->longest) b->longest = text.n;
        b->unused |= kind == SPM_UNUSED;
        list[n++] = (struct scored){s->piece[id].score, (int32_t)id};
    }
    qsort(list, n, sizeof *list, by_score);
    int32_t rank = 0; // the same for the same score
    for (size_t i = 0; i < n; i++) {
        if (i && list[i].score < list[i - 1].score) rank++;
        b->rank[list[i].id] = rank;
    }
    free(list);
    vocab_bytes(v, b->byte);
}

void spm_bpe_free(struct spm_bpe *b) {
    free(b->rank);
    *b = (struct spm_bpe){0};
}

void spm_bpe_work_free(struct spm_bpe_work *w) {
    free(w->symbol);
    free(w->left);
    heap_free(&w->heap);
    ids_free(&w->todo);
    *w = (struct spm_bpe_work){0};
}

// The piece that a part of the text is, -1: none that merging makes.
static int32_t piece_of(const struct spm_bpe *b, const struct vocab *v, struct sv text) {
    int32_t id = text.n <= b->longest ? vocab_id(v, text) : -1;
    return id >= 0 && b->rank[id] >= 0 ? id : -1;
}

static void split(const struct spm_bpe *b, struct spm_bpe_work *w, struct sv text) {
    w->n = 0;
    for (size_t i = 0, end; i < text.n; i = end) {
        size_t user = spm_user(b->spm, sv_cut(text, i, text.n));
        end = i;
        if (user)
            end += user;
        else
            unicode_next(text, &end);
        w->symbol = mem_grow(w->symbol, &w->cap, w->n + 1, sizeof *w->symbol);
        int32_t k = (int32_t)w->n++;
        w->symbol[k] = (struct spm_symbol){(int32_t)i, (int32_t)end, k - 1,
                                           end < text.n ? k + 1 : -1, user > 0};
    }
}

static void consider(const struct spm_bpe *b, const struct vocab *v, struct spm_bpe_work *w,
                     struct sv text, int32_t at) {
    const struct spm_symbol *a = at < 0 ? NULL : &w->symbol[at];
    const struct spm_symbol *c = a && a->next >= 0 ? &w->symbol[a->next] : NULL;
    if (!c || a->fixed || c->fixed) return;
    int32_t id = piece_of(b, v, sv_cut(text, (size_t)a->from, (size_t)c->to));
    if (id < 0) return;
    heap_push(&w->heap, (struct heap_item){b->rank[id], at, id});
    if (b->spm->piece[id].kind == SPM_UNUSED) w->left[id] = a->to - a->from;
}

static void merge(const struct spm_bpe *b, const struct vocab *v, struct spm_bpe_work *w,
                  struct sv text) {
    w->heap.n = 0;
    for (int32_t i = 0; i < (int32_t)w->n; i++) consider(b, v, w, text, i);
    while (w->heap.n) {
        struct heap_item c = heap_pop(&w->heap);
        struct spm_symbol *a = &w->symbol[c.at];
        if (a->from == a->to || a->next < 0) continue;
        struct spm_symbol *next = &w->symbol[a->next];
        struct sv joint = sv_cut(text, (size_t)a->from, (size_t)next->to), want;
        if (!vocab_token(v, c.id, &want) || want.n != joint.n) continue; // they changed since
        a->to = next->to;
        next->from = next->to;
        a->next = next->next;
        if (a->next >= 0) w->symbol[a->next].prev = c.at;
        consider(b, v, w, text, a->prev);
        consider(b, v, w, text, c.at);
    }
}

// Unknown text: bytes, or one unknown token for what is unknown in a row.
static void add_unknown(const struct spm_bpe *b, struct sv text, bool *in_unknown,
                        struct ids *out) {
    bool bytes = b->spm->byte_fallback;
    for (size_t i = 0; i < text.n; i++) bytes &= b->byte[(unsigned char)text.p[i]] >= 0;
    for (size_t i = 0; bytes && i < text.n; i++) ids_push(out, b->byte[(unsigned char)text.p[i]]);
    if (!bytes && !*in_unknown) ids_push(out, b->spm->unk);
    *in_unknown = !bytes;
}

// Appends a symbol's ids. An unused piece falls apart into what it was merged from.
static void add_symbol(const struct spm_bpe *b, const struct vocab *v, struct spm_bpe_work *w,
                       struct sv text, struct spm_symbol s, bool *in_unknown, struct ids *out) {
    w->todo.n = 0;
    ids_push(&w->todo, s.from);
    ids_push(&w->todo, s.to);
    while (w->todo.n) {
        int32_t to = w->todo.id[w->todo.n - 1], from = w->todo.id[w->todo.n - 2];
        w->todo.n -= 2;
        struct sv part = sv_cut(text, (size_t)from, (size_t)to);
        int32_t id = piece_of(b, v, part);
        if (id < 0) {
            add_unknown(b, part, in_unknown, out);
        } else if (b->spm->piece[id].kind == SPM_UNUSED && w->left[id]) {
            int32_t parts[] = {from + w->left[id], to, from, from + w->left[id]};
            ids_add(&w->todo, parts, 4);
        } else {
            ids_push(out, id);
            *in_unknown = false;
        }
    }
}

bool spm_bpe_encode(const struct spm_bpe *b, const struct vocab *v, struct spm_bpe_work *w,
                    struct sv text, struct ids *out, struct error *e) {
    if (text.n >= INT32_MAX) return fail(e, "a text of %zu bytes is too long", text.n);
    if (b->unused && !w->left) w->left = mem_array(v->size, sizeof *w->left);
    for (size_t id = 0; b->unused && id < v->size; id++) w->left[id] = 0;
    split(b, w, text);
    merge(b, v, w, text);
    bool in_unknown = false;
    for (int32_t i = 0; i >= 0 && w->n; i = w->symbol[i].next)
        add_symbol(b, v, w, text, w->symbol[i], &in_unknown, out);
    return true;
}
