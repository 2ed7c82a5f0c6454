// Solar Open: GLM 4.5 without biases, all of whose heads rotate.
#include "models/family.h"

static void spec(struct config *c, struct decoder_spec *s) {
    read_stack(c, s, 128);
    read_norm(c, s, NORM_RMS, "rms_norm_eps", 1e-5);
    struct rope_config r;
    rope_config_read(c, NULL, 1000000, &r);
    add_rope(c, s, &r);
    read_biases(c, s);
    bool norm = config_bool(c, "use_qk_norm", false);
    for (int64_t i = 0; i < s->layers; i++)
        s->layer[i].attention.qk_norm = norm ? QK_NORM_HEAD : QK_NORM_NONE;
    read_biased_experts(c, s, 1);
}

const struct family family_solar_open = {
    .id = "solar_open",
    .name = "Solar Open",
    .model_types = (const char *const[]){"solar_open", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = deepseek_layouts,
};
