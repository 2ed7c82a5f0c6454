// What the fronts of ops share: checks of the contract between a model and the ops. The first
// breach sticks to the context.
#ifndef COMPUTE_FRONT_H
#define COMPUTE_FRONT_H

#include <stdarg.h>

#include "compute/ops.h"

__attribute__((format(printf, 3, 4))) static inline bool want(struct context *c, bool ok,
                                                              const char *fmt, ...) {
    if (ok) return true;
    va_list args;
    va_start(args, fmt);
    vfail(&c->err, fmt, args);
    va_end(args);
    return false;
}

static inline bool f32_rows(struct context *c, const char *op, const char *name, struct tensor t) {
    char shape[96];
    tensor_shape_text(t, shape);
    return want(c, t.type == DT_F32 && t.dims >= 2 && tensor_rows_contiguous(t),
                "%s: %s is %s, not rows of F32", op, name, shape);
}

static inline bool i32_list(struct context *c, const char *op, const char *name, struct tensor t) {
    char shape[96];
    tensor_shape_text(t, shape);
    return want(c, t.type == DT_I32 && t.dims == 1 && tensor_contiguous(t),
                "%s: %s is %s, not a list of I32", op, name, shape);
}

static inline bool same_shape(struct context *c, const char *op, struct tensor a, struct tensor b) {
    char left[96], right[96];
    tensor_shape_text(a, left);
    tensor_shape_text(b, right);
    return want(c, tensor_same_shape(a, b), "%s: shapes differ: %s and %s", op, left, right);
}

// Refuses what the device's backend has no such op for. Seen in the dry run, before a model loads.
static inline bool has(struct context *c, bool there, const char *op) {
    return want(c, there, "%s has no op \"%s\", which this model needs (--device cpu)",
                c->dev->name, op);
}

// Whether the backend is to compute: nothing failed so far, and this is no dry run.
static inline bool go(const struct context *c) { return !c->err.set && !c->dry; }

static inline const struct ops *ops(const struct context *c) { return c->dev->ops; }

// Of what only a product of w reads.
static inline enum dtype read_by(const struct context *c, int64_t rows, const struct weight *w) {
    return go(c) && w && ops(c)->narrows && ops(c)->narrows(c, rows, w) ? DT_BF16 : DT_F32;
}

#endif
