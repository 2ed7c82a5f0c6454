// The kernels for 64-bit Arm's NEON, which every such processor has.
#if defined(__aarch64__)
#define KERNELS kernels_neon
#include "compute/cpu/simd_table.h"
#endif
