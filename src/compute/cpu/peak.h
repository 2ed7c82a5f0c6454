// Loops that do nothing but multiply and add in registers: the most that one thread of an
// instruction set can do, whatever memory does.
#ifndef COMPUTE_CPU_PEAK_H
#define COMPUTE_CPU_PEAK_H

#include <stdint.h>

// Each does `rounds` rounds, returns the operations in them (a multiply-add is two), and leaves a
// result in *sink, so that no compiler leaves the work out. All sums stay near 1: what is denormal
// or infinite has another speed.
struct peak_loops {
    double (*f32)(int64_t rounds, float *sink);
    double (*int8)(int64_t rounds, float *sink); // NULL: the kernels have no 8-bit products
    double (*bf16)(int64_t rounds, float *sink); // NULL: they have none in bf16
};

extern const struct peak_loops peak_avx2, peak_avx512, peak_avx512_bf16, peak_neon, peak_dotprod;

#endif
