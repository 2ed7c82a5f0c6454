#include "engine/breakers.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"

// Tokens that follow one at whose end a text begins.
struct tail {
    struct ids ids;
};

struct head {
    int32_t id;
    size_t tail;
};

struct breakers {
    atomic_size_t owners;
    int64_t vocab;
    unsigned char *whole; // [vocab / 8 + 1] a bit for each token that holds a text
    struct tail *tail;
    size_t tails, tail_cap;
    struct head *head; // by rising id
    size_t heads, head_cap;
};

const struct sv breakers_default[4] = {{"\n", 1}, {":", 1}, {"\"", 1}, {"*", 1}};

// tail_of[k]: of the text's bytes from k on, 0: not made yet, else the index of its tail + 1.
static bool add_head(struct breakers *b, const struct tokenizer *t, int32_t id, struct sv rest,
                     size_t *tail_of, struct error *e) {
    if (!*tail_of) {
        b->tail = mem_grow(b->tail, &b->tail_cap, b->tails + 1, sizeof *b->tail);
        b->tail[b->tails] = (struct tail){0};
        *tail_of = ++b->tails;
        struct ids *ids = &b->tail[*tail_of - 1].ids;
        if (!tok_encode(t, rest, false, ids, e)) return false;
        if (ids->n > BREAKER_TOKENS) ids->n = BREAKER_TOKENS;
    }
    if (!b->tail[*tail_of - 1].ids.n) return true;
    b->head = mem_grow(b->head, &b->head_cap, b->heads + 1, sizeof *b->head);
    b->head[b->heads++] = (struct head){id, *tail_of - 1};
    return true;
}

// What the token `piece` has of the text: all of it, or at its end the beginning.
static bool match(struct breakers *b, const struct tokenizer *t, int32_t id, struct sv piece,
                  struct sv text, size_t *tail_of, struct error *e) {
    if (sv_find(piece, text, 0) >= 0) {
        b->whole[id / 8] |= (unsigned char)(1 << id % 8);
        return true;
    }
    for (size_t k = 1; k < text.n && k <= piece.n; k++)
        if (sv_ends(piece, sv_cut(text, 0, k)) &&
            !add_head(b, t, id, sv_cut(text, k, text.n), &tail_of[k], e))
            return false;
    return true;
}

struct breakers *breakers_open(const struct tokenizer *t, const struct sv *text, size_t n,
                               struct error *e) {
    struct breakers *b = mem_alloc(sizeof *b);
    size_t(*tail_of)[BREAKER_BYTES] = mem_array(n, sizeof *tail_of);
    struct str piece = {0};
    bool ok = true;
    b->owners = 1;
    b->vocab = tok_size(t);
    b->whole = mem_array((size_t)b->vocab / 8 + 1, 1);
    for (int32_t id = 0; id < b->vocab && ok; id++) {
        str_clear(&piece);
        tok_decode(t, &id, 1, false, &piece);
        for (size_t i = 0; i < n && ok; i++)
            if (text[i].n)
                ok = match(b, t, id, str_sv(&piece), sv_cut(text[i], 0, BREAKER_BYTES), tail_of[i],
                           e);
    }
    str_free(&piece);
    free(tail_of);
    if (ok) return b;
    breakers_close(b);
    return NULL;
}

struct breakers *breakers_share(struct breakers *b) {
    if (b) atomic_fetch_add(&b->owners, 1);
    return b;
}

void breakers_close(struct breakers *b) {
    if (!b || atomic_fetch_sub(&b->owners, 1) > 1) return;
    for (size_t i = 0; i < b->tails; i++) ids_free(&b->tail[i].ids);
    free(b->tail);
    free(b->head);
    free(b->whole);
    free(b);
}

bool breakers_token(const struct breakers *b, int32_t id) {
    return id < b->vocab && b->whole[id / 8] >> id % 8 & 1;
}

static size_t first_head(const struct breakers *b, int32_t id) {
    size_t low = 0, high = b->heads;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (b->head[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Tokens of the longest text that begins in history[0]; 0: none.
static size_t length_at(const struct breakers *b, const int32_t *history, size_t n) {
    size_t most = breakers_token(b, history[0]);
    for (size_t i = first_head(b, history[0]); i < b->heads && b->head[i].id == history[0]; i++) {
        const struct ids *tail = &b->tail[b->head[i].tail].ids;
        size_t k = 0;
        if (tail->n < most || tail->n + 1 > n) continue;
        while (k < tail->n && tail->id[k] == history[k + 1]) k++;
        if (k == tail->n) most = k + 1;
    }
    return most;
}

size_t breakers_after(const struct breakers *b, const int32_t *history, size_t n) {
    for (size_t i = 0; i < n; i++) {
        size_t length = length_at(b, history + n - 1 - i, i + 1);
        if (length) return i + 1 - length;
    }
    return n;
}
