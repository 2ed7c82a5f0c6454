// RWKV 7: blocks whose inputs are mixed with those of the row before (token shift). Time mixing is
// a delta rule with two keys a row, a value that is partly the first layer's, and a term for the
// row itself; channel mixing is an MLP.
#ifndef NN_RWKV7_H
#define NN_RWKV7_H

#include "nn/mlp.h"
#include "nn/norm.h"

// What steers: decays, how much of a key is replaced, how much of a value is the first layer's, and
// gates. Each is a product of two matrices.
enum rwkv7_steer { RWKV7_DECAY, RWKV7_REPLACE, RWKV7_VALUE, RWKV7_GATE, RWKV7_STEERS };
enum rwkv7_input { RWKV7_R, RWKV7_W, RWKV7_K, RWKV7_V, RWKV7_A, RWKV7_G, RWKV7_INPUTS };

struct rwkv7_spec {
    int64_t heads, width;
    int64_t rank[RWKV7_STEERS];
    bool first; // the first layer: its values are those of which later ones take a part
};

// After the layer's prefix; of matrices without ".weight".
struct rwkv7_names {
    const char *mix[RWKV7_INPUTS];
    const char *r, *k, *v, *o;
    const char *steer[RWKV7_STEERS][2];
    const char *k_scale, *k_replaced, *self, *norm_weight, *norm_bias;
};

struct rwkv7 {
    struct rwkv7_spec spec;
    struct tensor mix[RWKV7_INPUTS]; // [hidden]: how much is of the row before
    struct tensor shift;             // [2, hidden]: taps that give the row before
    struct weight r, k, v, o;
    struct weight steer[RWKV7_STEERS][2];
    struct tensor k_scale, k_replaced;    // [heads, width]
    struct tensor norm_weight, norm_bias; // [heads, width]
    struct tensor self;                   // [heads, width]
    struct weight *self_row;              // [heads], owned: its rows as matrices
    const struct weight *self_on_device;
};

void rwkv7_bind(struct rwkv7 *m, const struct rwkv7_spec *spec, const struct rwkv7_names *names,
                struct binder *b);
void rwkv7_close(struct rwkv7 *m);
// The matrices; returns how many.
enum { RWKV7_WEIGHTS = 12 };
int rwkv7_weights(struct rwkv7 *m, struct weight *w[RWKV7_WEIGHTS]);
bool rwkv7_store(struct rwkv7 *m, struct store *s, const char *what, struct error *e);
// f32 elements of each piece of fixed state: the row before in time mixing, the delta rule's, the
// row before in channel mixing.
void rwkv7_state(const struct rwkv7_spec *spec, int64_t fixed[3]);
// x [n, hidden], normed -> [n, hidden]. first [n, hidden]: the first layer's values, which it
// writes and the others read.
struct tensor rwkv7_forward(struct context *c, const struct rwkv7 *m, struct tensor x,
                            const struct rows *rows, const struct tensor state[3],
                            struct tensor first);

struct rwkv7_ffn {
    struct tensor mix, shift; // as above
    struct mlp mlp;
};

void rwkv7_ffn_bind(struct rwkv7_ffn *m, const struct mlp_spec *spec, int64_t hidden,
                    const char *mix, const struct mlp_names *names, struct binder *b);
bool rwkv7_ffn_store(struct rwkv7_ffn *m, struct store *s, const char *what, struct error *e);
// x [n, hidden], normed -> [n, hidden]; state: the row before
struct tensor rwkv7_ffn_forward(struct context *c, const struct rwkv7_ffn *m, struct tensor x,
                                const struct rows *rows, struct tensor state);

#endif
