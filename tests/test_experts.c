// The ops of mixtures of experts, on every instruction set that this machine has: the router's
// choice against a definition in double precision, and the products against those of single rows,
// bit for bit.
#include "matrix.h"

static int32_t *get_i32(struct machine *m, struct tensor t) {
    int32_t *out = mem_array((size_t)tensor_count(t), sizeof *out);
    t.type = DT_F32; // of the same size
    float *bits = get(m, t);
    memcpy(out, bits, (size_t)tensor_count(t) * sizeof *out);
    free(bits);
    return out;
}

// --- the choice ----------------------------------------------------------------------------------

struct choice {
    int64_t experts;
    struct route_options opt;
    bool biased;
};

static const struct choice choices[] = {
    {8, {ROUTE_SOFTMAX, 3, true, 1, .groups = 0}, false},
    {60, {ROUTE_SOFTMAX, 4, false, 1, .groups = 0}, false},
    {4, {ROUTE_TOP_SOFTMAX, 2, false, 1, .groups = 0}, false},
    {33, {ROUTE_TOP_SOFTMAX, 8, true, 0.5f, .groups = 0}, false},
    {7, {ROUTE_SIGMOID, 1, false, 1, .groups = 0}, false},
    {5, {ROUTE_SIGMOID, 5, true, 2.5f, .groups = 0}, true},
    {6, {ROUTE_SOFTMAX, 2, true, 1, .groups = 0}, true},
    {16, {ROUTE_SIGMOID, 3, true, 2.5f, {0}, 4, 2, GROUP_BEST_TWO}, true},
    {24, {ROUTE_SOFTMAX, 6, false, 16, {0}, 8, 3, GROUP_BEST}, false},
    {12, {ROUTE_SIGMOID, 4, true, 1, {0}, 3, 1, GROUP_BEST_TWO}, true},
    {1, {ROUTE_SOFTMAX, 1, true, 1, .groups = 0}, false},
};

static double sum_exp(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += exp((double)x[i]);
    return sum;
}

static void drop_groups(double *by, int64_t experts, const struct route_options *o) {
    int64_t each = experts / o->groups;
    double value[16];
    for (int64_t g = 0; g < o->groups; g++) {
        double best = -INFINITY, second = -INFINITY;
        for (int64_t i = g * each; i < (g + 1) * each; i++) {
            second = fmax(second, fmin(best, by[i]));
            best = fmax(best, by[i]);
        }
        value[g] = o->group_score == GROUP_BEST ? best : best + second;
    }
    for (int64_t g = 0; g < o->groups; g++) {
        int64_t better = 0;
        for (int64_t k = 0; k < o->groups; k++) better += value[k] > value[g];
        for (int64_t i = g * each; i < (g + 1) * each && better >= o->top_groups; i++)
            by[i] = -INFINITY;
    }
}

static void check_choice(const struct choice *c, const float *logit, const float *bias,
                         const int32_t *id, const float *weight) {
    double score[64] = {0}, by[64] = {0}, want[16] = {0}, total = 0;
    double all = sum_exp(logit, c->experts);
    for (int64_t i = 0; i < c->experts; i++) {
        double x = logit[i];
        score[i] = c->opt.score == ROUTE_SOFTMAX ? exp(x) / all : 1 / (1 + exp(-x));
        by[i] = (c->opt.score == ROUTE_TOP_SOFTMAX ? x : score[i]) + (bias ? bias[i] : 0);
    }
    if (c->opt.groups) drop_groups(by, c->experts, &c->opt);
    for (int64_t k = 0; k < c->opt.top; k++) {
        int64_t best = 0;
        for (int64_t i = 1; i < c->experts; i++)
            if (by[i] > by[best]) best = i;
        assert_int_equal(id[k], best);
        by[best] = -INFINITY;
        want[k] = c->opt.score == ROUTE_TOP_SOFTMAX ? exp((double)logit[best]) : score[best];
        total += want[k];
    }
    bool divided = c->opt.normalize || c->opt.score == ROUTE_TOP_SOFTMAX;
    for (int64_t k = 0; k < c->opt.top; k++) {
        double w = want[k] / (divided ? total : 1) * c->opt.scale;
        expect_near("route", k, weight[k], w, 1e-6 * w);
    }
}

// Every entry is once in the order, which is by expert and then by row.
static void check_order(struct machine *m, const struct routes *r, const int32_t *id) {
    int32_t *order = get_i32(m, r->order), *row = get_i32(m, r->row);
    int32_t *place = get_i32(m, r->place), *start = get_i32(m, r->start);
    int64_t count = r->order.n[0], top = r->ids.n[1], experts = r->start.n[0] - 1, e = 0;
    assert_int_equal(start[0], 0);
    assert_int_equal(start[experts], count);
    for (int64_t i = 0; i < count; i++) {
        while (start[e + 1] <= i) e++;
        assert_int_equal(id[order[i]], e);
        assert_int_equal(row[i], order[i] / top);
        assert_int_equal(place[order[i]], i);
        if (i > start[e]) assert_true(order[i] > order[i - 1]);
    }
    free(order), free(row), free(place), free(start);
}

static void check_routes(struct machine *m) {
    for (size_t k = 0; k < sizeof choices / sizeof *choices; k++) {
        struct choice c = choices[k];
        for (int64_t n = 1; n < 300; n = n * 4 + 3) {
            float *x = noise_array(n * c.experts), *bias = noise_array(c.experts);
            struct tensor logits = put_f32(m, x, 2, (int64_t[]){n, c.experts});
            if (c.biased) c.opt.bias = put_f32(m, bias, 1, &c.experts);
            struct routes r = route(&m->c, logits, &c.opt);
            int32_t *id = get_i32(m, r.ids);
            float *weight = get(m, r.weights);
            for (int64_t i = 0; i < n; i++)
                check_choice(&c, x + i * c.experts, c.biased ? bias : NULL, id + i * c.opt.top,
                             weight + i * c.opt.top);
            check_order(m, &r, id);
            free(x), free(bias), free(id), free(weight);
            machine_clear(m);
        }
    }
}

static void test_route(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_routes);
}

// Whatever a broken model computes, the choice stays within the experts.
static void check_wild_routes(struct machine *m) {
    const float wild[] = {NAN, NAN,   NAN,       NAN,       INFINITY,  -INFINITY, NAN,
                          0,   1e30f, 3e38f,     -3e38f,    7,         0,         0,
                          0,   0,     -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    for (int kind = ROUTE_SOFTMAX; kind <= ROUTE_TOP_SOFTMAX; kind++)
        for (int64_t groups = 0; groups <= 2; groups += 2) {
            struct route_options o = {(enum route_score)kind, 2, true, 1, .groups = groups};
            o.top_groups = 1;
            struct routes r = route(&m->c, put_f32(m, wild, 2, (int64_t[]){5, 4}), &o);
            int32_t *id = get_i32(m, r.ids);
            for (int i = 0; i < 10; i++) assert_in_range(id[i], 0, 3);
            assert_int_equal(id[6], 0); // of equals, the first
            assert_int_equal(id[7], 1);
            check_order(m, &r, id);
            free(id);
            machine_clear(m);
        }
}

static void test_route_of_anything(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_wild_routes);
}

// --- products ------------------------------------------------------------------------------------

enum { EXPERTS = 6, TOP = 2, IN = 256, OUT = 75 };

struct stack {
    struct matrix matrix[EXPERTS];
    struct weight w[EXPERTS];
    struct matrices experts;
};

static void stack_make(struct machine *m, struct stack *s, const struct layout *l, bool bias) {
    for (int e = 0; e < EXPERTS; e++) {
        s->matrix[e] = make_matrix(m, l, OUT, whole_groups(l, IN));
        s->w[e] = s->matrix[e].w;
        float *b = noise_array(OUT);
        if (bias) s->w[e].bias = put_f32(m, b, 1, (int64_t[]){OUT});
        free(b);
    }
    s->experts = put_matrices(m, s->w, EXPERTS);
}

static void stack_free(struct stack *s) {
    for (int e = 0; e < EXPERTS; e++) matrix_free(&s->matrix[e]);
}

static struct routes some_routes(struct machine *m, int64_t n) {
    float *logits = noise_array(n * EXPERTS);
    for (int64_t i = 0; i < n; i++) logits[i * EXPERTS + 3] = -9; // one that nobody chooses
    struct routes r = route(&m->c, put_f32(m, logits, 2, (int64_t[]){n, EXPERTS}),
                            &(struct route_options){ROUTE_SOFTMAX, TOP, true, 1, .groups = 0});
    free(logits);
    return r;
}

static void expect_single(struct machine *m, struct tensor x, const struct stack *s,
                          const struct routes *r, const float *all) {
    int32_t *id = get_i32(m, r->ids), *order = get_i32(m, r->order);
    for (int64_t i = 0; i < r->order.n[0]; i++) {
        size_t mark = scratch_mark(&m->c);
        float *one = get(m, linear(&m->c, tensor_slice(x, 0, i, 1), &s->w[id[order[i]]]));
        expect_same("expert_linear", all + i * OUT, one, OUT, rows_tolerance(m));
        free(one);
        scratch_release(&m->c, mark);
    }
    free(id), free(order);
}

static void check_products(struct machine *m) {
    for (int l = 0; l < LAYOUTS; l++)
        for (int64_t n = 1; n < 60; n = n * 5 + 2) {
            struct stack s;
            stack_make(m, &s, &layouts[l], l % 2);
            struct routes r = some_routes(m, n);
            int64_t in = whole_groups(&layouts[l], IN);
            float *x = noise_array(n * TOP * in);
            struct tensor t = put_f32(m, x, 2, (int64_t[]){n * TOP, in});
            float *y = get(m, expert_linear(&m->c, t, &r, &s.experts));
            expect_single(m, t, &s, &r, y);
            free(x), free(y);
            stack_free(&s);
            machine_clear(m);
        }
}

static void test_expert_linear(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_products);
    each_machine(PRECISION_NATIVE, check_products);
}

static void check_glu(struct machine *m) {
    static const struct gating kinds[] = {
        {ACT_SILU, 0, 0}, {ACT_SILU, 7, 0}, {ACT_QUICK_GELU, 3, 1}};
    for (int k = 0; k < 3; k++)
        for (int64_t n = 1; n < 30; n = n * 5 + 2) {
            struct stack a, b;
            stack_make(m, &a, &layouts[k ? 9 : 3], true);
            stack_make(m, &b, &layouts[k == 1 ? 6 : 3], k > 0);
            struct routes r = some_routes(m, n);
            float *x = noise_array(n * TOP * IN);
            struct tensor t = put_f32(m, x, 2, (int64_t[]){n * TOP, IN});
            float *y = get(m, expert_glu(&m->c, t, &r, &a.experts, &b.experts, &kinds[k]));
            float *gate = get(m, expert_linear(&m->c, t, &r, &a.experts));
            float *up = get(m, expert_linear(&m->c, t, &r, &b.experts));
            double limit = k ? kinds[k].limit : INFINITY;
            for (int64_t i = 0; i < n * TOP * OUT; i++) {
                double g = fmin(gate[i], limit), u = fmax(fmin(up[i], limit), -limit);
                double slope = kinds[k].act == ACT_SILU ? 1 : 1.702;
                double want = g / (1 + exp(-slope * g)) * (u + kinds[k].plus);
                expect_near("expert_glu", i, y[i], want, 2e-6 * fabs(want) + 1e-6);
            }
            free(x), free(y), free(gate), free(up);
            stack_free(&a), stack_free(&b);
            machine_clear(m);
        }
}

static void test_expert_glu(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_glu);
    each_machine(PRECISION_NATIVE, check_glu);
}

// Experts of one published tensor, and rows that are not gathered.
static void check_stacked(struct machine *m) {
    static const int kinds[] = {2, 4, LAYOUTS - 1};
    static const int64_t rows[] = {1, 3, 40};
    for (int k = 0; k < 3 * 6; k++) {
        int64_t in = k / 3 % 2 ? 2304 : 832, n = rows[k / 6], m_rows = n * TOP;
        struct matrix all[2];
        struct weight w[2][EXPERTS];
        struct matrices stacks[2];
        for (int i = 0; i < 2; i++) {
            all[i] = make_matrix(m, &layouts[kinds[k % 3]], EXPERTS * OUT, in);
            for (int e = 0; e < EXPERTS; e++) w[i][e] = weight_rows(&all[i].w, e * OUT, OUT, 1);
            stacks[i] = put_matrices(m, w[i], EXPERTS);
        }
        struct routes r = some_routes(m, n);
        struct gating g = {ACT_SILU, k % 2 ? 7 : 0, (float)(k % 2)};
        float *x = noise_array(n * in), *to = noise_array(n * OUT);
        struct tensor t = put_f32(m, x, 2, (int64_t[]){n, in}), each = gather_rows(&m->c, t, r.row);
        struct tensor y = expert_glu_rows(&m->c, t, &r, &stacks[0], &stacks[1], &g);
        float *got = get(m, y);
        float *want = get(m, expert_glu(&m->c, each, &r, &stacks[0], &stacks[1], &g));
        expect_same("expert_glu_rows", got, want, m_rows * OUT, 1e-5);
        free(want);
        int32_t *id = get_i32(m, r.ids), *order = get_i32(m, r.order);
        float *gate = get(m, expert_linear(&m->c, each, &r, &stacks[0]));
        for (int64_t i = 0; i < m_rows; i++) {
            struct tensor row = tensor_slice(each, 0, i, 1);
            want = get(m, linear(&m->c, row, &w[0][id[order[i]]]));
            expect_same("an expert", gate + i * OUT, want, OUT, rows_tolerance(m));
            float *up = get(m, linear(&m->c, row, &w[1][id[order[i]]]));
            double both[OUT], most = 0;
            for (int64_t o = 0; o < OUT; o++) {
                double a = (double)want[o], b = (double)up[o], limit = (double)g.limit;
                if (limit > 0) a = fmin(a, limit), b = fmax(fmin(b, limit), -limit);
                both[o] = a / (1 + exp(-a)) * (b + (double)g.plus);
                most = fmax(most, fabs(both[o]));
            }
            for (int64_t o = 0; o < OUT; o++)
                expect_near("a gated expert", o, got[i * OUT + o], both[o],
                            4 * rows_tolerance(m) * most);
            free(want), free(up);
        }
        const int64_t shape[] = {n, OUT};
        want = get(m, add_to(&m->c, put_f32(m, to, 2, shape), expert_sum(&m->c, y, &r)));
        float *sum = get(m, expert_sum_to(&m->c, put_f32(m, to, 2, shape), y, &r));
        expect_same("expert_sum_to", sum, want, n * OUT, 1e-6);
        free(x), free(to), free(got), free(want), free(sum), free(gate), free(id), free(order);
        matrix_free(&all[0]), matrix_free(&all[1]);
        machine_clear(m);
    }
}

static void test_stacked_experts(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_stacked);
    each_machine(PRECISION_NATIVE, check_stacked);
}

static void check_sum(struct machine *m) {
    for (int64_t n = 1; n < 300; n = n * 5 + 2)
        for (int64_t width = 1; width < 200; width = width * 7 + 5) {
            struct routes r = some_routes(m, n);
            float *x = noise_array(n * TOP * width), *weight = get(m, r.weights);
            int32_t *place = get_i32(m, r.place);
            struct tensor t = put_f32(m, x, 2, (int64_t[]){n * TOP, width});
            if (width % 2) { // as they are
                r.weights = (struct tensor){0};
                for (int64_t i = 0; i < n * TOP; i++) weight[i] = 1;
            }
            float *y = get(m, expert_sum(&m->c, t, &r));
            for (int64_t i = 0; i < n * width; i++) {
                double want = 0, size = 0;
                for (int64_t k = i / width * TOP; k < (i / width + 1) * TOP; k++) {
                    want += (double)weight[k] * x[place[k] * width + i % width];
                    size += fabs((double)weight[k] * x[place[k] * width + i % width]);
                }
                expect_near("expert_sum", i, y[i], want, 1e-6 * size);
            }
            free(x), free(weight), free(place), free(y);
            machine_clear(m);
        }
}

static void test_expert_sum(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_sum);
}

static void check_row_ops(struct machine *m) {
    enum { ROWS = 9, WIDTH = 203, N = ROWS * WIDTH };
    float *x = noise_array(N), *by = noise_array(ROWS);
    x[5] = INFINITY, x[6] = -INFINITY, x[N - 1] = 4;
    struct tensor t = put_f32(m, x, 2, (int64_t[]){ROWS, WIDTH});
    float *y = get(m, clamp(&m->c, t, -1, 1.5f, 1));
    for (int i = 0; i < N; i++) assert_true(y[i] == fminf(fmaxf(x[i], -1), 1.5f) + 1);
    float *z = get(m, scale_rows(&m->c, t, put_f32(m, by, 2, (int64_t[]){ROWS, 1})));
    for (int i = 0; i < N; i++) assert_true(z[i] == y[i] * by[i / WIDTH]);
    free(x), free(y), free(z), free(by);
}

static void test_row_ops(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_row_ops);
}

// --- from the router on --------------------------------------------------------------------------

// Experts of one published tensor, whose width is that of one of the parts of a shared one.
struct many {
    int64_t hidden, width, experts, shared; // shared: parts
    int layout, router;                     // of layouts
    struct route_options route;
    struct gating gating;
    bool weigh_input, weighed, normed, biased;
};

static const struct many many[] = {
    {256,
     96,
     9,
     0,
     24,
     4,
     {ROUTE_SOFTMAX, 3, true, 1, .groups = 0},
     {ACT_SILU, 0, 0},
     .normed = true},
    {2048,
     64,
     5,
     1,
     4,
     7,
     {ROUTE_SOFTMAX, 4, false, 1, .groups = 0},
     {ACT_SILU, 0, 0},
     .weighed = true,
     .normed = true},
    {64,
     640,
     12,
     2,
     24,
     2,
     {ROUTE_SIGMOID, 8, true, 2.5f, {0}, 4, 3, GROUP_BEST_TWO},
     {ACT_SILU, 0, 0},
     .normed = true,
     .biased = true},
    {8256,
     32,
     3,
     0,
     24,
     0,
     {ROUTE_TOP_SOFTMAX, 2, false, 1, .groups = 0},
     {ACT_QUICK_GELU, 3, 1},
     .biased = true},
    {64,
     32,
     140,
     0,
     24,
     4,
     {ROUTE_SOFTMAX, 9, true, 1, .groups = 0},
     {ACT_SILU, 0, 0},
     .normed = false},
    {256,
     128,
     4,
     1,
     4,
     4,
     {ROUTE_SIGMOID, 1, false, 1, .groups = 0},
     {ACT_SILU, 0, 0},
     .weigh_input = true,
     .weighed = true},
    {128,
     128,
     5,
     0,
     2,
     2,
     {ROUTE_SOFTMAX, 2, true, 1, .groups = 0},
     {ACT_GELU_TANH, 0, 0},
     .normed = true},
};

// Matrices [experts * out, in], and those of one expert.
struct pile {
    struct matrix all;
    struct weight *w;
    struct matrices stack;
};

static struct pile pile_make(struct machine *m, int layout, int64_t n, int64_t out, int64_t in) {
    struct pile p = {
        make_matrix(m, &layouts[layout], n * out, in), mem_array((size_t)n, sizeof *p.w), {0}};
    for (int64_t i = 0; i < n; i++) p.w[i] = weight_rows(&p.all.w, i * out, out, 1);
    p.stack = put_matrices(m, p.w, n);
    return p;
}

static void pile_free(struct pile *p) {
    matrix_free(&p->all);
    free(p->w);
}

static double gate_of(double gate, double up, const struct gating *g) {
    if (g->limit > 0) {
        gate = fmin(gate, (double)g->limit);
        up = fmax(fmin(up, (double)g->limit), -(double)g->limit);
    }
    double inner = 0.7978845608028654 * (gate + 0.044715 * gate * gate * gate);
    double slope = g->act == ACT_QUICK_GELU ? 1.702 * gate : gate;
    if (g->act == ACT_GELU_TANH) slope = 2 * inner;
    return gate / (1 + exp(-slope)) * (up + (double)g->plus);
}

// Relative to the greatest: sums in f32, twice; x and halves to 8 bits in blocks on the CPU, to
// bf16 for few rows on a GPU, to 16 bits for one.
static double mixture_tolerance(const struct machine *m, int64_t n, const struct many *k) {
    bool fine = !on_cpu() && n == 1 && k->layout != 2;
    if (m->c.precision == PRECISION_F32) return 1e-5;
    return fine ? 2e-4 : 0x1p-4;
}

// y += weight * MLP(x * before)
static void add_expert(const struct many *k, const double *x, double before, double weight,
                       const double *gate, const double *up, const double *down, int64_t width,
                       int64_t ld_down, double *y) {
    double *half = mem_array((size_t)width, sizeof *half);
    for (int64_t o = 0; o < width; o++) {
        double a = 0, b = 0;
        for (int64_t i = 0; i < k->hidden; i++) {
            a += x[i] * gate[o * k->hidden + i];
            b += x[i] * up[o * k->hidden + i];
        }
        half[o] = gate_of(a * before, b * before, &k->gating);
    }
    for (int64_t o = 0; o < k->hidden; o++)
        for (int64_t i = 0; i < width; i++) y[o] += weight * half[i] * down[o * ld_down + i];
    free(half);
}

static void check_mixture_rows(struct machine *m, const struct many *k, int64_t n) {
    int64_t top = k->route.top, wide = k->shared * k->width;
    struct pile w[3];
    for (int i = 0; i < 3; i++)
        w[i] = pile_make(m, k->layout, k->experts, i == 2 ? k->hidden : k->width,
                         i == 2 ? k->width : k->hidden);
    struct matrix router = make_matrix(m, &layouts[k->router], k->experts, k->hidden), shared[4];
    for (int i = 0; i < 4 && k->shared; i++)
        shared[i] = make_matrix(m, &layouts[i == 3 ? k->router : k->layout],
                                i == 2   ? k->hidden
                                : i == 3 ? 1
                                         : wide,
                                i == 2 ? wide : k->hidden);
    float *x = noise_array(n * k->hidden), *norm = noise_array(k->hidden);
    float *bias = noise_array(k->experts), *to = noise_array(n * k->hidden);
    struct mixture mix = {.router = &router.w, .route = k->route, .gating = k->gating};
    mix.gate = w[0].stack, mix.up = w[1].stack, mix.down = w[2].stack;
    mix.weigh_input = k->weigh_input;
    if (k->biased) mix.route.bias = put_f32(m, bias, 1, &k->experts);
    if (k->shared) {
        mix.shared_gate = &shared[0].w, mix.shared_up = &shared[1].w,
        mix.shared_down = &shared[2].w;
        if (k->weighed) mix.shared_weight = &shared[3].w;
    }
    const int64_t shape[] = {n, k->hidden};
    struct tensor t = put_f32(m, x, 2, shape), h = t;
    struct rms rms = {put_f32(m, norm, 1, &k->hidden), 1e-5f};
    if (k->normed) h = rms_norm(&m->c, t, rms.w, rms.eps);
    struct routes r = route(&m->c, linear_f32(&m->c, h, &router.w), &mix.route);
    int32_t *id = get_i32(m, r.ids);
    float *weight = get(m, r.weights), *normed = get(m, h);
    const struct rms *own = k->normed ? &rms : NULL;
    struct tensor sum = put_f32(m, to, 2, shape);
    float *alone = get(m, mixture(&m->c, t, own, &mix, (struct tensor){0}));
    float *added = get(m, mixture(&m->c, t, own, &mix, sum));
    float *inside = get(m, mixture(&m->c, t, own, &mix, t)); // as a residual stream is
    double *in = mem_array((size_t)k->hidden, 8), *y = mem_array((size_t)k->hidden, 8);
    for (int64_t i = 0; i < n; i++) {
        double most = 0;
        for (int64_t j = 0; j < k->hidden; j++) in[j] = normed[i * k->hidden + j], y[j] = 0;
        for (int64_t j = 0; j < top; j++) {
            int64_t at = id[i * top + j] * k->width * k->hidden;
            double by = weight[i * top + j];
            add_expert(k, in, k->weigh_input ? by : 1, k->weigh_input ? 1 : by, w[0].all.value + at,
                       w[1].all.value + at, w[2].all.value + at, k->width, k->width, y);
        }
        double part = 0;
        for (int64_t j = 0; j < k->hidden && k->shared; j++) part += in[j] * shared[3].value[j];
        if (k->shared)
            add_expert(k, in, 1, k->weighed ? 1 / (1 + exp(-part)) : 1, shared[0].value,
                       shared[1].value, shared[2].value, wide, wide, y);
        for (int64_t j = 0; j < k->hidden; j++) most = fmax(most, fabs(y[j]));
        double near = mixture_tolerance(m, n, k) * most;
        for (int64_t j = 0; j < k->hidden; j++) {
            int64_t at = i * k->hidden + j;
            expect_near("a mixture", j, alone[at], y[j], near);
            expect_near("a mixture that is added", j, added[at] - to[at], y[j], near);
            expect_near("a mixture that is added to its input", j, inside[at] - x[at], y[j], near);
        }
    }
    for (int i = 0; i < 3; i++) pile_free(&w[i]);
    for (int i = 0; i < 4 && k->shared; i++) matrix_free(&shared[i]);
    matrix_free(&router);
    free(x), free(norm), free(bias), free(to), free(id), free(weight), free(normed);
    free(alone), free(added), free(inside), free(in), free(y);
    machine_clear(m);
}

static void check_mixtures(struct machine *m) {
    for (size_t k = 0; k < sizeof many / sizeof *many; k++)
        for (int64_t n = 1; n < 4; n += 2) check_mixture_rows(m, &many[k], n);
}

static void test_mixture(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_mixtures);
    each_machine(PRECISION_NATIVE, check_mixtures);
}

// --- contracts -----------------------------------------------------------------------------------

// A dry run measures at least what the real one takes, and no choice of experts takes more.
static void check_dry(struct machine *m) {
    struct stack s;
    stack_make(m, &s, &layouts[3], true);
    struct error e = {0};
    struct context dry;
    assert_true(context_open(&dry, m->dev, PRECISION_NATIVE, 0, true, &e));
    for (int64_t n = 1; n < 40; n += 13) {
        struct context *both[] = {&dry, &m->c};
        struct tensor x = put_f32(m, (float[40 * IN]){0}, 2, (int64_t[]){n, IN});
        struct tensor logits = put_f32(m, (float[40 * EXPERTS]){0}, 2, (int64_t[]){n, EXPERTS});
        for (int i = 0; i < 2; i++) {
            both[i]->peak = both[i]->used;
            struct routes r = route(
                both[i], logits, &(struct route_options){ROUTE_SIGMOID, TOP, true, 1, .groups = 0});
            struct tensor each = gather_rows(both[i], x, r.row);
            expert_sum(both[i],
                       expert_glu(both[i], each, &r, &s.experts, &s.experts,
                                  &(struct gating){ACT_SILU, 0, 0}),
                       &r);
            assert_false(both[i]->err.set);
            scratch_release(both[i], 0);
        }
        assert_true(dry.peak >= m->c.peak && m->c.peak > 0);
    }
    context_close(&dry);
    stack_free(&s);
}

static void test_dry_run(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_dry);
}

static void expect_refused(struct machine *m, const char *want) {
    assert_true(m->c.err.set);
    assert_non_null(strstr(m->c.err.text, want));
    m->c.err = (struct error){0};
    scratch_release(&m->c, 0);
}

static void test_refused(void **state) {
    (void)state;
    struct machine m;
    machine_open(&m, ISA_BEST, 1, PRECISION_NATIVE);
    struct tensor logits = put_f32(&m, (float[12]){0}, 2, (int64_t[]){2, 6});
    route(&m.c, logits, &(struct route_options){ROUTE_SIGMOID, 7, true, 1, .groups = 0});
    expect_refused(&m, "7 experts cannot be chosen of 6");
    route(&m.c, logits, &(struct route_options){ROUTE_SIGMOID, 2, true, 1, {0}, 4, 2, GROUP_BEST});
    expect_refused(&m, "2 of 4 groups do not fit 6 experts");
    route(&m.c, logits, &(struct route_options){ROUTE_SIGMOID, 4, true, 1, {0}, 2, 1, GROUP_BEST});
    expect_refused(&m, "1 of 2 groups do not fit 6 experts");
    struct stack s;
    stack_make(&m, &s, &layouts[0], false);
    struct routes r = some_routes(&m, 2);
    struct tensor x = put_f32(&m, (float[4 * IN]){0}, 2, (int64_t[]){4, IN});
    s.w[4].out--;
    expert_linear(&m.c, x, &r, &s.experts);
    expect_refused(&m, "matrix 4 is not of the same kind as matrix 0");
    s.w[4].out++, s.w[5].in++;
    expert_linear(&m.c, x, &r, &s.experts);
    expect_refused(&m, "matrix 5 is not of the same kind as matrix 0");
    stack_free(&s);
    machine_close(&m);
}

int main(int argc, char **argv) {
    test_options(argc, argv);
    unsetenv("MLXCEL_CPU_ISA"); // the tests choose
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_route),           cmocka_unit_test(test_route_of_anything),
        cmocka_unit_test(test_expert_linear),   cmocka_unit_test(test_expert_glu),
        cmocka_unit_test(test_stacked_experts), cmocka_unit_test(test_expert_sum),
        cmocka_unit_test(test_row_ops),         cmocka_unit_test(test_mixture),
        cmocka_unit_test(test_dry_run),         cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
