// Gemma 2: norms of 1 + weight before and after both blocks, embeddings times sqrt(hidden), soft
// caps on scores and logits, a window on every other layer, the first among them.
#include <math.h>

#include "models/family.h"

enum { HEAD_WIDTH = 256, WINDOW = 4096 };

static const struct decoder_names names = {
    .embed = "model.embed_tokens",
    .norm = "model.norm",
    .head = "lm_head",
    .layer = "model.layers.",
    .layer_norm = {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                   "post_feedforward_layernorm"},
    LLAMA_ATTENTION,
    LLAMA_MLP,
};
const struct decoder_names *const gemma_layouts[] = {&names, NULL};

float read_cap(struct config *c, const char *key, double otherwise) {
    if (config_mentions(c, key) && !config_has(c, key)) return 0;
    double cap = config_number(c, key, otherwise);
    if (cap < 0) config_fail(c, key, "must not be negative");
    return (float)cap;
}

void read_gemma(struct config *c, struct decoder_spec *s, double logit_cap) {
    read_stack(c, s, HEAD_WIDTH);
    read_norm(c, s, NORM_RMS_PLUS, "rms_norm_eps", 1e-6);
    read_biases(c, s);
    if (!config_has(c, "tie_word_embeddings")) s->head = HEAD_TIED;
    s->embed_scale = (float)sqrt((double)s->hidden);
    s->logit_cap = read_cap(c, "final_logit_softcapping", logit_cap);
    double scalar = config_number(c, "query_pre_attn_scalar", 256);
    if (!(scalar > 0)) config_fail(c, "query_pre_attn_scalar", "must be above 0");
    enum activation act = read_activation(c, "hidden_activation", "gelu_pytorch_tanh");
    for (int64_t i = 0; i < s->layers; i++) {
        struct layer_spec *l = &s->layer[i];
        l->norms = NORMS_SANDWICH;
        l->attention.scale = (float)(1 / sqrt(scalar));
        l->mlp.act = act;
    }
}

static void spec(struct config *c, struct decoder_spec *s) {
    read_gemma(c, s, 30);
    float cap = read_cap(c, "attn_logit_softcapping", 50);
    for (int64_t i = 0; i < s->layers; i++) s->layer[i].attention.soft_cap = cap;
    struct rope_config r;
    rope_config_read(c, NULL, 10000.0, &r);
    add_rope(c, s, &r);
    read_windows(c, s, 2, WINDOW);
    config_has(c, "sliding_window_size"); // an older name, which the reference does not read
}

const struct family family_gemma2 = {
    .id = "gemma2",
    .name = "Gemma 2",
    .model_types = (const char *const[]){"gemma2", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = gemma_layouts,
};
