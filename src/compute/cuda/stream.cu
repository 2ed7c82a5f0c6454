// Products of one row by stream.cuh: which weights it takes, and how its kernels are launched.
#include "compute/cuda/stream.cuh"

#include "compute/cuda/product_tiles.cuh"

struct stream {
    struct matrix w[LINEAR_MAX];
    int first[LINEAR_MAX]; // the first item of each
    int count, items;
    struct stream_shape shape;
    struct stream_x x;
    bool add; // to y, which is not overwritten
    struct gating gating;
};

// GATED: an item is an output of w[0] and the same of w[1], and y of w[0] is what the gate lets
// through. Else it is one output, or two that follow each other.
template <class Format, class Block, bool GATED>
static __global__ void __launch_bounds__(Block::THREADS) __maxnreg__(Block::REGISTERS)
    stream_kernel(const __grid_constant__ struct stream f) {
    extern __shared__ uint4 shared[];
    const int WARPS = Block::WARPS, size = Format::DEPTH * Format::STAGE;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    char *ring = (char *)shared + warp * size, *x = (char *)shared + WARPS * size;
    auto which = [&](int item) {
        int m = 0;
        while (!GATED && m + 1 < f.count && item >= f.first[m + 1]) m++;
        return m;
    };
    auto rows = [&](int item) {
        if (GATED) return Format::pair(f.w[0], f.w[1], item, item);
        int m = which(item);
        int64_t row = (int64_t)(item - f.first[m]) * Format::ROWS, last = f.w[m].out - 1;
        return Format::pair(f.w[m], f.w[m], row, row < last ? row + 1 : last);
    };
    struct held_norm<Block> norm = {};
    if (f.x.normed) norm = hold_norm<Block>(f.x, f.shape.in);
    auto ready = [&] {
        wait_for_input();
        stage_row<Format, Block>(x, f.x, f.shape.in, norm);
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
        int64_t row = (int64_t)(item - f.first[which(item)]) * Format::ROWS + lane;
        if (lane >= Format::ROWS || row >= w.out) return;
        float v = (lane ? sum[1] : sum[0]) + (w.bias ? w.bias[row] : 0.0f);
        if (f.add)
            atomicAdd(w.y + row, v); // nobody else adds: not to wait for what is there
        else
            w.y[row] = v;
    };
    stream_items<Format>(
        ring, blockIdx.x * WARPS + warp, gridDim.x * WARPS, f.items, f.shape, rows, ready,
        [&](int) { return x; }, done);
}

// --- choosing ------------------------------------------------------------------------------------

// False: it does not fit. blocks: of a processor, where they have room; each has its rings.
template <class Format, class Block, bool GATED>
static bool launch_stream(struct context *c, struct stream f, int64_t blocks) {
    size_t size =
        (size_t)Block::WARPS * Format::DEPTH * Format::STAGE + Format::x_bytes(f.shape.in);
    const struct cuda *d = c->dev->cuda;
    if (size > d->block_shared || (f.x.normed && f.shape.in > Block::MOST)) return false;
    for (int i = 0; i < (GATED ? 1 : f.count); i++) {
        f.first[i] = f.items;
        f.items += (int)ceil_div(f.w[i].out, GATED ? 1 : Format::ROWS);
    }
    if (blocks * (size + 1024) > d->all_shared) blocks = 1;
    int64_t most = blocks * d->processors, need = ceil_div(f.items, Block::WARPS);
    auto kernel = stream_kernel<Format, Block, GATED>;
    if (allow_shared(c, "linear", kernel, size))
        launch(c, "linear", kernel, dim3((unsigned)(need < most ? need : most)), Block::THREADS,
               size, f);
    return true;
}

template <class Format, class Block>
static bool launch_either(struct context *c, const struct stream &f, int64_t blocks, bool gated) {
    return gated ? launch_stream<Format, Block, true>(c, f, blocks)
                 : launch_stream<Format, Block, false>(c, f, blocks);
}

// 4-bit codes: a block a processor, of more than half of its memory. Two of half of it each are
// slower: where a launch's blocks begin as others end, some processors get two and some none.
template <class Block>
static bool launch_codes(struct context *c, const struct stream &f, bool gated) {
    return launch_either<four_format<1, 6>, Block>(c, f, 1, gated) ||
           launch_either<four_format<1, 4>, Block>(c, f, 1, gated) ||
           launch_either<four_format<1, 2>, Block>(c, f, 1, gated);
}

// Dense weights: two blocks a processor, where the next launch's take the place of those that end.
// Pairs of rows share the reads of x; few rows are done earlier one by one, where that spreads them
// better over the warps.
enum { DENSE_BLOCKS = 2, ALONE_MOST = 3 }; // ALONE_MOST: rows of a warp

typedef struct stream_block<8, 64, 2> short_row;
typedef struct stream_block<16, 96, 4> long_row;

static bool launch_dense(struct context *c, const struct stream &f, bool gated) {
    typedef dense_format<2, 4, 3> deep;
    typedef dense_format<2, 4, 4> pairs;
    typedef dense_format<1, 4, 8> alone;
    // A long row is staged once a processor: twice as many warps share it.
    if (f.shape.in > short_row::MOST && launch_either<deep, long_row>(c, f, DENSE_BLOCKS, gated))
        return true;
    int64_t warps = (int64_t)DENSE_BLOCKS * short_row::WARPS * c->dev->cuda->processors, rows = 0;
    for (int i = 0; i < f.count; i++) rows += f.w[i].out;
    int64_t one_by_one = ceil_div(rows, warps), paired = 2 * ceil_div(ceil_div(rows, 2), warps);
    if (!gated && one_by_one < paired && one_by_one <= ALONE_MOST)
        return launch_stream<alone, short_row, false>(c, f, DENSE_BLOCKS);
    return launch_either<pairs, short_row>(c, f, DENSE_BLOCKS, gated);
}

static bool launch_any(struct context *c, const struct stream &f, bool four_bits, bool gated) {
    typedef struct stream_block<16, 64, 2> codes_row;
    if (!four_bits) return launch_dense(c, f, gated);
    return f.x.normed && f.shape.in > codes_row::MOST ? launch_codes<long_row>(c, f, gated)
                                                      : launch_codes<codes_row>(c, f, gated);
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
    }
    return launch_any(c, f, four_bits, is_gated);
}
