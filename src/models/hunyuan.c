// Hunyuan: Llama with a norm on each head's query and key after rope, and with a base of rope that
// grows with "alpha". With cross-layer attention only every cla_share_factor-th layer has keys and
// values of its own, as projected, which serve the layers after it. Layers may have experts and,
// beside them, an MLP.
#include <math.h>

#include "models/family.h"

// "dynamic" scaling with an alpha is the same at any length: theta * alpha^(d / (d - 2)).
static void read_rope(struct config *c, struct decoder_spec *s) {
    struct rope_config r;
    struct config *p = config_child(c, "rope_scaling");
    if (!p) p = config_child(c, "rope_parameters");
    if (!p || !config_has(p, "alpha")) {
        rope_config_read(c, NULL, 10000.0, &r);
        add_rope(c, s, &r);
        return;
    }
    double alpha = config_number(p, "alpha", 1), theta = config_number(c, "rope_theta", 10000.0);
    theta = config_number(p, "rope_theta", theta);
    const char *key = config_has(p, "rope_type") ? "rope_type" : "type";
    if (!sv_is(config_text(p, key, "dynamic"), "dynamic"))
        config_fail(p, key, "must be dynamic where there is an alpha");
    if (!(alpha >= 1 && alpha <= 1e9)) config_fail(p, "alpha", "must be in 1 .. 1e9");
    if (!(theta >= 1 && theta <= 1e9)) config_fail(c, "rope_theta", "must be in 1 .. 1e9");
    double d = s->layers ? (double)s->layer[0].attention.width : 4;
    if (d < 4) config_fail(c, "head_dim", "must be at least 4");
    r = (struct rope_config){.theta = theta * pow(alpha, d / (d - 2)), .partial = 1, .factor = 1};
    add_rope(c, s, &r);
}

static void read_feed_forward(struct config *c, struct decoder_spec *s) {
    enum { MOST_WIDTH = 1 << 24, MOST_SHARED = 64 };
    int64_t width = config_dim(c, "intermediate_size", 0);
    int64_t experts = config_int(c, "num_experts", 1);
    int64_t dense = config_int(c, "moe_layer_num_skipped", 0);
    bool mixed = config_bool(c, "use_mixed_mlp_moe", false);
    if (experts <= 1) return;
    struct moe_spec moe = read_experts(c, "num_experts", width);
    for (int64_t i = dense > 0 ? dense : 0; i < s->layers; i++) {
        moe.width = read_of_layer(c, "moe_intermediate_size", i, width, MOST_WIDTH);
        moe.route.top = read_of_layer(c, "moe_topk", i, 1, experts);
        moe.route.normalize = moe.route.top > 1;
        moe.shared = (struct mlp_spec){.act = moe.gating.act};
        if (mixed)
            moe.shared.width = width * read_of_layer(c, "num_shared_expert", i, 1, MOST_SHARED);
        s->layer[i].ffn = FFN_MOE;
        s->layer[i].moe = moe;
    }
}

static void spec(struct config *c, struct decoder_spec *s) {
    int64_t width =
        config_has(c, "attention_head_dim") ? config_dim(c, "attention_head_dim", 0) : 0;
    read_stack(c, s, width);
    read_norm(c, s, NORM_RMS, "rms_norm_eps", 1e-5);
    read_biases(c, s);
    read_rope(c, s);
    if (!sv_is(config_text(c, "norm_type", "rms"), "rms"))
        config_fail(c, "norm_type", "must be rms for this family");
    bool norm = config_bool(c, "use_qk_norm", false), shared = config_bool(c, "use_cla", false);
    int64_t share = config_dim(c, "cla_share_factor", 2);
    read_feed_forward(c, s);
    for (int64_t i = 0; i < s->layers; i++) {
        struct attention_spec *a = &s->layer[i].attention;
        a->qk_norm = norm ? QK_NORM_HEAD : QK_NORM_NONE;
        a->norm_late = true;
        a->lends = shared && i % share == 0;
        a->borrows = shared && i % share;
    }
}

static const struct decoder_names names = {
    LLAMA_STACK,
    .attention = {.q = "self_attn.q_proj",
                  .k = "self_attn.k_proj",
                  .v = "self_attn.v_proj",
                  .o = "self_attn.o_proj",
                  .q_norm = "self_attn.query_layernorm",
                  .k_norm = "self_attn.key_layernorm",
                  .qkv_heads = "self_attn.qkv_proj"},
    .mlp = {.gate = "mlp.gate_proj",
            .up = "mlp.up_proj",
            .down = "mlp.down_proj",
            .up_gate = "mlp.gate_and_up_proj"},
    .moe = {.router = "mlp.gate.wg",
            EXPERT_NAMES("mlp", "gate_proj", "up_proj", "down_proj"),
            .shared = {.gate = "mlp.shared_mlp.gate_proj",
                       .up = "mlp.shared_mlp.up_proj",
                       .down = "mlp.shared_mlp.down_proj"}},
};

const struct family family_hunyuan = {
    .id = "hunyuan",
    .name = "Hunyuan",
    .model_types = (const char *const[]){"hunyuan", "hunyuan_v1_dense", "hunyuan_v1_moe", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = (const struct decoder_names *const[]){&names, NULL},
};
