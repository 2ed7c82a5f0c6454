// Gemma 3, the text model: Gemma 2 with a norm on each head's query and key, without a cap on
// scores (the reference has the key, attn_logit_softcapping, but does not do what it says), and
// with two rotations: a base of their own for the layers with a window, no scaling.
#include "models/family.h"

enum { WINDOW = 4096, PATTERN = 6 };

// The newer configs describe both rotations in rope_parameters.
static void read_local_rope(struct config *c, struct rope_config *r) {
    struct config *p = config_child(c, "rope_parameters");
    if (p && config_has(p, "sliding_attention")) {
        rope_config_read(c, "sliding_attention", 10000.0, r);
        return;
    }
    double theta = config_number(c, "rope_local_base_freq", 10000.0);
    *r = (struct rope_config){.theta = theta, .partial = 1, .factor = 1};
    if (!(theta >= 1 && theta <= 1e18))
        config_fail(c, "rope_local_base_freq", "must be in 1 .. 1e18");
}

void read_gemma_ropes(struct config *c, struct decoder_spec *s) {
    struct rope_config global, local;
    rope_config_read(c, "full_attention", 1e6, &global);
    read_local_rope(c, &local);
    int full = add_rope(c, s, &global), slide = add_rope(c, s, &local);
    for (int64_t i = 0; i < s->layers; i++) {
        struct attention_spec *a = &s->layer[i].attention;
        a->rope = a->window ? slide : full;
    }
}

static void spec(struct config *c, struct decoder_spec *s) {
    read_gemma(c, s, 0);
    read_windows(c, s, PATTERN, WINDOW);
    read_gemma_ropes(c, s);
    for (int64_t i = 0; i < s->layers; i++) s->layer[i].attention.qk_norm = QK_NORM_HEAD;
}

const struct family family_gemma3_text = {
    .id = "gemma3_text",
    .name = "Gemma 3 text",
    .model_types = (const char *const[]){"gemma3_text", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = gemma_layouts,
};
