// A warp's products of 16-bit tiles (mma.m16n8k16), and how their operands come to the registers.
// What an accumulator has of 16 rows by 8 columns: row lane / 4 (and + 8 in its second half),
// column lane % 4 * 2 and the next.
#ifndef COMPUTE_CUDA_MMA_CUH
#define COMPUTE_CUDA_MMA_CUH

#include "compute/cuda/device.cuh"

static const float LOG2E = 1.4426950408889634f;

static __device__ __forceinline__ float power2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

template <bool BRAIN>
static __device__ __forceinline__ void mma(float acc[4], const uint32_t a[4], uint32_t b0,
                                           uint32_t b1) {
    if (BRAIN)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8x8 matrices from rows whose addresses lanes give; `turned` transposes each.
static __device__ __forceinline__ void load_matrices(uint32_t to[4], const uint16_t *row,
                                                     bool turned) {
    uint32_t at = shared_at(row);
    if (turned)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(at));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(at));
}

// 16 bytes to shared memory, or zeros.
static __device__ __forceinline__ void copy16(uint16_t *to, const uint16_t *from, bool there) {
    uint32_t at = shared_at(to), size = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(size));
}

#endif
