// Mixtral: Mistral with experts. The router's weights are the softmax over the chosen experts
// alone.
#include "models/family.h"

static void spec(struct config *c, struct decoder_spec *s) {
    read_decoder(c, s, 0);
    read_norm(c, s, NORM_RMS, "rms_norm_eps", 1e-5);
    int64_t window = config_has(c, "sliding_window") ? config_dim(c, "sliding_window", 0) : 0;
    struct moe_spec moe =
        read_experts(c, "num_local_experts", config_dim(c, "intermediate_size", 0));
    moe.route.score = ROUTE_TOP_SOFTMAX;
    for (int64_t i = 0; i < s->layers; i++) {
        s->layer[i].attention.window = window;
        s->layer[i].ffn = FFN_MOE;
        s->layer[i].moe = moe;
    }
}

static const struct decoder_names names = {
    LLAMA_STACK,
    LLAMA_ATTENTION,
    .moe = {.router = "block_sparse_moe.gate", EXPERT_NAMES("block_sparse_moe", "w1", "w3", "w2")},
};

const struct family family_mixtral = {
    .id = "mixtral",
    .name = "Mixtral",
    .model_types = (const char *const[]){"mixtral", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = (const struct decoder_names *const[]){&names, NULL},
};
