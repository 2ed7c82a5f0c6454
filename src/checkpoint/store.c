#include "checkpoint/store.h"

#include <stdlib.h>

#include "base/mem.h"

void store_open(struct store *s, struct device *dev) { *s = (struct store){.dev = dev}; }

void store_close(struct store *s) {
    for (size_t i = 0; i < s->n; i++) device_free(s->dev, s->owned[i]);
    free(s->owned);
    *s = (struct store){0};
}

bool store_tensor(struct store *s, struct tensor *t, const char *what, struct error *e) {
    if (s->dev->host) return true;
    size_t size = tensor_bytes(*t);
    void *p = device_alloc(s->dev, size, what, e);
    if (!p) return false;
    s->owned = mem_grow(s->owned, &s->cap, s->n + 1, sizeof *s->owned);
    s->owned[s->n++] = p;
    s->bytes += size;
    device_upload(s->dev, p, t->data, size);
    t->data = p;
    return true;
}

bool store_weight(struct store *s, struct weight *w, const char *what, struct error *e) {
    if (w->layout == WEIGHT_NONE) return true;
    if (!store_tensor(s, &w->data, what, e)) return false;
    if (w->layout == WEIGHT_AFFINE &&
        (!store_tensor(s, &w->scales, what, e) || !store_tensor(s, &w->biases, what, e)))
        return false;
    return !w->bias.dims || store_tensor(s, &w->bias, what, e);
}
