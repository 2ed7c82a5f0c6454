// Products of affine weights, of MXFP4 and NVFP4 with activations rounded to 8 bits, for the vector
// files (vec.h):
//
//   y = sum over blocks of 32: scale_w (scale_x (sum (code - centre) q)) + bias_w' sum x
//
// where centre = 2^(bits - 1) and bias_w' = bias_w + centre scale_w. Signed codes are what the
// rounding error of x is multiplied by, and they are smaller; the bias meets the exact sum. The
// codes of the other two are looked up: twice an e2m1 is a whole number, of at most 12.
//
// A lane holds one output. The sum over a block is exact, and blocks are added up in order, so an
// output's bits do not depend on its tile. Here is what the kernels for few rows of x and those for
// many share (simd_q8_few.h, simd_q8_many.h).
#ifndef COMPUTE_CPU_SIMD_Q8_H
#define COMPUTE_CPU_SIMD_Q8_H

#include "compute/cpu/simd_codes.h"

// A sum that began with `start` (struct q8), as a float.
INLINE vf sum_of_bits(vi sum) { return vf_sub(vf_of_bits(sum), vf_set(Q8_FLOAT)); }

// What a sum over a block begins with; of Q8_HALVES4, over one of its halves.
INLINE int32_t start_of(enum q8_kind kind, int half, const struct q8 *x) {
    if (kind != Q8_HALVES4) return x->start;
    return Q8_BITS + (int16_t)((uint32_t)x->start >> 16 * half);
}
// The quads of a block, or of a half, are those from here on to the next.
INLINE int quads_from(enum q8_kind kind, int half) { return kind == Q8_HALVES4 ? 4 * half : 0; }
INLINE int quads_to(enum q8_kind kind, int half) { return kind == Q8_HALVES4 ? 4 * half + 4 : 8; }

#if defined(__AVX512F__)

enum { Q8_ROWS = 8 }; // rows of x in a tile

// Each lane's sum of code times q over a block of 32, or a half of it, in f32.
INLINE vf block_sum(enum q8_kind kind, int half, const vi c[8], const struct q8 *x) {
    vi sum = vi_set(start_of(kind, half, x));
    for (int i = quads_from(kind, half); i < quads_to(kind, half); i++)
        sum = _mm512_dpbusd_epi32(sum, c[i], vi_quad(x->q + 4 * i));
    return sum_of_bits(sum);
}

#else

enum { Q8_ROWS = 4 };

// Each lane's sum of code times q over a block of 32, or a half of it, in f32. Pairs of products
// are added up in 16 bits: eight of codes of 4 bits, each at most 2 * 15 * 128, four of 5 bits, two
// of 6; codes of 8 bits are taken in halves, signed ones by their size.
INLINE vf block_sum(enum q8_kind kind, int half, const vi c[8], const struct q8 *x) {
    vi low = vi_low(), sum = _mm256_setzero_si256(), high = sum, all = sum;
    int most = kind == Q8_CODES5 || kind == Q8_HALVES4 ? 4 : kind == Q8_CODES6 ? 2 : 8;
    for (int i = quads_from(kind, half); i < quads_to(kind, half); i++) {
        vi four = vi_quad(x->q + 4 * i);
        vi codes = kind == Q8_CODES8 ? vi_and(c[i], low) : c[i];
        if (q8_floats(kind)) {
            codes = _mm256_abs_epi8(c[i]);
            four = _mm256_sign_epi8(four, c[i]);
        }
        sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, four));
        if (i % most == most - 1) {
            all = vi_add(all, vi_madd(sum, vi_set16(1)));
            sum = _mm256_setzero_si256();
        }
        if (kind != Q8_CODES8) continue;
        codes = vi_and(vi_shift4(c[i]), low);
        high = _mm256_add_epi16(high, _mm256_maddubs_epi16(codes, four));
    }
    if (q8_floats(kind)) return _mm256_cvtepi32_ps(all);
    if (kind == Q8_CODES8) all = vi_add(all, vi_madd(high, vi_set16(16)));
    return sum_of_bits(vi_add(all, vi_set(x->start)));
}

#endif

// LANES outputs' weights as published, and some of their groups' scales and biases, a row a lane.
struct q8_panel {
    // Where each output's begin; past the last output it repeats.
    const uint8_t *codes[LANES], *scales[LANES], *biases[LANES];
    float *scale, *bias;  // [groups, LANES]: the biases are those for signed codes
    int64_t from, groups; // in scale and bias
    int64_t words;        // of an output's codes
};

// The outputs o, o + step, ... below end.
static void q8_rows(const struct weight *w, int64_t o, int64_t step, int64_t end,
                    struct q8_panel *p) {
    const struct tensor *t[] = {&w->data, &w->scales, &w->biases};
    const uint8_t **row[] = {p->codes, p->scales, p->biases};
    p->words = w->data.n[1];
    for (int i = 0; i < (w->layout == WEIGHT_AFFINE ? 3 : 2); i++) {
        int64_t stride = t[i]->stride[0] * (int64_t)dtype_size(t[i]->type), at = o;
        const uint8_t *next = (const uint8_t *)t[i]->data + o * stride;
        for (int64_t l = 0; l < LANES; l++) {
            row[i][l] = next;
            if (at + step >= end) continue;
            at += step;
            next += step * stride;
        }
    }
}

// The codes of block `block` of the rows, 4 of each output in each vector.
INLINE void load_codes(enum q8_kind kind, const struct q8_panel *p, int64_t block, vi c[8]) {
    if (q8_narrow(kind)) {
        load_narrow(q8_bits(kind), p->codes, block, p->words, c);
        return;
    }
    if (kind != Q8_CODES8) {
        for (int i = 0; i < 4; i++) c[i] = vi_gather(p->codes, block * 16, i);
        vi_transpose4(c);
        for (int i = 0; i < 4; i++) {
            c[i + 4] = vi_and(vi_shift4(c[i]), vi_low());
            c[i] = vi_and(c[i], vi_low());
        }
        for (int i = 0; i < 8 && q8_floats(kind); i++) c[i] = vi_e2m1(c[i]);
        for (int i = 2; i < 4 && kind == Q8_HALVES4; i++) { // those of each half together
            vi was = c[i];
            c[i] = c[i + 2];
            c[i + 2] = was;
        }
        return;
    }
    for (int i = 0; i < 8; i++) c[i] = vi_gather(p->codes, block * 32 + i / 4 * 16, i % 4);
    vi_transpose4(c);
    vi_transpose4(c + 4);
}

// A vector of 32-bit lanes holds one group of each output as f32, two as f16 or bf16, or four as
// e8m0 or e4m3: group `i` of those in f32.
INLINE vf group_of(enum dtype type, vi v, int i) {
    if (type == DT_F32) return vf_of_bits(v);
    if (type == DT_F16) return vf_of_f16(i ? vi_shift_down(v, 16) : v);
    if (type == DT_BF16) return vf_of_bits(i ? vi_and(v, vi_set(-65536)) : vi_shift_up(v, 16));
    vi byte = vi_and(vi_shift_down(v, 8 * i), vi_set(255));
    if (type == DT_F8_E8M0) return vf_from_e8m0_bits(byte);
    byte = vi_or(byte, vi_and(vi_shift_up(byte, 1), vi_set(256))); // the sign goes on
    return vf_mul(vf_of_f16(e4m3_to_f16(byte)), vf_set(256));
}

INLINE int group_bytes(enum dtype type) {
    return type == DT_F32 ? 4 : type == DT_F16 || type == DT_BF16 ? 2 : 1;
}

// 16 bytes of the groups of each of LANES rows, a row a lane, transposed as codes are.
INLINE void load_groups16(enum dtype type, float *out, const uint8_t *const row[LANES],
                          int64_t from) {
    int size = group_bytes(type);
    vi v[4];
    for (int i = 0; i < 4; i++) v[i] = vi_gather(row, from * size, i);
    vi_transpose4(v);
    for (int i = 0; i < 16 / size; i++)
        vf_store(out + i * LANES, group_of(type, v[i * size / 4], i % (4 / size)));
}

// n groups. Where they are less than 16 bytes, what follows in `out` is overwritten.
INLINE void load_groups_of(enum dtype type, float *out, const uint8_t *const row[LANES],
                           int64_t from, int64_t n) {
    int64_t size = group_bytes(type), some = 16 / size;
    if (n >= some) {
        for (int64_t g = 0; g + some <= n; g += some)
            load_groups16(type, out + g * LANES, row, from + g);
        if (n % some) load_groups16(type, out + (n - some) * LANES, row, from + n - some);
        return;
    }
    uint8_t rest[LANES][16] = {{0}};
    const uint8_t *copy[LANES];
    for (int l = 0; l < LANES; l++)
        copy[l] = memcpy(rest[l], row[l] + from * size, (size_t)(n * size));
    load_groups16(type, out, copy, 0);
}

INLINE void load_groups(enum dtype type, float *out, const uint8_t *const row[LANES], int64_t from,
                        int64_t n) {
    switch (type) {
    case DT_F16: load_groups_of(DT_F16, out, row, from, n); break;
    case DT_BF16: load_groups_of(DT_BF16, out, row, from, n); break;
    default: load_groups_of(DT_F32, out, row, from, n); break;
    }
}

// Fills scale and bias of the panel's groups.
INLINE void load_scales(enum q8_kind kind, const struct weight *w, const struct q8_panel *p) {
    float *scale = p->scale, *bias = p->bias; // bias lies after scale
    if (q8_floats(kind)) {                    // codes are twice what they stand for
        vf half = vf_set(kind == Q8_HALVES4 ? 0.5f * w->factor : 0.5f);
        if (kind == Q8_HALVES4)
            load_groups_of(DT_F8_E4M3, scale, p->scales, p->from, p->groups);
        else
            load_groups_of(DT_F8_E8M0, scale, p->scales, p->from, p->groups);
        for (int64_t g = 0; g < p->groups * LANES; g += LANES)
            vf_store(scale + g, vf_mul(vf_load(scale + g), half));
        return;
    }
    load_groups(w->scales.type, scale, p->scales, p->from, p->groups);
    load_groups(w->biases.type, bias, p->biases, p->from, p->groups);
    vf centre = vf_set((float)(1 << (q8_bits(kind) - 1)));
    for (int64_t g = 0; g < p->groups * LANES; g += LANES)
        vf_store(bias + g, vf_fma(vf_load(scale + g), centre, vf_load(bias + g)));
}

// y and a block's part of it
INLINE vf add_block(vf y, vf sum, vf scale, vf bias, const struct q8 *x) {
    y = vf_fma(vf_mul(sum, vf_set(x->scale)), scale, y);
    return vf_fma(bias, vf_set(x->sum), y); // also brings what is not finite
}

// The least of 22 bits that is no less.
static inline float up_to_22_bits(float a) {
    uint32_t u;
    memcpy(&u, &a, sizeof u);
    u = (u + 3) & ~UINT32_C(3);
    memcpy(&a, &u, sizeof a);
    return a;
}

static inline int32_t sum_of_four(__m128i s) {
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

INLINE void quantize_block(struct q8 *q, const float *x, enum q8_kind kind) {
    __m256 v[4], top = _mm256_setzero_ps(), sum = _mm256_setzero_ps();
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_loadu_ps(x + 8 * i);
        top = _mm256_max_ps(top, _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v[i]));
        sum = _mm256_add_ps(sum, v[i]);
    }
    __m128 a = _mm_max_ps(_mm256_castps256_ps128(top), _mm256_extractf128_ps(top, 1));
    a = _mm_max_ps(a, _mm_movehl_ps(a, a));
    float most = _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
    a = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
    a = _mm_add_ps(a, _mm_movehl_ps(a, a));
    q->sum = _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)));
    q->scale = up_to_22_bits(most / 127);
    q->moved = -Q8_FLOAT * q->scale;
    __m256 inverse = _mm256_set1_ps(most > 1e-30f ? 1 / q->scale : 0);
    __m256i n[4];
    for (int i = 0; i < 4; i++) n[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
    __m256i all =
        _mm256_packs_epi16(_mm256_packs_epi32(n[0], n[1]), _mm256_packs_epi32(n[2], n[3]));
    all = _mm256_permutevar8x32_epi32(all, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    if (kind == Q8_CODES2) {
        __m128i pick = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        all = _mm256_shuffle_epi8(all, _mm256_broadcastsi128_si256(pick));
    }
    if (q8_bits(kind) == 4) {
        __m128i pick = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
        all = _mm256_shuffle_epi8(all, _mm256_broadcastsi128_si256(pick));
        if (kind != Q8_HALVES4) all = _mm256_permute4x64_epi64(all, 0xd8);
    }
    _mm256_storeu_si256((__m256i *)q->q, all);
    int32_t centre = q8_floats(kind) ? 12 : 1 << (q8_bits(kind) - 1);
    all = _mm256_maddubs_epi16(_mm256_set1_epi8(1), all);
    all = _mm256_madd_epi16(all, _mm256_set1_epi16(1));
    __m128i first = _mm256_castsi256_si128(all), second = _mm256_extracti128_si256(all, 1);
    if (kind == Q8_HALVES4) {
        uint32_t low = (uint32_t)(-centre * sum_of_four(first)) & 0xffff;
        q->start = (int32_t)(low | (uint32_t)(-centre * sum_of_four(second)) << 16);
        return;
    }
    q->start = Q8_BITS - centre * sum_of_four(_mm_add_epi32(first, second));
}

static void quantize_row(struct q8 *q, const float *x, int64_t n, enum q8_kind kind) {
    for (int64_t i = 0; i < n / 32; i++) quantize_block(q + i, x + 32 * i, kind);
}

#endif
