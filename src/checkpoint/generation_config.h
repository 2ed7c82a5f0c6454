// generation_config.json: how the publisher means the model to be sampled, and what ends an answer.
#ifndef CHECKPOINT_GENERATION_CONFIG_H
#define CHECKPOINT_GENERATION_CONFIG_H

#include "checkpoint/config.h"

enum { GENERATION_EOS_MAX = 64 };

struct generation_config {
    int32_t eos[GENERATION_EOS_MAX]; // ids in the order of the file, none twice
    size_t eos_count;
    bool has_temperature, has_top_p, has_top_k, has_min_p, has_repetition_penalty, has_do_sample;
    double temperature, top_p, min_p, repetition_penalty;
    int64_t top_k;
    bool do_sample;
};

// path: the checkpoint folder or a file in it. Without the file, or without eos_token_id in it, the
// eos ids are those of config (config.json, or its text_config). Values out of range are errors.
bool generation_config_read(const char *path, struct config *config, struct generation_config *out,
                            struct error *e);

#endif
