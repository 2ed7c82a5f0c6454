// What the families of mixtures of experts share.
#include "models/family.h"

enum { MAX_EXPERTS = 4096 };

static const struct decoder_names qwen_names = {
    LLAMA_STACK,
    LLAMA_ATTENTION,
    LLAMA_MLP,
    .moe = {.router = "mlp.gate",
            EXPERT_NAMES("mlp", "gate_proj", "up_proj", "down_proj"),
            .gate_up = "mlp.experts.gate_up_proj",
            .all_down = "mlp.experts.down_proj",
            .shared = {.gate = "mlp.shared_expert.gate_proj",
                       .up = "mlp.shared_expert.up_proj",
                       .down = "mlp.shared_expert.down_proj"},
            .shared_gate = "mlp.shared_expert_gate"},
    .mlx_adds_one = true,
    .delta_net = {.qkvz = "linear_attn.in_proj_qkvz",
                  .ba = "linear_attn.in_proj_ba",
                  .conv = "linear_attn.conv1d",
                  .a_log = "linear_attn.A_log",
                  .dt_bias = "linear_attn.dt_bias",
                  .norm = "linear_attn.norm",
                  .out = "linear_attn.out_proj"},
    .ignored = (const char *const[]){"mtp.*", NULL},
};

const struct decoder_names *const qwen_moe_layouts[] = {&qwen_names, NULL};

struct moe_spec read_experts(struct config *c, const char *count, int64_t width) {
    const char *key = "num_experts_per_tok";
    if (config_has(c, "num_experts_per_token")) key = "num_experts_per_token"; // Kimi Linear
    int64_t experts = config_dim(c, count, 0), top = config_dim(c, key, 2);
    if (experts > MAX_EXPERTS) config_fail(c, count, "is over the limit of %d", MAX_EXPERTS);
    if (top > experts)
        config_fail(c, key, "is more than there are experts (%lld)", (long long)experts);
    return (struct moe_spec){
        .experts = experts,
        .width = width,
        .route = {.score = ROUTE_SOFTMAX, .top = top, .scale = 1},
        .gating = {.act = read_activation(c, "hidden_act", "silu")},
    };
}

void read_qwen_experts(struct config *c, struct decoder_spec *spec) {
    struct moe_spec moe = read_experts(c, "num_experts", config_dim(c, "moe_intermediate_size", 0));
    moe.route.normalize = config_bool(c, "norm_topk_prob", false);
    int64_t step = config_dim(c, "decoder_sparse_step", 1);
    int64_t shared = 0;
    if (config_has(c, "shared_expert_intermediate_size"))
        shared = config_dim(c, "shared_expert_intermediate_size", 0);
    moe.shared = (struct mlp_spec){.width = shared, .act = moe.gating.act};
    moe.shared_gate = shared > 0;
    for (int64_t i = 0; i < spec->layers; i++) {
        if ((i + 1) % step || config_list_holds(c, "mlp_only_layers", i)) continue;
        spec->layer[i].ffn = FFN_MOE;
        spec->layer[i].moe = moe;
    }
}
