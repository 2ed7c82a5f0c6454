// What the families' files share.
#include <math.h>

#include "base/mem.h"
#include "models/family.h"

static const struct decoder_names llama_names = {
    LLAMA_STACK,
    LLAMA_ATTENTION,
    LLAMA_MLP,
};

const struct decoder_names *const llama_layouts[] = {&llama_names, NULL};

enum { MAX_LAYERS = 4096, MAX_WIDTH = 1 << 24 };

static bool sound(const struct config *c) { return config_ok(c, &(struct error){0}); }

enum activation read_activation(struct config *c, const char *key, const char *otherwise) {
    static const struct {
        const char *name;
        enum activation act;
    } known[] = {{"silu", ACT_SILU},           {"swish", ACT_SILU},
                 {"gelu", ACT_GELU},           {"gelu_new", ACT_GELU_TANH},
                 {"gelu_fast", ACT_GELU_TANH}, {"gelu_pytorch_tanh", ACT_GELU_TANH}};
    struct sv act = config_text(c, key, otherwise);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (sv_is(act, known[i].name)) return known[i].act;
    config_fail(c, key,
                "is not an activation this engine has (it has: silu, gelu, gelu_pytorch_tanh)");
    return ACT_SILU;
}

void read_norm(struct config *c, struct decoder_spec *spec, enum norm_kind kind, const char *key,
               double otherwise) {
    double eps = config_number(c, key, otherwise);
    if (!(eps >= 0 && eps <= 1)) config_fail(c, key, "must be in 0 .. 1");
    spec->norm = (struct norm_spec){kind, (float)eps};
}

struct attention_spec read_attention(struct config *c, int64_t hidden, int64_t head_width) {
    int64_t heads = config_dim(c, "num_attention_heads", 0);
    int64_t kv_heads = config_dim(c, "num_key_value_heads", heads);
    if (!head_width && sound(c)) {
        head_width = hidden / heads;
        if (!config_has(c, "head_dim") && hidden % heads)
            config_fail(c, "hidden_size", "is not a multiple of num_attention_heads (%lld)",
                        (long long)heads);
    }
    int64_t width = config_dim(c, "head_dim", head_width ? head_width : 1);
    if (kv_heads && heads % kv_heads)
        config_fail(c, "num_key_value_heads", "does not divide num_attention_heads (%lld)",
                    (long long)heads);
    if (heads * width > MAX_WIDTH)
        config_fail(c, "num_attention_heads", "times head_dim is over the limit of %d", MAX_WIDTH);
    return (struct attention_spec){.heads = heads,
                                   .kv_heads = kv_heads,
                                   .width = width,
                                   .scale = (float)(1.0 / sqrt((double)width))};
}

enum head read_head(struct config *c, enum head otherwise) {
    if (!config_has(c, "tie_word_embeddings")) return otherwise;
    return config_bool(c, "tie_word_embeddings", false) ? HEAD_TIED : HEAD_OWN;
}

void make_layers(struct config *c, struct decoder_spec *spec, const struct layer_spec *layer) {
    if (spec->layers > MAX_LAYERS)
        config_fail(c, "num_hidden_layers", "is over the limit of %d", MAX_LAYERS);
    if (!sound(c)) spec->layers = 0;
    spec->layer = mem_array((size_t)spec->layers, sizeof *spec->layer);
    for (int64_t i = 0; i < spec->layers; i++) spec->layer[i] = *layer;
}

void read_shape(struct config *c, struct decoder_spec *spec) {
    spec->hidden = config_dim(c, "hidden_size", 0);
    spec->vocab = config_dim(c, "vocab_size", 0);
    spec->layers = config_dim(c, "num_hidden_layers", 0);
}

void read_sizes(struct config *c, struct decoder_spec *spec) {
    read_shape(c, spec);
    read_norm(c, spec, NORM_RMS, "rms_norm_eps", 1e-6);
    spec->context = config_dim(c, "max_position_embeddings", 2048);
    spec->head = read_head(c, HEAD_IF_PRESENT);
}

void read_stack(struct config *c, struct decoder_spec *spec, int64_t head_width) {
    read_sizes(c, spec);
    struct layer_spec layer = {
        .norms = NORMS_PRE,
        .attention = read_attention(c, spec->hidden, head_width),
        .mlp = {.width = config_dim(c, "intermediate_size", 0),
                .act = read_activation(c, "hidden_act", "silu")},
    };
    make_layers(c, spec, &layer);
}

int add_rope(struct config *c, struct decoder_spec *spec, const struct rope_config *r) {
    if (!sound(c)) return 0; // and there are no layers
    int64_t dim = (int64_t)((double)spec->layer[0].attention.width * r->partial);
    if (dim < 2 || dim % 2)
        config_fail(c, "head_dim", "rotary embeddings turn %lld of it, but need pairs",
                    (long long)dim);
    if (r->kind == ROPE_LONG && r->factors != dim / 2)
        config_fail(c, "rope_scaling", "its lists have %lld factors, but %lld pairs rotate",
                    (long long)r->factors, (long long)(dim / 2));
    spec->rope[spec->ropes] = (struct rope_spec){.config = *r, .dim = dim};
    return spec->ropes++;
}

void read_decoder(struct config *c, struct decoder_spec *spec, int64_t head_width) {
    read_stack(c, spec, head_width);
    struct rope_config r;
    rope_config_read(c, NULL, 10000.0, &r);
    if (sound(c) && r.partial != 1)
        config_fail(c, "partial_rotary_factor", "is not 1: this family rotates whole heads");
    add_rope(c, spec, &r);
}

void read_biases(struct config *c, struct decoder_spec *spec) {
    bool attention = config_bool(c, "attention_bias", false);
    bool mlp = config_bool(c, "mlp_bias", false);
    for (int64_t i = 0; i < spec->layers; i++) {
        spec->layer[i].attention.qkv_bias = spec->layer[i].attention.o_bias = attention;
        spec->layer[i].mlp.bias = mlp;
    }
}

int64_t read_of_layer(struct config *c, const char *key, int64_t layer, int64_t otherwise,
                      int64_t most) {
    if (!config_has(c, key)) return otherwise;
    int64_t value = config_list_int(c, key, (size_t)layer);
    if (value < 1 || value > most)
        config_fail(c, key, "must be in 1 .. %lld for layer %lld", (long long)most,
                    (long long)layer);
    return value;
}

void check_layer_types(struct config *c, const struct decoder_spec *spec) {
    if (config_has(c, "layer_types") && config_list(c, "layer_types") < (size_t)spec->layers)
        config_fail(c, "layer_types", "has fewer entries than num_hidden_layers (%lld)",
                    (long long)spec->layers);
}

static bool layer_slides(struct config *c, int64_t i, int64_t first) {
    if (!config_has(c, "layer_types")) return i >= first;
    struct sv type = config_list_text(c, "layer_types", (size_t)i);
    if (!sv_is(type, "sliding_attention") && !sv_is(type, "full_attention"))
        config_fail(c, "layer_types", "entry %lld is none of full_attention, sliding_attention",
                    (long long)i);
    return sv_is(type, "sliding_attention");
}

void read_windows(struct config *c, struct decoder_spec *spec, int64_t pattern, int64_t window) {
    check_layer_types(c, spec);
    window = config_dim(c, "sliding_window", window);
    pattern = config_dim(c, "sliding_window_pattern", pattern);
    bool types = config_has(c, "layer_types");
    for (int64_t i = 0; i < spec->layers && sound(c); i++)
        if (types ? layer_slides(c, i, 0) : (i + 1) % pattern)
            spec->layer[i].attention.window = window;
}

void read_qwen_windows(struct config *c, struct decoder_spec *spec) {
    bool use = config_bool(c, "use_sliding_window", false);
    int64_t window = use ? config_dim(c, "sliding_window", 4096) : 0;
    int64_t first = config_int(c, "max_window_layers", 28);
    config_has(c, "sliding_window"); // published beside use_sliding_window: false, and then unused
    check_layer_types(c, spec);
    for (int64_t i = 0; i < spec->layers && sound(c); i++)
        if (layer_slides(c, i, first)) spec->layer[i].attention.window = window;
}
