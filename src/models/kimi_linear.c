// Kimi Linear: KDA, and latent attention without positions on some layers; DeepSeek V3's experts
// under other names.
#include "models/family.h"

static struct delta_net_spec read_kda(struct config *c, struct config *linear) {
    int64_t heads = config_dim(linear, "num_heads", 0), width = config_dim(linear, "head_dim", 0);
    struct delta_net_spec m = {
        .delta = {.heads = heads, .key_heads = heads, .k_width = width, .v_width = width},
        .taps = read_taps(linear, "short_conv_kernel_size", 4),
        .channels = true,
        .rank = width,
        .act = ACT_SIGMOID,
    };
    check_delta(c, "linear_attn_config", &m.delta);
    return m;
}

// By layer_types, else by the lists, which count layers from 1.
static bool attends(struct config *c, struct config *linear, int64_t i) {
    if (config_has(c, "layer_types"))
        return sv_is(config_list_text(c, "layer_types", (size_t)i), "full_attention");
    bool full = config_list_holds(linear, "full_attn_layers", i + 1);
    if (full == config_list_holds(linear, "kda_layers", i + 1))
        config_fail(linear, "kda_layers", "must have layer %lld, or full_attn_layers must",
                    (long long)i + 1);
    return full;
}

static void read_choice(struct config *c, struct decoder_spec *s) {
    struct moe_spec moe = read_experts(c, "num_experts", config_dim(c, "moe_intermediate_size", 0));
    if (!sv_is(config_text(c, "moe_router_activation_func", "sigmoid"), "sigmoid"))
        config_fail(c, "moe_router_activation_func", "must be sigmoid");
    moe.route.score = ROUTE_SIGMOID;
    moe.route.normalize = config_bool(c, "moe_renormalize", true);
    moe.route.scale = (float)config_number(c, "routed_scaling_factor", 1);
    moe.choice_bias = true;
    if (config_bool(c, "use_grouped_topk", true)) read_groups(c, &moe, GROUP_BEST_TWO);
    read_deepseek_experts(c, s, moe);
}

static void spec(struct config *c, struct decoder_spec *s) {
    read_sizes(c, s);
    s->context = config_dim(c, "model_max_length", s->context);
    struct layer_spec layer = read_latent_layer(c);
    if (!config_bool(c, "mla_use_nope", true)) config_fail(c, "mla_use_nope", "must be true");
    struct config *linear = config_child(c, "linear_attn_config");
    if (!linear) {
        config_fail(c, "linear_attn_config", "must be there");
        return;
    }
    struct delta_net_spec kda = read_kda(c, linear);
    make_layers(c, s, &layer);
    check_layer_types(c, s);
    read_choice(c, s);
    for (int64_t i = 0; i < s->layers; i++) {
        if (attends(c, linear, i)) continue;
        s->layer[i].mixer = MIXER_DELTA_NET;
        s->layer[i].delta_net = kda;
    }
}

// The layouts differ in the names of convolutions and experts.
#define BOTH                                                                                       \
    .embed = "model.embed_tokens", .norm = "model.norm", .head = "lm_head",                        \
    .layer = "model.layers.",                                                                      \
    .layer_norm = {[NORM_MIXER] = "input_layernorm", [NORM_FFN] = "post_attention_layernorm"},     \
    .mla = {.q = "self_attn.q_proj",                                                               \
            .kv_a = "self_attn.kv_a_proj_with_mqa",                                                \
            .kv_norm = "self_attn.kv_a_layernorm",                                                 \
            .kv_b = "self_attn.kv_b_proj",                                                         \
            .embed = "self_attn.embed_q",                                                          \
            .unembed = "self_attn.unembed_out",                                                    \
            .o = "self_attn.o_proj"},                                                              \
    LLAMA_MLP
#define KDA(conv)                                                                                  \
    {                                                                                              \
        .q = "self_attn.q_proj", .k = "self_attn.k_proj", .v = "self_attn.v_proj",                 \
        .beta = "self_attn.b_proj", .decay = {"self_attn.f_a_proj", "self_attn.f_b_proj"},         \
        .gate = {"self_attn.g_a_proj", "self_attn.g_b_proj"}, .q_conv = "self_attn.q_" conv,       \
        .k_conv = "self_attn.k_" conv, .v_conv = "self_attn.v_" conv, .a_log = "self_attn.A_log",  \
        .dt_bias = "self_attn.dt_bias", .norm = "self_attn.o_norm", .out = "self_attn.o_proj"      \
    }
#define SHARED(moe)                                                                                \
    {                                                                                              \
        .gate = moe ".shared_experts.gate_proj", .up = moe ".shared_experts.up_proj",              \
        .down = moe ".shared_experts.down_proj"                                                    \
    }

static const char *const ignored[] = {"model.mtp*", NULL}; // predicts further tokens

static const struct decoder_names published = {
    BOTH,
    .ignored = ignored,
    .delta_net = KDA("conv1d"),
    .moe = {.router = "block_sparse_moe.gate",
            .choice_bias = "block_sparse_moe.gate.e_score_correction_bias",
            .each = "block_sparse_moe.experts.",
            .gate = "w1",
            .up = "w3",
            .down = "w2",
            .shared = SHARED("block_sparse_moe")},
};
static const struct decoder_names mlx = {
    BOTH,
    .ignored = ignored,
    .sign = "self_attn.q_conv.conv",
    .delta_net = KDA("conv.conv"),
    .moe = {.router = "mlp.gate",
            .choice_bias = "mlp.e_score_correction_bias",
            .stack = {"mlp.switch_mlp.gate_proj", "mlp.switch_mlp.up_proj",
                      "mlp.switch_mlp.down_proj"},
            .shared = SHARED("mlp")},
};

const struct family family_kimi_linear = {
    .id = "kimi_linear",
    .name = "Kimi Linear",
    .model_types = (const char *const[]){"kimi_linear", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = (const struct decoder_names *const[]){&mlx, &published, NULL},
};
