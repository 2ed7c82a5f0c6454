// Mistral 7B and its dense successors: Llama with a window on every layer where the config gives
// one. Later checkpoints say null; the first ones leave nothing out.
#include "models/family.h"

static void spec(struct config *c, struct decoder_spec *s) {
    read_decoder(c, s, 0);
    int64_t window = config_has(c, "sliding_window") ? config_dim(c, "sliding_window", 0) : 0;
    for (int64_t i = 0; i < s->layers; i++) s->layer[i].attention.window = window;
}

const struct family family_mistral = {
    .id = "mistral",
    .name = "Mistral",
    .model_types = (const char *const[]){"mistral", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .names = &llama_names,
};
