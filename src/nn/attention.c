#include "nn/attention.h"

#include "nn/bind.h"

bool attention_bind(struct attention *a, const struct attention_spec *spec, int64_t hidden,
                    const struct attention_names *names, const char *prefix, struct weights *w,
                    struct error *e) {
    a->spec = *spec;
    int64_t q_out = spec->heads * spec->width, kv_out = spec->kv_heads * spec->width;
    struct binder b = {w, prefix, e};
    bind_matrix(&b, names->q, q_out, hidden, spec->qkv_bias, &a->q);
    bind_matrix(&b, names->k, kv_out, hidden, spec->qkv_bias, &a->k);
    bind_matrix(&b, names->v, kv_out, hidden, spec->qkv_bias, &a->v);
    bind_matrix(&b, names->o, hidden, q_out, spec->o_bias, &a->o);
    if (spec->qk_norm) {
        bind_vector(&b, names->q_norm, spec->width, &a->q_norm);
        bind_vector(&b, names->k_norm, spec->width, &a->k_norm);
    }
    return !e->set;
}

bool attention_store(struct attention *a, struct store *s, const char *prefix, struct error *e) {
    return store_weight(s, &a->q, prefix, e) && store_weight(s, &a->k, prefix, e) &&
           store_weight(s, &a->v, prefix, e) && store_weight(s, &a->o, prefix, e) &&
           (!a->spec.qk_norm ||
            (store_tensor(s, &a->q_norm, prefix, e) && store_tensor(s, &a->k_norm, prefix, e)));
}

struct tensor attention_forward(struct context *c, const struct attention *a, struct tensor x,
                                const struct rows *rows, const struct kv *kv, const struct rope *r,
                                float eps) {
    const struct attention_spec *s = &a->spec;
    struct tensor y[3];
    linear_many(c, x, 3, (const struct weight *const[]){&a->q, &a->k, &a->v}, y);
    struct tensor q = tensor_split_heads(y[0], s->heads);
    struct tensor k = tensor_split_heads(y[1], s->kv_heads);
    struct tensor v = tensor_split_heads(y[2], s->kv_heads);
    if (s->qk_norm) {
        q = rms_norm(c, q, a->q_norm, eps);
        k = rms_norm(c, k, a->k_norm, eps);
    }
    q = rope(c, q, rows->pos, r);
    k = rope(c, k, rows->pos, r);
    kv_write(c, kv, rows, k, v);
    struct attention_options opt = {.scale = s->scale, .window = s->window};
    return linear(c, attention(c, q, kv, rows, &opt), &a->o);
}
