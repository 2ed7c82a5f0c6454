// What stands between projections and attention, of a head: its norm, its rotation, its place in
// the cache.
#ifndef COMPUTE_CUDA_PLACE_CUH
#define COMPUTE_CUDA_PLACE_CUH

#include "compute/cuda/device.cuh"

struct rotation {
    const int32_t *pos, *length;
    const float *freq, *long_freq; // long_freq: NULL, or of sequences longer than `longest`
    int64_t pairs, longest;
    float scale;
    bool interleaved;
};

static inline struct rotation rotation_of(const struct rows *rows, const struct rope *r) {
    return {(const int32_t *)rows->pos.data,
            (const int32_t *)rows->length.data,
            (const float *)r->inv_freq.data,
            (const float *)(r->long_freq.dims ? r->long_freq.data : NULL),
            r->inv_freq.n[0],
            r->longest,
            r->scale,
            r->interleaved};
}

// Heads of queries, keys or values of a step.
struct heads {
    float *p;
    int64_t ld;
    int count, width;
    const float *norm; // [width], or a row a head; NULL: ones
    bool norm_each;
};

static inline struct heads heads_of(struct tensor t, struct tensor norm) {
    return {(float *)t.data,
            t.stride[0],
            (int)t.n[1],
            (int)t.n[2],
            (const float *)(norm.dims ? norm.data : NULL),
            norm.dims > 1};
}

static __device__ __forceinline__ void put_float(void *p, enum dtype type, int64_t i, float v) {
    if (type == DT_F32) ((float *)p)[i] = v;
    if (type == DT_F16) ((__half *)p)[i] = __float2half_rn(v);
    if (type == DT_BF16) ((__nv_bfloat16 *)p)[i] = __float2bfloat16_rn(v);
}

#endif
