#include "tokenizer/vocab.h"

#include <stdlib.h>

#include "base/mem.h"

void vocab_free(struct vocab *v) {
    str_free(&v->pool);
    free(v->entry);
    free(v->slot);
    *v = (struct vocab){0};
}

static struct sv text_of(const struct vocab *v, int32_t id) {
    return sv_n(v->pool.p + v->entry[id].at, v->entry[id].n);
}

// The slot that holds the token, or the free one where it would go.
static int32_t *seek(const struct vocab *v, struct sv token) {
    for (size_t i = sv_hash(token) & (v->slots - 1);; i = (i + 1) & (v->slots - 1))
        if (v->slot[i] < 0 || sv_eq(text_of(v, v->slot[i]), token)) return &v->slot[i];
}

static void widen(struct vocab *v) {
    if (v->n * 2 < v->slots) return;
    free(v->slot);
    v->slots = v->slots ? v->slots * 2 : 1024;
    v->slot = mem_array(v->slots, sizeof *v->slot);
    for (size_t i = 0; i < v->slots; i++) v->slot[i] = -1;
    for (size_t id = 0; id < v->size; id++)
        if (v->entry[id].used) *seek(v, text_of(v, (int32_t)id)) = (int32_t)id;
}

static int shown(struct sv token) { return token.n < 60 ? (int)token.n : 60; }

bool vocab_add(struct vocab *v, struct sv token, int64_t id, struct error *e) {
    if (id < 0 || id >= VOCAB_LIMIT)
        return fail(e, "token \"%.*s\" has id %lld, outside 0 to %d", shown(token), token.p,
                    (long long)id, VOCAB_LIMIT - 1);
    if (token.n > UINT32_MAX) return fail(e, "a token of %zu bytes is too long", token.n);
    widen(v);
    if ((size_t)id >= v->size) {
        size_t old = v->cap;
        v->entry = mem_grow(v->entry, &v->cap, (size_t)id + 1, sizeof *v->entry);
        for (size_t i = old; i < v->cap; i++) v->entry[i] = (struct vocab_entry){0};
        v->size = (size_t)id + 1;
    }
    int32_t *slot = seek(v, token);
    if (v->entry[id].used || *slot >= 0)
        return fail(e, "token \"%.*s\" with id %lld: the %s is taken (each token needs its own id)",
                    shown(token), token.p, (long long)id, *slot >= 0 ? "token" : "id");
    v->entry[id] = (struct vocab_entry){v->pool.n, (uint32_t)token.n, true};
    str_add(&v->pool, token);
    *slot = (int32_t)id;
    v->n++;
    return true;
}

bool vocab_read(struct vocab *v, struct json_object *object, struct error *e) {
    json_object_object_foreach(object, key, id) {
        if (!json_object_is_type(id, json_type_int))
            return fail(e, "vocab: the id of \"%.60s\" is %.60s, not a whole number", key,
                        json_object_to_json_string(id));
        if (!vocab_add(v, sv(key), json_object_get_int64(id), e)) return fail_in(e, "vocab");
    }
    return true;
}

int32_t vocab_id(const struct vocab *v, struct sv token) { return v->slots ? *seek(v, token) : -1; }

bool vocab_token(const struct vocab *v, int32_t id, struct sv *token) {
    if (id < 0 || (size_t)id >= v->size || !v->entry[id].used) return false;
    *token = text_of(v, id);
    return true;
}
