#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { BLOCK = 1 << 16 };

struct arena_block {
    struct arena_block *next;
    size_t used, cap;
    alignas(max_align_t) unsigned char bytes[];
};

// A thing larger than a quarter of a block gets a block of its own, put behind the current one so
// that the rest of that is not lost.
static struct arena_block *add_block(struct arena *a, size_t size) {
    size_t cap = size > BLOCK / 4 ? size : BLOCK, total;
    if (!size_add(cap, sizeof(struct arena_block), &total)) total = SIZE_MAX;
    struct arena_block *b = mem_alloc(total);
    b->cap = cap;
    if (a->block && cap == size) {
        b->next = a->block->next;
        a->block->next = b;
    } else {
        b->next = a->block;
        a->block = b;
    }
    return b;
}

void *arena_alloc(struct arena *a, size_t size) {
    size_t unit = alignof(max_align_t);
    if (size <= SIZE_MAX - unit) size = (size + unit - 1) / unit * unit;
    if (size == 0) size = unit;
    struct arena_block *b = a->block;
    if (!b || b->cap - b->used < size) b = add_block(a, size);
    void *p = b->bytes + b->used;
    b->used += size;
    a->used += size;
    return p;
}

void arena_free(struct arena *a) {
    for (struct arena_block *b = a->block, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    *a = (struct arena){0};
}
