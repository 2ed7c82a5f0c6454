// Qwen1.5, Qwen2 and Qwen2.5: Llama with a bias on q, k and v only.
#include "models/family.h"

// The 1M versions attend in chunks beyond this many tokens; up to there it is plain attention,
// which is what is computed here.
static void read_dual_chunks(struct config *c, struct decoder_spec *s) {
    struct config *dual = config_child(c, "dual_chunk_attention_config");
    if (!dual) return;
    int64_t chunk = config_dim(dual, "chunk_size", 0), local = config_dim(dual, "local_size", 0);
    if (local >= chunk) config_fail(dual, "local_size", "must be below chunk_size");
    if (s->context > chunk - local) s->context = chunk - local;
}

static void spec(struct config *c, struct decoder_spec *s) {
    read_decoder(c, s, 0);
    read_dual_chunks(c, s);
    read_qwen_windows(c, s);
    for (int64_t i = 0; i < s->layers; i++) s->layer[i].attention.qkv_bias = true;
}

const struct family family_qwen2 = {
    .id = "qwen2",
    .name = "Qwen2",
    .model_types = (const char *const[]){"qwen2", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = llama_layouts,
};
