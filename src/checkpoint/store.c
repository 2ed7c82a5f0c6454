#include "checkpoint/store.h"

#include <stdlib.h>

#include "base/mem.h"

void store_open(struct store *s, struct device *dev) { *s = (struct store){.dev = dev}; }

void store_close(struct store *s) {
    for (size_t i = 0; i < s->n; i++) device_free(s->dev, s->owned[i]);
    free(s->owned);
    *s = (struct store){0};
}

static void *own(struct store *s, size_t size, const char *what, struct error *e) {
    void *p = device_alloc(s->dev, size, what, e);
    if (!p) return NULL;
    s->owned = mem_grow(s->owned, &s->cap, s->n + 1, sizeof *s->owned);
    s->owned[s->n++] = p;
    s->bytes += size;
    return p;
}

bool store_tensor(struct store *s, struct tensor *t, const char *what, struct error *e) {
    if (s->dev->host) return true;
    size_t size = tensor_bytes(*t);
    void *p = own(s, size, what, e);
    if (!p) return false;
    device_upload(s->dev, p, t->data, size);
    t->data = p;
    return true;
}

// Rows [from, from + n) of the transpose of t [in, out], which may be a band of columns.
static void turn(void *to, struct tensor t, int64_t from, int64_t n) {
    int64_t in = t.n[0], ld = t.stride[0];
    for (int64_t i = 0; i < in; i++)
        for (int64_t o = 0; o < n; o++)
            if (t.type == DT_F32)
                ((uint32_t *)to)[o * in + i] = ((const uint32_t *)t.data)[i * ld + from + o];
            else
                ((uint16_t *)to)[o * in + i] = ((const uint16_t *)t.data)[i * ld + from + o];
}

// A band of rows at a time, so that host memory for one is all it takes.
static bool store_turned(struct store *s, struct weight *w, const char *what, struct error *e) {
    enum { BAND = 64 };
    struct tensor t = tensor_2d(w->data.type, w->out, w->in, NULL);
    t.data = own(s, tensor_bytes(t), what, e);
    if (!t.data) return false;
    size_t row = (size_t)w->in * dtype_size(t.type);
    void *band = mem_array(BAND, row);
    for (int64_t from = 0; from < w->out; from += BAND) {
        int64_t n = w->out - from < BAND ? w->out - from : BAND;
        turn(band, w->data, from, n);
        device_upload(s->dev, (char *)t.data + (size_t)from * row, band, (size_t)n * row);
    }
    free(band);
    w->data = t;
    w->transposed = false;
    return true;
}

bool store_weight(struct store *s, struct weight *w, const char *what, struct error *e) {
    if (w->layout == WEIGHT_NONE) return true;
    if (w->transposed) {
        if (!store_turned(s, w, what, e)) return false;
    } else if (!store_tensor(s, &w->data, what, e)) {
        return false;
    }
    if (w->layout == WEIGHT_AFFINE &&
        (!store_tensor(s, &w->scales, what, e) || !store_tensor(s, &w->biases, what, e)))
        return false;
    return !w->bias.dims || store_tensor(s, &w->bias, what, e);
}
