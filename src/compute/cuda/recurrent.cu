// Ops that carry a sequence on in fixed state (compute/recurrent.h). Each goes through the rows of
// a run one by one with the state in registers, channels or columns of a head's matrix beside each
// other: so a row's result does not depend on how its sequence was cut, and a step of one row reads
// and writes the state once. But for long runs of those with a matrix a head, which
// go by chunks where precision is native (chunks.cu). Of the room that a state has, these need the
// matrices alone.
#include "compute/cuda/recurrent.cuh"

enum { WARP = 32, WARPS = 8, THREADS = WARP * WARPS };

// --- channels that go on by themselves -----------------------------------------------------------

struct scan {
    struct walk walk;
    float *y;
    int64_t ldy;
    struct mat x, delta, b, c;
    const float *a, *d;
    int channels, states;
};

// A channel is four lanes', which have every fourth of its states, EACH at most. Rows come to
// shared memory by tiles, the next one while this one is gone through.
enum { SHARES = 4, CHANNELS = 32, SCAN_ROWS = 16, STATES_MOST = 256 };

struct scan_tile {
    float x[SCAN_ROWS][CHANNELS], delta[SCAN_ROWS][CHANNELS]; // and b, c [SCAN_ROWS, states]
};

static __device__ __forceinline__ void copy4(float *to, const float *from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_at(to)), "l"(from));
}

static __device__ void fetch_scan(float *room, const struct scan &s, int row, int to, int first) {
    struct scan_tile *tile = (struct scan_tile *)room;
    float *b = (float *)(tile + 1), *c = b + SCAN_ROWS * s.states;
    int rows = to - row < SCAN_ROWS ? to - row : SCAN_ROWS;
    for (int i = threadIdx.x; i < rows * CHANNELS; i += SHARES * CHANNELS) {
        int t = i / CHANNELS, channel = first + i % CHANNELS;
        if (channel >= s.channels) continue;
        copy4(&tile->x[0][i], s.x.p + (row + t) * s.x.ld + channel);
        copy4(&tile->delta[0][i], s.delta.p + (row + t) * s.delta.ld + channel);
    }
    for (int i = threadIdx.x; i < rows * s.states; i += SHARES * CHANNELS) {
        int t = i / s.states, k = i % s.states;
        copy4(b + i, s.b.p + (row + t) * s.b.ld + k);
        copy4(c + i, s.c.p + (row + t) * s.c.ld + k);
    }
    asm volatile("cp.async.commit_group;");
}

template <int EACH> struct scanned {
    float h[EACH], a[EACH]; // a to base 2
    float skip;
};

template <int EACH>
static __device__ __forceinline__ void scan_rows(struct scanned<EACH> &v, const struct scan &s,
                                                 const float *room, int row, int rows, int first) {
    const struct scan_tile *tile = (const struct scan_tile *)room;
    const float *b = (const float *)(tile + 1), *c = b + SCAN_ROWS * s.states;
    int own = threadIdx.x / SHARES, share = threadIdx.x % SHARES;
#pragma unroll 2
    for (int t = 0; t < rows; t++) {
        float x = tile->x[t][own], dt = softplus(tile->delta[t][own]), sum = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int k = i * SHARES + share;
            if (k >= s.states) continue;
            v.h[i] = exp2f(dt * v.a[i]) * v.h[i] + dt * x * b[t * s.states + k];
            sum += v.h[i] * c[t * s.states + k];
        }
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        if (share == 0 && first + own < s.channels)
            s.y[(int64_t)(row + t) * s.ldy + first + own] = sum + v.skip * x;
    }
}

// A block CHANNELS channels of a run.
template <int EACH>
static __global__ void __launch_bounds__(SHARES *CHANNELS)
    scan_kernel(const __grid_constant__ struct scan s) {
    extern __shared__ float shared[];
    wait_for_input();
    int from = s.walk.run[blockIdx.x], to = s.walk.run[blockIdx.x + 1];
    int first = blockIdx.y * CHANNELS, channel = first + threadIdx.x / SHARES;
    int size = 2 * SCAN_ROWS * (CHANNELS + s.states);
    fetch_scan(shared, s, from, to, first);
    float *state = state_of(s.walk, from) + channel;
    bool there = channel < s.channels;
    struct scanned<EACH> v;
    v.skip = there ? s.d[channel] : 0.0f;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int64_t k = i * SHARES + threadIdx.x % SHARES;
        bool own = there && k < s.states;
        v.h[i] = own ? state[k * s.channels] : 0.0f;
        v.a[i] = own ? s.a[k * s.channels + channel] * LOG2E : 0.0f;
    }
    for (int row = from, stage = 0; row < to; row += SCAN_ROWS, stage ^= 1) {
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncthreads();
        if (row + SCAN_ROWS < to)
            fetch_scan(shared + (stage ^ 1) * size, s, row + SCAN_ROWS, to, first);
        int rows = to - row < SCAN_ROWS ? to - row : SCAN_ROWS;
        scan_rows(v, s, shared + stage * size, row, rows, first);
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int64_t k = i * SHARES + threadIdx.x % SHARES;
        if (there && k < s.states) state[k * s.channels] = v.h[i];
    }
}

void cuda_selective_scan(struct context *c, struct tensor y, const struct scan_inputs *in,
                         struct tensor a, struct tensor d, const struct rows *rows,
                         struct tensor state) {
    if (!rows->n || !y.n[1]) return;
    if (a.n[0] > STATES_MOST) {
        fail(&c->err, "%s: selective_scan has %lld states a channel, at most %d are supported",
             c->dev->name, (long long)a.n[0], STATES_MOST);
        return;
    }
    struct scan s = {walk_of(rows, state),  (float *)y.data, y.stride[0],   mat_of(in->x),
                     mat_of(in->delta),     mat_of(in->b),   mat_of(in->c), (const float *)a.data,
                     (const float *)d.data, (int)y.n[1],     (int)a.n[0]};
    dim3 grid((unsigned)rows->runs, (unsigned)ceil_div(y.n[1], CHANNELS));
    size_t shared = (size_t)(4 * SCAN_ROWS * (CHANNELS + s.states)) * sizeof(float);
    auto kernel = s.states > 16 ? scan_kernel<STATES_MOST / SHARES> : scan_kernel<4>;
    if (allow_shared(c, "selective_scan", kernel, shared))
        launch(c, "selective_scan", kernel, grid, SHARES * CHANNELS, shared, s);
}

struct lru {
    struct walk walk;
    float *y;
    int64_t ldy;
    struct mat x, gate, input;
    const float *rate;
    int width;
};

enum { AHEAD = 8 }; // rows whose inputs are read at once

// A thread a channel of a run.
static __global__ void lru_kernel(const __grid_constant__ struct lru l) {
    wait_for_input();
    int i = blockIdx.y * WARP + threadIdx.x;
    int from = l.walk.run[blockIdx.x], to = l.walk.run[blockIdx.x + 1];
    if (i >= l.width) return;
    float *state = state_of(l.walk, from) + i, h = *state;
    for (int64_t row = from; row < to; row += AHEAD) {
        float keep[AHEAD], in[AHEAD];
#pragma unroll
        for (int t = 0; t < AHEAD; t++) {
            int64_t at = row + t < to ? row + t : to - 1;
            float log_a = l.rate[i] * activated(l.gate.p[at * l.gate.ld + i], ACT_SIGMOID);
            float input = activated(l.input.p[at * l.input.ld + i], ACT_SIGMOID);
            bool first = l.walk.index[at] == 0;
            keep[t] = expf(log_a);
            in[t] = (first ? 1.0f : sqrtf(-expm1f(2 * log_a))) * input * l.x.p[at * l.x.ld + i];
        }
#pragma unroll
        for (int t = 0; t < AHEAD; t++) {
            if (row + t >= to) break;
            h = keep[t] * h + in[t];
            l.y[(row + t) * l.ldy + i] = h;
        }
    }
    *state = h;
}

void cuda_gated_lru(struct context *c, struct tensor y, const struct lru_inputs *in,
                    struct tensor rate, const struct rows *rows, struct tensor state) {
    if (!rows->n || !y.n[1]) return;
    struct lru l = {walk_of(rows, state),
                    (float *)y.data,
                    y.stride[0],
                    mat_of(in->x),
                    mat_of(in->gate),
                    mat_of(in->input),
                    (const float *)rate.data,
                    (int)y.n[1]};
    dim3 grid((unsigned)rows->runs, (unsigned)ceil_div(y.n[1], WARP));
    launch(c, "gated_lru", lru_kernel, grid, WARP, 0, l);
}

// --- a matrix a head -----------------------------------------------------------------------------

// A head's matrix S [depth, width]: a block has 32 columns, a lane each, and every eighth row of
// them a warp, DEPTH_EACH rows at most.
enum { DEPTH_EACH = 32 };

struct band {
    float *s;
    int depth, width, column;
    bool there; // this lane has a column
};

static __device__ __forceinline__ struct band band_of(float *s, int depth, int width, int at) {
    int column = at * WARP + threadIdx.x % WARP;
    struct band b = {s + column, depth, width, column, column < width};
    return b;
}

static __device__ __forceinline__ void load_band(float s[DEPTH_EACH], const struct band &b) {
#pragma unroll
    for (int i = 0; i < DEPTH_EACH; i++) {
        int k = i * WARPS + threadIdx.x / WARP;
        s[i] = b.there && k < b.depth ? b.s[(int64_t)k * b.width] : 0.0f;
    }
}

static __device__ __forceinline__ void store_band(const float s[DEPTH_EACH], const struct band &b) {
#pragma unroll
    for (int i = 0; i < DEPTH_EACH; i++) {
        int k = i * WARPS + threadIdx.x / WARP;
        if (b.there && k < b.depth) b.s[(int64_t)k * b.width] = s[i];
    }
}

// The warps' sums of each column, in all of them. `part` must not be read by others any more.
static __device__ __forceinline__ float over_warps(float v, float part[WARPS][WARP]) {
    int lane = threadIdx.x % WARP;
    part[threadIdx.x / WARP][lane] = v;
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) sum += part[w][lane];
    return sum;
}

struct duality {
    struct walk walk;
    float *y;
    int64_t ldy;
    struct mat x, dt, b, c;
    const float *a, *d, *dt_bias;
    int width, states, each; // each: heads a group
    float dt_least, dt_most;
    int longest; // of the runs to go through
};

// One block a run (x), head (y) and 32 columns (z).
static __global__ void __launch_bounds__(THREADS)
    ssd_kernel(const __grid_constant__ struct duality q) {
    __shared__ float part[2][WARPS][WARP];
    wait_for_input();
    int head = blockIdx.y, group = head / q.each, warp = threadIdx.x / WARP;
    int from = q.walk.run[blockIdx.x], to = q.walk.run[blockIdx.x + 1];
    if (to - from > q.longest) return;
    float *state = state_of(q.walk, from) + (int64_t)head * q.states * q.width;
    struct band band = band_of(state, q.states, q.width, blockIdx.z);
    float h[DEPTH_EACH], a = q.a[head];
    load_band(h, band);
    for (int64_t row = from; row < to; row++) {
        float dt = softplus(q.dt.p[row * q.dt.ld + head] + q.dt_bias[head]);
        dt = fminf(fmaxf(dt, q.dt_least), q.dt_most);
        int column = head * q.width + band.column;
        float x = band.there ? q.x.p[row * q.x.ld + column] : 0.0f, keep = expf(dt * a), sum = 0;
        const float *b = q.b.p + row * q.b.ld + group * q.states;
        const float *c = q.c.p + row * q.c.ld + group * q.states;
#pragma unroll
        for (int i = 0; i < DEPTH_EACH; i++) {
            int k = i * WARPS + warp;
            if (k >= q.states) continue;
            h[i] = keep * h[i] + b[k] * (dt * x);
            sum += c[k] * h[i];
        }
        sum = over_warps(sum, part[row & 1]);
        if (warp == 0 && band.there) q.y[row * q.ldy + column] = sum + q.d[head] * x;
    }
    store_band(h, band);
}

// The longest run that is left to go through row by row, 0: none. Chunks do longer ones; dry too.
static int without_chunks(struct context *c, const struct chunked *p, const struct rows *rows) {
    if (!cuda_chunks(c, p, rows)) return INT32_MAX;
    return rows->runs == 1 ? 0 : CHUNKED_LEAST - 1;
}

static bool fits(struct context *c, const char *op, int64_t depth) {
    if (depth <= DEPTH_EACH * WARPS) return true;
    return fail(&c->err, "%s: %s has matrices of %lld rows, at most %d are supported", c->dev->name,
                op, (long long)depth, DEPTH_EACH * WARPS);
}

void cuda_ssd_scan(struct context *c, struct tensor y, const struct ssd_inputs *in,
                   const struct ssd *s, const struct rows *rows, struct tensor state) {
    if (!fits(c, "ssd_scan", s->states)) return;
    struct chunked p = {};
    p.op = "ssd_scan", p.walk = walk_of(rows, state);
    p.y = (float *)y.data, p.ldy = y.stride[0];
    p.r = mat_of(in->c), p.k = mat_of(in->b), p.v = mat_of(in->x), p.g = mat_of(in->dt);
    p.a = (const float *)s->a.data, p.d = (const float *)s->d.data;
    p.dt_bias = (const float *)s->dt_bias.data, p.dual = true;
    p.dt_least = s->dt_least, p.dt_most = s->dt_most;
    p.heads = (int)s->heads, p.sharers = (int)(s->heads / s->groups);
    p.k_width = (int)s->states, p.v_width = (int)s->width, p.per_head = s->states * s->width;
    int longest = without_chunks(c, &p, rows);
    if (c->dry || c->err.set || !rows->n || !longest) return;
    struct duality q = {p.walk,    p.y,        p.ldy,     p.v,       p.g,       p.k,
                        p.r,       p.a,        p.d,       p.dt_bias, p.v_width, p.k_width,
                        p.sharers, p.dt_least, p.dt_most, longest};
    dim3 grid((unsigned)rows->runs, (unsigned)s->heads, (unsigned)ceil_div(s->width, WARP));
    launch(c, "ssd_scan", ssd_kernel, grid, THREADS, 0, q);
}

struct delta_walk {
    struct walk walk;
    float *y;
    int64_t ldy;
    struct mat r, k, v, g, beta, a, b; // beta, or a and b
    bool rule, each;                   // there is beta; g is of each element of a key
    int k_width, v_width, sharers;     // sharers: heads that share r and k
    int64_t per_head;                  // floats of a head's state
    int longest;                       // of the runs to go through
};

// What a row has for its head, in shared memory.
struct delta_vectors {
    float keep[DEPTH_EACH * WARPS], a[DEPTH_EACH * WARPS], r[DEPTH_EACH * WARPS];
    float b[DEPTH_EACH * WARPS], k[DEPTH_EACH * WARPS];
    float br[WARPS], kr[WARPS]; // the warps' parts of b . r and k . r
};

// S = diag(keep) S + b (a^T S) + k v^T; with r decayed, y = r^T S + (b . r) (a^T S) + (k . r) v for
// the S before.
static __device__ void delta_row_vectors(struct delta_vectors *s, const struct delta_walk &d,
                                         int64_t row, int head) {
    int i = threadIdx.x, shared = head / d.sharers * d.k_width, own = head * d.k_width;
    float br = 0, kr = 0;
    if (i < d.k_width) {
        float keep = expf(d.g.p[row * d.g.ld + (d.each ? own + i : head)]);
        float r = d.r.p[row * d.r.ld + shared + i], k = d.k.p[row * d.k.ld + shared + i];
        float a, b;
        if (d.rule) {
            a = -keep * k, k *= d.beta.p[row * d.beta.ld + head], b = k;
        } else {
            a = d.a.p[row * d.a.ld + own + i], b = d.b.p[row * d.b.ld + own + i];
        }
        s->keep[i] = keep, s->a[i] = a, s->r[i] = r * keep, s->b[i] = b, s->k[i] = k;
        br = b * r, kr = k * r;
    }
    br = warp_sum(br), kr = warp_sum(kr);
    if (i % WARP == 0) s->br[i / WARP] = br, s->kr[i / WARP] = kr;
}

// One block a run (x), head (y) and 32 columns (z).
static __global__ void __launch_bounds__(THREADS)
    delta_kernel(const __grid_constant__ struct delta_walk d) {
    __shared__ struct delta_vectors vectors[2];
    __shared__ float part[4][WARPS][WARP];
    wait_for_input();
    int head = blockIdx.y, warp = threadIdx.x / WARP;
    int from = d.walk.run[blockIdx.x], to = d.walk.run[blockIdx.x + 1];
    if (to - from > d.longest) return;
    struct band band =
        band_of(state_of(d.walk, from) + head * d.per_head, d.k_width, d.v_width, blockIdx.z);
    float s[DEPTH_EACH];
    load_band(s, band);
    delta_row_vectors(&vectors[from & 1], d, from, head);
    __syncthreads();
    for (int64_t row = from; row < to; row++) {
        const struct delta_vectors *in = &vectors[row & 1];
        float read = 0, out = 0, br = 0, kr = 0;
#pragma unroll
        for (int i = 0; i < DEPTH_EACH; i++) {
            int k = i * WARPS + warp;
            if (k >= d.k_width) continue;
            read += in->a[k] * s[i];
            out += in->r[k] * s[i];
        }
        int column = head * d.v_width + band.column;
        float v = band.there ? d.v.p[row * d.v.ld + column] : 0.0f;
        if (row + 1 < to) delta_row_vectors(&vectors[(row + 1) & 1], d, row + 1, head);
        part[2 * (row & 1) + 1][warp][threadIdx.x % WARP] = out;
        read = over_warps(read, part[2 * (row & 1)]);
#pragma unroll
        for (int w = 0; w < WARPS; w++) br += in->br[w], kr += in->kr[w];
#pragma unroll
        for (int i = 0; i < DEPTH_EACH; i++) {
            int k = i * WARPS + warp;
            if (k < d.k_width) s[i] = in->keep[k] * s[i] + in->b[k] * read + in->k[k] * v;
        }
        if (warp == 0 && band.there) {
            float sum = br * read + kr * v;
#pragma unroll
            for (int w = 0; w < WARPS; w++) sum += part[2 * (row & 1) + 1][w][threadIdx.x % WARP];
            d.y[row * d.ldy + column] = sum;
        }
        __syncthreads();
    }
    store_band(s, band);
}

void cuda_delta_rule(struct context *c, struct tensor y, const struct delta_inputs *in,
                     const struct delta *d, const struct rows *rows, struct tensor state) {
    if (!fits(c, "delta_rule", d->k_width)) return;
    bool rule = in->beta.dims;
    struct chunked p = {};
    p.op = "delta_rule", p.walk = walk_of(rows, state);
    p.y = (float *)y.data, p.ldy = y.stride[0];
    p.r = mat_of(in->r), p.k = mat_of(in->k), p.v = mat_of(in->v), p.g = mat_of(in->g);
    p.beta = mat_of(in->beta), p.each = in->g.n[1] != d->heads;
    p.heads = (int)d->heads, p.sharers = (int)(d->heads / d->key_heads);
    p.k_width = (int)d->k_width, p.v_width = (int)d->v_width;
    p.per_head = delta_state(d, rule ? 1 : 2) / d->heads;
    int longest = rule ? without_chunks(c, &p, rows) : INT32_MAX;
    if (c->dry || c->err.set || !rows->n || !longest) return;
    struct delta_walk w = {p.walk,    p.y,       p.ldy,         p.r,           p.k,    p.v,
                           p.g,       p.beta,    mat_of(in->a), mat_of(in->b), rule,   p.each,
                           p.k_width, p.v_width, p.sharers,     p.per_head,    longest};
    dim3 grid((unsigned)rows->runs, (unsigned)d->heads, (unsigned)ceil_div(d->v_width, WARP));
    launch(c, "delta_rule", delta_kernel, grid, THREADS, 0, w);
}
