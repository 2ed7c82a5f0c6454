#include "checkpoint/rope_config.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

// The object that describes the rotation, or NULL where the config has none. rope_scaling wins over
// rope_parameters where both are there, as in transformers.
static struct config *find_parameters(struct config *c, const char *layer_type) {
    struct config *scaling = config_child(c, "rope_scaling");
    struct config *params = config_child(c, "rope_parameters");
    if (!scaling) scaling = params;
    if (!scaling) return NULL;
    if (layer_type && config_has(scaling, layer_type)) return config_child(scaling, layer_type);
    if (!layer_type &&
        (config_has(scaling, "full_attention") || config_has(scaling, "sliding_attention")))
        config_fail(scaling, "full_attention", "one rotation per layer type is not supported here");
    return scaling;
}

// Frequencies are computed in floats: what these round to 0 or infinity would make every logit NaN.
static bool positive(struct config *c, const char *key, double value) {
    return (value >= 1e-9 && value <= 1e18) || config_fail(c, key, "must be in 1e-9 .. 1e18");
}

static bool read_kind(struct config *p, struct rope_config *out) {
    const char *key = config_has(p, "rope_type") ? "rope_type" : "type";
    struct sv kind = config_text(p, key, "default");
    if (config_has(p, "factor") && !config_has(p, key))
        return config_fail(p, "factor", "without a rope_type it does not say how to scale");
    config_has(p, "type");
    if (sv_is(kind, "default"))
        out->kind = ROPE_DEFAULT;
    else if (sv_is(kind, "linear"))
        out->kind = ROPE_LINEAR;
    else if (sv_is(kind, "llama3"))
        out->kind = ROPE_LLAMA3;
    else if (sv_is(kind, "yarn"))
        out->kind = ROPE_YARN;
    else if (sv_is(kind, "longrope") || sv_is(kind, "su")) // its first name
        out->kind = ROPE_LONG;
    else
        return config_fail(
            p, key, "this engine rotates positions by default, linear, llama3, yarn or longrope");
    return true;
}

static void read_yarn(struct config *p, struct rope_config *out) {
    out->attention_factor = config_number(p, "attention_factor", 0);
    if (config_has(p, "attention_factor")) positive(p, "attention_factor", out->attention_factor);
    out->beta_fast = config_number(p, "beta_fast", 0);
    out->beta_slow = config_number(p, "beta_slow", 0);
    if (out->beta_fast == 0) out->beta_fast = 32;
    if (out->beta_slow == 0) out->beta_slow = 1;
    positive(p, "beta_fast", out->beta_fast);
    positive(p, "beta_slow", out->beta_slow);
    out->mscale = config_number(p, "mscale", 0);
    out->mscale_all_dim = config_number(p, "mscale_all_dim", 0);
    out->truncate = config_bool(p, "truncate", true);
}

static void read_llama3(struct config *p, struct rope_config *out) {
    out->low_freq_factor = config_number(p, "low_freq_factor", 1);
    out->high_freq_factor = config_number(p, "high_freq_factor", 4);
    positive(p, "low_freq_factor", out->low_freq_factor);
    if (out->high_freq_factor < out->low_freq_factor)
        config_fail(p, "high_freq_factor", "must not be below low_freq_factor");
}

static void read_factors(struct config *p, const char *key, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i++) {
        double factor = config_list_number(p, key, (size_t)i);
        if (!positive(p, key, factor)) return;
        out[i] = (float)factor;
    }
}

static void read_longrope(struct config *p, struct rope_config *out) {
    out->attention_factor = config_number(p, "attention_factor", 0);
    if (config_has(p, "attention_factor")) positive(p, "attention_factor", out->attention_factor);
    for (int i = 0; i < 2; i++) {
        const char *key = i ? "long_mscale" : "short_mscale";
        if (config_has(p, key)) config_fail(p, key, "this engine does not scale so");
    }
    size_t n = config_list(p, "short_factor");
    if (n < 1 || n > ROPE_FACTORS)
        config_fail(p, "short_factor", "must be a list of 1 to %d numbers", ROPE_FACTORS);
    else if (config_list(p, "long_factor") != n)
        config_fail(p, "long_factor", "must have as many numbers as short_factor (%zu)", n);
    else
        out->factors = (int64_t)n;
    read_factors(p, "short_factor", out->factors, out->short_factor);
    read_factors(p, "long_factor", out->factors, out->long_factor);
}

// The context before scaling: a key beside the rope keys comes first, then the one among them.
static int64_t original_context(struct config *c, struct config *p) {
    const char *key = "original_max_position_embeddings";
    if (config_has(c, key)) return config_dim(c, key, 0);
    if (config_has(p, key)) return config_dim(p, key, 0);
    return config_dim(c, "max_position_embeddings", 0);
}

static void read_scaled(struct config *c, struct config *p, struct rope_config *out) {
    bool ratio = out->kind == ROPE_YARN || out->kind == ROPE_LONG;
    if (ratio || out->kind == ROPE_LLAMA3) out->original_context = original_context(c, p);
    if (ratio && !config_has(p, "factor"))
        out->factor =
            (double)config_dim(c, "max_position_embeddings", 0) / (double)out->original_context;
    else if (!config_has(p, "factor"))
        config_fail(p, "factor", "this kind of rotation needs it");
    else if (!positive(p, "factor", out->factor = config_number(p, "factor", 1)))
        out->factor = 1;
    if (out->kind == ROPE_YARN) read_yarn(p, out);
    if (out->kind == ROPE_LLAMA3) read_llama3(p, out);
    if (out->kind == ROPE_LONG) read_longrope(p, out);
}

bool rope_config_read(struct config *c, const char *layer_type, double default_theta,
                      struct rope_config *out) {
    const char *base_key = config_has(c, "rotary_emb_base") ? "rotary_emb_base" : "rope_theta";
    const char *part_key = config_has(c, "rotary_pct") ? "rotary_pct" : "partial_rotary_factor";
    double theta = config_number(c, base_key, default_theta);
    double partial = config_number(c, part_key, 1);
    *out = (struct rope_config){.theta = theta, .partial = partial, .factor = 1};
    struct config *p = find_parameters(c, layer_type);
    if (p) {
        out->theta = config_number(p, "rope_theta", theta);
        out->partial = config_number(p, "partial_rotary_factor", partial);
        if (read_kind(p, out) && out->kind != ROPE_DEFAULT) read_scaled(c, p, out);
    }
    struct config *from = p && config_has(p, "rope_theta") ? p : c;
    if (from == p) base_key = "rope_theta";
    if (positive(from, base_key, out->theta) && out->kind == ROPE_YARN && out->theta <= 1)
        config_fail(from, base_key, "must be above 1 for yarn");
    from = p && config_has(p, "partial_rotary_factor") ? p : c;
    if (from == p) part_key = "partial_rotary_factor";
    if (!(out->partial > 0 && out->partial <= 1))
        config_fail(from, part_key, "must be above 0 and at most 1");
    struct error ignored = {0};
    return config_ok(c, &ignored);
}

// --- frequencies -------------------------------------------------------------------------------

static float base_frequency(const struct rope_config *r, int64_t dim, int64_t pair) {
    return 1.0f / powf((float)r->theta, (float)(2 * pair) / (float)dim);
}

// Long waves are slowed by factor, short ones kept, those between interpolated.
static float llama3_frequency(const struct rope_config *r, float f) {
    float context = (float)r->original_context, factor = (float)r->factor;
    float low = (float)r->low_freq_factor, high = (float)r->high_freq_factor;
    float wave = (float)(2 * PI) / f;
    if (wave < (float)((double)r->original_context / r->high_freq_factor)) return f;
    if (wave > (float)((double)r->original_context / r->low_freq_factor)) return f / factor;
    if (low == high) return f; // nothing is between (Llama 4)
    float smooth = (context / wave - low) / (high - low);
    return (1 - smooth) * f / factor + smooth * f;
}

// The (fractional) pair whose wave turns `turns` times in the original context.
static double yarn_pair(const struct rope_config *r, int64_t dim, double turns) {
    double context = (double)r->original_context;
    return (double)dim * log(context / (turns * 2 * PI)) / (2 * log(r->theta));
}

static void yarn_frequencies(const struct rope_config *r, int64_t dim, float *inv_freq) {
    double low = yarn_pair(r, dim, r->beta_fast), high = yarn_pair(r, dim, r->beta_slow);
    if (r->truncate) low = floor(low), high = ceil(high);
    low = fmax(low, 0);
    high = fmin(high, (double)(dim - 1));
    if (low == high) high += 0.001;
    for (int64_t i = 0; i < dim / 2; i++) {
        float power = powf((float)r->theta, (float)(2 * i) / (float)dim);
        float ramp = ((float)i - (float)low) / (float)(high - low);
        float keep = 1 - fminf(fmaxf(ramp, 0), 1);
        inv_freq[i] = 1.0f / ((float)r->factor * power) * (1 - keep) + 1.0f / power * keep;
    }
}

static void longrope_frequencies(const struct rope_config *r, const float *factors, int64_t dim,
                                 float *inv_freq) {
    for (int64_t i = 0; i < dim / 2; i++) {
        float factor = i < r->factors ? factors[i] : 1;
        inv_freq[i] = 1.0f / (factor * powf((float)r->theta, (float)(2 * i) / (float)dim));
    }
}

static double longrope_scale(const struct rope_config *r) {
    if (r->attention_factor != 0) return r->attention_factor;
    if (r->factor <= 1 || r->original_context < 2) return 1;
    return sqrt(1 + log(r->factor) / log((double)r->original_context));
}

static double yarn_mscale(double factor, double mscale) {
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static double yarn_scale(const struct rope_config *r) {
    if (r->attention_factor != 0) return r->attention_factor;
    if (r->mscale != 0 && r->mscale_all_dim != 0)
        return yarn_mscale(r->factor, r->mscale) / yarn_mscale(r->factor, r->mscale_all_dim);
    return yarn_mscale(r->factor, 1);
}

void rope_frequencies(const struct rope_config *r, int64_t dim, float *inv_freq, float *scale) {
    *scale = 1;
    if (r->kind == ROPE_YARN) {
        *scale = (float)yarn_scale(r);
        yarn_frequencies(r, dim, inv_freq);
        return;
    }
    if (r->kind == ROPE_LONG) {
        *scale = (float)longrope_scale(r);
        longrope_frequencies(r, r->short_factor, dim, inv_freq);
        return;
    }
    for (int64_t i = 0; i < dim / 2; i++) {
        float f = base_frequency(r, dim, i);
        if (r->kind == ROPE_LINEAR) f /= (float)r->factor;
        if (r->kind == ROPE_LLAMA3) f = llama3_frequency(r, f);
        inv_freq[i] = f;
    }
}

void rope_long_frequencies(const struct rope_config *r, int64_t dim, float *inv_freq) {
    longrope_frequencies(r, r->long_factor, dim, inv_freq);
}
