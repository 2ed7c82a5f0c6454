// The memory of sequences: paged caches for every layer, handed out a page at a time, and the
// layers' fixed state, a row a sequence.
//
// Paged states that see the same window share a group: one pool of pages and one page table a
// sequence (each has its own storage under the same page numbers). Pages behind a window are freed
// as the sequence moves on, so a windowed group needs only a window's worth.
#ifndef ENGINE_STATE_H
#define ENGINE_STATE_H

#include "compute/compute.h"
#include "nn/state.h"

enum { PAGE_TOKENS = 32 };

struct state_plan {
    const struct state_decl *layer; // [layers]
    int64_t layers;
    int64_t context;   // tokens a sequence may hold
    int64_t sequences; // at once
    int64_t chunk;     // rows of one sequence in a step, at most
    enum dtype type;   // of keys and values
};

struct page_group {
    int64_t window, chunk;
    int64_t pages;      // in the pool
    int32_t *free_page; // [pages], the first n_free are free
    int64_t n_free;
    int64_t unreserved; // pages not promised to a sequence
    int64_t *reserved;  // [sequences] promised to each, whether handed out or not
    int64_t *first;     // [sequences] the first entry of its table that may hold a page
    int32_t *table;     // [sequences, width] the host's copy
    struct tensor device_table;
};

struct state {
    struct device *dev;
    struct state_plan plan;
    int64_t width; // entries of a page table
    int64_t groups;
    struct page_group *group;
    struct layer_state *layer; // [layers]
    int64_t fixed_width;       // floats of fixed state a sequence, over all layers
    float *fixed;              // device: [sequences, fixed_width]
    bool *dirty;               // [sequences] tables that the device has not seen
    int64_t *high;             // [sequences] tokens that have, or had, a page
};

// Bytes that state_open would allocate; SIZE_MAX when that does not fit a size_t.
size_t state_bytes(const struct state_plan *p);
// Bytes that one more token of context costs, over all layers without a window.
size_t state_bytes_per_token(const struct state_plan *p);

bool state_open(struct state *s, struct device *dev, const struct state_plan *p, struct error *e);
void state_close(struct state *s);
// A plan's state for a dry run: layer [layers] get its shapes, with one page each and no memory.
void state_shapes(const struct state_plan *p, struct layer_state *layer);

// Promises sequence `seq` the pages that `tokens` tokens can need, and zeroes its fixed state.
// False: not enough are free now.
bool state_reserve(struct state *s, int64_t seq, int64_t tokens);
// Pages for tokens up to `end`, from the promise; frees those that no token from `begin` on sees.
void state_advance(struct state *s, int64_t seq, int64_t begin, int64_t end);
void state_release(struct state *s, int64_t seq); // every page and the promise
void state_upload(struct state *s);               // changed tables to the device

#endif
