// Mixture of experts: a router chooses, for every token, a few of many gated MLPs, whose outputs
// are added up by weight. Beside them a shared expert may serve every token.
#ifndef NN_MOE_H
#define NN_MOE_H

#include "nn/mlp.h"

struct moe_spec {
    int64_t experts, width;     // width of one expert
    struct route_options route; // without its bias
    bool router_bias;           // added to the router's logits
    bool choice_bias;           // route's bias
    bool weigh_input;           // an expert's input is multiplied by its weight, not its output
    struct gating gating;
    bool bias;              // of the experts' matrices
    struct mlp_spec shared; // the shared expert; width 0: none
    bool shared_gate;       // its output is multiplied by the sigmoid of a product of its input
};

// Names after the layer's prefix, without ".weight". Experts are published one by one, as stacks of
// modules (MLX), or as fused stacks, in which gate and up are one tensor; those of layouts that a
// family does not have are NULL.
struct moe_names {
    const char *router;
    const char *choice_bias;        // the whole name
    const char *each;               // before an expert's number: "mlp.experts."
    const char *gate, *up, *down;   // after the number and a dot
    const char *stack[3];           // gate, up, down of all experts
    const char *gate_up, *all_down; // of a fused stack, whole names
    bool fused_columns;             // its dense matrices are [in, out]
    bool interleaved; // its even rows are gate, the odd ones up; else first all of gate
    struct mlp_names shared;
    const char *shared_gate;
};

enum { MOE_MATRICES = 3 }; // gate, up, down

struct moe {
    struct moe_spec spec;
    struct weight router;
    struct tensor choice_bias;           // [experts] when spec.choice_bias
    struct weight *matrix[MOE_MATRICES]; // [experts] each, owned
    const struct weight *on_device[MOE_MATRICES];
    struct weight whole[MOE_MATRICES]; // the stacks that they are views of, if any
    float *biases;                     // [2, experts, width], owned: those of a fused stack apart
    struct mlp shared;
    struct weight shared_gate; // [1, hidden]
};

void moe_bind(struct moe *m, const struct moe_spec *spec, int64_t hidden,
              const struct moe_names *names, struct binder *b);
void moe_close(struct moe *m);
bool moe_store(struct moe *m, struct store *s, const char *what, struct error *e);

// What a step of `rows` rows takes of the matrices, when all experts are chosen alike: the bytes of
// those of them that some row goes through, and the elements that one row is multiplied with.
void moe_cost(struct moe *m, int64_t rows, size_t *bytes, int64_t *elements);

// in: [n, hidden] -> [n, hidden], added to `to` where that has dims
struct tensor moe_forward(struct context *c, const struct moe *m, struct input in,
                          struct tensor to);

#endif
