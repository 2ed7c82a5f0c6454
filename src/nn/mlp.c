#include "nn/mlp.h"

#include <math.h>

static bool is_packed(const char *name, const struct mlp_names *names, const struct binder *b) {
    return name && (!names->gate || bind_has(b, name));
}

// What a share of normally distributed values is below, in standard deviations from their mean.
static double normal_quantile(double share) {
    double low = -10, high = 10;
    for (int i = 0; i < 64; i++) {
        double middle = (low + high) / 2;
        if (0.5 * erfc(-middle * sqrt(0.5)) < share)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void mlp_bind(struct mlp *m, const struct mlp_spec *spec, int64_t hidden,
              const struct mlp_names *names, struct binder *b) {
    m->spec = *spec;
    if (spec->sparsity > 0) m->cut = (float)normal_quantile((double)spec->sparsity);
    const int64_t rows[] = {spec->width, spec->width};
    if (is_packed(names->gate_up, names, b)) {
        bind_packed(b, names->gate_up, 2, rows, hidden, spec->bias,
                    (struct weight *const[]){&m->gate, &m->up});
    } else if (is_packed(names->up_gate, names, b)) {
        bind_packed(b, names->up_gate, 2, rows, hidden, spec->bias,
                    (struct weight *const[]){&m->up, &m->gate});
    } else {
        if (!spec->plain) bind_matrix(b, names->gate, spec->width, hidden, spec->bias, &m->gate);
        bind_matrix(b, names->up, spec->width, hidden, spec->bias, &m->up);
    }
    bind_matrix(b, names->down, hidden, spec->width, spec->bias, &m->down);
}

int mlp_weights(struct mlp *m, struct weight *w[MLP_WEIGHTS]) {
    w[0] = &m->up, w[1] = &m->down, w[2] = &m->gate;
    return m->spec.plain ? 2 : 3;
}

bool mlp_store(struct mlp *m, struct store *s, const char *what, struct error *e) {
    return store_weight(s, &m->gate, what, e) && store_weight(s, &m->up, what, e) &&
           store_weight(s, &m->down, what, e);
}

struct tensor mlp_forward(struct context *c, const struct mlp *m, struct input in,
                          struct tensor to) {
    enum activation act = m->spec.act;
    struct tensor y[2];
    if (m->spec.plain) {
        input_linear(c, in, 1, (const struct weight *const[]){&m->up}, y);
        activate(c, y[0], act);
    } else if (m->spec.sparsity > 0) {
        input_linear(c, in, 2, (const struct weight *const[]){&m->gate, &m->up}, y);
        y[0] = act_mul(c, cut_below(c, y[0], m->cut), y[1], act);
    } else {
        y[0] = input_glu(c, in, &m->gate, &m->up, act);
    }
    return output_linear(c, to, y[0], &m->down);
}
