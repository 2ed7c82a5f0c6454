#include "tokenizer/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tokenizer/fields.h"
#include "tokenizer/unicode.h"

enum {
    SHORT_WORD = 48, // symbols: up to here a plain scan for the best pair beats a heap
    CACHE_SLOTS = 4096,
    CACHE_TEXT = 36,
    CACHE_IDS = 5,
};

// A merge that was possible when it was pushed: of the symbol at `at` with the next.
struct bpe_candidate {
    int32_t rank, at, id;
};

// A word and its ids, one cache line.
struct bpe_cached {
    uint8_t n, ids; // ids 0: free
    char text[CACHE_TEXT];
    int32_t id[CACHE_IDS];
};

struct bpe_work {
    struct ids symbol; // id of each symbol
    int32_t *prev, *next;
    size_t links; // room in both
    struct bpe_candidate *heap;
    size_t heap_n, heap_cap;
    struct str text; // a character with prefix and suffix
    struct bpe_cached cache[CACHE_SLOTS];
};

struct bpe_work *bpe_work_open(void) {
    return mem_alloc(sizeof(struct bpe_work));
}

void bpe_work_close(struct bpe_work *w) {
    if (!w) return;
    ids_free(&w->symbol);
    free(w->prev);
    free(w->next);
    free(w->heap);
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

// A merge is "left right" or ["left", "right"].
static bool read_merge(struct json_object *j, struct sv *left, struct sv *right, struct error *e) {
    struct sv line = json_text(j);
    ptrdiff_t space = sv_find(line, sv(" "), 0);
    if (json_object_is_type(j, json_type_array) && json_object_array_length(j) == 2) {
        struct json_object *a = json_object_array_get_idx(j, 0);
        struct json_object *c = json_object_array_get_idx(j, 1);
        *left = json_text(a);
        *right = json_text(c);
        if (json_object_is_type(a, json_type_string) && json_object_is_type(c, json_type_string))
            return true;
    } else if (space >= 0 && sv_find(line, sv(" "), (size_t)space + 1) < 0) {
        *left = sv_cut(line, 0, (size_t)space);
        *right = sv_cut(line, (size_t)space + 1, line.n);
        return true;
    }
    return fail(e, "%.60s is not two tokens", json_object_to_json_string(j));
}

static bool add_merge(struct bpe *b, const struct vocab *v, struct json_object *j, int32_t rank,
                      struct str *joint, struct error *e) {
    struct sv side[2] = {sv(""), sv("")};
    if (!read_merge(j, &side[0], &side[1], e)) return false;
    int32_t id[3];
    for (int k = 0; k < 2; k++) {
        id[k] = vocab_id(v, side[k]);
        if (id[k] < 0)
            return fail(e, "token \"%.*s\" is not in model.vocab",
                        side[k].n < 60 ? (int)side[k].n : 60, side[k].p);
    }
    str_clear(joint);
    str_add(joint, side[0]);
    str_add(joint, sv_cut(side[1], b->prefix.n, side[1].n));
    id[2] = vocab_id(v, str_sv(joint));
    if (id[2] < 0) return fail(e, "its result \"%.60s\" is not in model.vocab", str_c(joint));
    struct bpe_merge *m = seek(b, id[0], id[1]);
    if (m->left < 0) b->n++;
    *m = (struct bpe_merge){id[0], id[1], rank, id[2]};
    return true;
}

static bool read_merges(struct bpe *b, const struct vocab *v, struct json_object *model,
                        struct error *e) {
    struct json_object *list = field_array(model, "merges", e);
    if (!list) return false;
    size_t n = json_object_array_length(list);
    if (n >= INT32_MAX) return fail(e, "%zu merges are too many", n);
    b->slots = 16;
    while (b->slots < n * 2) b->slots *= 2;
    b->merge = mem_array(b->slots, sizeof *b->merge);
    for (size_t i = 0; i < b->slots; i++) b->merge[i].left = -1;
    struct str joint = {0};
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) {
        struct json_object *j = json_object_array_get_idx(list, i);
        if (i == 0 && sv_starts(json_text(j), sv("#version"))) continue;
        ok = add_merge(b, v, j, (int32_t)i, &joint, e) || fail_in(e, "merges[%zu]", i);
    }
    str_free(&joint);
    return ok;
}

bool bpe_read(struct bpe *b, const struct vocab *v, struct json_object *model, struct error *e) {
    *b = (struct bpe){0};
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
    for (int i = 0; i < 256; i++) {
        char name[8];
        static const char hex[] = "0123456789ABCDEF";
        memcpy(name, "<0x00>", 7);
        name[3] = hex[i >> 4], name[4] = hex[i & 15];
        b->byte[i] = vocab_id(v, sv(name));
    }
    for (int i = 0; i < 0x180; i++) {
        char utf8[4];
        b->latin[i] = vocab_id(v, sv_n(utf8, utf8_encode((uint32_t)i, utf8)));
    }
    return read_merges(b, v, model, e);
}

void bpe_free(struct bpe *b) {
    free(b->merge);
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

static bool sooner(struct bpe_candidate a, struct bpe_candidate c) {
    return a.rank != c.rank ? a.rank < c.rank : a.at < c.at;
}

static void heap_push(struct bpe_work *w, struct bpe_candidate c) {
    w->heap = mem_grow(w->heap, &w->heap_cap, w->heap_n + 1, sizeof *w->heap);
    size_t i = w->heap_n++;
    for (; i > 0 && sooner(c, w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = c;
}

static struct bpe_candidate heap_pop(struct bpe_work *w) {
    struct bpe_candidate top = w->heap[0], last = w->heap[--w->heap_n];
    size_t i = 0;
    for (size_t kid; (kid = 2 * i + 1) < w->heap_n; i = kid) {
        if (kid + 1 < w->heap_n && sooner(w->heap[kid + 1], w->heap[kid])) kid++;
        if (!sooner(w->heap[kid], last)) break;
        w->heap[i] = w->heap[kid];
    }
    w->heap[i] = last;
    return top;
}

static void consider(const struct bpe *b, struct bpe_work *w, int32_t at) {
    int32_t next = at < 0 ? -1 : w->next[at];
    if (next < 0) return;
    const struct bpe_merge *m = merge_of(b, w->symbol.id[at], w->symbol.id[next]);
    if (m) heap_push(w, (struct bpe_candidate){m->rank, at, m->id});
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
    w->heap_n = 0;
    for (int32_t i = 0; i < n; i++) w->prev[i] = i - 1, w->next[i] = i + 1 < n ? i + 1 : -1;
    for (int32_t i = 0; i < n; i++) consider(b, w, i);
    while (w->heap_n) {
        struct bpe_candidate c = heap_pop(w);
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
    bool brief = piece.n <= CACHE_TEXT;
    struct bpe_cached *c = &w->cache[brief ? sv_hash(piece) % CACHE_SLOTS : 0];
    if (brief && c->ids && sv_eq(sv_n(c->text, c->n), piece))
        return ids_add(out, c->id, c->ids), true;
    if (!spell(b, v, w, piece, e)) return false;
    if (w->symbol.n <= SHORT_WORD)
        merge_short(b, &w->symbol);
    else
        merge_long(b, w);
    ids_add(out, w->symbol.id, w->symbol.n);
    if (brief && w->symbol.n && w->symbol.n <= CACHE_IDS) {
        c->n = (uint8_t)piece.n;
        c->ids = (uint8_t)w->symbol.n;
        memcpy(c->text, piece.p, piece.n);
        memcpy(c->id, w->symbol.id, w->symbol.n * sizeof *c->id);
    }
    return true;
}
