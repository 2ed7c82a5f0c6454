// MiniMax M2: norms over the whole query and key, a part of each head rotates, experts under
// Mixtral's names that are chosen with a bias. Its first configs say minimax, as do those of
// MiniMax-Text-01, which has other attention on most layers.
#include "models/family.h"

static const struct decoder_names names = {
    LLAMA_STACK,
    LLAMA_ATTENTION,
    .moe = {.router = "block_sparse_moe.gate",
            .choice_bias = "block_sparse_moe.e_score_correction_bias",
            EXPERT_NAMES("block_sparse_moe", "w1", "w3", "w2")},
};

static void refuse_others(struct config *c, const struct decoder_spec *s) {
    size_t listed = config_list(c, "attn_type_list");
    for (size_t i = 0; i < listed && i < (size_t)s->layers; i++)
        if (config_list_int(c, "attn_type_list", i) != 1)
            config_fail(c, "attn_type_list", "entry %zu is not 1, full attention", i);
    if (!sv_is(config_text(c, "scoring_func", "sigmoid"), "sigmoid"))
        config_fail(c, "scoring_func", "must be sigmoid");
    if (!config_bool(c, "use_routing_bias", true))
        config_fail(c, "use_routing_bias", "must be true");
    if (!sv_is(config_text(c, "qk_norm_type", "per_layer"), "per_layer"))
        config_fail(c, "qk_norm_type", "must be per_layer");
    if (config_int(c, "shared_intermediate_size", 0) != 0)
        config_fail(c, "shared_intermediate_size", "must be 0: there are no shared experts");
}

static void spec(struct config *c, struct decoder_spec *s) {
    read_stack(c, s, 0);
    struct rope_config r;
    rope_config_read(c, NULL, 10000, &r);
    int rope = add_rope(c, s, &r);
    s->rope[rope].dim = config_dim(c, "rotary_dim", s->rope[rope].dim);
    refuse_others(c, s);
    struct moe_spec moe =
        read_experts(c, "num_local_experts", config_dim(c, "intermediate_size", 0));
    moe.route.score = ROUTE_SIGMOID;
    moe.route.normalize = moe.choice_bias = true;
    bool norm = config_bool(c, "use_qk_norm", true);
    for (int64_t i = 0; i < s->layers; i++) {
        if (s->rope[rope].dim > s->layer[i].attention.width || s->rope[rope].dim % 2)
            config_fail(c, "rotary_dim", "must be even and at most head_dim");
        s->layer[i].attention.qk_norm = norm ? QK_NORM_WHOLE : QK_NORM_NONE;
        s->layer[i].ffn = FFN_MOE;
        s->layer[i].moe = moe;
    }
}

const struct family family_minimax = {
    .id = "minimax",
    .name = "MiniMax M2",
    .model_types = (const char *const[]){"minimax_m2", "minimax", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = (const struct decoder_names *const[]){&names, NULL},
};
