// What DeepSeek's families, and those that took its experts or its attention, share.
#include <math.h>

#include "models/family.h"

static const struct decoder_names names = {
    LLAMA_STACK,
    LLAMA_ATTENTION,
    .mla = {.q = "self_attn.q_proj",
            .q_a = "self_attn.q_a_proj",
            .q_norm = "self_attn.q_a_layernorm",
            .q_b = "self_attn.q_b_proj",
            .kv_a = "self_attn.kv_a_proj_with_mqa",
            .kv_norm = "self_attn.kv_a_layernorm",
            .index_q = "self_attn.indexer.wq_b",
            .index_k = "self_attn.indexer.wk",
            .index_norm = "self_attn.indexer.k_norm",
            .index_weights = "self_attn.indexer.weights_proj",
            .kv_b = "self_attn.kv_b_proj",
            .embed = "self_attn.embed_q",
            .unembed = "self_attn.unembed_out",
            .o = "self_attn.o_proj"},
    LLAMA_MLP,
    .moe = {.router = "mlp.gate",
            .choice_bias = "mlp.gate.e_score_correction_bias",
            EXPERT_NAMES("mlp", "gate_proj", "up_proj", "down_proj"),
            .shared = {.gate = "mlp.shared_experts.gate_proj",
                       .up = "mlp.shared_experts.up_proj",
                       .down = "mlp.shared_experts.down_proj"}},
};

const struct decoder_names *const deepseek_layouts[] = {&names, NULL};

// Yarn also scales the scores, by the square of what mscale_all_dim gives.
static float score_scale(const struct rope_config *r, int64_t width) {
    double scale = 1 / sqrt((double)width);
    if (r->kind != ROPE_YARN || r->mscale_all_dim == 0 || r->factor <= 1) return (float)scale;
    double m = 0.1 * r->mscale_all_dim * log(r->factor) + 1;
    return (float)(scale * m * m);
}

static struct mla_spec read_latent_attention(struct config *c) {
    struct mla_spec mla = {
        .heads = config_dim(c, "num_attention_heads", 0),
        .latent = config_dim(c, "kv_lora_rank", 0),
        .rotary = config_dim(c, "qk_rope_head_dim", 0),
        .plain_width = config_dim(c, "qk_nope_head_dim", 0),
        .v_width = config_dim(c, "v_head_dim", 0),
        .bias = config_bool(c, "attention_bias", false),
        .rope = ROPE_NONE,
        .eps = 1e-6f,
    };
    if (config_has(c, "q_lora_rank")) mla.q_rank = config_dim(c, "q_lora_rank", 0);
    int64_t most = mla.heads * (mla.plain_width + mla.rotary + mla.v_width + mla.latent);
    if (mla.heads > 4096 || most > 1 << 24)
        config_fail(c, "num_attention_heads", "times the widths of a head is over the limit");
    mla.scale = (float)(1 / sqrt((double)(mla.plain_width + mla.rotary)));
    return mla;
}

struct layer_spec read_latent_layer(struct config *c) {
    return (struct layer_spec){
        .norms = NORMS_PRE,
        .mixer = MIXER_MLA,
        .mla = read_latent_attention(c),
        .mlp = {.width = config_dim(c, "intermediate_size", 0),
                .act = read_activation(c, "hidden_act", "silu")},
    };
}

static void add_latent_rope(struct config *c, struct decoder_spec *spec, struct mla_spec *mla) {
    struct rope_config r;
    rope_config_read(c, NULL, 10000, &r);
    if (mla->rotary % 2) config_fail(c, "qk_rope_head_dim", "must be even");
    mla->scale = score_scale(&r, mla->plain_width + mla->rotary);
    mla->rope = spec->ropes;
    spec->rope[spec->ropes++] = (struct rope_spec){
        .config = r, .dim = mla->rotary, .interleaved = config_bool(c, "rope_interleave", true)};
}

void read_latent_decoder(struct config *c, struct decoder_spec *spec) {
    read_sizes(c, spec);
    struct layer_spec layer = read_latent_layer(c);
    add_latent_rope(c, spec, &layer.mla);
    make_layers(c, spec, &layer);
}

// Kimi Linear has some of the keys under other names.
static const char *one_of(struct config *c, const char *key, const char *other) {
    return config_has(c, other) ? other : key;
}

void read_deepseek_experts(struct config *c, struct decoder_spec *spec, struct moe_spec moe) {
    int64_t first = config_int(c, "first_k_dense_replace", 0);
    int64_t step = config_dim(c, "moe_layer_freq", 1);
    const char *key = one_of(c, "n_shared_experts", "num_shared_experts");
    int64_t shared = config_has(c, key) ? config_int(c, key, 0) : 0;
    if (shared < 0 || shared > 1024) config_fail(c, key, "must be in 0 .. 1024");
    moe.shared = (struct mlp_spec){.width = shared * moe.width, .act = moe.gating.act};
    spec->drafters = config_int(c, "num_nextn_predict_layers", 0);
    if (spec->drafters < 0 || spec->drafters > 1024)
        config_fail(c, "num_nextn_predict_layers", "must be in 0 .. 1024");
    for (int64_t i = 0; i < spec->layers; i++) {
        if (i < first || i % step) continue;
        spec->layer[i].ffn = FFN_MOE;
        spec->layer[i].moe = moe;
    }
}

void read_groups(struct config *c, struct moe_spec *moe, enum group_score score) {
    const char *key = one_of(c, "n_group", "num_expert_group");
    int64_t groups = config_has(c, key) ? config_dim(c, key, 0) : 1;
    int64_t top = config_has(c, "topk_group") ? config_dim(c, "topk_group", 0) : groups;
    if (groups == 1) return;
    int64_t each = moe->experts / groups;
    if (moe->experts % groups || each < 2)
        config_fail(c, key, "must divide the %lld experts into groups of 2 or more",
                    (long long)moe->experts);
    if (top > groups || top * each < moe->route.top)
        config_fail(c, "topk_group", "must be at most %s, and enough for %lld experts", key,
                    (long long)moe->route.top);
    moe->route.groups = groups;
    moe->route.top_groups = top;
    moe->route.group_score = score;
}

void read_indexers(struct config *c, struct decoder_spec *spec, bool interleaved) {
    struct indexer_spec x = {.heads = config_dim(c, "index_n_heads", 64),
                             .width = config_dim(c, "index_head_dim", 128),
                             .top = config_dim(c, "index_topk", 2048),
                             .rope = spec->ropes,
                             .eps = 1e-6f};
    struct rope_spec *r = &spec->rope[spec->ropes++];
    *r = spec->rope[0];
    r->interleaved = interleaved;
    if (x.width < r->dim)
        config_fail(c, "index_head_dim", "is less than qk_rope_head_dim (%lld)", (long long)r->dim);
    if (x.heads > 4096 || x.heads * x.width > 1 << 24)
        config_fail(c, "index_n_heads", "times index_head_dim is over the limit");
    for (int64_t i = 0; i < spec->layers; i++) {
        if (!spec->layer[i].mla.q_rank) config_fail(c, "q_lora_rank", "is needed for the indexer");
        spec->layer[i].mla.indexer = x;
    }
}

static void must_be(struct config *c, const char *key, const char *value) {
    if (!sv_is(config_text(c, key, value), value)) config_fail(c, key, "must be %s", value);
}

void read_biased_experts(struct config *c, struct decoder_spec *spec, double scale) {
    struct moe_spec moe =
        read_experts(c, "n_routed_experts", config_dim(c, "moe_intermediate_size", 0));
    if (!sv_is(config_text(c, "scoring_func", ""), "noaux_tc"))
        must_be(c, "scoring_func", "sigmoid");
    must_be(c, "topk_method", "noaux_tc");
    moe.route.score = ROUTE_SIGMOID;
    moe.route.normalize = config_bool(c, "norm_topk_prob", true);
    moe.route.scale = (float)config_number(c, "routed_scaling_factor", scale);
    moe.choice_bias = true;
    read_groups(c, &moe, GROUP_BEST_TWO);
    read_deepseek_experts(c, spec, moe);
}
