// The kernels for AVX2, FMA and F16C.
#if defined(__x86_64__)
#define KERNELS kernels_avx2
#include "compute/cpu/simd_table.h"
#endif
