// Attention of prompts on tensor cores (mma.m16n8k16): a block takes 128 rows of one head through
// tiles of 64 keys, which it copies to shared memory while it computes the tile before; the softmax
// is a running one. Rows of several sequences in a block are taken one sequence after another.
#include "compute/cuda/attend_tiles.cuh"

enum { KEYS = 64, THREADS = 256 };

template <int D>
static __device__ void copy_tile(uint16_t *k, uint16_t *v, const struct attend &a,
                                 const int32_t *table, int64_t kv_head, int32_t t0, int32_t first,
                                 int32_t last) {
    const uint16_t *keys = (const uint16_t *)a.k, *values = (const uint16_t *)a.v;
    for (int i = threadIdx.x; i < KEYS * D / 8; i += THREADS) {
        int key = i / (D / 8), at = i % (D / 8) * 8, t = t0 + key;
        bool there = t >= first && t <= last;
        int64_t from = there ? cache_row(a, table, kv_head, t) * D + at : 0;
        copy16(k + key * (D + PAD) + at, keys + from, there);
        copy16(v + key * (D + PAD) + at, values + from, there);
    }
    asm volatile("cp.async.commit_group;");
}

// The A operand of a warp's rows, scaled: pair p of step d is row g + 8 (p % 2), columns 16 d + 2 t
// + 8 (p / 2).
template <int D, bool BRAIN>
static __device__ void load_queries(uint32_t q[D / 16][4], const struct attend &a,
                                    const int64_t row[2], const float scale[2], int64_t head) {
    int t = threadIdx.x % 4;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        bool there = row[h] < a.n;
        const float *from = a.q + row[h] * a.ldq + head * D;
#pragma unroll
        for (int d = 0; d < D / 16; d++)
#pragma unroll
            for (int p = 0; p < 2; p++) {
                int at = d * 16 + 2 * t + 8 * p;
                q[d][h + 2 * p] =
                    there ? narrow<BRAIN>(from[at] * scale[h], from[at + 1] * scale[h]) : 0u;
            }
    }
}

template <int D, bool BRAIN>
static __global__ void __launch_bounds__(THREADS)
    tile_kernel(const __grid_constant__ struct attend a) {
    extern __shared__ uint4 memory[];
    __shared__ struct block_rows rows;
    wait_for_input();
    const int tile = KEYS * (D + PAD);
    uint16_t *shared = (uint16_t *)memory;
    // The last rows of a prompt see the most keys: they go first.
    int64_t r0 = (int64_t)(gridDim.x - 1 - blockIdx.x) * ROWS, head = blockIdx.y;
    int64_t kv_head = head / a.group;
    int count = (int)(a.n - r0 < ROWS ? a.n - r0 : ROWS);
    read_rows(rows, a, r0, count);
    __syncthreads();
    int mine[2] = {(int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4, 0};
    mine[1] = mine[0] + 8;
    int64_t row[2] = {r0 + mine[0], r0 + mine[1]};
    int32_t last[2] = {mine[0] < count ? rows.last[mine[0]] : 0,
                       mine[1] < count ? rows.last[mine[1]] : 0};
    float scale[2] = {mine[0] < count ? rows.scale[mine[0]] : 0.0f,
                      mine[1] < count ? rows.scale[mine[1]] : 0.0f};
    uint32_t q[D / 16][4];
    load_queries<D, BRAIN>(q, a, row, scale, head);
    struct running<D> r = {};
    r.top[0] = r.top[1] = -INFINITY;
    for (int from = 0; from < count;) {
        struct segment s = segment_at(rows, from, count);
        from = s.to;
        const int32_t *table = a.table + s.seq * a.pages;
        int32_t low[2], high[2]; // what my rows see; nothing where they are of another segment
        for (int h = 0; h < 2; h++) {
            bool in = mine[h] >= s.from && mine[h] < s.to;
            low[h] = in ? rows.first[mine[h]] : INT32_MAX, high[h] = in ? last[h] : -1;
        }
        int32_t begin = s.first / KEYS * KEYS;
        copy_tile<D>(shared, shared + tile, a, table, kv_head, begin, s.first, s.last);
        int buffer = 0;
        for (int32_t t0 = begin; t0 <= s.last; t0 += KEYS, buffer ^= 1) {
            uint16_t *k = shared + buffer * 2 * tile, *next = shared + (buffer ^ 1) * 2 * tile;
            if (t0 + KEYS <= s.last) {
                copy_tile<D>(next, next + tile, a, table, kv_head, t0 + KEYS, s.first, s.last);
                asm volatile("cp.async.wait_group 1;");
            } else {
                asm volatile("cp.async.wait_group 0;");
            }
            __syncthreads();
            bool sees =
                (t0 <= high[0] && t0 + KEYS > low[0]) || (t0 <= high[1] && t0 + KEYS > low[1]);
            if (__any_sync(~0u, sees))
                attend_tile<D, BRAIN, KEYS>(r, q, k, k + tile, a, t0, low, high);
            __syncthreads();
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float total = r.total[h];
        total += __shfl_xor_sync(~0u, total, 1);
        total += __shfl_xor_sync(~0u, total, 2);
        if (mine[h] >= count) continue;
        total += sink_of(a, head, r.top[h] / LOG2E);
        int64_t at = row[h] * a.ldy + head * D + 2 * (threadIdx.x % 4);
#pragma unroll
        for (int d = 0; d < D / 8; d++)
            put_pair(a, at + d * 8, r.acc[d][2 * h] / total, r.acc[d][2 * h + 1] / total);
    }
}

template <int D, bool BRAIN> static void launch_tiles(struct context *c, const struct attend *a) {
    int size = 4 * KEYS * (D + PAD) * 2;
    auto kernel = tile_kernel<D, BRAIN>;
    if (!cuda_ok(&c->err,
                 cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, size),
                 "shared memory of attention"))
        return;
    dim3 grid((unsigned)ceil_div(a->n, ROWS), (unsigned)a->heads);
    launch(c, "attention", kernel, grid, THREADS, (size_t)size, *a);
}

bool attend_tiles(struct context *c, const struct attend *a, int64_t pages) {
    bool brain = a->type == DT_BF16;
    bool aligned = ((uintptr_t)a->q | (uintptr_t)a->y | (size_t)(a->ldq | a->ldy) * 4) % 8 == 0;
    if (!aligned) return false;
    if (a->v == a->k) return c->dev->cuda->hopper && attend_latents(c, a, pages);
    if (a->k_width != a->v_width) return false;
    if (c->dev->cuda->hopper && attend_hopper(c, a, pages)) return true;
    if (a->k_width == 128)
        brain ? launch_tiles<128, true>(c, a) : launch_tiles<128, false>(c, a);
    else if (a->k_width == 64)
        brain ? launch_tiles<64, true>(c, a) : launch_tiles<64, false>(c, a);
    else
        return false;
    return true;
}
