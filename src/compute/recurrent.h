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

// Blocks on a diagonal: columns [i * in, (i + 1) * in) of x [n, count * in] by w[i] [out, in], side
// by side -> [n, count * out].
struct tensor linear_blocks(struct context *c, struct tensor x, int64_t count,
                            const struct weight *w);

#endif
