// The recurrent block of Griffin: out(act(y(x)) * lru(conv(x(x)))), where both gates of the
// recurrence are products of its input by blocks on a diagonal.
#ifndef NN_RGLRU_H
#define NN_RGLRU_H

#include "nn/conv.h"

struct rglru_spec {
    int64_t width, blocks, taps; // channels; blocks of a gate's matrix
    enum activation act;
};

struct rglru {
    struct rglru_spec spec;
    struct weight x, y, out;
    struct conv conv;
    struct weight *input, *gate; // [blocks] each, views of the two below
    struct weight whole[2];
    struct tensor rate; // [width], negative
};

// Of the gates and the rate the whole names.
struct rglru_names {
    const char *x, *y, *out, *conv;
    const char *input, *input_bias, *gate, *gate_bias; // [blocks, in, out]; [blocks, out]
    const char *rate;
};

void rglru_bind(struct rglru *m, const struct rglru_spec *spec, int64_t hidden,
                const struct rglru_names *names, struct binder *b);
void rglru_close(struct rglru *m);
// The matrices; returns how many.
enum { RGLRU_WEIGHTS = 5 };
int rglru_weights(struct rglru *m, struct weight *w[RGLRU_WEIGHTS]);
bool rglru_store(struct rglru *m, struct store *s, const char *what, struct error *e);
// f32 elements of each piece of fixed state: the convolution's, the recurrence's.
void rglru_state(const struct rglru_spec *spec, int64_t fixed[2]);
// x [n, hidden], normed -> [n, hidden]
struct tensor rglru_forward(struct context *c, const struct rglru *m, struct tensor x,
                            const struct rows *rows, const struct tensor state[2]);

#endif
