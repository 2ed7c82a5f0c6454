// config.json as a list of facts: what is tolerated, what is refused and how, rope in both styles
// against transformers' values, and the settings of generation_config.json.
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "checkpoint/generation_config.h"
#include "checkpoint/rope_config.h"

static struct config *parse(const char *text) {
    struct error e = {0};
    struct config *c = config_read(sv(text), "config.json", &e);
    if (!c) fail_msg("%s", e.text);
    return c;
}

// The sticky error of c must hold the text.
static void says(struct config *c, const char *text) {
    struct error e = {0};
    assert_false(config_ok(c, &e));
    if (!strstr(e.text, text)) fail_msg("no %s in: %s", text, e.text);
    config_close(c);
}

static void test_tolerated(void **state) {
    (void)state;
    struct config *c =
        parse("{\"i\": 64, \"q\": \"64\", \"f\": 64.0, \"n\": null, \"e\": 1e3,"
              " \"x\": \"1e-5\", \"t\": \"True\", \"z\": 0, \"nan\": NaN, \"s\": \"y\","
              " \"big\": 9007199254740993}");
    assert_int_equal(config_int(c, "i", 1), 64);
    assert_int_equal(config_int(c, "q", 1), 64);
    assert_int_equal(config_dim(c, "f", 0), 64);
    assert_int_equal(config_int(c, "n", 7), 7);
    assert_int_equal(config_dim(c, "n", 7), 7);
    assert_int_equal(config_int(c, "none", 8), 8);
    assert_int_equal(config_int(c, "e", 8), 1000);
    assert_true(config_int(c, "big", 0) == 9007199254740993);
    assert_true(config_number(c, "x", 0) == 1e-5);
    assert_true(config_number(c, "i", 0) == 64);
    assert_true(config_bool(c, "t", false));
    assert_false(config_bool(c, "z", true));
    assert_true(config_bool(c, "n", true));
    assert_true(sv_is(config_text(c, "s", "d"), "y"));
    assert_true(sv_is(config_text(c, "n", "d"), "d"));
    assert_false(config_has(c, "n"));
    assert_true(config_has(c, "nan")); // that it is NaN matters only to who reads it
    struct error e = {0};
    assert_true(config_ok(c, &e));
    config_close(c);
}

static void test_wrong_types(void **state) {
    (void)state;
    static const char text[] =
        "{\"list\": [1], \"word\": \"abc\", \"half\": 0.5, \"nan\": NaN,"
        " \"inf\": -Infinity, \"huge\": 1e300, \"zero\": 0, \"wide\": 16777217,"
        " \"two\": 2, \"u\": 18446744073709551615}";
    static const char *const ints[] = {"list", "word", "half", "nan", "huge", "u"};
    for (size_t i = 0; i < 6; i++) {
        struct config *c = parse(text);
        assert_int_equal(config_int(c, ints[i], 3), 3);
        char want[64];
        snprintf(want, sizeof want, "config.json: key \"%s\" is ", ints[i]);
        says(c, want);
    }
    static const char *const numbers[] = {"list", "word", "nan", "inf"};
    for (size_t i = 0; i < 4; i++) {
        struct config *c = parse(text);
        assert_true(config_number(c, numbers[i], 3) == 3);
        says(c, "finite number");
    }
    static const char *const dims[] = {"zero", "wide", "word"};
    for (size_t i = 0; i < 3; i++) {
        struct config *c = parse(text);
        assert_in_range(config_dim(c, dims[i], 0), 1, 1 << 24); // usable, though refused
        says(c, dims[i]);
    }
    struct config *c = parse(text);
    config_bool(c, "two", false);
    says(c, "\"two\" is 2, but must be true or false");
    c = parse(text);
    config_text(c, "two", "");
    says(c, "\"two\" is 2, but must be a string");
    c = parse(text);
    assert_null(config_child(c, "word"));
    says(c, "\"word\" is \"abc\", but must be an object");
    c = parse(text);
    config_dim(c, "hidden_size", 0);
    config_int(c, "word", 0); // the first error is the one that stays
    says(c, "key \"hidden_size\" is missing");
    const char *const whole[] = {"[]", "3",
                                 "{\"a\": ", "version https://git-lfs.github.com/spec/v1"};
    for (size_t i = 0; i < 4; i++) {
        struct error e = {0};
        assert_null(config_read(sv(whole[i]), "config.json", &e));
        assert_true(e.set);
    }
}

static void test_children_and_lists(void **state) {
    (void)state;
    struct config *c =
        parse("{\"text_config\": {\"hidden_size\": 8, \"deep\": {\"x\": []}},"
              " \"eos\": [1, \"2\"], \"one\": 5, \"types\": [\"a\", 3], \"no\": null}");
    struct config *t = config_child(c, "text_config");
    assert_ptr_equal(t, config_child(c, "text_config"));
    assert_int_equal(config_dim(t, "hidden_size", 0), 8);
    assert_int_equal(config_list(c, "eos"), 2);
    assert_int_equal(config_list_int(c, "eos", 1), 2);
    assert_int_equal(config_list(c, "one"), 1);
    assert_int_equal(config_list_int(c, "one", 0), 5);
    assert_int_equal(config_list(c, "no"), 0);
    assert_true(sv_is(config_list_text(c, "types", 0), "a"));
    assert_null(config_child(c, "no"));
    struct error e = {0};
    assert_true(config_ok(c, &e));
    config_int(config_child(t, "deep"), "x", 0);
    says(c, "key \"text_config.deep.x\" is []");
    c = parse("{\"types\": [\"a\", 3]}");
    config_list_text(c, "types", 1);
    says(c, "key \"types[1]\" is 3, but must be a string");
    c = parse("{\"types\": [\"a\", 3]}");
    config_list_int(c, "types", 9); // past the end: an error, no crash
    says(c, "types[9]");
}

static void test_bounds(void **state) {
    (void)state;
    struct config *c = parse("{\"a\": [0.5, Infinity], \"b\": [{\"__float__\": \"-Infinity\"}],"
                             " \"c\": \"auto\", \"d\": 4}");
    struct error e = {0};
    assert_true(config_list_bound(c, "a", 0) == 0.5 && isinf(config_list_bound(c, "a", 1)));
    assert_true(config_list_bound(c, "b", 0) == -INFINITY);
    assert_true(config_is_text(c, "c") && !config_is_text(c, "d") && !config_is_text(c, "none"));
    assert_true(config_ok(c, &e));
    config_list_bound(c, "c", 0);
    says(c, "key \"c[0]\" is \"auto\", but must be a number");
    c = parse("{\"a\": [NaN]}");
    config_list_bound(c, "a", 0);
    says(c, "key \"a[0]\" is NaN");
}

static void unread(const char *text, const char *says_what) {
    struct config *c = parse(text);
    struct error e = {0};
    config_child(c, "text_config");
    bool ok = config_check_unread(c, &e);
    if (ok != !says_what) fail_msg("%s: %s", text, e.text);
    if (!ok && says_what && !strstr(e.text, says_what)) fail_msg("no %s in: %s", says_what, e.text);
    config_close(c);
}

static void test_unread_keys(void **state) {
    (void)state;
    unread("{\"model_type\": \"llama\", \"clip_qkv\": 8}",
           "config.json: key \"clip_qkv\" is 8, which this engine does not support for model_type "
           "\"llama\"");
    unread(
        "{\"clip_qkv\": null, \"logit_scale\": 1.0, \"num_local_experts\": 0, \"alibi\": false,"
        " \"layer_types\": [\"full_attention\", \"full_attention\"], \"rope_scaling\": null,"
        " \"no_rope_layers\": [1, 1], \"transformers_version\": \"4\", \"sliding_window\": null}",
        NULL);
    unread("{\"layer_types\": [\"full_attention\", \"sliding_attention\"]}", "layer_types");
    unread("{\"no_rope_layers\": [1, 0]}", "no_rope_layers");
    unread("{\"layers_block_type\": [\"attention\", \"mamba\"]}", "layers_block_type");
    unread("{\"conv_L_cache\": 3}", "conv_L_cache");
    unread("{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}", "rope_scaling");
    unread("{\"text_config\": {\"attn_logit_softcapping\": 50.0}}",
           "\"text_config.attn_logit_softcapping\" is 50.0");
    unread("{\"quantization_config\": {\"quant_method\": \"hqq\"}}", "hqq");
    unread("{\"quantization\": {\"mode\": \"mxfp5\", \"bits\": 4}}", "mxfp5");
    unread("{\"quantization\": {\"mode\": \"nvfp4\", \"bits\": 4}}", NULL);
    unread("{\"quantization\": {\"mode\": \"mxfp4\", \"bits\": 4}}", NULL);
    unread("{\"quantization_config\": {\"quant_method\": \"mxfp4\"}}", NULL);
    unread("{\"quantization_config\": {\"quant_method\": \"fp8\"}}", NULL); // a scale a tensor
    unread("{\"quantization_config\": {\"quant_method\": \"fp8\", \"fmt\": \"e5m2\"}}", "e5m2");
    unread("{\"quantization_config\": {\"quant_method\": \"fp8\", \"fmt\": \"e4m3\","
           " \"weight_block_size\": [128, 128]}}",
           NULL);
    unread("{\"quantization\": {\"group_size\": 64, \"bits\": 4},"
           " \"quantization_config\": {\"group_size\": 64, \"bits\": 4}}",
           NULL);
    struct config *c = parse("{\"clip_qkv\": 8}");
    config_number(c, "clip_qkv", 0); // a family that reads it supports it
    struct error e = {0};
    assert_true(config_check_unread(c, &e));
    config_close(c);
}

static void check_frequencies(size_t row, struct json_object *want, const float *got, int64_t n) {
    assert_int_equal(json_object_array_length(want), n);
    for (int64_t k = 0; k < n; k++) {
        double w = json_object_get_double(json_object_array_get_idx(want, (size_t)k));
        if (!(fabs(got[k] - w) <= 3e-7 * w))
            fail_msg("case %zu, pair %d: %.9g, not %.9g", row, (int)k, got[k], w);
    }
}

// Every case of rope.json: the frequencies that transformers computes from this config.
static void test_rope_values(void **state) {
    (void)state;
    struct error e = {0};
    struct json_object *all = json_read_file(FIXTURES "/rope.json", 1 << 20, &e);
    assert_non_null(all);
    for (size_t i = 0; i < json_object_array_length(all); i++) {
        struct json_object *row = json_object_array_get_idx(all, i);
        struct config *c = parse(json_object_to_json_string(json_at(row, "config")));
        struct rope_config r;
        if (!rope_config_read(c, NULL, 10000, &r)) config_ok(c, &e), fail_msg("%s", e.text);
        int64_t dim = (int64_t)((double)config_dim(c, "head_dim", 0) * r.partial);
        float inv_freq[128], scale;
        rope_frequencies(&r, dim, inv_freq, &scale);
        assert_true(fabs(scale - json_number_at(row, "scale", 0)) < 1e-6);
        check_frequencies(i, json_at(row, "inv_freq"), inv_freq, dim / 2);
        assert_int_equal(r.kind == ROPE_LONG, json_at(row, "long_inv_freq") != NULL);
        if (r.kind == ROPE_LONG) {
            rope_long_frequencies(&r, dim, inv_freq);
            check_frequencies(i, json_at(row, "long_inv_freq"), inv_freq, dim / 2);
        }
        assert_true(config_check_unread(c, &e));
        config_close(c);
    }
    json_object_put(all);
}

static void test_rope_styles(void **state) {
    (void)state;
    struct config *c = parse("{\"rope_theta\": 7, \"rope_parameters\": {\"full_attention\": {"
                             "\"rope_theta\": 1e6, \"rope_type\": \"linear\", \"factor\": 8},"
                             " \"sliding_attention\": {\"rope_type\": \"default\"}}}");
    struct rope_config r;
    assert_true(rope_config_read(c, "full_attention", 10000, &r));
    assert_true(r.kind == ROPE_LINEAR && r.theta == 1e6 && r.factor == 8);
    assert_true(rope_config_read(c, "sliding_attention", 10000, &r));
    assert_true(r.kind == ROPE_DEFAULT && r.theta == 7);
    assert_false(rope_config_read(c, NULL, 10000, &r));
    config_close(c);
    c = parse("{\"partial_rotary_factor\": 0.5}");
    assert_true(rope_config_read(c, "full_attention", 5000, &r));
    assert_true(r.kind == ROPE_DEFAULT && r.theta == 5000 && r.partial == 0.5);
    config_close(c);
    static const char *const bad[][2] = {
        {"{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}}", "dynamic"},
        {"{\"max_position_embeddings\": 8, \"rope_scaling\": {\"type\": \"su\"}}", "short_factor"},
        {"{\"max_position_embeddings\": 8, \"rope_scaling\": {\"rope_type\": \"longrope\","
         " \"short_factor\": [1, 2], \"long_factor\": [1]}}",
         "as many numbers as short_factor (2)"},
        {"{\"max_position_embeddings\": 8, \"rope_scaling\": {\"rope_type\": \"longrope\","
         " \"short_factor\": [1, 0], \"long_factor\": [1, 2]}}",
         "must be in 1e-9 .. 1e18"},
        {"{\"rotary_pct\": 1.5}", "rotary_pct"},
        {"{\"rope_scaling\": {\"type\": \"linear\"}}", "rope_scaling.factor"},
        {"{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}}", "must be in 1e-9 .. 1e18"},
        {"{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4}}", "max_position_embeddings"},
        {"{\"rope_scaling\": {\"type\": 4}}", "must be a string"},
        {"{\"rope_scaling\": \"linear\"}", "must be an object"},
        {"{\"rope_theta\": -1}", "rope_theta"},
        {"{\"rope_theta\": NaN}", "finite"},
        {"{\"partial_rotary_factor\": 1.5}", "partial_rotary_factor"},
        {"{\"max_position_embeddings\": 64, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\":"
         " 2, \"low_freq_factor\": 4, \"high_freq_factor\": 3}}",
         "below low_freq_factor"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        c = parse(bad[i][0]);
        if (rope_config_read(c, NULL, 10000, &r)) fail_msg("accepts %s", bad[i][0]);
        says(c, bad[i][1]);
    }
}

static char dir[] = "/tmp/mlxcel-config-XXXXXX";

static bool generation(const char *config, const char *own, struct generation_config *g,
                       struct error *e) {
    char *path = path_join(dir, "generation_config.json");
    if (own) assert_true(file_write(path, sv(own), e));
    struct config *c = parse(config);
    bool ok = generation_config_read(dir, c, g, e);
    config_close(c);
    unlink(path);
    free(path);
    return ok;
}

static void test_generation_config(void **state) {
    (void)state;
    struct generation_config g;
    struct error e = {0};
    assert_true(generation("{\"eos_token_id\": 2}", NULL, &g, &e));
    assert_true(g.eos_count == 1 && g.eos[0] == 2 && !g.has_temperature);
    assert_true(generation("{\"eos_token_id\": 2}",
                           "{\"eos_token_id\": [5, 6, 5], \"temperature\": 0.6, \"top_p\": 0.9,"
                           " \"top_k\": 20, \"min_p\": null, \"repetition_penalty\": 1.05,"
                           " \"do_sample\": true}",
                           &g, &e));
    assert_true(g.eos_count == 2 && g.eos[0] == 5 && g.eos[1] == 6);
    assert_true(g.has_temperature && g.temperature == 0.6 && g.has_top_p && g.top_p == 0.9);
    assert_true(g.has_top_k && g.top_k == 20 && !g.has_min_p && g.repetition_penalty == 1.05);
    assert_true(g.has_do_sample && g.do_sample);
    assert_true(
        generation("{\"text_config\": {\"eos_token_id\": [3, 4]}}", "{\"top_k\": -1}", &g, &e));
    assert_true(g.eos_count == 2 && g.eos[1] == 4 && g.top_k == 0);
    static const char *const bad[] = {
        "{\"eos_token_id\": \"x\"}", "{\"eos_token_id\": -1}",   "{\"eos_token_id\": [[1]]}",
        "{\"temperature\": -1}",     "{\"top_p\": 2}",           "{\"temperature\": NaN}",
        "{\"top_k\": 0.5}",          "{\"eos_token_id\": 1e10}", "[]",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error why = {0};
        if (generation("{}", bad[i], &g, &why)) fail_msg("accepts %s", bad[i]);
        assert_non_null(strstr(why.text, "generation_config.json"));
    }
    struct error text = {0};
    assert_false(generation("{\"text_config\": 5}", NULL, &g, &text));
}

// A link to a blob that was never downloaded is not a file that was left out.
static void test_optional_link(void **state) {
    (void)state;
    struct generation_config g;
    struct error e = {0};
    char *path = path_join(dir, "generation_config.json");
    assert_int_equal(symlink("../../blobs/none", path), 0);
    struct config *c = parse("{\"eos_token_id\": 2}");
    assert_false(generation_config_read(dir, c, &g, &e));
    assert_non_null(strstr(e.text, "generation_config.json: is a link to ../../blobs/none"));
    config_close(c);
    unlink(path);
    free(path);
}

static void test_open(void **state) {
    (void)state;
    struct error none = {0}, absent = {0}, gguf = {0}, beside = {0}, file = {0}, e = {0};
    assert_null(config_open(dir, &none));
    assert_non_null(strstr(none.text, "no config.json"));
    assert_null(config_open("/nowhere/at/all", &absent));
    assert_non_null(strstr(absent.text, "/nowhere/at/all"));
    assert_null(config_open("models/x.gguf", &file));
    assert_non_null(strstr(file.text, "no such file; of a GGUF file `mlxcel import`"));
    char *config = path_join(dir, "config.json"), *model = path_join(dir, "m.gguf");
    assert_true(file_write(model, sv("GGUF"), &e));
    assert_null(config_open(model, &gguf));
    assert_non_null(strstr(gguf.text, "mlxcel import FILE.gguf DIR"));
    assert_null(config_open(dir, &beside));
    assert_non_null(strstr(beside.text, "has no config.json, only a GGUF file"));
    assert_true(file_write(config, sv("{\"a\": 1}"), &e));
    const char *const paths[] = {dir, config};
    gguf = (struct error){0};
    assert_null(config_open(model, &gguf)); // it may be another model than the one beside it
    assert_non_null(strstr(gguf.text, "is a GGUF file"));
    for (int i = 0; i < 2; i++) {
        struct config *c = config_open(paths[i], &e);
        assert_non_null(c);
        assert_string_equal(config_what(c), config);
        config_close(c);
    }
    unlink(config);
    unlink(model);
    free(config);
    free(model);
}

static int setup(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    return rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tolerated),     cmocka_unit_test(test_wrong_types),
        cmocka_unit_test(test_open),          cmocka_unit_test(test_children_and_lists),
        cmocka_unit_test(test_bounds),        cmocka_unit_test(test_unread_keys),
        cmocka_unit_test(test_rope_values),   cmocka_unit_test(test_rope_styles),
        cmocka_unit_test(test_optional_link), cmocka_unit_test(test_generation_config),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
