// From logits to a token: each filter's set, the order of the filters, penalties, ties, seeds.
#include "check.h"

#include <math.h>

#include "base/json.h"
#include "base/mem.h"
#include "engine/breakers.h"
#include "engine/sample.h"

enum { VOCAB = 300, DRAWS = 6000 };

static int by_value(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

// Logits with many ties, so that order must come from the ids.
static void make_logits(float *x) {
    for (int i = 0; i < VOCAB; i++) x[i] = (float)((i * 7919) % 101) * 0.1f;
}

// Draws many tokens; count[i] is how often i came.
static void draw(struct sampling s, const float *logits, int *count) {
    struct sampler *p = sampler_open(&s, VOCAB);
    float work[VOCAB];
    memset(count, 0, VOCAB * sizeof *count);
    for (int i = 0; i < DRAWS; i++) {
        memcpy(work, logits, sizeof work);
        count[sampler_next(p, work, NULL, 0)]++;
    }
    sampler_close(p);
}

// The draws follow softmax(logits / temperature) over the allowed tokens, and nothing else comes.
static void check_distribution(struct sampling s, const float *logits, const bool *allowed) {
    int count[VOCAB];
    draw(s, logits, count);
    double sum = 0, error = 0;
    for (int i = 0; i < VOCAB; i++)
        if (allowed[i]) sum += exp((double)logits[i] / s.temperature);
    for (int i = 0; i < VOCAB; i++) {
        if (!allowed[i]) assert_int_equal(count[i], 0);
        if (allowed[i])
            error += fabs(count[i] / (double)DRAWS - exp((double)logits[i] / s.temperature) / sum);
    }
    assert_true(error < 0.25); // of 2: what chance leaves with this many draws and tokens is 0.18
}

static struct sampling hot(float temperature) {
    struct sampling s = sampling_greedy();
    s.temperature = temperature;
    s.seed = 42;
    return s;
}

static void test_temperature(void **state) {
    (void)state;
    float x[VOCAB];
    bool all[VOCAB];
    make_logits(x);
    for (int i = 0; i < VOCAB; i++) all[i] = true;
    check_distribution(hot(1.0f), x, all);
    check_distribution(hot(3.0f), x, all);
}

// Ties at the edge of the k go to the lowest ids.
static void test_top_k(void **state) {
    (void)state;
    float x[VOCAB];
    make_logits(x);
    for (int64_t k = 1; k < 150; k = k * 3 + 1) {
        bool allowed[VOCAB];
        for (int i = 0; i < VOCAB; i++) {
            int before = 0;
            for (int j = 0; j < VOCAB; j++) before += j < i ? x[j] >= x[i] : x[j] > x[i];
            allowed[i] = before < k;
        }
        struct sampling s = hot(2.0f);
        s.top_k = k;
        check_distribution(s, x, allowed);
    }
}

static void test_top_p(void **state) {
    (void)state;
    float x[VOCAB], sorted[VOCAB];
    for (int i = 0; i < VOCAB; i++) x[i] = sorted[i] = (float)((i * 7919) % 1009) * 0.01f;
    qsort(sorted, VOCAB, sizeof *sorted, by_value);
    double sum = 0;
    for (int i = 0; i < VOCAB; i++) sum += exp((double)x[i]);
    const float all[] = {0.05f, 0.35f, 0.65f, 0.95f};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        float p = all[k];
        double upto = 0;
        int keep = 0;
        while (keep == 0 || upto < p * sum) upto += exp((double)sorted[keep++]);
        bool allowed[VOCAB];
        for (int i = 0; i < VOCAB; i++) allowed[i] = x[i] >= sorted[keep - 1];
        struct sampling s = hot(1.5f); // the temperature comes after the filter
        s.top_p = p;
        check_distribution(s, x, allowed);
    }
}

static void test_min_p(void **state) {
    (void)state;
    float x[VOCAB];
    make_logits(x);
    bool allowed[VOCAB];
    for (int i = 0; i < VOCAB; i++) allowed[i] = exp(x[i] - 10.0) >= 0.2;
    struct sampling s = hot(2.0f);
    s.min_p = 0.2f;
    check_distribution(s, x, allowed);
}

static void test_penalties(void **state) {
    (void)state;
    float x[VOCAB] = {0};
    x[3] = 4, x[5] = 3.5f, x[7] = 3;
    int32_t history[] = {3, 5, 3, 3, 9};
    struct sampling s = sampling_greedy();
    struct {
        float repetition, presence, frequency;
        int64_t window;
        int32_t want;
    } cases[] = {
        {1, 0, 0, -1, 3},    {1.5f, 0, 0, -1, 7}, // 4 / 1.5 and 3.5 / 1.5 are below 3
        {1.2f, 0, 0, 1, 3},                       // only the last token, 9, is looked at
        {1, 0.8f, 0, -1, 3},                      // 3.2, 2.7 and 3
        {1, 0, 0.4f, -1, 5},                      // 4 - 3 * 0.4, 3.5 - 0.4 and 3
        {1, 0, 0.4f, 0, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        s.repetition_penalty = cases[i].repetition;
        s.presence_penalty = cases[i].presence;
        s.frequency_penalty = cases[i].frequency;
        s.penalty_window = cases[i].window;
        float work[VOCAB];
        memcpy(work, x, sizeof work);
        struct sampler *p = sampler_open(&s, VOCAB);
        assert_int_equal(sampler_next(p, work, history, 5), cases[i].want);
        sampler_close(p);
    }
    s = sampling_greedy(); // a negative logit is pushed down, not up
    s.repetition_penalty = 2;
    float negative[] = {-1, -1.5f};
    struct sampler *p = sampler_open(&s, 2);
    assert_int_equal(sampler_next(p, negative, (int32_t[]){0}, 1), 1);
    sampler_close(p);
}

static void test_greedy_and_odd_logits(void **state) {
    (void)state;
    struct sampling s = sampling_greedy();
    struct sampler *p = sampler_open(&s, 4);
    assert_int_equal(sampler_next(p, (float[]){1, 3, 3, 2}, NULL, 0), 1); // a tie: the lowest id
    assert_int_equal(sampler_next(p, (float[]){NAN, 1, NAN, 2}, NULL, 0), 3);
    assert_int_equal(sampler_next(p, (float[]){NAN, NAN, NAN, NAN}, NULL, 0), 0);
    sampler_close(p);
    s = hot(1.0f);
    p = sampler_open(&s, 4);
    for (int i = 0; i < 100; i++) {
        int32_t id = sampler_next(p, (float[]){-INFINITY, 1, NAN, 2}, NULL, 0);
        assert_true(id == 1 || id == 3);
    }
    assert_int_equal(sampler_next(p, (float[]){0, INFINITY, 0, 0}, NULL, 0), 1);
    sampler_close(p);
}

static void test_seeds(void **state) {
    (void)state;
    float x[VOCAB], work[VOCAB];
    make_logits(x);
    int32_t first[3][50];
    for (int run = 0; run < 3; run++) {
        struct sampling s = hot(1.0f);
        s.seed = run == 2 ? 43 : 42;
        struct sampler *p = sampler_open(&s, VOCAB);
        for (int i = 0; i < 50; i++) {
            memcpy(work, x, sizeof work);
            first[run][i] = sampler_next(p, work, NULL, 0);
        }
        sampler_close(p);
    }
    assert_memory_equal(first[0], first[1], sizeof first[0]);
    assert_memory_not_equal(first[0], first[2], sizeof first[0]);
}

static void test_ranges(void **state) {
    (void)state;
    struct sampling bad[6];
    for (int i = 0; i < 6; i++) bad[i] = sampling_greedy();
    bad[0].temperature = -1, bad[1].top_p = 2, bad[2].min_p = NAN, bad[3].top_k = -5;
    bad[4].repetition_penalty = 0, bad[5].penalty_window = -2;
    for (int i = 0; i < 6; i++) {
        struct error e = {0};
        assert_false(sampling_check(&bad[i], &e));
        assert_true(e.set);
    }
}

// --- against the reference (tools/make_sampling.py) ----------------------------------------------

enum { REFERENCE_VOCAB = 40 };

struct reference {
    struct json_object *file;
    float logits[8][REFERENCE_VOCAB];
    int32_t history[64];
    size_t history_n;
    struct tokenizer *letters; // token i is the character 'A' + i
};

static void read_logits(float *out, struct json_object *list) {
    assert_int_equal(json_object_array_length(list), REFERENCE_VOCAB);
    for (size_t i = 0; i < REFERENCE_VOCAB; i++)
        out[i] = (float)json_object_get_double(json_object_array_get_idx(list, i));
}

static struct tokenizer *letters_open(void) {
    struct str json = {0};
    struct error e = {0};
    str_puts(&json,
             "{\"version\":\"1.0\",\"added_tokens\":[],\"normalizer\":null,"
             "\"pre_tokenizer\":null,\"post_processor\":null,\"decoder\":{\"type\":\"Fuse\"},"
             "\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (int i = 0; i < REFERENCE_VOCAB; i++) {
        char c[2] = {(char)('A' + i), 0};
        if (i) str_addc(&json, ',');
        json_quote(&json, sv(c));
        str_printf(&json, ":%d", i);
    }
    str_puts(&json, "},\"merges\":[]}}");
    struct tokenizer *t = tok_read(str_sv(&json), "letters", &e);
    if (!t) fail_msg("%s", e.text);
    str_free(&json);
    return t;
}

static void reference_open(struct reference *r) {
    struct error e = {0};
    *r = (struct reference){.letters = letters_open()};
    r->file = json_read_file(FIXTURES "/sampling.json", 1 << 20, &e);
    if (!r->file) fail_msg("%s", e.text);
    struct json_object *logits = json_at(r->file, "logits"), *h = json_at(r->file, "history");
    for (size_t i = 0; i < json_object_array_length(logits); i++)
        read_logits(r->logits[i], json_object_array_get_idx(logits, i));
    r->history_n = json_object_array_length(h);
    for (size_t i = 0; i < r->history_n; i++)
        r->history[i] = json_object_get_int(json_object_array_get_idx(h, i));
}

static void reference_close(struct reference *r) {
    tok_close(r->letters);
    json_object_put(r->file);
}

static void read_chain(struct sampling *s, struct json_object *names) {
    struct error e = {0};
    if (!names) return;
    s->filters = 0;
    for (size_t i = 0; i < json_object_array_length(names); i++)
        assert_true(sampling_chain_add(s, json_text(json_object_array_get_idx(names, i)), &e));
}

static size_t read_biases(struct bias *out, struct json_object *list) {
    size_t n = list ? json_object_array_length(list) : 0;
    for (size_t i = 0; i < n; i++) {
        struct json_object *pair = json_object_array_get_idx(list, i);
        struct json_object *add = json_object_array_get_idx(pair, 1);
        bool never = json_object_is_type(add, json_type_boolean);
        out[i] = (struct bias){json_object_get_int(json_object_array_get_idx(pair, 0)),
                               never ? -INFINITY : (float)json_object_get_double(add)};
    }
    return n;
}

static struct breakers *read_breakers(const struct reference *r, struct json_object *list) {
    struct error e = {0};
    char text[8];
    struct sv view[8];
    size_t n = list ? json_object_array_length(list) : 0;
    for (size_t i = 0; i < n; i++) {
        text[i] = (char)('A' + json_object_get_int(json_object_array_get_idx(list, i)));
        view[i] = sv_n(text + i, 1);
    }
    return breakers_open(r->letters, view, n, &e);
}

// Its biases go to `bias`, and its breakers are the caller's.
static struct sampling read_params(const struct reference *r, struct json_object *p,
                                   struct bias *bias) {
    struct sampling s = sampling_greedy();
    s.temperature = (float)json_number_at(p, "temperature", 1);
    s.dynatemp_range = (float)json_number_at(p, "dynatemp_range", 0);
    s.dynatemp_exponent = (float)json_number_at(p, "dynatemp_exponent", 1);
    s.top_k = json_int_at(p, "top_k", 0);
    s.top_p = (float)json_number_at(p, "top_p", 1);
    s.min_p = (float)json_number_at(p, "min_p", 0);
    s.typical_p = (float)json_number_at(p, "typical_p", 1);
    s.top_n_sigma = (float)json_number_at(p, "top_n_sigma", -1);
    s.xtc_probability = (float)json_number_at(p, "xtc_probability", 0);
    s.xtc_threshold = (float)json_number_at(p, "xtc_threshold", 0.1);
    s.min_keep = json_int_at(p, "min_keep", 0);
    s.mirostat = json_int_at(p, "mirostat", 0);
    s.mirostat_tau = (float)json_number_at(p, "mirostat_tau", 5);
    s.mirostat_eta = (float)json_number_at(p, "mirostat_eta", 0.1);
    s.repetition_penalty = (float)json_number_at(p, "repeat_penalty", 1);
    s.presence_penalty = (float)json_number_at(p, "presence_penalty", 0);
    s.frequency_penalty = (float)json_number_at(p, "frequency_penalty", 0);
    s.penalty_window = json_int_at(p, "repeat_last_n", -1);
    s.dry_multiplier = (float)json_number_at(p, "dry_multiplier", 0);
    s.dry_base = (float)json_number_at(p, "dry_base", 1.75);
    s.dry_allowed_length = json_int_at(p, "dry_allowed_length", 2);
    s.dry_window = json_int_at(p, "dry_penalty_last_n", -1);
    s.breakers = read_breakers(r, json_at(p, "dry_breakers"));
    s.bias = bias;
    s.biases = read_biases(bias, json_at(p, "bias"));
    s.seed = (uint64_t)json_int_at(p, "seed", 0);
    read_chain(&s, json_at(p, "samplers"));
    return s;
}

static float chance_of(const struct chance *c, size_t n, int32_t id) {
    for (size_t i = 0; i < n; i++)
        if (c[i].id == id) return c[i].p;
    return -1;
}

// The same candidates, best first, with the same chances. Logits are floats here, so a chance may
// be off by a few of their last bits.
static void expect_chances(struct sampler *s, struct json_object *want, const char *what) {
    struct chance c[REFERENCE_VOCAB];
    size_t n = sampler_chances(s, c, REFERENCE_VOCAB), left = 0;
    for (size_t i = 0; i < json_object_array_length(want); i++) {
        struct json_object *pair = json_object_array_get_idx(want, i);
        int32_t id = json_object_get_int(json_object_array_get_idx(pair, 0));
        double p = json_object_get_double(json_object_array_get_idx(pair, 1));
        float got = chance_of(c, n, id);
        if (fabs(got - p) > 1e-6 + 1e-5 * p)
            fail_msg("%s: token %d has chance %g, not %g", what, id, (double)got, p);
        if (i && c[i].p > c[i - 1].p) fail_msg("%s: candidate %zu is not in order", what, i);
        left++;
    }
    if (n != left) fail_msg("%s: %zu candidates, not %zu", what, n, left);
}

static void test_reference(void **state) {
    (void)state;
    struct reference r;
    reference_open(&r);
    struct json_object *cases = json_at(r.file, "cases");
    for (size_t i = 0; i < json_object_array_length(cases); i++) {
        struct json_object *c = json_object_array_get_idx(cases, i), *p = json_at(c, "params");
        struct bias bias[8];
        struct sampling s = read_params(&r, p, bias);
        struct error e = {0};
        if (!sampling_check(&s, &e)) fail_msg("%s", e.text);
        struct sampler *sampler = sampler_open(&s, REFERENCE_VOCAB);
        sampler_next(sampler, r.logits[json_int_at(c, "logits", 0)], r.history, r.history_n);
        expect_chances(sampler, json_at(c, "want"), json_object_to_json_string(p));
        sampler_close(sampler);
        breakers_close(s.breakers);
    }
    assert_true(json_object_array_length(cases) > 100);
    reference_close(&r);
}

static void test_mirostat(void **state) {
    (void)state;
    struct reference r;
    reference_open(&r);
    struct json_object *runs = json_at(r.file, "mirostat");
    for (size_t i = 0; i < json_object_array_length(runs); i++) {
        struct json_object *run = json_object_array_get_idx(runs, i);
        struct json_object *p = json_at(run, "params"), *steps = json_at(run, "steps");
        struct bias bias[8];
        struct sampling s = read_params(&r, p, bias);
        struct sampler *sampler = sampler_open(&s, REFERENCE_VOCAB);
        for (size_t k = 0; k < json_object_array_length(steps); k++) {
            struct json_object *step = json_object_array_get_idx(steps, k);
            float logits[REFERENCE_VOCAB];
            read_logits(logits, json_at(step, "logits"));
            int32_t id = sampler_next(sampler, logits, r.history, r.history_n);
            expect_chances(sampler, json_at(step, "want"), json_object_to_json_string(p));
            assert_int_equal(id, json_int_at(step, "token", -1));
        }
        sampler_close(sampler);
        breakers_close(s.breakers);
    }
    reference_close(&r);
}

// A chance of XTC between 0 and 1: the best token is dropped so often.
static void test_xtc_chance(void **state) {
    (void)state;
    struct sampling s = hot(0);
    s.xtc_probability = 0.3f;
    struct sampler *p = sampler_open(&s, 3);
    int second = 0;
    for (int i = 0; i < DRAWS; i++) second += sampler_next(p, (float[]){1.1f, 1, -5}, NULL, 0) == 1;
    sampler_close(p);
    assert_true(second > 0.27 * DRAWS && second < 0.33 * DRAWS);
}

static void test_min_tokens(void **state) {
    (void)state;
    struct sampling s = sampling_greedy();
    int32_t end = 2;
    s.min_tokens = 3;
    s.late = &end;
    s.lates = 1;
    struct sampler *p = sampler_open(&s, 3);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(sampler_greedy(p), i >= 3);
        assert_int_equal(sampler_next(p, (float[]){1, 0, 5}, NULL, 0), i < 3 ? 0 : 2);
    }
    sampler_close(p);
}

// Texts of several tokens end a repetition too, and so do those that begin within a token.
static void test_breakers(void **state) {
    (void)state;
    struct error e = {0};
    struct tokenizer *t = letters_open();
    struct sv text[] = {sv("B"), sv("CDE"), sv("C"), sv("")};
    struct breakers *b = breakers_open(t, text, 1, &e);
    int32_t history[] = {0, 1, 2, 3, 4, 5};
    assert_non_null(b);
    assert_int_equal(breakers_after(b, history, 6), 4);
    assert_int_equal(breakers_after(b, history, 2), 0);
    assert_int_equal(breakers_after(b, history, 1), 1);
    assert_true(breakers_token(b, 1));
    assert_false(breakers_token(b, 0) || breakers_token(b, 39) || breakers_token(b, 40));
    breakers_close(b);
    b = breakers_open(t, text + 1, 1, &e);
    assert_int_equal(breakers_after(b, history, 6), 1);
    assert_int_equal(breakers_after(b, history, 4), 4); // not whole
    assert_false(breakers_token(b, 2));
    breakers_close(b);
    b = breakers_open(t, text + 1, 3, &e); // the longer one of two that begin at once
    assert_int_equal(breakers_after(b, history, 6), 1);
    assert_int_equal(breakers_after(b, history, 4), 1);
    struct breakers *shared = breakers_share(b);
    breakers_close(b);
    assert_true(breakers_token(shared, 2));
    breakers_close(shared);
    b = breakers_open(t, NULL, 0, &e);
    assert_int_equal(breakers_after(b, history, 6), 6);
    breakers_close(b);
    tok_close(t);
}

static void test_chain_names(void **state) {
    (void)state;
    struct error e = {0};
    struct sampling s = sampling_greedy(), d = sampling_greedy();
    assert_true(sampling_chain(&s, sv("top-k;temp;typ_p"), &e));
    assert_int_equal(s.filters, 3);
    assert_true(s.chain[0] == FILTER_TOP_K && s.chain[1] == FILTER_TEMPERATURE);
    assert_string_equal(filter_name(s.chain[2]), "typ_p");
    assert_true(sampling_chain_letters(&s, sv("edskypmxt"), &e));
    assert_int_equal(s.filters, d.filters);
    assert_memory_equal(s.chain, d.chain, d.filters);
    assert_true(sampling_chain(&s, sv(""), &e));
    assert_int_equal(s.filters, 0);
    assert_false(sampling_chain(&s, sv("top_k;best"), &e));
    assert_true(sv_find(sv(e.text), sv("no sampler \"best\""), 0) >= 0);
    e.set = false;
    assert_false(sampling_chain_letters(&s, sv("kz"), &e));
    e.set = false;
    for (int i = 0; i < 40; i++) sampling_chain_add(&s, sv("top_k"), &e);
    assert_true(e.set);
}

static void test_logits_top(void **state) {
    (void)state;
    const float x[] = {1, NAN, 3, 3, -INFINITY, 2};
    struct chance top[4];
    double sum;
    assert_int_equal(logits_top(x, 6, top, 4, &sum), 4);
    double want = log(exp(1) + 2 * exp(3) + exp(2));
    assert_true(fabs(sum - want) < 1e-9);
    const int32_t ids[] = {2, 3, 5, 0};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(top[i].id, ids[i]);
        assert_true(fabs(top[i].p - ((double)x[ids[i]] - want)) < 1e-6);
    }
    assert_int_equal(logits_top(x, 6, top, 1, &sum), 1);
    assert_int_equal(top[0].id, 2);
    assert_int_equal(logits_top(x, 6, NULL, 0, &sum), 0);
    assert_true(fabs(sum - want) < 1e-9);
}

// --- from the best of a row ----------------------------------------------------------------------

enum { MANY = 3000 }; // tokens, of which SAMPLER_BEST are given

struct row {
    float all[MANY], best[SAMPLER_BEST];
    int32_t id[MANY];
    struct best_logits given;
};

static const float *rows_logits;

static int by_rank(const void *a, const void *b) {
    int32_t i = *(const int32_t *)a, k = *(const int32_t *)b;
    float x = rows_logits[i], y = rows_logits[k];
    x = isnan(x) ? -INFINITY : x;
    y = isnan(y) ? -INFINITY : y;
    return x != y ? (x < y ? 1 : -1) : (i > k) - (i < k);
}

// What top_logits of compute.h tells of a row, by its definition.
static void give_best(struct row *r, float cooling) {
    double others = 0, cooled = 0;
    for (int i = 0; i < MANY; i++) r->id[i] = i;
    rows_logits = r->all;
    qsort(r->id, MANY, sizeof *r->id, by_rank);
    for (int i = 0; i < SAMPLER_BEST; i++)
        r->best[i] = isnan(r->all[r->id[i]]) ? -INFINITY : r->all[r->id[i]];
    for (int i = SAMPLER_BEST; i < MANY; i++) {
        double below = (double)r->all[r->id[i]] - r->best[SAMPLER_BEST - 1];
        if (isnan(below)) continue;
        others += exp(below);
        cooled += exp(below * cooling);
    }
    r->given = (struct best_logits){SAMPLER_BEST, r->best, r->id, (float)others, (float)cooled};
}

static double random_part(uint64_t *state) { // [0, 1)
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 33) / 0x1p31;
}

static double normal(uint64_t *state) {
    double sum = 0;
    for (int i = 0; i < 12; i++) sum += random_part(state);
    return sum - 6;
}

// Peaked as a model's are, or flat, some with many ties, some with what is no number.
static void make_row(struct row *r, uint64_t *state) {
    double scale = 1 + 8 * random_part(state), shift = 4 * random_part(state) - 2;
    int kind = (int)(8 * random_part(state));
    for (int i = 0; i < MANY; i++) {
        double x = normal(state) * scale + shift;
        if (kind == 0) x = floor(x);
        if (kind == 1 && i % 7 == 0) x = i % 2 ? NAN : -INFINITY;
        if (kind > 3 && i % 97 == 5) x += 6;
        r->all[i] = (float)x;
    }
}

static bool sometimes(uint64_t *state) { return random_part(state) < 0.35; }

// Nearly any settings, in nearly any order.
static struct sampling random_settings(uint64_t *state, struct bias *bias) {
    struct sampling s = sampling_greedy();
    s.seed = (uint64_t)(random_part(state) * 1e9);
    if (!sometimes(state)) s.temperature = (float)(0.1 + 1.5 * random_part(state));
    if (sometimes(state)) s.temperature = 1;
    if (sometimes(state)) s.top_k = 1 + (int64_t)(400 * random_part(state));
    if (sometimes(state)) s.top_p = (float)(0.3 + 0.7 * random_part(state));
    if (sometimes(state)) s.min_p = (float)(0.2 * random_part(state));
    if (sometimes(state)) s.repetition_penalty = (float)(0.8 + random_part(state));
    if (sometimes(state)) s.presence_penalty = (float)random_part(state);
    if (sometimes(state)) s.frequency_penalty = (float)(random_part(state) - 0.2);
    if (sometimes(state)) s.penalty_window = (int64_t)(60 * random_part(state));
    if (sometimes(state)) s.dry_multiplier = (float)random_part(state);
    if (sometimes(state)) s.min_keep = (int64_t)(30 * random_part(state));
    if (random_part(state) < 0.1) s.xtc_probability = 0.5f;
    if (random_part(state) < 0.1) s.typical_p = 0.7f;
    if (random_part(state) < 0.1) s.top_n_sigma = 2;
    if (random_part(state) < 0.1) s.dynatemp_range = 0.3f;
    if (random_part(state) < 0.1) s.mirostat = 2;
    s.bias = bias;
    for (s.biases = 0; s.biases < 3 && sometimes(state); s.biases++)
        bias[s.biases] = (struct bias){(int32_t)(MANY * random_part(state)),
                                       sometimes(state) ? -INFINITY : (float)normal(state)};
    for (size_t i = s.filters; i > 1 && sometimes(state); i--) {
        size_t k = (size_t)(random_part(state) * (double)i);
        unsigned char f = s.chain[k];
        s.chain[k] = s.chain[i - 1];
        s.chain[i - 1] = f;
    }
    return s;
}

// A sequence drawn from all logits, and one from the best wherever they are enough. Returns how
// often they were not.
static int same_tokens(const struct sampling *s, uint64_t *state, int tokens) {
    static struct row r;
    struct sampler *all = sampler_open(s, MANY), *best = sampler_open(s, MANY);
    int32_t history[80];
    int not = 0;
    for (int i = 0; i < tokens; i++) {
        make_row(&r, state);
        give_best(&r, sampler_cooling(best));
        history[i] = sampler_next(all, r.all, history, (size_t)i);
        int32_t id = sampler_next_best(best, &r.given, history, (size_t)i);
        not += id < 0;
        if (id < 0) id = sampler_next(best, r.all, history, (size_t)i);
        assert_int_equal(id, history[i]);
        if (sometimes(state)) history[i] = (int32_t)(200 * random_part(state));
    }
    sampler_close(all);
    sampler_close(best);
    return not ;
}

static void test_best_is_enough(void **state) {
    (void)state;
    enum { SEQUENCES = 300, TOKENS = 24 };
    uint64_t random = 5;
    int not = 0;
    for (int i = 0; i < SEQUENCES; i++) {
        struct bias bias[3];
        struct sampling s = random_settings(&random, bias);
        not += same_tokens(&s, &random, TOKENS);
    }
    print_message("%d of %d rows were wanted whole\n", not, SEQUENCES * TOKENS);
    assert_true(not < SEQUENCES * TOKENS / 2);
    struct sampling usual = hot(0.7f);
    usual.repetition_penalty = 1.1f;
    usual.top_k = 40;
    usual.top_p = 0.95f;
    assert_int_equal(same_tokens(&usual, &random, 80), 0);
}

// Others weigh as much as the best, and some of the best fall behind others.
static void test_others_matter(void **state) {
    (void)state;
    static struct row r;
    enum { TOKENS = 400, SEEN = 120 };
    uint64_t random = 9;
    struct sampling cases[4] = {hot(1), hot(1.4f), hot(0.8f), hot(1)};
    cases[2].repetition_penalty = 1.5f;
    cases[3].repetition_penalty = 1.5f;
    cases[3].top_k = 200;
    for (int c = 0; c < 4; c++) {
        struct sampler *all = sampler_open(&cases[c], MANY), *best = sampler_open(&cases[c], MANY);
        int not = 0;
        for (int i = 0; i < TOKENS; i++) {
            for (int k = 0; k < MANY; k++) r.all[k] = (float)normal(&random) + 3;
            give_best(&r, sampler_cooling(best));
            int32_t want = sampler_next(all, r.all, r.id, SEEN);
            int32_t id = sampler_next_best(best, &r.given, r.id, SEEN);
            not += id < 0;
            if (id < 0) id = sampler_next(best, r.all, r.id, SEEN);
            assert_int_equal(id, want);
        }
        assert_true(not > TOKENS / 4 && not < TOKENS);
        sampler_close(all);
        sampler_close(best);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_temperature),   cmocka_unit_test(test_top_k),
        cmocka_unit_test(test_top_p),         cmocka_unit_test(test_min_p),
        cmocka_unit_test(test_penalties),     cmocka_unit_test(test_greedy_and_odd_logits),
        cmocka_unit_test(test_seeds),         cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_reference),     cmocka_unit_test(test_mirostat),
        cmocka_unit_test(test_xtc_chance),    cmocka_unit_test(test_min_tokens),
        cmocka_unit_test(test_breakers),      cmocka_unit_test(test_chain_names),
        cmocka_unit_test(test_logits_top),    cmocka_unit_test(test_best_is_enough),
        cmocka_unit_test(test_others_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
