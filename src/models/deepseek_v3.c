// DeepSeek V3 and R1, Kimi K2: latent attention, and experts that are chosen with a bias, out of
// groups.
#include "models/family.h"

static void spec(struct config *c, struct decoder_spec *s) {
    read_latent_decoder(c, s);
    read_biased_experts(c, s, 2.5);
}

const struct family family_deepseek_v3 = {
    .id = "deepseek_v3",
    .name = "DeepSeek V3",
    .model_types = (const char *const[]){"deepseek_v3", "kimi_k2", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = deepseek_layouts,
};
