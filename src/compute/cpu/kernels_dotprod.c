// The kernels for 64-bit Arm with dot products of bytes (Armv8.2's, "asimddp" in /proc/cpuinfo).
#if defined(__aarch64__)
#define KERNELS kernels_dotprod
#include "compute/cpu/simd_table.h"
#endif
