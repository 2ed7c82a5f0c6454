// Families: what turns a config.json into a model. A family is one file with one `const struct
// family`, and one line in registry.c. Detection, loading, `mlxcel arch` and the documentation
// read nothing else.
#ifndef MODELS_FAMILY_H
#define MODELS_FAMILY_H

#include "checkpoint/config.h"
#include "nn/decoder.h"

enum family_kind { KIND_GENERATOR };
const char *family_kind_name(enum family_kind k);

// Published names that begin with `from` are named here with `to` instead.
struct name_move {
    const char *from, *to;
};

struct family {
    const char *id;                 // "qwen3"
    const char *name;               // "Qwen3"
    const char *const *model_types; // of config.json; NULL ends the list
    enum family_kind kind;
    // Fills spec from the config, reading every key that matters. Errors stick to the config; a
    // key that changes the output and was not read is refused by the caller.
    void (*spec)(struct config *c, struct decoder_spec *spec);
    const struct decoder_names *const *layouts; // ends with NULL
    const struct name_move *moves;              // ends with a from of NULL; NULL: none
};

const struct family *const *families(size_t *n);

// The family of a config's model_type, and its spec with every key accounted for. No family is an
// error that lists what there is; there is no default architecture. spec is the caller's to free.
const struct family *family_read(struct config *c, struct decoder_spec *spec, struct error *e);

// --- shared by the families' files -------------------------------------------------------------

// For decoder_names: where Llama has its stack, its attention and its MLP, and many others theirs.
#define LLAMA_STACK                                                                                \
    .embed = "model.embed_tokens", .norm = "model.norm", .head = "lm_head",                        \
    .layer = "model.layers.",                                                                      \
    .layer_norm = {[NORM_MIXER] = "input_layernorm", [NORM_FFN] = "post_attention_layernorm"}
#define LLAMA_ATTENTION                                                                            \
    .attention = {.q = "self_attn.q_proj",                                                         \
                  .k = "self_attn.k_proj",                                                         \
                  .v = "self_attn.v_proj",                                                         \
                  .o = "self_attn.o_proj",                                                         \
                  .q_norm = "self_attn.q_norm",                                                    \
                  .k_norm = "self_attn.k_norm"}
#define LLAMA_MLP .mlp = {.gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"}
// For moe_names: Hugging Face has each expert's matrices by these names, MLX stacks of them.
#define EXPERT_NAMES(module, gate_name, up_name, down_name)                                        \
    .each = module ".experts.", .gate = (gate_name), .up = (up_name), .down = (down_name),         \
    .stack = {module ".switch_mlp.gate_proj", module ".switch_mlp.up_proj",                        \
              module ".switch_mlp.down_proj"}

// The names of the Hugging Face and of the MLX layout, which are the same for these.
extern const struct decoder_names *const llama_layouts[];

// What nearly every decoder's config says under the same keys: sizes, heads, norm, rope, act,
// tying. layers get identical specs, which a family then amends. head_width: when the config has
// no head_dim; 0 means hidden / heads. Whole heads rotate.
void read_decoder(struct config *c, struct decoder_spec *spec, int64_t head_width);

// Its parts, for families that differ in one: all of it but the rope ...
void read_stack(struct config *c, struct decoder_spec *spec, int64_t head_width);
// (its beginning: all that is no layer's; its end: `layers` copies of one layer)
void read_sizes(struct config *c, struct decoder_spec *spec);
void read_shape(struct config *c, struct decoder_spec *spec); // hidden, vocab, layers
void make_layers(struct config *c, struct decoder_spec *spec, const struct layer_spec *layer);
// ... one more rope, of `partial` of each head, and its number in the spec; ...
int add_rope(struct config *c, struct decoder_spec *spec, const struct rope_config *r);
// ... and under other keys: the norms' kind and eps, an activation.
void read_norm(struct config *c, struct decoder_spec *spec, enum norm_kind kind, const char *key,
               double otherwise);
enum activation read_activation(struct config *c, const char *key, const char *otherwise);

// ... heads of attention, with no biases, norms or window; what tie_word_embeddings says or, where
// it is not there, `otherwise`.
struct attention_spec read_attention(struct config *c, int64_t hidden, int64_t head_width);
enum head read_head(struct config *c, enum head otherwise);
// Refuses layer_types that is shorter than the stack.
void check_layer_types(struct config *c, const struct decoder_spec *spec);

// A window of sliding_window tokens (where the config does not say, `window`) on the layers that
// slide: by layer_types if the config has it, else all but every sliding_window_pattern-th, or
// where it does not say, every pattern-th.
void read_windows(struct config *c, struct decoder_spec *spec, int64_t pattern, int64_t window);

// Gemma 2 and 3: norms of 1 + weight around both blocks, scaled and tied embeddings, logits capped
// at what the config says or, where it does not mention that, at logit_cap (0: not). Neither
// windows nor ropes.
extern const struct decoder_names *const gemma_layouts[];
void read_gemma(struct config *c, struct decoder_spec *spec, double logit_cap);

// A cap of logits or scores: null is none, and an absent key `otherwise`.
float read_cap(struct config *c, const char *key, double otherwise);
// Gemma 3: a full_attention rope, and that of the layers with a window, which get theirs.
void read_gemma_ropes(struct config *c, struct decoder_spec *spec);

// OLMo 2 and 3: all but ropes and windows.
extern const struct decoder_names *const olmo2_layouts[];
void read_olmo2(struct config *c, struct decoder_spec *spec);

// A dimension, 1 .. most, that the config has as one value for all layers or as a list of one for
// each; absent: `otherwise`.
int64_t read_of_layer(struct config *c, const char *key, int64_t layer, int64_t otherwise,
                      int64_t most);
// attention_bias on q, k, v and o; mlp_bias on all three of the MLP.
void read_biases(struct config *c, struct decoder_spec *spec);

// Experts of `width`, as many as the config has under the key `count`, of which
// num_experts_per_tok are chosen by the softmax over all; their activation is hidden_act.
struct moe_spec read_experts(struct config *c, const char *count, int64_t width);
// Qwen's: which layers have experts instead of an MLP (all but mlp_only_layers, or every
// decoder_sparse_step-th).
void read_qwen_experts(struct config *c, struct decoder_spec *spec);
extern const struct decoder_names *const qwen_moe_layouts[];
// Of short convolutions the taps; of Mamba's step sizes the width, which may be "auto"; refuses
// recurrent state over the limits, key being of `states`.
int64_t read_taps(struct config *c, const char *key, int64_t otherwise);
int64_t read_rank(struct config *c, const char *key, int64_t hidden);
void check_state(struct config *c, const char *key, int64_t channels, int64_t states);

// Refuses delta rules whose state is over the limit, key being of their heads.
void check_delta(struct config *c, const char *key, const struct delta *d);

// DeepSeek's: all but the experts, layers of latent attention and an MLP. Then the first
// first_k_dense_replace layers, and those that moe_layer_freq leaves out, keep their MLP, and the
// others get these experts, with n_shared_experts beside them.
struct layer_spec read_latent_layer(struct config *c); // without positions
void read_latent_decoder(struct config *c, struct decoder_spec *spec);
void read_deepseek_experts(struct config *c, struct decoder_spec *spec, struct moe_spec moe);
// Indexers on all layers of latent attention, with the same rope in this order of pairs.
void read_indexers(struct config *c, struct decoder_spec *spec, bool interleaved);
// Those of V3: chosen by the sigmoid of their logits and a bias, out of the best groups; the bias
// has no part in their weights, which are multiplied by routed_scaling_factor.
void read_biased_experts(struct config *c, struct decoder_spec *spec, double scale);
// n_group and topk_group; groups are scored so.
void read_groups(struct config *c, struct moe_spec *moe, enum group_score score);
extern const struct decoder_names *const deepseek_layouts[];

// Sliding windows as Qwen2 and Qwen3 say it: use_sliding_window, then layer_types, or else the
// layers from max_window_layers on.
void read_qwen_windows(struct config *c, struct decoder_spec *spec);

#endif
