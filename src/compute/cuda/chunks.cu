// Prompts of the ops whose heads keep a matrix S, on tensor cores: delta rules with beta, and state
// space duality, which is one whose values are not corrected. They go by chunks of 64 rows. With
// G_t the logarithm of what is left by row t of what was there before its chunk, and keys times
// beta, S of row t is
//     e^G_t S + sum over s <= t of e^(G_t - G_s) k_s u_s^T
// for the S before the chunk; u_s is what row s puts in under its key: v_s less what is there. So
// (1 + A) u = v - (e^G k) S, where A[t, s] = e^(G_t - G_s) k_t . k_s for s < t, a triangle. One
// kernel makes, of all chunks at once, what does not depend on S: the inverse of 1 + A times v and
// times e^G k, and the scores of queries with keys. Another goes through a sequence's chunks with
// 32 columns of a head's S in registers. (The WY form of "Parallelizing Linear Transformers with
// the Delta Rule over Sequence Length", Yang et al. 2024; Mamba 2: Dao, Gu 2024.)
//
// Operands of the products are in bf16; S, sums, decays and the inverse in f32. Exponents are
// always of what lies between two rows, the later one first, so none overflows.
#include "compute/cuda/recurrent.cuh"

enum { WARP = 32, THREADS = 256, CHUNK = 64, TILE = 16, SLICE = 32, PAD = 8 };

// A chunk of a head as the second kernel reads it.
struct parts {
    uint16_t *reads;  // [CHUNK, KD] r, decayed
    uint16_t *takes;  // [CHUNK, KD] what u takes out of S
    uint16_t *keys;   // [CHUNK, KD] to be put in, decayed until the chunk's end
    uint16_t *scores; // [CHUNK, CHUNK] what a row reads of each u
    float *keep;      // [KD] what is left of S
    float *values;    // [CHUNK, v_padded] u without what is taken
};

struct chunks {
    struct chunked in;
    char *room;
    int64_t each; // bytes of a chunk of a head
    int runs, v_padded;
};

template <int KD> static __host__ __device__ inline int64_t parts_size(int v_padded) {
    return (3 * KD + CHUNK) * CHUNK * 2 + KD * 4 + CHUNK * v_padded * 4;
}

template <int KD>
static __device__ __forceinline__ struct parts parts_at(const struct chunks &c, int64_t slot,
                                                        int head) {
    struct parts p;
    p.reads = (uint16_t *)(c.room + (slot * c.in.heads + head) * c.each);
    p.takes = p.reads + CHUNK * KD;
    p.keys = p.takes + CHUNK * KD;
    p.scores = p.keys + CHUNK * KD;
    p.keep = (float *)(p.scores + CHUNK * CHUNK);
    p.values = p.keep + KD;
    return p;
}

// Chunks of a run lie in slots from this one on; those of two runs never meet.
static __device__ __forceinline__ int64_t slot_of(int first, int run) {
    return first / CHUNK + run;
}

// --- what does not depend on S -------------------------------------------------------------------

struct piece {
    int row, n, head; // rows of the chunk, at most CHUNK; 0: none
};

static __device__ struct piece piece_at(const struct chunks &c, int slot, int head) {
    const int32_t *first = c.in.walk.run;
    int low = 0, high = c.runs - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (slot_of(first[middle], middle) <= slot)
            low = middle;
        else
            high = middle - 1;
    }
    int row = first[low] + (slot - (int)slot_of(first[low], low)) * CHUNK, end = first[low + 1];
    struct piece p = {row, end - row < CHUNK ? end - row : CHUNK, head};
    if (end - first[low] < CHUNKED_LEAST || p.n < 0) p.n = 0;
    return p;
}

template <int KD, bool EACH> struct making {
    // Logarithms to base 2 of what is left after each row, of each element or of all.
    float log[CHUNK][EACH ? KD + 1 : 1], beta[CHUNK];
    float a[CHUNK][CHUNK + 1], t[CHUNK][CHUNK + 1]; // the triangle, its inverse
    alignas(16) uint16_t k[CHUNK][KD + PAD], r[CHUNK][KD + PAD];
};

// Of a head's row: its decay's logarithm (of element i), and what its key is multiplied with.
static __device__ __forceinline__ float log_at(const struct chunked &in, int64_t row, int head,
                                               int i) {
    if (!in.dual) return in.g.p[row * in.g.ld + (in.each ? head * in.k_width + i : head)];
    float dt = softplus(in.g.p[row * in.g.ld + head] + in.dt_bias[head]);
    return in.a[head] * fminf(fmaxf(dt, in.dt_least), in.dt_most);
}

static __device__ __forceinline__ float beta_at(const struct chunked &in, int64_t row, int head) {
    if (!in.dual) return in.beta.p[row * in.beta.ld + head];
    float dt = softplus(in.g.p[row * in.g.ld + head] + in.dt_bias[head]);
    return fminf(fmaxf(dt, in.dt_least), in.dt_most);
}

// Rows after the last neither decay nor put anything in.
template <int KD, bool EACH>
static __device__ void read_decays(struct making<KD, EACH> &m, const struct chunked &in,
                                   const struct piece &p) {
    int i = threadIdx.x, lane = i % WARP;
    if (i >= THREADS - CHUNK) {
        int t = i - (THREADS - CHUNK);
        m.beta[t] = t < p.n ? beta_at(in, p.row + t, p.head) : 0.0f;
    }
    if (EACH && i < KD) {
        float sum = 0;
#pragma unroll 8
        for (int t = 0; t < CHUNK; t++) {
            bool there = t < p.n && i < in.k_width;
            sum += there ? log_at(in, p.row + t, p.head, i) * LOG2E : 0.0f;
            m.log[t][i] = sum;
        }
    }
    float before = 0;
    for (int t = lane; !EACH && i < WARP && t < CHUNK; t += WARP) {
        float log = t < p.n ? log_at(in, p.row + t, p.head, 0) * LOG2E : 0.0f;
        for (int d = 1; d < WARP; d *= 2) {
            float x = __shfl_up_sync(~0u, log, d);
            if (lane >= d) log += x;
        }
        m.log[t][0] = before + log;
        before += __shfl_sync(~0u, log, WARP - 1);
    }
}

static __device__ __forceinline__ float element(const struct mat &m, int64_t row, int base, int i,
                                                bool there) {
    return there ? m.p[row * m.ld + base + i] : 0.0f;
}

static __device__ __forceinline__ void put_pair(uint16_t *to, float low, float high) {
    *(uint32_t *)to = pack(low, high);
}

// Keys and queries, and what the second kernel needs of them.
template <int KD, bool EACH>
static __device__ void read_keys(struct making<KD, EACH> &m, const struct chunked &in,
                                 const struct piece &p, const struct parts &out) {
    int base = p.head / in.sharers * in.k_width;
#pragma unroll 4
    for (int at = threadIdx.x; at < CHUNK * KD / 2; at += THREADS) {
        int t = at / (KD / 2), i = at % (KD / 2) * 2;
        bool low = t < p.n && i < in.k_width, high = t < p.n && i + 1 < in.k_width;
        float k[2] = {element(in.k, p.row + t, base, i, low),
                      element(in.k, p.row + t, base, i + 1, high)};
        float r[2] = {element(in.r, p.row + t, base, i, low),
                      element(in.r, p.row + t, base, i + 1, high)};
        float log[2] = {m.log[t][EACH ? i : 0], m.log[t][EACH ? i + 1 : 0]};
        float end[2] = {m.log[CHUNK - 1][EACH ? i : 0], m.log[CHUNK - 1][EACH ? i + 1 : 0]};
        put_pair(&m.k[t][i], k[0], k[1]);
        put_pair(&m.r[t][i], r[0], r[1]);
        put_pair(out.reads + t * KD + i, r[0] * power2(log[0]), r[1] * power2(log[1]));
        put_pair(out.keys + t * KD + i, k[0] * m.beta[t] * power2(end[0] - log[0]),
                 k[1] * m.beta[t] * power2(end[1] - log[1]));
    }
    if (threadIdx.x < KD) out.keep[threadIdx.x] = power2(m.log[CHUNK - 1][EACH ? threadIdx.x : 0]);
}

static __device__ __forceinline__ uint32_t scaled(uint32_t pair, float low, float high) {
    return pack(__uint_as_float(pair << 16) * low, __uint_as_float(pair & 0xffff0000u) * high);
}

// Scores of a warp's 16 rows with the keys of 16 rows at a time, up to its own. Where each element
// decays, both sides are decayed to the first of the 16, so that neither grows; and among the 16
// there is no such row: see own_scores.
template <int KD, bool EACH>
static __device__ __forceinline__ void scores(float acc[CHUNK / 8][4],
                                              const struct making<KD, EACH> &m,
                                              const uint16_t (*x)[KD + PAD], int tile) {
    int lane = threadIdx.x % WARP, g = lane / 4, c = lane % 4 * 2, row = tile * TILE;
#pragma unroll 2
    for (int d = 0; d < KD; d += TILE) {
        uint32_t a[4], b[4];
        load_matrices(a, &x[row + lane % 16][d + lane / 16 * 8], false);
        if (EACH)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float *log = m.log[row + g + e % 2 * 8], *first = m.log[row];
                int i = d + e / 2 * 8 + c;
                a[e] = scaled(a[e], power2(log[EACH ? i : 0] - first[EACH ? i : 0]),
                              power2(log[EACH ? i + 1 : 0] - first[EACH ? i + 1 : 0]));
            }
#pragma unroll
        for (int n = 0; n < CHUNK / TILE; n++) {
            if (n > tile || (EACH && n == tile)) continue;
            load_matrices(b, &m.k[n * TILE + lane / 16 * 8 + lane % 8][d + lane / 8 % 2 * 8],
                          false);
            if (EACH)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const float *log = m.log[n * TILE + g + e / 2 * 8], *first = m.log[row];
                    int i = d + e % 2 * 8 + c;
                    b[e] = scaled(b[e], power2(first[EACH ? i : 0] - log[EACH ? i : 0]),
                                  power2(first[EACH ? i + 1 : 0] - log[EACH ? i + 1 : 0]));
                }
            mma<true>(acc[2 * n], a, b[0], b[1]);
            mma<true>(acc[2 * n + 1], a, b[2], b[3]);
        }
    }
}

// Where each element decays: scores of rows with the rows of their own 16, a thread one.
template <int KD, bool EACH>
static __device__ void own_scores(struct making<KD, EACH> &m, const struct parts &out) {
    int t = threadIdx.x / TILE, s = threadIdx.x % TILE;
    for (int tile = 0; tile < CHUNK; tile += TILE) {
        const float *later = m.log[tile + t], *earlier = m.log[tile + s];
        float by_k = 0, by_r = 0;
        for (int i = 0; s <= t && i < KD; i += 2) {
            uint32_t k = *(const uint32_t *)&m.k[tile + t][i];
            uint32_t r = *(const uint32_t *)&m.r[tile + t][i];
            uint32_t own = *(const uint32_t *)&m.k[tile + s][i];
            float low = __uint_as_float(own << 16) * power2(later[i] - earlier[i]);
            float high = __uint_as_float(own & 0xffff0000u) * power2(later[i + 1] - earlier[i + 1]);
            by_k += __uint_as_float(k << 16) * low + __uint_as_float(k & 0xffff0000u) * high;
            by_r += __uint_as_float(r << 16) * low + __uint_as_float(r & 0xffff0000u) * high;
        }
        m.a[tile + t][tile + s] = s < t ? by_k * m.beta[tile + s] : 0.0f;
        __nv_bfloat16 score = __float2bfloat16(by_r * m.beta[tile + s]);
        *(__nv_bfloat16 *)(out.scores + (tile + t) * CHUNK + tile + s) = score;
    }
}

// The triangle, by the first four warps, and what rows read of each other, by the others.
template <int KD, bool RULE, bool EACH>
static __device__ void all_scores(struct making<KD, EACH> &m, const struct parts &out) {
    int warp = threadIdx.x / WARP, tile = warp % 4, lane = threadIdx.x % WARP;
    bool reads = warp >= 4;
    float acc[CHUNK / 8][4] = {};
    if (reads || RULE) scores<KD, EACH>(acc, m, reads ? m.r : m.k, tile);
#pragma unroll
    for (int n = 0; n < CHUNK / 8; n++) {
        if (n / 2 > tile || (EACH && n / 2 == tile) || (!RULE && !reads)) continue;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int t = tile * TILE + lane / 4 + h * 8, s = n * 8 + lane % 4 * 2;
            float v[2];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float decay = EACH ? 1.0f : power2(fminf(m.log[t][0] - m.log[s + e][0], 0.0f));
                v[e] = s + e <= t ? acc[n][2 * h + e] * m.beta[s + e] * decay : 0.0f;
            }
            if (reads)
                put_pair(out.scores + t * CHUNK + s, v[0], v[1]);
            else
                m.a[t][s] = v[0], m.a[t][s + 1] = v[1];
        }
    }
    if (EACH) own_scores(m, out);
}

// The inverse of 1 + a, 16 by 16 at a time: first those on the diagonal, then, by their distance
// from it, the others, which come of those nearer by and of a.
template <int KD, bool EACH> static __device__ void invert(struct making<KD, EACH> &m) {
    int warp = threadIdx.x / WARP, row = threadIdx.x / TILE, column = threadIdx.x % TILE;
    if (warp < 4) {
        int at = warp * TILE;
        float x[TILE];
#pragma unroll
        for (int i = 0; i < TILE; i++) {
            x[i] = i == column ? 1.0f : 0.0f;
#pragma unroll
            for (int s = 0; s < i; s++) x[i] -= m.a[at + i][at + s] * x[s];
        }
#pragma unroll
        for (int i = 0; i < TILE; i++)
            if (threadIdx.x % WARP < TILE) m.t[at + i][at + column] = x[i];
    }
    __syncthreads();
#pragma unroll
    for (int distance = 1; distance < 4; distance++) {
        for (int to = distance * TILE; to < CHUNK; to += TILE) {
            int from = to - distance * TILE;
            float sum = 0;
#pragma unroll 16
            for (int s = from; s < to; s++) sum += m.a[to + row][s] * m.t[s][from + column];
            m.t[to + row][from + column] = sum;
        }
        __syncthreads();
        float sum[3] = {};
#pragma unroll
        for (int i = 0; i < 4 - distance; i++) {
            int to = (distance + i) * TILE, from = i * TILE;
#pragma unroll
            for (int s = 0; s < TILE; s++)
                sum[i] -= m.t[to + row][to + s] * m.t[to + s][from + column];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 4 - distance; i++)
            m.t[(distance + i) * TILE + row][i * TILE + column] = sum[i];
        __syncthreads();
    }
}

// The inverse times a matrix of CHUNK rows: a warp 16 rows by N columns. by [s]: what row s of the
// matrix counts for, or NULL.
template <int N, int LD, int KD, bool EACH>
static __device__ __forceinline__ void apply(float acc[N / 8][4], const struct making<KD, EACH> &m,
                                             const uint16_t *x, int tile, bool decayed) {
    int lane = threadIdx.x % WARP, g = tile * TILE + lane / 4;
#pragma unroll
    for (int k = 0; k < CHUNK / TILE; k++) {
        if (k > tile) continue;
        int s = k * TILE + lane % 4 * 2;
        float by[4] = {1, 1, 1, 1};
        if (decayed)
#pragma unroll
            for (int e = 0; e < 4; e++) by[e] = power2(m.log[s + e / 2 * 8 + e % 2][0]);
        uint32_t a[4] = {pack(m.t[g][s] * by[0], m.t[g][s + 1] * by[1]),
                         pack(m.t[g + 8][s] * by[0], m.t[g + 8][s + 1] * by[1]),
                         pack(m.t[g][s + 8] * by[2], m.t[g][s + 9] * by[3]),
                         pack(m.t[g + 8][s + 8] * by[2], m.t[g + 8][s + 9] * by[3])};
#pragma unroll
        for (int n = 0; n < N / TILE; n++) {
            uint32_t b[4];
            int at = (k * TILE + lane % 16) * LD + n * TILE + lane / 16 * 8;
            load_matrices(b, x + at, true);
            mma<true>(acc[2 * n], a, b[0], b[1]);
            mma<true>(acc[2 * n + 1], a, b[2], b[3]);
        }
    }
}

// What u takes out of S.
template <int KD, bool EACH>
static __device__ void make_takes(struct making<KD, EACH> &m, const struct parts &out) {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, tile = warp % 4;
    int column = warp / 4 * (KD / 2);
    if (EACH) {
        for (int at = threadIdx.x; at < CHUNK * KD / 2; at += THREADS) {
            int t = at / (KD / 2), i = at % (KD / 2) * 2;
            uint32_t *k = (uint32_t *)&m.k[t][i];
            *k = scaled(*k, power2(m.log[t][EACH ? i : 0]), power2(m.log[t][EACH ? i + 1 : 0]));
        }
        __syncthreads();
    }
    float acc[KD / 16][4] = {};
    apply<KD / 2, KD + PAD>(acc, m, &m.k[0][column], tile, !EACH);
#pragma unroll
    for (int n = 0; n < KD / 16; n++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            put_pair(out.takes + (tile * TILE + lane / 4 + h * 8) * KD + column + n * 8 +
                         lane % 4 * 2,
                     acc[n][2 * h], acc[n][2 * h + 1]);
}

// u without what is taken, 64 columns at a time, which are where the queries were.
template <int KD, bool EACH>
static __device__ void make_values(struct making<KD, EACH> &m, const struct chunks &c,
                                   const struct piece &p, const struct parts &out) {
    enum { COLUMNS = 64, LD = COLUMNS + PAD };
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, tile = warp % 4;
    uint16_t *v = m.r[0];
    for (int first = 0; first < c.v_padded; first += COLUMNS) {
        __syncthreads();
#pragma unroll 4
        for (int at = threadIdx.x; at < CHUNK * COLUMNS / 2; at += THREADS) {
            int t = at / (COLUMNS / 2), i = at % (COLUMNS / 2) * 2, column = first + i;
            int base = p.head * c.in.v_width;
            bool low = t < p.n && column < c.in.v_width;
            bool high = t < p.n && column + 1 < c.in.v_width;
            put_pair(v + t * LD + i, element(c.in.v, p.row + t, base, column, low),
                     element(c.in.v, p.row + t, base, column + 1, high));
        }
        __syncthreads();
        float acc[SLICE / 8][4] = {};
        int column = first + warp / 4 * SLICE;
        if (column >= c.v_padded) continue;
        apply<SLICE, LD>(acc, m, v + warp / 4 * SLICE, tile, false);
#pragma unroll
        for (int n = 0; n < SLICE / 8; n++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                *(float2 *)(out.values + (tile * TILE + lane / 4 + h * 8) * c.v_padded + column +
                            n * 8 + lane % 4 * 2) = make_float2(acc[n][2 * h], acc[n][2 * h + 1]);
    }
}

static __device__ void copy_values(const struct chunks &c, const struct piece &p,
                                   const struct parts &out) {
    for (int at = threadIdx.x; at < CHUNK * c.v_padded; at += THREADS) {
        int t = at / c.v_padded, i = at % c.v_padded;
        bool there = t < p.n && i < c.in.v_width;
        out.values[at] = element(c.in.v, p.row + t, p.head * c.in.v_width, i, there);
    }
}

// One block a slot (x) and head (y).
template <int KD, bool RULE, bool EACH>
static __global__ void __launch_bounds__(THREADS)
    make_kernel(const __grid_constant__ struct chunks c) {
    extern __shared__ float4 shared[];
    struct making<KD, EACH> &m = *(struct making<KD, EACH> *)shared;
    wait_for_input();
    struct piece p = piece_at(c, blockIdx.x, blockIdx.y);
    if (p.n <= 0) return;
    struct parts out = parts_at<KD>(c, blockIdx.x, p.head);
    read_decays(m, c.in, p);
    __syncthreads();
    read_keys(m, c.in, p, out);
    __syncthreads();
    all_scores<KD, RULE, EACH>(m, out);
    if (!RULE) {
        copy_values(c, p, out);
        return;
    }
    __syncthreads();
    invert(m);
    make_takes(m, out);
    make_values(m, c, p, out);
}

// --- from chunk to chunk -------------------------------------------------------------------------

template <int KD> struct stage {
    uint16_t reads[CHUNK][KD + PAD], takes[CHUNK][KD + PAD], keys[CHUNK][KD + PAD];
    uint16_t scores[CHUNK][CHUNK + PAD];
    float values[CHUNK][SLICE + PAD], keep[KD];
};

template <int KD> struct going {
    struct stage<KD> stage[2];
    uint16_t s[KD][SLICE + PAD], u[CHUNK][SLICE + PAD];
};

// Rows of `bytes` bytes, `ld` and `from_ld` bytes apart.
template <int ROWS, int BYTES>
static __device__ __forceinline__ void fetch_rows(void *to, int ld, const void *from,
                                                  int64_t from_ld) {
    constexpr int EACH = BYTES / 16;
#pragma unroll
    for (int i = threadIdx.x; i < ROWS * EACH; i += THREADS)
        copy16((uint16_t *)((char *)to + i / EACH * ld + i % EACH * 16),
               (const uint16_t *)((const char *)from + i / EACH * from_ld + i % EACH * 16), true);
}

template <int KD, bool RULE>
static __device__ __forceinline__ void fetch(struct stage<KD> &to, const struct chunks &c,
                                             int64_t slot, int head, int column) {
    struct parts p = parts_at<KD>(c, slot, head);
    if (RULE) fetch_rows<CHUNK, KD * 2>(to.takes, (KD + PAD) * 2, p.takes, KD * 2);
    fetch_rows<CHUNK, KD * 2>(to.reads, (KD + PAD) * 2, p.reads, KD * 2);
    fetch_rows<CHUNK, SLICE * 4>(to.values, (SLICE + PAD) * 4, p.values + column, c.v_padded * 4);
    fetch_rows<CHUNK, CHUNK * 2>(to.scores, (CHUNK + PAD) * 2, p.scores, CHUNK * 2);
    fetch_rows<CHUNK, KD * 2>(to.keys, (KD + PAD) * 2, p.keys, KD * 2);
    fetch_rows<1, KD * 4>(to.keep, KD * 4, p.keep, KD * 4);
    asm volatile("cp.async.commit_group;");
}

// Of S, a warp has 16 rows by 8 * N columns.
template <int KD> struct held {
    enum { TILES = KD / TILE, N = SLICE / 8 * TILES / 8 };
    float s[N][4];
    int row, column; // of this lane's first element: in S, in the slice
};

template <int KD, typename F>
static __device__ __forceinline__ void each_element(const struct held<KD> &h, const F &f) {
#pragma unroll
    for (int n = 0; n < held<KD>::N; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) f(n, e, h.row + e / 2 * 8, h.column + n * 8 + e % 2);
}

// A warp's rows of y, 16 by 16: what it reads of S, and what u is.
template <int KD, bool RULE>
static __device__ __forceinline__ void read_s(float y[2][4], struct going<KD> &g,
                                              const struct stage<KD> &in, int tile, int half,
                                              float skip) {
    int lane = threadIdx.x % WARP;
    float took[2][4] = {};
#pragma unroll
    for (int d = 0; d < KD; d += TILE) {
        uint32_t a[4], b[4];
        load_matrices(b, &g.s[d + lane % 16][half * 16 + lane / 16 * 8], true);
        load_matrices(a, &in.reads[tile * TILE + lane % 16][d + lane / 16 * 8], false);
        mma<true>(y[0], a, b[0], b[1]);
        mma<true>(y[1], a, b[2], b[3]);
        if (!RULE) continue;
        load_matrices(a, &in.takes[tile * TILE + lane % 16][d + lane / 16 * 8], false);
        mma<true>(took[0], a, b[0], b[1]);
        mma<true>(took[1], a, b[2], b[3]);
    }
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int t = tile * TILE + lane / 4 + h * 8, column = half * 16 + n * 8 + lane % 4 * 2;
            float2 v = *(const float2 *)&in.values[t][column];
            put_pair(&g.u[t][column], v.x - took[n][2 * h], v.y - took[n][2 * h + 1]);
            y[n][2 * h] += skip * v.x, y[n][2 * h + 1] += skip * v.y;
        }
}

template <int KD>
static __device__ __forceinline__ void read_u(float y[2][4], const struct going<KD> &g,
                                              const struct stage<KD> &in, int tile, int half) {
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int k = 0; k < CHUNK / TILE; k++) {
        if (k > tile) continue;
        uint32_t a[4], b[4];
        load_matrices(b, &g.u[k * TILE + lane % 16][half * 16 + lane / 16 * 8], true);
        load_matrices(a, &in.scores[tile * TILE + lane % 16][k * TILE + lane / 16 * 8], false);
        mma<true>(y[0], a, b[0], b[1]);
        mma<true>(y[1], a, b[2], b[3]);
    }
}

template <int KD>
static __device__ __forceinline__ void put_in(struct held<KD> &h, const struct going<KD> &g,
                                              const struct stage<KD> &in) {
    int lane = threadIdx.x % WARP, row = h.row - lane / 4, column = h.column - lane % 4 * 2;
    each_element(h, [&](int n, int e, int i, int) { h.s[n][e] *= in.keep[i]; });
#pragma unroll
    for (int k = 0; k < CHUNK; k += TILE) {
        uint32_t a[4], b[4];
        load_matrices(a, &in.keys[k + lane / 16 * 8 + lane % 8][row + lane / 8 % 2 * 8], true);
#pragma unroll
        for (int n = 0; n < held<KD>::N; n += 2) {
            load_matrices(b, &g.u[k + lane % 16][column + n * 8 + lane / 16 * 8], true);
            mma<true>(h.s[n], a, b[0], b[1]);
            mma<true>(h.s[n + 1], a, b[2], b[3]);
        }
    }
}

// One block a run (x), head (y) and SLICE columns (z).
template <int KD, bool RULE>
static __global__ void __launch_bounds__(THREADS, 1)
    go_kernel(const __grid_constant__ struct chunks c) {
    extern __shared__ float4 shared[];
    struct going<KD> &g = *(struct going<KD> *)shared;
    wait_for_input();
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, tile = warp % 4, half = warp / 4;
    int from = c.in.walk.run[blockIdx.x], to = c.in.walk.run[blockIdx.x + 1];
    if (to - from < CHUNKED_LEAST) return;
    int head = blockIdx.y, first = blockIdx.z * SLICE, width = c.in.v_width;
    int64_t slot = slot_of(from, blockIdx.x);
    fetch<KD, RULE>(g.stage[0], c, slot, head, first);
    struct held<KD> h;
    h.row = warp % held<KD>::TILES * TILE + lane / 4;
    h.column = warp / held<KD>::TILES * held<KD>::N * 8 + lane % 4 * 2;
    float *state = state_of(c.in.walk, from) + head * c.in.per_head + first;
    float skip = c.in.d ? c.in.d[head] : 0.0f;
    each_element(h, [&](int n, int e, int i, int j) {
        bool there = i < c.in.k_width && first + j < width;
        h.s[n][e] = there ? state[(int64_t)i * width + j] : 0.0f;
    });
    for (int at = from; at < to; at += CHUNK, slot++) {
        struct stage<KD> &in = g.stage[(at - from) / CHUNK % 2];
        asm volatile("cp.async.wait_all;" ::: "memory");
#pragma unroll
        for (int n = 0; n < held<KD>::N; n++) {
            put_pair(&g.s[h.row][h.column + n * 8], h.s[n][0], h.s[n][1]);
            put_pair(&g.s[h.row + 8][h.column + n * 8], h.s[n][2], h.s[n][3]);
        }
        __syncthreads();
        if (at + CHUNK < to)
            fetch<KD, RULE>(g.stage[(at - from) / CHUNK % 2 ^ 1], c, slot + 1, head, first);
        float y[2][4] = {};
        read_s<KD, RULE>(y, g, in, tile, half, skip);
        __syncthreads();
        read_u(y, g, in, tile, half);
        put_in(h, g, in);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int t = at + tile * TILE + lane / 4 + i / 2 % 2 * 8;
            int column = first + half * 16 + i / 4 * 8 + lane % 4 * 2 + i % 2;
            if (t < to && column < width)
                c.in.y[t * c.in.ldy + head * width + column] = y[i / 4][i % 4];
        }
    }
    each_element(h, [&](int n, int e, int i, int j) {
        if (i < c.in.k_width && first + j < width) state[(int64_t)i * width + j] = h.s[n][e];
    });
}

template <int KD, bool RULE, bool EACH>
static void launch_chunks(struct context *c, const struct chunks &k, int64_t slots) {
    auto make = make_kernel<KD, RULE, EACH>;
    auto go = go_kernel<KD, RULE>;
    size_t making_size = sizeof(struct making<KD, EACH>), going_size = sizeof(struct going<KD>);
    if (!allow_shared(c, k.in.op, make, making_size) || !allow_shared(c, k.in.op, go, going_size))
        return;
    launch(c, k.in.op, make, dim3((unsigned)slots, (unsigned)k.in.heads), THREADS, making_size, k);
    dim3 grid((unsigned)k.runs, (unsigned)k.in.heads, (unsigned)(k.v_padded / SLICE));
    launch(c, k.in.op, go, grid, THREADS, going_size, k);
}

template <int KD>
static bool chunks_of(struct context *c, const struct chunked *p, const struct rows *rows) {
    int v_padded = (int)ceil_div(p->v_width, SLICE) * SLICE;
    struct chunks k = {*p, NULL, parts_size<KD>(v_padded), (int)rows->runs, v_padded};
    int64_t slots = rows->n / CHUNK + rows->runs;
    int64_t n[] = {slots * p->heads, k.each / 4};
    size_t mark = scratch_mark(c);
    struct tensor room = scratch_tensor(c, DT_F32, 2, n);
    k.room = (char *)room.data;
    bool done = !c->dry && !c->err.set;
    if (done && p->dual)
        launch_chunks<KD, false, false>(c, k, slots);
    else if (done && p->each)
        launch_chunks<KD, true, true>(c, k, slots);
    else if (done)
        launch_chunks<KD, true, false>(c, k, slots);
    scratch_release(c, mark);
    return done;
}

bool cuda_chunks(struct context *c, const struct chunked *p, const struct rows *rows) {
    size_t most = sizeof(struct going<128>) + 1024;
    if (c->precision != PRECISION_NATIVE || p->k_width > 128 || rows->n < CHUNKED_LEAST ||
        (rows->n == rows->runs && !c->dry) || c->dev->cuda->block_shared < most)
        return false;
    return p->k_width > 64 ? chunks_of<128>(c, p, rows) : chunks_of<64>(c, p, rows);
}
