// The router's choice of a row's experts, by a warp.
#ifndef COMPUTE_CUDA_ROUTE_CUH
#define COMPUTE_CUDA_ROUTE_CUH

#include "compute/cuda/device.cuh"

struct choosing {
    int experts, top, groups, top_groups;
    enum route_score score;
    enum group_score group_score;
    bool normalize;
    float scale;
    const float *bias; // [experts] or NULL
};

static inline struct choosing choosing_of(const struct route_options *opt, int64_t experts) {
    struct choosing c = {(int)experts,
                         (int)opt->top,
                         (int)opt->groups,
                         (int)opt->top_groups,
                         opt->score,
                         opt->group_score,
                         opt->normalize,
                         opt->scale,
                         (const float *)(opt->bias.dims ? opt->bias.data : NULL)};
    return c;
}

static __device__ float group_value(const float *x, int n, enum group_score kind) {
    float first = -INFINITY, second = -INFINITY;
    for (int i = 0; i < n; i++) {
        if (x[i] > first)
            second = first, first = x[i];
        else if (x[i] > second)
            second = x[i];
    }
    return kind == GROUP_BEST ? first : first + second;
}

// Takes out the experts of all but the best groups; what is NaN stays, to be taken last. value:
// [groups].
static __device__ void limit_groups(float *choice, float *value, const struct choosing &c) {
    int each = c.experts / c.groups, lane = threadIdx.x % 32;
    for (int g = lane; g < c.groups; g += 32)
        value[g] =
            isnan(choice[g * each]) ? NAN : group_value(choice + g * each, each, c.group_score);
    __syncwarp();
    for (int worse = c.groups - c.top_groups; worse > 0; worse--) {
        struct best least = {0, -1}; // of equals the last
        for (int g = lane; g < c.groups; g += 32)
            if (!isnan(value[g]) && (least.at < 0 || value[g] <= least.value))
                least.value = value[g], least.at = g;
        for (int d = 16; d > 0; d >>= 1) {
            struct best b = {__shfl_xor_sync(~0u, least.value, d),
                             __shfl_xor_sync(~0u, least.at, d)};
            bool lower = b.value < least.value || (b.value == least.value && b.at > least.at);
            if (b.at >= 0 && (least.at < 0 || lower)) least = b;
        }
        if (least.at < 0) return;
        for (int i = lane; i < each; i += 32) choice[least.at * each + i] = NAN;
        if (lane == 0) value[least.at] = NAN;
        __syncwarp();
    }
}

// --- in registers --------------------------------------------------------------------------------

// Lane l has the experts l, l + 32 ...: EACH of them.
enum { ROUTE_TOP_MOST = 32 };

// In the order of floats; NaN is 0, and below all.
static __device__ __forceinline__ uint32_t rising(float v) {
    uint32_t bits = __float_as_uint(v);
    return isnan(v) ? 0 : bits ^ ((bits >> 31) ? ~0u : 1u << 31);
}

template <int EACH>
static __device__ __forceinline__ void load_logits(float v[EACH], const struct choosing &c,
                                                   const float *logit) {
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int e = i * 32 + (int)threadIdx.x % 32;
        v[i] = e < c.experts ? __ldcg(logit + e) : -INFINITY;
    }
}

// Their softmax is e^(x - top) / sum.
struct exponents {
    float top, sum;
};

template <int EACH> static __device__ __forceinline__ struct exponents exponents_of(float v[EACH]) {
    struct exponents s = {-INFINITY, 0};
#pragma unroll
    for (int i = 0; i < EACH; i++) s.top = fmaxf(s.top, v[i]);
    s.top = warp_max(s.top);
#pragma unroll
    for (int i = 0; i < EACH; i++) s.sum += expf(v[i] - s.top);
    s.sum = warp_sum(s.sum);
    return s;
}

static __device__ __forceinline__ float score_of(float logit, enum route_score kind,
                                                 const struct exponents &s) {
    if (kind == ROUTE_SIGMOID) return activated(logit, ACT_SIGMOID);
    return kind == ROUTE_SOFTMAX ? expf(logit - s.top) / s.sum : logit;
}

// What lane k < top chooses, best first. v: the logits. memory: [experts + groups] where there are
// groups.
template <int EACH>
static __device__ __forceinline__ int choose(const struct choosing &c, float v[EACH],
                                             float *memory) {
    int lane = threadIdx.x % 32, own = 0;
    if (c.score == ROUTE_SIGMOID || c.bias) {
        struct exponents s = {};
        if (c.score == ROUTE_SOFTMAX) s = exponents_of<EACH>(v);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int e = i * 32 + lane;
            v[i] = score_of(v[i], c.score, s) + (c.bias && e < c.experts ? c.bias[e] : 0.0f);
        }
    }
    if (c.groups) {
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (i * 32 + lane < c.experts) memory[i * 32 + lane] = v[i];
        __syncwarp();
        limit_groups(memory, memory + c.experts, c);
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (i * 32 + lane < c.experts) v[i] = memory[i * 32 + lane];
    }
    uint32_t key[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) key[i] = i * 32 + lane < c.experts ? rising(v[i]) : 0;
    for (int k = 0; k < c.top; k++) {
        uint32_t most = 0;
        int at = INT32_MAX;
#pragma unroll
        for (int i = 0; i < EACH; i++) most = max(most, key[i]);
        most = __reduce_max_sync(~0u, most);
#pragma unroll
        for (int i = EACH - 1; i >= 0; i--)
            if (key[i] == most) at = i * 32 + lane;
        at = __reduce_min_sync(~0u, at);
        if (!most) at = 0; // all are NaN
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (at == i * 32 + lane) key[i] = 0;
        if (lane == k) own = at;
    }
    return own;
}

// The weight of what lane k < top chose; v: the logits as loaded.
template <int EACH>
static __device__ __forceinline__ float weigh(const struct choosing &c, const float *logit,
                                              float v[EACH], int own) {
    int lane = threadIdx.x % 32;
    bool has = lane < c.top;
    struct exponents s = {};
    if (c.score == ROUTE_SOFTMAX) s = exponents_of<EACH>(v);
    float w = has ? score_of(__ldcg(logit + own), c.score, s) : -INFINITY;
    if (c.score == ROUTE_TOP_SOFTMAX) w = expf(w - warp_max(w));
    if (!has) w = 0;
    float sum = warp_sum(w);
    if (c.score == ROUTE_TOP_SOFTMAX) w /= sum, sum = warp_sum(w);
    return w * (c.scale / (c.normalize ? sum + 1e-20f : 1.0f)); // they may all have gone to 0
}

#endif
