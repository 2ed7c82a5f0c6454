// The best of each row of logits, and sums over the others. Several blocks share a row: each keeps
// the best of its part, in the row's order, and the last one to end makes of these the best of all.
#include "compute/cuda/device.cuh"

enum {
    THREADS = 512,
    WARPS = THREADS / 32,
    ITEMS = 16,
    CHUNK = THREADS * ITEMS,
    MOST = TOP_LOGITS_MOST,
    SLICE = 256 // rows of a launch
};

// What a block leaves of its part: the best, and over the others the sums of exp(x - least).
struct share {
    uint32_t key[MOST]; // 0: none
    int32_t index[MOST];
    float least, sum, cooled;
    int bad;
};

struct top {
    float *value;   // [n, k]
    int32_t *index; // [n, k]
    float *others;  // [n, 3]
    const float *x, *by;
    int64_t row, ld; // the first row, and floats from one to the next
    int width, each, k;
    struct share *share; // [SLICE, blocks of a row]
    int32_t *arrived;    // [SLICE]
};

// NaN counts as -INFINITY, whose key is above 0.
static __device__ __forceinline__ uint32_t key_of(float x) {
    return order_of(isnan(x) ? -INFINITY : x);
}

static __device__ __forceinline__ float value_of(uint32_t key) {
    return __uint_as_float(key >> 31 ? key & ~(1u << 31) : ~key);
}

// The sum over the block. Two calls in a row are of an odd and an even round.
static __device__ __forceinline__ int block_count(int mine, int round) {
    __shared__ int part[2][WARPS];
    int lane = threadIdx.x % 32;
    mine = __reduce_add_sync(~0u, mine);
    if (lane == 0) part[round & 1][threadIdx.x / 32] = mine;
    __syncthreads();
    return __reduce_add_sync(~0u, lane < WARPS ? part[round & 1][lane] : 0);
}

// The block's `wanted`th key from above, or if it has fewer, its last.
static __device__ __forceinline__ uint32_t last_kept(const uint32_t key[ITEMS], int wanted) {
    __shared__ uint32_t last;
    uint32_t from = 0; // so many are not below it
    if (threadIdx.x == 0) last = ~0u;
    for (int bit = 31; bit >= 0; bit--) {
        uint32_t next = from | 1u << bit;
        int mine = 0;
#pragma unroll
        for (int i = 0; i < ITEMS; i++) mine += key[i] >= next;
        int count = block_count(mine, bit);
        if (count >= wanted) from = next;
        if (count == wanted) break;
    }
    uint32_t mine = ~0u;
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
        if (key[i] && key[i] >= from) mine = min(mine, key[i]);
    mine = __reduce_min_sync(~0u, mine);
    if (threadIdx.x % 32 == 0) atomicMin(&last, mine);
    __syncthreads();
    return last;
}

// Makes of counts the sums of those before each, and returns that of all.
static __device__ __forceinline__ uint32_t sums_before(uint32_t count[ITEMS * WARPS]) {
    enum { EACH = ITEMS * WARPS / 32 };
    __shared__ uint32_t all;
    __syncthreads();
    if (threadIdx.x < 32) {
        uint32_t *mine = count + threadIdx.x * EACH, own[EACH], sum = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++) own[i] = sum, sum += mine[i];
        uint32_t upto = sum;
        for (int d = 1; d < 32; d *= 2) {
            uint32_t before = __shfl_up_sync(~0u, upto, d);
            if ((int)threadIdx.x >= d) upto += before;
        }
        if (threadIdx.x == 31) all = upto;
#pragma unroll
        for (int i = 0; i < EACH; i++) mine[i] = own[i] + upto - sum;
    }
    __syncthreads();
    return all;
}

// Keeps in s the best k of a chunk, in which entry i of thread t stands at i * THREADS + t, in the
// order of the chunk but for those that equal the last, which come after the others. s->least and
// the sums are made anew of what they were and of the rest of the chunk.
static __device__ __forceinline__ void keep_best(struct share *s, const uint32_t key[ITEMS],
                                                 const int32_t index[ITEMS], int k, float by) {
    __shared__ uint32_t count[ITEMS * WARPS]; // of better ones; in the upper half of equals
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t last = last_kept(key, k), lower = (1u << lane) - 1;
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int better = __popc(__ballot_sync(~0u, key[i] > last));
        int equal = __popc(__ballot_sync(~0u, key[i] == last));
        if (lane == 0) count[i * WARPS + warp] = better | equal << 16;
    }
    uint32_t all = sums_before(count);
    int better = all & 0xffff, kept = better + (int)(all >> 16);
    float least = value_of(last), sum = 0, cooled = 0;
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        bool is_better = key[i] > last, equal = key[i] == last;
        uint32_t before = count[i * WARPS + warp];
        unsigned mates = __ballot_sync(~0u, is_better), equals = __ballot_sync(~0u, equal);
        int place = (before & 0xffff) + __popc(mates & lower);
        if (equal) place = better + (before >> 16) + __popc(equals & lower);
        if (is_better || (equal && place < k)) {
            s->key[place] = key[i];
            s->index[place] = index[i];
        } else if (key[i] && isfinite(least)) {
            float below = value_of(key[i]) - least;
            sum += expf(below);
            if (by != 1.0f) cooled += expf(below * by);
        }
    }
    for (int i = kept + (int)threadIdx.x; i < MOST; i += THREADS) s->key[i] = 0;
    sum = block_sum(sum);
    cooled = by != 1.0f ? block_sum(cooled) : sum;
    if (threadIdx.x == 0) {
        if (s->sum > 0) sum += s->sum * expf(s->least - least);
        if (s->cooled > 0) cooled += s->cooled * expf((s->least - least) * by);
        s->sum = sum, s->cooled = cooled, s->least = least;
    }
    __syncthreads();
}

static __device__ __forceinline__ void keep_nothing(struct share *s) {
    if (threadIdx.x == 0) s->sum = s->cooled = 0, s->least = -INFINITY, s->bad = 0;
    __syncthreads();
}

// The best of x[from, to), at most CHUNK.
static __device__ void keep_of_row(struct share *s, const float *x, int from, int to, int k,
                                   float by) {
    uint32_t key[ITEMS];
    int32_t index[ITEMS];
    bool bad = false;
    keep_nothing(s);
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        index[i] = from + i * THREADS + threadIdx.x;
        float value = index[i] < to ? x[index[i]] : 0.0f;
        key[i] = index[i] < to ? key_of(value) : 0;
        bad = bad || isnan(value);
    }
    bad = __syncthreads_or(bad);
    if (threadIdx.x == 0) s->bad = bad;
    keep_best(s, key, index, k, by);
}

// The best of what the blocks of a row left.
static __device__ void keep_of_shares(struct share *s, const struct share *from, int shares, int k,
                                      float by) {
    uint32_t key[ITEMS];
    int32_t index[ITEMS];
    int all = shares * MOST;
    keep_nothing(s);
    for (int at = 0, held = 0; at < all; at += CHUNK - held, held = MOST) {
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            int place = i * THREADS + threadIdx.x, entry = at + place - held;
            const struct share *own = place < held ? s : from + entry / MOST;
            int slot = place < held ? place : entry % MOST;
            bool is = place < held || entry < all;
            key[i] = is ? own->key[slot] : 0;
            index[i] = is ? own->index[slot] : 0;
        }
        __syncthreads();
        keep_best(s, key, index, k, by);
    }
    float sum = 0, cooled = 0;
    bool bad = false;
    for (int i = threadIdx.x; i < shares; i += THREADS) {
        if (from[i].sum > 0) sum += from[i].sum * expf(from[i].least - s->least);
        if (from[i].cooled > 0) cooled += from[i].cooled * expf((from[i].least - s->least) * by);
        bad = bad || from[i].bad;
    }
    sum = block_sum(sum), cooled = block_sum(cooled), bad = __syncthreads_or(bad);
    if (threadIdx.x == 0) s->sum += sum, s->cooled += cooled, s->bad = bad;
    __syncthreads();
}

// Writes a row's result: each entry goes to the place that so many are before.
static __device__ void tell(const struct top &t, const struct share *s, int64_t row) {
    enum { HELPERS = THREADS / MOST };
    int i = threadIdx.x / HELPERS, before = 0;
    uint32_t own = s->key[i];
    for (int j = threadIdx.x % HELPERS; j < t.k; j += HELPERS)
        before += s->key[j] > own || (s->key[j] == own && j < i);
    for (int d = 1; d < HELPERS; d *= 2) before += __shfl_xor_sync(~0u, before, d);
    if (i < t.k && threadIdx.x % HELPERS == 0) {
        t.value[row * t.k + before] = value_of(own);
        t.index[row * t.k + before] = s->index[i];
    }
    bool finite = isfinite(s->least);
    if (threadIdx.x == 0) t.others[row * 3] = finite ? s->sum : 0;
    if (threadIdx.x == 1) t.others[row * 3 + 1] = finite ? s->cooled : 0;
    if (threadIdx.x == 2) t.others[row * 3 + 2] = s->bad ? 1 : 0;
}

static __global__ void __launch_bounds__(THREADS) top_kernel(const __grid_constant__ struct top t) {
    __shared__ struct share kept;
    __shared__ bool is_last;
    wait_for_input();
    int64_t row = t.row + blockIdx.y;
    int from = (int)blockIdx.x * t.each, to = min(from + t.each, t.width);
    float by = t.by[row];
    keep_of_row(&kept, t.x + row * t.ld, from, to, t.k, by);
    if (gridDim.x > 1) {
        struct share *shares = t.share + (int64_t)blockIdx.y * gridDim.x;
        __syncthreads();
        const uint32_t *words = (const uint32_t *)&kept;
        uint32_t *out = (uint32_t *)(shares + blockIdx.x);
        for (int i = threadIdx.x; i < (int)(sizeof kept / 4); i += THREADS) out[i] = words[i];
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) {
            int32_t *arrived = t.arrived + blockIdx.y;
            is_last = atomicAdd(arrived, 1) == (int32_t)gridDim.x - 1;
            if (is_last) *arrived = 0;
        }
        __syncthreads();
        if (!is_last) return;
        __threadfence();
        keep_of_shares(&kept, shares, (int)gridDim.x, t.k, by);
    }
    __syncthreads();
    tell(t, &kept, row);
}

void cuda_top_logits(struct context *c, const struct top_logits *to, struct tensor x,
                     struct tensor by) {
    int64_t n = x.n[0], width = x.n[1], blocks = ceil_div(width, CHUNK);
    int64_t slice = n < SLICE ? n : (int64_t)SLICE;
    int64_t size[] = {slice * blocks * (int64_t)(sizeof(struct share) / sizeof(float))};
    struct tensor work = scratch_tensor(c, DT_F32, 1, size);
    if (c->dry || c->err.set) return;
    struct top t = {};
    t.value = (float *)to->value.data, t.index = (int32_t *)to->index.data;
    t.others = (float *)to->others.data;
    t.x = (const float *)x.data, t.ld = x.stride[0], t.by = (const float *)by.data;
    t.width = (int)width, t.k = (int)to->value.n[1];
    t.each = (int)(ceil_div(ceil_div(width, blocks), 32) * 32);
    t.share = (struct share *)work.data, t.arrived = c->dev->cuda->arrived;
    for (; t.row < n; t.row += slice) {
        unsigned rows = (unsigned)(n - t.row < slice ? n - t.row : slice);
        launch(c, "top_logits", top_kernel, dim3((unsigned)blocks, rows), THREADS, 0, t);
    }
}
