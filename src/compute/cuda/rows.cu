// Ops over rows that are bound by memory: embeddings, norms, elementwise, rotations, cache writes.
#include "compute/cuda/place.cuh"

enum { THREADS = 256 };

// Rows of F32: element (row, i) is at p[row * ld + i].
struct view {
    float *p;
    int64_t n, width, ld;
};

static struct view view_of(struct tensor t) {
    struct view v = {(float *)t.data, t.n[0], t.dims > 1 ? t.stride[0] : 1, t.stride[0]};
    v.width = 1;
    for (int d = 1; d < t.dims; d++) v.width *= t.n[d];
    return v;
}

// Blocks over an [n, width]: a row each x, THREADS columns each y.
static dim3 grid_of(const struct view &v) {
    return dim3((unsigned)v.n, (unsigned)ceil_div(v.width, THREADS));
}

static __device__ __forceinline__ int my_column() { return blockIdx.y * THREADS + threadIdx.x; }

// --- elementwise ---------------------------------------------------------------------------------

enum unary { UNARY_ACT, UNARY_SCALE, UNARY_CAP };

static __global__ void unary_kernel(struct view x, enum unary what, int act, float by) {
    wait_for_input();
    int k = my_column();
    if (k >= x.width) return;
    float *p = x.p + blockIdx.x * x.ld + k;
    if (what == UNARY_ACT) *p = activated(*p, act);
    if (what == UNARY_SCALE) *p *= by;
    if (what == UNARY_CAP) *p = by * tanhf(*p / by);
}

static void unary(struct context *c, struct tensor x, enum unary what, int act, float by) {
    struct view v = view_of(x);
    if (v.n * v.width == 0) return;
    launch(c, "an elementwise op", unary_kernel, grid_of(v), THREADS, 0, v, what, act, by);
}

void cuda_activate(struct context *c, struct tensor x, enum activation act) {
    unary(c, x, UNARY_ACT, act, 0);
}

void cuda_scale(struct context *c, struct tensor x, float by) { unary(c, x, UNARY_SCALE, 0, by); }

void cuda_soft_cap(struct context *c, struct tensor x, float cap) {
    unary(c, x, UNARY_CAP, 0, cap);
}

static __global__ void clamp_kernel(struct view x, float least, float most, float plus) {
    wait_for_input();
    int k = my_column();
    if (k >= x.width) return;
    float *p = x.p + blockIdx.x * x.ld + k, v = *p < least ? least : *p;
    *p = (v > most ? most : v) + plus;
}

void cuda_clamp(struct context *c, struct tensor x, float least, float most, float plus) {
    struct view v = view_of(x);
    if (v.n * v.width == 0) return;
    launch(c, "clamp", clamp_kernel, grid_of(v), THREADS, 0, v, least, most, plus);
}

enum binary { BINARY_ADD, BINARY_COPY, BINARY_ACT_MUL, BINARY_SCALE_ROWS, BINARY_SCALE_COLUMNS };

// N columns a thread: 4 where all rows are aligned to 16 bytes.
template <int N> struct columns { float v[N]; };

template <> struct __align__(16) columns<4> { float v[4]; };

template <int N>
static __global__ void binary_kernel(struct view y, struct view a, struct view b, enum binary what,
                                     int act) {
    wait_for_input();
    int64_t row = blockIdx.x;
    int k = my_column() * N;
    if (k >= y.width) return;
    struct columns<N> *to = (struct columns<N> *)(y.p + row * y.ld + k), t = *to, from, other;
    if (what == BINARY_SCALE_ROWS)
        for (int i = 0; i < N; i++) from.v[i] = a.p[row * a.ld];
    else
        from =
            *(const struct columns<N> *)(a.p + (what == BINARY_SCALE_COLUMNS ? 0 : row * a.ld) + k);
    if (what == BINARY_ACT_MUL) other = *(const struct columns<N> *)(b.p + row * b.ld + k);
#pragma unroll
    for (int i = 0; i < N; i++) {
        if (what == BINARY_ADD) t.v[i] += from.v[i];
        if (what == BINARY_COPY) t.v[i] = from.v[i];
        if (what == BINARY_SCALE_ROWS || what == BINARY_SCALE_COLUMNS) t.v[i] *= from.v[i];
        if (what == BINARY_ACT_MUL) t.v[i] = activated(from.v[i], act) * other.v[i];
    }
    *to = t;
}

static bool aligned(const struct view &v) {
    return ((uintptr_t)v.p | (uintptr_t)v.ld * 4 | (uintptr_t)v.width * 4) % 16 == 0;
}

static void binary(struct context *c, struct tensor y, struct tensor a, struct tensor b,
                   enum binary what, int act) {
    struct view v = view_of(y), from = view_of(a), other = view_of(b), part = v;
    if (v.n * v.width == 0) return;
    bool by_four = aligned(v) && (what == BINARY_SCALE_ROWS || (aligned(from) && aligned(other)));
    if (by_four) part.width = v.width / 4;
    launch(c, "an elementwise op", by_four ? binary_kernel<4> : binary_kernel<1>, grid_of(part),
           THREADS, 0, v, from, other, what, act);
}

void cuda_act_mul(struct context *c, struct tensor y, struct tensor a, struct tensor b,
                  enum activation act) {
    binary(c, y, a, b, BINARY_ACT_MUL, act);
}

void cuda_add_to(struct context *c, struct tensor x, struct tensor y) {
    binary(c, x, y, y, BINARY_ADD, 0);
}

void cuda_scale_rows(struct context *c, struct tensor x, struct tensor by) {
    binary(c, x, by, by, BINARY_SCALE_ROWS, 0);
}

void cuda_scale_columns(struct context *c, struct tensor x, struct tensor by) {
    struct tensor row = tensor_2d(DT_F32, 1, by.n[0], by.data);
    binary(c, x, row, row, BINARY_SCALE_COLUMNS, 0);
}

void cuda_copy_to(struct context *c, struct tensor to, struct tensor from) {
    binary(c, to, from, from, BINARY_COPY, 0);
}

// y [n, width]: row i, column k is x's row rows[i] (NULL: i), column k / count * period + from +
// k % count.
static __global__ void take_kernel(struct view y, struct view x, const int32_t *rows, int period,
                                   int from, int count) {
    wait_for_input();
    int64_t row = blockIdx.x;
    int k = my_column();
    if (k >= y.width) return;
    int64_t source = rows ? rows[row] : row;
    y.p[row * y.ld + k] = x.p[source * x.ld + k / count * period + from + k % count];
}

void cuda_gather_rows(struct context *c, struct tensor y, struct tensor x, struct tensor rows) {
    struct view v = view_of(y);
    if (v.n * v.width == 0) return;
    launch(c, "gather_rows", take_kernel, grid_of(v), THREADS, 0, v, view_of(x),
           (const int32_t *)rows.data, (int)v.width, 0, (int)v.width);
}

void cuda_take_bands(struct context *c, struct tensor y, struct tensor x, int64_t period,
                     int64_t from, int64_t count) {
    struct view v = view_of(y);
    if (v.n * v.width == 0) return;
    launch(c, "take_bands", take_kernel, grid_of(v), THREADS, 0, v, view_of(x),
           (const int32_t *)NULL, (int)period, (int)from, (int)count);
}

// y's rows [heads, width]: a's width elements, then b's.
static __global__ void join_kernel(struct view y, struct view a, struct view b, int a_width,
                                   int b_width) {
    wait_for_input();
    int64_t row = blockIdx.x;
    int i = my_column();
    if (i >= y.width) return;
    int head = i / (a_width + b_width), k = i % (a_width + b_width);
    y.p[row * y.ld + i] = k < a_width ? a.p[row * a.ld + head * a_width + k]
                                      : b.p[row * b.ld + head * b_width + k - a_width];
}

void cuda_join(struct context *c, struct tensor y, struct tensor a, struct tensor b) {
    struct view v = view_of(y);
    if (v.n * v.width == 0) return;
    launch(c, "join", join_kernel, grid_of(v), THREADS, 0, v, view_of(a), view_of(b),
           (int)tensor_width(a), (int)tensor_width(b));
}

// y [n, width] = rate * softplus(x + bias)
static __global__ void log_decay_kernel(struct view y, struct view x, const float *rate,
                                        const float *bias) {
    wait_for_input();
    int64_t row = blockIdx.x;
    int k = my_column();
    if (k < y.width) y.p[row * y.ld + k] = rate[k] * softplus(x.p[row * x.ld + k] + bias[k]);
}

void cuda_log_decay(struct context *c, struct tensor y, struct tensor x, struct tensor rate,
                    struct tensor bias) {
    struct view v = view_of(y);
    if (v.n * v.width == 0) return;
    launch(c, "log_decay", log_decay_kernel, grid_of(v), THREADS, 0, v, view_of(x),
           (const float *)rate.data, (const float *)bias.data);
}

// --- streams (Gemma 3n) --------------------------------------------------------------------------

static __global__ void bound_kernel(int32_t *y, const int32_t *id, int64_t n, int64_t limit) {
    wait_for_input();
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n) y[i] = id[i] < limit ? id[i] : 0;
}

void cuda_bound_ids(struct context *c, struct tensor y, struct tensor ids, int64_t limit) {
    int64_t n = ids.n[0];
    if (!n) return;
    launch(c, "bound_ids", bound_kernel, dim3((unsigned)ceil_div(n, THREADS)), THREADS, 0,
           (int32_t *)y.data, (const int32_t *)ids.data, n, limit);
}

// One block a row.
static __global__ void match_kernel(struct view x, struct view like, float least) {
    wait_for_input();
    float *p = x.p + blockIdx.x * x.ld, is = 0, wanted = 0;
    const float *q = like.p + blockIdx.x * like.ld;
    for (int i = threadIdx.x; i < x.width; i += THREADS) is += p[i] * p[i], wanted += q[i] * q[i];
    is = block_sum(is) / (float)x.width, wanted = block_sum(wanted) / (float)x.width;
    float by = sqrtf(wanted) / sqrtf(is < least ? least : is);
    for (int i = threadIdx.x; i < x.width; i += THREADS) p[i] *= by;
}

void cuda_match_size(struct context *c, struct tensor x, struct tensor like, float least) {
    struct view v = view_of(x);
    if (v.n * v.width == 0) return;
    launch(c, "match_size", match_kernel, dim3((unsigned)v.n), THREADS, 0, v, view_of(like), least);
}

// One block a row.
static __global__ void cut_kernel(struct view x, float by) {
    wait_for_input();
    float *p = x.p + blockIdx.x * x.ld, mean = 0, square = 0;
    for (int i = threadIdx.x; i < x.width; i += THREADS) mean += p[i];
    mean = block_sum(mean) / (float)x.width;
    for (int i = threadIdx.x; i < x.width; i += THREADS) square += (p[i] - mean) * (p[i] - mean);
    float least = by * sqrtf(block_sum(square) / (float)x.width);
    for (int i = threadIdx.x; i < x.width; i += THREADS) {
        float v = p[i] - mean;
        p[i] = v < least ? 0.0f : v - least;
    }
}

void cuda_cut_below(struct context *c, struct tensor x, float by) {
    struct view v = view_of(x);
    if (v.n * v.width == 0) return;
    launch(c, "cut_below", cut_kernel, dim3((unsigned)v.n), THREADS, 0, v, by);
}

static __global__ void mix_kernel(struct view y, struct view x, struct view w, int in, int width) {
    wait_for_input();
    int64_t row = blockIdx.x;
    int k = my_column();
    if (k >= y.width) return;
    float sum = 0;
    for (int i = 0; i < in; i++)
        sum += w.p[row * w.ld + k / width * in + i] * x.p[row * x.ld + i * width + k % width];
    y.p[row * y.ld + k] = sum;
}

void cuda_mix_streams(struct context *c, struct tensor y, struct tensor x, struct tensor w,
                      int64_t in) {
    struct view v = view_of(y);
    if (v.n * v.width == 0) return;
    launch(c, "mix_streams", mix_kernel, grid_of(v), THREADS, 0, v, view_of(x), view_of(w), (int)in,
           (int)(x.n[1] / in));
}

// --- norms ---------------------------------------------------------------------------------------

// One block a row of the last dimension; `each` of them in a row of the first. w and b have `sets`
// rows, one for each of those, or one for all.
static __global__ void norm_kernel(float *y, int64_t ldy, const float *x, int64_t ldx, int each,
                                   int width, const float *w, const float *b, int64_t sets,
                                   float eps, bool centred) {
    wait_for_input();
    int64_t row = blockIdx.x / each, part = blockIdx.x % each;
    if (w && sets > 1) w += part * width;
    if (b && sets > 1) b += part * width;
    x += row * ldx + part * width;
    y += row * ldy + part * width;
    float mean = 0, square = 0;
    if (centred) {
        for (int i = threadIdx.x; i < width; i += blockDim.x) mean += x[i];
        mean = block_sum(mean) / (float)width;
    }
#pragma unroll 4
    for (int i = threadIdx.x; i < width; i += blockDim.x) square += (x[i] - mean) * (x[i] - mean);
    float scale = 1.0f / sqrtf(block_sum(square) / (float)width + eps);
#pragma unroll 4
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        y[i] = (x[i] - mean) * scale * (w ? w[i] : 1.0f) + (b ? b[i] : 0.0f);
}

static void norm(struct context *c, struct tensor y, struct tensor x, struct tensor w,
                 struct tensor b, float eps, bool centred) {
    int64_t rows = tensor_rows(x), width = tensor_width(x);
    if (!rows || !width) return;
    int64_t sets = w.dims > 1 || b.dims > 1 ? rows / x.n[0] : 1;
    int threads = width <= 128 ? 32 : width <= 1024 ? 128 : 1024;
    launch(c, centred ? "layer_norm" : "rms_norm", norm_kernel, dim3((unsigned)rows), threads, 0,
           (float *)y.data, y.stride[0], (const float *)x.data, x.stride[0], (int)(rows / x.n[0]),
           (int)width, (const float *)(w.dims ? w.data : NULL),
           (const float *)(b.dims ? b.data : NULL), sets, eps, centred);
}

void cuda_rms_norm(struct context *c, struct tensor y, struct tensor x, struct tensor w,
                   float eps) {
    struct tensor none = {};
    norm(c, y, x, w, none, eps, false);
}

void cuda_layer_norm(struct context *c, struct tensor y, struct tensor x, struct tensor w,
                     struct tensor b, float eps) {
    norm(c, y, x, w, b, eps, true);
}

// One block of NARROW threads a row, which it reads twice; 4 columns a thread.
enum { NARROW = 256 };
static __global__ void narrow_norm_kernel(uint2 *y, const float *x, int64_t ldx, int width,
                                          const float *w, float eps) {
    wait_for_input();
    const float4 *from = (const float4 *)(x + blockIdx.x * ldx), *by = (const float4 *)w;
    int fours = width / 4;
    float square = 0;
#pragma unroll 4
    for (int i = threadIdx.x; i < fours; i += NARROW) {
        float4 v = from[i];
        square += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    float scale = 1.0f / sqrtf(block_sum(square) / (float)width + eps);
    y += (int64_t)blockIdx.x * fours;
#pragma unroll 4
    for (int i = threadIdx.x; i < fours; i += NARROW) {
        float4 v = from[i], u = w ? by[i] : make_float4(1, 1, 1, 1);
        y[i] = make_uint2(pack(v.x * scale * u.x, v.y * scale * u.y),
                          pack(v.z * scale * u.z, v.w * scale * u.w));
    }
}

void cuda_rms_norm_narrow(struct context *c, struct tensor y, struct tensor x,
                          const struct rms *norm) {
    launch(c, "rms_norm", narrow_norm_kernel, dim3((unsigned)x.n[0]), NARROW, 0, (uint2 *)y.data,
           (const float *)x.data, x.stride[0], (int)x.n[1],
           (const float *)(norm->w.dims ? norm->w.data : NULL), norm->eps);
}

static __global__ void convert_kernel(void *to, const void *from, int64_t n, bool narrow) {
    wait_for_input();
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    if (narrow)
        ((__nv_bfloat16 *)to)[i] = __float2bfloat16_rn(((const float *)from)[i]);
    else
        ((float *)to)[i] = __bfloat162float(((const __nv_bfloat16 *)from)[i]);
}

void cuda_convert(struct context *c, struct tensor to, struct tensor from) {
    int64_t n = tensor_count(to);
    if (!n) return;
    launch(c, "a conversion", convert_kernel, dim3((unsigned)ceil_div(n, THREADS)), THREADS, 0,
           to.data, (const void *)from.data, n, to.type == DT_BF16);
}

// --- rotations and the cache ---------------------------------------------------------------------

enum { ROPE_HEADS = 8 }; // that share the sines of a block

// One block a row and ROPE_HEADS heads, a thread a pair.
static __global__ void rope_kernel(float *x, int64_t ld, int heads, int width, struct rotation r) {
    wait_for_input();
    int64_t row = blockIdx.x;
    int from = blockIdx.y * ROPE_HEADS, to = min(from + ROPE_HEADS, heads), pairs = (int)r.pairs;
    const float *freq = r.long_freq && r.length[row] > r.longest ? r.long_freq : r.freq;
    for (int pair = threadIdx.x; pair < pairs; pair += blockDim.x) {
        float sine, cosine;
        sincosf((float)r.pos[row] * freq[pair], &sine, &cosine);
        sine *= r.scale, cosine *= r.scale;
        for (int h = from; h < to; h++) {
            float *head = x + row * ld + h * width;
            float *a = r.interleaved ? head + 2 * pair : head + pair;
            float *b = r.interleaved ? a + 1 : a + pairs;
            float was = *a, other = *b;
            *a = was * cosine - other * sine;
            *b = other * cosine + was * sine;
        }
    }
}

void cuda_rope(struct context *c, struct tensor x, const struct rows *rows, const struct rope *r) {
    struct rotation t = rotation_of(rows, r);
    if (!x.n[0] || !t.pairs) return;
    dim3 grid((unsigned)x.n[0], (unsigned)ceil_div(x.n[1], ROPE_HEADS));
    launch(c, "rope", rope_kernel, grid, t.pairs <= 32 ? 32 : 64, 0, (float *)x.data, x.stride[0],
           (int)x.n[1], (int)x.n[2], t);
}

// One block a row and head.
static __global__ void kv_write_kernel(struct tensor k_cache, struct tensor v_cache,
                                       const int32_t *table, int64_t pages, const int32_t *seq,
                                       const int32_t *index, const float *k, int64_t ldk,
                                       const float *v, int64_t ldv) {
    wait_for_input();
    int row = blockIdx.x, head = blockIdx.y, size = (int)k_cache.n[2], at = index[row];
    int64_t page = table[seq[row] * pages + at / size];
    int64_t slot = (page * k_cache.n[1] + head) * size + at % size;
    int k_width = (int)k_cache.n[3], v_width = (int)v_cache.n[3];
    for (int i = threadIdx.x; i < k_width; i += blockDim.x)
        put_float(k_cache.data, k_cache.type, slot * k_width + i,
                  k[row * ldk + head * k_width + i]);
    for (int i = threadIdx.x; v && i < v_width; i += blockDim.x)
        put_float(v_cache.data, v_cache.type, slot * v_width + i,
                  v[row * ldv + head * v_width + i]);
}

void cuda_kv_write(struct context *c, const struct kv *kv, const struct rows *rows, struct tensor k,
                   struct tensor v) {
    if (!rows->n) return;
    dim3 grid((unsigned)rows->n, (unsigned)kv->k.n[1]);
    launch(c, "kv_write", kv_write_kernel, grid, 128, 0, kv->k, kv->v,
           (const int32_t *)kv->table.data, kv->table.n[1], (const int32_t *)rows->seq.data,
           (const int32_t *)rows->index.data, (const float *)k.data, k.stride[0],
           (const float *)(v.dims ? v.data : NULL), v.stride[0]);
}

struct place {
    struct heads q, k, v;
    bool normed, turned;
    float eps;
    struct rotation r;
    struct tensor k_cache, v_cache;
    const int32_t *table, *seq, *index;
    int64_t pages;
    int each; // heads a warp, which share a row's sines
};

enum { PLACE_WARPS = 4, PLACE_WIDTH = 256, PLACE_MANY = 128, PLACE_EACH = 6 };

// A warp `each` heads (x) of a row (y): queries in place, keys and values to the cache.
static __global__ void place_kernel(const __grid_constant__ struct place p) {
    __shared__ float heads[PLACE_WARPS][PLACE_WIDTH], waves[PLACE_WARPS][PLACE_WIDTH];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int begin = (blockIdx.x * PLACE_WARPS + warp) * p.each;
    int end = min(begin + p.each, p.q.count + p.k.count + p.v.count);
    int64_t row = blockIdx.y;
    if (begin >= end) return;
    float *own = heads[warp], *wave = waves[warp];
    int size = (int)p.k_cache.n[2], place = p.index[row];
    int64_t page = p.table[p.seq[row] * p.pages + place / size];
    const float *freq = p.r.long_freq && p.r.length[row] > p.r.longest ? p.r.long_freq : p.r.freq;
    int turns = p.turned && begin < p.q.count + p.k.count ? (int)p.r.pairs : 0;
    for (int pair = lane; pair < turns; pair += 32)
        sincosf((float)p.r.pos[row] * freq[pair], &wave[2 * pair], &wave[2 * pair + 1]);
    for (int at = begin; at < end; at++) {
        bool value = at >= p.q.count + p.k.count, key = !value && at >= p.q.count;
        const struct heads &h = value ? p.v : key ? p.k : p.q;
        int head = value ? at - p.q.count - p.k.count : key ? at - p.q.count : at;
        float *from = h.p + row * h.ld + head * h.width;
        const struct tensor &cache = value ? p.v_cache : p.k_cache;
        int64_t slot = (page * cache.n[1] + head) * size + place % size;
        float w[PLACE_WIDTH / 32], sum = 0;
#pragma unroll
        for (int k = 0; k < PLACE_WIDTH / 32; k++) {
            int i = lane + 32 * k;
            bool there = p.normed && !value && h.norm && i < h.width;
            w[k] = there ? h.norm[(h.norm_each ? head * h.width : 0) + i] : 1.0f;
        }
        if (at == begin) wait_for_input();
        for (int i = lane; i < h.width; i += 32) own[i] = from[i];
        if (!value && p.normed) {
            for (int i = lane; i < h.width; i += 32) sum += own[i] * own[i];
            float scale = 1.0f / sqrtf(warp_sum(sum) / (float)h.width + p.eps);
#pragma unroll
            for (int k = 0; k < PLACE_WIDTH / 32; k++)
                if (lane + 32 * k < h.width) own[lane + 32 * k] *= scale * w[k];
        }
        __syncwarp();
        for (int pair = lane; pair < (value ? 0 : turns); pair += 32) {
            float sine = wave[2 * pair] * p.r.scale, cosine = wave[2 * pair + 1] * p.r.scale;
            int a = p.r.interleaved ? 2 * pair : pair;
            int b = p.r.interleaved ? a + 1 : a + (int)p.r.pairs;
            float was = own[a], other = own[b];
            own[a] = was * cosine - other * sine;
            own[b] = other * cosine + was * sine;
        }
        __syncwarp();
        for (int i = lane; i < h.width; i += 32)
            if (value || key)
                put_float(cache.data, cache.type, slot * h.width + i, own[i]);
            else
                from[i] = own[i];
    }
}

bool cuda_place_heads(struct context *c, const struct kv *kv, const struct rows *rows,
                      struct tensor q, struct tensor k, struct tensor v, const struct placing *p) {
    if (!kv->v.n[3] || q.n[2] > PLACE_WIDTH || k.n[2] > PLACE_WIDTH || v.n[2] > PLACE_WIDTH)
        return false;
    if (rows->n > 65535) return false;
    struct tensor none = {};
    struct place t = {};
    t.q = heads_of(q, p->q_norm), t.k = heads_of(k, p->k_norm), t.v = heads_of(v, none);
    t.normed = p->normed, t.eps = p->eps, t.turned = p->rope != NULL;
    if (p->rope) t.r = rotation_of(rows, p->rope);
    t.k_cache = kv->k, t.v_cache = kv->v;
    t.table = (const int32_t *)kv->table.data, t.pages = kv->table.n[1];
    t.seq = (const int32_t *)rows->seq.data, t.index = (const int32_t *)rows->index.data;
    if (!rows->n) return true;
    t.each = rows->n >= PLACE_MANY ? PLACE_EACH : 1; // many rows keep all processors busy
    dim3 grid((unsigned)ceil_div(t.q.count + t.k.count + t.v.count, PLACE_WARPS * t.each),
              (unsigned)rows->n);
    launch(c, "place_heads", place_kernel, grid, PLACE_WARPS * 32, 0, t);
    return true;
}

// --- choice --------------------------------------------------------------------------------------

enum {
    ARGMAX_THREADS = 1024,
    ARGMAX_LEAST = 4096,       // columns of a block, where several share a row
    ARGMAX_ROWS = ARRIVED / 4, // that several blocks may share: these use cuda.h's counters
    ARGMAX_BAD = 1 << 16       // what a block with a NaN counts for, beside 1
};

// The best of `each` columns a block (y) of a row (x). Blocks that share a row leave the best in
// greatest[row], in the order of values and, of equals, from the last column on; the last one to
// count itself in done[row] tells it and clears both.
static __global__ void __launch_bounds__(ARGMAX_THREADS)
    argmax_kernel(int32_t *y, const float *x, int64_t ld, int width, int each,
                  unsigned long long *greatest, int32_t *done) {
    __shared__ struct best part[32];
    wait_for_input();
    int64_t row = blockIdx.x;
    int from = (int)blockIdx.y * each, to = min(from + each, width);
    x += row * ld;
    struct best mine = {-INFINITY, INT32_MAX};
    bool bad = false;
#pragma unroll 8
    for (int i = from + (int)threadIdx.x; i < to; i += ARGMAX_THREADS) {
        struct best next = {x[i], i};
        if (isnan(next.value)) bad = true, next.value = -INFINITY;
        mine = better(mine, next);
    }
    mine = warp_best(mine);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = mine;
    bad = __syncthreads_or(bad);
    if (threadIdx.x >= 32) return;
    mine = warp_best(part[threadIdx.x]);
    if (threadIdx.x) return;
    if (gridDim.y > 1) {
        unsigned long long key =
            (unsigned long long)order_of(mine.value) << 32 | ~(uint32_t)mine.at;
        atomicMax(greatest + row, key);
        __threadfence();
        int before = atomicAdd(done + row, bad ? ARGMAX_BAD + 1 : 1);
        if (before % ARGMAX_BAD != (int)gridDim.y - 1) return;
        __threadfence();
        mine.at = (int)~(uint32_t)atomicExch(greatest + row, 0ull);
        bad = bad || before >= ARGMAX_BAD;
        done[row] = 0;
    }
    y[row] = bad ? -1 - mine.at : mine.at;
}

void cuda_argmax(struct context *c, struct tensor y, struct tensor x) {
    int64_t n = y.n[0], width = x.n[1], blocks = 1;
    const struct cuda *d = c->dev->cuda;
    if (!n) return;
    if (n <= ARGMAX_ROWS) blocks = ceil_div(d->processors, n);
    if (blocks > ceil_div(width, ARGMAX_LEAST)) blocks = ceil_div(width, ARGMAX_LEAST);
    int each = (int)ceil_div(ceil_div(width, blocks), 32) * 32;
    launch(c, "argmax", argmax_kernel, dim3((unsigned)n, (unsigned)blocks), ARGMAX_THREADS, 0,
           (int32_t *)y.data, (const float *)x.data, x.stride[0], (int)width, each,
           (unsigned long long *)d->arrived, d->arrived + 2 * ARGMAX_ROWS);
}
