// Products of quantized weights with at most Q8_ROWS rows of x (simd_q8.h), which read the weights
// as published, once: memory is what binds them.
#ifndef COMPUTE_CPU_SIMD_Q8_FEW_H
#define COMPUTE_CPU_SIMD_Q8_FEW_H

#include "compute/cpu/simd_q8.h"

// The rows are read side by side; what is AHEAD bytes further in each is fetched, and at a row's
// end the beginning of the one that its lane reads next. One stream, or one prefetch LANES rows
// ahead, has too few reads in flight.
enum { AHEAD = 512 };

INLINE void fetch_ahead(const struct q8_panel *p, int64_t block, int64_t bytes, int64_t row_bytes) {
    int64_t at = block * bytes + AHEAD, lanes = LANES * bytes / 64;
    if (at >= row_bytes) at += (LANES - 1) * row_bytes;
    for (int64_t i = 0; i < lanes; i++)
        _mm_prefetch((const char *)p->row[(block * lanes + i) % LANES] + at, _MM_HINT_T0);
}

// y = for xr rows of x
INLINE void q8_few_dots(int xr, enum q8_kind kind, const struct weight *w, const struct q8_panel *p,
                        const struct q8 *x, vf y[Q8_ROWS]) {
    int64_t per = w->group / 32, ldq = w->in / 32;
    int64_t bytes = kind == Q8_CODES8 ? 32 : 16, row_bytes = ldq * bytes;
    for (int64_t g = 0; g < p->groups; g++) {
        vf scale = vf_load(p->scale + g * LANES), bias = vf_zero();
        if (kind != Q8_FLOATS4) bias = vf_load(p->bias + g * LANES);
        for (int64_t b = g * per; b < (g + 1) * per; b++) {
            vi c[8];
            load_codes(kind, p, b, c);
            fetch_ahead(p, b, bytes, row_bytes);
            for (int r = 0; r < xr; r++) {
                const struct q8 *at = x + r * ldq + b;
                y[r] = add_block(y[r], block_sum(kind, c, at), scale, bias, at);
            }
        }
    }
}

INLINE void q8_few_rows(int xr, enum q8_kind kind, const struct weight *w, const struct q8_panel *p,
                        const struct q8 *x, vf y[Q8_ROWS]) {
    switch (xr) {
    case 1: q8_few_dots(1, kind, w, p, x, y); break;
    case 2: q8_few_dots(2, kind, w, p, x, y); break;
    case 3: q8_few_dots(3, kind, w, p, x, y); break;
    case 4: q8_few_dots(4, kind, w, p, x, y); break;
#if defined(__AVX512F__)
    case 5: q8_few_dots(5, kind, w, p, x, y); break;
    case 6: q8_few_dots(6, kind, w, p, x, y); break;
    case 7: q8_few_dots(7, kind, w, p, x, y); break;
    case 8: q8_few_dots(8, kind, w, p, x, y); break;
#endif
    }
}

static void q8_few(const struct matmul *m, const struct tile *t, float *work) {
    const struct weight *w = m->w;
    enum q8_kind kind = q8_kind_of(w);
    int xr = (int)(t->r1 - t->r0);
    const struct q8 *x = m->q + t->r0 * (w->in / 32);
    struct q8_panel p = {.groups = w->in / w->group, .scale = work};
    p.bias = p.scale + p.groups * LANES;
    for (int64_t o = t->o0; o < t->o1; o += LANES) {
        int64_t count = t->o1 - o < LANES ? t->o1 - o : LANES;
        q8_rows(w, o, count, &p);
        load_scales(w, o, count, &p);
        vf y[Q8_ROWS], start = vf_zero();
        if (w->bias.dims) start = vf_load_n((const float *)w->bias.data + o, count);
        for (int i = 0; i < Q8_ROWS; i++) y[i] = start;
        switch (kind) {
        case Q8_CODES4: q8_few_rows(xr, Q8_CODES4, w, &p, x, y); break;
        case Q8_CODES8: q8_few_rows(xr, Q8_CODES8, w, &p, x, y); break;
        case Q8_FLOATS4: q8_few_rows(xr, Q8_FLOATS4, w, &p, x, y); break;
        }
        for (int i = 0; i < xr; i++) vf_store_n(m->y + (t->r0 + i) * m->ldy + o, y[i], count);
    }
}

#endif
