// The front of every op: shapes and types are checked here, once for all backends, and the result
// is made; then the backend computes.
#include "compute/compute.h"

#include <math.h>

#include "compute/front.h"

enum { ALIGN = 64 };

bool context_open(struct context *c, struct device *d, enum precision p, size_t scratch, bool dry,
                  struct error *e) {
    *c = (struct context){.dev = d, .precision = p, .dry = dry, .size = scratch};
    if (dry) return true;
    c->scratch = device_alloc(d, scratch, "scratch", e);
    return c->scratch != NULL;
}

void context_close(struct context *c) {
    if (c->scratch && c->dev->ops->forget) c->dev->ops->forget(c->dev);
    if (c->scratch) device_free(c->dev, c->scratch);
    *c = (struct context){0};
}

size_t scratch_mark(const struct context *c) { return c->used; }

void scratch_release(struct context *c, size_t mark) { c->used = mark; }

struct tensor scratch_tensor(struct context *c, enum dtype t, int dims, const int64_t *n) {
    struct tensor out = tensor_nd(t, dims, n, NULL);
    size_t bytes = (tensor_bytes(out) + ALIGN - 1) / ALIGN * ALIGN;
    if (!c->dry && (c->err.set || bytes > c->size - c->used)) {
        fail(&c->err, "scratch memory is too small: %zu of %zu bytes are used, %zu more are needed",
             c->used, c->size, bytes);
        return out;
    }
    if (!c->dry) out.data = c->scratch + c->used;
    c->used += bytes;
    if (c->used > c->peak) c->peak = c->used;
    return out;
}

struct tensor embed(struct context *c, const struct weight *w, struct tensor ids) {
    i32_list(c, "embed", "ids", ids);
    want(c, w->layout != WEIGHT_NONE && !w->order.dims, "embed: there is no table");
    struct tensor y = scratch_tensor(c, DT_F32, 2, (int64_t[]){ids.n[0], w->in});
    if (go(c)) ops(c)->embed(c, y, w, ids);
    return y;
}

struct tensor bound_ids(struct context *c, struct tensor ids, int64_t limit) {
    has(c, ops(c)->bound_ids, "bound_ids");
    i32_list(c, "bound_ids", "ids", ids);
    want(c, limit > 0, "bound_ids: no id is below %lld", (long long)limit);
    struct tensor y = scratch_tensor(c, DT_I32, 1, ids.n);
    if (go(c)) ops(c)->bound_ids(c, y, ids, limit);
    return y;
}

static void check_product(struct context *c, const char *op, struct tensor x,
                          const struct weight *w) {
    want(c, w->layout != WEIGHT_NONE, "%s: there is no weight", op);
    want(c, x.n[x.dims - 1] == w->in, "%s: x has %lld columns, the weight takes %lld", op,
         (long long)x.n[x.dims - 1], (long long)w->in);
    want(c,
         !w->bias.dims ||
             (w->bias.type == DT_F32 && w->bias.n[0] == w->out && tensor_contiguous(w->bias)),
         "%s: a bias must be %lld elements of F32", op, (long long)w->out);
}

// x of a product.
static void product_rows(struct context *c, struct tensor x) {
    bool narrow = ops(c)->narrows && x.type == DT_BF16 && x.dims == 2 && tensor_contiguous(x);
    if (!narrow) f32_rows(c, "linear", "x", x);
}

static enum dtype gated_type(const struct context *c, int64_t rows, const struct weight *gate,
                             const struct weight *up) {
    enum dtype type = read_by(c, rows, gate);
    return type == read_by(c, rows, up) ? type : DT_F32;
}

void linear_many(struct context *c, struct tensor x, int count, const struct weight *const w[],
                 struct tensor y[]) {
    product_rows(c, x);
    want(c, x.dims == 2 && count >= 1 && count <= LINEAR_MAX, "linear: x is not a matrix");
    for (int i = 0; i < count; i++) {
        check_product(c, "linear", x, w[i]);
        y[i] = scratch_tensor(c, DT_F32, 2, (int64_t[]){x.n[0], w[i]->out});
    }
    if (!c->err.set) ops(c)->linear(c, count, y, x, w);
}

struct tensor linear(struct context *c, struct tensor x, const struct weight *w) {
    struct tensor y;
    linear_many(c, x, 1, &w, &y);
    return y;
}

struct tensor glu(struct context *c, struct tensor x, const struct weight *gate,
                  const struct weight *up, enum activation act) {
    f32_rows(c, "glu", "x", x);
    want(c, gate->out == up->out, "glu: gate has %lld outputs, up %lld", (long long)gate->out,
         (long long)up->out);
    check_product(c, "glu", x, gate);
    check_product(c, "glu", x, up);
    if (!ops(c)->glu) {
        struct tensor y[2];
        linear_many(c, x, 2, (const struct weight *const[]){gate, up}, y);
        return act_mul(c, y[0], y[1], act);
    }
    enum dtype type = gated_type(c, x.n[0], gate, up);
    struct tensor y = scratch_tensor(c, type, 2, (int64_t[]){x.n[0], gate->out});
    if (!c->err.set) ops(c)->glu(c, y, x, gate, up, act);
    return y;
}

struct tensor act_mul(struct context *c, struct tensor a, struct tensor b, enum activation act) {
    f32_rows(c, "act_mul", "a", a);
    f32_rows(c, "act_mul", "b", b);
    same_shape(c, "act_mul", a, b);
    struct tensor y = scratch_tensor(c, DT_F32, a.dims, a.n);
    if (go(c)) ops(c)->act_mul(c, y, a, b, act);
    return y;
}

struct tensor activate(struct context *c, struct tensor x, enum activation act) {
    f32_rows(c, "activate", "x", x);
    want(c, x.dims == 2, "activate: x is not a matrix");
    if (go(c)) ops(c)->activate(c, x, act);
    return x;
}

static void check_norm(struct context *c, const char *op, struct tensor x, const char *name,
                       struct tensor w) {
    bool each = w.dims == 2 && x.dims == 3 && w.n[0] == x.n[1] && tensor_contiguous(w);
    want(c,
         !w.dims ||
             ((w.dims == 1 || each) && tensor_width(w) == tensor_width(x) && w.type == DT_F32),
         "%s: x is %lld wide, %s has %lld elements of %s", op, (long long)tensor_width(x), name,
         (long long)(w.dims ? tensor_width(w) : 0), dtype_name(w.type));
}

struct tensor rms_norm(struct context *c, struct tensor x, struct tensor w, float eps) {
    f32_rows(c, "rms_norm", "x", x);
    check_norm(c, "rms_norm", x, "w", w);
    struct tensor y = scratch_tensor(c, DT_F32, x.dims, x.n);
    if (go(c)) ops(c)->rms_norm(c, y, x, w, eps);
    return y;
}

struct tensor layer_norm(struct context *c, struct tensor x, struct tensor w, struct tensor b,
                         float eps) {
    f32_rows(c, "layer_norm", "x", x);
    check_norm(c, "layer_norm", x, "w", w);
    check_norm(c, "layer_norm", x, "b", b);
    struct tensor y = scratch_tensor(c, DT_F32, x.dims, x.n);
    if (go(c)) ops(c)->layer_norm(c, y, x, w, b, eps);
    return y;
}

// Whether the backend did it all at once.
static bool around(struct context *c, struct around a) {
    return go(c) && ops(c)->around && ops(c)->around(c, &a);
}

struct tensor linear_to(struct context *c, struct tensor to, struct tensor x,
                        const struct weight *w) {
    f32_rows(c, "linear", "to", to);
    product_rows(c, x);
    check_product(c, "linear", x, w);
    want(c, to.dims == 2 && x.dims == 2 && to.n[0] == x.n[0] && to.n[1] == w->out,
         "linear: %lld outputs do not go to %lld columns", (long long)w->out,
         (long long)tensor_width(to));
    if (around(c, (struct around){.x = x, .count = 1, .w = &w, .y = &to, .result = RESULT_ADDED}))
        return to;
    size_t mark = scratch_mark(c);
    add_to(c, to, linear(c, x, w));
    scratch_release(c, mark);
    return to;
}

void normed_linear(struct context *c, struct tensor x, const struct rms *norm, int count,
                   const struct weight *const w[], struct tensor y[]) {
    f32_rows(c, "linear", "x", x);
    check_norm(c, "linear", x, "the norm", norm->w);
    want(c, x.dims == 2 && count >= 1 && count <= LINEAR_MAX, "linear: x is not a matrix");
    for (int i = 0; i < count; i++) {
        check_product(c, "linear", x, w[i]);
        y[i] = scratch_tensor(c, DT_F32, 2, (int64_t[]){x.n[0], w[i]->out});
    }
    if (around(c, (struct around){.x = x, .norm = norm, .count = count, .w = w, .y = y})) return;
    size_t mark = scratch_mark(c);
    struct tensor h = rms_norm(c, x, norm->w, norm->eps);
    if (!c->err.set) ops(c)->linear(c, count, y, h, w);
    scratch_release(c, mark);
}

struct tensor normed_glu(struct context *c, struct tensor x, const struct rms *norm,
                         const struct weight *gate, const struct weight *up, enum activation act) {
    f32_rows(c, "glu", "x", x);
    check_norm(c, "glu", x, "the norm", norm->w);
    check_product(c, "glu", x, gate);
    check_product(c, "glu", x, up);
    size_t mark = scratch_mark(c);
    enum dtype type = gated_type(c, x.n[0], gate, up);
    struct tensor y = scratch_tensor(c, type, 2, (int64_t[]){x.n[0], gate->out});
    struct around a = {x, norm, 2, (const struct weight *const[]){gate, up}, &y, RESULT_GATED, act};
    if (gate->out == up->out && around(c, a)) return y;
    scratch_release(c, mark);
    return glu(c, rms_norm(c, x, norm->w, norm->eps), gate, up, act);
}

struct tensor add_to(struct context *c, struct tensor x, struct tensor y) {
    f32_rows(c, "add_to", "x", x);
    f32_rows(c, "add_to", "y", y);
    same_shape(c, "add_to", x, y);
    if (go(c)) ops(c)->add_to(c, x, y);
    return x;
}

struct tensor copy_to(struct context *c, struct tensor to, struct tensor from) {
    f32_rows(c, "copy_to", "to", to);
    f32_rows(c, "copy_to", "from", from);
    same_shape(c, "copy_to", to, from);
    want(c, to.dims == 2, "copy_to: not matrices");
    if (go(c)) ops(c)->copy_to(c, to, from);
    return to;
}

struct tensor scale(struct context *c, struct tensor x, float by) {
    f32_rows(c, "scale", "x", x);
    want(c, x.dims == 2, "scale: x is not a matrix");
    if (go(c)) ops(c)->scale(c, x, by);
    return x;
}

struct tensor soft_cap(struct context *c, struct tensor x, float cap) {
    f32_rows(c, "soft_cap", "x", x);
    want(c, x.dims == 2 && cap > 0, "soft_cap: x is not a matrix, or the cap not above 0");
    if (go(c)) ops(c)->soft_cap(c, x, cap);
    return x;
}

struct tensor gather_rows(struct context *c, struct tensor x, struct tensor rows) {
    f32_rows(c, "gather_rows", "x", x);
    i32_list(c, "gather_rows", "rows", rows);
    struct tensor y = scratch_tensor(c, DT_F32, 2, (int64_t[]){rows.n[0], tensor_width(x)});
    if (go(c)) ops(c)->gather_rows(c, y, x, rows);
    return y;
}

struct tensor take_bands(struct context *c, struct tensor x, int64_t period, int64_t from,
                         int64_t count) {
    f32_rows(c, "take_bands", "x", x);
    want(c,
         x.dims == 2 && period > 0 && x.n[1] % period == 0 && from >= 0 && count >= 0 &&
             from + count <= period,
         "take_bands: %lld columns from %lld do not fit a period of %lld in %lld", (long long)count,
         (long long)from, (long long)period, (long long)tensor_width(x));
    int64_t width = period > 0 ? x.n[1] / period * count : 0;
    struct tensor y = scratch_tensor(c, DT_F32, 2, (int64_t[]){x.n[0], width});
    if (go(c)) ops(c)->take_bands(c, y, x, period, from, count);
    return y;
}

struct tensor rope(struct context *c, struct tensor x, const struct rows *rows,
                   const struct rope *r) {
    f32_rows(c, "rope", "x", x);
    i32_list(c, "rope", "pos", rows->pos);
    want(c, x.dims == 3 && rows->pos.n[0] == x.n[0], "rope: x has %lld rows, pos %lld",
         (long long)x.n[0], (long long)rows->pos.n[0]);
    want(c, r->inv_freq.type == DT_F32 && r->inv_freq.n[0] * 2 <= tensor_width(x),
         "rope: %lld pairs do not fit a head of %lld", (long long)r->inv_freq.n[0],
         (long long)tensor_width(x));
    if (r->long_freq.dims) {
        i32_list(c, "rope", "length", rows->length);
        want(c, rows->length.n[0] == x.n[0] && tensor_same_shape(r->inv_freq, r->long_freq),
             "rope: lengths and frequencies do not fit");
    }
    if (go(c)) ops(c)->rope(c, x, rows, r);
    return x;
}

static void check_rows(struct context *c, const char *op, const struct rows *rows) {
    i32_list(c, op, "index", rows->index);
    i32_list(c, op, "seq", rows->seq);
    want(c, rows->index.n[0] == rows->n && rows->seq.n[0] == rows->n, "%s: rows disagree on n", op);
}

static bool fits_scale(struct tensor t, struct tensor scale) {
    bool ok = scale.dims == 4 && scale.type == DT_BF16 && tensor_contiguous(scale) &&
              scale.n[3] == kv_blocks(t.n[3]);
    for (int d = 0; d < 3 && ok; d++) ok = scale.n[d] == t.n[d];
    return t.type != DT_I8 || !t.n[3] || ok;
}

static void check_cache_type(struct context *c, const char *op, enum dtype k, enum dtype v) {
    want(c, k == DT_F32 || k == DT_F16 || k == DT_BF16 || k == DT_I8,
         "%s: a cache of %s is not supported", op, dtype_name(k));
    want(c, ops(c)->mixed_cache || (k != DT_I8 && k == v),
         "%s keeps keys and values in one float type only, not keys in %s and values in %s "
         "(--cache-type-k, --cache-type-v, or --device cpu)",
         c->dev->name, dtype_name(k), dtype_name(v));
}

static void check_kv(struct context *c, const char *op, const struct kv *kv) {
    bool values = kv->v.dims == 4 && kv->v.n[3] > 0;
    bool ok = kv->k.dims == 4 && kv->v.dims == 4 && tensor_contiguous(kv->k) &&
              tensor_contiguous(kv->v) && kv->table.dims == 2 && kv->table.type == DT_I32 &&
              tensor_contiguous(kv->table);
    for (int d = 0; d < 3 && ok; d++) ok = kv->k.n[d] == kv->v.n[d];
    ok = ok && fits_scale(kv->k, kv->k_scale) && fits_scale(kv->v, kv->v_scale);
    want(c, ok, "%s: keys, values and page table do not fit together", op);
    check_cache_type(c, op, kv->k.type, values ? kv->v.type : kv->k.type);
    if (values) check_cache_type(c, op, kv->v.type, kv->k.type);
}

static void check_kv_rows(struct context *c, const char *op, const struct kv *kv,
                          const struct rows *rows, struct tensor k, struct tensor v) {
    check_rows(c, op, rows);
    check_kv(c, op, kv);
    f32_rows(c, op, "k", k);
    bool values = kv->v.n[3] > 0 || v.dims > 0;
    if (values) f32_rows(c, op, "v", v);
    want(c,
         k.dims == 3 && k.n[0] == rows->n && k.n[1] == kv->k.n[1] && k.n[2] == kv->k.n[3] &&
             (!values ||
              (v.dims == 3 && v.n[0] == rows->n && v.n[1] == kv->v.n[1] && v.n[2] == kv->v.n[3])),
         "%s: keys or values do not fit the cache", op);
}

void kv_write(struct context *c, const struct kv *kv, const struct rows *rows, struct tensor k,
              struct tensor v) {
    check_kv_rows(c, "kv_write", kv, rows, k, v);
    if (go(c)) ops(c)->kv_write(c, kv, rows, k, v);
}

static struct tensor place(struct context *c, struct tensor x, struct tensor norm,
                           const struct rows *rows, const struct placing *p) {
    if (p->normed) x = rms_norm(c, x, norm, p->eps);
    return p->rope ? rope(c, x, rows, p->rope) : x;
}

struct tensor place_heads(struct context *c, const struct kv *kv, const struct rows *rows,
                          struct tensor q, struct tensor k, struct tensor v,
                          const struct placing *p) {
    bool whole = go(c) && ops(c)->place_heads && q.dims == 3 && k.dims == 3 && v.dims == 3;
    if (whole && ops(c)->place_heads(c, kv, rows, q, k, v, p)) return q;
    q = place(c, q, p->q_norm, rows, p);
    kv_write(c, kv, rows, place(c, k, p->k_norm, rows, p), v);
    return q;
}

static void check_attention(struct context *c, struct tensor q, const struct kv *kv,
                            const struct rows *rows, const struct attention_options *opt) {
    check_rows(c, "attention", rows);
    check_kv(c, "attention", kv);
    f32_rows(c, "attention", "q", q);
    want(c,
         q.dims == 3 && q.n[0] == rows->n && q.n[2] == kv->k.n[3] && kv->k.n[1] > 0 &&
             q.n[1] % kv->k.n[1] == 0,
         "attention: queries do not fit the cache");
    want(c,
         !opt->sinks.dims || (opt->sinks.type == DT_F32 && opt->sinks.dims == 1 &&
                              opt->sinks.n[0] == q.n[1] && tensor_contiguous(opt->sinks)),
         "attention: the sinks are not a score a head");
    want(c,
         !opt->selected.dims || (opt->selected.type == DT_I32 && opt->selected.dims == 2 &&
                                 opt->selected.n[0] == rows->n && tensor_contiguous(opt->selected)),
         "attention: the selection is not a list a row");
    has(c, !opt->selected.dims || ops(c)->select_keys, "attention to a selection");
    int64_t width = kv->v.n[3] ? kv->v.n[3] : opt->v_width;
    want(c, width > 0 && (kv->v.n[3] || width <= kv->k.n[3]), "attention: there are no values");
}

static struct tensor attended(struct context *c, struct tensor q, const struct kv *kv,
                              const struct attention_options *opt) {
    int64_t width = kv->v.n[3] ? kv->v.n[3] : opt->v_width;
    enum dtype type = read_by(c, q.n[0], opt->reader);
    return scratch_tensor(c, type, 2, (int64_t[]){q.n[0], q.n[1] * width});
}

struct tensor attention(struct context *c, struct tensor q, const struct kv *kv,
                        const struct rows *rows, const struct attention_options *opt) {
    check_attention(c, q, kv, rows, opt);
    struct tensor y = attended(c, q, kv, opt);
    if (!c->err.set) ops(c)->attention(c, y, q, kv, rows, opt);
    return y;
}

struct tensor placed_attention(struct context *c, struct tensor q, struct tensor k, struct tensor v,
                               const struct placing *p, const struct kv *kv,
                               const struct rows *rows, const struct attention_options *opt) {
    check_attention(c, q, kv, rows, opt);
    check_kv_rows(c, "attention", kv, rows, k, v);
    size_t mark = scratch_mark(c);
    struct tensor y = attended(c, q, kv, opt);
    bool whole = go(c) && ops(c)->placed_attention;
    if (whole && ops(c)->placed_attention(c, y, q, k, v, p, kv, rows, opt)) return y;
    scratch_release(c, mark);
    return attention(c, place_heads(c, kv, rows, q, k, v, p), kv, rows, opt);
}

struct tensor select_keys(struct context *c, struct tensor q, struct tensor weights,
                          const struct kv *kv, const struct rows *rows, struct tensor chosen) {
    has(c, ops(c)->select_keys, "select_keys");
    check_rows(c, "select_keys", rows);
    check_kv(c, "select_keys", kv);
    f32_rows(c, "select_keys", "q", q);
    f32_rows(c, "select_keys", "weights", weights);
    want(c,
         q.dims == 3 && q.n[0] == rows->n && q.n[2] == kv->k.n[3] && kv->k.n[1] == 1 &&
             weights.dims == 2 && weights.n[0] == rows->n && weights.n[1] == q.n[1],
         "select_keys: queries do not fit the cache");
    want(c, kv->k.type != DT_I8 && !kv->v.n[3],
         "select_keys: the cache is not one of keys alone, in floats");
    want(c,
         chosen.type == DT_I32 && chosen.dims == 2 && tensor_contiguous(chosen) &&
             chosen.n[0] == rows->n && chosen.n[1] > 0,
         "select_keys: there is no list for each row");
    if (!c->err.set) ops(c)->select_keys(c, chosen, q, weights, kv, rows);
    return chosen;
}

struct tensor join(struct context *c, struct tensor a, struct tensor b) {
    f32_rows(c, "join", "a", a);
    f32_rows(c, "join", "b", b);
    want(c, a.dims == 3 && b.dims == 3 && a.n[0] == b.n[0] && a.n[1] == b.n[1],
         "join: the heads of a and b are not the same");
    struct tensor y = scratch_tensor(c, DT_F32, 3, (int64_t[]){a.n[0], a.n[1], a.n[2] + b.n[2]});
    if (go(c)) ops(c)->join(c, y, a, b);
    return y;
}

static void check_matrices(struct context *c, const char *op, const struct matrices *w) {
    want(c, w->n >= 1, "%s: there are no matrices", op);
    for (int64_t i = 1; i < w->n && !c->err.set; i++) {
        const struct weight *one = &w->w[i], *first = w->w;
        want(c,
             one->out == first->out && one->in == first->in && one->layout == first->layout &&
                 one->bits == first->bits,
             "%s: matrix %lld is not of the same kind as matrix 0", op, (long long)i);
    }
}

struct tensor head_linear(struct context *c, struct tensor x, const struct matrices *w,
                          bool columns) {
    has(c, ops(c)->head_linear, "head_linear");
    f32_rows(c, "head_linear", "x", x);
    check_matrices(c, "head_linear", w);
    int64_t in = columns ? w->w->out : w->w->in, out = columns ? w->w->in : w->w->out;
    want(c, x.dims == 3 && x.n[1] == w->n && x.n[2] == in && !w->w->bias.dims && !w->w->order.dims,
         "head_linear: x does not fit %lld matrices of %lld columns", (long long)w->n,
         (long long)in);
    struct tensor y = scratch_tensor(c, DT_F32, 3, (int64_t[]){x.n[0], w->n, out});
    if (!c->err.set) ops(c)->head_linear(c, y, x, w, columns);
    return y;
}

struct tensor scale_columns(struct context *c, struct tensor x, struct tensor by) {
    has(c, ops(c)->scale_columns, "scale_columns");
    f32_rows(c, "scale_columns", "x", x);
    want(c,
         x.dims == 2 && by.type == DT_F32 && by.dims == 1 && by.n[0] == x.n[1] &&
             tensor_contiguous(by),
         "scale_columns: there are %lld columns, and not a factor each", (long long)x.n[1]);
    if (go(c)) ops(c)->scale_columns(c, x, by);
    return x;
}

struct tensor match_size(struct context *c, struct tensor x, struct tensor like, float least) {
    has(c, ops(c)->match_size, "match_size");
    f32_rows(c, "match_size", "x", x);
    f32_rows(c, "match_size", "like", like);
    same_shape(c, "match_size", x, like);
    want(c, x.dims == 2 && least > 0, "match_size: not matrices, or the least not above 0");
    if (go(c)) ops(c)->match_size(c, x, like, least);
    return x;
}

struct tensor cut_below(struct context *c, struct tensor x, float by) {
    has(c, ops(c)->cut_below, "cut_below");
    f32_rows(c, "cut_below", "x", x);
    want(c, x.dims == 2, "cut_below: x is not a matrix");
    if (go(c)) ops(c)->cut_below(c, x, by);
    return x;
}

struct tensor mix_streams(struct context *c, struct tensor x, struct tensor w, int64_t in) {
    has(c, ops(c)->mix_streams, "mix_streams");
    f32_rows(c, "mix_streams", "x", x);
    f32_rows(c, "mix_streams", "w", w);
    bool ok = in > 0 && x.dims == 2 && w.dims == 2 && x.n[0] == w.n[0] && x.n[1] % in == 0 &&
              w.n[1] % in == 0;
    want(c, ok, "mix_streams: %lld columns and matrices of %lld do not fit %lld streams",
         (long long)tensor_width(x), (long long)tensor_width(w), (long long)in);
    int64_t width = ok ? w.n[1] / in * (x.n[1] / in) : 0;
    struct tensor y = scratch_tensor(c, DT_F32, 2, (int64_t[]){x.n[0], width});
    if (go(c)) ops(c)->mix_streams(c, y, x, w, in);
    return y;
}

struct tensor scale_rows(struct context *c, struct tensor x, struct tensor by) {
    f32_rows(c, "scale_rows", "x", x);
    f32_rows(c, "scale_rows", "by", by);
    want(c, x.dims == 2 && by.dims == 2 && by.n[0] == x.n[0] && by.n[1] == 1,
         "scale_rows: there are %lld rows, and not a factor each", (long long)x.n[0]);
    if (go(c)) ops(c)->scale_rows(c, x, by);
    return x;
}

struct tensor clamp(struct context *c, struct tensor x, float least, float most, float plus) {
    f32_rows(c, "clamp", "x", x);
    if (go(c)) ops(c)->clamp(c, x, least, most, plus);
    return x;
}

struct tensor linear_f32(struct context *c, struct tensor x, const struct weight *w) {
    enum precision own = c->precision;
    c->precision = PRECISION_F32;
    struct tensor y = linear(c, x, w);
    c->precision = own;
    return y;
}

// --- experts -----------------------------------------------------------------------------------

static bool check_groups(struct context *c, int64_t experts, const struct route_options *opt) {
    if (!opt->groups) return true;
    int64_t each = opt->groups > 0 ? experts / opt->groups : 0;
    return want(c,
                each > 0 && each * opt->groups == experts && opt->top_groups >= 1 &&
                    opt->top_groups <= opt->groups && opt->top_groups * each >= opt->top &&
                    (opt->group_score == GROUP_BEST || each >= 2),
                "route: %lld of %lld groups do not fit %lld experts", (long long)opt->top_groups,
                (long long)opt->groups, (long long)experts);
}

struct routes route(struct context *c, struct tensor logits, const struct route_options *opt) {
    has(c, ops(c)->route, "route");
    f32_rows(c, "route", "logits", logits);
    int64_t n = logits.n[0], experts = tensor_width(logits);
    want(c, logits.dims == 2 && opt->top >= 1 && opt->top <= experts,
         "route: %lld experts cannot be chosen of %lld", (long long)opt->top, (long long)experts);
    check_groups(c, experts, opt);
    want(c,
         !opt->bias.dims || (opt->bias.type == DT_F32 && opt->bias.dims == 1 &&
                             opt->bias.n[0] == experts && tensor_contiguous(opt->bias)),
         "route: the bias must be %lld elements of F32", (long long)experts);
    int64_t pairs[] = {n, opt->top}, m = n * opt->top, ends = experts + 1;
    struct routes r = {
        .ids = scratch_tensor(c, DT_I32, 2, pairs),
        .weights = scratch_tensor(c, DT_F32, 2, pairs),
        .order = scratch_tensor(c, DT_I32, 1, &m),
        .row = scratch_tensor(c, DT_I32, 1, &m),
        .place = scratch_tensor(c, DT_I32, 2, pairs),
        .start = scratch_tensor(c, DT_I32, 1, &ends),
    };
    if (!c->err.set) ops(c)->route(c, &r, logits, opt);
    return r;
}

static void check_experts(struct context *c, const char *op, struct tensor x,
                          const struct routes *r, const struct matrices *w) {
    f32_rows(c, op, "x", x);
    want(c, x.dims == 2 && x.n[0] == r->order.n[0], "%s: x does not have an entry a row", op);
    want(c, w->n + 1 == r->start.n[0], "%s: there are %lld experts, the routes have %lld", op,
         (long long)w->n, (long long)r->start.n[0] - 1);
    check_matrices(c, op, w);
    check_product(c, op, x, w->w);
}

struct tensor expert_linear(struct context *c, struct tensor x, const struct routes *r,
                            const struct matrices *w) {
    has(c, ops(c)->expert_linear, "expert_linear");
    check_experts(c, "expert_linear", x, r, w);
    struct tensor y = scratch_tensor(c, DT_F32, 2, (int64_t[]){x.n[0], w->w[0].out});
    if (!c->err.set) ops(c)->expert_linear(c, y, x, r, w);
    return y;
}

struct tensor expert_glu(struct context *c, struct tensor x, const struct routes *r,
                         const struct matrices *gate, const struct matrices *up,
                         const struct gating *g) {
    check_experts(c, "expert_glu", x, r, gate);
    check_experts(c, "expert_glu", x, r, up);
    want(c, gate->w[0].out == up->w[0].out, "expert_glu: gate has %lld outputs, up %lld",
         (long long)gate->w[0].out, (long long)up->w[0].out);
    if (!ops(c)->expert_glu) {
        struct tensor a = expert_linear(c, x, r, gate), b = expert_linear(c, x, r, up);
        float limit = g->limit > 0 ? g->limit : INFINITY;
        if (g->limit > 0) clamp(c, a, -INFINITY, limit, 0);
        if (g->limit > 0 || g->plus != 0) clamp(c, b, -limit, limit, g->plus);
        return act_mul(c, a, b, g->act);
    }
    struct tensor y = scratch_tensor(c, DT_F32, 2, (int64_t[]){x.n[0], gate->w[0].out});
    if (!c->err.set) ops(c)->expert_glu(c, y, x, r, gate, up, g);
    return y;
}

struct tensor expert_glu_rows(struct context *c, struct tensor x, const struct routes *r,
                              const struct matrices *gate, const struct matrices *up,
                              const struct gating *g) {
    size_t mark = scratch_mark(c);
    f32_rows(c, "expert_glu", "x", x);
    struct tensor y = scratch_tensor(c, DT_F32, 2, (int64_t[]){r->order.n[0], gate->w[0].out});
    bool whole = go(c) && ops(c)->expert_glu_rows && gate->w[0].out == up->w[0].out;
    if (whole && ops(c)->expert_glu_rows(c, y, x, r, gate, up, g)) return y;
    scratch_release(c, mark);
    return expert_glu(c, gather_rows(c, x, r->row), r, gate, up, g);
}

struct tensor expert_sum_to(struct context *c, struct tensor to, struct tensor x,
                            const struct routes *r) {
    f32_rows(c, "expert_sum", "to", to);
    f32_rows(c, "expert_sum", "x", x);
    want(c,
         x.dims == 2 && x.n[0] == r->order.n[0] && to.dims == 2 && to.n[0] == r->ids.n[0] &&
             to.n[1] == x.n[1],
         "expert_sum: x does not have an entry a row, or the sum does not fit");
    size_t mark = scratch_mark(c);
    if (!ops(c)->expert_sum_to)
        add_to(c, to, expert_sum(c, x, r));
    else if (go(c))
        ops(c)->expert_sum_to(c, to, x, r);
    scratch_release(c, mark);
    return to;
}

struct tensor expert_sum(struct context *c, struct tensor x, const struct routes *r) {
    has(c, ops(c)->expert_sum, "expert_sum");
    f32_rows(c, "expert_sum", "x", x);
    want(c, x.dims == 2 && x.n[0] == r->order.n[0], "expert_sum: x does not have an entry a row");
    struct tensor y = scratch_tensor(c, DT_F32, 2, (int64_t[]){r->ids.n[0], tensor_width(x)});
    if (go(c)) ops(c)->expert_sum(c, y, x, r);
    return y;
}

// Experts' gated halves, an entry a row. The row's weight may be what its input is multiplied by.
static struct tensor gate_experts(struct context *c, const struct mixture *m, struct tensor x,
                                  struct routes *r) {
    if (!m->weigh_input) return expert_glu_rows(c, x, r, &m->gate, &m->up, &m->gating);
    struct tensor each = tensor_2d(DT_F32, tensor_count(r->weights), 1, r->weights.data);
    struct tensor y = gather_rows(c, x, r->row);
    scale_rows(c, y, gather_rows(c, each, r->order));
    r->weights = (struct tensor){0};
    return expert_glu(c, y, r, &m->gate, &m->up, &m->gating);
}

static struct tensor shared_expert(struct context *c, const struct mixture *m, struct tensor x) {
    struct tensor y = glu(c, x, m->shared_gate, m->shared_up, m->gating.act);
    y = linear(c, y, m->shared_down);
    if (!m->shared_weight) return y;
    return scale_rows(c, y, activate(c, linear(c, x, m->shared_weight), ACT_SIGMOID));
}

struct tensor mixture(struct context *c, struct tensor x, const struct rms *norm,
                      const struct mixture *m, struct tensor to) {
    f32_rows(c, "mixture", "x", x);
    if (norm) check_norm(c, "mixture", x, "the norm", norm->w);
    check_product(c, "mixture", x, m->router);
    check_matrices(c, "mixture", &m->gate);
    check_matrices(c, "mixture", &m->up);
    check_matrices(c, "mixture", &m->down);
    size_t mark = scratch_mark(c);
    struct tensor y = to.dims ? to : scratch_tensor(c, DT_F32, 2, x.n);
    same_shape(c, "mixture", x, y);
    bool whole = go(c) && ops(c)->mixture;
    if (whole && ops(c)->mixture(c, y, to.dims > 0, x, norm, m)) return y;
    scratch_release(c, mark);
    if (norm) x = rms_norm(c, x, norm->w, norm->eps);
    if (m->shared_down) {
        struct mixture own = *m;
        own.shared_down = NULL;
        y = add_to(c, mixture(c, x, NULL, &own, (struct tensor){0}), shared_expert(c, m, x));
        return to.dims ? add_to(c, to, y) : y;
    }
    struct routes r = route(c, linear_f32(c, x, m->router), &m->route);
    y = expert_linear(c, gate_experts(c, m, x, &r), &r, &m->down);
    return to.dims ? expert_sum_to(c, to, y, &r) : expert_sum(c, y, &r);
}

struct tensor argmax(struct context *c, struct tensor to, struct tensor x) {
    f32_rows(c, "argmax", "x", x);
    i32_list(c, "argmax", "to", to);
    want(c, x.dims == 2 && to.n[0] == x.n[0] && x.n[1] > 0, "argmax: %lld results of %lld rows",
         (long long)to.n[0], (long long)x.n[0]);
    if (go(c)) ops(c)->argmax(c, to, x);
    return to;
}

static bool is_matrix(struct tensor t, enum dtype type, int64_t rows, int64_t width) {
    return t.dims == 2 && t.type == type && tensor_contiguous(t) && t.n[0] == rows &&
           t.n[1] == width;
}

void top_logits(struct context *c, const struct top_logits *to, struct tensor x, struct tensor by) {
    f32_rows(c, "top_logits", "x", x);
    int64_t k = tensor_width(to->value);
    want(c,
         x.dims == 2 && k > 0 && k <= TOP_LOGITS_MOST && k <= x.n[1] &&
             is_matrix(to->value, DT_F32, x.n[0], k) && is_matrix(to->index, DT_I32, x.n[0], k) &&
             is_matrix(to->others, DT_F32, x.n[0], 3) && by.dims == 1 && by.type == DT_F32 &&
             by.n[0] == x.n[0] && tensor_contiguous(by),
         "top_logits: results do not fit %lld rows of %lld", (long long)x.n[0],
         (long long)tensor_width(x));
    size_t mark = scratch_mark(c);
    if (!c->err.set) ops(c)->top_logits(c, to, x, by);
    scratch_release(c, mark);
}

void read_i32(struct context *c, struct tensor t, int32_t *out) {
    want(c, t.type == DT_I32 && tensor_contiguous(t), "read_i32: not a contiguous I32 tensor");
    if (go(c)) ops(c)->read(c, out, t.data, tensor_bytes(t));
}

static struct recording_key key_of(const struct context *c, int64_t rows, int which) {
    return (struct recording_key){c->scratch + c->used, rows, which};
}

bool step_replay(struct context *c, int64_t rows, int which) {
    struct recording_key key = key_of(c, rows, which);
    return go(c) && ops(c)->replay && ops(c)->replay(c, &key);
}

void step_record(struct context *c, int64_t rows) {
    if (go(c) && ops(c)->record) ops(c)->record(c, rows);
}

// Also after an error, so that the device is left recording nothing.
bool step_recorded(struct context *c, int64_t rows, int which) {
    struct recording_key key = key_of(c, rows, which);
    return c->dry || !ops(c)->recorded || ops(c)->recorded(c, &key);
}

void read_f32(struct context *c, struct tensor t, float *out) {
    want(c, t.type == DT_F32 && tensor_contiguous(t), "read_f32: not a contiguous F32 tensor");
    if (go(c)) ops(c)->read(c, out, t.data, tensor_bytes(t));
}
