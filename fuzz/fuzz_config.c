// config.json of any bytes, read the ways that families read it.
#include <stdlib.h>

#include "checkpoint/rope_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_keys(struct config *c) {
    int64_t dim = config_dim(c, "hidden_size", 64);
    if (dim < 1 || dim > 1 << 24) abort();
    config_need_int(c, "vocab_size");
    config_number(c, "rms_norm_eps", 1e-6);
    config_bool(c, "tie_word_embeddings", false);
    config_text(c, "model_type", "");
    size_t types = config_list(c, "layer_types");
    for (size_t i = 0; i < types && i < 100; i++) config_list_text(c, "layer_types", i);
    size_t ids = config_list(c, "eos_token_id");
    for (size_t i = 0; i < ids && i < 100; i++) config_list_int(c, "eos_token_id", i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct error e = {0};
    struct config *c = config_read(sv_n((const char *)data, size), "fuzz", &e);
    if (!c) return e.set ? 0 : (abort(), 0);
    struct rope_config r;
    float inv_freq[32], scale;
    if (rope_config_read(c, NULL, 10000, &r)) rope_frequencies(&r, 64, inv_freq, &scale);
    if (rope_config_read(c, "full_attention", 10000, &r))
        rope_frequencies(&r, 64, inv_freq, &scale), rope_long_frequencies(&r, 64, inv_freq);
    read_keys(c);
    struct config *text = config_child(c, "text_config");
    if (text) read_keys(text);
    config_check_unread(c, &e);
    config_close(c);
    return 0;
}
