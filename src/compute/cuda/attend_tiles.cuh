// Attention on tensor cores (mma.m16n8k16), a warp's 16 queries by a tile of keys: the softmax is a
// running one. Tiles of keys and values are in shared memory, their rows PAD elements apart.
#ifndef COMPUTE_CUDA_ATTEND_TILES_CUH
#define COMPUTE_CUDA_ATTEND_TILES_CUH

#include "compute/cuda/attend.cuh"
#include "compute/cuda/mma.cuh"

enum { PAD = 8 };

// --- a block's rows ------------------------------------------------------------------------------

enum { ROWS = 128 };

struct block_rows {
    int32_t seq[ROWS], first[ROWS], last[ROWS]; // the first and last token that each sees
    float scale[ROWS];                          // of its scores, which are powers of 2 or capped
};

// By at least ROWS threads: the rows [row, row + count).
static __device__ __forceinline__ void read_rows(struct block_rows &b, const struct attend &a,
                                                 int64_t row, int count) {
    if ((int)threadIdx.x >= count) return;
    int32_t last = a.index[row + threadIdx.x];
    b.seq[threadIdx.x] = a.seq[row + threadIdx.x];
    b.last[threadIdx.x] = last;
    b.first[threadIdx.x] = (int32_t)first_seen(a, last);
    b.scale[threadIdx.x] = scale_of(a, last) * (a.soft_cap > 0 ? 1.0f : LOG2E);
}

// Rows of one sequence, in its order: what they see in all.
struct segment {
    int from, to; // of the block's rows
    int32_t seq, first, last;
};

// By whole warps.
static __device__ __forceinline__ struct segment segment_at(const struct block_rows &b, int from,
                                                            int count) {
    int32_t seq = b.seq[from];
    int to = count, lane = threadIdx.x % 32;
    for (int i = from; i < count; i += 32) {
        unsigned others = __ballot_sync(~0u, i + lane < count && b.seq[i + lane] != seq);
        if (!others) continue;
        to = i + __ffs((int)others) - 1;
        break;
    }
    return {from, to, seq, b.first[from], b.last[to - 1]};
}

// --- tiles ---------------------------------------------------------------------------------------

template <bool BRAIN> static __device__ __forceinline__ uint32_t narrow(float low, float high) {
    if (BRAIN) {
        __nv_bfloat162 v = __floats2bfloat162_rn(low, high);
        return *(uint32_t *)&v;
    }
    __half2 v = __floats2half2_rn(low, high);
    return *(uint32_t *)&v;
}

static __device__ __forceinline__ void put_one(const struct attend &a, int64_t at, float v) {
    if (a.narrow)
        ((__nv_bfloat16 *)a.y)[at] = __float2bfloat16_rn(v);
    else
        a.y[at] = v;
}

// Two of y's elements that follow each other.
static __device__ __forceinline__ void put_pair(const struct attend &a, int64_t at, float low,
                                                float high) {
    if (a.narrow)
        *(uint32_t *)((__nv_bfloat16 *)a.y + at) = pack(low, high);
    else
        *(float2 *)(a.y + at) = make_float2(low, high);
}

// One warp's 16 rows: lane / 4 and lane / 4 + 8.
template <int D> struct running {
    float acc[D / 8][4];
    float top[2], total[2];
};

template <int D, bool BRAIN, int KEYS>
static __device__ __forceinline__ void attend_tile(struct running<D> &r,
                                                   const uint32_t q[D / 16][4], const uint16_t *k,
                                                   const uint16_t *v, const struct attend &a,
                                                   int32_t t0, const int32_t first[2],
                                                   const int32_t last[2]) {
    int lane = threadIdx.x % 32, t = lane % 4;
    float s[KEYS / 8][4] = {};
#pragma unroll
    for (int n = 0; n < KEYS / 16; n++)
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
            uint32_t b[4]; // keys 0-7: d low, d high; keys 8-15: the same
            int key = n * 16 + lane / 16 * 8 + lane % 8, at = d * 16 + lane / 8 % 2 * 8;
            load_matrices(b, k + key * (D + PAD) + at, false);
            mma<BRAIN>(s[2 * n], q[d], b[0], b[1]);
            mma<BRAIN>(s[2 * n + 1], q[d], b[2], b[3]);
        }
    float top[2] = {r.top[0], r.top[1]};
    bool all =
        first[0] <= t0 && first[1] <= t0 && last[0] >= t0 + KEYS - 1 && last[1] >= t0 + KEYS - 1;
    if (a.soft_cap > 0)
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) s[n][e] = capped(a, s[n][e]) * LOG2E;
    if (!__all_sync(~0u, all))
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int32_t at = t0 + n * 8 + 2 * t + e % 2;
                if (at < first[e / 2] || at > last[e / 2]) s[n][e] = -INFINITY;
            }
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) top[e / 2] = fmaxf(top[e / 2], s[n][e]);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], 1));
        top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], 2));
        float base = top[h] == -INFINITY ? 0.0f : top[h];
        float keep = power2(r.top[h] - base);
        r.top[h] = top[h];
        top[h] = base;
        r.total[h] *= keep;
#pragma unroll
        for (int d = 0; d < D / 8; d++) r.acc[d][2 * h] *= keep, r.acc[d][2 * h + 1] *= keep;
    }
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            s[n][e] = power2(s[n][e] - top[e / 2]);
            r.total[e / 2] += s[n][e];
        }
#pragma unroll
    for (int n = 0; n < KEYS / 16; n++) {
        uint32_t p[4] = {narrow<BRAIN>(s[2 * n][0], s[2 * n][1]),
                         narrow<BRAIN>(s[2 * n][2], s[2 * n][3]),
                         narrow<BRAIN>(s[2 * n + 1][0], s[2 * n + 1][1]),
                         narrow<BRAIN>(s[2 * n + 1][2], s[2 * n + 1][3])};
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
            uint32_t b[4]; // d low: keys 0-7, keys 8-15; d high: the same
            int key = n * 16 + lane / 8 % 2 * 8 + lane % 8, at = d * 16 + lane / 16 * 8;
            load_matrices(b, v + key * (D + PAD) + at, true);
            mma<BRAIN>(r.acc[2 * d], p, b[0], b[1]);
            mma<BRAIN>(r.acc[2 * d + 1], p, b[2], b[3]);
        }
    }
}

#endif
