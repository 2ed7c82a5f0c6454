// Every op but attention (test_attention.c) of every backend and instruction set that this machine
// has, over odd shapes and all types, against references in double precision written here; and the
// promise that a row's bits do not depend on what else is in the batch or on the threads.
#include "matrix.h"

#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "compute/ops.h"

// --- products ------------------------------------------------------------------------------------

// The most that rounding x to 8 bits can change an output: each element by half a step of its
// block of 32.
static double rounding_bound(const struct matrix *a, const float *x, int64_t o) {
    double bound = 0;
    for (int64_t b = 0; b < a->w.in; b += 32) {
        double top = 0, sum = 0;
        for (int64_t i = b; i < b + 32 && i < a->w.in; i++) {
            top = fmax(top, fabs((double)x[i]));
            sum += a->spread[o * a->w.in + i];
        }
        bound += top / 254 * sum;
    }
    return bound;
}

// Small integers, with 127 in every block: rounding them to 8 bits changes nothing, so the products
// must be as good as in f32.
static float *exact_array(int64_t n) {
    float *x = mem_array((size_t)n, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (float)((int)(random_bits() % 255) - 127);
    for (int64_t i = 0; i < n; i += 32) x[i] = 127;
    return x;
}

// Kernels that multiply in bf16 round x to it: of its 8 bits, half of the last is at most 2^-8 of
// x.
static bool rounds_to_bf16(const struct machine *m, const struct matrix *a) {
    return m->isa == ISA_AVX512_BF16 && a->w.layout == WEIGHT_DENSE && a->w.data.type == DT_BF16 &&
           a->w.data.stride[1] == 1;
}

struct deviation {
    double error, size;
};

// Arithmetic in f32: each rounding is 2^-24 of a partial sum, and they mostly cancel; 1e-6 of the
// sum of all magnitudes is far over what is seen and far under any mistake.
static void check_linear(struct machine *m, const struct matrix *a, const float *bias,
                         const float *x, int64_t n, bool exact, const float *y,
                         struct deviation *d) {
    bool native = m->c.precision == PRECISION_NATIVE, rounds = native && !exact;
    for (int64_t r = 0; r < n; r++)
        for (int64_t o = 0; o < a->w.out; o++) {
            double want = bias ? bias[o] : 0, size = fabs(want);
            for (int64_t i = 0; i < a->w.in; i++) {
                want += a->value[o * a->w.in + i] * x[r * a->w.in + i];
                size += a->size[o * a->w.in + i] * fabs((double)x[r * a->w.in + i]);
            }
            double tolerance = 1e-6 * size;
            if (rounds && on_cpu()) tolerance += rounding_bound(a, x + r * a->w.in, o);
            if (native && on_cpu() && rounds_to_bf16(m, a)) tolerance += 0x1p-8 * size;
            if (native && !on_cpu()) tolerance += 0x1p-7 * size; // w and x in bf16: 2^-8 of each
            double got = y[r * a->w.out + o];
            expect_near("linear", r * a->w.out + o, got, want, tolerance);
            d->error += (got - want) * (got - want);
            d->size += want * want;
        }
}

static void check_products(struct machine *m) {
    static const int64_t shapes[][3] = {// rows, in, out
                                        {1, 32, 1}, {2, 96, 5},    {3, 160, 40},  {7, 1, 3},
                                        {1, 7, 17}, {33, 33, 4},   {5, 1120, 33}, {1, 2050, 9},
                                        {2, 31, 2}, {12, 256, 65}, {1, 4384, 37}};
    for (int l = 0; l < LAYOUTS; l++) {
        struct deviation d = {0};
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            int64_t n = shapes[s][0], in = whole_groups(&layouts[l], shapes[s][1]);
            struct matrix a = make_matrix(m, &layouts[l], shapes[s][2], in);
            float *bias = s % 2 ? noise_array(a.w.out) : NULL;
            if (bias) a.w.bias = put_f32(m, bias, 1, (int64_t[]){a.w.out});
            struct deviation none = {0};
            for (int exact = 0; exact < 2; exact++) {
                float *x = exact ? exact_array(n * in) : noise_array(n * in);
                float *y = get(m, linear(&m->c, put_f32(m, x, 2, (int64_t[]){n, in}), &a.w));
                check_linear(m, &a, bias, x, n, exact, y, exact ? &none : &d);
                free(y), free(x);
            }
            free(bias);
            matrix_free(&a);
            machine_clear(m);
        }
        double off = sqrt(d.error / d.size);
        if (m->threads == 1 && m->c.precision == PRECISION_NATIVE && off > 1e-5)
            print_message("%s, %s %d bits by %d: rounding costs %.2f%% of the rms\n",
                          on_cpu() ? isa_name(m->isa) : m->dev->name,
                          layouts[l].kind == WEIGHT_MXFP4   ? "mxfp4"
                          : layouts[l].kind == WEIGHT_DENSE ? "bf16"
                          : layouts[l].kind == WEIGHT_NVFP4 ? "nvfp4"
                                                            : "affine",
                          layouts[l].bits, layouts[l].group, 100 * off);
        assert_true(off < 0.01);
    }
}

static void test_linear(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_products);
    each_machine(PRECISION_NATIVE, check_products);
}

// One row and 4-bit codes: on a GPU x is in fixed point of 16 bits in blocks of up to 64, which is
// far closer than BF16.
static void check_one_row(struct machine *m) {
    static const struct layout own[] = {{WEIGHT_AFFINE, DT_BF16, 4, 32, TIGHT},
                                        {WEIGHT_AFFINE, DT_BF16, 4, 64, TIGHT},
                                        {WEIGHT_AFFINE, DT_BF16, 4, 64, APART},
                                        {WEIGHT_AFFINE, DT_BF16, 4, 128, TIGHT}};
    static const int64_t shapes[][2] = {{256, 8},   {768, 9},    {512, 300}, {1280, 75},
                                        {1536, 33}, {4096, 100}, {4608, 9},  {14336, 17}};
    if (on_cpu()) return;
    for (size_t l = 0; l < sizeof own / sizeof *own; l++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            int64_t in = shapes[s][0], out = shapes[s][1];
            struct matrix a = make_matrix(m, &own[l], out, in);
            float *x = noise_array(in);
            float *y = get(m, linear(&m->c, put_f32(m, x, 2, (int64_t[]){1, in}), &a.w));
            for (int64_t o = 0; o < out; o++) {
                double want = 0, size = 0, spread = 0;
                for (int64_t b = 0; b < in; b += 64) {
                    double most = 0, sum = 0;
                    for (int64_t k = b; k < in && k < b + 64; k++) {
                        want += (double)x[k] * a.value[o * in + k];
                        size += fabs((double)x[k]) * a.size[o * in + k];
                        sum += fabs(a.value[o * in + k]);
                        most = fmax(most, fabs((double)x[k]));
                    }
                    spread += most * sum;
                }
                expect_near("a row", o, y[o], want, 1e-6 * size + spread / 65000);
            }
            free(x), free(y);
            matrix_free(&a);
            machine_clear(m);
        }
}

static void test_one_row(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_one_row);
}

// Rows and outputs of more than one tile, and k of more than one chunk, as few threads get them.
static void check_tiles(struct machine *m) {
    static const int64_t shapes[][3] = {{1, 2080, 300},
                                        {8, 4128, 40},
                                        {70, 264, 150},
                                        {230, 160, 70},
                                        // for kernels that a GPU alone has
                                        {16, 512, 300},
                                        {140, 1024, 20},
                                        {50, 768, 75},
                                        {20, 1536, 40},
                                        {9, 4104, 70},
                                        {33, 1032, 257}};
    size_t count = on_cpu() ? 4 : sizeof shapes / sizeof *shapes;
    if (m->threads > 1) return;
    for (int l = 1; l < LAYOUTS; l++)
        for (size_t s = 0; s < count; s++) {
            int64_t n = shapes[s][0], in = whole_groups(&layouts[l], shapes[s][1]);
            struct matrix a = make_matrix(m, &layouts[l], shapes[s][2], in);
            struct deviation d = {0};
            float *bias = noise_array(a.w.out), *x = noise_array(n * in);
            a.w.bias = put_f32(m, bias, 1, (int64_t[]){a.w.out});
            float *y = get(m, linear(&m->c, put_f32(m, x, 2, (int64_t[]){n, in}), &a.w));
            check_linear(m, &a, bias, x, n, false, y, &d);
            free(y), free(x), free(bias);
            matrix_free(&a);
            machine_clear(m);
        }
}

static void test_tiles(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_tiles);
}

static const struct st_tensor *stored(const struct st_file *f, const char *name) {
    struct error e = {0};
    const struct st_tensor *t = st_need(f, sv(name), &e);
    if (!t) fail_msg("%s", e.text);
    return t;
}

static struct tensor put_stored(struct machine *m, const struct st_file *f, const char *name) {
    struct tensor t = stored(f, name)->t;
    t.data = put(m, t.data, tensor_bytes(t));
    return t;
}

// Matrices that MLX quantized, and the products that it says they have (tools/, fixtures/weights).
static void check_published(struct machine *m) {
    struct names all = {0};
    struct error e = {0};
    assert_true(dir_list(FIXTURES "/weights", &all, &e));
    int found = 0;
    for (size_t i = 0; i < all.n; i++) {
        struct weight w = {.layout = WEIGHT_AFFINE};
        long long out, in;
        if (sscanf(all.name[i], "affine-b%d-g%d-%lldx%lld", &w.bits, &w.group, &out, &in) != 4)
            continue;
        found++;
        w.out = out, w.in = in;
        char *path = path_join(FIXTURES "/weights", all.name[i]);
        struct st_file f;
        assert_true(st_open(&f, path, &e));
        w.data = put_stored(m, &f, "p.weight");
        w.scales = put_stored(m, &f, "p.scales");
        w.biases = put_stored(m, &f, "p.biases");
        struct tensor x = put_stored(m, &f, "x");
        float *y = get(m, linear(&m->c, tensor_2d(DT_F32, 1, in, x.data), &w));
        float *want = get(m, put_stored(m, &f, "y")); // the file may hold it at any alignment
        double tolerance = m->c.precision == PRECISION_F32 ? 1e-5 : 0.05;
        float most = 0;
        for (int64_t o = 0; o < out; o++) most = fmaxf(most, fabsf(want[o]));
        for (int64_t o = 0; o < out; o++)
            expect_near(all.name[i], o, y[o], want[o], tolerance * (double)most);
        free(y), free(want), free(path);
        st_close(&f);
        machine_clear(m);
    }
    assert_true(found > 5);
    names_free(&all);
}

static void test_published_weights(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_published);
    each_machine(PRECISION_NATIVE, check_published);
}

// Rows [from, to) of x alone give what they give among all.
static void expect_rows(struct machine *m, struct tensor x, const struct weight *w, int64_t from,
                        int64_t to, const float *all) {
    float *part = get(m, linear(&m->c, tensor_slice(x, 0, from, to - from), w));
    expect_same("linear", part, all + from * w->out, (to - from) * w->out, rows_tolerance(m));
    free(part);
}

static void check_batches(struct machine *m) {
    if (m->threads > 1) return; // it opens what it needs
    enum { ROWS = 40, OUT = 51 };
    struct machine others[3];
    for (int i = 0; i < 3; i++) machine_open(&others[i], m->isa, i + 2, m->c.precision);
    for (int l = 0; l < LAYOUTS; l++) {
        int64_t in = whole_groups(&layouts[l], 1000);
        struct matrix a = make_matrix(m, &layouts[l], OUT, in);
        float *x = noise_array(ROWS * in);
        struct tensor t = put_f32(m, x, 2, (int64_t[]){ROWS, in});
        float *all = get(m, linear(&m->c, t, &a.w));
        for (int64_t r = 0; r < ROWS; r++) expect_rows(m, t, &a.w, r, r + 1, all);
        for (int64_t n = 2; n < ROWS; n++) expect_rows(m, t, &a.w, ROWS - n, ROWS, all);
        for (int i = 0; i < 3; i++) {
            float *again = get(&others[i], linear(&others[i].c, t, &a.w));
            expect_same("linear", again, all, ROWS * OUT, 0);
            free(again);
            machine_clear(&others[i]);
        }
        free(all), free(x);
        matrix_free(&a);
        machine_clear(m);
    }
    for (int i = 0; i < 3; i++) machine_close(&others[i]);
}

static void test_rows_do_not_depend_on_the_batch(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_batches);
    each_machine(PRECISION_NATIVE, check_batches);
}

// Rows of every number of groups, up to those that take the kernels several steps, with odd numbers
// of outputs; and each number of rows that has a kernel of its own.
static void check_lengths(struct machine *m) {
    if (m->threads > 1 || !on_cpu()) return;
    enum { ROWS = 20, FEW = 17, GROUPS = 20 };
    for (int l = 0; l < LAYOUTS; l++)
        for (int64_t groups = 1; groups <= GROUPS && layouts[l].group; groups++) {
            int64_t in = groups * layouts[l].group, out = 1 + groups * 11 % 45;
            struct matrix a = make_matrix(m, &layouts[l], out, in);
            float *x = noise_array(ROWS * in);
            struct tensor t = put_f32(m, x, 2, (int64_t[]){ROWS, in});
            float *all = get(m, linear(&m->c, t, &a.w));
            struct deviation d = {0};
            check_linear(m, &a, NULL, x, ROWS, false, all, &d);
            for (int64_t n = 1; n <= FEW; n++) expect_rows(m, t, &a.w, 0, n, all);
            free(all), free(x);
            matrix_free(&a);
            machine_clear(m);
        }
}

static void test_every_length(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_lengths);
}

// Fused and joint products are the plain ones, bit for bit.
static void check_fused(struct machine *m) {
    static const int pairs[][2] = {{3, 6}, {6, 6}, {3, 3}, {0, 3}, {2, 16}, {1, 1}, {9, 6}};
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++)
        for (int64_t n = 1; n < 200; n = n * 3 + 4) {
            struct matrix a = make_matrix(m, &layouts[pairs[p][0]], 75, 160);
            struct matrix b = make_matrix(m, &layouts[pairs[p][1]], 75, 160);
            float *x = noise_array(n * 160), *bias = noise_array(75);
            b.w.bias = put_f32(m, bias, 1, (int64_t[]){75});
            struct tensor t = put_f32(m, x, 2, (int64_t[]){n, 160}), y[2];
            linear_many(&m->c, t, 2, (const struct weight *const[]){&a.w, &b.w}, y);
            float *both[2] = {get(m, y[0]), get(m, y[1])};
            float *one[2] = {get(m, linear(&m->c, t, &a.w)), get(m, linear(&m->c, t, &b.w))};
            for (int i = 0; i < 2; i++) expect_same("joint", both[i], one[i], n * 75, 1e-5);
            float *apart = get(m, act_mul(&m->c, y[0], y[1], ACT_SILU));
            float *fused = get(m, glu(&m->c, t, &a.w, &b.w, ACT_SILU));
            for (int64_t i = 0; i < n * 75 && on_cpu(); i++) {
                double g = one[0][i], want = g / (1 + exp(-g)) * one[1][i];
                expect_near("glu", i, fused[i], want, 1e-6 * fabs(want) + 1e-30);
            }
            expect_same("glu", fused, apart, n * 75, 1e-5);
            for (int i = 0; i < 2; i++) free(both[i]), free(one[i]);
            free(apart), free(fused), free(x), free(bias);
            matrix_free(&a), matrix_free(&b);
            machine_clear(m);
        }
}

// What is around a product gives what its parts give: a norm before, a residual stream or a gate
// after.
static void check_around(struct machine *m) {
    static const int kinds[] = {0, 2, 4, 5, 9, LAYOUTS - 1, LAYOUTS - 1};
    for (size_t l = 0; l < sizeof kinds / sizeof *kinds; l++)
        for (int64_t n = 1; n < 60; n = n * 7 + 1) {
            int64_t in = whole_groups(&layouts[kinds[l]], l % 2 ? 2336 : l == 6 ? 1280 : 224);
            struct matrix a = make_matrix(m, &layouts[kinds[l]], 75, in);
            struct matrix b = make_matrix(m, &layouts[kinds[l]], 75, in);
            float *x = noise_array(n * in), *w = noise_array(in), *to = noise_array(n * 75);
            float *bias = noise_array(75);
            a.w.bias = put_f32(m, bias, 1, (int64_t[]){75});
            struct tensor t = put_f32(m, x, 2, (int64_t[]){n, in}), y[2], z[2];
            struct rms norm = {l % 3 ? put_f32(m, w, 1, &in) : (struct tensor){0}, 1e-5f};
            const struct weight *const both[] = {&a.w, &b.w};
            struct tensor h = rms_norm(&m->c, t, norm.w, norm.eps);
            linear_many(&m->c, h, 2, both, z);
            normed_linear(&m->c, t, &norm, 2, both, y);
            for (int i = 0; i < 2; i++) {
                float *got = get(m, y[i]), *want = get(m, z[i]);
                expect_same("normed_linear", got, want, n * 75, rows_tolerance(m));
                free(got), free(want);
            }
            float *got = get(m, normed_glu(&m->c, t, &norm, &a.w, &b.w, ACT_SILU));
            float *want = get(m, act_mul(&m->c, z[0], z[1], ACT_SILU));
            expect_same("normed_glu", got, want, n * 75, 2 * rows_tolerance(m));
            free(got), free(want);
            const int64_t shape[] = {n, 75};
            got = get(m, linear_to(&m->c, put_f32(m, to, 2, shape), h, &a.w));
            want = get(m, add_to(&m->c, put_f32(m, to, 2, shape), z[0]));
            expect_same("linear_to", got, want, n * 75, rows_tolerance(m));
            free(got), free(want), free(x), free(w), free(to), free(bias);
            matrix_free(&a), matrix_free(&b);
            machine_clear(m);
        }
}

// The gated half of an MLP, which may be in BF16, and the product that reads it, against their
// parts, for as many rows as a GPU has other kernels for.
static void check_mlp(struct machine *m) {
    enum { WIDTH = 256, OUT = 72 };
    static const int kinds[][2] = {{2, 2}, {4, 2}, {24, 4}, {6, 1}, {2, 0}, {0, 2}, {9, 9}};
    static const int64_t rows[] = {200, 70};
    if (m->threads > 1) return;
    for (size_t i = 0; i < 2 * sizeof kinds / sizeof *kinds; i++) {
        size_t l = i / 2;
        int64_t n = rows[i % 2];
        struct matrix gate = make_matrix(m, &layouts[kinds[l][0]], WIDTH, 128);
        struct matrix up = make_matrix(m, &layouts[kinds[l][0]], WIDTH, 128);
        struct matrix down = make_matrix(m, &layouts[kinds[l][1]], OUT, WIDTH);
        float *x = noise_array(n * 128), *to = noise_array(n * OUT);
        float *bias = noise_array(WIDTH);
        if (l % 2) gate.w.bias = put_f32(m, bias, 1, (int64_t[]){WIDTH});
        if (l % 3 == 1) up.w.bias = put_f32(m, bias, 1, (int64_t[]){WIDTH});
        if (l % 2) down.w.bias = put_f32(m, bias, 1, (int64_t[]){OUT});
        struct tensor t = put_f32(m, x, 2, (int64_t[]){n, 128}), y[2];
        struct rms norm = {l % 2 ? put_f32(m, bias, 1, (int64_t[]){128}) : (struct tensor){0},
                           0.1f};
        const int64_t shape[] = {n, OUT};
        struct tensor h = normed_glu(&m->c, t, &norm, &gate.w, &up.w, ACT_SILU);
        float *got = get(m, linear_to(&m->c, put_f32(m, to, 2, shape), h, &down.w));
        h = rms_norm(&m->c, t, norm.w, norm.eps);
        linear_many(&m->c, h, 2, (const struct weight *const[]){&gate.w, &up.w}, y);
        float *only = get(m, linear(&m->c, glu(&m->c, h, &gate.w, &up.w, ACT_SILU), &down.w));
        h = linear(&m->c, act_mul(&m->c, y[0], y[1], ACT_SILU), &down.w);
        float *alone = get(m, h), *want = get(m, add_to(&m->c, put_f32(m, to, 2, shape), h));
        expect_same("an MLP", only, alone, n * OUT, 2 * rows_tolerance(m));
        expect_same("an MLP of a residual stream", got, want, n * OUT, 2 * rows_tolerance(m));
        free(got), free(only), free(alone), free(want), free(x), free(to), free(bias);
        matrix_free(&gate), matrix_free(&up), matrix_free(&down);
        machine_clear(m);
    }
}

// Output o of a row, and in *off how much kernels may be off: what check_linear allows.
static double product_at(const struct machine *m, const struct matrix *a, const float *bias,
                         const double *x, int64_t o, double *off) {
    bool native = m->c.precision == PRECISION_NATIVE;
    double sum = bias ? bias[o] : 0, size = fabs(sum);
    for (int64_t i = 0; i < a->w.in; i++) {
        sum += a->value[o * a->w.in + i] * x[i];
        size += a->size[o * a->w.in + i] * fabs(x[i]);
    }
    *off = 1e-6 * size;
    if (native && !on_cpu()) *off += 0x1p-7 * size;
    if (native && on_cpu() && rounds_to_bf16(m, a)) *off += 0x1p-8 * size;
    return sum;
}

struct bands {
    int64_t n, in, out, wide, wide_y; // bands of x and of what is added to, of rows so wide
    const float *x, *norm, *to, *bias;
    const struct matrix *w[2];
};

// normed, gated [n, out]; added [n, wide_y].
static void check_bands_of(const struct machine *m, const struct bands *b, float *normed[2],
                           const float *gated, const float *added) {
    double *row = mem_array((size_t)b->in, sizeof *row);
    for (int64_t r = 0; r < b->n; r++) {
        double square = 0, off[2];
        for (int64_t i = 0; i < b->in; i++) row[i] = (double)b->x[r * b->wide + i];
        for (int64_t i = 0; i < b->in; i++) square += row[i] * row[i];
        for (int64_t at = r * b->wide_y, o = 0; o < b->wide_y; at++, o++) {
            double more = o < b->out ? product_at(m, b->w[0], b->bias, row, o, off) : (off[0] = 0);
            double want = (double)b->to[at] + more;
            expect_near("added", at, (double)added[at], want, off[0] + 1e-6 * fabs(want));
        }
        double by = 1 / sqrt(square / (double)b->in + 1e-5);
        for (int64_t i = 0; i < b->in; i++) row[i] *= by * (b->norm ? (double)b->norm[i] : 1);
        for (int64_t at = r * b->out, o = 0; o < b->out; at++, o++) {
            double g = product_at(m, b->w[0], b->bias, row, o, &off[0]);
            double u = product_at(m, b->w[1], b->bias, row, o, &off[1]),
                   want = g / (1 + exp(-g)) * u;
            expect_near("normed", at, (double)normed[0][at], g, off[0]);
            expect_near("normed", at, (double)normed[1][at], u, off[1]);
            // A gate's slope is at most 1.1.
            expect_near("gated", at, (double)gated[at], want,
                        1.1 * off[0] * (fabs(u) + off[1]) + fabs(g) * off[1] + 1e-5 * fabs(want));
        }
    }
    free(row);
}

// Products of some rows with dense BF16 weights, and what is around them, against doubles.
static void check_bands(struct machine *m) {
    static const int64_t shapes[][3] = {{9, 328, 75},   {16, 64, 205},  {33, 1032, 129},
                                        {64, 2048, 70}, {100, 520, 43}, {128, 136, 301}};
    enum { BEFORE = 8, AFTER = 5 };
    if (m->threads > 1) return;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        struct bands b = {.n = shapes[s][0], .in = shapes[s][1], .out = shapes[s][2]};
        b.wide = BEFORE + b.in + 24, b.wide_y = b.out + AFTER;
        struct matrix w[2] = {make_matrix(m, &layouts[2], b.out, b.in),
                              make_matrix(m, &layouts[s % 2 ? 12 : 2], b.out, b.in)};
        float *x = noise_array(b.n * b.wide), *norm = s % 2 ? noise_array(b.in) : NULL;
        float *to = noise_array(b.n * b.wide_y), *bias = s % 3 ? noise_array(b.out) : NULL;
        if (bias) w[0].w.bias = w[1].w.bias = put_f32(m, bias, 1, &b.out);
        b.x = x + BEFORE, b.norm = norm, b.to = to, b.bias = bias, b.w[0] = w, b.w[1] = w + 1;
        struct tensor t = put_f32(m, x, 2, (int64_t[]){b.n, b.wide}), y[2];
        struct tensor sum = put_f32(m, to, 2, (int64_t[]){b.n, b.wide_y});
        struct rms rms = {norm ? put_f32(m, norm, 1, &b.in) : (struct tensor){0}, 1e-5f};
        t = tensor_slice(t, 1, BEFORE, b.in);
        normed_linear(&m->c, t, &rms, 2, (const struct weight *const[]){&w[0].w, &w[1].w}, y);
        float *normed[2] = {get(m, y[0]), get(m, y[1])};
        float *gated = get(m, normed_glu(&m->c, t, &rms, &w[0].w, &w[1].w, ACT_SILU));
        linear_to(&m->c, tensor_slice(sum, 1, 0, b.out), t, &w[0].w);
        float *added = get(m, sum);
        check_bands_of(m, &b, normed, gated, added);
        free(normed[0]), free(normed[1]), free(gated), free(added);
        free(x), free(norm), free(to), free(bias);
        matrix_free(&w[0]), matrix_free(&w[1]);
        machine_clear(m);
    }
}

static void test_around_products(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_around);
    each_machine(PRECISION_NATIVE, check_around);
    each_machine(PRECISION_F32, check_bands);
    each_machine(PRECISION_NATIVE, check_bands);
    each_machine(PRECISION_F32, check_mlp);
    each_machine(PRECISION_NATIVE, check_mlp);
}

static void test_fused_products(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_fused);
    each_machine(PRECISION_NATIVE, check_fused);
}

// A matrix a head: each head's product is what linear makes of its columns in f32. As columns, the
// sums are in another order.
static void check_heads(struct machine *m) {
    enum { HEADS = 3, ROWS = 5, OUT = 37 };
    for (int l = 0; l < LAYOUTS; l++)
        for (int columns = 0; columns < 2; columns++) {
            int64_t in = whole_groups(&layouts[l], 70);
            struct matrix a[HEADS];
            struct weight w[HEADS];
            for (int h = 0; h < HEADS; h++) a[h] = make_matrix(m, &layouts[l], OUT, in);
            for (int h = 0; h < HEADS; h++) w[h] = a[h].w;
            int64_t from = columns ? OUT : in, to = columns ? in : OUT;
            float *x = noise_array(ROWS * HEADS * from);
            struct tensor t = put_f32(m, x, 3, (int64_t[]){ROWS, HEADS, from});
            struct matrices heads = put_matrices(m, w, HEADS);
            float *y = get(m, head_linear(&m->c, t, &heads, columns));
            for (int64_t i = 0; i < ROWS * HEADS * to; i++) {
                double want = 0, size = 0;
                const struct matrix *b = &a[i / to % HEADS];
                for (int64_t k = 0; k < from; k++) {
                    int64_t at = columns ? k * in + i % to : i % to * in + k;
                    want += b->value[at] * x[i / to * from + k];
                    size += b->size[at] * fabs((double)x[i / to * from + k]);
                }
                expect_near("head_linear", i, y[i], want, 1e-6 * size);
            }
            float *part = get(m, head_linear(&m->c, tensor_slice(t, 0, 3, 1), &heads, columns));
            expect_same("head_linear", part, y + 3 * HEADS * to, HEADS * to, 1e-6);
            for (int h = 0; h < HEADS; h++) matrix_free(&a[h]);
            free(x), free(y), free(part);
            machine_clear(m);
        }
}

// The same of as many rows as a GPU has another kernel for, which rounds x and w to bf16.
static void check_many_heads(struct machine *m) {
    enum { HEADS = 3, ROWS = 200, OUT = 40, IN = 128 };
    static const int kinds[] = {2, 4, 24, 6, 0};
    for (int l = 0; l < 10 && m->threads == 1; l++) {
        bool columns = l % 2;
        struct matrix a[HEADS];
        struct weight w[HEADS];
        for (int h = 0; h < HEADS; h++) a[h] = make_matrix(m, &layouts[kinds[l / 2]], OUT, IN);
        for (int h = 0; h < HEADS; h++) w[h] = a[h].w;
        int64_t from = columns ? OUT : IN, to = columns ? IN : OUT;
        float *x = noise_array(ROWS * HEADS * from);
        struct tensor t = put_f32(m, x, 3, (int64_t[]){ROWS, HEADS, from});
        struct matrices heads = put_matrices(m, w, HEADS);
        float *y = get(m, head_linear(&m->c, t, &heads, columns));
        for (int64_t i = 0; i < ROWS * HEADS * to; i += 3) {
            double want = 0, size = 0;
            const struct matrix *b = &a[i / to % HEADS];
            for (int64_t k = 0; k < from; k++) {
                int64_t at = columns ? k * IN + i % to : i % to * IN + k;
                want += b->value[at] * x[i / to * from + k];
                size += b->size[at] * fabs((double)x[i / to * from + k]);
            }
            expect_near("head_linear", i, y[i], want, (on_cpu() ? 1e-6 : 0x1p-8) * size);
        }
        for (int h = 0; h < HEADS; h++) matrix_free(&a[h]);
        free(x), free(y);
        machine_clear(m);
    }
}

static void test_heads(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_heads);
    each_machine(PRECISION_NATIVE, check_many_heads);
}

// What is not finite stays in its row, and stays not finite.
static void check_not_finite(struct machine *m) {
    for (int l = 0; l < LAYOUTS; l++) {
        int64_t in = whole_groups(&layouts[l], 70);
        struct matrix a = make_matrix(m, &layouts[l], 20, in);
        float *x = noise_array(6 * in);
        for (int64_t i = 0; i < in; i++) x[3 * in + i] = x[5 * in + i] * 1e-42f;
        for (int64_t i = 0; i < in; i++) x[4 * in + i] = 0;
        x[1 * in + 5] = NAN;
        x[2 * in + 33] = INFINITY;
        float *y = get(m, linear(&m->c, put_f32(m, x, 2, (int64_t[]){6, in}), &a.w));
        for (int64_t o = 0; o < 20; o++) {
            assert_true(isfinite(y[o]) && isfinite(y[5 * 20 + o]));
            assert_true(isnan(y[20 + o]));
            assert_false(isfinite(y[2 * 20 + o]));
            assert_true(fabsf(y[3 * 20 + o]) < 1e-36f && y[4 * 20 + o] == 0);
        }
        free(x), free(y);
        matrix_free(&a);
        machine_clear(m);
    }
}

static void test_not_finite(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_not_finite);
    each_machine(PRECISION_NATIVE, check_not_finite);
}

// --- rows ----------------------------------------------------------------------------------------

static void check_embed(struct machine *m) {
    for (int l = 0; l < LAYOUTS; l++) {
        int64_t in = whole_groups(&layouts[l], 75), n = 5;
        const int32_t ids[] = {0, 12, 3, 3, 7};
        struct matrix a = make_matrix(m, &layouts[l], 13, in);
        float *y = get(m, embed(&m->c, &a.w, put_i32(m, ids, n)));
        for (int64_t i = 0; i < n * in; i++) {
            int64_t at = ids[i / in] * in + i % in; // two roundings to f32
            expect_near("embed", i, y[i], a.value[at], a.size[at] * 0x1p-23);
        }
        free(y);
        matrix_free(&a);
        machine_clear(m);
    }
}

static void test_embed(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_embed);
}

// w and b may be NULL. In f32 the mean is off by some 1e-7 of the elements' size, which is of the
// order of 1 here, and so is each difference to it.
static void check_norm(struct machine *m, bool centred, struct tensor t, const float *x, int64_t ld,
                       const float *w, const float *b, float eps) {
    int64_t width = tensor_width(t), rows = tensor_rows(t), each = rows / t.n[0];
    struct tensor none = {0}, scale = w ? put_f32(m, w, 1, &width) : none;
    struct tensor shift = b ? put_f32(m, b, 1, &width) : none;
    float *y =
        get(m, centred ? layer_norm(&m->c, t, scale, shift, eps) : rms_norm(&m->c, t, scale, eps));
    for (int64_t r = 0; r < rows; r++) {
        const float *from = x + r / each * ld + r % each * width;
        double mean = 0, sum = 0;
        for (int64_t i = 0; i < width && centred; i++) mean += from[i] / (double)width;
        for (int64_t i = 0; i < width; i++) sum += (from[i] - mean) * (from[i] - mean);
        double by = 1 / sqrt(sum / (double)width + eps);
        for (int64_t i = 0; i < width; i++) {
            double factor = by * (w ? w[i] : 1), want = (from[i] - mean) * factor + (b ? b[i] : 0);
            double tolerance = centred ? 1e-6 * (3 * fabs(factor) + fabs(want)) : 1e-6 * fabs(want);
            expect_near(centred ? "layer_norm" : "rms_norm", r * width + i, y[r * width + i], want,
                        tolerance);
        }
    }
    free(y);
}

// With a weight for each head: as each head by itself.
static void check_head_norms(struct machine *m, struct tensor heads, const float *w) {
    int64_t width = tensor_width(heads), n = heads.n[0], count = heads.n[1];
    float *all = get(m, rms_norm(&m->c, heads, put_f32(m, w, 2, heads.n + 1), 1e-6f));
    for (int64_t h = 0; h < count; h++) {
        struct tensor scale = put_f32(m, w + h * width, 1, &width);
        float *one = get(m, rms_norm(&m->c, tensor_slice(heads, 1, h, 1), scale, 1e-6f));
        for (int64_t r = 0; r < n; r++)
            assert_memory_equal(one + r * width, all + (r * count + h) * width, (size_t)width * 4);
        free(one);
    }
    free(all);
}

static void check_norms(struct machine *m) {
    static const int64_t widths[] = {1, 7, 16, 33, 64, 576, 1000, 4099};
    for (size_t k = 0; k < sizeof widths / sizeof *widths; k++) {
        int64_t width = widths[k], n = 33;
        float *x = noise_array(n * width * 3), *w = noise_array(width), *b = noise_array(width);
        struct tensor all = put_f32(m, x, 2, (int64_t[]){n, width * 3});
        struct tensor heads = tensor_split_heads(tensor_slice(all, 1, width, 2 * width), 2);
        struct tensor one = tensor_slice(heads, 0, 4, 1);
        check_norm(m, false, all, x, width * 3, x, NULL, 1e-5f);
        check_norm(m, false, heads, x + width, width * 3, w, NULL, 1e-6f);
        check_norm(m, false, heads, x + width, width * 3, NULL, NULL, 1e-6f);
        check_norm(m, false, one, x + 4 * width * 3 + width, width * 3, w, NULL, 1e-6f);
        check_norm(m, true, all, x, width * 3, x, x, 1e-5f);
        check_norm(m, true, heads, x + width, width * 3, w, NULL, 1e-2f);
        check_norm(m, true, heads, x + width, width * 3, NULL, NULL, 1e-2f);
        check_norm(m, true, one, x + 4 * width * 3 + width, width * 3, w, b, 1e-2f);
        scratch_release(&m->c, 0);
        check_head_norms(m, heads, x);
        free(x), free(w), free(b);
        machine_clear(m);
    }
}

static void test_norms(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_norms);
}

static void check_elementwise(struct machine *m) {
    enum { WIDTH = 1003, ROWS = 3, N = WIDTH * ROWS };
    float *a = mem_array(N, 4), *b = noise_array(N);
    for (int i = 0; i < N; i++) a[i] = (float)(-110 + 220.0 * i / N);
    a[0] = 0, a[1] = -0.0f, a[2] = INFINITY, a[3] = 1e30f, a[4] = -1e30f, a[5] = 1e-30f;
    a[6] = NAN;
    struct tensor x = put_f32(m, a, 2, (int64_t[]){ROWS, WIDTH});
    struct tensor y = put_f32(m, b, 2, (int64_t[]){ROWS, WIDTH});
    float *z = get(m, act_mul(&m->c, x, y, ACT_SILU));
    for (int i = 0; i < N; i++) {
        double v = a[i], want = i == 4 ? 0 : v / (1 + exp(-v)) * b[i];
        if (i == 2 || i == 6) {
            assert_true(i == 2 ? z[i] == (b[i] > 0 ? INFINITY : -INFINITY) : isnan(z[i]));
            continue;
        }
        // e^-x within 2 ulp, a sum, a quotient and a product; past -87 the exponential overflows
        expect_near("act_mul", i, z[i], want, 6e-7 * fabs(want) + (v < -87 ? 1e-35 : 0));
    }
    free(z);
    z = get(m, add_to(&m->c, y, x));
    for (int i = 0; i < N; i++) assert_true(z[i] == a[i] + b[i] || i == 6);
    free(z);
    z = get(m, gather_rows(&m->c, x, put_i32(m, (const int32_t[]){2, 0, 0, 1}, 4)));
    assert_memory_equal(z, a + 2 * WIDTH, WIDTH * sizeof *a);
    assert_memory_equal(z + 2 * WIDTH, a, WIDTH * sizeof *a);
    assert_memory_equal(z + 3 * WIDTH, a + WIDTH, WIDTH * sizeof *a);
    free(a), free(b), free(z);
}

static double activation(enum activation act, double x) {
    switch (act) {
    case ACT_SILU: return x / (1 + exp(-x));
    case ACT_QUICK_GELU: return x / (1 + exp(-1.702 * x));
    case ACT_RELU_SQUARED: return x > 0 ? x * x : 0;
    case ACT_SIGMOID: return 1 / (1 + exp(-x));
    case ACT_GELU: return 0.5 * x * erfc(-x / sqrt(2));
    case ACT_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case ACT_NONE: return x;
    }
    return 0;
}

// Exponentials within 2 ulp; those of x^2 or x^3 where that is large lose a few more, but are small
// beside x then. The erf of the vector kernels is within 1.5e-7.
static void check_activations(struct machine *m) {
    enum { WIDTH = 1003, ROWS = 3, N = WIDTH * ROWS };
    static const enum activation acts[] = {
        ACT_SILU, ACT_GELU, ACT_GELU_TANH, ACT_QUICK_GELU, ACT_RELU_SQUARED, ACT_SIGMOID, ACT_NONE};
    float *a = mem_array(N, 4), *b = noise_array(N);
    for (int i = 0; i < N; i++) a[i] = (float)(-12 + 24.0 * i / N);
    a[0] = 0, a[1] = -0.0f, a[2] = 1e18f, a[3] = -1e30f, a[4] = 1e-30f;
    for (size_t k = 0; k < sizeof acts / sizeof *acts; k++) {
        struct tensor x = put_f32(m, a, 2, (int64_t[]){ROWS, WIDTH});
        float *product = get(m, act_mul(&m->c, x, put_f32(m, b, 2, x.n), acts[k]));
        float *y = get(m, activate(&m->c, x, acts[k]));
        for (int i = 0; i < N; i++) {
            bool gone = i == 3 && acts[k] != ACT_NONE; // -1e30
            double want = gone ? 0 : activation(acts[k], a[i]), size = fabs((double)a[i]);
            if (gone) size = 0;
            if (acts[k] == ACT_SIGMOID) size = 1;
            if (acts[k] == ACT_RELU_SQUARED) size = want;
            expect_near("activate", i, y[i], want, 3e-7 * size + 1e-35);
            expect_near("act_mul", i, product[i], y[i] * b[i],
                        1e-7 * fabs((double)y[i] * b[i]) + 1e-35);
        }
        free(y), free(product);
    }
    struct tensor x = put_f32(m, a, 2, (int64_t[]){ROWS, WIDTH});
    float *y = get(m, soft_cap(&m->c, x, 2.5f));
    for (int i = 0; i < N; i++)
        expect_near("soft_cap", i, y[i], 2.5 * tanh(a[i] / 2.5), 2.5 * 4e-7);
    free(y);
    y = get(m, scale(&m->c, put_f32(m, b, 2, x.n), 0.3f));
    for (int i = 0; i < N; i++) assert_true(y[i] == b[i] * 0.3f);
    free(y);
    y = get(m, copy_to(&m->c, scratch_tensor(&m->c, DT_F32, 2, x.n), x));
    float *capped = get(m, x), *bands = get(m, take_bands(&m->c, x, 17, 5, 11)); // 1003 = 59 * 17
    assert_memory_equal(y, capped, N * sizeof *y);
    for (int i = 0; i < N / 17 * 11; i++) assert_true(bands[i] == capped[i / 11 * 17 + 5 + i % 11]);
    free(capped), free(bands);
    free(a), free(b), free(y);
}

static void check_join(struct machine *m) {
    enum { ROWS = 7, HEADS = 3, A = 5, B = 20 };
    float *a = noise_array(ROWS * HEADS * A), *b = noise_array(ROWS * HEADS * B);
    float *y = get(m, join(&m->c, put_f32(m, a, 3, (int64_t[]){ROWS, HEADS, A}),
                           put_f32(m, b, 3, (int64_t[]){ROWS, HEADS, B})));
    for (int i = 0; i < ROWS * HEADS; i++) {
        assert_memory_equal(y + i * (A + B), a + i * A, A * sizeof *a);
        assert_memory_equal(y + i * (A + B) + A, b + i * B, B * sizeof *b);
    }
    free(a), free(b), free(y);
}

static void check_argmax(struct machine *m) {
    enum { ROWS = 5, WIDTH = 10001 }; // on a GPU blocks share a row
    static const int32_t want[ROWS] = {0, 17, WIDTH - 1, -1 - (WIDTH - 2), -1};
    float *x = mem_array(ROWS * WIDTH, 4);
    int32_t got[ROWS];
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = -(float)(i % 13) - 1;
    x[0] = x[12] = x[9000] = -0.5f;                         // the first of equals
    x[WIDTH + 17] = x[WIDTH + 8000] = INFINITY;             // what is greatest may be infinite
    x[3 * WIDTH - 1] = 0.25f;                               // the last
    x[4 * WIDTH - 2] = 1, x[3 * WIDTH] = NAN;               // NaN is the least
    for (int i = 0; i < WIDTH; i++) x[4 * WIDTH + i] = NAN; // of nothing but NaN the first
    struct tensor t = put_f32(m, x, 2, (int64_t[]){ROWS, WIDTH});
    for (int again = 0; again < 2; again++) {
        read_i32(&m->c, argmax(&m->c, put_i32(m, got, ROWS), t), got);
        for (int i = 0; i < ROWS; i++) assert_int_equal(got[i], want[i]);
    }
    free(x);
}

static void test_argmax(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_argmax);
}

static void test_elementwise(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_elementwise);
    each_machine(PRECISION_NATIVE, check_activations);
    each_machine(PRECISION_NATIVE, check_join);
}

// The rows of x as a band of columns among others: ops take such views.
static struct tensor put_band(struct machine *m, const float *x, int64_t rows, int64_t width) {
    float *wide = noise_array(rows * (width + 5));
    for (int64_t i = 0; i < rows; i++)
        memcpy(wide + i * (width + 5) + 3, x + i * width, (size_t)width * sizeof *x);
    struct tensor t = put_f32(m, wide, 2, (int64_t[]){rows, width + 5});
    free(wide);
    return tensor_slice(t, 1, 3, width);
}

static struct tensor dense(struct machine *m, struct tensor t) {
    return copy_to(&m->c, scratch_tensor(&m->c, DT_F32, 2, t.n), t);
}

// Sums of a row in f32, in several parts: 1e-6 of what is summed.
static void check_row_statistics(struct machine *m, int64_t width) {
    enum { ROWS = 4 };
    static const float by = 0.7f, least = 0.01f;
    float *x = noise_array(ROWS * width), *like = noise_array(ROWS * width);
    for (int64_t i = 0; i < width; i++) x[i] *= 0.05f; // its mean of squares is below the least
    for (int64_t i = width; i < 2 * width; i++) x[i] += 30;
    struct tensor cut = put_band(m, x, ROWS, width), sized = put_band(m, x, ROWS, width);
    float *y = get(m, dense(m, cut_below(&m->c, cut, by)));
    float *z = get(m, dense(m, match_size(&m->c, sized, put_band(m, like, ROWS, width), least)));
    for (int64_t row = 0; row < ROWS; row++) {
        double mean = 0, spread = 0, own = 0, wanted = 0, top = 0;
        for (int64_t i = row * width; i < (row + 1) * width; i++) {
            mean += x[i] / (double)width;
            own += (double)x[i] * x[i] / (double)width;
            wanted += (double)like[i] * like[i] / (double)width;
            top = fmax(top, fabs((double)x[i]));
        }
        for (int64_t i = row * width; i < (row + 1) * width; i++)
            spread += (x[i] - mean) * (x[i] - mean) / (double)width;
        double factor = sqrt(wanted) / sqrt(fmax(own, (double)least));
        for (int64_t i = row * width; i < (row + 1) * width; i++) {
            expect_near("cut_below", i, y[i], fmax(x[i] - mean - by * sqrt(spread), 0), 1e-6 * top);
            expect_near("match_size", i, z[i], x[i] * factor, 1e-6 * fabs(x[i] * factor));
        }
    }
    free(x), free(like), free(y), free(z);
}

static void check_streams(struct machine *m, int64_t in, int64_t out, int64_t width) {
    enum { ROWS = 5 };
    float *x = noise_array(ROWS * in * width), *w = noise_array(ROWS * out * in);
    float *y = get(m, mix_streams(&m->c, put_band(m, x, ROWS, in * width),
                                  put_band(m, w, ROWS, out * in), in));
    for (int64_t i = 0; i < ROWS * out * width; i++) {
        int64_t row = i / (out * width), to = i / width % out;
        double want = 0, size = 0;
        for (int64_t k = 0; k < in; k++) {
            double part =
                (double)w[(row * out + to) * in + k] * x[(row * in + k) * width + i % width];
            want += part, size += fabs(part);
        }
        expect_near("mix_streams", i, y[i], want, 3e-7 * size);
    }
    free(x), free(w), free(y);
}

static void check_columns(struct machine *m) {
    enum { ROWS = 3, WIDTH = 37 };
    float *x = noise_array(ROWS * WIDTH), *by = noise_array(WIDTH);
    struct tensor factors = put_f32(m, by, 1, (int64_t[]){WIDTH});
    float *y = get(m, dense(m, scale_columns(&m->c, put_band(m, x, ROWS, WIDTH), factors)));
    for (int i = 0; i < ROWS * WIDTH; i++) assert_true(y[i] == x[i] * by[i % WIDTH]);
    free(x), free(by), free(y);
}

static void check_bound_ids(struct machine *m) {
    static const float table[] = {10, 11, 12, 13};
    static const int32_t ids[] = {3, 4, 0, 2147483647, 2, 5};
    static const float want[] = {13, 10, 10, 10, 12, 10};
    struct weight w = {.layout = WEIGHT_DENSE, .out = 4, .in = 1};
    w.data = put_f32(m, table, 2, (int64_t[]){4, 1});
    float *y = get(m, embed(&m->c, &w, bound_ids(&m->c, put_i32(m, ids, 6), 4)));
    assert_memory_equal(y, want, sizeof want);
    free(y);
}

static void check_residual_streams(struct machine *m) {
    static const int64_t widths[] = {1, 7, 16, 33, 200, 1003};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        check_row_statistics(m, widths[i]);
        check_streams(m, 3, 3, widths[i]);
        check_streams(m, 1, 4, widths[i]);
        check_streams(m, 4, 1, widths[i]);
        machine_clear(m);
    }
    check_columns(m);
    check_bound_ids(m);
}

static void test_residual_streams(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_residual_streams);
}

enum { ROPE_ROWS = 6, LONGEST = 4000 };

// long_too: rows of sequences longer than LONGEST turn half as fast.
static void check_rope(struct machine *m, const float *x, const float *freq, const int64_t shape[3],
                       bool interleaved, bool long_too) {
    static const int32_t pos[] = {0, 1, 7, 8191, 131071, 1000003};
    static const int32_t length[] = {LONGEST, LONGEST + 1, 10000, 1, LONGEST - 1, 1000004};
    int64_t heads = shape[0], width = shape[1], pairs = shape[2], ld = heads * width + 5;
    float *half = mem_array((size_t)pairs, sizeof *half);
    for (int64_t i = 0; i < pairs; i++) half[i] = freq[i] / 2;
    struct rope r = {.inv_freq = put_f32(m, freq, 1, &pairs),
                     .longest = LONGEST,
                     .scale = 0.75f,
                     .interleaved = interleaved};
    if (long_too) r.long_freq = put_f32(m, half, 1, &pairs);
    struct rows rows = {.n = ROPE_ROWS, .pos = put_i32(m, pos, ROPE_ROWS)};
    rows.length = put_i32(m, length, ROPE_ROWS);
    struct tensor all = put_f32(m, x, 2, (int64_t[]){ROPE_ROWS, ld});
    rope(&m->c, tensor_split_heads(tensor_slice(all, 1, 5, heads * width), heads), &rows, &r);
    float *y = get(m, all);
    for (int64_t i = 0; i < ROPE_ROWS * ld; i++) {
        int64_t at = i % ld - 5, k = at % width, row = i / ld;
        bool turns = at >= 0 && k < 2 * pairs;
        double want = x[i];
        if (turns) { // the angle itself is a product in f32
            const float *f = long_too && length[row] > LONGEST ? half : freq;
            int64_t pair = interleaved ? k / 2 : k % pairs, away = interleaved ? 1 : pairs;
            bool first = interleaved ? k % 2 == 0 : k < pairs;
            double angle = (float)pos[row] * f[pair], c = cos(angle) * 0.75, n = sin(angle) * 0.75;
            want = first ? x[i] * c - x[i + away] * n : x[i] * c + x[i - away] * n;
        }
        expect_near("rope", i, y[i], want, turns ? 1e-6 : 0);
    }
    free(y), free(half);
}

static void check_ropes(struct machine *m) {
    static const int64_t shapes[][3] = {// heads, width, pairs
                                        {1, 2, 1},
                                        {3, 64, 32},
                                        {9, 80, 20},
                                        {2, 33, 7},
                                        {1, 600, 300}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int64_t heads = shapes[s][0], width = shapes[s][1], pairs = shapes[s][2];
        int64_t ld = heads * width + 5;
        float *x = noise_array(ROPE_ROWS * ld), *freq = mem_array((size_t)pairs, 4);
        for (int64_t i = 0; i < pairs; i++) freq[i] = powf(500000.0f, -(float)i / (float)pairs);
        for (int kind = 0; kind < 4; kind++) check_rope(m, x, freq, shapes[s], kind & 1, kind & 2);
        free(x), free(freq);
        machine_clear(m);
    }
}

static void test_rope(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_ropes);
}

// --- contracts -----------------------------------------------------------------------------------

// A dry run measures at least what the real one takes, for this number of rows and for fewer.
static void test_dry_run(void **state) {
    (void)state;
    struct machine m;
    machine_open(&m, ISA_BEST, 4, PRECISION_NATIVE);
    struct matrix a = make_matrix(&m, &layouts[3], 96, 64),
                  b = make_matrix(&m, &layouts[6], 96, 64);
    struct error e = {0};
    struct context dry;
    assert_true(context_open(&dry, m.dev, PRECISION_NATIVE, 0, true, &e));
    size_t peak = 0;
    for (int64_t n = 64; n > 0; n--) {
        struct tensor nothing = tensor_1d(DT_I32, n, NULL);
        struct rows rows = {.n = n, .index = nothing, .seq = nothing};
        struct kv kv = {.k = tensor_nd(DT_F16, 4, (int64_t[]){300, 2, 16, 32}, NULL),
                        .v = tensor_nd(DT_F16, 4, (int64_t[]){300, 2, 16, 32}, NULL),
                        .table = tensor_2d(DT_I32, 4, 300, NULL)};
        size_t before = dry.peak;
        dry.peak = 0;
        struct tensor x = scratch_tensor(&dry, DT_F32, 2, (int64_t[]){n, 64});
        struct tensor y = glu(&dry, x, &a.w, &b.w, ACT_SILU);
        (void)y;
        struct tensor q = tensor_split_heads(x, 2);
        attention(&dry, q, &kv, &rows, &(struct attention_options){.scale = 1});
        assert_false(dry.err.set);
        if (n == 64)
            peak = dry.peak;
        else
            assert_true(dry.peak <= peak && dry.peak > 0 && before > 0);
        scratch_release(&dry, 0);
    }
    context_close(&dry);
    matrix_free(&a), matrix_free(&b);
    machine_close(&m);
}

static void test_first_error_sticks(void **state) {
    (void)state;
    struct machine m;
    machine_open(&m, ISA_BEST, 1, PRECISION_NATIVE);
    struct matrix a = make_matrix(&m, &layouts[0], 8, 16);
    float *x = noise_array(15);
    struct tensor t = put_f32(&m, x, 2, (int64_t[]){1, 15});
    struct tensor y = linear(&m.c, t, &a.w);
    assert_true(m.c.err.set && y.n[1] == 8);
    assert_string_equal(m.c.err.text, "linear: x has 15 columns, the weight takes 16");
    rms_norm(&m.c, t, t, 1);
    assert_string_equal(m.c.err.text, "linear: x has 15 columns, the weight takes 16");
    m.c.err = (struct error){0};
    free(x);
    matrix_free(&a);
    machine_close(&m);
}

static void test_instruction_sets(void **state) {
    (void)state;
    struct error e = {0};
    setenv("MLXCEL_CPU_ISA", "mmx", 1);
    assert_null(
        device_open("cpu", &(struct device_options){.pool.threads = 1, .isa = ISA_BEST}, &e));
    assert_non_null(strstr(e.text, "MLXCEL_CPU_ISA \"mmx\""));
    assert_non_null(strstr(e.text, "plain"));
    setenv("MLXCEL_CPU_ISA", "plain", 1);
    struct device *d =
        device_open("cpu", &(struct device_options){.pool.threads = 1, .isa = ISA_BEST}, &e);
    assert_string_equal(d->name, "cpu (plain, 1 thread)");
    device_close(d);
    unsetenv("MLXCEL_CPU_ISA");
    for (int isa = ISA_PLAIN; isa < ISA_BEST; isa++) {
        struct error refused = {0};
        d = device_open("cpu", &(struct device_options){.pool.threads = 2, .isa = (enum isa)isa},
                        &refused);
        assert_int_equal(d != NULL, isa_supported((enum isa)isa));
        assert_int_equal(refused.set, !isa_supported((enum isa)isa));
        device_close(d);
    }
}

// --- loading -------------------------------------------------------------------------------------

// Weights come as they are, whatever their sizes, between and beyond the parts that they go in.
static void test_load(void **state) {
    (void)state;
    static const size_t sizes[] = {1,       64,       1000,           262143, 262145,
                                   5 << 20, 16 << 20, (40 << 20) + 3, 7};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    struct machine m;
    struct error e = {0};
    uint8_t *host[COUNT], *back = mem_alloc((40 << 20) + 3);
    void *at[COUNT];
    machine_open(&m, ISA_BEST, 1, PRECISION_F32);
    for (int i = 0; i < COUNT; i++) {
        host[i] = mem_alloc(sizes[i]);
        for (size_t k = 0; k < sizes[i]; k++) host[i][k] = (uint8_t)random_bits();
        at[i] = m.held[m.count++] = device_alloc(m.dev, sizes[i], "a weight", &e);
        device_load(m.dev, at[i], host[i], sizes[i]);
    }
    assert_true(device_loaded(m.dev, &e));
    for (int i = 0; i < COUNT; i++) {
        m.dev->ops->read(&m.c, back, at[i], sizes[i]);
        assert_memory_equal(back, host[i], sizes[i]);
        free(host[i]);
    }
    free(back);
    machine_close(&m);
}

int main(int argc, char **argv) {
    test_options(argc, argv);
    unsetenv("MLXCEL_CPU_ISA"); // the tests choose
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_published_weights),
        cmocka_unit_test(test_rows_do_not_depend_on_the_batch),
        cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_one_row),
        cmocka_unit_test(test_around_products),
        cmocka_unit_test(test_fused_products),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_embed),
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_residual_streams),
        cmocka_unit_test(test_argmax),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_dry_run),
        cmocka_unit_test(test_first_error_sticks),
        cmocka_unit_test(test_instruction_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
