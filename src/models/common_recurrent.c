// What the files of families with recurrent layers share.
#include "models/family.h"

enum { MAX_WIDTH = 1 << 24, MAX_STATE = 1 << 26 };

int64_t read_taps(struct config *c, const char *key, int64_t otherwise) {
    int64_t taps = config_dim(c, key, otherwise);
    if (taps >= 2 && taps <= CONVOLVE_TAPS) return taps;
    config_fail(c, key, "must be in 2 .. %d", CONVOLVE_TAPS);
    return 2;
}

int64_t read_rank(struct config *c, const char *key, int64_t hidden) {
    int64_t otherwise = (hidden + 15) / 16;
    if (config_is_text(c, key) && sv_is(config_text(c, key, ""), "auto")) return otherwise;
    return config_dim(c, key, otherwise);
}

void check_state(struct config *c, const char *key, int64_t channels, int64_t states) {
    if (channels > MAX_WIDTH)
        config_fail(c, key, "cannot be had for %lld channels, over the limit of %d",
                    (long long)channels, MAX_WIDTH);
    else if (states > MAX_STATE / channels)
        config_fail(c, key, "times %lld channels is over the limit of %d", (long long)channels,
                    MAX_STATE);
}

void check_delta(struct config *c, const char *key, const struct delta *d) {
    double most = (double)d->heads * (double)d->k_width * (double)d->v_width;
    int64_t wide = d->k_width > d->v_width ? d->k_width : d->v_width;
    if ((double)d->heads * (double)wide > MAX_WIDTH || most > MAX_STATE)
        config_fail(c, key, "times the widths of a head is over the limit");
    else if (d->heads % d->key_heads)
        config_fail(c, key, "is not a multiple of the %lld heads of keys", (long long)d->key_heads);
}
