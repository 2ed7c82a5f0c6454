// Jamba: Mamba layers, attention without positions on every few, experts on every few.
#include "models/family.h"

static const struct decoder_names names = {
    .embed = "model.embed_tokens",
    .norm = "model.final_layernorm",
    .head = "lm_head",
    .layer = "model.layers.",
    .layer_norm = {[NORM_MIXER] = "input_layernorm", [NORM_FFN] = "pre_ff_layernorm"},
    LLAMA_ATTENTION,
    .mamba = {.in = "mamba.in_proj",
              .conv = "mamba.conv1d",
              .x = "mamba.x_proj",
              .dt = "mamba.dt_proj",
              .out = "mamba.out_proj",
              .a_log = "mamba.A_log",
              .d = "mamba.D",
              .dt_norm = "mamba.dt_layernorm",
              .b_norm = "mamba.b_layernorm",
              .c_norm = "mamba.c_layernorm"},
    .mlp = {.gate = "feed_forward.gate_proj",
            .up = "feed_forward.up_proj",
            .down = "feed_forward.down_proj"},
    .moe = {.router = "feed_forward.router",
            EXPERT_NAMES("feed_forward", "gate_proj", "up_proj", "down_proj")},
};

struct pattern {
    int64_t period, offset;
};

static struct pattern read_pattern(struct config *c, const char *period, const char *offset,
                                   struct pattern otherwise) {
    struct pattern p = {config_dim(c, period, otherwise.period),
                        config_int(c, offset, otherwise.offset)};
    if (p.offset < 0 || p.offset >= p.period)
        config_fail(c, offset, "must be in 0 .. %s - 1 (%lld)", period, (long long)p.period - 1);
    return p;
}

static bool meets(struct pattern p, int64_t i) { return i % p.period == p.offset; }

// The list that some have beside the pattern must agree with it.
static void check_kinds(struct config *c, const struct decoder_spec *s, struct pattern attention) {
    static const char key[] = "layers_block_type";
    if (!config_has(c, key)) return;
    bool agrees = config_list(c, key) == (size_t)s->layers;
    for (int64_t i = 0; i < s->layers && agrees; i++)
        agrees =
            sv_is(config_list_text(c, key, (size_t)i), meets(attention, i) ? "attention" : "mamba");
    if (!agrees) config_fail(c, key, "is not what attn_layer_period and attn_layer_offset say");
}

static struct mamba_spec read_mixer(struct config *c, const struct decoder_spec *s) {
    struct mamba_spec m = {
        .inner = config_dim(c, "mamba_expand", 2) * s->hidden,
        .states = config_dim(c, "mamba_d_state", 16),
        .rank = read_rank(c, "mamba_dt_rank", s->hidden),
        .taps = read_taps(c, "mamba_d_conv", 4),
        .proj_bias = config_bool(c, "mamba_proj_bias", false),
        .conv_bias = config_bool(c, "mamba_conv_bias", true),
        .norms = MAMBA_NORMS,
    };
    check_state(c, "mamba_d_state", m.inner, m.states);
    return m;
}

static void spec(struct config *c, struct decoder_spec *s) {
    read_stack(c, s, 0);
    struct pattern attention =
        read_pattern(c, "attn_layer_period", "attn_layer_offset", (struct pattern){8, 4});
    struct pattern experts =
        read_pattern(c, "expert_layer_period", "expert_layer_offset", (struct pattern){2, 1});
    check_kinds(c, s, attention);
    struct mamba_spec mamba = read_mixer(c, s);
    bool any = config_int(c, "num_experts", 16) != 1;
    struct moe_spec moe = {0};
    if (any) moe = read_experts(c, "num_experts", config_dim(c, "intermediate_size", 0));
    for (int64_t i = 0; i < s->layers; i++) {
        struct layer_spec *l = &s->layer[i];
        if (meets(attention, i)) {
            l->attention.rope = ROPE_NONE;
        } else {
            l->mixer = MIXER_MAMBA;
            l->mamba = mamba;
        }
        if (!any || !meets(experts, i)) continue;
        l->ffn = FFN_MOE;
        l->moe = moe;
    }
}

const struct family family_jamba = {
    .id = "jamba",
    .name = "Jamba",
    .model_types = (const char *const[]){"jamba", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = (const struct decoder_names *const[]){&names, NULL},
};
