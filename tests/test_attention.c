// Attention over pages of every instruction set that this machine has, against a reference in
// double precision written here; and the promise that a row's bits do not depend on what else is
// in the batch, on the threads, or on how a prompt is cut.
#include "machine.h"

enum { SEQS = 4 };

struct scene {
    int64_t heads, kv_heads, k_width, v_width, page, window;
    float soft_cap;
    enum dtype k_type;    // and of values too, until a test sets another
    int64_t length[SEQS]; // tokens of each sequence; all are computed
    bool sinks;
    bool latent; // values are the leading v_width of keys, which alone are kept
};

struct world {
    const struct scene *s;
    enum dtype k_type, v_type;
    int64_t n;                     // tokens in all
    int32_t *seq, *index;          // of each row, sequences interleaved in chunks
    int64_t *row[SEQS];            // of each token
    float *q, *k, *v;              // of each row
    float *sinks;                  // of each head
    double *k_rounded, *v_rounded; // what the cache keeps
    struct kv kv;
    struct tensor on_device[5], sinks_on_device; // seq, index, q, k, v
    int64_t chunk;                               // as the options'
    float tuning;
    struct weight reader; // the product that reads the result, if any
    float *y;             // all rows in one step
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

// A tensor [n, heads, width] of its own.
static struct tensor copy_of(struct machine *m, struct tensor t) {
    struct tensor y = scratch_tensor(&m->c, DT_F32, 3, t.n);
    copy_to(&m->c, tensor_join_heads(y), tensor_join_heads(t));
    return y;
}

static double *rounded(enum dtype type, const float *x, int64_t n) {
    double *out = mem_array((size_t)n, sizeof *out);
    for (int64_t i = 0; i < n; i++) out[i] = x[i];
    if (type != DT_I8) free(round_to(type, out, n, out));
    return out;
}

// Rows that I8 keeps exactly: whole numbers of a power of two, of which each block's largest is
// 127, and each block's power another.
static void make_whole(float *x, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width; i++) {
            int64_t block = i / KV_BLOCK;
            float unit = ldexpf(1, -6 - (int)((r + block) % 3)), q = rintf(x[r * width + i] / unit);
            if (i % KV_BLOCK == 0) q = r % 2 ? -127 : 127;
            x[r * width + i] = fminf(fmaxf(q, -127), 127) * unit;
        }
}

// A cache whose every byte is 0xff: what was never written is NaN, as it may be in a page that
// another request left behind.
static struct tensor junk(struct machine *m, enum dtype type, const int64_t n[4]) {
    struct tensor t = tensor_nd(type, 4, n, NULL);
    void *bytes = mem_alloc(tensor_bytes(t) + 1);
    memset(bytes, 0xff, tensor_bytes(t));
    t.data = put(m, bytes, tensor_bytes(t));
    free(bytes);
    return t;
}

static void open_cache(struct world *w, struct machine *m, int64_t pages) {
    const struct scene *s = w->s;
    int64_t v_width = s->latent ? 0 : s->v_width, shape[4] = {pages, s->kv_heads, s->page, 0};
    int64_t widths[] = {s->k_width, v_width};
    enum dtype types[] = {w->k_type, w->v_type};
    struct tensor *elements[] = {&w->kv.k, &w->kv.v}, *scales[] = {&w->kv.k_scale, &w->kv.v_scale};
    for (int i = 0; i < 2; i++) {
        shape[3] = widths[i];
        *elements[i] = junk(m, types[i], shape);
        shape[3] = kv_blocks(widths[i]);
        if (types[i] == DT_I8 && widths[i]) *scales[i] = junk(m, DT_BF16, shape);
    }
}

static void world_open(struct world *w, const struct scene *s, struct machine *m, enum dtype k_type,
                       enum dtype v_type) {
    *w = (struct world){.s = s, .k_type = k_type, .v_type = s->latent ? k_type : v_type};
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
    if (w->k_type == DT_I8) make_whole(w->k, total * s->kv_heads, s->k_width);
    if (w->v_type == DT_I8) make_whole(w->v, total * s->kv_heads, s->v_width);
    for (int64_t i = 0; s->latent && i < total * s->kv_heads * s->v_width; i++)
        w->v[i] = w->k[i / s->v_width * s->k_width + i % s->v_width];
    w->sinks = noise_array(s->heads);
    for (int64_t h = 0; h < s->heads; h++) w->sinks[h] *= 4;
    w->k_rounded = rounded(w->k_type, w->k, total * s->kv_heads * s->k_width);
    w->v_rounded = rounded(w->v_type, w->v, total * s->kv_heads * s->v_width);

    int64_t per = (longest + s->page - 1) / s->page, pages = SEQS * per;
    int32_t *table = mem_array((size_t)pages, 4);
    for (int64_t i = 0; i < pages; i++) table[i] = (int32_t)(i * 7 % pages);
    if (pages % 7 == 0)
        for (int64_t i = 0; i < pages; i++) table[i] = (int32_t)(pages - 1 - i);
    w->kv.table = tensor_2d(DT_I32, SEQS, per, put(m, table, (size_t)pages * 4));
    free(table);
    open_cache(w, m, pages);
    w->on_device[0] = put_i32(m, w->seq, total);
    w->on_device[1] = put_i32(m, w->index, total);
    w->on_device[2] = put_f32(m, w->q, 3, (int64_t[]){total, s->heads, s->k_width});
    w->on_device[3] = put_f32(m, w->k, 3, (int64_t[]){total, s->kv_heads, s->k_width});
    w->on_device[4] = put_f32(m, w->v, 3, (int64_t[]){total, s->kv_heads, s->v_width});
    w->sinks_on_device = put_f32(m, w->sinks, 1, &s->heads);
}

static void world_close(struct world *w) {
    free(w->seq), free(w->index), free(w->q), free(w->k), free(w->v);
    free(w->k_rounded), free(w->v_rounded), free(w->y), free(w->sinks);
    for (int q = 0; q < SEQS; q++) free(w->row[q]);
}

// Writes and attends the rows [from, to); the result is the caller's.
static float *world_step(struct world *w, struct machine *m, int64_t from, int64_t to, bool write) {
    const struct scene *s = w->s;
    size_t mark = scratch_mark(&m->c);
    struct tensor part[5], none = {0};
    for (int i = 0; i < 5; i++) part[i] = tensor_slice(w->on_device[i], 0, from, to - from);
    struct rows rows = {.n = to - from, .seq = part[0], .index = part[1], .pos = part[1]};
    bool placed = write && rows.n == 1 && !s->latent; // as it comes, by one op
    if (write && !placed) kv_write(&m->c, &w->kv, &rows, part[3], s->latent ? none : part[4]);
    struct attention_options opt = {.scale = 1.0f / sqrtf((float)s->k_width),
                                    .window = s->window,
                                    .chunk = w->chunk,
                                    .tuning = w->tuning,
                                    .tuning_floor = TUNING_FLOOR,
                                    .soft_cap = s->soft_cap};
    if (s->latent) opt.v_width = s->v_width;
    if (s->sinks) opt.sinks = w->sinks_on_device;
    bool is_read = w->reader.layout != WEIGHT_NONE;
    if (is_read) opt.reader = &w->reader;
    struct placing plain = {0};
    struct tensor t =
        placed ? placed_attention(&m->c, part[2], part[3], part[4], &plain, &w->kv, &rows, &opt)
               : attention(&m->c, part[2], &w->kv, &rows, &opt);
    float *y = get(m, is_read ? linear(&m->c, t, &w->reader) : t);
    scratch_release(&m->c, mark);
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
    if (on_cpu() || s->k_type == DT_F32) return 1e-5;
    return s->k_type == DT_F16 ? 1e-2 : 8e-2;
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

// Types of keys and values; DT_COUNT: the scene's own.
static const enum dtype caches[][2] = {
    {DT_COUNT, DT_COUNT}, {DT_I8, DT_I8}, {DT_I8, DT_F16}, {DT_BF16, DT_I8}, {DT_F16, DT_F32}};

// The i-th combination of scene and cache; a GPU's keep both in one float type.
static bool open_combination(struct world *w, struct machine *m, size_t i) {
    size_t scenes_all = sizeof scenes / sizeof *scenes, cache = i / scenes_all;
    if (cache >= (on_cpu() ? sizeof caches / sizeof *caches : 1)) return false;
    const struct scene *s = &scenes[i % scenes_all];
    enum dtype k = caches[cache][0], v = caches[cache][1];
    world_open(w, s, m, k == DT_COUNT ? s->k_type : k, v == DT_COUNT ? s->k_type : v);
    return true;
}

// Every so many, where TSan watches: of each cache some scenes, and rows of each sequence.
enum { EACH = WATCHED ? 11 : 1 };

// Each is run again in chunks and with scores that grow with the position.
static void check_attention(struct machine *m) {
    struct world w;
    for (size_t i = 0; open_combination(&w, m, i / 2); i += EACH) {
        if (i % 2) w.chunk = 5 + 6 * (int64_t)(i % 3), w.tuning = 0.3f;
        w.y = world_step(&w, m, 0, w.n, true);
        check_world(&w, 3);
        for (int64_t r = 0; r < w.n; r += EACH) expect_step(&w, m, r, r + 1, false);
        for (int64_t r = 0; r < w.n; r += 11)
            expect_step(&w, m, r, r + 11 < w.n ? r + 11 : w.n, false);
        world_close(&w);
        machine_clear(m);
    }
}

// A row never sees what comes after it, so one token at a time gives the same as all at once.
static void check_token_by_token(struct machine *m) {
    struct world whole, single;
    uint64_t start = random_state;
    size_t n = 2 * sizeof scenes / sizeof *scenes; // their own types, and I8
    for (size_t i = 0; i < n && open_combination(&whole, m, i); i += EACH, start = random_state) {
        random_state = start;
        open_combination(&single, m, i);
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

// A product that gives what it takes.
static struct weight identity(struct machine *m, int64_t n) {
    uint16_t *one = mem_array((size_t)(n * n), sizeof *one);
    for (int64_t i = 0; i < n; i++) one[i * n + i] = 0x3f80; // 1 in BF16
    struct weight w = {.layout = WEIGHT_DENSE, .out = n, .in = n};
    w.data = tensor_2d(DT_BF16, n, n, put(m, one, (size_t)(n * n) * sizeof *one));
    free(one);
    return w;
}

// Long sequences, whose spans of keys are split over threads when rows are few.
static void check_long(struct machine *m) {
    static const struct scene s[] = {
        {2, 1, 16, 16, 48, 0, 0, DT_F16, {WATCHED ? 1100 : 2100, 1, 30, 3}, false, false},
        {1, 1, 8, 16, 64, 1100, 0, DT_F32, {1300, 1, 1, 1}, true, false},
        {4, 1, 128, 128, 32, 0, 0, DT_BF16, {WATCHED ? 300 : 700, 1, 30, 3}, true, false},
        {4, 2, 128, 128, 32, 200, 0, DT_F16, {WATCHED ? 300 : 600, 140, 30, 3}, false, false},
        {4, 2, 64, 64, 16, 0, 2, DT_BF16, {300, 1, WATCHED ? 30 : 260, 3}, true, false},
        {3, 1, 576, 512, 32, 0, 0, DT_BF16, {300, 70, 1, 3}, false, true},
        // for kernels that a GPU alone has
        {2, 1, 256, 256, 32, 150, 0, DT_BF16, {300, 70, 30, 3}, true, false},
        {4, 2, 64, 64, 48, 90, 0, DT_BF16, {300, 70, 30, 3}, false, false},
        {2, 2, 128, 128, 24, 0, 0, DT_F16, {300, 70, 30, 3}, true, false},
        {2, 1, 576, 512, 32, 0, 0, DT_F16, {200, 130, 1, 3}, false, true}};
    enum { SCENES = sizeof s / sizeof *s, CPU_SCENES = 6 };
    int used = on_cpu() ? CPU_SCENES : SCENES;
    for (int i = 0; i < (on_cpu() ? 2 : 1) * used; i++) {
        struct world w;
        enum dtype type = i < used ? s[i].k_type : DT_I8;
        world_open(&w, &s[i % used], m, type, type);
        w.y = world_step(&w, m, 0, w.n, true);
        check_world(&w, on_cpu() ? 401 : 7);
        if (!on_cpu() && type != DT_F32) { // prompts have kernels of their own
            int64_t each = w.s->heads * w.s->v_width;
            w.reader = identity(m, each);
            expect_step(&w, m, 0, w.n, false);
            w.reader = (struct weight){0};
        }
        for (int64_t r = 0; r < w.n; r += 97 * EACH) expect_step(&w, m, r, r + 1, r % 2);
        expect_step(&w, m, w.n - 3, w.n, false);
        for (int threads = 2; threads <= 4 && on_cpu() && !WATCHED; threads += 2) {
            struct machine other;
            machine_open(&other, m->isa, threads, PRECISION_NATIVE);
            for (int64_t r = w.n - 200; r < w.n; r += 39) expect_step(&w, &other, r, r + 1, false);
            expect_step(&w, &other, 100, w.n < 900 ? w.n : 900, false);
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

// One row after many tokens, placed and attended by one op.
static void check_depth(struct machine *m) {
    static const struct scene s[] = {
        {4, 1, 128, 128, 32, 0, 0, DT_BF16, {5300, 1, 1, 1}, true, false},
        {10, 1, 64, 64, 16, 0, 0, DT_F16, {5300, 1, 1, 1}, false, false},
        {4, 2, 128, 128, 32, 3001, 0, DT_F16, {4200, 1, 1, 1}, true, false},
        {3, 1, 64, 64, 128, 700, 30, DT_BF16, {2300, 1, 1, 1}, false, false},
        {2, 1, 64, 64, 32, 0, 0, DT_BF16, {WATCHED ? 5000 : 68000, 1, 1, 1}, false, false}};
    static const int64_t depths[] = {0, 15, 16, 127, 128, 255, 256, 1023, 2048, 4100};
    enum { DEPTHS = sizeof depths / sizeof *depths };
    for (size_t i = 0; i < sizeof s / sizeof *s; i++) {
        struct world w;
        world_open(&w, &s[i], m, s[i].k_type, s[i].k_type);
        struct rows all = {.n = w.n, .seq = w.on_device[0], .index = w.on_device[1]};
        kv_write(&m->c, &w.kv, &all, w.on_device[3], w.on_device[4]);
        double *want = mem_array((size_t)s[i].v_width, sizeof *want);
        for (int d = 0; d <= DEPTHS; d++) {
            int64_t deepest = s[i].length[0] - 1, depth = d < DEPTHS ? depths[d] : deepest;
            if (depth > deepest) continue;
            int64_t r = w.row[0][depth];
            float *y = world_step(&w, m, r, r + 1, true);
            for (int64_t h = 0; h < s[i].heads; h++) {
                double most = 0, tolerance = tolerance_of(&s[i]);
                reference_row(&w, r, h, want);
                for (int64_t e = 0; e < s[i].v_width; e++) most = fmax(most, fabs(want[e]));
                if (!on_cpu()) tolerance *= most / 8; // of many tokens errors cancel
                for (int64_t e = 0; e < s[i].v_width; e++)
                    expect_near("attention", e, y[h * s[i].v_width + e], want[e], tolerance);
            }
            free(y);
        }
        free(want);
        world_close(&w);
        machine_clear(m);
    }
}

static void test_depth(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_depth);
}

// Rows one by one, placed and attended by one op, as all at once.
static void check_placed_rows(struct world *w, struct machine *m, const struct placing *p,
                              const float *want) {
    struct attention_options opt = {.scale = 0.3f};
    int64_t each = w->s->heads * w->s->v_width;
    for (int64_t i = 0; i < w->n; i += on_cpu() ? 7 : 1) {
        size_t mark = scratch_mark(&m->c);
        struct tensor part[5];
        for (int k = 0; k < 5; k++) part[k] = tensor_slice(w->on_device[k], 0, i, 1);
        struct rows rows = {.n = 1, .seq = part[0], .index = part[1], .pos = part[1]};
        struct tensor q = copy_of(m, part[2]), k = copy_of(m, part[3]);
        struct tensor t = placed_attention(&m->c, q, k, part[4], p, &w->kv, &rows, &opt);
        float *y = get(m, t);
        expect_same("placed attention", y, want + i * each, each, 1e-3);
        free(y);
        scratch_release(&m->c, mark);
    }
}

// Queries, keys and values that are made ready at once are as those made ready one by one.
static void check_placing(struct machine *m) {
    static const struct scene s[] = {
        {6, 2, 24, 16, 16, 0, 0, DT_F32, {40, 3, 17, 2}, false, false},
        {4, 2, 64, 64, 32, 0, 0, DT_F16, {1, 1, 1, 70}, false, false},
        {8, 1, 128, 128, 16, 0, 0, DT_F16, {9, 3, 1, 130}, false, false},
        {4, 1, 72, 72, 16, 0, 0, DT_F32, {9, 3, 1, 2}, false, false}};
    enum { SCENES = sizeof s / sizeof *s };
    for (int i = 0; i < SCENES * 4; i++) {
        struct world w;
        const struct scene *of = &s[i % SCENES];
        int how = i / SCENES;
        world_open(&w, of, m, of->k_type, of->k_type);
        int64_t heads = of->heads, width = of->k_width, pairs = (i + how) % 2 ? width / 2 : 5;
        float *freq = noise_array(pairs), *norm = noise_array(heads * width);
        struct rope r = {.inv_freq = put_f32(m, freq, 1, &pairs), .scale = 1.5f};
        r.interleaved = how == 1;
        struct placing p = {.normed = how != 2, .eps = 1e-5f, .rope = how == 3 ? NULL : &r};
        p.k_norm = put_f32(m, norm, 1, &width);
        p.q_norm = i % 2 ? put_f32(m, norm, 2, (int64_t[]){heads, width}) : p.k_norm;
        struct rows rows = {.n = w.n, .seq = w.on_device[0], .pos = w.on_device[1]};
        rows.index = rows.pos;
        struct attention_options opt = {.scale = 0.3f};
        struct tensor q = copy_of(m, w.on_device[2]), k = copy_of(m, w.on_device[3]);
        q = place_heads(&m->c, &w.kv, &rows, q, k, w.on_device[4], &p);
        float *got = get(m, q), *y = get(m, attention(&m->c, q, &w.kv, &rows, &opt));
        check_placed_rows(&w, m, &p, y);
        q = w.on_device[2], k = w.on_device[3];
        if (p.normed) q = rms_norm(&m->c, q, p.q_norm, p.eps);
        if (p.normed) k = rms_norm(&m->c, k, p.k_norm, p.eps);
        if (p.rope) rope(&m->c, q, &rows, &r), rope(&m->c, k, &rows, &r);
        kv_write(&m->c, &w.kv, &rows, k, w.on_device[4]);
        float *want = get(m, q), *z = get(m, attention(&m->c, q, &w.kv, &rows, &opt));
        expect_same("placed queries", got, want, w.n * heads * width, 1e-6);
        expect_same("attention to placed keys", y, z, w.n * heads * of->v_width, 1e-3);
        free(freq), free(norm), free(got), free(y), free(want), free(z);
        world_close(&w);
        machine_clear(m);
    }
}

static void test_placing(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_placing);
    each_machine(PRECISION_NATIVE, check_placing);
}

// What I8 keeps of values, seen by rows that see one token alone: within half a unit, a 127th of a
// block's largest but for the rounding of the unit to BF16; nothing but NaN of what is not finite.
static void check_kept(struct machine *m) {
    static const struct scene s = {1, 1, 8, 77, 16, 1, 0, DT_F16, {40, 1, 1, 1}, false, false};
    struct world w;
    world_open(&w, &s, m, DT_F16, DT_F16);
    w.v_type = DT_I8;
    open_cache(&w, m, w.kv.k.n[0]);
    for (int64_t r = 0; r < w.n; r++) // of all sizes
        for (int64_t i = 0; i < s.v_width; i++)
            w.v[r * s.v_width + i] *= r == 3 ? 0 : ldexpf(1, (int)(r * 7 % 200) - 120);
    w.v[7 * s.v_width + 40] = INFINITY;
    w.v[9 * s.v_width + 1] = NAN;
    device_upload(m->dev, w.on_device[4].data, w.v, tensor_bytes(w.on_device[4]));
    float *y = world_step(&w, m, 0, w.n, true);
    for (int64_t i = 0; i < w.n * s.v_width; i++) {
        int64_t begin = i / s.v_width * s.v_width, at = i - begin, first = at / KV_BLOCK * KV_BLOCK;
        double most = 0;
        bool finite = true;
        for (int64_t k = first; k < first + KV_BLOCK && k < s.v_width; k++) {
            finite = finite && isfinite(w.v[begin + k]);
            most = fmax(most, fabs((double)w.v[begin + k]));
        }
        if (finite)
            expect_near("a kept value", i, y[i], w.v[i], most / 254 * 1.01 + 1e-36);
        else
            assert_true(isnan(y[i]));
    }
    free(y);
    world_close(&w);
    machine_clear(m);
}

static void test_kept(void **state) {
    (void)state;
    if (on_cpu()) each_machine(PRECISION_NATIVE, check_kept);
}

int main(int argc, char **argv) {
    test_options(argc, argv);
    unsetenv("MLXCEL_CPU_ISA"); // the tests choose
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention), cmocka_unit_test(test_long_attention),
        cmocka_unit_test(test_depth),     cmocka_unit_test(test_placing),
        cmocka_unit_test(test_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
