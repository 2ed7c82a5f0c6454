// Qwen3 MoE: Qwen3 with experts. use_sliding_window, which no published one sets, is for all
// layers.
#include "models/family.h"

enum { HEAD_WIDTH = 128 }; // when the config leaves head_dim out

static void spec(struct config *c, struct decoder_spec *s) {
    read_decoder(c, s, HEAD_WIDTH);
    read_biases(c, s);
    bool slides = config_bool(c, "use_sliding_window", false);
    int64_t window = slides ? config_dim(c, "sliding_window", 4096) : 0;
    config_has(c, "sliding_window"); // without use_sliding_window it means nothing
    for (int64_t i = 0; i < s->layers; i++) {
        s->layer[i].attention.window = window;
        s->layer[i].attention.qk_norm = QK_NORM_HEAD;
    }
    read_qwen_experts(c, s);
}

const struct family family_qwen3_moe = {
    .id = "qwen3_moe",
    .name = "Qwen3 MoE",
    .model_types = (const char *const[]){"qwen3_moe", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = qwen_moe_layouts,
};
