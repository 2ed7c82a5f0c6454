// What a model keeps of the tokens that it has seen. The model declares it, a layer at a time; the
// engine owns it: it allocates, shares, snapshots, truncates and frees it, knowing only these
// declarations, and hands it to each step as a `layer_state`.
#ifndef NN_STATE_H
#define NN_STATE_H

#include "compute/compute.h"

// Keys and values of each token, in pages. A row of [heads, k_width] and one of [heads, v_width];
// v_width 0: no values of their own, as of latent attention, whose values are a part of its keys,
// or of an indexer.
struct paged_decl {
    int64_t heads, k_width, v_width; // heads 0: no such state
    // What a token sees, itself included: so many tokens (window), those of its own chunk of so
    // many (chunk), or with neither all before it. Pages that no later token sees are freed.
    int64_t window, chunk;
};

enum { LAYER_PAGED = 2, LAYER_FIXED = 4 };

// One layer's. Zeroed: it keeps nothing.
struct state_decl {
    struct paged_decl paged[LAYER_PAGED]; // the second: an indexer's keys
    int64_t fixed[LAYER_FIXED];           // f32 elements a sequence (recurrent, convolution, token
                                          // shift), however long it is; 0: no such state
    bool shared;                          // reads the paged state of layer `owner`, an earlier one
    int64_t owner;                        // that writes it, and declares none of its own
};

// Where a layer finds it in a step, in the order of the declaration.
struct layer_state {
    struct kv kv[LAYER_PAGED];
    // [sequences, elements] F32, each row contiguous: row rows.seq[i] is of row i's sequence. The
    // engine zeroes it before a sequence's first row; each step leaves it as after its last.
    struct tensor fixed[LAYER_FIXED];
};

#endif
