// Products of activations and weights.
//
// --precision f32, F32 weights, and what the fast kernels' alignment leaves out: one kernel in f32
// for every layout. Else activations and weights are rounded to bf16, and sums are in f32:
// - few rows (decode): `few`, bound by memory; a block has 16 outputs, its warps share k;
// - some rows (batched decode) of a quantized weight: `some`; a block has 128 outputs and 64 rows;
// - many: cuBLASLt, after a quantized weight is expanded a band of rows at a time; without
//   cuBLASLt, `some`.
#include "compute/cuda/product.cuh"

enum { FEW = 8, SOME = 192, FEW_SHARED = 96 << 10, BAND_ELEMENTS = 64 << 20 };

// --- f32 -----------------------------------------------------------------------------------------

struct any_weight {
    struct tensor data, scales, biases;
    enum weight_layout layout;
    int bits, group;
    int64_t in, block_row, block_rows;
    float factor;
    const int32_t *order; // or NULL
};

static __device__ float element(const struct tensor &t, int64_t row, int64_t i) {
    return load_float(t.data, t.type, row * t.stride[0] + i * t.stride[1]);
}

static __device__ float weight_at(const struct any_weight &w, int64_t row, int64_t k) {
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

static struct any_weight any_of(const struct weight *w) {
    struct any_weight a = {w->data,
                           w->scales,
                           w->biases,
                           w->layout,
                           w->bits,
                           w->group,
                           w->in,
                           w->block_row,
                           w->block_rows,
                           w->factor,
                           w->order.dims ? (const int32_t *)w->order.data : NULL};
    return a;
}

enum { TILE = 32, STEP = 32 };

// A block computes TILE rows by TILE outputs, each of 256 threads 1 by 4.
static __global__ void exact_kernel(float *y, int64_t ldy, const float *x, int64_t ldx, int64_t n,
                                    struct any_weight w, int64_t out, const float *bias) {
    __shared__ float xs[TILE][STEP + 1], ws[TILE][STEP + 1];
    wait_for_input();
    int64_t r0 = (int64_t)blockIdx.y * TILE, o0 = (int64_t)blockIdx.x * TILE;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float acc[4] = {0, 0, 0, 0};
    for (int64_t k0 = 0; k0 < w.in; k0 += STEP) {
        for (int i = warp; i < TILE; i += 8) {
            int64_t k = k0 + lane, column = w.order && k < w.in ? w.order[k] : k;
            xs[i][lane] = r0 + i < n && k < w.in ? x[(r0 + i) * ldx + column] : 0.0f;
            ws[i][lane] = o0 + i < out && k < w.in ? weight_at(w, o0 + i, k) : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < STEP; k++)
            for (int i = 0; i < 4; i++) acc[i] += xs[warp * 4 + i][k] * ws[lane][k];
        __syncthreads();
    }
    int64_t o = o0 + lane;
    for (int i = 0; i < 4; i++) {
        int64_t r = r0 + warp * 4 + i;
        if (r < n && o < out) y[r * ldy + o] = acc[i] + (bias ? bias[o] : 0.0f);
    }
}

static void exact(struct context *c, struct tensor y, struct tensor x, const struct weight *w) {
    dim3 grid((unsigned)ceil_div(w->out, TILE), (unsigned)ceil_div(x.n[0], TILE));
    launch(c, "linear", exact_kernel, grid, 256, 0, (float *)y.data, y.stride[0],
           (const float *)x.data, x.stride[0], x.n[0], any_of(w), w->out,
           (const float *)(w->bias.dims ? w->bias.data : NULL));
}

static __global__ void embed_kernel(float *y, int64_t ldy, struct any_weight w,
                                    const int32_t *ids) {
    wait_for_input();
    for (int64_t i = threadIdx.x; i < w.in; i += blockDim.x)
        y[blockIdx.x * ldy + i] = weight_at(w, ids[blockIdx.x], i);
}

void cuda_embed(struct context *c, struct tensor y, const struct weight *w, struct tensor ids) {
    if (!y.n[0]) return;
    launch(c, "embed", embed_kernel, dim3((unsigned)y.n[0]), 256, 0, (float *)y.data, y.stride[0],
           any_of(w), (const int32_t *)ids.data);
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
    bool gated;   // w[0] and w[1] share blocks: y of w[0] = act(gate) * up
    int act;
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

// MATS: 1, or 2 where gated. The warps of a block take every FEW_WARPSth chunk of k each. A block
// goes from tile to tile; AHEAD chunks of each warp are in flight, those of the next tile while
// this one ends, and BLOCKS blocks fit a processor.
template <int BITS, int MATS, int AHEAD, int BLOCKS>
static __global__ void __launch_bounds__(FEW_WARPS * 32, BLOCKS)
    few_kernel(const __grid_constant__ struct few f) {
    extern __shared__ uint4 shared[];
    __shared__ float sums[2][FEW_WARPS][MATS][4][32];
    const int stride = FEW_WARPS * CHUNK;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int in = f.shape.in, steps = (in + stride * AHEAD - 1) / (stride * AHEAD) * AHEAD;
    weight_row<BITS> low[AHEAD][MATS], high[AHEAD][MATS];
    struct few_tile tile = few_tile_at(f, blockIdx.x, MATS == 2);
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
    for (int at = blockIdx.x; at < f.tiles; at += gridDim.x, buffer ^= 1) {
        bool more = at + (int)gridDim.x < f.tiles;
        struct few_tile next = few_tile_at(f, more ? at + gridDim.x : at, MATS == 2);
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
            w.y[r * w.ldy + o] =
                MATS == 2 ? activated(total[0], f.act) * total[MATS - 1] : total[0];
        }
        tile = next;
    }
}

template <int BITS, int MATS, int AHEAD, int BLOCKS>
static void launch_few(struct context *c, const struct few &f) {
    int blocks = BLOCKS * c->dev->cuda->processors;
    if (blocks > f.tiles) blocks = f.tiles;
    size_t shared = (size_t)f.n * (size_t)(f.shape.in + FEW_PAD) * 2;
    auto kernel = few_kernel<BITS, MATS, AHEAD, BLOCKS>;
    if (shared > (32 << 10) &&
        !cuda_ok(
            &c->err,
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, FEW_SHARED),
            "shared memory of a product"))
        return;
    launch(c, "linear", kernel, dim3((unsigned)blocks), FEW_WARPS * 32, shared, f);
}

template <int BITS, int AHEAD, int BLOCKS>
static void launch_few_of(struct context *c, const struct few &f) {
    if (f.gated)
        launch_few<BITS, 2, AHEAD, BLOCKS>(c, f);
    else
        launch_few<BITS, 1, AHEAD, BLOCKS>(c, f);
}

// --- some rows -----------------------------------------------------------------------------------

struct some {
    struct matrix w;
    struct shape shape;
    const __nv_bfloat16 *x; // [n, in], in the order of the weight's elements
    int64_t n;
    int per_split; // k of each split, a multiple of CHUNK
    float *parts;  // [splits, n, out], or NULL: one split, which writes y
};

enum { SOME_WARPS = 8, SOME_OUT = 128, SOME_ROWS = 64 };

// Each warp has 16 outputs and all 64 rows.
template <int BITS>
static __global__ void __launch_bounds__(SOME_WARPS * 32, 2)
    some_kernel(const __grid_constant__ struct some f) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int64_t row = (int64_t)blockIdx.x * SOME_OUT + warp * 16, x0 = (int64_t)blockIdx.y * SOME_ROWS;
    int64_t last = f.w.out - 1;
    int from = blockIdx.z * f.per_split, to = from + f.per_split;
    if (to > f.shape.in) to = f.shape.in;
    int64_t low_row = row + g < last ? row + g : last;
    int64_t high_row = row + g + 8 < last ? row + g + 8 : last;
    weight_row<BITS> low, high, next_low, next_high;
    next_low.load(f.w, f.shape, low_row, from, t);
    next_high.load(f.w, f.shape, high_row, from, t);
    wait_for_input();
    float acc[SOME_ROWS / 8][4] = {};
    for (int k = from; k < to; k += CHUNK) {
        low = next_low, high = next_high;
        if (k + CHUNK < to) {
            next_low.load(f.w, f.shape, low_row, k + CHUNK, t);
            next_high.load(f.w, f.shape, high_row, k + CHUNK, t);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            struct eight a = low.expand(j), b = high.expand(j);
            int at = k + weight_row<BITS>::offset(t, j);
#pragma unroll
            for (int i = 0; i < SOME_ROWS / 8; i++) {
                int64_t r = x0 + i * 8 + g;
                uint4 x = make_uint4(0, 0, 0, 0);
                if (r < f.n && at < f.shape.in)
                    x = __ldg((const uint4 *)(f.x + r * f.shape.in + at));
                mma_eight(acc[i], a, b, x);
            }
        }
    }
    float *y = f.parts ? f.parts + blockIdx.z * f.n * f.w.out : f.w.y;
    int64_t ld = f.parts ? f.w.out : f.w.ldy;
#pragma unroll
    for (int i = 0; i < SOME_ROWS / 8; i++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int64_t o = row + g + 8 * (e / 2), r = x0 + i * 8 + 2 * t + e % 2;
            if (o >= f.w.out || r >= f.n) continue;
            y[r * ld + o] = acc[i][e] + (!f.parts && f.w.bias ? f.w.bias[o] : 0.0f);
        }
}

static __global__ void add_parts_kernel(float *y, int64_t ldy, const float *parts, int splits,
                                        int64_t n, int64_t out, const float *bias) {
    wait_for_input();
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * out) return;
    float sum = bias ? bias[i % out] : 0.0f;
    for (int s = 0; s < splits; s++) sum += parts[s * n * out + i];
    y[i / out * ldy + i % out] = sum;
}

// Splits so that all processors have work: floats of parts are at most parts_most.
static int64_t parts_most(const struct context *c) {
    return 2 * (int64_t)c->dev->cuda->processors * SOME_OUT * SOME_ROWS;
}

template <int BITS> static void launch_some(struct context *c, struct some f, float *parts) {
    int64_t tiles_out = ceil_div(f.w.out, SOME_OUT), tiles_n = ceil_div(f.n, SOME_ROWS);
    int64_t chunks = ceil_div(f.shape.in, CHUNK);
    int64_t splits = 2 * c->dev->cuda->processors / (tiles_out * tiles_n);
    if (splits > chunks) splits = chunks;
    if (splits < 1) splits = 1;
    f.per_split = (int)ceil_div(chunks, splits) * CHUNK;
    splits = ceil_div(f.shape.in, f.per_split);
    f.parts = splits > 1 ? parts : NULL;
    dim3 grid((unsigned)tiles_out, (unsigned)tiles_n, (unsigned)splits);
    launch(c, "linear", some_kernel<BITS>, grid, SOME_WARPS * 32, 0, f);
    if (splits == 1) return;
    launch(c, "linear", add_parts_kernel, dim3((unsigned)ceil_div(f.n * f.w.out, 256)), 256, 0,
           f.w.y, f.w.ldy, (const float *)parts, (int)splits, f.n, f.w.out, f.w.bias);
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

static void round_x(struct context *c, struct tensor to, struct tensor x, bool paired) {
    int64_t blocks = x.n[0] * x.n[1] / 8;
    launch(c, "linear", round_x_kernel, dim3((unsigned)ceil_div(blocks, 256)), 256, 0,
           (__nv_bfloat16 *)to.data, (const float *)x.data, x.stride[0], x.n[0], x.n[1], paired);
}

// --- many rows -----------------------------------------------------------------------------------

// `count` rows from `row` on as bf16, in order; one lane of 32 elements a thread.
template <int BITS>
static __global__ void expand_kernel(__nv_bfloat16 *y, struct matrix m, struct shape s, int64_t row,
                                     int64_t count) {
    wait_for_input();
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, lanes = ceil_div(s.in, CHUNK) * 4;
    if (i >= count * lanes) return;
    int64_t r = i / lanes;
    int k = (int)(i % lanes / 4) * CHUNK;
    int t = (int)(i % 4);
    weight_row<BITS> w;
    w.load(m, s, row + r, k, t);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        int at = k + weight_row<BITS>::offset(t, j);
        if (at >= s.in) continue;
        struct eight e = w.expand(j);
        const __nv_bfloat16 *v = (const __nv_bfloat16 *)e.pair;
        __nv_bfloat16 ordered[8];
#pragma unroll
        for (int p = 0; p < 8; p++) ordered[paired_at<BITS>(p)] = v[p];
        *(uint4 *)(y + r * s.in + at) =
            make_uint4(*(uint32_t *)&ordered[0], *(uint32_t *)&ordered[2], *(uint32_t *)&ordered[4],
                       *(uint32_t *)&ordered[6]);
    }
}

template <int BITS>
static void launch_expand(struct context *c, void *to, const struct matrix &m,
                          const struct shape &s, int64_t row, int64_t count) {
    int64_t lanes = count * ceil_div(s.in, CHUNK) * 4;
    launch(c, "linear", expand_kernel<BITS>, dim3((unsigned)ceil_div(lanes, 256)), 256, 0,
           (__nv_bfloat16 *)to, m, s, row, count);
}

static __global__ void add_bias_kernel(float *y, int64_t ldy, int64_t n, int64_t out,
                                       const float *bias) {
    wait_for_input();
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * out) y[i / out * ldy + i % out] += bias[i % out];
}

// --- choosing ------------------------------------------------------------------------------------

// Which weight_row reads w; 0: none, its layout or alignment is left to `exact`.
static int kind_of(const struct weight *w) {
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

static struct matrix matrix_of(const struct weight *w, struct tensor y) {
    struct matrix m = {w->data.data,
                       w->scales.data,
                       w->biases.data,
                       w->data.stride[0],
                       w->scales.stride[0],
                       w->biases.stride[0],
                       NULL,
                       (float *)y.data,
                       y.stride[0],
                       w->out};
    if (w->bias.dims) m.bias = (const float *)w->bias.data;
    return m;
}

static struct shape shape_of(const struct weight *w) {
    struct shape s = {(int)w->in, 0, w->scales.type};
    while (w->layout != WEIGHT_DENSE && (1 << s.group_shift) < w->group) s.group_shift++;
    return s;
}

static bool same_kind(const struct weight *a, const struct weight *b) {
    return kind_of(a) == kind_of(b) && a->in == b->in &&
           (a->layout == WEIGHT_DENSE ||
            (a->group == b->group && a->scales.type == b->scales.type));
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

static bool is_few(int64_t n, int64_t in) {
    return n <= FEW && n * (in + FEW_PAD) * 2 <= FEW_SHARED;
}

static void few(struct context *c, int count, const struct tensor y[], struct tensor x,
                const struct weight *const w[], bool gated, enum activation act) {
    struct few f = {};
    f.count = count, f.shape = shape_of(w[0]);
    f.x = (const float *)x.data, f.ldx = x.stride[0], f.n = (int)x.n[0];
    f.aligned = ((uintptr_t)x.data | (size_t)x.stride[0] * 4) % 16 == 0;
    f.gated = gated, f.act = act;
    for (int i = 0; i < count; i++) {
        f.w[i] = matrix_of(w[i], y[i]);
        f.first[i] = gated ? 0 : f.tiles;
        f.tiles += (int)ceil_div(w[i]->out, 16);
    }
    if (gated) f.tiles /= 2;
#define CALL(KIND, AHEAD, BLOCKS) launch_few_of<KIND, AHEAD, BLOCKS>(c, f)
    BY_KIND(kind_of(w[0]), CALL)
#undef CALL
}

// What products of more than a few rows work in. Sizes grow with n, so a dry run finds the most.
struct work {
    struct tensor x, w, parts;
    int64_t band; // rows of a weight that w holds
};

static struct work reserve(struct context *c, int64_t n, const struct weight *w) {
    struct work k = {};
    bool quantized = w->layout != WEIGHT_DENSE || w->data.type != DT_BF16;
    int64_t x[] = {n, w->in}, parts[] = {parts_most(c)};
    k.band = BAND_ELEMENTS / w->in + 1;
    if (k.band > w->out) k.band = w->out;
    int64_t band[] = {k.band, w->in};
    k.x = scratch_tensor(c, DT_BF16, 2, x);
    k.parts = scratch_tensor(c, DT_F32, 1, parts);
    if (quantized && c->dev->cuda->blas && (n > SOME || c->dry))
        k.w = scratch_tensor(c, DT_BF16, 2, band);
    return k;
}

static void some(struct context *c, struct tensor y, struct tensor x, const struct weight *w,
                 const struct work *k, int kind) {
    struct some f = {};
    f.w = matrix_of(w, y), f.shape = shape_of(w);
    f.x = (const __nv_bfloat16 *)k->x.data, f.n = x.n[0];
    round_x(c, k->x, x, kind == 4 || kind == FOUR_BF16);
#define CALL(KIND, AHEAD, BLOCKS) launch_some<KIND>(c, f, (float *)k->parts.data)
    BY_KIND(kind, CALL)
#undef CALL
}

// False: cuBLASLt would not.
static bool many(struct context *c, struct tensor y, struct tensor x, const struct weight *w,
                 const struct work *k, int kind) {
    struct cuda *d = c->dev->cuda;
    int64_t n = x.n[0];
    round_x(c, k->x, x, false);
    for (int64_t row = 0; row < w->out && !c->err.set; row += k->band) {
        int64_t count = w->out - row < k->band ? w->out - row : k->band;
        const void *band = (const uint16_t *)w->data.data + row * w->data.stride[0];
        if (kind != DENSE_BF16) {
            struct matrix m = matrix_of(w, y);
            struct shape s = shape_of(w);
#define CALL(KIND, AHEAD, BLOCKS) launch_expand<KIND>(c, k->w.data, m, s, row, count)
            BY_KIND(kind, CALL)
#undef CALL
            band = k->w.data;
        }
        int64_t ld = kind == DENSE_BF16 ? w->data.stride[0] : w->in;
        if (!blas_product(d->blas, d->stream, (float *)y.data + row, y.stride[0], k->x.data, band,
                          ld, n, count, w->in))
            return false;
    }
    if (w->bias.dims)
        launch(c, "linear", add_bias_kernel, dim3((unsigned)ceil_div(n * w->out, 256)), 256, 0,
               (float *)y.data, y.stride[0], n, w->out, (const float *)w->bias.data);
    return true;
}

static void product(struct context *c, struct tensor y, struct tensor x, const struct weight *w) {
    size_t mark = scratch_mark(c);
    struct work k = reserve(c, x.n[0], w);
    int kind = kind_of(w);
    if (!c->dry && !c->err.set) {
        bool blas = c->dev->cuda->blas && (kind == DENSE_BF16 || x.n[0] > SOME);
        if (!kind)
            exact(c, y, x, w);
        else if (!blas || !many(c, y, x, w, &k, kind))
            some(c, y, x, w, &k, kind);
    }
    scratch_release(c, mark);
}

void cuda_linear(struct context *c, int count, struct tensor y[], struct tensor x,
                 const struct weight *const w[]) {
    int64_t n = x.n[0];
    if (!n && !c->dry) return;
    bool fast = c->precision == PRECISION_NATIVE;
    for (int i = 0; i < count;) {
        if (c->dry || !fast || !kind_of(w[i]) || !is_few(n, w[i]->in)) {
            if (c->dry || fast)
                product(c, y[i], x, w[i]);
            else
                exact(c, y[i], x, w[i]);
            i++;
            continue;
        }
        int same = 1;
        while (i + same < count && same_kind(w[i], w[i + same])) same++;
        few(c, same, y + i, x, w + i, false, ACT_SILU);
        i += same;
    }
}

void cuda_glu(struct context *c, struct tensor y, struct tensor x, const struct weight *gate,
              const struct weight *up, enum activation act) {
    const struct weight *const w[] = {gate, up};
    struct tensor pair[] = {y, y};
    if (!c->dry && c->precision == PRECISION_NATIVE && x.n[0] && is_few(x.n[0], gate->in) &&
        kind_of(gate) && same_kind(gate, up)) {
        few(c, 2, pair, x, w, true, act);
        return;
    }
    size_t mark = scratch_mark(c);
    pair[1] = scratch_tensor(c, DT_F32, 2, y.n);
    cuda_linear(c, 2, pair, x, w);
    if (!c->dry && !c->err.set) cuda_act_mul(c, y, y, pair[1], act);
    scratch_release(c, mark);
}
