// Attention of generation on tensor cores: the queries that share a kv head, 16 at most, are the
// rows of a tile. A block has a part of the keys that a row sees, its warps every tile in turn; the
// tiles come through two buffers of a warp's own. The block of a row and kv head that is done last
// merges what all found.
#include "compute/cuda/attend_tiles.cuh"

enum { KEYS = 32, HEADS = 16, WARPS = 4 };

// A tile that begins at a multiple of KEYS lies in one page.
template <int D>
static __device__ __forceinline__ void copy_tile(uint16_t *to, const struct attend &a,
                                                 const int32_t *table, int64_t kv_head, int32_t t0,
                                                 int32_t seen, int32_t until) {
    int lane = threadIdx.x % 32;
    int64_t from = cache_row(a, table, kv_head, t0) * D + lane * 8;
    const uint16_t *keys = (const uint16_t *)a.k + from, *values = (const uint16_t *)a.v + from;
    uint16_t *k = to + lane / (D / 8) * (D + PAD) + lane % (D / 8) * 8;
    uint16_t *v = k + KEYS * (D + PAD);
    const int rows = 32 * 8 / D; // that the lanes copy at once
#pragma unroll
    for (int i = 0; i < KEYS / rows; i++) {
        int32_t t = t0 + i * rows + lane / (D / 8);
        bool there = t >= seen && t <= until; // what is not may be anything, and 0 times it NaN
        copy16(k + i * rows * (D + PAD), keys + i * rows * D, there);
        copy16(v + i * rows * (D + PAD), values + i * rows * D, there);
    }
}

// Pair p of step d: queries lane / 4 + 8 (p % 2), as load_queries of attend_tiles.cu.
template <int D, bool BRAIN>
static __device__ __forceinline__ void load_heads(uint32_t q[D / 16][4], const struct attend &a,
                                                  int64_t row, int64_t head, int heads,
                                                  float scale) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int own = lane / 4 + 8 * h;
        const float *from = a.q + row * a.ldq + (head + own) * D + 2 * (lane % 4);
#pragma unroll
        for (int d = 0; d < D / 8; d++) {
            float2 v = make_float2(0, 0);
            if (own < heads) v = __ldcg((const float2 *)(from + d * 8));
            q[d / 2][h + d % 2 * 2] = narrow<BRAIN>(v.x * scale, v.y * scale);
        }
    }
}

// What the warps of a block, or the blocks of a row, found of a query: sums, tops and totals.
struct found {
    const float *sums, *tops; // a total stands after its top
    int64_t step, step_tops;  // from one to the next
    int count;
};

// Column i of the query, and its top and total. Tops are powers of 2.
static __device__ __forceinline__ float merged(const struct found &f, int i, float *top,
                                               float *total) {
    float sum = 0;
    *top = -INFINITY, *total = 0;
    for (int p = 0; p < f.count; p++) *top = fmaxf(*top, __ldcg(f.tops + p * f.step_tops));
    for (int p = 0; p < f.count; p++) {
        float keep = power2(__ldcg(f.tops + p * f.step_tops) - *top);
        *total += keep * __ldcg(f.tops + p * f.step_tops + 1);
        sum += keep * __ldcg(f.sums + p * f.step + i);
    }
    return sum;
}

template <int D, bool BRAIN>
static __global__ void __launch_bounds__(WARPS * 32)
    step_kernel(const __grid_constant__ struct attend a) {
    extern __shared__ uint4 memory[];
    __shared__ float tops[WARPS][HEADS][2];
    __shared__ bool is_last;
    const int tile = 2 * KEYS * (D + PAD); // of keys and values
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    int64_t row = blockIdx.z, parts = ceil_div(a.group, HEADS), kv_head = blockIdx.y / parts;
    int64_t in_group = blockIdx.y % parts * HEADS, head = kv_head * a.group + in_group;
    int heads = (int)(a.group - in_group < HEADS ? a.group - in_group : HEADS);
    int64_t last = a.index[row], first = first_seen(a, last) / KEYS * KEYS;
    struct span s = span_of(a, first, last, blockIdx.x, (int64_t)KEYS * warps);
    if (s.from >= s.to) return;
    const int32_t *table = a.table + a.seq[row] * a.pages;
    uint16_t *own = (uint16_t *)memory + warp * 2 * tile;
    int32_t seen[2] = {(int32_t)first_seen(a, last), 0}, until[2] = {(int32_t)s.to - 1, 0};
    int32_t t = (int32_t)s.from + warp * KEYS, step = KEYS * warps;
    seen[1] = seen[0], until[1] = until[0];
    bool early = a.early && t + KEYS <= last;
    if (early && t <= until[0]) copy_tile<D>(own, a, table, kv_head, t, seen[0], until[0]);
    wait_for_input();
    if (!early && t <= until[0]) copy_tile<D>(own, a, table, kv_head, t, seen[0], until[0]);
    asm volatile("cp.async.commit_group;");
    uint32_t q[D / 16][4];
    load_heads<D, BRAIN>(q, a, row, head, heads,
                         scale_of(a, last) * (a.soft_cap > 0 ? 1.0f : LOG2E));
    struct running<D> r = {};
    r.top[0] = r.top[1] = -INFINITY;
    for (int buffer = 0; t <= until[0]; t += step, buffer ^= 1) {
        __syncwarp();
        if (t + step <= until[0])
            copy_tile<D>(own + (buffer ^ 1) * tile, a, table, kv_head, t + step, seen[0], until[0]);
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_group 1;");
        __syncwarp();
        const uint16_t *k = own + buffer * tile;
        attend_tile<D, BRAIN, KEYS>(r, q, k, k + tile / 2, a, t, seen, until);
    }
    __syncwarp();
    float *sums = (float *)own; // [HEADS, D] where the tiles were
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int at = lane / 4 + 8 * h;
        float total = r.total[h];
        total += __shfl_xor_sync(~0u, total, 1);
        total += __shfl_xor_sync(~0u, total, 2);
        if (lane % 4 == 0) tops[warp][at][0] = r.top[h], tops[warp][at][1] = total;
#pragma unroll
        for (int d = 0; d < D / 8; d++)
            *(float2 *)(sums + at * D + d * 8 + lane % 4 * 2) =
                make_float2(r.acc[d][2 * h], r.acc[d][2 * h + 1]);
    }
    __syncthreads();
    bool whole = s.count == 1;
    float top, total;
    int64_t y = row * a.ldy + head * D;
    int64_t each = D + 2;
    float *found = a.parts + (row * a.heads + head) * a.splits * each;
    for (int i = threadIdx.x; i < heads * D; i += blockDim.x) {
        int h = i / D, column = i % D;
        float sum = 0;
        top = -INFINITY, total = 0;
        for (int w = 0; w < warps; w++) top = fmaxf(top, tops[w][h][0]);
        for (int w = 0; w < warps; w++) {
            float keep = power2(tops[w][h][0] - top);
            total += keep * tops[w][h][1];
            sum += keep * ((const float *)memory)[(size_t)w * tile + h * D + column];
        }
        if (whole) {
            put_one(a, y + i, sum / (total + sink_of(a, head + h, top / LOG2E)));
            continue;
        }
        float *to = found + (h * a.splits + blockIdx.x) * each;
        to[column] = sum;
        if (column == 0) to[D] = top, to[D + 1] = total;
    }
    if (whole) return;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        int32_t *arrived = a.arrived + row * gridDim.y + blockIdx.y;
        is_last = atomicAdd(arrived, 1) == (int32_t)s.count - 1;
        if (is_last) *arrived = 0;
    }
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    for (int i = threadIdx.x; i < heads * D; i += blockDim.x) {
        const float *from = found + i / D * a.splits * each;
        struct found f = {from, from + D, each, each, (int)s.count};
        float sum = merged(f, i % D, &top, &total);
        put_one(a, y + i, sum / (total + sink_of(a, head + i / D, top / LOG2E)));
    }
}

template <int D, bool BRAIN> static void launch_steps(struct context *c, struct attend *a) {
    int64_t blocks = a->n * a->kv_heads * ceil_div(a->group, HEADS);
    int64_t processors = c->dev->cuda->processors;
    int warps = blocks >= 2 * processors ? 1 : blocks >= processors ? 2 : WARPS;
    int64_t most = ceil_div(a->pages * a->page, KEYS * warps);
    a->splits = processors / blocks;
    if (a->splits > most) a->splits = most;
    if (a->splits > SPLITS_MOST) a->splits = SPLITS_MOST;
    if (a->splits < 1) a->splits = 1;
    size_t size = (size_t)warps * 4 * KEYS * (D + PAD) * 2;
    auto kernel = step_kernel<D, BRAIN>;
    dim3 grid((unsigned)a->splits, (unsigned)(a->kv_heads * ceil_div(a->group, HEADS)),
              (unsigned)a->n);
    if (allow_shared(c, "attention", kernel, size))
        launch(c, "attention", kernel, grid, warps * 32, size, *a);
}

bool attend_steps(struct context *c, struct attend *a) {
    bool brain = a->type == DT_BF16;
    if (a->k_width != a->v_width || a->v == a->k || a->page % KEYS || a->ldq % 2) return false;
    a->arrived = c->dev->cuda->arrived, a->early = c->dev->cuda->is_recording;
    if (a->k_width == 128)
        brain ? launch_steps<128, true>(c, a) : launch_steps<128, false>(c, a);
    else if (a->k_width == 64)
        brain ? launch_steps<64, true>(c, a) : launch_steps<64, false>(c, a);
    else
        return false;
    return true;
}
