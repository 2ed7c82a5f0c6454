// Rotary position embeddings as config.json describes them: the older style (rope_theta beside
// rope_scaling {type or rope_type, ...}) and the newer (rope_parameters {rope_theta, rope_type,
// ...}, which may hold one such object per layer type).
#ifndef CHECKPOINT_ROPE_CONFIG_H
#define CHECKPOINT_ROPE_CONFIG_H

#include "checkpoint/config.h"

enum rope_kind { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN, ROPE_LONG };

enum { ROPE_FACTORS = 256 }; // pairs, at most, that LongRoPE has factors for

struct rope_config {
    enum rope_kind kind;
    double theta;
    double
        partial;   // how much of a head rotates; the family honours it: dim = (int)(head * partial)
    double factor; // of all kinds but the default
    double low_freq_factor, high_freq_factor; // llama3
    double beta_fast, beta_slow;              // yarn
    double attention_factor;                  // yarn, longrope; 0: derived
    double mscale, mscale_all_dim;            // yarn; 0: absent
    bool truncate;                            // yarn
    int64_t original_context;                 // llama3, yarn, longrope
    int64_t factors;                          // longrope: of each of these lists
    float short_factor[ROPE_FACTORS], long_factor[ROPE_FACTORS];
};

// Reads every rope key of c (rotary_emb_base and rotary_pct are older names of rope_theta and
// partial_rotary_factor). layer_type ("full_attention", ...) picks among nested objects and may
// be NULL; a flat description serves every layer type. A kind that is not supported (dynamic,
// mrope, ...) and values that make no sense are errors, which also stick to c.
bool rope_config_read(struct config *c, const char *layer_type, double default_theta,
                      struct rope_config *out);

// inv_freq [dim / 2], radians a position, and the factor on cos and sin, in the precision and the
// order of operations of transformers. dim is even: how many elements of a head rotate. Of
// longrope, these are for sequences of at most original_context tokens.
void rope_frequencies(const struct rope_config *r, int64_t dim, float *inv_freq, float *scale);
// Of longrope, for all tokens of longer sequences.
void rope_long_frequencies(const struct rope_config *r, int64_t dim, float *inv_freq);

#endif
