// The cache: how keys and values stand in a page, and their way in.
#include <string.h>

#include "compute/cpu/cpu.h"

struct kept cpu_kept(const struct kv *kv, int64_t page, int64_t head, int64_t slot, bool keys) {
    bool rows = !keys || !keys_across(kv), own = keys || kv->v.n[3] > 0;
    struct tensor t = own && !keys ? kv->v : kv->k;
    struct tensor scale = own && !keys ? kv->v_scale : kv->k_scale;
    int64_t at = page * t.n[1] + head, width = t.n[3], blocks = kv_blocks(width);
    int64_t element = at * t.n[2] * width + (rows ? slot * width : slot);
    struct kept k = {.p = (char *)t.data + (size_t)element * dtype_size(t.type)};
    if (t.type == DT_I8)
        k.scale = (uint16_t *)scale.data + at * t.n[2] * blocks + (rows ? slot * blocks : slot);
    return k;
}

struct write_job {
    const struct cpu_kernels *kernels;
    const struct kv *kv;
    const struct rows *rows;
    struct tensor k, v;
};

// Elements of `size` bytes to every `step`th place.
static void scatter(char *to, const char *from, int64_t n, size_t size, int64_t step) {
    if (size == 1)
        for (int64_t i = 0; i < n; i++) to[i * step] = from[i];
    else if (size == 2)
        for (int64_t i = 0; i < n; i++) memcpy(to + 2 * i * step, from + 2 * i, 2);
    else
        for (int64_t i = 0; i < n; i++) memcpy(to + 4 * i * step, from + 4 * i, 4);
}

// Where a head's row stands across, it goes through `part`, a few elements at a time.
static void write_row(const struct cpu_kernels *kernels, struct kept to, enum dtype type,
                      const float *x, int64_t width, int64_t step) {
    enum { PART = 8 * KV_BLOCK };
    char part[PART * sizeof(float)];
    uint16_t scale[PART / KV_BLOCK];
    size_t size = dtype_size(type);
    if (step == 1 && type == DT_I8) keep_row((int8_t *)to.p, to.scale, x, width);
    if (step == 1 && type != DT_I8) kernels->convert(to.p, type, x, width);
    for (int64_t i = 0; i < width && step > 1; i += PART) {
        int64_t n = width - i < PART ? width - i : PART;
        if (type == DT_I8)
            keep_row((int8_t *)part, scale, x + i, n);
        else
            kernels->convert(part, type, x + i, n);
        scatter(to.p + (size_t)(i * step) * size, part, n, size, step);
        for (int64_t b = 0; b < kv_blocks(n) && type == DT_I8; b++)
            to.scale[(i / KV_BLOCK + b) * step] = scale[b];
    }
}

static void kv_write_row(void *arg, int64_t row) {
    struct write_job *j = arg;
    const struct kv *kv = j->kv;
    int64_t seq = ((const int32_t *)j->rows->seq.data)[row];
    int64_t index = ((const int32_t *)j->rows->index.data)[row], size = kv->k.n[2];
    int64_t page = ((const int32_t *)kv->table.data)[seq * kv->table.n[1] + index / size];
    const float *k = (const float *)j->k.data + row * j->k.stride[0];
    const float *v = j->v.dims ? (const float *)j->v.data + row * j->v.stride[0] : NULL;
    int64_t step = keys_across(kv) ? size : 1;
    for (int64_t h = 0; h < kv->k.n[1]; h++) {
        write_row(j->kernels, cpu_kept(kv, page, h, index % size, true), kv->k.type,
                  k + h * kv->k.n[3], kv->k.n[3], step);
        if (v)
            write_row(j->kernels, cpu_kept(kv, page, h, index % size, false), kv->v.type,
                      v + h * kv->v.n[3], kv->v.n[3], 1);
    }
}

void cpu_kv_write(struct context *c, const struct kv *kv, const struct rows *rows, struct tensor k,
                  struct tensor v) {
    struct write_job j = {c->dev->kernels, kv, rows, k, v};
    cpu_rows(c, rows->n, 2 * k.n[1] * (k.n[2] + kv->v.n[3]), kv_write_row, &j);
}
