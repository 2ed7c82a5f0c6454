// GPT-NeoX and Pythia: LayerNorm with bias, attention and MLP side by side, rope on a quarter of
// each head, q, k and v head by head in one matrix, biases everywhere.
#include "models/family.h"

static void spec(struct config *c, struct decoder_spec *s) {
    read_stack(c, s, 0);
    read_norm(c, s, NORM_LAYER_BIAS, "layer_norm_eps", 1e-5);
    struct rope_config r;
    rope_config_read(c, NULL, 10000.0, &r);
    if (!config_has(c, "rotary_pct") && !config_has(c, "rope_parameters")) r.partial = 0.25;
    add_rope(c, s, &r);
    bool parallel = config_bool(c, "use_parallel_residual", true);
    bool bias = config_bool(c, "attention_bias", true);
    enum activation act = read_activation(c, "hidden_act", "gelu");
    for (int64_t i = 0; i < s->layers; i++) {
        struct layer_spec *l = &s->layer[i];
        l->parallel = parallel;
        l->attention.qkv_bias = l->attention.o_bias = bias;
        l->mlp.plain = l->mlp.bias = true;
        l->mlp.act = act;
    }
}

// Masks and constants that the first implementation kept among the weights.
static const char *const ignored[] = {"*.attention.bias", "*.attention.masked_bias", NULL};

static const struct decoder_names published = {
    .embed = "gpt_neox.embed_in",
    .norm = "gpt_neox.final_layer_norm",
    .head = "embed_out",
    .layer = "gpt_neox.layers.",
    .layer_norm = {[NORM_MIXER] = "input_layernorm", [NORM_FFN] = "post_attention_layernorm"},
    .attention = {.qkv_heads = "attention.query_key_value", .o = "attention.dense"},
    .mlp = {.up = "mlp.dense_h_to_4h", .down = "mlp.dense_4h_to_h"},
    .ignored = ignored,
};
static const struct decoder_names mlx = {
    .embed = "model.embed_in",
    .norm = "model.final_layer_norm",
    .head = "model.embed_out",
    .layer = "model.h.",
    .layer_norm = {[NORM_MIXER] = "input_layernorm", [NORM_FFN] = "post_attention_layernorm"},
    .attention = {.qkv_heads = "attention.query_key_value", .o = "attention.dense"},
    .mlp = {.up = "mlp.dense_h_to_4h", .down = "mlp.dense_4h_to_h"},
    .ignored = ignored,
};

const struct family family_gpt_neox = {
    .id = "gpt_neox",
    .name = "GPT-NeoX",
    .model_types = (const char *const[]){"gpt_neox", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = (const struct decoder_names *const[]){&published, &mlx, NULL},
};
