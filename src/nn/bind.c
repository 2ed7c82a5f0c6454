#include "nn/bind.h"

#include "base/str.h"

static struct str full_name(const struct binder *b, const char *name, const char *suffix) {
    struct str full = {0};
    str_printf(&full, "%s%s%s", b->prefix, name, suffix);
    return full;
}

bool bind_has(const struct binder *b, const char *name) {
    struct str full = full_name(b, name, ".weight");
    bool has = weights_has(b->weights, str_sv(&full));
    str_free(&full);
    return has;
}

void bind_matrix(struct binder *b, const char *name, int64_t out, int64_t in, bool bias,
                 struct weight *w) {
    struct str full = full_name(b, name, "");
    if (!b->err->set && b->transposed)
        weights_matrix_transposed(b->weights, str_c(&full), out, in, bias, w, b->err);
    else if (!b->err->set)
        weights_matrix(b->weights, str_c(&full), out, in, bias, w, b->err);
    str_free(&full);
}

void bind_vector(struct binder *b, const char *name, int64_t n, struct tensor *t) {
    struct str full = full_name(b, name, ".weight");
    if (!b->err->set) weights_vector(b->weights, str_c(&full), n, t, b->err);
    str_free(&full);
}

void bind_bias(struct binder *b, const char *name, int64_t n, struct tensor *t) {
    struct str full = full_name(b, name, ".bias");
    if (!b->err->set) weights_vector(b->weights, str_c(&full), n, t, b->err);
    str_free(&full);
}

void bind_packed(struct binder *b, const char *name, int count, const int64_t rows[], int64_t in,
                 bool bias, struct weight *const w[]) {
    struct weight all = {0};
    int64_t out = 0;
    for (int i = 0; i < count; i++) out += rows[i];
    bind_matrix(b, name, out, in, bias, &all);
    if (b->err->set) return;
    for (int64_t i = 0, at = 0; i < count; at += rows[i++]) *w[i] = weight_rows(&all, at, rows[i]);
}
