#include "grammar/chars.h"

#include <stdlib.h>

#include "base/mem.h"

void chars_free(struct chars *c) {
    free(c->range);
    *c = (struct chars){0};
}

void chars_add(struct chars *c, uint32_t lo, uint32_t hi) {
    c->range = mem_grow(c->range, &c->cap, c->n + 1, sizeof *c->range);
    c->range[c->n++] = (struct char_range){lo, hi};
}

static int by_low(const void *a, const void *b) {
    const struct char_range *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

static void invert(struct chars *c) {
    struct chars others = {0};
    uint32_t next = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (c->range[i].lo > next) chars_add(&others, next, c->range[i].lo - 1);
        next = c->range[i].hi + 1;
    }
    if (next <= CHAR_LAST) chars_add(&others, next, CHAR_LAST);
    chars_free(c);
    *c = others;
}

void chars_tidy(struct chars *c, bool not ) {
    size_t kept = 0;
    if (c->n > 1) qsort(c->range, c->n, sizeof *c->range, by_low);
    for (size_t i = 0; i < c->n; i++) {
        struct char_range r = c->range[i];
        if (kept && r.lo <= c->range[kept - 1].hi + 1) {
            if (r.hi > c->range[kept - 1].hi) c->range[kept - 1].hi = r.hi;
        } else {
            c->range[kept++] = r;
        }
    }
    c->n = kept;
    if (not ) invert(c);
}
