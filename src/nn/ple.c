#include "nn/ple.h"

#include <math.h>

void ple_bind(struct ple *p, const struct ple_spec *spec, int64_t layers, struct norm_spec norm,
              int64_t hidden, const struct ple_names *names, struct binder *b) {
    p->spec = *spec;
    p->layers = layers;
    bind_matrix(b, names->table, spec->vocab, layers * spec->width, false, &p->table);
    bind_matrix(b, names->project, layers * spec->width, hidden, false, &p->project);
    norm_bind(&p->norm, norm, spec->width, names->norm, b);
}

void ple_layer_bind(struct ple_layer *p, const struct ple_spec *spec, struct norm_spec norm,
                    int64_t hidden, const struct ple_names *names, struct binder *b) {
    p->act = spec->act;
    bind_matrix(b, names->layer_gate, spec->width, hidden, false, &p->gate);
    bind_matrix(b, names->layer_project, hidden, spec->width, false, &p->project);
    norm_bind(&p->norm, norm, hidden, names->layer_norm, b);
}

bool ple_store(struct ple *p, struct store *s, struct error *e) {
    return store_weight(s, &p->table, "the layers' embeddings", e) &&
           store_weight(s, &p->project, "the layers' embeddings", e) &&
           norm_store(&p->norm, s, "the layers' embeddings", e);
}

bool ple_layer_store(struct ple_layer *p, struct store *s, const char *what, struct error *e) {
    return store_weight(s, &p->gate, what, e) && store_weight(s, &p->project, what, e) &&
           norm_store(&p->norm, s, what, e);
}

int ple_layer_weights(struct ple_layer *p, struct weight *w[PLE_LAYER_WEIGHTS]) {
    w[0] = &p->gate, w[1] = &p->project;
    return PLE_LAYER_WEIGHTS;
}

struct tensor ple_inputs(struct context *c, const struct ple *p, struct tensor ids,
                         struct tensor x) {
    struct tensor own = embed(c, &p->table, bound_ids(c, ids, p->spec.vocab));
    scale(c, own, sqrtf((float)p->spec.width));
    struct tensor y = scale(c, linear(c, x, &p->project), 1 / sqrtf((float)tensor_width(x)));
    y = tensor_join_heads(norm_forward(c, &p->norm, tensor_split_heads(y, p->layers)));
    return scale(c, add_to(c, y, own), sqrtf(0.5f));
}

struct tensor ple_layer_forward(struct context *c, const struct ple_layer *p, struct tensor x,
                                struct tensor inputs, int64_t i) {
    struct tensor input = tensor_slice(inputs, 1, i * p->gate.out, p->gate.out);
    struct tensor y = act_mul(c, linear(c, x, &p->gate), input, p->act);
    return norm_forward(c, &p->norm, linear(c, y, &p->project));
}
