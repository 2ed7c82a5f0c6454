#include "checkpoint/generation_config.h"

static void read_eos(struct config *c, struct generation_config *out) {
    const char *key = "eos_token_id";
    size_t n = config_list(c, key);
    if (n > GENERATION_EOS_MAX) {
        config_fail(c, key, "at most %d ids are supported", GENERATION_EOS_MAX);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        int64_t id = config_list_int(c, key, i);
        if (id < 0 || id > INT32_MAX) {
            config_fail(c, key, "an id must be in 0 .. %d", INT32_MAX);
            return;
        }
        bool seen = false;
        for (size_t k = 0; k < out->eos_count; k++) seen = seen || out->eos[k] == (int32_t)id;
        if (!seen) out->eos[out->eos_count++] = (int32_t)id;
    }
}

static double in_range(struct config *c, const char *key, bool *has, double least, double most) {
    *has = config_has(c, key);
    double v = config_number(c, key, least);
    if (v < least || v > most) config_fail(c, key, "must be in %g .. %g", least, most);
    return v;
}

static void read_sampling(struct config *c, struct generation_config *out) {
    out->temperature = in_range(c, "temperature", &out->has_temperature, 0, 1000);
    out->top_p = in_range(c, "top_p", &out->has_top_p, 0, 1);
    out->min_p = in_range(c, "min_p", &out->has_min_p, 0, 1);
    out->repetition_penalty =
        in_range(c, "repetition_penalty", &out->has_repetition_penalty, 0, 1000);
    out->has_top_k = config_has(c, "top_k");
    out->top_k = config_int(c, "top_k", 0);
    if (out->top_k < 0) out->top_k = 0; // some publishers write -1 for "all"
    out->has_do_sample = config_has(c, "do_sample");
    out->do_sample = config_bool(c, "do_sample", false);
}

bool generation_config_read(const char *path, struct config *config, struct generation_config *out,
                            struct error *e) {
    *out = (struct generation_config){0};
    struct config *own = config_open_beside(path, "generation_config.json", e);
    if (own) {
        read_eos(own, out);
        read_sampling(own, out);
        config_ok(own, e);
        config_close(own);
    }
    if (e->set) return false;
    if (!out->eos_count) read_eos(config, out);
    struct config *text = out->eos_count ? NULL : config_child(config, "text_config");
    if (text) read_eos(text, out);
    return config_ok(config, e);
}
