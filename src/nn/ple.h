// Per-layer embeddings (Gemma 3n): besides its embedding, each token has a short vector for every
// layer, which the layer takes in at its end:
//     norm(project(act(gate x) * input))
// A layer's input is looked up in a table and computed from the token's embedding as well.
#ifndef NN_PLE_H
#define NN_PLE_H

#include "nn/norm.h"

struct ple_spec {
    int64_t width; // of a layer's input; 0: there are none
    int64_t vocab; // ids that the table has: others are as id 0
    enum activation act;
};

struct ple {
    struct ple_spec spec;
    int64_t layers;
    struct weight table, project;
    struct norm norm;
};

struct ple_layer {
    enum activation act;
    struct weight gate, project;
    struct norm norm;
};

struct ple_names {
    const char *table, *project, *norm;                  // of the model
    const char *layer_gate, *layer_project, *layer_norm; // of a layer
};

void ple_bind(struct ple *p, const struct ple_spec *spec, int64_t layers, struct norm_spec norm,
              int64_t hidden, const struct ple_names *names, struct binder *b);
void ple_layer_bind(struct ple_layer *p, const struct ple_spec *spec, struct norm_spec norm,
                    int64_t hidden, const struct ple_names *names, struct binder *b);
bool ple_store(struct ple *p, struct store *s, struct error *e);
bool ple_layer_store(struct ple_layer *p, struct store *s, const char *what, struct error *e);
// The matrices; returns how many.
enum { PLE_LAYER_WEIGHTS = 2 };
int ple_layer_weights(struct ple_layer *p, struct weight *w[PLE_LAYER_WEIGHTS]);

// ids [n] I32, x [n, hidden] their embeddings -> the layers' inputs side by side [n, layers *
// width]
struct tensor ple_inputs(struct context *c, const struct ple *p, struct tensor ids,
                         struct tensor x);
// x [n, hidden] and the inputs of all layers -> what layer i's is worth [n, hidden]
struct tensor ple_layer_forward(struct context *c, const struct ple_layer *p, struct tensor x,
                                struct tensor inputs, int64_t i);

#endif
