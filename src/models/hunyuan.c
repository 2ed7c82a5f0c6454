// Hunyuan: Llama with a norm on each head's query and key after rope, and with a base of rope that
// grows with "alpha". With cross-layer attention only every cla_share_factor-th layer has keys and
// values of its own, as projected, which serve the layers after it.
#include <math.h>

#include "models/family.h"

// "dynamic" scaling with an alpha is the same at any length: theta * alpha^(d / (d - 2)).
static void read_rope(struct config *c, struct decoder_spec *s) {
    struct rope_config r;
    struct config *p = config_child(c, "rope_scaling");
    if (!p || !config_has(p, "alpha")) {
        rope_config_read(c, NULL, 10000.0, &r);
        add_rope(c, s, &r);
        return;
    }
    double alpha = config_number(p, "alpha", 1), theta = config_number(c, "rope_theta", 10000.0);
    if (!sv_is(config_text(p, "type", "dynamic"), "dynamic"))
        config_fail(p, "type", "must be dynamic where there is an alpha");
    if (!(alpha >= 1 && alpha <= 1e9)) config_fail(p, "alpha", "must be in 1 .. 1e9");
    if (!(theta >= 1 && theta <= 1e9)) config_fail(c, "rope_theta", "must be in 1 .. 1e9");
    double d = s->layers ? (double)s->layer[0].attention.width : 4;
    if (d < 4) config_fail(c, "head_dim", "must be at least 4");
    r = (struct rope_config){.theta = theta * pow(alpha, d / (d - 2)), .partial = 1, .factor = 1};
    add_rope(c, s, &r);
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
    for (int64_t i = 0; i < s->layers; i++) {
        struct attention_spec *a = &s->layer[i].attention;
        a->qk_norm = norm ? QK_NORM_HEAD : QK_NORM_NONE;
        a->norm_late = true;
        a->lends = shared && i % share == 0;
        a->borrows = shared && i % share;
    }
}

static const struct decoder_names names = {
    .embed = "model.embed_tokens",
    .norm = "model.norm",
    .head = "lm_head",
    .layer = "model.layers.",
    .layer_norm = {[NORM_MIXER] = "input_layernorm", [NORM_FFN] = "post_attention_layernorm"},
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
};

const struct family family_hunyuan = {
    .id = "hunyuan",
    .name = "Hunyuan",
    .model_types = (const char *const[]){"hunyuan", "hunyuan_v1_dense", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = (const struct decoder_names *const[]){&names, NULL},
};
