// A short causal convolution over the tokens of a sequence, each channel for itself; and the mixer
// that is little more than one (LFM2): out(c * conv(b * x)), b, c and x being parts of one product.
#ifndef NN_CONV_H
#define NN_CONV_H

#include "checkpoint/store.h"
#include "compute/recurrent.h"
#include "nn/bind.h"

struct conv {
    struct tensor w; // [taps, channels]
    struct tensor b; // [channels], or dims 0
};

// NAME.weight [channels, 1, taps], or as MLX has it [channels, taps, 1]; NAME.bias [channels]
void conv_bind(struct conv *v, const char *name, int64_t channels, int64_t taps, bool bias,
               struct binder *b);
bool conv_store(struct conv *v, struct store *s, const char *what, struct error *e);
// x [n, channels] -> [n, channels]; state as convolve has it
struct tensor conv_forward(struct context *c, const struct conv *v, struct tensor x,
                           const struct rows *rows, struct tensor state);
struct tensor conv_activated(struct context *c, const struct conv *v, struct tensor x,
                             enum activation act, const struct rows *rows, struct tensor state);

struct short_conv_spec {
    int64_t taps;
    bool bias; // on all three
};

struct short_conv {
    struct weight in, out;
    struct conv conv;
};

struct short_conv_names {
    const char *in, *conv, *out;
};

void short_conv_bind(struct short_conv *m, const struct short_conv_spec *spec, int64_t hidden,
                     const struct short_conv_names *names, struct binder *b);
// The matrices; returns how many.
enum { SHORT_CONV_WEIGHTS = 2 };
int short_conv_weights(struct short_conv *m, struct weight *w[SHORT_CONV_WEIGHTS]);
bool short_conv_store(struct short_conv *m, struct store *s, const char *what, struct error *e);
// x [n, hidden], normed -> [n, hidden]; state: the convolution's
struct tensor short_conv_forward(struct context *c, const struct short_conv *m, struct tensor x,
                                 const struct rows *rows, struct tensor state);

#endif
