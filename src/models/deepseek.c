// DeepSeek MoE, the first: Llama with experts that are chosen by the softmax over all of them.
#include "models/family.h"

static void spec(struct config *c, struct decoder_spec *s) {
    read_decoder(c, s, 0);
    read_biases(c, s);
    struct moe_spec moe =
        read_experts(c, "n_routed_experts", config_dim(c, "moe_intermediate_size", 0));
    moe.route.normalize = config_bool(c, "norm_topk_prob", false);
    read_deepseek_experts(c, s, moe);
}

const struct family family_deepseek = {
    .id = "deepseek",
    .name = "DeepSeek MoE",
    .model_types = (const char *const[]){"deepseek", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = deepseek_layouts,
};
