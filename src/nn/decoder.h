// The decoder stack: embedding, layers of a mixer (attention) and a feed-forward block around a
// residual stream, final norm, head. A family is a `decoder_spec` and the names of its tensors.
#ifndef NN_DECODER_H
#define NN_DECODER_H

#include "checkpoint/rope_config.h"
#include "nn/altup.h"
#include "nn/attention.h"
#include "nn/delta_net.h"
#include "nn/laurel.h"
#include "nn/mamba.h"
#include "nn/mamba2.h"
#include "nn/mla.h"
#include "nn/mlp.h"
#include "nn/moe.h"
#include "nn/ple.h"
#include "nn/rglru.h"
#include "nn/rwkv7.h"
#include "nn/state.h"

// Norms of a layer: before and after its mixer, before and after its feed-forward block.
enum layer_norm { NORM_MIXER, NORM_MIXER_OUT, NORM_FFN, NORM_FFN_OUT, LAYER_NORMS };
enum { // sets of them
    NORMS_PRE = 1 << NORM_MIXER | 1 << NORM_FFN,
    NORMS_POST = 1 << NORM_MIXER_OUT | 1 << NORM_FFN_OUT,
    NORMS_SANDWICH = NORMS_PRE | NORMS_POST,
    NORMS_ONE = 1 << NORM_MIXER,
};

enum mixer {
    MIXER_ATTENTION,
    MIXER_MAMBA,
    MIXER_MAMBA2,
    MIXER_SHORT_CONV,
    MIXER_RGLRU,
    MIXER_MLA,
    MIXER_DELTA_NET,
    MIXER_RWKV7
};
enum ffn { FFN_MLP, FFN_MOE, FFN_RWKV7, FFN_NONE };

// One after the other, each over its own norms:
//     x += out_norm(mixer(norm(x))); x += out_norm(ffn(norm(x)))
// or parallel, both of the layer's input: x += mixer(norm(x)) + ffn(norm(x)), where without
// NORM_FFN the mixer's norm serves both.
struct layer_spec {
    int norms; // a set
    bool parallel;
    float residual; // factor of what is added to x; 0: none
    enum mixer mixer;
    union {
        struct attention_spec attention;
        struct mamba_spec mamba;
        struct mamba2_spec mamba2;
        struct short_conv_spec short_conv;
        struct rglru_spec rglru;
        struct mla_spec mla;
        struct delta_net_spec delta_net;
        struct rwkv7_spec rwkv7;
    };
    int64_t laurel; // rank of a learned residual beside the mixer (laurel.h); 0: none
    enum ffn ffn;
    union {
        struct mlp_spec mlp; // of FFN_RWKV7, too, whose mixer is MIXER_RWKV7
        struct moe_spec moe;
    };
};

// A rotation that layers share; dim elements of a head turn.
struct rope_spec {
    struct rope_config config;
    int64_t dim;
    bool interleaved; // element 2 i pairs with 2 i + 1, not i with i + dim / 2
};

enum { ROPES = 2 };

enum head { HEAD_OWN, HEAD_TIED, HEAD_IF_PRESENT }; // the last: tied unless it has its own weight

struct decoder_spec {
    int64_t hidden, vocab, layers;
    struct layer_spec *layer; // [layers], owned; decoder_spec_free
    struct norm_spec norm;    // of every norm
    struct rope_spec rope[ROPES];
    int ropes;
    int64_t positions; // rows of a table of learned positions, added to the embedding; 0: none
    bool embed_norm;   // of the embedding
    float embed_scale, logit_scale; // factors; 0: none
    float logit_cap;                // logits become cap * tanh(logit / cap); 0: none
    struct altup_spec altup;        // several residual streams (altup.h)
    struct ple_spec ple;            // embeddings for each layer (ple.h)
    enum head head;
    int64_t drafters; // layers after the last that predict further tokens: they are not read
    int64_t context;  // positions it was trained for
};

void decoder_spec_free(struct decoder_spec *s);

// The names of a checkpoint layout. Those of parts that a spec does not have may be NULL.
struct decoder_names {
    const char *embed, *embed_norm, *positions, *norm, *head;
    const char *sign;  // after some layer's number: what tells this layout from one with the same
                       // embed; or NULL
    const char *layer; // before a layer's number: "model.layers."
    const char *layer_norm[LAYER_NORMS];
    struct attention_names attention;
    struct mamba_names mamba;
    struct mamba2_names mamba2;
    struct short_conv_names short_conv;
    struct rglru_names rglru;
    struct mla_names mla;
    struct delta_net_names delta_net;
    struct rwkv7_names rwkv7;
    const char *rwkv7_mix; // of channel mixing, the whole name
    struct mlp_names mlp;
    struct moe_names moe;
    struct altup_names altup;
    struct laurel_names laurel;
    struct ple_names ple;
    // Norms of 1 + weight have the 1 in them in files whose convolutions are [channels, taps, 1],
    // as MLX writes them
    bool mlx_adds_one;
    bool transposed;            // matrices of layers are [in, out]
    const char *const *ignored; // tensors that hold nothing to know: patterns as
                                // weights_check_unused takes them, or NULL
};

struct decoder;

// Takes spec over (also when it fails). layouts ends with NULL; the one whose embedding is there is
// taken. The weights must outlive the decoder.
struct decoder *decoder_bind(struct decoder_spec spec, const struct decoder_names *const *layouts,
                             struct weights *w, struct error *e);
void decoder_close(struct decoder *d); // NULL is fine
// Puts the weights on the store's device.
bool decoder_store(struct decoder *d, struct store *s, struct error *e);

const struct decoder_spec *decoder_spec(const struct decoder *d);
const struct decoder_names *decoder_layout(const struct decoder *d);
struct state_decl decoder_state(const struct decoder *d, int64_t layer);
// Multiply-adds of a row with each token that it sees in a layer.
int64_t decoder_attended(const struct decoder *d, int64_t layer);
// A sequence that grows longer than this is to be computed anew from its first token (LongRoPE);
// 0: there is no such length.
int64_t decoder_short_context(const struct decoder *d);

// What a step of `rows` rows does with the matrices: it reads each once, and multiplies each of its
// rows with all elements of the layers' matrices, and the rows whose logits are wanted with the
// head's. Of experts, those that rows go through, when all are chosen alike.
struct decoder_cost {
    size_t layer_bytes, head_bytes;
    int64_t layer_elements, head_elements;
};
struct decoder_cost decoder_cost(const struct decoder *d, int64_t rows);

// One step. state [layers]; wanted [m] I32: the rows whose logits are returned -> [m, vocab]
struct tensor decoder_forward(struct context *c, const struct decoder *d, const struct rows *rows,
                              const struct layer_state *state, struct tensor wanted);

#endif
