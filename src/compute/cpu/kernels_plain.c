// The definition of every kernel, in plain C.
#include "compute/cpu/kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

// Eight partial sums: less rounding than one, and a loop the compiler can turn into vectors.
static float dot(const float *a, const float *b, int64_t n) {
    float sum[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++) sum[k] += a[i + k] * b[i + k];
    for (; i < n; i++) sum[i & 7] += a[i] * b[i];
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

const int8_t e2m1_twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static float element(struct tensor t, int64_t row, int64_t i) {
    return load_float(t.data, t.type, row * t.stride[0] + i * t.stride[1]);
}

static void dequantize_row(const struct weight *w, int64_t row, float *y) {
    if (w->layout == WEIGHT_DENSE) {
        for (int64_t i = 0; i < w->in; i++) y[i] = element(w->data, row, i);
        return;
    }
    if (w->layout == WEIGHT_F8) {
        for (int64_t i = 0; i < w->in; i++)
            y[i] = element(w->data, row, i) *
                   element(w->scales, (w->block_row + row) / w->block_rows, i / w->group);
        return;
    }
    const uint32_t *codes = (const uint32_t *)w->data.data + row * w->data.stride[0];
    for (int64_t g = 0; g < w->in / w->group; g++) {
        float scale = element(w->scales, row, g);
        if (w->layout == WEIGHT_NVFP4) scale *= w->factor;
        float bias = w->layout == WEIGHT_AFFINE ? element(w->biases, row, g) : 0;
        for (int64_t i = g * w->group; i < (g + 1) * w->group; i++) {
            uint32_t code = code_at(codes, 1, w->bits, i);
            y[i] = w->layout == WEIGHT_AFFINE ? scale * (float)code + bias
                                              : scale * (0.5f * (float)e2m1_twice[code]);
        }
    }
}

static void matmul_tile(const struct matmul *m, const struct tile *t, float *work) {
    const struct weight *w = m->w;
    for (int64_t o = t->o0; o < t->o1; o++) {
        dequantize_row(w, o, work);
        float bias = w->bias.dims ? ((const float *)w->bias.data)[o] : 0;
        for (int64_t r = t->r0; r < t->r1; r++)
            m->y[r * m->ldy + o] = dot(work, m->x + r * m->ldx, w->in) + bias;
    }
}

static float mean_square(const float *x, int64_t n) { return dot(x, x, n) / (float)n; }

static float exp_sum(const float *x, int64_t n, float less, float by) {
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum += expf((x[i] - less) * by);
    return sum;
}

static void rms_norm_row(float *y, const float *x, const float *w, int64_t n, float eps) {
    float scale = 1.0f / sqrtf(mean_square(x, n) + eps);
    for (int64_t i = 0; i < n; i++) y[i] = w ? x[i] * scale * w[i] : x[i] * scale;
}

// y = x - mean. A variance is that of the differences to the mean: the mean of squares less the
// square of the mean would cancel.
static void centre_row(float *y, const float *x, int64_t n) {
    float sum[8] = {0};
    for (int64_t i = 0; i < n; i++) sum[i & 7] += x[i];
    for (int k = 1; k < 8; k++) sum[0] += sum[k];
    float mean = sum[0] / (float)n;
    for (int64_t i = 0; i < n; i++) y[i] = x[i] - mean;
}

static void cut_below_row(float *x, int64_t n, float by) {
    centre_row(x, x, n);
    float least = by * sqrtf(mean_square(x, n));
    for (int64_t i = 0; i < n; i++) x[i] = x[i] < least ? 0 : x[i] - least;
}

static void layer_norm_row(float *y, const float *x, const float *w, const float *b, int64_t n,
                           float eps) {
    centre_row(y, x, n);
    float scale = 1.0f / sqrtf(mean_square(y, n) + eps);
    for (int64_t i = 0; i < n; i++) y[i] = y[i] * scale * (w ? w[i] : 1) + (b ? b[i] : 0);
}

static float activated(float x, enum activation act) {
    switch (act) {
    case ACT_SILU: return x / (1.0f + expf(-x));
    case ACT_GELU: return 0.5f * x * erfcf(-0.70710678118f * x);
    case ACT_GELU_TANH: return x / (1.0f + expf(-x * (GELU_LINEAR + GELU_CUBIC * x * x)));
    case ACT_QUICK_GELU: return x / (1.0f + expf(-1.702f * x));
    case ACT_RELU_SQUARED: return x < 0 ? 0 : x * x;
    case ACT_SIGMOID: return 1.0f / (1.0f + expf(-x));
    case ACT_NONE: return x;
    }
    return x;
}

static void activate_row(float *x, int64_t n, enum activation act) {
    for (int64_t i = 0; i < n; i++) x[i] = activated(x[i], act);
}

static void act_mul_row(float *y, const float *a, const float *b, int64_t n, enum activation act) {
    for (int64_t i = 0; i < n; i++) y[i] = activated(a[i], act) * b[i];
}

static void add_row(float *x, const float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] += y[i];
}

static void scale_row(float *x, int64_t n, float by) {
    for (int64_t i = 0; i < n; i++) x[i] *= by;
}

static void soft_cap_row(float *x, int64_t n, float cap) {
    for (int64_t i = 0; i < n; i++) x[i] = cap * tanhf(x[i] / cap);
}

static void add_scaled_row(float *x, const float *y, int64_t n, float by) {
    for (int64_t i = 0; i < n; i++) x[i] += by * y[i];
}

static void clamp_row(float *x, int64_t n, float least, float most, float plus) {
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] < least ? least : x[i];
        x[i] = (v > most ? most : v) + plus;
    }
}

static void rope_angles(float *cos, float *sin, const float *freq, int64_t n, float at,
                        float scale) {
    for (int64_t i = 0; i < n; i++) {
        cos[i] = cosf(at * freq[i]) * scale;
        sin[i] = sinf(at * freq[i]) * scale;
    }
}

static void rotate_row(float *a, float *b, const float *cos, const float *sin, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float was = a[i];
        a[i] = was * cos[i] - b[i] * sin[i];
        b[i] = b[i] * cos[i] + was * sin[i];
    }
}

static void rotate_pairs_row(float *a, const float *cos, const float *sin, int64_t n) {
    for (int64_t i = 0; i < n; i++) rotate_row(a + 2 * i, a + 2 * i + 1, cos + i, sin + i, 1);
}

static void convert_row(void *to, enum dtype type, const float *from, int64_t n) {
    for (int64_t i = 0; i < n; i++) store_float(to, type, i, from[i]);
}

void keep_row(int8_t *q, uint16_t *scale, const float *x, int64_t n) {
    for (int64_t b = 0; b < kv_blocks(n); b++, x += KV_BLOCK, q += KV_BLOCK) {
        int64_t count = n - b * KV_BLOCK < KV_BLOCK ? n - b * KV_BLOCK : KV_BLOCK;
        float most = 0;
        bool finite = true;
        for (int64_t i = 0; i < count; i++) {
            finite = finite && isfinite(x[i]);
            most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
        }
        // Rounded up, so that no element is over 127 of it.
        uint32_t bits;
        float unit = most < 127 * FLT_MIN ? 0 : most / 127;
        memcpy(&bits, &unit, sizeof bits);
        scale[b] = finite ? (uint16_t)((bits + 0xffff) >> 16) : 0x7fc0;
        float by = finite && unit > 0 ? 1 / bf16_to_f32(scale[b]) : 0;
        for (int64_t i = 0; i < count; i++) q[i] = by > 0 ? (int8_t)rintf(x[i] * by) : 0;
    }
}

// Element `i` of a kept row or column; block: of its scale.
static float kept(const struct kept *k, enum dtype type, int64_t i, int64_t block) {
    if (type != DT_I8) return load_float(k->p, type, i);
    return (float)((const int8_t *)k->p)[i] * bf16_to_f32(k->scale[block]);
}

static float kept_key(const struct attend *a, const struct kept *k, int64_t t, int64_t i) {
    int64_t b = i / KV_BLOCK;
    if (a->across) return kept(k, a->k_type, i * a->page + t, b * a->page + t);
    return kept(k, a->k_type, t * a->k_width + i, t * kv_blocks(a->k_width) + b);
}

static float kept_value(const struct attend *a, const struct kept *v, int64_t t, int64_t i) {
    return kept(v, a->v_type, t * a->ldv + i, t * kv_blocks(a->ldv) + i / KV_BLOCK);
}

static void attend_query(const struct attend *a, int64_t m, int64_t from, int64_t to, float *s) {
    float *acc = a->acc + m * a->v_width, was = a->top[m], top = was;
    int64_t t = 0;
    for (const struct attend_piece *p = a->piece; p < a->piece + a->pieces; p++)
        for (int64_t i = 0; i < p->count; i++, t++) {
            if (t < from || t >= to) continue;
            float sum = 0;
            for (int64_t k = 0; k < a->k_width; k++)
                sum += a->q[m * a->k_width + k] * kept_key(a, &p->k, i, k);
            s[t] = a->soft_cap > 0 ? a->soft_cap * tanhf(sum / a->soft_cap) : sum;
            top = s[t] > top ? s[t] : top;
        }
    float keep = expf(was - top);
    a->top[m] = top;
    a->sum[m] *= keep;
    for (int64_t i = 0; i < a->v_width; i++) acc[i] *= keep;
    t = 0;
    for (const struct attend_piece *p = a->piece; p < a->piece + a->pieces; p++)
        for (int64_t i = 0; i < p->count; i++, t++) {
            if (t < from || t >= to) continue;
            float weight = expf(s[t] - top);
            a->sum[m] += weight;
            for (int64_t k = 0; k < a->v_width; k++) acc[k] += weight * kept_value(a, &p->v, i, k);
        }
}

static void attend_step(const struct attend *a) {
    for (int64_t m = 0; m < a->queries; m++) {
        int64_t from = a->from[m] > a->at ? a->from[m] - a->at : 0;
        int64_t to = a->to[m] - a->at < a->count ? a->to[m] - a->at : a->count;
        if (from < to) attend_query(a, m, from, to, a->work);
    }
}

static void convolve_row(float *y, const float *const *x, const float *w, const float *b, int taps,
                         int64_t n, int64_t ld) {
    for (int64_t i = 0; i < n; i++) {
        float sum = b ? b[i] : 0;
        for (int k = 0; k < taps; k++) sum += w[k * ld + i] * x[k][i];
        y[i] = sum;
    }
}

static float softplus(float x) { return fmaxf(x, 0) + log1pf(expf(-fabsf(x))); }

static void scan_row(const struct scan *s, int64_t row, int64_t i) {
    float delta = s->delta[row * s->ld_delta + i], x = s->x[row * s->ld_x + i];
    float dt = softplus(delta), y = s->d[i] * x;
    for (int64_t k = 0; k < s->states; k++) {
        float *h = s->h + k * s->ld_h + i;
        *h = expf(dt * s->a[k * s->ld_h + i]) * *h + dt * x * s->b[row * s->ld_b + k];
        y += *h * s->c[row * s->ld_c + k];
    }
    s->y[row * s->ld_y + i] = y;
}

static void scan_rows(const struct scan *s) {
    for (int64_t row = 0; row < s->rows; row++)
        for (int64_t i = 0; i < s->channels; i++) scan_row(s, row, i);
}

static float sigmoid(float x) { return 1 / (1 + expf(-x)); }

// 1 - a^2 from the logarithm of a: near 1, a itself says little about it.
static void lru_rows(const struct lru *l) {
    for (int64_t row = 0; row < l->rows; row++)
        for (int64_t i = 0; i < l->channels; i++) {
            float log_a = l->rate[i] * sigmoid(l->gate[row * l->ld_gate + i]);
            float in = sigmoid(l->input[row * l->ld_input + i]) * l->x[row * l->ld_x + i];
            bool first = l->first && row == 0;
            l->h[i] = expf(log_a) * l->h[i] + (first ? 1 : sqrtf(-expm1f(2 * log_a))) * in;
            l->y[row * l->ld_y + i] = l->h[i];
        }
}

static void ssd_scores(const struct ssd_rows *s, float *scores) {
    for (int64_t t = s->from; t < s->to; t++)
        for (int64_t k = 0; k <= t; k++)
            scores[t * SSD_CHUNK + k] = dot(s->c[t], s->b[k], s->states);
}

static void ssd_rows(const struct ssd_rows *s) {
    for (int64_t t = s->from; t < s->to; t++)
        for (int64_t i = 0; i < s->width; i++) {
            float y = 0;
            for (int64_t k = 0; k < s->states; k++) y += s->c[t][k] * s->h[k * s->width + i];
            y *= s->decay[t];
            for (int64_t k = 0; k <= t; k++) y += s->mix[t * SSD_CHUNK + k] * s->x[k][i];
            s->y[t][i] = y + s->d * s->x[t][i];
        }
}

static void ssd_carry(const struct ssd_rows *s, const float *x, float by) {
    for (int64_t k = 0; k < s->states; k++)
        for (int64_t i = 0; i < s->width; i++) {
            float sum = by * s->h[k * s->width + i];
            for (int64_t t = 0; t < SSD_CHUNK; t++) sum += s->b[t][k] * x[t * s->width + i];
            s->h[k * s->width + i] = sum;
        }
}

static void log_decay_row(float *y, const float *x, const float *rate, const float *bias,
                          int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = rate[i] * softplus(x[i] + bias[i]);
}

static void delta_row(const struct delta_row *d) {
    int64_t n = d->width;
    float *keep = d->work, *a = keep + n, *key = d->keys + d->before * n;
    for (int64_t i = 0; i < n; i++) {
        keep[i] = expf(d->g[d->each ? i : 0]);
        a[i] = d->a ? d->a[i] : -keep[i] * d->k[i];
        d->a_decayed[i] = a[i] * d->decay[i];
        d->decay[i] *= keep[i];
        d->r_decayed[i] = d->r[i] * d->decay[i];
        key[i] = d->a ? d->b[i] : d->beta * d->k[i];
        if (d->a) key[n + i] = d->k[i];
    }
    for (int64_t j = 0; j < d->before; j++) {
        d->a_scores[j] = dot(a, d->keys + j * n, n);
        for (int64_t i = 0; i < n; i++) d->keys[j * n + i] *= keep[i];
    }
    for (int64_t j = 0; j < d->count; j++) d->r_scores[j] = dot(d->r, d->keys + j * n, n);
}

static void delta_read(const struct delta_read *d) {
    for (int64_t row = 0; row < d->rows; row++)
        for (int64_t i = 0; i < d->v_width; i++) {
            float sum = 0;
            for (int64_t k = 0; k < d->k_width; k++)
                sum += d->x[row * d->k_width + k] * d->h[k * d->v_width + i];
            d->y[row * d->v_width + i] = sum;
        }
}

static void delta_mix(const struct delta_mix *d) {
    for (int64_t i = 0; i < d->width; i++) {
        float sum = d->from[i];
        for (int64_t j = 0; j < d->count; j++) sum += d->by[j] * d->x[j * d->width + i];
        d->y[i] = sum;
    }
}

static void delta_carry(const struct delta_carry *d) {
    for (int64_t k = 0; k < d->k_width; k++)
        for (int64_t i = 0; i < d->v_width; i++) {
            float sum = d->decay[k] * d->h[k * d->v_width + i];
            for (int64_t j = 0; j < d->count; j++)
                sum += d->keys[j * d->k_width + k] * d->values[j * d->v_width + i];
            d->h[k * d->v_width + i] = sum;
        }
}

const struct cpu_kernels kernels_plain = {
    .matmul = matmul_tile,
    .dequantize_row = dequantize_row,
    .rms_norm = rms_norm_row,
    .layer_norm = layer_norm_row,
    .activate = activate_row,
    .act_mul = act_mul_row,
    .add = add_row,
    .scale = scale_row,
    .soft_cap = soft_cap_row,
    .add_scaled = add_scaled_row,
    .mean_square = mean_square,
    .exp_sum = exp_sum,
    .cut_below = cut_below_row,
    .clamp = clamp_row,
    .angles = rope_angles,
    .rotate = rotate_row,
    .rotate_pairs = rotate_pairs_row,
    .convert = convert_row,
    .attend = attend_step,
    .convolve = convolve_row,
    .scan = scan_rows,
    .lru = lru_rows,
    .ssd_scores = ssd_scores,
    .ssd_rows = ssd_rows,
    .ssd_carry = ssd_carry,
    .log_decay = log_decay_row,
    .delta_row = delta_row,
    .delta_read = delta_read,
    .delta_mix = delta_mix,
    .delta_carry = delta_carry,
};
