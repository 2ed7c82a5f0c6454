// Attention of a step's row, with what comes before it: norm and rotation of queries and keys, keys
// and values to the cache. A cluster of blocks has the queries that share a kv head, 8 at most; a
// block has a part of the keys, its warps tiles of 16 in turn.
//
// Scores are products (mma.m16n8k16) of queries, A, and keys, B, which come from memory to the
// registers that need them: elements of a head may meet in any order, so a lane's are 8 that follow
// each other. Of these a query's row of A has one half and the row 8 below it the other: each half
// of a key makes a sum with both, of which one counts. Scores then stand where the second products,
// of values and weights, want their B; values are turned on their way from shared memory.
//
// Keys and values of earlier steps come before the launch before this one ends: keys of two tiles,
// values of one. Later the next keys are asked for once the scores have those before, and the next
// values once the sums have, so that memory is busy while a warp computes. Blocks hand each other
// what they found, and each adds up a part of the columns. The code itself comes from memory with
// each launch: few instructions count more than few cycles.
#include "compute/cuda/attend_tiles.cuh"
#include "compute/cuda/place.cuh"
#include "compute/cuda/wgmma.cuh"

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
    float score_scale;         // of scores as attend_tiles has them
    int page_bits, block_bits; // tokens of a page and blocks of a cluster are 2 to this
};

// How the row's position turns a head: each element is multiplied by x, and by y the one that meets
// it.
template <int D> struct turns {
    float2 by[D];
    uint16_t other[D];
};

template <int D> struct row_memory {
    uint16_t q[QUERIES][D + 8]; // in the order of place_in_query
    uint16_t own[2][D];         // the row's key and value
    float head[WARPS][D];       // what a warp makes ready
    union {
        struct turns<D> turns; // before the keys
        struct {
            float4 tops[QUERIES][WARPS / 4], totals[QUERIES][WARPS / 4]; // of the warps
        };
    };
    float2 found[QUERIES][BLOCKS_MOST]; // tops and totals of the cluster's blocks
    float4 parts[D * QUERIES / 4];      // of this block's columns each block's sums
    uint64_t handed;                    // counts the bytes of these two
    union {
        uint16_t values[KEYS * D];   // of a tile, in the order of place_of_value
        float4 sums[QUERIES][D / 4]; // in the order of column_of
    } of[WARPS];
};

// What a block has of what a row sees. Keys are counted from the first that is seen.
struct row_part {
    int kv_head, head, heads; // head: the first of the queries
    int first, place;         // in the sequence, of the first key and of the row
    int last;                 // the row's own key
    int from, to;             // the block's keys: equal shares in whole tiles of all its warps
    int count;                // of the cluster's blocks, which are the first, that have keys
};

// Grid: the blocks of a cluster, the queries of a kv head by QUERIES, kv heads.
static __device__ __forceinline__ struct row_part part_of(const struct attend_row &f) {
    const int ROUND = KEYS * WARPS;
    struct row_part p;
    int group = (int)f.a.group, in_group = (int)blockIdx.y * QUERIES;
    p.kv_head = (int)blockIdx.z;
    p.head = p.kv_head * group + in_group;
    p.heads = group - in_group < QUERIES ? group - in_group : QUERIES;
    p.place = f.a.index[0], p.first = (int)first_seen(f.a, p.place);
    p.last = p.place - p.first;
    int before = p.first & (KEYS - 1); // tiles begin where pages may
    unsigned rounds = (unsigned)(p.last + before) / ROUND + 1;
    unsigned share = ((rounds - 1) >> f.block_bits) + 1;
    if (share < SHARE_LEAST / ROUND) share = SHARE_LEAST / ROUND;
    int each = (int)share * ROUND;
    p.from = (int)blockIdx.x * each - before, p.to = p.from + each;
    if (p.to > p.last + 1) p.to = p.last + 1;
    p.count = (int)((rounds + share - 1) / share);
    return p;
}

// --- before the keys -----------------------------------------------------------------------------

// What a warp makes ready in its `task`th turn: a query, the row's key or value, or nothing. Its
// places are looked up before it is there.
struct task {
    const float *from, *norm; // from, NULL: nothing; norm, NULL: ones
    int to;                   // the query's row; QUERIES: the key, QUERIES + 1: the value
};

static __device__ __forceinline__ struct task head_of(const struct heads &h, int head, int to) {
    const float *norm = h.norm && h.norm_each ? h.norm + head * h.width : h.norm;
    return {h.p + head * h.width, norm, to};
}

static __device__ __forceinline__ struct task task_of(const struct attend_row &f,
                                                      const struct row_part &p, bool has_keys,
                                                      bool owns, int task) {
    int at = task * WARPS + threadIdx.x / 32;
    if (has_keys && at < p.heads) return head_of(f.q, p.head + at, at);
    if (!owns || at >= p.heads + 2) return {NULL, NULL, 0};
    return at == p.heads ? head_of(f.k, p.kv_head, QUERIES) : head_of(f.v, p.kv_head, QUERIES + 1);
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
static __device__ __forceinline__ struct elements<D> norm_weights(const struct task &t) {
    struct elements<D> e;
#pragma unroll
    for (int i = 0; i < D / 32; i++) e.v[i] = 1.0f;
    return t.norm ? elements_at<D>(t.norm) : e;
}

// Of a thread's element of a head, asked for before what it takes is needed.
struct angle {
    int other; // itself: not turned
    bool second;
    int pos;
    float freq;
};

static __device__ __forceinline__ struct angle angle_of(const struct attend_row &f) {
    const struct rotation &r = f.r;
    int i = threadIdx.x, pairs = (int)r.pairs;
    struct angle t = {i, r.interleaved ? i % 2 != 0 : i >= pairs, 0, 0};
    if (!f.turned || i >= 2 * pairs) return t;
    t.other = r.interleaved ? i ^ 1 : t.second ? i - pairs : i + pairs;
    bool is_long = r.long_freq && r.length[0] > r.longest;
    int first = t.second ? t.other : i;
    t.pos = r.pos[0], t.freq = (is_long ? r.long_freq : r.freq)[r.interleaved ? first / 2 : first];
    return t;
}

template <int D>
static __device__ __forceinline__ void make_turns(struct turns<D> &to, const struct angle &t,
                                                  float scale) {
    static_assert(D <= THREADS, "a thread has one element");
    int i = threadIdx.x;
    if (i >= D) return;
    float2 w = make_float2(0, 1);
    if (t.other != i) {
        sincosf((float)t.pos * t.freq, &w.x, &w.y);
        w.x *= t.second ? scale : -scale, w.y *= scale;
    }
    to.by[i] = make_float2(w.y, w.x);
    to.other[i] = (uint16_t)t.other;
}

// Of each 8 elements the third and fourth stand after the fifth and sixth.
static __device__ __forceinline__ int place_in_query(int i) {
    return i / 8 * 8 + i / 2 % 2 * 4 + i / 4 % 2 * 2;
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
        float by = rsqrtf(warp_sum(sum) / D + f.eps);
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
        for (int i = 0; i < D / 32; i++) {
            float2 by = m.turns.by[at + i];
            x.v[i] = x.v[i] * by.x + own[m.turns.other[at + i]] * by.y;
        }
    }
    if (!query) scale = 1.0f;
    uint16_t *to = query ? m.q[t.to] : m.own[t.to - QUERIES];
    uint16_t *cache = (uint16_t *)(value ? f.a.v : f.a.k) + slot * D;
#pragma unroll
    for (int i = 0; i < D / 32; i += 2) {
        uint32_t pair = narrow<BRAIN>(x.v[i] * scale, x.v[i + 1] * scale);
        *(uint32_t *)(to + (query ? place_in_query(at + i) : at + i)) = pair;
        if (!query) *(uint32_t *)(cache + at + i) = pair;
    }
}

// --- tiles ---------------------------------------------------------------------------------------

// A lane's keys lane / 4 and that + 8: of each 32 elements 8.
template <int D> struct row_keys { uint4 of[D / 32][2]; };

// A lane's part of the pages of the warp's next 32 tiles, `step` keys apart.
static __device__ __forceinline__ int next_pages(const struct attend_row &f,
                                                 const struct row_part &p, int t, int step) {
    const int32_t *table = f.a.table + f.a.seq[0] * f.a.pages;
    t += (int)(threadIdx.x % 32) * step;
    return t < p.to ? table[(p.first + t) >> f.page_bits] : 0;
}

// The row in the cache where a page's keys of a head begin.
static __device__ __forceinline__ int row_of(const struct attend_row &f, const struct row_part &p,
                                             int page) {
    return (page * (int)f.a.kv_heads + p.kv_head) << f.page_bits;
}

// The place in its page of a key, and of those some whole pages away.
static __device__ __forceinline__ int in_page(const struct attend_row &f, int place) {
    return place & ((1 << f.page_bits) - 1);
}

// The row's own place in the cache.
static __device__ __forceinline__ int cache_slot(const struct attend_row &f,
                                                 const struct row_part &p) {
    const int32_t *table = f.a.table + f.a.seq[0] * f.a.pages;
    return row_of(f, p, table[p.place >> f.page_bits]) + in_page(f, p.place);
}

// The keys of the tile that begins in that row.
template <int D>
static __device__ __forceinline__ void load_keys(struct row_keys<D> &to, const struct attend &a,
                                                 int row) {
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const uint4 *k = (const uint4 *)a.k + (unsigned)(row + g) * (D / 8) + (unsigned)t;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int c = 0; c < D / 32; c++) to.of[c][h] = __ldcg(k + c * 4 + h * D);
}

// Where 8 elements of a value from `column` on stand: rows are 8 places of 16 bytes apart or 16,
// and 8 of them are read at once.
template <int D> static __device__ __forceinline__ int place_of_value(int key, int column) {
    return key * D + (column ^ (key & 7) * 8);
}

// The values of the tile that begins in that row, to shared memory: of what is not seen, which may
// be NaN, and of the row itself zeros.
template <int D>
static __device__ __forceinline__ void ask_values(uint16_t *to, const struct attend &a, int row,
                                                  const struct row_part &p, int t0) {
    int lane = threadIdx.x % 32, key = lane / 8;
    const uint16_t *v =
        (const uint16_t *)((const uint4 *)a.v + (unsigned)(row + key) * (D / 8) + lane % 8);
    int at = place_of_value<D>(key, lane % 8 * 8);
#pragma unroll
    for (int i = 0; i < KEYS; i += 4) {
        bool there = (unsigned)(t0 + key + i) < (unsigned)p.last;
#pragma unroll
        for (int c = 0; c < D; c += 64)
            copy16(to + ((at ^ i % 8 * 8) + i * D + c), v + i * D + c, there);
    }
}

// When they are there.
static __device__ __forceinline__ void wait_for_values() {
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
}

// Asks the cache for the warp's tiles after the first, 31 at most.
template <int D>
static __device__ __forceinline__ void expect_tiles(const struct attend_row &f,
                                                    const struct row_part &p, int pages, int within,
                                                    int t, int step) {
    int line = (int)(threadIdx.x % 32) * 128;
#pragma unroll 1
    for (int at = 1; at < 32 && t + at * step < p.to; at++) {
        int row = row_of(f, p, __shfl_sync(~0u, pages, at)) + within;
        int64_t from = (int64_t)row * (D * 2) + line;
        if (line >= KEYS * D * 2) continue;
        asm volatile("prefetch.global.L2 [%0];" ::"l"((const char *)f.a.k + from));
        asm volatile("prefetch.global.L2 [%0];" ::"l"((const char *)f.a.v + from));
    }
}

// The row's own key, and value, which are the tile's `at`th.
template <int D>
static __device__ __forceinline__ void put_own_key(struct row_keys<D> &k,
                                                   const struct row_memory<D> &m, int at) {
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int c = 0; c < D / 32; c++)
            if (at == g + 8 * h) k.of[c][h] = *(const uint4 *)&m.own[0][c * 32 + t * 8];
}

template <int D>
static __device__ __forceinline__ void put_own_value(uint16_t *values,
                                                     const struct row_memory<D> &m, int at) {
    int column = (int)(threadIdx.x % 32) * 8;
    if (column < D)
        *(uint4 *)(values + place_of_value<D>(at, column)) = *(const uint4 *)&m.own[1][column];
    __syncwarp();
}

// Sums of two queries, 2 (lane % 4) and the next, over all keys that the warp saw; the top of query
// lane / 4 and the lane's part of its total.
template <int D> struct row_running {
    float acc[D / 16][4];
    float top, total;
};

// Scores of query lane / 4 and keys 2 (lane % 4), that + 1, + 8, + 9.
template <int D, bool BRAIN>
static __device__ __forceinline__ void score_keys(float s[4], const struct row_keys<D> &k,
                                                  const struct row_memory<D> &m) {
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float first[2][4] = {}, second[2][4] = {}; // half of each is of what does not belong together
#pragma unroll
    for (int c = 0; c < D / 32; c++) {
        uint4 q = *(const uint4 *)&m.q[g][c * 32 + t * 8];
        const uint32_t a[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
        for (int h = 0; h < 2; h++) {
            mma<BRAIN>(first[h], a, k.of[c][h].x, k.of[c][h].y);
            mma<BRAIN>(second[h], a, k.of[c][h].z, k.of[c][h].w);
        }
    }
#pragma unroll
    for (int e = 0; e < 4; e++) s[e] = first[e / 2][e % 2] + second[e / 2][e % 2 + 2];
}

// Weights of scores; r's top, total and sums on their way to it.
template <int D>
static __device__ __forceinline__ void weigh_keys(float s[4], struct row_running<D> &r,
                                                  const struct attend &a, const struct row_part &p,
                                                  int t0) {
    int t = threadIdx.x % 4;
    if (a.soft_cap > 0) { // tanh(x) = 1 - 2 / (1 + e^2x); s: 2x as a power of 2
        float cap = a.soft_cap * LOG2E;
#pragma unroll
        for (int e = 0; e < 4; e++) s[e] = cap - __fdividef(2 * cap, 1 + power2(s[e]));
    }
    float top = r.top;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        if ((unsigned)(t0 + 2 * t + e % 2 + e / 2 * 8) > (unsigned)p.last) s[e] = -INFINITY;
        top = fmaxf(top, s[e]);
    }
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
    float base = top == -INFINITY ? 0.0f : top;
    float keep = r.top == -INFINITY ? 1.0f : power2(r.top - base); // of nothing all
    r.top = top, r.total *= keep;
#pragma unroll
    for (int e = 0; e < 4; e++) s[e] = power2(s[e] - base), r.total += s[e];
    if (!__any_sync(~0u, keep != 1)) return;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float by = __shfl_sync(~0u, keep, t * 8 + h * 4);
#pragma unroll
        for (int d = 0; d < D / 16; d++) r.acc[d][h] *= by, r.acc[d][h + 2] *= by;
    }
}

template <int D, bool BRAIN>
static __device__ __forceinline__ void add_values(struct row_running<D> &r, const float s[4],
                                                  const uint16_t *values) {
    uint32_t low = narrow<BRAIN>(s[0], s[1]), high = narrow<BRAIN>(s[2], s[3]);
    int lane = threadIdx.x % 32, at = place_of_value<D>(lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);
#pragma unroll
    for (int d = 0; d < D / 16; d++) { // columns d * 16 + lane / 4, and that + 8
        uint32_t v[4];
        load_matrices(v, values + ((at ^ d % 4 * 16) + d / 4 * 64), true);
        mma<BRAIN>(r.acc[d], v, low, high);
    }
}

// --- what was found ------------------------------------------------------------------------------

// Sums stand in fours, of columns that are 8 apart; so that lanes' stores miss each other, the
// first columns of eight fours are in an order by the query.
static __device__ __forceinline__ int place_of_four(int query, int column) {
    return column / 32 * 8 + (column % 8 ^ (query & 6));
}
static __device__ __forceinline__ int column_of(int query, int place) {
    return place / 8 * 32 + (place % 8 ^ (query & 6));
}

template <int D>
static __device__ __forceinline__ void note_warp(struct row_memory<D> &m,
                                                 struct row_running<D> &r) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, query = lane % 4 * 2;
    __syncwarp(); // values were in the same place
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int i = 0; i < D / 32; i++) {
            const float *first = r.acc[2 * i], *second = r.acc[2 * i + 1];
            m.of[warp].sums[query + h][place_of_four(query, i * 32 + g)] =
                make_float4(first[h], first[h + 2], second[h], second[h + 2]);
        }
    r.total += __shfl_xor_sync(~0u, r.total, 1);
    r.total += __shfl_xor_sync(~0u, r.total, 2);
    if (lane % 4) return;
    ((float *)m.tops[g])[warp] = r.top;
    ((float *)m.totals[g])[warp] = r.total;
}

// Four columns of a query, and the query's top and total.
struct found {
    float4 sum;
    float top, total;
};

static __device__ __forceinline__ float4 scaled(float4 a, float by) {
    return make_float4(a.x * by, a.y * by, a.z * by, a.w * by);
}

// What all warps of the block found.
template <int D>
static __device__ __forceinline__ struct found found_by_block(const struct row_memory<D> &m,
                                                              int query, int place) {
    float tops[WARPS], totals[WARPS];
    struct found y = {make_float4(0, 0, 0, 0), -INFINITY, 0};
#pragma unroll
    for (int w = 0; w < WARPS; w += 4) {
        *(float4 *)(tops + w) = m.tops[query][w / 4];
        *(float4 *)(totals + w) = m.totals[query][w / 4];
    }
#pragma unroll
    for (int w = 0; w < WARPS; w++) y.top = fmaxf(y.top, tops[w]);
    float base = y.top == -INFINITY ? 0.0f : y.top;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        float keep = power2(tops[w] - base);
        float4 part = m.of[w].sums[query][place];
        y.total += keep * totals[w];
        y.sum.x += keep * part.x, y.sum.y += keep * part.y;
        y.sum.z += keep * part.z, y.sum.w += keep * part.w;
    }
    return y;
}

template <int D>
static __device__ __forceinline__ void put_found(const struct attend &a, const struct row_part &p,
                                                 const struct found &y, int query, int place) {
    if (query >= p.heads) return;
    float total = y.total + sink_of(a, p.head + query, y.top * (1 / LOG2E));
    float *to = a.y + (p.head + query) * D + column_of(query, place);
    float4 v = scaled(y.sum, __fdividef(1, total));
    to[0] = v.x, to[8] = v.y, to[16] = v.z, to[24] = v.w;
}

// Of the fours of columns of all queries each block of the cluster adds up so many.
template <int D> static __device__ __forceinline__ int fours_of(const struct attend_row &f) {
    return D * QUERIES / 4 >> f.block_bits;
}

// The bytes that it gets: also tops and totals of the queries that these are of.
template <int D>
static __device__ __forceinline__ int handed_bytes(const struct attend_row &f,
                                                   const struct row_part &p) {
    int fours = fours_of<D>(f), queries = fours < D / 4 ? 1 : fours / (D / 4);
    return p.count * (fours * 16 + queries * 8);
}

template <int D>
static __device__ __forceinline__ void hand_out(struct row_memory<D> &m, const struct attend_row &f,
                                                const struct found &y, int at) {
    int to = (at << f.block_bits) / (D / 4 * QUERIES), slot = at - to * fours_of<D>(f);
    int rank = (int)blockIdx.x;
    uint32_t barrier = cluster_at(shared_at(&m.handed), to);
    cluster_hand(cluster_at(shared_at(&m.parts[(slot << f.block_bits) + rank]), to), y.sum,
                 barrier);
    if (slot % (D / 4)) return; // another thread tells of the query
    cluster_hand(cluster_at(shared_at(&m.found[at / (D / 4)][rank]), to),
                 make_float2(y.top, y.total), barrier);
}

static __device__ __forceinline__ float half_warp_sum(float v) {
#pragma unroll
    for (int d = 1; d < BLOCKS_MOST; d <<= 1) v += __shfl_xor_sync(~0u, v, d);
    return v;
}

// This block's columns: 16 lanes have what 16 blocks found of four.
template <int D>
static __device__ __forceinline__ void add_up(const struct row_memory<D> &m,
                                              const struct attend_row &f,
                                              const struct row_part &p) {
    static_assert(BLOCKS_MOST == 16, "half a warp");
    int block = threadIdx.x % 16, fours = fours_of<D>(f);
    for (int i = threadIdx.x / 16; i < fours; i += THREADS / 16) {
        int at = (int)blockIdx.x * fours + i, query = at / (D / 4);
        struct found y = {make_float4(0, 0, 0, 0), -INFINITY, 0};
        if (block < p.count) {
            y.top = m.found[query][block].x, y.total = m.found[query][block].y;
            y.sum = m.parts[(i << f.block_bits) + block];
        }
        float own = y.top;
#pragma unroll
        for (int d = 1; d < 16; d <<= 1) y.top = fmaxf(y.top, __shfl_xor_sync(~0u, y.top, d));
        float keep = power2(own - (y.top == -INFINITY ? 0.0f : y.top));
        y.total = half_warp_sum(y.total * keep);
        y.sum = scaled(y.sum, keep);
        y.sum.x = half_warp_sum(y.sum.x), y.sum.y = half_warp_sum(y.sum.y);
        y.sum.z = half_warp_sum(y.sum.z), y.sum.w = half_warp_sum(y.sum.w);
        if (block == 0) put_found<D>(f.a, p, y, query, at % (D / 4));
    }
}

// --- the kernel ----------------------------------------------------------------------------------

template <int D, bool BRAIN>
static __global__ void __launch_bounds__(THREADS, 2)
    row_kernel(const __grid_constant__ struct attend_row f) {
    extern __shared__ uint4 memory[];
    struct row_memory<D> &m = *(struct row_memory<D> *)memory;
    const struct attend &a = f.a;
    int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        barrier_make(&m.handed, 1);
        barriers_made();
    }
    cluster_arrive_relaxed();
    struct angle angle = angle_of(f);
    struct row_part p = part_of(f);
    if (p.count == 1 && blockIdx.x) return; // nobody needs it
    if (threadIdx.x == 0) barrier_expect(&m.handed, handed_bytes<D>(f, p));
    bool has_keys = (int)blockIdx.x < p.count, owns = (int)blockIdx.x == p.count - 1;
    struct row_keys<D> first, keys; // of the warp's first tile, and of the next
    struct task task[TASKS];
    struct elements<D> x[TASKS], norm[TASKS];
    int t = p.from + warp * KEYS, step = KEYS * WARPS;
    uint16_t *values = m.of[warp].values;
    int pages = next_pages(f, p, t, step), within = in_page(f, p.first + t);
    int row = row_of(f, p, __shfl_sync(~0u, pages, 0)) + within;
    int next = row_of(f, p, __shfl_sync(~0u, pages, 1)) + within;
    if (!a.early) wait_for_last();
    if (t < p.to) load_keys<D>(first, a, row), ask_values<D>(values, a, row, p, t);
    if (t + step < p.to) load_keys<D>(keys, a, next);
    expect_tiles<D>(f, p, pages, within, t, step);
    if (f.turned) make_turns<D>(m.turns, angle, f.r.scale);
#pragma unroll 1
    for (int i = threadIdx.x; i < (QUERIES - p.heads) * (D + 8) / 2; i += THREADS)
        ((uint32_t *)m.q[p.heads])[i] = 0;
#pragma unroll
    for (int k = 0; k < TASKS; k++)
        task[k] = task_of(f, p, has_keys, owns, k), norm[k] = norm_weights<D>(task[k]);
    int64_t slot = cache_slot(f, p);
    float scale = scale_of(a, p.place) * f.score_scale;
    __syncthreads();
    wait_for_input();
#pragma unroll
    for (int k = 0; k < TASKS; k++)
        if (task[k].from) x[k] = elements_at<D>(task[k].from);
#pragma unroll
    for (int k = 0; k < TASKS; k++)
        if (task[k].from) make_ready<D, BRAIN>(m, f, slot, task[k], x[k], norm[k], scale);
    __syncthreads();
    if (has_keys) {
        struct row_running<D> r = {};
        r.top = -INFINITY;
        float s[4];
        if (p.last - t < KEYS) put_own_key<D>(first, m, p.last - t);
        if (t < p.to) score_keys<D, BRAIN>(s, first, m);
        for (int at = 1; t < p.to; at++) { // `next` and `keys`: of tile `at`
            // Here, not where the scores are done: across the end of a loop's body ptxas waits.
            if (at > 1 && t + step < p.to) load_keys<D>(keys, a, next);
            weigh_keys<D>(s, r, a, p, t);
            wait_for_values();
            if (p.last - t < KEYS) put_own_value<D>(values, m, p.last - t);
            add_values<D, BRAIN>(r, s, values);
            t += step;
            if (t >= p.to) break;
            __syncwarp();
            ask_values<D>(values, a, next, p, t);
            if (p.last - t < KEYS) put_own_key<D>(keys, m, p.last - t);
            score_keys<D, BRAIN>(s, keys, m);
            if ((at + 1) % 32 == 0) pages = next_pages(f, p, t + step, step);
            next = row_of(f, p, __shfl_sync(~0u, pages, (at + 1) % 32)) + within;
        }
        note_warp<D>(m, r);
    }
    __syncthreads();
    int query = threadIdx.x / (D / 4), place = threadIdx.x % (D / 4);
    bool has_part = has_keys && query < QUERIES;
    struct found y;
    if (has_part) y = found_by_block<D>(m, query, place);
    if (p.count == 1) {
        if (has_part) put_found<D>(a, p, y, query, place);
        return;
    }
    cluster_wait();
    if (has_part) hand_out<D>(m, f, y, threadIdx.x);
    barrier_wait(&m.handed, 0);
    add_up<D>(m, f, p);
}

static cudaLaunchConfig_t row_launch(cudaLaunchAttribute attribute[3], const struct attend *a,
                                     int blocks, size_t size) {
    dim3 clusters(1, (unsigned)ceil_div(a->group, QUERIES), (unsigned)a->kv_heads);
    cudaLaunchConfig_t config = cluster_launch(attribute, clusters, blocks, THREADS, size);
    attribute[2].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
    attribute[2].val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
    config.numAttrs = 3;
    return config;
}

// Of a power of 2.
static int bits_of(int64_t n) {
    int bits = 0;
    while (n >> bits > 1) bits++;
    return bits;
}

template <int D, bool BRAIN> static void launch_row(struct context *c, struct attend_row *f) {
    auto kernel = row_kernel<D, BRAIN>;
    const struct attend *a = &f->a;
    size_t size = sizeof(struct row_memory<D>);
    cudaLaunchAttribute attribute[3] = {};
    if (!allow_shared(c, "attention", kernel, size) ||
        !cuda_ok(&c->err,
                 cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
                 "attention"))
        return;
    int64_t clusters = a->kv_heads * ceil_div(a->group, QUERIES);
    int64_t most = ceil_div(a->pages * a->page, KEYS * WARPS);
    int blocks = BLOCKS_MOST;
    for (; blocks > 1; blocks /= 2) {
        int fit = 0;
        if (blocks / 2 >= most || blocks * clusters > c->dev->cuda->processors) continue;
        cudaLaunchConfig_t config = row_launch(attribute, a, blocks, size);
        if (cudaOccupancyMaxActiveClusters(&fit, kernel, &config) == cudaSuccess && fit >= clusters)
            break;
    }
    f->block_bits = bits_of(blocks);
    cudaLaunchConfig_t config = row_launch(attribute, a, blocks, size);
    config.stream = c->dev->cuda->stream;
    cuda_ok(&c->err, cudaLaunchKernelEx(&config, kernel, *f), "attention");
}

bool attend_row(struct context *c, const struct attend *a, const struct placed *placed) {
    const struct placing *how = placed->how;
    struct tensor none = {};
    struct attend_row f = {};
    f.a = *a;
    if (!c->dev->cuda->hopper || a->n != 1 || a->v == a->k || a->k_width != a->v_width ||
        a->page < KEYS || a->page > KEYS * WARPS || a->page & (a->page - 1) || (uintptr_t)a->y % 16)
        return false;
    f.q = heads_of(placed->q, how->q_norm), f.k = heads_of(placed->k, how->k_norm);
    f.v = heads_of(placed->v, none);
    const struct heads *all[] = {&f.q, &f.k, &f.v};
    for (int i = 0; i < 3; i++)
        if (((uintptr_t)all[i]->p | (uintptr_t)all[i]->norm) % 8 || all[i]->ld % 2) return false;
    f.normed = how->normed, f.eps = how->eps, f.turned = how->rope != NULL;
    if (how->rope) f.r = rotation_of(placed->rows, how->rope);
    if (f.r.pairs * 2 > a->k_width) return false;
    f.page_bits = bits_of(a->page);
    f.score_scale = LOG2E * (a->soft_cap > 0 ? 2 / a->soft_cap : 1);
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
