// Mamba and Falcon Mamba: state-space layers alone, no attention, no MLP, no positions. Falcon's
// norms of step sizes, b and c have no weights.
#include "models/family.h"

// They have no positions that could end.
enum { CONTEXT = 1 << 18 };

static void read_mamba(struct config *c, struct decoder_spec *s, enum mamba_norms norms) {
    read_shape(c, s);
    s->context = CONTEXT;
    s->head = read_head(c, HEAD_TIED);
    read_norm(c, s, NORM_RMS, "layer_norm_epsilon", 1e-5);
    config_has(c, "ssm_cfg"); // of another implementation: the keys beside it say the same
    if (read_activation(c, "hidden_act", "silu") != ACT_SILU)
        config_fail(c, "hidden_act", "must be silu for this family");
    int64_t inner = config_dim(c, "expand", 2) * s->hidden;
    struct mamba_spec m = {
        .inner = config_has(c, "intermediate_size") ? config_dim(c, "intermediate_size", 0) : inner,
        .states = config_dim(c, "state_size", 16),
        .rank = read_rank(c, "time_step_rank", s->hidden),
        .taps = read_taps(c, "conv_kernel", 4),
        .proj_bias = config_bool(c, "use_bias", false),
        .conv_bias = config_bool(c, "use_conv_bias", true),
        .norms = norms,
        .norm_eps = (float)config_number(c, "mixer_rms_eps", 1e-6),
    };
    if (!(m.norm_eps >= 0 && m.norm_eps <= 1)) config_fail(c, "mixer_rms_eps", "must be in 0 .. 1");
    check_state(c, "state_size", m.inner, m.states);
    struct layer_spec layer = {
        .norms = NORMS_ONE, .mixer = MIXER_MAMBA, .mamba = m, .ffn = FFN_NONE};
    make_layers(c, s, &layer);
}

static void spec(struct config *c, struct decoder_spec *s) { read_mamba(c, s, MAMBA_NO_NORMS); }

static void spec_falcon(struct config *c, struct decoder_spec *s) {
    read_mamba(c, s, MAMBA_BARE_NORMS);
}

static const struct decoder_names names = {
    .embed = "backbone.embeddings",
    .norm = "backbone.norm_f",
    .head = "lm_head",
    .layer = "backbone.layers.",
    .layer_norm = {[NORM_MIXER] = "norm"},
    .mamba = {.in = "mixer.in_proj",
              .conv = "mixer.conv1d",
              .x = "mixer.x_proj",
              .dt = "mixer.dt_proj",
              .out = "mixer.out_proj",
              .a_log = "mixer.A_log",
              .d = "mixer.D"},
};
static const struct decoder_names *const layouts[] = {&names, NULL};

const struct family family_mamba = {
    .id = "mamba",
    .name = "Mamba",
    .model_types = (const char *const[]){"mamba", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = layouts,
};

const struct family family_falcon_mamba = {
    .id = "falcon_mamba",
    .name = "Falcon Mamba",
    .model_types = (const char *const[]){"falcon_mamba", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec_falcon,
    .layouts = layouts,
};
