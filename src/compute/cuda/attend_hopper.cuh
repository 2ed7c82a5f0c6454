// What kernels of attention share that use Hopper's own instructions (wgmma, which only sm_90a
// has): their products, tiles that the copy engine fetches, and the running softmax.
//
// Tiles in shared memory are panels of 64 columns: a row of a panel is 128 bytes, whose blocks of
// 16 are out of order by the row (the instructions' 128-byte swizzle).
#ifndef COMPUTE_CUDA_ATTEND_HOPPER_CUH
#define COMPUTE_CUDA_ATTEND_HOPPER_CUH

#include "compute/cuda/attend_tiles.cuh"
#include "compute/cuda/wgmma.cuh"

enum { GROUP = 128, THREADS = 3 * GROUP, STAGES = 2, PANEL = 64 };

static __host__ __device__ constexpr int keys_of(int d) { return d > 128 ? 64 : 128; }

// Bytes of a tile of so many rows.
static __host__ __device__ constexpr int tile_bytes(int rows, int d) { return rows * d * 2; }

// Where 16 bytes of a tile are: block `at` of a row.
template <int TILE_ROWS> static __device__ __forceinline__ uint32_t swizzled(int row, int at) {
    return (uint32_t)(at / 8 * TILE_ROWS * 128 + row * 128 + ((at ^ row) & 7) * 16);
}

// Of a warp's first lane, and known to be: where wgmma runs, branches must be the same for a warp.
static __device__ __forceinline__ int same(int v) { return __shfl_sync(~0u, v, 0); }

// --- barriers ------------------------------------------------------------------------------------

// Of one stage: its keys or values are there, or were used by all warps.
struct gate {
    uint64_t full, empty;
};

// By a block, before it synchronizes.
static __device__ __forceinline__ void gates_open(struct gate *g, int count) {
    if ((int)threadIdx.x >= count) return;
    barrier_make(&g[threadIdx.x].full, GROUP);
    barrier_make(&g[threadIdx.x].empty, 2 * GROUP / 32);
    barriers_made();
}

// What this thread wrote to shared memory is seen by the tensor cores.
static __device__ __forceinline__ void fence_copies() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

static __device__ __forceinline__ void wait_full(struct gate *g, int tile) {
    barrier_wait(&g[tile % STAGES].full, tile / STAGES & 1);
}

static __device__ __forceinline__ void release(struct gate *g, int tile) {
    if (threadIdx.x % 32 == 0) barrier_arrive(&g[tile % STAGES].empty);
}

// --- products ------------------------------------------------------------------------------------

// Nothing that reads or writes a sum moves across.
template <int N> static __device__ __forceinline__ void hold(float (&sum)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(sum[i])::"memory");
}

// A matrix in shared memory, of 128-byte rows: `far` bytes from panel to panel, where those lie
// across the operand's own rows.
static __device__ __forceinline__ uint64_t operand(uint32_t at, int far) {
    return (uint64_t)(at >> 4 & 0x3fff) | (uint64_t)(far >> 4) << 16 | (uint64_t)(1024 >> 4) << 32 |
           (uint64_t)1 << 62;
}

// The 64 by N sums of a warpgroup, in the layout of mma.m16n8k16's for each of its warps.
#define SUMS_4(s, i)  "+f"(s[i]), "+f"(s[i + 1]), "+f"(s[i + 2]), "+f"(s[i + 3])
#define SUMS_16(s, i) SUMS_4(s, i), SUMS_4(s, i + 4), SUMS_4(s, i + 8), SUMS_4(s, i + 12)
#define SUMS_32(s)    SUMS_16(s, 0), SUMS_16(s, 16)
#define SUMS_64(s)    SUMS_32(s), SUMS_16(s, 32), SUMS_16(s, 48)

// s = q k^T, or s += where `more`: 64 rows by KEYS keys over 16 columns, both from shared memory.
#define SCORES(KEYS, TYPE, PLACES, Q, K, MORE, SUMS)                                               \
    asm volatile("{\n"                                                                             \
                 ".reg .pred p;\n"                                                                 \
                 "setp.ne.b32 p, " MORE ", 0;\n"                                                   \
                 "wgmma.mma_async.sync.aligned.m64n" KEYS "k16.f32." TYPE "." TYPE " {" PLACES     \
                 "}, " Q ", " K ", p, 1, 1, 0, 0;\n"                                               \
                 "}"                                                                               \
                 : SUMS                                                                            \
                 : "l"(q), "l"(k), "r"((int)more))

template <bool BRAIN>
static __device__ __forceinline__ void scores(float (&s)[64], uint64_t q, uint64_t k, bool more) {
    if (BRAIN)
        SCORES("128", "bf16", PLACES_64, "%64", "%65", "%66", SUMS_64(s));
    else
        SCORES("128", "f16", PLACES_64, "%64", "%65", "%66", SUMS_64(s));
}

template <bool BRAIN>
static __device__ __forceinline__ void scores(float (&s)[32], uint64_t q, uint64_t k, bool more) {
    if (BRAIN)
        SCORES("64", "bf16", PLACES_32, "%32", "%33", "%34", SUMS_32(s));
    else
        SCORES("64", "f16", PLACES_32, "%32", "%33", "%34", SUMS_32(s));
}

// s += p v: 64 rows by D columns over 16 keys, p from registers.
#define VALUES(D, TYPE, PLACES, P, V, SUMS)                                                        \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" D "k16.f32." TYPE "." TYPE " {" PLACES        \
                 "}, {" P "}, " V ", 1, 1, 1, 1;"                                                  \
                 : SUMS                                                                            \
                 : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(v))

template <bool BRAIN>
static __device__ __forceinline__ void values(float (&s)[64], const uint32_t p[4], uint64_t v) {
    if (BRAIN)
        VALUES("128", "bf16", PLACES_64, "%64, %65, %66, %67", "%68", SUMS_64(s));
    else
        VALUES("128", "f16", PLACES_64, "%64, %65, %66, %67", "%68", SUMS_64(s));
}

template <bool BRAIN>
static __device__ __forceinline__ void values(float (&s)[32], const uint32_t p[4], uint64_t v) {
    if (BRAIN)
        VALUES("64", "bf16", PLACES_32, "%32, %33, %34, %35", "%36", SUMS_32(s));
    else
        VALUES("64", "f16", PLACES_32, "%32, %33, %34, %35", "%36", SUMS_32(s));
}

// --- fetching ------------------------------------------------------------------------------------

// What the warpgroups of a block share.
struct block {
    uint32_t q, k, v; // tiles in shared memory: ROWS queries, and STAGES of each of the others
    struct gate *k_gate, *v_gate;
    const struct block_rows *rows;
    int count; // rows that there are
    int64_t row, head;
};

// Keys or values as the copy engine takes them: rows of a panel, of a page or a tile at a time.
struct maps {
    CUtensorMap k, v;
    int rows; // of a copy; 0: pages are too small
};

// A tile of KEYS keys or values of a segment, from t0 on, of which all are there.
template <int D>
static __device__ __forceinline__ void fetch_whole(uint32_t to, uint64_t *full,
                                                   const CUtensorMap *map, int rows,
                                                   const struct attend &a, const int32_t *table,
                                                   int64_t kv_head, int shift, int32_t t0) {
    constexpr int KEYS = keys_of(D), PANELS = D / PANEL;
    int thread = threadIdx.x % GROUP, row = thread / PANELS * rows, panel = thread % PANELS;
    if (thread == 0)
        barrier_expect(full, tile_bytes(KEYS, D));
    else
        barrier_arrive(full);
    if (row >= KEYS) return;
    int32_t t = t0 + row;
    int64_t slot =
        (((int64_t)table[t >> shift] * a.kv_heads + kv_head) << shift) + (t & ((1 << shift) - 1));
    copy_box(to + panel * tile_bytes(KEYS, PANEL) + row * PANEL * 2, map, panel * PANEL,
             (int32_t)slot, full);
}

// The same where some may be outside of [first, last]: zeros.
template <int D>
static __device__ __forceinline__ void fetch_part(uint32_t to, uint64_t *full, const void *from,
                                                  const struct attend &a, const int32_t *table,
                                                  int64_t kv_head, int shift, int32_t t0,
                                                  int32_t first, int32_t last) {
    constexpr int KEYS = keys_of(D), BLOCKS = D / 8;
#pragma unroll 2
    for (int i = threadIdx.x % GROUP; i < KEYS * BLOCKS; i += GROUP) {
        int r = i / BLOCKS, at = i % BLOCKS;
        int32_t t = t0 + r;
        bool there = t >= first && t <= last;
        int64_t page = there ? table[t >> shift] : 0;
        int64_t slot = ((page * a.kv_heads + kv_head) << shift) + (t & ((1 << shift) - 1));
        const uint4 *p = (const uint4 *)from + (there ? slot * BLOCKS + at : 0);
        asm volatile(
            "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to + swizzled<KEYS>(r, at)),
            "l"(p), "r"(there ? 16 : 0));
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    fence_copies();
    barrier_arrive(full);
}

template <int D>
static __device__ __forceinline__ void produce(const struct attend &a, const struct maps &m,
                                               const struct block &b) {
    constexpr int KEYS = keys_of(D), SIZE = tile_bytes(KEYS, D);
    int shift = 31 - __clz((int)a.page), tile = 0;
    int64_t kv_head = b.head / a.group;
    for (int from = 0; from < b.count;) {
        struct segment s = segment_at(*b.rows, from, b.count);
        from = s.to;
        const int32_t *table = a.table + s.seq * a.pages;
        for (int32_t t0 = s.first / KEYS * KEYS; t0 <= s.last; t0 += KEYS, tile++) {
            int stage = tile % STAGES, parity = (tile / STAGES & 1) ^ 1;
            bool whole = m.rows && t0 >= s.first && t0 + KEYS - 1 <= s.last;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                struct gate *g = (i ? b.v_gate : b.k_gate) + stage;
                uint32_t to = (i ? b.v : b.k) + stage * SIZE;
                barrier_wait(&g->empty, parity);
                if (whole)
                    fetch_whole<D>(to, &g->full, i ? &m.v : &m.k, m.rows, a, table, kv_head, shift,
                                   t0);
                else
                    fetch_part<D>(to, &g->full, i ? a.v : a.k, a, table, kv_head, shift, t0,
                                  s.first, s.last);
            }
        }
    }
}

// --- computing -----------------------------------------------------------------------------------

// The keys of a segment that a lane's two rows see; of a row that is not in it: none.
static __device__ __forceinline__ void seen_in(const struct block &b, const struct segment &s,
                                               const int mine[2], int32_t low[2], int32_t high[2]) {
    for (int h = 0; h < 2; h++) {
        bool in = mine[h] >= s.from && mine[h] < s.to;
        low[h] = in ? b.rows->first[mine[h]] : INT32_MAX;
        high[h] = in ? b.rows->last[mine[h]] : -1;
    }
}

// 64 queries, from row `first` of the block on, scaled, to shared memory: a warp of WARPS takes a
// row at a time.
template <int D, bool BRAIN, int WARPS>
static __device__ __forceinline__ void stage_queries(const struct attend &a, const struct block &b,
                                                     uint32_t q, int first, int warp) {
    int lane = threadIdx.x % 32;
#pragma unroll 8
    for (int r = warp; r < 64; r += WARPS) {
        int row = first + r;
        bool there = row < b.count;
        const float *from = a.q + (b.row + (there ? row : 0)) * a.ldq + b.head * D;
        float scale = there ? b.rows->scale[row] : 0.0f;
#pragma unroll
        for (int i = 2 * lane; i < D; i += 64) {
            float2 x = there ? *(const float2 *)(from + i) : make_float2(0, 0);
            uint32_t at = q + swizzled<64>(r, i / 8) + i % 8 * 2;
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(at),
                         "r"(narrow<BRAIN>(x.x * scale, x.y * scale))
                         : "memory");
        }
    }
    fence_copies();
}

// The running softmax of a lane's two rows of a warpgroup.
template <int D> struct attended {
    float sum[D > 128 ? 2 : 1][D > 128 ? 64 : D / 2];
    float top[2], total[2];
};

template <int D, bool BRAIN>
static __device__ __forceinline__ void begin_scores(float (&s)[keys_of(D) / 2], uint32_t q,
                                                    uint32_t k) {
#pragma unroll
    for (int d = 0; d < D / 16; d++) {
        uint32_t column = d % 4 * 32;
        scores<BRAIN>(s, operand(q + d / 4 * tile_bytes(64, PANEL) + column, 0),
                      operand(k + d / 4 * tile_bytes(keys_of(D), PANEL) + column, 0), d > 0);
    }
    wgmma_end();
}

template <int D, bool BRAIN>
static __device__ __forceinline__ void begin_values(struct attended<D> &r,
                                                    const uint32_t (&p)[keys_of(D) / 16][4],
                                                    uint32_t v) {
    constexpr int FAR = tile_bytes(keys_of(D), PANEL);
#pragma unroll
    for (int k = 0; k < keys_of(D) / 16; k++)
#pragma unroll
        for (int h = 0; h < (D > 128 ? 2 : 1); h++)
            values<BRAIN>(r.sum[h], p[k], operand(v + h * 2 * FAR + k * 2048, FAR));
    wgmma_end();
}

// A score, capped, as a power of 2: cap tanh(score / cap).
static __device__ __forceinline__ float capped_power(float cap, float score) {
    return cap * LOG2E * (1 - __fdividef(2, 1 + power2(score * (2 * LOG2E / cap))));
}

// Scores become weights; what came before is to be multiplied by `keep`. Lane t of a row's four
// has columns 8 n + 2 t and the next.
template <int D>
static __device__ __forceinline__ void soften(struct attended<D> &r, float (&s)[keys_of(D) / 2],
                                              const struct attend &a, int32_t t0,
                                              const int32_t first[2], const int32_t last[2],
                                              float keep[2]) {
    constexpr int KEYS = keys_of(D);
    int t = threadIdx.x % 4;
    bool all =
        first[0] <= t0 && first[1] <= t0 && last[0] >= t0 + KEYS - 1 && last[1] >= t0 + KEYS - 1;
    if (a.soft_cap > 0)
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++) s[i] = capped_power(a.soft_cap, s[i]);
    if (!__all_sync(~0u, all))
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++) {
            int32_t at = t0 + i / 4 * 8 + 2 * t + i % 2;
            if (at < first[i / 2 % 2] || at > last[i / 2 % 2]) s[i] = -INFINITY;
        }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float top = r.top[h];
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++)
            if (i / 2 % 2 == h) top = fmaxf(top, s[i]);
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
        float base = top == -INFINITY ? 0.0f : top, sum = 0;
        keep[h] = power2(r.top[h] - base);
        r.top[h] = top;
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++)
            if (i / 2 % 2 == h) s[i] = power2(s[i] - base), sum += s[i];
        r.total[h] = r.total[h] * keep[h] + sum;
    }
}

template <int D>
static __device__ __forceinline__ void rescale(struct attended<D> &r, const float keep[2]) {
    if (!__any_sync(~0u, keep[0] != 1.0f || keep[1] != 1.0f)) return;
#pragma unroll
    for (int h = 0; h < (D > 128 ? 2 : 1); h++)
#pragma unroll
        for (int i = 0; i < (D > 128 ? 64 : D / 2); i++) r.sum[h][i] *= keep[i / 2 % 2];
}

template <int D> static __device__ __forceinline__ void hold_all(struct attended<D> &r) {
#pragma unroll
    for (int h = 0; h < (D > 128 ? 2 : 1); h++) hold(r.sum[h]);
}

template <int KEYS, bool BRAIN>
static __device__ __forceinline__ void pack_weights(uint32_t (&p)[KEYS / 16][4],
                                                    const float (&s)[KEYS / 2]) {
#pragma unroll
    for (int i = 0; i < KEYS / 4; i++) p[i / 4][i % 4] = narrow<BRAIN>(s[2 * i], s[2 * i + 1]);
}

// What a lane has of its two rows: COLUMNS from `column` of y on.
template <int D, int COLUMNS>
static __device__ __forceinline__ void write_rows(struct attended<D> &r, const struct attend &a,
                                                  const struct block &b, int64_t column,
                                                  const int mine[2]) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float total = r.total[h];
        total += __shfl_xor_sync(~0u, total, 1);
        total += __shfl_xor_sync(~0u, total, 2);
        if (mine[h] >= b.count) continue;
        float by = 1.0f / (total + sink_of(a, b.head, r.top[h] / LOG2E));
        int64_t at = (b.row + mine[h]) * a.ldy + column + 2 * (threadIdx.x % 4);
#pragma unroll
        for (int i = 0; i < COLUMNS / 8; i++) {
            const float *v = &r.sum[i / 16][i % 16 * 4 + 2 * h];
            put_pair(a, at + i * 8, v[0] * by, v[1] * by);
        }
    }
}

template <int REGISTERS> static __device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS> static __device__ __forceinline__ void leave_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int D> static int rows_of_map(const struct attend *a) {
    return a->page < 8 ? 0 : a->page < keys_of(D) ? (int)a->page : keys_of(D);
}

static bool map_of(struct context *c, CUtensorMap *map, const struct attend *a, const void *data,
                   int64_t slots, int rows) {
    auto encode = (decltype(&cuTensorMapEncodeTiled))c->dev->cuda->encode_map;
    const cuuint64_t size[] = {(cuuint64_t)a->k_width, (cuuint64_t)slots};
    const cuuint64_t step[] = {(cuuint64_t)a->k_width * 2};
    const cuuint32_t box[] = {PANEL, (cuuint32_t)rows}, each[] = {1, 1};
    return encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, (void *)data, size, step, box, each,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS ||
           fail(&c->err, "CUDA: no map of %lld keys or values of %lld bytes", (long long)slots,
                (long long)a->k_width * 2);
}

#endif
