#include "compute/cpu/peak.h"

#include <immintrin.h>

enum { CHAINS = 12 }; // what two units need to hide their latency; compilers unroll no more

static double f32(int64_t rounds, float *sink) {
    __m512 acc[CHAINS], a = _mm512_set1_ps(0.75f), b = _mm512_set1_ps(0.25f);
    for (int i = 0; i < CHAINS; i++) acc[i] = _mm512_set1_ps((float)i);
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++) acc[i] = _mm512_fmadd_ps(acc[i], a, b);
    for (int i = 1; i < CHAINS; i++) acc[0] = _mm512_add_ps(acc[0], acc[i]);
    *sink = _mm512_cvtss_f32(acc[0]);
    return 2.0 * 16 * CHAINS * (double)rounds;
}

static double int8(int64_t rounds, float *sink) {
    __m512i acc[CHAINS], a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(1);
    for (int i = 0; i < CHAINS; i++) acc[i] = _mm512_set1_epi32(i);
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++) acc[i] = _mm512_dpbusd_epi32(acc[i], a, b);
    for (int i = 1; i < CHAINS; i++) acc[0] = _mm512_add_epi32(acc[0], acc[i]);
    *sink = (float)_mm512_cvtsi512_si32(acc[0]);
    return 2.0 * 64 * CHAINS * (double)rounds;
}

const struct peak_loops peak_avx512 = {.f32 = f32, .int8 = int8};
