// Multi-head attention with grouped keys and values over a paged cache.
#ifndef NN_ATTENTION_H
#define NN_ATTENTION_H

#include "checkpoint/store.h"
#include "checkpoint/weights.h"
#include "compute/compute.h"

struct attention_spec {
    int64_t heads, kv_heads, width; // width of one head
    bool qkv_bias, o_bias;
    bool qk_norm;   // RMSNorm over each head's query and key, before rope (Qwen3)
    int64_t window; // a token sees this many, itself included; 0: all before it
    float scale;    // of q . k
};

struct attention {
    struct attention_spec spec;
    struct weight q, k, v, o;
    struct tensor q_norm, k_norm; // [width] when spec.qk_norm
};

// Names of an attention's tensors, after the layer's own prefix and without ".weight".
struct attention_names {
    const char *q, *k, *v, *o, *q_norm, *k_norm;
};

// Binds the tensors under `prefix` ("model.layers.0."): shapes are checked, data stays mapped.
bool attention_bind(struct attention *a, const struct attention_spec *spec, int64_t hidden,
                    const struct attention_names *names, const char *prefix, struct weights *w,
                    struct error *e);
bool attention_store(struct attention *a, struct store *s, const char *prefix, struct error *e);

// x [n, hidden], normed -> [n, hidden]
struct tensor attention_forward(struct context *c, const struct attention *a, struct tensor x,
                                const struct rows *rows, const struct kv *kv, const struct rope *r,
                                float eps);

#endif
