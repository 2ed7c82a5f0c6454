// The fronts of the recurrent ops.
#include "compute/recurrent.h"

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
