// dots.llm1: DeepSeek V3's experts under Qwen3's attention.
#include "models/family.h"

// MLX stacks its experts under the name of the single ones.
static const struct decoder_names names = {
    LLAMA_STACK,
    LLAMA_ATTENTION,
    LLAMA_MLP,
    .moe = {.router = "mlp.gate",
            .choice_bias = "mlp.gate.e_score_correction_bias",
            .each = "mlp.experts.",
            .gate = "gate_proj",
            .up = "up_proj",
            .down = "down_proj",
            .stack = {"mlp.experts.gate_proj", "mlp.experts.up_proj", "mlp.experts.down_proj"},
            .shared = {.gate = "mlp.shared_experts.gate_proj",
                       .up = "mlp.shared_experts.up_proj",
                       .down = "mlp.shared_experts.down_proj"}},
};

static void spec(struct config *c, struct decoder_spec *s) {
    read_decoder(c, s, 0);
    read_biases(c, s);
    for (int64_t i = 0; i < s->layers; i++) s->layer[i].attention.qk_norm = QK_NORM_HEAD;
    read_biased_experts(c, s, 1);
}

const struct family family_dots1 = {
    .id = "dots1",
    .name = "dots.llm1",
    .model_types = (const char *const[]){"dots1", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = (const struct decoder_names *const[]){&names, NULL},
};
