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

struct tensor input_forward(struct context *c, struct input in) {
    return in.norm ? norm_forward(c, in.norm, in.x) : in.x;
}

bool input_rms(const struct input *in, struct rms *norm) {
    const struct norm *n = in->norm;
    if (!n || (n->spec.kind != NORM_RMS && n->spec.kind != NORM_RMS_PLUS)) return false;
    *norm = (struct rms){n->w, n->spec.eps};
    return true;
}

void input_linear(struct context *c, struct input in, int count, const struct weight *const w[],
                  struct tensor y[]) {
    struct rms norm;
    if (input_rms(&in, &norm))
        normed_linear(c, in.x, &norm, count, w, y);
    else
        linear_many(c, input_forward(c, in), count, w, y);
}

struct tensor input_glu(struct context *c, struct input in, const struct weight *gate,
                        const struct weight *up, enum activation act) {
    struct rms norm;
    if (input_rms(&in, &norm)) return normed_glu(c, in.x, &norm, gate, up, act);
    return glu(c, input_forward(c, in), gate, up, act);
}

struct tensor output_linear(struct context *c, struct tensor to, struct tensor x,
                            const struct weight *w) {
    return to.dims ? linear_to(c, to, x, w) : linear(c, x, w);
}
