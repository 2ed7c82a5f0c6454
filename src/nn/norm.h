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

// What a block takes in: x [n, width], normed first unless norm is NULL. Blocks that begin with
// products leave the norm to them.
struct input {
    struct tensor x;
    const struct norm *norm;
};
struct tensor input_forward(struct context *c, struct input in);
// Whether the norm is one that ops take.
bool input_rms(const struct input *in, struct rms *norm);
void input_linear(struct context *c, struct input in, int count, const struct weight *const w[],
                  struct tensor y[]);
struct tensor input_glu(struct context *c, struct input in, const struct weight *gate,
                        const struct weight *up, enum activation act);
// A block's last product: x w^T + bias, added to `to` where that has dims.
struct tensor output_linear(struct context *c, struct tensor to, struct tensor x,
                            const struct weight *w);

#endif
