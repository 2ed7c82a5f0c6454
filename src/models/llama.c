// Llama 1 to 3.3, and the many checkpoints that say they are Llama.
#include "models/family.h"

static void spec(struct config *c, struct decoder_spec *s) {
    read_decoder(c, s, 0);
    read_biases(c, s);
}

const struct family family_llama = {
    .id = "llama",
    .name = "Llama",
    .model_types = (const char *const[]){"llama", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = llama_layouts,
};
