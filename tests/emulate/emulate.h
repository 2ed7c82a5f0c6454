// What takes the place of nvcc's device side where kernels run on the processor: each thread of a
// block is a fiber, which runs until it has to wait for others. Included before each .cu file,
// which translate.py then makes C++ of.
#ifndef EMULATE_H
#define EMULATE_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <array>
#include <functional>
#include <tuple>
#include <vector>

#include "watch.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#undef __shared__
#undef __launch_bounds__
#undef __forceinline__
#undef __grid_constant__
#undef __maxnreg__
#undef __align__
#define __shared__ EMU_SHARED
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __grid_constant__
#define __maxnreg__(...)
#define __align__(...) // each variable in shared memory begins at a multiple of 16

extern dim3 gridDim, blockDim;

// As device code sees it, though not the toolkit's headers.
#define __CUDA_ARCH__ 900

namespace emu {

// cp.async: done when waited for. Until then the place holds NaN.
struct copy {
    char *to;
    const char *from;
    int bytes, real; // the rest: zeros
    int group;
};

// A product of wgmma, of a warp.
struct product {
    std::vector<float *> sums[32];
    uint32_t a[32][4];
    uint64_t a_place, b_place;
    bool a_in_memory, brain, add, across; // across: b is N-major
    int group;
};

struct block;
struct cluster;

struct queue { // of threads that wait
    struct thread *first, *last;
};

struct warp {
    struct thread *lane[32];
    uint32_t live, waiting, met; // met: how often
    std::vector<product> products;
    int groups;
};

struct thread {
    uint3 index;
    struct block *block;
    struct warp *warp;
    int lane;
    // of a collective of the warp
    uint32_t mask;
    const char *what; // it waits for; NULL: it runs
    void *mine;
    void (*act)(void **lanes);
    int barrier, value;  // of a barrier of the block: its number; what it gives and gets
    int cluster_phase;   // the last that it arrived in
    struct thread *next; // in a queue
    std::vector<copy> copies;
    int groups; // committed
    // of its fiber
    void *sp;
    char *stack;
    void *fake_stack, *fiber; // as the sanitizers know it
    bool done;
};

struct block {
    uint3 index;
    struct cluster *cluster;
    int rank, live;
    bool begun, lets_next;
    char *memory; // from shared address 0 on
    struct {
        int arrived, value, released;
        queue waiting;
    } barrier[16];
};

// Place of a variable in shared memory, of a launch.
struct slot {
    int launch = 0;
    uint32_t at = 0;
};

extern thread *me;

[[noreturn]] void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

void *shared(slot &s, size_t size);
void *dynamic(void);
uint32_t shared_address(const void *p);
void *shared_place(uint32_t at, size_t size, size_t align); // of this block or the cluster's
uint32_t cluster_address(uint32_t at, uint32_t rank);
// Of launches that may begin while the one before ends.
void let_next_begin(void), wait_for_last(void);
uint32_t cluster_rank(void), cluster_blocks(void);
void cluster_arrive(void), cluster_wait(void);

// Waits for the lanes of a mask; the last does `act` with what each has brought.
void meet(uint32_t mask, const char *what, void *mine, void (*act)(void **lanes));
// Waits for `count` threads, 0: all of the block. The sum of values.
int barrier(int number, int count, int value);

void copy_async(uint32_t to, const void *from, int bytes, int real);
void copy_commit(void);
void copy_wait(int pending);

void mbarrier_init(uint32_t at, uint32_t count);
void mbarrier_arrive(uint32_t at, uint32_t bytes);
void mbarrier_wait(uint32_t at, uint32_t parity);
void store_async(uint32_t to, const float *from, int count, uint32_t at);
void copy_bulk(uint32_t to, const void *from, int bytes, uint32_t at);
void copy_box(uint32_t to, const void *map, int k, int row, uint32_t at);

void multiply(product *p); // this lane's part of it
void multiply_commit(void);
void multiply_wait(int pending);

cudaError_t run(const cudaLaunchConfig_t *config, const void *kernel, std::function<void()> body);

template <class... P, class... A>
cudaError_t launch(const cudaLaunchConfig_t *config, void (*kernel)(P...), A &&...args) {
    std::tuple<std::decay_t<P>...> held(args...);
    return run(config, (const void *)kernel, [=] {
        auto own = held;
        void (*call)(P...) = kernel;
        watch::end_ignoring(); // as of emulate.cc's begin()
        std::apply(call, own);
    });
}

template <class... P>
cudaError_t set_attribute(void (*kernel)(P...), cudaFuncAttribute what, int value) {
    return cudaFuncSetAttribute((const void *)kernel, what, value);
}

template <class... P>
auto chevrons(void (*kernel)(P...), dim3 blocks, dim3 threads, size_t size, cudaStream_t s) {
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks, config.blockDim = threads, config.dynamicSmemBytes = size;
    config.stream = s;
    return [=](P... args) { return launch(&config, kernel, args...); };
}

template <class T> T shuffle(uint32_t mask, T v, int from) {
    struct part {
        T in, out;
        int from;
    } p = {v, v, from};
    meet(mask, "shfl", &p, [](void **lanes) {
        for (int i = 0; i < 32; i++) {
            part *q = (part *)lanes[i], *o = q ? (part *)lanes[q->from & 31] : NULL;
            if (q && o) q->out = o->in;
            if (q && !o) memset((void *)&q->out, 0xff, sizeof q->out); // undefined
        }
    });
    return p.out;
}

template <class R, class T>
R gather(uint32_t mask, const char *what, T v, R first, R (*add)(R, T, int)) {
    struct part {
        T in;
        R out, first;
        R (*add)(R, T, int);
    } p = {v, first, first, add};
    meet(mask, what, &p, [](void **lanes) {
        R all{};
        bool any = false;
        for (int i = 0; i < 32; i++) {
            part *q = (part *)lanes[i];
            if (!q) continue;
            if (!any) all = q->first, any = true;
            all = q->add(all, q->in, i);
        }
        for (int i = 0; i < 32; i++)
            if (lanes[i]) ((part *)lanes[i])->out = all;
    });
    return p.out;
}

} // namespace emu

#define threadIdx            (emu::me->index)
#define blockIdx             (emu::me->block->index)
#define __expf               expf // which the C library has of its own
#define __logf               logf
#define cudaLaunchKernelEx   emu::launch
#define cudaFuncSetAttribute emu::set_attribute

static inline void __syncthreads() { emu::barrier(0, 0, 0); }
static inline int __syncthreads_or(int v) { return emu::barrier(0, 0, v != 0) != 0; }
static inline int __syncthreads_count(int v) { return emu::barrier(0, 0, v != 0); }
static inline int __syncthreads_and(int v) { return emu::barrier(0, 0, v == 0) == 0; }
static inline void __syncwarp(unsigned mask = ~0u) {
    emu::meet(mask, "syncwarp", NULL, [](void **) {});
}
static inline void __threadfence() {}
static inline void __threadfence_block() {}

template <class T> static inline T __shfl_sync(unsigned mask, T v, int lane, int width = 32) {
    int own = emu::me->lane;
    return emu::shuffle(mask, v, (own & ~(width - 1)) + (lane & (width - 1)));
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T v, int by, int width = 32) {
    int own = emu::me->lane, to = own ^ by;
    return emu::shuffle(mask, v, (to & ~(width - 1)) > (own & ~(width - 1)) ? own : to);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32) {
    int own = emu::me->lane, to = own - (int)by;
    return emu::shuffle(mask, v, to < (own & ~(width - 1)) ? own : to);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32) {
    int own = emu::me->lane, to = own + (int)by;
    return emu::shuffle(mask, v, to > (own | (width - 1)) ? own : to);
}
static inline unsigned __ballot_sync(unsigned mask, int v) {
    return emu::gather<unsigned, bool>(
        mask, "ballot", v != 0, 0,
        [](unsigned all, bool own, int i) { return all | (unsigned)own << i; });
}
static inline int __any_sync(unsigned mask, int v) { return __ballot_sync(mask, v) != 0; }
static inline int __all_sync(unsigned mask, int v) { return __ballot_sync(mask, !v) == 0; }
template <class T> static inline T __reduce_add_sync(unsigned mask, T v) {
    return emu::gather<T, T>(mask, "reduce", v, 0, [](T all, T own, int) { return T(all + own); });
}
template <class T> static inline T __reduce_min_sync(unsigned mask, T v) {
    return emu::gather<T, T>(mask, "reduce", v, v, [](T a, T b, int) { return a < b ? a : b; });
}
template <class T> static inline T __reduce_max_sync(unsigned mask, T v) {
    return emu::gather<T, T>(mask, "reduce", v, v, [](T a, T b, int) { return a > b ? a : b; });
}

template <class T> static inline T __ldg(const T *p) { return *p; }
template <class T> static inline T __ldcg(const T *p) { return *p; }
template <class T> static inline T __ldcs(const T *p) { return *p; }
template <class T> static inline void __stcg(T *p, T v) { *p = v; }
template <class T> static inline void __stcs(T *p, T v) { *p = v; }

// Fibers are not interrupted; the race detector is to know that it is meant.
template <class T, class F> static inline T atomically(T *p, F next) {
    T was, then;
    __atomic_load(p, &was, __ATOMIC_ACQUIRE);
    then = next(was);
    __atomic_store(p, &then, __ATOMIC_RELEASE);
    return was;
}
template <class T> static inline T atomicAdd(T *p, T v) {
    return atomically(p, [=](T was) { return T(was + v); });
}
template <class T> static inline T atomicMin(T *p, T v) {
    return atomically(p, [=](T was) { return was < v ? was : v; });
}
template <class T> static inline T atomicMax(T *p, T v) {
    return atomically(p, [=](T was) { return was > v ? was : v; });
}
template <class T> static inline T atomicExch(T *p, T v) {
    return atomically(p, [=](T) { return v; });
}

static inline size_t __cvta_generic_to_shared(const void *p) { return emu::shared_address(p); }

static inline float __uint_as_float(unsigned v) {
    float f;
    memcpy(&f, &v, 4);
    return f;
}
static inline float __int_as_float(int v) { return __uint_as_float((unsigned)v); }
static inline unsigned __float_as_uint(float f) {
    unsigned v;
    memcpy(&v, &f, 4);
    return v;
}
static inline int __float_as_int(float f) { return (int)__float_as_uint(f); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline int __float2int_rn(float x) { return (int)rintf(x); }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
    uint64_t all = (uint64_t)b << 32 | a;
    unsigned r = 0;
    for (int i = 0; i < 4; i++) {
        unsigned pick = s >> (4 * i), byte = all >> (8 * (pick & 7)) & 255;
        if (pick & 8) byte = byte & 128 ? 255 : 0;
        r |= byte << (8 * i);
    }
    return r;
}
static inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++) c += (int8_t)(a >> (8 * i)) * (int8_t)(b >> (8 * i));
    return c;
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; i++) c += (uint8_t)(a >> (8 * i)) * (uint8_t)(b >> (8 * i));
    return c;
}
template <class T> static inline T min(T a, T b) { return b < a ? b : a; }
template <class T> static inline T max(T a, T b) { return a < b ? b : a; }

static inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
    float2 x = __bfloat1622float2(a), y = __bfloat1622float2(b), z = __bfloat1622float2(c);
    return __floats2bfloat162_rn(fmaf(x.x, y.x, z.x), fmaf(x.y, y.y, z.y));
}

#include "ptx.h"

#endif
