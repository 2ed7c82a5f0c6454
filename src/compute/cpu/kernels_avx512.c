// The kernels for AVX-512 (F, BW, VL, DQ, VNNI).
#if defined(__x86_64__)
#define KERNELS kernels_avx512
#include "compute/cpu/simd_table.h"
#endif
