// What the kernels of recurrent ops share: the rows of a step, and where each sequence's state is.
#ifndef COMPUTE_CUDA_RECURRENT_CUH
#define COMPUTE_CUDA_RECURRENT_CUH

#include "compute/cuda/mma.cuh"

struct walk {
    const int32_t *run, *seq, *index;
    float *state;
    int64_t ld_state;
};

static inline struct walk walk_of(const struct rows *rows, struct tensor state) {
    struct walk w = {(const int32_t *)rows->run.data, (const int32_t *)rows->seq.data,
                     (const int32_t *)rows->index.data, (float *)state.data, state.stride[0]};
    return w;
}

// A matrix of the step: row i at p + i * ld.
struct mat {
    const float *p;
    int64_t ld;
};

static inline struct mat mat_of(struct tensor t) {
    struct mat m = {(const float *)t.data, t.stride[0]};
    return m;
}

static __device__ __forceinline__ float *state_of(const struct walk &w, int row) {
    return w.state + w.seq[row] * w.ld_state;
}

// Ops whose heads keep a matrix S [k_width, v_width]: a delta rule with beta, or, where dual,
// state space duality, of which r is c, k is b, v is x, and g is dt.
struct chunked {
    const char *op;
    struct walk walk;
    float *y;
    int64_t ldy;
    struct mat r, k, v, g, beta;
    bool each, dual; // each: g is of each element of a key
    const float *a, *d, *dt_bias;
    float dt_least, dt_most;
    int heads, sharers, k_width, v_width; // sharers: heads that share r and k
    int64_t per_head;                     // floats of a head's state
};

// Runs of at least so many rows are done in chunks, in native precision.
enum { CHUNKED_LEAST = 16 };
// Does those of the step; dry too. False: none is done.
extern "C" bool cuda_chunks(struct context *c, const struct chunked *p, const struct rows *rows);

#endif
