// The feed-forward block: down(act(gate x) * up x) (SwiGLU and its like), or down(act(up x)).
#ifndef NN_MLP_H
#define NN_MLP_H

#include "checkpoint/store.h"
#include "nn/norm.h"

struct mlp_spec {
    int64_t width;
    enum activation act;
    bool plain; // no gate
    bool bias;
    // Of the gate, as if its values were normally distributed, so large a share becomes 0, and of
    // the others what they are over that remains (Gemma 3n); 0: it stays
    float sparsity;
};

struct mlp {
    struct mlp_spec spec;
    struct weight gate, up, down;
    float cut; // of spec.sparsity, in standard deviations from the mean
};

struct mlp_names {
    const char *gate, *up, *down;
    // gate and up as one matrix, where it is there: all rows of gate, then up; or all of up first
    const char *gate_up, *up_gate;
};

void mlp_bind(struct mlp *m, const struct mlp_spec *spec, int64_t hidden,
              const struct mlp_names *names, struct binder *b);
// The matrices; returns how many.
enum { MLP_WEIGHTS = 3 };
int mlp_weights(struct mlp *m, struct weight *w[MLP_WEIGHTS]);
bool mlp_store(struct mlp *m, struct store *s, const char *what, struct error *e);
// in: [n, hidden] -> [n, hidden], added to `to` where that has dims
struct tensor mlp_forward(struct context *c, const struct mlp *m, struct input in,
                          struct tensor to);

#endif
