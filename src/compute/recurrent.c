// The fronts of the recurrent ops.
#include "compute/recurrent.h"

#include <math.h>

#include "compute/front.h"

static void check_runs(struct context *c, const char *op, const struct rows *rows, struct tensor x,
                       struct tensor state, int64_t elements) {
    i32_list(c, op, "index", rows->index);
    i32_list(c, op, "seq", rows->seq);
    i32_list(c, op, "run", rows->run);
    f32_rows(c, op, "x", x);
    f32_rows(c, op, "state", state);
    want(c,
         x.dims == 2 && x.n[0] == rows->n && rows->index.n[0] == rows->n &&
             rows->seq.n[0] == rows->n && rows->run.n[0] == rows->runs + 1,
         "%s: rows disagree on n", op);
    want(c, state.dims == 2 && state.n[1] == elements,
         "%s: a sequence's state has %lld elements, not %lld", op, (long long)tensor_width(state),
         (long long)elements);
}

// [n, width], beside x
static void check_beside(struct context *c, const char *op, const char *name, struct tensor t,
                         struct tensor x, int64_t width) {
    f32_rows(c, op, name, t);
    want(c, t.dims == 2 && t.n[0] == x.n[0] && t.n[1] == width,
         "%s: %s does not have %lld columns a row of x", op, name, (long long)width);
}

static void check_table(struct context *c, const char *op, const char *name, struct tensor t,
                        int dims, int64_t rows, int64_t width) {
    want(c,
         t.type == DT_F32 && t.dims == dims && tensor_contiguous(t) && t.n[dims - 1] == width &&
             (dims < 2 || t.n[0] == rows),
         "%s: %s does not fit", op, name);
}

struct tensor convolve(struct context *c, struct tensor x, struct tensor w, struct tensor b,
                       const struct rows *rows, struct tensor state) {
    has(c, ops(c)->convolve, "convolve");
    int64_t taps = w.n[0], channels = tensor_width(x);
    want(c, w.dims == 2 && taps >= 2 && taps <= CONVOLVE_TAPS, "convolve: %lld taps",
         (long long)taps);
    check_table(c, "convolve", "w", w, 2, taps, channels);
    if (b.dims) check_table(c, "convolve", "b", b, 1, 0, channels);
    check_runs(c, "convolve", rows, x, state, convolve_state(channels, taps));
    struct tensor y = scratch_tensor(c, DT_F32, 2, x.n);
    if (go(c)) ops(c)->convolve(c, y, x, w, b, rows, state);
    return y;
}

static struct tensor bands_of(struct context *c, struct tensor x, int64_t period, int64_t from,
                              int64_t count) {
    return period ? take_bands(c, x, period, from, count) : x;
}

static struct tensor convolve_parts(struct context *c, const struct convolution *v,
                                    const struct rows *rows) {
    struct tensor x = bands_of(c, v->x, v->period, v->from, v->count), none = {0};
    struct tensor y = convolve(c, x, v->w, v->b, rows, v->state);
    if (v->act != ACT_NONE) y = activate(c, y, v->act);
    if (!v->head) return y;
    struct tensor heads = tensor_split_heads(y, y.n[1] / v->head);
    heads = rms_norm(c, heads, none, 1e-6f / (float)v->head);
    y = tensor_2d(DT_F32, y.n[0], y.n[1], heads.data);
    return scale(c, y, v->length / sqrtf((float)v->head));
}

void convolve_many(struct context *c, int n, const struct convolution *v, const struct rows *rows,
                   struct tensor y[]) {
    size_t mark = scratch_mark(c);
    if (go(c) && ops(c)->convolve_many) {
        for (int i = 0; i < n; i++)
            y[i] = scratch_tensor(c, DT_F32, 2, (int64_t[]){rows->n, v[i].w.n[1]});
        if (!c->err.set && ops(c)->convolve_many(c, n, v, rows, y)) return;
        scratch_release(c, mark);
    }
    for (int i = 0; i < n; i++) y[i] = convolve_parts(c, &v[i], rows);
}

struct tensor selective_scan(struct context *c, const struct scan_inputs *in, struct tensor a,
                             struct tensor d, const struct rows *rows, struct tensor state) {
    has(c, ops(c)->selective_scan, "selective_scan");
    static const char op[] = "selective_scan";
    int64_t states = a.n[0], channels = tensor_width(in->x);
    check_table(c, op, "a", a, 2, states, channels);
    check_table(c, op, "d", d, 1, 0, channels);
    check_runs(c, op, rows, in->x, state, states * channels);
    check_beside(c, op, "delta", in->delta, in->x, channels);
    check_beside(c, op, "b", in->b, in->x, states);
    check_beside(c, op, "c", in->c, in->x, states);
    struct tensor y = scratch_tensor(c, DT_F32, 2, in->x.n);
    if (go(c)) ops(c)->selective_scan(c, y, in, a, d, rows, state);
    return y;
}

struct tensor ssd_scan(struct context *c, const struct ssd_inputs *in, const struct ssd *s,
                       const struct rows *rows, struct tensor state) {
    has(c, ops(c)->ssd_scan, "ssd_scan");
    static const char op[] = "ssd_scan";
    want(c, s->groups > 0 && s->heads % s->groups == 0, "%s: %lld heads in %lld groups", op,
         (long long)s->heads, (long long)s->groups);
    check_table(c, op, "a", s->a, 1, 0, s->heads);
    check_table(c, op, "d", s->d, 1, 0, s->heads);
    check_table(c, op, "dt_bias", s->dt_bias, 1, 0, s->heads);
    check_runs(c, op, rows, in->x, state, ssd_state(s->heads, s->width, s->groups, s->states));
    check_beside(c, op, "x", in->x, in->x, s->heads * s->width);
    check_beside(c, op, "dt", in->dt, in->x, s->heads);
    check_beside(c, op, "b", in->b, in->x, s->groups * s->states);
    check_beside(c, op, "c", in->c, in->x, s->groups * s->states);
    struct tensor y = scratch_tensor(c, DT_F32, 2, in->x.n);
    if (!c->err.set) ops(c)->ssd_scan(c, y, in, s, rows, state);
    return y;
}

struct tensor gated_lru(struct context *c, const struct lru_inputs *in, struct tensor rate,
                        const struct rows *rows, struct tensor state) {
    has(c, ops(c)->gated_lru, "gated_lru");
    static const char op[] = "gated_lru";
    int64_t width = tensor_width(in->x);
    check_table(c, op, "rate", rate, 1, 0, width);
    check_runs(c, op, rows, in->x, state, width);
    check_beside(c, op, "gate", in->gate, in->x, width);
    check_beside(c, op, "input", in->input, in->x, width);
    struct tensor y = scratch_tensor(c, DT_F32, 2, in->x.n);
    if (go(c)) ops(c)->gated_lru(c, y, in, rate, rows, state);
    return y;
}

struct tensor log_decay(struct context *c, struct tensor x, struct tensor rate,
                        struct tensor bias) {
    has(c, ops(c)->log_decay, "log_decay");
    static const char op[] = "log_decay";
    f32_rows(c, op, "x", x);
    want(c, x.dims == 2, "%s: x is not a matrix", op);
    check_table(c, op, "rate", rate, 1, 0, tensor_width(x));
    check_table(c, op, "bias", bias, 1, 0, tensor_width(x));
    struct tensor y = scratch_tensor(c, DT_F32, 2, x.n);
    if (go(c)) ops(c)->log_decay(c, y, x, rate, bias);
    return y;
}

static void check_delta(struct context *c, const char *op, const struct delta_inputs *in,
                        const struct delta *d) {
    int64_t keys = d->key_heads * d->k_width, all = d->heads * d->k_width;
    check_beside(c, op, "r", in->r, in->v, keys);
    check_beside(c, op, "k", in->k, in->v, keys);
    check_beside(c, op, "v", in->v, in->v, d->heads * d->v_width);
    check_beside(c, op, "g", in->g, in->v, tensor_width(in->g) == all ? all : d->heads);
    if (in->beta.dims) {
        check_beside(c, op, "beta", in->beta, in->v, d->heads);
    } else {
        check_beside(c, op, "a", in->a, in->v, all);
        check_beside(c, op, "b", in->b, in->v, all);
    }
}

struct tensor delta_rule(struct context *c, const struct delta_inputs *in, const struct delta *d,
                         const struct rows *rows, struct tensor state) {
    has(c, ops(c)->delta_rule, "delta_rule");
    static const char op[] = "delta_rule";
    want(c, d->key_heads > 0 && d->heads % d->key_heads == 0, "%s: %lld heads of %lld keys", op,
         (long long)d->heads, (long long)d->key_heads);
    check_runs(c, op, rows, in->v, state, delta_state(d, in->beta.dims ? 1 : 2));
    if (!c->err.set) check_delta(c, op, in, d);
    struct tensor y = scratch_tensor(c, DT_F32, 2, in->v.n);
    if (!c->err.set) ops(c)->delta_rule(c, y, in, d, rows, state);
    return y;
}

void delta_gates(struct context *c, struct tensor x, int64_t each, struct tensor rate,
                 struct tensor bias, struct tensor *beta, struct tensor *g) {
    if (go(c) && ops(c)->delta_gates) {
        int64_t n[] = {x.n[0], x.n[1] / 2};
        *beta = scratch_tensor(c, DT_F32, 2, n);
        *g = scratch_tensor(c, DT_F32, 2, n);
        if (!c->err.set) ops(c)->delta_gates(c, *beta, *g, x, each, rate, bias);
        return;
    }
    *beta = activate(c, take_bands(c, x, 2 * each, 0, each), ACT_SIGMOID);
    *g = log_decay(c, take_bands(c, x, 2 * each, each, each), rate, bias);
}

struct tensor gated_norm(struct context *c, struct tensor x, const struct rms *norm,
                         const struct norm_gate *gate, const struct weight *reader) {
    size_t mark = scratch_mark(c);
    int64_t n[] = {x.n[0], x.n[1] * x.n[2]};
    if (go(c) && ops(c)->gated_norm) {
        struct tensor y = scratch_tensor(c, read_by(c, x.n[0], reader), 2, n);
        if (!c->err.set && ops(c)->gated_norm(c, y, x, norm, gate)) return y;
        scratch_release(c, mark);
    }
    struct tensor y = rms_norm(c, x, norm->w, norm->eps);
    y = tensor_2d(DT_F32, n[0], n[1], y.data);
    return act_mul(c, bands_of(c, gate->x, gate->period, gate->from, gate->count), y, gate->act);
}

struct tensor linear_blocks(struct context *c, struct tensor x, int64_t count,
                            const struct weight *w) {
    f32_rows(c, "linear_blocks", "x", x);
    want(c, x.dims == 2 && count > 0 && x.n[1] == count * w->in,
         "linear_blocks: x has %lld columns, not %lld blocks of %lld", (long long)x.n[1],
         (long long)count, (long long)w->in);
    struct tensor y = scratch_tensor(c, DT_F32, 2, (int64_t[]){x.n[0], count * w->out});
    for (int64_t i = 0; i < count && !c->err.set; i++) {
        want(c, w[i].layout != WEIGHT_NONE && w[i].in == w->in && w[i].out == w->out,
             "linear_blocks: block %lld is not as block 0", (long long)i);
        struct tensor from = tensor_slice(x, 1, i * w->in, w->in);
        struct tensor to = tensor_slice(y, 1, i * w->out, w->out);
        if (!c->err.set) ops(c)->linear(c, 1, &to, from, (const struct weight *const[]){&w[i]});
    }
    return y;
}
