// Dicts: pairs in order of insertion, found by walking while few, then by a hash index.
#include "chat/jinja/value.h"

#include <string.h>

enum { INDEX_FROM = 8 };

struct dict *dict_new(struct vm *vm) {
    return vm_alloc(vm, 1, sizeof(struct dict));
}

static uint64_t hash(struct vm *vm, struct value v) {
    spend(vm, 1);
    uint64_t h = (uint64_t)v.kind;
    if (v.kind == V_TEXT) return sv_hash(sv_of(v));
    if (is_number(v)) return hash_number(v) * 0x9e3779b97f4a7c15u;
    bool view = v.kind == V_VIEW && v.view->of != VIEW_VALUES;
    if (v.kind == V_LIST || v.kind == V_DICT || view)
        raise_error(vm, "unhashable type: '%s'", type_name(v));
    if (v.kind != V_TUPLE) return h;
    enter(vm);
    for (size_t i = 0; i < v.list->n; i++) h = h * 1000003 + hash(vm, v.list->at[i]);
    leave(vm);
    return h;
}

void check_hashable(struct vm *vm, struct value v) { hash(vm, v); }

static bool same_key(struct vm *vm, struct value a, struct value b) {
    if (a.kind == V_TEXT && b.kind == V_TEXT) return sv_eq(sv_of(a), sv_of(b));
    return equal(vm, a, b);
}

// The slot of the entry, or the free slot where it would go.
static uint32_t *seek(struct vm *vm, const struct dict *d, struct value key, uint64_t h) {
    size_t mask = d->n_slots - 1;
    for (size_t i = (size_t)(h ^ h >> 32) & mask;; i = (i + 1) & mask) {
        uint32_t *slot = &d->slot[i];
        if (!*slot || same_key(vm, d->at[*slot - 1].key, key)) return slot;
        spend(vm, 1);
    }
}

// The number of the entry, from 1; 0: there is none.
static size_t find(struct vm *vm, const struct dict *d, struct value key) {
    uint64_t h = hash(vm, key); // also refuses what can't be a key
    if (d->slot) return *seek(vm, d, key, h);
    for (size_t i = 0; i < d->n; i++)
        if (same_key(vm, d->at[i].key, key)) return i + 1;
    return 0;
}

static void reindex(struct vm *vm, struct dict *d) {
    d->n_slots = 4 * INDEX_FROM;
    while (d->n_slots < 2 * d->cap) d->n_slots *= 2;
    d->slot = vm_alloc(vm, d->n_slots, sizeof *d->slot);
    for (size_t i = 0; i < d->n; i++)
        *seek(vm, d, d->at[i].key, hash(vm, d->at[i].key)) = (uint32_t)(i + 1);
}

static void widen(struct vm *vm, struct dict *d) {
    size_t cap = d->cap * 2 + 4;
    struct pair *at = vm_alloc(vm, cap, sizeof *at);
    if (d->at) memcpy(at, d->at, d->n * sizeof *at);
    d->at = at;
    d->cap = cap;
    if (d->cap > INDEX_FROM) reindex(vm, d);
}

void dict_set(struct vm *vm, struct dict *d, struct value key, struct value v) {
    size_t old = find(vm, d, key);
    if (old) {
        d->at[old - 1].value = v;
        return;
    }
    if (d->n == d->cap) widen(vm, d);
    if (d->slot) *seek(vm, d, key, hash(vm, key)) = (uint32_t)(d->n + 1);
    d->at[d->n++] = (struct pair){key, v};
}

struct value dict_get(struct vm *vm, const struct dict *d, struct value key) {
    size_t i = find(vm, d, key);
    return i ? d->at[i - 1].value : (struct value){.kind = V_MISSING};
}

struct value dict_get_sv(struct vm *vm, const struct dict *d, struct sv key) {
    struct text t = {.p = key.p, .n = key.n};
    return dict_get(vm, d, (struct value){.kind = V_TEXT, .text = &t});
}

struct value dict_copy(struct vm *vm, const struct dict *d) {
    struct dict *copy = dict_new(vm);
    for (size_t i = 0; i < d->n; i++) dict_set(vm, copy, d->at[i].key, d->at[i].value);
    return (struct value){.kind = V_DICT, .dict = copy};
}
