// A tree of byte strings with a number at each: finds every token that begins at a place in a text
// in one walk.
#ifndef TOKENIZER_TRIE_H
#define TOKENIZER_TRIE_H

#include "base/error.h"
#include "base/str.h"

struct trie_slot {
    uint32_t edge; // parent << 8 | byte
    int32_t child; // 0: free
};

// Node 0 is the root.
struct trie {
    struct trie_slot *slot; // [slots] hash table of edges
    size_t slots;
    int32_t *value; // [nodes] -1: no string ends here
    size_t nodes, cap;
    int32_t root[256]; // the root's children, 0: none
};

// Sets the number of a string, which replaces an earlier one. Fails when the tree grows too large.
bool trie_put(struct trie *t, struct sv key, int32_t value, struct error *e);
void trie_free(struct trie *t);
// The node that `text` leads to from `node`, -1: none.
int32_t trie_walk(const struct trie *t, int32_t node, struct sv text);

static inline uint32_t trie_hash(uint32_t edge) {
    uint64_t h = edge * 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 32);
}

// The child of a node, 0: none.
static inline int32_t trie_step(const struct trie *t, int32_t node, unsigned char byte) {
    if (node == 0) return t->root[byte];
    uint32_t edge = (uint32_t)node << 8 | byte;
    for (size_t i = trie_hash(edge) & (t->slots - 1);; i = (i + 1) & (t->slots - 1)) {
        const struct trie_slot *s = &t->slot[i];
        if (s->edge == edge || !s->child) return s->child;
    }
}

#endif
