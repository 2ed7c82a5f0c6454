// Binding a block's tensors by name: the weight map's checks, under a prefix, with the first error
// kept.
#ifndef NN_BIND_H
#define NN_BIND_H

#include "checkpoint/weights.h"
#include "compute/compute.h"

struct binder {
    struct weights *weights;
    const char *prefix; // before every name
    bool transposed;    // dense matrices are published as [in, out]
    struct error *err;
};

bool bind_has(const struct binder *b, const char *name); // name.weight is there
// [out, in] with its bias [out] when asked for. Does nothing after an error.
void bind_matrix(struct binder *b, const char *name, int64_t out, int64_t in, bool bias,
                 struct weight *w);
// name.weight [n], name.bias [n]
void bind_vector(struct binder *b, const char *name, int64_t n, struct tensor *t);
void bind_bias(struct binder *b, const char *name, int64_t n, struct tensor *t);

// Matrices over the same input that were published as one, their rows one after the other: each
// becomes a view of its rows. count <= LINEAR_MAX.
void bind_packed(struct binder *b, const char *name, int count, const int64_t rows[], int64_t in,
                 bool bias, struct weight *const w[]);

#endif
