// Products of F8_E4M3 weights with few rows of x, read as published, for the vector files (vec.h).
// Sums are as in simd_matmul.h, of whose panels this is one that is never written.
#ifndef COMPUTE_CPU_SIMD_F8_H
#define COMPUTE_CPU_SIMD_F8_H

#include "compute/cpu/simd_matmul.h"

enum { F8_ROWS = 3 };            // for more, converting once is worth its memory
enum { F8_COLUMNS = 2 * LANES }; // that are converted at a time

// Some outputs' weights and rows of x.
struct f8 {
    const struct weight *w;
    const uint8_t *data; // the outputs' rows begin here, w->data.stride[0] bytes apart
    int64_t o;           // the first one
    const float *x;
    int64_t ldx;
};

INLINE void f8_step(int wr, int xr, const struct f8 *f, int64_t i, int64_t n, const vf left[TILE_W],
                    vf acc[TILE_W][F8_ROWS]) {
    for (int b = 0; b < xr; b++) {
        const float *x = f->x + b * f->ldx + i;
        vf right = n < LANES ? vf_load_n(x, n) : vf_load(x);
        for (int a = 0; a < wr; a++) acc[a][b] = vf_fma(left[a], right, acc[a][b]);
    }
}

// As load_float, which is no inline function: MXFP8 has a scale for each 32 columns.
INLINE float f8_scale(const struct tensor *t, int64_t at) {
    uint32_t bits = t->type == DT_F8_E8M0 ? ((const uint8_t *)t->data)[at] : 0;
    if (bits == 0 || bits == 255) return load_float(t->data, t->type, at);
    bits <<= 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

// acc += the columns [i, end) of wr outputs, which have one scale each. 256 times a scale is exact,
// up to 2^119.
INLINE void f8_block(int wr, int xr, const struct f8 *f, int64_t i, int64_t end,
                     vf acc[TILE_W][F8_ROWS]) {
    const struct weight *w = f->w;
    int64_t ld = w->data.stride[0], turn = w->in - FETCH_AHEAD, block = i / w->group;
    vf scale[TILE_W], left[2][TILE_W], two[2];
    for (int a = 0; a < wr; a++) {
        int64_t row = (w->block_row + f->o + a) / w->block_rows;
        scale[a] = vf_set(f8_scale(&w->scales, row * w->scales.stride[0] + block) * 256);
    }
    for (; i + F8_COLUMNS <= end; i += F8_COLUMNS) {
        int64_t ahead = i < turn ? i + FETCH_AHEAD : i - turn + wr * ld;
        for (int a = 0; a < wr; a++) {
            const uint8_t *data = f->data + a * ld;
            vf_from_e4m3_two(data + i, two);
            __builtin_prefetch(data + ahead);
            for (int k = 0; k < 2; k++) left[k][a] = vf_mul(two[k], scale[a]);
        }
        for (int k = 0; k < 2; k++) f8_step(wr, xr, f, i + k * LANES, LANES, left[k], acc);
    }
    if (i == end) return;
    for (int a = 0; a < wr; a++) {
        uint8_t rest[F8_COLUMNS] = {0};
        memcpy(rest, f->data + a * ld + i, (size_t)(end - i));
        vf_from_e4m3_two(rest, two);
        for (int k = 0; k < 2; k++) left[k][a] = vf_mul(two[k], scale[a]);
    }
    f8_step(wr, xr, f, i, end - i, left[0], acc);
    if (end - i > LANES) f8_step(wr, xr, f, i + LANES, end - i - LANES, left[1], acc);
}

INLINE void f8_outputs(int wr, int xr, const struct matmul *m, int64_t o, int64_t r) {
    const struct weight *w = m->w;
    struct f8 f = {w, .o = o, .x = m->x + r * m->ldx, .ldx = m->ldx};
    f.data = (const uint8_t *)w->data.data + o * w->data.stride[0];
    for (int64_t from = 0; from < w->in; from += MATMUL_CHUNK) {
        int64_t end = w->in - from < MATMUL_CHUNK ? w->in : from + MATMUL_CHUNK;
        vf acc[TILE_W][F8_ROWS];
        for (int a = 0; a < wr; a++)
            for (int b = 0; b < xr; b++) acc[a][b] = vf_zero();
        for (int64_t i = from, next; i < end; i = next) {
            next = (i / w->group + 1) * w->group;
            next = next < end ? next : end;
            f8_block(wr, xr, &f, i, next, acc);
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
