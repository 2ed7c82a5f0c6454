// How fast the ops are, next to what the machine can read:
//
//   build/bench_ops [ISA] [THREADS] [LAYOUT]
//
// ISA is one of MLXCEL_CPU_ISA's; THREADS 0: one a physical core; LAYOUT: layouts whose names hold
// it, or "attention".
//
// Products are timed over weights that together exceed the caches, in pages as small as a mapped
// file's, as a decode step meets them; every figure is the best of several runs. With one thread
// the time is that thread's own, so that a busy machine disturbs it less.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/pool.h"
#include "compute/compute.h"

enum { RUNS = 5 };
static const size_t WEIGHTS = 512u << 20; // bytes of weights a product cycles through

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

// Memory for weights.
static void *map(size_t size) {
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        fprintf(stderr, "cannot map %zu bytes\n", size);
        exit(1);
    }
    madvise(p, size, MADV_NOHUGEPAGE);
    return p;
}

static void unmap(struct tensor t) {
    if (t.dims) munmap(t.data, (size_t)(t.n[0] * t.n[1]) * dtype_size(t.type));
}

// Floats near 1 / 64 (F32, F16 or BF16).
static struct tensor random_floats(enum dtype type, int64_t a, int64_t b) {
    struct tensor t = tensor_2d(type, a, b, map((size_t)(a * b) * dtype_size(type)));
    for (int64_t i = 0; i < a * b; i++) {
        float f = 0x1p-6f + (float)(random_bits() >> 8) * 0x1p-32f;
        store_float(t.data, type, i, f);
    }
    return t;
}

struct layout {
    const char *name;
    enum weight_layout kind;
    enum dtype type;
    int bits, group;
};

static struct weight random_weight(const struct layout *l, int64_t out, int64_t in) {
    struct weight w = {.layout = l->kind, .out = out, .in = in, .bits = l->bits, .group = l->group};
    if (l->kind == WEIGHT_DENSE) {
        w.data = random_floats(l->type, out, in);
        return w;
    }
    int64_t words = in * l->bits / 32;
    w.data = tensor_2d(DT_U32, out, words, map((size_t)(out * words) * 4));
    bool f8 = l->kind == WEIGHT_F8;
    for (int64_t i = 0; i < out * words; i++) // no byte is a NaN of e4m3
        ((uint32_t *)w.data.data)[i] = f8 ? random_bits() & 0xbfbfbfbf : random_bits();
    if (f8) w.data = tensor_2d(DT_F8_E4M3, out, in, w.data.data);
    if (!w.group) w.group = (int)in;
    w.block_rows = 1;
    w.factor = 1;
    if (dtype_size(l->type) == 1) {
        int64_t groups = in / w.group;
        w.scales = tensor_2d(l->type, out, groups, map((size_t)(out * groups)));
        memset(w.scales.data, l->type == DT_F8_E8M0 ? 120 : 4, (size_t)(out * groups));
        return w;
    }
    if (f8) {
        w.scales = random_floats(l->type, out, 1);
        return w;
    }
    w.scales = random_floats(l->type, out, in / l->group);
    w.biases = random_floats(l->type, out, in / l->group);
    return w;
}

static void free_weight(struct weight *w) {
    unmap(w->data);
    unmap(w->scales);
    unmap(w->biases);
}

static void time_products(struct context *c, const struct layout *l, int64_t out, int64_t in,
                          double bandwidth) {
    struct weight first = random_weight(l, out, in);
    int count = (int)(WEIGHTS / weight_bytes(&first)) + 1;
    size_t total = (size_t)count * weight_bytes(&first);
    struct weight *w = mem_array((size_t)count, sizeof *w);
    w[0] = first;
    for (int i = 1; i < count; i++) w[i] = random_weight(l, out, in);
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
            printf("  n=%lld %.1f GB/s (%.0f%%)", (long long)rows[k], speed / 1e9,
                   100 * speed / bandwidth);
        } else {
            printf("  n=%lld %6.1f GFLOP/s", (long long)rows[k], flops / best / 1e9);
        }
        device_free(c->dev, x.data);
    }
    printf("\n");
    fflush(stdout);
    for (int i = 0; i < count; i++) free_weight(&w[i]);
    free(w);
}

// In the device's memory, as a cache is: floats near 1 / 64, or any I8.
static void *random_cache(struct device *d, enum dtype type, int64_t n) {
    char *p = allocate(d, (size_t)n * dtype_size(type));
    if (type == DT_I8) {
        for (int64_t i = 0; i < n; i++) p[i] = (char)random_bits();
        return p;
    }
    struct tensor t = random_floats(type, 1, n);
    memcpy(p, t.data, tensor_bytes(t));
    unmap(t);
    return p;
}

struct cached {
    enum dtype type;
    int64_t heads, kv_heads, width;
};

// n rows of one sequence at the end of `length` tokens. A single row reads one cache after the
// other, which together exceed the CPU's, as the layers of a model do.
static void time_attention(struct context *c, const struct cached *s, int64_t n, int64_t length,
                           double bandwidth) {
    enum { PAGE = 32, LAYERS = 64 };
    struct device *d = c->dev;
    int64_t pages = (length + PAGE - 1) / PAGE;
    double bytes = 2.0 * (double)(length * s->kv_heads * s->width) * (double)dtype_size(s->type);
    int layers = n > 1 ? 1 : (int)(256e6 / bytes) + 1;
    if (layers > LAYERS) layers = LAYERS;
    int32_t *ints = allocate(d, (size_t)(pages + 2 * n) * 4);
    for (int64_t i = 0; i < pages; i++) ints[i] = (int32_t)i;
    for (int64_t i = 0; i < n; i++) ints[pages + i] = (int32_t)(length - n + i);
    struct kv kv[LAYERS] = {0};
    for (int i = 0; i < layers; i++) {
        int64_t shape[4] = {pages, s->kv_heads, PAGE, s->width}, all = pages * s->kv_heads * PAGE;
        kv[i].k = tensor_nd(s->type, 4, shape, random_cache(d, s->type, all * s->width));
        kv[i].v = tensor_nd(s->type, 4, shape, random_cache(d, s->type, all * s->width));
        if (s->type == DT_I8) {
            int64_t blocks[4] = {pages, s->kv_heads, PAGE, s->width / KV_BLOCK};
            kv[i].k_scale =
                tensor_nd(DT_BF16, 4, blocks, random_cache(d, DT_BF16, all * blocks[3]));
            kv[i].v_scale =
                tensor_nd(DT_BF16, 4, blocks, random_cache(d, DT_BF16, all * blocks[3]));
        }
        kv[i].table = tensor_2d(DT_I32, 1, pages, ints);
    }
    struct rows rows = {.n = n,
                        .index = tensor_1d(DT_I32, n, ints + pages),
                        .seq = tensor_1d(DT_I32, n, ints + pages + n)};
    struct tensor q = random_rows(d, n, s->heads * s->width);
    double best = 1e9;
    for (int i = 0; i < RUNS; i++) {
        double start = now();
        for (int k = 0; k < layers; k++) {
            attention(c, tensor_split_heads(q, s->heads), &kv[k], &rows,
                      &(struct attention_options){.scale = 0.125f});
            scratch_release(c, 0);
        }
        double took = (now() - start) / layers;
        best = took < best ? took : best;
    }
    double pairs = (double)n * ((double)length - (double)(n - 1) / 2);
    printf("attention %-4s heads %lld/%lld of %lld, %4lld rows at %5lld: %8.1f us",
           dtype_name(s->type), (long long)s->heads, (long long)s->kv_heads, (long long)s->width,
           (long long)n, (long long)length, best * 1e6);
    if (n == 1)
        printf("  %5.1f GB/s (%3.0f%%)\n", bytes / best / 1e9, 100 * bytes / best / bandwidth);
    else
        printf("  %6.1f GFLOP/s\n", 4 * pairs * (double)(s->heads * s->width) / best / 1e9);
    fflush(stdout);
    for (int i = 0; i < layers; i++) {
        device_free(d, kv[i].k.data), device_free(d, kv[i].v.data);
        device_free(d, kv[i].k_scale.data), device_free(d, kv[i].v_scale.data);
    }
    device_free(d, q.data), device_free(d, ints);
}

static void all_attention(struct context *c, double bandwidth) {
    static const struct cached shapes[] = {
        {DT_F16, 9, 3, 64}, {DT_F16, 32, 8, 64}, {DT_F16, 32, 8, 128}, {DT_F16, 16, 1, 128}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        time_attention(c, &shapes[i], 1, 2048, bandwidth);
        time_attention(c, &shapes[i], 1, 8192, bandwidth);
        time_attention(c, &shapes[i], 512, 512, bandwidth);
        time_attention(c, &shapes[i], 128, 8192, bandwidth);
    }
    time_attention(c, &(struct cached){DT_F32, 32, 8, 64}, 1, 8192, bandwidth);
    time_attention(c, &(struct cached){DT_BF16, 32, 8, 64}, 1, 8192, bandwidth);
    time_attention(c, &(struct cached){DT_I8, 32, 8, 64}, 1, 8192, bandwidth);
    time_attention(c, &(struct cached){DT_I8, 32, 8, 64}, 128, 8192, bandwidth);
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
                                            {"8-bit by 64", WEIGHT_AFFINE, DT_BF16, 8, 64},
                                            {"2-bit by 64", WEIGHT_AFFINE, DT_BF16, 2, 64},
                                            {"3-bit by 64", WEIGHT_AFFINE, DT_BF16, 3, 64},
                                            {"5-bit by 64", WEIGHT_AFFINE, DT_BF16, 5, 64},
                                            {"6-bit by 64", WEIGHT_AFFINE, DT_BF16, 6, 64},
                                            {"mxfp4", WEIGHT_MXFP4, DT_F8_E8M0, 4, 32},
                                            {"nvfp4", WEIGHT_NVFP4, DT_F8_E4M3, 4, 16},
                                            {"mxfp8", WEIGHT_F8, DT_F8_E8M0, 8, 32},
                                            {"fp8 rows", WEIGHT_F8, DT_F32, 8, 0}};
    static const int64_t shapes[][2] = {{576, 576},   {1536, 576},   {2048, 2048}, {8192, 2048},
                                        {2048, 8192}, {14336, 4096}, {4096, 14336}};
    struct device_options opt = {.isa = argc > 1 ? isa_named(argv[1]) : ISA_BEST};
    const char *only = argc > 3 ? argv[3] : "";
    if (argc > 2) opt.pool.threads = atoi(argv[2]);
    struct error e = {0};
    struct device *d = device_open("cpu", &opt, &e);
    struct context c;
    if (!d || !context_open(&c, d, PRECISION_NATIVE, 256 << 20, false, &e)) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    own_time = pool_threads(d->pool) == 1;
    struct device_speed speed;
    if (!device_measure(d, &speed, &e)) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    double bandwidth = speed.read;
    printf("%s: reads %.1f GB/s, %.0f GFLOP/s in f32, %.0f Gop/s in int8\n", d->name,
           bandwidth / 1e9, speed.f32 / 1e9, speed.int8 / 1e9);
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes && strstr(layouts[l].name, only); s++)
            time_products(&c, &layouts[l], shapes[s][0], shapes[s][1], bandwidth);
    if (strstr("attention", only)) all_attention(&c, bandwidth);
    if (c.err.set) fprintf(stderr, "%s\n", c.err.text);
    context_close(&c);
    device_close(d);
    return 0;
}
