// Memory that is freed all at once: for work that makes many small things and ends at one point
// (a parse tree, the values of one template render).
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *block; // the one being filled; the full ones hang behind it
    size_t used;               // bytes handed out, for the owner's own limit
};

// Zeroed, aligned for any type; never NULL (see mem.h). A zeroed struct arena is an empty one.
__attribute__((returns_nonnull)) void *arena_alloc(struct arena *a, size_t size);
void arena_free(struct arena *a); // leaves it empty, ready for use

#endif
