// Convolutions, scans and recurrences, for the vector files (vec.h). Lanes are channels, each of
// which is computed the same way wherever it is in a vector and whatever rows are beside its own.
#ifndef COMPUTE_CPU_SIMD_RECURRENT_H
#define COMPUTE_CPU_SIMD_RECURRENT_H

#include "compute/cpu/vec.h"

// n <= LANES floats, and zeros after them
static inline vf load_part(const float *p, int64_t n) {
    return n == LANES ? vf_load(p) : vf_load_n(p, n);
}

static inline void store_part(float *p, vf a, int64_t n) {
    if (n == LANES)
        vf_store(p, a);
    else
        vf_store_n(p, a, n);
}

static inline int64_t part(int64_t left) { return left < LANES ? left : LANES; }

static void convolve_row(float *y, const float *const *x, const float *w, const float *b, int taps,
                         int64_t n, int64_t ld) {
    for (int64_t i = 0; i < n; i += LANES) {
        int64_t lanes = part(n - i);
        vf sum = b ? load_part(b + i, lanes) : vf_zero();
        for (int k = 0; k < taps; k++)
            sum = vf_fma(load_part(w + k * ld + i, lanes), load_part(x[k] + i, lanes), sum);
        store_part(y + i, sum, lanes);
    }
}

// Channels [i, i + n) through all rows.
static void scan_part(const struct scan *s, int64_t i, int64_t n) {
    vf d = load_part(s->d + i, n);
    for (int64_t row = 0; row < s->rows; row++) {
        vf x = load_part(s->x + row * s->ld_x + i, n);
        vf dt = vf_softplus(load_part(s->delta + row * s->ld_delta + i, n));
        vf in = vf_mul(dt, x), y = vf_mul(d, x);
        for (int64_t k = 0; k < s->states; k++) {
            int64_t at = k * s->ld_h + i;
            vf keep = vf_exp(vf_mul(dt, load_part(s->a + at, n)));
            vf take = vf_mul(in, vf_set(s->b[row * s->ld_b + k]));
            vf h = vf_fma(keep, load_part(s->h + at, n), take);
            store_part(s->h + at, h, n);
            y = vf_fma(h, vf_set(s->c[row * s->ld_c + k]), y);
        }
        store_part(s->y + row * s->ld_y + i, y, n);
    }
}

static void scan_rows(const struct scan *s) {
    for (int64_t i = 0; i < s->channels; i += LANES) scan_part(s, i, part(s->channels - i));
}

static void lru_part(const struct lru *l, int64_t i, int64_t n) {
    vf h = load_part(l->h + i, n), rate = load_part(l->rate + i, n), zero = vf_zero();
    for (int64_t row = 0; row < l->rows; row++) {
        vf log_a = vf_mul(rate, vf_sigmoid(load_part(l->gate + row * l->ld_gate + i, n)));
        vf in = vf_sigmoid(load_part(l->input + row * l->ld_input + i, n));
        in = vf_mul(in, load_part(l->x + row * l->ld_x + i, n));
        if (!l->first || row > 0)
            in = vf_mul(in, vf_sqrt(vf_sub(zero, vf_expm1(vf_add(log_a, log_a)))));
        h = vf_fma(vf_exp(log_a), h, in);
        store_part(l->y + row * l->ld_y + i, h, n);
    }
    store_part(l->h + i, h, n);
}

static void lru_rows(const struct lru *l) {
    for (int64_t i = 0; i < l->channels; i += LANES) lru_part(l, i, part(l->channels - i));
}

static float ssd_score(const float *c, const float *b, int64_t n) {
    vf sum = vf_zero();
    for (int64_t i = 0; i < n; i += LANES)
        sum = vf_fma(load_part(c + i, part(n - i)), load_part(b + i, part(n - i)), sum);
    return vf_sum(sum);
}

static void ssd_scores(const struct ssd_rows *s, float *scores) {
    for (int64_t t = s->from; t < s->to; t++)
        for (int64_t k = 0; k <= t; k++)
            scores[t * SSD_CHUNK + k] = ssd_score(s->c[t], s->b[k], s->states);
}

// Rows [t, t + rows) of the columns from i on: `vectors` whole ones, or n columns when it is one.
// h and x are read once for all rows.
INLINE void ssd_tile(const struct ssd_rows *s, int64_t t, int64_t i, int64_t n, int rows,
                     int vectors) {
    vf sum[4][4], in[4];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) sum[r][v] = vf_zero();
    for (int64_t k = 0; k < s->states; k++) {
        for (int v = 0; v < vectors; v++) in[v] = load_part(s->h + k * s->width + i + v * LANES, n);
        for (int r = 0; r < rows; r++) {
            vf c = vf_set(s->c[t + r][k]);
            for (int v = 0; v < vectors; v++) sum[r][v] = vf_fma(c, in[v], sum[r][v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) sum[r][v] = vf_mul(vf_set(s->decay[t + r]), sum[r][v]);
    for (int64_t k = 0; k < t + rows; k++) {
        for (int v = 0; v < vectors; v++) in[v] = load_part(s->x[k] + i + v * LANES, n);
        for (int r = 0; r < rows; r++) {
            if (k > t + r) continue;
            vf mix = vf_set(s->mix[(t + r) * SSD_CHUNK + k]);
            for (int v = 0; v < vectors; v++) sum[r][v] = vf_fma(mix, in[v], sum[r][v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) {
            vf x = load_part(s->x[t + r] + i + v * LANES, n);
            store_part(s->y[t + r] + i + v * LANES, vf_fma(vf_set(s->d), x, sum[r][v]), n);
        }
}

static void ssd_rows(const struct ssd_rows *s) {
    int64_t t = s->from;
    for (; t + 4 <= s->to; t += 4) {
        int64_t i = 0;
        for (; i + 2 * LANES <= s->width; i += 2 * LANES) ssd_tile(s, t, i, LANES, 4, 2);
        for (; i < s->width; i += LANES) ssd_tile(s, t, i, part(s->width - i), 4, 1);
    }
    for (; t < s->to; t++) {
        int64_t i = 0;
        for (; i + 4 * LANES <= s->width; i += 4 * LANES) ssd_tile(s, t, i, LANES, 1, 4);
        for (; i < s->width; i += LANES) ssd_tile(s, t, i, part(s->width - i), 1, 1);
    }
}

// Rows [k, k + rows) of h.
INLINE void carry_tile(const struct ssd_rows *s, const float *x, float by, int64_t k, int rows) {
    for (int64_t i = 0; i < s->width; i += LANES) {
        int64_t n = part(s->width - i);
        vf sum[8];
        for (int r = 0; r < rows; r++)
            sum[r] = vf_mul(vf_set(by), load_part(s->h + (k + r) * s->width + i, n));
        for (int64_t t = 0; t < SSD_CHUNK; t++) {
            vf in = load_part(x + t * s->width + i, n);
            for (int r = 0; r < rows; r++) sum[r] = vf_fma(vf_set(s->b[t][k + r]), in, sum[r]);
        }
        for (int r = 0; r < rows; r++) store_part(s->h + (k + r) * s->width + i, sum[r], n);
    }
}

static void ssd_carry(const struct ssd_rows *s, const float *x, float by) {
    int64_t k = 0;
    for (; k + 8 <= s->states; k += 8) carry_tile(s, x, by, k, 8);
    for (; k < s->states; k++) carry_tile(s, x, by, k, 1);
}

#endif
