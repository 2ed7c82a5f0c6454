#include "base/map.h"

#include <stdlib.h>

#include "base/mem.h"

struct map_slot {
    char *key; // NULL: free
    size_t n;
    uint64_t hash;
    int64_t value;
};

void map_free(struct map *m) {
    for (size_t i = 0; i < m->cap; i++) free(m->slot[i].key);
    free(m->slot);
    *m = (struct map){0};
}

// The slot that holds key, or the free one where it would go.
static struct map_slot *seek(const struct map *m, struct sv key, uint64_t hash) {
    for (size_t i = hash & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
        struct map_slot *s = &m->slot[i];
        if (!s->key || (s->hash == hash && sv_eq(sv_n(s->key, s->n), key))) return s;
    }
}

static void widen(struct map *m) {
    if (m->n * 3 < m->cap * 2) return;
    struct map old = *m;
    m->cap = old.cap ? old.cap * 2 : 16;
    m->slot = mem_array(m->cap, sizeof *m->slot);
    for (size_t i = 0; i < old.cap; i++)
        if (old.slot[i].key)
            *seek(m, sv_n(old.slot[i].key, old.slot[i].n), old.slot[i].hash) = old.slot[i];
    free(old.slot);
}

static struct map_slot *enter(struct map *m, struct sv key, bool *fresh) {
    widen(m);
    uint64_t hash = sv_hash(key);
    struct map_slot *s = seek(m, key, hash);
    *fresh = !s->key;
    if (*fresh) {
        *s = (struct map_slot){.key = mem_textn(key.p, key.n), .n = key.n, .hash = hash};
        m->n++;
    }
    return s;
}

bool map_put(struct map *m, struct sv key, int64_t value) {
    bool fresh;
    struct map_slot *s = enter(m, key, &fresh);
    if (fresh) s->value = value;
    return fresh;
}

void map_set(struct map *m, struct sv key, int64_t value) {
    bool fresh;
    enter(m, key, &fresh)->value = value;
}

int64_t map_get(const struct map *m, struct sv key) {
    if (!m->cap) return -1;
    const struct map_slot *s = seek(m, key, sv_hash(key));
    return s->key ? s->value : -1;
}
