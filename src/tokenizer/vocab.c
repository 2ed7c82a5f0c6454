#include "tokenizer/vocab.h"

#include <stdlib.h>

#include "base/jread.h"
#include "base/mem.h"

void vocab_free(struct vocab *v) {
    str_free(&v->pool);
    free(v->entry);
    free(v->slot);
    *v = (struct vocab){0};
}

// The slot that holds the token, or the free one where it would go.
static struct vocab_slot *seek(const struct vocab *v, struct sv token, uint32_t hash) {
    for (size_t i = hash & (v->slots - 1);; i = (i + 1) & (v->slots - 1)) {
        struct vocab_slot *s = &v->slot[i];
        if (s->id < 0) return s;
        if (s->hash == hash && sv_eq(sv_n(v->pool.p + s->at, s->n), token)) return s;
    }
}

uint32_t vocab_hash(struct sv token) { return (uint32_t)sv_hash(token); }

static void widen(struct vocab *v) {
    if (v->n * 2 < v->slots) return;
    struct vocab old = *v;
    v->slots = old.slots ? old.slots * 2 : 1024;
    v->slot = mem_array(v->slots, sizeof *v->slot);
    for (size_t i = 0; i < v->slots; i++) v->slot[i].id = -1;
    for (size_t k = 0; k < old.slots; k++) {
        if (old.slot[k].id < 0) continue;
        size_t i = old.slot[k].hash & (v->slots - 1);
        while (v->slot[i].id >= 0) i = (i + 1) & (v->slots - 1);
        v->slot[i] = old.slot[k];
    }
    free(old.slot);
}

static int shown(struct sv token) { return token.n < 60 ? (int)token.n : 60; }

// The entry of an id that no token has yet, and of the ids before it.
static struct vocab_entry *entry_of(struct vocab *v, size_t id) {
    if (id >= v->size) {
        size_t old = v->cap;
        v->entry = mem_grow(v->entry, &v->cap, id + 1, sizeof *v->entry);
        for (size_t i = old; i < v->cap; i++) v->entry[i] = (struct vocab_entry){0, VOCAB_UNUSED};
        v->size = id + 1;
    }
    return &v->entry[id];
}

static bool fits(const struct vocab *v, struct sv token, int64_t id, struct error *e) {
    if (id < 0 || id >= VOCAB_LIMIT)
        return fail(e, "token \"%.*s\" has id %lld, outside 0 to %d", shown(token), token.p,
                    (long long)id, VOCAB_LIMIT - 1);
    return token.n < UINT32_MAX - v->pool.n || fail(e, "the tokens are over 4 GiB");
}

static void enter(struct vocab *v, struct sv token, size_t id, uint32_t hash,
                  struct vocab_slot *slot) {
    uint32_t at = (uint32_t)v->pool.n, n = (uint32_t)token.n;
    *entry_of(v, id) = (struct vocab_entry){at, n};
    str_add(&v->pool, token);
    v->n++;
    *slot = (struct vocab_slot){hash, at, n, (int32_t)id};
}

static bool is_taken(const struct vocab *v, int64_t id) {
    return (size_t)id < v->size && v->entry[id].n != VOCAB_UNUSED;
}

bool vocab_add(struct vocab *v, struct sv token, int64_t id, struct error *e) {
    if (!fits(v, token, id, e)) return false;
    widen(v);
    uint32_t hash = vocab_hash(token);
    struct vocab_slot *slot = seek(v, token, hash);
    if (slot->id >= 0 || is_taken(v, id))
        return fail(e, "token \"%.*s\" with id %lld: the %s is taken (each token needs its own id)",
                    shown(token), token.p, (long long)id, slot->id >= 0 ? "token" : "id");
    enter(v, token, (size_t)id, hash, slot);
    return true;
}

bool vocab_append(struct vocab *v, struct sv token, struct error *e) {
    if (!fits(v, token, (int64_t)v->size, e)) return false;
    widen(v);
    uint32_t hash = vocab_hash(token);
    enter(v, token, v->size, hash, seek(v, token, hash));
    return true;
}

bool vocab_read(struct vocab *v, struct sv object, struct error *e) {
    struct jread j;
    jread_open(&j, object, "vocab", e);
    enum jtoken t = jread_next(&j);
    bool ok = t == J_OBJECT || fail(e, "key \"vocab\" is %s, not an object", jtoken_name(t));
    struct str token = {0}; // outlives the reader's next step
    while (ok && (t = jread_next(&j)) == J_KEY) {
        str_clear(&token);
        str_add(&token, j.text);
        t = jread_next(&j);
        if (t != J_INT && t != J_UINT)
            ok = fail(e, "vocab: the id of \"%.60s\" is %s, not a whole number", str_c(&token),
                      jtoken_name(t));
        else
            ok = vocab_add(v, str_sv(&token), t == J_INT ? j.i : INT64_MAX, e) ||
                 fail_in(e, "vocab");
    }
    jread_close(&j);
    str_free(&token);
    return ok && t == J_OBJECT_END;
}

void vocab_bytes(const struct vocab *v, int32_t byte[256]) {
    static const char hex[] = "0123456789ABCDEF";
    char name[] = "<0x00>";
    for (int i = 0; i < 256; i++) {
        name[3] = hex[i >> 4], name[4] = hex[i & 15];
        byte[i] = vocab_id(v, sv(name));
    }
}

void vocab_fetch(const struct vocab *v, uint32_t hash) {
    if (v->slots) __builtin_prefetch(&v->slot[hash & (v->slots - 1)]);
}

void vocab_fetch_text(const struct vocab *v, uint32_t hash) {
    if (v->slots && v->pool.p) __builtin_prefetch(v->pool.p + v->slot[hash & (v->slots - 1)].at);
}

int32_t vocab_find(const struct vocab *v, struct sv token, uint32_t hash) {
    return v->slots ? seek(v, token, hash)->id : -1;
}

int32_t vocab_id(const struct vocab *v, struct sv token) {
    return vocab_find(v, token, vocab_hash(token));
}

bool vocab_token(const struct vocab *v, int32_t id, struct sv *token) {
    if (id < 0 || (size_t)id >= v->size || v->entry[id].n == VOCAB_UNUSED) return false;
    *token = sv_n(v->pool.p + v->entry[id].at, v->entry[id].n);
    return true;
}
