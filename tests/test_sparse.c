// An indexer's choice of tokens and attention to them, of every instruction set that this machine
// has, against references in double precision written here.
#include "machine.h"

enum { SEQS = 2, PAGE = 8, LENGTH = 75, PAGES = (LENGTH + PAGE - 1) / PAGE, ROWS = SEQS * LENGTH };

struct scene {
    int64_t heads, k_width, v_width, top; // v_width 0: values are the keys' leading `kept` elements
    int64_t kept;
    enum dtype type;
};

static const struct scene scenes[] = {
    {16, 24, 0, 10, 15, DT_F32},  {5, 33, 20, 70, 0, DT_F16},  {1, 8, 0, 1, 8, DT_BF16},
    {40, 48, 0, 200, 32, DT_F16}, {3, 16, 16, 64, 0, DT_BF16},
};

struct world {
    const struct scene *s;
    struct kv kv;
    struct rows rows;
    float *q, *k, *v;
    double *k_kept, *v_kept; // as the cache rounds them
};

static double *rounded(enum dtype type, const float *x, int64_t n) {
    double *out = mem_array((size_t)n + 1, sizeof *out);
    for (int64_t i = 0; i < n; i++) out[i] = x[i];
    free(round_to(type, out, n, out));
    return out;
}

static struct tensor cache(struct machine *m, const struct scene *s, int64_t width) {
    size_t bytes = (size_t)(SEQS * PAGES * PAGE * width) * dtype_size(s->type);
    void *junk = mem_alloc(bytes + 1);
    memset(junk, 0xff, bytes); // NaN: what was never written must not be read
    struct tensor t =
        tensor_nd(s->type, 4, (int64_t[]){SEQS * PAGES, 1, PAGE, width}, put(m, junk, bytes));
    free(junk);
    return t;
}

static void world_open(struct world *w, const struct scene *s, struct machine *m) {
    int32_t seq[ROWS], index[ROWS], table[SEQS * PAGES];
    for (int i = 0; i < ROWS; i++) seq[i] = i / LENGTH, index[i] = i % LENGTH;
    for (int i = 0; i < SEQS * PAGES; i++) table[i] = (i * 7 + 3) % (SEQS * PAGES);
    *w = (struct world){.s = s, .rows = {.n = ROWS}};
    w->rows.seq = put_i32(m, seq, ROWS);
    w->rows.index = w->rows.pos = put_i32(m, index, ROWS);
    w->q = noise_array(ROWS * s->heads * s->k_width);
    w->k = noise_array(ROWS * s->k_width);
    w->v = noise_array(ROWS * s->v_width + 1);
    w->k_kept = rounded(s->type, w->k, ROWS * s->k_width);
    w->v_kept = rounded(s->type, w->v, ROWS * s->v_width);
    w->kv.table = tensor_2d(DT_I32, SEQS, PAGES, put(m, table, sizeof table));
    w->kv.k = cache(m, s, s->k_width);
    w->kv.v = cache(m, s, s->v_width);
    struct tensor v = {0};
    if (s->v_width) v = put_f32(m, w->v, 3, (int64_t[]){ROWS, 1, s->v_width});
    kv_write(&m->c, &w->kv, &w->rows, put_f32(m, w->k, 3, (int64_t[]){ROWS, 1, s->k_width}), v);
}

static void world_close(struct world *w) {
    free(w->q), free(w->k), free(w->v), free(w->k_kept), free(w->v_kept);
}

static struct rows one_row(const struct rows *all, int64_t i) {
    return (struct rows){.n = 1,
                         .pos = tensor_slice(all->pos, 0, i, 1),
                         .index = tensor_slice(all->index, 0, i, 1),
                         .seq = tensor_slice(all->seq, 0, i, 1)};
}

static int32_t *get_i32(struct machine *m, struct tensor t) {
    int32_t *out = mem_array((size_t)tensor_count(t), sizeof *out);
    t.type = DT_F32; // of the same size
    float *bits = get(m, t);
    memcpy(out, bits, (size_t)tensor_count(t) * sizeof *out);
    free(bits);
    return out;
}

static double dot(const struct world *w, int64_t row, int64_t head, int64_t token) {
    int64_t width = w->s->k_width;
    const float *q = w->q + (row * w->s->heads + head) * width;
    const double *k = w->k_kept + token * width;
    double sum = 0;
    for (int64_t i = 0; i < width; i++) sum += q[i] * k[i];
    return sum;
}

// Every chosen token scores at least as much as every other that is seen, but for rounding.
static void check_choice(const struct world *w, const float *weight, int64_t row,
                         const int32_t *chosen) {
    int64_t top = w->s->top, index = row % LENGTH, first = row - index, taken = 0;
    bool in[LENGTH] = {false};
    for (int64_t i = 0; i < top && chosen[i] >= 0; i++, taken++) {
        assert_true(chosen[i] <= index && (i == 0 || chosen[i] > chosen[i - 1]));
        in[chosen[i]] = true;
    }
    assert_int_equal(taken, index + 1 < top ? index + 1 : top);
    for (int64_t i = taken; i < top; i++) assert_int_equal(chosen[i], -1);
    double least = INFINITY, most = -INFINITY;
    for (int64_t t = 0; t <= index; t++) {
        double score = 0;
        for (int64_t h = 0; h < w->s->heads; h++)
            score += weight[row * w->s->heads + h] * fmax(0, dot(w, row, h, first + t));
        if (in[t]) least = fmin(least, score);
        if (!in[t]) most = fmax(most, score);
    }
    assert_true(least >= most - 1e-4);
}

static struct tensor lists(struct machine *m, int64_t n, int64_t top) {
    return scratch_tensor(&m->c, DT_I32, 2, (int64_t[]){n, top});
}

static void check_selects(struct machine *m) {
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        struct world w;
        struct scene keys = scenes[i]; // an indexer keeps no values
        keys.v_width = 0;
        world_open(&w, &keys, m);
        const struct scene *s = w.s;
        float *weight = noise_array(ROWS * s->heads);
        struct tensor q = put_f32(m, w.q, 3, (int64_t[]){ROWS, s->heads, s->k_width});
        struct tensor by = put_f32(m, weight, 2, (int64_t[]){ROWS, s->heads});
        int32_t *all =
            get_i32(m, select_keys(&m->c, q, by, &w.kv, &w.rows, lists(m, ROWS, s->top)));
        for (int64_t r = 0; r < ROWS; r++) check_choice(&w, weight, r, all + r * s->top);
        for (int64_t r = 0; r < ROWS; r += 13) {
            struct rows rows = one_row(&w.rows, r);
            int32_t *one =
                get_i32(m, select_keys(&m->c, tensor_slice(q, 0, r, 1), tensor_slice(by, 0, r, 1),
                                       &w.kv, &rows, lists(m, 1, s->top)));
            assert_memory_equal(one, all + r * s->top, (size_t)s->top * sizeof *one);
            free(one);
        }
        free(all), free(weight);
        world_close(&w);
        machine_clear(m);
    }
}

static void test_select(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_selects);
}

// Of equals the first; what is no number is chosen last, and nothing outside is.
static void check_ties(struct machine *m) {
    struct world w;
    struct scene s = {2, 8, 0, 5, 8, DT_F32};
    world_open(&w, &s, m);
    float *q = mem_array(ROWS * 2 * 8, sizeof *q), *weight = noise_array(ROWS * 2);
    for (int i = 0; i < ROWS; i++) q[i * 16] = i % 3 == 1 ? NAN : 0;
    struct tensor t = put_f32(m, q, 3, (int64_t[]){ROWS, 2, 8});
    struct tensor by = put_f32(m, weight, 2, (int64_t[]){ROWS, 2});
    int32_t *all = get_i32(m, select_keys(&m->c, t, by, &w.kv, &w.rows, lists(m, ROWS, 5)));
    for (int64_t i = 0; i < ROWS; i++)
        for (int k = 0; k < 5; k++) assert_int_equal(all[i * 5 + k], k <= i % LENGTH ? k : -1);
    free(all), free(q), free(weight);
    world_close(&w);
    machine_clear(m);
}

static void test_ties(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_ties);
}

static void check_row(const struct world *w, const int32_t *chosen, int64_t row, float scale,
                      int64_t width, const float *y) {
    int64_t first = row - row % LENGTH;
    for (int64_t h = 0; h < w->s->heads; h++) {
        double total = 0, out[64] = {0};
        for (int64_t i = 0; i < w->s->top && chosen[i] >= 0; i++) {
            int64_t token = first + chosen[i];
            double p = exp(dot(w, row, h, token) * scale);
            const double *v = w->s->v_width ? w->v_kept + token * w->s->v_width
                                            : w->k_kept + token * w->s->k_width;
            total += p;
            for (int64_t k = 0; k < width; k++) out[k] += p * v[k];
        }
        for (int64_t k = 0; k < width; k++)
            expect_near("attention", h * width + k, y[h * width + k], out[k] / total, 1e-5);
    }
}

// Some of the tokens that a row sees, itself always among them.
static int32_t *some_tokens(int64_t top) {
    int32_t *all = mem_array((size_t)(ROWS * top), sizeof *all);
    for (int64_t r = 0; r < ROWS; r++) {
        int64_t n = 0;
        for (int32_t t = 0; t <= r % LENGTH && n < top; t++)
            if (random_bits() % 3 || t == r % LENGTH) all[r * top + n++] = t;
        while (n < top) all[r * top + n++] = -1;
    }
    return all;
}

static void check_attends(struct machine *m) {
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        struct world w;
        world_open(&w, &scenes[i], m);
        const struct scene *s = w.s;
        int64_t width = s->v_width ? s->v_width : s->kept, each = s->heads * width;
        int32_t *chosen = some_tokens(s->top);
        struct tensor q = put_f32(m, w.q, 3, (int64_t[]){ROWS, s->heads, s->k_width});
        struct attention_options opt = {.scale = 0.2f, .v_width = s->kept};
        opt.selected = put_i32(m, chosen, ROWS * s->top);
        opt.selected = tensor_2d(DT_I32, ROWS, s->top, opt.selected.data);
        float *y = get(m, attention(&m->c, q, &w.kv, &w.rows, &opt));
        for (int64_t r = 0; r < ROWS; r++)
            check_row(&w, chosen + r * s->top, r, opt.scale, width, y + r * each);
        for (int64_t r = 0; r < ROWS; r += 17) {
            struct rows rows = one_row(&w.rows, r);
            struct attention_options of_one = opt;
            of_one.selected = tensor_slice(opt.selected, 0, r, 1);
            float *one = get(m, attention(&m->c, tensor_slice(q, 0, r, 1), &w.kv, &rows, &of_one));
            assert_memory_equal(one, y + r * each, (size_t)each * sizeof *y);
            free(one);
        }
        free(y), free(chosen);
        world_close(&w);
        machine_clear(m);
    }
}

static void test_selected_attention(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_attends);
}

int main(int argc, char **argv) {
    test_options(argc, argv);
    unsetenv("MLXCEL_CPU_ISA"); // the tests choose
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_select),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_selected_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
