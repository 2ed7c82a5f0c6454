// Gemma: Llama with norms of 1 + weight, scaled and tied embeddings, and GELU.
#include <math.h>

#include "models/family.h"

enum { HEAD_WIDTH = 256 };

static void spec(struct config *c, struct decoder_spec *s) {
    read_decoder(c, s, HEAD_WIDTH);
    read_norm(c, s, NORM_RMS_PLUS, "rms_norm_eps", 1e-6);
    read_biases(c, s);
    if (!config_has(c, "tie_word_embeddings")) s->head = HEAD_TIED;
    s->embed_scale = (float)sqrt((double)s->hidden);
    // hidden_act says "gelu", but means its approximation: hidden_activation is what counts.
    enum activation act = read_activation(c, "hidden_activation", "gelu_pytorch_tanh");
    for (int64_t i = 0; i < s->layers; i++) s->layer[i].mlp.act = act;
}

const struct family family_gemma = {
    .id = "gemma",
    .name = "Gemma",
    .model_types = (const char *const[]){"gemma", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = llama_layouts,
};
