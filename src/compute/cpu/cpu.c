// The CPU device, and the ops that are not hot.
#include "compute/cpu/cpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include "base/mem.h"
#include "compute/cpu/memory.h"

struct row_job {
    void (*fn)(void *arg, int64_t row);
    void *arg;
    int64_t n, step;
};

static void run_rows(void *arg, int task, int thread) {
    (void)thread;
    const struct row_job *job = arg;
    int64_t from = task * job->step, to = from + job->step < job->n ? from + job->step : job->n;
    for (int64_t row = from; row < to; row++) job->fn(job->arg, row);
}

void cpu_rows(struct context *c, int64_t n, int64_t cost, void (*fn)(void *arg, int64_t row),
              void *arg) {
    enum { WORTH = 1 << 14 }; // elements that take longer than handing them to another thread
    int64_t step = 1 + WORTH / (cost > 0 ? cost : 1);
    struct row_job job = {fn, arg, n, step};
    pool_run(c->dev->pool, (int)((n + step - 1) / step), run_rows, &job);
}

static float *row_of(struct tensor t, int64_t row) { return (float *)t.data + row * t.stride[0]; }

struct embed_job {
    const struct cpu_kernels *kernels;
    struct tensor y, ids;
    const struct weight *w;
};

static void embed_row(void *arg, int64_t row) {
    struct embed_job *j = arg;
    j->kernels->dequantize_row(j->w, ((const int32_t *)j->ids.data)[row], row_of(j->y, row));
}

static void cpu_embed(struct context *c, struct tensor y, const struct weight *w,
                      struct tensor ids) {
    struct embed_job j = {c->dev->kernels, y, ids, w};
    cpu_rows(c, y.n[0], y.n[1], embed_row, &j);
}

static void cpu_bound_ids(struct context *c, struct tensor y, struct tensor ids, int64_t limit) {
    (void)c;
    const int32_t *id = ids.data;
    for (int64_t i = 0; i < ids.n[0]; i++) ((int32_t *)y.data)[i] = id[i] < limit ? id[i] : 0;
}

struct pair_job {
    const struct cpu_kernels *kernels;
    struct tensor y, a, b;
    enum activation act;
};

static void act_mul_row(void *arg, int64_t row) {
    struct pair_job *j = arg;
    j->kernels->act_mul(row_of(j->y, row), row_of(j->a, row), row_of(j->b, row), j->y.stride[0],
                        j->act);
}

static void cpu_act_mul(struct context *c, struct tensor y, struct tensor a, struct tensor b,
                        enum activation act) {
    struct pair_job j = {.kernels = c->dev->kernels, .y = y, .a = a, .b = b, .act = act};
    cpu_rows(c, y.n[0], 8 * y.stride[0], act_mul_row, &j);
}

struct norm_job {
    const struct cpu_kernels *kernels;
    struct tensor y, x;
    struct tensor w, b;
    float eps;
    bool centred;
};

// Of head i: its own, or that of all.
static const float *of_head(struct tensor t, int64_t i) {
    if (!t.dims) return NULL;
    return (const float *)t.data + (t.dims > 1 ? i * t.n[1] : 0);
}

static void norm_row(void *arg, int64_t row) {
    struct norm_job *j = arg;
    int64_t width = tensor_width(j->y), each = j->y.stride[0] / width;
    for (int64_t i = 0; i < each; i++) {
        float *y = row_of(j->y, row) + i * width, *x = row_of(j->x, row) + i * width;
        const float *w = of_head(j->w, i);
        if (j->centred)
            j->kernels->layer_norm(y, x, w, of_head(j->b, i), width, j->eps);
        else
            j->kernels->rms_norm(y, x, w, width, j->eps);
    }
}

static void cpu_rms_norm(struct context *c, struct tensor y, struct tensor x, struct tensor w,
                         float eps) {
    struct norm_job j = {.kernels = c->dev->kernels, .y = y, .x = x, .w = w, .eps = eps};
    cpu_rows(c, y.n[0], 2 * y.stride[0], norm_row, &j);
}

static void cpu_layer_norm(struct context *c, struct tensor y, struct tensor x, struct tensor w,
                           struct tensor b, float eps) {
    struct norm_job j = {c->dev->kernels, y, x, w, b, eps, true};
    cpu_rows(c, y.n[0], 3 * y.stride[0], norm_row, &j);
}

struct unary_job {
    const struct cpu_kernels *kernels;
    struct tensor x;
    enum activation act;
    float by;
};

static void activate_row(void *arg, int64_t row) {
    struct unary_job *j = arg;
    j->kernels->activate(row_of(j->x, row), j->x.n[1], j->act);
}

static void cpu_activate(struct context *c, struct tensor x, enum activation act) {
    struct unary_job j = {.kernels = c->dev->kernels, .x = x, .act = act};
    cpu_rows(c, x.n[0], 8 * x.n[1], activate_row, &j);
}

static void scale_row(void *arg, int64_t row) {
    struct unary_job *j = arg;
    j->kernels->scale(row_of(j->x, row), j->x.n[1], j->by);
}

static void cpu_scale(struct context *c, struct tensor x, float by) {
    struct unary_job j = {.kernels = c->dev->kernels, .x = x, .by = by};
    cpu_rows(c, x.n[0], x.n[1], scale_row, &j);
}

static void soft_cap_row(void *arg, int64_t row) {
    struct unary_job *j = arg;
    j->kernels->soft_cap(row_of(j->x, row), j->x.n[1], j->by);
}

static void cpu_soft_cap(struct context *c, struct tensor x, float cap) {
    struct unary_job j = {.kernels = c->dev->kernels, .x = x, .by = cap};
    cpu_rows(c, x.n[0], 8 * x.n[1], soft_cap_row, &j);
}

static void add_row(void *arg, int64_t row) {
    struct pair_job *j = arg;
    j->kernels->add(row_of(j->a, row), row_of(j->b, row), j->a.n[1]);
}

static void cpu_add_to(struct context *c, struct tensor x, struct tensor y) {
    struct pair_job j = {.kernels = c->dev->kernels, .a = x, .b = y};
    cpu_rows(c, x.n[0], x.n[1], add_row, &j);
}

struct gather_job {
    struct tensor y, x, rows;
};

static void gather_row(void *arg, int64_t row) {
    struct gather_job *j = arg;
    memcpy(row_of(j->y, row), row_of(j->x, ((const int32_t *)j->rows.data)[row]),
           (size_t)j->y.n[1] * sizeof(float));
}

static void cpu_gather_rows(struct context *c, struct tensor y, struct tensor x,
                            struct tensor rows) {
    struct gather_job j = {y, x, rows};
    cpu_rows(c, y.n[0], y.n[1], gather_row, &j);
}

static void cpu_copy_to(struct context *c, struct tensor to, struct tensor from) {
    (void)c;
    for (int64_t i = 0; i < to.n[0]; i++)
        memcpy(row_of(to, i), row_of(from, i), (size_t)to.n[1] * sizeof(float));
}

struct bands_job {
    struct tensor y, x;
    int64_t period, from, count;
};

static void bands_row(void *arg, int64_t row) {
    struct bands_job *j = arg;
    float *to = row_of(j->y, row), *from = row_of(j->x, row) + j->from;
    for (int64_t at = 0; at < j->x.n[1]; at += j->period, to += j->count)
        memcpy(to, from + at, (size_t)j->count * sizeof *to);
}

static void cpu_take_bands(struct context *c, struct tensor y, struct tensor x, int64_t period,
                           int64_t from, int64_t count) {
    struct bands_job j = {y, x, period, from, count};
    cpu_rows(c, y.n[0], y.n[1], bands_row, &j);
}

struct join_job {
    struct tensor y, a, b;
};

static void join_row(void *arg, int64_t row) {
    struct join_job *j = arg;
    int64_t wa = j->a.n[2], wb = j->b.n[2];
    float *y = row_of(j->y, row);
    for (int64_t h = 0; h < j->y.n[1]; h++, y += wa + wb) {
        memcpy(y, row_of(j->a, row) + h * wa, (size_t)wa * sizeof *y);
        memcpy(y + wa, row_of(j->b, row) + h * wb, (size_t)wb * sizeof *y);
    }
}

static void cpu_join(struct context *c, struct tensor y, struct tensor a, struct tensor b) {
    struct join_job j = {y, a, b};
    cpu_rows(c, y.n[0], y.stride[0], join_row, &j);
}

static void scale_row_by(void *arg, int64_t row) {
    struct pair_job *j = arg;
    float *x = row_of(j->a, row), by = *row_of(j->b, row);
    for (int64_t i = 0; i < j->a.n[1]; i++) x[i] *= by;
}

static void cpu_scale_rows(struct context *c, struct tensor x, struct tensor by) {
    struct pair_job j = {.a = x, .b = by};
    cpu_rows(c, x.n[0], x.n[1], scale_row_by, &j);
}

static void scale_columns_row(void *arg, int64_t row) {
    struct pair_job *j = arg;
    float *x = row_of(j->a, row);
    j->kernels->act_mul(x, x, j->b.data, j->a.n[1], ACT_NONE);
}

static void cpu_scale_columns(struct context *c, struct tensor x, struct tensor by) {
    struct pair_job j = {.kernels = c->dev->kernels, .a = x, .b = by};
    cpu_rows(c, x.n[0], x.n[1], scale_columns_row, &j);
}

struct match_job {
    const struct cpu_kernels *kernels;
    struct tensor x, like;
    float least;
};

static void match_row(void *arg, int64_t row) {
    struct match_job *j = arg;
    float *x = row_of(j->x, row);
    int64_t n = j->x.n[1];
    float is = j->kernels->mean_square(x, n);
    float wanted = j->kernels->mean_square(row_of(j->like, row), n);
    j->kernels->scale(x, n, sqrtf(wanted) / sqrtf(is < j->least ? j->least : is));
}

static void cpu_match_size(struct context *c, struct tensor x, struct tensor like, float least) {
    struct match_job j = {c->dev->kernels, x, like, least};
    cpu_rows(c, x.n[0], 3 * x.n[1], match_row, &j);
}

static void cut_row(void *arg, int64_t row) {
    struct unary_job *j = arg;
    j->kernels->cut_below(row_of(j->x, row), j->x.n[1], j->by);
}

static void cpu_cut_below(struct context *c, struct tensor x, float by) {
    struct unary_job j = {.kernels = c->dev->kernels, .x = x, .by = by};
    cpu_rows(c, x.n[0], 3 * x.n[1], cut_row, &j);
}

struct mix_job {
    const struct cpu_kernels *kernels;
    struct tensor y, x, w;
    int64_t in;
};

static void mix_row(void *arg, int64_t row) {
    struct mix_job *j = arg;
    int64_t width = j->x.n[1] / j->in;
    const float *w = row_of(j->w, row), *x = row_of(j->x, row);
    float *y = row_of(j->y, row);
    memset(y, 0, (size_t)j->y.n[1] * sizeof *y);
    for (int64_t at = 0; at < j->y.n[1]; at += width)
        for (int64_t k = 0; k < j->in; k++)
            j->kernels->add_scaled(y + at, x + k * width, width, *w++);
}

static void cpu_mix_streams(struct context *c, struct tensor y, struct tensor x, struct tensor w,
                            int64_t in) {
    struct mix_job j = {c->dev->kernels, y, x, w, in};
    cpu_rows(c, y.n[0], y.n[1] * in, mix_row, &j);
}

struct clamp_job {
    const struct cpu_kernels *kernels;
    struct tensor x;
    float least, most, plus;
};

static void clamp_row(void *arg, int64_t row) {
    struct clamp_job *j = arg;
    j->kernels->clamp(row_of(j->x, row), tensor_count(j->x) / j->x.n[0], j->least, j->most,
                      j->plus);
}

static void cpu_clamp(struct context *c, struct tensor x, float least, float most, float plus) {
    struct clamp_job j = {c->dev->kernels, x, least, most, plus};
    cpu_rows(c, x.n[0], x.stride[0], clamp_row, &j);
}

// The first of the greatest; NaN is the least.
static void cpu_argmax(struct context *c, struct tensor y, struct tensor x) {
    (void)c;
    for (int64_t row = 0; row < y.n[0]; row++) {
        const float *p = row_of(x, row);
        bool bad = false;
        int32_t best = 0;
        for (int64_t i = 0; i < x.n[1]; i++) {
            bad = bad || isnan(p[i]);
            if (p[i] > p[best] || (isnan(p[best]) && !isnan(p[i]))) best = (int32_t)i;
        }
        ((int32_t *)y.data)[row] = bad ? -1 - best : best;
    }
}

struct rope_job {
    const struct cpu_kernels *kernels;
    struct tensor x;
    const struct rows *rows;
    const struct rope *r;
};

static void rope_row(void *arg, int64_t row) {
    struct rope_job *j = arg;
    enum { CHUNK = 128 };
    float cos[CHUNK], sin[CHUNK];
    const struct rope *r = j->r;
    int64_t pairs = r->inv_freq.n[0], width = j->x.n[2];
    bool longer = r->long_freq.dims && ((const int32_t *)j->rows->length.data)[row] > r->longest;
    const float *freq = longer ? r->long_freq.data : r->inv_freq.data;
    float at = (float)((const int32_t *)j->rows->pos.data)[row];
    for (int64_t i = 0; i < pairs; i += CHUNK) {
        int64_t count = pairs - i < CHUNK ? pairs - i : CHUNK;
        j->kernels->angles(cos, sin, freq + i, count, at, r->scale);
        for (int64_t h = 0; h < j->x.n[1]; h++) {
            float *a = row_of(j->x, row) + h * width;
            if (r->interleaved)
                j->kernels->rotate_pairs(a + 2 * i, cos, sin, count);
            else
                j->kernels->rotate(a + i, a + i + pairs, cos, sin, count);
        }
    }
}

static void cpu_rope(struct context *c, struct tensor x, const struct rows *rows,
                     const struct rope *r) {
    struct rope_job j = {c->dev->kernels, x, rows, r};
    cpu_rows(c, x.n[0], 4 * r->inv_freq.n[0] + x.n[1] * x.n[2], rope_row, &j);
}

static void cpu_read(struct context *c, void *host, const void *data, size_t size) {
    (void)c;
    memcpy(host, data, size);
}

// Large memory in large pages: what reads all of it spends less on looking up addresses.
static void ask_for_large_pages(char *p, size_t size) {
#if defined(MADV_HUGEPAGE)
    const size_t large = 2 << 20;
    size_t before = (large - (uintptr_t)p % large) % large;
    if (size >= before + large) madvise(p + before, (size - before) / large * large, MADV_HUGEPAGE);
#else
    (void)p, (void)size;
#endif
}

// calloc, so that large memory is zero without being touched: a cache costs what is used of it.
// What it returned is kept before the aligned address, for cpu_free.
static void *cpu_alloc(struct device *d, size_t size) {
    enum { ALIGN = 64, EXTRA = ALIGN + sizeof(void *) };
    size_t padded, available, total;
    device_memory(d, &available, &total);
    if (size > available) return NULL; // overcommit would promise it and kill us later
    if (!size_add(size, EXTRA, &padded)) return NULL;
    char *whole = calloc(1, padded);
    if (!whole) return NULL;
    ask_for_large_pages(whole, padded);
    char *p = whole + EXTRA - (uintptr_t)(whole + EXTRA) % ALIGN;
    memcpy(p - sizeof whole, &whole, sizeof whole);
    return p;
}

static void cpu_free(struct device *d, void *p) {
    (void)d;
    void *whole;
    memcpy(&whole, (char *)p - sizeof whole, sizeof whole);
    free(whole);
}

static void cpu_upload(struct device *d, void *dst, const void *src, size_t size) {
    (void)d;
    memcpy(dst, src, size);
}

static void cpu_copy(struct device *d, void *dst, const void *src, size_t size) {
    (void)d;
    memcpy(dst, src, size);
}

static void cpu_clear(struct device *d, void *dst, size_t size) {
    (void)d;
    memset(dst, 0, size);
}

static void cpu_memory(const struct device *d, size_t *available, size_t *total) {
    (void)d;
    *total = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    *available = memory_available(*total);
}

static void cpu_close(struct device *d) {
    pool_close(d->pool);
    free(d);
}

static const struct ops cpu_ops = {
    .embed = cpu_embed,
    .bound_ids = cpu_bound_ids,
    .linear = cpu_linear,
    .glu = cpu_glu,
    .act_mul = cpu_act_mul,
    .activate = cpu_activate,
    .rms_norm = cpu_rms_norm,
    .layer_norm = cpu_layer_norm,
    .add_to = cpu_add_to,
    .copy_to = cpu_copy_to,
    .scale = cpu_scale,
    .soft_cap = cpu_soft_cap,
    .gather_rows = cpu_gather_rows,
    .take_bands = cpu_take_bands,
    .rope = cpu_rope,
    .mixed_cache = true,
    .kv_write = cpu_kv_write,
    .attention = cpu_attention,
    .select_keys = cpu_select_keys,
    .join = cpu_join,
    .head_linear = cpu_head_linear,
    .scale_columns = cpu_scale_columns,
    .match_size = cpu_match_size,
    .cut_below = cpu_cut_below,
    .mix_streams = cpu_mix_streams,
    .scale_rows = cpu_scale_rows,
    .clamp = cpu_clamp,
    .route = cpu_route,
    .expert_linear = cpu_expert_linear,
    .expert_glu = cpu_expert_glu,
    .expert_sum = cpu_expert_sum,
    .convolve = cpu_convolve,
    .selective_scan = cpu_selective_scan,
    .ssd_scan = cpu_ssd_scan,
    .gated_lru = cpu_gated_lru,
    .log_decay = cpu_log_decay,
    .delta_rule = cpu_delta_rule,
    .argmax = cpu_argmax,
    .top_logits = cpu_top_logits,
    .read = cpu_read,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .upload = cpu_upload,
    .copy = cpu_copy,
    .clear = cpu_clear,
    .memory = cpu_memory,
    .measure = cpu_measure,
    .close = cpu_close,
};

#if defined(__aarch64__)
static bool has_dotprod(void) {
#if defined(__ARM_FEATURE_DOTPROD)
    return true; // all machines that this is compiled for
#elif defined(HWCAP_ASIMDDP)
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
#else
    return false;
#endif
}
#endif

// AVX-512 here means F, BW, VL, DQ and VNNI: a machine without the last uses the AVX2 kernels.
bool isa_supported(enum isa isa) {
    if (isa == ISA_PLAIN) return true;
#if defined(__x86_64__)
    // This also asks the system whether it saves the wide registers. F16C, which clang cannot be
    // asked about, came before AVX2.
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                __builtin_cpu_supports("bmi2");
    if (isa == ISA_AVX2) return avx2;
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vnni");
    if (isa == ISA_AVX512) return avx512;
    if (isa == ISA_AVX512_BF16) return avx512 && __builtin_cpu_supports("avx512bf16");
#elif defined(__aarch64__)
    if (isa == ISA_NEON) return true;
    if (isa == ISA_DOTPROD) return has_dotprod();
#endif
    return isa == ISA_BEST;
}

static const struct cpu_kernels *kernels_of(enum isa isa) {
#if defined(__x86_64__)
    if (isa == ISA_AVX2) return &kernels_avx2;
    if (isa == ISA_AVX512 || isa == ISA_AVX512_BF16) return &kernels_avx512;
#elif defined(__aarch64__)
    if (isa == ISA_NEON) return &kernels_neon;
    if (isa == ISA_DOTPROD) return &kernels_dotprod;
#endif
    (void)isa;
    return &kernels_plain;
}

// AVX512-BF16 is only used when asked for: on the one machine where it was timed, a Xeon that does
// no more operations a second in bf16 than in f32, it was slower than f32.
static enum isa best_isa(void) {
    for (int isa = ISA_BEST - 1; isa > ISA_PLAIN; isa--)
        if (isa != ISA_AVX512_BF16 && isa_supported((enum isa)isa)) return (enum isa)isa;
    return ISA_PLAIN;
}

// What MLXCEL_CPU_ISA or, without it, the caller asks for.
static bool choose_isa(enum isa asked, enum isa *out, struct error *e) {
    const char *name = getenv("MLXCEL_CPU_ISA");
    bool known = !name || !*name;
    for (int i = ISA_PLAIN; i <= ISA_BEST && name && !known; i++) {
        known = !strcmp(name, isa_name((enum isa)i));
        if (known) asked = (enum isa)i;
    }
    if (known && isa_supported(asked)) {
        *out = asked == ISA_BEST ? best_isa() : asked;
        return true;
    }
    char have[64] = "";
    for (int i = ISA_PLAIN; i < ISA_BEST; i++) {
        size_t n = strlen(have);
        if (isa_supported((enum isa)i))
            snprintf(have + n, sizeof have - n, "%s%s", n ? ", " : "", isa_name((enum isa)i));
    }
    return fail(e, "%s \"%s\": %s (it supports: %s)",
                name && *name ? "MLXCEL_CPU_ISA" : "instruction set",
                name && *name ? name : isa_name(asked),
                known ? "this machine lacks it" : "no such instruction set on this machine", have);
}

struct device *cpu_open(const struct device_options *opt, struct error *e) {
    enum isa isa = ISA_PLAIN;
    if (!choose_isa(opt->isa, &isa, e)) return NULL;
    struct pool *pool = pool_open(&opt->pool, e);
    if (!pool) return NULL;
    struct device *d = mem_alloc(sizeof *d);
    d->ops = &cpu_ops;
    d->host = true;
    d->pool = pool;
    d->isa = isa;
    d->kernels = kernels_of(isa);
    snprintf(d->name, sizeof d->name, "cpu (%s, %d thread%s)", isa_name(isa), pool_threads(pool),
             pool_threads(pool) == 1 ? "" : "s");
    return d;
}
