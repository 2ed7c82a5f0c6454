// What the engine promises for every model: batched is as alone, chunked is as whole, no page is
// lost, a request that can't be served is refused with the reason.
#include "fixture.h"

#include "engine/parts.h"

static const char *const models[] = {"llama/base",   "llama/base-q4",        "mistral/window",
                                     "qwen2/window", "qwen3/base-q4",        "mamba2/base",
                                     "lfm2/base",    "recurrent_gemma/base", "jamba/base"};
enum { MODELS = sizeof models / sizeof *models, PROMPTS = 11, NEW = 24 };

static char *model_dir(int i) { return path_join(FIXTURES, models[i]); }

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

struct prompt {
    int32_t ids[80];
    size_t n;
    float *logits;
    int32_t out[NEW];
    size_t out_count;
};

static void make_prompt(struct prompt *p, int i, int64_t vocab) {
    static const size_t lengths[PROMPTS] = {1, 2, 31, 32, 33, 5, 64, 70, 17, 48, 3};
    uint32_t seed = 77u + (uint32_t)i;
    *p = (struct prompt){.n = lengths[i]};
    for (size_t k = 0; k < p->n; k++) p->ids[k] = (int32_t)(next_random(&seed) % (uint32_t)vocab);
    p->logits = mem_array(p->n * (size_t)vocab, sizeof *p->logits);
}

// A hot temperature, so that a difference in one bit of a logit is seen sooner or later.
static struct request request_of(struct prompt *p, int i) {
    struct sampling hot = sampling_greedy();
    hot.temperature = 1.5f;
    hot.seed = 1000u + (uint64_t)i;
    return (struct request){.prompt = p->ids,
                            .n = p->n,
                            .max_new = NEW - i,
                            .sampling = hot,
                            .prompt_logits = p->logits};
}

static void run_alone(const char *dir, struct engine_options opt, struct prompt *p) {
    struct engine *e = fixture_engine(dir, opt);
    for (int i = 0; i < PROMPTS; i++) {
        make_prompt(&p[i], i, engine_info(e)->vocab);
        p[i].out_count = fixture_run(e, request_of(&p[i], i), p[i].out);
    }
    engine_close(e);
}

static void run_together(const char *dir, struct engine_options opt, struct prompt *p) {
    struct error err = {0};
    struct engine *e = fixture_engine(dir, opt);
    int64_t number[PROMPTS];
    for (int i = 0; i < PROMPTS; i++) {
        make_prompt(&p[i], i, engine_info(e)->vocab);
        struct request r = request_of(&p[i], i);
        assert_true((number[i] = engine_submit(e, &r, &err)) > 0);
        for (int steps = 0; steps < i % 3; steps++) assert_true(engine_step(e, &err));
    }
    while (engine_busy(e)) {
        assert_true(engine_step(e, &err));
        for (struct event ev; engine_event(e, &ev);)
            for (int i = 0; i < PROMPTS; i++)
                if (ev.request == number[i] && ev.id >= 0) p[i].out[p[i].out_count++] = ev.id;
    }
    engine_close(e);
}

static void check_same(const char *dir, struct prompt *a, struct prompt *b, int64_t vocab) {
    for (int i = 0; i < PROMPTS; i++) {
        if (memcmp(a[i].logits, b[i].logits, a[i].n * (size_t)vocab * sizeof(float)) != 0)
            fail_msg("%s: prompt %d's logits differ between alone and together", dir, i);
        assert_int_equal(a[i].out_count, NEW - i);
        assert_int_equal(b[i].out_count, NEW - i);
        assert_memory_equal(a[i].out, b[i].out, a[i].out_count * sizeof *a[i].out);
        free(a[i].logits);
        free(b[i].logits);
    }
}

// Mixed steps (chunks of prompts beside decode rows, requests that come and go) give each request
// bit for bit what it gets alone in one pass.
static void test_together_as_alone(void **state) {
    (void)state;
    static const struct engine_options mixed[] = {
        {.sequences = 4, .batch = 24, .chunk = 7, .pool.threads = 2},
        {.sequences = 16, .batch = 100, .pool.threads = 3},
        {.sequences = 3, .batch = 5, .chunk = 1, .pool.threads = 1},
    };
    for (int m = 0; m < MODELS; m++) {
        char *dir = model_dir(m);
        for (size_t k = 0; k < sizeof mixed / sizeof *mixed; k++) {
            struct prompt alone[PROMPTS], together[PROMPTS];
            struct engine_options whole = {.pool.threads = 1}, opt = mixed[k];
            whole.precision = opt.precision = k == 1 ? PRECISION_NATIVE : PRECISION_F32;
            run_alone(dir, whole, alone);
            run_together(dir, opt, together);
            struct engine *e = fixture_engine(dir, (struct engine_options){.dry = true});
            check_same(dir, alone, together, engine_info(e)->vocab);
            engine_close(e);
        }
        free(dir);
    }
}

static void check_no_leak(const struct engine *e) {
    assert_int_equal(e->sched.tasks, 0);
    for (int64_t g = 0; g < e->state.groups; g++)
        assert_int_equal(pages_left(&e->state.group[g].pages), e->state.group[g].pages.count);
}

// Random requests, some cancelled at random moments: afterwards every page is free, and at every
// moment no page is in two tables.
static void test_no_page_is_lost(void **state) {
    (void)state;
    char *dir = model_dir(3);
    struct engine *e =
        fixture_engine(dir, (struct engine_options){.sequences = 5, .batch = 16, .context = 200});
    struct error err = {0};
    uint32_t seed = 5;
    int32_t ids[150];
    for (int i = 0; i < 150; i++) ids[i] = i % 100;
    int64_t last = 0;
    for (int round = 0; round < 1500; round++) {
        if (next_random(&seed) % 4 == 0 && e->sched.tasks < 12) {
            struct request r = {.prompt = ids,
                                .n = 1 + next_random(&seed) % 149,
                                .max_new = next_random(&seed) % 40,
                                .sampling = sampling_greedy()};
            assert_true((last = engine_submit(e, &r, &err)) > 0);
        }
        if (next_random(&seed) % 16 == 0) engine_cancel(e, last - next_random(&seed) % 6);
        assert_true(engine_step(e, &err));
        for (struct event ev; engine_event(e, &ev);) {}
    }
    while (engine_busy(e)) {
        assert_true(engine_step(e, &err));
        for (struct event ev; engine_event(e, &ev);) {}
    }
    check_no_leak(e);
    engine_close(e);
    free(dir);
}

// A windowed layer's pool is a window's worth, however long the context.
static void test_window_frees_pages(void **state) {
    (void)state;
    char *dir = path_join(FIXTURES, "mistral/window");
    struct engine *e = fixture_engine(dir, (struct engine_options){.context = 250, .chunk = 8});
    assert_int_equal(e->state.groups, 1);
    assert_true(e->state.group[0].pages.count <= 2 * 2);
    int32_t id = 5, out[249];
    size_t n = fixture_run(
        e, (struct request){.prompt = &id, .n = 1, .max_new = -1, .sampling = sampling_greedy()},
        out);
    assert_int_equal(n, 249);
    check_no_leak(e);
    engine_close(e);
    free(dir);
}

static void expect_refused(struct engine *e, struct request r, const char *say) {
    struct error err = {0};
    assert_int_equal(engine_submit(e, &r, &err), 0);
    if (!strstr(err.text, say)) fail_msg("\"%s\" does not say \"%s\"", err.text, say);
}

static void test_requests_are_checked(void **state) {
    (void)state;
    char *dir = model_dir(0);
    struct engine *e = fixture_engine(dir, (struct engine_options){.context = 64});
    int32_t ids[65] = {0}, out[8];
    struct request r = {.prompt = ids, .n = 4, .max_new = 2, .sampling = sampling_greedy()};
    struct request bad = r;
    bad.n = 0;
    expect_refused(e, bad, "empty");
    bad.n = 65;
    expect_refused(e, bad, "65 tokens; the context holds 64");
    bad.n = 64;
    expect_refused(e, bad, "fills the context");
    bad = r;
    ids[2] = 128;
    expect_refused(e, bad, "token 2 of the prompt is 128");
    ids[2] = -1;
    expect_refused(e, bad, "token 2 of the prompt is -1");
    ids[2] = 0;
    bad.sampling.top_p = 1.5f;
    expect_refused(e, bad, "top_p is 1.5");
    assert_int_equal(fixture_run(e, r, out), 2);
    engine_close(e);
    free(dir);
}

static void test_finish(void **state) {
    (void)state;
    char *dir = model_dir(0);
    struct error err = {0};
    struct engine *e = fixture_engine(dir, (struct engine_options){.context = 64});
    int32_t ids[4] = {3, 1, 4, 1}, out[64];
    struct request r = {.prompt = ids, .n = 4, .max_new = 8, .sampling = sampling_greedy()};
    assert_int_equal(fixture_run(e, r, out), 8);
    r.stop_ids = &out[3]; // generation ends with its first appearance
    r.stop_count = 1;
    size_t want = 0;
    while (out[want] != out[3]) want++;
    int32_t again[64];
    assert_int_equal(fixture_run(e, r, again), want + 1);
    r.stop_count = 0;
    r.max_new = -1;
    assert_int_equal(fixture_run(e, r, again), 60);
    r.max_new = 0;
    assert_true(engine_submit(e, &r, &err) > 0);
    assert_true(engine_step(e, &err));
    struct event ev;
    assert_true(engine_event(e, &ev));
    assert_int_equal(ev.id, -1);
    assert_int_equal(ev.finish, FINISH_LENGTH);
    engine_close(e);
    free(dir);
}

// Scratch is measured for the context that steps will have, not for one batch of it: with few rows
// a step and a long page table, attention's share is the greatest.
static void test_scratch_is_for_the_context(void **state) {
    (void)state;
    char *dir = model_dir(0);
    struct engine *e = fixture_engine(
        dir, (struct engine_options){.context = (int64_t)1 << 21, .batch = 1, .pool.threads = 2});
    int32_t id = 5, out[2];
    struct request r = {.prompt = &id, .n = 1, .max_new = 2, .sampling = sampling_greedy()};
    assert_int_equal(fixture_run(e, r, out), 2);
    engine_close(e);
    free(dir);
}

static void test_what_cannot_fit_is_refused(void **state) {
    (void)state;
    char *dir = model_dir(0);
    struct error err = {0};
    struct engine_options opt = {.context = (int64_t)1 << 32};
    assert_null(engine_open(dir, &opt, &err));
    assert_non_null(strstr(err.text, "does not fit"));
    opt.dry = true; // but what it would need can be known
    struct error none = {0};
    struct engine *e = engine_open(dir, &opt, &none);
    assert_non_null(e);
    assert_true(engine_info(e)->state_bytes > (size_t)1 << 39);
    engine_close(e);
    free(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together_as_alone),
        cmocka_unit_test(test_no_page_is_lost),
        cmocka_unit_test(test_window_frees_pages),
        cmocka_unit_test(test_requests_are_checked),
        cmocka_unit_test(test_finish),
        cmocka_unit_test(test_scratch_is_for_the_context),
        cmocka_unit_test(test_what_cannot_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
