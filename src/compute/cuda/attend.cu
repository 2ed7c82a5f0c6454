// Attention over pages: `plain` for any widths and types, in f32; `split` for F16 and BF16 caches
// of any widths, with the keys of a row split over blocks; and for the usual widths those of
// attend_tiles.cu for prompts and attend_steps.cu for generation.
#include "compute/cuda/attend.cuh"

enum { THREADS = 128, KEYS = 64, WIDTH_MOST = 1024 };

// --- any widths ----------------------------------------------------------------------------------

// The running softmax of one query: a tile of scores in shared memory becomes weights.
static __device__ float tile_top(float score, float *part) {
    float top = warp_max(score);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = top;
    __syncthreads();
    for (int w = 0; w < THREADS / 32; w++) top = fmaxf(top, part[w]);
    return top;
}

// How many tokens a row of a selection has: the rest is -1.
static __device__ int64_t chosen(const int32_t *selected, int64_t most) {
    int64_t count = 0;
    for (int64_t i = 0; i < most; i += THREADS)
        count += __syncthreads_count(i + threadIdx.x < most && selected[i + threadIdx.x] >= 0);
    return count;
}

// One block a row and head; a thread a key, then a thread a column. A row sees a range of tokens,
// or those that were selected for it.
static __global__ void plain_kernel(const __grid_constant__ struct attend a) {
    __shared__ float p[THREADS], part[THREADS / 32];
    extern __shared__ float shared[];
    wait_for_input();
    float *q = shared, *acc = shared + a.k_width;
    int64_t row = blockIdx.x / a.heads, head = blockIdx.x % a.heads, kv_head = head / a.group;
    int64_t last = a.index[row], first = first_seen(a, last);
    const int32_t *table = a.table + a.seq[row] * a.pages;
    const int32_t *selected = a.selected ? a.selected + row * a.selects : NULL; // the tokens
    float scale = scale_of(a, last), top = -INFINITY, total = 0;
    if (selected) last = chosen(selected, a.selects) - 1;
    for (int64_t i = threadIdx.x; i < a.k_width; i += THREADS)
        q[i] = a.q[row * a.ldq + head * a.k_width + i] * scale;
    for (int64_t i = threadIdx.x; i < a.v_width; i += THREADS) acc[i] = 0;
    __syncthreads();
    for (int64_t t0 = first; t0 <= last; t0 += THREADS) {
        int64_t t = t0 + threadIdx.x;
        float score = -INFINITY;
        if (t <= last) {
            int64_t token = selected ? selected[t] : t;
            int64_t at = cache_row(a, table, kv_head, token) * a.k_width;
            score = 0;
            for (int64_t i = 0; i < a.k_width; i++) score += q[i] * float_at(a.k, a.type, at + i);
            score = capped(a, score);
        }
        float was = top;
        top = fmaxf(top, tile_top(score, part));
        float keep = expf(was - top);
        p[threadIdx.x] = t <= last ? expf(score - top) : 0.0f;
        total = total * keep + block_sum(p[threadIdx.x]);
        __syncthreads();
        int64_t count = last + 1 - t0 < THREADS ? last + 1 - t0 : THREADS;
        for (int64_t i = threadIdx.x; i < a.v_width; i += THREADS) {
            float sum = acc[i] * keep;
            for (int64_t k = 0; k < count; k++) {
                int64_t token = selected ? selected[t0 + k] : t0 + k;
                sum +=
                    p[k] * float_at(a.v, a.type, cache_row(a, table, kv_head, token) * a.ldv + i);
            }
            acc[i] = sum;
        }
        __syncthreads();
    }
    total += sink_of(a, head, top);
    for (int64_t i = threadIdx.x; i < a.v_width; i += THREADS)
        a.y[row * a.ldy + head * a.v_width + i] = acc[i] / total;
}

// --- keys split over blocks ----------------------------------------------------------------------

template <bool BRAIN> static __device__ __forceinline__ void widen(float to[8], uint4 v) {
    const uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 f = BRAIN ? __bfloat1622float2(*(const __nv_bfloat162 *)&word[i])
                         : __half22float2(*(const __half2 *)&word[i]);
        to[2 * i] = f.x, to[2 * i + 1] = f.y;
    }
}

// One block a split, a kv head's (or part of its group's) G queries, and a row.
template <int G, bool BRAIN>
static __global__ void __launch_bounds__(THREADS)
    split_kernel(const __grid_constant__ struct attend a) {
    extern __shared__ float shared[];
    __shared__ float score[G][KEYS], keep[G], total[G], top[G];
    wait_for_input();
    int64_t parts_of_group = (a.group + G - 1) / G, row = blockIdx.z;
    int64_t kv_head = blockIdx.y / parts_of_group;
    int64_t in_group = blockIdx.y % parts_of_group * G, head = kv_head * a.group + in_group;
    int heads = (int)(a.group - in_group < G ? a.group - in_group : G);
    int64_t last = a.index[row];
    struct span s = span_of(a, first_seen(a, last), last, blockIdx.x, KEYS);
    if (s.from >= s.to) return;
    const int32_t *table = a.table + a.seq[row] * a.pages;
    float *q = shared; // [G, k_width]
    float scale = scale_of(a, last);
    for (int64_t i = threadIdx.x; i < G * a.k_width; i += THREADS)
        q[i] = i < heads * a.k_width ? a.q[row * a.ldq + head * a.k_width + i] * scale : 0.0f;
    if (threadIdx.x < G) top[threadIdx.x] = -INFINITY, total[threadIdx.x] = 0;
    int columns = (int)a.v_width / 8, sharers = THREADS / columns;
    int column = threadIdx.x % columns, sharer = threadIdx.x / columns;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float acc[G][8] = {};
    __syncthreads();
    for (int64_t t0 = s.from; t0 < s.to; t0 += KEYS) {
        int count = (int)(s.to - t0 < KEYS ? s.to - t0 : KEYS);
        // Four threads a key.
        for (int key = threadIdx.x / 4; key < KEYS; key += THREADS / 4) {
            float sum[G] = {};
            if (key < count) {
                const uint4 *k =
                    (const uint4 *)((const uint16_t *)a.k +
                                    cache_row(a, table, kv_head, t0 + key) * a.k_width);
#pragma unroll 4
                for (int i = threadIdx.x % 4; i < (int)a.k_width / 8; i += 4) {
                    float v[8];
                    widen<BRAIN>(v, k[i]);
#pragma unroll
                    for (int g = 0; g < G; g++) {
                        const float4 *from = (const float4 *)(q + g * a.k_width + i * 8);
                        float4 x = from[0], z = from[1];
                        sum[g] += v[0] * x.x + v[1] * x.y + v[2] * x.z + v[3] * x.w + v[4] * z.x +
                                  v[5] * z.y + v[6] * z.z + v[7] * z.w;
                    }
                }
            }
#pragma unroll
            for (int g = 0; g < G; g++) {
                sum[g] += __shfl_xor_sync(~0u, sum[g], 1);
                sum[g] += __shfl_xor_sync(~0u, sum[g], 2);
                if (threadIdx.x % 4 == 0)
                    score[g][key] = key < count ? capped(a, sum[g]) : -INFINITY;
            }
        }
        __syncthreads();
        for (int g = warp; g < G; g += THREADS / 32) {
            float low = score[g][lane], high = score[g][lane + 32], was = top[g];
            float now = fmaxf(was, warp_max(fmaxf(low, high)));
            low = expf(low - now), high = expf(high - now);
            score[g][lane] = low, score[g][lane + 32] = high;
            float sum = warp_sum(low + high);
            __syncwarp();
            if (lane == 0) {
                keep[g] = expf(was - now), top[g] = now;
                total[g] = total[g] * keep[g] + sum;
            }
        }
        __syncthreads();
        if (sharer < sharers) {
#pragma unroll
            for (int g = 0; g < G; g++)
#pragma unroll
                for (int i = 0; i < 8; i++) acc[g][i] *= keep[g];
#pragma unroll 4
            for (int key = sharer; key < count; key += sharers) {
                const uint16_t *from =
                    (const uint16_t *)a.v + cache_row(a, table, kv_head, t0 + key) * a.ldv;
                float v[8];
                widen<BRAIN>(v, ((const uint4 *)from)[column]);
#pragma unroll
                for (int g = 0; g < G; g++)
#pragma unroll
                    for (int i = 0; i < 8; i++) acc[g][i] += score[g][key] * v[i];
            }
        }
        __syncthreads();
    }
    // The sharers' sums, one query at a time: [sharers, v_width] where q was.
    for (int g = 0; g < heads; g++) {
        if (sharer < sharers)
#pragma unroll
            for (int i = 0; i < 8; i++) shared[sharer * a.v_width + column * 8 + i] = acc[g][i];
        __syncthreads();
        bool whole = a.splits == 1;
        float *y = whole ? a.y + row * a.ldy + (head + g) * a.v_width
                         : a.parts + ((row * a.heads + head + g) * a.splits + blockIdx.x) *
                                         (a.v_width + 2);
        for (int64_t i = threadIdx.x; i < a.v_width; i += THREADS) {
            float sum = 0;
            for (int p = 0; p < sharers; p++) sum += shared[p * a.v_width + i];
            y[i] = whole ? sum / (total[g] + sink_of(a, head + g, top[g])) : sum;
        }
        if (!whole && threadIdx.x == 0) y[a.v_width] = top[g], y[a.v_width + 1] = total[g];
        __syncthreads();
    }
}

// One block a row and head.
static __global__ void merge_kernel(const __grid_constant__ struct attend a) {
    __shared__ float keep[SPLITS_MOST];
    wait_for_input();
    int64_t row = blockIdx.x / a.heads, head = blockIdx.x % a.heads, each = a.v_width + 2;
    int64_t last = a.index[row];
    int count = (int)span_of(a, first_seen(a, last), last, 0, KEYS).count;
    const float *part = a.parts + blockIdx.x * a.splits * each;
    float top = -INFINITY, total = 0;
    for (int s = 0; s < count; s++) top = fmaxf(top, part[s * each + a.v_width]);
    if (threadIdx.x < count) keep[threadIdx.x] = expf(part[threadIdx.x * each + a.v_width] - top);
    __syncthreads();
    for (int s = 0; s < count; s++) total += keep[s] * part[s * each + a.v_width + 1];
    total += sink_of(a, head, top);
    for (int64_t i = threadIdx.x; i < a.v_width; i += blockDim.x) {
        float sum = 0;
        for (int s = 0; s < count; s++) sum += keep[s] * part[s * each + i];
        a.y[row * a.ldy + head * a.v_width + i] = sum / total;
    }
}

template <int G, bool BRAIN> static void launch_split(struct context *c, const struct attend *a) {
    int64_t columns = a->v_width / 8, sharers = THREADS / columns;
    int64_t floats = G * a->k_width;
    if (floats < sharers * a->v_width) floats = sharers * a->v_width;
    auto kernel = split_kernel<G, BRAIN>;
    if (!allow_shared(c, "attention", kernel, (size_t)floats * 4)) return;
    dim3 grid((unsigned)a->splits, (unsigned)(a->kv_heads * ceil_div(a->group, G)), (unsigned)a->n);
    launch(c, "attention", kernel, grid, THREADS, (size_t)floats * 4, *a);
    if (a->splits > 1)
        launch(c, "attention", merge_kernel, dim3((unsigned)(a->n * a->heads)), THREADS, 0, *a);
}

template <bool BRAIN> static void split(struct context *c, const struct attend *a) {
    if (a->group == 1)
        launch_split<1, BRAIN>(c, a);
    else if (a->group <= 4)
        launch_split<4, BRAIN>(c, a);
    else
        launch_split<8, BRAIN>(c, a);
}

// --- choosing ------------------------------------------------------------------------------------

// Queries a block; rows of a run from which tiles of them pay.
enum { GROUP_MOST = 8, TILE_ROWS = 24 };

static void choose_splits(struct context *c, struct attend *a) {
    int64_t groups = ceil_div(a->group, GROUP_MOST);
    a->splits = BLOCKS_EACH * c->dev->cuda->processors / (a->n * a->kv_heads * groups);
    int64_t most = ceil_div(a->pages * a->page, KEYS);
    if (a->splits > most) a->splits = most;
    if (a->splits > SPLITS_MOST) a->splits = SPLITS_MOST;
    if (a->splits < 1) a->splits = 1;
}

static bool splittable(const struct context *c, const struct attend *a) {
    return c->precision == PRECISION_NATIVE && a->type != DT_F32 && a->k_width % 8 == 0 &&
           a->v_width % 8 == 0 && a->v_width > 0 && a->v_width <= WIDTH_MOST &&
           a->k_width <= WIDTH_MOST && a->n <= 65535 && !a->selected;
}

static struct attend attend_of(struct tensor y, struct tensor q, const struct kv *kv,
                               const struct rows *rows, const struct attention_options *opt) {
    struct attend a = {};
    a.y = (float *)y.data, a.ldy = y.stride[0], a.narrow = y.type == DT_BF16;
    a.q = (const float *)q.data, a.ldq = q.stride[0];
    a.n = rows->n, a.heads = q.n[1], a.kv_heads = kv->k.n[1], a.group = a.heads / a.kv_heads;
    a.k = kv->k.data, a.v = kv->v.data, a.type = kv->k.type;
    a.page = kv->k.n[2], a.k_width = kv->k.n[3];
    a.v_width = a.ldv = kv->v.n[3];
    if (!a.v_width) a.v = a.k, a.v_width = opt->v_width, a.ldv = a.k_width;
    a.table = (const int32_t *)kv->table.data, a.pages = kv->table.n[1];
    a.seq = (const int32_t *)rows->seq.data, a.index = (const int32_t *)rows->index.data;
    a.scale = opt->scale, a.tuning = opt->tuning, a.tuning_floor = opt->tuning_floor;
    a.soft_cap = opt->soft_cap, a.window = opt->window, a.chunk = opt->chunk;
    a.sinks = (const float *)(opt->sinks.dims ? opt->sinks.data : NULL);
    if (opt->selected.dims) {
        a.selected = (const int32_t *)opt->selected.data, a.selects = opt->selected.n[1];
        a.sinks = NULL, a.window = a.chunk = 0, a.tuning = a.soft_cap = 0;
    }
    return a;
}

bool cuda_placed_attention(struct context *c, struct tensor y, struct tensor q, struct tensor k,
                           struct tensor v, const struct placing *p, const struct kv *kv,
                           const struct rows *rows, const struct attention_options *opt) {
    struct attend a = attend_of(y, q, kv, rows, opt);
    struct placed placed = {p, q, k, v, rows};
    return !a.narrow && splittable(c, &a) && attend_row(c, &a, &placed);
}

void cuda_attention(struct context *c, struct tensor y, struct tensor q, const struct kv *kv,
                    const struct rows *rows, const struct attention_options *opt) {
    size_t mark = scratch_mark(c);
    struct attend a = attend_of(y, q, kv, rows, opt);
    // n * kv_heads * splits is bounded where there are splits: room for the most of any n
    int64_t floats[] = {BLOCKS_EACH * c->dev->cuda->processors * a.group * (a.v_width + 2)};
    a.parts = (float *)scratch_tensor(c, DT_F32, 1, floats).data;
    struct tensor wide = y; // of the kernels that don't write BF16; a dry run's y is F32
    if (a.narrow) wide = scratch_tensor(c, DT_F32, y.dims, y.n);
    if (c->dry && opt->reader) scratch_tensor(c, DT_BF16, y.dims, y.n);
    if (!c->dry && !c->err.set && a.n > 0) {
        choose_splits(c, &a);
        bool tiles = splittable(c, &a) && a.n >= TILE_ROWS * rows->runs && a.n >= TILE_ROWS &&
                     attend_tiles(c, &a, kv->k.n[0]);
        if (!tiles && !(splittable(c, &a) && attend_steps(c, &a))) {
            a.y = (float *)wide.data, a.ldy = wide.stride[0], a.narrow = false;
            if (!splittable(c, &a))
                launch(c, "attention", plain_kernel, dim3((unsigned)(a.n * a.heads)), THREADS,
                       (size_t)(a.k_width + a.v_width) * 4, a);
            else
                a.type == DT_BF16 ? split<true>(c, &a) : split<false>(c, &a);
            if (y.type == DT_BF16) cuda_convert(c, y, wide);
        }
    }
    scratch_release(c, mark);
}
