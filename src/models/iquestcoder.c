// IQuest-Coder V1: Llama's decoder. Its config has three keys that Llama's lacks; every published
// checkpoint leaves them inert, and one that does not is refused.
#include "models/family.h"

static void spec(struct config *c, struct decoder_spec *s) {
    read_decoder(c, s, 0);
    read_biases(c, s);
    if (config_has(c, "clip_qkv"))
        config_fail(c, "clip_qkv", "clipping q, k and v is not supported");
    if (config_bool(c, "use_sliding_window", false) && config_has(c, "sliding_window"))
        config_fail(c, "sliding_window", "sliding windows are not supported for this family");
}

const struct family family_iquestcoder = {
    .id = "iquestcoder",
    .name = "IQuest-Coder",
    .model_types = (const char *const[]){"iquestcoder", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = llama_layouts,
};
