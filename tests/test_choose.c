// Tokens chosen from the best of each row are those that whole rows give, whatever the settings and
// whoever else is in the step; and whole rows are read only where they must be.
#include "fixture.h"
#include "folder.h"
#include "machine.h"

enum { NEW = 40, CASES = 7, TOPS = 20, VOCAB = 3000 };

static const char config[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":64,"
    "\"intermediate_size\":96,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"vocab_size\":3000,\"max_position_embeddings\":128,"
    "\"rms_norm_eps\":1e-05,\"rope_theta\":10000.0,\"tie_word_embeddings\":false,"
    "\"attention_bias\":false,\"mlp_bias\":false,\"hidden_act\":\"silu\","
    "\"torch_dtype\":\"bfloat16\"}";

static struct engine *open_dummy(int64_t sequences) {
    struct error e = {0};
    char dir[32];
    folder_make(dir);
    char *path = path_join(dir, "config.json");
    assert_true(file_write(path, sv(config), &e));
    struct engine *engine = fixture_engine(dir, (struct engine_options){.device = test_device,
                                                                        .load_dummy = true,
                                                                        .context = 128,
                                                                        .sequences = sequences});
    folder_remove(dir);
    free(path);
    return engine;
}

// The usual, cold enough for a few tokens, penalties alone, all tokens at once, other filters.
static struct sampling settings(int i) {
    struct sampling s = sampling_greedy();
    s.seed = 100 + (uint64_t)i;
    if (i == 1) s.temperature = 0.7f, s.top_k = 40, s.top_p = 0.95f, s.repetition_penalty = 1.1f;
    if (i == 2) s.temperature = 0.02f;
    if (i == 3) s.repetition_penalty = 1.3f, s.frequency_penalty = 0.2f;
    if (i == 4) s.temperature = 1.2f;
    if (i == 5) s.temperature = 1, s.min_p = 0.5f, s.xtc_probability = 0.5f, s.dry_multiplier = 1;
    if (i == 6) s.temperature = 1, s.mirostat = 2;
    return s;
}

static struct request request_of(int i, const struct sampling *s, int32_t *prompt, size_t n) {
    for (size_t k = 0; k < n; k++) prompt[k] = (int32_t)((k * 37 + (size_t)i * 101) % VOCAB);
    return (struct request){.prompt = prompt, .n = n, .max_new = NEW, .sampling = *s};
}

static void test_rows_are_not_read(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        int32_t prompt[8], from_best[NEW], whole[NEW];
        struct sampling s = settings(i);
        struct request r = request_of(i, &s, prompt, 8);
        struct engine *e = open_dummy(1);
        assert_int_equal(fixture_run(e, r, from_best), NEW);
        int64_t read = engine_stats(e).whole_rows;
        r.chances = CHANCES_DRAWN; // which reads every row
        r.uncached = true;
        assert_int_equal(fixture_run(e, r, whole), NEW);
        assert_int_equal(engine_stats(e).whole_rows - read, NEW);
        assert_memory_equal(from_best, whole, sizeof whole);
        if (i < 4) assert_int_equal(read, 0);
        if (i == 4) assert_true(read > 0 && read < NEW);
        if (i == 6) assert_int_equal(read, NEW);
        engine_close(e);
    }
}

static void test_together(void **state) {
    (void)state;
    if (!on_cpu()) return; // where a row's bits are those of the number of rows
    int32_t prompt[CASES][8], alone[CASES][NEW], together[CASES][NEW];
    size_t got[CASES] = {0};
    int64_t number[CASES];
    struct error err = {0};
    struct engine *e = open_dummy(CASES);
    for (int i = 0; i < CASES; i++) {
        struct sampling s = settings(i);
        assert_int_equal(fixture_run(e, request_of(i, &s, prompt[i], 8), alone[i]), NEW);
    }
    for (int i = 0; i < CASES; i++) {
        struct sampling s = settings(i);
        struct request r = request_of(i, &s, prompt[i], 8);
        r.uncached = true;
        assert_true((number[i] = engine_submit(e, &r, &err)) > 0);
        assert_true(engine_step(e, &err)); // each comes a step later
    }
    while (engine_busy(e)) {
        assert_true(engine_step(e, &err));
        for (struct event ev; engine_event(e, &ev);)
            for (int i = 0; i < CASES; i++)
                if (ev.request == number[i]) together[i][got[i]++] = ev.id;
    }
    for (int i = 0; i < CASES; i++) assert_int_equal(got[i], NEW);
    assert_memory_equal(alone, together, sizeof alone);
    engine_close(e);
}

struct told {
    int32_t id[NEW];
    float chance[NEW];
    struct chance top[NEW][TOPS];
};

static void run_with_chances(struct engine *e, struct request r, struct told *out) {
    struct error err = {0};
    size_t n = 0;
    r.chances = CHANCES_LOGITS;
    r.tops = TOPS;
    assert_true(engine_submit(e, &r, &err) > 0);
    while (engine_busy(e)) {
        assert_true(engine_step(e, &err));
        for (struct event ev; engine_event(e, &ev); n++) {
            assert_int_equal(ev.tops, TOPS);
            out->id[n] = ev.id;
            out->chance[n] = ev.chance;
            memcpy(out->top[n], ev.top, sizeof out->top[n]);
        }
    }
    assert_int_equal(n, NEW);
}

// Chances against those of the whole rows, which a prompt of the same tokens gives.
static void test_chances(void **state) {
    (void)state;
    if (!on_cpu()) return;
    struct engine *e = open_dummy(1);
    static const int of[] = {1, 4};
    for (int c = 0; c < 2; c++) {
        int32_t ids[8 + NEW], none[1];
        struct sampling s = settings(of[c]), greedy = sampling_greedy();
        struct told told;
        int64_t read = engine_stats(e).whole_rows;
        run_with_chances(e, request_of(of[c], &s, ids, 8), &told);
        read = engine_stats(e).whole_rows - read;
        assert_true(c ? read > 0 && read < NEW : read == 0);
        memcpy(ids + 8, told.id, sizeof told.id);
        float *logits = mem_array((size_t)(8 + NEW) * VOCAB, sizeof *logits);
        struct request again = {.prompt = ids,
                                .n = 8 + NEW,
                                .sampling = greedy,
                                .prompt_logits = logits,
                                .uncached = true};
        fixture_run(e, again, none);
        for (int i = 0; i < NEW; i++) {
            struct chance top[TOPS];
            double sum;
            const float *row = logits + (size_t)(7 + i) * VOCAB;
            assert_int_equal(logits_top(row, VOCAB, top, TOPS, &sum), TOPS);
            // Sums over the others are of floats.
            expect_near("chance", i, told.chance[i], row[told.id[i]] - sum, 2e-6);
            for (int k = 0; k < TOPS; k++) {
                assert_int_equal(told.top[i][k].id, top[k].id);
                expect_near("top", k, told.top[i][k].p, top[k].p, 2e-6);
            }
        }
        free(logits);
    }
    engine_close(e);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_not_read),
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_chances),
    };
    test_options(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
