// The decoder stack: embedding, layers of norm + attention + norm + MLP around a residual stream,
// final norm, head. A family is a `decoder_spec` and the names of its tensors.
#ifndef NN_DECODER_H
#define NN_DECODER_H

#include "checkpoint/rope_config.h"
#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/state.h"

struct layer_spec {
    struct attention_spec attention;
    struct mlp_spec mlp;
};

enum head { HEAD_OWN, HEAD_TIED, HEAD_IF_PRESENT }; // the last: tied unless it has its own weight

struct decoder_spec {
    int64_t hidden, vocab, layers;
    struct layer_spec *layer; // [layers], owned; decoder_spec_free
    float eps;                // of every norm
    struct rope_config rope;
    enum head head;
    int64_t context; // positions it was trained for
};

void decoder_spec_free(struct decoder_spec *s);

struct decoder_names {
    const char *embed, *norm, *head;
    const char *layer; // before a layer's number: "model.layers."
    const char *attention_norm, *mlp_norm;
    struct attention_names attention;
    struct mlp_names mlp;
};

struct decoder;

// Takes spec over (also when it fails). The weights must outlive the decoder.
struct decoder *decoder_bind(struct decoder_spec spec, const struct decoder_names *names,
                             struct weights *w, struct error *e);
void decoder_close(struct decoder *d); // NULL is fine
// Puts the weights on the store's device.
bool decoder_store(struct decoder *d, struct store *s, struct error *e);

const struct decoder_spec *decoder_spec(const struct decoder *d);
struct state_decl decoder_state(const struct decoder *d, int64_t layer);

// What steps do with the matrices: a step reads each once, and multiplies each of its rows with all
// elements of the layers' matrices, and the rows whose logits are wanted with the head's.
struct decoder_cost {
    size_t layer_bytes, head_bytes;
    int64_t layer_elements, head_elements;
};
struct decoder_cost decoder_cost(const struct decoder *d);

// One step. state [layers]; wanted [m] I32: the rows whose logits are returned -> [m, vocab]
struct tensor decoder_forward(struct context *c, const struct decoder *d, const struct rows *rows,
                              const struct layer_state *state, struct tensor wanted);

#endif
