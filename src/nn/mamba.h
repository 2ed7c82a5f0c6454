// Mamba: a convolution and a selective state space, whose step sizes and in- and outputs follow
// from its input, gated by a second half of the first product.
#ifndef NN_MAMBA_H
#define NN_MAMBA_H

#include "nn/conv.h"
#include "nn/norm.h"

// Of the step sizes, of b and of c.
enum mamba_norms {
    MAMBA_NO_NORMS,
    MAMBA_NORMS,      // as the decoder's (Jamba)
    MAMBA_BARE_NORMS, // without a weight (Falcon Mamba)
};

struct mamba_spec {
    int64_t inner, states, rank, taps; // channels; numbers a channel; width of the step sizes
    bool proj_bias, conv_bias;
    enum mamba_norms norms;
    float norm_eps; // of bare ones
};

struct mamba {
    struct mamba_spec spec;
    struct weight in, x, dt, out;
    struct conv conv;
    struct norm dt_norm, b_norm, c_norm; // unless MAMBA_NO_NORMS
    struct tensor a, d;                  // [states, inner], negative; [inner]
};

// Of a_log and d the whole names.
struct mamba_names {
    const char *in, *conv, *x, *dt, *out, *a_log, *d, *dt_norm, *b_norm, *c_norm;
};

void mamba_bind(struct mamba *m, const struct mamba_spec *spec, struct norm_spec norm,
                int64_t hidden, const struct mamba_names *names, struct binder *b);
// The matrices; returns how many.
enum { MAMBA_WEIGHTS = 4 };
int mamba_weights(struct mamba *m, struct weight *w[MAMBA_WEIGHTS]);
bool mamba_store(struct mamba *m, struct store *s, const char *what, struct error *e);
// f32 elements of each piece of fixed state: the convolution's, the state space's.
void mamba_state(const struct mamba_spec *spec, int64_t fixed[2]);
// x [n, hidden], normed -> [n, hidden]
struct tensor mamba_forward(struct context *c, const struct mamba *m, struct tensor x,
                            const struct rows *rows, const struct tensor state[2]);

#endif
