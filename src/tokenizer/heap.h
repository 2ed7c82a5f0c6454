// The merges that a text offers, the best first: the least rank, then the leftmost.
#ifndef TOKENIZER_HEAP_H
#define TOKENIZER_HEAP_H

#include <stddef.h>
#include <stdint.h>

// A merge that was possible when it was pushed: of the symbol at `at` with the next, into `id`.
struct heap_item {
    int32_t rank, at, id;
};

struct heap {
    struct heap_item *item;
    size_t n, cap;
};

void heap_push(struct heap *h, struct heap_item item);
struct heap_item heap_pop(struct heap *h); // h must not be empty
void heap_free(struct heap *h);

#endif
