// Whether all scales are numbers. One that is not makes every logit NaN, and from those nobody
// could tell what is wrong with the files. They are few beside the codes, and are looked at once
// the files are in memory, in pieces spread over threads.
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/pool.h"
#include "checkpoint/weights_internal.h"

enum { PIECE = 1 << 20 }; // elements

struct piece {
    const struct weights_item *item;
    int64_t from, n;
    bool bad;
};

// The bits of a scale's size (without its sign), and the least of them that are none: a NaN, an
// infinity or, where they go that far, 2^119, which makes 8-bit codes so large that sums of them
// overflow. Of floats without an infinity, their NaN.
static bool bits_of(enum dtype type, uint32_t *size, uint32_t *most) {
    static const struct {
        enum dtype type;
        uint32_t size, most;
    } all[] = {{DT_F32, 0x7fffffff, 0x7b000000},
               {DT_BF16, 0x7fff, 0x7b00},
               {DT_F16, 0x7fff, 0x7c00},
               {DT_F8_E8M0, 0xff, 0xf6},
               {DT_F8_E4M3, 0x7f, 0x7f}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].type != type) continue;
        *size = all[i].size;
        *most = all[i].most;
        return true;
    }
    return false;
}

static bool any_8(const uint8_t *p, int64_t n, uint8_t size, uint8_t most) {
    uint8_t bad = 0;
    for (int64_t i = 0; i < n; i++) bad |= (uint8_t)((p[i] & size) >= most);
    return bad;
}

static bool any_16(const uint16_t *p, int64_t n, uint16_t size, uint16_t most) {
    uint16_t bad = 0;
    for (int64_t i = 0; i < n; i++) bad |= (uint16_t)((p[i] & size) >= most);
    return bad;
}

static bool any_32(const uint32_t *p, int64_t n, uint32_t size, uint32_t most) {
    uint32_t bad = 0;
    for (int64_t i = 0; i < n; i++) bad |= (p[i] & size) >= most;
    return bad;
}

static bool any(const struct weights_item *it, int64_t from, int64_t n) {
    const void *p = it->t.t.data;
    uint32_t size = 0, most = 0;
    bits_of(it->as, &size, &most);
    switch (dtype_size(it->as)) {
    case 1: return any_8((const uint8_t *)p + from, n, (uint8_t)size, (uint8_t)most);
    case 2: return any_16((const uint16_t *)p + from, n, (uint16_t)size, (uint16_t)most);
    default: return any_32((const uint32_t *)p + from, n, size, most);
    }
}

static void look(void *arg, int task, int thread) {
    (void)thread;
    struct piece *p = (struct piece *)arg + task;
    p->bad = any(p->item, p->from, p->n);
}

static struct piece *cut(const struct weights *w, bool many, size_t *n) {
    struct piece *all = NULL;
    size_t cap = 0;
    uint32_t size, most;
    for (size_t i = 0; i < w->n; i++) {
        const struct weights_item *it = &w->item[i];
        if (!it->describes || (it->many && !many) || !bits_of(it->as, &size, &most)) continue;
        int64_t count = tensor_count(it->t.t);
        for (int64_t at = 0; at < count; at += PIECE) {
            all = mem_grow(all, &cap, *n + 1, sizeof *all);
            all[(*n)++] = (struct piece){it, at, count - at < PIECE ? count - at : PIECE, false};
        }
    }
    return all;
}

static bool refuse(const struct weights *w, const struct piece *p, struct error *e) {
    int64_t i = p->from;
    while (!any(p->item, i, 1)) i++;
    char wanted[120];
    snprintf(wanted, sizeof wanted,
             "its element %lld is %g, and what that scales is no number "
             "(download the file again)",
             (long long)i, (double)load_float(p->item->t.t.data, p->item->as, i));
    return weights_mismatch(e, w, p->item, wanted);
}

bool weights_check_scales(const struct weights *w, bool many, struct error *e) {
    size_t n = 0;
    struct piece *all = cut(w, many, &n);
    struct error none = {0};
    struct pool *pool = n > 1 ? pool_open(&(struct pool_options){0}, &none) : NULL;
    if (pool) pool_run(pool, (int)n, look, all);
    for (size_t i = 0; i < n && !e->set; i++) {
        if (!pool) look(all, (int)i, 0);
        if (all[i].bad) refuse(w, &all[i], e);
    }
    pool_close(pool);
    free(all);
    return !e->set;
}
