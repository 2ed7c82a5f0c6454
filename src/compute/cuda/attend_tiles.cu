// Attention of prompts on tensor cores (mma.m16n8k16): a block takes 128 rows of one head through
// tiles of 64 keys, which it copies to shared memory while it computes the tile before; the softmax
// is a running one. Rows of several sequences in a block are taken one sequence after another.
#include "compute/cuda/attend.cuh"

enum { ROWS = 128, KEYS = 64, THREADS = 256, PAD = 8 };

static const float LOG2E = 1.4426950408889634f;

static __device__ __forceinline__ float power2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

template <bool BRAIN> static __device__ __forceinline__ uint32_t narrow(float low, float high) {
    if (BRAIN) {
        __nv_bfloat162 v = __floats2bfloat162_rn(low, high);
        return *(uint32_t *)&v;
    }
    __half2 v = __floats2half2_rn(low, high);
    return *(uint32_t *)&v;
}

template <bool BRAIN>
static __device__ __forceinline__ void mma(float acc[4], const uint32_t a[4], uint32_t b0,
                                           uint32_t b1) {
    if (BRAIN)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8x8 matrices from rows whose addresses lanes give; `turned` transposes each.
static __device__ __forceinline__ void load_matrices(uint32_t to[4], const uint16_t *row,
                                                     bool turned) {
    uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    if (turned)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(at));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(at));
}

// 16 bytes to shared memory, or zeros.
static __device__ __forceinline__ void copy16(uint16_t *to, const uint16_t *from, bool there) {
    uint32_t at = (uint32_t)__cvta_generic_to_shared(to), size = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(size));
}

// Rows of one sequence: what they see in all.
struct segment {
    int from, to; // of the block's rows
    int32_t seq, first, last;
};

struct block_rows {
    int32_t seq[ROWS], first[ROWS], last[ROWS];
};

static __device__ struct segment segment_at(const struct block_rows &b, int from, int count) {
    struct segment s = {from, from, b.seq[from], b.first[from], b.last[from]};
    for (; s.to < count && b.seq[s.to] == s.seq; s.to++) {
        s.first = min(s.first, b.first[s.to]);
        s.last = max(s.last, b.last[s.to]);
    }
    return s;
}

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

// One warp's 16 rows: lane / 4 and lane / 4 + 8.
template <int D> struct running {
    float acc[D / 8][4];
    float top[2], total[2];
};

template <int D, bool BRAIN>
static __device__ void attend_tile(struct running<D> &r, const uint32_t q[D / 16][4],
                                   const uint16_t *k, const uint16_t *v, const struct attend &a,
                                   int32_t t0, const int32_t first[2], const int32_t last[2]) {
    int lane = threadIdx.x % 32, t = lane % 4;
    float s[KEYS / 8][4] = {};
#pragma unroll
    for (int n = 0; n < KEYS / 16; n++)
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
            uint32_t b[4]; // keys 0-7: d low, d high; keys 8-15: the same
            int key = n * 16 + lane / 16 * 8 + lane % 8, at = d * 16 + lane / 8 % 2 * 8;
            load_matrices(b, k + key * (D + PAD) + at, false);
            mma<BRAIN>(s[2 * n], q[d], b[0], b[1]);
            mma<BRAIN>(s[2 * n + 1], q[d], b[2], b[3]);
        }
    float top[2] = {r.top[0], r.top[1]};
    bool all =
        first[0] <= t0 && first[1] <= t0 && last[0] >= t0 + KEYS - 1 && last[1] >= t0 + KEYS - 1;
    if (a.soft_cap > 0)
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) s[n][e] = capped(a, s[n][e]) * LOG2E;
    if (!__all_sync(~0u, all))
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int32_t at = t0 + n * 8 + 2 * t + e % 2;
                if (at < first[e / 2] || at > last[e / 2]) s[n][e] = -INFINITY;
            }
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) top[e / 2] = fmaxf(top[e / 2], s[n][e]);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], 1));
        top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], 2));
        float base = top[h] == -INFINITY ? 0.0f : top[h];
        float keep = power2(r.top[h] - base);
        r.top[h] = top[h];
        top[h] = base;
        r.total[h] *= keep;
#pragma unroll
        for (int d = 0; d < D / 8; d++) r.acc[d][2 * h] *= keep, r.acc[d][2 * h + 1] *= keep;
    }
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            s[n][e] = power2(s[n][e] - top[e / 2]);
            r.total[e / 2] += s[n][e];
        }
#pragma unroll
    for (int n = 0; n < KEYS / 16; n++) {
        uint32_t p[4] = {narrow<BRAIN>(s[2 * n][0], s[2 * n][1]),
                         narrow<BRAIN>(s[2 * n][2], s[2 * n][3]),
                         narrow<BRAIN>(s[2 * n + 1][0], s[2 * n + 1][1]),
                         narrow<BRAIN>(s[2 * n + 1][2], s[2 * n + 1][3])};
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
            uint32_t b[4]; // d low: keys 0-7, keys 8-15; d high: the same
            int key = n * 16 + lane / 8 % 2 * 8 + lane % 8, at = d * 16 + lane / 16 * 8;
            load_matrices(b, v + key * (D + PAD) + at, true);
            mma<BRAIN>(r.acc[2 * d], p, b[0], b[1]);
            mma<BRAIN>(r.acc[2 * d + 1], p, b[2], b[3]);
        }
    }
}

// The A operand of a warp's rows, scaled: pair p of step d is row g + 8 (p % 2), columns 16 d + 2 t
// + 8 (p / 2).
template <int D, bool BRAIN>
static __device__ void load_queries(uint32_t q[D / 16][4], const struct attend &a,
                                    const int64_t row[2], const int32_t last[2], int64_t head) {
    int t = threadIdx.x % 4;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        bool there = row[h] < a.n;
        const float *from = a.q + row[h] * a.ldq + head * D;
        float scale = scale_of(a, last[h]) * (a.soft_cap > 0 ? 1.0f : LOG2E);
#pragma unroll
        for (int d = 0; d < D / 16; d++)
#pragma unroll
            for (int p = 0; p < 2; p++) {
                int at = d * 16 + 2 * t + 8 * p;
                q[d][h + 2 * p] =
                    there ? narrow<BRAIN>(from[at] * scale, from[at + 1] * scale) : 0u;
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
    if ((int)threadIdx.x < count) {
        int32_t last = a.index[r0 + threadIdx.x];
        rows.seq[threadIdx.x] = a.seq[r0 + threadIdx.x];
        rows.last[threadIdx.x] = last;
        rows.first[threadIdx.x] = (int32_t)first_seen(a, last);
    }
    __syncthreads();
    int mine[2] = {(int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4, 0};
    mine[1] = mine[0] + 8;
    int64_t row[2] = {r0 + mine[0], r0 + mine[1]};
    int32_t last[2] = {mine[0] < count ? rows.last[mine[0]] : 0,
                       mine[1] < count ? rows.last[mine[1]] : 0};
    uint32_t q[D / 16][4];
    load_queries<D, BRAIN>(q, a, row, last, head);
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
            if (__any_sync(~0u, sees)) attend_tile<D, BRAIN>(r, q, k, k + tile, a, t0, low, high);
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
        float *y = a.y + row[h] * a.ldy + head * D + 2 * (threadIdx.x % 4);
#pragma unroll
        for (int d = 0; d < D / 8; d++) {
            y[d * 8] = r.acc[d][2 * h] / total;
            y[d * 8 + 1] = r.acc[d][2 * h + 1] / total;
        }
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

bool attend_tiles(struct context *c, const struct attend *a) {
    bool brain = a->type == DT_BF16;
    if (a->k_width != a->v_width || a->v == a->k) return false;
    if (a->k_width == 128)
        brain ? launch_tiles<128, true>(c, a) : launch_tiles<128, false>(c, a);
    else if (a->k_width == 64)
        brain ? launch_tiles<64, true>(c, a) : launch_tiles<64, false>(c, a);
    else
        return false;
    return true;
}
