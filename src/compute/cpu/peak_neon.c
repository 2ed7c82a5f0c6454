#include "compute/cpu/peak.h"

#include <arm_neon.h>
#include <stddef.h>

enum { CHAINS = 24 }; // what four units need to hide their latency, and the registers hold

static double f32(int64_t rounds, float *sink) {
    float32x4_t acc[CHAINS], a = vdupq_n_f32(0.75f), b = vdupq_n_f32(0.25f);
    for (int i = 0; i < CHAINS; i++) acc[i] = vdupq_n_f32((float)i);
    for (int64_t r = 0; r < rounds; r++) { // the sums are where the products go, so they go back
        for (int i = 0; i < CHAINS; i++) acc[i] = vfmaq_f32(acc[i], a, b);
        for (int i = 0; i < CHAINS; i++) acc[i] = vfmsq_f32(acc[i], a, b);
    }
    for (int i = 1; i < CHAINS; i++) acc[0] = vaddq_f32(acc[0], acc[i]);
    *sink = vgetq_lane_f32(acc[0], 0);
    return 2.0 * 2 * 4 * CHAINS * (double)rounds;
}

const struct peak_loops peak_neon = {f32, NULL};
