// OLMoE: experts, and norms over the whole query and key, all heads together.
#include "models/family.h"

static void spec(struct config *c, struct decoder_spec *s) {
    read_decoder(c, s, 0);
    read_norm(c, s, NORM_RMS, "rms_norm_eps", 1e-5);
    read_biases(c, s);
    struct moe_spec moe = read_experts(c, "num_experts", config_dim(c, "intermediate_size", 0));
    moe.route.normalize = config_bool(c, "norm_topk_prob", false);
    for (int64_t i = 0; i < s->layers; i++) {
        s->layer[i].attention.qk_norm = QK_NORM_WHOLE;
        s->layer[i].ffn = FFN_MOE;
        s->layer[i].moe = moe;
    }
}

const struct family family_olmoe = {
    .id = "olmoe",
    .name = "OLMoE",
    .model_types = (const char *const[]){"olmoe", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = qwen_moe_layouts,
};
