// Normalization of the last dimension, as a family has it everywhere.
#ifndef NN_NORM_H
#define NN_NORM_H

#include "checkpoint/store.h"
#include "nn/bind.h"

enum norm_kind {
    NORM_RMS,
    NORM_RMS_PLUS, // the published weight is what is added to 1 (Gemma)
    NORM_LAYER,    // LayerNorm without a bias (Cohere)
    NORM_LAYER_BIAS,
};

struct norm_spec {
    enum norm_kind kind;
    float eps;
};

struct norm {
    struct norm_spec spec;
    struct tensor w, b; // [width]; dims 0: none
};

// name NULL: a norm without a weight
void norm_bind(struct norm *n, struct norm_spec spec, int64_t width, const char *name,
               struct binder *b);
bool norm_store(struct norm *n, struct store *s, const char *what, struct error *e);
struct tensor norm_forward(struct context *c, const struct norm *n, struct tensor x);

#endif
