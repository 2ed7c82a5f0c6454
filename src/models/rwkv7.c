// RWKV 7: time mixing and channel mixing, no attention, no positions.
#include "models/family.h"

// It has no positions that could end.
enum { CONTEXT = 1 << 18 };

static struct rwkv7_spec read_mixer(struct config *c, const struct decoder_spec *s) {
    struct rwkv7_spec m = {.width = config_dim(c, "head_dim", 64),
                           .rank = {[RWKV7_DECAY] = config_dim(c, "decay_low_rank_dim", 0),
                                    [RWKV7_REPLACE] = config_dim(c, "a_low_rank_dim", 0),
                                    [RWKV7_VALUE] = config_dim(c, "v_low_rank_dim", 0),
                                    [RWKV7_GATE] = config_dim(c, "gate_low_rank_dim", 0)}};
    m.heads = s->hidden / m.width; // num_heads is not always right
    if (s->hidden % m.width)
        config_fail(c, "hidden_size", "is not a multiple of head_dim (%lld)", (long long)m.width);
    check_delta(c, "head_dim", &(struct delta){m.heads, m.heads ? m.heads : 1, m.width, m.width});
    for (size_t i = 0; i < config_list(c, "value_dim"); i++)
        if (config_list_int(c, "value_dim", i) != s->hidden)
            config_fail(c, "value_dim", "must be hidden_size (%lld) on all layers",
                        (long long)s->hidden);
    if (config_has(c, "attn")) config_fail(c, "attn", "must be null: it has no attention");
    return m;
}

// Where it is not said, hidden_ratio times hidden_size, rounded up.
static struct mlp_spec read_ffn(struct config *c, const struct decoder_spec *s) {
    double ratio = config_number(c, "hidden_ratio", 4);
    if (!(ratio > 0 && ratio <= 64)) {
        config_fail(c, "hidden_ratio", "must be above 0 and at most 64");
        ratio = 4;
    }
    int64_t width = ((int64_t)(ratio * (double)s->hidden) + 31) / 32 * 32;
    struct sv act = config_text(c, "hidden_act", "sqrelu");
    if (!sv_is(act, "sqrelu")) config_fail(c, "hidden_act", "must be sqrelu for this family");
    return (struct mlp_spec){
        .width = config_dim(c, "intermediate_size", width), .act = ACT_RELU_SQUARED, .plain = true};
}

static void spec(struct config *c, struct decoder_spec *s) {
    read_shape(c, s);
    s->context = CONTEXT;
    s->head = read_head(c, HEAD_OWN);
    bool bias = config_bool(c, "norm_bias", true);
    read_norm(c, s, bias ? NORM_LAYER_BIAS : NORM_LAYER, "norm_eps", 1e-5);
    s->embed_norm = config_bool(c, "norm_first", true);
    struct layer_spec layer = {
        .norms = NORMS_PRE, .mixer = MIXER_RWKV7, .ffn = FFN_RWKV7, .mlp = read_ffn(c, s)};
    layer.rwkv7 = read_mixer(c, s);
    make_layers(c, s, &layer);
    if (s->layers) s->layer[0].rwkv7.first = true;
}

static const struct decoder_names names = {
    .embed = "model.embeddings",
    .embed_norm = "model.layers.0.pre_norm",
    .norm = "model.norm",
    .head = "lm_head",
    .layer = "model.layers.",
    .layer_norm = {[NORM_MIXER] = "attn_norm", [NORM_FFN] = "ffn_norm"},
    .rwkv7 = {.mix = {"attn.x_r", "attn.x_w", "attn.x_k", "attn.x_v", "attn.x_a", "attn.x_g"},
              .r = "attn.r_proj",
              .k = "attn.k_proj",
              .v = "attn.v_proj",
              .o = "attn.o_proj",
              .steer = {{"attn.w_lora.lora.0", "attn.w_lora.lora.2"},
                        {"attn.a_lora.lora.0", "attn.a_lora.lora.2"},
                        {"attn.v_lora.lora.0", "attn.v_lora.lora.2"},
                        {"attn.g_lora.lora.0", "attn.g_lora.lora.2"}},
              .k_scale = "attn.k_k",
              .k_replaced = "attn.k_a",
              .self = "attn.r_k",
              .norm_weight = "attn.g_norm.weight",
              .norm_bias = "attn.g_norm.bias"},
    .rwkv7_mix = "ffn.x_k",
    .mlp = {.up = "ffn.key", .down = "ffn.value"},
};

const struct family family_rwkv7 = {
    .id = "rwkv7",
    .name = "RWKV 7",
    .model_types = (const char *const[]){"rwkv7", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = (const struct decoder_names *const[]){&names, NULL},
};
