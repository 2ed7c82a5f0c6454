// What compute capability 9.0 has for tiles: copies that count bytes in a barrier, and products of
// four warps whose A operand is in registers and whose B operand is in shared memory (wgmma).
// For files that are compiled for sm_90a.
#ifndef COMPUTE_CUDA_WGMMA_CUH
#define COMPUTE_CUDA_WGMMA_CUH

#include <cuda.h>

#include "compute/cuda/cluster.cuh"

// --- barriers ------------------------------------------------------------------------------------

static __device__ __forceinline__ void barrier_make(uint64_t *b, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_at(b)), "r"(arrivals));
}

// By who made them: before others of the cluster, or copies, use them.
static __device__ __forceinline__ void barriers_made() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

static __device__ __forceinline__ void barrier_arrive(uint64_t *b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_at(b)) : "memory");
}

// Arrives, and so many bytes of copies are to arrive too.
static __device__ __forceinline__ void barrier_expect(uint64_t *b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_at(b)),
                 "r"(bytes)
                 : "memory");
}

static __device__ __forceinline__ void barrier_wait(uint64_t *b, int parity) {
    asm volatile("{\n.reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra over;\nbra again;\nover:\n}" ::"r"(shared_at(b)),
                 "r"(parity)
                 : "memory");
}

// A multiple of 16 bytes, which b counts.
static __device__ __forceinline__ void copy_bulk(void *to, const void *from, int bytes,
                                                 uint64_t *b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(shared_at(to)),
                 "l"(from), "r"(bytes), "r"(shared_at(b))
                 : "memory");
}

// A box of a map, from column k of a row on.
static __device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap *map, int k, int row,
                                                uint64_t *b) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(map), "r"(k), "r"(row), "r"(shared_at(b))
                 : "memory");
}

// --- products ------------------------------------------------------------------------------------

// B is K-major: rows of 64 k (128 bytes) whose blocks of 16 bytes are out of order by the row
// (128-byte swizzle); groups of 8 rows follow each other. Where it stands is told by `place_of`, to
// which bytes / 16 may be added.
static __device__ __forceinline__ uint32_t place_of(uint32_t shared) {
    return (shared >> 4 & 0x3fff) | 1u << 16;
}

static __device__ __forceinline__ void wgmma_begin() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void wgmma_end() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Until at most PENDING groups of products are not done.
template <int PENDING> static __device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// d [64, N] (+)= a [64, 16] b [16, N], b as place_of tells. add: to what d holds.
template <int N>
static __device__ __forceinline__ void wgmma(float d[N / 2], const uint32_t a[4], uint32_t b,
                                             int add);

// The same with both from shared memory; a as place_of tells, too.
template <int N>
static __device__ __forceinline__ void wgmma(float d[N / 2], uint32_t a, uint32_t b, int add);

#define FOUR(i)       "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define EIGHT(i)      FOUR(i), FOUR(i + 4)
#define SIXTEEN(i)    EIGHT(i), EIGHT(i + 8)
#define THIRTY_TWO(i) SIXTEEN(i), SIXTEEN(i + 16)

// The names of so many sums in the instructions' text.
#define PLACES_8  "%0, %1, %2, %3, %4, %5, %6, %7"
#define PLACES_16 PLACES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define PLACES_32                                                                                  \
    PLACES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define PLACES_64                                                                                  \
    PLACES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
              "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

#define RESULTS_8  EIGHT(0)
#define RESULTS_16 SIXTEEN(0)
#define RESULTS_32 THIRTY_TWO(0)
#define RESULTS_64 THIRTY_TWO(0), THIRTY_TWO(32)

#define OF_REGISTERS(N, SUMS, A, B, ADD)                                                           \
    asm volatile("{\n.reg .pred p;\n.reg .b64 b;\nsetp.ne.b32 p, " ADD ", 0;\n"                    \
                 "mov.b64 b, {" B ", 0x40000040};\n"                                               \
                 "wgmma.mma_async.sync.aligned.m64n" N "k16.f32.bf16.bf16 {" PLACES_##SUMS         \
                 "}, {" A "}, "                                                                    \
                 "b, p, 1, 1, 0;\n}"                                                               \
                 : RESULTS_##SUMS                                                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(add))

#define OF_MEMORY(N, SUMS, A, B, ADD)                                                              \
    asm volatile("{\n.reg .pred p;\n.reg .b64 a, b;\nsetp.ne.b32 p, " ADD ", 0;\n"                 \
                 "mov.b64 a, {" A ", 0x40000040};\nmov.b64 b, {" B ", 0x40000040};\n"              \
                 "wgmma.mma_async.sync.aligned.m64n" N "k16.f32.bf16.bf16 {" PLACES_##SUMS         \
                 "}, "                                                                             \
                 "a, b, p, 1, 1, 0, 0;\n}"                                                         \
                 : RESULTS_##SUMS                                                                  \
                 : "r"(a), "r"(b), "r"(add))

template <>
__device__ __forceinline__ void wgmma<16>(float *d, const uint32_t a[4], uint32_t b, int add) {
    OF_REGISTERS("16", 8, "%8, %9, %10, %11", "%12", "%13");
}

template <>
__device__ __forceinline__ void wgmma<32>(float *d, const uint32_t a[4], uint32_t b, int add) {
    OF_REGISTERS("32", 16, "%16, %17, %18, %19", "%20", "%21");
}

template <>
__device__ __forceinline__ void wgmma<64>(float *d, const uint32_t a[4], uint32_t b, int add) {
    OF_REGISTERS("64", 32, "%32, %33, %34, %35", "%36", "%37");
}

template <>
__device__ __forceinline__ void wgmma<128>(float *d, const uint32_t a[4], uint32_t b, int add) {
    OF_REGISTERS("128", 64, "%64, %65, %66, %67", "%68", "%69");
}

template <> __device__ __forceinline__ void wgmma<16>(float *d, uint32_t a, uint32_t b, int add) {
    OF_MEMORY("16", 8, "%8", "%9", "%10");
}

template <> __device__ __forceinline__ void wgmma<32>(float *d, uint32_t a, uint32_t b, int add) {
    OF_MEMORY("32", 16, "%16", "%17", "%18");
}

template <> __device__ __forceinline__ void wgmma<64>(float *d, uint32_t a, uint32_t b, int add) {
    OF_MEMORY("64", 32, "%32", "%33", "%34");
}

template <> __device__ __forceinline__ void wgmma<128>(float *d, uint32_t a, uint32_t b, int add) {
    OF_MEMORY("128", 64, "%64", "%65", "%66");
}

#undef OF_MEMORY
#undef OF_REGISTERS
#undef RESULTS_64
#undef RESULTS_32
#undef RESULTS_16
#undef RESULTS_8
#undef THIRTY_TWO
#undef SIXTEEN
#undef EIGHT
#undef FOUR

#endif
