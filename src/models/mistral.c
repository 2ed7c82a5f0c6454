// Mistral 7B and its dense successors: Llama with a window on every layer. The first checkpoints
// have one of 4096, which transformers also takes where the key is absent; later ones say null.
#include "models/family.h"

enum { WINDOW = 4096 };

static void spec(struct config *c, struct decoder_spec *s) {
    read_decoder(c, s, 0);
    bool none = !config_has(c, "sliding_window") && config_mentions(c, "sliding_window");
    int64_t window = none ? 0 : config_dim(c, "sliding_window", WINDOW);
    for (int64_t i = 0; i < s->layers; i++) s->layer[i].attention.window = window;
}

const struct family family_mistral = {
    .id = "mistral",
    .name = "Mistral",
    .model_types = (const char *const[]){"mistral", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = llama_layouts,
};
