#include "nn/rglru.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

static struct weight *bind_gate(const struct rglru_spec *s, const char *name, const char *bias,
                                struct weight *whole, struct binder *b) {
    int64_t n = s->blocks, width = s->width / n;
    struct weight *each = mem_array((size_t)n, sizeof *each);
    bind_bare_stack(b, name, &(struct stack_shape){n, width, width, false}, true, whole, each);
    struct tensor all;
    bind_table(b, bias, n, width, &all);
    for (int64_t i = 0; i < n && !b->err->set; i++)
        each[i].bias = tensor_1d(DT_F32, width, (float *)all.data + i * width);
    return each;
}

// Published as p: the logarithm of the decay is -8 softplus(p) times the gate.
static void bind_rate(struct rglru *m, const char *name, struct binder *b) {
    struct tensor p;
    bind_bare(b, name, m->spec.width, &p);
    if (b->err->set) return;
    m->rate = tensor_1d(DT_F32, m->spec.width, weights_make(b->weights, 1, m->spec.width).data);
    for (int64_t i = 0; i < m->spec.width; i++) {
        float x = ((const float *)p.data)[i];
        ((float *)m->rate.data)[i] = -8 * (fmaxf(x, 0) + log1pf(expf(-fabsf(x))));
    }
}

void rglru_bind(struct rglru *m, const struct rglru_spec *spec, int64_t hidden,
                const struct rglru_names *names, struct binder *b) {
    m->spec = *spec;
    bind_matrix(b, names->x, spec->width, hidden, true, &m->x);
    bind_matrix(b, names->y, spec->width, hidden, true, &m->y);
    bind_matrix(b, names->out, hidden, spec->width, true, &m->out);
    conv_bind(&m->conv, names->conv, spec->width, spec->taps, true, b);
    m->input = bind_gate(spec, names->input, names->input_bias, &m->whole[0], b);
    m->gate = bind_gate(spec, names->gate, names->gate_bias, &m->whole[1], b);
    bind_rate(m, names->rate, b);
}

void rglru_close(struct rglru *m) {
    free(m->input);
    free(m->gate);
}

int rglru_weights(struct rglru *m, struct weight *w[RGLRU_WEIGHTS]) {
    w[0] = &m->x, w[1] = &m->y, w[2] = &m->out;
    w[3] = &m->whole[0], w[4] = &m->whole[1];
    return RGLRU_WEIGHTS;
}

bool rglru_store(struct rglru *m, struct store *s, const char *what, struct error *e) {
    struct weight *w[RGLRU_WEIGHTS];
    int n = rglru_weights(m, w);
    for (int i = 0; i < n; i++)
        if (!store_weight(s, w[i], what, e)) return false;
    for (int64_t i = 0; i < m->spec.blocks; i++)
        if (!store_weight(s, &m->input[i], what, e) || !store_weight(s, &m->gate[i], what, e))
            return false;
    return conv_store(&m->conv, s, what, e) && store_tensor(s, &m->rate, what, e);
}

void rglru_state(const struct rglru_spec *spec, int64_t fixed[2]) {
    fixed[0] = convolve_state(spec->width, spec->taps);
    fixed[1] = spec->width;
}

struct tensor rglru_forward(struct context *c, const struct rglru *m, struct tensor x,
                            const struct rows *rows, const struct tensor state[2]) {
    struct tensor xy[2];
    linear_many(c, x, 2, (const struct weight *const[]){&m->x, &m->y}, xy);
    struct lru_inputs in = {.x = conv_forward(c, &m->conv, xy[0], rows, state[0])};
    in.gate = linear_blocks(c, in.x, m->spec.blocks, m->gate);
    in.input = linear_blocks(c, in.x, m->spec.blocks, m->input);
    struct tensor h = gated_lru(c, &in, m->rate, rows, state[1]);
    return linear(c, act_mul(c, xy[1], h, m->spec.act), &m->out);
}
