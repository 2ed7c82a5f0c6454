// The recurrent ops of every instruction set, against their definitions token by token in double
// precision; and bit for bit the same however sequences are cut into runs and mixed in steps.
#include "machine.h"

#include "compute/recurrent.h"

enum { INPUTS = 6, SEQUENCES = 4, MOST = 200 };

// Lengths that end inside a chunk, at its end, one past it, and cross several.
static const int64_t lengths[SEQUENCES] = {MOST, 3, SSD_CHUNK, 2 * SSD_CHUNK + 1};

struct trial {
    struct tensor (*run)(struct machine *m, const struct trial *t, const struct tensor in[INPUTS],
                         const struct rows *rows, struct tensor state);
    // one sequence: in[k] [n, width[k]] -> want [n, out]; size gets what f32 arithmetic rounds
    void (*define)(const struct trial *t, const float *const in[INPUTS], int64_t n, double *want,
                   double *size);
    int64_t width[INPUTS], out, elements;    // of inputs (0: none), the output, the state
    void (*prepare)(struct trial *t, int s); // what the noise of t->in[s] should be; or NULL
    int64_t p[6];                            // the op's own dimensions
    const float *table[4];
    double tolerance;
    float *in[SEQUENCES][INPUTS], *got[SEQUENCES]; // [length, width]
};

struct piece {
    int64_t seq, from, n;
};

// One step of these pieces; what it gives is put where it belongs in t->got.
static void run_step(struct machine *m, struct trial *t, const struct piece *piece, int64_t pieces,
                     struct tensor state) {
    int32_t index[SEQUENCES * MOST], seq[SEQUENCES * MOST], run[SEQUENCES + 1];
    int64_t n = 0;
    float *all[INPUTS];
    for (int k = 0; k < INPUTS; k++)
        all[k] = mem_array((size_t)(SEQUENCES * MOST * (t->width[k] + 1)), sizeof(float));
    for (int64_t i = 0; i < pieces; i++) {
        run[i] = (int32_t)n;
        for (int64_t r = 0; r < piece[i].n; r++, n++) {
            index[n] = (int32_t)(piece[i].from + r);
            seq[n] = (int32_t)piece[i].seq;
            for (int k = 0; k < INPUTS; k++)
                memcpy(all[k] + n * (t->width[k] + 1),
                       t->in[piece[i].seq][k] + index[n] * t->width[k],
                       (size_t)t->width[k] * sizeof(float));
        }
    }
    run[pieces] = (int32_t)n;
    struct rows rows = {.n = n, .runs = pieces, .index = put_i32(m, index, n)};
    rows.seq = put_i32(m, seq, n);
    rows.run = put_i32(m, run, pieces + 1);
    struct tensor in[INPUTS] = {0};
    for (int k = 0; k < INPUTS; k++) { // a band of wider rows, as of a projection
        if (t->width[k])
            in[k] = tensor_slice(put_f32(m, all[k], 2, (int64_t[]){n, t->width[k] + 1}), 1, 0,
                                 t->width[k]);
        free(all[k]);
    }
    float *y = get(m, t->run(m, t, in, &rows, state));
    for (int64_t i = 0; i < n; i++)
        memcpy(t->got[seq[i]] + index[i] * t->out, y + i * t->out, (size_t)t->out * sizeof(float));
    free(y);
}

// The state as the engine has it: rows further apart than they are long.
static struct tensor put_state(struct machine *m, const struct trial *t) {
    int64_t ld = t->elements + 16;
    float *zeros = mem_array((size_t)(SEQUENCES * ld), sizeof *zeros);
    struct tensor all = put_f32(m, zeros, 2, (int64_t[]){SEQUENCES, ld});
    free(zeros);
    return tensor_slice(all, 1, 0, t->elements);
}

static void run_alone(struct machine *m, struct trial *t) {
    struct tensor state = put_state(m, t);
    for (int64_t s = 0; s < SEQUENCES; s++) {
        struct piece whole = {s, 0, lengths[s]};
        run_step(m, t, &whole, 1, state);
    }
    machine_clear(m);
}

static void run_mixed(struct machine *m, struct trial *t, int64_t longest) {
    struct tensor state = put_state(m, t);
    int64_t done[SEQUENCES] = {0};
    for (bool any = true; any;) {
        struct piece piece[SEQUENCES];
        int64_t pieces = 0;
        any = false;
        for (int64_t k = 0; k < SEQUENCES; k++) {
            int64_t s = SEQUENCES - 1 - k, left = lengths[s] - done[s];
            any = any || left;
            int64_t n = longest > 1 ? random_bits() % (longest + 1) : 1;
            if (n > left) n = left;
            if (!n) continue;
            piece[pieces++] = (struct piece){s, done[s], n};
            done[s] += n;
        }
        size_t mark = scratch_mark(&m->c);
        int held = m->count;
        if (pieces) run_step(m, t, piece, pieces, state);
        scratch_release(&m->c, mark);
        while (m->count > held) device_free(m->dev, m->held[--m->count]);
    }
    machine_clear(m);
}

// In native precision a GPU computes long runs by products whose operands are in bf16, each of
// which is off by up to 2^-9; sums of many are off by 2^-8 of their spread (measured: 3e-3 to
// 5e-3), and none by 2^-6 of the greatest (measured: 8e-3). What is wrong is off by as much as
// there is.
static void check_rounded(const char *what, const float *got, const double *want, int64_t n) {
    double sum = 0, off = 0, most = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += want[i] * want[i], off += pow(got[i] - want[i], 2);
        most = fmax(most, fabs(want[i]));
    }
    for (int64_t i = 0; i < n; i++) expect_near(what, i, got[i], want[i], 0x1p-6 * most);
    expect_near(what, n, sqrt(off / sum), 0, 0x1p-7);
}

static bool rounds(const struct machine *m) {
    return m->c.precision == PRECISION_NATIVE && !on_cpu();
}

static void check_definition(const struct machine *m, const struct trial *t, const char *what,
                             int64_t s) {
    int64_t n = lengths[s] * t->out;
    double *want = mem_array((size_t)n, sizeof *want), *size = mem_array((size_t)n, sizeof *size);
    t->define(t, (const float *const *)t->in[s], lengths[s], want, size);
    if (rounds(m)) check_rounded(what, t->got[s], want, n);
    for (int64_t i = 0; i < n && !rounds(m); i++)
        expect_near(what, i, t->got[s][i], want[i], t->tolerance * size[i]);
    free(want), free(size);
}

static void check_trial(struct machine *m, struct trial *t, const char *what) {
    float *alone[SEQUENCES];
    for (int s = 0; s < SEQUENCES; s++) {
        for (int k = 0; k < INPUTS; k++) t->in[s][k] = noise_array(lengths[s] * t->width[k] + 1);
        if (t->prepare) t->prepare(t, s);
        alone[s] = t->got[s] = mem_array((size_t)(lengths[s] * t->out), sizeof(float));
    }
    run_alone(m, t);
    for (int s = 0; s < SEQUENCES; s++) check_definition(m, t, what, s);
    static const int64_t longest[] = {1, 2, 7, 45, 150};
    for (int k = 0; k < 5; k++) {
        for (int s = 0; s < SEQUENCES; s++)
            t->got[s] = mem_array((size_t)(lengths[s] * t->out), sizeof(float));
        run_mixed(m, t, longest[k]);
        for (int s = 0; s < SEQUENCES; s++) {
            expect_same(what, t->got[s], alone[s], lengths[s] * t->out, rounds(m) ? 0x1p-6 : 1e-6);
            free(t->got[s]);
        }
    }
    for (int s = 0; s < SEQUENCES; s++) {
        for (int k = 0; k < INPUTS; k++) free(t->in[s][k]);
        free(alone[s]);
    }
}

// --- convolve: p channels, taps, bias -----------------------------------------------------------

static struct tensor run_convolve(struct machine *m, const struct trial *t,
                                  const struct tensor in[INPUTS], const struct rows *rows,
                                  struct tensor state) {
    struct tensor w = put_f32(m, t->table[0], 2, (int64_t[]){t->p[1], t->p[0]}), b = {0};
    if (t->p[2]) b = put_f32(m, t->table[1], 1, t->p);
    return convolve(&m->c, in[0], w, b, rows, state);
}

static void define_convolve(const struct trial *t, const float *const in[INPUTS], int64_t n,
                            double *want, double *size) {
    int64_t channels = t->p[0], taps = t->p[1];
    for (int64_t i = 0; i < n * channels; i++) {
        int64_t row = i / channels, c = i % channels;
        want[i] = t->p[2] ? t->table[1][c] : 0;
        size[i] = fabs(want[i]);
        for (int64_t k = 0; k < taps && k <= row; k++) {
            double term = (double)in[0][(row - k) * channels + c] *
                          t->table[0][(taps - 1 - k) * channels + c];
            want[i] += term;
            size[i] += fabs(term);
        }
    }
}

static void check_convolve(struct machine *m) {
    static const int64_t shapes[][3] = {{1, 2, 0}, {7, 3, 1}, {16, 4, 1}, {530, 4, 0}, {33, 16, 1}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int64_t channels = shapes[s][0], taps = shapes[s][1];
        struct trial t = {run_convolve, define_convolve, .width = {channels}, .out = channels};
        memcpy(t.p, shapes[s], sizeof shapes[s]);
        t.elements = convolve_state(channels, taps);
        t.tolerance = 1e-6;
        float *w = noise_array(taps * channels), *b = noise_array(channels);
        t.table[0] = w, t.table[1] = b;
        check_trial(m, &t, "convolve");
        free(w), free(b);
    }
}

static void test_convolve(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_convolve);
}

// --- convolve_many: p channels, taps, bias, columns of a band, of a head -------------------------

enum { BAND_FROM = 2, BAND_APART = 3 }; // of bands: where they begin, columns from one to the next

static struct tensor run_convolve_many(struct machine *m, const struct trial *t,
                                       const struct tensor in[INPUTS], const struct rows *rows,
                                       struct tensor state) {
    int64_t half = t->p[0] / 2, kept = convolve_state(half, t->p[1]);
    struct convolution v[2];
    struct tensor y[2];
    for (int i = 0; i < 2; i++) {
        v[i] = (struct convolution){.x = in[i], .act = ACT_SILU, .head = t->p[4], .length = 0.5f};
        v[i].state = tensor_slice(state, 1, i * kept, kept);
        v[i].w = put_f32(m, t->table[i], 2, (int64_t[]){t->p[1], half});
        if (t->p[2]) v[i].b = put_f32(m, t->table[2 + i], 1, &half);
        if (i == 0) continue;
        v[i].period = t->p[3] + BAND_APART, v[i].from = BAND_FROM, v[i].count = t->p[3];
    }
    convolve_many(&m->c, 2, v, rows, y);
    return join(&m->c, tensor_split_heads(y[0], 1), tensor_split_heads(y[1], 1));
}

// Half `i` of a row.
static void define_around(const struct trial *t, const float *x, int i, int64_t row, double *want,
                          double *size) {
    int64_t half = t->p[0] / 2, taps = t->p[1], count = t->p[3];
    for (int64_t c = 0; c < half; c++) {
        int64_t column = i ? c / count * (count + BAND_APART) + BAND_FROM + c % count : c;
        want[c] = t->p[2] ? t->table[2 + i][c] : 0;
        size[c] = fabs(want[c]);
        for (int64_t k = 0; k < taps && k <= row; k++) {
            double term = (double)x[(row - k) * t->width[i] + column] *
                          t->table[i][(taps - 1 - k) * half + c];
            want[c] += term;
            size[c] += fabs(term);
        }
        want[c] /= 1 + exp(-want[c]);
    }
    for (int64_t h = 0; t->p[4] && h < half; h += t->p[4]) {
        double sum = 1e-6, most = 0;
        for (int64_t c = h; c < h + t->p[4]; c++)
            sum += want[c] * want[c], most = fmax(most, size[c]);
        for (int64_t c = h; c < h + t->p[4]; c++) {
            want[c] *= 0.5 / sqrt(sum);
            size[c] = most * 0.5 / sqrt(sum) + fabs(want[c]);
        }
    }
}

static void define_convolve_many(const struct trial *t, const float *const in[INPUTS], int64_t n,
                                 double *want, double *size) {
    int64_t half = t->p[0] / 2;
    for (int64_t at = 0; at < 2 * n; at++)
        define_around(t, in[at % 2], (int)(at % 2), at / 2, want + at * half, size + at * half);
}

static void check_convolve_many(struct machine *m) {
    static const int64_t shapes[][5] = {
        {128, 4, 1, 16, 32}, {768, 4, 0, 128, 128}, {48, 3, 1, 6, 12}, {640, 16, 0, 64, 0}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        const int64_t *p = shapes[s];
        int64_t half = p[0] / 2, wide = half / p[3] * (p[3] + BAND_APART);
        struct trial t = {run_convolve_many, define_convolve_many, .width = {half, wide}};
        t.out = p[0], t.elements = convolve_state(p[0], p[1]), t.tolerance = 3e-6;
        memcpy(t.p, p, sizeof shapes[s]);
        for (int i = 0; i < 4; i++) t.table[i] = noise_array(half * (i < 2 ? p[1] : 1));
        check_trial(m, &t, "convolve_many");
        for (int i = 0; i < 4; i++) free((float *)t.table[i]);
    }
}

static void test_convolve_many(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_convolve_many);
}

// --- selective_scan: p channels, states ----------------------------------------------------------

static struct tensor run_scan(struct machine *m, const struct trial *t,
                              const struct tensor in[INPUTS], const struct rows *rows,
                              struct tensor state) {
    struct scan_inputs inputs = {in[0], in[1], in[2], in[3]};
    struct tensor a = put_f32(m, t->table[0], 2, (int64_t[]){t->p[1], t->p[0]});
    return selective_scan(&m->c, &inputs, a, put_f32(m, t->table[1], 1, t->p), rows, state);
}

static double softplus(double x) { return x > 30 ? x : log1p(exp(x)); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static void define_scan(const struct trial *t, const float *const in[INPUTS], int64_t n,
                        double *want, double *size) {
    int64_t channels = t->p[0], states = t->p[1];
    double *h = mem_array((size_t)(channels * states), 8),
           *g = mem_array((size_t)(channels * states), 8);
    for (int64_t i = 0; i < n * channels; i++) {
        int64_t row = i / channels, c = i % channels;
        double dt = softplus(in[1][i]), x = in[0][i];
        want[i] = t->table[1][c] * x;
        size[i] = fabs(want[i]);
        for (int64_t k = 0; k < states; k++) {
            int64_t at = k * channels + c;
            double keep = exp(dt * t->table[0][at]), take = dt * x * in[2][row * states + k];
            h[at] = keep * h[at] + take;
            g[at] = keep * g[at] + fabs(take); // had nothing cancelled
            want[i] += h[at] * in[3][row * states + k];
            size[i] += g[at] * fabs((double)in[3][row * states + k]);
        }
    }
    free(h), free(g);
}

static float *negative_array(int64_t n) {
    float *a = mem_array((size_t)n, sizeof *a);
    for (int64_t i = 0; i < n; i++) a[i] = (float)-exp(3 * uniform() - 3);
    return a;
}

// exp and softplus are within 2 ulp, and a state gathers some ten tokens' worth of that.
static void check_scan(struct machine *m) {
    static const int64_t shapes[][2] = {{1, 1}, {5, 16}, {16, 3}, {67, 16}, {150, 5}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int64_t channels = shapes[s][0], states = shapes[s][1];
        struct trial t = {run_scan, define_scan, .out = channels, .elements = channels * states};
        memcpy(t.width, (int64_t[INPUTS]){channels, channels, states, states}, sizeof t.width);
        memcpy(t.p, shapes[s], sizeof shapes[s]);
        t.tolerance = 3e-6;
        float *a = negative_array(channels * states), *d = noise_array(channels);
        t.table[0] = a, t.table[1] = d;
        check_trial(m, &t, "selective_scan");
        free(a), free(d);
    }
}

static void test_selective_scan(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_scan);
}

// --- ssd_scan: p heads, width, groups, states ----------------------------------------------------

static const float limits[2] = {0.05f, 1.5f};

static struct tensor run_ssd(struct machine *m, const struct trial *t,
                             const struct tensor in[INPUTS], const struct rows *rows,
                             struct tensor state) {
    struct ssd_inputs inputs = {in[0], in[1], in[2], in[3]};
    struct ssd s = {t->p[0], t->p[1], t->p[2], t->p[3], limits[0], limits[1], .a = {0}};
    s.a = put_f32(m, t->table[0], 1, t->p);
    s.d = put_f32(m, t->table[1], 1, t->p);
    s.dt_bias = put_f32(m, t->table[2], 1, t->p);
    return ssd_scan(&m->c, &inputs, &s, rows, state);
}

// One head of one token; h [states, width], and g as if nothing had cancelled.
static void define_head(const struct trial *t, const float *x, double dt, const float *b,
                        const float *c, int64_t head, double *h, double *g, double *want,
                        double *size) {
    int64_t width = t->p[1], states = t->p[3];
    double keep = exp(dt * t->table[0][head]), d = t->table[1][head];
    for (int64_t i = 0; i < width; i++) {
        want[i] = d * x[i];
        size[i] = fabs(want[i]);
        for (int64_t k = 0; k < states; k++) {
            double take = dt * x[i] * b[k], *to = h + k * width + i, *abs = g + k * width + i;
            *to = keep * *to + take;
            *abs = keep * *abs + fabs(take);
            want[i] += *to * c[k];
            size[i] += *abs * fabs((double)c[k]);
        }
    }
}

static void define_ssd(const struct trial *t, const float *const in[INPUTS], int64_t n,
                       double *want, double *size) {
    int64_t heads = t->p[0], width = t->p[1], groups = t->p[2], states = t->p[3];
    size_t each = (size_t)(states * width);
    double *h = mem_array((size_t)heads * each, 8), *g = mem_array((size_t)heads * each, 8);
    for (int64_t i = 0; i < n * heads; i++) {
        int64_t row = i / heads, head = i % heads, group = head / (heads / groups);
        double dt = softplus((double)in[1][i] + t->table[2][head]);
        dt = fmin(fmax(dt, limits[0]), limits[1]);
        int64_t bc = (row * groups + group) * states;
        define_head(t, in[0] + i * width, dt, in[2] + bc, in[3] + bc, head, h + head * each,
                    g + head * each, want + i * width, size + i * width);
    }
    free(h), free(g);
}

static void check_ssd(struct machine *m) {
    static const int64_t shapes[][4] = {{1, 1, 1, 1},   {2, 16, 1, 24},  {6, 5, 2, 7},
                                        {5, 64, 5, 16}, {12, 33, 2, 40}, {3, 80, 1, 129},
                                        {4, 64, 2, 128}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int64_t heads = shapes[s][0], width = shapes[s][1], groups = shapes[s][2];
        int64_t states = shapes[s][3];
        struct trial t = {run_ssd, define_ssd, .out = heads * width};
        t.elements = ssd_state(heads, width, groups, states);
        memcpy(t.width, (int64_t[INPUTS]){heads * width, heads, groups * states, groups * states},
               sizeof t.width);
        memcpy(t.p, shapes[s], sizeof shapes[s]);
        t.tolerance = 3e-6;
        float *a = negative_array(heads), *d = noise_array(heads), *bias = noise_array(heads);
        t.table[0] = a, t.table[1] = d, t.table[2] = bias;
        check_trial(m, &t, "ssd_scan");
        free(a), free(d), free(bias);
    }
}

static void test_ssd_scan(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_ssd);
    if (!on_cpu()) one_machine(ISA_BEST, 1, PRECISION_NATIVE, check_ssd);
}

// --- gated_lru: p width --------------------------------------------------------------------------

static struct tensor run_lru(struct machine *m, const struct trial *t,
                             const struct tensor in[INPUTS], const struct rows *rows,
                             struct tensor state) {
    struct lru_inputs inputs = {in[0], in[1], in[2]};
    return gated_lru(&m->c, &inputs, put_f32(m, t->table[0], 1, t->p), rows, state);
}

static void define_lru(const struct trial *t, const float *const in[INPUTS], int64_t n,
                       double *want, double *size) {
    int64_t width = t->p[0];
    for (int64_t i = 0; i < n * width; i++) {
        double log_a = t->table[0][i % width] * sigmoid(in[1][i]), x = sigmoid(in[2][i]) * in[0][i];
        bool first = i < width;
        if (!first) x *= sqrt(-expm1(2 * log_a));
        want[i] = x + (first ? 0 : exp(log_a) * want[i - width]);
        size[i] = fabs(x) + (first ? 0 : exp(log_a) * size[i - width]);
    }
}

static void check_lru(struct machine *m) {
    static const int64_t widths[] = {1, 7, 16, 150, 333};
    for (size_t s = 0; s < sizeof widths / sizeof *widths; s++) {
        int64_t w = widths[s];
        struct trial t = {run_lru, define_lru, {w, w, w}, .out = w, .elements = w, .p = {w}};
        t.tolerance = 3e-6;
        float *rate = negative_array(w);
        rate[0] = -1e-4f; // hardly decays
        t.table[0] = rate;
        check_trial(m, &t, "gated_lru");
        free(rate);
    }
}

static void test_gated_lru(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_lru);
}

// --- log_decay -----------------------------------------------------------------------------------

static void check_log_decay(struct machine *m) {
    enum { ROWS = 5, WIDTH = 37 };
    float *x = noise_array(ROWS * (WIDTH + 1)), *rate = negative_array(WIDTH);
    float *bias = noise_array(WIDTH);
    for (int i = 0; i < ROWS * (WIDTH + 1); i++) x[i] *= 20;
    struct tensor in = put_f32(m, x, 2, (int64_t[]){ROWS, WIDTH + 1});
    in = tensor_slice(in, 1, 0, WIDTH);
    int64_t n[] = {WIDTH};
    float *y = get(m, log_decay(&m->c, in, put_f32(m, rate, 1, n), put_f32(m, bias, 1, n)));
    for (int i = 0; i < ROWS * WIDTH; i++) {
        int col = i % WIDTH;
        double want = rate[col] * softplus((double)x[i / WIDTH * (WIDTH + 1) + col] + bias[col]);
        expect_near("log_decay", i, y[i], want, 3e-6 * (fabs(want) + 1e-30));
    }
    free(x), free(rate), free(bias), free(y);
}

static void test_log_decay(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_log_decay);
}

// --- delta_rule: p heads, key heads, key width, value width, decays by channel, a and b ----------

enum { R, K, V, G, A, B }; // inputs; beta is A

static struct tensor run_delta(struct machine *m, const struct trial *t,
                               const struct tensor in[INPUTS], const struct rows *rows,
                               struct tensor state) {
    struct delta d = {t->p[0], t->p[1], t->p[2], t->p[3]};
    struct delta_inputs inputs = {.r = in[R], .k = in[K], .v = in[V], .g = in[G]};
    if (t->p[5])
        inputs.a = in[A], inputs.b = in[B];
    else
        inputs.beta = in[A];
    return delta_rule(&m->c, &inputs, &d, rows, state);
}

static void normalize(float *x, int64_t n) {
    double sum = 1e-12;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    for (int64_t i = 0; i < n; i++) x[i] = (float)(x[i] / sqrt(sum));
}

// Keys of length 1, and of what is taken out less than all: so S stays bounded. Decays from nearly
// none to nearly all.
static void prepare_delta(struct trial *t, int s) {
    int64_t n = lengths[s], width = t->p[2];
    float **in = t->in[s];
    for (int64_t i = 0; i < n * t->p[1]; i++) normalize(in[K] + i * width, width);
    for (int64_t i = 0; i < n * t->width[G]; i++) in[G][i] = -expf(4 * in[G][i] - 2);
    if (!t->p[5]) {
        for (int64_t i = 0; i < n * t->width[A]; i++) in[A][i] = (float)sigmoid(2 * in[A][i]);
        return;
    }
    for (int64_t i = 0; i < n * t->p[0]; i++) normalize(in[A] + i * width, width);
    for (int64_t i = 0; i < n * t->width[A]; i++) in[B][i] = (float)(-sigmoid(in[B][i]) * in[A][i]);
}

// One head of one token; S [key width, value width]. Returns the largest number met.
static double define_delta_row(const struct trial *t, const float *const in[INPUTS], int64_t row,
                               int64_t head, double *S, double *want) {
    int64_t heads = t->p[0], kw = t->p[2], vw = t->p[3], own = (row * heads + head) * kw;
    int64_t key = (row * t->p[1] + head / (heads / t->p[1])) * kw;
    const float *k = in[K] + key, *r = in[R] + key, *v = in[V] + (row * heads + head) * vw;
    double most = 0;
    for (int64_t i = 0; i < vw; i++) {
        double taken = 0;
        for (int64_t j = 0; j < kw; j++) {
            double *s = S + j * vw + i;
            if (t->p[5]) taken += in[A][own + j] * *s;
            *s *= exp((double)in[G][t->p[4] ? own + j : row * heads + head]);
            if (!t->p[5]) taken += k[j] * *s;
        }
        double beta = t->p[5] ? 0 : in[A][row * heads + head];
        want[i] = 0;
        for (int64_t j = 0; j < kw; j++) {
            double put = t->p[5] ? in[B][own + j] * taken + (double)k[j] * v[i]
                                 : beta * k[j] * (v[i] - taken);
            S[j * vw + i] += put;
            want[i] += S[j * vw + i] * r[j];
            most = fmax(most, fmax(fabs(put), fabs(S[j * vw + i])));
        }
    }
    return most;
}

// What is taken out makes errors fade as S itself does, so they are of the size of the largest
// numbers met.
static void define_delta(const struct trial *t, const float *const in[INPUTS], int64_t n,
                         double *want, double *size) {
    int64_t heads = t->p[0], kw = t->p[2], vw = t->p[3];
    double *S = mem_array((size_t)(heads * kw * vw), 8), *most = mem_array((size_t)heads, 8);
    for (int64_t i = 0; i < n * heads; i++) {
        int64_t head = i % heads;
        double met = define_delta_row(t, in, i / heads, head, S + head * kw * vw, want + i * vw);
        most[head] = fmax(most[head], met);
        for (int64_t k = 0; k < vw; k++) size[i * vw + k] = (double)kw * most[head];
    }
    free(S), free(most);
}

static void check_delta(struct machine *m) {
    static const int64_t shapes[][6] = {
        {1, 1, 1, 1, 0, 0},     {4, 2, 16, 16, 0, 0},  {6, 2, 7, 33, 0, 0},  {3, 3, 40, 5, 1, 0},
        {2, 1, 64, 80, 1, 0},   {2, 2, 17, 9, 1, 1},   {3, 3, 64, 64, 1, 1}, {1, 1, 130, 129, 0, 0},
        {4, 2, 128, 128, 0, 0}, {2, 2, 128, 128, 1, 0}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        const int64_t *p = shapes[s];
        int64_t keys = p[1] * p[2], all = p[0] * p[2], values = p[0] * p[3];
        struct trial t = {run_delta, define_delta, .prepare = prepare_delta, .out = values};
        memcpy(t.p, p, sizeof t.p);
        struct delta d = {p[0], p[1], p[2], p[3]};
        t.elements = delta_state(&d, p[5] ? 2 : 1);
        memcpy(t.width,
               (int64_t[INPUTS]){keys, keys, values, p[4] ? all : p[0], p[5] ? all : p[0],
                                 p[5] ? all : 0},
               sizeof t.width);
        t.tolerance = 1e-6;
        check_trial(m, &t, "delta_rule");
    }
}

static void test_delta_rule(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_delta);
    if (!on_cpu()) one_machine(ISA_BEST, 1, PRECISION_NATIVE, check_delta);
}

// --- delta_gates, gated_norm ---------------------------------------------------------------------

static void check_gates(struct machine *m) {
    enum { ROWS = 5, KEYS = 3, EACH = 2, HEADS = KEYS * EACH };
    float *x = noise_array(ROWS * 2 * HEADS), *rate = negative_array(HEADS);
    float *bias = noise_array(HEADS);
    struct tensor beta, g, in = put_f32(m, x, 2, (int64_t[]){ROWS, 2 * HEADS});
    int64_t n[] = {HEADS};
    delta_gates(&m->c, in, EACH, put_f32(m, rate, 1, n), put_f32(m, bias, 1, n), &beta, &g);
    float *got[2] = {get(m, beta), get(m, g)};
    for (int i = 0; i < ROWS * HEADS; i++) {
        int head = i % HEADS, at = i / HEADS * 2 * HEADS + head / EACH * 2 * EACH + head % EACH;
        double want = rate[head] * softplus((double)x[at + EACH] + bias[head]);
        expect_near("delta_gates", i, got[0][i], sigmoid(x[at]), 1e-6);
        expect_near("delta_gates", i, got[1][i], want, 3e-6 * (fabs(want) + 1e-30));
    }
    free(x), free(rate), free(bias), free(got[0]), free(got[1]);
}

static void check_gated_norm(struct machine *m, int64_t heads, int64_t width, int64_t count) {
    enum { ROWS = 3 };
    int64_t all = heads * width, wide = count ? all / count * (count + BAND_APART) : all;
    float *x = noise_array(ROWS * all), *gates = noise_array(ROWS * wide), *w = noise_array(width);
    struct rms norm = {put_f32(m, w, 1, &width), 1e-5f};
    struct norm_gate gate = {.act = ACT_SIGMOID, .count = count};
    gate.x = put_f32(m, gates, 2, (int64_t[]){ROWS, wide});
    if (count) gate.period = count + BAND_APART, gate.from = BAND_FROM;
    struct tensor in = put_f32(m, x, 3, (int64_t[]){ROWS, heads, width});
    float *y = get(m, gated_norm(&m->c, in, &norm, &gate, NULL));
    for (int64_t i = 0; i < ROWS * all; i++) {
        int64_t k = i % all, column = count ? k / count * gate.period + BAND_FROM + k % count : k;
        double sum = 0;
        for (int64_t e = 0; e < width; e++) sum += pow(x[i / width * width + e], 2);
        double want = x[i] / sqrt(sum / (double)width + norm.eps) * w[i % width] *
                      sigmoid(gates[i / all * wide + column]);
        expect_near("gated_norm", i, y[i], want, 3e-6 * (fabs(want) + 1e-30));
    }
    free(x), free(gates), free(w), free(y);
    machine_clear(m);
}

static void check_gated(struct machine *m) {
    check_gates(m);
    check_gated_norm(m, 4, 128, 256);
    check_gated_norm(m, 3, 7, 0);
    check_gated_norm(m, 2, 200, 25);
    check_gated_norm(m, 2, 300, 0);
}

static void test_gated(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_gated);
}

// --- linear_blocks -------------------------------------------------------------------------------

static void check_blocks(struct machine *m) {
    enum { ROWS = 5, COUNT = 3, IN = 11, OUT = 9, N = COUNT * OUT };
    float *x = noise_array(ROWS * COUNT * IN), *data = noise_array(COUNT * OUT * IN);
    struct weight w[COUNT];
    for (int i = 0; i < COUNT; i++) {
        w[i] = (struct weight){.layout = WEIGHT_DENSE, .out = OUT, .in = IN};
        w[i].data = put_f32(m, data + i * OUT * IN, 2, (int64_t[]){OUT, IN});
        w[i].bias = put_f32(m, data + i, 1, (int64_t[]){OUT});
    }
    struct tensor t = put_f32(m, x, 2, (int64_t[]){ROWS, COUNT * IN});
    float *y = get(m, linear_blocks(&m->c, t, COUNT, w));
    for (int i = 0; i < ROWS * N; i++) {
        int block = i % N / OUT, o = i % OUT;
        double want = data[block + o], size = fabs(want);
        for (int k = 0; k < IN; k++) {
            double term =
                (double)data[(block * OUT + o) * IN + k] * x[(i / N * COUNT + block) * IN + k];
            want += term;
            size += fabs(term);
        }
        expect_near("linear_blocks", i, y[i], want, 1e-6 * size);
    }
    free(x), free(data), free(y);
}

static void test_linear_blocks(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_blocks);
}

static void test_shapes_are_checked(void **state) {
    (void)state;
    struct machine m;
    machine_open(&m, ISA_BEST, 1, PRECISION_F32);
    float zeros[64] = {0};
    struct rows rows = {.n = 2, .runs = 1, .index = put_i32(&m, (int32_t[]){0, 1}, 2)};
    rows.seq = put_i32(&m, (int32_t[]){0, 0}, 2);
    rows.run = put_i32(&m, (int32_t[]){0, 2}, 2);
    struct tensor x = put_f32(&m, zeros, 2, (int64_t[]){2, 8});
    struct tensor w = put_f32(&m, zeros, 2, (int64_t[]){3, 8});
    struct tensor state_of_one = put_f32(&m, zeros, 2, (int64_t[]){1, 15});
    convolve(&m.c, x, w, (struct tensor){0}, &rows, state_of_one);
    assert_string_equal(m.c.err.text, "convolve: a sequence's state has 15 elements, not 16");
    m.c.err = (struct error){0};
    gated_lru(&m.c, &(struct lru_inputs){x, x, w}, tensor_1d(DT_F32, 8, zeros), &rows,
              put_f32(&m, zeros, 2, (int64_t[]){1, 8}));
    assert_string_equal(m.c.err.text, "gated_lru: input does not have 8 columns a row of x");
    m.c.err = (struct error){0};
    machine_close(&m);
}

int main(int argc, char **argv) {
    test_options(argc, argv);
    unsetenv("MLXCEL_CPU_ISA"); // the tests choose
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolve),      cmocka_unit_test(test_selective_scan),
        cmocka_unit_test(test_ssd_scan),      cmocka_unit_test(test_gated_lru),
        cmocka_unit_test(test_log_decay),     cmocka_unit_test(test_delta_rule),
        cmocka_unit_test(test_convolve_many), cmocka_unit_test(test_gated),
        cmocka_unit_test(test_linear_blocks), cmocka_unit_test(test_shapes_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
