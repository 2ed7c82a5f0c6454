// Attention over pages of every instruction set that this machine has, against a reference in
// double precision written here; and the promise that a row's bits do not depend on what else is
// in the batch, on the threads, or on how a prompt is cut.
#include "machine.h"

enum { SEQS = 4 };

struct scene {
    int64_t heads, kv_heads, k_width, v_width, page, window;
    float soft_cap;
    enum dtype type;
    int64_t length[SEQS]; // tokens of each sequence; all are computed
    bool sinks;
    bool latent; // values are the leading v_width of keys, which alone are kept
};

struct world {
    const struct scene *s;
    int64_t n;                     // tokens in all
    int32_t *seq, *index;          // of each row, sequences interleaved in chunks
    int64_t *row[SEQS];            // of each token
    float *q, *k, *v;              // of each row
    float *sinks;                  // of each head
    double *k_rounded, *v_rounded; // what the cache keeps
    struct kv kv;
    int64_t chunk; // as the options'
    float tuning;
    float *y; // all rows in one step
};

enum { TUNING_FLOOR = 9 };

// Cuts the sequences into chunks of odd sizes and deals them out in turn.
static void deal_rows(struct world *w) {
    int64_t done[SEQS] = {0};
    while (w->n < w->s->length[0] + w->s->length[1] + w->s->length[2] + w->s->length[3])
        for (int32_t q = 0; q < SEQS; q++) {
            int64_t chunk = 1 + random_bits() % 23;
            for (; chunk > 0 && done[q] < w->s->length[q]; chunk--, w->n++) {
                w->seq[w->n] = q;
                w->row[q][done[q]] = w->n;
                w->index[w->n] = (int32_t)done[q]++;
            }
        }
}

static double *rounded(enum dtype type, const float *x, int64_t n) {
    double *out = mem_array((size_t)n, sizeof *out);
    for (int64_t i = 0; i < n; i++) out[i] = x[i];
    free(round_to(type, out, n, out));
    return out;
}

static void world_open(struct world *w, const struct scene *s, struct machine *m) {
    *w = (struct world){.s = s};
    int64_t total = 0, longest = 0;
    for (int q = 0; q < SEQS; q++) {
        total += s->length[q];
        w->row[q] = mem_array((size_t)s->length[q], sizeof *w->row[q]);
        longest = s->length[q] > longest ? s->length[q] : longest;
    }
    w->seq = mem_array((size_t)total, 4);
    w->index = mem_array((size_t)total, 4);
    deal_rows(w);
    w->q = noise_array(total * s->heads * s->k_width);
    w->k = noise_array(total * s->kv_heads * s->k_width);
    w->v = noise_array(total * s->kv_heads * s->v_width);
    for (int64_t i = 0; s->latent && i < total * s->kv_heads * s->v_width; i++)
        w->v[i] = w->k[i / s->v_width * s->k_width + i % s->v_width];
    w->sinks = noise_array(s->heads);
    for (int64_t h = 0; h < s->heads; h++) w->sinks[h] *= 4;
    w->k_rounded = rounded(s->type, w->k, total * s->kv_heads * s->k_width);
    w->v_rounded = rounded(s->type, w->v, total * s->kv_heads * s->v_width);

    int64_t per = (longest + s->page - 1) / s->page, pages = SEQS * per;
    int32_t *table = mem_array((size_t)pages, 4);
    for (int64_t i = 0; i < pages; i++) table[i] = (int32_t)(i * 7 % pages);
    if (pages % 7 == 0)
        for (int64_t i = 0; i < pages; i++) table[i] = (int32_t)(pages - 1 - i);
    w->kv.table = tensor_2d(DT_I32, SEQS, per, put(m, table, (size_t)pages * 4));
    free(table);
    size_t size = dtype_size(s->type);
    int64_t slots = pages * s->kv_heads * s->page;
    // What was never written is NaN, as it may be in a page that another request left behind.
    void *junk = mem_array((size_t)slots * (size_t)(s->k_width + s->v_width), size);
    memset(junk, 0xff, (size_t)slots * (size_t)(s->k_width + s->v_width) * size);
    w->kv.k = tensor_nd(s->type, 4, (int64_t[]){pages, s->kv_heads, s->page, s->k_width},
                        put(m, junk, (size_t)(slots * s->k_width) * size));
    w->kv.v =
        tensor_nd(s->type, 4, (int64_t[]){pages, s->kv_heads, s->page, s->latent ? 0 : s->v_width},
                  put(m, junk, (size_t)(slots * s->v_width) * size));
    free(junk);
}

static void world_close(struct world *w) {
    free(w->seq), free(w->index), free(w->q), free(w->k), free(w->v);
    free(w->k_rounded), free(w->v_rounded), free(w->y), free(w->sinks);
    for (int q = 0; q < SEQS; q++) free(w->row[q]);
}

// Writes and attends the rows [from, to); the result is the caller's.
static float *world_step(struct world *w, struct machine *m, int64_t from, int64_t to, bool write) {
    const struct scene *s = w->s;
    int64_t n = to - from;
    size_t mark = scratch_mark(&m->c);
    int held = m->count;
    struct rows rows = {.n = n};
    rows.index = put_i32(m, w->index + from, n);
    rows.seq = put_i32(m, w->seq + from, n);
    rows.pos = rows.index;
    struct tensor q =
        put_f32(m, w->q + from * s->heads * s->k_width, 3, (int64_t[]){n, s->heads, s->k_width});
    struct tensor k = put_f32(m, w->k + from * s->kv_heads * s->k_width, 3,
                              (int64_t[]){n, s->kv_heads, s->k_width});
    struct tensor none = {0}, v = put_f32(m, w->v + from * s->kv_heads * s->v_width, 3,
                                          (int64_t[]){n, s->kv_heads, s->v_width});
    if (write) kv_write(&m->c, &w->kv, &rows, k, s->latent ? none : v);
    struct attention_options opt = {.scale = 1.0f / sqrtf((float)s->k_width),
                                    .window = s->window,
                                    .chunk = w->chunk,
                                    .tuning = w->tuning,
                                    .tuning_floor = TUNING_FLOOR,
                                    .soft_cap = s->soft_cap};
    if (s->latent) opt.v_width = s->v_width;
    if (s->sinks) opt.sinks = put_f32(m, w->sinks, 1, &s->heads);
    float *y = get(m, attention(&m->c, q, &w->kv, &rows, &opt));
    scratch_release(&m->c, mark);
    while (m->count > held) device_free(m->dev, m->held[--m->count]);
    return y;
}

static void reference_row(const struct world *w, int64_t row, int64_t head, double *out) {
    const struct scene *s = w->s;
    int64_t last = w->index[row], kv_head = head / (s->heads / s->kv_heads);
    int64_t first = s->window && last >= s->window ? last - s->window + 1 : 0;
    if (w->chunk && first < last / w->chunk * w->chunk) first = last / w->chunk * w->chunk;
    double tune = 1 + w->tuning * log(1 + floor((double)(last + 1) / TUNING_FLOOR));
    double total = s->sinks ? exp((double)w->sinks[head]) : 0;
    memset(out, 0, (size_t)s->v_width * sizeof *out);
    for (int64_t t = first; t <= last; t++) {
        int64_t at = w->row[w->seq[row]][t] * s->kv_heads + kv_head;
        double score = 0;
        for (int64_t i = 0; i < s->k_width; i++)
            score += (double)w->q[(row * s->heads + head) * s->k_width + i] *
                     w->k_rounded[at * s->k_width + i];
        score *= tune / sqrt((double)s->k_width);
        if (s->soft_cap > 0) score = s->soft_cap * tanh(score / s->soft_cap);
        double p = exp(score);
        total += p;
        for (int64_t i = 0; i < s->v_width; i++) out[i] += p * w->v_rounded[at * s->v_width + i];
    }
    for (int64_t i = 0; i < s->v_width; i++) out[i] /= total;
}

// On a GPU, tensor cores take q and the softmax's weights in the cache's type: scores of up to some
// 6 and values of up to 2.5 are off by 2^-11 of that, or 2^-8, and both errors add up.
static double tolerance_of(const struct scene *s) {
    if (on_cpu() || s->type == DT_F32) return 1e-5;
    return s->type == DT_F16 ? 1e-2 : 8e-2;
}

// Scores of a few units are exact to 1e-6, so are their exponentials, and the result is a mean of
// values of at most 2.5: 1e-5 is generous.
static void check_world(const struct world *w, int64_t step) {
    const struct scene *s = w->s;
    double *want = mem_array((size_t)s->v_width, sizeof *want);
    for (int64_t r = 0; r < w->n; r += r + step < w->n ? step : 1)
        for (int64_t h = 0; h < s->heads; h++) {
            reference_row(w, r, h, want);
            for (int64_t i = 0; i < s->v_width; i++) {
                int64_t at = (r * s->heads + h) * s->v_width + i;
                expect_near("attention", at, w->y[at], want[i], tolerance_of(s));
            }
        }
    free(want);
}

static void expect_step(struct world *w, struct machine *m, int64_t from, int64_t to, bool write) {
    int64_t each = w->s->heads * w->s->v_width;
    float *y = world_step(w, m, from, to, write);
    expect_same("attention", y, w->y + from * each, (to - from) * each, tolerance_of(w->s));
    free(y);
}

static const struct scene scenes[] = {
    {1, 1, 16, 16, 16, 0, 0, DT_F32, {1, 2, 3, 40}, false, false},
    {9, 3, 64, 64, 32, 0, 0, DT_F16, {33, 7, 70, 1}, true, false},
    {8, 2, 33, 20, 5, 0, 0, DT_BF16, {31, 17, 2, 9}, false, false},
    {7, 7, 7, 5, 1, 4, 0, DT_F32, {12, 3, 5, 8}, true, false},
    {4, 1, 128, 96, 64, 33, 0, DT_F16, {150, 64, 65, 3}, false, false},
    {6, 2, 80, 80, 100, 7, 0, DT_BF16, {130, 5, 101, 12}, true, false},
    {5, 5, 64, 128, 16, 1, 0, DT_F32, {40, 1, 16, 17}, false, false},
    {6, 2, 48, 48, 20, 9, 1.5f, DT_F16, {70, 5, 41, 2}, true, false},
    {3, 3, 17, 17, 33, 0, 0.25f, DT_F32, {45, 3, 34, 1}, false, false},
    {32, 1, 24, 24, 128, 0, 0, DT_F16, {90, 20, 1, 5}, true, false},
    {16, 1, 48, 32, 32, 0, 0, DT_F16, {70, 33, 1, 5}, false, true},
    {5, 1, 25, 19, 16, 0, 0, DT_F32, {40, 3, 17, 2}, false, true},
    {6, 2, 40, 40, 7, 9, 0, DT_BF16, {30, 3, 17, 2}, false, true},
    {4, 2, 128, 128, 32, 0, 0, DT_BF16, {140, 70, 1, 33}, true, false},
    {2, 1, 64, 64, 32, 50, 2, DT_BF16, {40, 150, 3, 1}, false, false},
};

// Each scene is run again in chunks and with scores that grow with the position.
static void check_attention(struct machine *m) {
    size_t n = sizeof scenes / sizeof *scenes;
    for (size_t i = 0; i < 2 * n; i++) {
        struct world w;
        world_open(&w, &scenes[i % n], m);
        if (i >= n) w.chunk = 5 + 6 * (int64_t)(i % 3), w.tuning = 0.3f;
        w.y = world_step(&w, m, 0, w.n, true);
        check_world(&w, 3);
        for (int64_t r = 0; r < w.n; r++) expect_step(&w, m, r, r + 1, false);
        for (int64_t r = 0; r < w.n; r += 11)
            expect_step(&w, m, r, r + 11 < w.n ? r + 11 : w.n, false);
        world_close(&w);
        machine_clear(m);
    }
}

// A row never sees what comes after it, so one token at a time gives the same as all at once.
static void check_token_by_token(struct machine *m) {
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        struct world whole, single;
        uint64_t start = random_state;
        world_open(&whole, &scenes[i], m);
        random_state = start;
        world_open(&single, &scenes[i], m);
        whole.y = world_step(&whole, m, 0, whole.n, true);
        single.y = whole.y;
        for (int64_t r = 0; r < single.n; r++) expect_step(&single, m, r, r + 1, true);
        single.y = NULL;
        world_close(&whole);
        world_close(&single);
        machine_clear(m);
    }
}

static void test_attention(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_attention);
    each_machine(PRECISION_NATIVE, check_token_by_token);
}

// Long sequences, whose spans of keys are split over threads when rows are few.
static void check_long(struct machine *m) {
    static const struct scene s[] = {
        {2, 1, 16, 16, 48, 0, 0, DT_F16, {2100, 1, 30, 3}, false, false},
        {1, 1, 8, 16, 64, 1100, 0, DT_F32, {1300, 1, 1, 1}, true, false}};
    for (int i = 0; i < 2; i++) {
        struct world w;
        world_open(&w, &s[i], m);
        w.y = world_step(&w, m, 0, w.n, true);
        check_world(&w, 401);
        for (int64_t r = 0; r < w.n; r += 97) expect_step(&w, m, r, r + 1, false);
        expect_step(&w, m, w.n - 3, w.n, false);
        for (int threads = 2; threads <= 4 && on_cpu(); threads += 2) {
            struct machine other;
            machine_open(&other, m->isa, threads, PRECISION_NATIVE);
            for (int64_t r = w.n - 200; r < w.n; r += 39) expect_step(&w, &other, r, r + 1, false);
            expect_step(&w, &other, 100, 900, false);
            machine_close(&other);
        }
        world_close(&w);
        machine_clear(m);
    }
}

static void test_long_attention(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_long);
}

int main(int argc, char **argv) {
    test_options(argc, argv);
    unsetenv("MLXCEL_CPU_ISA"); // the tests choose
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_long_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
