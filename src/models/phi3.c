// Phi-3, Phi-3.5 and Phi-4-mini: Llama with q, k and v in one matrix, gate and up in another, and
// LongRoPE. A part of each head rotates in Phi-4-mini.
#include "models/family.h"

static void spec(struct config *c, struct decoder_spec *s) {
    read_stack(c, s, 0);
    struct rope_config r;
    rope_config_read(c, NULL, 10000.0, &r);
    add_rope(c, s, &r);
    int64_t window = config_has(c, "sliding_window") ? config_dim(c, "sliding_window", 0) : 0;
    for (int64_t i = 0; i < s->layers; i++) s->layer[i].attention.window = window;
}

static const struct decoder_names names = {
    LLAMA_STACK,
    .attention = {.qkv = "self_attn.qkv_proj", .o = "self_attn.o_proj"},
    .mlp = {.gate_up = "mlp.gate_up_proj", .down = "mlp.down_proj"},
};

const struct family family_phi3 = {
    .id = "phi3",
    .name = "Phi-3",
    .model_types = (const char *const[]){"phi3", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = (const struct decoder_names *const[]){&names, NULL},
};
