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
