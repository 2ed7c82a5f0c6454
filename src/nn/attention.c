#include "nn/attention.h"

// Published checkpoints hold keys and values of layers that use those of others.
static void ignore_own(const struct attention_names *names, struct binder *b) {
    const char *const own[] = {names->k, names->v, names->k_norm};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i]) bind_ignore(b, own[i]);
}

void attention_bind(struct attention *a, const struct attention_spec *spec, struct norm_spec norm,
                    int64_t hidden, const struct attention_names *names, struct binder *b) {
    a->spec = *spec;
    int64_t q_out = spec->heads * spec->width, kv_out = spec->kv_heads * spec->width;
    bool bias = spec->qkv_bias, own = !spec->borrows && !spec->shared;
    int64_t q_rows = spec->gated ? 2 * q_out : q_out;
    if (names->qkv && own && (!names->q || bind_has(b, names->qkv))) {
        bind_packed(b, names->qkv, 3, (const int64_t[]){q_rows, kv_out, kv_out}, hidden, bias,
                    (struct weight *const[]){&a->q, &a->k, &a->v});
    } else if (names->qkv_heads && own && (!names->q || bind_has(b, names->qkv_heads))) {
        bind_matrix(b, names->qkv_heads, q_out + 2 * kv_out, hidden, bias, &a->qkv);
    } else {
        bind_matrix(b, names->q, q_rows, hidden, bias, &a->q);
        if (own) bind_matrix(b, names->k, kv_out, hidden, bias, &a->k);
        if (own) bind_matrix(b, names->v, kv_out, hidden, bias, &a->v);
    }
    bind_matrix(b, names->o, hidden, q_out, spec->o_bias, &a->o);
    if (spec->sinks) bind_bare(b, names->sinks, spec->heads, &a->sinks);
    if (spec->v_norm) norm_bind(&a->v_norm, norm, spec->width, NULL, b);
    if (spec->shared) ignore_own(names, b);
    if (spec->qk_norm == QK_NORM_NONE) return;
    bool whole = spec->qk_norm == QK_NORM_WHOLE;
    norm_bind(&a->q_norm, norm, whole ? q_out : spec->width, names->q_norm, b);
    if (!spec->shared) norm_bind(&a->k_norm, norm, whole ? kv_out : spec->width, names->k_norm, b);
}

int attention_weights(struct attention *a, struct weight *w[ATTENTION_WEIGHTS]) {
    struct weight *all[] = {&a->o, &a->q, &a->k, &a->v, &a->qkv};
    int n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->layout != WEIGHT_NONE) w[n++] = all[i];
    return n;
}

bool attention_store(struct attention *a, struct store *s, const char *what, struct error *e) {
    return store_weight(s, &a->qkv, what, e) && store_weight(s, &a->q, what, e) &&
           store_weight(s, &a->k, what, e) && store_weight(s, &a->v, what, e) &&
           store_weight(s, &a->o, what, e) && norm_store(&a->q_norm, s, what, e) &&
           norm_store(&a->k_norm, s, what, e) &&
           (!a->sinks.dims || store_tensor(s, &a->sinks, what, e));
}

// y: q [n, heads * width], k and v [n, kv_heads * width], unless they are shared
static void project(struct context *c, const struct attention *a, struct input in,
                    const struct tensor lent[2], struct tensor y[3]) {
    const struct attention_spec *s = &a->spec;
    if (s->shared) {
        input_linear(c, in, 1, (const struct weight *const[]){&a->q}, y);
    } else if (s->borrows) { // a copy of the keys, since rope turns them in place
        input_linear(c, in, 1, (const struct weight *const[]){&a->q}, y);
        y[1] = copy_to(c, scratch_tensor(c, DT_F32, 2, lent[0].n), lent[0]);
        y[2] = lent[1];
    } else if (a->qkv.layout == WEIGHT_NONE) {
        input_linear(c, in, 3, (const struct weight *const[]){&a->q, &a->k, &a->v}, y);
    } else {
        int64_t queries = s->heads / s->kv_heads * s->width, period = queries + 2 * s->width;
        struct tensor all;
        input_linear(c, in, 1, (const struct weight *const[]){&a->qkv}, &all);
        y[0] = take_bands(c, all, period, 0, queries);
        y[1] = take_bands(c, all, period, queries, s->width);
        y[2] = take_bands(c, all, period, queries + s->width, s->width);
    }
    for (int i = 0; i < 2 && s->lends; i++) copy_to(c, lent[i], y[1 + i]);
}

// x [n, heads * width], queries or keys -> [n, heads, width], normed and turned
static struct tensor place(struct context *c, const struct attention *a, const struct norm *norm,
                           struct tensor x, int64_t heads, const struct rows *rows,
                           const struct rope *r) {
    const struct attention_spec *s = &a->spec;
    bool by_head = s->qk_norm == QK_NORM_HEAD;
    if (s->qk_norm == QK_NORM_WHOLE) x = norm_forward(c, norm, x);
    x = tensor_split_heads(x, heads);
    if (by_head && !s->norm_late) x = norm_forward(c, norm, x);
    if (r) x = rope(c, x, rows, r);
    return by_head && s->norm_late ? norm_forward(c, norm, x) : x;
}

// Whether what place() does is what place_heads does.
static bool places_plainly(const struct attention_spec *s) {
    return !s->shared && !s->v_norm && s->qk_norm != QK_NORM_WHOLE &&
           !(s->qk_norm == QK_NORM_HEAD && s->norm_late);
}

// Whether a norm is one that place_heads knows.
static bool norms_plainly(const struct attention *a) {
    enum norm_kind kind = a->q_norm.spec.kind;
    return a->spec.qk_norm == QK_NORM_NONE || kind == NORM_RMS || kind == NORM_RMS_PLUS;
}

// Keys and values go to the cache.
static struct tensor attend(struct context *c, const struct attention *a, struct tensor y[3],
                            const struct rows *rows, const struct kv *kv, const struct rope *r) {
    const struct attention_spec *s = &a->spec;
    struct attention_options opt = {.scale = s->scale,
                                    .window = s->window,
                                    .chunk = s->chunk,
                                    .tuning = s->tuning,
                                    .tuning_floor = s->tuning_floor,
                                    .soft_cap = s->soft_cap,
                                    .sinks = a->sinks,
                                    .reader = s->gated ? NULL : &a->o};
    if (places_plainly(s) && norms_plainly(a)) {
        struct placing p = {.q_norm = a->q_norm.w,
                            .k_norm = a->k_norm.w,
                            .normed = s->qk_norm == QK_NORM_HEAD,
                            .eps = a->q_norm.spec.eps,
                            .rope = r};
        return placed_attention(c, tensor_split_heads(y[0], s->heads),
                                tensor_split_heads(y[1], s->kv_heads),
                                tensor_split_heads(y[2], s->kv_heads), &p, kv, rows, &opt);
    }
    struct tensor q = place(c, a, &a->q_norm, y[0], s->heads, rows, r);
    if (s->shared) return attention(c, q, kv, rows, &opt);
    struct tensor k = place(c, a, &a->k_norm, y[1], s->kv_heads, rows, r);
    struct tensor v = tensor_split_heads(y[2], s->kv_heads);
    kv_write(c, kv, rows, k, s->v_norm ? norm_forward(c, &a->v_norm, v) : v);
    return attention(c, q, kv, rows, &opt);
}

struct tensor attention_forward(struct context *c, const struct attention *a, struct input in,
                                const struct rows *rows, const struct kv *kv, const struct rope *r,
                                const struct tensor lent[2], struct tensor to) {
    const struct attention_spec *s = &a->spec;
    struct tensor y[3];
    project(c, a, in, lent, y);
    struct tensor gate = {0};
    if (s->gated) {
        gate = take_bands(c, y[0], 2 * s->width, s->width, s->width);
        y[0] = take_bands(c, y[0], 2 * s->width, 0, s->width);
    }
    struct tensor out = attend(c, a, y, rows, kv, r);
    if (s->gated) out = act_mul(c, gate, out, ACT_SIGMOID);
    return output_linear(c, to, out, &a->o);
}
