// DeepSeek V3.2: V3 with an indexer in each layer, which chooses the tokens that a row attends to.
// Its heads rotate halves, where those of the attention rotate neighbours.
#include "models/family.h"

static void spec(struct config *c, struct decoder_spec *s) {
    read_latent_decoder(c, s);
    read_indexers(c, s, false);
    read_biased_experts(c, s, 2.5);
}

const struct family family_deepseek_v32 = {
    .id = "deepseek_v32",
    .name = "DeepSeek V3.2",
    .model_types = (const char *const[]){"deepseek_v32", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = deepseek_layouts,
};
