#include "compute/cpu/peak.h"

#include <immintrin.h>

enum { CHAINS = 12 }; // what two units need to hide their latency; compilers unroll no more

static double bf16(int64_t rounds, float *sink) {
    const __m512bh a = (__m512bh)_mm512_set1_epi16(0x0080); // tiny: sums stay near where they began
    const __m512bh b = (__m512bh)_mm512_set1_epi16(0x3f80); // 1
    __m512 acc[CHAINS];
    for (int i = 0; i < CHAINS; i++) acc[i] = _mm512_set1_ps((float)i);
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++) acc[i] = _mm512_dpbf16_ps(acc[i], a, b);
    for (int i = 1; i < CHAINS; i++) acc[0] = _mm512_add_ps(acc[0], acc[i]);
    *sink = _mm512_cvtss_f32(acc[0]);
    return 2.0 * 32 * CHAINS * (double)rounds;
}

const struct peak_loops peak_avx512_bf16 = {.bf16 = bf16};
