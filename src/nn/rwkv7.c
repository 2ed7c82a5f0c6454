#include "nn/rwkv7.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "compute/recurrent.h"

static void bind_row(struct binder *b, const char *name, int64_t n, struct tensor *t) {
    bind_table(b, name, 1, n, t);
    if (!b->err->set) *t = tensor_1d(DT_F32, n, t->data);
}

// Published as [heads * width], or by MLX as [heads, width].
static void bind_by_head(struct binder *b, const char *name, const struct rwkv7_spec *s,
                         struct tensor *t) {
    struct str full = {0};
    str_printf(&full, "%s%s", b->prefix, name);
    const struct st_tensor *found = weights_find(b->weights, str_sv(&full));
    str_free(&full);
    if (found && found->t.dims == 1)
        bind_bare(b, name, s->heads * s->width, t);
    else
        bind_table(b, name, s->heads, s->width, t);
    if (!b->err->set) *t = tensor_2d(DT_F32, s->heads, s->width, t->data);
}

static struct tensor make_shift(struct binder *b, int64_t hidden) {
    struct tensor taps = weights_make(b->weights, 2, hidden);
    for (int64_t i = 0; i < hidden; i++) ((float *)taps.data)[i] = 1;
    return taps;
}

static void bind_self(struct rwkv7 *m, const char *name, struct binder *b) {
    const struct rwkv7_spec *s = &m->spec;
    m->self_row = mem_array((size_t)s->heads, sizeof *m->self_row);
    bind_by_head(b, name, s, &m->self);
    for (int64_t h = 0; h < s->heads && !b->err->set; h++)
        m->self_row[h] = (struct weight){.layout = WEIGHT_DENSE,
                                         .out = 1,
                                         .in = s->width,
                                         .data = tensor_slice(m->self, 0, h, 1)};
}

static bool has_steer(const struct rwkv7_spec *s, int i) { return i != RWKV7_VALUE || !s->first; }

void rwkv7_bind(struct rwkv7 *m, const struct rwkv7_spec *spec, const struct rwkv7_names *names,
                struct binder *b) {
    m->spec = *spec;
    int64_t hidden = spec->heads * spec->width;
    for (int i = 0; i < RWKV7_INPUTS; i++) bind_row(b, names->mix[i], hidden, &m->mix[i]);
    m->shift = make_shift(b, hidden);
    bind_matrix(b, names->r, hidden, hidden, false, &m->r);
    bind_matrix(b, names->k, hidden, hidden, false, &m->k);
    bind_matrix(b, names->v, hidden, hidden, false, &m->v);
    bind_matrix(b, names->o, hidden, hidden, false, &m->o);
    for (int i = 0; i < RWKV7_STEERS; i++) {
        if (!has_steer(spec, i)) continue;
        bind_matrix(b, names->steer[i][0], spec->rank[i], hidden, false, &m->steer[i][0]);
        bind_matrix(b, names->steer[i][1], hidden, spec->rank[i], i != RWKV7_GATE, &m->steer[i][1]);
    }
    bind_by_head(b, names->k_scale, spec, &m->k_scale);
    bind_by_head(b, names->k_replaced, spec, &m->k_replaced);
    bind_by_head(b, names->norm_weight, spec, &m->norm_weight);
    bind_by_head(b, names->norm_bias, spec, &m->norm_bias);
    bind_self(m, names->self, b);
}

void rwkv7_close(struct rwkv7 *m) { free(m->self_row); }

int rwkv7_weights(struct rwkv7 *m, struct weight *w[RWKV7_WEIGHTS]) {
    int n = 0;
    w[n++] = &m->r, w[n++] = &m->k, w[n++] = &m->v, w[n++] = &m->o;
    for (int i = 0; i < RWKV7_STEERS; i++)
        if (has_steer(&m->spec, i)) w[n++] = &m->steer[i][0], w[n++] = &m->steer[i][1];
    return n;
}

bool rwkv7_store(struct rwkv7 *m, struct store *s, const char *what, struct error *e) {
    struct weight *w[RWKV7_WEIGHTS];
    struct tensor *t[] = {&m->shift,       &m->k_scale,   &m->k_replaced,
                          &m->norm_weight, &m->norm_bias, &m->self};
    int n = rwkv7_weights(m, w);
    for (int i = 0; i < n; i++)
        if (!store_weight(s, w[i], what, e)) return false;
    for (int i = 0; i < RWKV7_INPUTS; i++)
        if (!store_tensor(s, &m->mix[i], what, e)) return false;
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        if (!store_tensor(s, t[i], what, e)) return false;
    return store_list(s, m->self_row, m->spec.heads, &m->self_on_device, what, e);
}

static struct delta delta_of(const struct rwkv7_spec *s) {
    return (struct delta){s->heads, s->heads, s->width, s->width};
}

void rwkv7_state(const struct rwkv7_spec *s, int64_t fixed[3]) {
    struct delta d = delta_of(s);
    fixed[0] = fixed[2] = convolve_state(s->heads * s->width, 2);
    fixed[1] = delta_state(&d, 2);
}

// t [width] or [heads, width] beside each of n rows.
static struct tensor each_row(struct tensor t, int64_t n) {
    struct tensor all = tensor_2d(DT_F32, n, tensor_count(t), t.data);
    all.stride[0] = 0;
    return all;
}

// to - from
static struct tensor difference(struct context *c, struct tensor to, struct tensor from) {
    struct tensor y = copy_to(c, scratch_tensor(c, DT_F32, 2, from.n), from);
    return add_to(c, scale(c, y, -1), to);
}

// from + (to - from) * by, by a [n, width]
static struct tensor between(struct context *c, struct tensor from, struct tensor apart,
                             struct tensor by) {
    return add_to(c, act_mul(c, apart, by, ACT_NONE), from);
}

// What the row before has more than each row.
static struct tensor before(struct context *c, struct tensor x, struct tensor shift,
                            const struct rows *rows, struct tensor state) {
    return difference(c, convolve(c, x, shift, (struct tensor){0}, rows, state), x);
}

static struct tensor steer(struct context *c, const struct rwkv7 *m, struct tensor x,
                           enum rwkv7_steer i) {
    struct tensor y = linear(c, x, &m->steer[i][0]);
    if (i == RWKV7_DECAY) soft_cap(c, y, 1); // tanh
    if (i == RWKV7_GATE) activate(c, y, ACT_SIGMOID);
    y = linear(c, y, &m->steer[i][1]);
    return i == RWKV7_GATE ? y : activate(c, y, ACT_SIGMOID);
}

// The value with its part of the first layer's.
static struct tensor value_of(struct context *c, const struct rwkv7 *m, struct tensor x,
                              struct tensor first) {
    struct tensor v = linear(c, x, &m->v);
    if (m->spec.first) {
        copy_to(c, first, v);
        return v;
    }
    return between(c, v, difference(c, first, v), steer(c, m, x, RWKV7_VALUE));
}

// What a row takes out and puts in: of its key k, the direction; k itself grows as `replace` says.
static void read_keys(struct context *c, const struct rwkv7 *m, struct tensor k,
                      struct tensor replace, struct delta_inputs *in) {
    const struct rwkv7_spec *s = &m->spec;
    int64_t n = k.n[0], hidden = k.n[1];
    struct tensor none = {0}, kk = act_mul(c, k, each_row(m->k_scale, n), ACT_NONE);
    // to length 1; the references bound the length, which is never near 0, at 1e-7 or less
    kk = rms_norm(c, tensor_split_heads(kk, s->heads), none, 1e-14f / (float)s->width);
    kk = scale(c, tensor_2d(DT_F32, n, hidden, kk.data), 1 / sqrtf((float)s->width));
    in->b = act_mul(c, kk, replace, ACT_NONE);
    in->a = scale(c, kk, -1);
    // k (1 + (replace - 1) k_replaced)
    struct tensor apart = clamp(c, replace, -INFINITY, INFINITY, -1);
    in->k = between(c, k, act_mul(c, k, apart, ACT_NONE), each_row(m->k_replaced, n));
}

// y [n, hidden] += each head's v times the sum of r k self
static void add_self(struct context *c, const struct rwkv7 *m, struct tensor y,
                     const struct delta_inputs *in) {
    int64_t n = y.n[0], heads = m->spec.heads, width = m->spec.width;
    struct matrices rows = {heads, m->self_row, m->self_on_device};
    struct tensor rk = tensor_split_heads(act_mul(c, in->r, in->k, ACT_NONE), heads);
    struct tensor by = head_linear(c, rk, &rows, false);
    scale_rows(c, tensor_2d(DT_F32, n * heads, width, in->v.data),
               tensor_2d(DT_F32, n * heads, 1, by.data));
    add_to(c, y, in->v);
}

struct tensor rwkv7_forward(struct context *c, const struct rwkv7 *m, struct tensor x,
                            const struct rows *rows, const struct tensor state[3],
                            struct tensor first) {
    const struct rwkv7_spec *s = &m->spec;
    struct tensor in[RWKV7_INPUTS], apart = before(c, x, m->shift, rows, state[0]);
    for (int i = 0; i < RWKV7_INPUTS; i++)
        in[i] = between(c, x, apart, each_row(m->mix[i], x.n[0]));
    struct delta_inputs d = {.r = linear(c, in[RWKV7_R], &m->r),
                             .v = value_of(c, m, in[RWKV7_V], first)};
    d.g = scale(c, steer(c, m, in[RWKV7_W], RWKV7_DECAY), -0.60653066f); // e^(-1/2)
    read_keys(c, m, linear(c, in[RWKV7_K], &m->k), steer(c, m, in[RWKV7_A], RWKV7_REPLACE), &d);
    struct tensor gate = steer(c, m, in[RWKV7_G], RWKV7_GATE);
    struct delta shape = delta_of(s);
    struct tensor y = delta_rule(c, &d, &shape, rows, state[1]);
    y = layer_norm(c, tensor_split_heads(y, s->heads), m->norm_weight, m->norm_bias, 64e-5f);
    y = tensor_2d(DT_F32, x.n[0], s->heads * s->width, y.data);
    add_self(c, m, y, &d);
    return linear(c, act_mul(c, gate, y, ACT_NONE), &m->o);
}

void rwkv7_ffn_bind(struct rwkv7_ffn *m, const struct mlp_spec *spec, int64_t hidden,
                    const char *mix, const struct mlp_names *names, struct binder *b) {
    bind_row(b, mix, hidden, &m->mix);
    m->shift = make_shift(b, hidden);
    mlp_bind(&m->mlp, spec, hidden, names, b);
}

bool rwkv7_ffn_store(struct rwkv7_ffn *m, struct store *s, const char *what, struct error *e) {
    return store_tensor(s, &m->mix, what, e) && store_tensor(s, &m->shift, what, e) &&
           mlp_store(&m->mlp, s, what, e);
}

struct tensor rwkv7_ffn_forward(struct context *c, const struct rwkv7_ffn *m, struct tensor x,
                                const struct rows *rows, struct tensor state) {
    struct tensor apart = before(c, x, m->shift, rows, state);
    struct input in = {.x = between(c, x, apart, each_row(m->mix, x.n[0]))};
    return mlp_forward(c, &m->mlp, in, (struct tensor){0});
}
