// Shared by the sampler's own files.
#ifndef ENGINE_SAMPLE_PARTS_H
#define ENGINE_SAMPLE_PARTS_H

#include "engine/sample.h"

struct candidate {
    float logit;
    int32_t id;
};

// What is left beside s->pick of a row of which only the best logits were given. Each filter goes
// on with them as long as they can't matter, whatever they are.
struct others {
    int64_t n;
    struct candidate bound; // none of them comes before it in the order of candidates
    // Bounds of their sum of exp(logit - bound.logit): of logits as they are, and as they will be
    // after the temperature.
    double low[2], high[2];
    bool cool; // they are after it
};

// The best candidates stand in order before anything is compared or summed, or made equal by
// rounding: so the chain does the same whether it was given only those of a row or all.
enum { ORDERED = SAMPLER_BEST };

struct sampler {
    struct sampling s;       // its arrays are the sampler's
    int64_t vocab, made;     // made: tokens so far
    uint64_t state;          // of splitmix64
    struct matcher *matcher; // of the grammar, NULL: none
    bool lost;
    double mu; // of mirostat: the most surprise that is let through, in bits
    // Made when the first token is drawn.
    struct candidate *pick; // [n] are left
    size_t room;            // of pick
    int64_t n;
    int64_t ordered; // so many of them are the best, best first: by falling logit, then rising id
    struct others others;
    bool unsure;     // it takes the others to tell
    double top, sum; // of what is left: the greatest logit, and exp(logit - top) of all
    int32_t *count;  // [vocab] zero between calls
    int32_t *match;  // [matches] of DRY
    size_t matches;
};

double sampler_uniform(struct sampler *s); // [0, 1)
int32_t *sampler_count(struct sampler *s); // s->count, made at the first call

// sample_filter.c: each of these changes s->pick and s->n.
// Begins with what is known of the others: sums that a device made in floats.
void chain_others(struct sampler *s, float sum, float cooled);
// So many of the others' logits may be lower than they were, or where not `lowered`, higher.
void others_changed(struct sampler *s, int64_t n, bool lowered);
// Puts the best k in order, or what is left if that is less. While there are others, those in pick
// that may come after one of them join them: what stays is all in order, or the chain is unsure.
void chain_order(struct sampler *s, int64_t k);
struct range {
    double low, high;
};
struct range chain_sum(const struct sampler *s, double top); // of exp(logit - top)
// These expect that ORDERED are in order.
void chain_top_n_sigma(struct sampler *s);
void chain_top_k(struct sampler *s, int64_t k);
void chain_typical_p(struct sampler *s);
void chain_top_p(struct sampler *s);
void chain_min_p(struct sampler *s);
void chain_xtc(struct sampler *s);
void chain_temperature(struct sampler *s);
void chain_mirostat(struct sampler *s); // leaves what may be drawn

// sample_penalty.c
bool penalties_apply(const struct sampling *s);
bool dry_applies(const struct sampling *s);
void chain_penalties(struct sampler *s, const int32_t *history, size_t n);
void chain_dry(struct sampler *s, const int32_t *history, size_t n);

#endif
