// Products of many rows with affine 4-bit weights, for tensor cores that take one operand from
// registers (compute capability 9.0). Sides are swapped: y^T = w x^T, so that a block has 256
// outputs by N rows, codes go from memory to the lanes that expand them, and nothing expanded is
// ever stored. x comes in bf16 as `tiled` has it.
//
// Each warp has a ring of its own for codes, scales and biases of its 16 outputs, TILES_K columns a
// stage; one warp more fetches x for all. Blocks go from tile to tile, their rings ahead of them.
#ifndef COMPUTE_CUDA_TILES_CUH
#define COMPUTE_CUDA_TILES_CUH

#include "compute/cuda/product_tiles.cuh"
#include "compute/cuda/wgmma.cuh"

enum {
    TILES_K = 256,                         // columns of a stage of weights
    TILES_STAGE = 16 * (TILES_K / 2 + 32), // its bytes: of 16 rows codes, scales, biases
};

// A block's form: N rows, 16 outputs of each of the warps that compute; x is fetched by a warpgroup
// of its own, whose registers the others get.
template <int ROWS> struct tiles_form {
    static constexpr int N = ROWS, WARPS = 16, LANES = 32 * WARPS, THREADS = LANES + 128;
    static constexpr int DEPTH = N > 64 ? 2 : 4, X_DEPTH = N > 32 ? 4 : 8;
    static constexpr int BLOCK = N * 128; // bytes of 64 columns of x
    static constexpr int X_STAGE = 2 * BLOCK;
    static constexpr int PENDING = N > 64 ? 0 : 1; // products that the expanding of others overlaps
    static constexpr size_t SIZE =
        1024 + (size_t)X_DEPTH * X_STAGE + (size_t)DEPTH * WARPS * TILES_STAGE;
};

struct tiles {
    struct matrix w[LINEAR_MAX];
    int first[LINEAR_MAX]; // the first tile of outputs of each
    int count, down;       // down: tiles of outputs, of all
    int across;            // tiles of rows
    struct shape shape;
    const uint4 *x; // as `tiled`
    int n, rows;
    float4 *parts; // [tiles, splits, N / 8, lanes of a block] where blocks share a tile
    bool add;      // to y, which is not overwritten
    bool gated;    // a warp has 8 outputs of w[0] and the same of w[1]: y of w[0]
    struct gating gating;
    struct curve curve;
    // Of experts: x's rows are their entries.
    const int32_t *start;
    int experts;
    const struct weight *expert[2];
};

// --- x -------------------------------------------------------------------------------------------

// How x is put for tiles: by 64 columns; of these all rows, padded to a multiple of 8; of a row 8
// times 16 bytes, which are out of order by the row. Columns are in the order in which lanes expand
// codes: of 128, the lane t of four has 32 t to 32 t + 31, and of 8 codes the pairs (i, i + 4) one
// after the other.
struct tiled {
    uint4 *to;
    int64_t rows; // of `to`
    const float *x;
    int64_t ldx;
    int in;              // a multiple of TILES_K
    const int32_t *list; // rows to take, NULL: all in order
    bool normed;         // each row divided by its rms, and multiplied by norm (NULL: 1)
    const float *norm;
    float eps;
    bool aligned; // rows of x, and norm, begin at multiples of 16 bytes
};

static __device__ __forceinline__ void load_run(float v[8], const float *p, bool aligned) {
    if (aligned) {
        *(float4 *)v = *(const float4 *)p;
        *(float4 *)(v + 4) = *(const float4 *)(p + 4);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] = p[i];
    }
}

// Of two values each lane of a pair gives the one that the other is to have.
static __device__ __forceinline__ uint32_t exchange(uint32_t a, uint32_t b, int lane, int by) {
    return __shfl_xor_sync(~0u, lane & by ? a : b, by);
}

// 256 columns of one row by a warp.
static __device__ __forceinline__ void tile_row(const struct tiled &t, int64_t row, int stage,
                                                const float v[8]) {
    int lane = threadIdx.x % 32, half = lane / 16, j = lane % 4;
    uint32_t p[4];
#pragma unroll
    for (int i = 0; i < 4; i++) p[i] = pack(v[i], v[i + 4]);
    // Lanes that differ in bits 2 and 3 turn their 4 by 4 pairs.
    uint32_t a = exchange(p[0], p[1], lane, 4), b = exchange(p[2], p[3], lane, 4);
    if (lane & 4)
        p[0] = a, p[2] = b;
    else
        p[1] = a, p[3] = b;
    a = exchange(p[0], p[2], lane, 8), b = exchange(p[1], p[3], lane, 8);
    if (lane & 8)
        p[0] = a, p[1] = b;
    else
        p[2] = a, p[3] = b;
    int64_t block = stage * 4 + half * 2 + j / 2;
    int at = (4 * (j % 2) + lane / 4 % 4) ^ (int)(row & 7);
    t.to[(block * t.rows + row) * 8 + at] = make_uint4(p[0], p[1], p[2], p[3]);
}

// A block a row.
static __global__ void tile_kernel(const __grid_constant__ struct tiled t) {
    wait_for_input();
    int64_t row = blockIdx.x;
    const float *x = t.x + (t.list ? t.list[row] : row) * t.ldx;
    float by = 1;
    if (t.normed) {
        float sum = 0;
        for (int k = threadIdx.x * 8; k < t.in; k += blockDim.x * 8) {
            float v[8];
            load_run(v, x + k, t.aligned);
#pragma unroll
            for (int i = 0; i < 8; i++) sum += v[i] * v[i];
        }
        by = 1.0f / sqrtf(block_sum(sum) / (float)t.in + t.eps);
    }
    for (int s = threadIdx.x / 32; s < t.in / TILES_K; s += blockDim.x / 32) {
        int k = s * TILES_K + threadIdx.x % 32 * 8;
        float v[8];
        load_run(v, x + k, t.aligned);
        if (t.normed) {
            float w[8] = {1, 1, 1, 1, 1, 1, 1, 1};
            if (t.norm) load_run(w, t.norm + k, t.aligned);
#pragma unroll
            for (int i = 0; i < 8; i++) v[i] *= by * w[i];
        }
        tile_row(t, row, s, v);
    }
}

// --- which tile ----------------------------------------------------------------------------------

struct tiles_at {
    bool there;
    int which, expert;
    int o;              // the warp's first output
    int row0, from, to; // rows of x: the tile's first, and those that it computes
};

// Of the windows of N entries that experts have, each from a multiple of 8 on, window `at`. By each
// warp for itself.
template <int N>
static __device__ __forceinline__ void find_window(struct tiles_at *t, const struct tiles &f,
                                                   int at) {
    int lane = threadIdx.x % 32;
    for (int base = 0; base < f.experts; base += 32) {
        int e = base + lane, from = e < f.experts ? f.start[e] : 0;
        int to = e < f.experts ? f.start[e + 1] : 0;
        int windows = to > from ? (to - (from & ~7) + N - 1) / N : 0, sum = windows;
        for (int d = 1; d < 32; d <<= 1) {
            int other = __shfl_up_sync(~0u, sum, d);
            if (lane >= d) sum += other;
        }
        unsigned past = __ballot_sync(~0u, sum > at);
        if (!past) {
            at -= __shfl_sync(~0u, sum, 31);
            continue;
        }
        int own = __ffs((int)past) - 1;
        int skipped = at - (__shfl_sync(~0u, sum, own) - __shfl_sync(~0u, windows, own));
        from = __shfl_sync(~0u, from, own), to = __shfl_sync(~0u, to, own);
        t->there = true, t->expert = base + own;
        t->row0 = (from & ~7) + skipped * N;
        t->from = t->row0 < from ? from : t->row0;
        t->to = t->row0 + N < to ? t->row0 + N : to;
        return;
    }
}

template <class Form, bool EXPERTS>
static __device__ __forceinline__ struct tiles_at tiles_find(const struct tiles &f, int index) {
    struct tiles_at t = {};
    const int N = Form::N;
    int warp = threadIdx.x / 32, down;
    if (EXPERTS) {
        down = index % f.down;
        find_window<N>(&t, f, index / f.down);
    } else {
        down = index / f.across;
        t.there = down < f.down;
        t.row0 = t.from = index % f.across * N;
        t.to = t.row0 + N < f.n ? t.row0 + N : f.n;
        while (!f.gated && t.which + 1 < f.count && down >= f.first[t.which + 1]) t.which++;
        down -= f.first[t.which];
    }
    t.o = (down * Form::WARPS + warp) * (f.gated ? 8 : 16);
    return t;
}

// --- the rings -----------------------------------------------------------------------------------

template <int BYTES>
static __device__ __forceinline__ void copy_small(uint32_t to, const void *from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES));
}

static __device__ __forceinline__ void copy_16(uint32_t to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}

static __device__ __forceinline__ const char *codes_of(const struct matrix *m, int64_t row) {
    return (const char *)m->data + row * m->ld * 4;
}

static __device__ __forceinline__ const char *codes_of(const struct weight *w, int64_t row) {
    return (const char *)w->data.data + row * w->data.stride[0] * 4;
}

static __device__ __forceinline__ const char *side_of(const struct matrix *m, int64_t row,
                                                      bool scales) {
    return scales ? (const char *)m->scales + row * m->ld_scales * 2
                  : (const char *)m->biases + row * m->ld_biases * 2;
}

static __device__ __forceinline__ const char *side_of(const struct weight *w, int64_t row,
                                                      bool scales) {
    return scales ? (const char *)w->scales.data + row * w->scales.stride[0] * 2
                  : (const char *)w->biases.data + row * w->biases.stride[0] * 2;
}

// What a warp fetches next of its weights: the tile, and the stage of it.
template <class Form, bool EXPERTS> struct weight_feed {
    uint32_t ring; // this lane's place in it
    int index, stage, slot;
    bool there;
    const char *low, *high, *side; // rows g and g + 8 of codes; a row's scales or biases

    // Rows 0 to 7 are a's from o on, 8 to 15 b's from o8 on.
    template <class Matrix>
    __device__ __forceinline__ void rows(const Matrix *a, const Matrix *b, int o, int o8) {
        int lane = threadIdx.x % 32, r = lane % 16, last = (int)a->out - 1;
        low = codes_of(a, min(o + lane / 4, last)) + lane % 4 * 16;
        high = codes_of(b, min(o8 + lane / 4, last)) + lane % 4 * 16;
        side = side_of(r < 8 ? a : b, min(r < 8 ? o + r : o8 + r - 8, last), lane < 16);
    }

    __device__ __forceinline__ void begin(const struct tiles &f) {
        struct tiles_at t = tiles_find<Form, EXPERTS>(f, index);
        there = t.there;
        if (!there) return;
        int second = f.gated ? 1 : 0, o8 = t.o + (f.gated ? 0 : 8);
        if (EXPERTS)
            rows(&f.expert[0][t.expert], &f.expert[second][t.expert], t.o, o8);
        else
            rows(&f.w[t.which], &f.w[t.which + second], t.o, o8);
    }

    __device__ __forceinline__ void feed(const struct tiles &f, int first, int end, int step) {
        if (there) {
            uint32_t to = ring + slot * TILES_STAGE;
            const char *l = low + stage * (TILES_K / 2), *h = high + stage * (TILES_K / 2);
            copy_16(to, l), copy_16(to + 512, h), copy_16(to + 1024, l + TILES_K / 4);
            copy_16(to + 1536, h + TILES_K / 4);
            int bytes = 2 * TILES_K >> f.shape.group_shift;
            const char *s = side + stage * bytes;
            if (bytes == 16) copy_16(to + 2048, s);
            if (bytes == 8) copy_small<8>(to + 2048, s);
            if (bytes == 4) copy_small<4>(to + 2048, s);
            if (++stage == end) stage = first, index += step, begin(f);
        }
        asm volatile("cp.async.commit_group;");
        if (++slot == Form::DEPTH) slot = 0;
    }
};

// Fetches x for all, by one warp. A slot is free once all warps have let go of it.
template <class Form, bool EXPERTS>
static __device__ __forceinline__ void tiles_fetch(const struct tiles &f, char *ring,
                                                   uint64_t *full, uint64_t *empty, int first,
                                                   int end, int index, int step) {
    int slot = 0, phase = 1, lane = threadIdx.x % 32;
    for (;; index += step) {
        struct tiles_at t = tiles_find<Form, EXPERTS>(f, index);
        if (!t.there) return;
        int bytes = ((t.to - t.row0 + 7) & ~7) * 128; // of a block
        const char *from = (const char *)f.x + (int64_t)t.row0 * 128;
        for (int b = first * 4; b < end * 4; b += 2) {
            barrier_wait(&empty[slot], phase);
            if (lane == 0) barrier_expect(&full[slot], 2 * bytes);
            __syncwarp();
            if (lane < 2)
                copy_bulk(ring + slot * Form::X_STAGE + lane * Form::BLOCK,
                          from + (int64_t)(b + lane) * f.rows * 128, bytes, &full[slot]);
            __syncwarp();
            if (++slot == Form::X_DEPTH) slot = 0, phase ^= 1;
        }
    }
}

// --- the kernel ----------------------------------------------------------------------------------

// The pair of codes (i, i + 4) of a word.
static __device__ __forceinline__ uint32_t expand_pair(uint32_t word, int i, uint32_t magic,
                                                       __nv_bfloat162 s, __nv_bfloat162 b) {
    const __nv_bfloat162 base = __float2bfloat162_rn(128.0f);
    uint32_t code; // 128 + code
    asm("lop3.b32 %0, %1, 0x000f000f, %2, 0xea;" : "=r"(code) : "r"(word >> (4 * i)), "r"(magic));
    __nv_bfloat162 v = __hfma2(__hsub2(*(__nv_bfloat162 *)&code, base), s, b);
    return *(uint32_t *)&v;
}

static __device__ __forceinline__ __nv_bfloat162 twice(const __nv_bfloat16 *p) {
    return __bfloat162bfloat162(*p);
}

// Where results of a tile go.
struct tiles_out {
    float *y;
    const float *bias[2]; // NULL: none
    int64_t ldy;
    int out, from, to;
};

static __device__ __forceinline__ float tiles_gated(const struct tiles &f, float gate, float up) {
    float limit = f.gating.limit;
    if (limit > 0) gate = fminf(gate, limit), up = fminf(fmaxf(up, -limit), limit);
    return curved(f.curve, gate) * (up + f.gating.plus);
}

// Of rows r and r + 1: outputs o (x, y) and o + 8 (z, w), or the latter are what o is gated with.
static __device__ __forceinline__ void put_results(const struct tiles &f, const struct tiles_out &t,
                                                   int o, int r, float4 v) {
    const float got[4] = {v.x, v.y, v.z, v.w};
    float bias[2] = {0, 0};
    int o8 = f.gated ? o : o + 8;
    if (t.bias[0]) bias[0] = o < t.out ? t.bias[0][o] : 0;
    if (t.bias[1]) bias[1] = o8 < t.out ? t.bias[1][o8] : 0;
#pragma unroll
    for (int e = 0; e < 2; e++) {
        if (r + e < t.from || r + e >= t.to) continue;
        float *y = t.y + (r + e) * t.ldy + o, a = got[e] + bias[0], b = got[e + 2] + bias[1];
        if (f.gated) {
            if (o < t.out) y[0] = tiles_gated(f, a, b);
            continue;
        }
        if (o < t.out) y[0] = f.add ? y[0] + a : a;
        if (o + 8 < t.out) y[8] = f.add ? y[8] + b : b;
    }
}

static __device__ __forceinline__ struct tiles_out tiles_out_of(const struct tiles &f,
                                                                const struct tiles_at &t) {
    const struct matrix *m = &f.w[t.which];
    struct tiles_out to = {m->y, {m->bias, m[f.gated].bias}, m->ldy, (int)m->out, t.from, t.to};
    return to;
}

// Adds what the blocks of a cluster have of its tile, each a part of it.
template <class Form>
static __device__ __forceinline__ void tiles_join(const struct tiles &f, const struct tiles_at &t,
                                                  const float *acc, int index) {
    const int units = Form::N / 8 * Form::LANES;
    int splits = cluster_size(), rank = cluster_rank(), warp = threadIdx.x / 32;
    float4 *parts = f.parts + (int64_t)index * splits * units;
#pragma unroll
    for (int j = 0; j < Form::N / 8; j++)
        parts[rank * units + j * Form::LANES + threadIdx.x] =
            make_float4(acc[4 * j], acc[4 * j + 1], acc[4 * j + 2], acc[4 * j + 3]);
    cluster_meet();
    struct tiles_out to = tiles_out_of(f, t);
    int end = units * (rank + 1) / splits;
    for (int u = units * rank / splits + threadIdx.x; u < end; u += Form::LANES) {
        int lane = u % 32, other = u % Form::LANES / 32;
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 4
        for (int p = 0; p < splits; p++) {
            float4 v = __ldcg(parts + p * units + u);
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
        put_results(f, to, t.o + (other - warp) * (f.gated ? 8 : 16) + lane / 4,
                    t.row0 + u / Form::LANES * 8 + lane % 4 * 2, sum);
    }
}

// The products of 64 columns.
template <int N>
static __device__ __forceinline__ void wgmma_four(float *acc, const uint32_t a[4][4], uint32_t x,
                                                  int add) {
    wgmma_begin();
#pragma unroll
    for (int i = 0; i < 4; i++) wgmma<N>(acc, a[i], x + 2 * i, i || add);
    wgmma_end();
}

// What the warps do that compute.
template <class Form, bool EXPERTS>
static __device__ __forceinline__ void tiles_multiply(const struct tiles &f, const char *xs,
                                                      uint64_t *full, uint64_t *empty, int first,
                                                      int end, int index, int step) {
    const int N = Form::N, PENDING = Form::PENDING;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const char *ring = xs + Form::X_DEPTH * Form::X_STAGE + warp * Form::DEPTH * TILES_STAGE;
    weight_feed<Form, EXPERTS> w = {
        shared_at(ring) + lane * 16, index, first, 0, false, NULL, NULL, NULL};
    w.begin(f);
#pragma unroll 1
    for (int i = 0; i + 1 < Form::DEPTH; i++) w.feed(f, first, end, step);
    if (!EXPERTS) wait_for_input(); // as memory that is written to is in use until then
    int slot = 0, x_slot = 0, phase = 0;
    uint32_t magic = 0x43004300u, place = place_of(shared_at(xs));
    asm volatile("" : "+r"(magic)); // stays in a register, so that two constants meet in one lop3
    for (;; index += step) {
        struct tiles_at t = tiles_find<Form, EXPERTS>(f, index);
        if (!t.there) break;
        float acc[N / 2];
        int add = 0, before = 0;
        for (int s = first; s < end; s++) {
            asm volatile("cp.async.wait_group %0;" ::"n"(Form::DEPTH - 2) : "memory");
            __syncwarp();
            w.feed(f, first, end, step);
            const char *own = ring + slot * TILES_STAGE;
            if (++slot == Form::DEPTH) slot = 0;
            uint32_t a[2][4][4];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const uint4 *codes = (const uint4 *)(own + h * 1024) + lane;
                uint4 lo = codes[0], hi = codes[32];
                const __nv_bfloat16 *side =
                    (const __nv_bfloat16 *)(own + 2048 + lane / 4 * 16) +
                    ((h * TILES_K / 2 + lane % 4 * 32) >> f.shape.group_shift);
                __nv_bfloat162 ls = twice(side), hs = twice(side + 64), lb = twice(side + 128),
                               hb = twice(side + 192);
                uint32_t at = __shfl_sync(~0u, place + x_slot * (Form::X_STAGE / 16), 0);
#pragma unroll
                for (int b = 0; b < 2; b++) {
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        uint32_t u = b ? (i < 2 ? lo.z : lo.w) : (i < 2 ? lo.x : lo.y);
                        uint32_t v = b ? (i < 2 ? hi.z : hi.w) : (i < 2 ? hi.x : hi.y);
                        int p = i % 2 * 2;
                        a[b][i][0] = expand_pair(u, p, magic, ls, lb);
                        a[b][i][1] = expand_pair(v, p, magic, hs, hb);
                        a[b][i][2] = expand_pair(u, p + 1, magic, ls, lb);
                        a[b][i][3] = expand_pair(v, p + 1, magic, hs, hb);
                    }
                    if (b == 0) barrier_wait(&full[x_slot], phase);
                    wgmma_four<N>(acc, a[b], at + b * (Form::BLOCK / 16), b || add);
                    wgmma_wait<PENDING>();
                    // The products before these are over: they were the last of the x before.
                    if (PENDING && b == 0 && add && lane == 0) barrier_arrive(&empty[before]);
                }
                if (!PENDING && lane == 0) barrier_arrive(&empty[x_slot]);
                add = 1, before = x_slot;
                if (++x_slot == Form::X_DEPTH) x_slot = 0, phase ^= 1;
            }
        }
        if (PENDING) wgmma_wait<0>();
        if (PENDING && lane == 0) barrier_arrive(&empty[before]);
        if (!EXPERTS && cluster_size() > 1) {
            tiles_join<Form>(f, t, acc, index);
            return;
        }
        struct tiles_out to = tiles_out_of(f, t);
        if (EXPERTS) to.out = (int)f.expert[0][t.expert].out;
#pragma unroll
        for (int j = 0; j < N / 8; j++)
            put_results(f, to, t.o + lane / 4, t.row0 + 8 * j + lane % 4 * 2,
                        make_float4(acc[4 * j], acc[4 * j + 1], acc[4 * j + 2], acc[4 * j + 3]));
    }
}

// Grid: clusters of blocks that share k, each cluster takes every so manieth tile, or one if they
// are more than one block.
template <class Form, bool EXPERTS>
static __device__ __forceinline__ void tiles_compute(const struct tiles &f) {
    extern __shared__ uint4 shared[];
    __shared__ uint64_t full[Form::X_DEPTH], empty[Form::X_DEPTH];
    char *xs = (char *)shared + (-shared_at(shared) & 1023);
    if (threadIdx.x == 0) {
        for (int i = 0; i < Form::X_DEPTH; i++)
            barrier_make(&full[i], 1), barrier_make(&empty[i], Form::WARPS);
        barriers_made();
    }
    __syncthreads();
    int splits = cluster_size(), rank = cluster_rank(), stages = f.shape.in / TILES_K;
    int first = stages * rank / splits, end = stages * (rank + 1) / splits;
    int index = blockIdx.x / splits, step = gridDim.x / splits;
    if (threadIdx.x >= Form::LANES) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        wait_for_input();
        if (threadIdx.x / 32 == Form::WARPS)
            tiles_fetch<Form, EXPERTS>(f, xs, full, empty, first, end, index, step);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 112;");
        if (EXPERTS) wait_for_input();
        tiles_multiply<Form, EXPERTS>(f, xs, full, empty, first, end, index, step);
    }
}

#endif
