// Command R7B and A: one LayerNorm without bias a layer, whose output attention and MLP take side
// by side; layers with a window rotate neighbouring pairs, those without have no positions.
#include "models/family.h"

enum { WINDOW = 4096, PATTERN = 4 };

static void spec(struct config *c, struct decoder_spec *s) {
    read_stack(c, s, 0);
    read_norm(c, s, NORM_LAYER, "layer_norm_eps", 1e-5);
    read_biases(c, s);
    if (!config_has(c, "tie_word_embeddings")) s->head = HEAD_TIED;
    s->logit_scale = (float)config_number(c, "logit_scale", 0.0625);
    if (s->logit_scale == 0) config_fail(c, "logit_scale", "must not be 0");
    if (!sv_is(config_text(c, "position_embedding_type", "rope_gptj"), "rope_gptj"))
        config_fail(c, "position_embedding_type", "must be rope_gptj for this family");
    if (!config_bool(c, "use_parallel_block", true))
        config_fail(c, "use_parallel_block", "must be true for this family");
    struct rope_config r;
    rope_config_read(c, NULL, 10000.0, &r);
    s->rope[add_rope(c, s, &r)].interleaved = true;
    read_windows(c, s, PATTERN, WINDOW);
    for (int64_t i = 0; i < s->layers; i++) {
        struct layer_spec *l = &s->layer[i];
        l->norms = NORMS_ONE;
        l->parallel = true;
        if (!l->attention.window) l->attention.rope = ROPE_NONE;
    }
}

const struct family family_cohere2 = {
    .id = "cohere2",
    .name = "Cohere 2",
    .model_types = (const char *const[]){"cohere2", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = llama_layouts,
};
