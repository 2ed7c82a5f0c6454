// Random weights in the shape of a checkpoint: each tensor is made when it is first asked for, in
// the layout that config.json gives it, with memory of its own (sharing it would let caches answer
// for memory). Until weights_populate only address space is taken, so that what it would need can
// be known, and refused, as for a real one.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "checkpoint/weights_internal.h"

// Elements of the pattern that random data repeats: a prime, so that no two rows of a matrix begin
// at the same place in it, and too many for a cache to know it.
enum { PATTERN = 1048583 };

// The spread of random weights: that of a fresh model, so that activations stay ordinary numbers.
static const float SPREAD = 0.02f;

struct fill {
    bool random;
    float value; // of every element, when not random
};

struct dummy {
    struct config *config;
    struct config *quantization; // NULL: none
    enum dtype type;             // of what is not quantized, and of scales and biases
    struct fill *fill;           // [weights.n]
    size_t fill_cap;
    void *pattern[DT_COUNT]; // [PATTERN], made when needed
};

static enum dtype read_type(struct config *c) {
    static const struct {
        const char *name;
        enum dtype type;
    } known[] = {{"bfloat16", DT_BF16}, {"float16", DT_F16}, {"float32", DT_F32}};
    const char *key = config_has(c, "dtype") ? "dtype" : "torch_dtype";
    struct sv name = config_text(c, key, "bfloat16");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (sv_is(name, known[i].name)) return known[i].type;
    config_fail(c, key, "dummy weights can be bfloat16, float16 or float32");
    return DT_BF16;
}

struct weights *weights_open_dummy(struct config *c, struct error *e) {
    struct weights *w = mem_alloc(sizeof *w);
    w->folder = mem_text(config_what(c));
    struct dummy *d = w->dummy = mem_alloc(sizeof *d);
    d->config = c;
    d->type = read_type(c);
    d->quantization = config_child(c, "quantization");
    if (!d->quantization) d->quantization = config_child(c, "quantization_config");
    if (config_ok(c, e)) return w;
    weights_close(w);
    return NULL;
}

void dummy_close(struct weights *w) {
    for (size_t i = 0; i < w->n; i++) munmap(w->item[i].t.t.data, w->item[i].t.bytes);
    for (int t = 0; t < DT_COUNT; t++) free(w->dummy->pattern[t]);
    free(w->dummy->fill);
    free(w->dummy);
}

// Adds NAME.SUFFIX, unless it is there.
static bool add(struct weights *w, const char *name, const char *suffix, struct tensor t,
                struct fill fill, struct error *e) {
    struct str full = {0};
    str_printf(&full, "%s%s", name, suffix);
    size_t bytes = tensor_bytes(t);
    bool there = weights_has(w, str_sv(&full));
    if (!there) {
        t.data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (t.data == MAP_FAILED)
            fail(e, "%s: cannot map %.1f MiB for the dummy tensor \"%.200s\": %s", w->folder,
                 (double)bytes / 0x1p20, str_c(&full), strerror(errno));
    }
    if (!there && !e->set) {
        // A mapped file has small pages; larger ones would make dummies faster than the real thing.
        madvise(t.data, bytes, MADV_NOHUGEPAGE);
        struct dummy *d = w->dummy;
        d->fill = mem_grow(d->fill, &d->fill_cap, w->n + 1, sizeof *d->fill);
        d->fill[w->n] = fill;
        weights_add(w, 0, &(struct st_tensor){.name = full.p, .t = t, .bytes = bytes}, false);
    }
    str_free(&full);
    return !e->set;
}

bool dummy_vector(struct weights *w, const char *name, int64_t n, struct error *e) {
    struct tensor t = tensor_1d(w->dummy->type, n, NULL);
    return add(w, name, "", t, (struct fill){.value = 1}, e);
}

// Tables are taken apart as they are asked for, before they are filled: what a model makes of them
// is as of zeros.
bool dummy_table(struct weights *w, const char *name, int64_t rows, int64_t columns,
                 struct error *e) {
    struct tensor t = tensor_2d(w->dummy->type, rows, columns, NULL);
    return add(w, name, "", t, (struct fill){.random = true}, e);
}

bool dummy_stack(struct weights *w, const char *name, int64_t n, int64_t rows, int64_t columns,
                 struct error *e) {
    struct tensor t = tensor_nd(w->dummy->type, 3, (int64_t[]){n, rows, columns}, NULL);
    return add(w, name, "", t, (struct fill){.random = true}, e);
}

// How a matrix is quantized: as the config says for all, or for this one. bits 0: not at all, which
// is also what quantizers do to one whose rows are no multiple of the group.
struct quant {
    int64_t bits, group;
    bool mxfp4;
};

static bool is_mxfp4(struct config *c) {
    struct sv mode = config_text(c, "mode", "affine");
    if (!sv_is(mode, "affine") && !sv_is(mode, "mxfp4"))
        config_fail(c, "mode", "must be affine or mxfp4");
    return sv_is(mode, "mxfp4");
}

static struct quant quant_of(struct dummy *d, const char *name, bool stack, int64_t in) {
    struct config *all = d->quantization, *own = NULL;
    if (!all) return (struct quant){0};
    if (config_has(all, "quant_method") && !sv_is(config_text(all, "quant_method", ""), "mxfp4"))
        config_fail(all, "quant_method", "dummy weights can be mxfp4 or MLX's");
    if (config_has(all, "quant_method")) // of gpt-oss: the experts alone
        return stack && in % 32 == 0 ? (struct quant){4, 32, true} : (struct quant){0};
    if (config_is_object(all, name))
        own = config_child(all, name);
    else if (!config_bool(all, name, true))
        return (struct quant){0};
    struct quant q = {config_int(all, "bits", 4), config_int(all, "group_size", 64),
                      is_mxfp4(own ? own : all)};
    if (own) {
        q.bits = config_int(own, "bits", q.bits);
        q.group = config_int(own, "group_size", q.group);
    }
    if (q.mxfp4 && (q.bits != 4 || q.group != 32))
        config_fail(own ? own : all, "mode", "has 4 bits and groups of 32");
    else if (q.bits < 1 || q.bits > 8 || q.bits == 7)
        config_fail(own ? own : all, "bits", "must be 1, 2, 3, 4, 5, 6 or 8");
    else if (q.group != 32 && q.group != 64 && q.group != 128)
        config_fail(own ? own : all, "group_size", "must be 32, 64 or 128");
    else if (in % q.group == 0)
        return q;
    return (struct quant){0};
}

// [n, rows, columns], or without n where it is 0.
static struct tensor shaped(enum dtype type, int64_t n, int64_t rows, int64_t columns) {
    int64_t all[] = {n, rows, columns};
    return n ? tensor_nd(type, 3, all, NULL) : tensor_nd(type, 2, all + 1, NULL);
}

static bool add_affine(struct weights *w, const char *name, int64_t n, int64_t out, int64_t in,
                       struct quant q, struct error *e) {
    struct tensor codes = shaped(DT_U32, n, out, in * q.bits / 32);
    struct tensor each = shaped(w->dummy->type, n, out, in / q.group);
    // Codes are spread evenly over [0, 2^bits): the square root of 12 is a range over its spread.
    int64_t codes_n = (int64_t)1 << q.bits;
    float scale = SPREAD * 3.4641f / (float)codes_n;
    struct fill scales = {.value = scale}, biases = {.value = -scale * (float)(codes_n - 1) / 2};
    return add(w, name, ".weight", codes, (struct fill){.random = true}, e) &&
           add(w, name, ".scales", each, scales, e) && add(w, name, ".biases", each, biases, e);
}

// The spread of random e2m1 floats is about 3, the scale that is nearest to it 2^-7.
static bool add_mxfp4(struct weights *w, const char *name, int64_t n, int64_t out, int64_t in,
                      struct error *e) {
    return add(w, name, ".weight", shaped(DT_U32, n, out, in / 8), (struct fill){.random = true},
               e) &&
           add(w, name, ".scales", shaped(DT_U8, n, out, in / 32), (struct fill){.value = 120}, e);
}

bool dummy_matrix(struct weights *w, const char *name, int64_t n, int64_t out, int64_t in,
                  bool want_bias, struct error *e) {
    struct dummy *d = w->dummy;
    struct fill random = {.random = true};
    struct quant q = quant_of(d, name, n > 0, in);
    if (!config_ok(d->config, e)) return false;
    struct tensor bias = n ? tensor_2d(d->type, n, out, NULL) : tensor_1d(d->type, out, NULL);
    if (want_bias && !add(w, name, ".bias", bias, random, e)) return false;
    if (q.mxfp4) return add_mxfp4(w, name, n, out, in, e);
    return q.bits ? add_affine(w, name, n, out, in, q, e)
                  : add(w, name, ".weight", shaped(d->type, n, out, in), random, e);
}

// --- filling -----------------------------------------------------------------------------------

static void put(void *to, enum dtype type, size_t i, float value) {
    if (type == DT_F32)
        ((float *)to)[i] = value;
    else
        ((uint16_t *)to)[i] = type == DT_F16 ? f32_to_f16(value) : f32_to_bf16(value);
}

static const void *pattern_of(struct dummy *d, enum dtype type) {
    if (d->pattern[type]) return d->pattern[type];
    void *p = d->pattern[type] = mem_array(PATTERN, dtype_size(type));
    uint64_t state = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < PATTERN; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint32_t random = (uint32_t)(state >> 32);
        if (type == DT_U32)
            ((uint32_t *)p)[i] = random;
        else
            put(p, type, i, SPREAD * 3.4641f * ((float)random * 0x1p-32f - 0.5f));
    }
    return p;
}

// Repeats the pattern from its element `from` on.
static void repeat(struct tensor t, const char *pattern, size_t from) {
    size_t size = dtype_size(t.type), count = (size_t)tensor_count(t);
    for (size_t at = 0; at < count; from = 0) {
        size_t n = PATTERN - from < count - at ? PATTERN - from : count - at;
        memcpy((char *)t.data + at * size, pattern + from * size, n * size);
        at += n;
    }
}

void dummy_populate(const struct weights *w, void (*progress)(void *arg, size_t done, size_t total),
                    void *arg) {
    struct dummy *d = w->dummy;
    size_t done = 0, total = weights_bytes(w);
    for (size_t i = 0; i < w->n; i++) {
        struct tensor t = w->item[i].t.t;
        if (d->fill[i].random)
            repeat(t, pattern_of(d, t.type), i * 7919 % PATTERN);
        else
            for (size_t k = 0; k < (size_t)tensor_count(t); k++)
                put(t.data, t.type, k, d->fill[i].value);
        done += w->item[i].t.bytes;
        if (progress) progress(arg, done, total);
    }
}
