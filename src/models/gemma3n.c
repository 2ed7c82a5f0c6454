// Gemma 3n, the text model: Gemma 3's layers with plain norms, one on each head's value too, scores
// that are not scaled, a learned residual beside attention and, in some layers, a gate of which
// most is cut. Around them several residual streams (altup.h) and embeddings for each layer
// (ple.h). The last layers see the keys and values of an earlier one of their type.
//
// Of a checkpoint that sees and hears, the text model alone is read.
#include <math.h>

#include "models/family.h"

enum { HEAD_WIDTH = 256, WINDOW = 512, PATTERN = 5, MOST_WIDTH = 1 << 24 };

static void read_streams(struct config *c, struct decoder_spec *s) {
    struct altup_spec *a = &s->altup;
    a->streams = config_int(c, "altup_num_inputs", 4);
    a->active = config_int(c, "altup_active_idx", 0);
    a->scaled = config_bool(c, "altup_correct_scale", true);
    if (a->streams < 1 || a->streams > ALTUP_STREAMS)
        config_fail(c, "altup_num_inputs", "must be in 1 .. %d", ALTUP_STREAMS);
    if (a->active < 0 || a->active >= a->streams)
        config_fail(c, "altup_active_idx", "must be below altup_num_inputs (%lld)",
                    (long long)a->streams);
}

// Absent: that of the first ten layers of a deep model is cut to 5 %.
static float read_sparsity(struct config *c, int64_t layer, int64_t layers) {
    static const char key[] = "activation_sparsity_pattern";
    if (!config_has(c, key)) return layers > 10 && layer < 10 ? 0.95f : 0;
    double share = config_list_number(c, key, (size_t)layer);
    if (!(share >= 0 && share < 1))
        config_fail(c, key, "must be at least 0 and below 1 for layer %lld", (long long)layer);
    return (float)share;
}

// The last num_kv_shared_layers layers share, each with the last of its type before them.
static void read_sharing(struct config *c, struct decoder_spec *s) {
    static const char key[] = "num_kv_shared_layers";
    int64_t shared = config_int(c, key, 15), first = s->layers - shared;
    if (shared < 0 || (s->layers && first < 1))
        config_fail(c, key, "must be at least 0 and below num_hidden_layers");
    for (int64_t i = s->layers - 1; i >= first && first >= 1; i--) {
        struct attention_spec *a = &s->layer[i].attention;
        a->shared = true;
        for (a->owner = first - 1; a->owner >= 0; a->owner--)
            if (s->layer[a->owner].attention.window == a->window) break;
        if (a->owner < 0)
            config_fail(c, key, "leaves no layer of the type of layer %lld to share with",
                        (long long)i);
    }
}

static void read_text(struct config *c, struct decoder_spec *s) {
    read_sizes(c, s);
    s->head = read_head(c, HEAD_TIED);
    s->embed_scale = (float)sqrt((double)s->hidden);
    s->logit_cap = read_cap(c, "final_logit_softcapping", 30);
    struct layer_spec layer = {
        .norms = NORMS_SANDWICH,
        .attention = read_attention(c, s->hidden, HEAD_WIDTH),
        .laurel = config_dim(c, "laurel_rank", 64),
        .mlp = {.act = read_activation(c, "hidden_activation", "gelu_pytorch_tanh")},
    };
    layer.attention.scale = 1;
    config_has(c, "query_pre_attn_scalar"); // published, but not what scores are scaled by
    layer.attention.qk_norm = QK_NORM_HEAD;
    layer.attention.v_norm = true;
    layer.attention.qkv_bias = layer.attention.o_bias = config_bool(c, "attention_bias", false);
    s->ple = (struct ple_spec){.width = config_dim(c, "hidden_size_per_layer_input", 256),
                               .vocab = config_dim(c, "vocab_size_per_layer_input", 262144),
                               .act = layer.mlp.act};
    read_streams(c, s);
    make_layers(c, s, &layer);
    for (int64_t i = 0; i < s->layers; i++) {
        struct mlp_spec *m = &s->layer[i].mlp;
        m->width = read_of_layer(c, "intermediate_size", i, 16384, MOST_WIDTH);
        m->sparsity = read_sparsity(c, i, s->layers);
    }
    read_windows(c, s, PATTERN, WINDOW);
    read_gemma_ropes(c, s);
    read_sharing(c, s);
}

static void spec(struct config *c, struct decoder_spec *s) {
    struct config *text = config_child(c, "text_config");
    read_text(text ? text : c, s);
}

static const struct decoder_names names = {
    .embed = "model.embed_tokens",
    .norm = "model.norm",
    .head = "lm_head",
    .layer = "model.layers.",
    .layer_norm = {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                   "post_feedforward_layernorm"},
    LLAMA_ATTENTION,
    LLAMA_MLP,
    .altup = {.split = "model.altup_projections.",
              .merge = "model.altup_unembed_projections.",
              .norm = "altup.router_norm",
              .router = "altup.modality_router",
              .predict = "altup.prediction_coefs",
              .correct = "altup.correction_coefs",
              .scale = "altup.correct_output_scale"},
    .laurel = {.left = "laurel.linear_left",
               .right = "laurel.linear_right",
               .norm = "laurel.post_laurel_norm"},
    .ple = {.table = "model.embed_tokens_per_layer",
            .project = "model.per_layer_model_projection",
            .norm = "model.per_layer_projection_norm",
            .layer_gate = "per_layer_input_gate",
            .layer_project = "per_layer_projection",
            .layer_norm = "post_per_layer_input_norm"},
    // what turns images and sound into embeddings
    .ignored =
        (const char *const[]){"model.vision_tower.*", "model.audio_tower.*", "model.embed_vision.*",
                              "model.embed_audio.*", "vision_tower.*", "audio_tower.*",
                              "embed_vision.*", "embed_audio.*", NULL},
};

const struct family family_gemma3n = {
    .id = "gemma3n",
    .name = "Gemma 3n",
    .model_types = (const char *const[]){"gemma3n", "gemma3n_text", NULL},
    .kind = KIND_GENERATOR,
    .spec = spec,
    .layouts = (const struct decoder_names *const[]){&names, NULL},
    .moves = (const struct name_move[]){{"model.language_model.", "model."},
                                        {"language_model.", ""},
                                        {NULL, NULL}},
};
