// Vectors of bytes and of words, as wide as those of f32 in vec.h, for simd_q8.h.
#ifndef COMPUTE_CPU_SIMD_VI_H
#define COMPUTE_CPU_SIMD_VI_H

#include "compute/cpu/simd_rows.h"

#if defined(__AVX512F__)

typedef __m512i vi;

static inline vi vi_load(const uint8_t *p) { return _mm512_loadu_si512(p); }
static inline void vi_store(uint8_t *p, vi a) { _mm512_storeu_si512(p, a); }
static inline vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
static inline vi vi_set(int32_t a) { return _mm512_set1_epi32(a); }
static inline vi vi_low(void) { return _mm512_set1_epi8(15); }
static inline vi vi_shift4(vi a) { return _mm512_srli_epi16(a, 4); }
static inline vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
// The bits of a where those of mask, in each lane, are ones, else of b.
static inline vi vi_pick(int32_t mask, vi a, vi b) {
    return _mm512_ternarylogic_epi32(vi_set(mask), a, b, 0xca);
}
// 32-bit lanes
static inline vi vi_shift_up(vi a, int by) { return _mm512_slli_epi32(a, (unsigned)by); }
static inline vi vi_shift_down(vi a, int by) { return _mm512_srli_epi32(a, (unsigned)by); }
static inline vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
static inline vi vi_set16(int16_t a) { return _mm512_set1_epi16(a); }
// Products of 16 bits, the sum of each two in a 32-bit lane.
static inline vi vi_madd(vi a, vi b) { return _mm512_madd_epi16(a, b); }
static inline vf vf_of_bits(vi a) { return _mm512_castsi512_ps(a); }
static inline vf vf_of_f16(vi a) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a)); } // the low 16
// In each 16 bytes: the lower two 32-bit lanes of a and of b in turn, or the upper two; the same of
// 64 bits; the even lanes of a, then of b, or the odd ones; all of a, then of b, as 16 bits.
static inline vi vi_low32(vi a, vi b) { return _mm512_unpacklo_epi32(a, b); }
static inline vi vi_high32(vi a, vi b) { return _mm512_unpackhi_epi32(a, b); }
static inline vi vi_low64(vi a, vi b) { return _mm512_unpacklo_epi64(a, b); }
static inline vi vi_high64(vi a, vi b) { return _mm512_unpackhi_epi64(a, b); }
static inline vi vi_even32(vi a, vi b) {
    return _mm512_castps_si512(_mm512_shuffle_ps(vf_of_bits(a), vf_of_bits(b), 0x88));
}
static inline vi vi_odd32(vi a, vi b) {
    return _mm512_castps_si512(_mm512_shuffle_ps(vf_of_bits(a), vf_of_bits(b), 0xdd));
}
static inline vi vi_pack(vi a, vi b) { return _mm512_packs_epi32(a, b); }
// Twice the value of each e2m1 code, and 12 more: the dot product takes no negative codes.
static inline vi vi_e2m1(vi a) {
    __m128i twice = _mm_loadu_si128((const __m128i *)e2m1_twice);
    __m128i moved = _mm_add_epi8(twice, _mm_set1_epi8(12));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(moved), a);
}

// 16 bytes of each of the rows i, i + 4, ...
static inline vi vi_gather(const uint8_t *const row[LANES], int64_t at, int i) {
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(row[i] + at)));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(row[i + 4] + at)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(row[i + 8] + at)), 2);
    return _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(row[i + 12] + at)), 3);
}

#else

typedef __m256i vi;

static inline vi vi_load(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void vi_store(uint8_t *p, vi a) { _mm256_storeu_si256((__m256i *)p, a); }
static inline vi vi_and(vi a, vi b) { return _mm256_and_si256(a, b); }
static inline vi vi_set(int32_t a) { return _mm256_set1_epi32(a); }
static inline vi vi_low(void) { return _mm256_set1_epi8(15); }
static inline vi vi_shift4(vi a) { return _mm256_srli_epi16(a, 4); }
static inline vi vi_or(vi a, vi b) { return _mm256_or_si256(a, b); }
// The bits of a where those of mask, in each lane, are ones, else of b.
static inline vi vi_pick(int32_t mask, vi a, vi b) {
    return _mm256_or_si256(_mm256_and_si256(vi_set(mask), a), _mm256_andnot_si256(vi_set(mask), b));
}
// 32-bit lanes
static inline vi vi_shift_up(vi a, int by) { return _mm256_slli_epi32(a, by); }
static inline vi vi_shift_down(vi a, int by) { return _mm256_srli_epi32(a, by); }
static inline vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
static inline vi vi_set16(int16_t a) { return _mm256_set1_epi16(a); }
// Products of 16 bits, the sum of each two in a 32-bit lane.
static inline vi vi_madd(vi a, vi b) { return _mm256_madd_epi16(a, b); }
static inline vf vf_of_bits(vi a) { return _mm256_castsi256_ps(a); }
static inline vf vf_of_f16(vi a) { // the low 16
    vi half = _mm256_and_si256(a, _mm256_set1_epi32(0xffff));
    half = _mm256_permute4x64_epi64(_mm256_packus_epi32(half, half), 0x88);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(half));
}
// In each 16 bytes: the lower two 32-bit lanes of a and of b in turn, or the upper two; the same of
// 64 bits; the even lanes of a, then of b, or the odd ones; all of a, then of b, as 16 bits.
static inline vi vi_low32(vi a, vi b) { return _mm256_unpacklo_epi32(a, b); }
static inline vi vi_high32(vi a, vi b) { return _mm256_unpackhi_epi32(a, b); }
static inline vi vi_low64(vi a, vi b) { return _mm256_unpacklo_epi64(a, b); }
static inline vi vi_high64(vi a, vi b) { return _mm256_unpackhi_epi64(a, b); }
static inline vi vi_even32(vi a, vi b) {
    return _mm256_castps_si256(_mm256_shuffle_ps(vf_of_bits(a), vf_of_bits(b), 0x88));
}
static inline vi vi_odd32(vi a, vi b) {
    return _mm256_castps_si256(_mm256_shuffle_ps(vf_of_bits(a), vf_of_bits(b), 0xdd));
}
static inline vi vi_pack(vi a, vi b) { return _mm256_packs_epi32(a, b); }
// Twice the value of each e2m1 code.
static inline vi vi_e2m1(vi a) {
    __m128i twice = _mm_loadu_si128((const __m128i *)e2m1_twice);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(twice), a);
}

// 16 bytes of each of the rows i and i + 4
static inline vi vi_gather(const uint8_t *const row[LANES], int64_t at, int i) {
    __m256i v = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(row[i] + at)));
    return _mm256_inserti128_si256(v, _mm_loadu_si128((const __m128i *)(row[i + 4] + at)), 1);
}

#endif

// In each 16 bytes: lane i of vector j becomes lane j of vector i.
static inline void vi_transpose4(vi a[4]) {
    vi b0 = vi_low32(a[0], a[1]), b1 = vi_high32(a[0], a[1]);
    vi b2 = vi_low32(a[2], a[3]), b3 = vi_high32(a[2], a[3]);
    a[0] = vi_low64(b0, b2);
    a[1] = vi_high64(b0, b2);
    a[2] = vi_low64(b1, b3);
    a[3] = vi_high64(b1, b3);
}

static inline vi vi_quad(const int8_t *q) { // four bytes in each lane
    int32_t four;
    memcpy(&four, q, sizeof four);
    return vi_set(four);
}

#endif
