// Products of F8_E4M3 weights with few rows of x, read as published, for the vector files (vec.h).
// Sums are as in simd_matmul.h, of whose panels this is one that is never written.
#ifndef COMPUTE_CPU_SIMD_F8_H
#define COMPUTE_CPU_SIMD_F8_H

#include "compute/cpu/simd_matmul.h"

enum { F8_ROWS = 3 }; // for more, converting once is worth its memory

INLINE void f8_step(int wr, int xr, const vf left[TILE_W], const vf right[F8_ROWS],
                    vf acc[TILE_W][F8_ROWS]) {
    for (int a = 0; a < wr; a++)
        for (int b = 0; b < xr; b++) acc[a][b] = vf_fma(left[a], right[b], acc[a][b]);
}

// acc += the columns [i, end) of wr outputs from o on, which have one scale each
INLINE void f8_block(int wr, int xr, const struct matmul *m, int64_t o, int64_t r, int64_t i,
                     int64_t end, vf acc[TILE_W][F8_ROWS]) {
    const struct weight *w = m->w;
    const float *x = m->x + r * m->ldx;
    int64_t ld = w->data.stride[0], block = i / w->group;
    const uint8_t *data = (const uint8_t *)w->data.data + o * ld;
    vf scale[TILE_W], left[TILE_W], right[F8_ROWS];
    for (int a = 0; a < wr; a++) {
        int64_t row = (w->block_row + o + a) / w->block_rows;
        int64_t at = row * w->scales.stride[0] + block;
        scale[a] = vf_set(load_float(w->scales.data, w->scales.type, at));
    }
    for (; i + LANES <= end; i += LANES) {
        for (int a = 0; a < wr; a++) {
            left[a] = vf_mul(vf_from_e4m3(data + a * ld + i), scale[a]);
            if (i % 64 == 0) __builtin_prefetch(data + a * ld + i + FETCH_AHEAD);
        }
        for (int b = 0; b < xr; b++) right[b] = vf_load(x + b * m->ldx + i);
        f8_step(wr, xr, left, right, acc);
    }
    if (i == end) return;
    for (int a = 0; a < wr; a++) {
        uint8_t rest[LANES] = {0};
        memcpy(rest, data + a * ld + i, (size_t)(end - i));
        left[a] = vf_mul(vf_from_e4m3(rest), scale[a]);
    }
    for (int b = 0; b < xr; b++) right[b] = vf_load_n(x + b * m->ldx + i, end - i);
    f8_step(wr, xr, left, right, acc);
}

INLINE void f8_outputs(int wr, int xr, const struct matmul *m, int64_t o, int64_t r) {
    const struct weight *w = m->w;
    for (int64_t from = 0; from < w->in; from += MATMUL_CHUNK) {
        int64_t end = w->in - from < MATMUL_CHUNK ? w->in : from + MATMUL_CHUNK;
        vf acc[TILE_W][F8_ROWS];
        for (int a = 0; a < wr; a++)
            for (int b = 0; b < xr; b++) acc[a][b] = vf_zero();
        for (int64_t i = from, next; i < end; i = next) {
            next = (i / w->group + 1) * w->group;
            next = next < end ? next : end;
            f8_block(wr, xr, m, o, r, i, next, acc);
        }
        for (int b = 0; b < xr; b++) {
            float *y = m->y + (r + b) * m->ldy + o;
            for (int a = 0; a < wr; a++) {
                float start = w->bias.dims ? ((const float *)w->bias.data)[o + a] : 0;
                y[a] = (from ? y[a] : start) + vf_sum(acc[a][b]);
            }
        }
    }
}

INLINE void f8_rows(int wr, int xr, const struct matmul *m, int64_t o, int64_t r) {
    if (xr == 1) f8_outputs(wr, 1, m, o, r);
    if (xr == 2) f8_outputs(wr, 2, m, o, r);
    if (xr == 3) f8_outputs(wr, 3, m, o, r);
}

// Whether matmul_f8 has the tile: a block is a whole number of vectors, or a row's only one.
static bool f8_direct(const struct matmul *m, const struct tile *t) {
    const struct weight *w = m->w;
    return w->layout == WEIGHT_F8 && t->r1 - t->r0 <= F8_ROWS &&
           (w->group % LANES == 0 || w->group >= w->in);
}

static void matmul_f8(const struct matmul *m, const struct tile *t) {
    int xr = (int)(t->r1 - t->r0);
    int64_t o = t->o0;
    for (; o + TILE_W <= t->o1; o += TILE_W) f8_rows(TILE_W, xr, m, o, t->r0);
    for (; o < t->o1; o++) f8_rows(1, xr, m, o, t->r0);
}

#endif
