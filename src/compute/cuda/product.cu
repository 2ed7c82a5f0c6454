// Products of activations and weights.
//
// --precision f32, F32 weights, and what the fast kernels' alignment leaves out: one kernel in f32
// for every layout. Else activations and weights are rounded to bf16, and sums are in f32:
// - one row of dense BF16 or 4-bit codes: stream.cu;
// - few rows (decode): `few`, bound by memory; a block has 16 outputs, its warps share k;
// - some rows (batched decode) of a quantized weight: `some`, by tiles in shared memory;
// - many: cuBLASLt, after a quantized weight is expanded a band of rows at a time; without
//   cuBLASLt, `some`.
#include "compute/cuda/product_tiles.cuh"

enum { SOME = 192, BAND_ELEMENTS = 64 << 20 };

// --- f32 -----------------------------------------------------------------------------------------

static __global__ void exact_kernel(float *y, int64_t ldy, const float *x, int64_t ldx, int64_t n,
                                    const __grid_constant__ struct weight w) {
    wait_for_input();
    exact_tile(y, ldy, x, ldx, n, w, (int64_t)blockIdx.y * TILE, (int64_t)blockIdx.x * TILE);
}

static __global__ void exact_few_kernel(float *y, int64_t ldy, const float *x, int64_t ldx, int n,
                                        const __grid_constant__ struct weight w) {
    wait_for_input();
    exact_few(y, ldy, x, ldx, n, w, blockIdx.x);
}

static void exact(struct context *c, struct tensor y, struct tensor x, const struct weight *w) {
    float *to = (float *)y.data;
    const float *from = (const float *)x.data;
    dim3 grid((unsigned)ceil_div(w->out, TILE), (unsigned)ceil_div(x.n[0], TILE));
    if (x.n[0] <= FEW)
        launch(c, "linear", exact_few_kernel, dim3((unsigned)w->out), EXACT_FEW_THREADS, 0, to,
               y.stride[0], from, x.stride[0], (int)x.n[0], *w);
    else
        launch(c, "linear", exact_kernel, grid, EXACT_THREADS, 0, to, y.stride[0], from,
               x.stride[0], x.n[0], *w);
}

static __global__ void embed_kernel(float *y, int64_t ldy, struct weight w, const int32_t *ids) {
    wait_for_input();
    for (int64_t i = threadIdx.x; i < w.in; i += blockDim.x)
        y[blockIdx.x * ldy + i] = weight_at(w, ids[blockIdx.x], i);
}

void cuda_embed(struct context *c, struct tensor y, const struct weight *w, struct tensor ids) {
    if (!y.n[0]) return;
    launch(c, "embed", embed_kernel, dim3((unsigned)y.n[0]), 256, 0, (float *)y.data, y.stride[0],
           *w, (const int32_t *)ids.data);
}

// --- few rows ------------------------------------------------------------------------------------

// BLOCKS blocks fit a processor.
template <int BITS, int MATS, int AHEAD, int BLOCKS>
static __global__ void __launch_bounds__(FEW_WARPS * 32, BLOCKS)
    few_kernel(const __grid_constant__ struct few f) {
    few_tiles<BITS, MATS, AHEAD>(f, blockIdx.x, gridDim.x);
}

template <int BITS, int MATS, int AHEAD, int BLOCKS>
static void launch_few(struct context *c, const struct few &f) {
    int blocks = BLOCKS * c->dev->cuda->processors;
    if (blocks > f.tiles) blocks = f.tiles;
    size_t shared = (size_t)f.n * (size_t)(f.shape.in + FEW_PAD) * 2;
    auto kernel = few_kernel<BITS, MATS, AHEAD, BLOCKS>;
    if (!allow_shared(c, "linear", kernel, shared)) return;
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

template <int BITS, int ROWS>
static __global__ void __launch_bounds__(SOME_THREADS, 2)
    some_kernel(const __grid_constant__ struct some f) {
    wait_for_input();
    some_tile<BITS, ROWS>(f, (int64_t)blockIdx.x * SOME_OUT, (int64_t)blockIdx.y * ROWS,
                          blockIdx.z);
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
    return 2 * (int64_t)c->dev->cuda->processors * SOME_OUT * 128;
}

template <int BITS, int ROWS>
static void launch_some(struct context *c, struct some f, float *parts) {
    auto kernel = some_kernel<BITS, ROWS>;
    int64_t tiles_out = ceil_div(f.w.out, SOME_OUT), tiles_n = ceil_div(f.n, ROWS);
    int64_t chunks = ceil_div(f.shape.in, SOME_K);
    int64_t splits = 2 * c->dev->cuda->processors / (tiles_out * tiles_n);
    if (splits > chunks) splits = chunks;
    if (splits < 1) splits = 1;
    f.per_split = (int)ceil_div(chunks, splits) * SOME_K;
    splits = ceil_div(f.shape.in, f.per_split);
    f.parts = splits > 1 ? parts : NULL;
    dim3 grid((unsigned)tiles_out, (unsigned)tiles_n, (unsigned)splits);
    if (!allow_shared(c, "linear", kernel, some_shared(ROWS))) return;
    launch(c, "linear", kernel, grid, SOME_THREADS, some_shared(ROWS), f);
    if (splits == 1) return;
    launch(c, "linear", add_parts_kernel, dim3((unsigned)ceil_div(f.n * f.w.out, 256)), 256, 0,
           f.w.y, f.w.ldy, (const float *)parts, (int)splits, f.n, f.w.out, f.w.bias);
}

template <int BITS> static void launch_some(struct context *c, struct some f, float *parts) {
    if (f.n <= 32)
        launch_some<BITS, 32>(c, f, parts);
    else if (f.n <= 64)
        launch_some<BITS, 64>(c, f, parts);
    else
        launch_some<BITS, 128>(c, f, parts);
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

static void few(struct context *c, int count, const struct tensor y[], struct tensor x,
                const struct weight *const w[], bool gated, enum activation act) {
    struct few f = {};
    f.count = count, f.shape = shape_of(w[0]);
    f.x = (const float *)x.data, f.ldx = x.stride[0], f.n = (int)x.n[0];
    f.aligned = ((uintptr_t)x.data | (size_t)x.stride[0] * 4) % 16 == 0;
    f.gated = gated, f.gating.act = act;
    for (int i = 0; i < count; i++) {
        f.w[i] = matrix_of(w[i], (float *)y[i].data, y[i].stride[0]);
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
    struct tensor w, parts;
    int64_t band; // rows of a weight that w holds
};

static struct work reserve(struct context *c, int64_t n, const struct weight *w) {
    struct work k = {};
    bool quantized = w->layout != WEIGHT_DENSE || w->data.type != DT_BF16;
    int64_t parts[] = {parts_most(c)};
    k.band = BAND_ELEMENTS / w->in + 1;
    if (k.band > w->out) k.band = w->out;
    int64_t band[] = {k.band, w->in};
    k.parts = scratch_tensor(c, DT_F32, 1, parts);
    if (quantized && c->dev->cuda->blas && (n > SOME || c->dry))
        k.w = scratch_tensor(c, DT_BF16, 2, band);
    return k;
}

static void some(struct context *c, struct tensor y, struct rounded *x, const struct weight *w,
                 const struct work *k, int kind) {
    struct some f = {};
    f.w = matrix_of(w, (float *)y.data, y.stride[0]), f.shape = shape_of(w);
    f.x = (const __nv_bfloat16 *)x->room.data, f.n = x->x.n[0];
    round_once(c, x, is_paired(kind));
#define CALL(KIND, AHEAD, BLOCKS) launch_some<KIND>(c, f, (float *)k->parts.data)
    BY_KIND(kind, CALL)
#undef CALL
}

// False: cuBLASLt would not.
static bool many(struct context *c, struct tensor y, struct rounded *x, const struct weight *w,
                 const struct work *k, int kind) {
    struct cuda *d = c->dev->cuda;
    int64_t n = x->x.n[0];
    round_once(c, x, false);
    for (int64_t row = 0; row < w->out && !c->err.set; row += k->band) {
        int64_t count = w->out - row < k->band ? w->out - row : k->band;
        const void *band = (const uint16_t *)w->data.data + row * w->data.stride[0];
        if (kind != DENSE_BF16) {
            struct matrix m = matrix_of(w, (float *)y.data, y.stride[0]);
            struct shape s = shape_of(w);
#define CALL(KIND, AHEAD, BLOCKS) launch_expand<KIND>(c, k->w.data, m, s, row, count)
            BY_KIND(kind, CALL)
#undef CALL
            band = k->w.data;
        }
        int64_t ld = kind == DENSE_BF16 ? w->data.stride[0] : w->in;
        if (!blas_product(d->blas, d->stream, (float *)y.data + row, y.stride[0], x->room.data,
                          band, ld, n, count, w->in))
            return false;
    }
    if (w->bias.dims)
        launch(c, "linear", add_bias_kernel, dim3((unsigned)ceil_div(n * w->out, 256)), 256, 0,
               (float *)y.data, y.stride[0], n, w->out, (const float *)w->bias.data);
    return true;
}

static void product(struct context *c, struct tensor y, struct rounded *x, const struct weight *w) {
    size_t mark = scratch_mark(c);
    int64_t n = x->x.n[0];
    struct work k = reserve(c, n, w);
    int kind = kind_of(w);
    if (!c->dry && !c->err.set) {
        bool blas = c->dev->cuda->blas && (kind == DENSE_BF16 || n > SOME);
        if (!kind)
            exact(c, y, x->x, w);
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
    size_t mark = scratch_mark(c);
    struct rounded q = {x, {}, NOT_YET}; // once for all
    if (c->dry || (fast && !is_few(n, x.n[1]))) q.room = scratch_tensor(c, DT_BF16, 2, x.n);
    for (int i = 0; i < count;) {
        if (c->dry || !fast || !kind_of(w[i]) || !is_few(n, w[i]->in)) {
            if (c->dry || fast)
                product(c, y[i], &q, w[i]);
            else
                exact(c, y[i], x, w[i]);
            i++;
            continue;
        }
        int same = 1;
        while (i + same < count && same_kind(w[i], w[i + same])) same++;
        struct around a = {x, NULL, same, w + i, y + i, RESULT_IS, ACT_SILU};
        if (!cuda_around(c, &a)) few(c, same, y + i, x, w + i, false, ACT_SILU);
        i += same;
    }
    scratch_release(c, mark);
}

void cuda_glu(struct context *c, struct tensor y, struct tensor x, const struct weight *gate,
              const struct weight *up, enum activation act) {
    const struct weight *const w[] = {gate, up};
    struct tensor pair[] = {y, y};
    if (!c->dry && c->precision == PRECISION_NATIVE && x.n[0] && is_few(x.n[0], gate->in) &&
        kind_of(gate) && same_kind(gate, up)) {
        struct around a = {x, NULL, 2, w, &y, RESULT_GATED, act};
        if (!cuda_around(c, &a)) few(c, 2, pair, x, w, true, act);
        return;
    }
    size_t mark = scratch_mark(c);
    pair[1] = scratch_tensor(c, DT_F32, 2, y.n);
    cuda_linear(c, 2, pair, x, w);
    if (!c->dry && !c->err.set) cuda_act_mul(c, y, y, pair[1], act);
    scratch_release(c, mark);
}
