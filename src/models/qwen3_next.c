// Qwen3-Next: gated delta nets, gated attention on every few layers, experts.
#include "models/family.h"

enum { HEAD_WIDTH = 256 }; // when the config leaves head_dim out

static struct delta_net_spec read_delta_net(struct config *c) {
    struct delta_net_spec m = {
        .delta = {.heads = config_dim(c, "linear_num_value_heads", 32),
                  .key_heads = config_dim(c, "linear_num_key_heads", 16),
                  .k_width = config_dim(c, "linear_key_head_dim", 128),
                  .v_width = config_dim(c, "linear_value_head_dim", 128)},
        .taps = read_taps(c, "linear_conv_kernel_dim", 4),
        .act = ACT_SILU,
    };
    check_delta(c, "linear_num_value_heads", &m.delta);
    return m;
}

// By layer_types, else every full_attention_interval-th.
static bool attends(struct config *c, int64_t i, int64_t interval) {
    if (!config_has(c, "layer_types")) return (i + 1) % interval == 0;
    struct sv type = config_list_text(c, "layer_types", (size_t)i);
    if (!sv_is(type, "full_attention") && !sv_is(type, "linear_attention"))
        config_fail(c, "layer_types", "entry %lld is none of full_attention, linear_attention",
                    (long long)i);
    return sv_is(type, "full_attention");
}

static void read_rope(struct config *c, struct decoder_spec *s) {
    struct rope_config r;
    rope_config_read(c, NULL, 10000.0, &r);
    struct config *p = config_child(c, "rope_parameters");
    const char *key = "partial_rotary_factor";
    if (!config_has(c, key) && !(p && config_has(p, key))) r.partial = 0.25;
    add_rope(c, s, &r);
}

static void spec(struct config *c, struct decoder_spec *s) {
    read_stack(c, s, HEAD_WIDTH);
    s->norm.kind = NORM_RMS_PLUS;
    read_rope(c, s);
    read_biases(c, s);
    if (read_activation(c, "hidden_act", "silu") != ACT_SILU)
        config_fail(c, "hidden_act", "must be silu for this family");
    read_qwen_experts(c, s);
    check_layer_types(c, s);
    struct delta_net_spec delta = read_delta_net(c);
    int64_t interval = config_dim(c, "full_attention_interval", 4);
    for (int64_t i = 0; i < s->layers; i++) {
        struct layer_spec *l = &s->layer[i];
        if (l->ffn == FFN_MOE) l->moe.route.normalize = config_bool(c, "norm_topk_prob", true);
        if (attends(c, i, interval)) {
            l->attention.qk_norm = QK_NORM_HEAD;
            l->attention.gated = true;
        } else {
            l->mixer = MIXER_DELTA_NET;
            l->delta_net = delta;
        }
    }
}

const struct family family_qwen3_next = {
    .id = "qwen3_next",
    .name = "Qwen3-Next",
    .model_types = (const char *const[]){"qwen3_next", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = qwen_moe_layouts,
};
