// Products of activations and weights.
//
// --precision f32, F32 weights, and what the fast kernels' alignment leaves out: kernels in f32 for
// every layout, or cuBLASLt for small matrices (routers) and more than a few rows. Else activations
// and weights are rounded to bf16, and sums are in f32:
// - one row of dense BF16 or 4-bit codes: stream.cu;
// - more (batched decode): of 4-bit codes tiles_hopper.cu, of dense BF16 dense_hopper.cu, where the
//   device is made for them; of the others
// - few rows: `few`, bound by memory; a block has 16 outputs, its warps share k;
// - some rows: cuBLASLt for dense BF16, else `some`, by tiles in shared memory;
// - many: cuBLASLt, after a quantized weight is expanded a band of rows at a time; without
//   cuBLASLt, `some`.
#include "compute/cuda/product_tiles.cuh"

enum { SOME = 192, BAND_ELEMENTS = 64 << 20, EXACT_ELEMENTS = 4 << 20 };

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

static __global__ void expand_exact_kernel(float *y, const __grid_constant__ struct weight w) {
    wait_for_input();
    for (int64_t i = threadIdx.x; i < w.in; i += blockDim.x)
        y[blockIdx.x * w.in + i] = weight_at(w, blockIdx.x, i);
}

static __global__ void add_bias_kernel(float *y, int64_t ldy, int64_t n, int64_t out,
                                       const float *bias) {
    wait_for_input();
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * out) y[i / out * ldy + i % out] += bias[i % out];
}

static void add_bias(struct context *c, struct tensor y, const struct weight *w) {
    if (!w->bias.dims) return;
    launch(c, "linear", add_bias_kernel, dim3((unsigned)ceil_div(y.n[0] * w->out, 256)), 256, 0,
           (float *)y.data, y.stride[0], y.n[0], w->out, (const float *)w->bias.data);
}

// A small matrix by cuBLASLt. False: not done. Dry too.
static bool exact_many(struct context *c, struct tensor y, struct tensor x,
                       const struct weight *w) {
    if (!c->dev->cuda->blas || x.n[0] <= FEW || w->order.dims || w->out * w->in > EXACT_ELEMENTS)
        return false;
    size_t mark = scratch_mark(c);
    int64_t shape[] = {w->out, w->in};
    struct tensor whole = scratch_tensor(c, DT_F32, 2, shape);
    scratch_release(c, mark);
    if (c->dry || c->err.set) return true;
    launch(c, "linear", expand_exact_kernel, dim3((unsigned)w->out), 256, 0, (float *)whole.data,
           *w);
    if (!blas_product(c->dev->cuda->blas, c->dev->cuda->stream, y, false, x, whole.data, w->in))
        return false;
    add_bias(c, y, w);
    return true;
}

static void exact(struct context *c, struct tensor y, struct tensor x, const struct weight *w) {
    if (exact_many(c, y, x, w) || c->dry) return;
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

enum { EMBED_THREADS = 256 };

// A row (x) by blocks (y), each thread an element or some.
static __global__ void embed_kernel(float *y, int64_t ldy, struct weight w, const int32_t *ids) {
    wait_for_input();
    int64_t id = ids[blockIdx.x], step = (int64_t)gridDim.y * EMBED_THREADS;
    for (int64_t i = blockIdx.y * EMBED_THREADS + threadIdx.x; i < w.in; i += step)
        y[blockIdx.x * ldy + i] = weight_at(w, id, i);
}

void cuda_embed(struct context *c, struct tensor y, const struct weight *w, struct tensor ids) {
    int64_t n = y.n[0], blocks = ceil_div(w->in, EMBED_THREADS);
    if (!n) return;
    int64_t most = ceil_div(8 * (int64_t)c->dev->cuda->processors, n); // many rows are enough alone
    if (blocks > most) blocks = most;
    launch(c, "embed", embed_kernel, dim3((unsigned)n, (unsigned)blocks), EMBED_THREADS, 0,
           (float *)y.data, y.stride[0], *w, (const int32_t *)ids.data);
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

// `count` rows from `row` on as bf16, in order; one lane of 32 elements a thread. Where those
// follow each other, the threads of a warp pass them on, so that what they write at once does.
template <int BITS>
static __global__ void __launch_bounds__(256)
    expand_kernel(__nv_bfloat16 *y, struct matrix m, struct shape s, int64_t row, int64_t count) {
    __shared__ uint4 passed[256 * 4]; // a thread's blocks, out of order for the banks' sake
    constexpr bool whole = BITS != DENSE_BF16 && BITS != DENSE_F16;
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, lanes = ceil_div(s.in, CHUNK) * 4;
    bool there = i < count * lanes;
    int64_t r = there ? i / lanes : 0;
    int k = there ? (int)(i % lanes / 4) * CHUNK : 0, t = (int)(i % 4);
    weight_row<BITS> w;
    w.load(m, s, row + r, k, t);
    wait_for_input();
    uint4 block[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        struct eight e = w.expand(j);
        const __nv_bfloat16 *v = (const __nv_bfloat16 *)e.pair;
        __nv_bfloat16 ordered[8];
#pragma unroll
        for (int p = 0; p < 8; p++) ordered[paired_at<BITS>(p)] = v[p];
        block[j] = make_uint4(*(uint32_t *)&ordered[0], *(uint32_t *)&ordered[2],
                              *(uint32_t *)&ordered[4], *(uint32_t *)&ordered[6]);
        if (whole) passed[threadIdx.x * 4 + (j ^ (threadIdx.x / 2 & 3))] = block[j];
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 4; j++) {
        int at = k + 32 * j + 8 * t, from = threadIdx.x / 4 * 4 + j;
        if (whole) block[j] = passed[from * 4 + (t ^ (from / 2 & 3))];
        if (there && at < s.in) *(uint4 *)(y + r * s.in + at) = block[j];
    }
}

template <int BITS>
static void launch_expand(struct context *c, void *to, const struct matrix &m,
                          const struct shape &s, int64_t row, int64_t count) {
    int64_t lanes = count * ceil_div(s.in, CHUNK) * 4;
    launch(c, "linear", expand_kernel<BITS>, dim3((unsigned)ceil_div(lanes, 256)), 256, 0,
           (__nv_bfloat16 *)to, m, s, row, count);
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
    k.band = (BAND_ELEMENTS / w->in + 1 + 127) / 128 * 128; // numbers that cuBLASLt is fast with
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

// y = x w^T, or y += that, for x [n, in] BF16; without w's bias. False: cuBLASLt would not.
static bool multiply(struct context *c, struct tensor y, struct tensor x, const struct weight *w,
                     const struct work *k, bool add) {
    struct cuda *d = c->dev->cuda;
    int kind = kind_of(w);
    for (int64_t row = 0; row < w->out && !c->err.set; row += k->band) {
        int64_t count = w->out - row < k->band ? w->out - row : k->band;
        const void *band = (const uint16_t *)w->data.data + row * w->data.stride[0];
        if (kind != DENSE_BF16) {
            struct matrix m = matrix_of(w, NULL, 0);
            struct shape s = shape_of(w);
#define CALL(KIND, AHEAD, BLOCKS) launch_expand<KIND>(c, k->w.data, m, s, row, count)
            BY_KIND(kind, CALL)
#undef CALL
            band = k->w.data;
        }
        int64_t ld = kind == DENSE_BF16 ? w->data.stride[0] : w->in;
        struct tensor part = tensor_slice(y, 1, row, count);
        if (blas_product(d->blas, d->stream, part, add, x, band, ld)) continue;
        if (row == 0) return false;
        fail(&c->err, "cuBLASLt refused the last of several products that make up one");
    }
    return true;
}

static bool many(struct context *c, struct tensor y, struct rounded *x, const struct weight *w,
                 const struct work *k) {
    round_once(c, x, false);
    if (!multiply(c, y, x->room, w, k, false)) return false;
    add_bias(c, y, w);
    return true;
}

// --- many rows, with what is around them ---------------------------------------------------------

// y [n, width] = act(gate) * up, 8 elements a thread.
static __global__ void gate_kernel(uint4 *y, const uint4 *gate, const uint4 *up, int64_t eights,
                                   int64_t width, const float *gate_bias, const float *up_bias,
                                   int act) {
    wait_for_input();
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= eights) return;
    uint4 both[2] = {gate[i], up[i]};
    const uint32_t *g = (const uint32_t *)&both[0], *u = (const uint32_t *)&both[1];
    int64_t column = i * 8 % width;
    uint32_t out[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        float2 a = __bfloat1622float2(*(const __nv_bfloat162 *)&g[k]);
        float2 b = __bfloat1622float2(*(const __nv_bfloat162 *)&u[k]);
        const float *plus = gate_bias + column + 2 * k;
        if (gate_bias) a.x += plus[0], a.y += plus[1];
        plus = up_bias + column + 2 * k;
        if (up_bias) b.x += plus[0], b.y += plus[1];
        out[k] = pack(activated(a.x, act) * b.x, activated(a.y, act) * b.y);
    }
    y[i] = make_uint4(out[0], out[1], out[2], out[3]);
}

static const float *bias_data(const struct weight *w) {
    return (const float *)(w->bias.dims ? w->bias.data : NULL);
}

// Gate and up are in BF16 too.
static bool gate_many(struct context *c, const struct around *a, struct tensor x) {
    const struct weight *const *w = a->w;
    struct tensor y = a->y[0], part[2];
    for (int i = 0; i < 2; i++) {
        size_t mark;
        part[i] = scratch_tensor(c, DT_BF16, 2, y.n);
        mark = scratch_mark(c);
        struct work k = reserve(c, y.n[0], w[i]);
        if (c->err.set || !multiply(c, part[i], x, w[i], &k, false)) return false;
        scratch_release(c, mark);
    }
    int64_t eights = tensor_count(y) / 8;
    launch(c, "glu", gate_kernel, dim3((unsigned)ceil_div(eights, 256)), 256, 0, (uint4 *)y.data,
           (const uint4 *)part[0].data, (const uint4 *)part[1].data, eights, y.n[1],
           bias_data(w[0]), bias_data(w[1]), (int)a->act);
    return true;
}

// By kernels of dense_hopper.cu, or cuBLASLt.
static bool takes_many(const struct context *c, int64_t rows, const struct weight *w) {
    bool blas = c->dev->cuda->blas && rows > SOME && w->out % 8 == 0;
    return c->precision == PRECISION_NATIVE && kind_of(w) && !tiles_take(c, rows, w) &&
           (blas || dense_takes(c, rows, w));
}

bool cuda_narrows(const struct context *c, int64_t rows, const struct weight *w) {
    return c->dev->cuda->blas && w->out % 8 == 0 && takes_many(c, rows, w);
}

static struct tensor input_many(struct context *c, const struct around *a) {
    if (a->x.type == DT_BF16) return a->x;
    struct tensor x = scratch_tensor(c, DT_BF16, 2, a->x.n);
    if (c->err.set) return x;
    if (a->norm)
        cuda_rms_norm_narrow(c, x, a->x, a->norm);
    else
        round_x(c, x, a->x, false);
    return x;
}

static bool products_many(struct context *c, const struct around *a, struct tensor x) {
    for (int i = 0; i < a->count; i++) {
        size_t mark = scratch_mark(c);
        struct work k = reserve(c, x.n[0], a->w[i]);
        if (c->err.set || !multiply(c, a->y[i], x, a->w[i], &k, a->result == RESULT_ADDED))
            return false;
        add_bias(c, a->y[i], a->w[i]);
        scratch_release(c, mark);
    }
    return true;
}

bool cuda_around_many(struct context *c, const struct around *a) {
    bool is_gated = a->result == RESULT_GATED;
    bool blas = c->dev->cuda->blas && (!is_gated || a->y[0].type == DT_BF16);
    for (int i = 0; i < a->count; i++) {
        if (!takes_many(c, a->x.n[0], a->w[i])) return false;
        blas = blas && a->w[i]->out % 8 == 0;
    }
    size_t norm = a->norm && a->norm->w.dims ? (size_t)a->norm->w.data : 0;
    if (a->norm && ((size_t)a->x.data | (size_t)a->x.stride[0] * 4 | norm) % 16) return false;
    size_t mark = scratch_mark(c);
    struct tensor x = input_many(c, a);
    bool done = !c->err.set && dense_around(c, a, x);
    if (!done && blas && !c->err.set) done = is_gated ? gate_many(c, a, x) : products_many(c, a, x);
    scratch_release(c, mark);
    return done;
}

// --- many rows of heads --------------------------------------------------------------------------

static bool expand_heads(struct context *c, struct tensor to, const struct matrices *w) {
    for (int64_t i = 0; i < w->n; i++)
        if (!kind_of(&w->w[i]) || !same_kind(w->w, &w->w[i])) return false;
    for (int64_t i = 0; i < w->n; i++) {
        void *one = (uint16_t *)to.data + i * w->w->out * w->w->in;
        struct matrix m = matrix_of(&w->w[i], NULL, 0);
        struct shape s = shape_of(w->w);
#define CALL(KIND, AHEAD, BLOCKS) launch_expand<KIND>(c, one, m, s, 0, w->w->out)
        BY_KIND(kind_of(w->w), CALL)
#undef CALL
    }
    return true;
}

bool cuda_head_linear_many(struct context *c, struct tensor y, struct tensor x,
                           const struct matrices *w, bool columns) {
    if (!c->dry && !cuda_narrows(c, x.n[0], w->w)) return false;
    size_t mark = scratch_mark(c);
    struct tensor room = scratch_tensor(c, DT_BF16, 3, x.n);
    int64_t all[] = {w->n * w->w->out, w->w->in};
    struct tensor expanded = scratch_tensor(c, DT_BF16, 2, all);
    bool done = !c->dry && !c->err.set && expand_heads(c, expanded, w);
    if (done) {
        round_x(c, tensor_join_heads(room), tensor_join_heads(x), false);
        done =
            blas_heads(c->dev->cuda->blas, c->dev->cuda->stream, y, room, expanded.data, columns);
    }
    scratch_release(c, mark);
    return done;
}

// --- any number of rows --------------------------------------------------------------------------

static void product(struct context *c, struct tensor y, struct rounded *x, const struct weight *w) {
    size_t mark = scratch_mark(c);
    int64_t n = x->x.n[0];
    struct work k = reserve(c, n, w);
    int kind = kind_of(w);
    if (c->dry && (!kind || c->precision == PRECISION_F32)) exact(c, y, x->x, w);
    if (!c->dry && !c->err.set) {
        bool blas = c->dev->cuda->blas && (kind == DENSE_BF16 || n > SOME);
        if (!kind)
            exact(c, y, x->x, w);
        else if (!blas || !many(c, y, x, w, &k))
            some(c, y, x, w, &k, kind);
    }
    scratch_release(c, mark);
}

// x BF16, which a product of another weight would have taken.
static void linear_narrow(struct context *c, int count, struct tensor y[], struct tensor x,
                          const struct weight *const w[]) {
    struct around a = {x, NULL, count, w, y, RESULT_IS, ACT_SILU};
    if (c->err.set || cuda_around_many(c, &a)) return;
    size_t mark = scratch_mark(c);
    struct tensor wide = scratch_tensor(c, DT_F32, 2, x.n);
    if (!c->err.set) cuda_convert(c, wide, x);
    cuda_linear(c, count, y, wide, w);
    scratch_release(c, mark);
}

void cuda_linear(struct context *c, int count, struct tensor y[], struct tensor x,
                 const struct weight *const w[]) {
    int64_t n = x.n[0];
    if (!n && !c->dry) return;
    if (x.type == DT_BF16) {
        linear_narrow(c, count, y, x, w);
        return;
    }
    bool fast = c->precision == PRECISION_NATIVE;
    size_t mark = scratch_mark(c);
    struct rounded q = {x, {}, NOT_YET};           // once for all
    int64_t room[] = {ceil_div(n, 8) * 8, x.n[1]}; // tiles need so many rows
    bool rounds = c->dry || (fast && !is_few(n, x.n[1]));
    for (int i = 0; i < count;) {
        int same = 1;
        while (i + same < count && same_kind(w[i], w[i + same])) same++;
        struct around a = {x, NULL, same, w + i, y + i, RESULT_IS, ACT_SILU};
        if (!c->dry && cuda_around(c, &a)) {
            i += same;
            continue;
        }
        if (rounds && !q.room.dims) q.room = scratch_tensor(c, DT_BF16, 2, room);
        if (c->dry || !fast || !kind_of(w[i]) || !is_few(n, w[i]->in)) {
            if (c->dry || fast)
                product(c, y[i], &q, w[i]);
            else
                exact(c, y[i], x, w[i]);
            i++;
            continue;
        }
        few(c, same, y + i, x, w + i, false, ACT_SILU);
        i += same;
    }
    scratch_release(c, mark);
}

void cuda_glu(struct context *c, struct tensor y, struct tensor x, const struct weight *gate,
              const struct weight *up, enum activation act) {
    const struct weight *const w[] = {gate, up};
    struct tensor pair[] = {y, y};
    struct around a = {x, NULL, 2, w, &y, RESULT_GATED, act};
    if (!c->dry && cuda_around(c, &a)) return;
    if (y.type == DT_BF16) {
        fail(&c->err, "cuBLASLt refused a product");
        return;
    }
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
