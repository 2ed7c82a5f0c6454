// GLM 4.5 to 4.7: DeepSeek V3's experts under ordinary attention, half of whose heads rotates.
#include "models/family.h"

static void spec(struct config *c, struct decoder_spec *s) {
    read_stack(c, s, 128);
    read_norm(c, s, NORM_RMS, "rms_norm_eps", 1e-5);
    struct rope_config r;
    rope_config_read(c, NULL, 10000, &r);
    if (!config_has(c, "partial_rotary_factor") && r.partial == 1) r.partial = 0.5;
    add_rope(c, s, &r);
    bool bias = config_bool(c, "attention_bias", false);
    bool norm = config_bool(c, "use_qk_norm", false);
    for (int64_t i = 0; i < s->layers; i++) {
        s->layer[i].attention.qkv_bias = bias;
        s->layer[i].attention.qk_norm = norm ? QK_NORM_HEAD : QK_NORM_NONE;
    }
    read_biased_experts(c, s, 1);
}

const struct family family_glm4_moe = {
    .id = "glm4_moe",
    .name = "GLM 4.5 MoE",
    .model_types = (const char *const[]){"glm4_moe", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = deepseek_layouts,
};
