// A row's experts from the router on, in three launches: the router's logits; gated halves; the
// last products, weighted, added up and to the residual stream. None of them knows the choice
// before the logits are there, so each block makes it for itself: that takes less time than a
// launch that makes it for all.
//
// Each launch lets the next one begin only once it knows that the one before it is done. So what a
// launch does before it waits may read what the last but one has written: the second one has x in
// digits when the logits come, and the third one has its weights on their way while the second
// ends.
#ifndef COMPUTE_CUDA_MIXTURE_CUH
#define COMPUTE_CUDA_MIXTURE_CUH

#include "compute/cuda/product_tiles.cuh"
#include "compute/cuda/route.cuh"
#include "compute/cuda/stream.cuh"

// --- the router ----------------------------------------------------------------------------------

struct router {
    struct weight w, shared_gate; // shared_gate's is one more output
    struct stream_x x;
    float *logits; // [experts], then of shared_gate, then what x is multiplied by to be normed
};

enum { ROUTER_THREADS = 256, ROUTER_HOLD = 4 };

// Elements k to k + 7 of a row. KIND: as router_kind has it; the code of each is short, since a
// launch fetches it anew.
template <int KIND>
static __device__ __forceinline__ void weight_eight(float to[8], const struct weight &w,
                                                    int64_t row, int k) {
    const char *data = (const char *)w.data.data;
    if (KIND == FOUR_BF16 || KIND == 8) {
        const int BITS = KIND == 8 ? 8 : 4;
        const uint32_t *p = (const uint32_t *)data + row * w.data.stride[0] + k * BITS / 32;
        uint32_t a = p[0], b = BITS == 4 ? 0 : p[1];
        int group = k / (int)w.group;
        float scale = float_at(w.scales.data, DT_BF16, row * w.scales.stride[0] + group);
        float bias = float_at(w.biases.data, DT_BF16, row * w.biases.stride[0] + group);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            uint32_t code = BITS == 4 ? a >> 4 * i & 15 : (i < 4 ? a : b) >> 8 * (i % 4) & 255;
            to[i] = fmaf(scale, (float)code, bias);
        }
    } else if (KIND == DENSE_BF16) {
        const char *from = data + (row * w.data.stride[0] + k) * 2;
        widen(to, *(const uint4 *)from);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++) to[i] = weight_at(w, row, k + i);
    }
}

// The sums of two values over a block.
static __device__ __forceinline__ float2 block_sums(float a, float b) {
    __shared__ float2 part[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    a = warp_sum(a), b = warp_sum(b);
    if (lane == 0) part[warp] = make_float2(a, b);
    __syncthreads();
    float2 own = lane < warps ? part[lane] : make_float2(0, 0);
    return make_float2(warp_sum(own.x), warp_sum(own.y));
}

// A block an output.
template <int KIND>
static __global__ void __launch_bounds__(ROUTER_THREADS)
    router_kernel(const __grid_constant__ struct router r) {
    int out = blockIdx.x, in = (int)r.w.in, experts = (int)r.w.out;
    const struct weight &w = out < experts ? r.w : r.shared_gate;
    int64_t row = out < experts ? out : 0;
    float held[ROUTER_HOLD][8], norm[8], v[8], dot = 0, square = 0;
    auto weights = [&](float to[8], int k) {
        weight_eight<KIND>(to, w, row, k);
        load_eight(norm, r.x.norm + k, r.x.norm, 1);
#pragma unroll
        for (int i = 0; i < 8; i++) to[i] *= norm[i];
    };
    auto add = [&](const float by[8], int k) {
        load_eight(v, r.x.x + k, true, 0);
#pragma unroll
        for (int i = 0; i < 8; i++) dot = fmaf(v[i], by[i], dot), square = fmaf(v[i], v[i], square);
    };
    int first = (int)threadIdx.x * 8, step = ROUTER_THREADS * 8;
#pragma unroll
    for (int i = 0; i < ROUTER_HOLD; i++)
        if (first + i * step < in) weights(held[i], first + i * step);
    wait_for_last();
    let_next_begin();
#pragma unroll
    for (int i = 0; i < ROUTER_HOLD; i++)
        if (first + i * step < in) add(held[i], first + i * step);
    for (int k = first + ROUTER_HOLD * step; k < in; k += step) {
        weights(held[0], k);
        add(held[0], k);
    }
    float2 sum = block_sums(dot, square);
    if (threadIdx.x) return;
    float by = r.x.normed ? 1.0f / sqrtf(sum.y / (float)in + r.x.eps) : 1.0f;
    r.logits[out] = sum.x * by + bias_of(w, row);
    if (out == 0) r.logits[experts + 1] = by;
}

// --- experts -------------------------------------------------------------------------------------

// Matrices of experts, and a shared expert's cut into such: the first one of each, and how many
// bytes every other one is behind the one before.
struct stack {
    struct matrix m[2];
    int64_t data[2], scales[2], biases[2];
};

enum { GATE, UP, DOWN, ENTRIES_MOST = ROUTE_TOP_MOST + 8 };

struct mixture_row {
    struct choosing choosing;
    const float *logits; // as router leaves them
    bool gated;          // the shared expert is weighted
    bool weigh_input;
    int entries; // choices, then the shared expert's parts
    struct stack w[3];
    int hidden, width, group_shift[2]; // of hidden and of width
    bool wide;                         // stream_shape's, of gate and up
    struct stream_x x;                 // whose norm wants a factor
    float *halves;                     // [entries, width]
    float *y;                          // [hidden]
    bool add;
    struct gating gating;
};

// Where a row of codes of an expert begins, of its scales and of its biases. id -1 - i: of part i
// of the shared one.
static __device__ __forceinline__ const char *codes_at(const struct stack &s, int id, int row) {
    const struct matrix &m = s.m[id < 0];
    return (const char *)m.data + (id < 0 ? -1 - id : id) * s.data[id < 0] + row * m.ld * 4;
}

static __device__ __forceinline__ const char *scales_at(const struct stack &s, int id, int row) {
    const struct matrix &m = s.m[id < 0];
    return (const char *)m.scales + (id < 0 ? -1 - id : id) * s.scales[id < 0] +
           row * m.ld_scales * 2;
}

static __device__ __forceinline__ const char *biases_at(const struct stack &s, int id, int row) {
    const struct matrix &m = s.m[id < 0];
    return (const char *)m.biases + (id < 0 ? -1 - id : id) * s.biases[id < 0] +
           row * m.ld_biases * 2;
}

// The choice of a block, made by its first warp, as codes_at takes it.
struct chosen {
    int id[ENTRIES_MOST];
    float weight[ENTRIES_MOST];
};

template <int EACH>
static __device__ __forceinline__ void choose_entries(struct chosen *to,
                                                      const struct mixture_row &f, float *memory,
                                                      bool weighs) {
    int lane = threadIdx.x % 32, top = f.choosing.top;
    float v[EACH], same[EACH], weight = 1;
    load_logits<EACH>(v, f.choosing, f.logits);
#pragma unroll
    for (int i = 0; i < EACH; i++) same[i] = v[i];
    int own = choose<EACH>(f.choosing, v, memory);
    if (weighs) weight = weigh<EACH>(f.choosing, f.logits, same, own);
    if (lane < top) to->id[lane] = own, to->weight[lane] = weight;
    if (lane >= f.entries - top) return;
    to->id[top + lane] = -1 - lane;
    to->weight[top + lane] =
        f.gated ? activated(__ldcg(f.logits + f.choosing.experts), ACT_SIGMOID) : 1.0f;
}

// x times its norm's weights, as digits, by a block.
template <class Format, int THREADS>
static __device__ __forceinline__ void stage_digits(char *to, const struct stream_x &x, int in) {
    int units = (in + Format::STEP - 1) / Format::STEP * Format::STEP / 8;
    for (int u = threadIdx.x; u < units; u += THREADS) {
        float v[8], w[8];
        load_eight(v, x.x + u * 8, u * 8 < in, 0);
        load_eight(w, x.norm + u * 8, u * 8 < in && x.norm, 1);
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] *= w[i];
        Format::put(to, in, u, v);
    }
}

// Gated halves: an item is an output of gate and the same of up; a block takes items that follow
// each other.
template <class Format, int WARPS, int EACH>
static __global__ void __launch_bounds__(WARPS * 32, 1024 / (WARPS * 32))
    halves_kernel(const __grid_constant__ struct mixture_row f) {
    extern __shared__ uint4 shared[];
    __shared__ struct chosen chosen;
    const int size = Format::DEPTH * Format::STAGE;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, items = f.entries * f.width;
    char *ring = (char *)shared + warp * size, *x = (char *)shared + WARPS * size;
    float *memory = (float *)(x + Format::x_bytes(f.hidden));
    int from = (int)((int64_t)items * blockIdx.x / gridDim.x);
    int to = (int)((int64_t)items * (blockIdx.x + 1) / gridDim.x);
    stage_digits<Format, WARPS * 32>(x, f.x, f.hidden);
    wait_for_last();
    let_next_begin();
    float by = __ldcg(f.logits + f.choosing.experts + 1);
    if (warp == 0) choose_entries<EACH>(&chosen, f, memory, f.weigh_input);
    __syncthreads();
    struct stream_shape s = {f.hidden, f.group_shift[0], f.wide};
    auto rows = [&](int item) {
        int e = item / f.width, at = item - e * f.width, id = chosen.id[e];
        const struct stack &side = f.w[lane / Format::PIECES % 2];
        bool is_bias = lane / Format::PIECES / 2 % 2;
        struct row_pair p = {{codes_at(f.w[GATE], id, at), codes_at(f.w[UP], id, at)},
                             is_bias ? biases_at(side, id, at) : scales_at(side, id, at)};
        return p;
    };
    auto done = [&](int item, const float sum[2]) {
        int e = item / f.width;
        float all = f.weigh_input && e < f.choosing.top ? by * chosen.weight[e] : by;
        if (lane == 0) f.halves[item] = gated(sum[0] * all, sum[1] * all, f.gating);
    };
    stream_items<Format>(
        ring, from + warp, WARPS, to, s, rows, [] {}, [&](int) { return x; }, done);
}

static __device__ __forceinline__ uint4 load_codes(const char *p) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

static __device__ __forceinline__ uint32_t load_side(const char *p) {
    uint16_t v;
    asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(p));
    return v;
}

// The last products: an output is a sum over all entries, whose rows follow each other as one. A
// warp has ROWS outputs and N of each SPLIT * N blocks of 32 elements a lane.
template <int ROWS_, int SPLIT_, int N_> struct sums_format {
    static const int ROWS = ROWS_, SPLIT = SPLIT_, N = N_, PASS = 32 * SPLIT * N;
};

template <class Sums> struct sums_piece {
    uint4 codes[Sums::ROWS][Sums::N];
    uint32_t side[Sums::ROWS][Sums::N]; // scale, bias

    __device__ __forceinline__ void load(const struct mixture_row &f, const struct chosen &chosen,
                                         int row, int block) {
        int each = f.width / 32;
#pragma unroll
        for (int i = 0; i < Sums::N; i++) {
            int b = block + i * 32, e = b / each, k = b - e * each;
            bool there = e < f.entries;
            int id = there ? chosen.id[e] : 0, group = (k >> (f.group_shift[1] - 5)) * 2;
#pragma unroll
            for (int r = 0; r < Sums::ROWS; r++) {
                int at = at_most(row + r, f.hidden - 1);
                codes[r][i] = make_uint4(0, 0, 0, 0), side[r][i] = 0;
                if (!there) continue;
                codes[r][i] = load_codes(codes_at(f.w[DOWN], id, at) + k * 16);
                side[r][i] = load_side(scales_at(f.w[DOWN], id, at) + group) << 16 |
                             load_side(biases_at(f.w[DOWN], id, at) + group);
            }
        }
    }

    // x: planes of digits of `blocks` blocks.
    __device__ __forceinline__ void dot(float sum[Sums::ROWS], const char *x, int blocks,
                                        int block) const {
#pragma unroll
        for (int i = 0; i < Sums::N; i++) {
            const uint4 *plane = (const uint4 *)x + block + i * 32;
            struct digits d = {{plane[0], plane[blocks]}, {plane[2 * blocks], plane[3 * blocks]}};
            float2 scale = ((const float2 *)(x + (size_t)blocks * 64))[block + i * 32];
#pragma unroll
            for (int r = 0; r < Sums::ROWS; r++) {
                float t = (float)dot32(codes[r][i], d) * scale.x;
                sum[r] = fmaf(__uint_as_float(side[r][i] & 0xffff0000u), t, sum[r]);
                sum[r] = fmaf(__uint_as_float(side[r][i] << 16), scale.y, sum[r]);
            }
        }
    }
};

template <class Format, class Sums, int WARPS, int EACH>
static __global__ void __launch_bounds__(WARPS * 32, 1024 / (WARPS * 32))
    sums_kernel(const __grid_constant__ struct mixture_row f) {
    extern __shared__ uint4 shared[];
    __shared__ struct chosen chosen;
    __shared__ float part[WARPS][Sums::ROWS];
    const int TILE_ROWS = WARPS / Sums::SPLIT * Sums::ROWS;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, split = warp % Sums::SPLIT;
    int passes = (f.entries * f.width / 32 + Sums::PASS - 1) / Sums::PASS;
    int blocks = passes * Sums::PASS, own = split * Sums::N * 32 + lane;
    int all = blocks * 32; // elements of x, with zeros at their end
    char *x = (char *)shared;
    float *memory = (float *)(x + (size_t)blocks * 72);
    let_next_begin();
    if (warp == 0) choose_entries<EACH>(&chosen, f, memory, true);
    __syncthreads();
    int tile = blockIdx.x, tiles = (f.hidden + TILE_ROWS - 1) / TILE_ROWS;
    int row = tile * TILE_ROWS + warp / Sums::SPLIT * Sums::ROWS;
    struct sums_piece<Sums> p;
    p.load(f, chosen, row, own);
    wait_for_last();
    for (int u = threadIdx.x; u < all / 8; u += WARPS * 32) {
        float v[8];
        int e = u / (f.width / 8);
        load_eight(v, f.halves + u * 8, e < f.entries, 0);
        float by = e < f.entries && !(f.weigh_input && e < f.choosing.top) ? chosen.weight[e] : 1;
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] *= by;
        Format::put(x, all, u, v);
    }
    __syncthreads();
    for (;;) {
        float sum[Sums::ROWS] = {};
        for (int pass = 0;;) {
            p.dot(sum, x, blocks, own + pass * Sums::PASS);
            if (++pass == passes) break;
            p.load(f, chosen, row, own + pass * Sums::PASS);
        }
        tile += gridDim.x;
        bool more = tile < tiles;
        int last = row;
        row = tile * TILE_ROWS + warp / Sums::SPLIT * Sums::ROWS;
        if (more) p.load(f, chosen, row, own);
#pragma unroll
        for (int r = 0; r < Sums::ROWS; r++) {
            sum[r] = warp_sum(sum[r]);
            if (Sums::SPLIT > 1 && lane == 0) part[warp][r] = sum[r];
        }
        if (Sums::SPLIT > 1) __syncthreads();
        if (split == 0 && lane < Sums::ROWS && last + lane < f.hidden) {
            float v = 0;
            for (int s = 0; s < Sums::SPLIT && Sums::SPLIT > 1; s++) v += part[warp + s][lane];
            if (Sums::SPLIT == 1) v = lane ? sum[Sums::ROWS - 1] : sum[0];
            if (f.add)
                atomicAdd(f.y + last + lane, v); // nobody else adds: not to wait for what is there
            else
                f.y[last + lane] = v;
        }
        if (!more) break;
        if (Sums::SPLIT > 1) __syncthreads();
    }
}

#endif
