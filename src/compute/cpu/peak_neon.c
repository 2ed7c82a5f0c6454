#include "compute/cpu/peak.h"

#include <arm_neon.h>

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

// Bytes to 16 bits, twice, and pairs of them to 32: three instructions for what newer CPUs do in
// one. Each product takes its chain's sum, or it would be computed but once.
static double int8(int64_t rounds, float *sink) {
    int32x4_t acc[CHAINS];
    int8x16_t a = vdupq_n_s8(3);
    for (int i = 0; i < CHAINS; i++) acc[i] = vdupq_n_s32(i);
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++) {
            int8x16_t b = vreinterpretq_s8_s32(acc[i]);
            int16x8_t two = vmull_s8(vget_low_s8(b), vget_low_s8(a));
            acc[i] = vpadalq_s16(acc[i], vmlal_high_s8(two, b, a));
        }
    for (int i = 1; i < CHAINS; i++) acc[0] = vaddq_s32(acc[0], acc[i]);
    *sink = (float)vgetq_lane_s32(acc[0], 0);
    return 2.0 * 16 * CHAINS * (double)rounds;
}

const struct peak_loops peak_neon = {.f32 = f32, .int8 = int8};
