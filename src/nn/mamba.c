#include "nn/mamba.h"

#include <math.h>

// Published as the logarithm of -a, [inner, states].
static void bind_a(struct mamba *m, const char *name, struct binder *b) {
    int64_t inner = m->spec.inner, states = m->spec.states;
    struct tensor log;
    bind_table(b, name, inner, states, &log);
    if (b->err->set) return;
    m->a = weights_make(b->weights, states, inner);
    for (int64_t i = 0; i < inner; i++)
        for (int64_t k = 0; k < states; k++)
            ((float *)m->a.data)[k * inner + i] = -expf(((const float *)log.data)[i * states + k]);
}

void mamba_bind(struct mamba *m, const struct mamba_spec *spec, struct norm_spec norm,
                int64_t hidden, const struct mamba_names *names, struct binder *b) {
    m->spec = *spec;
    int64_t inner = spec->inner;
    bind_matrix(b, names->in, 2 * inner, hidden, spec->proj_bias, &m->in);
    conv_bind(&m->conv, names->conv, inner, spec->taps, spec->conv_bias, b);
    bind_matrix(b, names->x, spec->rank + 2 * spec->states, inner, false, &m->x);
    bind_matrix(b, names->dt, inner, spec->rank, true, &m->dt);
    bind_a(m, names->a_log, b);
    bind_bare(b, names->d, inner, &m->d);
    bind_matrix(b, names->out, hidden, inner, spec->proj_bias, &m->out);
    if (spec->norms == MAMBA_BARE_NORMS)
        m->dt_norm = m->b_norm = m->c_norm = (struct norm){{NORM_RMS, spec->norm_eps}, {0}, {0}};
    if (spec->norms != MAMBA_NORMS) return;
    norm_bind(&m->dt_norm, norm, spec->rank, names->dt_norm, b);
    norm_bind(&m->b_norm, norm, spec->states, names->b_norm, b);
    norm_bind(&m->c_norm, norm, spec->states, names->c_norm, b);
}

int mamba_weights(struct mamba *m, struct weight *w[MAMBA_WEIGHTS]) {
    w[0] = &m->in, w[1] = &m->x, w[2] = &m->dt, w[3] = &m->out;
    return MAMBA_WEIGHTS;
}

bool mamba_store(struct mamba *m, struct store *s, const char *what, struct error *e) {
    struct weight *w[MAMBA_WEIGHTS];
    int n = mamba_weights(m, w);
    for (int i = 0; i < n; i++)
        if (!store_weight(s, w[i], what, e)) return false;
    return conv_store(&m->conv, s, what, e) && norm_store(&m->dt_norm, s, what, e) &&
           norm_store(&m->b_norm, s, what, e) && norm_store(&m->c_norm, s, what, e) &&
           store_tensor(s, &m->a, what, e) && store_tensor(s, &m->d, what, e);
}

void mamba_state(const struct mamba_spec *spec, int64_t fixed[2]) {
    fixed[0] = convolve_state(spec->inner, spec->taps);
    fixed[1] = spec->states * spec->inner;
}

struct tensor mamba_forward(struct context *c, const struct mamba *m, struct tensor x,
                            const struct rows *rows, const struct tensor state[2]) {
    const struct mamba_spec *s = &m->spec;
    struct tensor all = linear(c, x, &m->in);
    struct tensor u = tensor_slice(all, 1, 0, s->inner);
    struct tensor z = tensor_slice(all, 1, s->inner, s->inner);
    u = conv_activated(c, &m->conv, u, ACT_SILU, rows, state[0]);
    // What steers the state space is of few rows, and exponentials are made of it: in f32 always.
    struct tensor p = linear_f32(c, u, &m->x), dt = tensor_slice(p, 1, 0, s->rank);
    struct scan_inputs in = {
        .x = u,
        .b = tensor_slice(p, 1, s->rank, s->states),
        .c = tensor_slice(p, 1, s->rank + s->states, s->states),
    };
    if (s->norms != MAMBA_NO_NORMS) {
        dt = norm_forward(c, &m->dt_norm, dt);
        in.b = norm_forward(c, &m->b_norm, in.b);
        in.c = norm_forward(c, &m->c_norm, in.c);
    }
    in.delta = linear_f32(c, dt, &m->dt);
    struct tensor y = selective_scan(c, &in, m->a, m->d, rows, state[1]);
    return linear(c, act_mul(c, z, y, ACT_SILU), &m->out);
}
