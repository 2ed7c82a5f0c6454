// Gated delta nets (Qwen3-Next) and KDA (Kimi Linear): queries, keys and values through a short
// convolution each, a delta rule, whose decay and whose share of a key that is replaced follow from
// the input, a norm of each head's output, and a gate.
#ifndef NN_DELTA_NET_H
#define NN_DELTA_NET_H

#include "nn/conv.h"
#include "nn/norm.h"

struct delta_net_spec {
    struct delta delta;
    int64_t taps;
    bool channels; // every channel of a key decays by itself; else heads do
    int64_t rank;  // of the decays' and the gates' matrices, which are products of two; or 0 ...
    enum activation act; // of the gates
};

// After the layer's prefix, without ".weight"; of a_log and dt_bias the whole names.
struct delta_net_names {
    // ... where for each key head the rows of its query, its key, its values and their gates are
    // one matrix, and of its betas and decays another
    const char *qkvz, *ba;
    const char *conv;                     // over all queries, then keys, then values
    const char *q, *k, *v, *beta;         // with a rank
    const char *decay[2], *gate[2];       // into the rank and out of it
    const char *q_conv, *k_conv, *v_conv; // one each
    const char *a_log, *dt_bias, *norm, *out;
};

struct delta_net {
    struct delta_net_spec spec;
    struct weight qkvz, ba, q, k, v, beta, decay[2], gate[2], out;
    struct conv conv[3];
    struct tensor rate, bias; // of decays, one each: -e^a_log, dt_bias
    struct norm norm;         // [v_width]
};

void delta_net_bind(struct delta_net *m, const struct delta_net_spec *spec, float eps,
                    int64_t hidden, const struct delta_net_names *names, struct binder *b);
// The matrices; returns how many.
enum { DELTA_NET_WEIGHTS = 9 };
int delta_net_weights(struct delta_net *m, struct weight *w[DELTA_NET_WEIGHTS]);
bool delta_net_store(struct delta_net *m, struct store *s, const char *what, struct error *e);
// f32 elements of each piece of fixed state: the convolutions', the delta rule's.
void delta_net_state(const struct delta_net_spec *spec, int64_t fixed[4]);
// -> [n, hidden], or added to `to` where that has dims
struct tensor delta_net_forward(struct context *c, const struct delta_net *m, struct input input,
                                const struct rows *rows, const struct tensor state[4],
                                struct tensor to);

#endif
