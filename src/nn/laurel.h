// A learned residual beside a layer's mixer (Gemma 3n's LAuReL): the mixer's input, once as it is
// and once through a matrix of low rank.
#ifndef NN_LAUREL_H
#define NN_LAUREL_H

#include "nn/norm.h"

struct laurel {
    struct weight left, right; // [rank, hidden], [hidden, rank]
    struct norm norm;
};

struct laurel_names {
    const char *left, *right, *norm;
};

void laurel_bind(struct laurel *l, int64_t rank, struct norm_spec norm, int64_t hidden,
                 const struct laurel_names *names, struct binder *b);
// The matrices; returns how many.
enum { LAUREL_WEIGHTS = 2 };
int laurel_weights(struct laurel *l, struct weight *w[LAUREL_WEIGHTS]);
bool laurel_store(struct laurel *l, struct store *s, const char *what, struct error *e);
// x [n, hidden], of which the mixer's result is a part, = (x + h + norm(right left h)) / sqrt(2),
// with h [n, hidden] the mixer's input
void laurel_forward(struct context *c, const struct laurel *l, struct tensor x, struct tensor h);

#endif
