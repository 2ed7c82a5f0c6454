#include "nn/norm.h"

void norm_bind(struct norm *n, struct norm_spec spec, int64_t width, const char *name,
               struct binder *b) {
    n->spec = spec;
    if (!name) return;
    bind_vector(b, name, width, &n->w);
    if (spec.kind == NORM_RMS_PLUS && !b->err->set) n->w = weights_plus_one(b->weights, n->w);
    if (spec.kind == NORM_LAYER_BIAS) bind_bias(b, name, width, &n->b);
}

bool norm_store(struct norm *n, struct store *s, const char *what, struct error *e) {
    return (!n->w.dims || store_tensor(s, &n->w, what, e)) &&
           (!n->b.dims || store_tensor(s, &n->b, what, e));
}

struct tensor norm_forward(struct context *c, const struct norm *n, struct tensor x) {
    bool centred = n->spec.kind == NORM_LAYER || n->spec.kind == NORM_LAYER_BIAS;
    return centred ? layer_norm(c, x, n->w, n->b, n->spec.eps) : rms_norm(c, x, n->w, n->spec.eps);
}
