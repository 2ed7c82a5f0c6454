// What a GGUF file says about its model, checked, and the config.json that says the same.
#ifndef CHECKPOINT_GGUF_MODEL_H
#define CHECKPOINT_GGUF_MODEL_H

#include <json-c/json.h>

#include "checkpoint/gguf.h"

enum gguf_arch { GGUF_LLAMA, GGUF_QWEN2, GGUF_QWEN3 };

struct gguf_rope { // how positions are scaled; every number 0 where it does not apply
    enum { GGUF_ROPE_PLAIN, GGUF_ROPE_LINEAR, GGUF_ROPE_YARN, GGUF_ROPE_LLAMA3 } kind;
    double theta, factor, beta_fast, beta_slow;
    int64_t original; // context length before scaling
};

struct gguf_model {
    enum gguf_arch arch;
    int64_t layers, hidden, inter, heads, kv_heads, head_dim, vocab, context;
    int64_t window; // of attention; 0: none
    double eps;
    struct gguf_rope rope;
    bool tied;                // no output matrix: the embedding serves
    bool attn_bias, mlp_bias; // llama's optional biases
};

// Refuses, by name: an architecture, a key or a rope scaling that is not known to keep its meaning.
bool gguf_model_read(const struct gguf *g, struct gguf_model *m, struct error *e);

// config.json as an object that the caller owns and may add to.
struct json_object *gguf_config(const struct gguf_model *m);

// A number as a float's shortest decimal text ("1e-05", "10000.0").
struct json_object *gguf_json_float(double v);

#endif
