// Every op of every backend and instruction set that this machine has, over odd shapes and all
// types, against references in double precision written here; and the promise that a row's bits do
// not depend on what else is in the batch, on the threads, or on how a prompt is cut.
#include "check.h"

#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "base/mem.h"
#include "checkpoint/safetensors.h"
#include "compute/compute.h"

static uint64_t random_state = 1;

static uint32_t random_bits(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

static double uniform(void) { return random_bits() / (double)0x80000000u; } // [0, 1)

static float noise(void) { // near enough to normal, of variance 1
    return (float)(sqrt(3.0) * 2 * (uniform() + uniform() - 1) / sqrt(2.0));
}

// --- machines: one device and context at a time, with what a test puts on it ---------------------

struct machine {
    struct device *dev;
    struct context c;
    enum isa isa;
    int threads;
    void *held[512];
    int count;
};

static void machine_open(struct machine *m, enum isa isa, int threads, enum precision p) {
    struct error e = {0};
    *m = (struct machine){.isa = isa, .threads = threads};
    m->dev = device_open("cpu", &(struct device_options){threads, isa}, &e);
    if (!m->dev) print_message("%s\n", e.text);
    assert_non_null(m->dev);
    assert_true(context_open(&m->c, m->dev, p, 8 << 20, false, &e));
}

static void machine_clear(struct machine *m) {
    if (m->c.err.set) print_message("%s\n", m->c.err.text);
    assert_false(m->c.err.set);
    while (m->count) device_free(m->dev, m->held[--m->count]);
    scratch_release(&m->c, 0);
}

static void machine_close(struct machine *m) {
    machine_clear(m);
    context_close(&m->c);
    device_close(m->dev);
}

static void *put(struct machine *m, const void *data, size_t size) {
    struct error e = {0};
    assert_true(m->count < 512);
    void *p = device_alloc(m->dev, size, "a test", &e);
    assert_non_null(p);
    device_upload(m->dev, p, data, size);
    return m->held[m->count++] = p;
}

static struct tensor put_f32(struct machine *m, const float *x, int dims, const int64_t *n) {
    struct tensor t = tensor_nd(DT_F32, dims, n, NULL);
    t.data = put(m, x, tensor_bytes(t));
    return t;
}

static struct tensor put_i32(struct machine *m, const int32_t *x, int64_t n) {
    return tensor_1d(DT_I32, n, put(m, x, (size_t)n * sizeof *x));
}

static float *get(struct machine *m, struct tensor t) {
    float *out = mem_array((size_t)tensor_count(t), sizeof *out);
    read_f32(&m->c, t, out);
    assert_false(m->c.err.set);
    return out;
}

static float *noise_array(int64_t n) {
    float *x = mem_array((size_t)n, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = noise();
    return x;
}

// Runs a check on every instruction set of this machine, with one thread and with three.
static void each_machine(enum precision p, void (*check)(struct machine *m)) {
    for (int isa = ISA_PLAIN; isa < ISA_BEST; isa++) {
        if (!isa_supported((enum isa)isa)) continue;
        for (int threads = 1; threads <= 3; threads += 2) {
            struct machine m;
            random_state = 1;
            machine_open(&m, (enum isa)isa, threads, p);
            check(&m);
            machine_close(&m);
        }
    }
}

static void expect_near(const char *what, int64_t at, double got, double want, double tolerance) {
    if (fabs(got - want) <= tolerance) return;
    print_message("%s: element %lld is %.9g, not %.9g (tolerance %.3g)\n", what, (long long)at, got,
                  want, tolerance);
    assert_true(false);
}

// --- weights -------------------------------------------------------------------------------------

static double half_value(uint16_t h) {
    int exp = h >> 10 & 31, man = h & 1023;
    double v = exp ? ldexp(man + 1024, exp - 25) : ldexp(man, -24);
    return h & 0x8000 ? -v : v;
}

static double brain_value(uint16_t h) {
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

// n values rounded to `type`: their bytes in *data (owned by the caller), what they then are in
// values.
static void *round_to(enum dtype type, const double *x, int64_t n, double *values) {
    float *wide = mem_array((size_t)n, sizeof *wide);
    uint16_t *narrow = (uint16_t *)wide; // filled from the front while wide is read ahead of it
    for (int64_t i = 0; i < n; i++) {
        float f = (float)x[i];
        if (type == DT_F32) {
            wide[i] = f;
            values[i] = f;
        } else {
            narrow[i] = type == DT_F16 ? f32_to_f16(f) : f32_to_bf16(f);
            values[i] = type == DT_F16 ? half_value(narrow[i]) : brain_value(narrow[i]);
        }
    }
    return wide;
}

struct layout {
    enum weight_layout kind;
    enum dtype type; // of dense data, or of scales and biases
    int bits, group;
};

struct matrix {
    struct weight w;
    double *value;  // [out, in]
    double *spread; // |scale (code - 2^(bits - 1))|: what rounding of x is multiplied by
    double *size;   // |scale code| + |bias|: what f32 arithmetic rounds
};

static void matrix_free(struct matrix *m) {
    free(m->value);
    free(m->spread);
    free(m->size);
}

static struct matrix dense_matrix(struct machine *m, enum dtype type, int64_t out, int64_t in) {
    int64_t n = out * in;
    struct matrix a = {.value = mem_array((size_t)n, 8)};
    a.spread = mem_array((size_t)n, 8);
    a.size = mem_array((size_t)n, 8);
    for (int64_t i = 0; i < n; i++) a.value[i] = noise();
    void *data = round_to(type, a.value, n, a.value);
    for (int64_t i = 0; i < n; i++) a.size[i] = fabs(a.value[i]);
    a.w = (struct weight){.layout = WEIGHT_DENSE, .out = out, .in = in};
    a.w.data = tensor_2d(type, out, in, put(m, data, (size_t)n * dtype_size(type)));
    free(data);
    return a;
}

static struct matrix affine_matrix(struct machine *m, const struct layout *l, int64_t out,
                                   int64_t in) {
    int64_t n = out * in, groups = n / l->group, words = in * l->bits / 32;
    struct matrix a = {.value = mem_array((size_t)n, 8)};
    a.spread = mem_array((size_t)n, 8);
    a.size = mem_array((size_t)n, 8);
    double *scale = mem_array((size_t)groups, 8), *bias = mem_array((size_t)groups, 8);
    uint32_t *codes = mem_array((size_t)(out * words), 4);
    for (int64_t g = 0; g < groups; g++) {
        scale[g] = (g % 7 == 3 ? -1 : 1) * (0.5 + uniform()) / (1 << (l->bits - 1));
        bias[g] = -scale[g] * (1 << (l->bits - 1)) * (0.8 + 0.4 * uniform());
    }
    void *scales = round_to(l->type, scale, groups, scale);
    void *biases = round_to(l->type, bias, groups, bias);
    for (int64_t i = 0; i < n; i++) {
        uint32_t code = random_bits() & ((1u << l->bits) - 1);
        for (int b = 0; b < l->bits; b++) {
            int64_t bit = i % in * l->bits + b;
            codes[i / in * words + bit / 32] |= (code >> b & 1) << (bit & 31);
        }
        double s = scale[i / l->group], c = bias[i / l->group];
        a.value[i] = s * code + c;
        a.spread[i] = fabs(s * (code - (double)(1 << (l->bits - 1))));
        a.size[i] = fabs(s * code) + fabs(c);
    }
    int64_t each = in / l->group;
    size_t bytes = (size_t)groups * dtype_size(l->type);
    a.w = (struct weight){WEIGHT_AFFINE, out, in, l->bits, l->group, .bias = {0}};
    a.w.data = tensor_2d(DT_U32, out, words, put(m, codes, (size_t)(out * words) * 4));
    a.w.scales = tensor_2d(l->type, out, each, put(m, scales, bytes));
    a.w.biases = tensor_2d(l->type, out, each, put(m, biases, bytes));
    free(scale), free(bias), free(scales), free(biases), free(codes);
    return a;
}

static struct matrix make_matrix(struct machine *m, const struct layout *l, int64_t out,
                                 int64_t in) {
    return l->kind == WEIGHT_DENSE ? dense_matrix(m, l->type, out, in)
                                   : affine_matrix(m, l, out, in);
}

static const struct layout layouts[] = {
    {WEIGHT_DENSE, DT_F32, 0, 0},     {WEIGHT_DENSE, DT_F16, 0, 0},
    {WEIGHT_DENSE, DT_BF16, 0, 0},    {WEIGHT_AFFINE, DT_F16, 4, 32},
    {WEIGHT_AFFINE, DT_BF16, 4, 64},  {WEIGHT_AFFINE, DT_F32, 4, 128},
    {WEIGHT_AFFINE, DT_F16, 8, 32},   {WEIGHT_AFFINE, DT_BF16, 8, 64},
    {WEIGHT_AFFINE, DT_F32, 8, 128},  {WEIGHT_AFFINE, DT_F16, 2, 32},
    {WEIGHT_AFFINE, DT_BF16, 3, 64},  {WEIGHT_AFFINE, DT_F16, 5, 32},
    {WEIGHT_AFFINE, DT_BF16, 6, 128},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static int64_t whole_groups(const struct layout *l, int64_t in) {
    return l->kind == WEIGHT_DENSE ? in : (in + l->group - 1) / l->group * l->group;
}

// --- products ------------------------------------------------------------------------------------

// The most that rounding x to 8 bits can change an output: each element by half a step of its
// block of 32.
static double rounding_bound(const struct matrix *a, const float *x, int64_t o) {
    double bound = 0;
    for (int64_t b = 0; b < a->w.in; b += 32) {
        double top = 0, sum = 0;
        for (int64_t i = b; i < b + 32 && i < a->w.in; i++) {
            top = fmax(top, fabs(x[i]));
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

struct deviation {
    double error, size;
};

// Arithmetic in f32: each rounding is 2^-24 of a partial sum, and they mostly cancel; 1e-6 of the
// sum of all magnitudes is far over what is seen and far under any mistake.
static void check_linear(struct machine *m, const struct matrix *a, const float *bias,
                         const float *x, int64_t n, bool exact, const float *y,
                         struct deviation *d) {
    bool rounds = m->c.precision == PRECISION_NATIVE && !exact;
    for (int64_t r = 0; r < n; r++)
        for (int64_t o = 0; o < a->w.out; o++) {
            double want = bias ? bias[o] : 0, size = fabs(want);
            for (int64_t i = 0; i < a->w.in; i++) {
                want += a->value[o * a->w.in + i] * x[r * a->w.in + i];
                size += a->size[o * a->w.in + i] * fabs(x[r * a->w.in + i]);
            }
            double tolerance = 1e-6 * size;
            if (rounds) tolerance += rounding_bound(a, x + r * a->w.in, o);
            double got = y[r * a->w.out + o];
            expect_near("linear", r * a->w.out + o, got, want, tolerance);
            d->error += (got - want) * (got - want);
            d->size += want * want;
        }
}

static void check_products(struct machine *m) {
    static const int64_t shapes[][3] = {// rows, in, out
                                        {1, 32, 1}, {2, 96, 5},   {3, 160, 40},  {7, 1, 3},
                                        {1, 7, 17}, {33, 33, 4},  {5, 1120, 33}, {1, 2050, 9},
                                        {2, 31, 2}, {12, 256, 65}};
    for (int l = 0; l < LAYOUTS; l++) {
        struct deviation d = {0};
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            int64_t n = shapes[s][0], in = whole_groups(&layouts[l], shapes[s][1]);
            struct matrix a = make_matrix(m, &layouts[l], shapes[s][2], in);
            float *bias = s % 2 ? noise_array(a.w.out) : NULL;
            if (bias) a.w.bias = put_f32(m, bias, 1, (int64_t[]){a.w.out});
            for (int exact = 0; exact < 2; exact++) {
                float *x = exact ? exact_array(n * in) : noise_array(n * in);
                float *y = get(m, linear(&m->c, put_f32(m, x, 2, (int64_t[]){n, in}), &a.w));
                check_linear(m, &a, bias, x, n, exact, y, exact ? &(struct deviation){0} : &d);
                free(y), free(x);
            }
            free(bias);
            matrix_free(&a);
            machine_clear(m);
        }
        double off = sqrt(d.error / d.size);
        if (m->threads == 1 && m->c.precision == PRECISION_NATIVE && off > 1e-5)
            print_message("%s, affine %d bits by %d: 8-bit activations cost %.2f%% of the rms\n",
                          isa_name(m->isa), layouts[l].bits, layouts[l].group, 100 * off);
        assert_true(off < 0.01);
    }
}

static void test_linear(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_products);
    each_machine(PRECISION_NATIVE, check_products);
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
        double most = 0, tolerance = m->c.precision == PRECISION_F32 ? 1e-5 : 0.05;
        for (int64_t o = 0; o < out; o++) most = fmax(most, fabs(want[o]));
        for (int64_t o = 0; o < out; o++)
            expect_near(all.name[i], o, y[o], want[o], tolerance * most);
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
    assert_memory_equal(part, all + from * w->out, (size_t)((to - from) * w->out) * sizeof *part);
    free(part);
}

static void check_batches(struct machine *m) {
    if (m->threads > 1) return; // it opens what it needs
    enum { ROWS = 40, OUT = 51 };
    struct machine others[3];
    for (int i = 0; i < 3; i++) machine_open(&others[i], m->isa, i + 2, m->c.precision);
    for (int l = 0; l < 9; l++) {
        int64_t in = whole_groups(&layouts[l], 1000);
        struct matrix a = make_matrix(m, &layouts[l], OUT, in);
        float *x = noise_array(ROWS * in);
        struct tensor t = put_f32(m, x, 2, (int64_t[]){ROWS, in});
        float *all = get(m, linear(&m->c, t, &a.w));
        for (int64_t r = 0; r < ROWS; r++) expect_rows(m, t, &a.w, r, r + 1, all);
        for (int64_t n = 2; n < ROWS; n++) expect_rows(m, t, &a.w, ROWS - n, ROWS, all);
        for (int i = 0; i < 3; i++) {
            float *again = get(&others[i], linear(&others[i].c, t, &a.w));
            assert_memory_equal(again, all, ROWS * OUT * sizeof *all);
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

// Fused and joint products are the plain ones, bit for bit.
static void check_fused(struct machine *m) {
    static const int pairs[][2] = {{3, 6}, {6, 6}, {3, 3}, {0, 3}, {2, 9}, {1, 1}};
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
            for (int i = 0; i < 2; i++) assert_memory_equal(both[i], one[i], n * 75 * 4);
            float *apart = get(m, act_mul(&m->c, y[0], y[1], ACT_SILU));
            float *fused = get(m, glu(&m->c, t, &a.w, &b.w, ACT_SILU));
            for (int64_t i = 0; i < n * 75; i++) {
                double g = one[0][i], want = g / (1 + exp(-g)) * one[1][i];
                expect_near("glu", i, fused[i], want, 1e-6 * fabs(want) + 1e-30);
                assert_memory_equal(&fused[i], &apart[i], sizeof(float));
            }
            for (int i = 0; i < 2; i++) free(both[i]), free(one[i]);
            free(apart), free(fused), free(x), free(bias);
            matrix_free(&a), matrix_free(&b);
            machine_clear(m);
        }
}

static void test_fused_products(void **state) {
    (void)state;
    each_machine(PRECISION_F32, check_fused);
    each_machine(PRECISION_NATIVE, check_fused);
}

// What is not finite stays in its row, and stays not finite.
static void check_not_finite(struct machine *m) {
    for (int l = 0; l < 9; l++) {
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

static void check_norm(struct machine *m, struct tensor t, const float *x, int64_t ld,
                       const float *w, float eps) {
    int64_t width = tensor_width(t), rows = tensor_rows(t), each = rows / t.n[0];
    float *y = get(m, rms_norm(&m->c, t, put_f32(m, w, 1, &width), eps));
    for (int64_t r = 0; r < rows; r++) {
        const float *from = x + r / each * ld + r % each * width;
        double sum = 0;
        for (int64_t i = 0; i < width; i++) sum += (double)from[i] * from[i];
        for (int64_t i = 0; i < width; i++) {
            double want = from[i] / sqrt(sum / (double)width + eps) * w[i];
            expect_near("rms_norm", r * width + i, y[r * width + i], want, 1e-6 * fabs(want));
        }
    }
    free(y);
}

static void check_norms(struct machine *m) {
    static const int64_t widths[] = {1, 7, 16, 33, 64, 576, 1000, 4099};
    for (size_t k = 0; k < sizeof widths / sizeof *widths; k++) {
        int64_t width = widths[k], n = 33;
        float *x = noise_array(n * width * 3), *w = noise_array(width);
        struct tensor all = put_f32(m, x, 2, (int64_t[]){n, width * 3});
        check_norm(m, all, x, width * 3, x, 1e-5f);
        struct tensor heads = tensor_split_heads(tensor_slice(all, 1, width, 2 * width), 2);
        check_norm(m, heads, x + width, width * 3, w, 1e-6f);
        struct tensor one = tensor_slice(heads, 0, 4, 1);
        check_norm(m, one, x + 4 * width * 3 + width, width * 3, w, 1e-6f);
        free(x), free(w);
        machine_clear(m);
    }
}

static void test_rms_norm(void **state) {
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

static void test_elementwise(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_elementwise);
}

static void check_ropes(struct machine *m) {
    static const int64_t shapes[][3] = {// heads, width, pairs
                                        {1, 2, 1},
                                        {3, 64, 32},
                                        {9, 80, 20},
                                        {2, 33, 7},
                                        {1, 600, 300}};
    const int32_t pos[] = {0, 1, 7, 8191, 131071, 1000003};
    enum { ROWS = 6 };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int64_t heads = shapes[s][0], width = shapes[s][1], pairs = shapes[s][2];
        int64_t ld = heads * width + 5;
        float *x = noise_array(ROWS * ld), *freq = mem_array((size_t)pairs, 4);
        for (int64_t i = 0; i < pairs; i++) freq[i] = powf(500000.0f, -(float)i / (float)pairs);
        struct rope r = {put_f32(m, freq, 1, &pairs), 0.75f};
        struct tensor all = put_f32(m, x, 2, (int64_t[]){ROWS, ld});
        struct tensor band = tensor_split_heads(tensor_slice(all, 1, 5, heads * width), heads);
        rope(&m->c, band, put_i32(m, pos, ROWS), &r);
        float *y = get(m, all);
        for (int64_t i = 0; i < ROWS * ld; i++) {
            int64_t at = i % ld - 5, k = at % width;
            double want = x[i];
            if (at >= 0 && k < 2 * pairs) { // the angle itself is a product in f32
                double angle = (float)pos[i / ld] * freq[k % pairs];
                double c = cos(angle) * 0.75, n = sin(angle) * 0.75;
                want = k < pairs ? x[i] * c - x[i + pairs] * n : x[i] * c + x[i - pairs] * n;
            }
            expect_near("rope", i, y[i], want, at >= 0 && k < 2 * pairs ? 1e-6 : 0);
        }
        free(x), free(y), free(freq);
        machine_clear(m);
    }
}

static void test_rope(void **state) {
    (void)state;
    each_machine(PRECISION_NATIVE, check_ropes);
}

// --- attention -----------------------------------------------------------------------------------

enum { SEQS = 4 };

struct scene {
    int64_t heads, kv_heads, k_width, v_width, page, window;
    enum dtype type;
    int64_t length[SEQS]; // tokens of each sequence; all are computed
};

struct world {
    const struct scene *s;
    int64_t n;                     // tokens in all
    int32_t *seq, *index;          // of each row, sequences interleaved in chunks
    int64_t *row[SEQS];            // of each token
    float *q, *k, *v;              // of each row
    double *k_rounded, *v_rounded; // what the cache keeps
    struct kv kv;
    float *y; // all rows in one step
};

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
    w->kv.v = tensor_nd(s->type, 4, (int64_t[]){pages, s->kv_heads, s->page, s->v_width},
                        put(m, junk, (size_t)(slots * s->v_width) * size));
    free(junk);
}

static void world_close(struct world *w) {
    free(w->seq), free(w->index), free(w->q), free(w->k), free(w->v);
    free(w->k_rounded), free(w->v_rounded), free(w->y);
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
    struct tensor v = put_f32(m, w->v + from * s->kv_heads * s->v_width, 3,
                              (int64_t[]){n, s->kv_heads, s->v_width});
    if (write) kv_write(&m->c, &w->kv, &rows, k, v);
    struct attention_options opt = {1.0f / sqrtf((float)s->k_width), s->window};
    float *y = get(m, attention(&m->c, q, &w->kv, &rows, &opt));
    scratch_release(&m->c, mark);
    while (m->count > held) device_free(m->dev, m->held[--m->count]);
    return y;
}

static void reference_row(const struct world *w, int64_t row, int64_t head, double *out) {
    const struct scene *s = w->s;
    int64_t last = w->index[row], kv_head = head / (s->heads / s->kv_heads);
    int64_t first = s->window && last >= s->window ? last - s->window + 1 : 0;
    double total = 0;
    memset(out, 0, (size_t)s->v_width * sizeof *out);
    for (int64_t t = first; t <= last; t++) {
        int64_t at = w->row[w->seq[row]][t] * s->kv_heads + kv_head;
        double score = 0;
        for (int64_t i = 0; i < s->k_width; i++)
            score += (double)w->q[(row * s->heads + head) * s->k_width + i] *
                     w->k_rounded[at * s->k_width + i];
        double p = exp(score / sqrt((double)s->k_width));
        total += p;
        for (int64_t i = 0; i < s->v_width; i++) out[i] += p * w->v_rounded[at * s->v_width + i];
    }
    for (int64_t i = 0; i < s->v_width; i++) out[i] /= total;
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
                expect_near("attention", at, w->y[at], want[i], 1e-5);
            }
        }
    free(want);
}

static void expect_step(struct world *w, struct machine *m, int64_t from, int64_t to, bool write) {
    int64_t each = w->s->heads * w->s->v_width;
    float *y = world_step(w, m, from, to, write);
    assert_memory_equal(y, w->y + from * each, (size_t)((to - from) * each) * sizeof *y);
    free(y);
}

static const struct scene scenes[] = {
    {1, 1, 16, 16, 16, 0, DT_F32, {1, 2, 3, 40}},
    {9, 3, 64, 64, 32, 0, DT_F16, {33, 7, 70, 1}},
    {8, 2, 33, 20, 5, 0, DT_BF16, {31, 17, 2, 9}},
    {7, 7, 7, 5, 1, 4, DT_F32, {12, 3, 5, 8}},
    {4, 1, 128, 96, 64, 33, DT_F16, {150, 64, 65, 3}},
    {6, 2, 80, 80, 100, 7, DT_BF16, {130, 5, 101, 12}},
    {5, 5, 64, 128, 16, 1, DT_F32, {40, 1, 16, 17}},
    {32, 1, 24, 24, 128, 0, DT_F16, {90, 20, 1, 5}},
};

static void check_attention(struct machine *m) {
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        struct world w;
        world_open(&w, &scenes[i], m);
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
    static const struct scene s[] = {{2, 1, 16, 16, 48, 0, DT_F16, {2100, 1, 30, 3}},
                                     {1, 1, 8, 16, 64, 1100, DT_F32, {1300, 1, 1, 1}}};
    for (int i = 0; i < 2; i++) {
        struct world w;
        world_open(&w, &s[i], m);
        w.y = world_step(&w, m, 0, w.n, true);
        check_world(&w, 401);
        for (int64_t r = 0; r < w.n; r += 97) expect_step(&w, m, r, r + 1, false);
        expect_step(&w, m, w.n - 3, w.n, false);
        for (int threads = 2; threads <= 4; threads += 2) {
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
        struct rows rows = {n, nothing, nothing, nothing, nothing};
        struct kv kv = {tensor_nd(DT_F16, 4, (int64_t[]){300, 2, 16, 32}, NULL),
                        tensor_nd(DT_F16, 4, (int64_t[]){300, 2, 16, 32}, NULL),
                        tensor_2d(DT_I32, 4, 300, NULL)};
        size_t before = dry.peak;
        dry.peak = 0;
        struct tensor x = scratch_tensor(&dry, DT_F32, 2, (int64_t[]){n, 64});
        struct tensor y = glu(&dry, x, &a.w, &b.w, ACT_SILU);
        (void)y;
        struct tensor q = tensor_split_heads(x, 2);
        attention(&dry, q, &kv, &rows, &(struct attention_options){1, 0});
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
    assert_null(device_open("cpu", &(struct device_options){1, ISA_BEST}, &e));
    assert_non_null(strstr(e.text, "MLXCEL_CPU_ISA \"mmx\""));
    assert_non_null(strstr(e.text, "plain"));
    setenv("MLXCEL_CPU_ISA", "plain", 1);
    struct device *d = device_open("cpu", &(struct device_options){1, ISA_BEST}, &e);
    assert_string_equal(d->name, "cpu (plain, 1 thread)");
    device_close(d);
    unsetenv("MLXCEL_CPU_ISA");
    for (int isa = ISA_PLAIN; isa < ISA_BEST; isa++) {
        struct error refused = {0};
        d = device_open("cpu", &(struct device_options){2, (enum isa)isa}, &refused);
        assert_int_equal(d != NULL, isa_supported((enum isa)isa));
        assert_int_equal(refused.set, !isa_supported((enum isa)isa));
        device_close(d);
    }
}

int main(void) {
    unsetenv("MLXCEL_CPU_ISA"); // the tests choose
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_published_weights),
        cmocka_unit_test(test_rows_do_not_depend_on_the_batch),
        cmocka_unit_test(test_fused_products),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_embed),
        cmocka_unit_test(test_rms_norm),
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_long_attention),
        cmocka_unit_test(test_dry_run),
        cmocka_unit_test(test_first_error_sticks),
        cmocka_unit_test(test_instruction_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
