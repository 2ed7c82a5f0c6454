// An indexer's choice of the tokens that a row sees (DeepSeek V3.2). Scores of some rows go to
// memory, then a block a row finds the least score that is still chosen, a digit at a time, and
// lists the tokens in order.
#include "compute/cuda/device.cuh"

enum { THREADS = 256, TOKENS = 32, HEAD_PARTS = THREADS / TOKENS, SCORES = 16 << 20 };

struct select {
    int32_t *y; // [n, top]
    const float *q, *weights;
    int64_t ldq, ldw, heads, width, top;
    const void *k;
    enum dtype type;
    int64_t page, pages;
    const int32_t *table, *seq, *index;
    int64_t row, ld; // the first row of scores, and floats of one
    float *scores;
};

// One block a row (y) and TOKENS tokens (x): a lane a token, the warps share the heads.
static __global__ void score_kernel(const __grid_constant__ struct select s) {
    extern __shared__ float shared[];
    float *keys = shared; // [TOKENS, width + 1]
    __shared__ float part[HEAD_PARTS][TOKENS];
    wait_for_input();
    int64_t row = s.row + blockIdx.y, seen = (int64_t)s.index[row] + 1;
    int64_t t0 = (int64_t)blockIdx.x * TOKENS;
    if (seen <= s.top || t0 >= seen) return;
    const int32_t *table = s.table + s.seq[row] * s.pages;
    int width = (int)s.width, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int t = warp; t < TOKENS && t0 + t < seen; t += HEAD_PARTS) {
        int64_t at = t0 + t, from = (table[at / s.page] * s.page + at % s.page) * s.width;
        for (int i = lane; i < width; i += 32)
            keys[t * (width + 1) + i] = float_at(s.k, s.type, from + i);
    }
    __syncthreads();
    float sum = 0;
    for (int64_t h = warp; h < s.heads; h += HEAD_PARTS) {
        const float *q = s.q + row * s.ldq + h * s.width;
        float dot = 0;
        for (int i = 0; i < width; i++) dot += q[i] * keys[lane * (width + 1) + i];
        sum += s.weights[row * s.ldw + h] * fmaxf(dot, 0.0f);
    }
    part[warp][lane] = sum;
    __syncthreads();
    if (warp || t0 + lane >= seen) return;
    for (int w = 1; w < HEAD_PARTS; w++) sum += part[w][lane];
    s.scores[blockIdx.y * s.ld + t0 + lane] = sum;
}

// NaN is the least.
static __device__ __forceinline__ uint32_t key_of(float score) {
    return isnan(score) ? 0 : order_of(score);
}

static __global__ void choose_kernel(const __grid_constant__ struct select s) {
    __shared__ int count[256], digit, above;
    wait_for_input();
    int64_t row = s.row + blockIdx.x, seen = (int64_t)s.index[row] + 1;
    int32_t *y = s.y + row * s.top;
    if (seen <= s.top) {
        for (int64_t i = threadIdx.x; i < s.top; i += THREADS) y[i] = i < seen ? (int32_t)i : -1;
        return;
    }
    const float *score = s.scores + blockIdx.x * s.ld;
    uint32_t prefix = 0;
    int wanted = (int)s.top; // of those that begin with the prefix
    for (int shift = 24; shift >= 0; shift -= 8) {
        count[threadIdx.x] = 0;
        __syncthreads();
        uint32_t mask = shift == 24 ? 0 : ~0u << (shift + 8);
        for (int64_t t = threadIdx.x; t < seen; t += THREADS) {
            uint32_t key = key_of(score[t]);
            if ((key & mask) == prefix) atomicAdd(&count[key >> shift & 255], 1);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            int higher = 0, d = 255;
            while (d > 0 && higher + count[d] < wanted) higher += count[d--];
            digit = d, above = higher;
        }
        __syncthreads();
        prefix |= (uint32_t)digit << shift;
        wanted -= above;
        __syncthreads();
    }
    // All above the least chosen score; of those that have it, the first.
    int at = 0, equals = 0;
    for (int64_t from = 0; from < seen; from += THREADS) {
        int64_t t = from + threadIdx.x;
        uint32_t key = t < seen ? key_of(score[t]) : 0;
        int equal_here, chosen_here;
        int rank = equals + before_me<THREADS>(t < seen && key == prefix, &equal_here);
        bool chosen = t < seen && (key > prefix || (key == prefix && rank < wanted));
        int place = at + before_me<THREADS>(chosen, &chosen_here);
        if (chosen) y[place] = (int32_t)t;
        at += chosen_here, equals += equal_here;
    }
}

void cuda_select_keys(struct context *c, struct tensor y, struct tensor q, struct tensor weights,
                      const struct kv *kv, const struct rows *rows) {
    size_t mark = scratch_mark(c);
    struct select s = {};
    s.page = kv->k.n[2], s.pages = kv->table.n[1];
    s.ld = ceil_div(s.page * s.pages, TOKENS) * TOKENS;
    int64_t step = SCORES / s.ld + 1;
    if (step > rows->n) step = rows->n;
    if (step > 65535) step = 65535;
    int64_t size[] = {step, s.ld};
    s.scores = (float *)scratch_tensor(c, DT_F32, 2, size).data;
    s.y = (int32_t *)y.data;
    s.q = (const float *)q.data, s.ldq = q.stride[0];
    s.weights = (const float *)weights.data, s.ldw = weights.stride[0];
    s.heads = q.n[1], s.width = q.n[2], s.top = y.n[1];
    s.k = kv->k.data, s.type = kv->k.type;
    s.table = (const int32_t *)kv->table.data;
    s.seq = (const int32_t *)rows->seq.data, s.index = (const int32_t *)rows->index.data;
    size_t shared = (size_t)(TOKENS * (s.width + 1)) * sizeof(float);
    for (; s.row < rows->n && !c->dry && !c->err.set; s.row += step) {
        int64_t n = rows->n - s.row < step ? rows->n - s.row : step;
        dim3 grid((unsigned)(s.ld / TOKENS), (unsigned)n);
        if (!allow_shared(c, "select_keys", score_kernel, shared)) break;
        launch(c, "select_keys", score_kernel, grid, THREADS, shared, s);
        launch(c, "select_keys", choose_kernel, dim3((unsigned)n), THREADS, 0, s);
    }
    scratch_release(c, mark);
}
