#include "compute/cpu/peak.h"

#include <immintrin.h>

enum { CHAINS = 12 }; // what two units need to hide their latency, within 16 registers

static double f32(int64_t rounds, float *sink) {
    __m256 acc[CHAINS], a = _mm256_set1_ps(0.75f), b = _mm256_set1_ps(0.25f);
    for (int i = 0; i < CHAINS; i++) acc[i] = _mm256_set1_ps((float)i);
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++) acc[i] = _mm256_fmadd_ps(acc[i], a, b);
    for (int i = 1; i < CHAINS; i++) acc[0] = _mm256_add_ps(acc[0], acc[i]);
    *sink = _mm256_cvtss_f32(acc[0]);
    return 2.0 * 8 * CHAINS * (double)rounds;
}

// Unsigned times signed bytes to pairs, pairs to 32 bits, and the sum: three instructions for what
// newer CPUs do in one. Each product takes its chain's sum, or it would be computed but once.
static double int8(int64_t rounds, float *sink) {
    __m256i acc[CHAINS], a = _mm256_set1_epi8(3), ones = _mm256_set1_epi16(1);
    for (int i = 0; i < CHAINS; i++) acc[i] = _mm256_set1_epi32(i);
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++)
            acc[i] =
                _mm256_add_epi32(acc[i], _mm256_madd_epi16(_mm256_maddubs_epi16(acc[i], a), ones));
    for (int i = 1; i < CHAINS; i++) acc[0] = _mm256_add_epi32(acc[0], acc[i]);
    *sink = (float)_mm256_extract_epi32(acc[0], 0);
    return 2.0 * 32 * CHAINS * (double)rounds;
}

const struct peak_loops peak_avx2 = {.f32 = f32, .int8 = int8};
