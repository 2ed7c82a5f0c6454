// A step of attention (kernels.h), for the vector files (vec.h).
//
// Scores are computed with a token a lane; a score sums over the key's elements in order. Values
// are summed over the tokens in order. So what other queries there are changes no bit, and for few
// queries both come straight from the cache; for many they are first converted once for all.
#ifndef COMPUTE_CPU_SIMD_ATTEND_H
#define COMPUTE_CPU_SIMD_ATTEND_H

#include "compute/cpu/simd_rows.h"

enum { TILE_Q = 4, TILE_T = REGISTERS == 32 ? 4 : 2, TOKENS = ATTEND_TOKENS, LD = ATTEND_LD };

// The tokens of a vector of scores: where their keys are, across.
struct column {
    const char *k;
    const uint16_t *scale;
    const char *next;
    int64_t at, lanes; // the first token's place in the step; those that may be read
};

INLINE int64_t kept_size(enum dtype type) { return type == DT_F32 ? 4 : type == DT_I8 ? 1 : 2; }

// LANES kept elements; those of I8 times their scale.
INLINE vf load_kept(const char *p, enum dtype type, vf scale) {
    if (type == DT_I8) return vf_mul(vf_from_i8((const uint8_t *)p), scale);
    return vf_load_as(p, type, 0);
}

// The first n, and after them zeros.
static vf load_kept_n(const char *p, enum dtype type, vf scale, int64_t n) {
    if (type != DT_I8) return vf_load_as_n(p, type, 0, n);
    uint8_t all[LANES] = {0};
    memcpy(all, p, (size_t)n);
    return vf_mul(vf_from_i8(all), scale);
}

// --- scores --------------------------------------------------------------------------------------

// s [queries, LD]: nq queries, nt columns of LANES tokens
INLINE void scores(int nq, int nt, enum dtype type, const float *q, int64_t width,
                   const struct column *col, int64_t page, float *s) {
    vf acc[TILE_Q][TILE_T], scale[TILE_T];
    int64_t step = page * kept_size(type);
    for (int m = 0; m < nq; m++)
        for (int t = 0; t < nt; t++) acc[m][t] = vf_zero();
    for (int64_t b = 0; b < width; b += KV_BLOCK) {
        int64_t end = width - b < KV_BLOCK ? width : b + KV_BLOCK;
        for (int t = 0; t < nt; t++)
            scale[t] = type == DT_I8 ? vf_from_bf16(col[t].scale + b / KV_BLOCK * page) : vf_zero();
        for (int64_t i = b; i < end; i++) {
            vf k[TILE_T];
            for (int t = 0; t < nt; t++) k[t] = load_kept(col[t].k + i * step, type, scale[t]);
            for (int t = 0; t < nt && type != DT_F32; t += 2)
                __builtin_prefetch(col[t].next + i * step);
            for (int m = 0; m < nq; m++) {
                vf x = vf_set(q[m * width + i]);
                for (int t = 0; t < nt; t++) acc[m][t] = vf_fma(x, k[t], acc[m][t]);
            }
        }
    }
    for (int m = 0; m < nq; m++)
        for (int t = 0; t < nt; t++) vf_store(s + m * LD + col[t].at, acc[m][t]);
}

INLINE void scores_wide(int nt, enum dtype type, int64_t nq, const float *q, int64_t width,
                        const struct column *col, int64_t page, float *s) {
    if (nq >= 4) scores(4, nt, type, q, width, col, page, s);
    if (nq == 3) scores(3, nt, type, q, width, col, page, s);
    if (nq == 2) scores(2, nt, type, q, width, col, page, s);
    if (nq == 1) scores(1, nt, type, q, width, col, page, s);
}

INLINE vf column_scale(const struct column *c, enum dtype type, int64_t i, int64_t page) {
    if (type != DT_I8) return vf_zero();
    return vf_load_as_n(c->scale + i / KV_BLOCK * page, DT_BF16, 0, c->lanes);
}

// A column that the page's end cuts, of one query.
static void scores_cut(enum dtype type, const float *q, int64_t width, const struct column *c,
                       int64_t page, float *s) {
    vf acc = vf_zero();
    for (int64_t i = 0; i < width; i++)
        acc = vf_fma(vf_set(q[i]),
                     load_kept_n(c->k + i * page * kept_size(type), type,
                                 column_scale(c, type, i, page), c->lanes),
                     acc);
    vf_store(s + c->at, acc);
}

INLINE void all_scores(const struct attend *a, enum dtype type, const struct column *col,
                       int64_t columns, int64_t page, float *s) {
    for (int64_t m = 0; m < a->queries; m += TILE_Q) {
        const float *q = a->q + m * a->k_width;
        int64_t left = a->queries - m, n = left < TILE_Q ? left : TILE_Q, c = 0, full = 0;
        for (; c < columns; c += full ? full : 1) {
            for (full = 0; full < TILE_T && c + full < columns; full++)
                if (col[c + full].lanes < LANES) break;
            if (full == 3) full = 2;
            if (full == TILE_T)
                scores_wide(TILE_T, type, left, q, a->k_width, col + c, page, s + m * LD);
            else if (full == 2)
                scores_wide(2, type, left, q, a->k_width, col + c, page, s + m * LD);
            else if (full == 1)
                scores_wide(1, type, left, q, a->k_width, col + c, page, s + m * LD);
            for (int64_t i = 0; i < n && !full; i++)
                scores_cut(type, q + i * a->k_width, a->k_width, col + c, page, s + (m + i) * LD);
        }
    }
}

static void scores_of(const struct attend *a, enum dtype type, const struct column *col,
                      int64_t columns, int64_t page, float *s) {
    if (type == DT_F32) all_scores(a, DT_F32, col, columns, page, s);
    if (type == DT_F16) all_scores(a, DT_F16, col, columns, page, s);
    if (type == DT_BF16) all_scores(a, DT_BF16, col, columns, page, s);
    if (type == DT_I8) all_scores(a, DT_I8, col, columns, page, s);
}

// --- keys ----------------------------------------------------------------------------------------

static int64_t find_columns(const struct attend *a, struct column *col) {
    int64_t n = 0, at = 0;
    for (const struct attend_piece *p = a->piece; p < a->piece + a->pieces; at += p++->count)
        for (int64_t t = 0; t < p->count; t += LANES)
            col[n++] = (struct column){
                .k = p->k.p + t * kept_size(a->k_type),
                .scale = p->k.scale ? p->k.scale + t : NULL,
                .next = p->k.next + t * kept_size(a->k_type),
                .at = at + t,
                .lanes = p->room - t < LANES ? p->room - t : LANES,
            };
    return n;
}

INLINE void convert_column(enum dtype type, const struct column *c, int64_t width, int64_t page,
                           float *out) {
    int64_t step = page * kept_size(type);
    for (int64_t i = 0; i < width; i++) {
        vf scale = column_scale(c, type, i, page);
        __builtin_prefetch(c->next + i * step);
        vf_store(out + i * LD + c->at, c->lanes < LANES
                                           ? load_kept_n(c->k + i * step, type, scale, c->lanes)
                                           : load_kept(c->k + i * step, type, scale));
    }
}

// out [width, LD] = the keys, across, in f32
static void convert_keys(const struct attend *a, const struct column *col, int64_t columns,
                         float *out) {
    for (const struct column *c = col; c < col + columns; c++) {
        if (a->k_type == DT_F32) convert_column(DT_F32, c, a->k_width, a->page, out);
        if (a->k_type == DT_F16) convert_column(DT_F16, c, a->k_width, a->page, out);
        if (a->k_type == DT_BF16) convert_column(DT_BF16, c, a->k_width, a->page, out);
        if (a->k_type == DT_I8) convert_column(DT_I8, c, a->k_width, a->page, out);
    }
}

INLINE vf scale_at(const uint16_t *scale, int64_t block) {
    uint32_t bits = scale ? (uint32_t)scale[block] << 16 : 0;
    float f;
    memcpy(&f, &bits, sizeof f);
    return vf_set(f);
}

// LANES elements, or those that there are, of a kept row of `width` from i on.
INLINE vf load_row(const struct kept *k, enum dtype type, int64_t width, int64_t row, int64_t i,
                   int64_t left) {
    const char *p = k->p + (row * width + i) * kept_size(type);
    vf scale = scale_at(k->scale, row * kv_blocks(width) + i / KV_BLOCK);
    return left < LANES ? load_kept_n(p, type, scale, left) : load_kept(p, type, scale);
}

// The same of keys that are rows; lanes past a piece's last token repeat it.
INLINE void transpose_as(enum dtype type, const struct attend *a, float *out) {
    const struct attend_piece *p = a->piece;
    for (int64_t at = 0; p < a->piece + a->pieces; at += p++->count)
        for (int64_t t = 0; t < p->count; t += LANES)
            for (int64_t i = 0; i < a->k_width; i += LANES) {
                vf r[LANES];
                int64_t left = a->k_width - i;
                for (int64_t l = 0; l < LANES; l++) {
                    int64_t row = t + l < p->count ? t + l : p->count - 1;
                    r[l] = load_row(&p->k, type, a->k_width, row, i, left);
                    __builtin_prefetch(p->k.next + (row * a->k_width + i) * kept_size(type));
                }
                vf_transpose(r);
                for (int64_t l = 0; l < LANES && l < left; l++)
                    vf_store(out + (i + l) * LD + at + t, r[l]);
            }
}

static void transpose_keys(const struct attend *a, float *out) {
    if (a->k_type == DT_F32) transpose_as(DT_F32, a, out);
    if (a->k_type == DT_F16) transpose_as(DT_F16, a, out);
    if (a->k_type == DT_BF16) transpose_as(DT_BF16, a, out);
    if (a->k_type == DT_I8) transpose_as(DT_I8, a, out);
}

// The columns of keys [width, LD] in f32.
static int64_t panel_columns(const struct attend *a, const float *keys, struct column *col) {
    int64_t n = 0;
    for (int64_t t = 0; t < a->count; t += LANES)
        col[n++] = (struct column){.k = (const char *)(keys + t), .at = t, .lanes = LANES};
    return n;
}

// --- softmax -------------------------------------------------------------------------------------

// The tokens [from, to) of the step that query m sees.
static void seen(const struct attend *a, int64_t m, int64_t *from, int64_t *to) {
    *from = a->from[m] > a->at ? a->from[m] - a->at : 0;
    *to = a->to[m] - a->at < a->count ? a->to[m] - a->at : a->count;
}

// Scores become weights.
static void softmax_step(const struct attend *a, int64_t m, float *s) {
    int64_t from, to;
    seen(a, m, &from, &to);
    if (from >= to) return;
    if (a->soft_cap > 0) soft_cap_row(s, to, a->soft_cap);
    int64_t begin = from / LANES * LANES;
    for (int64_t t = begin; t < from; t++) s[t] = -INFINITY;
    for (int64_t t = to; t % LANES; t++) s[t] = -INFINITY;
    vf highest = vf_set(a->top[m]);
    for (int64_t t = begin; t < to; t += LANES) highest = vf_max(vf_load(s + t), highest);
    float top = vf_top(highest), keep;
    vf_store_n(&keep, vf_exp(vf_set(a->top[m] - top)), 1);
    vf sum = vf_zero(), minus = vf_set(top);
    for (int64_t t = begin; t < to; t += LANES) {
        vf p = vf_exp(vf_sub(vf_load(s + t), minus));
        vf_store(s + t, p);
        sum = vf_add(sum, p);
    }
    a->top[m] = top;
    a->sum[m] = a->sum[m] * keep + vf_sum(sum);
    if (keep == 1) return;
    float *acc = a->acc + m * a->v_width;
    int64_t i = 0;
    for (; i + LANES <= a->v_width; i += LANES)
        vf_store(acc + i, vf_mul(vf_load(acc + i), vf_set(keep)));
    for (; i < a->v_width; i++) acc[i] *= keep;
}

// --- values --------------------------------------------------------------------------------------

// Values of some tokens of a step.
struct values {
    struct kept v;
    enum dtype type;
    int64_t at, count; // the first token's place in the step
    int64_t ld, width;
};

// acc += sum over the tokens [from, to) of p[t] v[t], for nq queries and nv vectors of elements
// from i on
INLINE void weigh(int nq, int nv, enum dtype type, const struct values *v, int64_t i,
                  const float *p, int64_t from, int64_t to, float *acc) {
    vf sum[TILE_Q][TILE_T];
    int64_t blocks = kv_blocks(v->ld), each = kept_size(type);
    for (int m = 0; m < nq; m++)
        for (int k = 0; k < nv; k++) sum[m][k] = vf_load(acc + m * v->width + i + k * LANES);
    for (int64_t t = from; t < to; t++) {
        vf x[TILE_T];
        int64_t row = t - v->at, byte = (row * v->ld + i) * each;
        for (int k = 0; k < nv; k++) {
            int64_t block = row * blocks + (i + k * LANES) / KV_BLOCK;
            vf scale = type == DT_I8 ? scale_at(v->v.scale, block) : vf_zero();
            x[k] = load_kept(v->v.p + byte + k * LANES * each, type, scale);
        }
        for (int k = 0; k < nv && type != DT_F32; k += 2)
            __builtin_prefetch(v->v.next + byte + k * LANES * each);
        for (int m = 0; m < nq; m++) {
            vf weight = vf_set(p[m * LD + t]);
            for (int k = 0; k < nv; k++) sum[m][k] = vf_fma(weight, x[k], sum[m][k]);
        }
    }
    for (int m = 0; m < nq; m++)
        for (int k = 0; k < nv; k++) vf_store(acc + m * v->width + i + k * LANES, sum[m][k]);
}

// The elements from i on that fill no vector.
static void weigh_rest(int64_t nq, const struct values *v, int64_t i, const float *p, int64_t from,
                       int64_t to, float *acc) {
    int64_t left = v->width - i;
    for (int64_t m = 0; m < nq; m++) {
        vf sum = vf_load_n(acc + m * v->width + i, left);
        for (int64_t t = from; t < to; t++)
            sum = vf_fma(vf_set(p[m * LD + t]), load_row(&v->v, v->type, v->ld, t - v->at, i, left),
                         sum);
        vf_store_n(acc + m * v->width + i, sum, left);
    }
}

INLINE void weigh_type(int nq, enum dtype type, const struct values *v, const float *p,
                       int64_t from, int64_t to, float *acc) {
    int64_t i = 0;
    for (; i + TILE_T * LANES <= v->width; i += TILE_T * LANES)
        weigh(nq, TILE_T, type, v, i, p, from, to, acc);
    for (; i + LANES <= v->width; i += LANES) weigh(nq, 1, type, v, i, p, from, to, acc);
    if (i < v->width) weigh_rest(nq, v, i, p, from, to, acc);
}

INLINE void weigh_some(int nq, const struct values *v, const float *p, int64_t from, int64_t to,
                       float *acc) {
    if (from < v->at) from = v->at;
    if (to > v->at + v->count) to = v->at + v->count;
    if (from >= to) return;
    if (v->type == DT_F32) weigh_type(nq, DT_F32, v, p, from, to, acc);
    if (v->type == DT_F16) weigh_type(nq, DT_F16, v, p, from, to, acc);
    if (v->type == DT_BF16) weigh_type(nq, DT_BF16, v, p, from, to, acc);
    if (v->type == DT_I8) weigh_type(nq, DT_I8, v, p, from, to, acc);
}

static void weigh_one(const struct values *v, const float *p, int64_t from, int64_t to,
                      float *acc) {
    weigh_some(1, v, p, from, to, acc);
}

// The tokens that a tile of queries all see go together, those at the ends that only some see one
// query at a time: a weight of 0 would not shield a query from a NaN that it must not see.
INLINE void weigh_tile(int nq, const struct attend *a, const struct values *v, int64_t m,
                       const float *s) {
    int64_t from[TILE_Q], to[TILE_Q], begin = 0, end = TOKENS;
    for (int i = 0; i < nq; i++) {
        seen(a, m + i, &from[i], &to[i]);
        begin = from[i] > begin ? from[i] : begin;
        end = to[i] < end ? to[i] : end;
    }
    bool common = begin < end;
    float *acc = a->acc + m * a->v_width;
    for (int i = 0; i < nq; i++)
        weigh_one(v, s + i * LD, from[i], common ? begin : to[i], acc + i * a->v_width);
    if (!common) return;
    weigh_some(nq, v, s, begin, end, acc);
    for (int i = 0; i < nq; i++) weigh_one(v, s + i * LD, end, to[i], acc + i * a->v_width);
}

static void weigh_all(const struct attend *a, const struct values *v, const float *s) {
    int64_t m = 0;
    for (; m + 4 <= a->queries; m += 4) weigh_tile(4, a, v, m, s + m * LD);
    if (a->queries - m == 3) weigh_tile(3, a, v, m, s + m * LD);
    if (a->queries - m == 2) weigh_tile(2, a, v, m, s + m * LD);
    if (a->queries - m == 1) weigh_tile(1, a, v, m, s + m * LD);
}

INLINE void convert_values_as(enum dtype type, const struct attend *a, float *out) {
    for (const struct attend_piece *p = a->piece; p < a->piece + a->pieces; p++)
        for (int64_t t = 0; t < p->count; t++, out += a->v_width) {
            int64_t i = 0;
            for (; i + LANES <= a->v_width; i += LANES) {
                __builtin_prefetch(p->v.next + (t * a->ldv + i) * kept_size(type));
                vf_store(out + i, load_row(&p->v, type, a->ldv, t, i, LANES));
            }
            if (i < a->v_width)
                vf_store_n(out + i, load_row(&p->v, type, a->ldv, t, i, a->v_width - i),
                           a->v_width - i);
        }
}

// out [count, v_width] in f32
static void convert_values(const struct attend *a, float *out) {
    if (a->v_type == DT_F32) convert_values_as(DT_F32, a, out);
    if (a->v_type == DT_F16) convert_values_as(DT_F16, a, out);
    if (a->v_type == DT_BF16) convert_values_as(DT_BF16, a, out);
    if (a->v_type == DT_I8) convert_values_as(DT_I8, a, out);
}

// --- the step ------------------------------------------------------------------------------------

static void attend_step(const struct attend *a) {
    float *keys = a->work, *values = keys + a->k_width * LD, *s = values + a->v_width * LD;
    bool few = a->queries <= 2 * TILE_Q;
    struct column col[TOKENS];
    if (few && a->across) {
        int64_t n = find_columns(a, col);
        scores_of(a, a->k_type, col, n, a->page, s);
    } else {
        if (a->across)
            convert_keys(a, col, find_columns(a, col), keys);
        else
            transpose_keys(a, keys);
        all_scores(a, DT_F32, col, panel_columns(a, keys, col), LD, s);
    }
    for (int64_t m = 0; m < a->queries; m++) softmax_step(a, m, s + m * LD);
    if (!few) {
        convert_values(a, values);
        struct values v = {.v = {(char *)values, NULL, NULL}, .type = DT_F32, .at = 0};
        v.count = a->count, v.ld = v.width = a->v_width;
        weigh_all(a, &v, s);
        return;
    }
    int64_t at = 0;
    for (const struct attend_piece *p = a->piece; p < a->piece + a->pieces; at += p++->count)
        weigh_all(a, &(struct values){p->v, a->v_type, at, p->count, a->ldv, a->v_width}, s);
}

#endif
