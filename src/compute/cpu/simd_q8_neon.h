// Products of affine weights, of MXFP4 and NVFP4 with activations rounded to 8 bits, for NEON:
//
//   y = sum over blocks of 32: scale_w (scale_x (sum (code - centre) q)) + bias_w' sum x
//
// as simd_q8.h has it. Codes become signed bytes in registers, those of four outputs at a time,
// where up to Q8_ROWS rows of x meet them; the parts of four outputs' sums are added up so that a
// lane holds an output. A block's sum is exact, and blocks are added up in order, so an output's
// bits do not depend on its tile.
#ifndef COMPUTE_CPU_SIMD_Q8_NEON_H
#define COMPUTE_CPU_SIMD_Q8_NEON_H

#include "compute/cpu/simd_matmul.h"

// Rows of x in a tile, and in a band, which stays in the second cache while the outputs go by.
enum { Q8_ROWS = 4, BAND_ROWS = 64 };

// Four outputs' weights.
struct q8_panel {
    const uint8_t *row[LANES]; // their codes, as published; past the last output it repeats
    float *scale, *bias;       // [groups, LANES]: of signed codes
    int64_t groups, per;       // blocks a group
};

// Eight codes of `bits` bits, a byte each: the two bytes that hold each, shifted down.
INLINE uint8x8_t load_eight(int bits, const uint8_t *p) {
    uint64_t all = 0;
    memcpy(&all, p, (size_t)bits);
    uint8_t pair[16];
    int16_t down[8];
    for (int k = 0; k < 8; k++) {
        pair[2 * k] = (uint8_t)(k * bits / 8);
        pair[2 * k + 1] = (uint8_t)(k * bits / 8 + 1);
        down[k] = (int16_t) - (k * bits % 8);
    }
    uint8x16_t bytes = vcombine_u8(vcreate_u8(all), vdup_n_u8(0));
    uint16x8_t two = vreinterpretq_u16_u8(vqtbl1q_u8(bytes, vld1q_u8(pair)));
    return vand_u8(vmovn_u16(vshlq_u16(two, vld1q_s16(down))),
                   vdup_n_u8((uint8_t)((1 << bits) - 1)));
}

// The codes of a block, signed; those of 4 bits even ones first.
INLINE void load_codes(enum q8_kind kind, const uint8_t *row, int64_t block, int8x16_t c[2]) {
    int bits = q8_bits(kind);
    const uint8_t *p = row + block * bits * 4;
    uint8x16_t code[2];
    if (bits == 8) {
        for (int i = 0; i < 2; i++) code[i] = vld1q_u8(p + i * 16);
    } else if (bits == 4) {
        uint8x16_t two = vld1q_u8(p);
        code[0] = vandq_u8(two, vdupq_n_u8(15));
        code[1] = vshrq_n_u8(two, 4);
    } else {
        for (int i = 0; i < 2; i++)
            code[i] = vcombine_u8(load_eight(bits, p + 2 * i * bits),
                                  load_eight(bits, p + (2 * i + 1) * bits));
    }
    uint8x16_t centre = vdupq_n_u8((uint8_t)(1 << (bits - 1)));
    for (int i = 0; i < 2; i++)
        c[i] = q8_floats(kind) ? vqtbl1q_s8(vld1q_s8(e2m1_twice), code[i])
                               : vreinterpretq_s8_u8(vsubq_u8(code[i], centre));
}

// Four parts of the sum of a block's 32 products, two of each half. Without the instruction for it,
// 16 bits hold four products of codes of at most 6 bits (4 * 32 * 127), or two of 8 bits (2 * 128 *
// 127).
INLINE int32x4_t block_parts(enum q8_kind kind, const int8x16_t c[2], const int8x16_t q[2]) {
#if defined(__ARM_FEATURE_DOTPROD)
    (void)kind;
    return vdotq_s32(vdotq_s32(vdupq_n_s32(0), c[0], q[0]), c[1], q[1]);
#else
    int16x8_t a = vmull_s8(vget_low_s8(c[0]), vget_low_s8(q[0]));
    if (kind == Q8_HALVES4) {
        a = vmlal_s8(a, vget_low_s8(c[1]), vget_low_s8(q[1]));
        int16x8_t second = vmlal_high_s8(vmull_high_s8(c[0], q[0]), c[1], q[1]);
        return vpaddq_s32(vpaddlq_s16(a), vpaddlq_s16(second));
    }
    a = vmlal_high_s8(a, c[0], q[0]);
    if (kind != Q8_CODES8) {
        a = vmlal_s8(a, vget_low_s8(c[1]), vget_low_s8(q[1]));
        return vpaddlq_s16(vmlal_high_s8(a, c[1], q[1]));
    }
    int16x8_t b = vmull_s8(vget_low_s8(c[1]), vget_low_s8(q[1]));
    return vpadalq_s16(vpaddlq_s16(a), vmlal_high_s8(b, c[1], q[1]));
#endif
}

// y += for xr rows of x, `ldq` blocks apart
INLINE void q8_dots(int xr, enum q8_kind kind, const struct q8_panel *p, const struct q8 *x,
                    int64_t ldq, vf y[Q8_ROWS]) {
    bool halves = kind == Q8_HALVES4;
    int64_t per = halves ? 1 : p->per;
    for (int64_t g = 0, block = 0; g < p->groups; g += 1 + halves) {
        vf scale = vf_load(p->scale + g * LANES), bias = vf_load(p->bias + g * LANES);
        for (int64_t end = block + per; block < end; block++) {
            int8x16_t c[LANES][2];
            for (int l = 0; l < LANES; l++) load_codes(kind, p->row[l], block, c[l]);
            for (int r = 0; r < xr; r++) {
                const struct q8 *at = x + r * ldq + block;
                int8x16_t q[2] = {vld1q_s8(at->q), vld1q_s8(at->q + 16)};
                int32x4_t s[LANES];
                for (int l = 0; l < LANES; l++) s[l] = block_parts(kind, c[l], q);
                int32x4_t two = vpaddq_s32(s[0], s[1]), more = vpaddq_s32(s[2], s[3]);
                int32x4_t sum = halves ? vuzp1q_s32(two, more) : vpaddq_s32(two, more);
                vf by = vf_set(at->scale);
                y[r] = vf_fma(vf_mul(vcvtq_f32_s32(sum), by), scale, y[r]);
                if (halves) {
                    vf second = vf_load(p->scale + (g + 1) * LANES);
                    sum = vuzp2q_s32(two, more);
                    y[r] = vf_fma(vf_mul(vcvtq_f32_s32(sum), by), second, y[r]);
                }
                y[r] = vf_fma(bias, vf_set(at->sum), y[r]); // also brings what is not finite
            }
        }
    }
}

INLINE void q8_rows(int xr, enum q8_kind kind, const struct q8_panel *p, const struct q8 *x,
                    int64_t ldq, vf y[Q8_ROWS]) {
    switch (xr) {
    case 1: q8_dots(1, kind, p, x, ldq, y); break;
    case 2: q8_dots(2, kind, p, x, ldq, y); break;
    case 3: q8_dots(3, kind, p, x, ldq, y); break;
    case 4: q8_dots(4, kind, p, x, ldq, y); break;
    }
}

// The elements of LANES rows from `o` on, of which `count` are there, transposed.
static void load_groups(float *out, const struct tensor *t, int64_t o, int64_t count, int64_t n) {
    for (int64_t g = 0; g < n; g += LANES) {
        int64_t some = n - g < LANES ? n - g : LANES;
        vf r[LANES];
        for (int64_t l = 0; l < LANES; l++) {
            int64_t at = (o + (l < count ? l : count - 1)) * t->stride[0] + g;
            r[l] = some < LANES ? vf_load_as_n(t->data, t->type, at, some)
                                : vf_load_as(t->data, t->type, at);
        }
        vf_transpose(r);
        for (int64_t l = 0; l < some; l++) vf_store(out + (g + l) * LANES, r[l]);
    }
}

static void load_panel(enum q8_kind kind, const struct weight *w, int64_t o, int64_t count,
                       struct q8_panel *p) {
    for (int64_t l = 0; l < LANES; l++)
        p->row[l] = (const uint8_t *)w->data.data +
                    (o + (l < count ? l : count - 1)) * w->data.stride[0] * 4;
    load_groups(p->scale, &w->scales, o, count, p->groups);
    if (!q8_floats(kind)) load_groups(p->bias, &w->biases, o, count, p->groups);
    vf centre = vf_set((float)(1 << (q8_bits(kind) - 1)));
    for (int64_t i = 0; i < p->groups * LANES; i += LANES) {
        vf scale = vf_load(p->scale + i);
        if (q8_floats(kind)) { // codes are twice what they stand for
            vf half = vf_set(kind == Q8_HALVES4 ? 0.5f * w->factor : 0.5f);
            vf_store(p->scale + i, vf_mul(scale, half));
            vf_store(p->bias + i, vf_zero());
        } else {
            vf_store(p->bias + i, vf_fma(scale, centre, vf_load(p->bias + i)));
        }
    }
}

// The outputs [o, o + count) of the rows [from, to).
INLINE void q8_band(enum q8_kind kind, const struct matmul *m, const struct q8_panel *p, int64_t o,
                    int64_t count, int64_t from, int64_t to) {
    int64_t ldq = m->w->in / 32;
    vf start = vf_zero();
    if (m->w->bias.dims) start = vf_load_n((const float *)m->w->bias.data + o, count);
    for (int64_t r = from; r < to; r += Q8_ROWS) {
        int xr = to - r < Q8_ROWS ? (int)(to - r) : Q8_ROWS;
        vf y[Q8_ROWS] = {start, start, start, start};
        q8_rows(xr, kind, p, m->q + r * ldq, ldq, y);
        for (int i = 0; i < xr; i++) vf_store_n(m->y + (r + i) * m->ldy + o, y[i], count);
    }
}

static void matmul_q8(const struct matmul *m, const struct tile *t, float *work) {
    const struct weight *w = m->w;
    enum q8_kind kind = q8_kind_of(w);
    struct q8_panel p = {.groups = w->in / w->group, .per = w->group / 32, .scale = work};
    p.bias = work + p.groups * LANES;
    for (int64_t r = t->r0; r < t->r1; r += BAND_ROWS) {
        int64_t end = r + BAND_ROWS < t->r1 ? r + BAND_ROWS : t->r1;
        for (int64_t o = t->o0; o < t->o1; o += LANES) {
            int64_t count = t->o1 - o < LANES ? t->o1 - o : LANES;
            load_panel(kind, w, o, count, &p);
            switch (kind) {
            case Q8_CODES2: q8_band(Q8_CODES2, m, &p, o, count, r, end); break;
            case Q8_CODES3: q8_band(Q8_CODES3, m, &p, o, count, r, end); break;
            case Q8_CODES4: q8_band(Q8_CODES4, m, &p, o, count, r, end); break;
            case Q8_CODES5: q8_band(Q8_CODES5, m, &p, o, count, r, end); break;
            case Q8_CODES6: q8_band(Q8_CODES6, m, &p, o, count, r, end); break;
            case Q8_CODES8: q8_band(Q8_CODES8, m, &p, o, count, r, end); break;
            case Q8_FLOATS4: q8_band(Q8_FLOATS4, m, &p, o, count, r, end); break;
            case Q8_HALVES4: q8_band(Q8_HALVES4, m, &p, o, count, r, end); break;
            }
        }
    }
}

// As they are read here, only codes of 4 bits come in another order. `moved` and `start` are for
// those who count with unsigned codes.
static void quantize_block(struct q8 *q, const float *x, enum q8_kind kind) {
    vf v[8], top = vf_zero(), sum = vf_zero();
    for (int i = 0; i < 8; i++) {
        v[i] = vf_load(x + 4 * i);
        top = vmaxq_f32(top, vabsq_f32(v[i]));
        sum = vf_add(sum, v[i]);
    }
    float most = vf_top(top);
    *q = (struct q8){.scale = most / 127, .sum = vf_sum(sum)};
    vf inverse = vf_set(most > 1e-30f ? 127 / most : 0);
    int8x8_t all[4];
    for (int i = 0; i < 4; i++) {
        int16x4_t low = vqmovn_s32(vcvtnq_s32_f32(vf_mul(v[2 * i], inverse)));
        int16x4_t high = vqmovn_s32(vcvtnq_s32_f32(vf_mul(v[2 * i + 1], inverse)));
        all[i] = vqmovn_s16(vcombine_s16(low, high));
    }
    int8x16_t a = vcombine_s8(all[0], all[1]), b = vcombine_s8(all[2], all[3]);
    bool halves = q8_bits(kind) == 4;
    vst1q_s8(q->q, halves ? vuzp1q_s8(a, b) : a);
    vst1q_s8(q->q + 16, halves ? vuzp2q_s8(a, b) : b);
}

static void quantize_row(struct q8 *q, const float *x, int64_t n, enum q8_kind kind) {
    for (int64_t i = 0; i < n / 32; i++) quantize_block(q + i, x + 32 * i, kind);
}

#endif
