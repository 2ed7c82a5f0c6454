// Ops that carry a sequence on in fixed state (compute/recurrent.h). Each goes through the rows of
// a run one by one with the state in registers, channels or columns of a head's matrix beside each
// other: so a row's result does not depend on how its sequence was cut, and a step of one row reads
// and writes the state once. Of the room that a state has, these need the matrices alone.
#include "compute/cuda/device.cuh"

enum { WARP = 32, WARPS = 8, THREADS = WARP * WARPS };

// The rows of a step, and where each sequence's state is.
struct walk {
    const int32_t *run, *seq, *index;
    float *state;
    int64_t ld_state;
};

static struct walk walk_of(const struct rows *rows, struct tensor state) {
    struct walk w = {(const int32_t *)rows->run.data, (const int32_t *)rows->seq.data,
                     (const int32_t *)rows->index.data, (float *)state.data, state.stride[0]};
    return w;
}

// A matrix of the step: row i at p + i * ld.
struct mat {
    const float *p;
    int64_t ld;
};

static struct mat mat_of(struct tensor t) {
    struct mat m = {(const float *)t.data, t.stride[0]};
    return m;
}

static __device__ __forceinline__ float *state_of(const struct walk &w, int row) {
    return w.state + w.seq[row] * w.ld_state;
}

// --- convolutions --------------------------------------------------------------------------------

struct convolution {
    struct walk walk;
    float *y;
    int64_t ldy;
    struct mat x;
    const float *w, *b;
    int channels, taps;
};

// x of `back` rows before `row`; rows of one sequence follow each other, and what was before the
// first, which is `place` rows before this one, is in the state.
static __device__ __forceinline__ float earlier(const struct convolution &v, const float *state,
                                                int64_t row, int back, int place, int channel) {
    if (back <= place) return v.x.p[(row - back) * v.x.ld + channel];
    return state[(int64_t)(v.taps - 1 + place - back) * v.channels + channel];
}

// A thread a channel of a row.
static __global__ void convolve_kernel(const __grid_constant__ struct convolution v) {
    wait_for_input();
    int64_t row = blockIdx.x;
    int channel = blockIdx.y * THREADS + threadIdx.x, place = 0;
    if (channel >= v.channels) return;
    while (place < v.taps - 1 && row > place && v.walk.seq[row - place - 1] == v.walk.seq[row])
        place++;
    const float *state = state_of(v.walk, (int)row);
    float sum = v.b ? v.b[channel] : 0.0f;
    for (int k = 0; k < v.taps; k++)
        sum += v.w[(int64_t)k * v.channels + channel] *
               earlier(v, state, row, v.taps - 1 - k, place, channel);
    v.y[row * v.ldy + channel] = sum;
}

// A thread a channel of a run: its last rows become the state.
static __global__ void keep_kernel(const __grid_constant__ struct convolution v) {
    wait_for_input();
    int channel = blockIdx.y * THREADS + threadIdx.x, first = v.walk.run[blockIdx.x];
    int last = v.walk.run[blockIdx.x + 1] - 1;
    if (channel >= v.channels) return;
    float *state = state_of(v.walk, last), kept[CONVOLVE_TAPS];
    for (int k = 0; k < v.taps - 1; k++)
        kept[k] = earlier(v, state, last, v.taps - 2 - k, last - first, channel);
    for (int k = 0; k < v.taps - 1; k++) state[(int64_t)k * v.channels + channel] = kept[k];
}

void cuda_convolve(struct context *c, struct tensor y, struct tensor x, struct tensor w,
                   struct tensor b, const struct rows *rows, struct tensor state) {
    if (!rows->n || !x.n[1]) return;
    struct convolution v = {walk_of(rows, state),  (float *)y.data,
                            y.stride[0],           mat_of(x),
                            (const float *)w.data, (const float *)(b.dims ? b.data : NULL),
                            (int)x.n[1],           (int)w.n[0]};
    unsigned bands = (unsigned)ceil_div(x.n[1], THREADS);
    launch(c, "convolve", convolve_kernel, dim3((unsigned)rows->n, bands), THREADS, 0, v);
    launch(c, "convolve", keep_kernel, dim3((unsigned)rows->runs, bands), THREADS, 0, v);
}

// --- channels that go on by themselves -----------------------------------------------------------

struct scan {
    struct walk walk;
    float *y;
    int64_t ldy;
    struct mat x, delta, b, c;
    const float *a, *d;
    int channels, states;
};

enum { STATES_EACH = 8 }; // of a lane: 256 of a channel

// A warp a channel of a run, a lane every 32nd of its states.
static __global__ void scan_kernel(const __grid_constant__ struct scan s) {
    wait_for_input();
    int lane = threadIdx.x % WARP, channel = blockIdx.y * WARPS + threadIdx.x / WARP;
    int from = s.walk.run[blockIdx.x], to = s.walk.run[blockIdx.x + 1];
    if (channel >= s.channels) return;
    float *state = state_of(s.walk, from) + channel, h[STATES_EACH], a[STATES_EACH];
#pragma unroll
    for (int i = 0; i < STATES_EACH; i++) {
        int k = i * WARP + lane;
        h[i] = k < s.states ? state[(int64_t)k * s.channels] : 0.0f;
        a[i] = k < s.states ? s.a[(int64_t)k * s.channels + channel] : 0.0f;
    }
    for (int64_t row = from; row < to; row++) {
        float x = s.x.p[row * s.x.ld + channel], sum = 0;
        float dt = softplus(s.delta.p[row * s.delta.ld + channel]);
#pragma unroll
        for (int i = 0; i < STATES_EACH; i++) {
            int k = i * WARP + lane;
            if (k >= s.states) continue;
            h[i] = expf(dt * a[i]) * h[i] + dt * x * s.b.p[row * s.b.ld + k];
            sum += h[i] * s.c.p[row * s.c.ld + k];
        }
        sum = warp_sum(sum);
        if (lane == 0) s.y[row * s.ldy + channel] = sum + s.d[channel] * x;
    }
#pragma unroll
    for (int i = 0; i < STATES_EACH; i++) {
        int k = i * WARP + lane;
        if (k < s.states) state[(int64_t)k * s.channels] = h[i];
    }
}

void cuda_selective_scan(struct context *c, struct tensor y, const struct scan_inputs *in,
                         struct tensor a, struct tensor d, const struct rows *rows,
                         struct tensor state) {
    if (!rows->n || !y.n[1]) return;
    if (a.n[0] > STATES_EACH * WARP) {
        fail(&c->err, "%s: selective_scan has %lld states a channel, at most %d are supported",
             c->dev->name, (long long)a.n[0], STATES_EACH * WARP);
        return;
    }
    struct scan s = {walk_of(rows, state),  (float *)y.data, y.stride[0],   mat_of(in->x),
                     mat_of(in->delta),     mat_of(in->b),   mat_of(in->c), (const float *)a.data,
                     (const float *)d.data, (int)y.n[1],     (int)a.n[0]};
    dim3 grid((unsigned)rows->runs, (unsigned)ceil_div(y.n[1], WARPS));
    launch(c, "selective_scan", scan_kernel, grid, THREADS, 0, s);
}

struct lru {
    struct walk walk;
    float *y;
    int64_t ldy;
    struct mat x, gate, input;
    const float *rate;
    int width;
};

// A thread a channel of a run.
static __global__ void lru_kernel(const __grid_constant__ struct lru l) {
    wait_for_input();
    int i = blockIdx.y * WARP + threadIdx.x;
    int from = l.walk.run[blockIdx.x], to = l.walk.run[blockIdx.x + 1];
    if (i >= l.width) return;
    float *state = state_of(l.walk, from) + i, h = *state;
    for (int64_t row = from; row < to; row++) {
        float log_a = l.rate[i] * activated(l.gate.p[row * l.gate.ld + i], ACT_SIGMOID);
        float in =
            activated(l.input.p[row * l.input.ld + i], ACT_SIGMOID) * l.x.p[row * l.x.ld + i];
        bool first = l.walk.index[row] == 0;
        h = expf(log_a) * h + (first ? 1.0f : sqrtf(-expm1f(2 * log_a))) * in;
        l.y[row * l.ldy + i] = h;
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
};

// One block a run (x), head (y) and 32 columns (z).
static __global__ void __launch_bounds__(THREADS)
    ssd_kernel(const __grid_constant__ struct duality q) {
    __shared__ float part[2][WARPS][WARP];
    wait_for_input();
    int head = blockIdx.y, group = head / q.each, warp = threadIdx.x / WARP;
    int from = q.walk.run[blockIdx.x], to = q.walk.run[blockIdx.x + 1];
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

static bool fits(struct context *c, const char *op, int64_t depth) {
    if (depth <= DEPTH_EACH * WARPS) return true;
    return fail(&c->err, "%s: %s has matrices of %lld rows, at most %d are supported", c->dev->name,
                op, (long long)depth, DEPTH_EACH * WARPS);
}

void cuda_ssd_scan(struct context *c, struct tensor y, const struct ssd_inputs *in,
                   const struct ssd *s, const struct rows *rows, struct tensor state) {
    if (!fits(c, "ssd_scan", s->states) || c->dry || c->err.set || !rows->n) return;
    struct duality q = {walk_of(rows, state),
                        (float *)y.data,
                        y.stride[0],
                        mat_of(in->x),
                        mat_of(in->dt),
                        mat_of(in->b),
                        mat_of(in->c),
                        (const float *)s->a.data,
                        (const float *)s->d.data,
                        (const float *)s->dt_bias.data,
                        (int)s->width,
                        (int)s->states,
                        (int)(s->heads / s->groups),
                        s->dt_least,
                        s->dt_most};
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
    if (!fits(c, "delta_rule", d->k_width) || c->dry || c->err.set || !rows->n) return;
    bool rule = in->beta.dims;
    struct delta_walk w = {walk_of(rows, state),
                           (float *)y.data,
                           y.stride[0],
                           mat_of(in->r),
                           mat_of(in->k),
                           mat_of(in->v),
                           mat_of(in->g),
                           mat_of(in->beta),
                           mat_of(in->a),
                           mat_of(in->b),
                           rule,
                           in->g.n[1] != d->heads,
                           (int)d->k_width,
                           (int)d->v_width,
                           (int)(d->heads / d->key_heads),
                           delta_state(d, rule ? 1 : 2) / d->heads};
    dim3 grid((unsigned)rows->runs, (unsigned)d->heads, (unsigned)ceil_div(d->v_width, WARP));
    launch(c, "delta_rule", delta_kernel, grid, THREADS, 0, w);
}
