#include "nn/bind.h"

#include "base/str.h"

void bind_matrix(struct binder *b, const char *name, int64_t out, int64_t in, bool bias,
                 struct weight *w) {
    struct str full = {0};
    str_printf(&full, "%s%s", b->prefix, name);
    if (!b->err->set) weights_matrix(b->weights, str_c(&full), out, in, bias, w, b->err);
    str_free(&full);
}

void bind_vector(struct binder *b, const char *name, int64_t n, struct tensor *t) {
    struct str full = {0};
    str_printf(&full, "%s%s.weight", b->prefix, name);
    if (!b->err->set) weights_vector(b->weights, str_c(&full), n, t, b->err);
    str_free(&full);
}
