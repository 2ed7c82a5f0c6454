// Shared by the sampler's own files.
#ifndef ENGINE_SAMPLE_PARTS_H
#define ENGINE_SAMPLE_PARTS_H

#include "engine/sample.h"

struct candidate {
    float logit;
    int32_t id;
};

struct sampler {
    struct sampling s;       // its arrays are the sampler's
    int64_t vocab, made;     // made: tokens so far
    uint64_t state;          // of splitmix64
    struct matcher *matcher; // of the grammar, NULL: none
    bool lost;
    double mu; // of mirostat: the most surprise that is let through, in bits
    // Made when the first token is drawn.
    struct candidate *pick; // [vocab], of which n are left
    int64_t n;
    bool sorted;     // by falling logit, then rising id
    double top, sum; // of what is left: the greatest logit, and exp(logit - top) of all
    int32_t *count;  // [vocab] zero between calls
    int32_t *match;  // [matches] of DRY
    size_t matches;
};

double sampler_uniform(struct sampler *s); // [0, 1)

// sample_filter.c: each of these changes s->pick and s->n.
void chain_sort(struct sampler *s);
int64_t chain_best(const struct sampler *s); // where the greatest logit is, of ties the lowest id
double chain_sum(const struct sampler *s, double top); // of exp(logit - top)
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
