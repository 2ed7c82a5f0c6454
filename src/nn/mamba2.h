// Mamba 2: a convolution over channels, inputs and outputs of a state space together, the state
// space in heads (SSD), its gate, and a norm of the gated output over each group of channels.
#ifndef NN_MAMBA2_H
#define NN_MAMBA2_H

#include "nn/conv.h"
#include "nn/norm.h"

struct mamba2_spec {
    int64_t heads, width, groups, states, taps; // width of a head; states of a group
    bool proj_bias, conv_bias;
    float dt_least, dt_most; // bounds of the step sizes
};

struct mamba2 {
    struct mamba2_spec spec;
    struct weight in, out;
    struct conv conv;
    struct ssd ssd;
    struct tensor norm; // [groups, heads * width / groups]
    float eps;
};

// Of a_log, d and dt_bias the whole names.
struct mamba2_names {
    const char *in, *conv, *out, *norm, *a_log, *d, *dt_bias;
};

void mamba2_bind(struct mamba2 *m, const struct mamba2_spec *spec, struct norm_spec norm,
                 int64_t hidden, const struct mamba2_names *names, struct binder *b);
// The matrices; returns how many.
enum { MAMBA2_WEIGHTS = 2 };
int mamba2_weights(struct mamba2 *m, struct weight *w[MAMBA2_WEIGHTS]);
bool mamba2_store(struct mamba2 *m, struct store *s, const char *what, struct error *e);
// f32 elements of each piece of fixed state: the convolution's, the state space's.
void mamba2_state(const struct mamba2_spec *spec, int64_t fixed[2]);
// x [n, hidden], normed -> [n, hidden]
struct tensor mamba2_forward(struct context *c, const struct mamba2 *m, struct tensor x,
                             const struct rows *rows, const struct tensor state[2]);

#endif
