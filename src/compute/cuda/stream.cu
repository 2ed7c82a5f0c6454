// Products of one row by stream.cuh: which weights it takes, and how its kernels are launched.
#include "compute/cuda/stream.cuh"

#include "compute/cuda/product_tiles.cuh"

struct stream {
    struct matrix w[LINEAR_MAX];
    int first[LINEAR_MAX]; // the first pair of outputs of each
    int count, pairs;
    struct stream_shape shape;
    struct stream_x x;
    bool add; // to y, which is not overwritten
    struct gating gating;
};

// GATED: a pair is an output of w[0] and the same of w[1], and y of w[0] is what the gate lets
// through. Else it is two outputs that follow each other.
template <class Format, bool GATED>
static __global__ void __launch_bounds__(STREAM_THREADS, 2)
    stream_kernel(const __grid_constant__ struct stream f) {
    extern __shared__ uint4 shared[];
    const int size = Format::DEPTH * Format::STAGE;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    char *ring = (char *)shared + warp * size, *x = (char *)shared + STREAM_WARPS * size;
    auto which = [&](int item) {
        int m = 0;
        while (!GATED && m + 1 < f.count && item >= f.first[m + 1]) m++;
        return m;
    };
    auto rows = [&](int item) {
        if (GATED) return Format::pair(f.w[0], f.w[1], item, item);
        int m = which(item);
        int64_t row = (int64_t)(item - f.first[m]) * 2, last = f.w[m].out - 1;
        return Format::pair(f.w[m], f.w[m], row, row < last ? row + 1 : last);
    };
    auto ready = [&] {
        expect_norm(f.x, f.shape.in);
        wait_for_input();
        stage_row<Format>(x, f.x, f.shape.in);
        __syncthreads();
    };
    auto done = [&](int item, const float sum[2]) {
        const struct matrix &w = f.w[which(item)];
        if (GATED) {
            if (lane) return;
            const float *bias[2] = {f.w[0].bias, f.w[1].bias};
            f.w[0].y[item] = gated(sum[0] + (bias[0] ? bias[0][item] : 0.0f),
                                   sum[1] + (bias[1] ? bias[1][item] : 0.0f), f.gating);
            return;
        }
        int64_t row = (int64_t)(item - f.first[which(item)]) * 2 + lane;
        if (lane > 1 || row >= w.out) return;
        float v = (lane ? sum[1] : sum[0]) + (w.bias ? w.bias[row] : 0.0f);
        if (f.add)
            atomicAdd(w.y + row, v); // nobody else adds: not to wait for what is there
        else
            w.y[row] = v;
    };
    stream_items<Format>(
        ring, blockIdx.x * STREAM_WARPS + warp, gridDim.x * STREAM_WARPS, f.pairs, f.shape, rows,
        ready, [&](int) { return x; }, done);
}

// --- experts -------------------------------------------------------------------------------------

// Matrices of a stack, each so many bytes behind the one before.
struct stack {
    struct matrix first;
    int64_t data, scales, biases;
};

static __device__ __forceinline__ struct matrix matrix_at(const struct stack &s, int64_t i) {
    struct matrix m = s.first;
    m.data = (const char *)m.data + i * s.data;
    m.scales = (const char *)m.scales + i * s.scales;
    m.biases = (const char *)m.biases + i * s.biases;
    return m;
}

struct expert_stream {
    struct stack w[2];
    const int32_t *ids, *order; // entry i is of expert ids[order[i]]
    int per, items;             // pairs of rows of an entry, and of all
    struct stream_shape shape;
    const float *x;
    int64_t ldx, ldy, out; // ldx 0: all entries have one row
    float *y;
    struct gating gating;
};

enum { STREAM_ENTRIES = 4 }; // of a block, at most

// A block takes items that follow each other, so it meets few experts.
template <class Format, bool GATED>
static __global__ void __launch_bounds__(STREAM_THREADS, 2)
    stream_experts_kernel(const __grid_constant__ struct expert_stream f) {
    extern __shared__ uint4 shared[];
    __shared__ int expert[STREAM_ENTRIES];
    const int size = Format::DEPTH * Format::STAGE;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    char *ring = (char *)shared + warp * size, *xs = (char *)shared + STREAM_WARPS * size;
    size_t x_size = Format::x_bytes(f.shape.in);
    int from = (int)((int64_t)f.items * blockIdx.x / gridDim.x);
    int to = (int)((int64_t)f.items * (blockIdx.x + 1) / gridDim.x);
    int entry = from / f.per, entries = (to - 1) / f.per - entry + 1;
    wait_for_input();
    if ((int)threadIdx.x < entries)
        expert[threadIdx.x] = __ldcg(f.ids + __ldcg(f.order + entry + threadIdx.x));
    __syncthreads();
    auto rows = [&](int item) {
        int e = item / f.per, at = item - e * f.per, id = expert[e - entry];
        struct matrix a = matrix_at(f.w[0], id);
        if (GATED) return Format::pair(a, matrix_at(f.w[1], id), at, at);
        int64_t row = (int64_t)at * 2;
        return Format::pair(a, a, row, row + 1 < f.out ? row + 1 : row);
    };
    auto ready = [&] {
        for (int e = 0; e < (f.ldx ? entries : 1); e++) {
            struct stream_x x = {f.x + (entry + e) * f.ldx, false, NULL, 0};
            stage_row<Format>(xs + e * x_size, x, f.shape.in);
        }
        __syncthreads();
    };
    auto done = [&](int item, const float sum[2]) {
        int e = item / f.per, at = item - e * f.per;
        if (GATED) {
            if (lane == 0) f.y[e * f.ldy + at] = gated(sum[0], sum[1], f.gating);
            return;
        }
        int row = at * 2 + lane;
        if (lane < 2 && row < f.out) f.y[e * f.ldy + row] = lane ? sum[1] : sum[0];
    };
    stream_items<Format>(
        ring, from + warp, STREAM_WARPS, to, f.shape, rows, ready,
        [&](int item) { return xs + (f.ldx ? (item / f.per - entry) * x_size : 0); }, done);
}

// --- choosing ------------------------------------------------------------------------------------

// Blocks a processor where two have room, each with a ring: the next launch's take the place of
// those that end.
enum { STREAM_BLOCKS = 2 };
typedef four_format<2, 3> four;
typedef dense_format<4, 4> dense;

static bool begins_at(const void *p, int64_t step, size_t align) {
    return ((uintptr_t)p | (uintptr_t)step * 2) % align == 0;
}

static bool sides_begin_at(const struct weight *w, size_t align) {
    return begins_at(w->scales.data, w->scales.stride[0], align) &&
           begins_at(w->biases.data, w->biases.stride[0], align);
}

template <class Format, bool GATED>
static bool launch_stream(struct context *c, const struct stream &f) {
    size_t size =
        (size_t)STREAM_WARPS * Format::DEPTH * Format::STAGE + Format::x_bytes(f.shape.in);
    const struct cuda *d = c->dev->cuda;
    if (size > d->block_shared || (f.x.normed && f.shape.in > STREAM_HOLD * 8 * STREAM_THREADS))
        return false;
    int64_t blocks = STREAM_BLOCKS * (size + 1024) <= d->all_shared ? STREAM_BLOCKS : 1;
    int64_t most = blocks * d->processors, need = ceil_div(f.pairs, STREAM_WARPS);
    auto kernel = stream_kernel<Format, GATED>;
    if (allow_shared(c, "linear", kernel, size))
        launch(c, "linear", kernel, dim3((unsigned)(need < most ? need : most)), STREAM_THREADS,
               size, f);
    return true;
}

template <class Format>
static bool launch_stream(struct context *c, const struct stream &f, bool gated) {
    return gated ? launch_stream<Format, true>(c, f) : launch_stream<Format, false>(c, f);
}

bool cuda_around(struct context *c, const struct around *a) {
    if (a->x.n[0] != 1) return tiles_around(c, a) || cuda_around_many(c, a);
    const struct weight *const *w = a->w;
    int kind = kind_of(w[0]);
    bool is_gated = a->result == RESULT_GATED, four_bits = kind == FOUR_BF16;
    if (c->precision != PRECISION_NATIVE) return false;
    if ((kind != DENSE_BF16 && !four_bits) || (uintptr_t)a->x.data % 16) return false;
    struct stream f = {};
    f.count = a->count, f.add = a->result == RESULT_ADDED, f.gating.act = a->act;
    f.shape = {(int)w[0]->in, shape_of(w[0]).group_shift, true};
    f.x.x = (const float *)a->x.data;
    if (a->norm) {
        f.x.normed = true, f.x.eps = a->norm->eps;
        f.x.norm = (const float *)(a->norm->w.dims ? a->norm->w.data : NULL);
        if ((uintptr_t)f.x.norm % 16) return false;
    }
    for (int i = 0; i < a->count; i++) {
        if (!same_kind(w[0], w[i]) || (four_bits && !sides_begin_at(w[i], 4))) return false;
        if (four_bits && !sides_begin_at(w[i], 16)) f.shape.wide = false;
        f.w[i] = matrix_of(w[i], (float *)a->y[is_gated ? 0 : i].data, 0);
        f.first[i] = f.pairs;
        if (!is_gated) f.pairs += (int)ceil_div(w[i]->out, 2);
    }
    if (is_gated) f.pairs = (int)w[0]->out;
    return four_bits ? launch_stream<four>(c, f, is_gated) : launch_stream<dense>(c, f, is_gated);
}

// False: the matrices are not all as far from each other.
static bool stack_of(const struct matrices *m, struct stack *s) {
    const struct weight *w = m->w;
    auto apart = [&](const struct tensor weight::*t, int64_t i) {
        return (const char *)(w[i].*t).data - (const char *)(w[0].*t).data;
    };
    s->first = matrix_of(w, NULL, 0);
    s->data = s->scales = s->biases = 0;
    if (m->n > 1) {
        s->data = apart(&weight::data, 1), s->scales = apart(&weight::scales, 1);
        s->biases = apart(&weight::biases, 1);
    }
    for (int64_t i = 0; i < m->n; i++) {
        bool fits = apart(&weight::data, i) == i * s->data &&
                    apart(&weight::scales, i) == i * s->scales &&
                    apart(&weight::biases, i) == i * s->biases;
        if (!fits || !same_kind(w, &w[i]) || w[i].bias.dims) return false;
    }
    return true;
}

template <class Format>
static bool launch_experts(struct context *c, const struct expert_stream &f, bool is_gated) {
    const struct cuda *d = c->dev->cuda;
    int64_t most = STREAM_BLOCKS * d->processors, need = ceil_div(f.items, STREAM_WARPS);
    int64_t blocks = need < most ? need : most, entries = ceil_div(f.items, blocks * f.per) + 1;
    size_t size = (size_t)STREAM_WARPS * Format::DEPTH * Format::STAGE +
                  (size_t)entries * Format::x_bytes(f.shape.in);
    if (entries > STREAM_ENTRIES || STREAM_BLOCKS * (size + 1024) > d->all_shared) return false;
    auto kernel =
        is_gated ? stream_experts_kernel<Format, true> : stream_experts_kernel<Format, false>;
    if (allow_shared(c, "experts", kernel, size))
        launch(c, "experts", kernel, dim3((unsigned)blocks), STREAM_THREADS, size, f);
    return true;
}

bool stream_experts(struct context *c, struct tensor y, struct tensor x, const struct routes *r,
                    const struct matrices *w, const struct matrices *up, const struct gating *g,
                    bool shared) {
    struct expert_stream f = {};
    bool fits = r->ids.n[0] == 1 && kind_of(w->w) == FOUR_BF16 && sides_begin_at(w->w, 4) &&
                stack_of(w, &f.w[0]) && (f.w[0].scales | f.w[0].biases) % 4 == 0 &&
                ((uintptr_t)x.data | (size_t)x.stride[0] * 4) % 16 == 0;
    if (!fits) return false;
    f.shape = {(int)w->w->in, shape_of(w->w).group_shift, sides_begin_at(w->w, 16)};
    f.shape.wide = f.shape.wide && (f.w[0].scales | f.w[0].biases) % 16 == 0;
    if (up) {
        if (!same_kind(w->w, up->w) || !sides_begin_at(up->w, 4) || !stack_of(up, &f.w[1]))
            return false;
        if ((f.w[1].scales | f.w[1].biases) % 4) return false;
        f.shape.wide =
            f.shape.wide && sides_begin_at(up->w, 16) && (f.w[1].scales | f.w[1].biases) % 16 == 0;
        f.gating = *g;
    }
    f.ids = (const int32_t *)r->ids.data, f.order = (const int32_t *)r->order.data;
    f.out = w->w->out, f.per = (int)(up ? f.out : ceil_div(f.out, 2));
    f.items = f.per * (int)r->order.n[0];
    f.x = (const float *)x.data, f.ldx = shared ? 0 : x.stride[0];
    f.y = (float *)y.data, f.ldy = y.stride[0];
    typedef four_format<1, 6> short_four;
    return f.shape.in > 1024 ? launch_experts<four>(c, f, up)
                             : launch_experts<short_four>(c, f, up);
}

bool cuda_expert_glu_rows(struct context *c, struct tensor y, struct tensor x,
                          const struct routes *r, const struct matrices *gate,
                          const struct matrices *up, const struct gating *g) {
    return c->precision == PRECISION_NATIVE && (stream_experts(c, y, x, r, gate, up, g, true) ||
                                                tiles_experts(c, y, x, r, gate, up, g, true));
}
