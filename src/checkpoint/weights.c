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

bool weights_move(struct weights *w, const char *from, const char *to, struct error *e) {
    bool ok = true;
    for (size_t i = 0; i < w->n && ok; i++) {
        if (!sv_starts(sv(w->item[i].name), sv(from))) continue;
        char *old = mem_text(w->item[i].name);
        struct str name = {0};
        str_printf(&name, "%s%s", to, old + strlen(from));
        ok = weights_rename(w, old, str_c(&name), e);
        str_free(&name);
        free(old);
    }
    return ok;
}

// Memory that lives as long as w.
static void *keep(struct weights *w, size_t size) {
    w->copy = mem_grow(w->copy, &w->copy_cap, w->copies + 1, sizeof *w->copy);
    return w->copy[w->copies++] = mem_alloc(size);
}

// Old files may hold a tensor at any byte; kernels may not.
static void align(struct weights *w, struct weights_item *it, size_t to_bytes) {
    struct tensor *t = &it->t.t;
    if (!t->data || (uintptr_t)t->data % to_bytes == 0) return;
    void *to = keep(w, it->t.bytes);
    memcpy(to, t->data, it->t.bytes);
    t->data = to;
}

static struct weights_item *use(struct weights *w, struct sv name) {
    struct weights_item *it = item(w, name);
    if (!it) return NULL;
    it->used = true;
    align(w, it, dtype_size(it->t.t.type));
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

// A tensor of exactly these dimensions in a float type that kernels read.
static bool check_float(const struct weights *w, const struct weights_item *it, int dims,
                        const int64_t *n, struct error *e) {
    struct tensor t = it->t.t, asked = tensor_nd(DT_F32, dims, n, NULL);
    if (tensor_same_shape(t, asked) && float_type(t.type)) return true;
    char shape[96], wanted[160];
    tensor_shape_text(asked, shape);
    snprintf(wanted, sizeof wanted, "the config asks for %.*s in F32, F16 or BF16",
             (int)(strchr(shape, ']') - shape + 1), shape);
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
    if (!it || !check_float(w, it, 1, &n, e)) return false;
    *out = as_f32(w, it->t.t);
    return true;
}

// Whether t is [rows, columns], dimensions of 1 apart.
static bool is_table(struct tensor t, int64_t rows, int64_t columns) {
    int64_t want[2], n = 0, k = 0;
    if (rows != 1) want[n++] = rows;
    if (columns != 1) want[n++] = columns;
    for (int d = 0; d < t.dims; d++) {
        if (t.n[d] == 1) continue;
        if (k == n || t.n[d] != want[k++]) return false;
    }
    return k == n;
}

bool weights_table(struct weights *w, const char *name, int64_t rows, int64_t columns,
                   struct tensor *out, struct error *e) {
    if (w->dummy && !dummy_table(w, name, rows, columns, e)) return false;
    struct weights_item *it = need(w, sv(name), e);
    if (!it) return false;
    struct tensor t = it->t.t;
    if (!float_type(t.type) || !is_table(t, rows, columns)) {
        char wanted[128];
        snprintf(wanted, sizeof wanted, "the config asks for %lld by %lld in F32, F16 or BF16",
                 (long long)rows, (long long)columns);
        return mismatch(e, w, it, wanted);
    }
    t = as_f32(w, tensor_1d(t.type, rows * columns, t.data));
    *out = tensor_2d(DT_F32, rows, columns, t.data);
    return true;
}

struct tensor weights_make(struct weights *w, int64_t rows, int64_t columns) {
    struct tensor t = tensor_2d(DT_F32, rows, columns, NULL);
    t.data = keep(w, tensor_bytes(t));
    return t;
}

// NAME + suffix
static struct weights_item *part(struct weights *w, const char *name, const char *suffix,
                                 struct error *e) {
    struct str full = {0};
    str_printf(&full, "%s%s", name, suffix);
    struct weights_item *it = e ? need(w, str_sv(&full), e) : item(w, str_sv(&full));
    str_free(&full);
    return it;
}

// What is asked for: a matrix [out, in], or n > 0 of them, one after the other.
struct ask {
    const char *name;
    int64_t n, out, in;
    bool bias;
    bool columns; // published as [in, out], where it is dense
};

static bool not_asked(const struct weights *w, const struct weights_item *it, const struct ask *a,
                      struct error *e) {
    char stack[32] = "", wanted[160];
    if (a->n) snprintf(stack, sizeof stack, "%lld times ", (long long)a->n);
    snprintf(wanted, sizeof wanted, "the config asks for %s%lld rows of %lld elements", stack,
             (long long)a->out, (long long)a->in);
    return mismatch(e, w, it, wanted);
}

// One tensor of it as a matrix of all rows. False when its dimensions but the last are others.
static bool rows_of(const struct ask *a, struct tensor t, struct tensor *out) {
    int dims = a->n ? 3 : 2;
    if (t.dims != dims || t.n[dims - 2] != a->out || (a->n && t.n[0] != a->n)) return false;
    *out = tensor_2d(t.type, (a->n ? a->n : 1) * a->out, t.n[dims - 1], t.data);
    return true;
}

// All rows as they are published: of n [in, out], n * in.
static bool dense(struct weights *w, const struct weights_item *data, const struct ask *a,
                  struct weight *r, struct error *e) {
    int64_t n[] = {a->n, a->columns ? a->in : a->out, a->columns ? a->out : a->in};
    if (!(a->n ? check_float(w, data, 3, n, e) : check_float(w, data, 2, n + 1, e))) return false;
    r->layout = WEIGHT_DENSE;
    r->out = (a->n ? a->n : 1) * n[1];
    r->in = n[2];
    r->data = tensor_2d(data->t.t.type, r->out, r->in, data->t.t.data);
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
                         const struct weights_item *scales, const struct ask *a, struct weight *r,
                         struct error *e) {
    static const int bits_known[] = {1, 2, 3, 4, 5, 6, 8, 0}, groups_known[] = {32, 64, 128, 0};
    if (data->t.t.type != DT_U32 || !rows_of(a, data->t.t, &r->data))
        return not_asked(w, data, a, e);
    if (!float_type(scales->t.t.type))
        return mismatch(e, w, scales, "only affine layouts with F32, F16 or BF16 scales are read");
    if (!rows_of(a, scales->t.t, &r->scales) || r->scales.n[1] < 1)
        return not_asked(w, scales, a, e);
    int64_t group = a->in / r->scales.n[1], words = r->data.n[1];
    if (a->in % r->scales.n[1] || !one_of(group, groups_known)) return not_asked(w, scales, a, e);
    // No overflow: a row of the codes lies in a mapped file.
    int64_t bits = words * 32 / a->in;
    if (words * 32 % a->in || !one_of(bits, bits_known)) return not_asked(w, data, a, e);
    r->bits = (int)bits;
    r->group = (int)group;
    return true;
}

static bool affine(struct weights *w, const struct ask *a, struct weights_item *data,
                   const struct weights_item *scales, struct weight *r, struct error *e) {
    if (!affine_shape(w, data, scales, a, r, e)) return false;
    struct weights_item *biases = part(w, a->name, ".biases", e);
    if (!biases) return false;
    if (!tensor_same_shape(biases->t.t, scales->t.t) || biases->t.t.type != scales->t.t.type)
        return mismatch(e, w, biases, "must be as the scales beside it");
    rows_of(a, biases->t.t, &r->biases);
    r->layout = WEIGHT_AFFINE;
    return true;
}

// Its scales are bytes, which affine layouts do not have.
static bool mxfp4(struct weights *w, const struct ask *a, struct weights_item *data,
                  const struct weights_item *scales, struct weight *r, struct error *e) {
    if (data->t.t.type != DT_U32 || !rows_of(a, data->t.t, &r->data) || r->data.n[1] * 8 != a->in)
        return not_asked(w, data, a, e);
    if (!rows_of(a, scales->t.t, &r->scales) || r->scales.n[1] * 32 != a->in)
        return not_asked(w, scales, a, e);
    r->scales.type = DT_F8_E8M0;
    r->layout = WEIGHT_MXFP4;
    r->bits = 4;
    r->group = 32;
    return true;
}

static int64_t blocks_of(int64_t n) { return (n + 127) / 128; }

// Blocks of 128 x 128, ragged at the ends, as DeepSeek V3 publishes them.
static bool f8(struct weights *w, const struct ask *a, struct weights_item *data, struct weight *r,
               struct error *e) {
    struct weights_item *scales = part(w, a->name, ".weight_scale_inv", e);
    if (!scales) return false;
    if (a->n || a->columns || !rows_of(a, data->t.t, &r->data) || r->data.n[1] != a->in)
        return not_asked(w, data, a, e);
    int64_t n[] = {blocks_of(a->out), blocks_of(a->in)};
    if (!check_float(w, scales, 2, n, e)) return false;
    r->layout = WEIGHT_F8;
    r->group = 128;
    r->scales = scales->t.t;
    data->codes = r->out * r->in;
    return true;
}

static bool byte_type(enum dtype t) { return t == DT_U8 || t == DT_F8_E8M0; }

// The bias [out], or [n, out], as one list in F32.
static bool add_bias(struct weights *w, const struct ask *a, const char *suffix, struct weight *r,
                     struct error *e) {
    struct weights_item *bias = part(w, a->name, suffix, e);
    if (!bias) return false;
    int64_t n[] = {a->n, a->out};
    if (!(a->n ? check_float(w, bias, 2, n, e) : check_float(w, bias, 1, n + 1, e))) return false;
    struct tensor all = tensor_1d(bias->t.t.type, (a->n ? a->n : 1) * a->out, bias->t.t.data);
    r->bias = as_f32(w, all);
    return true;
}

// All rows of what is asked for, NAME.weight, as one matrix.
static bool all_rows(struct weights *w, const struct ask *a, struct weight *r, struct error *e) {
    if (w->dummy && !dummy_matrix(w, a->name, a->n, a->out, a->in, a->bias, e)) return false;
    if (!part(w, a->name, ".weight", NULL) && part(w, a->name, ".qweight", NULL))
        return fail(e,
                    "%s: \"%s.qweight\" is in GPTQ or AWQ layout, which this engine does not read "
                    "(use an unquantized or an MLX affine version of the model)",
                    w->folder, a->name);
    struct weights_item *data = part(w, a->name, ".weight", e);
    if (!data) return false;
    *r = (struct weight){.out = (a->n ? a->n : 1) * a->out, .in = a->in};
    if (data->t.t.type == DT_F8_E4M3) {
        if (!f8(w, a, data, r, e)) return false;
    } else if (part(w, a->name, ".scales", NULL) || data->t.t.type == DT_U32) {
        struct weights_item *scales = part(w, a->name, ".scales", e);
        if (!scales) return false;
        bool floats = byte_type(scales->t.t.type);
        if (!(floats ? mxfp4 : affine)(w, a, data, scales, r, e)) return false;
        data->codes = r->out * r->in;
    } else {
        if (!dense(w, data, a, r, e)) return false;
        if (a->columns) *r = weight_transposed(r);
    }
    return !a->bias || add_bias(w, a, ".bias", r, e);
}

bool weights_matrix(struct weights *w, const char *name, int64_t out, int64_t in, bool want_bias,
                    struct weight *result, struct error *e) {
    struct weight r;
    struct ask a = {.name = name, .out = out, .in = in, .bias = want_bias};
    if (!all_rows(w, &a, &r, e)) return false;
    *result = r;
    return true;
}

bool weights_matrix_transposed(struct weights *w, const char *name, int64_t out, int64_t in,
                               bool want_bias, struct weight *result, struct error *e) {
    struct weight r;
    struct ask a = {.name = name, .out = out, .in = in, .bias = want_bias, .columns = true};
    if (w->dummy) a.columns = false;
    if (!all_rows(w, &a, &r, e)) return false;
    *result = r;
    return true;
}

// Matrix i of a stack whose rows lie one after the other.
static struct weight one_of_stack(const struct weight *whole, int64_t i, int64_t out) {
    return weight_rows(whole, i * out, out, 1);
}

bool weights_stack(struct weights *w, const char *name, int64_t n, int64_t out, int64_t in,
                   bool want_bias, struct weight *whole, struct weight *each, struct error *e) {
    struct ask a = {.name = name, .n = n, .out = out, .in = in, .bias = want_bias};
    if (!all_rows(w, &a, whole, e)) return false;
    for (int64_t i = 0; i < n; i++) each[i] = one_of_stack(whole, i, out);
    return true;
}

// NAME_blocks [n, out, in / 32, 16], bytes of two codes each; NAME_scales [n, out, in / 32]
static bool blocks(struct weights *w, const struct ask *a, struct weight *r, struct error *e) {
    struct weights_item *data = part(w, a->name, "_blocks", e);
    struct weights_item *scales = data ? part(w, a->name, "_scales", e) : NULL;
    if (!scales) return false;
    struct tensor b = data->t.t;
    if (b.type != DT_U8 || b.dims != 4 || b.n[0] != a->n || b.n[1] != a->out ||
        b.n[2] * 32 != a->in || b.n[3] != 16)
        return not_asked(w, data, a, e);
    if (!byte_type(scales->t.t.type) || !rows_of(a, scales->t.t, &r->scales) ||
        r->scales.n[1] * 32 != a->in)
        return not_asked(w, scales, a, e);
    align(w, data, sizeof(uint32_t));
    r->layout = WEIGHT_MXFP4;
    r->bits = 4;
    r->group = 32;
    r->data = tensor_2d(DT_U32, r->out, a->in / 8, data->t.t.data);
    r->scales.type = DT_F8_E8M0;
    data->codes = r->out * r->in;
    return true;
}

bool weights_bare_stack(struct weights *w, const char *name, int64_t n, int64_t out, int64_t in,
                        bool columns, bool want_bias, struct weight *whole, struct weight *each,
                        struct error *e) {
    struct ask a = {name, n, out, in, want_bias, columns};
    *whole = (struct weight){.out = n * out, .in = in};
    if (w->dummy && !dummy_stack(w, name, n, columns ? in : out, columns ? out : in, e))
        return false;
    bool coded = part(w, name, "_blocks", NULL);
    if (coded && !blocks(w, &a, whole, e)) return false;
    if (!coded) {
        struct weights_item *data = part(w, name, "", e);
        if (!data || !dense(w, data, &a, whole, e)) return false;
    }
    for (int64_t i = 0; i < n; i++) {
        each[i] = one_of_stack(whole, i, !coded && columns ? in : out);
        if (!coded && columns) each[i] = weight_transposed(&each[i]);
    }
    if (!want_bias) return true;
    if (!add_bias(w, &a, "_bias", whole, e)) return false;
    for (int64_t i = 0; i < n; i++) each[i].bias = tensor_slice(whole->bias, 0, i * out, out);
    return true;
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

void weights_ignore(struct weights *w, const char *prefix) {
    for (size_t i = 0; i < w->n; i++)
        if (sv_starts(sv(w->item[i].name), sv(prefix))) w->item[i].ignored = true;
}

bool weights_check_unused(const struct weights *w, const char *const *ignored, struct error *e) {
    struct str list = {0};
    size_t count = 0;
    for (size_t i = 0; i < w->n; i++) {
        if (w->item[i].used || w->item[i].ignored || ignorable(sv(w->item[i].name), ignored))
            continue;
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
    static const char *const ends[][2] = {{".scales", ".weight"},
                                          {".biases", ".weight"},
                                          {"_scales", "_blocks"},
                                          {".weight_scale_inv", ".weight"}};
    struct sv s = sv(name);
    bool describes = false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends && !describes; i++) {
        struct sv end = sv(ends[i][0]);
        if (!sv_ends(s, end)) continue;
        struct str data = {0};
        str_add(&data, sv_cut(s, 0, s.n - end.n));
        str_puts(&data, ends[i][1]);
        const struct weights_item *it = item(w, str_sv(&data));
        str_free(&data);
        describes = it && it->codes;
    }
    return describes;
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
