// Products of bf16 weights with activations rounded to bf16, for CPUs that multiply pairs of them
// (AVX512-BF16): twice as many a cycle as in f32, and no weight needs to be converted.
//
// As in simd_matmul.h, lanes run along the columns, here in pairs, and are added up at the end of a
// chunk of MATMUL_CHUNK columns; so an output's bits do not depend on its tile.
#if defined(__x86_64__)
#include "compute/cpu/vec.h"

enum { TILE_W = 4, TILE_X = 6, PAIRS = 2 * LANES, FEW_ROWS = 2 * TILE_X, FETCH_AHEAD = 512 };
enum { PANEL_LD = MATMUL_CHUNK + 2 * MATMUL_PAD }; // of a panel of weights
typedef __m512bh vb;

// One chunk of a product: k columns of some outputs' weights and of at most TILE_X rows of x, these
// rounded and with zeros up to a multiple of PAIRS.
struct chunk {
    const uint16_t *w, *x; // [outputs, ldw], [rows, MATMUL_CHUNK]
    int64_t ldw, k;
    float *y;
    int64_t ldy;
    const float *start; // the bias, where the first chunk is added to it; NULL: to y
};

static inline vb vb_load(const uint16_t *p) { return (vb)_mm512_loadu_si512(p); }
static inline vb vb_load_n(const uint16_t *p, int64_t n) {
    return (vb)_mm512_maskz_loadu_epi16((__mmask32)((UINT64_C(1) << n) - 1), p);
}

INLINE void dots(int wr, int xr, bool fetch, const struct chunk *c, int64_t o) {
    const uint16_t *w = c->w + o * c->ldw;
    vf acc[TILE_W][TILE_X];
    for (int a = 0; a < wr; a++)
        for (int b = 0; b < xr; b++) acc[a][b] = vf_zero();
    for (int64_t i = 0; i < c->k; i += PAIRS) {
        bool whole = i + PAIRS <= c->k;
        vb left[TILE_W];
        for (int a = 0; a < wr; a++) {
            const uint16_t *at = w + a * c->ldw + i;
            left[a] = whole ? vb_load(at) : vb_load_n(at, c->k - i);
            if (fetch) _mm_prefetch((const char *)at + FETCH_AHEAD, _MM_HINT_T0);
        }
        for (int b = 0; b < xr; b++) {
            vb right = vb_load(c->x + b * MATMUL_CHUNK + i);
            for (int a = 0; a < wr; a++) acc[a][b] = _mm512_dpbf16_ps(acc[a][b], left[a], right);
        }
    }
    for (int b = 0; b < xr; b++) {
        float *y = c->y + b * c->ldy + o, sum[TILE_W];
        if (wr == TILE_W)
            vf_sum4((const vf[]){acc[0][b], acc[1][b], acc[2][b], acc[3][b]}, sum);
        else
            for (int a = 0; a < wr; a++) sum[a] = vf_sum(acc[a][b]);
        for (int a = 0; a < wr; a++) y[a] = (c->start ? c->start[o + a] : y[a]) + sum[a];
    }
}

INLINE void some_outputs(int wr, bool fetch, const struct chunk *c, int64_t o, int xr) {
    switch (xr) {
    case 1: dots(wr, 1, fetch, c, o); break;
    case 2: dots(wr, 2, fetch, c, o); break;
    case 3: dots(wr, 3, fetch, c, o); break;
    case 4: dots(wr, 4, fetch, c, o); break;
    case 5: dots(wr, 5, fetch, c, o); break;
    case 6: dots(wr, 6, fetch, c, o); break;
    }
}

INLINE void all_outputs(bool fetch, const struct chunk *c, int64_t outputs, int xr) {
    int64_t o = 0;
    for (; o + TILE_W <= outputs; o += TILE_W) some_outputs(TILE_W, fetch, c, o, xr);
    for (; o < outputs; o++) some_outputs(1, fetch, c, o, xr);
}

// n floats to bf16, nearest, ties to even; zeros follow up to a multiple of PAIRS.
static void round_row(uint16_t *to, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += PAIRS) {
        vf low = vf_load_some(x + i, n - i), high = vf_load_some(x + i + LANES, n - i - LANES);
        _mm512_storeu_si512(to + i, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
}

// At most MATMUL_OUTPUTS outputs. For few rows the weights are read where they lie; for many from a
// panel, whose rows do not share the same few sets of a cache.
static void panel(const struct matmul *m, const struct tile *t, uint16_t *work) {
    static const float zeros[MATMUL_OUTPUTS] = {0};
    const struct weight *w = m->w;
    const uint16_t *data = w->data.data;
    int64_t outputs = t->o1 - t->o0, rows = t->r1 - t->r0, parts = (rows + TILE_X - 1) / TILE_X;
    uint16_t *x = work, *packed = work + TILE_X * MATMUL_CHUNK;
    for (int64_t from = 0; from < w->in; from += MATMUL_CHUNK) {
        struct chunk c = {.x = x, .ldw = w->data.stride[0], .ldy = m->ldy};
        c.k = w->in - from < MATMUL_CHUNK ? w->in - from : MATMUL_CHUNK;
        c.w = data + t->o0 * c.ldw + from;
        if (from == 0) c.start = w->bias.dims ? (const float *)w->bias.data + t->o0 : zeros;
        if (rows > FEW_ROWS) {
            for (int64_t o = 0; o < outputs; o++)
                memcpy(packed + o * PANEL_LD, c.w + o * c.ldw, (size_t)c.k * sizeof *packed);
            c.w = packed;
            c.ldw = PANEL_LD;
        }
        for (int64_t i = 0, r = t->r0; i < parts; i++) {
            int xr = (int)(t->r0 + rows * (i + 1) / parts - r);
            for (int b = 0; b < xr; b++)
                round_row(x + b * MATMUL_CHUNK, m->x + (r + b) * m->ldx + from, c.k);
            c.y = m->y + r * m->ldy + t->o0;
            all_outputs(rows <= FEW_ROWS && i == 0, &c, outputs, xr);
            r += xr;
        }
    }
}

void matmul_avx512_bf16(const struct matmul *m, const struct tile *t, float *work) {
    struct tile part = *t;
    for (; part.o0 < t->o1; part.o0 = part.o1) {
        part.o1 = part.o0 + MATMUL_OUTPUTS < t->o1 ? part.o0 + MATMUL_OUTPUTS : t->o1;
        panel(m, &part, (uint16_t *)work);
    }
}
#endif
