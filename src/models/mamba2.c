// Mamba 2 and Codestral Mamba: state-space layers in heads alone, no attention, no MLP, no
// positions.
#include <math.h>

#include "models/family.h"

// It has no positions that could end.
enum { CONTEXT = 1 << 18, MAX_HEADS = 1 << 16 };

static void read_limits(struct config *c, struct mamba2_spec *m) {
    m->dt_least = 0;
    m->dt_most = INFINITY;
    if (!config_has(c, "time_step_limit")) return;
    if (config_list(c, "time_step_limit") != 2) {
        config_fail(c, "time_step_limit", "must be the least and the most");
        return;
    }
    m->dt_least = (float)config_list_bound(c, "time_step_limit", 0);
    m->dt_most = (float)config_list_bound(c, "time_step_limit", 1);
    if (!(m->dt_least <= m->dt_most))
        config_fail(c, "time_step_limit", "must be the least and the most");
}

static void read_mixer(struct config *c, const struct decoder_spec *s, struct mamba2_spec *m) {
    *m = (struct mamba2_spec){
        .heads = config_dim(c, "num_heads", 128),
        .width = config_dim(c, "head_dim", 64),
        .groups = config_dim(c, "n_groups", 8),
        .states = config_dim(c, "state_size", 128),
        .taps = read_taps(c, "conv_kernel", 4),
        .proj_bias = config_bool(c, "use_bias", false),
        .conv_bias = config_bool(c, "use_conv_bias", true),
    };
    read_limits(c, m);
    if (m->heads > MAX_HEADS) config_fail(c, "num_heads", "is over the limit of %d", MAX_HEADS);
    check_state(c, "state_size", m->heads * m->width, m->states);
    double inner = config_number(c, "expand", 2) * (double)s->hidden;
    if (inner != (double)(m->heads * m->width))
        config_fail(c, "num_heads", "times head_dim is not expand times hidden_size (%.0f)", inner);
    if (m->heads % m->groups)
        config_fail(c, "num_heads", "is not a multiple of n_groups (%lld)", (long long)m->groups);
    if (read_activation(c, "hidden_act", "silu") != ACT_SILU)
        config_fail(c, "hidden_act", "must be silu for this family");
}

static void spec(struct config *c, struct decoder_spec *s) {
    read_shape(c, s);
    s->context = CONTEXT;
    s->head = read_head(c, HEAD_IF_PRESENT);
    read_norm(c, s, NORM_RMS, "layer_norm_epsilon", 1e-5);
    struct layer_spec layer = {.norms = NORMS_ONE, .mixer = MIXER_MAMBA2, .ffn = FFN_NONE};
    read_mixer(c, s, &layer.mamba2);
    make_layers(c, s, &layer);
}

static const struct decoder_names names = {
    .embed = "backbone.embeddings",
    .norm = "backbone.norm_f",
    .head = "lm_head",
    .layer = "backbone.layers.",
    .layer_norm = {[NORM_MIXER] = "norm"},
    .mamba2 = {.in = "mixer.in_proj",
               .conv = "mixer.conv1d",
               .out = "mixer.out_proj",
               .norm = "mixer.norm",
               .a_log = "mixer.A_log",
               .d = "mixer.D",
               .dt_bias = "mixer.dt_bias"},
};

const struct family family_mamba2 = {
    .id = "mamba2",
    .name = "Mamba 2",
    .model_types = (const char *const[]){"mamba2", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = (const struct decoder_names *const[]){&names, NULL},
};
