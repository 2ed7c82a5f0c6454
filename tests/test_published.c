// config.json as publishers write them, with all the keys that have no effect: each is accepted.
// What would only give NaN, or says half of what it means, is refused.
#include "check.h"

#include "base/json.h"
#include "models/family.h"

static bool accepts(struct json_object *config, struct error *e) {
    struct decoder_spec spec = {0};
    struct config *c = config_read(
        sv(json_object_to_json_string_ext(config, JSON_C_TO_STRING_PLAIN)), "config.json", e);
    bool ok = c && family_read(c, &spec, e);
    if (ok) decoder_spec_free(&spec);
    config_close(c);
    return ok;
}

static struct json_object *published(void) {
    struct error e = {0};
    struct json_object *all = json_read_file(FIXTURES "/published.json", 1 << 20, &e);
    if (!all) fail_msg("%s", e.text);
    return all;
}

static void test_published(void **state) {
    (void)state;
    struct json_object *all = published();
    assert_true(json_object_object_length(all) > 20);
    json_object_object_foreach(all, name, config) {
        struct error e = {0};
        if (!accepts(config, &e)) fail_msg("%s: %s", name, e.text);
    }
    json_object_put(all);
}

static int64_t window_of(struct json_object *config) {
    struct error e = {0};
    struct decoder_spec spec = {0};
    struct config *c = config_read(
        sv(json_object_to_json_string_ext(config, JSON_C_TO_STRING_PLAIN)), "config.json", &e);
    if (!c || !family_read(c, &spec, &e)) fail_msg("%s", e.text);
    int64_t window = spec.layer[0].attention.window;
    decoder_spec_free(&spec);
    config_close(c);
    return window;
}

// Absent is not null: transformers' default is a window, and null turns it off.
static void test_mistral_window(void **state) {
    (void)state;
    struct json_object *all = published();
    struct json_object *first = json_at(all, "Mistral-7B-v0.1");
    assert_int_equal(window_of(first), 4096);
    assert_int_equal(window_of(json_at(all, "Mistral-7B-Instruct-v0.3")), 0);
    json_object_object_del(first, "sliding_window");
    assert_int_equal(window_of(first), 4096);
    json_object_put(all);
}

static void test_refused(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"rms_norm_eps", "-1"},
        {"rms_norm_eps", "1e30"},
        {"rope_theta", "1e-300"},
        {"rope_scaling", "{\"factor\": 4.0}"},
        {"rope_scaling", "{\"type\": \"linear\", \"factor\": 1e-300}"},
        {"rope_scaling", "{\"type\": \"yarn\", \"factor\": 1e300}"},
        {"rope_scaling", "{\"type\": \"dynamic\", \"factor\": 2.0}"},
        {"sliding_window", "4096"}, // Llama has none
        {"quantization_config", "{\"quant_method\": \"hqq\", \"bits\": 4}"},
        {"quantization_config", "{\"quant_method\": \"gptq\", \"bits\": 5}"},
        {"quantization_config", "{\"quant_method\": \"gptq\", \"checkpoint_format\": \"marlin\"}"},
        {"quantization_config", "{\"quant_method\": \"awq\", \"version\": \"gemv\"}"},
        {"quantization_config", "{\"quant_method\": \"awq\", \"zero_point\": false}"},
        {"quantization_config", "{\"quant_method\": \"fp8\", \"fmt\": \"e5m2\"}"},
        {"quantization_config", "{\"quant_method\": \"fp8\", \"weight_block_size\": [0, 128]}"},
        {"quantization_config", "{\"quant_method\": \"modelopt\", \"quant_algo\": \"W4A8_AWQ\"}"},
        {"quantization_config", "{\"quant_method\": \"bitnet\", \"linear_class\": \"x\"}"},
        {"quantization_config",
         "{\"quant_method\": \"auto-round\", \"packing_format\": \"auto_round:fp8\"}"},
        {"compression_config", "{\"quant_method\": \"hqq\"}"},
        {"quantization_config",
         "{\"quant_method\": \"compressed-tensors\", \"format\": \"marlin-24\"}"},
        {"quantization_config",
         "{\"quant_method\": \"compressed-tensors\", \"format\": \"pack-quantized\"}"},
        {"quantization_config",
         "{\"quant_method\": \"compressed-tensors\", \"format\": "
         "\"pack-quantized\", \"config_groups\": {\"group_0\": {\"weights\": "
         "{\"num_bits\": 3}}}}"},
        {"quantization_config", "{\"quant_method\": \"compressed-tensors\", \"format\": "
                                "\"pack-quantized\", \"config_groups\": {}, "
                                "\"sparsity_config\": {\"format\": \"sparse-24-bitmask\"}}"},
        {"quantization", "{\"mode\": \"nvfp4\", \"bits\": 4, \"group_size\": 32}"},
        {"quantization", "{\"mode\": \"mxfp5\"}"},
    };
    struct json_object *all = published();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error e = {0};
        struct json_object *copy = NULL, *value = json_read(sv(bad[i][1]), "value", &e);
        assert_int_equal(json_object_deep_copy(json_at(all, "Yi-1.5-9B-Chat"), &copy, NULL), 0);
        json_object_object_add(copy, bad[i][0], value);
        if (accepts(copy, &e)) fail_msg("accepts %s: %s", bad[i][0], bad[i][1]);
        if (!strstr(e.text, "config.json: key \"") || !strstr(e.text, bad[i][0]))
            fail_msg("%s: %s gives: %s", bad[i][0], bad[i][1], e.text);
        json_object_put(copy);
    }
    json_object_put(all);
}

// What does not go together, or is more than can be, of families with recurrent layers.
static void test_recurrent(void **state) {
    (void)state;
    static const char *const bad[][4] = {
        {"Mamba-Codestral-7B-v0.1", "num_heads", "64", "is not expand times hidden_size (8192)"},
        {"Mamba-Codestral-7B-v0.1", "num_heads", "65537", "is over the limit of 65536"},
        {"Mamba-Codestral-7B-v0.1", "n_groups", "7", "is not a multiple of n_groups (7)"},
        {"Mamba-Codestral-7B-v0.1", "conv_kernel", "1", "must be in 2 .. 16"},
        {"Mamba-Codestral-7B-v0.1", "conv_kernel", "17", "must be in 2 .. 16"},
        {"Mamba-Codestral-7B-v0.1", "state_size", "16777216", "is over the limit"},
        {"Mamba-Codestral-7B-v0.1", "head_dim", "16777216", "over the limit"},
        {"Mamba-Codestral-7B-v0.1", "time_step_limit", "[1.0, 0.5]", "the least and the most"},
        {"Mamba-Codestral-7B-v0.1", "time_step_limit", "[1.0]", "the least and the most"},
        {"Mamba-Codestral-7B-v0.1", "hidden_act", "\"gelu\"", "must be silu"},
        {"LFM2-1.2B", "layer_types", "[\"conv\"]", "fewer entries"},
        {"LFM2-1.2B", "block_ffn_dim_multiplier", "-1", "must be above 0"},
        {"LFM2-1.2B", "num_attention_heads", "31", "not a multiple"},
        {"recurrentgemma-2b", "lru_width", "2561", "does not divide lru_width (2561)"},
        {"recurrentgemma-2b", "block_types", "[\"mamba\"]", "none of recurrent, attention"},
        {"recurrentgemma-2b", "intermediate_size", "1", "at least 2"},
        {"recurrentgemma-2b", "logits_soft_cap", "-1", "must not be negative"},
        {"recurrentgemma-2b", "rope_scaling", "{\"type\": \"linear\", \"factor\": 2.0}", "family"},
        {"Jamba-v0.1", "attn_layer_offset", "8", "must be in 0 .. attn_layer_period - 1 (7)"},
        {"Jamba-v0.1", "expert_layer_offset", "-1", "expert_layer_period"},
        {"Jamba-v0.1", "layers_block_type", "[\"mamba\"]", "is not what attn_layer_period"},
        {"Jamba-v0.1", "mamba_dt_rank", "\"some\"", "must be a whole number"},
        {"Jamba-v0.1", "num_experts", "0", "num_experts"},
        {"Jamba-v0.1", "mamba_expand", "8192", "over the limit"},
        {"falcon-mamba-7b", "mixer_rms_eps", "2", "must be in 0 .. 1"},
        {"mamba-130m-hf", "hidden_act", "\"relu\"", "hidden_act"},
    };
    struct json_object *all = published();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error e = {0};
        struct json_object *copy = NULL, *value = json_read(sv(bad[i][2]), "value", &e);
        assert_int_equal(json_object_deep_copy(json_at(all, bad[i][0]), &copy, NULL), 0);
        json_object_object_add(copy, bad[i][1], value);
        if (accepts(copy, &e)) fail_msg("%s accepts %s: %s", bad[i][0], bad[i][1], bad[i][2]);
        if (!strstr(e.text, "config.json: key \"") || !strstr(e.text, bad[i][3]))
            fail_msg("%s: %s gives: %s", bad[i][1], bad[i][2], e.text);
        json_object_put(copy);
    }
    json_object_put(all);
}

// log(1) is 0, and yarn divides by it.
static void test_yarn_theta(void **state) {
    (void)state;
    struct error e = {0};
    struct json_object *all = published();
    struct json_object *yarn = json_at(all, "Yarn-Llama-2-7b-128k");
    json_object_object_add(yarn, "rope_theta", json_object_new_double(1));
    assert_false(accepts(yarn, &e));
    assert_non_null(strstr(e.text, "above 1 for yarn"));
    json_object_put(all);
}

// Qwen2.5's 1M versions: the context ends where their chunks would begin to matter.
static void test_dual_chunks(void **state) {
    (void)state;
    struct error e = {0};
    struct json_object *all = published();
    struct json_object *qwen = json_at(all, "Qwen2-7B-Instruct"), *dual;
    dual = json_read(sv("{\"chunk_size\": 262144, \"local_size\": 8192,"
                        " \"original_max_position_embeddings\": 262144}"),
                     "dual", &e);
    json_object_object_add(qwen, "max_position_embeddings", json_object_new_int(1010000));
    json_object_object_add(qwen, "dual_chunk_attention_config", dual);
    const char *text = json_object_to_json_string_ext(qwen, JSON_C_TO_STRING_PLAIN);
    struct decoder_spec spec = {0};
    struct config *c = config_read(sv(text), "config.json", &e);
    if (!family_read(c, &spec, &e)) fail_msg("%s", e.text);
    assert_int_equal(spec.context, 262144 - 8192);
    decoder_spec_free(&spec);
    config_close(c);
    json_object_put(all);
}

// The keys of a text model inside a larger one are checked as any.
static void test_streams(void **state) {
    (void)state;
    static const char *const bad[][3] = {
        {"altup_num_inputs", "9", "must be in 1 .. 8"},
        {"altup_active_idx", "4", "below altup_num_inputs (4)"},
        {"activation_sparsity_pattern", "[0.95]", "must be a finite number"},
        {"activation_sparsity_pattern", "1.0", "below 1 for layer 0"},
        {"num_kv_shared_layers", "35", "below num_hidden_layers"},
        {"num_kv_shared_layers", "31", "no layer of the type of layer 34"},
        {"intermediate_size", "[0]", "must be in 1 .. 16777216 for layer 0"},
        {"laurel_rank", "0", "laurel_rank"},
        {"attention_chunk_size", "8", "attention_chunk_size"}, // it has none
    };
    struct json_object *all = published();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error e = {0};
        struct json_object *copy = NULL, *value = json_read(sv(bad[i][1]), "value", &e);
        struct json_object *whole = json_at(all, "Gemma3nConfig as transformers 5 writes it");
        assert_int_equal(json_object_deep_copy(whole, &copy, NULL), 0);
        json_object_object_add(json_at(copy, "text_config"), bad[i][0], value);
        if (accepts(copy, &e)) fail_msg("accepts %s: %s", bad[i][0], bad[i][1]);
        if (!strstr(e.text, "config.json: key \"text_config.") || !strstr(e.text, bad[i][2]))
            fail_msg("%s: %s gives: %s", bad[i][0], bad[i][1], e.text);
        json_object_put(copy);
    }
    json_object_put(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),  cmocka_unit_test(test_mistral_window),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_recurrent),
        cmocka_unit_test(test_yarn_theta), cmocka_unit_test(test_dual_chunks),
        cmocka_unit_test(test_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
