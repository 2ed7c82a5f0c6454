// A vector of f32 as wide as the file's instruction set: 16 lanes with AVX-512, 8 with AVX2, 4 with
// NEON. Only the files named for an instruction set include this; everything is static, so that no
// code made for one machine is linked into what runs on another.
#ifndef COMPUTE_CPU_VEC_H
#define COMPUTE_CPU_VEC_H

#if defined(__ARM_NEON)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif
#include <math.h>
#include <string.h>

#include "compute/cpu/kernels.h"

#define INLINE __attribute__((always_inline)) static inline // loops over constants unroll

#if defined(__ARM_NEON)

enum { LANES = 4, REGISTERS = 32 };
typedef float32x4_t vf;

static inline vf vf_zero(void) { return vdupq_n_f32(0); }
static inline vf vf_set(float a) { return vdupq_n_f32(a); }
static inline vf vf_load(const float *p) { return vld1q_f32(p); }
static inline void vf_store(float *p, vf a) { vst1q_f32(p, a); }
static inline void vf_store_n(float *p, vf a, int64_t n) {
    float all[4];
    vst1q_f32(all, a);
    memcpy(p, all, (size_t)n * sizeof *p);
}
static inline vf vf_add(vf a, vf b) { return vaddq_f32(a, b); }
static inline vf vf_sub(vf a, vf b) { return vsubq_f32(a, b); }
static inline vf vf_mul(vf a, vf b) { return vmulq_f32(a, b); }
static inline vf vf_div(vf a, vf b) { return vdivq_f32(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }  // a * b + c
static inline vf vf_fnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); } // c - a * b
// Where either is NaN, b.
static inline vf vf_max(vf a, vf b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
static inline vf vf_min(vf a, vf b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
static inline vf vf_sqrt(vf a) { return vsqrtq_f32(a); }
static inline vf vf_round(vf a) { return vrndnq_f32(a); }
// a * 2^n, n a whole number in [-250, 250]; by halves, so that each factor is a normal number
static inline vf vf_ldexp(vf a, vf n) {
    int32x4_t all = vcvtq_s32_f32(n), half = vshrq_n_s32(all, 1), one = vdupq_n_s32(127);
    int32x4_t x = vshlq_n_s32(vaddq_s32(half, one), 23);
    int32x4_t y = vshlq_n_s32(vaddq_s32(vsubq_s32(all, half), one), 23);
    return vf_mul(vf_mul(a, vreinterpretq_f32_s32(x)), vreinterpretq_f32_s32(y));
}

static inline vf vf_from_f16(const uint16_t *p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
static inline vf vf_from_bf16(const uint16_t *p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
static inline void vf_to_f16(uint16_t *p, vf a) {
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a)));
}
static inline void vf_to_bf16(uint16_t *p, vf a) {
    uint32x4_t u = vreinterpretq_u32_f32(a), even = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    uint32x4_t up = vaddq_u32(u, vaddq_u32(even, vdupq_n_u32(0x7fff)));
    up = vbslq_u32(vceqq_f32(a, a), up, vorrq_u32(u, vdupq_n_u32(0x400000)));
    vst1_u16(p, vshrn_n_u32(up, 16));
}
static inline uint16x4_t four_bytes(const uint8_t *p) {
    uint32_t all;
    memcpy(&all, p, sizeof all);
    return vget_low_u16(vmovl_u8(vcreate_u8(all)));
}
// 4 bytes, each a whole number in [0, 255]
static inline vf vf_from_u8(const uint8_t *p) { return vcvtq_f32_u32(vmovl_u16(four_bytes(p))); }
// 4 bytes, each a whole number in [-128, 127]
static inline vf vf_from_i8(const uint8_t *p) {
    int32x4_t wide = vreinterpretq_s32_u32(vshll_n_u16(four_bytes(p), 16));
    return vcvtq_f32_s32(vshrq_n_s32(vshlq_n_s32(wide, 8), 24));
}
// 4 bytes of F8_E4M3 (tensor.h)
static inline vf vf_from_e4m3(const uint8_t *p) {
    uint16x4_t b = four_bytes(p), size = vand_u16(b, vdup_n_u16(127));
    uint16x4_t nan = vand_u16(vceq_u16(size, vdup_n_u16(127)), vdup_n_u16(0x7e00));
    uint16x4_t h = vorr_u16(vshl_n_u16(size, 7), vshl_n_u16(vsub_u16(b, size), 8));
    return vf_mul(vcvt_f32_f16(vreinterpret_f16_u16(vorr_u16(h, nan))), vf_set(256));
}
// 4 bytes of F8_E8M0 (tensor.h)
static inline vf vf_from_e8m0(const uint8_t *p) {
    uint32x4_t b = vmovl_u16(four_bytes(p)), least = vdupq_n_u32(0x400000);
    uint32x4_t ends = vorrq_u32(vceqzq_u32(b), vceqq_u32(b, vdupq_n_u32(255)));
    return vreinterpretq_f32_u32(vorrq_u32(vshlq_n_u32(b, 23), vandq_u32(ends, least)));
}

static inline float vf_sum(vf a) { return vaddvq_f32(a); }
// Every other one of 2 LANES - 1 elements, of which b holds the last LANES.
static inline vf vf_every_other(vf a, vf b) { return vuzp1q_f32(a, vextq_f32(b, b, 1)); }
// vf_sum of each of four, added in the same order
static inline void vf_sum4(const vf a[4], float out[4]) {
    vst1q_f32(out, vpaddq_f32(vpaddq_f32(a[0], a[1]), vpaddq_f32(a[2], a[3])));
}
static inline float vf_top(vf a) { return vmaxvq_f32(a); }

// In place: row i, lane j becomes row j, lane i.
static inline void vf_transpose(vf r[LANES]) {
    float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(r[0], r[1]));
    float64x2_t b = vreinterpretq_f64_f32(vtrn2q_f32(r[0], r[1]));
    float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(r[2], r[3]));
    float64x2_t d = vreinterpretq_f64_f32(vtrn2q_f32(r[2], r[3]));
    r[0] = vreinterpretq_f32_f64(vtrn1q_f64(a, c));
    r[1] = vreinterpretq_f32_f64(vtrn1q_f64(b, d));
    r[2] = vreinterpretq_f32_f64(vtrn2q_f64(a, c));
    r[3] = vreinterpretq_f32_f64(vtrn2q_f64(b, d));
}

// 16 bytes as 32 codes of 4 bits, the low one of each byte first.
static inline void split_bytes(uint8_t *out, const uint8_t *p) {
    uint8x16_t b = vld1q_u8(p), low = vandq_u8(b, vdupq_n_u8(15)), high = vshrq_n_u8(b, 4);
    vst1q_u8(out, vzip1q_u8(low, high));
    vst1q_u8(out + 16, vzip2q_u8(low, high));
}
// What the table has for the 16 codes of 4 bits in 8 bytes.
static inline void look_up_codes(uint8_t *out, const uint8_t *p, const int8_t table[16]) {
    uint8x8_t b = vld1_u8(p), low = vand_u8(b, vdup_n_u8(15)), high = vshr_n_u8(b, 4);
    uint8x16_t codes = vcombine_u8(vzip1_u8(low, high), vzip2_u8(low, high));
    vst1q_u8(out, vqtbl1q_u8(vld1q_u8((const uint8_t *)table), codes));
}

#elif defined(__AVX512F__)

enum { LANES = 16, REGISTERS = 32 };
typedef __m512 vf;

static inline __mmask16 first_lanes(int64_t n) { return (__mmask16)((1u << n) - 1); }
static inline vf vf_zero(void) { return _mm512_setzero_ps(); }
static inline vf vf_set(float a) { return _mm512_set1_ps(a); }
static inline vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
static inline void vf_store_n(float *p, vf a, int64_t n) {
    _mm512_mask_storeu_ps(p, first_lanes(n), a);
}
static inline vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }   // a * b + c
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); } // c - a * b
// Where either is NaN, b.
static inline vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
static inline vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
static inline vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }
static inline vf vf_round(vf a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// a * 2^n, n a whole number
static inline vf vf_ldexp(vf a, vf n) { return _mm512_scalef_ps(a, n); }

static inline vf vf_from_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
static inline vf vf_from_bf16(const uint16_t *p) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
static inline void vf_to_f16(uint16_t *p, vf a) {
    _mm256_storeu_si256((__m256i *)p,
                        _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline void vf_to_bf16(uint16_t *p, vf a) {
    __m512i u = _mm512_castps_si512(a);
    __m512i even = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(u, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff)));
    __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    up = _mm512_mask_or_epi32(up, nan, u, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16)));
}
// 16 bytes, each a whole number in [0, 255]
static inline vf vf_from_u8(const uint8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
// 16 bytes, each a whole number in [-128, 127]
static inline vf vf_from_i8(const uint8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
// F8_E4M3 (tensor.h), each sign-extended to 16 bits, as F16: a 256th of it. Where the size is 127,
// a carry makes it NaN.
static inline __m512i e4m3_to_f16(__m512i b) {
    __m512i h = _mm512_and_si512(_mm512_slli_epi16(b, 7), _mm512_set1_epi16((int16_t)0xbf80));
    __m512i up = _mm512_add_epi16(h, _mm512_set1_epi16(0x80));
    return _mm512_ternarylogic_epi32(h, up, _mm512_set1_epi16(0x4000), 0xf8); // h | (up & that)
}
static inline vf vf_from_e4m3(const uint8_t *p) { // 16 bytes
    __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
    __m512i h = e4m3_to_f16(_mm512_castsi256_si512(b));
    return vf_mul(_mm512_cvtph_ps(_mm512_castsi512_si256(h)), vf_set(256));
}
// 32 bytes of F8_E4M3: a 256th of each
static inline void vf_from_e4m3_two(const uint8_t *p, vf out[2]) {
    __m512i b = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)p));
    __m512i h = e4m3_to_f16(b);
    out[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(h));
    out[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(h, 1));
}
// F8_E8M0 (tensor.h), each in 32 bits
static inline vf vf_from_e8m0_bits(__m512i b) {
    __m512i all = _mm512_slli_epi32(b, 23), least = _mm512_set1_epi32(0x400000);
    all = _mm512_mask_mov_epi32(all, _mm512_testn_epi32_mask(b, b), least);
    __mmask16 nan = _mm512_cmpeq_epi32_mask(b, _mm512_set1_epi32(255));
    return _mm512_castsi512_ps(_mm512_mask_or_epi32(all, nan, all, least));
}
static inline vf vf_from_e8m0(const uint8_t *p) { // 16 bytes
    return vf_from_e8m0_bits(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

static inline float vf_sum(vf a) {
    __m256 lo = _mm512_castps512_ps256(a), hi = _mm512_extractf32x8_ps(a, 1);
    __m256 s = _mm256_add_ps(lo, hi);
    __m128 t = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    t = _mm_add_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_add_ss(t, _mm_movehdup_ps(t)));
}
// Every other one of 2 LANES - 1 elements, of which b holds the last LANES.
static inline vf vf_every_other(vf a, vf b) {
    __m512i pick = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31);
    return _mm512_permutex2var_ps(a, pick, b);
}
// vf_sum of each of four, added in the same order
static inline void vf_sum4(const vf a[4], float out[4]) {
    vf b0 = vf_add(_mm512_shuffle_f32x4(a[0], a[1], 0x44), _mm512_shuffle_f32x4(a[0], a[1], 0xee));
    vf b1 = vf_add(_mm512_shuffle_f32x4(a[2], a[3], 0x44), _mm512_shuffle_f32x4(a[2], a[3], 0xee));
    vf c = vf_add(_mm512_shuffle_f32x4(b0, b1, 0x88), _mm512_shuffle_f32x4(b0, b1, 0xdd));
    c = vf_add(c, _mm512_permute_ps(c, 0x0e));
    c = vf_add(c, _mm512_permute_ps(c, 0x01));
    __m512i first = _mm512_castsi128_si512(_mm_setr_epi32(0, 4, 8, 12));
    _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_permutexvar_ps(first, c)));
}
static inline float vf_top(vf a) { return _mm512_reduce_max_ps(a); }

// In place: row i, lane j becomes row j, lane i.
static inline void vf_transpose(vf r[LANES]) {
    vf t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        __m512d a = _mm512_castps_pd(t[i]), b = _mm512_castps_pd(t[i + 2]);
        __m512d c = _mm512_castps_pd(t[i + 1]), d = _mm512_castps_pd(t[i + 3]);
        r[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
        r[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        r[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(c, d));
        r[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(c, d));
    }
    for (int i = 0; i < 4; i++) { // r[i + 4 k] holds lanes i, i + 4, ... of rows 4 k .. 4 k + 3
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
        r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

#else

enum { LANES = 8, REGISTERS = 16 };
typedef __m256 vf;

static inline vf vf_zero(void) { return _mm256_setzero_ps(); }
static inline vf vf_set(float a) { return _mm256_set1_ps(a); }
static inline vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void vf_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
static inline void vf_store_n(float *p, vf a, int64_t n) {
    float all[8];
    _mm256_storeu_ps(all, a);
    memcpy(p, all, (size_t)n * sizeof *p);
}
static inline vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }   // a * b + c
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); } // c - a * b
// Where either is NaN, b.
static inline vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
static inline vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
static inline vf vf_sqrt(vf a) { return _mm256_sqrt_ps(a); }
static inline vf vf_round(vf a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// a * 2^n, n a whole number in [-250, 250]; by halves, so that each factor is a normal number
static inline vf vf_ldexp(vf a, vf n) {
    __m256i all = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(all, 1);
    __m256i rest = _mm256_sub_epi32(all, half), one = _mm256_set1_epi32(127);
    vf x = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, one), 23));
    vf y = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, one), 23));
    return vf_mul(vf_mul(a, x), y);
}

static inline vf vf_from_f16(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
static inline vf vf_from_bf16(const uint16_t *p) {
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
static inline void vf_to_f16(uint16_t *p, vf a) {
    _mm_storeu_si128((__m128i *)p,
                     _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline void vf_to_bf16(uint16_t *p, vf a) {
    __m256i u = _mm256_castps_si256(a);
    __m256i even = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(u, _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff)));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    up = _mm256_blendv_epi8(up, _mm256_or_si256(u, _mm256_set1_epi32(0x400000)), nan);
    up = _mm256_srli_epi32(up, 16);
    __m256i two = _mm256_permute4x64_epi64(_mm256_packus_epi32(up, up), 0x88);
    _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(two));
}
// 8 bytes, each a whole number in [0, 255]
static inline vf vf_from_u8(const uint8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
// 8 bytes, each a whole number in [-128, 127]
static inline vf vf_from_i8(const uint8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
// F8_E4M3 (tensor.h), each sign-extended to 16 bits, as F16: a 256th of it. Where the size is 127,
// a carry makes it NaN.
static inline __m256i e4m3_to_f16(__m256i b) {
    __m256i h = _mm256_and_si256(_mm256_slli_epi16(b, 7), _mm256_set1_epi16((int16_t)0xbf80));
    __m256i up = _mm256_add_epi16(h, _mm256_set1_epi16(0x80));
    return _mm256_or_si256(h, _mm256_and_si256(up, _mm256_set1_epi16(0x4000)));
}
static inline vf vf_from_e4m3(const uint8_t *p) { // 8 bytes
    __m128i b = _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)p));
    __m256i h = e4m3_to_f16(_mm256_castsi128_si256(b));
    return vf_mul(_mm256_cvtph_ps(_mm256_castsi256_si128(h)), vf_set(256));
}
// 16 bytes of F8_E4M3: a 256th of each
static inline void vf_from_e4m3_two(const uint8_t *p, vf out[2]) {
    __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
    __m256i h = e4m3_to_f16(b);
    out[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(h));
    out[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1));
}
// F8_E8M0 (tensor.h), each in 32 bits
static inline vf vf_from_e8m0_bits(__m256i b) {
    __m256i all = _mm256_slli_epi32(b, 23), least = _mm256_set1_epi32(0x400000);
    __m256i zero = _mm256_cmpeq_epi32(b, _mm256_setzero_si256());
    __m256i nan = _mm256_cmpeq_epi32(b, _mm256_set1_epi32(255));
    all = _mm256_or_si256(all, _mm256_and_si256(_mm256_or_si256(zero, nan), least));
    return _mm256_castsi256_ps(all);
}
static inline vf vf_from_e8m0(const uint8_t *p) { // 8 bytes
    return vf_from_e8m0_bits(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

static inline float vf_sum(vf a) {
    __m128 t = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    t = _mm_add_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_add_ss(t, _mm_movehdup_ps(t)));
}
// Every other one of 2 LANES - 1 elements, of which b holds the last LANES.
static inline vf vf_every_other(vf a, vf b) {
    __m256d pairs = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xd8));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(pairs, 0xd8));
}
// vf_sum of each of four, added in the same order
static inline void vf_sum4(const vf a[4], float out[4]) {
    vf b0 =
        vf_add(_mm256_permute2f128_ps(a[0], a[2], 0x20), _mm256_permute2f128_ps(a[0], a[2], 0x31));
    vf b1 =
        vf_add(_mm256_permute2f128_ps(a[1], a[3], 0x20), _mm256_permute2f128_ps(a[1], a[3], 0x31));
    b0 = vf_add(_mm256_shuffle_ps(b0, b1, 0x44), _mm256_shuffle_ps(b0, b1, 0xee));
    b0 = vf_add(_mm256_shuffle_ps(b0, b0, 0x88), _mm256_shuffle_ps(b0, b0, 0xdd));
    __m128 high = _mm256_extractf128_ps(b0, 1);
    _mm_storeu_ps(out, _mm_shuffle_ps(_mm256_castps256_ps128(b0), high, 0x44));
}
static inline float vf_top(vf a) {
    __m128 t = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    t = _mm_max_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_max_ss(t, _mm_movehdup_ps(t)));
}

// In place: row i, lane j becomes row j, lane i.
static inline void vf_transpose(vf r[LANES]) {
    vf t[8], u[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
}

#endif

#if !defined(__ARM_NEON)
// 16 bytes as 32 codes of 4 bits, the low one of each byte first.
static inline void split_bytes(uint8_t *out, const uint8_t *p) {
    __m128i b = _mm_loadu_si128((const __m128i *)p), low = _mm_set1_epi8(15);
    __m128i even = _mm_and_si128(b, low), odd = _mm_and_si128(_mm_srli_epi16(b, 4), low);
    _mm_storeu_si128((__m128i *)out, _mm_unpacklo_epi8(even, odd));
    _mm_storeu_si128((__m128i *)(out + 16), _mm_unpackhi_epi8(even, odd));
}
// What the table has for the 16 codes of 4 bits in 8 bytes.
static inline void look_up_codes(uint8_t *out, const uint8_t *p, const int8_t table[16]) {
    __m128i b = _mm_loadl_epi64((const __m128i *)p), low = _mm_set1_epi8(15);
    b = _mm_unpacklo_epi8(_mm_and_si128(b, low), _mm_and_si128(_mm_srli_epi16(b, 4), low));
    __m128i all = _mm_loadu_si128((const __m128i *)table);
    _mm_storeu_si128((__m128i *)out, _mm_shuffle_epi8(all, b));
}
#endif

// LANES elements of a float type's memory from element i on.
static inline vf vf_load_as(const void *p, enum dtype type, int64_t i) {
    if (type == DT_F32) return vf_load((const float *)p + i);
    if (type == DT_F8_E8M0) return vf_from_e8m0((const uint8_t *)p + i);
    if (type == DT_F8_E4M3) return vf_from_e4m3((const uint8_t *)p + i);
    const uint16_t *half = (const uint16_t *)p + i;
    return type == DT_F16 ? vf_from_f16(half) : vf_from_bf16(half);
}

// n < LANES elements, and after them zeros (of F8_E8M0, its least value).
static inline vf vf_load_as_n(const void *p, enum dtype type, int64_t i, int64_t n) {
    if (type == DT_F8_E8M0 || type == DT_F8_E4M3) {
        uint8_t all[LANES] = {0};
        memcpy(all, (const uint8_t *)p + i, (size_t)n);
        return vf_load_as(all, type, 0);
    }
#if defined(__AVX512F__)
    if (type == DT_F32) return _mm512_maskz_loadu_ps(first_lanes(n), (const float *)p + i);
    __m256i half = _mm256_maskz_loadu_epi16(first_lanes(n), (const uint16_t *)p + i);
    if (type == DT_F16) return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
#else
    if (type == DT_F32) {
        float all[LANES] = {0};
        memcpy(all, (const float *)p + i, (size_t)n * sizeof *all);
        return vf_load(all);
    }
    uint16_t all[LANES] = {0};
    memcpy(all, (const uint16_t *)p + i, (size_t)n * sizeof *all);
    return type == DT_F16 ? vf_from_f16(all) : vf_from_bf16(all);
#endif
}

static inline vf vf_load_n(const float *p, int64_t n) { return vf_load_as_n(p, DT_F32, 0, n); }

// The first n elements, of which there may be LANES and more, or none.
static inline vf vf_load_some(const float *p, int64_t n) {
    if (n >= LANES) return vf_load(p);
    return n > 0 ? vf_load_n(p, n) : vf_zero();
}
static inline void vf_store_some(float *p, vf a, int64_t n) {
    if (n >= LANES)
        vf_store(p, a);
    else if (n > 0)
        vf_store_n(p, a, n);
}

static inline void vf_store_as(void *p, enum dtype type, int64_t i, vf a) {
    if (type == DT_F32)
        vf_store((float *)p + i, a);
    else if (type == DT_F16)
        vf_to_f16((uint16_t *)p + i, a);
    else
        vf_to_bf16((uint16_t *)p + i, a);
}

// x = n ln 2 + r, |r| <= ln 2 / 2, and a Taylor series of (e^r - 1) / r, to the 7th power of e^r
// (its remainder, r^8 / 8!, is under 6e-9). ln 2 is taken off in two parts, the first short enough
// that n times it is exact.
static inline vf vf_exp_parts(vf x, vf *n, vf *r) {
    x = vf_min(vf_set(130.0f), vf_max(vf_set(-130.0f), x));
    *n = vf_round(vf_mul(x, vf_set(0x1.715476p+0f)));
    *r = vf_fnma(*n, vf_set(0x1.62e4p-1f), x);
    *r = vf_fnma(*n, vf_set(0x1.7f7d1cp-20f), *r);
    vf p = vf_set(1.0f / 5040);
    p = vf_fma(p, *r, vf_set(1.0f / 720));
    p = vf_fma(p, *r, vf_set(1.0f / 120));
    p = vf_fma(p, *r, vf_set(1.0f / 24));
    p = vf_fma(p, *r, vf_set(1.0f / 6));
    p = vf_fma(p, *r, vf_set(0.5f));
    return vf_fma(p, *r, vf_set(1.0f));
}

// e^x within 2 ulp. Below -104 the result is 0, above 88.8 infinity; NaN stays.
static inline vf vf_exp(vf x) {
    vf n, r, p = vf_exp_parts(x, &n, &r);
    return vf_ldexp(vf_fma(p, r, vf_set(1.0f)), n);
}

// e^x - 1 within 2 ulp: near 0, too.
static inline vf vf_expm1(vf x) {
    vf n, r, p = vf_exp_parts(x, &n, &r), one = vf_set(1.0f);
    return vf_add(vf_ldexp(vf_mul(p, r), n), vf_sub(vf_ldexp(one, n), one));
}

static inline vf vf_sigmoid(vf x) {
    vf one = vf_set(1.0f);
    return vf_div(one, vf_add(one, vf_exp(vf_sub(vf_zero(), x))));
}

// ln(1 + e^x) = max(x, 0) + ln(1 + u), u = e^-|x|; ln(1 + u) is twice the area tangent of
// z = u / (2 + u) <= 1 / 3, whose series to the 15th power is within 2e-9.
static inline vf vf_softplus(vf x) {
    vf zero = vf_zero(), u = vf_exp(vf_min(x, vf_sub(zero, x)));
    vf z = vf_div(u, vf_add(vf_set(2.0f), u)), zz = vf_mul(z, z);
    vf p = vf_set(2.0f / 15);
    for (int k = 13; k > 0; k -= 2) p = vf_fma(p, zz, vf_set(2.0f / (float)k));
    return vf_fma(p, z, vf_max(zero, x));
}

// tanh within 2e-7 of it: 1 - 2 / (1 + e^(2 x)). Near 0 the error stays absolute, not relative.
static inline vf vf_tanh(vf x) {
    vf e = vf_exp(vf_add(x, x)), one = vf_set(1.0f);
    return vf_sub(one, vf_div(vf_set(2.0f), vf_add(one, e)));
}

#endif
