// What the engine does with a model's state changes nothing of what a request gets, with every
// family's reference models: sharing steps with others, waiting again for want of pages, finding
// its beginning in the caches, drafts, forks.
//
// Tokens are drawn at a high temperature, so that logits of the wrong state give others. Where a
// model keeps paged state alone its logits are compared too, bit for bit.
#include "fixture.h"

#include "engine/parts.h"

enum { MOST_NEW = 24, MOST_TOKENS = 160, REQUESTS = 6 };

struct model {
    char *dir;
    int64_t vocab, context;
    const char *cache;    // its type; NULL: the default
    bool fixed, outgrows; // outgrows: longer requests keep another state (LongRoPE)
    int32_t text[REQUESTS]
                [MOST_TOKENS]; // random ids to make prompts of; the first three begin alike
};

struct answer {
    int64_t number; // 0: not submitted
    int32_t id[MOST_TOKENS];
    size_t n;
    int64_t cached;
};

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void open_model(struct model *m, const char *dir, const char *cache) {
    *m = (struct model){.dir = mem_text(dir), .cache = cache};
    struct engine *e = fixture_engine(dir, (struct engine_options){.dry = true});
    const struct engine_info *info = engine_info(e);
    m->vocab = info->vocab;
    m->fixed = info->fixed_bytes > 0;
    m->outgrows = decoder_short_context(e->decoder) > 0;
    m->context = info->model_context < MOST_TOKENS ? info->model_context : MOST_TOKENS;
    engine_close(e);
    uint32_t seed = 99;
    for (int r = 0; r < REQUESTS; r++)
        for (int i = 0; i < MOST_TOKENS; i++)
            m->text[r][i] = (int32_t)(next_random(&seed) % (uint32_t)m->vocab);
    for (int r = 1; r < 3; r++) memcpy(m->text[r], m->text[0], 70 * sizeof(int32_t));
}

static struct engine *open_engine(const struct model *m, struct engine_options opt) {
    opt.context = m->context;
    opt.isa = ISA_BEST;
    opt.precision = PRECISION_F32;
    opt.cache_k = opt.cache_v = m->cache;
    if (!opt.pool.threads) opt.pool.threads = 1;
    return fixture_engine(m->dir, opt);
}

static struct request request_of(const struct model *m, int r, size_t n, int64_t new) {
    int64_t room = m->context - (int64_t)n;
    assert_true(room > 0);
    struct sampling hot = sampling_greedy();
    hot.temperature = 1.5f;
    hot.seed = 1000u + (uint64_t)r;
    return (struct request){
        .prompt = m->text[r], .n = n, .max_new = new < room ? new : room, .sampling = hot};
}

static void submit(struct engine *e, const struct request *r, struct answer *a) {
    struct error err = {0};
    *a = (struct answer){.number = engine_submit(e, r, &err)};
    if (!a->number) fail_msg("%s", err.text);
}

static void step(struct engine *e, struct answer *a, size_t count) {
    struct error err = {0};
    if (!engine_step(e, &err)) fail_msg("%s", err.text);
    for (struct event ev; engine_event(e, &ev);) {
        size_t i = 0;
        while (i < count && a[i].number != ev.request) i++;
        if (i == count) continue;
        a[i].cached = ev.cached;
        if (ev.id >= 0) a[i].id[a[i].n++] = ev.id;
    }
}

static void finish(struct engine *e, struct answer *a, size_t count) {
    while (engine_busy(e)) step(e, a, count);
    for (int64_t g = 0; g < e->state.groups; g++) // no page is lost
        assert_int_equal(pages_left(&e->state.group[g].pages), e->state.group[g].pages.count);
    assert_int_equal(pages_left(&e->state.snapshots), e->state.snapshots.count);
}

// As an engine that has seen nothing gives it.
static void run_alone(const struct model *m, struct request r, struct answer *a) {
    struct engine *e = open_engine(m, (struct engine_options){0});
    submit(e, &r, a);
    finish(e, a, 1);
    engine_close(e);
}

static void check_same(const struct model *m, const char *what, const struct answer *a,
                       const struct answer *alone) {
    if (a->n != alone->n || memcmp(a->id, alone->id, a->n * sizeof *a->id) != 0) {
        size_t at = 0;
        while (at < a->n && at < alone->n && a->id[at] == alone->id[at]) at++;
        fail_msg("%s: %s: token %zu of %zu differs", m->dir, what, at, alone->n);
    }
}

static size_t prompt_size(const struct model *m, int r) {
    static const size_t sizes[REQUESTS] = {75, 70, 90, 31, 64, 1};
    size_t most = (size_t)m->context / 2;
    return sizes[r] < most ? sizes[r] : most;
}

static void all_alone(const struct model *m, struct answer alone[REQUESTS]) {
    for (int r = 0; r < REQUESTS; r++)
        run_alone(m, request_of(m, r, prompt_size(m, r), MOST_NEW), &alone[r]);
}

static void check_together(const struct model *m, struct engine_options opt, const char *what,
                           const struct answer *alone, bool short_of_pages) {
    struct answer a[REQUESTS];
    struct engine *e = open_engine(m, opt);
    for (int r = 0; r < REQUESTS; r++) {
        struct request q = request_of(m, r, prompt_size(m, r), MOST_NEW);
        submit(e, &q, &a[r]);
        if (r % 2) step(e, a, (size_t)r + 1);
    }
    finish(e, a, REQUESTS);
    for (int r = 0; r < REQUESTS; r++) check_same(m, what, &a[r], &alone[r]);
    for (int64_t g = 0; g < e->state.groups && short_of_pages; g++)
        if (!e->state.group[g].window && !e->state.group[g].chunk)
            assert_true(engine_stats(e).preempted > 0);
    engine_close(e);
}

// --- the caches ----------------------------------------------------------------------------------

static void check_logits(const struct model *m, struct engine *e, struct request r) {
    size_t count = r.n * (size_t)m->vocab;
    float *got = mem_array(2 * count, sizeof *got), *want = got + count;
    struct answer a;
    r.max_new = 0;
    r.prompt_logits = got;
    submit(e, &r, &a);
    finish(e, &a, 1);
    assert_int_equal(a.cached, 0); // every row was asked for
    r.prompt_logits = want;
    struct engine *fresh = open_engine(m, (struct engine_options){0});
    submit(fresh, &r, &a);
    finish(fresh, &a, 1);
    engine_close(fresh);
    if (!m->fixed) assert_memory_equal(got, want, count * sizeof *got);
    free(got);
}

// The first n tokens of text r, after what went before: as alone. Recurrent state is found where a
// snapshot was taken: for a beginning that has been seen twice there is one.
static void check_found(const struct model *m, struct engine *e, int r, size_t n, int64_t cached) {
    struct request q = request_of(m, r, n, 6);
    struct answer a = {0}, alone;
    run_alone(m, q, &alone);
    for (int again = 0; again < (m->fixed ? 2 : 1); again++) {
        submit(e, &q, &a);
        finish(e, &a, 1);
        check_same(m, "with a cached beginning", &a, &alone);
    }
    if (a.cached != cached && !m->outgrows)
        fail_msg("%s: of %zu tokens %d were cached, not %d", m->dir, n, (int)a.cached, (int)cached);
}

static void check_cached(const struct model *m) {
    struct engine *e = open_engine(m, (struct engine_options){.snapshots = 16});
    int64_t all = m->fixed ? 64 : 0; // its own second time
    check_found(m, e, 0, 75, all);
    check_found(m, e, 0, 75, 64); // ends inside a page
    check_found(m, e, 0, 64, 32); // all of it is there: the last token is computed
    check_found(m, e, 0, 65, 64);
    check_found(m, e, 0, 33, 32);
    check_found(m, e, 0, 20, 0);
    check_found(m, e, 1, 90, 64); // begins like the first, and goes on in another way
    check_found(m, e, 3, 70, all);
    check_logits(m, e, request_of(m, 0, 75, 0));
    struct request salted = request_of(m, 0, 75, 12);
    struct answer a;
    salted.salt = 5;
    submit(e, &salted, &a);
    finish(e, &a, 1);
    assert_int_equal(a.cached, 0);
    salted.salt = 0;
    salted.uncached = true;
    submit(e, &salted, &a);
    finish(e, &a, 1);
    assert_int_equal(a.cached, 0);
    engine_close(e);
}

// Where a second request parts from the first, recurrent state is kept for a third, though the
// first went past that place in one step.
static void check_branch(const struct model *m) {
    struct engine *e = open_engine(m, (struct engine_options){.sequences = 1});
    struct answer a, alone;
    for (int r = 0; r < 3; r++) {
        struct request q = request_of(m, r, r ? 110 : 130, 6);
        run_alone(m, q, &alone);
        submit(e, &q, &a);
        finish(e, &a, 1);
        check_same(m, "after the same beginning", &a, &alone);
        if (!m->outgrows) assert_int_equal(a.cached, r < 1 + m->fixed ? 0 : 64);
    }
    engine_close(e);
}

// What was generated is found, too, when the conversation goes on.
static void check_next_turn(const struct model *m) {
    struct engine *e = open_engine(m, (struct engine_options){0});
    struct request q = request_of(m, 0, 60, 40);
    struct answer a, alone;
    submit(e, &q, &a);
    finish(e, &a, 1);
    int32_t next[MOST_TOKENS];
    memcpy(next, q.prompt, q.n * sizeof *next);
    memcpy(next + q.n, a.id, a.n * sizeof *next);
    memcpy(next + q.n + a.n, m->text[3], 5 * sizeof *next);
    q.prompt = next;
    q.n += a.n + 5;
    q.max_new = 6;
    run_alone(m, q, &alone);
    submit(e, &q, &a);
    finish(e, &a, 1);
    check_same(m, "the next turn", &a, &alone);
    assert_int_equal(a.cached, m->outgrows ? a.cached : 96);
    engine_close(e);
}

// --- drafts and forks ----------------------------------------------------------------------------

// Drafts of which the first few tokens are what will come, and the rest not.
static void check_drafts(const struct model *m, const struct answer *alone) {
    struct answer a[REQUESTS];
    struct error err = {0};
    struct engine *e =
        open_engine(m, (struct engine_options){.sequences = 3, .chunk = 50, .drafts = 4});
    for (int r = 0; r < REQUESTS; r++) {
        struct request q = request_of(m, r, prompt_size(m, r), MOST_NEW);
        submit(e, &q, &a[r]);
    }
    uint32_t seed = 3;
    while (engine_busy(e)) {
        for (int r = 0; r < REQUESTS; r++) {
            int32_t draft[5];
            size_t right = next_random(&seed) % 6, n = 1 + next_random(&seed) % 5;
            for (size_t i = 0; i < n; i++) {
                bool known = a[r].n + i < alone[r].n;
                draft[i] = known ? alone[r].id[a[r].n + i] : 0;
                if (i >= right) draft[i] = (int32_t)((draft[i] + 1) % m->vocab);
            }
            assert_true(engine_draft(e, a[r].number, draft, n, &err));
        }
        step(e, a, REQUESTS);
    }
    finish(e, a, REQUESTS);
    int64_t rows = engine_stats(e).decode_tokens;
    for (int r = 0; r < REQUESTS; r++) check_same(m, "with drafts", &a[r], &alone[r]);
    assert_true(rows > 0 && engine_stats(e).steps < REQUESTS * MOST_NEW);
    int32_t wrong = (int32_t)m->vocab;
    assert_false(engine_draft(e, a[0].number, &wrong, 1, &err));
    assert_non_null(strstr(err.text, "of the draft"));
    engine_close(e);
}

// Forked from a request before its prompt is computed, and again amid its answer: each gets what it
// would alone with all the tokens so far.
static void check_forks(const struct model *m) {
    enum { FORKS = 4, EARLY = 2 };
    struct error err = {0};
    struct engine *e = open_engine(m, (struct engine_options){.sequences = 3});
    struct request q = request_of(m, 0, 75, MOST_NEW), own = q;
    struct answer a[1 + FORKS], alone;
    int32_t ids[1 + FORKS][MOST_TOKENS];
    size_t n[1 + FORKS];
    submit(e, &q, &a[0]);
    for (int f = 1; f <= FORKS; f++) {
        while (f > EARLY && a[0].n < 9 * (size_t)(f - EARLY)) step(e, a, (size_t)f);
        own.sampling.seed = 70 + (uint64_t)f;
        a[f] = (struct answer){.number = engine_fork(e, a[0].number, &own.sampling, &err)};
        assert_true(a[f].number > 0);
        memcpy(ids[f], q.prompt, q.n * sizeof *ids[f]);
        memcpy(ids[f] + q.n, a[0].id, a[0].n * sizeof *ids[f]);
        n[f] = q.n + a[0].n;
    }
    finish(e, a, 1 + FORKS);
    run_alone(m, q, &alone);
    check_same(m, "what was forked", &a[0], &alone);
    for (int f = 1; f <= FORKS; f++) {
        own.prompt = ids[f];
        own.n = n[f];
        own.max_new = q.max_new - (int64_t)(n[f] - q.n);
        own.sampling.seed = 70 + (uint64_t)f;
        run_alone(m, own, &alone);
        check_same(m, "a fork", &a[f], &alone);
        if (!m->outgrows && (!m->fixed || f <= EARLY)) assert_true(a[f].cached >= 64);
    }
    assert_int_equal(engine_fork(e, a[0].number, &own.sampling, &err), 0);
    assert_non_null(strstr(err.text, "is over"));
    engine_close(e);
}

static void check_model(const char *dir, const char *cache) {
    struct model m;
    struct answer alone[REQUESTS];
    open_model(&m, dir, cache);
    all_alone(&m, alone);
    check_together(&m, (struct engine_options){.sequences = 4, .batch = 24, .chunk = 7},
                   "with others", alone, false);
    check_together(&m, (struct engine_options){.sequences = 5, .batch = 100, .pool.threads = 2},
                   "with others in large steps", alone, false);
    check_together(&m, (struct engine_options){.sequences = 4, .tokens = 1, .chunk = 40},
                   "short of pages", alone, m.context >= 120);
    check_drafts(&m, alone);
    if (m.context >= 120) {
        check_cached(&m);
        check_next_turn(&m);
        if (m.context >= 140) check_branch(&m);
        check_forks(&m);
    }
    free(m.dir);
}

// Families that are run with a cache of 8 bits too: plain, windows and sinks, latents, an indexer,
// and fixed state beside pages.
static bool in_8_bits(const char *id) {
    static const char *const all[] = {"llama",       "gemma3_text",  "gpt_oss",
                                      "deepseek_v3", "deepseek_v32", "qwen3_next"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(id, all[i])) return true;
    return false;
}

static void test_family(void **state) {
    const struct family *family = *state;
    struct error e = {0};
    struct names names = {0};
    char *root = path_join(FIXTURES, family->id);
    assert_true(dir_list(root, &names, &e));
    for (size_t i = 0; i < names.n; i++) {
        if (strstr(names.name[i], "-q")) continue; // quantized: the same model to the engine
        char *dir = path_join(root, names.name[i]);
        check_model(dir, NULL);
        if (in_8_bits(family->id)) check_model(dir, "q8_0");
        free(dir);
    }
    names_free(&names);
    free(root);
}

int main(void) {
    size_t n;
    const struct family *const *all = families(&n);
    struct CMUnitTest *tests = mem_array(n, sizeof *tests);
    for (size_t i = 0; i < n; i++)
        tests[i] = (struct CMUnitTest){.name = all[i]->id,
                                       .test_func = test_family,
                                       .initial_state = (void *)(uintptr_t)all[i]};
    int failed = _cmocka_run_group_tests("properties", tests, n, NULL, NULL);
    free(tests);
    return failed;
}
