// Llama 4, the text model, alone or in the one that also sees: layers that rotate neighbouring
// pairs, norm each head's query and key after that and see their own chunk of tokens, between
// layers without positions that see everything and whose scores grow with the position. Experts,
// whose input is what the router weighs, and a shared one beside them, in some layers.
#include "models/family.h"

static const struct decoder_names names = {
    LLAMA_STACK,
    .attention = {.q = "self_attn.q_proj",
                  .k = "self_attn.k_proj",
                  .v = "self_attn.v_proj",
                  .o = "self_attn.o_proj"},
    .mlp = {.gate = "feed_forward.gate_proj",
            .up = "feed_forward.up_proj",
            .down = "feed_forward.down_proj"},
    .moe = {.router = "feed_forward.router",
            .each = "feed_forward.experts.", // of llm-compressor
            .gate = "gate_proj",
            .up = "up_proj",
            .down = "down_proj",
            .stack = {"feed_forward.experts.gate_proj", "feed_forward.experts.up_proj",
                      "feed_forward.experts.down_proj"},
            .gate_up = "feed_forward.experts.gate_up_proj",
            .all_down = "feed_forward.experts.down_proj",
            .fused_columns = true,
            .shared = {.gate = "feed_forward.shared_expert.gate_proj",
                       .up = "feed_forward.shared_expert.up_proj",
                       .down = "feed_forward.shared_expert.down_proj"}},
    // what turns images into embeddings
    .ignored = (const char *const[]){"vision_model.*", "multi_modal_projector.*", NULL},
};

// no_rope_layers holds a 1 for a layer that does rotate. An empty one means all but every fourth.
static bool rotates(struct config *c, int64_t i, int64_t interval) {
    if (!config_list(c, "no_rope_layers")) return (i + 1) % interval;
    return config_list_int(c, "no_rope_layers", (size_t)i);
}

// By layer_types where the config has it; else those that rotate.
static bool sees_chunk(struct config *c, int64_t i, int64_t interval) {
    if (!config_has(c, "layer_types")) return rotates(c, i, interval);
    struct sv type = config_list_text(c, "layer_types", (size_t)i);
    if (!sv_is(type, "chunked_attention") && !sv_is(type, "full_attention"))
        config_fail(c, "layer_types", "entry %lld is none of full_attention, chunked_attention",
                    (long long)i);
    return sv_is(type, "chunked_attention");
}

static void read_positions(struct config *c, struct decoder_spec *s) {
    size_t listed = config_list(c, "no_rope_layers");
    int64_t interval = config_dim(c, "no_rope_layer_interval", 4);
    if (listed && listed < (size_t)s->layers)
        config_fail(c, "no_rope_layers", "has fewer entries than num_hidden_layers (%lld)",
                    (long long)s->layers);
    int64_t chunk = config_dim(c, "attention_chunk_size", 8192);
    bool norm = config_bool(c, "use_qk_norm", true);
    float tuning = (float)config_number(c, "attn_scale", 0.1);
    float floor = (float)config_number(c, "floor_scale", 8192);
    if (!(floor > 0)) config_fail(c, "floor_scale", "must be above 0");
    if (!config_truth(c, "attn_temperature_tuning", true)) tuning = 0; // some configs say 4
    for (int64_t i = 0; i < s->layers; i++) {
        struct attention_spec *a = &s->layer[i].attention;
        if (sees_chunk(c, i, interval)) a->chunk = chunk;
        if (rotates(c, i, interval)) {
            a->qk_norm = norm ? QK_NORM_HEAD : QK_NORM_NONE;
            a->norm_late = true;
        } else {
            a->rope = ROPE_NONE;
            a->tuning = tuning;
            a->tuning_floor = floor;
        }
    }
}

// moe_layers lists the layers with experts; without it they are every interleave_moe_layer_step-th.
static void read_feed_forward(struct config *c, struct decoder_spec *s) {
    bool list = config_has(c, "moe_layers");
    int64_t step = list ? 1 : config_dim(c, "interleave_moe_layer_step", 1);
    int64_t experts = config_int(c, "num_local_experts", 16);
    int64_t width = config_dim(c, "intermediate_size", 8192);
    int64_t dense_width = config_dim(c, "intermediate_size_mlp", 16384);
    struct moe_spec moe = {0};
    if (experts) moe = read_experts(c, "num_local_experts", width);
    if (!config_has(c, "num_experts_per_tok")) moe.route.top = 1;
    moe.route.score = ROUTE_SIGMOID;
    moe.weigh_input = true;
    moe.shared = (struct mlp_spec){.width = width, .act = moe.gating.act};
    for (int64_t i = 0; i < s->layers; i++) {
        struct layer_spec *l = &s->layer[i];
        l->mlp.width = dense_width;
        if (list ? !config_list_holds(c, "moe_layers", i) : (i + 1) % step) continue;
        if (!experts)
            config_fail(c, "num_local_experts", "must not be 0 where layers have experts");
        l->ffn = FFN_MOE;
        l->moe = moe;
    }
}

static void read_text(struct config *c, struct decoder_spec *s) {
    read_stack(c, s, 128);
    read_norm(c, s, NORM_RMS, "rms_norm_eps", 1e-5);
    read_biases(c, s);
    if (!config_has(c, "tie_word_embeddings")) s->head = HEAD_OWN;
    struct rope_config r;
    rope_config_read(c, NULL, 500000.0, &r);
    s->rope[add_rope(c, s, &r)].interleaved = true;
    read_positions(c, s);
    read_feed_forward(c, s);
}

static void spec(struct config *c, struct decoder_spec *s) {
    struct config *text = config_child(c, "text_config");
    read_text(text ? text : c, s);
}

const struct family family_llama4_text = {
    .id = "llama4_text",
    .name = "Llama 4 text",
    .model_types = (const char *const[]){"llama4", "llama4_text", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = (const struct decoder_names *const[]){&names, NULL},
    .moves = (const struct name_move[]){{"language_model.", ""}, {NULL, NULL}},
};
