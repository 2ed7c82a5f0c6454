// Multi-head attention with grouped keys and values over a paged cache.
#ifndef NN_ATTENTION_H
#define NN_ATTENTION_H

#include "nn/norm.h"

enum qk_norm {
    QK_NORM_NONE,
    QK_NORM_HEAD,  // over each head's query and key (Qwen3)
    QK_NORM_WHOLE, // over all heads' together (OLMo 2)
};

struct attention_spec {
    int64_t heads, kv_heads, width; // width of one head
    bool qkv_bias, o_bias;
    enum qk_norm qk_norm;       // before rope ...
    bool norm_late;             // ... or after it
    int rope;                   // which of the decoder's; ROPE_NONE: no positions
    int64_t window;             // a token sees this many, itself included; 0: all before it
    int64_t chunk;              // a token sees those of its own chunk of so many; 0: all before it
    float tuning, tuning_floor; // of the scores by position, as in struct attention_options
    float scale;                // of q . k
    // Keys and values as projected, before norm and rope, can serve several layers (Hunyuan):
    bool lends;   // this one's serve the next layers that borrow
    bool borrows; // it has none of its own
    // The keys and values that it sees are those that layer `owner`, an earlier one alike in width,
    // heads and window, has written; it has none of its own (Gemma 3n).
    bool shared;
    int64_t owner;
    bool v_norm;    // a norm without a weight over each head's value
    float soft_cap; // of the scores; 0: none
    bool gated; // q has for each head the rows of its query, then those of a gate, whose sigmoid
                // the head's output is multiplied with
    bool sinks; // each head has a score more, of a token without a value (gpt-oss)
};

enum { ROPE_NONE = -1 };

struct attention {
    struct attention_spec spec;
    struct weight q, k, v, o;
    struct weight qkv;          // in place of q, k and v: qkv_heads
    struct norm q_norm, k_norm; // when spec.qk_norm
    struct norm v_norm;         // when spec.v_norm
    struct tensor sinks;        // [heads] when spec.sinks
};

// Names of an attention's tensors, after the layer's own prefix and without ".weight".
struct attention_names {
    const char *q, *k, *v, *o, *q_norm, *k_norm;
    const char *sinks; // the whole name
    // q, k and v as one matrix, where it is there: all rows of q, then k, then v ...
    const char *qkv;
    const char *qkv_heads; // ... or for each kv head those of its queries, its key, its value
};

// Binds the tensors under b's prefix: shapes are checked, data stays mapped.
void attention_bind(struct attention *a, const struct attention_spec *spec, struct norm_spec norm,
                    int64_t hidden, const struct attention_names *names, struct binder *b);
// The matrices; returns how many.
enum { ATTENTION_WEIGHTS = 4 };
int attention_weights(struct attention *a, struct weight *w[ATTENTION_WEIGHTS]);
bool attention_store(struct attention *a, struct store *s, const char *what, struct error *e);

// in: [n, hidden] -> [n, hidden], added to `to` where that has dims. r NULL: no positions. lent:
// keys and values, each [n, kv_heads * width], which a layer that lends writes and those that
// borrow read.
struct tensor attention_forward(struct context *c, const struct attention *a, struct input in,
                                const struct rows *rows, const struct kv *kv, const struct rope *r,
                                const struct tensor lent[2], struct tensor to);

#endif
