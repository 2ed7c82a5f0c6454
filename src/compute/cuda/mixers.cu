// What stands around the recurrent ops in mixers: convolutions, whose columns may be bands and
// whose results may be activated and given a length; the gates of delta rules; gated norms.
#include "compute/cuda/recurrent.cuh"

enum { WARP = 32, WARPS = 8, THREADS = WARP * WARPS };

// Column k of bands of x; period 0: x as it is.
struct bands {
    struct mat x;
    int period, from, count;
};

static struct bands bands_of(struct tensor x, int64_t period, int64_t from, int64_t count) {
    struct bands b = {mat_of(x), (int)period, (int)from, (int)count};
    return b;
}

static __device__ __forceinline__ int band_column(const struct bands &b, int k) {
    return b.period ? k / b.count * b.period + b.from + k % b.count : k;
}

// --- convolutions --------------------------------------------------------------------------------

struct one {
    struct bands in;
    float *y, *state;
    int64_t ldy, ld_state;
    const float *w, *b;
    int channels, taps, act, head;
    float length;
    int first; // of the bands of THREADS channels that all have
};

struct convolving {
    const int32_t *run, *seq;
    int64_t n;
    bool single; // each row is a run
    int count;
    struct one v[CONVOLUTIONS];
};

static __device__ __forceinline__ const struct one &my_one(const struct convolving &c) {
    int i = 0;
    while (i + 1 < c.count && (int)blockIdx.y >= c.v[i + 1].first) i++;
    return c.v[i];
}

// x of `back` rows before `row`; rows of one sequence follow each other, and what was before the
// first, which is `place` rows before this one, is in the state.
static __device__ __forceinline__ float earlier(const struct one &v, const float *state,
                                                int64_t row, int back, int place, int channel) {
    if (back <= place) return v.in.x.p[(row - back) * v.in.x.ld + band_column(v.in, channel)];
    return state[(int64_t)(v.taps - 1 + place - back) * v.channels + channel];
}

// Of x, those before a row; the oldest first.
template <int TAPS>
static __device__ __forceinline__ void look_back(float before[TAPS - 1], const struct convolving &c,
                                                 const struct one &v, int64_t row, int channel) {
    int place = 0;
    int32_t seq = c.seq[row];
    while (place < v.taps - 1 && row > place && c.seq[row - place - 1] == seq) place++;
    const float *state = v.state + seq * v.ld_state;
#pragma unroll
    for (int i = 0; i < TAPS - 1; i++) {
        int back = TAPS - 1 - i;
        before[i] = back < v.taps ? earlier(v, state, row, back, place, channel) : 0.0f;
    }
}

// Gives heads of whole warps their length.
template <int ROWS>
static __device__ __forceinline__ void give_length(float y[ROWS], const struct one &v) {
    __shared__ float part[ROWS][WARPS];
    int warp = threadIdx.x / WARP, each = v.head / WARP;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float sum = warp_sum(y[r] * y[r]);
        if (threadIdx.x % WARP == 0) part[r][warp] = sum;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float sum = 1e-6f;
        for (int w = warp / each * each; w < warp / each * each + each; w++) sum += part[r][w];
        y[r] *= v.length / sqrtf(sum);
    }
}

// SiLU, which nearly all have, without a choice in the kernel.
template <bool SILU> static __device__ __forceinline__ float after(float x, int act) {
    return SILU ? __fdividef(x, 1.0f + expf(-x)) : activated(x, act);
}

// A thread a channel of ROWS rows.
template <int ROWS, int TAPS, bool SILU>
static __global__ void __launch_bounds__(THREADS)
    convolve_kernel(const __grid_constant__ struct convolving c) {
    wait_for_input();
    const struct one &v = my_one(c);
    int channel = (blockIdx.y - v.first) * THREADS + threadIdx.x;
    int64_t row = (int64_t)blockIdx.x * ROWS;
    bool there = channel < v.channels;
    int rows = ROWS < c.n - row ? ROWS : (int)(c.n - row);
    float w[TAPS], before[TAPS - 1], x[ROWS], y[ROWS], bias = there && v.b ? v.b[channel] : 0.0f;
#pragma unroll
    for (int i = 0; i < TAPS; i++) {
        int k = i - (TAPS - v.taps);
        w[i] = there && k >= 0 ? v.w[(int64_t)k * v.channels + channel] : 0.0f;
    }
    const float *p = v.in.x.p + row * v.in.x.ld + band_column(v.in, there ? channel : 0);
#pragma unroll
    for (int r = 0; r < ROWS; r++) x[r] = there && r < rows ? p[r * v.in.x.ld] : 0.0f;
#pragma unroll
    for (int i = 0; i < TAPS - 1; i++) before[i] = 0;
    if (there) look_back<TAPS>(before, c, v, row, channel);
    bool alike = c.seq[row] == c.seq[row + rows - 1];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        bool first = !alike && r > 0 && r < rows && c.seq[row + r] != c.seq[row + r - 1];
        if (there && first) look_back<TAPS>(before, c, v, row + r, channel);
        float sum = bias + w[TAPS - 1] * x[r];
#pragma unroll
        for (int i = 0; i < TAPS - 1; i++) sum += w[i] * before[i];
        y[r] = after<SILU>(sum, v.act);
#pragma unroll
        for (int i = 0; i < TAPS - 2; i++) before[i] = before[i + 1];
        before[TAPS - 2] = x[r];
    }
    if (v.head) give_length<ROWS>(y, v);
    float *to = v.y + row * v.ldy + channel;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (there && r < rows) to[r * v.ldy] = y[r];
    if (!c.single || !there) return;
    float *state = v.state + c.seq[row] * v.ld_state;
#pragma unroll
    for (int i = 0; i < TAPS - 1; i++) {
        int k = i - (TAPS - v.taps);
        if (k >= 0) state[(int64_t)k * v.channels + channel] = before[i];
    }
}

// A thread a channel of a run: its last rows become the state.
static __global__ void keep_kernel(const __grid_constant__ struct convolving c) {
    wait_for_input();
    const struct one &v = my_one(c);
    int channel = (blockIdx.y - v.first) * THREADS + threadIdx.x;
    int first = c.run[blockIdx.x], last = c.run[blockIdx.x + 1] - 1;
    if (channel >= v.channels) return;
    float *state = v.state + c.seq[last] * v.ld_state, kept[CONVOLVE_TAPS];
    for (int k = 0; k < v.taps - 1; k++)
        kept[k] = earlier(v, state, last, v.taps - 2 - k, last - first, channel);
    for (int k = 0; k < v.taps - 1; k++) state[(int64_t)k * v.channels + channel] = kept[k];
}

static bool whole_warps(int64_t head) { return head % WARP == 0 && THREADS % head == 0; }

// w.n: taps, channels
static void add_one(struct convolving *c, int *bands, const struct convolution *v,
                    struct tensor y) {
    struct one *o = &c->v[c->count++];
    o->in = bands_of(v->x, v->period, v->from, v->count);
    o->y = (float *)y.data, o->ldy = y.stride[0];
    o->state = (float *)v->state.data, o->ld_state = v->state.stride[0];
    o->w = (const float *)v->w.data, o->b = (const float *)(v->b.dims ? v->b.data : NULL);
    o->channels = (int)v->w.n[1], o->taps = (int)v->w.n[0];
    o->act = v->act, o->head = (int)v->head, o->length = v->length;
    o->first = *bands;
    *bands += (int)ceil_div(o->channels, THREADS);
}

template <int ROWS>
static auto convolve_of(bool few_taps, bool silu) -> void (*)(const struct convolving) {
    if (few_taps) return silu ? convolve_kernel<ROWS, 4, true> : convolve_kernel<ROWS, 4, false>;
    return silu ? convolve_kernel<ROWS, CONVOLVE_TAPS, true>
                : convolve_kernel<ROWS, CONVOLVE_TAPS, false>;
}

bool cuda_convolve_many(struct context *c, int count, const struct convolution *v,
                        const struct rows *rows, struct tensor y[]) {
    enum { STRIP = 8, MANY = 128 };
    struct convolving all = {};
    int bands = 0;
    bool few_taps = true, silu = true;
    for (int i = 0; i < count; i++)
        if (v[i].head && !whole_warps(v[i].head)) return false;
    for (int i = 0; i < count; i++) {
        add_one(&all, &bands, &v[i], y[i]);
        few_taps = few_taps && all.v[i].taps <= 4;
        silu = silu && v[i].act == ACT_SILU;
    }
    if (!rows->n || !bands) return true;
    all.run = (const int32_t *)rows->run.data, all.seq = (const int32_t *)rows->seq.data;
    all.n = rows->n, all.single = rows->n == rows->runs;
    bool strips = rows->n >= MANY && !all.single;
    auto kernel = strips ? convolve_of<STRIP>(few_taps, silu) : convolve_of<1>(few_taps, silu);
    dim3 grid((unsigned)(strips ? ceil_div(rows->n, STRIP) : rows->n), (unsigned)bands);
    launch(c, "convolve", kernel, grid, THREADS, 0, all);
    if (all.single) return true;
    launch(c, "convolve", keep_kernel, dim3((unsigned)rows->runs, (unsigned)bands), THREADS, 0,
           all);
    return true;
}

void cuda_convolve(struct context *c, struct tensor y, struct tensor x, struct tensor w,
                   struct tensor b, const struct rows *rows, struct tensor state) {
    struct convolution v = {};
    v.x = x, v.w = w, v.b = b, v.state = state, v.act = ACT_NONE;
    cuda_convolve_many(c, 1, &v, rows, &y);
}

// --- gates of delta rules ------------------------------------------------------------------------

struct gates {
    float *beta, *g;
    int64_t ld_beta, ld_g;
    struct mat x;
    const float *rate, *bias;
    int64_t n;
    int heads, each;
};

// A thread a head of a row.
static __global__ void gates_kernel(const __grid_constant__ struct gates s) {
    wait_for_input();
    int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x, row = at / s.heads;
    int head = (int)(at % s.heads);
    if (row >= s.n) return;
    const float *x = s.x.p + row * s.x.ld + head / s.each * 2 * s.each + head % s.each;
    s.beta[row * s.ld_beta + head] = activated(x[0], ACT_SIGMOID);
    s.g[row * s.ld_g + head] = s.rate[head] * softplus(x[s.each] + s.bias[head]);
}

void cuda_delta_gates(struct context *c, struct tensor beta, struct tensor g, struct tensor x,
                      int64_t each, struct tensor rate, struct tensor bias) {
    struct gates s = {(float *)beta.data,
                      (float *)g.data,
                      beta.stride[0],
                      g.stride[0],
                      mat_of(x),
                      (const float *)rate.data,
                      (const float *)bias.data,
                      x.n[0],
                      (int)beta.n[1],
                      (int)each};
    unsigned blocks = (unsigned)ceil_div(s.n * s.heads, THREADS);
    if (blocks) launch(c, "delta_gates", gates_kernel, dim3(blocks), THREADS, 0, s);
}

// --- gated norms ---------------------------------------------------------------------------------

struct gated_norm {
    void *y;
    bool narrow; // y is of BF16
    struct mat x;
    const float *w;
    struct bands gate;
    float eps;
    int act, width, n, heads;
    bool together;
};

// A warp a head of a row, a lane every 32nd element. A head's gates follow each other where
// `together`.
template <int EACH, bool SILU>
static __global__ void __launch_bounds__(THREADS)
    gated_norm_kernel(const __grid_constant__ struct gated_norm s) {
    wait_for_input();
    int at = blockIdx.x * WARPS + threadIdx.x / WARP, row = at / s.heads, head = at % s.heads;
    int lane = threadIdx.x % WARP, first = head * s.width;
    if (row >= s.n) return;
    const float *p = s.x.p + row * s.x.ld + first, *gates = s.gate.x.p + row * s.gate.x.ld;
    int begin = s.together ? band_column(s.gate, first) : 0;
    float x[EACH], gate[EACH], sum = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int k = i * WARP + lane;
        bool there = k < s.width;
        x[i] = there ? p[k] : 0.0f;
        gate[i] = there ? gates[s.together ? begin + k : band_column(s.gate, first + k)] : 0.0f;
        sum += x[i] * x[i];
    }
    float by = 1.0f / sqrtf(warp_sum(sum) / (float)s.width + s.eps);
    int64_t to = (int64_t)at * s.width;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int k = i * WARP + lane;
        if (k >= s.width) continue;
        float y = after<SILU>(gate[i], s.act) * (x[i] * by * s.w[k]);
        if (s.narrow)
            ((__nv_bfloat16 *)s.y)[to + k] = __float2bfloat16(y);
        else
            ((float *)s.y)[to + k] = y;
    }
}

bool cuda_gated_norm(struct context *c, struct tensor y, struct tensor x, const struct rms *norm,
                     const struct norm_gate *gate) {
    struct gated_norm s = {y.data,
                           y.type == DT_BF16,
                           mat_of(x),
                           (const float *)norm->w.data,
                           bands_of(gate->x, gate->period, gate->from, gate->count),
                           norm->eps,
                           gate->act,
                           (int)x.n[2],
                           (int)x.n[0],
                           (int)x.n[1],
                           !gate->period || gate->count % x.n[2] == 0};
    if (s.width > 8 * WARP || x.n[0] * x.n[1] > INT32_MAX) return false;
    unsigned blocks = (unsigned)ceil_div(x.n[0] * x.n[1], WARPS);
    bool wide = s.width > 4 * WARP, silu = gate->act == ACT_SILU;
    auto kernel = wide ? (silu ? gated_norm_kernel<8, true> : gated_norm_kernel<8, false>)
                       : (silu ? gated_norm_kernel<4, true> : gated_norm_kernel<4, false>);
    if (blocks) launch(c, "gated_norm", kernel, dim3(blocks), THREADS, 0, s);
    return true;
}
