// Dummy weights have the shape and layout of the real ones, and a pass costs what can be counted by
// hand. Nothing here asserts a speed.
#include "fixture.h"
#include "folder.h"

#include <math.h>
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

// A dummy of every layout loads as a real checkpoint does, and its weights are numbers of the usual
// spread.
static void test_every_layout(void **state) {
    (void)state;
#define COMPRESSED(format, weights)                                                                \
    "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"format\": \"" format   \
    "\", \"ignore\": [\"re:.*kept$\"], \"config_groups\": {\"group_0\": {\"weights\": {" weights   \
    "}}}}}"
    static const struct {
        const char *config;
        enum weight_layout layout;
        int bits, group;
    } all[] = {
        {"{\"quantization\": {\"mode\": \"mxfp4\", \"kept\": false}}", WEIGHT_MXFP4, 4, 32},
        {"{\"quantization\": {\"mode\": \"mxfp8\", \"kept\": false}}", WEIGHT_F8, 8, 32},
        {"{\"quantization\": {\"mode\": \"nvfp4\", \"kept\": false}}", WEIGHT_NVFP4, 4, 16},
        {"{\"quantization\": {\"bits\": 5, \"kept\": false}}", WEIGHT_AFFINE, 5, 64},
        {"{\"quantization_config\": {\"quant_method\": \"awq\", \"group_size\": 64,"
         " \"modules_to_not_convert\": [\"kept\"]}}",
         WEIGHT_AFFINE, 4, 64},
        {"{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 3, \"group_size\": 32,"
         " \"desc_act\": true, \"modules_to_not_convert\": [\"kept\"]}}",
         WEIGHT_AFFINE, 3, 32},
        {"{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 8, \"group_size\": -1,"
         " \"modules_to_not_convert\": [\"kept\"]}}",
         WEIGHT_AFFINE, 8, 128},
        {"{\"quantization_config\": {\"quant_method\": \"bitnet\","
         " \"modules_to_not_convert\": [\"kept\"]}}",
         WEIGHT_AFFINE, 2, 128},
        {"{\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": [64, 32],"
         " \"modules_to_not_convert\": [\"kept\"]}}",
         WEIGHT_F8, 0, 32},
        {"{\"quantization_config\": {\"quant_method\": \"fbgemm_fp8\","
         " \"modules_to_not_convert\": [\"kept\"]}}",
         WEIGHT_F8, 0, 256},
        {"{\"quantization_config\": {\"quant_method\": \"modelopt\", \"quant_algo\": \"FP8\","
         " \"ignore\": [\"kept\"]}}",
         WEIGHT_F8, 0, 256},
        {"{\"quantization_config\": {\"quant_method\": \"modelopt\", \"quant_algo\": \"NVFP4\","
         " \"ignore\": [\"kept\"]}}",
         WEIGHT_NVFP4, 4, 16},
        {COMPRESSED("nvfp4-pack-quantized", "\"num_bits\": 4, \"type\": \"float\""), WEIGHT_NVFP4,
         4, 16},
        {COMPRESSED("mxfp4-pack-quantized", "\"num_bits\": 4, \"type\": \"float\""), WEIGHT_MXFP4,
         4, 32},
        {COMPRESSED("float-quantized", "\"type\": \"float\", \"strategy\": \"channel\""), WEIGHT_F8,
         0, 256},
        {COMPRESSED("int-quantized", "\"strategy\": \"channel\""), WEIGHT_AFFINE, 8, 128},
        {COMPRESSED("pack-quantized",
                    "\"num_bits\": 4, \"strategy\": \"group\", \"group_size\": 64,"
                    " \"symmetric\": false, \"actorder\": \"group\""),
         WEIGHT_AFFINE, 4, 64},
    };
#undef COMPRESSED
    enum { OUT = 64, IN = 256 };
    struct error e = {0};
    struct device *d =
        device_open("cpu", &(struct device_options){.pool.threads = 1, .isa = ISA_BEST}, &e);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct config *c;
        struct weights *w = open_dummy(all[i].config, &c);
        struct weight m = matrix(w, "a", OUT, IN), kept = matrix(w, "b.kept", OUT, IN);
        if (i < 4) kept = matrix(w, "kept", OUT, IN);
        if (m.layout != all[i].layout || m.bits != all[i].bits || m.group != all[i].group)
            fail_msg("%s: layout %d, %d bits by %d", all[i].config, m.layout, m.bits, m.group);
        assert_int_equal(kept.layout, WEIGHT_DENSE);
        assert_true(weights_populate(w, NULL, NULL, &e));
        struct context ctx;
        assert_true(context_open(&ctx, d, PRECISION_F32, OUT * IN * 8, false, &e));
        int32_t rows[OUT];
        for (int r = 0; r < OUT; r++) rows[r] = r;
        m.order.dims = 0;
        const float *x = embed(&ctx, &m, tensor_1d(DT_I32, OUT, rows)).data;
        double squares = 0;
        for (int k = 0; k < OUT * IN; k++) squares += (double)x[k] * x[k];
        double spread = sqrt(squares / (OUT * IN));
        if (!(spread > 0.01 && spread < 0.04)) fail_msg("%s: spread %g", all[i].config, spread);
        context_close(&ctx);
        weights_close(w);
        config_close(c);
    }
    device_close(d);
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
    expect_bad("{\"quantization_config\": {\"quant_method\": \"awq\", \"group_size\": 7}}",
               "key \"quantization_config.group_size\" is 7");
    expect_bad("{\"quantization_config\": {\"quant_method\": \"gptq\", \"group_size\": 0}}",
               "key \"quantization_config.group_size\" is 0");
    static const char *const blocks[] = {"[128, 4294967296]", "[128, 65537]", "[0, 128]", "[128]",
                                         "[128, 128, 1]"};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        char config[320];
        snprintf(config, sizeof config,
                 "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\","
                 " \"format\": \"float-quantized\", \"config_groups\": {\"group_0\": {\"weights\":"
                 " {\"type\": \"float\", \"strategy\": \"block\", \"block_structure\": %s}}}}}",
                 blocks[i]);
        expect_bad(config, "weights.block_structure\"");
        snprintf(config, sizeof config,
                 "{\"quantization_config\": {\"quant_method\": \"fp8\","
                 " \"weight_block_size\": %s}}",
                 blocks[i]);
        expect_bad(config, "key \"quantization_config.weight_block_size\"");
    }
}

// --- in the engine -------------------------------------------------------------------------------

// Every reference case's dummy has the parameters of its weights, and their bytes but for vectors
// that a checkpoint keeps in F32 beside matrices of 16 bits (up to 2.7 % of such small ones) and
// scales of rows that it keeps in BF16 (2.2 %).
static void check_like_real(const char *dir) {
    struct engine *real = fixture_engine(dir, (struct engine_options){.dry = true});
    struct engine *dummy =
        fixture_engine(dir, (struct engine_options){.dry = true, .load_dummy = true});
    const struct engine_info *r = engine_info(real), *d = engine_info(dummy);
    if (r->parameters != d->parameters)
        fail_msg("%s: %lld parameters, as a dummy %lld", dir, (long long)r->parameters,
                 (long long)d->parameters);
    double ratio = (double)d->weight_bytes / (double)r->weight_bytes;
    if (ratio < 0.97 || ratio > 1.025) fail_msg("%s: a dummy has %.3f of the bytes", dir, ratio);
    engine_close(real);
    engine_close(dummy);
}

static void each_like_real(const char *root) {
    char *path = path_join(FIXTURES, root);
    folder_each(path, check_like_real);
    free(path);
}

static void test_like_real(void **state) {
    (void)state;
    size_t n;
    const struct family *const *all = families(&n);
    for (size_t f = 0; f < n; f++) each_like_real(all[f]->id);
    each_like_real("quantized");
}

// Opens a dummy of a case's config, which is changed: to another quantization_config, and a number.
static struct engine *open_changed(const char *dir, const char *quantization, const char *key,
                                   int number, struct error *e) {
    char scratch[32];
    char *from = path_join(dir, "config.json");
    struct json_object *config = json_read_file(from, 1 << 20, e);
    struct json_object *q = json_read(sv(quantization), "quantization_config", e);
    assert_true(config && q);
    json_object_object_add(config, "quantization_config", q);
    json_object_object_add(config, key, json_object_new_int(number));
    folder_make(scratch);
    char *to = path_join(scratch, "config.json");
    assert_true(file_write(to, sv(json_object_to_json_string(config)), e));
    struct engine_options opt = {.device = "cpu", .dry = true, .load_dummy = true};
    struct engine *engine = engine_open(scratch, &opt, e);
    folder_remove(scratch);
    json_object_put(config);
    free(from);
    free(to);
    return engine;
}

// What a product with the matrix across can't be made of.
static void test_sorted_latents(void **state) {
    (void)state;
    struct error e = {0};
    assert_null(open_changed(FIXTURES "/quantized/kimi-int4",
                             "{\"quant_method\":\"gptq\",\"group_size\":32,\"desc_act\":true}",
                             "kv_lora_rank", 64, &e)); // two groups
    if (!strstr(e.text, "kv_b_proj\": its columns")) fail_msg("%s", e.text);
}

// Matrices whose outputs are no whole number of words, as a gate with one, are not quantized.
static void test_odd_outputs(void **state) {
    (void)state;
    static const char *const quantizations[] = {
        "{\"quant_method\":\"awq\",\"group_size\":32}",
        "{\"quant_method\":\"gptq\",\"group_size\":32,\"bits\":3}",
        "{\"quant_method\":\"bitnet\"}"};
    for (size_t i = 0; i < 3; i++) {
        struct error e = {0};
        struct engine *engine =
            open_changed(FIXTURES "/qwen3_next/base", quantizations[i], "hidden_size", 64, &e);
        if (!engine) fail_msg("%s: %s", quantizations[i], e.text);
        engine_close(engine);
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

// By hand, for width 40, 5 experts of 24 of which 2 are chosen, 2 layers, 4 heads and 2 KV heads of
// 10, all bf16: a row goes through 2 experts, and of those of 2 rows one in 25 is missed by both.
static void test_expert_cost(void **state) {
    (void)state;
    enum { REST = 2 * (2 * 40 * 40 + 2 * 20 * 40 + 5 * 40), EXPERT = 2 * 3 * 24 * 40 };
    enum { HEAD = 67 * 40, KV_BYTES = 2 * 2 * (10 + 10) * 2, ATTEND_OPS = 2 * 4 * (10 + 10) * 2 };
    struct engine *e = fixture_engine(FIXTURES "/mixtral/base",
                                      (struct engine_options){.load_dummy = true, .sequences = 2});
    struct pass one = {.sequences = 1, .tokens = 1, .generate = true};
    struct pass_cost c = engine_cost(e, &one);
    assert_true(c.bytes == 2 * (REST + 2 * EXPERT + HEAD) + KV_BYTES);
    assert_true(c.ops == 2 * (REST + 2 * EXPERT + HEAD) + ATTEND_OPS);
    one.sequences = 2;
    c = engine_cost(e, &one);
    double experts = 5 * (1 - 0.6 * 0.6); // rounded down to whole bytes in each layer
    assert_true(fabs(c.bytes - (2 * (REST + experts * EXPERT + HEAD) + 2 * KV_BYTES)) <= 2);
    assert_true(c.ops == 2 * (2 * (REST + 2 * EXPERT + HEAD) + ATTEND_OPS));
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),     cmocka_unit_test(test_every_layout),
        cmocka_unit_test(test_values),      cmocka_unit_test(test_bad_configs),
        cmocka_unit_test(test_like_real),   cmocka_unit_test(test_sorted_latents),
        cmocka_unit_test(test_odd_outputs), cmocka_unit_test(test_runs),
        cmocka_unit_test(test_cost),        cmocka_unit_test(test_expert_cost),
        cmocka_unit_test(test_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
