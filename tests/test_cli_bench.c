// The built program's bench: its numbers are there and make sense. Nothing here asserts a speed.
#include "program.h"

#include "base/json.h"
#include "base/mem.h"

static struct json_object *json_of(const struct program *p) {
    struct error e = {0};
    struct json_object *o = json_read(str_sv(&p->out_text), "output", &e);
    assert_non_null(o);
    return o;
}

static void expect_positive(struct json_object *o, const char *const *keys) {
    for (; *keys; keys++)
        if (!(json_number_at(o, *keys, -1) > 0)) fail_msg("%s is missing, or not > 0", *keys);
}

static void check_result(struct json_object *o, const char *kind, int64_t sequences, int64_t tokens,
                         int64_t runs) {
    assert_true(sv_is(json_text_at(o, "kind"), kind));
    expect_positive(o,
                    (const char *const[]){"tokens_per_second", "bytes_per_token", "ops_per_token",
                                          "of_bandwidth", "of_peak", "of_limit", NULL});
    assert_int_equal(json_int_at(o, "tokens", -1), tokens);
    assert_int_equal(json_int_at(o, "depth", -1), 5);
    assert_int_equal(json_int_at(o, "sequences", -1), sequences);
    struct json_object *list = json_at(o, "runs");
    assert_int_equal(json_object_array_length(list), runs);
    double least = json_object_get_double(json_object_array_get_idx(list, 0));
    double most = json_object_get_double(json_object_array_get_idx(list, (size_t)runs - 1));
    double median = json_number_at(o, "tokens_per_second", -1);
    assert_true(least <= median && median <= most);
}

// A folder with all of a checkpoint but the weights.
static char *without_weights(void) {
    char name[] = "/tmp/mlxcel-bench-XXXXXX";
    assert_non_null(mkdtemp(name));
    model_copy(name, "model.safetensors");
    return mem_text(name);
}

static void test_json(void **state) {
    (void)state;
    struct program p;
    char *dir = without_weights();
    int code = program_run(&p, "",
                           ARGS("bench", "-m", dir, "--load-format", "dummy", "-p", "6", "-n",
                                "4,3", "-d", "5", "-b", "2,1", "-r", "3", "-t", "2", "--precision",
                                "f32", "--kv-cache-mode", "int8", "-ctv", "fp16", "--json"));
    if (code != 0) fail_msg("exit code %d: %s", code, str_c(&p.err_text));
    struct json_object *o = json_of(&p);
    assert_true(sv_is(json_text_at(o, "model"), dir));
    assert_true(json_text_at(o, "family").n > 0);
    assert_true(sv_is(json_text_at(o, "load_format"), "dummy"));
    assert_true(sv_is(json_text_at(o, "precision"), "f32"));
    assert_true(sv_is(json_text_at(o, "cache_type_k"), "q8_0"));
    assert_true(sv_is(json_text_at(o, "cache_type_v"), "f16"));
    assert_true(json_text_at(o, "device").n > 0);
    expect_positive(o,
                    (const char *const[]){"parameters", "bits_per_weight", "weights_bytes", NULL});
    struct json_object *machine = json_at(o, "machine");
    expect_positive(machine, (const char *const[]){"read_bytes_per_second", "copy_bytes_per_second",
                                                   "f32_ops_per_second", NULL});
    assert_true(json_number_at(machine, "int8_ops_per_second", -1) >= 0);
    assert_true(sv_is(json_text_at(machine, "peak"), "f32"));
    assert_true(json_number_at(o, "load_seconds", 0) > 0);
    struct json_object *sets = json_at(machine, "instruction_sets"),
                       *results = json_at(o, "results");
    assert_true(json_object_object_length(sets) >= 1);
    json_object_object_foreach(sets, name, peak) {
        assert_true(*name);
        expect_positive(peak, (const char *const[]){"f32_ops_per_second", NULL});
    }
    assert_int_equal(json_object_array_length(results), 6);
    for (size_t i = 0; i < 6; i++) {
        static const int64_t tokens[] = {6, 4, 3};
        check_result(json_object_array_get_idx(results, i), i % 3 ? "generation" : "prompt",
                     i < 3 ? 2 : 1, tokens[i % 3], 3);
    }
    json_object_put(o);
    program_free(&p);
    folder_remove(dir);
    free(dir);
}

static void expect(int code, const char *say, const char *const *args) {
    struct program p;
    int got = program_run(&p, "", args);
    const struct str *text = code == 0 ? &p.out_text : &p.err_text;
    if (got != code || sv_find(str_sv(text), sv(say), 0) < 0)
        fail_msg("exit code %d, and \"%s\" is not in: %s", got, say, str_c(text));
    program_free(&p);
}

static void test_text(void **state) {
    (void)state;
    struct error e = {0};
    char *dir = without_weights();
    expect(0, "% of the limit", ARGS("bench", MODEL, "-p", "3", "-n", "0", "-r", "1"));
    expect(0, "2 tokens after 4", ARGS("bench", MODEL, "-p", "0", "-n", "2", "-d", "4", "-r", "1"));
    expect(1, "has no weights", ARGS("bench", dir, "-p", "3", "-n", "3"));
    expect(2, "nothing to do", ARGS("bench", dir, "-p", "0", "-n", "0"));
    expect(2, "--n-gen 3,x: is not", ARGS("bench", dir, "-p", "3", "-n", "3,x"));
    expect(2, "--batch 0: is not", ARGS("bench", dir, "-b", "0"));
    expect(2, "--n-prompt : is not", ARGS("bench", dir, "-p", ""));
    expect(2, "--n-prompt 1,,2: is not", ARGS("bench", dir, "-p", "1,,2"));
    expect(1, "more than the 65536 that the model was made for",
           ARGS("bench", MODEL, "-p", "65000", "-d", "1000"));
    // Sequences that memory can't hold together would wait for each other.
    expect(1, "does not fit: weights ",
           ARGS("bench", MODEL, "--load-format", "dummy", "-b", "4096", "-d", "1000000"));
    // A dummy that memory can't hold is refused before anything is filled.
    char *config = path_join(dir, "config.json");
    struct sv huge = sv("{\"model_type\": \"llama\", \"hidden_size\": 1048576, \"vocab_size\": "
                        "1048576, \"num_hidden_layers\": 4, \"num_attention_heads\": 8192,"
                        "\"intermediate_size\": 1048576}");
    assert_true(file_write(config, huge, &e));
    expect(1, "does not fit: weights ", ARGS("bench", dir, "--load-format", "dummy", "-p", "3"));
    folder_remove(dir);
    free(config);
    free(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
