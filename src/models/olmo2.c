// OLMo 2: Llama with its norms after attention and MLP, not before, and with norms over the whole
// query and key, all heads together.
#include "models/family.h"

void read_olmo2(struct config *c, struct decoder_spec *s) {
    read_stack(c, s, 0);
    read_norm(c, s, NORM_RMS, "rms_norm_eps", 1e-5);
    read_biases(c, s);
    for (int64_t i = 0; i < s->layers; i++) {
        s->layer[i].norms = NORMS_POST;
        s->layer[i].attention.qk_norm = QK_NORM_WHOLE;
    }
}

static void spec(struct config *c, struct decoder_spec *s) {
    read_olmo2(c, s);
    struct rope_config r;
    rope_config_read(c, NULL, 10000.0, &r);
    add_rope(c, s, &r);
}

static const struct decoder_names names = {
    .embed = "model.embed_tokens",
    .norm = "model.norm",
    .head = "lm_head",
    .layer = "model.layers.",
    .layer_norm = {[NORM_MIXER_OUT] = "post_attention_layernorm",
                   [NORM_FFN_OUT] = "post_feedforward_layernorm"},
    LLAMA_ATTENTION,
    LLAMA_MLP,
};

const struct decoder_names *const olmo2_layouts[] = {&names, NULL};

const struct family family_olmo2 = {
    .id = "olmo2",
    .name = "OLMo 2",
    .model_types = (const char *const[]){"olmo2", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = olmo2_layouts,
};
