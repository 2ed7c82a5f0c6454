#include "nn/altup.h"

#include <math.h>
#include <stdio.h>

enum { NAME = 128 };
static const float LEAST = 1e-5f; // mean of squares that a stream is scaled from, at least

static void bind_each(struct weight *w, const char *name, int64_t streams, int64_t hidden,
                      struct binder *b) {
    for (int64_t i = 0; i + 1 < streams; i++) {
        char full[NAME];
        snprintf(full, sizeof full, "%s%lld", name, (long long)i);
        bind_matrix(b, full, hidden, hidden, false, &w[i]);
    }
}

void altup_bind(struct altup *a, const struct altup_spec *spec, int64_t hidden,
                const struct altup_names *names, struct binder *b) {
    a->spec = *spec;
    bind_each(a->split, names->split, spec->streams, hidden, b);
    bind_each(a->merge, names->merge, spec->streams, hidden, b);
}

void altup_layer_bind(struct altup_layer *a, const struct altup_spec *spec, struct norm_spec norm,
                      int64_t hidden, const struct altup_names *names, struct binder *b) {
    int64_t n = spec->streams;
    a->spec = *spec;
    norm_bind(&a->norm, norm, hidden, names->norm, b);
    bind_matrix(b, names->router, n, hidden, false, &a->router);
    bind_matrix(b, names->predict, n * n, n, false, &a->predict);
    bind_matrix(b, names->correct, n, n, false, &a->correct);
    bind_bare(b, names->scale, hidden, &a->scale);
}

bool altup_store(struct altup *a, struct store *s, struct error *e) {
    for (int64_t i = 0; i + 1 < a->spec.streams; i++)
        if (!store_weight(s, &a->split[i], "the streams", e) ||
            !store_weight(s, &a->merge[i], "the streams", e))
            return false;
    return true;
}

bool altup_layer_store(struct altup_layer *a, struct store *s, const char *what, struct error *e) {
    return norm_store(&a->norm, s, what, e) && store_weight(s, &a->router, what, e) &&
           store_weight(s, &a->predict, what, e) && store_weight(s, &a->correct, what, e) &&
           (!a->scale.dims || store_tensor(s, &a->scale, what, e));
}

int altup_layer_weights(struct altup_layer *a, struct weight *w[ALTUP_LAYER_WEIGHTS]) {
    w[0] = &a->router, w[1] = &a->predict, w[2] = &a->correct;
    return ALTUP_LAYER_WEIGHTS;
}

static struct tensor stream(struct tensor streams, int64_t n, int64_t i) {
    int64_t width = streams.n[1] / n;
    return tensor_slice(streams, 1, i * width, width);
}

static struct tensor copy(struct context *c, struct tensor x) {
    return copy_to(c, scratch_tensor(c, DT_F32, 2, x.n), x);
}

struct tensor altup_split(struct context *c, const struct altup *a, struct tensor x) {
    int64_t n = a->spec.streams;
    struct tensor streams = scratch_tensor(c, DT_F32, 2, (int64_t[]){x.n[0], n * x.n[1]});
    copy_to(c, stream(streams, n, 0), x);
    for (int64_t i = 1; i < n; i++) {
        size_t mark = scratch_mark(c);
        struct tensor y = match_size(c, linear(c, x, &a->split[i - 1]), x, LEAST);
        copy_to(c, stream(streams, n, i), y);
        scratch_release(c, mark);
    }
    return streams;
}

// What a token is like, of one of its streams x: [n, streams], in -1 .. 1
static struct tensor modality(struct context *c, const struct altup_layer *a, struct tensor x) {
    struct tensor h = scale(c, norm_forward(c, &a->norm, x), 1 / (float)x.n[1]);
    return soft_cap(c, linear_f32(c, h, &a->router), 1); // tanh
}

struct tensor altup_predict(struct context *c, const struct altup_layer *a, struct tensor streams) {
    int64_t n = a->spec.streams;
    struct tensor active = stream(streams, n, a->spec.active);
    struct tensor matrices = linear_f32(c, modality(c, a, active), &a->predict);
    add_to(c, streams, mix_streams(c, streams, matrices, n));
    return copy(c, active);
}

void altup_correct(struct context *c, const struct altup_layer *a, struct tensor streams,
                   struct tensor x) {
    int64_t n = a->spec.streams;
    struct tensor by = linear_f32(c, modality(c, a, x), &a->correct);
    clamp(c, by, -INFINITY, INFINITY, 1);
    struct tensor wrong = scale(c, copy(c, stream(streams, n, a->spec.active)), -1);
    add_to(c, streams, mix_streams(c, add_to(c, wrong, x), by, 1));
}

struct tensor altup_active(struct context *c, const struct altup_layer *a, struct tensor streams) {
    struct tensor x = copy(c, stream(streams, a->spec.streams, a->spec.active));
    return a->spec.scaled ? scale_columns(c, x, a->scale) : x;
}

void altup_add(struct context *c, const struct altup_layer *a, struct tensor streams,
               struct tensor y) {
    for (int64_t i = 1; i < a->spec.streams; i++) add_to(c, stream(streams, a->spec.streams, i), y);
}

struct tensor altup_merge(struct context *c, const struct altup *a, struct tensor streams) {
    int64_t n = a->spec.streams;
    struct tensor first = stream(streams, n, 0), sum = copy(c, first);
    for (int64_t i = 1; i < n; i++) {
        struct tensor y = linear(c, stream(streams, n, i), &a->merge[i - 1]);
        add_to(c, sum, match_size(c, y, first, LEAST));
    }
    return scale(c, sum, 1 / (float)n);
}
