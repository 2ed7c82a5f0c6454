// Products in f32, for the vector files (vec.h).
//
// Lane l of an output's accumulator takes the columns l, l + LANES, ... of a chunk of MATMUL_CHUNK
// columns; the lanes are added up at the end of the chunk, and the chunks in order. So an output's
// bits do not depend on the tile that it was computed in.
#ifndef COMPUTE_CPU_SIMD_MATMUL_H
#define COMPUTE_CPU_SIMD_MATMUL_H

#include "compute/cpu/simd_rows.h"

// Outputs and rows that are computed together: what the registers hold.
enum { TILE_W = 4, TILE_X = REGISTERS == 32 ? 6 : 3 };

// Dense weights of few rows are read as published, four rows side by side, each fetched so many
// bytes ahead: one after the other has too few reads in flight. For more rows than DIRECT_ROWS, and
// of other weights, a panel of MATMUL_OUTPUTS outputs is converted once, in the second cache; it is
// that wide since all of x, in the third, goes by for each.
enum { DIRECT_ROWS = 2 * TILE_X, FETCH_AHEAD = 512 };

// One chunk of a product: k columns of some outputs' weights, `ld` bytes apart, and of x.
struct chunk {
    const char *w;
    enum dtype type;
    int64_t ld;
    int64_t fetch_turn; // where weights are fetched ahead: bytes from which on what comes next is
    int64_t fetch_next; // so far away, and not FETCH_AHEAD
    const float *x;
    int64_t ldx, k;
    float *y;
    int64_t ldy;
    const float *start; // added to the first chunk's products: the bias; NULL: y itself is
};

// wr outputs from o on, xr rows from r on.
INLINE void dots(int wr, int xr, enum dtype type, bool fetch, const struct chunk *c, int64_t o,
                 int64_t r) {
    int64_t size = type == DT_F32 ? 4 : 2;
    const char *w = c->w + o * c->ld;
    const float *x = c->x + r * c->ldx;
    vf acc[TILE_W][6];
    for (int a = 0; a < wr; a++)
        for (int b = 0; b < xr; b++) acc[a][b] = vf_zero();
    int64_t i = 0;
    for (; i + LANES <= c->k; i += LANES) {
        vf left[TILE_W];
        for (int a = 0; a < wr; a++) left[a] = vf_load_as(w + a * c->ld, type, i);
        int64_t ahead = i * size + (i * size < c->fetch_turn ? FETCH_AHEAD : c->fetch_next);
        for (int a = 0; a < wr && fetch; a++) __builtin_prefetch(w + a * c->ld + ahead);
        for (int b = 0; b < xr; b++) {
            vf right = vf_load(x + b * c->ldx + i);
            for (int a = 0; a < wr; a++) acc[a][b] = vf_fma(left[a], right, acc[a][b]);
        }
    }
    if (i < c->k) {
        float left[TILE_W][LANES], right[6][LANES];
        for (int a = 0; a < wr; a++)
            vf_store(left[a], vf_load_as_n(w + a * c->ld, type, i, c->k - i));
        for (int b = 0; b < xr; b++) vf_store(right[b], vf_load_n(x + b * c->ldx + i, c->k - i));
        for (int b = 0; b < xr; b++)
            for (int a = 0; a < wr; a++)
                acc[a][b] = vf_fma(vf_load(left[a]), vf_load(right[b]), acc[a][b]);
    }
    for (int b = 0; b < xr; b++) {
        float *y = c->y + (r + b) * c->ldy + o, sum[TILE_W];
        if (wr == TILE_W)
            vf_sum4((const vf[]){acc[0][b], acc[1][b], acc[2][b], acc[3][b]}, sum);
        else
            for (int a = 0; a < wr; a++) sum[a] = vf_sum(acc[a][b]);
        for (int a = 0; a < wr; a++) y[a] = (c->start ? c->start[o + a] : y[a]) + sum[a];
    }
}

INLINE void any_rows(int wr, enum dtype type, bool fetch, const struct chunk *c, int64_t o,
                     int64_t r, int xr) {
    if (xr == 1) dots(wr, 1, type, fetch, c, o, r);
    if (xr == 2) dots(wr, 2, type, fetch, c, o, r);
    if (xr == 3) dots(wr, 3, type, fetch, c, o, r);
    if (TILE_X == 3) return;
    if (xr == 4) dots(wr, 4, type, fetch, c, o, r);
    if (xr == 5) dots(wr, 5, type, fetch, c, o, r);
    if (xr == 6) dots(wr, 6, type, fetch, c, o, r);
}

// The rows of a tile, in parts of about as many.
INLINE void all_rows(int wr, enum dtype type, bool fetch, const struct chunk *c, int64_t o,
                     int64_t rows) {
    int64_t parts = (rows + TILE_X - 1) / TILE_X;
    for (int64_t i = 0, r = 0, end; i < parts; i++, r = end) {
        end = rows * (i + 1) / parts;
        any_rows(wr, type, fetch && i == 0, c, o, r, (int)(end - r));
    }
}

static void chunk_rows(const struct chunk *c, int64_t outputs, int64_t rows) {
    int64_t parts = (rows + TILE_X - 1) / TILE_X;
    for (int64_t i = 0, r = 0, end; i < parts; i++, r = end) {
        end = rows * (i + 1) / parts;
        int64_t o = 0;
        for (; o + TILE_W <= outputs; o += TILE_W)
            any_rows(TILE_W, DT_F32, false, c, o, r, (int)(end - r));
        for (; o < outputs; o++) any_rows(1, DT_F32, false, c, o, r, (int)(end - r));
    }
}

// n <= LANES elements of a float tensor from element `at` on, each `step` (1 or 2) from the last.
INLINE vf load_steps(struct tensor t, int64_t at, int64_t step, int64_t n) {
    if (step == 1 && n == LANES) return vf_load_as(t.data, t.type, at);
    if (step == 1) return vf_load_as_n(t.data, t.type, at, n);
    if (n == LANES)
        return vf_every_other(vf_load_as(t.data, t.type, at),
                              vf_load_as(t.data, t.type, at + LANES - 1));
    float all[LANES] = {0};
    for (int64_t i = 0; i < n; i++) all[i] = load_float(t.data, t.type, at + i * step);
    return vf_load(all);
}

// The columns [from, from + k) of the outputs [o0, o0 + outputs), [outputs, ld], of a dense weight
// that is published as [in, out], maybe with another one's outputs between its own. Some rows of
// `in` at a time, while the next ones are fetched.
static void turn_panel(struct tensor t, int64_t o0, int64_t outputs, int64_t from, int64_t k,
                       int64_t ld, float *panel) {
    int64_t step = t.stride[0], size = t.type == DT_F32 ? 4 : 2;
    for (int64_t i = 0; i < k; i += LANES) {
        int64_t left = k - i;
        for (int64_t o = 0; o < outputs; o += LANES) {
            int64_t rows = outputs - o < LANES ? outputs - o : LANES;
            vf r[LANES];
            for (int64_t l = 0; l < LANES; l++) {
                int64_t row = from + i + (l < left ? l : left - 1);
                int64_t at = row * t.stride[1] + (o0 + o) * step;
                r[l] = load_steps(t, at, step, rows);
                __builtin_prefetch((const char *)t.data + (at + LANES * t.stride[1]) * size);
            }
            vf_transpose(r);
            for (int64_t l = 0; l < rows; l++) vf_store_some(panel + (o + l) * ld + i, r[l], left);
        }
    }
}

static struct chunk chunk_at(const struct matmul *m, const struct tile *t, int64_t from,
                             const float *start) {
    int64_t k = m->w->in - from < MATMUL_CHUNK ? m->w->in - from : MATMUL_CHUNK;
    return (struct chunk){.x = m->x + t->r0 * m->ldx + from,
                          .ldx = m->ldx,
                          .k = k,
                          .y = m->y + t->r0 * m->ldy + t->o0,
                          .ldy = m->ldy,
                          .start = from == 0 ? start : NULL};
}

INLINE void direct_outputs(int wr, enum dtype type, const struct matmul *m, const struct tile *t,
                           const float *start) {
    int64_t size = type == DT_F32 ? 4 : 2, ld = m->w->data.stride[0] * size;
    int64_t bytes = m->w->in * size;
    for (int64_t from = 0; from < m->w->in; from += MATMUL_CHUNK) {
        struct chunk c = chunk_at(m, t, from, start);
        c.ld = ld;
        c.w = (const char *)m->w->data.data + t->o0 * ld + from * size;
        c.fetch_turn = bytes - FETCH_AHEAD - from * size;
        c.fetch_next = FETCH_AHEAD - bytes + wr * ld;
        all_rows(wr, type, true, &c, 0, t->r1 - t->r0);
    }
}

// Through all columns of few outputs at a time: as the weights lie in memory.
INLINE void matmul_direct(enum dtype type, const struct matmul *m, const struct tile *t) {
    static const float zeros[TILE_W] = {0};
    const float *bias = m->w->bias.dims ? m->w->bias.data : NULL;
    struct tile part = *t;
    for (; part.o0 + TILE_W <= t->o1; part.o0 += TILE_W)
        direct_outputs(TILE_W, type, m, &part, bias ? bias + part.o0 : zeros);
    for (; part.o0 < t->o1; part.o0++)
        direct_outputs(1, type, m, &part, bias ? bias + part.o0 : zeros);
}

static void matmul_panel(const struct matmul *m, const struct tile *t, float *work) {
    static const float zeros[MATMUL_OUTPUTS] = {0};
    const struct weight *w = m->w;
    int64_t outputs = t->o1 - t->o0;
    const float *start = w->bias.dims ? (const float *)w->bias.data + t->o0 : zeros;
    for (int64_t from = 0; from < w->in; from += MATMUL_CHUNK) {
        struct chunk c = chunk_at(m, t, from, start);
        int64_t ld = c.k + MATMUL_PAD;
        if (w->layout == WEIGHT_DENSE && w->data.stride[0] <= 2 && w->data.stride[1] != 1)
            turn_panel(w->data, t->o0, outputs, from, c.k, ld, work);
        else
            for (int64_t o = 0; o < outputs; o++)
                dequantize(w, t->o0 + o, from, c.k, work + o * ld);
        c.ld = ld * (int64_t)sizeof(float);
        c.w = (const char *)work;
        chunk_rows(&c, outputs, t->r1 - t->r0);
    }
}

static void matmul_f32(const struct matmul *m, const struct tile *t, float *work) {
    struct tensor data = m->w->data;
    if (m->w->layout == WEIGHT_DENSE && data.stride[1] == 1 && t->r1 - t->r0 <= DIRECT_ROWS) {
        if (data.type == DT_F32) matmul_direct(DT_F32, m, t);
        if (data.type == DT_F16) matmul_direct(DT_F16, m, t);
        if (data.type == DT_BF16) matmul_direct(DT_BF16, m, t);
        return;
    }
    struct tile part = *t;
    for (; part.o0 < t->o1; part.o0 = part.o1) {
        part.o1 = part.o0 + MATMUL_OUTPUTS < t->o1 ? part.o0 + MATMUL_OUTPUTS : t->o1;
        matmul_panel(m, &part, work);
    }
}

#endif
