// Alternating updates (AltUp, Gemma 3n): a residual stream as wide as several layers' inputs, of
// which a layer computes one. Before a layer, a small matrix of each token mixes the streams: that
// predicts what they become. After it, all are corrected by what the prediction of the layer's own
// stream was wrong by, each by a factor of the token's.
//
// The streams of a token lie side by side: [n, streams * hidden].
#ifndef NN_ALTUP_H
#define NN_ALTUP_H

#include "nn/norm.h"

enum { ALTUP_STREAMS = 8 }; // at most

struct altup_spec {
    int64_t streams; // 0: no such thing
    int64_t active;  // the stream that layers compute
    bool scaled;     // what altup_active returns is multiplied by a learned vector
};

struct altup { // of the model: one matrix for each stream but the first
    struct altup_spec spec;
    struct weight split[ALTUP_STREAMS - 1], merge[ALTUP_STREAMS - 1]; // [hidden, hidden]
};

struct altup_layer {
    struct altup_spec spec;
    struct norm norm;
    struct weight router;           // [streams, hidden]
    struct weight predict, correct; // [streams * streams, streams], [streams, streams]
    struct tensor scale;            // [hidden]
};

struct altup_names {
    const char *split, *merge; // of the model, before a matrix's number
    // of a layer; scale is a whole name
    const char *norm, *router, *predict, *correct, *scale;
};

void altup_bind(struct altup *a, const struct altup_spec *spec, int64_t hidden,
                const struct altup_names *names, struct binder *b);
void altup_layer_bind(struct altup_layer *a, const struct altup_spec *spec, struct norm_spec norm,
                      int64_t hidden, const struct altup_names *names, struct binder *b);
bool altup_store(struct altup *a, struct store *s, struct error *e);
bool altup_layer_store(struct altup_layer *a, struct store *s, const char *what, struct error *e);
// The matrices; returns how many.
enum { ALTUP_LAYER_WEIGHTS = 3 };
int altup_layer_weights(struct altup_layer *a, struct weight *w[ALTUP_LAYER_WEIGHTS]);

// x [n, hidden], the embeddings -> the streams [n, streams * hidden]
struct tensor altup_split(struct context *c, const struct altup *a, struct tensor x);
// The streams become what is predicted -> the active one, a copy [n, hidden]
struct tensor altup_predict(struct context *c, const struct altup_layer *a, struct tensor streams);
// x [n, hidden], what the layer made of the active stream
void altup_correct(struct context *c, const struct altup_layer *a, struct tensor streams,
                   struct tensor x);
// The active stream, scaled -> [n, hidden]
struct tensor altup_active(struct context *c, const struct altup_layer *a, struct tensor streams);
// Adds y [n, hidden] to all streams but the first.
void altup_add(struct context *c, const struct altup_layer *a, struct tensor streams,
               struct tensor y);
// After the last layer -> [n, hidden]
struct tensor altup_merge(struct context *c, const struct altup *a, struct tensor streams);

#endif
