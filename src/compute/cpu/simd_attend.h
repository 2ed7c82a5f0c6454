// A step of attention (kernels.h), for the vector files (vec.h).
//
// Scores are computed with a token a lane, from keys that are converted and transposed once for
// all queries; a score sums over the key's elements in order. Values are summed over the tokens in
// order. So what other queries there are changes no bit.
#ifndef COMPUTE_CPU_SIMD_ATTEND_H
#define COMPUTE_CPU_SIMD_ATTEND_H

#include "compute/cpu/simd_rows.h"

enum { TILE_Q = 4, TILE_T = REGISTERS == 32 ? 4 : 2, TOKENS = ATTEND_TOKENS };

// out [width, TOKENS] = the keys, transposed; lanes past the last token repeat it.
static void transpose_keys(const struct attend *a, float *out) {
    for (int64_t t = 0; t < a->count; t += LANES) {
        for (int64_t i = 0; i < a->k_width; i += LANES) {
            vf r[LANES];
            int64_t left = a->k_width - i;
            for (int64_t l = 0; l < LANES; l++) {
                int64_t at = (t + l < a->count ? t + l : a->count - 1) * a->k_width + i;
                r[l] = left < LANES ? vf_load_as_n(a->k, a->type, at, left)
                                    : vf_load_as(a->k, a->type, at);
            }
            vf_transpose(r);
            for (int64_t l = 0; l < LANES && l < left; l++)
                vf_store(out + (i + l) * TOKENS + t, r[l]);
        }
    }
}

// s [queries, TOKENS]: nq queries, nt vectors of tokens
INLINE void scores(int nq, int nt, const float *q, int64_t width, const float *keys, float *s) {
    vf acc[TILE_Q][TILE_T];
    for (int m = 0; m < nq; m++)
        for (int t = 0; t < nt; t++) acc[m][t] = vf_zero();
    for (int64_t i = 0; i < width; i++) {
        vf k[TILE_T];
        for (int t = 0; t < nt; t++) k[t] = vf_load(keys + i * TOKENS + t * LANES);
        for (int m = 0; m < nq; m++) {
            vf x = vf_set(q[m * width + i]);
            for (int t = 0; t < nt; t++) acc[m][t] = vf_fma(x, k[t], acc[m][t]);
        }
    }
    for (int m = 0; m < nq; m++)
        for (int t = 0; t < nt; t++) vf_store(s + m * TOKENS + t * LANES, acc[m][t]);
}

INLINE void scores_wide(int nt, int64_t nq, const float *q, int64_t width, const float *keys,
                        float *s) {
    if (nq >= 4) scores(4, nt, q, width, keys, s);
    if (nq == 3) scores(3, nt, q, width, keys, s);
    if (nq == 2) scores(2, nt, q, width, keys, s);
    if (nq == 1) scores(1, nt, q, width, keys, s);
}

static void all_scores(const struct attend *a, const float *keys, float *s) {
    for (int64_t m = 0; m < a->queries; m += TILE_Q) {
        const float *q = a->q + m * a->k_width;
        int64_t t = 0;
        for (; t + (TILE_T - 1) * LANES < a->count; t += TILE_T * LANES)
            scores_wide(TILE_T, a->queries - m, q, a->k_width, keys + t, s + m * TOKENS + t);
        for (; t < a->count; t += LANES)
            scores_wide(1, a->queries - m, q, a->k_width, keys + t, s + m * TOKENS + t);
    }
}

// Scores become weights; those of tokens that the query does not see become 0.
static void softmax_step(const struct attend *a, int64_t m, float *s) {
    int64_t from = a->from[m], to = a->to[m];
    if (a->soft_cap > 0) soft_cap_row(s, to, a->soft_cap);
    for (int64_t t = 0; t < from; t++) s[t] = -INFINITY;
    for (int64_t t = to; t < TOKENS; t++) s[t] = -INFINITY;
    vf highest = vf_set(a->top[m]);
    for (int64_t t = 0; t < to; t += LANES) highest = vf_max(vf_load(s + t), highest);
    float top = vf_top(highest), keep = expf(a->top[m] - top);
    vf sum = vf_zero(), minus = vf_set(top);
    for (int64_t t = 0; t < to; t += LANES) {
        vf p = vf_exp(vf_sub(vf_load(s + t), minus));
        vf_store(s + t, p);
        sum = vf_add(sum, p);
    }
    a->top[m] = top;
    a->sum[m] = a->sum[m] * keep + vf_sum(sum);
    float *acc = a->acc + m * a->v_width;
    int64_t i = 0;
    for (; i + LANES <= a->v_width; i += LANES)
        vf_store(acc + i, vf_mul(vf_load(acc + i), vf_set(keep)));
    for (; i < a->v_width; i++) acc[i] *= keep;
}

// acc += sum over the tokens [from, to) of p[t] v[t], for nq queries and nv vectors of elements
INLINE void weigh(int nq, int nv, enum dtype type, const void *v, int64_t width, const float *p,
                  int64_t from, int64_t to, float *acc) {
    vf sum[TILE_Q][TILE_T];
    for (int m = 0; m < nq; m++)
        for (int k = 0; k < nv; k++) sum[m][k] = vf_load(acc + m * width + k * LANES);
    for (int64_t t = from; t < to; t++) {
        vf x[TILE_T];
        for (int k = 0; k < nv; k++) x[k] = vf_load_as(v, type, t * width + k * LANES);
        for (int m = 0; m < nq; m++) {
            vf weight = vf_set(p[m * TOKENS + t]);
            for (int k = 0; k < nv; k++) sum[m][k] = vf_fma(weight, x[k], sum[m][k]);
        }
    }
    for (int m = 0; m < nq; m++)
        for (int k = 0; k < nv; k++) vf_store(acc + m * width + k * LANES, sum[m][k]);
}

// The elements from i on that fill no vector.
static void weigh_rest(int64_t nq, enum dtype type, const void *v, int64_t i, int64_t width,
                       const float *p, int64_t from, int64_t to, float *acc) {
    for (int64_t m = 0; m < nq; m++) {
        vf sum = vf_load_n(acc + m * width + i, width - i);
        for (int64_t t = from; t < to; t++)
            sum = vf_fma(vf_set(p[m * TOKENS + t]), vf_load_as_n(v, type, t * width + i, width - i),
                         sum);
        vf_store_n(acc + m * width + i, sum, width - i);
    }
}

INLINE void weigh_type(int nq, enum dtype type, const void *v, int64_t width, const float *p,
                       int64_t from, int64_t to, float *acc) {
    int64_t i = 0, each = type == DT_F32 ? 4 : 2;
    for (; i + TILE_T * LANES <= width; i += TILE_T * LANES)
        weigh(nq, TILE_T, type, (const char *)v + i * each, width, p, from, to, acc + i);
    for (; i + LANES <= width; i += LANES)
        weigh(nq, 1, type, (const char *)v + i * each, width, p, from, to, acc + i);
    if (i < width) weigh_rest(nq, type, v, i, width, p, from, to, acc);
}

INLINE void weigh_some(int nq, enum dtype type, const void *v, int64_t width, const float *p,
                       int64_t from, int64_t to, float *acc) {
    if (from >= to) return;
    if (type == DT_F32) weigh_type(nq, DT_F32, v, width, p, from, to, acc);
    if (type == DT_F16) weigh_type(nq, DT_F16, v, width, p, from, to, acc);
    if (type == DT_BF16) weigh_type(nq, DT_BF16, v, width, p, from, to, acc);
}

// The tokens that four queries all see go together, those at the ends that only some see one query
// at a time: a weight of 0 would not shield a query from a NaN that it must not see.
static void weigh_four(const struct attend *a, int64_t m, enum dtype type, const void *v,
                       const float *s) {
    const int64_t *from = a->from + m, *to = a->to + m;
    int64_t begin = from[0], end = to[0];
    for (int i = 1; i < TILE_Q; i++) {
        begin = from[i] > begin ? from[i] : begin;
        end = to[i] < end ? to[i] : end;
    }
    bool common = begin < end;
    for (int i = 0; i < TILE_Q; i++)
        weigh_some(1, type, v, a->v_width, s + i * TOKENS, from[i], common ? begin : to[i],
                   a->acc + (m + i) * a->v_width);
    if (!common) return;
    weigh_some(TILE_Q, type, v, a->v_width, s, begin, end, a->acc + m * a->v_width);
    for (int i = 0; i < TILE_Q; i++)
        weigh_some(1, type, v, a->v_width, s + i * TOKENS, end, to[i],
                   a->acc + (m + i) * a->v_width);
}

static void attend_page(const struct attend *a) {
    float *keys = a->work, *values = keys + a->k_width * TOKENS, *s = values + a->v_width * TOKENS;
    transpose_keys(a, keys);
    all_scores(a, keys, s);
    for (int64_t m = 0; m < a->queries; m++)
        if (a->from[m] < a->to[m]) softmax_step(a, m, s + m * TOKENS);
    const void *v = a->v;
    enum dtype type = a->type;
    if (type != DT_F32 && a->queries > 2 * TILE_Q) {
        int64_t n = 0, last = 0;
        for (int64_t m = 0; m < a->queries; m++) last = a->to[m] > last ? a->to[m] : last;
        for (n = 0; n + LANES <= last * a->v_width; n += LANES)
            vf_store(values + n, vf_load_as(a->v, type, n));
        for (; n < last * a->v_width; n++) values[n] = load_float(a->v, type, n);
        v = values;
        type = DT_F32;
    }
    int64_t m = 0;
    for (; m + TILE_Q <= a->queries; m += TILE_Q) weigh_four(a, m, type, v, s + m * TOKENS);
    for (; m < a->queries; m++)
        weigh_some(1, type, v, a->v_width, s + m * TOKENS, a->from[m], a->to[m],
                   a->acc + m * a->v_width);
}

#endif
