#include "compute/cpu/peak.h"

#include <arm_neon.h>

enum { CHAINS = 24 }; // what four units need to hide their latency, and the registers hold

static double int8(int64_t rounds, float *sink) {
    int32x4_t acc[CHAINS];
    int8x16_t a = vdupq_n_s8(3), b = vdupq_n_s8(1);
    for (int i = 0; i < CHAINS; i++) acc[i] = vdupq_n_s32(i);
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++) acc[i] = vdotq_s32(acc[i], a, b);
    for (int i = 1; i < CHAINS; i++) acc[0] = vaddq_s32(acc[0], acc[i]);
    *sink = (float)vgetq_lane_s32(acc[0], 0);
    return 2.0 * 16 * CHAINS * (double)rounds;
}

// f32 is NEON's own.
const struct peak_loops peak_dotprod = {.int8 = int8};
