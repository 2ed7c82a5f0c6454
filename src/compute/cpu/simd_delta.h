// Delta rules, for the vector files (vec.h). Lanes are the widths of keys or of values.
#ifndef COMPUTE_CPU_SIMD_DELTA_H
#define COMPUTE_CPU_SIMD_DELTA_H

#include "compute/cpu/simd_recurrent.h"

static void log_decay_row(float *y, const float *x, const float *rate, const float *bias,
                          int64_t n) {
    for (int64_t i = 0; i < n; i += LANES) {
        int64_t lanes = part(n - i);
        vf in = vf_add(load_part(x + i, lanes), load_part(bias + i, lanes));
        store_part(y + i, vf_mul(load_part(rate + i, lanes), vf_softplus(in)), lanes);
    }
}

// Lanes [i, i + n) of a row's own: its decay, its a, its keys.
static void delta_prepare(const struct delta_row *d, int64_t i, int64_t n) {
    float *key = d->keys + d->before * d->width + i;
    vf keep = vf_exp(d->each ? load_part(d->g + i, n) : vf_set(*d->g));
    vf k = load_part(d->k + i, n), decay = load_part(d->decay + i, n);
    vf a = d->a ? load_part(d->a + i, n) : vf_sub(vf_zero(), vf_mul(keep, k));
    store_part(d->work + i, keep, n);
    store_part(d->work + d->width + i, a, n);
    store_part(d->a_decayed + i, vf_mul(a, decay), n);
    decay = vf_mul(decay, keep);
    store_part(d->decay + i, decay, n);
    store_part(d->r_decayed + i, vf_mul(load_part(d->r + i, n), decay), n);
    if (d->a) {
        store_part(key, load_part(d->b + i, n), n);
        store_part(key + d->width, k, n);
    } else {
        store_part(key, vf_mul(vf_set(d->beta), k), n);
    }
}

static void delta_row(const struct delta_row *d) {
    const float *keep = d->work, *a = keep + d->width;
    for (int64_t i = 0; i < d->width; i += LANES) delta_prepare(d, i, part(d->width - i));
    for (int64_t j = 0; j < d->count; j++) {
        float *key = d->keys + j * d->width;
        bool old = j < d->before;
        vf by_a = vf_zero(), by_r = vf_zero();
        for (int64_t i = 0; i < d->width; i += LANES) {
            int64_t n = part(d->width - i);
            vf x = load_part(key + i, n);
            if (old) {
                by_a = vf_fma(load_part(a + i, n), x, by_a);
                x = vf_mul(load_part(keep + i, n), x);
                store_part(key + i, x, n);
            }
            by_r = vf_fma(load_part(d->r + i, n), x, by_r);
        }
        if (old) d->a_scores[j] = vf_sum(by_a);
        d->r_scores[j] = vf_sum(by_r);
    }
}

// Rows [row, row + rows) of the columns from i on: `vectors` whole ones, or n columns when it is
// one. h is read once for all rows.
INLINE void delta_read_tile(const struct delta_read *d, int64_t row, int64_t i, int64_t n, int rows,
                            int vectors) {
    vf sum[4][4], in[4];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) sum[r][v] = vf_zero();
    for (int64_t k = 0; k < d->k_width; k++) {
        for (int v = 0; v < vectors; v++)
            in[v] = load_part(d->h + k * d->v_width + i + v * LANES, n);
        for (int r = 0; r < rows; r++) {
            vf x = vf_set(d->x[(row + r) * d->k_width + k]);
            for (int v = 0; v < vectors; v++) sum[r][v] = vf_fma(x, in[v], sum[r][v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            store_part(d->y + (row + r) * d->v_width + i + v * LANES, sum[r][v], n);
}

static void delta_read(const struct delta_read *d) {
    int64_t row = 0;
    for (; row + 4 <= d->rows; row += 4) {
        int64_t i = 0;
        for (; i + 2 * LANES <= d->v_width; i += 2 * LANES) delta_read_tile(d, row, i, LANES, 4, 2);
        for (; i < d->v_width; i += LANES) delta_read_tile(d, row, i, part(d->v_width - i), 4, 1);
    }
    for (; row < d->rows; row += 2) {
        int64_t i = 0;
        for (; i + 4 * LANES <= d->v_width; i += 4 * LANES) delta_read_tile(d, row, i, LANES, 2, 4);
        for (; i < d->v_width; i += LANES) delta_read_tile(d, row, i, part(d->v_width - i), 2, 1);
    }
}

INLINE void delta_mix_tile(const struct delta_mix *d, int64_t i, int64_t n, int vectors) {
    vf sum[4];
    for (int v = 0; v < vectors; v++) sum[v] = load_part(d->from + i + v * LANES, n);
    for (int64_t j = 0; j < d->count; j++) {
        vf by = vf_set(d->by[j]);
        for (int v = 0; v < vectors; v++)
            sum[v] = vf_fma(by, load_part(d->x + j * d->width + i + v * LANES, n), sum[v]);
    }
    for (int v = 0; v < vectors; v++) store_part(d->y + i + v * LANES, sum[v], n);
}

static void delta_mix(const struct delta_mix *d) {
    int64_t i = 0;
    for (; i + 4 * LANES <= d->width; i += 4 * LANES) delta_mix_tile(d, i, LANES, 4);
    for (; i < d->width; i += LANES) delta_mix_tile(d, i, part(d->width - i), 1);
}

// Rows [k, k + rows) of h.
INLINE void delta_carry_tile(const struct delta_carry *d, int64_t k, int rows) {
    for (int64_t i = 0; i < d->v_width; i += LANES) {
        int64_t n = part(d->v_width - i);
        vf sum[8];
        for (int r = 0; r < rows; r++)
            sum[r] = vf_mul(vf_set(d->decay[k + r]), load_part(d->h + (k + r) * d->v_width + i, n));
        for (int64_t j = 0; j < d->count; j++) {
            vf in = load_part(d->values + j * d->v_width + i, n);
            for (int r = 0; r < rows; r++)
                sum[r] = vf_fma(vf_set(d->keys[j * d->k_width + k + r]), in, sum[r]);
        }
        for (int r = 0; r < rows; r++) store_part(d->h + (k + r) * d->v_width + i, sum[r], n);
    }
}

static void delta_carry(const struct delta_carry *d) {
    int64_t k = 0;
    for (; k + 8 <= d->k_width; k += 8) delta_carry_tile(d, k, 8);
    for (; k < d->k_width; k++) delta_carry_tile(d, k, 1);
}

#endif
