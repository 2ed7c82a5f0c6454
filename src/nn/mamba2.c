#include "nn/mamba2.h"

#include <math.h>

static int64_t inner_of(const struct mamba2_spec *s) { return s->heads * s->width; }

// What the convolution runs over: channels, then b and c of each group.
static int64_t conv_channels(const struct mamba2_spec *s) {
    return inner_of(s) + 2 * s->groups * s->states;
}

static void bind_heads(struct mamba2 *m, const struct mamba2_names *names, struct binder *b) {
    const struct mamba2_spec *s = &m->spec;
    m->ssd = (struct ssd){.heads = s->heads,
                          .width = s->width,
                          .groups = s->groups,
                          .states = s->states,
                          .dt_least = s->dt_least,
                          .dt_most = s->dt_most};
    struct tensor log;
    bind_bare(b, names->a_log, s->heads, &log);
    bind_bare(b, names->d, s->heads, &m->ssd.d);
    bind_bare(b, names->dt_bias, s->heads, &m->ssd.dt_bias);
    if (b->err->set) return;
    m->ssd.a = tensor_1d(DT_F32, s->heads, weights_make(b->weights, 1, s->heads).data);
    for (int64_t i = 0; i < s->heads; i++)
        ((float *)m->ssd.a.data)[i] = -expf(((const float *)log.data)[i]);
}

void mamba2_bind(struct mamba2 *m, const struct mamba2_spec *spec, struct norm_spec norm,
                 int64_t hidden, const struct mamba2_names *names, struct binder *b) {
    m->spec = *spec;
    m->eps = norm.eps;
    int64_t inner = inner_of(spec), channels = conv_channels(spec);
    bind_matrix(b, names->in, inner + channels + spec->heads, hidden, spec->proj_bias, &m->in);
    conv_bind(&m->conv, names->conv, channels, spec->taps, spec->conv_bias, b);
    bind_heads(m, names, b);
    bind_vector(b, names->norm, inner, &m->norm);
    m->norm = tensor_2d(DT_F32, spec->groups, inner / spec->groups, m->norm.data);
    bind_matrix(b, names->out, hidden, inner, spec->proj_bias, &m->out);
}

int mamba2_weights(struct mamba2 *m, struct weight *w[MAMBA2_WEIGHTS]) {
    w[0] = &m->in, w[1] = &m->out;
    return MAMBA2_WEIGHTS;
}

bool mamba2_store(struct mamba2 *m, struct store *s, const char *what, struct error *e) {
    return store_weight(s, &m->in, what, e) && store_weight(s, &m->out, what, e) &&
           conv_store(&m->conv, s, what, e) && store_tensor(s, &m->norm, what, e) &&
           store_tensor(s, &m->ssd.a, what, e) && store_tensor(s, &m->ssd.d, what, e) &&
           store_tensor(s, &m->ssd.dt_bias, what, e);
}

void mamba2_state(const struct mamba2_spec *s, int64_t fixed[2]) {
    fixed[0] = convolve_state(conv_channels(s), s->taps);
    fixed[1] = ssd_state(s->heads, s->width, s->groups, s->states);
}

struct tensor mamba2_forward(struct context *c, const struct mamba2 *m, struct tensor x,
                             const struct rows *rows, const struct tensor state[2]) {
    const struct mamba2_spec *s = &m->spec;
    int64_t inner = inner_of(s), channels = conv_channels(s), bc = s->groups * s->states;
    struct tensor all = linear(c, x, &m->in), z = tensor_slice(all, 1, 0, inner);
    struct tensor u = tensor_slice(all, 1, inner, channels);
    u = conv_activated(c, &m->conv, u, ACT_SILU, rows, state[0]);
    struct ssd_inputs in = {
        .x = tensor_slice(u, 1, 0, inner),
        .dt = tensor_slice(all, 1, inner + channels, s->heads),
        .b = tensor_slice(u, 1, inner, bc),
        .c = tensor_slice(u, 1, inner + bc, bc),
    };
    struct tensor y = act_mul(c, z, ssd_scan(c, &in, &m->ssd, rows, state[1]), ACT_SILU);
    y = rms_norm(c, tensor_split_heads(y, s->groups), m->norm, m->eps);
    return linear(c, tensor_2d(DT_F32, rows->n, inner, y.data), &m->out);
}
