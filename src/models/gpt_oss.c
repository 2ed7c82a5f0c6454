// gpt-oss: attention sinks, a window on every other layer, experts with biases and a clamped gate.
// Their gate and up are published as one tensor with rows in turn, in MXFP4 or as [in, out].
#include <math.h>

#include "models/family.h"

enum { WINDOW = 128 };

static struct moe_spec read_moe(struct config *c) {
    struct moe_spec moe =
        read_experts(c, "num_local_experts", config_dim(c, "intermediate_size", 0));
    if (config_int(c, "experts_per_token", moe.route.top) != moe.route.top) // its older name
        config_fail(c, "experts_per_token", "is not num_experts_per_tok (%lld)",
                    (long long)moe.route.top);
    if (moe.gating.act != ACT_SILU) config_fail(c, "hidden_act", "must be silu");
    if (fabs(config_number(c, "swiglu_alpha", 1.702) - 1.702) > 1e-6)
        config_fail(c, "swiglu_alpha", "must be 1.702");
    moe.gating = (struct gating){ACT_QUICK_GELU, (float)config_number(c, "swiglu_limit", 7), 1};
    if (!(moe.gating.limit > 0)) config_fail(c, "swiglu_limit", "must be above 0");
    moe.route.score = ROUTE_TOP_SOFTMAX;
    moe.router_bias = moe.bias = true;
    return moe;
}

static void spec(struct config *c, struct decoder_spec *s) {
    read_decoder(c, s, 64);
    read_norm(c, s, NORM_RMS, "rms_norm_eps", 1e-5);
    read_windows(c, s, 2, WINDOW);
    bool biases = config_bool(c, "attention_bias", true);
    struct moe_spec moe = read_moe(c);
    for (int64_t i = 0; i < s->layers; i++) {
        struct layer_spec *l = &s->layer[i];
        l->attention.qkv_bias = l->attention.o_bias = biases;
        l->attention.sinks = true;
        l->ffn = FFN_MOE;
        l->moe = moe;
    }
}

static const struct decoder_names names = {
    LLAMA_STACK,
    .attention = {.q = "self_attn.q_proj",
                  .k = "self_attn.k_proj",
                  .v = "self_attn.v_proj",
                  .o = "self_attn.o_proj",
                  .sinks = "self_attn.sinks"},
    .moe = {.router = "mlp.router",
            .stack = {"mlp.experts.gate_proj", "mlp.experts.up_proj", "mlp.experts.down_proj"},
            .gate_up = "mlp.experts.gate_up_proj",
            .all_down = "mlp.experts.down_proj",
            .fused_columns = true,
            .interleaved = true},
};

const struct family family_gpt_oss = {
    .id = "gpt_oss",
    .name = "gpt-oss",
    .model_types = (const char *const[]){"gpt_oss", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = (const struct decoder_names *const[]){&names, NULL},
};
