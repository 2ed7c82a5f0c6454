// Binding a block's tensors by name: the weight map's checks, under a prefix, with the first error
// kept.
#ifndef NN_BIND_H
#define NN_BIND_H

#include "checkpoint/weights.h"

struct binder {
    struct weights *weights;
    const char *prefix; // before every name
    struct error *err;
};

// [out, in] with its bias [out] when asked for. Does nothing after an error.
void bind_matrix(struct binder *b, const char *name, int64_t out, int64_t in, bool bias,
                 struct weight *w);
// name.weight [n]
void bind_vector(struct binder *b, const char *name, int64_t n, struct tensor *t);

#endif
