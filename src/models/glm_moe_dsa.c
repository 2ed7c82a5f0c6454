// GLM 5: DeepSeek V3.2, but for the indexers' rope, and for layers that borrow the choice of an
// earlier one. Which these are, the config says in one of three ways.
#include "models/family.h"

static bool is_full(struct config *c, int64_t i) {
    if (config_has(c, "indexer_types"))
        return sv_is(config_list_text(c, "indexer_types", (size_t)i), "full");
    struct sv pattern = config_text(c, "index_topk_pattern", "");
    if (pattern.n) return (size_t)i < pattern.n && pattern.p[i] == 'F';
    int64_t step = config_dim(c, "index_topk_freq", 1);
    int64_t from = config_int(c, "index_skip_topk_offset", 2) - 1;
    return i <= from || (i - from) % step == 0;
}

static void spec(struct config *c, struct decoder_spec *s) {
    read_latent_decoder(c, s);
    read_norm(c, s, NORM_RMS, "rms_norm_eps", 1e-5);
    read_indexers(c, s, config_bool(c, "indexer_rope_interleave", true));
    for (int64_t i = 0; i < s->layers; i++) {
        struct indexer_spec *x = &s->layer[i].mla.indexer;
        x->borrows = !is_full(c, i);
        if (x->borrows && i == 0) config_fail(c, "indexer_types", "the first layer must be full");
        if (x->borrows && i > 0 && !s->layer[i - 1].mla.indexer.borrows)
            s->layer[i - 1].mla.indexer.lends = true;
    }
    read_biased_experts(c, s, 2.5);
}

const struct family family_glm_moe_dsa = {
    .id = "glm_moe_dsa",
    .name = "GLM 5",
    .model_types = (const char *const[]){"glm_moe_dsa", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = deepseek_layouts,
};
