// Qwen1.5 MoE and Qwen2 MoE: Qwen2 with experts, and a gated shared one beside them. With
// use_sliding_window every other of the first max_window_layers layers slides.
#include "models/family.h"

static bool slides(struct config *c, int64_t i, int64_t below) {
    if (!config_has(c, "layer_types")) return i % 2 == 0 && i < below;
    return sv_is(config_list_text(c, "layer_types", (size_t)i), "sliding_attention");
}

static void spec(struct config *c, struct decoder_spec *s) {
    read_decoder(c, s, 0);
    read_qwen_experts(c, s);
    int64_t below = config_int(c, "max_window_layers", 28);
    bool use = config_bool(c, "use_sliding_window", false);
    int64_t window = use ? config_dim(c, "sliding_window", 4096) : 0;
    config_has(c, "sliding_window"); // without use_sliding_window it means nothing
    for (int64_t i = 0; i < s->layers; i++) {
        s->layer[i].attention.qkv_bias = config_bool(c, "qkv_bias", true);
        if (slides(c, i, below)) s->layer[i].attention.window = window;
    }
}

const struct family family_qwen2_moe = {
    .id = "qwen2_moe",
    .name = "Qwen2 MoE",
    .model_types = (const char *const[]){"qwen2_moe", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = qwen_moe_layouts,
};
