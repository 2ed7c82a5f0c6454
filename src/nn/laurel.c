#include "nn/laurel.h"

#include <math.h>

void laurel_bind(struct laurel *l, int64_t rank, struct norm_spec norm, int64_t hidden,
                 const struct laurel_names *names, struct binder *b) {
    bind_matrix(b, names->left, rank, hidden, false, &l->left);
    bind_matrix(b, names->right, hidden, rank, false, &l->right);
    norm_bind(&l->norm, norm, hidden, names->norm, b);
}

int laurel_weights(struct laurel *l, struct weight *w[LAUREL_WEIGHTS]) {
    w[0] = &l->left, w[1] = &l->right;
    return LAUREL_WEIGHTS;
}

bool laurel_store(struct laurel *l, struct store *s, const char *what, struct error *e) {
    return store_weight(s, &l->left, what, e) && store_weight(s, &l->right, what, e) &&
           norm_store(&l->norm, s, what, e);
}

void laurel_forward(struct context *c, const struct laurel *l, struct tensor x, struct tensor h) {
    struct tensor y = linear(c, linear(c, h, &l->left), &l->right);
    add_to(c, x, h);
    add_to(c, x, norm_forward(c, &l->norm, y));
    scale(c, x, sqrtf(0.5f));
}
