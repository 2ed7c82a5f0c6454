#include "nn/mlp.h"

#include "nn/bind.h"

bool mlp_bind(struct mlp *m, const struct mlp_spec *spec, int64_t hidden,
              const struct mlp_names *names, const char *prefix, struct weights *w,
              struct error *e) {
    m->spec = *spec;
    struct binder b = {w, prefix, e};
    bind_matrix(&b, names->gate, spec->width, hidden, spec->bias, &m->gate);
    bind_matrix(&b, names->up, spec->width, hidden, spec->bias, &m->up);
    bind_matrix(&b, names->down, hidden, spec->width, spec->bias, &m->down);
    return !e->set;
}

bool mlp_store(struct mlp *m, struct store *s, const char *prefix, struct error *e) {
    return store_weight(s, &m->gate, prefix, e) && store_weight(s, &m->up, prefix, e) &&
           store_weight(s, &m->down, prefix, e);
}

struct tensor mlp_forward(struct context *c, const struct mlp *m, struct tensor x) {
    return linear(c, glu(c, x, &m->gate, &m->up, m->spec.act), &m->down);
}
