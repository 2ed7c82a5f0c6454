// RecurrentGemma (Griffin): gated linear recurrences, and attention in a window on every few
// layers; norms of 1 + weight.
#include <math.h>

#include "models/family.h"

enum { CONTEXT = 8192, WINDOW = 2048 };

static const struct decoder_names names = {
    .embed = "model.embed_tokens",
    .norm = "model.final_norm",
    .head = "lm_head",
    .layer = "model.layers.",
    .layer_norm = {[NORM_MIXER] = "temporal_pre_norm", [NORM_FFN] = "channel_pre_norm"},
    .attention = {.q = "temporal_block.q_proj",
                  .k = "temporal_block.k_proj",
                  .v = "temporal_block.v_proj",
                  .o = "temporal_block.o_proj"},
    .rglru = {.x = "temporal_block.linear_x",
              .y = "temporal_block.linear_y",
              .out = "temporal_block.linear_out",
              .conv = "temporal_block.conv_1d",
              .input = "temporal_block.rg_lru.input_gate_weight",
              .input_bias = "temporal_block.rg_lru.input_gate_bias",
              .gate = "temporal_block.rg_lru.recurrent_gate_weight",
              .gate_bias = "temporal_block.rg_lru.recurrent_gate_bias",
              .rate = "temporal_block.rg_lru.recurrent_param"},
    .mlp = {.gate = "mlp_block.gate_proj",
            .up = "mlp_block.up_proj",
            .down = "mlp_block.down_proj"},
};

// The kinds of layers, over and over; the 9B calls them _block_types.
static bool attends(struct config *c, int64_t i) {
    static const char *const otherwise[] = {"recurrent", "recurrent", "attention"};
    const char *key = config_has(c, "block_types") ? "block_types" : "_block_types";
    size_t n = config_list(c, key);
    if (!n) return sv_is(sv(otherwise[i % 3]), "attention");
    struct sv kind = config_list_text(c, key, (size_t)i % n);
    if (!sv_is(kind, "attention") && !sv_is(kind, "recurrent"))
        config_fail(c, key, "has a kind that is none of recurrent, attention");
    return sv_is(kind, "attention");
}

static struct rglru_spec read_recurrence(struct config *c, const struct decoder_spec *s,
                                         enum activation act) {
    struct rglru_spec r = {.width = config_dim(c, "lru_width", s->hidden),
                           .blocks = config_dim(c, "num_attention_heads", 0),
                           .taps = read_taps(c, "conv1d_width", 4),
                           .act = act};
    if (r.width % r.blocks)
        config_fail(c, "num_attention_heads", "does not divide lru_width (%lld)",
                    (long long)r.width);
    return r;
}

// Half of a head turns unless the config says otherwise, there or among the rope's parameters.
static void read_rope(struct config *c, struct decoder_spec *s) {
    struct rope_config r;
    rope_config_read(c, NULL, 10000.0, &r);
    if (r.kind != ROPE_DEFAULT) config_fail(c, "rope_scaling", "is not for this family");
    struct config *nested = config_child(c, "rope_parameters");
    bool said = config_has(c, "partial_rotary_factor") ||
                (nested && config_has(nested, "partial_rotary_factor"));
    if (!said) r.partial = 0.5;
    add_rope(c, s, &r);
}

static void spec(struct config *c, struct decoder_spec *s) {
    read_shape(c, s);
    s->context = config_dim(c, "max_position_embeddings", CONTEXT);
    s->head = read_head(c, HEAD_TIED);
    s->logit_cap = (float)config_number(c, "logits_soft_cap", 30);
    if (s->logit_cap < 0) config_fail(c, "logits_soft_cap", "must not be negative");
    if (!config_bool(c, "embeddings_scale_by_sqrt_dim", true))
        config_fail(c, "embeddings_scale_by_sqrt_dim", "must be true for this family");
    // In bfloat16, whatever the model computes in.
    s->embed_scale = bf16_to_f32(f32_to_bf16((float)sqrt((double)s->hidden)));
    read_norm(c, s, NORM_RMS_PLUS, "rms_norm_eps", 1e-6);
    enum activation act = read_activation(c, "hidden_activation", "gelu_pytorch_tanh");
    struct layer_spec layer = {.norms = NORMS_PRE, .attention = read_attention(c, s->hidden, 0)};
    layer.attention.window = config_dim(c, "attention_window_size", WINDOW);
    layer.attention.qkv_bias = config_bool(c, "attention_bias", false);
    layer.attention.o_bias = true;
    int64_t wide = config_dim(c, "intermediate_size", 0);
    if (wide < 2) config_fail(c, "intermediate_size", "must be at least 2");
    layer.mlp = (struct mlp_spec){.width = wide / 2, .act = act, .bias = true};
    make_layers(c, s, &layer);
    read_rope(c, s);
    struct rglru_spec recurrence = read_recurrence(c, s, act);
    for (int64_t i = 0; i < s->layers; i++) {
        if (attends(c, i)) continue;
        s->layer[i].mixer = MIXER_RGLRU;
        s->layer[i].rglru = recurrence;
    }
}

const struct family family_recurrent_gemma = {
    .id = "recurrent_gemma",
    .name = "RecurrentGemma",
    .model_types = (const char *const[]){"recurrent_gemma", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = (const struct decoder_names *const[]){&names, NULL},
};
