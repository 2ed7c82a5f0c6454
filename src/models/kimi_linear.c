// Kimi Linear: KDA, latent attention without positions on every few layers, DeepSeek's experts
// under other names.
#include <math.h>

#include "models/family.h"

#define SAME                                                                                       \
    .embed = "model.embed_tokens", .norm = "model.norm", .head = "lm_head",                        \
    .layer = "model.layers.",                                                                      \
    .layer_norm = {[NORM_MIXER] = "input_layernorm", [NORM_FFN] = "post_attention_layernorm"}
