// From logits to a token: each filter's set, the order of the filters, penalties, ties, seeds.
#include "check.h"

#include <math.h>

#include "base/mem.h"
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_temperature), cmocka_unit_test(test_top_k),
        cmocka_unit_test(test_top_p),       cmocka_unit_test(test_min_p),
        cmocka_unit_test(test_penalties),   cmocka_unit_test(test_greedy_and_odd_logits),
        cmocka_unit_test(test_seeds),       cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
