#include "checkpoint/store.h"

#include <stdlib.h>

#include "base/mem.h"

void store_open(struct store *s, struct device *dev) { *s = (struct store){.dev = dev}; }

void store_close(struct store *s) {
    for (size_t i = 0; i < s->blocks; i++) device_free(s->dev, s->block[i]);
    free(s->block);
    free(s->copy);
    *s = (struct store){0};
}

// From its first element to its last.
static size_t span(struct tensor t) {
    if (tensor_count(t) == 0) return 0;
    int64_t last = 0;
    for (int d = 0; d < t.dims; d++) last += (t.n[d] - 1) * t.stride[d];
    return (size_t)(last + 1) * dtype_size(t.type);
}

// The copy that holds these host bytes; views follow soon after what they view.
static const struct store_copy *holding(const struct store *s, const char *p, size_t size) {
    for (size_t i = s->n; i-- > 0;) {
        const struct store_copy *c = &s->copy[i];
        if (p >= c->from && size <= c->size && (size_t)(p - c->from) <= c->size - size) return c;
    }
    return NULL;
}

static void *take_block(struct store *s, size_t size, const char *what, struct error *e) {
    void *p = device_alloc(s->dev, size, what, e);
    if (!p) return NULL;
    s->block = mem_grow(s->block, &s->block_cap, s->blocks + 1, sizeof *s->block);
    return s->block[s->blocks++] = p;
}

// Devices round what they allocate, CUDA to 2 MiB: copies that are not large against that share
// blocks, so that what a model needs is what its tensors have.
static char *take_room(struct store *s, size_t size, const char *what, struct error *e) {
    enum { ALIGN = 256, OWN = 16 << 20, BLOCK = 64 << 20 };
    if (size >= OWN) return take_block(s, size, what, e);
    size = ((size ? size : 1) + ALIGN - 1) / ALIGN * ALIGN;
    if (size > s->left) {
        s->room = take_block(s, BLOCK, what, e);
        s->left = s->room ? BLOCK : 0;
    }
    char *p = s->room;
    if (!p) return NULL;
    s->room += size;
    s->left -= size;
    return p;
}

// In steps that show on a terminal.
static void load(struct store *s, char *to, const char *from, size_t size) {
    enum { STEP = 256 << 20 };
    for (size_t at = 0, n; at < size; at += n) {
        n = size - at < STEP ? size - at : STEP;
        device_load(s->dev, to + at, from + at, n);
        s->bytes += n;
        if (s->progress)
            s->progress(s->progress_arg, s->bytes < s->total ? s->bytes : s->total, s->total);
    }
}

static const struct store_copy *take_copy(struct store *s, const void *from, size_t size,
                                          const char *what, struct error *e) {
    char *p = take_room(s, size, what, e);
    if (!p) return NULL;
    s->copy = mem_grow(s->copy, &s->cap, s->n + 1, sizeof *s->copy);
    s->copy[s->n++] = (struct store_copy){from, p, size};
    load(s, p, from, size);
    return &s->copy[s->n - 1];
}

bool store_tensor(struct store *s, struct tensor *t, const char *what, struct error *e) {
    if (s->dev->host) return true;
    size_t size = span(*t);
    const struct store_copy *c = holding(s, t->data, size);
    if (!c) c = take_copy(s, t->data, size, what, e);
    if (!c) return false;
    t->data = c->to + ((const char *)t->data - c->from);
    return true;
}

bool store_weight(struct store *s, struct weight *w, const char *what, struct error *e) {
    if (w->layout == WEIGHT_NONE) return true;
    if (!store_tensor(s, &w->data, what, e)) return false;
    if (w->scales.dims && !store_tensor(s, &w->scales, what, e)) return false;
    if (w->biases.dims && !store_tensor(s, &w->biases, what, e)) return false;
    if (w->order.dims && !store_tensor(s, &w->order, what, e)) return false;
    return !w->bias.dims || store_tensor(s, &w->bias, what, e);
}

bool store_list(struct store *s, struct weight *w, int64_t n, const struct weight **out,
                const char *what, struct error *e) {
    for (int64_t i = 0; i < n; i++)
        if (!store_weight(s, &w[i], what, e)) return false;
    *out = w;
    if (s->dev->host) return true;
    const struct store_copy *c = take_copy(s, w, (size_t)n * sizeof *w, what, e);
    if (!c) return false;
    *out = (const struct weight *)(const void *)c->to;
    return true;
}
