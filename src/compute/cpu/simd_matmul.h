// Products in f32, for the vector files (vec.h).
//
// Lane l of an output's accumulator takes the columns l, l + LANES, ... of a chunk of MATMUL_CHUNK
// columns; the lanes are added up at the end of the chunk, and the chunks in order. So an output's
// bits do not depend on the tile that it was computed in.
#ifndef COMPUTE_CPU_SIMD_MATMUL_H
#define COMPUTE_CPU_SIMD_MATMUL_H

#include "compute/cpu/simd_rows.h"

// Outputs and rows that are computed together: what the registers hold. Weights in 16 bits are
// converted as they are loaded for up to DIRECT_ROWS rows, for more once into a panel.
enum { TILE_W = 4, TILE_X = LANES == 16 ? 6 : 3, DIRECT_ROWS = 3 };

// One chunk of a product: k columns of some outputs' weights, `ld` bytes apart, and of x.
struct chunk {
    const char *w;
    enum dtype type;
    int64_t ld;
    const float *x;
    int64_t ldx, k;
    float *y;
    int64_t ldy;
    const float *start; // added to the first chunk's products: the bias; NULL: y itself is
};

// wr outputs from o on, xr rows from r on.
INLINE void dots(int wr, int xr, enum dtype type, const struct chunk *c, int64_t o, int64_t r) {
    const char *w = c->w + o * c->ld;
    const float *x = c->x + r * c->ldx;
    vf acc[TILE_W][6];
    for (int a = 0; a < wr; a++)
        for (int b = 0; b < xr; b++) acc[a][b] = vf_zero();
    int64_t i = 0;
    for (; i + LANES <= c->k; i += LANES) {
        vf left[TILE_W];
        for (int a = 0; a < wr; a++) left[a] = vf_load_as(w + a * c->ld, type, i);
        for (int b = 0; b < xr; b++) {
            vf right = vf_load(x + b * c->ldx + i);
            for (int a = 0; a < wr; a++) acc[a][b] = vf_fma(left[a], right, acc[a][b]);
        }
    }
    for (int b = 0; b < xr && i < c->k; b++) {
        vf right = vf_load_n(x + b * c->ldx + i, c->k - i);
        for (int a = 0; a < wr; a++) {
            vf left = vf_load_as_n(w + a * c->ld, type, i, c->k - i);
            acc[a][b] = vf_fma(left, right, acc[a][b]);
        }
    }
    for (int b = 0; b < xr; b++) {
        float *y = c->y + (r + b) * c->ldy + o;
        for (int a = 0; a < wr; a++) y[a] = (c->start ? c->start[o + a] : y[a]) + vf_sum(acc[a][b]);
    }
}

INLINE void few_rows(int wr, enum dtype type, const struct chunk *c, int64_t o, int64_t r, int xr) {
    if (xr == 1) dots(wr, 1, type, c, o, r);
    if (xr == 2) dots(wr, 2, type, c, o, r);
    if (xr == 3) dots(wr, 3, type, c, o, r);
}

INLINE void some_rows(int wr, const struct chunk *c, int64_t o, int64_t r, int xr) {
    if (c->type == DT_F16) few_rows(wr, DT_F16, c, o, r, xr);
    if (c->type == DT_BF16) few_rows(wr, DT_BF16, c, o, r, xr);
    if (c->type != DT_F32) return;
    few_rows(wr, DT_F32, c, o, r, xr);
    if (xr == 4) dots(wr, 4, DT_F32, c, o, r);
    if (xr == 5) dots(wr, 5, DT_F32, c, o, r);
    if (xr == 6) dots(wr, 6, DT_F32, c, o, r);
}

static void chunk_rows(const struct chunk *c, int64_t outputs, int64_t rows) {
    for (int64_t r = 0; r < rows; r += TILE_X) {
        int xr = rows - r < TILE_X ? (int)(rows - r) : TILE_X;
        int64_t o = 0;
        for (; o + TILE_W <= outputs; o += TILE_W) some_rows(TILE_W, c, o, r, xr);
        for (; o < outputs; o++) some_rows(1, c, o, r, xr);
    }
}

// The columns [from, from + k) of the outputs [o0, o0 + outputs), [outputs, k], of a dense weight
// that is published as [in, out].
static void turn_panel(struct tensor t, int64_t o0, int64_t outputs, int64_t from, int64_t k,
                       float *panel) {
    for (int64_t o = 0; o < outputs; o += LANES) {
        for (int64_t i = 0; i < k; i += LANES) {
            int64_t rows = outputs - o < LANES ? outputs - o : LANES, left = k - i;
            vf r[LANES];
            for (int64_t l = 0; l < LANES; l++) {
                int64_t at = (from + i + (l < left ? l : left - 1)) * t.stride[1] + o0 + o;
                r[l] = rows < LANES ? vf_load_as_n(t.data, t.type, at, rows)
                                    : vf_load_as(t.data, t.type, at);
            }
            vf_transpose(r);
            for (int64_t l = 0; l < rows; l++) {
                float *to = panel + (o + l) * k + i;
                if (left < LANES)
                    vf_store_n(to, r[l], left);
                else
                    vf_store(to, r[l]);
            }
        }
    }
}

static void matmul_panel(const struct matmul *m, const struct tile *t, float *work) {
    static const float zeros[MATMUL_OUTPUTS] = {0};
    const struct weight *w = m->w;
    int64_t outputs = t->o1 - t->o0, rows = t->r1 - t->r0;
    bool direct = w->layout == WEIGHT_DENSE && w->data.stride[1] == 1 &&
                  (w->data.type == DT_F32 || rows <= DIRECT_ROWS);
    for (int64_t from = 0; from < w->in; from += MATMUL_CHUNK) {
        struct chunk c = {.ldx = m->ldx, .ldy = m->ldy};
        c.k = w->in - from < MATMUL_CHUNK ? w->in - from : MATMUL_CHUNK;
        c.x = m->x + t->r0 * m->ldx + from;
        c.y = m->y + t->r0 * m->ldy + t->o0;
        if (from == 0) c.start = w->bias.dims ? (const float *)w->bias.data + t->o0 : zeros;
        if (direct) {
            int64_t size = w->data.type == DT_F32 ? 4 : 2;
            c.type = w->data.type;
            c.ld = w->data.stride[0] * size;
            c.w = (const char *)w->data.data + t->o0 * c.ld + from * size;
        } else {
            if (w->layout == WEIGHT_DENSE && w->data.stride[0] == 1 && w->data.stride[1] != 1)
                turn_panel(w->data, t->o0, outputs, from, c.k, work);
            else
                for (int64_t o = 0; o < outputs; o++)
                    dequantize(w, t->o0 + o, from, c.k, work + o * c.k);
            c.type = DT_F32;
            c.ld = c.k * (int64_t)sizeof(float);
            c.w = (const char *)work;
        }
        chunk_rows(&c, outputs, rows);
    }
}

static void matmul_f32(const struct matmul *m, const struct tile *t, float *work) {
    struct tile part = *t;
    for (; part.o0 < t->o1; part.o0 = part.o1) {
        part.o1 = part.o0 + MATMUL_OUTPUTS < t->o1 ? part.o0 + MATMUL_OUTPUTS : t->o1;
        matmul_panel(m, &part, work);
    }
}

#endif
