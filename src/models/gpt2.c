// GPT-2: learned positions, LayerNorm with bias, a plain MLP, and matrices that are published
// [in, out].
#include <math.h>

#include "models/family.h"

static void spec(struct config *c, struct decoder_spec *s) {
    s->hidden = config_dim(c, "n_embd", 768);
    s->vocab = config_dim(c, "vocab_size", 50257);
    s->layers = config_dim(c, "n_layer", 12);
    s->positions = s->context = config_dim(c, "n_positions", 1024);
    s->head = config_bool(c, "tie_word_embeddings", true) ? HEAD_TIED : HEAD_OWN;
    read_norm(c, s, NORM_LAYER_BIAS, "layer_norm_epsilon", 1e-5);
    int64_t heads = config_dim(c, "n_head", 12), width = s->hidden / heads;
    if (s->hidden % heads)
        config_fail(c, "n_embd", "is not a multiple of n_head (%lld)", (long long)heads);
    bool scaled = config_bool(c, "scale_attn_weights", true);
    struct layer_spec layer = {
        .norms = NORMS_PRE,
        .attention = {.heads = heads,
                      .kv_heads = heads,
                      .width = width,
                      .qkv_bias = true,
                      .o_bias = true,
                      .rope = ROPE_NONE,
                      .scale = scaled ? (float)(1 / sqrt((double)width)) : 1},
        .mlp = {.width = config_dim(c, "n_inner", 4 * s->hidden),
                .act = read_activation(c, "activation_function", "gelu_new"),
                .plain = true,
                .bias = true},
    };
    make_layers(c, s, &layer);
}

// Masks that the first implementation kept among the weights.
static const char *const ignored[] = {"*.attn.bias", "*.attn.masked_bias", NULL};

static const struct decoder_names published = {
    .embed = "wte",
    .positions = "wpe",
    .norm = "ln_f",
    .head = "lm_head",
    .layer = "h.",
    .layer_norm = {[NORM_MIXER] = "ln_1", [NORM_FFN] = "ln_2"},
    .attention = {.qkv = "attn.c_attn", .o = "attn.c_proj"},
    .mlp = {.up = "mlp.c_fc", .down = "mlp.c_proj"},
    .transposed = true,
    .ignored = ignored,
};
static const struct decoder_names prefixed = {
    .embed = "transformer.wte",
    .positions = "transformer.wpe",
    .norm = "transformer.ln_f",
    .head = "lm_head",
    .layer = "transformer.h.",
    .layer_norm = {[NORM_MIXER] = "ln_1", [NORM_FFN] = "ln_2"},
    .attention = {.qkv = "attn.c_attn", .o = "attn.c_proj"},
    .mlp = {.up = "mlp.c_fc", .down = "mlp.c_proj"},
    .transposed = true,
    .ignored = ignored,
};
static const struct decoder_names mlx = {
    .embed = "model.wte",
    .positions = "model.wpe",
    .norm = "model.ln_f",
    .head = "lm_head",
    .layer = "model.h.",
    .layer_norm = {[NORM_MIXER] = "ln_1", [NORM_FFN] = "ln_2"},
    .attention = {.qkv = "attn.c_attn", .o = "attn.c_proj"},
    .mlp = {.up = "mlp.c_fc", .down = "mlp.c_proj"},
    .ignored = ignored,
};

const struct family family_gpt2 = {
    .id = "gpt2",
    .name = "GPT-2",
    .model_types = (const char *const[]){"gpt2", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = (const struct decoder_names *const[]){&published, &prefixed, &mlx, NULL},
};
