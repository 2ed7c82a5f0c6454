// DeepSeek V2: latent attention, and experts that are chosen by the softmax over all of them, which
// is not normalized over the chosen.
#include "models/family.h"

static void spec(struct config *c, struct decoder_spec *s) {
    read_latent_decoder(c, s);
    struct moe_spec moe =
        read_experts(c, "n_routed_experts", config_dim(c, "moe_intermediate_size", 0));
    moe.route.scale = (float)config_number(c, "routed_scaling_factor", 1);
    struct sv method = config_text(c, "topk_method", "greedy");
    if (sv_is(method, "group_limited_greedy"))
        read_groups(c, &moe, GROUP_BEST);
    else if (!sv_is(method, "greedy"))
        config_fail(c, "topk_method", "must be greedy or group_limited_greedy");
    read_deepseek_experts(c, s, moe);
}

const struct family family_deepseek_v2 = {
    .id = "deepseek_v2",
    .name = "DeepSeek V2",
    .model_types = (const char *const[]){"deepseek_v2", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = deepseek_layouts,
};
