// LFM2: short convolutions, and attention on some layers.
#include "models/family.h"

// The published width is that of a block without a gate; a gated one of as many weights has two
// thirds of it, rounded up.
static int64_t mlp_width(struct config *c) {
    const char *key = config_has(c, "block_ff_dim") ? "block_ff_dim" : "intermediate_size";
    int64_t width = config_dim(c, key, 0);
    bool adjust = config_bool(c, "block_auto_adjust_ff_dim", true);
    bool round = config_has(c, "block_ffn_dim_multiplier") ||
                 !config_mentions(c, "block_ffn_dim_multiplier");
    double factor = config_number(c, "block_ffn_dim_multiplier", 1);
    int64_t multiple = config_dim(c, "block_multiple_of", 256);
    if (!adjust) return width;
    width = 2 * width / 3;
    if (!round) return width;
    if (!(factor > 0 && factor <= 16)) {
        config_fail(c, "block_ffn_dim_multiplier", "must be above 0 and at most 16");
        return 1;
    }
    width = (int64_t)(factor * (double)width);
    return (width + multiple - 1) / multiple * multiple;
}

static bool listed(struct config *c, const char *key, int64_t i) {
    size_t n = config_list(c, key);
    for (size_t k = 0; k < n; k++)
        if (config_list_int(c, key, k) == i) return true;
    return false;
}

// By layer_types, else by full_attn_idxs, else everywhere.
static bool attends(struct config *c, int64_t i) {
    if (!config_has(c, "layer_types"))
        return !config_has(c, "full_attn_idxs") || listed(c, "full_attn_idxs", i);
    struct sv type = config_list_text(c, "layer_types", (size_t)i);
    if (!sv_is(type, "full_attention") && !sv_is(type, "conv"))
        config_fail(c, "layer_types", "entry %lld is none of full_attention, conv", (long long)i);
    return sv_is(type, "full_attention");
}

static enum head read_tie(struct config *c) {
    const char *key = config_has(c, "tie_embedding") ? "tie_embedding" : "tie_word_embeddings";
    return config_bool(c, key, true) ? HEAD_TIED : HEAD_OWN;
}

static void spec(struct config *c, struct decoder_spec *s) {
    read_shape(c, s);
    s->context = config_dim(c, "max_position_embeddings", 128000);
    s->head = read_tie(c);
    read_norm(c, s, NORM_RMS, "norm_eps", 1e-5);
    struct layer_spec layer = {.norms = NORMS_PRE, .attention = read_attention(c, s->hidden, 0)};
    layer.attention.qk_norm = QK_NORM_HEAD;
    layer.mlp = (struct mlp_spec){.width = mlp_width(c), .act = ACT_SILU};
    make_layers(c, s, &layer);
    struct rope_config r;
    rope_config_read(c, NULL, 1000000.0, &r);
    add_rope(c, s, &r);
    check_layer_types(c, s);
    struct short_conv_spec conv = {.taps = read_taps(c, "conv_L_cache", 3),
                                   .bias = config_bool(c, "conv_bias", false)};
    for (int64_t i = 0; i < s->layers; i++) {
        if (attends(c, i)) continue;
        s->layer[i].mixer = MIXER_SHORT_CONV;
        s->layer[i].short_conv = conv;
    }
}

static const struct decoder_names names = {
    .embed = "model.embed_tokens",
    .norm = "model.embedding_norm", // the last, in spite of its name
    .head = "lm_head",
    .layer = "model.layers.",
    .layer_norm = {[NORM_MIXER] = "operator_norm", [NORM_FFN] = "ffn_norm"},
    .attention = {.q = "self_attn.q_proj",
                  .k = "self_attn.k_proj",
                  .v = "self_attn.v_proj",
                  .o = "self_attn.out_proj",
                  .q_norm = "self_attn.q_layernorm",
                  .k_norm = "self_attn.k_layernorm"},
    .short_conv = {.in = "conv.in_proj", .conv = "conv.conv", .out = "conv.out_proj"},
    .mlp = {.gate = "feed_forward.w1", .up = "feed_forward.w3", .down = "feed_forward.w2"},
};

const struct family family_lfm2 = {
    .id = "lfm2",
    .name = "LFM2",
    .model_types = (const char *const[]){"lfm2", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = (const struct decoder_names *const[]){&names, NULL},
};
