// How fast the ops are, next to what the machine can read:
//
//   build/bench_ops [ISA] [THREADS] [LAYOUT]   (plain, avx2, avx512 or best; 0: one a physical
//   core;
//                                              layouts whose names hold LAYOUT, or "attention")
//
// Products are timed over weights that together exceed the caches, as a decode step meets them;
// every figure is the best of several runs. With one thread the time is that thread's own, so that
// a busy machine disturbs it less.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/pool.h"
#include "compute/compute.h"

enum { RUNS = 5 };
static const size_t WEIGHTS = 64u << 20; // bytes of weights a product cycles through

static uint64_t random_state = 1;

static uint32_t random_bits(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

static bool own_time; // of the process, not of the wall

static double now(void) {
    struct timespec t;
    if (!own_time) return clock_now();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *allocate(struct device *d, size_t size) {
    struct error e = {0};
    void *p = device_alloc(d, size, "the bench", &e);
    if (p) return p;
    fprintf(stderr, "%s\n", e.text);
    exit(1);
}

static struct tensor random_rows(struct device *d, int64_t n, int64_t width) {
    struct tensor t = tensor_2d(DT_F32, n, width, allocate(d, (size_t)(n * width) * 4));
    float *x = t.data;
    for (int64_t i = 0; i < n * width; i++) x[i] = (float)(random_bits() >> 8) * 0x1p-23f - 1;
    return t;
}

// Floats near 1 / 64 (F32, F16 or BF16).
static struct tensor random_floats(struct device *d, enum dtype type, int64_t a, int64_t b) {
    struct tensor t = tensor_2d(type, a, b, allocate(d, (size_t)(a * b) * dtype_size(type)));
    for (int64_t i = 0; i < a * b; i++) {
        float f = 0x1p-6f + (float)(random_bits() >> 8) * 0x1p-32f;
        if (type == DT_F32)
            ((float *)t.data)[i] = f;
        else
            ((uint16_t *)t.data)[i] = type == DT_F16 ? f32_to_f16(f) : f32_to_bf16(f);
    }
    return t;
}

struct layout {
    const char *name;
    enum weight_layout kind;
    enum dtype type;
    int bits, group;
};

static struct weight random_weight(struct device *d, const struct layout *l, int64_t out,
                                   int64_t in) {
    struct weight w = {.layout = l->kind, .out = out, .in = in, .bits = l->bits, .group = l->group};
    if (l->kind == WEIGHT_DENSE) {
        w.data = random_floats(d, l->type, out, in);
        return w;
    }
    int64_t words = in * l->bits / 32;
    w.data = tensor_2d(DT_U32, out, words, allocate(d, (size_t)(out * words) * 4));
    for (int64_t i = 0; i < out * words; i++) ((uint32_t *)w.data.data)[i] = random_bits();
    w.scales = random_floats(d, l->type, out, in / l->group);
    w.biases = random_floats(d, l->type, out, in / l->group);
    return w;
}

static void free_weight(struct device *d, struct weight *w) {
    device_free(d, w->data.data);
    if (w->layout == WEIGHT_DENSE) return;
    device_free(d, w->scales.data);
    device_free(d, w->biases.data);
}

// Bytes a second that all threads together read.
struct reading {
    const uint64_t *p;
    size_t n; // words a task
    uint64_t sum[1024];
};

static void read_task(void *arg, int task, int thread) {
    struct reading *r = arg;
    uint64_t sum[8] = {0};
    for (size_t i = 0; i < r->n; i += 8)
        for (size_t k = 0; k < 8; k++) sum[k] += r->p[(size_t)task * r->n + i + k];
    for (int k = 0; k < 8; k++) r->sum[thread % 1024] += sum[k];
}

static double read_bandwidth(struct device *d) {
    enum { TASKS = 512 };
    void *room = allocate(d, WEIGHTS);
    memset(room, 1, WEIGHTS); // untouched pages would all be one page of zeros
    struct reading r = {.p = room, .n = WEIGHTS / TASKS / 8};
    double best = 1e9;
    for (int i = 0; i < RUNS; i++) {
        double start = now();
        pool_run(d->pool, TASKS, read_task, &r);
        double took = now() - start;
        best = took < best ? took : best;
    }
    device_free(d, room);
    return (double)WEIGHTS / best;
}

static void time_products(struct context *c, const struct layout *l, int64_t out, int64_t in,
                          double bandwidth) {
    struct weight w[512];
    int count = 0;
    size_t total = 0;
    while (total < WEIGHTS && count < 512) {
        w[count] = random_weight(c->dev, l, out, in);
        total += weight_bytes(&w[count++]);
    }
    printf("%-12s %6lld x %-5lld", l->name, (long long)out, (long long)in);
    static const int64_t rows[] = {1, 2, 4, 8, 32, 512};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        struct tensor x = random_rows(c->dev, rows[k], in);
        double best = 1e9;
        int use = rows[k] > 8 ? (count < 4 ? count : 4) : count;
        double flops = 2.0 * (double)rows[k] * (double)out * (double)in * use;
        for (int i = 0; i < (rows[k] > 8 ? 4 : RUNS); i++) {
            double start = now();
            for (int j = 0; j < use; j++) {
                linear(c, x, &w[j]);
                scratch_release(c, 0);
            }
            double took = now() - start;
            best = took < best ? took : best;
        }
        if (rows[k] <= 8) {
            double speed = (double)total / best;
            printf("  n=%lld %5.1f GB/s (%3.0f%%)", (long long)rows[k], speed / 1e9,
                   100 * speed / bandwidth);
        } else {
            printf("  n=%lld %6.1f GFLOP/s", (long long)rows[k], flops / best / 1e9);
        }
        device_free(c->dev, x.data);
    }
    printf("\n");
    fflush(stdout);
    for (int i = 0; i < count; i++) free_weight(c->dev, &w[i]);
}

// n rows of one sequence at the end of `length` tokens; heads of 64.
static void time_attention(struct context *c, enum dtype type, int64_t heads, int64_t kv_heads,
                           int64_t n, int64_t length, double bandwidth) {
    enum { PAGE = 64, WIDTH = 64 };
    struct device *d = c->dev;
    int64_t pages = (length + PAGE - 1) / PAGE;
    struct tensor k = random_floats(d, type, pages * kv_heads * PAGE, WIDTH);
    struct tensor v = random_floats(d, type, pages * kv_heads * PAGE, WIDTH);
    int32_t *ints = allocate(d, (size_t)(pages + 2 * n) * 4);
    for (int64_t i = 0; i < pages; i++) ints[i] = (int32_t)i;
    for (int64_t i = 0; i < n; i++) ints[pages + i] = (int32_t)(length - n + i);
    int64_t shape[4] = {pages, kv_heads, PAGE, WIDTH};
    struct kv kv = {tensor_nd(type, 4, shape, k.data), tensor_nd(type, 4, shape, v.data),
                    tensor_2d(DT_I32, 1, pages, ints)};
    struct rows rows = {.n = n,
                        .index = tensor_1d(DT_I32, n, ints + pages),
                        .seq = tensor_1d(DT_I32, n, ints + pages + n)};
    struct tensor q = random_rows(d, n, heads * WIDTH);
    double best = 1e9;
    for (int i = 0; i < RUNS; i++) {
        double start = now();
        attention(c, tensor_split_heads(q, heads), &kv, &rows,
                  &(struct attention_options){.scale = 0.125f});
        double took = now() - start;
        best = took < best ? took : best;
        scratch_release(c, 0);
    }
    double bytes = 2.0 * (double)(length * kv_heads * WIDTH) * (double)dtype_size(type);
    double pairs = (double)n * ((double)length - (double)(n - 1) / 2);
    printf("attention %-4s heads %lld/%lld, %4lld rows at %5lld: %8.1f us", dtype_name(type),
           (long long)heads, (long long)kv_heads, (long long)n, (long long)length, best * 1e6);
    if (n == 1)
        printf("  %5.1f GB/s (%3.0f%%)\n", bytes / best / 1e9, 100 * bytes / best / bandwidth);
    else
        printf("  %6.1f GFLOP/s\n", 4 * pairs * (double)(heads * WIDTH) / best / 1e9);
    device_free(d, k.data), device_free(d, v.data), device_free(d, q.data), device_free(d, ints);
}

static void all_attention(struct context *c, double bandwidth) {
    time_attention(c, DT_F16, 9, 3, 1, 512, bandwidth);
    time_attention(c, DT_F16, 32, 8, 1, 512, bandwidth);
    time_attention(c, DT_F16, 32, 8, 1, 8192, bandwidth);
    time_attention(c, DT_F32, 32, 8, 1, 8192, bandwidth);
    time_attention(c, DT_F16, 9, 3, 512, 512, bandwidth);
    time_attention(c, DT_F16, 32, 8, 512, 512, bandwidth);
    time_attention(c, DT_F16, 32, 8, 512, 4096, bandwidth);
}

static enum isa isa_named(const char *name) {
    for (int i = ISA_PLAIN; i < ISA_BEST; i++)
        if (!strcmp(name, isa_name((enum isa)i))) return (enum isa)i;
    return ISA_BEST;
}

int main(int argc, char **argv) {
    static const struct layout layouts[] = {{"f32", WEIGHT_DENSE, DT_F32, 0, 0},
                                            {"bf16", WEIGHT_DENSE, DT_BF16, 0, 0},
                                            {"f16", WEIGHT_DENSE, DT_F16, 0, 0},
                                            {"4-bit by 32", WEIGHT_AFFINE, DT_F16, 4, 32},
                                            {"4-bit by 64", WEIGHT_AFFINE, DT_BF16, 4, 64},
                                            {"8-bit by 64", WEIGHT_AFFINE, DT_BF16, 8, 64}};
    static const int64_t shapes[][2] = {{576, 576},   {1536, 576},  {576, 1536},
                                        {2048, 2048}, {8192, 2048}, {2048, 8192}};
    struct device_options opt = {.isa = argc > 1 ? isa_named(argv[1]) : ISA_BEST};
    const char *only = argc > 3 ? argv[3] : "";
    if (argc > 2) opt.threads = atoi(argv[2]);
    struct error e = {0};
    struct device *d = device_open("cpu", &opt, &e);
    struct context c;
    if (!d || !context_open(&c, d, PRECISION_NATIVE, 256 << 20, false, &e)) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    own_time = pool_threads(d->pool) == 1;
    double bandwidth = read_bandwidth(d);
    printf("%s: reads %.1f GB/s\n", d->name, bandwidth / 1e9);
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes && strstr(layouts[l].name, only); s++)
            time_products(&c, &layouts[l], shapes[s][0], shapes[s][1], bandwidth);
    if (strstr("attention", only)) all_attention(&c, bandwidth);
    if (c.err.set) fprintf(stderr, "%s\n", c.err.text);
    context_close(&c);
    device_close(d);
    return 0;
}
