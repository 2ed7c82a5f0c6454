// Products of some rows with dense BF16 weights, bound by reading those (compute capability 9.0).
// Sides are swapped, as in tiles.cuh: y^T = w x^T, outputs are the rows of the tensor cores' tiles.
// Both operands come to shared memory by the copy engine, 64 columns a stage, and nearly all of a
// processor's memory are stages on their way; one warp asks for them. The first weights are asked
// for before the launch before has ended.
//
// Where tiles of outputs are fewer than processors, the blocks of a cluster share k, and each adds
// up some rows of their tile from all their memories.
#include "compute/cuda/product_tiles.cuh"
#include "compute/cuda/wgmma.cuh"

enum {
    DENSE_ROWS = 128, // beyond so many cuBLASLt is faster
    DENSE_K = 64,
    DENSE_BOX = 64,                        // outputs of a copy and a product
    DENSE_OUT = 2 * DENSE_BOX,             // of a tile
    DENSE_BYTES = DENSE_BOX * DENSE_K * 2, // of a box of weights
    DENSE_LANES = 128,                     // that compute; a warp more fetches
    DENSE_PITCH = DENSE_OUT + 3,           // floats from row to row of sums, for the banks' sake
    DENSE_ROOM = (227 << 10) - 1024 - 256, // of a block, without its alignment and barriers
};

// A block's form for so many rows.
template <int ROWS> struct dense_form {
    static constexpr int N = ROWS, X_AT = 2 * DENSE_BYTES, STAGE = X_AT + N * DENSE_K * 2;
    static constexpr int SUMS = N * DENSE_PITCH * 4, MOST = (DENSE_ROOM - SUMS) / STAGE;
    static constexpr int DEPTH = MOST < 12 ? MOST : 12, SUMS_AT = DEPTH * STAGE;
    static constexpr size_t SIZE = 1024 + SUMS_AT + SUMS;
};

struct dense {
    CUtensorMap x, w[LINEAR_MAX];
    struct matrix m[LINEAR_MAX];
    int first[LINEAR_MAX]; // the first tile of outputs of each
    int count, tiles, stages, n;
    bool add;    // to y, which is not overwritten
    bool gated;  // a pair of boxes has outputs of w[0], and those of w[1]: y of m[0]
    bool narrow; // y is of BF16
    struct curve curve;
};

struct dense_at {
    bool there;
    int which, o; // the first output
};

static __device__ __forceinline__ struct dense_at dense_find(const struct dense &f, int tile) {
    struct dense_at t = {tile < f.tiles, 0, 0};
    while (t.which + 1 < f.count && tile >= f.first[t.which + 1]) t.which++;
    t.o = (tile - f.first[t.which]) * (f.gated ? DENSE_BOX : DENSE_OUT);
    return t;
}

// --- fetching ------------------------------------------------------------------------------------

// The same as copy_box of what no other block reads.
static __device__ __forceinline__ void copy_once(uint32_t to, const CUtensorMap *map, int k,
                                                 int row, uint64_t *b) {
    uint64_t once;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
                 "l"(map), "r"(k), "r"(row), "r"(shared_at(b)), "l"(once)
                 : "memory");
}

// Stages first to end of the tiles that a block computes, one after another.
template <class Form> struct dense_feed {
    int tile, stage, slot, phase;
    struct dense_at at;

    __device__ __forceinline__ void next(const struct dense &f, int first, int end, int step) {
        if (++slot == Form::DEPTH) slot = 0, phase ^= 1;
        if (++stage < end) return;
        stage = first, tile += step;
        at = dense_find(f, tile);
    }

    __device__ __forceinline__ void weights(const struct dense &f, uint32_t ring, uint64_t *full) {
        uint32_t to = ring + slot * Form::STAGE;
        int second = f.gated ? 0 : DENSE_BOX;
        barrier_expect(&full[slot], Form::STAGE);
        copy_once(to, &f.w[at.which], stage * DENSE_K, at.o, &full[slot]);
        copy_once(to + DENSE_BYTES, &f.w[at.which + f.gated], stage * DENSE_K, at.o + second,
                  &full[slot]);
    }

    __device__ __forceinline__ void rows(const struct dense &f, uint32_t ring, uint64_t *full) {
        copy_box(ring + slot * Form::STAGE + Form::X_AT, &f.x, stage * DENSE_K, 0, &full[slot]);
    }
};

// By one thread.
template <class Form>
static __device__ __forceinline__ void dense_fetch(const struct dense &f, uint32_t ring,
                                                   uint64_t *full, uint64_t *empty, int first,
                                                   int end, int tile, int step) {
    dense_feed<Form> w = {tile, first, 0, 1, dense_find(f, tile)}, x = w;
    for (int i = 0; i < Form::DEPTH && w.at.there; i++)
        w.weights(f, ring, full), w.next(f, first, end, step);
    asm volatile("prefetch.tensormap [%0];" ::"l"(&f.x) : "memory");
    wait_for_input();
    for (int i = 0; i < Form::DEPTH && x.at.there; i++)
        x.rows(f, ring, full), x.next(f, first, end, step);
    while (w.at.there) {
        barrier_wait(&empty[w.slot], w.phase);
        w.weights(f, ring, full), w.rows(f, ring, full);
        w.next(f, first, end, step);
    }
}

// --- computing -----------------------------------------------------------------------------------

// So many stages of a tile: of its two boxes, 64 outputs by N rows.
template <class Form>
static __device__ __forceinline__ void dense_multiply(float (&sums)[2][Form::N / 2], uint32_t ring,
                                                      uint64_t *full, uint64_t *empty, int stages,
                                                      int *slot, int *phase) {
    int before = 0;
    for (int s = 0; s < stages; s++) {
        barrier_wait(&full[*slot], *phase);
        uint32_t at = ring + *slot * Form::STAGE;
        uint32_t w = __shfl_sync(~0u, place_of(at), 0);
        uint32_t x = __shfl_sync(~0u, place_of(at + Form::X_AT), 0);
        wgmma_begin();
#pragma unroll
        for (int i = 0; i < DENSE_K / 16; i++) {
            wgmma<Form::N>(sums[0], w + 2 * i, x + 2 * i, i || s);
            wgmma<Form::N>(sums[1], w + DENSE_BYTES / 16 + 2 * i, x + 2 * i, i || s);
        }
        wgmma_end();
        wgmma_wait<1>();
        if (s && threadIdx.x == 0) barrier_arrive(&empty[before]);
        before = *slot;
        if (++*slot == Form::DEPTH) *slot = 0, *phase ^= 1;
    }
    wgmma_wait<0>();
    if (threadIdx.x == 0) barrier_arrive(&empty[before]);
}

// To shared memory, [N, DENSE_PITCH].
template <class Form>
static __device__ __forceinline__ void dense_leave(float *to, const float (&sums)[2][Form::N / 2]) {
    int lane = threadIdx.x % 32;
    to += lane % 4 * 2 * DENSE_PITCH + threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < Form::N / 2; i++) {
        float *at = to + (i / 4 * 8 + i % 2) * DENSE_PITCH + i % 4 / 2 * 8;
        at[0] = sums[0][i], at[DENSE_BOX] = sums[1][i];
    }
}

// What the four lots of 32 outputs of row r of a tile are, of which this lane has one each.
static __device__ __forceinline__ void dense_put(const struct dense &f, const struct dense_at &t,
                                                 int r, float v[4]) {
    const struct matrix &m = f.m[t.which];
    int o = t.o + threadIdx.x % 32, step = 32, count = 4;
    if (f.gated) {
        count = 2;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (o + i * step >= m.out) continue;
            if (m.bias) v[i] += m.bias[o + i * step];
            if (f.m[1].bias) v[i + 2] += f.m[1].bias[o + i * step];
            v[i] = curved(f.curve, v[i]) * v[i + 2];
        }
    }
    int64_t at = r * m.ldy + o;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (i >= count || o + i * step >= m.out) break;
        if (m.bias && !f.gated) v[i] += m.bias[o + i * step];
        if (f.narrow)
            ((__nv_bfloat16 *)m.y)[at + i * step] = __float2bfloat16_rn(v[i]);
        else if (f.add)
            atomicAdd(m.y + at + i * step, v[i]); // nobody else adds: not to wait for what is there
        else
            m.y[at + i * step] = v[i];
    }
}

// Adds up this block's rows of what its cluster left, a warp a row. One loop for all, as code that
// runs once has to be fetched.
static __device__ __forceinline__ void dense_join(const struct dense &f, const struct dense_at &t,
                                                  uint32_t left, int splits, int rank) {
    uint32_t from[CLUSTER_MOST];
#pragma unroll
    for (int p = 0; p < CLUSTER_MOST; p++)
        from[p] = cluster_at(left + threadIdx.x % 32 * 4, p < splits ? p : 0);
    int end = f.n * (rank + 1) / splits;
#pragma unroll 1
    for (int r = f.n * rank / splits + threadIdx.x / 32; r < end; r += DENSE_LANES / 32) {
        float v[4] = {0, 0, 0, 0};
#pragma unroll
        for (int p = 0; p < CLUSTER_MOST; p++) {
            if (p >= splits) break;
#pragma unroll
            for (int i = 0; i < 4; i++)
                v[i] += cluster_float(from[p] + (r * DENSE_PITCH + i * 32) * 4);
        }
        dense_put(f, t, r, v);
    }
}

// By the threads that compute.
static __device__ __forceinline__ void dense_sync() {
    asm volatile("bar.sync 1, 128;" ::: "memory");
}

// Grid: clusters of blocks that share k, each cluster takes every so manieth tile, or one if they
// are more than one block.
template <class Form>
static __global__ void __launch_bounds__(DENSE_LANES + 32, 1)
    dense_kernel(const __grid_constant__ struct dense f) {
    extern __shared__ uint4 memory[];
    __shared__ uint64_t full[Form::DEPTH], empty[Form::DEPTH];
    char *ring = (char *)memory + (-shared_at(memory) & 1023);
    float *left = (float *)(ring + Form::SUMS_AT);
    if (threadIdx.x == 0) {
        for (int i = 0; i < Form::DEPTH; i++) barrier_make(&full[i], 1), barrier_make(&empty[i], 1);
        barriers_made();
    }
    __syncthreads();
    int splits = cluster_size(), rank = cluster_rank();
    int first = f.stages * rank / splits, end = f.stages * (rank + 1) / splits;
    int tile = blockIdx.x / splits, step = gridDim.x / splits;
    struct dense_at t = dense_find(f, tile);
    bool computes = threadIdx.x < DENSE_LANES;
    if (!computes) {
        if (threadIdx.x == DENSE_LANES)
            dense_fetch<Form>(f, shared_at(ring), full, empty, first, end, tile, step);
        __syncwarp();
    } else {
        wait_for_input();
        float sums[2][Form::N / 2];
        for (int slot = 0, phase = 0; t.there; t = dense_find(f, tile += step)) {
            dense_multiply<Form>(sums, shared_at(ring), full, empty, end - first, &slot, &phase);
            dense_leave<Form>(left, sums);
            if (splits > 1) break;
            dense_sync();
            dense_join(f, t, shared_at(left), 1, 0);
            dense_sync();
        }
    }
    if (splits == 1) return;
    cluster_meet();
    if (computes) dense_join(f, t, shared_at(left), splits, rank);
    cluster_meet(); // nobody's memory goes before all have read it
}

// --- launching -----------------------------------------------------------------------------------

static bool dense_map(struct context *c, CUtensorMap *map, const void *data, int64_t in,
                      int64_t rows, int64_t ld, int box) {
    auto encode = (decltype(&cuTensorMapEncodeTiled))c->dev->cuda->encode_map;
    const cuuint64_t size[] = {(cuuint64_t)in, (cuuint64_t)rows}, step[] = {(cuuint64_t)ld * 2};
    const cuuint32_t boxes[] = {DENSE_K, (cuuint32_t)box}, each[] = {1, 1};
    return encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void *)data, size, step, boxes, each,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

// False: the copy engine takes none of such a shape.
template <class Form>
static bool launch_dense(struct context *c, struct dense *f, const struct around *a,
                         struct tensor x) {
    auto kernel = dense_kernel<Form>;
    if (!dense_map(c, &f->x, x.data, x.n[1], x.n[0], x.n[1], Form::N)) return false;
    for (int i = 0; i < a->count; i++) {
        const struct weight *w = a->w[i];
        if (!dense_map(c, &f->w[i], w->data.data, w->in, w->out, w->data.stride[0], DENSE_BOX))
            return false;
        f->first[i] = f->tiles;
        if (i < f->count) f->tiles += (int)ceil_div(w->out * (f->gated ? 2 : 1), DENSE_OUT);
    }
    if (!allow_shared(c, "linear", kernel, Form::SIZE)) return true;
    int most = c->dev->cuda->processors, clusters = f->tiles < most ? f->tiles : most;
    int splits = cluster_blocks(c, kernel, clusters, f->stages, DENSE_LANES + 32, Form::SIZE);
    cudaLaunchAttribute attribute[2] = {};
    cudaLaunchConfig_t config =
        cluster_launch(attribute, dim3((unsigned)clusters), splits, DENSE_LANES + 32, Form::SIZE);
    config.stream = c->dev->cuda->stream;
    if (!c->err.set) cuda_ok(&c->err, cudaLaunchKernelEx(&config, kernel, *f), "linear");
    return true;
}

bool dense_takes(const struct context *c, int64_t rows, const struct weight *w) {
    return c->dev->cuda->hopper && c->precision == PRECISION_NATIVE && rows > 1 &&
           rows <= DENSE_ROWS && kind_of(w) == DENSE_BF16;
}

bool dense_around(struct context *c, const struct around *a, struct tensor x) {
    struct dense f = {};
    f.gated = a->result == RESULT_GATED, f.add = a->result == RESULT_ADDED;
    f.count = f.gated ? 1 : a->count, f.narrow = a->y[0].type == DT_BF16;
    f.n = (int)x.n[0], f.stages = (int)ceil_div(x.n[1], DENSE_K);
    if (f.gated && !curve_of(&f.curve, a->act)) return false;
    for (int i = 0; i < a->count; i++) {
        if (!dense_takes(c, x.n[0], a->w[i])) return false;
        const struct tensor *y = &a->y[f.gated ? 0 : i];
        f.m[i] = matrix_of(a->w[i], (float *)y->data, y->stride[0]);
    }
    if (f.n <= 16) return launch_dense<dense_form<16>>(c, &f, a, x);
    if (f.n <= 32) return launch_dense<dense_form<32>>(c, &f, a, x);
    if (f.n <= 64) return launch_dense<dense_form<64>>(c, &f, a, x);
    return launch_dense<dense_form<128>>(c, &f, a, x);
}
