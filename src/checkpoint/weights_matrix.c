// The matrices that a model asks for, in whichever layout they are published. Shapes and types say
// which it is, and `in` what bits and groups mean; quantization.h has the little that they do not
// show. What no kernel reads as published is converted (weights_convert.c).
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/weights_internal.h"

// NAME + suffix. With e it is used, and must be there.
static struct weights_item *part(struct weights *w, const char *name, const char *suffix,
                                 struct error *e) {
    struct str full = {0};
    str_printf(&full, "%s%s", name, suffix);
    struct weights_item *it =
        e ? weights_need_item(w, str_sv(&full), e) : weights_item(w, str_sv(&full));
    str_free(&full);
    return it;
}

static bool has(struct weights *w, const char *name, const char *suffix) {
    return part(w, name, suffix, NULL);
}

// The same of a tensor that says how to read the codes beside it, which is no parameter itself.
static struct weights_item *beside(struct weights *w, const char *name, const char *suffix,
                                   struct error *e) {
    struct weights_item *it = part(w, name, suffix, e);
    if (it) it->describes = true, it->as = it->t.t.type;
    return it;
}

bool weights_has_matrix(struct weights *w, const char *name) {
    return has(w, name, ".weight") || has(w, name, ".weight_packed") || has(w, name, ".qweight");
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
    return weights_mismatch(e, w, it, wanted);
}

// One tensor of it as a matrix of all rows. False when its dimensions but the last are others.
static bool rows_of(const struct ask *a, struct tensor t, struct tensor *out) {
    int dims = a->n ? 3 : 2;
    if (t.dims != dims || t.n[dims - 2] != a->out || (a->n && t.n[0] != a->n)) return false;
    *out = tensor_2d(t.type, (a->n ? a->n : 1) * a->out, t.n[dims - 1], t.data);
    return true;
}

// The tensor is [rows, columns].
static bool is_matrix(const struct weights_item *it, int64_t rows, int64_t columns) {
    return it->t.t.dims == 2 && it->t.t.n[0] == rows && it->t.t.n[1] == columns;
}
// All rows as they are published: of n [in, out], n * in.
static bool dense(struct weights *w, const struct weights_item *data, const struct ask *a,
                  struct weight *r, struct error *e) {
    int64_t n[] = {a->n, a->columns ? a->in : a->out, a->columns ? a->out : a->in};
    if (!(a->n ? weights_check_float(w, data, 3, n, e) : weights_check_float(w, data, 2, n + 1, e)))
        return false;
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
    if (!weights_float(scales->t.t.type))
        return weights_mismatch(e, w, scales,
                                "only affine layouts with F32, F16 or BF16 scales are read");
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
                   struct weights_item *scales, struct weight *r, struct error *e) {
    if (!affine_shape(w, data, scales, a, r, e)) return false;
    struct weights_item *biases = beside(w, a->name, ".biases", e);
    if (!biases) return false;
    if (!tensor_same_shape(biases->t.t, scales->t.t) || biases->t.t.type != scales->t.t.type)
        return weights_mismatch(e, w, biases, "must be as the scales beside it");
    rows_of(a, biases->t.t, &r->biases);
    scales->many = biases->many = true;
    r->layout = WEIGHT_AFFINE;
    return true;
}

static bool bad_number(const struct weights *w, const struct weights_item *it, float number,
                       const char *wanted, struct error *e) {
    char text[160];
    snprintf(text, sizeof text,
             "its number, %g, must be %s, and what it scales finite (download the file again)",
             (double)number, wanted);
    return weights_mismatch(e, w, it, text);
}

// A number that is read at once, NAME + suffix: the factor that it is, or whose inverse it is, of
// elements of at most `most`.
static bool factor_of(struct weights *w, const char *name, const char *suffix, bool inverse,
                      float most, float *out, struct error *e) {
    struct weights_item *it = beside(w, name, suffix, e);
    if (!it) return false;
    if (tensor_count(it->t.t) != 1 || !weights_float(it->t.t.type))
        return weights_mismatch(e, w, it, "must be one number in F32, F16 or BF16");
    float number = load_float(it->t.t.data, it->t.t.type, 0);
    *out = inverse ? 1 / number : number;
    if (number > 0 && *out > 0 && isfinite(*out * most)) return true;
    return bad_number(w, it, number, "above 0", e);
}

// A scale for all codes, of at most `most`. That of zeros may be 0.
static bool check_scale(struct weights *w, const struct weights_item *it, float most,
                        struct error *e) {
    float scale = load_float(it->t.t.data, it->t.t.type, 0);
    if (w->dummy || (scale >= 0 && isfinite(scale * most))) return true;
    return bad_number(w, it, scale, "0 or above", e);
}

enum { F8_MOST = 448, NVFP4_MOST = 6 * F8_MOST }; // of an E4M3; of an E2M1 times one

static bool byte_type(enum dtype t) { return t == DT_U8 || t == DT_F8_E8M0; }

// Bytes of groups' scales that are such floats, whatever their tensor says that they are.
static void scales_are(struct weights_item *scales, enum dtype as, struct weight *r) {
    r->scales.type = scales->as = as;
    scales->many = true;
}

// Groups of 32 elements as MXFP4 or MXFP8 (bytes of E8M0), of 16 as NVFP4 (bytes of E4M3).
static bool mlx_floats(struct weights *w, const struct ask *a, struct weights_item *data,
                       struct weights_item *scales, struct weight *r, struct error *e) {
    if (data->t.t.type != DT_U32 || !rows_of(a, data->t.t, &r->data))
        return not_asked(w, data, a, e);
    if (!rows_of(a, scales->t.t, &r->scales)) return not_asked(w, scales, a, e);
    bool small = r->scales.n[1] * 16 == a->in;
    r->group = small ? 16 : 32;
    r->bits = !small && r->data.n[1] * 4 == a->in ? 8 : 4;
    if (r->scales.n[1] * r->group != a->in) return not_asked(w, scales, a, e);
    if (r->data.n[1] * 32 != a->in * r->bits) return not_asked(w, data, a, e);
    scales_are(scales, small ? DT_F8_E4M3 : DT_F8_E8M0, r);
    r->layout = small ? WEIGHT_NVFP4 : WEIGHT_MXFP4;
    r->factor = 1;
    if (r->bits == 8) {
        r->layout = WEIGHT_F8;
        r->block_rows = 1;
        r->data = tensor_2d(DT_F8_E4M3, r->out, r->in, r->data.data);
    }
    if (!small || !has(w, a->name, ".global_scale")) return true;
    float greatest = 0; // of the elements
    if (!factor_of(w, a->name, ".global_scale", false, 1, &greatest, e)) return false;
    r->factor = greatest / NVFP4_MOST;
    return true;
}

static int64_t blocks_of(int64_t n, int64_t each) { return (n + each - 1) / each; }

// A scale for all, for each row, or for each block: ragged at the ends, 128 x 128 unless the config
// says otherwise.
static bool f8(struct weights *w, const struct ask *a, struct weights_item *data, struct weight *r,
               struct error *e) {
    const struct quantization *q = &w->quantization;
    bool inverse = q->scheme != SCHEME_F8 || q->inverse; // which one would be missing
    bool plain = has(w, a->name, ".weight_scale");
    plain = plain || !(inverse || has(w, a->name, ".weight_scale_inv"));
    struct weights_item *scales =
        beside(w, a->name, plain ? ".weight_scale" : ".weight_scale_inv", e);
    if (!scales) return false;
    if (a->n || a->columns || !rows_of(a, data->t.t, &r->data) || r->data.n[1] != a->in)
        return not_asked(w, data, a, e);
    struct tensor s = scales->t.t;
    bool blocks = q->rows > 0 && q->columns > 0;
    int64_t rows = blocks ? q->rows : 128, columns = blocks ? q->columns : 128;
    if (tensor_count(s) == 1)
        rows = a->out, columns = a->in;
    else if (plain && s.dims > 0 && s.n[0] == a->out && tensor_count(s) == a->out)
        rows = 1, columns = a->in;
    int64_t n[] = {blocks_of(a->out, rows), blocks_of(a->in, columns)};
    bool fits = s.dims == 2 ? s.n[0] == n[0] && s.n[1] == n[1] : tensor_count(s) == n[0] * n[1];
    if (!fits || !(weights_float(s.type) || s.type == DT_F8_E8M0))
        return weights_check_float(w, scales, 2, n, e);
    if (tensor_count(s) == 1 && !check_scale(w, scales, F8_MOST, e)) return false;
    r->layout = WEIGHT_F8;
    r->block_rows = rows;
    r->group = (int)columns;
    r->scales = tensor_2d(s.type, n[0], n[1], s.data);
    return true;
}

// The bias [out], or [n, out], as one list in F32.
static bool add_bias(struct weights *w, const struct ask *a, const char *suffix, struct weight *r,
                     struct error *e) {
    struct weights_item *bias = part(w, a->name, suffix, e);
    if (!bias) return false;
    int64_t n[] = {a->n, a->out};
    if (!(a->n ? weights_check_float(w, bias, 2, n, e) : weights_check_float(w, bias, 1, n + 1, e)))
        return false;
    struct tensor all = tensor_1d(bias->t.t.type, (a->n ? a->n : 1) * a->out, bias->t.t.data);
    r->bias = weights_as_f32(w, all);
    return true;
}

// Codes of 4 bits, the first in the low half of its byte, as MXFP4 or NVFP4: of ModelOpt (.weight)
// with a factor, of compressed-tensors (.weight_packed) with a divisor.
static bool packed_floats(struct weights *w, const struct ask *a, struct weights_item *data,
                          bool divides, struct weight *r, struct error *e) {
    struct weights_item *scales = beside(w, a->name, ".weight_scale", e);
    if (!scales) return false;
    bool nv = scales->t.t.type == DT_F8_E4M3;
    r->group = nv ? 16 : 32;
    r->bits = 4;
    if (a->n || a->in % r->group || !is_matrix(data, a->out, a->in / 2))
        return not_asked(w, data, a, e);
    if (!(nv || byte_type(scales->t.t.type)) || !is_matrix(scales, a->out, a->in / r->group))
        return not_asked(w, scales, a, e);
    weights_align(w, data, sizeof(uint32_t));
    r->layout = nv ? WEIGHT_NVFP4 : WEIGHT_MXFP4;
    r->data = tensor_2d(DT_U32, r->out, r->in / 8, data->t.t.data);
    r->scales = scales->t.t;
    scales_are(scales, nv ? DT_F8_E4M3 : DT_F8_E8M0, r);
    return !nv || factor_of(w, a->name, divides ? ".weight_global_scale" : ".weight_scale_2",
                            divides, NVFP4_MOST, &r->factor, e);
}

// --- what is converted ---------------------------------------------------------------------------

// Whether the groups of `in` columns, each scaled on its own, can be cut into such that kernels
// read: of 32, 64 or 128.
static bool groups_fit(int64_t in, int64_t groups) {
    return groups > 0 && in % groups == 0 && in / groups % 32 == 0;
}

// NAME + suffix says in which group each column is, where the config does not say that they come in
// order: then the columns are sorted by it.
static bool read_order(struct weights *w, const struct ask *a, const char *suffix,
                       struct conversion *v, struct error *e) {
    if (!has(w, a->name, suffix) && !w->quantization.reordered) return true;
    struct weights_item *it = beside(w, a->name, suffix, e);
    if (!it) return false;
    struct tensor t = it->t.t;
    if (t.type != DT_I32 || t.dims != 1 || t.n[0] != a->in) return not_asked(w, it, a, e);
    const int32_t *group = t.data;
    int64_t groups = a->in / v->group, *next = mem_array((size_t)groups, sizeof *next);
    struct tensor order = tensor_1d(DT_I32, a->in, weights_keep(w, (size_t)a->in * 4));
    bool sorted = true, fits = true;
    for (int64_t i = 0; i < a->in && fits; i++) {
        fits = group[i] >= 0 && group[i] < groups && next[group[i]] < v->group;
        if (!fits) break;
        int64_t at = group[i] * v->group + next[group[i]]++;
        ((int32_t *)order.data)[at] = (int32_t)i;
        sorted = sorted && at == i;
    }
    free(next);
    if (!fits) {
        char wanted[96];
        snprintf(wanted, sizeof wanted, "must name each of %lld groups of columns %lld times",
                 (long long)groups, (long long)v->group);
        return weights_mismatch(e, w, it, wanted);
    }
    if (!sorted) v->to.order = order;
    return true;
}

// The memory for what v makes, of affine codes in groups that kernels read.
static bool convert_to(struct weights *w, const struct ask *a, struct conversion *v,
                       struct weights_item *data, struct weight *r, struct error *e) {
    int64_t group = v->group % 128 == 0 ? 128 : v->group % 64 == 0 ? 64 : 32;
    struct weight *to = &v->to;
    to->layout = WEIGHT_AFFINE;
    to->out = a->out, to->in = a->in;
    to->bits = v->bits, to->group = (int)group;
    to->data = tensor_2d(DT_U32, a->out, a->in * v->bits / 32, NULL);
    to->scales = tensor_2d(DT_F32, a->out, a->in / group, NULL);
    to->biases = to->scales;
    bool kept = v->codes_are == CODES_ROWS && !to->order.dims;
    if (kept)
        to->data.data = v->codes.data;
    else
        to->data.data = weights_room(w, tensor_bytes(to->data), a->name, e);
    to->scales.data = weights_room(w, tensor_bytes(to->scales), a->name, e);
    to->biases.data = weights_room(w, tensor_bytes(to->biases), a->name, e);
    if (e->set) return false;
    w->converted_bytes += 2 * tensor_bytes(to->scales) + (kept ? 0 : tensor_bytes(to->data));
    data->converted = !kept;
    *r = v->to;
    weights_convert_later(w, v);
    return true;
}

// AWQ packs along the outputs, GPTQ along the inputs.
static bool words_down(struct weights *w, const struct ask *a, struct weight *r, struct error *e) {
    struct weights_item *data = part(w, a->name, ".qweight", e);
    struct weights_item *scales = data ? beside(w, a->name, ".scales", e) : NULL;
    struct weights_item *zeros = scales ? beside(w, a->name, ".qzeros", e) : NULL;
    if (!zeros) return false;
    bool awq = is_matrix(data, a->in, a->out / 8);
    int64_t words = data->t.t.dims == 2 ? data->t.t.n[0] : 0, groups = scales->t.t.n[0];
    int bits = awq ? 4 : (int)(words * 32 / a->in);
    struct conversion v = {.codes_are = awq ? CODES_AWQ : CODES_DOWN, .bits = bits};
    if (data->t.t.type != DT_I32 || a->n || a->out * bits % 32 ||
        !(awq || (words * 32 == a->in * bits && bits > 0 && bits <= 8 && bits != 7 &&
                  data->t.t.n[1] == a->out)))
        return not_asked(w, data, a, e);
    if (!weights_float(scales->t.t.type) || !is_matrix(scales, groups, a->out) ||
        !groups_fit(a->in, groups))
        return not_asked(w, scales, a, e);
    if (zeros->t.t.type != DT_I32 || !is_matrix(zeros, groups, a->out * bits / 32))
        return not_asked(w, zeros, a, e);
    v.group = a->in / groups;
    v.codes = data->t.t, v.zeros = zeros->t.t;
    v.scales = scales->t.t;
    v.zeros_are = awq ? ZEROS_AWQ : ZEROS_ACROSS;
    v.zeros_add = !awq && !w->quantization.plain_zeros;
    return read_order(w, a, ".g_idx", &v, e) && convert_to(w, a, &v, data, r, e);
}

// NAME.weight_shape, where it is there: the matrix's dimensions, which padded codes do not show.
static bool check_shape(struct weights *w, const struct ask *a, struct error *e) {
    if (!has(w, a->name, ".weight_shape")) return true;
    struct weights_item *it = beside(w, a->name, ".weight_shape", e);
    if (!it) return false;
    const struct tensor *t = &it->t.t;
    if ((t->type != DT_I64 && t->type != DT_I32) || tensor_count(*t) != 2)
        return weights_mismatch(e, w, it, "must be two whole numbers");
    int64_t n[2];
    for (int i = 0; i < 2; i++)
        n[i] = t->type == DT_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
    if (n[0] == a->out && n[1] == a->in) return true;
    char wanted[160];
    snprintf(wanted, sizeof wanted, "says %lld x %lld where the config asks for %lld x %lld",
             (long long)n[0], (long long)n[1], (long long)a->out, (long long)a->in);
    return weights_mismatch(e, w, it, wanted);
}

// compressed-tensors: codes q + 2^(bits - 1) along the inputs, zero points along the outputs.
static bool packed_ints(struct weights *w, const struct ask *a, struct weights_item *data,
                        struct weight *r, struct error *e) {
    struct weights_item *scales = beside(w, a->name, ".weight_scale", e);
    if (!scales) return false;
    if (data->t.t.dims != 2 || a->n || data->t.t.n[0] != a->out) return not_asked(w, data, a, e);
    int64_t bits = data->t.t.n[1] * 32 / a->in, groups = tensor_width(scales->t.t);
    if (a->in % 32 || data->t.t.n[1] * 32 != a->in * bits || (bits != 2 && bits != 4 && bits != 8))
        return not_asked(w, data, a, e);
    struct conversion v = {.codes_are = CODES_ROWS, .bits = (int)bits, .codes = data->t.t};
    if (!weights_float(scales->t.t.type) || !is_matrix(scales, a->out, groups) ||
        !groups_fit(a->in, groups))
        return not_asked(w, scales, a, e);
    v.group = a->in / groups;
    v.scales = scales->t.t;
    v.rows_first = true;
    v.zero = 1 << (bits - 1);
    const struct quantization *q = &w->quantization;
    bool lopsided = q->scheme == SCHEME_PACKED && !q->symmetric;
    if (lopsided || has(w, a->name, ".weight_zero_point")) {
        struct weights_item *zeros = beside(w, a->name, ".weight_zero_point", e);
        if (!zeros) return false;
        if (zeros->t.t.type != DT_I32 || !is_matrix(zeros, (a->out * bits + 31) / 32, groups))
            return not_asked(w, zeros, a, e);
        v.zeros = zeros->t.t;
        v.zeros_are = ZEROS_DOWN;
    }
    return check_shape(w, a, e) && read_order(w, a, ".weight_g_idx", &v, e) &&
           convert_to(w, a, &v, data, r, e);
}

// compressed-tensors: signed bytes with a scale a row, or one for all.
static bool signed_bytes(struct weights *w, const struct ask *a, struct weights_item *data,
                         struct weight *r, struct error *e) {
    struct weights_item *scales = beside(w, a->name, ".weight_scale", e);
    if (!scales) return false;
    if (a->n || !is_matrix(data, a->out, a->in) || a->in % 32) return not_asked(w, data, a, e);
    int64_t count = tensor_count(scales->t.t);
    if (!weights_float(scales->t.t.type) || (count != 1 && count != a->out))
        return not_asked(w, scales, a, e);
    if (count == 1 && !check_scale(w, scales, 128, e)) return false;
    struct conversion v = {.codes_are = CODES_SIGNED, .bits = 8, .group = a->in, .zero = 128};
    v.codes = data->t.t;
    v.scales = tensor_2d(scales->t.t.type, count, 1, scales->t.t.data);
    v.rows_first = true;
    return convert_to(w, a, &v, data, r, e);
}

// BitNet: -1, 0 and 1, of four rows in a byte, with one scale for all.
static bool ternary(struct weights *w, const struct ask *a, struct weights_item *data,
                    struct weight *r, struct error *e) {
    bool divides = !w->quantization.multiplies;
    float factor;
    if (a->n || a->out % 4 || a->in % 32 || !is_matrix(data, a->out / 4, a->in))
        return not_asked(w, data, a, e);
    if (!factor_of(w, a->name, ".weight_scale", divides, 1, &factor, e)) return false;
    const struct weights_item *scales = part(w, a->name, ".weight_scale", NULL);
    struct conversion v = {.codes_are = CODES_PAIRS, .bits = 2, .group = a->in, .zero = 1};
    v.codes = data->t.t;
    v.scales = tensor_2d(scales->t.t.type, 1, 1, scales->t.t.data);
    v.divides = divides;
    v.rows_first = true;
    return convert_to(w, a, &v, data, r, e);
}

// --- which of them -------------------------------------------------------------------------------

// A tensor that says how activations were to be quantized is not used: they are not.
static bool by_type(struct weights *w, const struct ask *a, struct weights_item *data,
                    struct weight *r, struct error *e) {
    enum dtype type = data->t.t.type;
    if (type == DT_F8_E4M3) return f8(w, a, data, r, e);
    if (type == DT_U32 || has(w, a->name, ".scales")) {
        struct weights_item *scales = beside(w, a->name, ".scales", e);
        if (!scales) return false;
        bool floats = byte_type(scales->t.t.type);
        return (floats ? mlx_floats : affine)(w, a, data, scales, r, e);
    }
    const struct weights_item *scales = part(w, a->name, ".weight_scale", NULL);
    if (type == DT_I8 && scales) return signed_bytes(w, a, data, r, e);
    if (type == DT_U8 && scales)
        return tensor_count(scales->t.t) == 1 ? ternary(w, a, data, r, e)
                                              : packed_floats(w, a, data, false, r, e);
    return dense(w, data, a, r, e);
}

// What NAME's codes are called, or would be where they are missing: by what is beside them.
static const char *codes_of(struct weights *w, const char *name) {
    static const char *const all[] = {".weight", ".qweight", ".weight_packed"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (has(w, name, all[i])) return all[i];
    if (has(w, name, ".qzeros") || has(w, name, ".g_idx")) return ".qweight";
    if (has(w, name, ".weight_global_scale") || has(w, name, ".weight_shape") ||
        has(w, name, ".weight_zero_point"))
        return ".weight_packed";
    return ".weight";
}

// GPTQ's writers add a bias of zeros where the model has none.
static void forget_zero_bias(struct weights *w, const struct ask *a) {
    struct error none = {0};
    struct weights_item *it = part(w, a->name, ".bias", NULL);
    if (!it || a->bias || it->t.unusable || !it->t.t.data) return;
    const char *p = it->t.t.data;
    for (size_t i = 0; i < it->t.bytes; i++)
        if (p[i]) return;
    beside(w, a->name, ".bias", &none);
}

// All rows of what is asked for, NAME.weight or its packed codes, as one matrix.
static bool all_rows(struct weights *w, const struct ask *a, struct weight *r, struct error *e) {
    if (w->dummy && !dummy_matrix(w, a->name, a->n, a->out, a->in, a->bias, e)) return false;
    *r = (struct weight){.out = (a->n ? a->n : 1) * a->out, .in = a->in};
    const char *codes = codes_of(w, a->name);
    struct weights_item *data = part(w, a->name, codes, e);
    if (!data) return false;
    bool down = !strcmp(codes, ".qweight"), packed = !strcmp(codes, ".weight_packed");
    bool ok = down                       ? words_down(w, a, r, e)
              : !packed                  ? by_type(w, a, data, r, e)
              : data->t.t.type == DT_I32 ? packed_ints(w, a, data, r, e)
                                         : packed_floats(w, a, data, true, r, e);
    if (!ok) return false;
    if (down) forget_zero_bias(w, a);
    if (r->layout != WEIGHT_DENSE) data->codes = r->out * r->in;
    if (r->layout == WEIGHT_DENSE && a->columns) *r = weight_transposed(r);
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

// --- stacks that are no module's -----------------------------------------------------------------

// NAME_blocks [n, out, in / 32, 16], bytes of two codes each; NAME_scales [n, out, in / 32]
static bool blocks(struct weights *w, const struct ask *a, struct weights_item *data,
                   struct weight *r, struct error *e) {
    struct weights_item *scales = beside(w, a->name, "_scales", e);
    if (!scales) return false;
    struct tensor b = data->t.t;
    if (b.type != DT_U8 || b.dims != 4 || b.n[0] != a->n || b.n[1] != a->out ||
        b.n[2] * 32 != a->in || b.n[3] != 16)
        return not_asked(w, data, a, e);
    if (!byte_type(scales->t.t.type) || !rows_of(a, scales->t.t, &r->scales) ||
        r->scales.n[1] * 32 != a->in)
        return not_asked(w, scales, a, e);
    weights_align(w, data, sizeof(uint32_t));
    r->layout = WEIGHT_MXFP4;
    r->bits = 4;
    r->group = 32;
    r->data = tensor_2d(DT_U32, r->out, a->in / 8, data->t.t.data);
    scales_are(scales, DT_F8_E8M0, r);
    return true;
}

// The tensor is [n, rows, out].
static bool is_down(const struct weights_item *it, const struct ask *a, int64_t rows) {
    struct tensor t = it->t.t;
    return t.dims == 3 && t.n[0] == a->n && t.n[1] == rows && t.n[2] == a->out;
}

// Llama 4's FP8, [n, in, out]: of ModelOpt with one NAME_weight_scale, of Meta with a NAME_scale
// for each output, [n, 1, out] or [n, out, 1].
static bool f8_down(struct weights *w, const struct ask *a, struct weights_item *data,
                    struct weight *r, struct error *e) {
    bool rows = has(w, a->name, "_scale");
    rows = rows || (w->quantization.rows == 1 && !has(w, a->name, "_weight_scale"));
    struct weights_item *scales = beside(w, a->name, rows ? "_scale" : "_weight_scale", e);
    if (!scales) return false;
    if (!is_down(data, a, a->in)) return not_asked(w, data, a, e);
    struct tensor s = scales->t.t;
    bool fits = rows ? s.dims == 3 && s.n[0] == a->n && (s.n[1] == 1 || s.n[2] == 1) &&
                           s.n[1] * s.n[2] == a->out
                     : tensor_count(s) == 1;
    if (!fits || !weights_float(s.type)) return not_asked(w, scales, a, e);
    if (!rows && !check_scale(w, scales, F8_MOST, e)) return false;
    r->layout = WEIGHT_F8;
    r->block_rows = rows ? 1 : r->out;
    r->group = (int)a->in;
    r->scales = tensor_2d(s.type, rows ? r->out : 1, 1, s.data);
    return weights_turn(w, data, DT_F8_E4M3, &r->data, e);
}

// Llama 4's NVFP4, of ModelOpt: bytes of two codes [n, in / 2, out], NAME_weight_scale
// [n, in / 16, out] and one NAME_weight_scale_2.
static bool nvfp4_down(struct weights *w, const struct ask *a, struct weights_item *data,
                       struct weight *r, struct error *e) {
    struct weights_item *scales = beside(w, a->name, "_weight_scale", e);
    if (!scales) return false;
    if (a->in % 16 || !is_down(data, a, a->in / 2)) return not_asked(w, data, a, e);
    if (scales->t.t.type != DT_F8_E4M3 || !is_down(scales, a, a->in / 16))
        return not_asked(w, scales, a, e);
    r->layout = WEIGHT_NVFP4;
    r->bits = 4;
    r->group = 16;
    if (!weights_turn(w, data, DT_U8, &r->data, e) ||
        !weights_turn(w, scales, DT_F8_E4M3, &r->scales, e))
        return false;
    r->data = tensor_2d(DT_U32, r->out, a->in / 8, r->data.data);
    return factor_of(w, a->name, "_weight_scale_2", false, NVFP4_MOST, &r->factor, e);
}

// By its tensors; in *data that of the codes.
static bool bare(struct weights *w, const struct ask *a, struct weights_item **data,
                 struct weight *r, struct error *e) {
    bool in_blocks = has(w, a->name, "_blocks");
    struct weights_item *it = *data = part(w, a->name, in_blocks ? "_blocks" : "", e);
    if (!it) return false;
    if (in_blocks) return blocks(w, a, it, r, e);
    if (a->columns && it->t.t.type == DT_F8_E4M3) return f8_down(w, a, it, r, e);
    if (a->columns && it->t.t.type == DT_U8) return nvfp4_down(w, a, it, r, e);
    return dense(w, it, a, r, e);
}

bool weights_bare_stack(struct weights *w, const char *name, int64_t n, int64_t out, int64_t in,
                        bool columns, bool want_bias, struct weight *whole, struct weight *each,
                        struct error *e) {
    struct ask a = {name, n, out, in, want_bias, columns};
    struct weights_item *data;
    *whole = (struct weight){.out = n * out, .in = in};
    if (w->dummy && !dummy_stack(w, name, n, columns ? in : out, columns ? out : in, e))
        return false;
    if (!bare(w, &a, &data, whole, e)) return false;
    bool plain = whole->layout == WEIGHT_DENSE, turned = plain && columns;
    if (!plain) data->codes = whole->out * whole->in;
    for (int64_t i = 0; i < n; i++) {
        each[i] = one_of_stack(whole, i, turned ? in : out);
        if (turned) each[i] = weight_transposed(&each[i]);
    }
    if (!want_bias) return true;
    if (!add_bias(w, &a, "_bias", whole, e)) return false;
    for (int64_t i = 0; i < n; i++) each[i].bias = tensor_slice(whole->bias, 0, i * out, out);
    return true;
}
