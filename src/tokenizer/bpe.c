#include "tokenizer/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tokenizer/fields.h"
#include "tokenizer/heap.h"
#include "tokenizer/unicode.h"

enum {
    SHORT_WORD = 48, // symbols: up to here a plain scan for the best pair beats a heap
};

struct bpe_work {
    struct ids symbol; // id of each symbol
    int32_t *prev, *next;
    size_t links; // room in both
    struct heap heap;
    struct str text; // a character with prefix and suffix
};

struct bpe_work *bpe_work_open(void) {
    return mem_alloc(sizeof(struct bpe_work));
}

void bpe_work_close(struct bpe_work *w) {
    if (!w) return;
    ids_free(&w->symbol);
    free(w->prev);
    free(w->next);
    heap_free(&w->heap);
    str_free(&w->text);
    free(w);
}

static size_t pair_hash(int32_t left, int32_t right) {
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    return (size_t)(h ^ h >> 32);
}

static struct bpe_merge *seek(const struct bpe *b, int32_t left, int32_t right) {
    for (size_t i = pair_hash(left, right) & (b->slots - 1);; i = (i + 1) & (b->slots - 1)) {
        struct bpe_merge *m = &b->merge[i];
        if (m->left < 0 || (m->left == left && m->right == right)) return m;
    }
}

// The merge of two neighbours, NULL when they have none.
static const struct bpe_merge *merge_of(const struct bpe *b, int32_t left, int32_t right) {
    const struct bpe_merge *m = seek(b, left, right);
    return m->left < 0 ? NULL : m;
}

static void resize(struct bpe *b, size_t slots) {
    struct bpe old = *b;
    b->slots = slots;
    b->merge = mem_array(b->slots, sizeof *b->merge);
    for (size_t i = 0; i < b->slots; i++) b->merge[i].left = -1;
    for (size_t i = 0; i < old.slots; i++)
        if (old.merge[i].left >= 0) *seek(b, old.merge[i].left, old.merge[i].right) = old.merge[i];
    free(old.merge);
}

void bpe_merge_put(struct bpe *b, struct bpe_merge merge) {
    if (b->n * 2 >= b->slots) resize(b, b->slots ? b->slots * 2 : 1 << 10);
    struct bpe_merge *m = seek(b, merge.left, merge.right);
    if (m->left < 0) b->n++;
    *m = merge;
}

void bpe_merge_fetch(const struct bpe *b, int32_t left, int32_t right) {
    __builtin_prefetch(&b->merge[pair_hash(left, right) & (b->slots - 1)], 1);
}

void bpe_reserve(struct bpe *b, size_t merges) {
    size_t slots = 1 << 10;
    while (slots < merges * 2) slots *= 2;
    if (slots > b->slots) resize(b, slots);
}

// The bit of b->pairs that two characters in a row share with few others.
static size_t pair_bit(const struct bpe *b, int32_t left, int32_t right) {
    uint64_t h = ((uint64_t)(uint32_t)left << 21 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    return (size_t)(h >> b->shift);
}

static bool is_pair(const struct bpe *b, int32_t left, int32_t right) {
    size_t bit = pair_bit(b, left, right);
    return b->pairs[bit / 64] >> bit % 64 & 1;
}

// Whether each character by itself becomes one known token or bytes, whatever stands beside it.
static bool stands_alone(const struct bpe *b, const struct vocab *v) {
    bool bytes = b->byte_fallback;
    for (int i = 0; i < 256 && bytes; i++) bytes = b->byte[i] >= 0;
    bool unk = !b->byte_fallback && !b->fuse_unk && b->has_unk && vocab_id(v, str_sv(&b->unk)) >= 0;
    return (bytes || unk) && !b->ignore_merges && !b->prefix.n && !b->suffix.n;
}

// Whether a token holds, among other things, what stands for an unknown character.
static bool holds_unknown(const struct bpe *b, const struct vocab *v, struct sv token, size_t at) {
    struct sv rest = sv_cut(token, at, token.n), byte = sv_cut(rest, 0, 6);
    if (sv_starts(rest, sv("<0x")) && byte.n < token.n && b->byte_fallback)
        return byte.n == 6 && byte.p[5] == '>' && vocab_id(v, byte) >= 0;
    return b->unk.n && token.n > b->unk.n && sv_starts(rest, str_sv(&b->unk));
}

// Notes which characters tokens have side by side: all tokens, for those that merging makes are
// among them and the vocabulary lies in order in memory.
static void find_pairs(struct bpe *b, const struct vocab *v) {
    struct sv token;
    char unk = b->unk.n ? b->unk.p[0] : '<';
    bool cut = stands_alone(b, v);
    int bits = 16;
    while (cut && bits < 24 && (size_t)1 << bits < v->n * 16) bits++;
    b->shift = 64 - bits;
    if (cut) b->pairs = mem_array(((size_t)1 << bits) / 64, sizeof *b->pairs);
    for (int32_t id = 0; cut && id < (int32_t)v->size; id++) {
        if (!vocab_token(v, id, &token)) continue;
        int32_t last = -1;
        for (size_t i = 0, at = 0; cut && i < token.n; at = i) {
            int32_t cp = unicode_next(token, &i);
            size_t bit = last < 0 ? 0 : pair_bit(b, last, cp);
            if (last >= 0) b->pairs[bit / 64] |= (uint64_t)1 << bit % 64;
            if (token.p[at] == '<' || token.p[at] == unk) cut = !holds_unknown(b, v, token, at);
            last = cp;
        }
    }
    if (cut) return;
    free(b->pairs);
    b->pairs = NULL;
}

size_t bpe_part(const struct bpe *b, struct sv piece) {
    size_t i = 0;
    if (!b->pairs || !piece.n) return piece.n;
    int32_t last = unicode_next(piece, &i);
    for (size_t at = i; i < piece.n; at = i) {
        int32_t cp = unicode_next(piece, &i);
        if (!is_pair(b, last, cp)) return at;
        last = cp;
    }
    return piece.n;
}

bool bpe_read(struct bpe *b, const struct vocab *v, struct json_object *model, struct sv merges,
              struct error *e) {
    unicode_init();
    struct sv unk, prefix, suffix;
    if (!field_bool(model, "byte_fallback", false, &b->byte_fallback, e) ||
        !field_bool(model, "fuse_unk", false, &b->fuse_unk, e) ||
        !field_bool(model, "ignore_merges", false, &b->ignore_merges, e) ||
        !field_text_or(model, "unk_token", &unk, e) ||
        !field_text_or(model, "continuing_subword_prefix", &prefix, e) ||
        !field_text_or(model, "end_of_word_suffix", &suffix, e))
        return false;
    if (json_number_at(model, "dropout", 0) > 0)
        return fail(e, "dropout %g is not supported (it makes encoding random: set it to null)",
                    json_number_at(model, "dropout", 0));
    b->has_unk = json_at(model, "unk_token") != NULL;
    str_add(&b->unk, unk);
    str_add(&b->prefix, prefix);
    str_add(&b->suffix, suffix);
    bpe_index(b, v);
    if (!bpe_read_merges(b, v, merges, e)) return false;
    find_pairs(b, v);
    return true;
}

void bpe_index(struct bpe *b, const struct vocab *v) {
    bpe_reserve(b, 0);
    vocab_bytes(v, b->byte);
    for (int i = 0; i < 0x180; i++) {
        char utf8[4];
        b->latin[i] = vocab_id(v, sv_n(utf8, utf8_encode((uint32_t)i, utf8)));
    }
}

void bpe_free(struct bpe *b) {
    free(b->merge);
    free(b->pairs);
    str_free(&b->unk);
    str_free(&b->prefix);
    str_free(&b->suffix);
    *b = (struct bpe){0};
}

// The id of one character, with the prefix when it isn't first and the suffix when it is last.
// *token is its text.
static int32_t char_id(const struct bpe *b, const struct vocab *v, struct bpe_work *w, struct sv c,
                       int32_t cp, bool first, bool last, struct sv *token) {
    bool prefix = !first && b->prefix.n, suffix = last && b->suffix.n;
    *token = c;
    if (!prefix && !suffix) return cp < 0x180 ? b->latin[cp] : vocab_id(v, c);
    str_clear(&w->text);
    if (prefix) str_add(&w->text, str_sv(&b->prefix));
    str_add(&w->text, c);
    if (suffix) str_add(&w->text, str_sv(&b->suffix));
    *token = str_sv(&w->text);
    return vocab_id(v, *token);
}

static bool push_bytes(const struct bpe *b, struct sv token, struct ids *out) {
    for (size_t i = 0; i < token.n; i++)
        if (b->byte[(unsigned char)token.p[i]] < 0) return false;
    for (size_t i = 0; i < token.n; i++) ids_push(out, b->byte[(unsigned char)token.p[i]]);
    return true;
}

// Fills w->symbol with the ids of the piece's characters. An unknown token waits until a known
// character or the end: the reference puts it behind byte tokens that come in between.
static bool spell(const struct bpe *b, const struct vocab *v, struct bpe_work *w, struct sv piece,
                  struct error *e) {
    w->symbol.n = 0;
    int32_t unk = -1;
    for (size_t i = 0, at = 0; i < piece.n; at = i) {
        int32_t cp = unicode_next(piece, &i);
        struct sv token;
        int32_t id = char_id(b, v, w, sv_cut(piece, at, i), cp, at == 0, i == piece.n, &token);
        if (id < 0 && b->byte_fallback && push_bytes(b, token, &w->symbol)) continue;
        if (id < 0 && !b->has_unk) continue;
        if (unk >= 0 && (id >= 0 || !b->fuse_unk)) ids_push(&w->symbol, unk), unk = -1;
        if (id >= 0) {
            ids_push(&w->symbol, id);
            continue;
        }
        unk = vocab_id(v, str_sv(&b->unk));
        if (unk < 0)
            return fail(e, "model.unk_token \"%.60s\" is needed, but is not in model.vocab",
                        str_c(&b->unk));
    }
    if (unk >= 0) ids_push(&w->symbol, unk);
    return true;
}

static void merge_short(const struct bpe *b, struct ids *s) {
    const struct bpe_merge *pair[SHORT_WORD]; // of symbols i and i + 1
    size_t n = s->n;
    for (size_t i = 0; i + 1 < n; i++) pair[i] = merge_of(b, s->id[i], s->id[i + 1]);
    for (;;) {
        size_t best = n;
        for (size_t i = 0; i + 1 < n; i++)
            if (pair[i] && (best == n || pair[i]->rank < pair[best]->rank)) best = i;
        if (best == n) break;
        s->id[best] = pair[best]->id;
        n--;
        memmove(s->id + best + 1, s->id + best + 2, (n - best - 1) * sizeof *s->id);
        if (best + 1 < n) {
            memmove(pair + best + 1, pair + best + 2, (n - best - 2) * sizeof *pair);
            pair[best] = merge_of(b, s->id[best], s->id[best + 1]);
        }
        if (best > 0) pair[best - 1] = merge_of(b, s->id[best - 1], s->id[best]);
    }
    s->n = n;
}

static void consider(const struct bpe *b, struct bpe_work *w, int32_t at) {
    int32_t next = at < 0 ? -1 : w->next[at];
    if (next < 0) return;
    const struct bpe_merge *m = merge_of(b, w->symbol.id[at], w->symbol.id[next]);
    if (m) heap_push(&w->heap, (struct heap_item){m->rank, at, m->id});
}

// n log n in the number of symbols: a heap of candidates over a linked list. A candidate whose
// symbols have changed since is stale and is passed over.
static void merge_long(const struct bpe *b, struct bpe_work *w) {
    struct ids *s = &w->symbol;
    if (w->links < s->n) {
        w->links = s->n;
        w->prev = mem_resize(w->prev, w->links, sizeof *w->prev);
        w->next = mem_resize(w->next, w->links, sizeof *w->next);
    }
    int32_t n = (int32_t)s->n;
    w->heap.n = 0;
    for (int32_t i = 0; i < n; i++) w->prev[i] = i - 1, w->next[i] = i + 1 < n ? i + 1 : -1;
    for (int32_t i = 0; i < n; i++) consider(b, w, i);
    while (w->heap.n) {
        struct heap_item c = heap_pop(&w->heap);
        int32_t next = s->id[c.at] < 0 ? -1 : w->next[c.at];
        if (next < 0) continue;
        const struct bpe_merge *m = merge_of(b, s->id[c.at], s->id[next]);
        if (!m || m->id != c.id) continue;
        s->id[c.at] = c.id;
        s->id[next] = -1; // gone
        w->next[c.at] = w->next[next];
        if (w->next[next] >= 0) w->prev[w->next[next]] = c.at;
        consider(b, w, w->prev[c.at]);
        consider(b, w, c.at);
    }
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->id[i] >= 0) s->id[kept++] = s->id[i];
    s->n = kept;
}

bool bpe_encode(const struct bpe *b, const struct vocab *v, struct bpe_work *w, struct sv piece,
                struct ids *out, struct error *e) {
    if (b->ignore_merges) {
        int32_t id = vocab_id(v, piece);
        if (id >= 0) return ids_push(out, id), true;
    }
    if (piece.n >= INT32_MAX) return fail(e, "a piece of %zu bytes is too long", piece.n);
    if (!spell(b, v, w, piece, e)) return false;
    if (w->symbol.n <= SHORT_WORD)
        merge_short(b, &w->symbol);
    else
        merge_long(b, w);
    ids_add(out, w->symbol.id, w->symbol.n);
    return true;
}
