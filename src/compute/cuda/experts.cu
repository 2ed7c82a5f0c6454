// Experts: the router's choice, and products in which every row has its expert's weights. Which
// expert has how many rows is known on the device alone, so blocks find their work there: a launch
// has as many as any choice can need.
#include "compute/cuda/product_tiles.cuh"
#include "compute/cuda/route.cuh"

// --- the choice ----------------------------------------------------------------------------------

struct choice {
    struct choosing how;
    const float *logits;
    int64_t ld;
    int32_t *ids; // [n, top]
    float *weights;
    bool sorts; // of one row: also the lists of struct routes
    int32_t *start, *order, *row, *place;
};

// The lists of one row with at most 32 choices, whose lane has `id`, by a warp.
static __device__ void sort_row(const struct choice &c, int id) {
    int lane = threadIdx.x, rank = 0;
    for (int k = 0; k < c.how.top; k++) {
        int other = __shfl_sync(~0u, id, k);
        rank += other < id || (other == id && k < lane);
    }
    if (lane < c.how.top) c.order[rank] = lane, c.row[rank] = 0, c.place[lane] = rank;
    for (int base = 0; base <= c.how.experts; base += 32) {
        int before = 0;
        for (int k = 0; k < c.how.top; k++) before += __shfl_sync(~0u, id, k) < base + lane;
        if (base + lane <= c.how.experts) c.start[base + lane] = before;
    }
}

// By a warp, in place.
static __device__ void softmax(float *x, int n) {
    int lane = threadIdx.x;
    float top = -INFINITY, sum = 0;
    for (int i = lane; i < n; i += 32) top = fmaxf(top, x[i]);
    top = warp_max(top);
    for (int i = lane; i < n; i += 32) sum += x[i] = expf(x[i] - top);
    sum = warp_sum(sum);
    for (int i = lane; i < n; i += 32) x[i] /= sum;
    __syncwarp();
}

// One warp a row.
static __global__ void route_kernel(const __grid_constant__ struct choice c) {
    extern __shared__ uint4 shared[];
    float *score = (float *)shared, *choice = score + c.how.experts,
          *value = choice + c.how.experts;
    int lane = threadIdx.x;
    wait_for_input();
    const float *logit = c.logits + blockIdx.x * c.ld;
    int32_t *id = c.ids + (int64_t)blockIdx.x * c.how.top;
    float *weight = c.weights + (int64_t)blockIdx.x * c.how.top;
    int own = 0; // the choice of this lane
    for (int i = lane; i < c.how.experts; i += 32)
        score[i] = activated(logit[i], c.how.score == ROUTE_SIGMOID ? ACT_SIGMOID : ACT_NONE);
    __syncwarp();
    if (c.how.score == ROUTE_SOFTMAX) softmax(score, c.how.experts);
    for (int i = lane; i < c.how.experts; i += 32)
        choice[i] = score[i] + (c.how.bias ? c.how.bias[i] : 0.0f);
    __syncwarp();
    if (c.how.groups) limit_groups(choice, value, c.how);
    for (int k = 0; k < c.how.top; k++) {
        struct best mine = {-INFINITY, INT32_MAX};
        for (int i = lane; i < c.how.experts; i += 32) {
            struct best next = {choice[i], i};
            if (!isnan(choice[i])) mine = better(mine, next);
        }
        int at = warp_best(mine).at;
        if (at == INT32_MAX) at = 0; // all are NaN
        if (lane == 0) id[k] = at, weight[k] = score[at], choice[at] = NAN;
        if (lane == k) own = at;
        __syncwarp();
    }
    if (c.sorts) sort_row(c, own);
    if (c.how.score == ROUTE_TOP_SOFTMAX) softmax(weight, c.how.top);
    float sum = 0;
    for (int k = lane; k < c.how.top; k += 32) sum += weight[k];
    sum = warp_sum(sum);
    float by = c.how.scale / (c.how.normalize ? sum + 1e-20f : 1.0f); // they may all have gone to 0
    for (int k = lane; k < c.how.top; k += 32) weight[k] *= by;
}

enum { SORT_THREADS = 256 };

// One block an expert: how many entries are of those before it, then where each of its own goes.
static __global__ void sort_kernel(const int32_t *id, int m, int top, int32_t *start,
                                   int32_t *order, int32_t *row, int32_t *place) {
    __shared__ int part[SORT_THREADS / 32];
    int expert = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    wait_for_input();
    int before = 0;
    for (int i = threadIdx.x; i < m; i += SORT_THREADS) before += id[i] < expert;
    for (int d = 16; d > 0; d >>= 1) before += __shfl_xor_sync(~0u, before, d);
    if (lane == 0) part[warp] = before;
    __syncthreads();
    int at = 0;
    for (int w = 0; w < SORT_THREADS / 32; w++) at += part[w];
    if (threadIdx.x == 0) start[expert] = at;
    if (threadIdx.x == 0 && expert + 1 == gridDim.x) start[expert + 1] = m;
    for (int from = 0; from < m; from += SORT_THREADS) {
        int i = from + threadIdx.x;
        bool own = i < m && id[i] == expert;
        int here, to = at + before_me<SORT_THREADS>(own, &here);
        if (own) order[to] = i, row[to] = i / top, place[i] = to;
        at += here;
    }
}

void cuda_route(struct context *c, const struct routes *r, struct tensor logits,
                const struct route_options *opt) {
    if (c->dry || c->err.set || !logits.n[0]) return;
    struct choice k = {choosing_of(opt, logits.n[1]),
                       (const float *)logits.data,
                       logits.stride[0],
                       (int32_t *)r->ids.data,
                       (float *)r->weights.data,
                       logits.n[0] == 1 && opt->top <= 32,
                       (int32_t *)r->start.data,
                       (int32_t *)r->order.data,
                       (int32_t *)r->row.data,
                       (int32_t *)r->place.data};
    size_t shared = (size_t)(2 * k.how.experts + k.how.groups) * sizeof(float);
    launch(c, "route", route_kernel, dim3((unsigned)logits.n[0]), 32, shared, k);
    if (k.sorts) return;
    launch(c, "route", sort_kernel, dim3((unsigned)k.how.experts), SORT_THREADS, 0,
           (const int32_t *)r->ids.data, (int)r->order.n[0], k.how.top, (int32_t *)r->start.data,
           (int32_t *)r->order.data, (int32_t *)r->row.data, (int32_t *)r->place.data);
}

// --- products ------------------------------------------------------------------------------------

// Entries of one expert, at most so many.
struct group {
    int expert;
    int64_t first, count; // count 0: there is none
};

// Group `at` when each expert's entries are cut into groups of `size`. By each warp for itself.
static __device__ struct group find_group(const int32_t *start, int experts, int size, int at) {
    int lane = threadIdx.x % 32;
    struct group g = {0, 0, 0};
    for (int base = 0; base < experts; base += 32) {
        int e = base + lane, from = e < experts ? start[e] : 0;
        int to = e < experts ? start[e + 1] : 0, sum = (to - from + size - 1) / size;
        for (int d = 1; d < 32; d <<= 1) {
            int other = __shfl_up_sync(~0u, sum, d);
            if (lane >= d) sum += other;
        }
        unsigned past = __ballot_sync(~0u, sum > at);
        if (!past) {
            at -= __shfl_sync(~0u, sum, 31);
            continue;
        }
        int own = __ffs((int)past) - 1, groups = (to - from + size - 1) / size;
        g.expert = base + own;
        int skipped = at - (__shfl_sync(~0u, sum, own) - __shfl_sync(~0u, groups, own));
        from = __shfl_sync(~0u, from, own), to = __shfl_sync(~0u, to, own);
        g.first = from + (int64_t)skipped * size;
        g.count = to - g.first < size ? to - g.first : size;
        return g;
    }
    return g;
}

// No choice makes more groups.
static int64_t groups_most(int64_t m, int64_t experts, int64_t size) {
    int64_t most = m / size + (experts < m ? experts : m);
    return most < m ? most : m;
}

struct expert_product {
    const int32_t *start;
    int experts;
    const struct weight *w[2]; // on the device; [1]: of a gated pair
    struct shape shape;
    const float *x;
    int64_t ldx, ldy;
    float *y;
    bool aligned;
    struct gating gating;
};

// One block (x: of its outputs' tiles) a group of TILE entries.
static __global__ void exact_experts_kernel(const __grid_constant__ struct expert_product p) {
    __shared__ struct weight w;
    wait_for_input();
    struct group g = find_group(p.start, p.experts, TILE, blockIdx.y);
    if (!g.count) return;
    if (threadIdx.x == 0) w = p.w[0][g.expert];
    __syncthreads();
    exact_tile(p.y + g.first * p.ldy, p.ldy, p.x + g.first * p.ldx, p.ldx, g.count, w, 0,
               (int64_t)blockIdx.x * TILE);
}

// One block a group of FEW entries and every gridDim.xth tile of 16 outputs.
template <int BITS, int MATS, int AHEAD, int BLOCKS>
static __global__ void __launch_bounds__(FEW_WARPS * 32, BLOCKS)
    few_experts_kernel(const __grid_constant__ struct expert_product p) {
    __shared__ struct few f;
    wait_for_input();
    struct group g = find_group(p.start, p.experts, FEW, blockIdx.y);
    if (!g.count) return;
    if (threadIdx.x == 0) {
        for (int m = 0; m < MATS; m++)
            f.w[m] = matrix_of(&p.w[m][g.expert], p.y + g.first * p.ldy, p.ldy);
        f.first[0] = 0, f.count = 1, f.tiles = (int)ceil_div(f.w[0].out, 16);
        f.shape = p.shape;
        f.x = p.x + g.first * p.ldx, f.ldx = p.ldx, f.n = (int)g.count, f.aligned = p.aligned;
        f.gating = p.gating;
    }
    __syncthreads();
    few_tiles<BITS, MATS, AHEAD>(f, blockIdx.x, gridDim.x);
}

// x is rounded: [m, in]. One block SOME_OUT outputs (x) of a group of ROWS entries.
template <int BITS, int ROWS>
static __global__ void __launch_bounds__(SOME_THREADS, 2)
    some_experts_kernel(const __grid_constant__ struct expert_product p, const __nv_bfloat16 *x) {
    __shared__ struct some f;
    wait_for_input();
    struct group g = find_group(p.start, p.experts, ROWS, blockIdx.y);
    if (!g.count) return;
    if (threadIdx.x == 0) {
        f.w = matrix_of(&p.w[0][g.expert], p.y + g.first * p.ldy, p.ldy);
        f.shape = p.shape, f.per_split = p.shape.in, f.parts = NULL;
        f.x = x + g.first * p.shape.in, f.n = g.count;
    }
    __syncthreads();
    some_tile<BITS, ROWS>(f, (int64_t)blockIdx.x * SOME_OUT, 0, 0);
}

static __global__ void gate_kernel(float *y, int64_t ldy, const float *up, int64_t ldup, int width,
                                   struct gating g) {
    wait_for_input();
    int64_t row = blockIdx.x;
    int i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i < width) y[row * ldy + i] = gated(y[row * ldy + i], up[row * ldup + i], g);
}

// The kind of all the experts' matrices (product_tiles.cuh); 0: some other, or they differ.
static int kind_of_all(const struct matrices *w) {
    int kind = kind_of(w->w);
    for (int64_t i = 1; i < w->n && kind; i++)
        if (!same_kind(w->w, &w->w[i])) return 0;
    return kind;
}

static struct expert_product product_of(struct tensor y, struct tensor x, const struct routes *r,
                                        const struct matrices *w) {
    struct expert_product p = {};
    p.start = (const int32_t *)r->start.data, p.experts = (int)w->n;
    p.w[0] = w->on_device, p.shape = shape_of(w->w);
    p.x = (const float *)x.data, p.ldx = x.stride[0];
    p.y = (float *)y.data, p.ldy = y.stride[0];
    p.aligned = ((uintptr_t)x.data | (size_t)x.stride[0] * 4) % 16 == 0;
    return p;
}

// Entries of the largest group.
static int64_t few_rows(int64_t m) {
    int64_t most = FEW;
    return m < most ? m : most;
}

template <int BITS, int MATS, int AHEAD, int BLOCKS>
static void launch_few(struct context *c, const struct expert_product &p, int64_t m, int64_t out) {
    int64_t groups = groups_most(m, p.experts, FEW), tiles = ceil_div(out, 16);
    int64_t across = ceil_div((int64_t)BLOCKS * c->dev->cuda->processors, groups);
    size_t shared = (size_t)few_rows(m) * (size_t)(p.shape.in + FEW_PAD) * 2;
    auto kernel = few_experts_kernel<BITS, MATS, AHEAD, BLOCKS>;
    if (!allow_shared(c, "experts", kernel, shared)) return;
    dim3 grid((unsigned)(across < tiles ? across : tiles), (unsigned)groups);
    launch(c, "experts", kernel, grid, FEW_WARPS * 32, shared, p);
}

// Few entries an expert: each expert's weights are read once for FEW of them.
static bool few_each(int64_t m, int64_t experts, int64_t in) {
    return m <= experts * FEW && is_few(few_rows(m), in);
}

static void exact_experts(struct context *c, const struct expert_product &p, int64_t m,
                          int64_t out) {
    dim3 grid((unsigned)ceil_div(out, TILE), (unsigned)groups_most(m, p.experts, TILE));
    launch(c, "experts", exact_experts_kernel, grid, EXACT_THREADS, 0, p);
}

template <int BITS, int ROWS>
static void launch_some(struct context *c, const struct expert_product &p, const void *x, int64_t m,
                        int64_t out) {
    auto kernel = some_experts_kernel<BITS, ROWS>;
    dim3 grid((unsigned)ceil_div(out, SOME_OUT), (unsigned)groups_most(m, p.experts, ROWS));
    if (allow_shared(c, "experts", kernel, some_shared(ROWS)))
        launch(c, "experts", kernel, grid, SOME_THREADS, some_shared(ROWS), p,
               (const __nv_bfloat16 *)x);
}

// Tiles of as many rows as an expert has on the average, or a little more.
template <int BITS>
static void launch_some(struct context *c, const struct expert_product &p, const void *x, int64_t m,
                        int64_t out) {
    if (m <= 24 * (int64_t)p.experts)
        launch_some<BITS, 32>(c, p, x, m, out);
    else if (m <= 96 * (int64_t)p.experts)
        launch_some<BITS, 64>(c, p, x, m, out);
    else
        launch_some<BITS, 128>(c, p, x, m, out);
}

static void some_experts(struct context *c, const struct expert_product &p, struct rounded *q,
                         int64_t out, int kind) {
    round_once(c, q, is_paired(kind));
#define CALL(KIND, AHEAD, BLOCKS) launch_some<KIND>(c, p, q->room.data, q->x.n[0], out)
    BY_KIND(kind, CALL)
#undef CALL
}

static void expert_linear(struct context *c, struct tensor y, struct rounded *q,
                          const struct routes *r, const struct matrices *w) {
    int64_t m = q->x.n[0], in = q->x.n[1], out = y.n[1];
    if (c->dry || c->err.set || !m) return;
    struct expert_product p = product_of(y, q->x, r, w);
    int kind = c->precision == PRECISION_NATIVE ? kind_of_all(w) : 0;
    if (!kind) {
        exact_experts(c, p, m, out);
    } else if (few_each(m, w->n, in)) {
#define CALL(KIND, AHEAD, BLOCKS) launch_few<KIND, 1, AHEAD, BLOCKS>(c, p, m, out)
        BY_KIND(kind, CALL)
#undef CALL
    } else {
        some_experts(c, p, q, out, kind);
    }
}

void cuda_expert_linear(struct context *c, struct tensor y, struct tensor x, const struct routes *r,
                        const struct matrices *w) {
    if (!c->dry && tiles_experts(c, y, x, r, w, NULL, NULL, false)) return;
    size_t mark = scratch_mark(c);
    int64_t room[] = {ceil_div(x.n[0], 8) * 8, x.n[1]}; // tiles need so many rows
    struct rounded q = {x, scratch_tensor(c, DT_BF16, 2, room), NOT_YET};
    expert_linear(c, y, &q, r, w);
    scratch_release(c, mark);
}

bool cuda_expert_glu_rows(struct context *c, struct tensor y, struct tensor x,
                          const struct routes *r, const struct matrices *gate,
                          const struct matrices *up, const struct gating *g) {
    return c->precision == PRECISION_NATIVE && tiles_experts(c, y, x, r, gate, up, g, true);
}

void cuda_expert_glu(struct context *c, struct tensor y, struct tensor x, const struct routes *r,
                     const struct matrices *gate, const struct matrices *up,
                     const struct gating *g) {
    int64_t m = x.n[0], in = x.n[1], out = y.n[1];
    bool native = c->precision == PRECISION_NATIVE && !c->dry;
    int kind = native ? kind_of_all(gate) : 0;
    if (kind && tiles_experts(c, y, x, r, gate, up, g, false)) return;
    if (kind && m > 0 && few_each(m, gate->n, in) && kind_of_all(up) && same_kind(gate->w, up->w)) {
        struct expert_product p = product_of(y, x, r, gate);
        p.w[1] = up->on_device, p.gating = *g;
#define CALL(KIND, AHEAD, BLOCKS) launch_few<KIND, 2, AHEAD, BLOCKS>(c, p, m, out)
        BY_KIND(kind, CALL)
#undef CALL
        return;
    }
    size_t mark = scratch_mark(c);
    struct tensor other = scratch_tensor(c, DT_F32, 2, y.n);
    struct rounded q = {x, scratch_tensor(c, DT_BF16, 2, x.n), NOT_YET};
    expert_linear(c, y, &q, r, gate);
    expert_linear(c, other, &q, r, up);
    if (!c->dry && !c->err.set && m > 0)
        launch(c, "experts", gate_kernel, dim3((unsigned)m, (unsigned)ceil_div(out, 256)), 256, 0,
               (float *)y.data, y.stride[0], (const float *)other.data, other.stride[0], (int)out,
               *g);
    scratch_release(c, mark);
}

static __global__ void sum_kernel(float *y, int64_t ldy, const float *x, int64_t ldx, int width,
                                  const int32_t *place, const float *weight, int top, bool add) {
    wait_for_input();
    int64_t row = blockIdx.x;
    int i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i >= width) return;
    float sum = add ? y[row * ldy + i] : 0.0f;
    for (int k = 0; k < top; k++)
        sum += (weight ? weight[row * top + k] : 1.0f) * x[place[row * top + k] * ldx + i];
    y[row * ldy + i] = sum;
}

static void sum_experts(struct context *c, struct tensor y, struct tensor x, const struct routes *r,
                        bool add) {
    if (!y.n[0] || !y.n[1]) return;
    launch(c, "experts", sum_kernel, dim3((unsigned)y.n[0], (unsigned)ceil_div(y.n[1], 256)), 256,
           0, (float *)y.data, y.stride[0], (const float *)x.data, x.stride[0], (int)y.n[1],
           (const int32_t *)r->place.data,
           (const float *)(r->weights.dims ? r->weights.data : NULL), (int)r->ids.n[1], add);
}

void cuda_expert_sum(struct context *c, struct tensor y, struct tensor x, const struct routes *r) {
    sum_experts(c, y, x, r, false);
}

void cuda_expert_sum_to(struct context *c, struct tensor to, struct tensor x,
                        const struct routes *r) {
    sum_experts(c, to, x, r, true);
}
