// GLM 4.7 Flash: DeepSeek V3's attention and experts.
#include "models/family.h"

static void spec(struct config *c, struct decoder_spec *s) {
    read_latent_decoder(c, s);
    read_norm(c, s, NORM_RMS, "rms_norm_eps", 1e-5);
    read_biased_experts(c, s, 1.8);
}

const struct family family_glm4_moe_lite = {
    .id = "glm4_moe_lite",
    .name = "GLM 4.7 Flash",
    .model_types = (const char *const[]){"glm4_moe_lite", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = deepseek_layouts,
};
