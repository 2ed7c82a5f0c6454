// The kernels of products that work on one tile of a matrix, whoever says which: the ops of
// product.cu for one matrix, those of experts.cu for each expert's.
#ifndef COMPUTE_CUDA_PRODUCT_TILES_CUH
#define COMPUTE_CUDA_PRODUCT_TILES_CUH

#include "compute/cuda/product.cuh"

// --- any layout, in f32 --------------------------------------------------------------------------

static __device__ float element(const struct tensor &t, int64_t row, int64_t i) {
    return float_at(t.data, t.type, row * t.stride[0] + i * t.stride[1]);
}

static __device__ float weight_at(const struct weight &w, int64_t row, int64_t k) {
    if (w.layout == WEIGHT_DENSE) return element(w.data, row, k);
    if (w.layout == WEIGHT_F8)
        return element(w.data, row, k) *
               element(w.scales, (w.block_row + row) / w.block_rows, k / w.group);
    const uint32_t *p = (const uint32_t *)w.data.data + row * w.data.stride[0];
    int64_t bit = k * w.bits, at = bit >> 5;
    int shift = (int)(bit & 31);
    uint32_t code = p[at] >> shift;
    if (shift + w.bits > 32) code |= p[at + 1] << (32 - shift);
    code &= (1u << w.bits) - 1;
    float scale = element(w.scales, row, k / w.group);
    if (w.layout == WEIGHT_MXFP4) return scale * (0.5f * e2m1_twice(code));
    if (w.layout == WEIGHT_NVFP4) return scale * w.factor * (0.5f * e2m1_twice(code));
    return scale * (float)code + element(w.biases, row, k / w.group);
}

// The column of x that column k of the data meets.
static __device__ __forceinline__ int64_t column_of(const struct weight &w, int64_t k) {
    return w.order.dims ? ((const int32_t *)w.order.data)[k] : k;
}

static __device__ __forceinline__ float bias_of(const struct weight &w, int64_t o) {
    return w.bias.dims ? ((const float *)w.bias.data)[o] : 0.0f;
}

enum { TILE = 64, STEP = 16, EXACT_THREADS = 256 };

// STEP columns of TILE rows, turned: to[k][row].
template <typename Element>
static __device__ __forceinline__ void stage(float to[STEP][TILE + 4], int64_t rows,
                                             int64_t columns, Element element) {
    for (int i = threadIdx.x; i < TILE * STEP; i += EXACT_THREADS) {
        int row = i / STEP, k = i % STEP;
        to[k][row] = row < rows && k < columns ? element(row, k) : 0.0f;
    }
}

// A block computes the rows [r0, r0 + TILE) by the outputs [o0, o0 + TILE), each thread 4 by 4.
static __device__ void exact_tile(float *y, int64_t ldy, const float *x, int64_t ldx, int64_t n,
                                  const struct weight &w, int64_t r0, int64_t o0) {
    __shared__ __align__(16) float xs[STEP][TILE + 4], ws[STEP][TILE + 4];
    int row = threadIdx.x / 16 * 4, out = threadIdx.x % 16 * 4;
    float acc[4][4] = {};
    for (int64_t k0 = 0; k0 < w.in; k0 += STEP) {
        stage(xs, n - r0, w.in - k0,
              [&](int r, int k) { return x[(r0 + r) * ldx + column_of(w, k0 + k)]; });
        stage(ws, w.out - o0, w.in - k0,
              [&](int o, int k) { return weight_at(w, o0 + o, k0 + k); });
        __syncthreads();
#pragma unroll
        for (int k = 0; k < STEP; k++) {
            float4 a = *(const float4 *)&xs[k][row], b = *(const float4 *)&ws[k][out];
            const float u[4] = {a.x, a.y, a.z, a.w}, v[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
            for (int i = 0; i < 16; i++) acc[i / 4][i % 4] += u[i / 4] * v[i % 4];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 16; i++) {
        int64_t r = r0 + row + i / 4, o = o0 + out + i % 4;
        if (r < n && o < w.out) y[r * ldy + o] = acc[i / 4][i % 4] + bias_of(w, o);
    }
}

enum { FEW = 8, EXACT_FEW_THREADS = 128 };

// Affine codes none of which is in two words: a thread a word.
static __device__ __forceinline__ void exact_words(float acc[FEW], const float *x, int64_t ldx,
                                                   int n, const struct weight &w, int64_t o) {
    const uint32_t *p = (const uint32_t *)w.data.data + o * w.data.stride[0];
    int bits = w.bits, each = 32 / bits, words = (int)w.in / each, group = (int)w.group;
#pragma unroll 2
    for (int i = threadIdx.x; i < words; i += EXACT_FEW_THREADS) {
        uint32_t word = p[i];
        float scale = element(w.scales, o, i * each / group);
        float bias = element(w.biases, o, i * each / group);
        for (int k = i * each; k < (i + 1) * each; k++, word >>= bits) {
            float v = scale * (float)(word & ((1u << bits) - 1)) + bias;
#pragma unroll
            for (int r = 0; r < FEW; r++)
                if (r < n) acc[r] += v * x[r * ldx + k];
        }
    }
}

// Output o for n <= FEW rows, by a block: its threads share the columns.
static __device__ void exact_few(float *y, int64_t ldy, const float *x, int64_t ldx, int n,
                                 const struct weight &w, int64_t o) {
    float acc[FEW] = {};
    bool words = w.layout == WEIGHT_AFFINE && 32 % w.bits == 0 && !w.order.dims;
    if (words) exact_words(acc, x, ldx, n, w, o);
#pragma unroll 4
    for (int64_t k = threadIdx.x; k < w.in && !words; k += EXACT_FEW_THREADS) {
        float v = weight_at(w, o, k);
        int64_t column = column_of(w, k);
#pragma unroll
        for (int r = 0; r < FEW; r++)
            if (r < n) acc[r] += v * x[r * ldx + column];
    }
#pragma unroll
    for (int r = 0; r < FEW; r++) {
        if (r >= n) continue;
        float sum = block_sum(acc[r]);
        if (threadIdx.x == 0) y[r * ldy + o] = sum + bias_of(w, o);
    }
}

// --- few rows ------------------------------------------------------------------------------------

struct few {
    struct matrix w[LINEAR_MAX];
    int first[LINEAR_MAX]; // the first tile of each
    int count, tiles;
    struct shape shape;
    const float *x;
    int64_t ldx;
    int n;
    bool aligned; // rows of x begin at multiples of 16 bytes
    bool gated;   // w[0] and w[1] share blocks: y of w[0] = act(gate) * (up + plus), as gating says
    struct gating gating;
};

enum { FEW_WARPS = 8, FEW_PAD = 8 };

// x as bf16 into shared memory, in the order in which the weight's elements come.
template <int BITS>
static __device__ __forceinline__ void stage_x(__nv_bfloat16 *xs, const struct few &f, int ld) {
    int blocks = f.shape.in / 8;
    for (int r = 0; r < f.n; r++)
        for (int b = threadIdx.x; b < blocks; b += FEW_WARPS * 32) {
            const float *from = f.x + r * f.ldx + b * 8;
            float v[8];
            if (f.aligned) {
                *(float4 *)v = *(const float4 *)from;
                *(float4 *)(v + 4) = *(const float4 *)(from + 4);
            } else {
#pragma unroll
                for (int i = 0; i < 8; i++) v[i] = from[i];
            }
            uint4 packed;
            packed.x = pack(v[paired_at<BITS>(0)], v[paired_at<BITS>(1)]);
            packed.y = pack(v[paired_at<BITS>(2)], v[paired_at<BITS>(3)]);
            packed.z = pack(v[paired_at<BITS>(4)], v[paired_at<BITS>(5)]);
            packed.w = pack(v[paired_at<BITS>(6)], v[paired_at<BITS>(7)]);
            *(uint4 *)(xs + r * ld + b * 8) = packed;
        }
}

// 16 outputs of a matrix, or of a gated pair, and a lane's two rows of them.
struct few_tile {
    int which;
    int64_t row, low, high;
};

static __device__ __forceinline__ struct few_tile few_tile_at(const struct few &f, int at,
                                                              bool gated) {
    struct few_tile t = {0, 0, 0, 0};
    if (!gated)
        while (t.which + 1 < f.count && at >= f.first[t.which + 1]) t.which++;
    int g = threadIdx.x % 32 / 4;
    int64_t last = f.w[t.which].out - 1;
    t.row = (int64_t)(at - f.first[t.which]) * 16;
    t.low = t.row + g < last ? t.row + g : last;
    t.high = t.row + g + 8 < last ? t.row + g + 8 : last;
    return t;
}

static __device__ __forceinline__ float gated(float gate, float up, const struct gating &g) {
    if (g.limit > 0) gate = fminf(gate, g.limit), up = fminf(fmaxf(up, -g.limit), g.limit);
    return activated(gate, g.act) * (up + g.plus);
}

// The tiles first, first + step, ... of f, by a block. MATS: 1, or 2 where gated. The warps of a
// block take every FEW_WARPSth chunk of k each. A block goes from tile to tile; AHEAD chunks of
// each warp are in flight, those of the next tile while this one ends.
template <int BITS, int MATS, int AHEAD>
static __device__ __forceinline__ void few_tiles(const struct few &f, int first, int step) {
    extern __shared__ uint4 shared[];
    __shared__ float sums[2][FEW_WARPS][MATS][4][32];
    const int stride = FEW_WARPS * CHUNK;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int in = f.shape.in, steps = (in + stride * AHEAD - 1) / (stride * AHEAD) * AHEAD;
    weight_row<BITS> low[AHEAD][MATS], high[AHEAD][MATS];
    struct few_tile tile = few_tile_at(f, first, MATS == 2);
#pragma unroll
    for (int a = 0; a < AHEAD; a++)
#pragma unroll
        for (int m = 0; m < MATS; m++) {
            int k = a * stride + warp * CHUNK;
            low[a][m].load(f.w[tile.which + m], f.shape, tile.low, k, t);
            high[a][m].load(f.w[tile.which + m], f.shape, tile.high, k, t);
        }
    wait_for_input();
    __nv_bfloat16 *xs = (__nv_bfloat16 *)shared;
    int ld = in + FEW_PAD, buffer = 0;
    stage_x<BITS>(xs, f, ld);
    __syncthreads();
    for (int at = first; at < f.tiles; at += step, buffer ^= 1) {
        bool more = at + step < f.tiles;
        struct few_tile next = few_tile_at(f, more ? at + step : at, MATS == 2);
        float acc[MATS][4] = {};
        for (int s0 = 0; s0 < steps; s0 += AHEAD)
#pragma unroll
            for (int a = 0; a < AHEAD; a++) {
                int k = (s0 + a) * stride + warp * CHUNK;
                if (k < in)
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        int i = k + weight_row<BITS>::offset(t, j);
                        uint4 x = make_uint4(0, 0, 0, 0);
                        if (g < f.n && i < in) x = *(const uint4 *)(xs + g * ld + i);
#pragma unroll
                        for (int m = 0; m < MATS; m++)
                            mma_eight(acc[m], low[a][m].expand(j), high[a][m].expand(j), x);
                    }
                bool ends = s0 + AHEAD >= steps;
                if (ends && !more) continue;
                int which = ends ? next.which : tile.which;
                int64_t low_row = ends ? next.low : tile.low;
                int64_t high_row = ends ? next.high : tile.high;
                k = ends ? a * stride + warp * CHUNK : k + AHEAD * stride;
#pragma unroll
                for (int m = 0; m < MATS; m++) {
                    low[a][m].load(f.w[which + m], f.shape, low_row, k, t);
                    high[a][m].load(f.w[which + m], f.shape, high_row, k, t);
                }
            }
#pragma unroll
        for (int m = 0; m < MATS; m++)
#pragma unroll
            for (int i = 0; i < 4; i++) sums[buffer][warp][m][i][lane] = acc[m][i];
        __syncthreads();
        // 128 results a matrix: acc[i] of a lane is output g + 8 (i / 2), row 2 t +
        // i % 2.
        const struct matrix &w = f.w[tile.which];
        int i = warp, r = 2 * t + i % 2;
        int64_t o = tile.row + g + 8 * (i / 2);
        if (warp < 4 && o < w.out && r < f.n) {
            float total[MATS];
#pragma unroll
            for (int m = 0; m < MATS; m++) {
                const float *bias = f.w[tile.which + m].bias;
                total[m] = bias ? bias[o] : 0.0f;
#pragma unroll
                for (int p = 0; p < FEW_WARPS; p++) total[m] += sums[buffer][p][m][i][lane];
            }
            w.y[r * w.ldy + o] = MATS == 2 ? gated(total[0], total[MATS - 1], f.gating) : total[0];
        }
        tile = next;
    }
}

// --- some rows -----------------------------------------------------------------------------------

struct some {
    struct matrix w;
    struct shape shape;
    const __nv_bfloat16 *x; // [n, in], in the order of the weight's elements
    int64_t n;
    int per_split; // k of each split, a multiple of SOME_K
    float *parts;  // [splits, n, out], or NULL: one split, which writes y
};

// A block has SOME_OUT outputs by 32, 64 or 128 rows, its warps 32 rows each. Both operands of the
// tensor cores come from shared memory, SOME_K columns at a time: x as it is, the weights expanded
// once for all rows. In a row of it the blocks of 8 are out of order by the row, so that 8 rows of
// one block are in different banks.
enum { SOME_THREADS = 256, SOME_OUT = 128, SOME_K = 64 };

static constexpr size_t some_shared(int rows) { return 2 * (size_t)(SOME_OUT + rows) * SOME_K * 2; }

static __device__ __forceinline__ int some_at(int row, int block) {
    return row * SOME_K + ((block ^ row) & 7) * 8;
}

static __device__ __forceinline__ void copy_async(__nv_bfloat16 *to, const __nv_bfloat16 *from,
                                                  bool there) {
    uint32_t at = shared_at(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from),
                 "r"(there ? 16 : 0));
}

static __device__ __forceinline__ void load_fragments(uint32_t to[4], const __nv_bfloat16 *from) {
    uint32_t at = shared_at(from);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at));
}

// Columns [k, k + SOME_K) of x's rows from x0 on; zeros beyond it.
template <int ROWS>
static __device__ __forceinline__ void fetch_x(__nv_bfloat16 *to, const struct some &f, int64_t x0,
                                               int k, int end) {
    for (int i = threadIdx.x; i < ROWS * 8; i += SOME_THREADS) {
        int row = i / 8, block = i % 8, at = k + block * 8;
        bool there = x0 + row < f.n && at < end;
        copy_async(to + some_at(row, block), there ? f.x + (x0 + row) * f.shape.in + at : f.x,
                   there);
    }
    asm volatile("cp.async.commit_group;");
}

// SOME_OUT outputs from o0 on by ROWS rows from x0 on, over the columns of one split.
template <int BITS, int ROWS>
static __device__ __forceinline__ void some_tile(const struct some &f, int64_t o0, int64_t x0,
                                                 int split) {
    extern __shared__ uint4 shared[];
    constexpr int ACROSS = ROWS / 32, DOWN = SOME_THREADS / 32 / ACROSS; // warps
    constexpr int OUT = SOME_OUT / DOWN / 16;                            // 16s of outputs a warp
    __nv_bfloat16 *ws = (__nv_bfloat16 *)shared, *xs = ws + 2 * SOME_OUT * SOME_K;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int out = warp / ACROSS * OUT * 16, row = warp % ACROSS * 32;
    int from = split * f.per_split, to = from + f.per_split;
    if (to > f.shape.in) to = f.shape.in;
    // A thread expands 32 elements of a row.
    int own = threadIdx.x / 2, half = threadIdx.x % 2;
    int64_t weight = o0 + own < f.w.out ? o0 + own : f.w.out - 1;
    weight_row<BITS> next;
    next.load_run(f.w, f.shape, weight, from + half * 32);
    fetch_x<ROWS>(xs, f, x0, from, to);
    float acc[OUT][4][4] = {};
    for (int k = from, buffer = 0; k < to; k += SOME_K, buffer ^= 1) {
        __nv_bfloat16 *w = ws + buffer * SOME_OUT * SOME_K, *x = xs + buffer * ROWS * SOME_K;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            struct eight e = next.expand(j);
            *(uint4 *)(w + some_at(own, half * 4 + j)) =
                make_uint4(e.pair[0], e.pair[1], e.pair[2], e.pair[3]);
        }
        asm volatile("cp.async.wait_group 0;");
        __syncthreads();
        if (k + SOME_K < to) {
            next.load_run(f.w, f.shape, weight, k + SOME_K + half * 32);
            fetch_x<ROWS>(xs + (buffer ^ 1) * ROWS * SOME_K, f, x0, k + SOME_K, to);
        }
#pragma unroll
        for (int s = 0; s < SOME_K / 16; s++) {
            uint32_t a[OUT][4], b[2][4];
#pragma unroll
            for (int i = 0; i < OUT; i++)
                load_fragments(a[i], w + some_at(out + i * 16 + lane % 16, 2 * s + lane / 16));
#pragma unroll
            for (int i = 0; i < 2; i++)
                load_fragments(b[i], x + some_at(row + i * 16 + lane / 16 * 8 + lane % 8,
                                                 2 * s + lane / 8 % 2));
#pragma unroll
            for (int i = 0; i < OUT; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    mma(acc[i][j], a[i][0], a[i][1], a[i][2], a[i][3], b[j / 2][j % 2 * 2],
                        b[j / 2][j % 2 * 2 + 1]);
        }
    }
    float *y = f.parts ? f.parts + split * f.n * f.w.out : f.w.y;
    int64_t ld = f.parts ? f.w.out : f.w.ldy;
#pragma unroll
    for (int i = 0; i < OUT; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int64_t o = o0 + out + i * 16 + lane / 4 + e / 2 * 8;
                int64_t r = x0 + row + j * 8 + lane % 4 * 2 + e % 2;
                if (o >= f.w.out || r >= f.n) continue;
                y[r * ld + o] = acc[i][j][e] + (!f.parts && f.w.bias ? f.w.bias[o] : 0.0f);
            }
}

// x [n, in] F32 -> [n, in] bf16; paired: in the order in which pairs of 4-bit codes come.
static __global__ void round_x_kernel(__nv_bfloat16 *y, const float *x, int64_t ldx, int64_t n,
                                      int64_t in, bool paired) {
    wait_for_input();
    int64_t b = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, blocks = in / 8;
    if (b >= n * blocks) return;
    const float *from = x + b / blocks * ldx + b % blocks * 8;
    float v[8];
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = from[i];
    uint4 e =
        paired ? make_uint4(pack(v[0], v[4]), pack(v[1], v[5]), pack(v[2], v[6]), pack(v[3], v[7]))
               : make_uint4(pack(v[0], v[1]), pack(v[2], v[3]), pack(v[4], v[5]), pack(v[6], v[7]));
    *(uint4 *)(y + b * 8) = e;
}

static inline void round_x(struct context *c, struct tensor to, struct tensor x, bool paired) {
    int64_t blocks = x.n[0] * x.n[1] / 8;
    launch(c, "linear", round_x_kernel, dim3((unsigned)ceil_div(blocks, 256)), 256, 0,
           (__nv_bfloat16 *)to.data, (const float *)x.data, x.stride[0], x.n[0], x.n[1], paired);
}

// x and room for it rounded, and how it stands there.
enum order { NOT_YET, IN_ORDER, IN_PAIRS };
struct rounded {
    struct tensor x, room;
    enum order is;
};

static inline void round_once(struct context *c, struct rounded *q, bool paired) {
    enum order order = paired ? IN_PAIRS : IN_ORDER;
    if (q->is != order) round_x(c, q->room, q->x, paired);
    q->is = order;
}

// --- choosing ------------------------------------------------------------------------------------

enum { FEW_SHARED = 96 << 10 };

// Which weight_row reads w; 0: none, its layout or alignment is left to `exact`.
static inline int kind_of(const struct weight *w) {
    size_t ld = (size_t)w->data.stride[0] * dtype_size(w->data.type);
    bool aligned = ((uintptr_t)w->data.data | ld) % 16 == 0 && w->data.stride[1] == 1;
    if (w->layout == WEIGHT_DENSE) {
        if (w->in % 8 || !aligned) return 0;
        return w->data.type == DT_BF16 ? DENSE_BF16 : w->data.type == DT_F16 ? DENSE_F16 : 0;
    }
    if ((w->layout != WEIGHT_AFFINE && w->layout != WEIGHT_MXFP4) || w->order.dims) return 0;
    bool group = w->group >= 32 && !(w->group & (w->group - 1)) && w->in % w->group == 0;
    if (!aligned || !group || w->bits > 8 || w->bits == 7 || w->scales.stride[1] != 1) return 0;
    if (w->layout == WEIGHT_MXFP4) return w->group == 32 ? FOUR_E2M1 : 0;
    if (w->biases.stride[1] != 1) return 0;
    return w->bits == 4 && w->scales.type == DT_BF16 ? FOUR_BF16 : w->bits;
}

static __host__ __device__ inline struct matrix matrix_of(const struct weight *w, float *y,
                                                          int64_t ldy) {
    struct matrix m = {w->data.data,
                       w->scales.data,
                       w->biases.data,
                       w->data.stride[0],
                       w->scales.stride[0],
                       w->biases.stride[0],
                       NULL,
                       y,
                       ldy,
                       w->out};
    if (w->bias.dims) m.bias = (const float *)w->bias.data;
    return m;
}

static inline struct shape shape_of(const struct weight *w) {
    struct shape s = {(int)w->in, 0, w->scales.type};
    while (w->layout != WEIGHT_DENSE && (1 << s.group_shift) < w->group) s.group_shift++;
    return s;
}

static inline bool same_kind(const struct weight *a, const struct weight *b) {
    return kind_of(a) == kind_of(b) && a->in == b->in &&
           (a->layout == WEIGHT_DENSE ||
            (a->group == b->group && a->scales.type == b->scales.type));
}

// Whether rows of 16-bit elements, `ld` of them apart, begin at multiples of so many bytes.
static inline bool rows_begin_at(const void *p, int64_t ld, size_t align) {
    return ((uintptr_t)p | (uintptr_t)ld * 2) % align == 0;
}

static inline bool sides_begin_at(const struct weight *w, size_t align) {
    return rows_begin_at(w->scales.data, w->scales.stride[0], align) &&
           rows_begin_at(w->biases.data, w->biases.stride[0], align);
}

// The few, some and expand kernels of a kind.
#define BY_KIND(kind, CALL)                                                                        \
    switch (kind) {                                                                                \
    case DENSE_BF16: CALL(DENSE_BF16, 1, 2); break;                                                \
    case DENSE_F16: CALL(DENSE_F16, 1, 2); break;                                                  \
    case FOUR_BF16: CALL(FOUR_BF16, 2, 3); break;                                                  \
    case FOUR_E2M1: CALL(FOUR_E2M1, 2, 3); break;                                                  \
    case 1: CALL(1, 2, 3); break;                                                                  \
    case 2: CALL(2, 2, 3); break;                                                                  \
    case 3: CALL(3, 2, 3); break;                                                                  \
    case 4: CALL(4, 2, 3); break;                                                                  \
    case 5: CALL(5, 1, 3); break;                                                                  \
    case 6: CALL(6, 1, 3); break;                                                                  \
    case 8: CALL(8, 1, 2); break;                                                                  \
    }

static inline bool is_few(int64_t n, int64_t in) {
    return n <= FEW && n * (in + FEW_PAD) * 2 <= FEW_SHARED;
}

#endif
