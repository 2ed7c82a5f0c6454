// Every family's reference cases, and those of every published layout of weights: in one pass, in
// chunks of odd sizes and token by token, the logits are the independent implementation's; the
// greedy continuation is too.
#include "fixture.h"
#include "folder.h"
#include "machine.h"

#include <math.h>
#include <unistd.h>

#include "models/family.h"

static double deviation(const float *x, size_t n) {
    double mean = 0, sum = 0;
    for (size_t i = 0; i < n; i++) mean += x[i];
    mean /= (double)n;
    for (size_t i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return sqrt(sum / (double)n);
}

// The logits of the fixture's ids, [n, vocab]; the caller's.
static float *run_logits(const struct fixture *f, struct engine_options opt) {
    struct engine *e = fixture_engine(f->dir, opt);
    float *got = mem_array(f->n * (size_t)f->vocab, sizeof *got);
    struct request r = {.prompt = f->ids, .n = f->n, .prompt_logits = got};
    r.sampling = sampling_greedy();
    fixture_run(e, r, NULL);
    engine_close(e);
    return got;
}

static void check_logits(const struct fixture *f, enum isa isa, int64_t chunk) {
    float *got = run_logits(f, (struct engine_options){.device = test_device,
                                                       .precision = PRECISION_F32,
                                                       .isa = isa,
                                                       .chunk = chunk,
                                                       .pool.threads = chunk ? 1 : 2});
    size_t count = f->n * (size_t)f->vocab;
    double worst = 0, scale = deviation(f->logits, count);
    for (size_t i = 0; i < count && !isnan(worst); i++) { // what is not a number is the worst
        double off = fabs((double)got[i] - f->logits[i]);
        worst = off <= worst ? worst : off;
    }
    if (!(worst <= f->tolerance * scale))
        fail_msg("%s, %s, chunk %lld: off by %.2e of the logits' spread", f->dir, isa_name(isa),
                 (long long)chunk, worst / scale);
    free(got);
}

static double bits_per_weight(const char *dir) {
    struct engine *e = fixture_engine(dir, (struct engine_options){.dry = true});
    double bits = engine_info(e)->bits_per_weight;
    engine_close(e);
    return bits;
}

static double cost(const struct fixture *f, const float *got) {
    size_t count = f->n * (size_t)f->vocab;
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += pow((double)got[i] - f->logits[i], 2);
    return sqrt(sum / (double)count) / deviation(f->logits, count);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Of the rows' costs the one in the middle: where a router or an indexer chooses between two that
// are close, a few rows are off by much more.
static double usual_cost(const struct fixture *f, const float *got) {
    double *row = mem_array(f->n, sizeof *row), all = cost(f, got);
    for (size_t r = 0; r < f->n; r++)
        for (int64_t i = 0; i < f->vocab; i++) {
            size_t at = r * (size_t)f->vocab + (size_t)i;
            row[r] += pow((double)got[at] - f->logits[at], 2);
        }
    qsort(row, f->n, sizeof *row, by_size);
    double spread = deviation(f->logits, f->n * (size_t)f->vocab);
    double usual = sqrt(row[f->n / 2] / (double)f->vocab) / spread;
    free(row);
    return usual < all ? usual : all;
}

// What native precision costs: a cache in F16 and, for weights of 4 and 8 bits, activations in 8
// bits. These models of a few random layers are sensitive. On a GPU x is in bf16 for each product,
// which costs each some 0.2% (test_ops says), and there are a dozen from end to end; so there the
// bound is for most rows, and another for all. A mistake would be of the order of the logits
// themselves, in every row.
static void check_native(const struct fixture *f) {
    float *got = run_logits(
        f, (struct engine_options){.device = test_device, .isa = ISA_BEST, .pool.threads = 1});
    double bound = bits_per_weight(f->dir) < 16 ? 0.1 : on_cpu() ? 0.005 : 0.02;
    double off = cost(f, got), usual = usual_cost(f, got);
    const char *name = f->dir + strlen(FIXTURES) + 1;
    print_message("%s: native precision costs %.2f%% of the logits' spread, %.2f%% in most rows\n",
                  name, 100 * off, 100 * usual);
    if (!((on_cpu() ? off : usual) < bound)) fail_msg("%s: over %.1f%%", name, 100 * bound);
    if (!(off < 0.25)) fail_msg("%s: over 25%% in all", name);
    free(got);
}

// What the type of the cache alone may cost. F16 has 11 bits of mantissa, BF16 8, and a block of
// 8-bit numbers 7 and a sign for its largest element. A mistake would be of the order of the logits
// themselves.
static const struct {
    const char *name;
    double most;
} caches[] = {{"f16", 0.005}, {"bf16", 0.03}, {"q8_0", 0.03}};
enum { CACHES = sizeof caches / sizeof *caches };

static float *cached_logits(const struct fixture *f, const char *type) {
    return run_logits(f, (struct engine_options){.isa = ISA_BEST,
                                                 .pool.threads = 1,
                                                 .precision = PRECISION_F32,
                                                 .cache_k = type,
                                                 .cache_v = type});
}

// In most rows; of a model that chooses tokens only for F16, which flips next to no choice.
static void check_cache(const struct fixture *f, bool chooses) {
    const char *name = f->dir + strlen(FIXTURES) + 1;
    for (int i = 0; i < CACHES; i++) {
        float *got = cached_logits(f, caches[i].name);
        double off = usual_cost(f, got);
        print_message("%s: a cache of %s costs %.3f%% of the logits' spread, %.3f%% in most rows\n",
                      name, caches[i].name, 100 * cost(f, got), 100 * off);
        if (!(off < caches[i].most || (chooses && i > 0)))
            fail_msg("%s: over %.1f%%", name, 100 * caches[i].most);
        free(got);
    }
}

// The same folder, in `dir`, but for a config with some numbers of its own.
static void copy_model(const char *from, char *dir, struct json_object *config) {
    struct error e = {0};
    struct names names = {0};
    assert_non_null(mkdtemp(dir));
    assert_true(dir_list(from, &names, &e));
    for (size_t i = 0; i < names.n; i++) {
        char *old = path_join(from, names.name[i]), *new = path_join(dir, names.name[i]);
        bool is_config = !strcmp(names.name[i], "config.json");
        struct sv text = sv(json_object_to_json_string(config));
        assert_true(is_config ? file_write(new, text, &e) : symlink(old, new) == 0);
        free(old);
        free(new);
    }
    names_free(&names);
}

static void remove_model(const char *dir) {
    struct error e = {0};
    struct names names = {0};
    assert_true(dir_list(dir, &names, &e));
    for (size_t i = 0; i < names.n; i++) {
        char *path = path_join(dir, names.name[i]);
        unlink(path);
        free(path);
    }
    names_free(&names);
    rmdir(dir);
}

// Where an indexer chooses tokens, and a router experts, a cache that is rounded makes them choose
// others where two are close. With random weights that is often: in glm_moe_dsa/base the first
// token gets another expert, and all that attend to it are off by a fifth of the spread; with the
// choices of an exact cache, BF16 costs 0.7 % and q8_0 2.4 %. So the same weights are looked at as
// a model that chooses every token and every expert, against itself with an exact cache.
static void check_cache_of_all(const struct fixture *f, struct json_object *config) {
    const char *const numbers[][2] = {{"index_topk", NULL},
                                      {"num_experts_per_tok", "n_routed_experts"},
                                      {"topk_group", "n_group"}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int64_t all = numbers[i][1] ? json_int_at(config, numbers[i][1], 0) : (int64_t)f->n;
        if (all) json_object_object_add(config, numbers[i][0], json_object_new_int64(all));
    }
    char dir[] = "/tmp/mlxcel-test-XXXXXX";
    copy_model(f->dir, dir, config);
    struct fixture all = *f;
    all.dir = dir;
    float *exact = cached_logits(&all, "f32");
    all.logits = exact;
    assert_true(cost(f, exact) > 0.01); // it is another model
    for (int i = 0; i < CACHES; i++) {
        float *got = cached_logits(&all, caches[i].name);
        double off = cost(&all, got);
        print_message("with all chosen, a cache of %s costs %.3f%%\n", caches[i].name, 100 * off);
        if (!(off < caches[i].most)) fail_msg("%s: over %.1f%%", f->dir, 100 * caches[i].most);
        free(got);
    }
    free(exact);
    remove_model(dir);
}

static void check_caches(const struct fixture *f) {
    struct error e = {0};
    char *path = path_join(f->dir, "config.json");
    struct json_object *config = json_read_file(path, 1 << 20, &e);
    assert_non_null(config);
    bool chooses = json_int_at(config, "index_topk", 0) > 0;
    check_cache(f, chooses);
    if (chooses) check_cache_of_all(f, config);
    json_object_put(config);
    free(path);
}

static void check_greedy(const struct fixture *f, enum isa isa) {
    struct engine *e = fixture_engine(f->dir, (struct engine_options){.device = test_device,
                                                                      .precision = PRECISION_F32,
                                                                      .isa = isa,
                                                                      .pool.threads = 1});
    int32_t *got = mem_array(f->greedy_count + 1, sizeof *got);
    size_t n = fixture_run(e,
                           (struct request){.prompt = f->ids,
                                            .n = f->n,
                                            .max_new = (int64_t)f->greedy_count,
                                            .sampling = sampling_greedy()},
                           got);
    assert_int_equal(n, f->greedy_count);
    assert_memory_equal(got, f->greedy, n * sizeof *got);
    free(got);
    engine_close(e);
}

static void check_with(const struct fixture *f, enum isa isa) {
    const int64_t chunks[] = {0, 7, 1};
    for (size_t i = 0; i < 3; i++) check_logits(f, isa, chunks[i]);
    if (f->greedy_count) check_greedy(f, isa);
}

// Whether the device has all ops that the model needs. It must say so before it loads.
static bool computes(const char *dir) {
    struct error e = {0};
    struct engine_options opt = {.device = test_device, .isa = ISA_BEST, .dry = true};
    struct engine *engine = engine_open(dir, &opt, &e);
    engine_close(engine);
    if (engine) return true;
    if (on_cpu() || !strstr(e.text, "has no op")) fail_msg("%s", e.text);
    print_message("left out: %s\n", e.text);
    return false;
}

// In every instruction set, and what native precision costs.
static void check_parity(const struct fixture *f) {
    for (int isa = ISA_PLAIN; isa < ISA_BEST && on_cpu(); isa++)
        if (isa_supported((enum isa)isa)) check_with(f, (enum isa)isa);
    if (!on_cpu()) check_with(f, ISA_BEST);
    check_native(f);
}

static void check_case(const char *dir) {
    if (!computes(dir)) return;
    struct fixture f;
    fixture_open(&f, dir);
    check_parity(&f);
    if (on_cpu()) check_caches(&f);
    fixture_close(&f);
}

// Each case in tests/fixtures/ROOT, of which there must be one.
static void each_case(const char *root, void (*check)(const char *dir)) {
    char *path = path_join(FIXTURES, root);
    assert_true(folder_each(path, check) > 0);
    free(path);
}

// A family without a reference case is not supported.
static void test_family(void **state) {
    const struct family *family = *state;
    each_case(family->id, check_case);
}

// How the weights are published has no part in the cache.
static void check_quantized(const char *dir) {
    if (!computes(dir)) return;
    struct fixture f;
    fixture_open(&f, dir);
    check_parity(&f);
    fixture_close(&f);
}

// Whole models in the layouts of other quantizers than MLX's affine.
static void test_quantized(void **state) {
    (void)state;
    each_case("quantized", check_quantized);
}

// Learned positions end with their table: a longer context is refused, not read beyond it.
static void test_positions(void **state) {
    (void)state;
    struct error e = {0};
    struct engine_options opt = {.device = test_device, .context = 77};
    engine_close(fixture_engine(FIXTURES "/gpt2/base", opt));
    opt.context = 78;
    assert_null(engine_open(FIXTURES "/gpt2/base", &opt, &e));
    assert_non_null(strstr(e.text, "has only 77 positions"));
}

int main(int argc, char **argv) {
    test_options(argc, argv);
    size_t n;
    const struct family *const *all = families(&n);
    struct CMUnitTest *tests = mem_array(n + 2, sizeof *tests);
    for (size_t i = 0; i < n; i++)
        tests[i] = (struct CMUnitTest){.name = all[i]->id,
                                       .test_func = test_family,
                                       .initial_state = (void *)(uintptr_t)all[i]};
    tests[n] = (struct CMUnitTest)cmocka_unit_test(test_quantized);
    tests[n + 1] = (struct CMUnitTest)cmocka_unit_test(test_positions);
    int failed = _cmocka_run_group_tests("families", tests, n + 2, NULL, NULL);
    free(tests);
    return failed;
}
