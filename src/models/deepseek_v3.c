// DeepSeek V3 and R1: latent attention, and experts that are chosen by the sigmoid of their logits
// and a bias, out of the best groups; the bias has no part in their weights.
#include "models/family.h"

static void must_be(struct config *c, const char *key, const char *value) {
    if (!sv_is(config_text(c, key, value), value)) config_fail(c, key, "must be %s", value);
}

static void spec(struct config *c, struct decoder_spec *s) {
    read_latent_decoder(c, s);
    struct moe_spec moe =
        read_experts(c, "n_routed_experts", config_dim(c, "moe_intermediate_size", 0));
    must_be(c, "scoring_func", "sigmoid");
    must_be(c, "topk_method", "noaux_tc");
    moe.route.score = ROUTE_SIGMOID;
    moe.route.normalize = config_bool(c, "norm_topk_prob", true);
    moe.route.scale = (float)config_number(c, "routed_scaling_factor", 2.5);
    moe.choice_bias = true;
    read_groups(c, &moe, GROUP_BEST_TWO);
    read_deepseek_experts(c, s, moe);
}

const struct family family_deepseek_v3 = {
    .id = "deepseek_v3",
    .name = "DeepSeek V3",
    .model_types = (const char *const[]){"deepseek_v3", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = deepseek_layouts,
};
