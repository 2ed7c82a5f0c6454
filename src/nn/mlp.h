// The gated feed-forward block (SwiGLU and its like): down(act(gate x) * up x).
#ifndef NN_MLP_H
#define NN_MLP_H

#include "checkpoint/store.h"
#include "checkpoint/weights.h"
#include "compute/compute.h"

struct mlp_spec {
    int64_t width;
    enum activation act;
    bool bias;
};

struct mlp {
    struct mlp_spec spec;
    struct weight gate, up, down;
};

struct mlp_names {
    const char *gate, *up, *down;
};

bool mlp_bind(struct mlp *m, const struct mlp_spec *spec, int64_t hidden,
              const struct mlp_names *names, const char *prefix, struct weights *w,
              struct error *e);
bool mlp_store(struct mlp *m, struct store *s, const char *prefix, struct error *e);
// x [n, hidden], normed -> [n, hidden]
struct tensor mlp_forward(struct context *c, const struct mlp *m, struct tensor x);

#endif
