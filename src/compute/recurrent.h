// Ops that carry a sequence on in fixed state: convolutions over time, state spaces, gated linear
// recurrences.
//
// Each takes a tensor `state` [sequences, elements] F32, zeroed before a sequence's first row: what
// it keeps of row i's sequence is in row rows.seq[i], read when a run begins and left as after its
// last row. A row's result has the same bits however its sequence was cut into runs.
#ifndef COMPUTE_RECURRENT_H
#define COMPUTE_RECURRENT_H

#include "compute/compute.h"

// Each channel's causal convolution over its sequence's rows, for x [n, channels], w
// [taps, channels], b [channels] or dims 0 -> y [n, channels]: with x(t) that of the token at place
// t, and 0 before the first,
//     y(t) = b + sum over k of w[k] x(t - (taps - 1) + k)
// state: the latest taps - 1 rows of x, the oldest first.
enum { CONVOLVE_TAPS = 16 }; // at most; 2 at least
static inline int64_t convolve_state(int64_t channels, int64_t taps) {
    return (taps - 1) * channels;
}
struct tensor convolve(struct context *c, struct tensor x, struct tensor w, struct tensor b,
                       const struct rows *rows, struct tensor state);

// Several of the same rows, with what is around them in mixers: x of each may be bands of wider
// rows, and what comes out be activated, and each head of it be given a length:
// y * length / sqrt(sum of y^2 + 1e-6).
enum { CONVOLUTIONS = 3 }; // at most
struct convolution {
    struct tensor x, w, b, state;
    int64_t period, from, count; // as take_bands has them; period 0: x as it is
    enum activation act;         // ACT_NONE: none
    int64_t head;                // columns of a head; 0: it stays as long as it is
    float length;
};
// y[i] [n, channels] of n of them
void convolve_many(struct context *c, int n, const struct convolution *v, const struct rows *rows,
                   struct tensor y[]);

// A selective state space (Mamba): channel i of x [n, channels] drives its own `states` numbers h,
//     h = exp(dt a[., i]) h + dt x b;  y = sum of h c + d x;  dt = softplus(delta)
// delta [n, channels]; b, c [n, states], the same for all channels; a [states, channels], negative;
// d [channels] -> y [n, channels]. state: h [states, channels].
struct scan_inputs {
    struct tensor x, delta, b, c;
};
struct tensor selective_scan(struct context *c, const struct scan_inputs *in, struct tensor a,
                             struct tensor d, const struct rows *rows, struct tensor state);

// State space duality (Mamba 2): heads of `width` channels share one decay, and groups of heads
// share b and c [n, groups * states]. With x [n, heads * width], dt [n, heads], and per head a
// (negative), d, dt_bias [heads],
//     h = exp(dt a) h + b (dt x)^T;  y = h^T c + d x;  dt = clamp(softplus(dt + dt_bias))
// where h is [states, width] -> y [n, heads * width].
//
// It is computed in chunks of SSD_CHUNK tokens, which begin at places that are multiples of it:
// what a row gets of the rows before its chunk comes from h as of the chunk's beginning, what it
// gets of those in it from their products with it, which are matrix products. So that a run may end
// anywhere, the state holds h as of the chunk's beginning, and what the chunk's rows so far have:
//     h [heads, states, width], x [heads, SSD_CHUNK, width], b [SSD_CHUNK, groups * states],
//     dt of each, decayed since [heads, SSD_CHUNK], and the decay since the chunk began [heads]
enum { SSD_CHUNK = 32 };
struct ssd {
    int64_t heads, width, groups, states;
    float dt_least, dt_most;
    struct tensor a, d, dt_bias; // [heads]
};
static inline int64_t ssd_state(int64_t heads, int64_t width, int64_t groups, int64_t states) {
    return heads * (states * width + SSD_CHUNK * (width + 1) + 1) + SSD_CHUNK * groups * states;
}
struct ssd_inputs {
    struct tensor x, dt, b, c;
};
struct tensor ssd_scan(struct context *c, const struct ssd_inputs *in, const struct ssd *s,
                       const struct rows *rows, struct tensor state);

// A real-gated linear recurrent unit (RG-LRU): channels of x, gate, input [n, width], and rate
// [width], negative,
//     h = a h + sqrt(1 - a^2) sigmoid(input) x;  a = exp(rate sigmoid(gate));  y = h
// but at place 0 the square root counts as 1. -> y [n, width]. state: h [width].
struct lru_inputs {
    struct tensor x, gate, input;
};
struct tensor gated_lru(struct context *c, const struct lru_inputs *in, struct tensor rate,
                        const struct rows *rows, struct tensor state);

// The logarithms of decays, -rate softplus(x + bias), for x [n, width] and bias and rate, which is
// given as -rate, [width] -> [n, width]
struct tensor log_decay(struct context *c, struct tensor x, struct tensor rate, struct tensor bias);

// Delta rules (gated delta nets, KDA, RWKV 7): a head keeps a matrix S [k_width, v_width], from
// which a row takes what is there under one key before it puts in something under its own. With
// r, k, a, b of k_width, v of v_width, and g, at most 0,
//     S = diag(e^g) S + b (a^T S) + k v^T;  y = S^T r
// -> y [n, heads * v_width]. Heads in groups share r and k [n, key_heads * k_width]; v
// [n, heads * v_width]; g [n, heads] is of a whole head, or [n, heads * k_width]. Either a and b
// are given [n, heads * k_width], or in their place beta [n, heads]: then S' = diag(e^g) S, and
//     S = S' + beta k (v - S'^T k)^T
// which is a = -e^g k and b = k = beta k.
//
// It is computed in chunks of DELTA_CHUNK tokens, which begin at places that are multiples of it.
// Within one, S is what it was when the chunk began, decayed, and the sum of key times value of
// what was put in since; so what the rows read of S as of the chunk's beginning are matrix
// products, and what they read of each other is a triangle of products of their keys: solved from
// its first row on, since what a row puts in depends on what it reads. So that a run may end
// anywhere, the state holds S as of the chunk's beginning, and what was put in since, the keys
// decayed until now; for each head, with one put in a row, or with a and b two,
//     S [k_width, v_width], keys [puts, k_width], values [puts, v_width], decay [k_width]
enum { DELTA_CHUNK = 16 };
struct delta {
    int64_t heads, key_heads, k_width, v_width;
};
struct delta_inputs {
    struct tensor r, k, v, g, beta, a, b; // beta, or a and b
};
static inline int64_t delta_state(const struct delta *d, int64_t puts) {
    puts *= DELTA_CHUNK;
    return d->heads * (d->k_width * d->v_width + puts * (d->k_width + d->v_width) + d->k_width);
}
struct tensor delta_rule(struct context *c, const struct delta_inputs *in, const struct delta *d,
                         const struct rows *rows, struct tensor state);

// What steers a delta rule, out of rows x [n, m * 2 each] that have for each of m keys betas and
// then decays of `each` heads: *beta [n, m * each] = sigmoid, *g = log_decay of rate and bias.
void delta_gates(struct context *c, struct tensor x, int64_t each, struct tensor rate,
                 struct tensor bias, struct tensor *beta, struct tensor *g);

// act(gate) * rms_norm(x [n, heads, width]) -> [n, heads * width], of which `reader` alone reads
// the result, which may be in BF16. The gate's columns may be bands, as a convolution's.
struct norm_gate {
    struct tensor x;
    int64_t period, from, count;
    enum activation act;
};
struct tensor gated_norm(struct context *c, struct tensor x, const struct rms *norm,
                         const struct norm_gate *gate, const struct weight *reader);

// Blocks on a diagonal: columns [i * in, (i + 1) * in) of x [n, count * in] by w[i] [out, in], side
// by side -> [n, count * out].
struct tensor linear_blocks(struct context *c, struct tensor x, int64_t count,
                            const struct weight *w);

#endif
