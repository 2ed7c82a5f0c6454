#include "checkpoint/weights.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "checkpoint/weights_internal.h"

size_t weights_count(const struct weights *w) { return w->n; }

const char *weights_name(const struct weights *w, size_t i) { return w->item[i].name; }

static struct weights_item *item(const struct weights *w, struct sv name) {
    int64_t i = map_get(&w->by_name, name);
    return i < 0 ? NULL : &w->item[i];
}

static const char *file_of(const struct weights *w, const struct weights_item *it) {
    return w->dummy ? w->folder : w->file[it->file].path;
}

bool weights_has(const struct weights *w, struct sv name) { return item(w, name) != NULL; }

bool weights_rename(struct weights *w, const char *from, const char *to, struct error *e) {
    struct weights_item *it = item(w, sv(from));
    if (!it) return fail(e, "%s: tensor \"%s\" is missing", w->folder, from);
    if (item(w, sv(to)))
        return fail(e, "%s: tensor \"%s\" cannot become \"%s\", which is there too", file_of(w, it),
                    from, to);
    free(it->name);
    it->name = mem_text(to);
    map_set(&w->by_name, sv(from), -1); // as if it had never been there
    map_set(&w->by_name, sv(to), it - w->item);
    return true;
}

// Memory that lives as long as w.
static void *keep(struct weights *w, size_t size) {
    w->copy = mem_grow(w->copy, &w->copy_cap, w->copies + 1, sizeof *w->copy);
    return w->copy[w->copies++] = mem_alloc(size);
}

// Old files may hold a tensor at any byte; kernels may not.
static void align(struct weights *w, struct weights_item *it) {
    struct tensor *t = &it->t.t;
    if (!t->data || (uintptr_t)t->data % dtype_size(t->type) == 0) return;
    void *to = keep(w, it->t.bytes);
    memcpy(to, t->data, it->t.bytes);
    t->data = to;
}

static struct weights_item *use(struct weights *w, struct sv name) {
    struct weights_item *it = item(w, name);
    if (!it) return NULL;
    it->used = true;
    align(w, it);
    return it;
}

static struct weights_item *need(struct weights *w, struct sv name, struct error *e) {
    struct weights_item *it = use(w, name);
    if (!it)
        fail(e, "%s: tensor \"%.*s\" is missing", w->folder, (int)(name.n < 200 ? name.n : 200),
             name.p);
    else if (it->t.unusable)
        fail(e, "%s: tensor \"%.200s\" %s, which this engine does not read", file_of(w, it),
             it->name, it->t.unusable);
    else
        return it;
    return NULL;
}

const struct st_tensor *weights_find(struct weights *w, struct sv name) {
    struct weights_item *it = use(w, name);
    return it ? &it->t : NULL;
}

const struct st_tensor *weights_need(struct weights *w, struct sv name, struct error *e) {
    struct weights_item *it = need(w, name, e);
    return it ? &it->t : NULL;
}

// --- what a model asks for ---------------------------------------------------------------------

// "FILE: tensor "NAME" is [2, 64] BF16, but WANTED"
static bool mismatch(struct error *e, const struct weights *w, const struct weights_item *it,
                     const char *wanted) {
    char shape[96];
    tensor_shape_text(it->t.t, shape);
    return fail(e, "%s: tensor \"%.200s\" is %s, but %s", file_of(w, it), it->name, shape, wanted);
}

static bool float_type(enum dtype t) { return t == DT_F32 || t == DT_F16 || t == DT_BF16; }

// A tensor of `dims` dimensions [a] or [a, b] in a float type that kernels read.
static bool check_float(const struct weights *w, const struct weights_item *it, int dims, int64_t a,
                        int64_t b, struct error *e) {
    struct tensor t = it->t.t;
    if (t.dims == dims && t.n[0] == a && (dims < 2 || t.n[1] == b) && float_type(t.type))
        return true;
    char shape[48], wanted[128];
    if (dims == 1)
        snprintf(shape, sizeof shape, "[%lld]", (long long)a);
    else
        snprintf(shape, sizeof shape, "[%lld, %lld]", (long long)a, (long long)b);
    snprintf(wanted, sizeof wanted, "the config asks for %s in F32, F16 or BF16", shape);
    return mismatch(e, w, it, wanted);
}

static struct tensor as_f32(struct weights *w, struct tensor t) {
    if (t.type == DT_F32) return t;
    float *to = keep(w, (size_t)t.n[0] * sizeof *to);
    const uint16_t *from = t.data;
    for (int64_t i = 0; i < t.n[0]; i++)
        to[i] = t.type == DT_F16 ? f16_to_f32(from[i]) : bf16_to_f32(from[i]);
    return tensor_1d(DT_F32, t.n[0], to);
}

bool weights_vector(struct weights *w, const char *name, int64_t n, struct tensor *out,
                    struct error *e) {
    if (w->dummy && !dummy_vector(w, name, n, e)) return false;
    struct weights_item *it = need(w, sv(name), e);
    if (!it || !check_float(w, it, 1, n, 0, e)) return false;
    *out = as_f32(w, it->t.t);
    return true;
}

// NAME.suffix
static struct weights_item *part(struct weights *w, const char *name, const char *suffix,
                                 struct error *e) {
    struct str full = {0};
    str_printf(&full, "%s.%s", name, suffix);
    struct weights_item *it = e ? need(w, str_sv(&full), e) : item(w, str_sv(&full));
    str_free(&full);
    return it;
}

static bool dense(struct weights *w, const struct weights_item *data, struct weight *r,
                  struct error *e) {
    int64_t rows = r->transposed ? r->in : r->out, columns = r->transposed ? r->out : r->in;
    if (!check_float(w, data, 2, rows, columns, e)) return false;
    r->layout = WEIGHT_DENSE;
    r->data = data->t.t;
    return true;
}

static bool one_of(int64_t v, const int *all) {
    for (; *all; all++)
        if (v == *all) return true;
    return false;
}

// Bits and group from the shapes alone, which are ambiguous unless `in` is known: 4 bits in groups
// of 64 look like 8 bits in groups of 128.
static bool affine_shape(const struct weights *w, const struct weights_item *data,
                         const struct weights_item *scales, struct weight *r, struct error *e) {
    static const int bits_known[] = {1, 2, 3, 4, 5, 6, 8, 0}, groups_known[] = {32, 64, 128, 0};
    struct tensor d = data->t.t, s = scales->t.t;
    char wanted[160];
    snprintf(wanted, sizeof wanted, "the config asks for %lld rows of %lld elements",
             (long long)r->out, (long long)r->in);
    if (d.type != DT_U32 || d.dims != 2 || d.n[0] != r->out) return mismatch(e, w, data, wanted);
    if (!float_type(s.type))
        return mismatch(e, w, scales, "only affine layouts with F32, F16 or BF16 scales are read");
    if (s.dims != 2 || s.n[0] != r->out || s.n[1] < 1) return mismatch(e, w, scales, wanted);
    int64_t groups = s.n[1], group = r->in / groups;
    if (r->in % groups || !one_of(group, groups_known)) return mismatch(e, w, scales, wanted);
    // No overflow: a row of d lies in a mapped file.
    int64_t bits = d.n[1] * 32 / r->in;
    if (d.n[1] * 32 % r->in || !one_of(bits, bits_known)) return mismatch(e, w, data, wanted);
    r->bits = (int)bits;
    r->group = (int)group;
    return true;
}

static bool affine(struct weights *w, const char *name, struct weights_item *data, struct weight *r,
                   struct error *e) {
    struct weights_item *scales = part(w, name, "scales", e);
    if (!scales || !affine_shape(w, data, scales, r, e)) return false;
    struct weights_item *biases = part(w, name, "biases", e);
    if (!biases) return false;
    if (!tensor_same_shape(biases->t.t, scales->t.t) || biases->t.t.type != scales->t.t.type)
        return mismatch(e, w, biases, "must be as the scales beside it");
    r->layout = WEIGHT_AFFINE;
    r->transposed = false;
    r->data = data->t.t;
    r->scales = scales->t.t;
    r->biases = biases->t.t;
    data->codes = r->out * r->in;
    return true;
}

// r says what is asked for: out, in, transposed.
static bool matrix(struct weights *w, const char *name, struct weight r, bool want_bias,
                   struct weight *result, struct error *e) {
    if (w->dummy && !dummy_matrix(w, name, r.out, r.in, want_bias, e)) return false;
    if (w->dummy) r.transposed = false;
    if (!part(w, name, "weight", NULL) && part(w, name, "qweight", NULL))
        return fail(e,
                    "%s: \"%s.qweight\" is in GPTQ or AWQ layout, which this engine does not read "
                    "(use an unquantized or an MLX affine version of the model)",
                    w->folder, name);
    struct weights_item *data = part(w, name, "weight", e);
    if (!data) return false;
    bool quantized = part(w, name, "scales", NULL) || data->t.t.type == DT_U32;
    if (!(quantized ? affine(w, name, data, &r, e) : dense(w, data, &r, e))) return false;
    if (want_bias) {
        struct weights_item *bias = part(w, name, "bias", e);
        if (!bias || !check_float(w, bias, 1, r.out, 0, e)) return false;
        r.bias = as_f32(w, bias->t.t);
    }
    *result = r;
    return true;
}

bool weights_matrix(struct weights *w, const char *name, int64_t out, int64_t in, bool want_bias,
                    struct weight *result, struct error *e) {
    return matrix(w, name, (struct weight){.out = out, .in = in}, want_bias, result, e);
}

bool weights_matrix_transposed(struct weights *w, const char *name, int64_t out, int64_t in,
                               bool want_bias, struct weight *result, struct error *e) {
    struct weight r = {.out = out, .in = in, .transposed = true};
    return matrix(w, name, r, want_bias, result, e);
}

struct tensor weights_plus_one(struct weights *w, struct tensor t) {
    float *to = keep(w, tensor_bytes(t));
    for (int64_t i = 0; i < t.n[0]; i++) to[i] = ((const float *)t.data)[i] + 1;
    return tensor_1d(DT_F32, t.n[0], to);
}

// --- the whole ---------------------------------------------------------------------------------

static bool matches(struct sv name, const char *pattern) {
    struct sv p = sv(pattern);
    bool front = p.n && p.p[0] == '*', back = p.n > 1 && p.p[p.n - 1] == '*';
    p = sv_cut(p, front, p.n - back);
    if (front && back) return sv_find(name, p, 0) >= 0;
    if (front) return sv_ends(name, p);
    return back ? sv_starts(name, p) : sv_eq(name, p);
}

static bool ignorable(struct sv name, const char *const *ignored) {
    static const char *const always[] = {"*rotary_emb.inv_freq", NULL};
    for (const char *const *p = always; *p; p++)
        if (matches(name, *p)) return true;
    for (; ignored && *ignored; ignored++)
        if (matches(name, *ignored)) return true;
    return false;
}

bool weights_check_unused(const struct weights *w, const char *const *ignored, struct error *e) {
    struct str list = {0};
    size_t count = 0;
    for (size_t i = 0; i < w->n; i++) {
        if (w->item[i].used || ignorable(sv(w->item[i].name), ignored)) continue;
        if (count++ < 3) str_printf(&list, "%s\"%.100s\"", count > 1 ? ", " : "", w->item[i].name);
    }
    if (count)
        fail(e, "%s: %zu tensors are not part of this model as its config describes it: %s%s",
             w->folder, count, list.p, count > 3 ? ", ..." : "");
    str_free(&list);
    return count == 0;
}

bool weights_populate(const struct weights *w,
                      void (*progress)(void *arg, size_t done, size_t total), void *arg,
                      struct error *e) {
    enum { STEP = 64 << 20, POPULATE_READ = 22 }; // MADV_POPULATE_READ, which Linux has since 5.14
    if (w->dummy) dummy_populate(w, progress, arg);
    size_t done = 0, total = 0;
    for (size_t i = 0; i < w->files; i++) total += w->file[i].map.n;
    for (size_t i = 0; i < w->files; i++) {
        struct mapping m = w->file[i].map;
        for (size_t at = 0; at < m.n; at += STEP) {
            size_t n = m.n - at < STEP ? m.n - at : STEP;
            if (madvise((void *)(uintptr_t)(m.p + at), n, POPULATE_READ) != 0 && errno == EFAULT)
                return fail(e, "%s: cannot be read at byte %zu", w->file[i].path, at);
            done += n;
            if (progress) progress(arg, done, total);
        }
    }
    return true;
}

size_t weights_bytes(const struct weights *w) {
    size_t total = 0;
    for (size_t i = 0; i < w->n; i++) total += w->item[i].t.bytes;
    return total;
}

// The scales and biases of a quantized matrix say how to read its codes; they are no parameters.
static bool describes_codes(const struct weights *w, const char *name) {
    struct sv s = sv(name), scales = sv(".scales"), biases = sv(".biases");
    if (!sv_ends(s, scales) && !sv_ends(s, biases)) return false;
    struct str data = {0};
    str_add(&data, sv_cut(s, 0, s.n - scales.n));
    str_puts(&data, ".weight");
    const struct weights_item *it = item(w, str_sv(&data));
    str_free(&data);
    return it && it->codes;
}

int64_t weights_parameters(const struct weights *w) {
    int64_t total = 0;
    for (size_t i = 0; i < w->n; i++) {
        const struct weights_item *it = &w->item[i];
        if (!it->used || describes_codes(w, it->name)) continue;
        total += it->codes ? it->codes : tensor_count(it->t.t);
    }
    return total;
}
