// Granite 3: Llama with a factor on embeddings, scores, what each block adds, and logits.
#include "models/family.h"

static float factor(struct config *c, const char *key) {
    double value = config_number(c, key, 1);
    if (!(value > 0)) config_fail(c, key, "must be above 0");
    return (float)value;
}

static void spec(struct config *c, struct decoder_spec *s) {
    read_decoder(c, s, 0);
    read_biases(c, s);
    s->embed_scale = factor(c, "embedding_multiplier");
    s->logit_scale = 1 / factor(c, "logits_scaling");
    float scale = factor(c, "attention_multiplier"), residual = factor(c, "residual_multiplier");
    for (int64_t i = 0; i < s->layers; i++) {
        s->layer[i].attention.scale = scale;
        s->layer[i].residual = residual;
    }
}

const struct family family_granite = {
    .id = "granite",
    .name = "Granite",
    .model_types = (const char *const[]){"granite", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = llama_layouts,
};
