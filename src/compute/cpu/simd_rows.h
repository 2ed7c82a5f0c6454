// Kernels over one row, for the vector files (vec.h).
#ifndef COMPUTE_CPU_SIMD_ROWS_H
#define COMPUTE_CPU_SIMD_ROWS_H

#include "compute/cpu/vec.h"

static float mean_square(const float *x, int64_t n) {
    vf sum = vf_zero(), more = vf_zero();
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        vf a = vf_load(x + i), b = vf_load(x + i + LANES);
        sum = vf_fma(a, a, sum);
        more = vf_fma(b, b, more);
    }
    for (; i < n; i += LANES) {
        vf a = n - i < LANES ? vf_load_n(x + i, n - i) : vf_load(x + i);
        sum = vf_fma(a, a, sum);
    }
    return vf_sum(vf_add(sum, more)) / (float)n;
}

static float exp_sum(const float *x, int64_t n, float less, float by) {
    vf sum = vf_zero(), least = vf_set(less), times = vf_set(by);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        sum = vf_add(sum, vf_exp(vf_mul(vf_sub(vf_load(x + i), least), times)));
    float rest = 0;
    for (; i < n; i++) rest += expf((x[i] - less) * by);
    return vf_sum(sum) + rest;
}

static void rms_norm_row(float *y, const float *x, const float *w, int64_t n, float eps) {
    float scale = 1.0f / sqrtf(mean_square(x, n) + eps);
    vf s = vf_set(scale);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf a = vf_mul(vf_load(x + i), s);
        vf_store(y + i, w ? vf_mul(a, vf_load(w + i)) : a);
    }
    for (; i < n; i++) y[i] = w ? x[i] * scale * w[i] : x[i] * scale;
}

// y = x - mean; returns the mean of squares of y, the variance of x.
static float centre_row(float *y, const float *x, int64_t n) {
    vf sum = vf_zero(), squares = vf_zero();
    int64_t i = 0;
    for (; i < n; i += LANES)
        sum = vf_add(sum, n - i < LANES ? vf_load_n(x + i, n - i) : vf_load(x + i));
    float mean = vf_sum(sum) / (float)n;
    for (i = 0; i + LANES <= n; i += LANES) {
        vf a = vf_sub(vf_load(x + i), vf_set(mean));
        squares = vf_fma(a, a, squares);
        vf_store(y + i, a);
    }
    float rest = 0;
    for (; i < n; i++) {
        y[i] = x[i] - mean;
        rest += y[i] * y[i];
    }
    return (vf_sum(squares) + rest) / (float)n;
}

static void cut_below_row(float *x, int64_t n, float by) {
    float least = by * sqrtf(centre_row(x, x, n));
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vf_store(x + i, vf_max(vf_zero(), vf_sub(vf_load(x + i), vf_set(least))));
    for (; i < n; i++) x[i] = x[i] < least ? 0 : x[i] - least;
}

static void layer_norm_row(float *y, const float *x, const float *w, const float *b, int64_t n,
                           float eps) {
    float scale = 1.0f / sqrtf(centre_row(y, x, n) + eps);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf a = vf_mul(vf_load(y + i), vf_set(scale));
        if (w) a = vf_mul(a, vf_load(w + i));
        vf_store(y + i, b ? vf_add(a, vf_load(b + i)) : a);
    }
    for (; i < n; i++) y[i] = y[i] * scale * (w ? w[i] : 1) + (b ? b[i] : 0);
}

static inline vf logistic_product(vf x, vf u) { // x / (1 + e^-u)
    return vf_div(x, vf_add(vf_set(1.0f), vf_exp(vf_sub(vf_zero(), u))));
}

// erfc(z) for z >= 0 is t p(t) e^(-z^2), t = 1 / (1 + 0.3275911 z), within 1.5e-7 (Abramowitz and
// Stegun 7.1.26). For x < 0, Phi(x) is half of erfc(-x / sqrt 2); else it is 1 less that.
static inline vf gelu(vf x) {
    vf zero = vf_zero(), one = vf_set(1.0f);
    vf z = vf_mul(vf_max(x, vf_sub(zero, x)), vf_set(0.70710678118f));
    vf t = vf_div(one, vf_fma(vf_set(0.3275911f), z, one));
    vf p = vf_fma(vf_set(1.061405429f), t, vf_set(-1.453152027f));
    p = vf_fma(p, t, vf_set(1.421413741f));
    p = vf_fma(p, t, vf_set(-0.284496736f));
    p = vf_fma(p, t, vf_set(0.254829592f));
    p = vf_mul(vf_mul(p, t), vf_exp(vf_fnma(z, z, zero)));
    // x Phi(x) = max(x, 0) - |x| erfc(|x| / sqrt 2) / 2, on both sides of 0
    vf size = vf_max(x, vf_sub(zero, x));
    return vf_fnma(vf_mul(size, vf_set(0.5f)), p, vf_max(zero, x));
}

static inline vf activated(vf x, enum activation act) {
    switch (act) {
    case ACT_SILU: return logistic_product(x, x);
    case ACT_GELU: return gelu(x);
    case ACT_GELU_TANH:
        return logistic_product(
            x, vf_mul(x, vf_fma(vf_mul(x, x), vf_set(GELU_CUBIC), vf_set(GELU_LINEAR))));
    case ACT_QUICK_GELU: return logistic_product(x, vf_mul(x, vf_set(1.702f)));
    case ACT_RELU_SQUARED: return vf_mul(vf_max(vf_zero(), x), vf_max(vf_zero(), x));
    case ACT_SIGMOID: return logistic_product(vf_set(1.0f), x);
    case ACT_NONE: return x;
    }
    return x;
}

static void activate_row(float *x, int64_t n, enum activation act) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) vf_store(x + i, activated(vf_load(x + i), act));
    if (i < n) vf_store_n(x + i, activated(vf_load_n(x + i, n - i), act), n - i);
}

static void act_mul_row(float *y, const float *a, const float *b, int64_t n, enum activation act) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vf_store(y + i, vf_mul(activated(vf_load(a + i), act), vf_load(b + i)));
    if (i == n) return;
    vf last = vf_mul(activated(vf_load_n(a + i, n - i), act), vf_load_n(b + i, n - i));
    vf_store_n(y + i, last, n - i);
}

static void add_row(float *x, const float *y, int64_t n) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) vf_store(x + i, vf_add(vf_load(x + i), vf_load(y + i)));
    for (; i < n; i++) x[i] += y[i];
}

static void scale_row(float *x, int64_t n, float by) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) vf_store(x + i, vf_mul(vf_load(x + i), vf_set(by)));
    for (; i < n; i++) x[i] *= by;
}

static void soft_cap_row(float *x, int64_t n, float cap) {
    vf by = vf_set(cap);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vf_store(x + i, vf_mul(by, vf_tanh(vf_div(vf_load(x + i), by))));
    if (i < n) vf_store_n(x + i, vf_mul(by, vf_tanh(vf_div(vf_load_n(x + i, n - i), by))), n - i);
}

static void add_scaled_row(float *x, const float *y, int64_t n, float by) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vf_store(x + i, vf_fma(vf_set(by), vf_load(y + i), vf_load(x + i)));
    for (; i < n; i++) x[i] += by * y[i];
}

static void clamp_row(float *x, int64_t n, float least, float most, float plus) {
    for (int64_t i = 0; i < n; i += LANES) {
        int64_t count = n - i < LANES ? n - i : LANES;
        vf v = count < LANES ? vf_load_n(x + i, count) : vf_load(x + i);
        v = vf_min(vf_set(most), vf_max(vf_set(least), v));
        v = vf_add(v, vf_set(plus));
        if (count < LANES)
            vf_store_n(x + i, v, count);
        else
            vf_store(x + i, v);
    }
}

// sin and cos of n <= LANES angles. A whole number of quarter turns is taken off in double, so
// that large angles keep their precision; what is left, at most pi / 4, goes into the polynomials
// of Cephes (Moshier).
static void sin_cos(const float *x, int64_t n, float *sin_out, float *cos_out) {
    for (int64_t i = 0; i < n; i++) {
        double whole = floor((double)x[i] * 0x1.45f306dc9c883p-1 + 0.5); // x / (pi / 2)
        double quarter = whole - 4 * floor(whole / 4);
        float r = (float)((double)x[i] - whole * 0x1.921fb54442d18p+0), z = r * r;
        float s = -1.9515295891e-4f * z + 8.3321608736e-3f;
        s = (s * z - 1.6666654611e-1f) * z * r + r;
        float c = 2.443315711809948e-5f * z - 1.388731625493765e-3f;
        c = (c * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1.0f;
        bool swap = quarter == 1 || quarter == 3;
        float sine = swap ? c : s, cosine = swap ? s : c;
        sin_out[i] = quarter >= 2 ? -sine : sine;
        cos_out[i] = quarter == 1 || quarter == 2 ? -cosine : cosine;
    }
}

static void rope_angles(float *cos, float *sin, const float *freq, int64_t n, float at,
                        float scale) {
    for (int64_t i = 0; i < n; i += LANES) {
        int64_t count = n - i < LANES ? n - i : LANES;
        float x[LANES];
        for (int64_t k = 0; k < count; k++) x[k] = at * freq[i + k];
        sin_cos(x, count, sin + i, cos + i);
        for (int64_t k = 0; k < count; k++) {
            cos[i + k] *= scale;
            sin[i + k] *= scale;
        }
    }
}

static void rotate_row(float *a, float *b, const float *cos, const float *sin, int64_t n) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf x = vf_load(a + i), y = vf_load(b + i), c = vf_load(cos + i), s = vf_load(sin + i);
        vf_store(a + i, vf_fnma(y, s, vf_mul(x, c)));
        vf_store(b + i, vf_fma(x, s, vf_mul(y, c)));
    }
    for (; i < n; i++) {
        float was = a[i];
        a[i] = was * cos[i] - b[i] * sin[i];
        b[i] = b[i] * cos[i] + was * sin[i];
    }
}

static void rotate_pairs_row(float *a, const float *cos, const float *sin, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float x = a[2 * i], y = a[2 * i + 1];
        a[2 * i] = x * cos[i] - y * sin[i];
        a[2 * i + 1] = y * cos[i] + x * sin[i];
    }
}

static void convert_row(void *to, enum dtype type, const float *from, int64_t n) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) vf_store_as(to, type, i, vf_load(from + i));
    for (; i < n; i++) store_float(to, type, i, from[i]);
}

// Codes [from, from + n) of a row, a byte each. from is a multiple of a group.
static void unpack_codes(uint8_t *out, const uint32_t *row, int bits, int64_t from, int64_t n) {
    if (bits == 8) {
        memcpy(out, (const uint8_t *)row + from, (size_t)n);
        return;
    }
    if (bits != 4) {
        for (int64_t i = 0; i < n; i++) out[i] = (uint8_t)code_at(row, 1, bits, from + i);
        return;
    }
    const uint8_t *packed = (const uint8_t *)row + from / 2;
    for (int64_t i = 0; i < n; i += 32) split_bytes(out + i, packed + i / 2);
}

static void dequantize_dense(struct tensor t, int64_t row, int64_t from, int64_t n, float *y) {
    int64_t i = 0, at = row * t.stride[0] + from * t.stride[1];
    if (t.stride[1] == 1)
        for (; i + LANES <= n; i += LANES) vf_store(y + i, vf_load_as(t.data, t.type, at + i));
    for (; i < n; i++) y[i] = load_float(t.data, t.type, at + i * t.stride[1]);
}

// y, of F8, times the scales of its blocks.
static void scale_blocks(const struct weight *w, int64_t row, int64_t from, int64_t n, float *y) {
    int64_t block = (w->block_row + row) / w->block_rows * w->scales.stride[0];
    for (int64_t i = from, end; i < from + n; i = end) {
        end = (i / w->group + 1) * w->group;
        if (end > from + n) end = from + n;
        scale_row(y + i - from, end - i,
                  load_float(w->scales.data, w->scales.type, block + i / w->group));
    }
}

// Codes of e2m1, MXFP4's or NVFP4's: 16 at a time.
static void dequantize_e2m1(const struct weight *w, int64_t row, int64_t from, int64_t n,
                            float *y) {
    const uint8_t *codes = (const uint8_t *)w->data.data + row * w->data.stride[0] * 4;
    float factor = w->layout == WEIGHT_NVFP4 ? w->factor : 1;
    for (int64_t at = from; at < from + n; at += 16) {
        int64_t g = row * w->scales.stride[0] + at / w->group;
        vf half = vf_set(0.5f);
        vf scale = vf_set(load_float(w->scales.data, w->scales.type, g) * factor);
        uint8_t value[16];
        look_up_codes(value, codes + at / 2, e2m1_twice);
        for (int64_t i = 0; i < 16; i += LANES)
            vf_store(y + at - from + i, vf_mul(vf_mul(vf_from_i8(value + i), half), scale));
    }
}

// Columns [from, from + n) of a weight's row, in floats. from and n are multiples of a group,
// where there are groups.
static void dequantize(const struct weight *w, int64_t row, int64_t from, int64_t n, float *y) {
    if (w->layout == WEIGHT_DENSE) {
        dequantize_dense(w->data, row, from, n, y);
        return;
    }
    if (w->layout == WEIGHT_MXFP4 || w->layout == WEIGHT_NVFP4) {
        dequantize_e2m1(w, row, from, n, y);
        return;
    }
    if (w->layout == WEIGHT_F8) {
        dequantize_dense(w->data, row, from, n, y);
        scale_blocks(w, row, from, n, y);
        return;
    }
    const uint32_t *codes = (const uint32_t *)w->data.data + row * w->data.stride[0];
    uint8_t code[128];
    for (int64_t at = from; at < from + n; at += w->group) {
        int64_t g = at / w->group;
        vf scale =
            vf_set(load_float(w->scales.data, w->scales.type, row * w->scales.stride[0] + g));
        vf bias = vf_set(load_float(w->biases.data, w->biases.type, row * w->biases.stride[0] + g));
        unpack_codes(code, codes, w->bits, at, w->group);
        for (int64_t i = 0; i < w->group; i += LANES)
            vf_store(y + at - from + i, vf_fma(vf_from_u8(code + i), scale, bias));
    }
}

static void dequantize_row(const struct weight *w, int64_t row, float *y) {
    dequantize(w, row, 0, w->in, y);
}

#endif
