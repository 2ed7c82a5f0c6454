// Products of quantized weights with many rows of x (simd_q8.h): the codes of LANES outputs are
// unpacked into a panel, which all rows of the tile then use.
#ifndef COMPUTE_CPU_SIMD_Q8_MANY_H
#define COMPUTE_CPU_SIMD_Q8_MANY_H

#include "compute/cpu/simd_q8.h"

// y += for xr rows of x, `ldq` blocks apart; a group is `per` blocks. packed [blocks, 8, LANES, 4]
INLINE void q8_many_dots(int xr, enum q8_kind kind, const struct q8_panel *p, const uint8_t *packed,
                         int64_t per, const struct q8 *x, int64_t ldq, vf y[Q8_ROWS]) {
    for (int64_t g = 0; g < p->groups; g++) {
        vf scale = vf_load(p->scale + g * LANES), bias = vf_zero();
        if (kind != Q8_FLOATS4) bias = vf_load(p->bias + g * LANES);
        for (int64_t b = g * per; b < (g + 1) * per; b++) {
            vi c[8];
            for (int i = 0; i < 8; i++) c[i] = vi_load(packed + (b * 8 + i) * LANES * 4);
            for (int r = 0; r < xr; r++) {
                const struct q8 *at = x + r * ldq + b;
                y[r] = add_block(y[r], block_sum(kind, c, at), scale, bias, at);
            }
        }
    }
}

INLINE void q8_many_rows(int xr, enum q8_kind kind, const struct q8_panel *p, const uint8_t *packed,
                         int64_t per, const struct q8 *x, int64_t ldq, vf y[Q8_ROWS]) {
    switch (xr) {
    case 1: q8_many_dots(1, kind, p, packed, per, x, ldq, y); break;
    case 2: q8_many_dots(2, kind, p, packed, per, x, ldq, y); break;
    case 3: q8_many_dots(3, kind, p, packed, per, x, ldq, y); break;
    case 4: q8_many_dots(4, kind, p, packed, per, x, ldq, y); break;
#if defined(__AVX512F__)
    case 5: q8_many_dots(5, kind, p, packed, per, x, ldq, y); break;
    case 6: q8_many_dots(6, kind, p, packed, per, x, ldq, y); break;
    case 7: q8_many_dots(7, kind, p, packed, per, x, ldq, y); break;
    case 8: q8_many_dots(8, kind, p, packed, per, x, ldq, y); break;
#endif
    }
}

INLINE void pack_codes(enum q8_kind kind, const struct q8_panel *p, int64_t per, uint8_t *out) {
    for (int64_t b = 0; b < p->groups * per; b++) {
        vi c[8];
        load_codes(kind, p, p->from * per + b, c);
        for (int i = 0; i < 8; i++) vi_store(out + (b * 8 + i) * LANES * 4, c[i]);
    }
}

// One chunk of columns for the outputs [o, o + count) and all rows of the tile.
INLINE void q8_many_chunk(const struct matmul *m, const struct tile *t, enum q8_kind kind,
                          int64_t o, int64_t count, const struct q8_panel *p, uint8_t *packed) {
    const struct weight *w = m->w;
    int64_t ldq = w->in / 32, per = w->group / 32;
    pack_codes(kind, p, per, packed);
    vf start = vf_zero();
    if (w->bias.dims) start = vf_load_n((const float *)w->bias.data + o, count);
    for (int64_t r = t->r0; r < t->r1; r += Q8_ROWS) {
        int xr = t->r1 - r < Q8_ROWS ? (int)(t->r1 - r) : Q8_ROWS;
        float *y = m->y + r * m->ldy + o;
        vf acc[Q8_ROWS];
        for (int i = 0; i < xr; i++) {
            acc[i] = start;
            if (p->from > 0)
                acc[i] = count < LANES ? vf_load_n(y + i * m->ldy, count) : vf_load(y + i * m->ldy);
        }
        q8_many_rows(xr, kind, p, packed, per, m->q + r * ldq + p->from * per, ldq, acc);
        for (int i = 0; i < xr; i++) {
            if (count < LANES)
                vf_store_n(y + i * m->ldy, acc[i], count);
            else
                vf_store(y + i * m->ldy, acc[i]);
        }
    }
}

static void q8_many(const struct matmul *m, const struct tile *t, float *work) {
    const struct weight *w = m->w;
    enum q8_kind kind = q8_kind_of(w);
    int64_t groups = w->in / w->group, chunk = MATMUL_CHUNK / w->group;
    struct q8_panel p = {.scale = work, .bias = work + chunk * LANES};
    uint8_t *packed = (uint8_t *)(p.bias + chunk * LANES);
    for (int64_t o = t->o0; o < t->o1; o += LANES) {
        int64_t count = t->o1 - o < LANES ? t->o1 - o : LANES;
        q8_rows(w, o, count, &p);
        for (p.from = 0; p.from < groups; p.from += chunk) {
            p.groups = groups - p.from < chunk ? groups - p.from : chunk;
            load_scales(w, o, count, &p);
            switch (kind) {
            case Q8_CODES4: q8_many_chunk(m, t, Q8_CODES4, o, count, &p, packed); break;
            case Q8_CODES8: q8_many_chunk(m, t, Q8_CODES8, o, count, &p, packed); break;
            case Q8_FLOATS4: q8_many_chunk(m, t, Q8_FLOATS4, o, count, &p, packed); break;
            }
        }
    }
}

#endif
