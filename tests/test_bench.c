// Dummy weights have the shape and layout of the real ones, a pass costs what can be counted by
// hand, and mlxcel bench tells it. Nothing here asserts a speed.
#include "fixture.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/weights.h"
#include "engine/bench.h"
#include "models/family.h"

static struct weights *open_dummy(const char *config, struct config **c) {
    struct error e = {0};
    *c = config_read(sv(config), "config.json", &e);
    struct weights *w = weights_open_dummy(*c, &e);
    if (!w) fail_msg("%s", e.text);
    return w;
}

static struct weight matrix(struct weights *w, const char *name, int64_t out, int64_t in) {
    struct error e = {0};
    struct weight m = {0};
    if (!weights_matrix(w, name, out, in, false, &m, &e)) fail_msg("%s", e.text);
    return m;
}

static void check_affine(const struct weight *m, int bits, int group, enum dtype scales) {
    assert_int_equal(m->layout, WEIGHT_AFFINE);
    assert_int_equal(m->bits, bits);
    assert_int_equal(m->group, group);
    assert_int_equal(m->scales.type, scales);
}

static void test_layouts(void **state) {
    (void)state;
    struct config *c;
    struct weights *w = open_dummy("{\"torch_dtype\": \"float16\", \"quantization\": {\"bits\": 4,"
                                   "\"group_size\": 64, \"a\": {\"bits\": 8}, \"b\": false,"
                                   "\"c\": {\"group_size\": 32, \"bits\": 3}, \"d\": true}}",
                                   &c);
    struct weight a = matrix(w, "a", 8, 128), d = matrix(w, "d", 8, 128);
    struct weight dense = matrix(w, "b", 8, 128), odd = matrix(w, "e", 8, 96);
    struct weight narrow = matrix(w, "c", 8, 96);
    check_affine(&a, 8, 64, DT_F16);
    check_affine(&d, 4, 64, DT_F16);
    check_affine(&narrow, 3, 32, DT_F16);
    assert_int_equal(dense.layout, WEIGHT_DENSE);
    assert_int_equal(dense.data.type, DT_F16);
    assert_int_equal(odd.layout, WEIGHT_DENSE); // its rows are no multiple of the group
    assert_int_equal(weights_parameters(w), 8 * (3 * 128 + 2 * 96));
    weights_close(w);
    config_close(c);

    static const struct {
        const char *config;
        enum dtype type;
    } dtypes[] = {{"{}", DT_BF16},
                  {"{\"dtype\": \"float32\", \"torch_dtype\": \"float16\"}", DT_F32},
                  {"{\"torch_dtype\": \"bfloat16\"}", DT_BF16}};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        w = open_dummy(dtypes[i].config, &c);
        assert_int_equal(matrix(w, "a", 3, 5).data.type, dtypes[i].type);
        weights_close(w);
        config_close(c);
    }
}

static void test_values(void **state) {
    (void)state;
    struct config *c;
    struct error e = {0};
    struct weights *w = open_dummy("{\"quantization_config\": {\"bits\": 4, \"group_size\": 32,"
                                   "\"dense\": false}, \"dtype\": \"float32\"}",
                                   &c);
    enum { ROWS = 3000, WIDTH = 512 }; // longer than the pattern
    struct weight dense = matrix(w, "dense", ROWS, WIDTH), again = matrix(w, "dense", ROWS, WIDTH);
    struct weight codes = matrix(w, "codes", ROWS, WIDTH), other = matrix(w, "b", ROWS, WIDTH);
    struct tensor norm;
    assert_true(weights_vector(w, "norm", 7, &norm, &e));
    assert_ptr_equal(dense.data.data, again.data.data);
    assert_true(weights_populate(w, NULL, NULL, &e));
    const float *x = dense.data.data, *ones = norm.data;
    double sum = 0, squares = 0;
    for (int i = 0; i < ROWS * WIDTH; i++) sum += x[i], squares += (double)x[i] * x[i];
    double count = (double)ROWS * WIDTH, spread = sqrt(squares / count);
    assert_true(fabs(sum / count) < 1e-3 && spread > 0.015 && spread < 0.025);
    for (int i = 0; i < 7; i++) assert_true(ones[i] == 1);
    // Zero lies in the middle of the codes, and the spread is the same.
    float scale = ((float *)codes.scales.data)[ROWS * WIDTH / 32 - 1];
    float bias = ((float *)codes.biases.data)[0];
    assert_true(fabsf(bias + 7.5f * scale) < 1e-6f && fabsf(scale * 4.61f - 0.02f) < 1e-3f);
    // No two rows, and no two matrices, hold the same.
    const uint32_t *p = codes.data.data, *q = other.data.data;
    assert_memory_not_equal(p, p + WIDTH / 8, WIDTH / 2);
    assert_memory_not_equal(p, q, WIDTH / 2);
    weights_close(w);
    config_close(c);
}

static void expect_bad(const char *config, const char *say) {
    struct error e = {0}, why = {0};
    struct config *c = config_read(sv(config), "config.json", &e);
    struct weights *w = weights_open_dummy(c, &why);
    struct weight m;
    if (w) assert_false(weights_matrix(w, "a", 8, 128, false, &m, &why));
    if (!strstr(why.text, say)) fail_msg("\"%s\" does not say \"%s\"", why.text, say);
    weights_close(w);
    config_close(c);
}

static void test_bad_configs(void **state) {
    (void)state;
    expect_bad("{\"dtype\": \"float8\"}", "key \"dtype\" is \"float8\"");
    expect_bad("{\"quantization\": 4}", "must be an object");
    expect_bad("{\"quantization\": {\"bits\": 7}}", "key \"quantization.bits\" is 7");
    expect_bad("{\"quantization\": {\"bits\": 0}}", "key \"quantization.bits\" is 0");
    expect_bad("{\"quantization\": {\"group_size\": 0}}", "key \"quantization.group_size\" is 0");
    expect_bad("{\"quantization\": {\"a\": {\"bits\": \"x\"}}}",
               "\"quantization.a.bits\" is \"x\"");
    expect_bad("{\"quantization\": {\"a\": \"x\"}}", "key \"quantization.a\" is \"x\"");
}

// --- in the engine -------------------------------------------------------------------------------

// Every reference case's dummy has the parameters and, but for vectors, the bytes of its weights.
static void check_like_real(const char *dir) {
    struct engine *real = fixture_engine(dir, (struct engine_options){.dry = true});
    struct engine *dummy =
        fixture_engine(dir, (struct engine_options){.dry = true, .load_dummy = true});
    const struct engine_info *r = engine_info(real), *d = engine_info(dummy);
    if (r->parameters != d->parameters)
        fail_msg("%s: %lld parameters, as a dummy %lld", dir, (long long)r->parameters,
                 (long long)d->parameters);
    double ratio = (double)d->weight_bytes / (double)r->weight_bytes;
    if (ratio < 0.98 || ratio > 1.05) fail_msg("%s: a dummy has %.3f of the bytes", dir, ratio);
    engine_close(real);
    engine_close(dummy);
}

static void test_like_real(void **state) {
    (void)state;
    struct error e = {0};
    size_t n;
    const struct family *const *all = families(&n);
    for (size_t f = 0; f < n; f++) {
        struct names names = {0};
        char *root = path_join(FIXTURES, all[f]->id);
        assert_true(dir_list(root, &names, &e));
        for (size_t i = 0; i < names.n; i++) {
            char *dir = path_join(root, names.name[i]);
            check_like_real(dir);
            free(dir);
        }
        names_free(&names);
        free(root);
    }
}

static const char *const tiny = FIXTURES "/llama/base";

// The same each time, and the logits are numbers.
static void test_runs(void **state) {
    (void)state;
    enum { NEW = 12, VOCAB = 128 };
    int32_t ids[3] = {1, 2, 3}, out[2][NEW];
    float logits[3 * VOCAB] = {0};
    for (int i = 0; i < 2; i++) {
        struct engine *e = fixture_engine(tiny, (struct engine_options){.load_dummy = true});
        struct request r = {.prompt = ids,
                            .n = 3,
                            .max_new = NEW,
                            .sampling = sampling_greedy(),
                            .prompt_logits = logits};
        assert_int_equal(fixture_run(e, r, out[i]), NEW);
        for (int k = 0; k < 3 * VOCAB; k++) assert_true(isfinite(logits[k]));
        engine_close(e);
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);
}

// By hand, for width 64, MLP 96, 2 layers, 4 heads and 2 KV heads of 16, vocabulary 128, all bf16,
// with an f16 cache.
static void test_cost(void **state) {
    (void)state;
    enum { LAYERS = 2 * (64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 96 * 64), HEAD = 128 * 64 };
    enum { KV_BYTES = 2 * 2 * (16 + 16) * 2, ATTEND_OPS = 2 * 4 * (16 + 16) * 2 };
    struct engine *e = fixture_engine(
        tiny, (struct engine_options){.load_dummy = true, .sequences = 2, .batch = 8});
    struct pass generate = {.sequences = 2, .depth = 10, .tokens = 3, .generate = true};
    struct pass_cost c = engine_cost(e, &generate);
    int seen = 11 + 12 + 13;
    assert_true(c.bytes == 3 * 2 * (LAYERS + HEAD) + 2 * seen * KV_BYTES);
    assert_true(c.ops == 2 * (3 * 2 * (LAYERS + HEAD) + seen * ATTEND_OPS));
    // Ten tokens of each in steps of 4, 4 and 2; only the last gives logits.
    struct pass prompt = {.sequences = 2, .tokens = 10};
    c = engine_cost(e, &prompt);
    assert_true(c.bytes == 2 * (3 * LAYERS + HEAD) + 2 * (4 + 8 + 10) * KV_BYTES);
    assert_true(c.ops == 2 * (2 * (10 * LAYERS + HEAD) + 55 * ATTEND_OPS));
    engine_close(e);

    // A window of 16 tokens: the last of 20 rows sees 16, all of them together see 35.
    e = fixture_engine(FIXTURES "/mistral/window", (struct engine_options){.load_dummy = true});
    struct pass before = {.sequences = 1, .depth = 30, .tokens = 20};
    struct pass none = {.sequences = 1, .tokens = 20};
    double extra = engine_cost(e, &before).bytes - engine_cost(e, &none).bytes;
    assert_true(extra == (35 - 20) * 2 * 2 * (32 + 32) * 2);
    before.depth = 60; // beyond the window nothing more is moved
    assert_true(engine_cost(e, &before).bytes - engine_cost(e, &none).bytes == extra);
    engine_close(e);
}

static void test_passes(void **state) {
    (void)state;
    struct error err = {0};
    struct engine *e = fixture_engine(
        tiny,
        (struct engine_options){.load_dummy = true, .sequences = 3, .batch = 7, .context = 60});
    static const struct pass passes[] = {
        {.sequences = 1, .tokens = 59},
        {.sequences = 3, .depth = 11, .tokens = 5},
        {.sequences = 2, .tokens = 6, .generate = true},
        {.sequences = 3, .depth = 30, .tokens = 4, .generate = true},
    };
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        struct engine_stats before = engine_stats(e);
        double seconds = -1;
        if (!engine_time(e, &passes[i], &seconds, &err)) fail_msg("%s", err.text);
        assert_true(seconds > 0);
        assert_false(engine_busy(e));
        struct engine_stats after = engine_stats(e);
        int64_t rows =
            after.prompt_tokens + after.decode_tokens - before.prompt_tokens - before.decode_tokens;
        assert_int_equal(rows, passes[i].sequences * (passes[i].depth + passes[i].tokens));
    }
    static const struct pass bad[] = {{.sequences = 4, .tokens = 1},
                                      {.sequences = 1, .depth = 30, .tokens = 30},
                                      {.sequences = 1, .tokens = INT64_MAX},
                                      {.sequences = 1, .tokens = 0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error why = {0};
        double seconds;
        assert_false(engine_time(e, &bad[i], &seconds, &why));
        assert_non_null(strstr(why.text, "pass"));
    }
    engine_close(e);
}

// --- the program ---------------------------------------------------------------------------------

// Runs `mlxcel bench -m DIR arguments` and takes what it prints on both its outputs; returns its
// exit code. The arguments have spaces between and none in them.
static int bench(const char *dir, const char *arguments, struct str *out) {
    char *copy = mem_text(arguments), *rest = copy;
    const char *argv[32] = {MLXCEL, "bench", "-m", dir};
    for (int n = 4; (argv[n] = strtok_r(rest, " ", &rest)) != NULL; n++) assert_true(n < 30);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        execv(MLXCEL, (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    assert_true(pid > 0);
    close(ends[1]);
    char chunk[4096];
    for (ssize_t n; (n = read(ends[0], chunk, sizeof chunk)) > 0;)
        str_add(out, sv_n(chunk, (size_t)n));
    close(ends[0]);
    free(copy);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect_positive(struct json_object *o, const char *const *keys) {
    for (; *keys; keys++)
        if (!(json_number_at(o, *keys, -1) > 0)) fail_msg("%s is missing, or not > 0", *keys);
}

static void check_result(struct json_object *o, int64_t tokens, int64_t runs) {
    expect_positive(o,
                    (const char *const[]){"tokens_per_second", "bytes_per_token", "ops_per_token",
                                          "of_bandwidth", "of_peak", "of_limit", NULL});
    assert_int_equal(json_int_at(o, "tokens", -1), tokens);
    assert_int_equal(json_int_at(o, "depth", -1), 5);
    assert_int_equal(json_int_at(o, "sequences", -1), 2);
    struct json_object *list = json_at(o, "runs");
    assert_int_equal(json_object_array_length(list), runs);
    double least = json_object_get_double(json_object_array_get_idx(list, 0));
    double most = json_object_get_double(json_object_array_get_idx(list, (size_t)runs - 1));
    double median = json_number_at(o, "tokens_per_second", -1);
    assert_true(least <= median && median <= most);
}

static void check_json(const char *dir) {
    struct error e = {0};
    struct str out = {0};
    const char *line = "--load-format dummy -p 6 -n 4 -d 5 -b 2 -r 3 -t 2 --precision f32 --json";
    int code = bench(dir, line, &out);
    if (code != 0) fail_msg("exit code %d: %s", code, str_c(&out));
    struct json_object *o = json_read(str_sv(&out), "output", &e);
    assert_non_null(o);
    assert_true(sv_is(json_text_at(o, "model"), dir));
    assert_true(sv_is(json_text_at(o, "family"), "llama"));
    assert_true(sv_is(json_text_at(o, "load_format"), "dummy"));
    assert_true(sv_is(json_text_at(o, "precision"), "f32"));
    assert_true(json_text_at(o, "device").n > 0);
    expect_positive(o,
                    (const char *const[]){"parameters", "bits_per_weight", "weights_bytes", NULL});
    struct json_object *machine = json_at(o, "machine");
    expect_positive(machine, (const char *const[]){"read_bytes_per_second", "copy_bytes_per_second",
                                                   "f32_ops_per_second", NULL});
    assert_true(json_number_at(machine, "int8_ops_per_second", -1) >= 0);
    assert_true(sv_is(json_text_at(machine, "peak"), "f32"));
    check_result(json_at(o, "prompt"), 6, 3);
    check_result(json_at(o, "generation"), 4, 3);
    json_object_put(o);
    str_free(&out);
}

static void expect_output(const char *dir, const char *arguments, int code, const char *say) {
    struct str out = {0};
    int got = bench(dir, arguments, &out);
    if (got != code || sv_find(str_sv(&out), sv(say), 0) < 0)
        fail_msg("%s: exit code %d, \"%s\" is not in: %s", arguments, got, say, str_c(&out));
    str_free(&out);
}

// A folder that holds nothing but a config.json.
static char *lone_config(struct sv text) {
    struct error e = {0};
    char name[] = "/tmp/mlxcel-bench-XXXXXX";
    assert_non_null(mkdtemp(name));
    char *path = path_join(name, "config.json");
    if (!file_write(path, text, &e)) fail_msg("%s", e.text);
    free(path);
    return mem_text(name);
}

static void remove_lone(char *dir) {
    char *path = path_join(dir, "config.json");
    unlink(path);
    rmdir(dir);
    free(path);
    free(dir);
}

static void test_program(void **state) {
    (void)state;
    struct error e = {0};
    struct str text = {0};
    assert_true(file_read(FIXTURES "/llama/base-q4/config.json", 1 << 16, &text, &e));
    char *dir = lone_config(str_sv(&text));
    check_json(dir);
    const char *quick = "--load-format dummy -p 3 -n 0 -r 1";
    expect_output(dir, quick, 0, "of the limit");
    expect_output(dir, "-p 3 -n 3", 1, "has no weights");
    expect_output(dir, "-p 0 -n 0", 2, "nothing to do");
    remove_lone(dir);
    str_free(&text);

    dir = lone_config(sv("{\"model_type\": \"llama\", \"hidden_size\": 1048576, \"vocab_size\": "
                         "1048576, \"num_hidden_layers\": 4, \"num_attention_heads\": 8192,"
                         "\"intermediate_size\": 1048576}"));
    expect_output(dir, quick, 1, "does not fit: weights ");
    remove_lone(dir);
    expect_output(FIXTURES "/llama/base", "-p 3 -n 2 -r 1", 0, "generation");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),     cmocka_unit_test(test_values),
        cmocka_unit_test(test_bad_configs), cmocka_unit_test(test_like_real),
        cmocka_unit_test(test_runs),        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_passes),      cmocka_unit_test(test_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
