// From logits to a token: a chain of filters, each of which changes or drops candidates, then a
// draw among those that are left.
//
// Names, meaning and order of the filters are llama.cpp's. Logit biases come before the chain, and
// so does keeping an answer from ending too early. With mirostat the chain is temperature and
// mirostat alone.
#ifndef ENGINE_SAMPLE_H
#define ENGINE_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

struct breakers; // breakers.h
struct grammar;  // grammar/grammar.h

enum filter {
    FILTER_PENALTIES,
    FILTER_DRY,
    FILTER_TOP_N_SIGMA,
    FILTER_TOP_K,
    FILTER_TYPICAL_P,
    FILTER_TOP_P,
    FILTER_MIN_P,
    FILTER_XTC,
    FILTER_TEMPERATURE,
};
// Filters there are, and in a chain at most: one may come more than once.
enum { FILTERS = FILTER_TEMPERATURE + 1, FILTERS_MOST = 32 };

struct bias {
    int32_t id;
    float add; // to its logit; -INFINITY: it never comes
};

struct sampling {
    float temperature;          // 0: the likeliest of what is left
    float dynatemp_range;       // temperature -+ this, by the entropy; 0: off
    float dynatemp_exponent;    // of the entropy, as a part of the greatest
    int64_t top_k;              // 0: off
    float top_p;                // 1: off
    float min_p;                // 0: off
    float typical_p;            // 1: off
    float top_n_sigma;          // 0 or less: off
    float xtc_probability;      // 0: off
    float xtc_threshold;        // above 0.5: off
    int64_t min_keep;           // candidates that top-p, min-p, typical-p and XTC leave
    int64_t mirostat;           // 0: off, 1, 2
    float mirostat_tau;         // the surprise aimed at, in bits
    float mirostat_eta;         // how fast it is approached
    float repetition_penalty;   // 1: off; divides positive logits, multiplies negative ones
    float presence_penalty;     // 0: off; subtracted once for a token that was seen
    float frequency_penalty;    // 0: off; subtracted for each time it was seen
    int64_t penalty_window;     // tokens looked back at; 0: none, -1: all
    float dry_multiplier;       // 0: off
    float dry_base;             // of the power that the length of a repetition is
    int64_t dry_allowed_length; // of a repetition that costs nothing, less 1
    int64_t dry_window;         // tokens looked back at; 0: none, -1: all
    struct breakers *breakers;  // what ends a repetition for DRY; NULL: nothing
    struct bias *bias;          // [biases]
    size_t biases;
    int32_t *late; // [lates] ids that are not among the first min_tokens
    size_t lates;
    int64_t min_tokens;
    struct grammar *grammar;           // that the tokens write a text of; NULL: any
    unsigned char chain[FILTERS_MOST]; // [filters] of enum filter, in order
    size_t filters;
    uint64_t seed;
};

// Greedy, all else off, in the default order.
struct sampling sampling_greedy(void);
// False with a message that names the value when one is out of its range.
bool sampling_check(const struct sampling *s, struct error *e);

// The chain from names, as "top_k;temperature" (also "top-k", "typ_p", "temp", ...), or from
// letters, as "kt".
bool sampling_chain(struct sampling *s, struct sv names, struct error *e);
bool sampling_chain_letters(struct sampling *s, struct sv letters, struct error *e);
bool sampling_chain_add(struct sampling *s, struct sv name, struct error *e);
const char *filter_name(enum filter f);

struct sampler; // one sequence's: its seed's stream and what it remembers of its tokens
// What s points to is copied, or shared.
struct sampler *sampler_open(const struct sampling *s, int64_t vocab);
// Takes over from another one of the same grammar, which goes on too: what it has written counts.
void sampler_go_on(struct sampler *s, const struct sampler *from);
// No token could be allowed: the one that came last is none.
bool sampler_lost(const struct sampler *s);
bool sampler_greedy(const struct sampler *s); // it takes the greatest logit, as it is
void sampler_close(struct sampler *s);        // NULL is fine
// logits [vocab]. history: the tokens so far, the prompt's included. Ties go to the lowest id; NaN
// counts as the least logit. The same seed and logits give the same tokens.
int32_t sampler_next(struct sampler *s, const float *logits, const int32_t *history, size_t n);

// What of a row of logits is enough for nearly every token (top_logits of compute.h): the best, by
// falling logit, of equals the lowest id first, and how much the others weigh.
enum { SAMPLER_BEST = 256 };
struct best_logits {
    int64_t n;            // SAMPLER_BEST or the vocabulary's size, whichever is less
    const float *logit;   // [n]
    const int32_t *id;    // [n]
    float others, cooled; // sum over the others of exp(logit - logit[n - 1]), and of the same
                          // exponent divided by the temperature
};
// The same token that sampler_next would choose from all logits of the row; or -1, and s as it was,
// where that depends on others than the best.
int32_t sampler_next_best(struct sampler *s, const struct best_logits *best, const int32_t *history,
                          size_t n);
// By what the exponents of `cooled` are multiplied.
float sampler_cooling(const struct sampler *s);

struct chance {
    int32_t id;
    float p; // of each token: a probability, or its natural logarithm where a function says so
};
// What the last sampler_next drew from, best first: at most `most` of them, in out. Returns how
// many.
size_t sampler_chances(struct sampler *s, struct chance *out, size_t most);
float sampler_chance(const struct sampler *s, int32_t id); // one's; 0: it was dropped

// The greatest of logits as logarithms of their softmax, best first: at most `most`, in out.
// Returns how many. *sum: the logarithm of the softmax of any logit is the logit less this.
size_t logits_top(const float *logits, int64_t vocab, struct chance *out, size_t most, double *sum);
// The same of the best of a row; most <= best->n.
size_t best_logits_top(const struct best_logits *best, struct chance *out, size_t most,
                       double *sum);

#endif
