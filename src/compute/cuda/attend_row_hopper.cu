// Attention of a step's row, with what comes before it: norm and rotation of queries and keys, keys
// and values to the cache. A cluster of blocks has the queries that share a kv head, 8 at most; a
// block has a part of the keys, its warps tiles of 16 in turn, straight from memory to the
// registers of mma.m16n8k16: keys, and values turned, are its A, queries and weights its B. The
// elements of a head may meet in any order, so a lane's are 8 that follow each other in memory.
// Keys and values of earlier steps come before the launch before this one ends. Blocks hand each
// other what they found through shared memory: each adds up a part of the columns.
#include "compute/cuda/attend_tiles.cuh"
#include "compute/cuda/cluster.cuh"
#include "compute/cuda/place.cuh"

enum {
    KEYS = 16,   // of a tile
    QUERIES = 8, // of a block
    WARPS = 8,
    THREADS = WARPS * 32,
    BLOCKS_MOST = 16,  // of a cluster
    SHARE_LEAST = 256, // keys of a block, which take less than handing out what blocks found
    TASKS = (QUERIES + 2 + WARPS - 1) / WARPS, // heads that a warp makes ready
};

struct attend_row {
    struct attend a; // k and v are written too
    struct heads q, k, v;
    bool normed, turned;
    float eps;
    struct rotation r;
    int parts_of_group; // clusters of a kv head
    int blocks;         // of a cluster
};

template <int D> struct row_memory {
    uint16_t q[QUERIES][D + 8], own[2][D]; // own: the row's key and value
    float head[WARPS][D];                  // what a warp makes ready
    float2 wave[D / 2];
    float tops[WARPS][QUERIES], totals[WARPS][QUERIES];
    float2 found[BLOCKS_MOST][QUERIES]; // tops and totals of the cluster's blocks
    float parts[D * QUERIES];           // this block's columns of each block's sums
    float sums[WARPS][D / 4][32];
};

// What a block has of what a row sees.
struct row_part {
    int kv_head, head, heads; // head: the first of the queries
    int first, last;          // what the row sees
    int from, to;             // the block's keys: equal shares in whole tiles of all its warps
    int count;                // of the cluster's blocks that have keys
};

static __device__ __forceinline__ struct row_part part_of(const struct attend_row &f, int unit,
                                                          int rank) {
    struct row_part p;
    int group = (int)f.a.group, in_group = unit % f.parts_of_group * QUERIES;
    p.kv_head = unit / f.parts_of_group;
    p.head = p.kv_head * group + in_group;
    p.heads = group - in_group < QUERIES ? group - in_group : QUERIES;
    p.last = f.a.index[0], p.first = (int)first_seen(f.a, p.last);
    int begin = p.first / KEYS * KEYS, seen = p.last + 1 - begin, round = KEYS * WARPS;
    int share = ((seen + f.blocks - 1) / f.blocks + round - 1) / round * round;
    if (share < SHARE_LEAST) share = SHARE_LEAST;
    p.from = begin + rank * share;
    p.to = p.from + share < p.last + 1 ? p.from + share : p.last + 1;
    p.count = (seen + share - 1) / share;
    return p;
}

static __device__ __forceinline__ uint32_t turned(uint32_t matrix) {
    uint32_t y;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(matrix));
    return y;
}

// --- before the keys -----------------------------------------------------------------------------

// What a warp makes ready in its `task`th turn: a query, the row's key or value, or nothing.
struct task {
    const struct heads *of; // NULL: nothing
    int head, to;           // to: the query's row; QUERIES: the key, QUERIES + 1: the value
};

static __device__ __forceinline__ struct task task_of(const struct attend_row &f,
                                                      const struct row_part &p, bool owns,
                                                      int task) {
    int at = task * WARPS + threadIdx.x / 32;
    if (at < p.heads) return {&f.q, p.head + at, at};
    if (!owns || at >= p.heads + 2) return {NULL, 0, 0};
    return at == p.heads ? (struct task){&f.k, p.kv_head, QUERIES}
                         : (struct task){&f.v, p.kv_head, QUERIES + 1};
}

template <int D> struct elements {
    float v[D / 32]; // of a lane, following each other
};

template <int D>
static __device__ __forceinline__ struct elements<D> elements_at(const float *head) {
    struct elements<D> e;
    const float *from = head + threadIdx.x % 32 * (D / 32);
#pragma unroll
    for (int i = 0; i < D / 32; i += 2) {
        float2 v = __ldcg((const float2 *)(from + i));
        e.v[i] = v.x, e.v[i + 1] = v.y;
    }
    return e;
}

template <int D>
static __device__ __forceinline__ struct elements<D> norm_weights(const struct attend_row &f,
                                                                  const struct task &t) {
    struct elements<D> e;
#pragma unroll
    for (int i = 0; i < D / 32; i++) e.v[i] = 1.0f;
    if (!f.normed || !t.of || t.to > QUERIES || !t.of->norm) return e;
    return elements_at<D>(t.of->norm + (t.of->norm_each ? t.head * D : 0));
}

// A thread's pair of the row's rotation, asked for before what it takes is needed.
struct angle {
    bool there;
    int pos;
    float freq;
};

static __device__ __forceinline__ struct angle angle_of(const struct attend_row &f) {
    const struct rotation &r = f.r;
    struct angle t = {f.turned && (int)threadIdx.x < (int)r.pairs, 0, 0};
    if (!t.there) return t;
    bool is_long = r.long_freq && r.length[0] > r.longest;
    t.pos = r.pos[0], t.freq = (is_long ? r.long_freq : r.freq)[threadIdx.x];
    return t;
}

// Sines and cosines of the row, by the block.
template <int D>
static __device__ __forceinline__ void make_waves(struct row_memory<D> &m, const struct angle &t,
                                                  float scale) {
    static_assert(D / 2 <= THREADS, "a thread has one pair");
    if (!t.there) return;
    float2 w;
    sincosf((float)t.pos * t.freq, &w.x, &w.y);
    m.wave[threadIdx.x] = make_float2(w.x * scale, w.y * scale);
}

// Element i of a head in shared memory, turned.
static __device__ __forceinline__ float turned_at(const float *head, const float2 *wave,
                                                  const struct rotation &r, int i) {
    int pairs = (int)r.pairs;
    if (i >= 2 * pairs) return head[i];
    int pair = r.interleaved ? i / 2 : i < pairs ? i : i - pairs;
    bool second = r.interleaved ? i % 2 : i >= pairs;
    int other = r.interleaved ? i ^ 1 : second ? i - pairs : i + pairs;
    float sine = second ? wave[pair].x : -wave[pair].x;
    return head[i] * wave[pair].y + head[other] * sine;
}

// A head as the tiles want it, and where it is a key or value in the cache too.
template <int D, bool BRAIN>
static __device__ __forceinline__ void make_ready(struct row_memory<D> &m,
                                                  const struct attend_row &f, int64_t slot,
                                                  const struct task &t, struct elements<D> x,
                                                  const struct elements<D> &norm, float scale) {
    int lane = threadIdx.x % 32, at = lane * (D / 32);
    bool value = t.to > QUERIES, query = t.to < QUERIES;
    if (f.normed && !value) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < D / 32; i++) sum += x.v[i] * x.v[i];
        float by = 1.0f / sqrtf(warp_sum(sum) / D + f.eps);
#pragma unroll
        for (int i = 0; i < D / 32; i++) x.v[i] *= by * norm.v[i];
    }
    if (f.turned && !value) {
        float *own = m.head[threadIdx.x / 32];
        __syncwarp();
#pragma unroll
        for (int i = 0; i < D / 32; i++) own[at + i] = x.v[i];
        __syncwarp();
#pragma unroll
        for (int i = 0; i < D / 32; i++) x.v[i] = turned_at(own, m.wave, f.r, at + i);
    }
    if (!query) scale = 1.0f;
    uint16_t *to = query ? m.q[t.to] : m.own[t.to - QUERIES];
    uint16_t *cache = (uint16_t *)(value ? f.a.v : f.a.k) + slot * D;
#pragma unroll
    for (int i = 0; i < D / 32; i += 2) {
        uint32_t pair = narrow<BRAIN>(x.v[i] * scale, x.v[i + 1] * scale);
        *(uint32_t *)(to + at + i) = pair;
        if (!query) *(uint32_t *)(cache + at + i) = pair;
    }
}

// --- tiles ---------------------------------------------------------------------------------------

// A lane's keys lane / 4 and that + 8: of each 32 elements 8; and its values, of keys 2 (lane % 4),
// that + 1, + 8, + 9, of each 64 columns 8.
template <int D> struct row_tile { uint4 k[D / 32][2], v[D / 64][4]; };

// A lane's part of the pages of the warp's next 32 tiles, `step` keys apart.
static __device__ __forceinline__ int next_pages(const struct attend &a, const int32_t *table,
                                                 const struct row_part &p, int t, int step) {
    t += (int)threadIdx.x % 32 * step;
    return t < p.to ? table[t / (int)a.page] : 0;
}

// The row in the cache of key t, in the `at`th of these pages.
static __device__ __forceinline__ int64_t row_of(const struct attend &a, const struct row_part &p,
                                                 int pages, int at, int t) {
    int page = __shfl_sync(~0u, pages, at);
    return ((int64_t)page * a.kv_heads + p.kv_head) * a.page + t % (int)a.page;
}

// The tile that begins in that row, without what is of the step's row itself.
template <int D>
static __device__ __forceinline__ void load_tile(struct row_tile<D> &to, const struct attend &a,
                                                 int64_t row, const struct row_part &p, int t0) {
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const uint4 *k = (const uint4 *)((const uint16_t *)a.k + (row + g) * D) + t;
    const uint4 *v = (const uint4 *)((const uint16_t *)a.v + (row + 2 * t) * D) + g;
#pragma unroll
    for (int c = 0; c < D / 32; c++) to.k[c][0] = __ldcg(k + c * 4);
#pragma unroll
    for (int c = 0; c < D / 32; c++) to.k[c][1] = __ldcg(k + c * 4 + D);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int at = t0 + 2 * t + i % 2 + i / 2 * 8; // what is not seen may be NaN
        bool there = at >= p.first && at < p.last;
#pragma unroll
        for (int c = 0; c < D / 64; c++)
            to.v[c][i] =
                there ? __ldcg(v + (i % 2 + i / 2 * 8) * (D / 8) + c * 8) : make_uint4(0, 0, 0, 0);
    }
}

// Asks the cache for the warp's tiles after the first, 31 at most.
template <int D>
static __device__ __forceinline__ void expect_tiles(const struct attend &a,
                                                    const struct row_part &p, int pages, int t,
                                                    int step) {
    int line = (int)threadIdx.x % 32 * 128;
    for (int at = 1; at < 32 && t + at * step < p.to; at++) {
        int64_t from = row_of(a, p, pages, at, t + at * step) * D * 2 + line;
        if (line >= KEYS * D * 2) continue;
        asm volatile("prefetch.global.L2 [%0];" ::"l"((const char *)a.k + from));
        asm volatile("prefetch.global.L2 [%0];" ::"l"((const char *)a.v + from));
    }
}

// The row's own key and value.
template <int D>
static __device__ __forceinline__ void put_own(struct row_tile<D> &to,
                                               const struct row_memory<D> &m, int at) {
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int c = 0; c < D / 32; c++)
            if (at == g + 8 * h) to.k[c][h] = *(const uint4 *)&m.own[0][c * 32 + t * 8];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int c = 0; c < D / 64; c++)
            if (at == 2 * t + i % 2 + i / 2 * 8)
                to.v[c][i] = *(const uint4 *)&m.own[1][c * 64 + g * 8];
}

// Two queries of a lane, 2 (lane % 4) and the next, and sums of all keys that its warp saw.
template <int D> struct row_running {
    float acc[D / 16][4];
    float top[2], total[2];
};

template <int D, bool BRAIN>
static __device__ __forceinline__ void attend_keys(struct row_running<D> &r,
                                                   const struct row_tile<D> &tile,
                                                   const struct row_memory<D> &m,
                                                   const struct attend &a, const struct row_part &p,
                                                   int t0) {
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float s[4] = {}, s2[4] = {};
#pragma unroll
    for (int c = 0; c < D / 32; c++) {
        uint4 q = *(const uint4 *)&m.q[g][c * 32 + t * 8], low = tile.k[c][0], high = tile.k[c][1];
        const uint32_t first[4] = {low.x, high.x, low.y, high.y};
        const uint32_t second[4] = {low.z, high.z, low.w, high.w};
        mma<BRAIN>(s, first, q.x, q.y);
        mma<BRAIN>(s2, second, q.z, q.w);
    }
    float top[2] = {r.top[0], r.top[1]};
#pragma unroll
    for (int e = 0; e < 4; e++) {
        int at = t0 + g + e / 2 * 8;
        s[e] += s2[e];
        if (a.soft_cap > 0) s[e] = capped(a, s[e]) * LOG2E;
        if (at < p.first || at > p.last) s[e] = -INFINITY;
        top[e % 2] = fmaxf(top[e % 2], s[e]);
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
#pragma unroll
        for (int d = 4; d < 32; d <<= 1) top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], d));
        float base = top[h] == -INFINITY ? 0.0f : top[h], keep = power2(r.top[h] - base);
        r.top[h] = top[h], r.total[h] *= keep;
#pragma unroll
        for (int d = 0; d < D / 16; d++) r.acc[d][h] *= keep, r.acc[d][h + 2] *= keep;
        s[h] = power2(s[h] - base), s[h + 2] = power2(s[h + 2] - base);
        r.total[h] += s[h] + s[h + 2];
    }
    uint32_t w[2] = {turned(narrow<BRAIN>(s[0], s[1])), turned(narrow<BRAIN>(s[2], s[3]))};
#pragma unroll
    for (int c = 0; c < D / 64; c++)
#pragma unroll
        for (int j = 0; j < 4; j++) { // columns c * 64 + g * 8 + 2 * j, and the next
            uint32_t u[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                uint4 x = tile.v[c][i];
                u[i] = j == 0 ? x.x : j == 1 ? x.y : j == 2 ? x.z : x.w;
            }
            const uint32_t turn[4] = {
                __byte_perm(u[0], u[1], 0x5410), __byte_perm(u[0], u[1], 0x7632),
                __byte_perm(u[2], u[3], 0x5410), __byte_perm(u[2], u[3], 0x7632)};
            mma<BRAIN>(r.acc[c * 4 + j], turn, w[0], w[1]);
        }
}

// Of sum `at` of a warp (lane + 32 * (e + 4 * tile)): its query and column.
static __device__ __forceinline__ int query_of(int at) { return at % 4 * 2 + at / 32 % 2; }
static __device__ __forceinline__ int column_of(int at) {
    int lane = at % 32, e = at / 32 % 4, tile = at / 128;
    return tile / 4 * 64 + lane / 4 * 8 + tile % 4 * 2 + e / 2;
}

// --- what was found ------------------------------------------------------------------------------

template <int D>
static __device__ __forceinline__ void note_warp(struct row_memory<D> &m,
                                                 struct row_running<D> &r) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < D / 4; i++) m.sums[warp][i][lane] = r.acc[i / 4][i % 4];
#pragma unroll
    for (int h = 0; h < 2; h++) {
#pragma unroll
        for (int d = 4; d < 32; d <<= 1) r.total[h] += __shfl_xor_sync(~0u, r.total[h], d);
        if (lane < 4) m.tops[warp][2 * lane + h] = r.top[h];
        if (lane < 4) m.totals[warp][2 * lane + h] = r.total[h];
    }
}

// Weights of a query's parts, their top and total.
static __device__ __forceinline__ float2 weigh_warps(float keep[WARPS], const float *tops,
                                                     const float *totals) {
    float top = -INFINITY, total = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) top = fmaxf(top, tops[w * QUERIES]);
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        keep[w] = power2(tops[w * QUERIES] - (top == -INFINITY ? 0.0f : top));
        total += keep[w] * totals[w * QUERIES];
    }
    return make_float2(top, total);
}

// Sum `i` of all warps.
template <int D>
static __device__ __forceinline__ float warps_sum(const struct row_memory<D> &m,
                                                  const float keep[WARPS], int i) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) sum += keep[w] * m.sums[w][i / 32][i % 32];
    return sum;
}

// To each block of the cluster its columns of what this one found.
template <int D>
static __device__ __forceinline__ void hand_out(struct row_memory<D> &m, const struct attend_row &f,
                                                const float keep[WARPS], int rank) {
    int each = D * QUERIES / f.blocks, slot = rank * each;
#pragma unroll
    for (int k = 0; k < D * QUERIES / THREADS; k++) {
        int i = threadIdx.x + k * THREADS;
        uint32_t to = cluster_at(shared_at(&m.parts[slot + i % each]), i / each);
        cluster_put(to, warps_sum<D>(m, keep, i));
    }
    if ((int)threadIdx.x >= f.blocks * QUERIES) return;
    float unused[WARPS];
    int query = threadIdx.x % QUERIES;
    float2 found = weigh_warps(unused, &m.tops[0][query], &m.totals[0][query]);
    uint32_t to = cluster_at(shared_at(&m.found[rank][query]), threadIdx.x / QUERIES);
    cluster_put(to, found.x);
    cluster_put(to + 4, found.y);
}

template <int D>
static __device__ __forceinline__ void add_up(const struct row_memory<D> &m,
                                              const struct attend_row &f, const struct row_part &p,
                                              float *y, int rank) {
    int each = D * QUERIES / f.blocks;
    for (int i = threadIdx.x; i < each; i += THREADS) {
        int at = rank * each + i, query = query_of(at);
        if (query >= p.heads) continue;
        float top = -INFINITY, total = 0, sum = 0;
        for (int b = 0; b < p.count; b++) top = fmaxf(top, m.found[b][query].x);
        float base = top == -INFINITY ? 0.0f : top;
#pragma unroll 4
        for (int b = 0; b < p.count; b++) {
            float keep = power2(m.found[b][query].x - base);
            total += keep * m.found[b][query].y;
            sum += keep * m.parts[b * each + i];
        }
        y[query * D + column_of(at)] = sum / (total + sink_of(f.a, p.head + query, top / LOG2E));
    }
}

// --- the kernel ----------------------------------------------------------------------------------

// Grid: clusters of f.blocks blocks, each for a kv head's queries.
template <int D, bool BRAIN>
static __global__ void __launch_bounds__(THREADS, 2)
    row_kernel(const __grid_constant__ struct attend_row f) {
    extern __shared__ uint4 memory[];
    struct row_memory<D> &m = *(struct row_memory<D> *)memory;
    const struct attend &a = f.a;
    int warp = threadIdx.x / 32, rank = (int)blockIdx.x % f.blocks;
    cluster_arrive();
    struct angle angle = angle_of(f);
    struct row_part p = part_of(f, (int)blockIdx.x / f.blocks, rank);
    const int32_t *table = a.table + a.seq[0] * a.pages;
    bool has_keys = p.from < p.to, owns = p.to == p.last + 1 && has_keys;
    struct row_running<D> r = {};
    struct row_tile<D> tile;
    struct task task[TASKS];
    struct elements<D> x[TASKS], norm[TASKS];
    int t = p.from + warp * KEYS, step = KEYS * WARPS;
    bool any = t < p.to;
    int pages = next_pages(a, table, p, t, step);
    int64_t begin = row_of(a, p, pages, 0, t);
    if (any && a.early) load_tile<D>(tile, a, begin, p, t);
    if (a.early) expect_tiles<D>(a, p, pages, t, step);
    make_waves<D>(m, angle, f.r.scale);
    for (int i = threadIdx.x; i < (QUERIES - p.heads) * (D + 8) / 2; i += THREADS)
        ((uint32_t *)m.q[p.heads])[i] = 0;
#pragma unroll
    for (int k = 0; k < TASKS; k++)
        task[k] = task_of(f, p, owns, k), norm[k] = norm_weights<D>(f, task[k]);
    int64_t slot = cache_row(a, table, p.kv_head, p.last);
    float scale = scale_of(a, p.last) * (a.soft_cap > 0 ? 1.0f : LOG2E);
    __syncthreads();
    wait_for_input();
#pragma unroll
    for (int k = 0; k < TASKS; k++)
        if (task[k].of && has_keys) x[k] = elements_at<D>(task[k].of->p + task[k].head * D);
    if (any && !a.early) load_tile<D>(tile, a, begin, p, t);
#pragma unroll
    for (int k = 0; k < TASKS; k++)
        if (task[k].of && has_keys) make_ready<D, BRAIN>(m, f, slot, task[k], x[k], norm[k], scale);
    __syncthreads();
    r.top[0] = r.top[1] = -INFINITY;
    for (int at = 1; t < p.to; at++, t += step) {
        if (p.last - t < KEYS) put_own<D>(tile, m, p.last - t);
        attend_keys<D, BRAIN>(r, tile, m, a, p, t);
        if (at % 32 == 0) pages = next_pages(a, table, p, t + step, step);
        int64_t next = row_of(a, p, pages, at % 32, t + step);
        if (t + step < p.to) load_tile<D>(tile, a, next, p, t + step);
    }
    note_warp<D>(m, r);
    __syncthreads();
    float keep[WARPS];
    int query = query_of(threadIdx.x);
    float2 found = weigh_warps(keep, &m.tops[0][query], &m.totals[0][query]);
    float *y = a.y + p.head * D;
    cluster_wait();
    if (p.count > 1) {
        if (has_keys) hand_out<D>(m, f, keep, rank);
        cluster_meet();
        add_up<D>(m, f, p, y, rank);
        return;
    }
    if (!has_keys || query >= p.heads) return;
    float total = found.y + sink_of(a, p.head + query, found.x / LOG2E);
#pragma unroll
    for (int k = 0; k < D * QUERIES / THREADS; k++) {
        int i = threadIdx.x + k * THREADS;
        y[query * D + column_of(i)] = warps_sum<D>(m, keep, i) / total;
    }
}

static cudaLaunchConfig_t row_launch(cudaLaunchAttribute attribute[3], int64_t clusters, int blocks,
                                     size_t size) {
    cudaLaunchConfig_t config = cluster_launch(attribute, clusters, blocks, THREADS, size);
    attribute[2].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
    attribute[2].val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
    config.numAttrs = 3;
    return config;
}

template <int D, bool BRAIN> static void launch_row(struct context *c, struct attend_row *f) {
    auto kernel = row_kernel<D, BRAIN>;
    size_t size = sizeof(struct row_memory<D>);
    int64_t clusters = f->a.kv_heads * f->parts_of_group;
    cudaLaunchAttribute attribute[3] = {};
    if (!allow_shared(c, "attention", kernel, size) ||
        !cuda_ok(&c->err,
                 cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
                 "attention"))
        return;
    int64_t most = ceil_div(f->a.pages * f->a.page, KEYS * WARPS);
    for (f->blocks = BLOCKS_MOST; f->blocks > 1; f->blocks /= 2) {
        int fit = 0;
        if (f->blocks / 2 >= most || f->blocks * clusters > c->dev->cuda->processors) continue;
        cudaLaunchConfig_t config = row_launch(attribute, clusters, f->blocks, size);
        if (cudaOccupancyMaxActiveClusters(&fit, kernel, &config) == cudaSuccess && fit >= clusters)
            break;
    }
    cudaLaunchConfig_t config = row_launch(attribute, clusters, f->blocks, size);
    config.stream = c->dev->cuda->stream;
    cuda_ok(&c->err, cudaLaunchKernelEx(&config, kernel, *f), "attention");
}

bool attend_row(struct context *c, const struct attend *a, const struct placed *placed) {
    const struct placing *how = placed->how;
    struct tensor none = {};
    struct attend_row f = {};
    f.a = *a;
    if (!c->dev->cuda->hopper || a->n != 1 || a->v == a->k || a->k_width != a->v_width ||
        a->page % KEYS)
        return false;
    f.q = heads_of(placed->q, how->q_norm), f.k = heads_of(placed->k, how->k_norm);
    f.v = heads_of(placed->v, none);
    const struct heads *all[] = {&f.q, &f.k, &f.v};
    for (int i = 0; i < 3; i++)
        if (((uintptr_t)all[i]->p | (uintptr_t)all[i]->norm) % 8 || all[i]->ld % 2) return false;
    f.normed = how->normed, f.eps = how->eps, f.turned = how->rope != NULL;
    if (how->rope) f.r = rotation_of(placed->rows, how->rope);
    if (f.r.pairs * 2 > a->k_width) return false;
    f.parts_of_group = (int)ceil_div(a->group, QUERIES);
    f.a.early = c->dev->cuda->is_recording;
    bool brain = a->type == DT_BF16;
    if (a->k_width == 128)
        brain ? launch_row<128, true>(c, &f) : launch_row<128, false>(c, &f);
    else if (a->k_width == 64)
        brain ? launch_row<64, true>(c, &f) : launch_row<64, false>(c, &f);
    else
        return false;
    return true;
}
