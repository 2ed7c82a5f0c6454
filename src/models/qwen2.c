// Qwen1.5, Qwen2 and Qwen2.5: Llama with a bias on q, k and v only.
#include "models/family.h"

static void spec(struct config *c, struct decoder_spec *s) {
    read_decoder(c, s, 0);
    read_qwen_windows(c, s);
    for (int64_t i = 0; i < s->layers; i++) s->layer[i].attention.qkv_bias = true;
}

const struct family family_qwen2 = {
    .id = "qwen2",
    .name = "Qwen2",
    .model_types = (const char *const[]){"qwen2", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .names = &llama_names,
};
