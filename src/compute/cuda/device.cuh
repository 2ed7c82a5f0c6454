// What kernels share: loads of any float type, sums over a block, and how a kernel is launched.
#ifndef COMPUTE_CUDA_DEVICE_CUH
#define COMPUTE_CUDA_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

extern "C" {
#include "compute/cuda/cuda.h"
}

// Launches pair up (programmatic dependent launch): a kernel may start while the one before it
// ends, once all blocks of that let it. What does not depend on earlier kernels (weights) may be
// fetched before it waits for what they wrote.
static __device__ __forceinline__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

static __device__ __forceinline__ void wait_for_last() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// What each kernel does first, unless it knows better. One that waits before it lets the next one
// begin promises that what the last but one wrote is there from the next one's start.
static __device__ __forceinline__ void wait_for_input() {
    let_next_begin();
    wait_for_last();
}

template <typename... Params, typename... Args>
static void launch(struct context *c, const char *op, void (*kernel)(Params...), dim3 grid,
                   int threads, size_t shared, Args... args) {
    cudaLaunchAttribute attribute[2] = {};
    attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute[0].val.programmaticStreamSerializationAllowed = 1;
    // In a step of one row each kernel begins while the one before ends, if both split a
    // processor's memory alike. In others the products want more of it as cache.
    const struct cuda *d = c->dev->cuda;
    attribute[1].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
    attribute[1].val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = shared;
    config.stream = d->stream;
    config.attrs = attribute;
    config.numAttrs = !d->pairs ? 0 : d->is_recording && d->is_single ? 2 : 1;
    cuda_ok(&c->err, cudaLaunchKernelEx(&config, kernel, Params(args)...), op);
}

// Lets a kernel have so many bytes of shared memory: what is beyond 48 KiB with its own must be
// asked for.
template <typename... Params>
static bool allow_shared(struct context *c, const char *op, void (*kernel)(Params...),
                         size_t size) {
    return size <= 32 << 10 ||
           cuda_ok(
               &c->err,
               cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)size),
               op);
}

static __device__ __forceinline__ uint32_t shared_at(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

// What an e8m0 scale stands for: 2^(e - 127).
static __device__ __forceinline__ float power_of_two(uint32_t e) {
    if (e == 255) return NAN;
    return __uint_as_float(e ? e << 23 : 1u << 22);
}

static __device__ __forceinline__ float e4m3(uint32_t v) {
    uint32_t exponent = v >> 3 & 15, mantissa = v & 7;
    float size = exponent ? __uint_as_float((exponent + 120) << 23 | mantissa << 20)
                          : (float)mantissa * 0x1p-9f;
    if ((v & 127) == 127) size = NAN;
    return v & 128 ? -size : size;
}

// Twice an e2m1 code's value.
static __device__ __forceinline__ float e2m1_twice(uint32_t code) {
    uint32_t low = code & 7;
    float size = low < 4 ? (float)low : (float)((low & 1 ? 3 : 2) << (low / 2 - 1));
    return code & 8 ? -size : size;
}

static __device__ __forceinline__ float float_at(const void *p, enum dtype type, int64_t i) {
    if (type == DT_F32) return ((const float *)p)[i];
    if (type == DT_F16) return __half2float(((const __half *)p)[i]);
    if (type == DT_F8_E4M3) return e4m3(((const uint8_t *)p)[i]);
    if (type == DT_F8_E8M0) return power_of_two(((const uint8_t *)p)[i]);
    return __bfloat162float(((const __nv_bfloat16 *)p)[i]);
}

// A pair of bf16.
static __device__ __forceinline__ uint32_t pack(float low, float high) {
    __nv_bfloat162 v = __floats2bfloat162_rn(low, high);
    return *(uint32_t *)&v;
}

static __device__ __forceinline__ float warp_sum(float v) {
    for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
    return v;
}

static __device__ __forceinline__ float warp_max(float v) {
    for (int d = 16; d > 0; d >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, d));
    return v;
}

// A value and where it is; none: -INFINITY at INT32_MAX.
struct best {
    float value;
    int at;
};

// The greater of two, the first of equals.
static __device__ __forceinline__ struct best better(struct best a, struct best b) {
    return b.value > a.value || (b.value == a.value && b.at < a.at) ? b : a;
}

static __device__ __forceinline__ struct best warp_best(struct best a) {
    for (int d = 16; d > 0; d >>= 1) {
        struct best b = {__shfl_xor_sync(~0u, a.value, d), __shfl_xor_sync(~0u, a.at, d)};
        a = better(a, b);
    }
    return a;
}

// How many of a block's THREADS threads before this one have `own`, and in all.
template <int THREADS> static __device__ __forceinline__ int before_me(bool own, int *all) {
    __shared__ int part[THREADS / 32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, sum = 0;
    unsigned together = __ballot_sync(~0u, own);
    __syncthreads();
    if (lane == 0) part[warp] = __popc(together);
    __syncthreads();
    *all = 0;
    for (int w = 0; w < THREADS / 32; w++) {
        if (w == warp) sum = *all;
        *all += part[w];
    }
    return sum + __popc(together & ((1u << lane) - 1));
}

// The sum over a block of at most 1024 threads, in every thread.
static __device__ float block_sum(float v) {
    __shared__ float part[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = (blockDim.x + 31) / 32;
    v = warp_sum(v);
    __syncthreads();
    if (lane == 0) part[warp] = v;
    __syncthreads();
    return warp_sum(lane < warps ? part[lane] : 0.0f);
}

// A whole number that is in the order of the values, above 0 for what is a number.
static __device__ __forceinline__ uint32_t order_of(float x) {
    uint32_t bits = __float_as_uint(x + 0.0f); // -0 is 0
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static __device__ __forceinline__ float activated(float x, int act) {
    if (act == ACT_SILU) return x / (1.0f + expf(-x));
    if (act == ACT_GELU) return 0.5f * x * erfcf(-0.70710678118f * x);
    if (act == ACT_QUICK_GELU) return x / (1.0f + expf(-1.702f * x));
    if (act == ACT_RELU_SQUARED) return x < 0 ? 0.0f : x * x;
    if (act == ACT_SIGMOID) return 1.0f / (1.0f + expf(-x));
    if (act == ACT_NONE) return x;
    // ACT_GELU_TANH: x (1 + tanh(u)) / 2 = x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3)
    return x / (1.0f + expf(-x * (1.5957691216f + 0.0713548163f * x * x)));
}

// Those activations that are x / (1 + exp(-x (linear + cubic x^2))), in few instructions.
struct curve {
    float linear, cubic;
};

// False: another one.
static inline bool curve_of(struct curve *k, enum activation act) {
    k->linear = act == ACT_QUICK_GELU ? 1.702f : act == ACT_SILU ? 1.0f : 1.5957691216f;
    k->cubic = act == ACT_GELU_TANH ? 0.0713548163f : 0.0f;
    return act == ACT_SILU || act == ACT_QUICK_GELU || act == ACT_GELU_TANH;
}

static __device__ __forceinline__ float curved(const struct curve &k, float x) {
    return __fdividef(x, 1.0f + __expf(-x * (k.linear + k.cubic * x * x)));
}

static __device__ __forceinline__ float softplus(float x) {
    return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
}

static __host__ __device__ inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

#endif
