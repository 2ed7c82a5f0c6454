// OLMo 3: OLMo 2 with a window on most layers. Only the others scale their rotation.
#include "models/family.h"

enum { WINDOW = 4096, PATTERN = 4 };

static void spec(struct config *c, struct decoder_spec *s) {
    read_olmo2(c, s);
    struct rope_config full, slide;
    rope_config_read(c, "full_attention", 500000.0, &full);
    rope_config_read(c, "sliding_attention", 500000.0, &slide);
    slide = (struct rope_config){.theta = slide.theta, .partial = 1, .factor = 1};
    int scaled = add_rope(c, s, &full), plain = add_rope(c, s, &slide);
    read_windows(c, s, PATTERN, WINDOW);
    for (int64_t i = 0; i < s->layers; i++) {
        struct attention_spec *a = &s->layer[i].attention;
        a->rope = a->window ? plain : scaled;
    }
}

const struct family family_olmo3 = {
    .id = "olmo3",
    .name = "OLMo 3",
    .model_types = (const char *const[]){"olmo3", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = olmo2_layouts,
};
