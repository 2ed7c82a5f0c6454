#include "tokenizer/heap.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"

static bool sooner(struct heap_item a, struct heap_item b) {
    return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
}

void heap_push(struct heap *h, struct heap_item item) {
    h->item = mem_grow(h->item, &h->cap, h->n + 1, sizeof *h->item);
    size_t i = h->n++;
    for (; i > 0 && sooner(item, h->item[(i - 1) / 2]); i = (i - 1) / 2)
        h->item[i] = h->item[(i - 1) / 2];
    h->item[i] = item;
}

struct heap_item heap_pop(struct heap *h) {
    struct heap_item top = h->item[0], last = h->item[--h->n];
    size_t i = 0;
    for (size_t kid; (kid = 2 * i + 1) < h->n; i = kid) {
        if (kid + 1 < h->n && sooner(h->item[kid + 1], h->item[kid])) kid++;
        if (!sooner(h->item[kid], last)) break;
        h->item[i] = h->item[kid];
    }
    h->item[i] = last;
    return top;
}

void heap_free(struct heap *h) {
    free(h->item);
    *h = (struct heap){0};
}
