// Codes of 2, 3, 5 and 6 bits as a byte each, for simd_q8.h: blocks of 32 codes of LANES rows, a
// row a lane, each row a little-endian stream of `bits` words a block.
#ifndef COMPUTE_CPU_SIMD_CODES_H
#define COMPUTE_CPU_SIMD_CODES_H

#include "compute/cpu/simd_vi.h"

static inline bool q8_narrow(enum q8_kind kind) {
    return kind == Q8_CODES2 || kind == Q8_CODES3 || kind == Q8_CODES5 || kind == Q8_CODES6;
}

// Words at, at + 1, ... of the rows' streams, in `count` vectors; four more may be written. Reads
// of 16 bytes each stay within the row, which is at least that long.
INLINE void load_words(int count, const uint8_t *const row[LANES], int64_t at, int64_t words,
                       vi w[8]) {
    if (count <= 4) {
        int64_t from = at + 4 <= words ? at : words - 4; // the last block of a row
        for (int i = 0; i < 4; i++) w[i] = vi_gather(row, from * 4, i);
        vi_transpose4(w);
        for (; from < at; from++)
            for (int i = 0; i < 3; i++) w[i] = w[i + 1];
        return;
    }
    vi last[4];
    for (int i = 0; i < 4; i++) w[i] = vi_gather(row, at * 4, i);
    for (int i = 0; i < 4; i++) last[i] = vi_gather(row, (at + count - 4) * 4, i);
    vi_transpose4(w);
    vi_transpose4(last);
    for (int i = 4; i < count; i++) w[i] = last[i - count + 4];
}

// Four codes at the bottom of each lane to its four bytes: two go up to the upper half, then the
// odd ones to the odd bytes.
INLINE vi spread_codes(int bits, vi x) {
    vi halves = vi_pick(0xffff, x, vi_shift_up(x, 16 - 2 * bits));
    vi bytes = vi_pick(0xff00ff, halves, vi_shift_up(halves, 8 - bits));
    return vi_and(bytes, vi_set(((1 << bits) - 1) * 0x01010101));
}

// Codes 4 i .. 4 i + 3 of the block in vector i; of 2 bits, where c[4 h + k] is every fourth code
// from 16 h + k on, they only need a shift.
INLINE void load_narrow(int bits, const uint8_t *const row[LANES], int64_t block, int64_t words,
                        vi c[8]) {
    vi w[8];
    load_words(bits, row, block * bits, words, w);
    for (int i = 0; i < 8; i++) {
        if (bits == 2) {
            c[i] = vi_and(vi_shift_down(w[i / 4], i % 4 * 2), vi_set(0x03030303));
            continue;
        }
        int bit = 4 * bits * i, at = bit / 32, shift = bit % 32;
        vi x = vi_shift_down(w[at], shift);
        if (shift + 4 * bits > 32) x = vi_or(x, vi_shift_up(w[at + 1], 32 - shift));
        c[i] = spread_codes(bits, x);
    }
}

// --- one output's codes where they lie -----------------------------------------------------------

// A span is LANES / 4 blocks of one output; 128 bits of a vector are 16 codes of a block, and there
// are two such halves. Pairs of codes are brought to words of 16 bits, where they have the same
// place after a shift, and then one goes to each byte.
struct spread {
    uint8_t bytes[2][LANES * 4]; // of each half, which to take
    uint16_t shift[LANES * 2];   // of each word: bits down, or where that can't differ, a factor up
    uint32_t words[2][LANES];    // of the span's words, which belong to each half's 128 bits
};

static void spread_of(enum q8_kind kind, struct spread *s) {
    int bits = q8_bits(kind);
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < LANES * 4; i++) {
            int lane = i / 16, first = half * 2 * bits, word = i % 16 / 2;
#if defined(__AVX512F__)
            first %= 4; // the words begin with the half
#else
            if (kind == Q8_CODES3) first += lane * 4; // the second block is read from its end
            if (kind == Q8_CODES5) first -= half * 4;
            if (kind == Q8_CODES6) first -= half * 8;
#endif
            s->bytes[half][i] = (uint8_t)(first + word * 2 * bits / 8 + i % 2);
            int down = word * 2 * bits % 8;
#if defined(__AVX512F__)
            s->shift[i / 2] = (uint16_t)down;
#else
            s->shift[i / 2] = (uint16_t)(1 << (16 - 2 * bits - down));
#endif
            s->words[half][i / 4] = (uint32_t)(lane * bits + half * 2 * bits / 4 + i % 16 / 4);
        }
}

#if defined(__AVX512F__)

INLINE vi vi_load_some(const uint8_t *p, int64_t n) {
    return n < 64 ? _mm512_maskz_loadu_epi8(((__mmask64)1 << n) - 1, p) : vi_load(p);
}

INLINE vi spread_half(int bits, vi v, const struct spread *s, int half) {
    vi x = _mm512_shuffle_epi8(v, vi_load(s->bytes[half]));
    x = _mm512_srlv_epi16(x, _mm512_loadu_si512(s->shift));
    x = vi_pick(0xff00ff, x, _mm512_slli_epi16(x, (unsigned)(8 - bits)));
    return vi_and(x, vi_set(((1 << bits) - 1) * 0x01010101));
}

// The codes of n blocks; those of 2 bits in the order of load_narrow's vectors 0 4 1 5 and 2 6 3 7.
INLINE void load_halves(int bits, const uint8_t *codes, int n, const struct spread *s, vi c[2]) {
    int bytes = n * 4 * bits;
    vi v = vi_load_some(codes, bytes < 64 ? bytes : 64);
    if (bits == 2) {
        v = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3), v);
        vi by = _mm512_setr_epi64(0, 2, 0, 2, 0, 2, 0, 2);
        v = _mm512_srlv_epi64(v, by);
        c[0] = vi_and(v, vi_set(0x03030303));
        c[1] = vi_and(vi_shift4(v), vi_set(0x03030303));
        return;
    }
    vi more = bytes > 64 ? vi_load_some(codes + 64, bytes - 64) : v;
    for (int half = 0; half < 2; half++) {
        vi words = _mm512_loadu_si512(s->words[half]);
        c[half] = spread_half(bits, _mm512_permutex2var_epi32(v, words, more), s, half);
    }
}

#else

INLINE vi vi_two(const void *a, const void *b) {
    __m256i v = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)a));
    return _mm256_inserti128_si256(v, _mm_loadu_si128((const __m128i *)b), 1);
}

INLINE vi spread_half(int bits, vi v, const struct spread *s, int half) {
    vi x = _mm256_shuffle_epi8(v, vi_load(s->bytes[half]));
    x = _mm256_mullo_epi16(x, _mm256_loadu_si256((const __m256i *)(const void *)s->shift));
    vi even = _mm256_srli_epi16(x, 16 - 2 * bits), odd = _mm256_srli_epi16(x, 8 - bits);
    int mask = (1 << bits) - 1;
    return vi_or(vi_and(even, vi_set(mask * 0x00010001)), vi_and(odd, vi_set(mask * 0x01000100)));
}

// The codes of n blocks; those of 2 bits in the order of load_narrow's vectors 0 4 1 5 and 2 6 3 7.
INLINE void load_halves(int bits, const uint8_t *codes, int n, const struct spread *s, vi c[2]) {
    const uint8_t *second = codes + (n > 1 ? 4 * bits : 0);
    if (bits == 2) {
        __m128i b = n > 1 ? _mm_loadu_si128((const __m128i *)(const void *)codes)
                          : _mm_loadl_epi64((const __m128i *)(const void *)codes);
        vi v = _mm256_permute4x64_epi64(_mm256_castsi128_si256(b), 0x50);
        v = _mm256_srlv_epi64(v, _mm256_setr_epi64x(0, 2, 0, 2));
        c[0] = vi_and(v, vi_set(0x03030303));
        c[1] = vi_and(vi_shift4(v), vi_set(0x03030303));
        return;
    }
    if (bits == 3) { // no block is the only one of its row
        vi v =
            n > 1 ? vi_two(codes, codes + 8) : _mm256_srli_si256(vi_two(codes - 4, codes - 4), 4);
        for (int half = 0; half < 2; half++) c[half] = spread_half(bits, v, s, half);
        return;
    }
    int64_t end = 4 * bits - 16;
    c[0] = spread_half(bits, vi_two(codes, second), s, 0);
    c[1] = spread_half(bits, vi_two(codes + end, second + end), s, 1);
}

#endif

#endif
