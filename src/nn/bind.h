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

bool bind_has(const struct binder *b, const char *name); // name.weight is there, or its codes
// A module that the checkpoint holds and the model does not use.
void bind_ignore(struct binder *b, const char *name);
// [out, in] with its bias [out] when asked for. Does nothing after an error.
void bind_matrix(struct binder *b, const char *name, int64_t out, int64_t in, bool bias,
                 struct weight *w);
// name.weight [n], name.bias [n]
void bind_vector(struct binder *b, const char *name, int64_t n, struct tensor *t);
void bind_bias(struct binder *b, const char *name, int64_t n, struct tensor *t);

// The vector whose whole name this is, [n].
void bind_bare(struct binder *b, const char *name, int64_t n, struct tensor *t);

// Stacks of n matrices [out, in], as weights_stack and weights_bare_stack have them.
struct stack_shape {
    int64_t n, out, in;
    bool bias;
};
void bind_stack(struct binder *b, const char *name, const struct stack_shape *s,
                struct weight *whole, struct weight *each);
bool bind_has_stack(const struct binder *b, const char *name); // a bare one
void bind_bare_stack(struct binder *b, const char *name, const struct stack_shape *s, bool columns,
                     struct weight *whole, struct weight *each);
// The table whose whole name this is, [rows, columns].
void bind_table(struct binder *b, const char *name, int64_t rows, int64_t columns,
                struct tensor *t);
// name.weight [channels, 1, taps] or [channels, taps, 1], as [channels, taps]
void bind_filter(struct binder *b, const char *name, int64_t channels, int64_t taps,
                 struct tensor *t);

// Matrices over the same input that were published as one, their rows one after the other: each
// becomes a view of its rows. count <= LINEAR_MAX.
void bind_packed(struct binder *b, const char *name, int count, const int64_t rows[], int64_t in,
                 bool bias, struct weight *const w[]);

#endif
