#include "nn/bind.h"

#include "base/str.h"

static struct str full_name(const struct binder *b, const char *name, const char *suffix) {
    struct str full = {0};
    str_printf(&full, "%s%s%s", b->prefix, name, suffix);
    return full;
}

static bool has(const struct binder *b, const char *name, const char *suffix) {
    struct str full = full_name(b, name, suffix);
    bool there = weights_has(b->weights, str_sv(&full));
    str_free(&full);
    return there;
}

bool bind_has(const struct binder *b, const char *name) {
    struct str full = full_name(b, name, "");
    bool there = weights_has_matrix(b->weights, str_c(&full));
    str_free(&full);
    return there;
}

bool bind_has_stack(const struct binder *b, const char *name) {
    return has(b, name, "") || has(b, name, "_blocks");
}

void bind_ignore(struct binder *b, const char *name) {
    struct str full = full_name(b, name, ".");
    weights_ignore(b->weights, str_c(&full));
    str_free(&full);
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

static void vector(struct binder *b, const char *name, const char *suffix, int64_t n,
                   struct tensor *t) {
    struct str full = full_name(b, name, suffix);
    if (!b->err->set) weights_vector(b->weights, str_c(&full), n, t, b->err);
    str_free(&full);
}

void bind_vector(struct binder *b, const char *name, int64_t n, struct tensor *t) {
    vector(b, name, ".weight", n, t);
}

void bind_bias(struct binder *b, const char *name, int64_t n, struct tensor *t) {
    vector(b, name, ".bias", n, t);
}

void bind_bare(struct binder *b, const char *name, int64_t n, struct tensor *t) {
    vector(b, name, "", n, t);
}

void bind_stack(struct binder *b, const char *name, const struct stack_shape *s,
                struct weight *whole, struct weight *each) {
    struct str full = full_name(b, name, "");
    if (!b->err->set)
        weights_stack(b->weights, str_c(&full), s->n, s->out, s->in, s->bias, whole, each, b->err);
    str_free(&full);
}

void bind_bare_stack(struct binder *b, const char *name, const struct stack_shape *s, bool columns,
                     struct weight *whole, struct weight *each) {
    struct str full = full_name(b, name, "");
    if (!b->err->set)
        weights_bare_stack(b->weights, str_c(&full), s->n, s->out, s->in, columns, s->bias, whole,
                           each, b->err);
    str_free(&full);
}

static void bind_shape(struct binder *b, const char *name, const char *suffix, int64_t rows,
                       int64_t columns, struct tensor *t) {
    struct str full = full_name(b, name, suffix);
    if (!b->err->set) weights_table(b->weights, str_c(&full), rows, columns, t, b->err);
    str_free(&full);
}

void bind_table(struct binder *b, const char *name, int64_t rows, int64_t columns,
                struct tensor *t) {
    bind_shape(b, name, "", rows, columns, t);
}

void bind_filter(struct binder *b, const char *name, int64_t channels, int64_t taps,
                 struct tensor *t) {
    bind_shape(b, name, ".weight", channels, taps, t);
}

void bind_packed(struct binder *b, const char *name, int count, const int64_t rows[], int64_t in,
                 bool bias, struct weight *const w[]) {
    struct weight all = {0};
    int64_t out = 0;
    for (int i = 0; i < count; i++) out += rows[i];
    bind_matrix(b, name, out, in, bias, &all);
    if (b->err->set) return;
    for (int64_t i = 0, at = 0; i < count; at += rows[i++])
        *w[i] = weight_rows(&all, at, rows[i], 1);
}
