// What a model keeps of the tokens that it has seen. The model declares it, a layer at a time; the
// engine owns it: it allocates, shares, frees and moves it, knowing only these declarations.
#ifndef NN_STATE_H
#define NN_STATE_H

#include <stdint.h>

// Paged keys and values of one layer. window > 0: a token sees only that many tokens, itself
// included, so pages wholly behind the window may be freed.
struct state_decl {
    int64_t kv_heads, k_width, v_width;
    int64_t window;
};

#endif
