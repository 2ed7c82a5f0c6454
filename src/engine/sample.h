// From logits to a token.
#ifndef ENGINE_SAMPLE_H
#define ENGINE_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

// The order is llama.cpp's: penalties, then top-k, top-p, min-p, temperature.
struct sampling {
    float temperature;        // 0: greedy
    int64_t top_k;            // 0: off
    float top_p;              // 1: off
    float min_p;              // 0: off
    float repetition_penalty; // 1: off; divides positive logits, multiplies negative ones
    float presence_penalty;   // 0: off; subtracted once for a token that was seen
    float frequency_penalty;  // 0: off; subtracted for each time it was seen
    int64_t penalty_window;   // tokens looked back at; 0: none, -1: all
    uint64_t seed;
};

struct sampling sampling_greedy(void);
// False with a message that names the value when one is out of its range.
bool sampling_check(const struct sampling *s, struct error *e);

struct sampler; // one sequence's: its seed's stream and the candidates' memory
struct sampler *sampler_open(const struct sampling *s, int64_t vocab);
bool sampler_greedy(const struct sampler *s); // it takes the greatest logit, as it is
void sampler_close(struct sampler *s);        // NULL is fine
// logits [vocab] are changed. history: the tokens so far, the prompt's included. Ties go to the
// lowest id; NaN counts as the least logit. The same seed and logits give the same tokens.
int32_t sampler_next(struct sampler *s, float *logits, const int32_t *history, size_t n);

#endif
