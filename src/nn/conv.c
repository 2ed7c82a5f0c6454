#include "nn/conv.h"

void conv_bind(struct conv *v, const char *name, int64_t channels, int64_t taps, bool bias,
               struct binder *b) {
    struct tensor published;
    bind_filter(b, name, channels, taps, &published);
    if (b->err->set) return;
    v->w = weights_make(b->weights, taps, channels);
    for (int64_t i = 0; i < channels; i++)
        for (int64_t k = 0; k < taps; k++)
            ((float *)v->w.data)[k * channels + i] = ((const float *)published.data)[i * taps + k];
    if (bias) bind_bias(b, name, channels, &v->b);
}

bool conv_store(struct conv *v, struct store *s, const char *what, struct error *e) {
    return store_tensor(s, &v->w, what, e) && (!v->b.dims || store_tensor(s, &v->b, what, e));
}

struct tensor conv_forward(struct context *c, const struct conv *v, struct tensor x,
                           const struct rows *rows, struct tensor state) {
    return convolve(c, x, v->w, v->b, rows, state);
}

struct tensor conv_activated(struct context *c, const struct conv *v, struct tensor x,
                             enum activation act, const struct rows *rows, struct tensor state) {
    struct convolution one = {.x = x, .w = v->w, .b = v->b, .state = state, .act = act};
    struct tensor y;
    convolve_many(c, 1, &one, rows, &y);
    return y;
}

void short_conv_bind(struct short_conv *m, const struct short_conv_spec *spec, int64_t hidden,
                     const struct short_conv_names *names, struct binder *b) {
    bind_matrix(b, names->in, 3 * hidden, hidden, spec->bias, &m->in);
    conv_bind(&m->conv, names->conv, hidden, spec->taps, spec->bias, b);
    bind_matrix(b, names->out, hidden, hidden, spec->bias, &m->out);
}

int short_conv_weights(struct short_conv *m, struct weight *w[SHORT_CONV_WEIGHTS]) {
    w[0] = &m->in, w[1] = &m->out;
    return SHORT_CONV_WEIGHTS;
}

bool short_conv_store(struct short_conv *m, struct store *s, const char *what, struct error *e) {
    return store_weight(s, &m->in, what, e) && conv_store(&m->conv, s, what, e) &&
           store_weight(s, &m->out, what, e);
}

struct tensor short_conv_forward(struct context *c, const struct short_conv *m, struct tensor x,
                                 const struct rows *rows, struct tensor state) {
    int64_t width = tensor_width(x);
    struct tensor all = linear(c, x, &m->in), part[3];
    for (int i = 0; i < 3; i++) part[i] = tensor_slice(all, 1, i * width, width);
    struct tensor in = act_mul(c, part[0], part[2], ACT_NONE);
    struct tensor y = conv_forward(c, &m->conv, in, rows, state);
    return linear(c, act_mul(c, part[1], y, ACT_NONE), &m->out);
}
