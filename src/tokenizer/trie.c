#include "tokenizer/trie.h"

#include <stdlib.h>

#include "base/mem.h"

enum { NODES_LIMIT = 1 << 24 }; // so that an edge fits 32 bits

static void enter(struct trie *t, uint32_t edge, int32_t child) {
    size_t i = trie_hash(edge) & (t->slots - 1);
    while (t->slot[i].child) i = (i + 1) & (t->slots - 1);
    t->slot[i] = (struct trie_slot){edge, child};
}

static void widen(struct trie *t) {
    if (t->nodes * 2 < t->slots) return;
    struct trie old = *t;
    t->slots = old.slots ? old.slots * 2 : 1024;
    t->slot = mem_array(t->slots, sizeof *t->slot);
    for (size_t i = 0; i < old.slots; i++)
        if (old.slot[i].child) enter(t, old.slot[i].edge, old.slot[i].child);
    free(old.slot);
}

static int32_t new_node(struct trie *t) {
    t->value = mem_grow(t->value, &t->cap, t->nodes + 1, sizeof *t->value);
    t->value[t->nodes] = -1;
    return (int32_t)t->nodes++;
}

bool trie_put(struct trie *t, struct sv key, int32_t value, struct error *e) {
    if (!t->nodes) widen(t), new_node(t);
    int32_t at = 0;
    for (size_t i = 0; i < key.n; i++) {
        unsigned char byte = (unsigned char)key.p[i];
        int32_t next = trie_step(t, at, byte);
        if (!next) {
            if (t->nodes == NODES_LIMIT) return fail(e, "the tokens together are too long");
            next = new_node(t);
            if (at == 0) {
                t->root[byte] = next;
            } else {
                widen(t);
                enter(t, (uint32_t)at << 8 | byte, next);
            }
        }
        at = next;
    }
    t->value[at] = value;
    return true;
}

void trie_free(struct trie *t) {
    free(t->slot);
    free(t->value);
    *t = (struct trie){0};
}

int32_t trie_walk(const struct trie *t, int32_t node, struct sv text) {
    for (size_t i = 0; i < text.n; i++) {
        node = trie_step(t, node, (unsigned char)text.p[i]);
        if (!node) return -1;
    }
    return node;
}
