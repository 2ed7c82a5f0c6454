// Random weights in the shape of a checkpoint: each tensor is made when it is first asked for, in
// the layout that config.json gives it, with memory of its own (sharing it would let caches answer
// for memory). Until weights_populate only address space is taken, so that what it would need can
// be known, and refused, as for a real one.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "base/pool.h"
#include "checkpoint/weights_internal.h"

// Elements of the pattern that random data repeats: a prime, so that no two rows of a matrix begin
// at the same place in it, and too many for a cache to know it.
enum { PATTERN = 1048583 };

// The spread of random weights: that of a fresh model, so that activations stay ordinary numbers.
static const float SPREAD = 0.02f;

struct fill {
    bool random;
    enum dtype as;  // of random data that is not of the tensor's type
    float value;    // of every element, when not random; of a byte, the byte
    bool now;       // it is read before the weights are populated
    int64_t modulo; // above 0: element i is i % modulo
    int64_t each;   // above 0: element i is i / each
};

struct dummy {
    struct config *config;
    enum dtype type;   // of what is not quantized, and of MLX's scales and biases
    struct fill *fill; // [weights.n]
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
    w->quantization = quantization_read(c);
    struct dummy *d = w->dummy = mem_alloc(sizeof *d);
    d->config = c;
    d->type = read_type(c);
    if (config_ok(c, e)) return w;
    weights_close(w);
    return NULL;
}

bool weights_experts_apart(const struct weights *w) {
    return w->dummy && w->quantization.experts_apart;
}

void dummy_close(struct weights *w) {
    for (int t = 0; t < DT_COUNT; t++) free(w->dummy->pattern[t]);
    free(w->dummy->fill);
    free(w->dummy);
}

static void put(void *to, enum dtype type, int64_t i, float value) {
    if (type == DT_I32)
        ((int32_t *)to)[i] = (int32_t)value;
    else if (dtype_size(type) == 1)
        ((uint8_t *)to)[i] = (uint8_t)value;
    else
        store_float(to, type, i, value);
}

// Elements [from, to).
static void fill_plain(struct tensor t, const struct fill *f, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++) {
        int64_t number = f->modulo ? i % f->modulo : f->each ? i / f->each : 0;
        put(t.data, t.type, i, f->modulo || f->each ? (float)number : f->value);
    }
}

// Adds NAME.SUFFIX, unless it is there.
static bool add(struct weights *w, const char *name, const char *suffix, struct tensor t,
                struct fill fill, struct error *e) {
    struct str full = {0};
    str_printf(&full, "%s%s", name, suffix);
    size_t bytes = tensor_bytes(t);
    bool there = weights_has(w, str_sv(&full));
    if (!there) t.data = weights_room(w, bytes, str_c(&full), e);
    if (!there && !e->set) {
        // A mapped file has small pages; larger ones would make dummies faster than the real thing.
        madvise(t.data, bytes, MADV_NOHUGEPAGE);
        struct dummy *d = w->dummy;
        d->fill = mem_grow(d->fill, &d->fill_cap, w->n + 1, sizeof *d->fill);
        d->fill[w->n] = fill;
        if (fill.now) fill_plain(t, &fill, 0, tensor_count(t));
        weights_add(w, 0, &(struct st_tensor){.name = full.p, .t = t, .bytes = bytes}, false);
    }
    str_free(&full);
    return !e->set;
}

bool dummy_vector(struct weights *w, const char *name, int64_t n, struct error *e) {
    struct tensor t = tensor_1d(w->dummy->type, n, NULL);
    return add(w, name, "", t, (struct fill){.value = 1, .now = true}, e);
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

// [n, rows, columns], or without n where it is 0.
static struct tensor shaped(enum dtype type, int64_t n, int64_t rows, int64_t columns) {
    int64_t all[] = {n, rows, columns};
    return n ? tensor_nd(type, 3, all, NULL) : tensor_nd(type, 2, all + 1, NULL);
}

// What a matrix asks for.
struct made {
    struct weights *w;
    const char *name;
    int64_t n, out, in;
    struct quantization q;
    struct error *e;
};

static const struct fill random_fill = {.random = true};

// Tensors of [n, rows, columns], and numbers.
static bool add_shaped(const struct made *m, const char *suffix, enum dtype type, int64_t rows,
                       int64_t columns, struct fill fill) {
    return add(m->w, m->name, suffix, shaped(type, m->n, rows, columns), fill, m->e);
}

static bool add_number(const struct made *m, const char *suffix, float value) {
    struct tensor t = tensor_1d(DT_F32, 1, NULL);
    struct fill fill = {.value = value, .now = true};
    return add(m->w, m->name, suffix, t, fill, m->e);
}

static bool add_affine(const struct made *m) {
    // Codes are spread evenly over [0, 2^bits): the square root of 12 is a range over its spread.
    int64_t codes_n = (int64_t)1 << m->q.bits, groups = m->in / m->q.group;
    float scale = SPREAD * 3.4641f / (float)codes_n;
    struct fill scales = {.value = scale}, biases = {.value = -scale * (float)(codes_n - 1) / 2};
    enum dtype type = m->w->dummy->type;
    return add_shaped(m, ".weight", DT_U32, m->out, m->in * m->q.bits / 32, random_fill) &&
           add_shaped(m, ".scales", type, m->out, groups, scales) &&
           add_shaped(m, ".biases", type, m->out, groups, biases);
}

// The spread of random e2m1 floats is about 3, of random e4m3 floats about 111. As bytes, 2^-7 is
// 120 in E8M0 and 4 in E4M3; 2^-13 is 114 in E8M0.
static bool add_floats(const struct made *m) {
    bool eight = m->q.bits == 8;
    struct fill data = {.random = true, .as = eight ? DT_F8_E4M3 : DT_U32};
    struct fill scale = {.value = m->q.scheme == SCHEME_NVFP4 ? 4 : eight ? 114 : 120};
    return add_shaped(m, ".weight", DT_U32, m->out, m->in * m->q.bits / 32, data) &&
           add_shaped(m, ".scales", DT_U8, m->out, m->in / m->q.group, scale);
}

static bool add_f8(const struct made *m) {
    const struct quantization *q = &m->q;
    int64_t rows = q->rows ? (m->out + q->rows - 1) / q->rows : 1;
    int64_t columns = q->columns ? (m->in + q->columns - 1) / q->columns : 1;
    const char *suffix = q->inverse ? ".weight_scale_inv" : ".weight_scale";
    struct fill scale = {.value = SPREAD / 111};
    return add_shaped(m, ".weight", DT_F8_E4M3, m->out, m->in, random_fill) &&
           (q->rows || q->columns ? add_shaped(m, suffix, DT_F32, rows, columns, scale)
                                  : add_number(m, suffix, scale.value));
}

static bool add_packed_floats(const struct made *m) {
    bool nv = m->q.scheme != SCHEME_PACKED_MX, modelopt = m->q.scheme == SCHEME_MODELOPT_NV;
    struct fill scale = {.value = 120}; // 256 in E4M3
    return add_shaped(m, modelopt ? ".weight" : ".weight_packed", DT_U8, m->out, m->in / 2,
                      random_fill) &&
           add_shaped(m, ".weight_scale", nv ? DT_F8_E4M3 : DT_U8, m->out, m->in / m->q.group,
                      scale) &&
           (!nv || (modelopt ? add_number(m, ".weight_scale_2", SPREAD / 3 / 256)
                             : add_number(m, ".weight_global_scale", 256 * 3 / SPREAD)));
}

static float code_scale(const struct quantization *q) {
    return SPREAD * 3.4641f / (float)(1 << q->bits);
}

// Columns that share a scale, where a row is one group of them.
static int64_t group_of(const struct made *m) { return m->q.group ? m->q.group : m->in; }

static bool add_order(const struct made *m, const char *suffix) {
    struct fill fill = {.now = true};
    if (m->q.reordered)
        fill.modulo = m->in / group_of(m);
    else
        fill.each = group_of(m);
    return add(m->w, m->name, suffix, tensor_1d(DT_I32, m->in, NULL), fill, m->e);
}

static bool add_packed(const struct made *m) {
    int64_t groups = m->in / group_of(m), bits = m->q.bits;
    enum dtype type = m->w->dummy->type;
    return add_shaped(m, ".weight_packed", DT_I32, m->out, m->in * bits / 32, random_fill) &&
           add_shaped(m, ".weight_scale", type, m->out, groups,
                      (struct fill){.value = code_scale(&m->q)}) &&
           (m->q.symmetric || add_shaped(m, ".weight_zero_point", DT_I32, (m->out * bits + 31) / 32,
                                         groups, random_fill)) &&
           (!m->q.reordered || add_order(m, ".weight_g_idx"));
}

static bool add_int8(const struct made *m) {
    return add_shaped(m, ".weight", DT_I8, m->out, m->in, random_fill) &&
           add_shaped(m, ".weight_scale", m->w->dummy->type, m->out, 1,
                      (struct fill){.value = code_scale(&m->q)});
}

static bool add_words_down(const struct made *m) {
    int64_t groups = m->in / group_of(m), bits = m->q.bits;
    bool awq = m->q.scheme == SCHEME_AWQ;
    return add_shaped(m, ".qweight", DT_I32, awq ? m->in : m->in * bits / 32,
                      awq ? m->out / 8 : m->out, random_fill) &&
           add_shaped(m, ".qzeros", DT_I32, groups, m->out * bits / 32, random_fill) &&
           add_shaped(m, ".scales", DT_F16, groups, m->out,
                      (struct fill){.value = code_scale(&m->q)}) &&
           (awq || add_order(m, ".g_idx"));
}

static bool add_ternary(const struct made *m) {
    float spread = m->q.multiplies ? SPREAD : 1 / SPREAD;
    return add_shaped(m, ".weight", DT_U8, m->out / 4, m->in, random_fill) &&
           add_number(m, ".weight_scale", spread);
}

bool dummy_matrix(struct weights *w, const char *name, int64_t n, int64_t out, int64_t in,
                  bool want_bias, struct error *e) {
    struct dummy *d = w->dummy;
    struct quantization q = quantization_of(&w->quantization, name, n > 0, out, in);
    struct made m = {w, name, n, out, in, q, e};
    if (!config_ok(d->config, e)) return false;
    struct tensor bias = n ? tensor_2d(d->type, n, out, NULL) : tensor_1d(d->type, out, NULL);
    if (want_bias && !add(w, name, ".bias", bias, random_fill, e)) return false;
    switch (m.q.scheme) {
    case SCHEME_DENSE: break;
    case SCHEME_AFFINE: return add_affine(&m);
    case SCHEME_MXFP4:
    case SCHEME_MXFP8:
    case SCHEME_NVFP4: return add_floats(&m);
    case SCHEME_F8: return add_f8(&m);
    case SCHEME_INT8: return add_int8(&m);
    case SCHEME_PACKED: return add_packed(&m);
    case SCHEME_PACKED_NV:
    case SCHEME_PACKED_MX:
    case SCHEME_MODELOPT_NV: return add_packed_floats(&m);
    case SCHEME_AWQ:
    case SCHEME_GPTQ: return add_words_down(&m);
    case SCHEME_BITNET: return add_ternary(&m);
    }
    return add_shaped(&m, ".weight", d->type, out, in, random_fill);
}

// --- filling -----------------------------------------------------------------------------------

static void make_pattern(struct dummy *d, enum dtype type) {
    if (d->pattern[type]) return;
    void *p = d->pattern[type] = mem_array(PATTERN, dtype_size(type));
    uint64_t state = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < PATTERN; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint32_t random = (uint32_t)(state >> 32);
        if (type == DT_U32 || type == DT_I32)
            ((uint32_t *)p)[i] = random;
        else if (type == DT_F8_E4M3) // no NaN
            ((uint8_t *)p)[i] = (uint8_t)(random & 127) == 127 ? 126 : (uint8_t)random;
        else if (dtype_size(type) == 1)
            ((uint8_t *)p)[i] = (uint8_t)random;
        else
            store_float(p, type, (int64_t)i, SPREAD * 3.4641f * ((float)random * 0x1p-32f - 0.5f));
    }
}

// Elements [from, to) of what repeats the pattern from its element `first` on.
static void fill_random(struct tensor t, enum dtype type, const char *pattern, size_t first,
                        size_t from, size_t to) {
    size_t size = dtype_size(type), at = (first + from) % PATTERN;
    for (size_t n; from < to; from += n, at = 0) {
        n = PATTERN - at < to - from ? PATTERN - at : to - from;
        memcpy((char *)t.data + from * size, pattern + at * size, n * size);
    }
}

// Threads fill tensors in pieces of so many elements.
enum { PIECE = 4 << 20, RUN = 256 };

struct piece {
    size_t item;
    int64_t at;
};

struct filling {
    const struct weights *w;
    struct piece piece[RUN];
    int pieces;
};

static enum dtype filled_as(const struct weights *w, size_t item) {
    const struct fill *f = &w->dummy->fill[item];
    return f->random && f->as ? f->as : w->item[item].t.t.type;
}

static int64_t elements(const struct weights *w, size_t item) {
    return (int64_t)(tensor_bytes(w->item[item].t.t) / dtype_size(filled_as(w, item)));
}

static void fill_piece(void *arg, int task, int thread) {
    (void)thread;
    const struct filling *f = arg;
    const struct dummy *d = f->w->dummy;
    struct piece p = f->piece[task];
    struct tensor t = f->w->item[p.item].t.t;
    enum dtype type = filled_as(f->w, p.item);
    int64_t count = elements(f->w, p.item), to = count - p.at < PIECE ? count : p.at + PIECE;
    if (d->fill[p.item].random)
        fill_random(t, type, d->pattern[type], p.item * 7919 % PATTERN, (size_t)p.at, (size_t)to);
    else
        fill_plain(t, &d->fill[p.item], p.at, to);
}

static void fill_pieces(struct filling *f, struct pool *pool) {
    if (pool)
        pool_run(pool, f->pieces, fill_piece, f);
    else
        for (int i = 0; i < f->pieces; i++) fill_piece(f, i, 0);
    f->pieces = 0;
}

void dummy_populate(const struct weights *w, void (*progress)(void *arg, size_t done, size_t total),
                    void *arg) {
    size_t done = 0, total = weights_bytes(w);
    struct error none = {0};
    struct pool *pool = pool_open(&(struct pool_options){0}, &none);
    struct filling f = {.w = w};
    for (size_t i = 0; i < w->n; i++) {
        if (w->dummy->fill[i].random) make_pattern(w->dummy, filled_as(w, i));
        for (int64_t at = 0, count = elements(w, i); at < count; at += PIECE) {
            f.piece[f.pieces++] = (struct piece){i, at};
            if (f.pieces == RUN) fill_pieces(&f, pool);
        }
        done += w->item[i].t.bytes;
        if (progress) progress(arg, done < total ? done : total, total);
    }
    fill_pieces(&f, pool);
    pool_close(pool);
}
