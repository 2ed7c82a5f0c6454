// Qwen3: Qwen2 with a norm on each head's query and key in place of the biases, and a head width
// of its own.
#include "models/family.h"

enum { HEAD_WIDTH = 128 }; // when the config leaves head_dim out

static void spec(struct config *c, struct decoder_spec *s) {
    read_decoder(c, s, HEAD_WIDTH);
    read_qwen_windows(c, s);
    read_biases(c, s);
    for (int64_t i = 0; i < s->layers; i++) s->layer[i].attention.qk_norm = QK_NORM_HEAD;
}

const struct family family_qwen3 = {
    .id = "qwen3",
    .name = "Qwen3",
    .model_types = (const char *const[]){"qwen3", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = llama_layouts,
};
