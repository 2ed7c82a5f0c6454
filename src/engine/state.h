// The memory of sequences: paged caches for every layer, handed out a page at a time, and the
// layers' fixed state, a row a sequence.
//
// Paged states that see the same window share a group: one pool of pages and one page table a
// sequence (each has its own storage under the same page numbers). Pages behind a window are let go
// as the sequence moves on, so a windowed group needs only a window's worth.
//
// What was computed is named by the tokens that led to it (a chain of digests, one a page of
// tokens), and is found again by a sequence that begins with the same: a full page is shared as it
// is, never written again; fixed state, which has no pages, is copied into snapshots where the
// scheduler asks for it.
#ifndef ENGINE_STATE_H
#define ENGINE_STATE_H

#include "compute/compute.h"
#include "engine/pages.h"
#include "nn/state.h"

enum { PAGE_TOKENS = 32 };

struct state_plan {
    const struct state_decl *layer; // [layers]
    int64_t layers;
    int64_t context;   // tokens a sequence may hold
    int64_t sequences; // at once
    int64_t tokens;    // of all sequences together, where there is no window; at least the context
    int64_t chunk;     // rows of one sequence in a step, at most
    int64_t snapshots; // copies of fixed state; unused by a model that has none
    enum dtype k_type, v_type; // of keys and values (struct kv)
};

struct page_group {
    int64_t window, chunk;
    struct pages pages;
    int64_t *first; // [sequences] entries of its table before this one hold no page
    int32_t *table; // [sequences, width] the host's copy
    struct tensor device_table;
};

// A snapshot that a sequence made on its way, and replaces by its next one.
struct passing {
    int32_t slot; // -1: none
    struct digest name;
};

struct state {
    struct device *dev;
    struct state_plan plan;
    int64_t width; // entries of a page table
    int64_t groups;
    struct page_group *group;
    struct layer_state *layer; // [layers]
    int64_t fixed_width;       // floats of fixed state a sequence, over all layers
    float *fixed;              // device: [sequences + snapshots, fixed_width]
    struct pages snapshots;
    struct passing *passing; // [sequences]
    bool *dirty;             // [sequences] tables that the device has not seen
    bool *able;              // [width] scratch: which beginnings can be had
    int64_t *high;           // [sequences] tokens that have, or had, a page
    int64_t *goal;           // [sequences] tokens that it was begun for; 0: it is no sequence
};

// Bytes that state_open would allocate; SIZE_MAX when that does not fit a size_t.
size_t state_bytes(const struct state_plan *p);
// Bytes of one token in the pages of a layer's k-th paged state.
size_t state_token_bytes(const struct state_plan *p, int64_t layer, int k);
// Bytes that one more token of context costs, over all layers without a window.
size_t state_bytes_per_token(const struct state_plan *p);
// Of them, those for fixed state and its snapshots.
size_t state_fixed_bytes(const struct state_plan *p);

bool state_open(struct state *s, struct device *dev, const struct state_plan *p, struct error *e);
void state_close(struct state *s);
// A plan's state for a dry run: layer [layers] get its shapes, with one page each and no memory.
void state_shapes(const struct state_plan *p, struct layer_state *layer);

// Begins sequence `seq`, which is to hold `tokens` tokens soon, with as much as there is of what
// chain [blocks] names, chain[i] being of its first i + 1 pages of tokens. Returns the tokens that
// it holds now; -1 when the pages for the rest could not be had beside those that sequences begun
// before are owed. *known gets how many tokens the pages alone would have given.
int64_t state_begin(struct state *s, int64_t seq, const struct digest *chain, int64_t blocks,
                    int64_t tokens, int64_t *known);
// Pages for tokens up to `end`; lets those go that no token from `begin` on sees. False, with no
// page taken: there are not enough.
bool state_advance(struct state *s, int64_t seq, int64_t begin, int64_t end);
// Takes the tokens from `to` on back, which must be within the latest advance and not named yet.
void state_truncate(struct state *s, int64_t seq, int64_t to);
void state_release(struct state *s, int64_t seq); // every page
// How many pages there are, and how many of them sequences use now.
void state_pages(const struct state *s, int64_t *all, int64_t *used);
void state_upload(struct state *s); // changed tables to the device

// Names the pages that tokens [from, to) complete, once they are computed.
void state_name(struct state *s, int64_t seq, const struct digest *chain, int64_t from, int64_t to);
// Keeps a copy of the fixed state, as after the tokens that `name` is of. A passing one is dropped
// when the sequence makes its next.
void state_save(struct state *s, int64_t seq, struct digest name, bool passing);
// A copy of the fixed state that only the caller knows; -1: there is no room for one.
int32_t state_hold(struct state *s, int64_t seq);
// Ends the copy, after putting it back if it is to be restored.
void state_unhold(struct state *s, int64_t seq, int32_t slot, bool restore);

#endif
