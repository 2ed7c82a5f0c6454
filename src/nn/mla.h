// Latent attention (DeepSeek V2 and later): what is kept of a token is one vector for all heads, a
// normed latent and beside it a key that is rotated. Each head's queries are taken into the space
// of the latents, attend there, and its values are taken out of it.
#ifndef NN_MLA_H
#define NN_MLA_H

#include "nn/norm.h"

// Chooses the tokens that a row attends to (DeepSeek V3.2), by keys of its own.
struct indexer_spec {
    int64_t heads, width, top; // top 0: there is none
    int rope;                  // which of the decoder's: turns the leading elements of a head
    float eps;                 // of the keys' LayerNorm
    bool lends;                // its choice serves the next layers that borrow
    bool borrows;              // this layer has none of its own
};

struct mla_spec {
    int64_t heads;
    int64_t q_rank;               // queries come through a normed vector of this width; 0: straight
    int64_t latent, rotary;       // widths of what is kept of a token
    int64_t plain_width, v_width; // of a head: the part of its query that is not rotated; its value
    bool bias;                    // of the matrices that take hidden states in, and of the last
    int rope;                     // which of the decoder's; ROPE_NONE: no positions
    float scale, eps;             // of the scores; of both norms
    struct indexer_spec indexer;  // needs q_rank
};

// After the layer's prefix, without ".weight".
struct mla_names {
    const char *q, *q_a, *q_norm, *q_b, *kv_a, *kv_norm, *o;
    const char *index_q, *index_k, *index_norm, *index_weights;
    const char *kv_b; // for each head the keys' rows, then the values', over the latent; or ...
    const char *embed, *unembed; // ... two stacks [heads, latent, plain], [heads, v, latent] (MLX)
};

struct mla {
    struct mla_spec spec;
    struct weight q, q_a, q_b, kv_a, o; // q, or q_a and q_b
    struct norm q_norm, kv_norm;
    struct weight *in, *out; // [heads] into and out of the latents' space, owned
    const struct weight *in_on_device, *out_on_device;
    struct weight whole[2]; // what they are views of
    bool columns;           // in is [plain, latent]
    struct weight index_q, index_k, index_weights;
    struct norm index_norm;
};

void mla_bind(struct mla *m, const struct mla_spec *spec, int64_t hidden,
              const struct mla_names *names, struct binder *b);
void mla_close(struct mla *m);
bool mla_store(struct mla *m, struct store *s, const char *what, struct error *e);
// The matrices, as one each; returns how many.
enum { MLA_WEIGHTS = 8 };
int mla_weights(struct mla *m, struct weight *w[MLA_WEIGHTS]);

// x [n, hidden], normed -> [n, hidden]. kv[0] keeps one head of latent + rotary, kv[1] one of the
// indexer's width, neither has values. r NULL: no positions. lent [n, top] I32: an indexer's
// choice, which a layer that lends writes and those that borrow read.
struct tensor mla_forward(struct context *c, const struct mla *m, struct tensor x,
                          const struct rows *rows, const struct kv *kv, const struct rope *r,
                          const struct rope *index_rope, struct tensor lent);

#endif
