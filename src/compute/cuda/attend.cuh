// What the attention kernels share: what a row sees, and where its keys are.
#ifndef COMPUTE_CUDA_ATTEND_CUH
#define COMPUTE_CUDA_ATTEND_CUH

#include "compute/cuda/device.cuh"

struct attend {
    float *y;
    int64_t ldy;
    bool narrow;    // y is of BF16, of attend_tiles and attend_steps alone
    const float *q; // [n, heads, k_width]
    int64_t ldq;
    int64_t n, heads, kv_heads, group; // group: heads a kv head
    const void *k, *v;                 // [pages, kv_heads, page, width]
    enum dtype type;
    int64_t k_width, v_width, page;
    int64_t ldv; // of values; where there are none, v is k, whose leading elements they are
    const int32_t *table, *seq, *index;
    int64_t pages; // a row of the table
    float scale, tuning, tuning_floor, soft_cap;
    int64_t window, chunk;
    const float *sinks;      // [heads] or NULL
    const int32_t *selected; // [n, selects] the tokens that a row sees; NULL: all
    int64_t selects;
    // keys split over blocks: parts [n, heads, splits, v_width + 2]: sums, then top and total
    int64_t splits;
    float *parts;
    int32_t *arrived; // of attend_steps: blocks of a row and kv head that are done; zeros between
                      // launches
    bool early;       // keys of earlier steps are there before the launch before this one ends
};

// The keys [from, to) of a split: equal shares of what the row sees, in whole tiles. Read from the
// device's positions, so a recorded step serves any length.
struct span {
    int64_t from, to;
    int64_t count; // of splits that have keys
};

static __device__ __forceinline__ struct span span_of(const struct attend &a, int64_t first,
                                                      int64_t last, int64_t split, int64_t tile) {
    int64_t seen = last + 1 - first;
    int64_t share = ((seen + a.splits - 1) / a.splits + tile - 1) / tile * tile;
    struct span s = {first + split * share, first + (split + 1) * share,
                     (seen + share - 1) / share};
    if (s.to > last + 1) s.to = last + 1;
    return s;
}

static __device__ __forceinline__ int64_t first_seen(const struct attend &a, int64_t last) {
    int64_t first = a.window > 0 && last >= a.window ? last - a.window + 1 : 0;
    int64_t begin = a.chunk > 0 ? last - last % a.chunk : 0;
    return begin > first ? begin : first;
}

static __device__ __forceinline__ float scale_of(const struct attend &a, int64_t last) {
    if (a.tuning == 0) return a.scale;
    return a.scale * (1 + a.tuning * log1pf(floorf(((float)last + 1) / a.tuning_floor)));
}

static __device__ __forceinline__ float capped(const struct attend &a, float score) {
    return a.soft_cap > 0 ? a.soft_cap * tanhf(score / a.soft_cap) : score;
}

// What a sink adds to a total whose weights are e^(score - top).
static __device__ __forceinline__ float sink_of(const struct attend &a, int64_t head, float top) {
    return a.sinks ? expf(a.sinks[head] - top) : 0.0f;
}

// Where token t of a sequence, of kv head h, is in a cache: in rows of its width.
static __device__ __forceinline__ int64_t cache_row(const struct attend &a, const int32_t *table,
                                                    int64_t h, int64_t t) {
    int32_t page = (int32_t)a.page, at = (int32_t)t / page;
    return ((int64_t)table[at] * a.kv_heads + h) * a.page + ((int32_t)t - at * page);
}

// Prompts on tensor cores, where the widths have such a kernel: rows of one sequence that follow
// each other share keys. False: not done.
extern "C" bool attend_tiles(struct context *c, const struct attend *a, int64_t pages);
// Its parts for sm_90a, for a cache of so many pages.
extern "C" bool attend_hopper(struct context *c, const struct attend *a, int64_t pages);
extern "C" bool attend_latents(struct context *c, const struct attend *a, int64_t pages);

// Few rows, or rows of many sequences, on tensor cores: the queries that share a kv head are the
// rows of a tile. False: not done.
extern "C" bool attend_steps(struct context *c, struct attend *a);

// A step's one row, and what place_heads does before. False: not done.
struct placed {
    const struct placing *how;
    struct tensor q, k, v;
    const struct rows *rows;
};
extern "C" bool attend_row(struct context *c, const struct attend *a, const struct placed *placed);

// Splits are bounded by these: blocks of all rows and kv heads, and of one.
enum { BLOCKS_EACH = 4, SPLITS_MOST = 64 };

#endif
