// The best of rows of logits, and what the others weigh, against a sort of all.
#include "machine.h"

// A row's elements, best first; rank is what top_logits goes by.
struct ranked {
    float value;
    int32_t at;
};

static int by_rank(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? 1 : -1;
    return (x->at > y->at) - (x->at < y->at);
}

enum { KINDS = 8 };

// Rows of each kind: noise, steps with many ties, few finite ones, NaN, one value only, rising.
static float odd_logit(int kind, int64_t i) {
    if (kind == 1) return (float)(random_bits() % 40) * 0.5f - 10;
    if (kind == 2) return i % 100 == 3 ? noise() : -INFINITY;
    if (kind == 3) return i % 5 ? 3 * noise() : NAN;
    if (kind == 4) return -2.5f;
    if (kind == 5) return (float)i * 0.001f;
    if (kind == 6) return i % 30 == 7 ? INFINITY : i % 2 ? 0.0f : -0.0f;
    return 4 * noise() - 3;
}

static void expect_top(const float *x, int64_t width, int64_t k, float by, const float *value,
                       const int32_t *index, const float *others) {
    struct ranked *r = mem_array((size_t)width, sizeof *r);
    double sum = 0, cooled = 0;
    bool bad = false;
    for (int64_t i = 0; i < width; i++) {
        r[i] = (struct ranked){isnan(x[i]) ? -INFINITY : x[i], (int32_t)i};
        bad = bad || isnan(x[i]);
    }
    qsort(r, (size_t)width, sizeof *r, by_rank);
    for (int64_t i = 0; i < k; i++) {
        assert_int_equal(index[i], r[i].at);
        assert_true(value[i] == r[i].value);
    }
    float least = r[k - 1].value;
    for (int64_t i = k; i < width && isfinite(least); i++) {
        sum += exp((double)r[i].value - least);
        cooled += exp(((double)r[i].value - least) * by);
    }
    // 2^-17, half of what the sampler allows: each exponential is good to a few parts in 2^24,
    // and so is each step of adding hundreds of them
    expect_near("others", 0, others[0], sum, 0x1p-17 * sum);
    expect_near("others", 1, others[1], cooled, 0x1p-17 * cooled);
    assert_true(others[2] == (float)bad);
    free(r);
}

struct shape {
    int64_t rows, width, k;
};

static void check_shape(struct machine *m, const struct shape *s) {
    int64_t rows = s->rows, width = s->width, k = s->k;
    float *x = mem_array((size_t)(rows * width), sizeof *x);
    float *by = mem_array((size_t)rows, sizeof *by);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t at = 0; at < width; at++) x[i * width + at] = odd_logit((int)(i % KINDS), at);
        by[i] = i % 3 ? 1 / 0.7f : i == 3 ? 0.5f : 1;
    }
    float *zeros = mem_array((size_t)(rows * (k + 3)), sizeof *zeros);
    int32_t *index = mem_array((size_t)(rows * k), sizeof *index);
    struct tensor list = put_i32(m, index, rows * k);
    struct top_logits to = {put_f32(m, zeros, 2, (int64_t[]){rows, k}),
                            tensor_2d(DT_I32, rows, k, list.data),
                            put_f32(m, zeros, 2, (int64_t[]){rows, 3})};
    top_logits(&m->c, &to, put_f32(m, x, 2, (int64_t[]){rows, width}),
               tensor_1d(DT_F32, rows, put(m, by, (size_t)rows * sizeof *by)));
    float *value = get(m, to.value), *others = get(m, to.others);
    read_i32(&m->c, list, index);
    for (int64_t i = 0; i < rows; i++)
        expect_top(x + i * width, width, k, by[i], value + i * k, index + i * k, others + 3 * i);
    machine_clear(m);
    free(x), free(by), free(zeros), free(index), free(value), free(others);
}

// The last two are of more blocks and rows than one launch on a GPU takes at once.
static void check_top_logits(struct machine *m) {
    static const struct shape shapes[] = {
        {KINDS, 1, 1},       {KINDS, 40, 40},           {KINDS, 300, 256},        {KINDS, 3001, 7},
        {KINDS, 20011, 256}, {KINDS, 131072 + 77, 256}, {KINDS, 600 * 1000, 256}, {700, 300, 256},
    };
    int count = on_cpu() ? m->isa == ISA_PLAIN ? 5 : 6 : 8;
    for (int s = 0; s < count; s++) check_shape(m, &shapes[s]);
}

static void test_top_logits(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_top_logits);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_top_logits)};
    test_options(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
