// Products of quantized weights with many rows of x (simd_q8.h), bound by arithmetic.
//
// A tile is VECS vectors of outputs by a few rows, whose sums stay in registers over a block: one
// load of x serves VECS products. Codes are unpacked once for all rows into panels of a chunk of
// columns, which stay in the first cache while the rows of a band, which stay in the second, go by.
#ifndef COMPUTE_CPU_SIMD_Q8_MANY_H
#define COMPUTE_CPU_SIMD_Q8_MANY_H

#include "compute/cpu/simd_q8.h"

enum { VECS = 2, TILE_OUTPUTS = VECS * LANES };
enum { PANELS = 4, MANY_CHUNK = 512, BAND_ROWS = 96 };

// The codes of TILE_OUTPUTS outputs, in vectors [blocks, parts, 8, VECS].
struct q8_tile {
    const uint8_t *codes;
    const float *scale[VECS], *bias[VECS]; // [groups, LANES]
    int64_t groups, per, ldq;              // blocks a group; blocks from a row of x to the next
};

#if defined(__AVX512F__)

enum { MANY_ROWS = 6, PARTS_MOST = 1 };
static inline int q8_parts(enum q8_kind kind) { return (void)kind, 1; }

INLINE void store_codes(enum q8_kind kind, const vi c[8], uint8_t *to) {
    (void)kind;
    for (int i = 0; i < 8; i++) vi_store(to + i * VECS * LANES * 4, c[i]);
}

// Each lane's sum of code times q over a block, or a half of it, which begins with `start`.
INLINE void block_sums(int xr, enum q8_kind kind, int half, const uint8_t *codes,
                       const struct q8 *x, int64_t ldq, vi sum[MANY_ROWS][VECS]) {
    for (int r = 0; r < xr; r++)
        for (int v = 0; v < VECS; v++) sum[r][v] = vi_set(start_of(kind, half, x + r * ldq));
    for (int i = quads_from(kind, half); i < quads_to(kind, half); i++) {
        vi c[VECS];
        for (int v = 0; v < VECS; v++) c[v] = vi_load(codes + (i * VECS + v) * LANES * 4);
        for (int r = 0; r < xr; r++) {
            vi q = vi_quad(x[r * ldq].q + 4 * i);
            for (int v = 0; v < VECS; v++) sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], c[v], q);
        }
    }
}

#else

// A sum of 16 bits holds eight pairs of products with codes of 4 bits, four with codes of 5 bits or
// with e2m1 codes, moved, which are at most 24, and two with codes of 6 bits: those take parts. So
// do codes of 8 bits: their lower halves and their upper ones, 16 times as much.
enum { MANY_ROWS = 2, PARTS_MOST = 2 };
static inline int q8_parts(enum q8_kind kind) { return kind == Q8_CODES8 ? 2 : 1; }
static inline int q8_sums(enum q8_kind kind) {
    return kind == Q8_CODES6 ? 2 : kind == Q8_CODES5 || q8_floats(kind) ? 4 : 8;
}

INLINE void store_codes(enum q8_kind kind, const vi c[8], uint8_t *to) {
    enum { SIZE = VECS * LANES * 4 };
    vi low = vi_low(), move = _mm256_set1_epi8(12);
    for (int i = 0; i < 8; i++) {
        if (q8_floats(kind))
            vi_store(to + i * SIZE, _mm256_add_epi8(c[i], move));
        else if (kind != Q8_CODES8)
            vi_store(to + i * SIZE, c[i]);
        if (kind != Q8_CODES8) continue;
        vi_store(to + i * SIZE, vi_and(c[i], low));
        vi_store(to + (8 + i) * SIZE, vi_and(vi_shift4(c[i]), low));
    }
}

// Sums are to be added up in the order written: for another one, which compilers like, there are
// too few registers.
static inline vi vi_in_order(vi a) {
    __asm__("" : "+x"(a));
    return a;
}

// sum += by * the quads [from, to) of a block
INLINE void add_part(int xr, int from, int to, int by, const uint8_t *codes, const struct q8 *x,
                     int64_t ldq, vi sum[MANY_ROWS][VECS]) {
    vi part[MANY_ROWS][VECS];
    for (int i = from; i < to; i++) {
        vi c[VECS];
        for (int v = 0; v < VECS; v++) c[v] = vi_load(codes + (i * VECS + v) * LANES * 4);
        for (int r = 0; r < xr; r++) {
            vi q = vi_quad(x[r * ldq].q + 4 * i);
            for (int v = 0; v < VECS; v++) {
                vi pairs = _mm256_maddubs_epi16(c[v], q);
                part[r][v] = i == from ? pairs : _mm256_add_epi16(part[r][v], pairs);
                part[r][v] = vi_in_order(part[r][v]);
            }
        }
    }
    for (int r = 0; r < xr; r++) {
        for (int v = 0; v < VECS; v++)
            sum[r][v] = vi_add(sum[r][v], vi_madd(part[r][v], vi_set16((int16_t)by)));
    }
}

// Each lane's sum of code times q over a block, or a half of it, which begins with `start`.
INLINE void block_sums(int xr, enum q8_kind kind, int half, const uint8_t *codes,
                       const struct q8 *x, int64_t ldq, vi sum[MANY_ROWS][VECS]) {
    int most = q8_sums(kind), to = quads_to(kind, half);
    for (int r = 0; r < xr; r++)
        for (int v = 0; v < VECS; v++) sum[r][v] = vi_set(start_of(kind, half, x + r * ldq));
    for (int i = quads_from(kind, half); i < to; i += most)
        add_part(xr, i, i + most, 1, codes, x, ldq, sum);
    if (kind == Q8_CODES8) add_part(xr, 0, 8, 16, codes + 8 * VECS * LANES * 4, x, ldq, sum);
}

#endif

// y += scale_x * sums of a block. Sums that begin with Q8_FLOAT need no conversion, and since both
// factors of Q8_FLOAT * scale_x are short, they lose it without an error.
INLINE void add_blocks(int xr, enum q8_kind kind, int half, const uint8_t *codes,
                       const struct q8 *x, int64_t ldq, const vf scale[VECS], const vf bias[VECS],
                       vf y[MANY_ROWS][VECS]) {
    vi sum[MANY_ROWS][VECS];
    block_sums(xr, kind, half, codes, x, ldq, sum);
    for (int r = 0; r < xr; r++) {
        vf by = vf_set(x[r * ldq].scale), moved = vf_set(x[r * ldq].moved);
        vf all = vf_set(x[r * ldq].sum);
        for (int v = 0; v < VECS; v++) {
            y[r][v] = vf_fma(vf_fma(vf_of_bits(sum[r][v]), by, moved), scale[v], y[r][v]);
            y[r][v] = vf_fma(bias[v], all, y[r][v]);
        }
    }
}

INLINE void q8_tile(int xr, enum q8_kind kind, const struct q8_tile *t, const struct q8 *x,
                    vf y[MANY_ROWS][VECS]) {
    const uint8_t *codes = t->codes;
    for (int64_t g = 0; g < t->groups; g++) {
        vf scale[VECS], bias[VECS];
        for (int v = 0; v < VECS; v++) {
            scale[v] = vf_load(t->scale[v] + g * LANES);
            bias[v] = vf_load(t->bias[v] + g * LANES);
        }
        if (kind == Q8_HALVES4) {
            bool second = g % 2;
            add_blocks(xr, kind, second, codes, x, t->ldq, scale, bias, y);
            codes += second * 8 * TILE_OUTPUTS * 4;
            x += second;
        }
        for (int64_t b = 0; b < t->per; b++) { // none of halves
            add_blocks(xr, kind, 0, codes, x, t->ldq, scale, bias, y);
            codes += q8_parts(kind) * 8 * TILE_OUTPUTS * 4;
            x++;
        }
    }
}

// Where a tile's results go: `count` outputs of each row. What they begin with is in `start`, or
// where that is NULL in y.
struct q8_result {
    float *y;
    int64_t ldy, count;
    const float *start; // [count]
};

INLINE void q8_tile_rows_of(int xr, enum q8_kind kind, const struct q8_tile *t, const struct q8 *x,
                            const struct q8_result *to) {
    vf y[MANY_ROWS][VECS];
    for (int r = 0; r < xr; r++)
        for (int v = 0; v < VECS; v++) {
            const float *from = to->start ? to->start : to->y + r * to->ldy;
            y[r][v] = vf_load_some(from + v * LANES, to->count - v * LANES);
        }
    q8_tile(xr, kind, t, x, y);
    for (int r = 0; r < xr; r++)
        for (int v = 0; v < VECS; v++)
            vf_store_some(to->y + r * to->ldy + v * LANES, y[r][v], to->count - v * LANES);
}

INLINE void q8_some_rows(int xr, enum q8_kind kind, const struct q8_tile *t, const struct q8 *x,
                         const struct q8_result *to) {
    switch (xr) {
    case 1: q8_tile_rows_of(1, kind, t, x, to); break;
    case 2: q8_tile_rows_of(2, kind, t, x, to); break;
#if defined(__AVX512F__)
    case 3: q8_tile_rows_of(3, kind, t, x, to); break;
    case 4: q8_tile_rows_of(4, kind, t, x, to); break;
    case 5: q8_tile_rows_of(5, kind, t, x, to); break;
    case 6: q8_tile_rows_of(6, kind, t, x, to); break;
#endif
    }
}

// Into the second cache, where they are needed soon.
INLINE void fetch_rows(int xr, const struct q8 *x, int64_t ldq, int64_t from, int64_t to) {
    for (int r = 0; r < xr; r++)
        for (int64_t at = from; at < to; at += 64)
            _mm_prefetch((const char *)(x + r * ldq) + at, _MM_HINT_T1);
}

// The rows of a band against one panel, in tiles of about as many rows each. Meanwhile a part of
// the next band's rows is fetched.
static void q8_band(enum q8_kind kind, const struct q8_tile *t, const struct q8 *x, int64_t rows,
                    struct q8_result to, int64_t fetch_from, int64_t fetch_to) {
    int64_t tiles = (rows + MANY_ROWS - 1) / MANY_ROWS;
    for (int64_t i = 0, r = 0; i < tiles; i++) {
        int xr = (int)(rows * (i + 1) / tiles - r);
        fetch_rows(xr, x + BAND_ROWS * t->ldq, t->ldq, fetch_from, fetch_to);
#if defined(__AVX512F__)
        if (kind == Q8_HALVES4)
            q8_some_rows(xr, Q8_HALVES4, t, x, &to);
        else // all are alike
            q8_some_rows(xr, Q8_CODES8, t, x, &to);
#else
        if (q8_sums(kind) == 8 && kind != Q8_CODES8) q8_some_rows(xr, Q8_CODES4, t, x, &to);
        if (kind == Q8_CODES5) q8_some_rows(xr, Q8_CODES5, t, x, &to);
        if (kind == Q8_CODES6) q8_some_rows(xr, Q8_CODES6, t, x, &to);
        if (kind == Q8_CODES8) q8_some_rows(xr, Q8_CODES8, t, x, &to);
        if (kind == Q8_FLOATS4) q8_some_rows(xr, Q8_FLOATS4, t, x, &to);
        if (kind == Q8_HALVES4) q8_some_rows(xr, Q8_HALVES4, t, x, &to);
#endif
        r += xr;
        x += xr * t->ldq;
        to.y += xr * to.ldy;
    }
}

INLINE void pack_codes(enum q8_kind kind, const struct q8_panel *p, int64_t blocks, int64_t first,
                       uint8_t *to) {
    for (int64_t b = 0; b < blocks; b++) {
        vi c[8];
        load_codes(kind, p, first + b, c);
        store_codes(kind, c, to + b * q8_parts(kind) * 8 * TILE_OUTPUTS * 4);
    }
}

// The groups [from, from + groups) of the outputs from o on; `scale` has room for what load_scales
// writes, and `codes` for the codes.
static void q8_pack(const struct weight *w, int64_t o, int64_t count, int64_t from, int64_t groups,
                    float *scale, uint8_t *codes, struct q8_tile *t) {
    enum q8_kind kind = q8_kind_of(w);
    int64_t first = from * w->group / 32, blocks = groups * w->group / 32;
    for (int v = 0; v < VECS; v++) {
        struct q8_panel p = {.from = from};
        int64_t at = o + (v * LANES < count ? v * LANES : 0); // past the last, what is not stored
        int64_t some = count - (at - o);
        p.scale = scale + 2 * v * groups * LANES;
        p.groups = groups;
        p.bias = p.scale + groups * LANES;
        some = some < LANES ? some : LANES;
        q8_rows(w, at, 1, at + some, &p);
        load_scales(kind, w, &p);
        if (q8_floats(kind)) memset(p.bias, 0, (size_t)(groups * LANES) * sizeof *p.bias);
        t->scale[v] = p.scale;
        t->bias[v] = p.bias;
        uint8_t *to = codes + v * LANES * 4;
        if (kind == Q8_CODES2) pack_codes(Q8_CODES2, &p, blocks, first, to);
        if (kind == Q8_CODES3) pack_codes(Q8_CODES3, &p, blocks, first, to);
        if (kind == Q8_CODES4) pack_codes(Q8_CODES4, &p, blocks, first, to);
        if (kind == Q8_CODES5) pack_codes(Q8_CODES5, &p, blocks, first, to);
        if (kind == Q8_CODES6) pack_codes(Q8_CODES6, &p, blocks, first, to);
        if (kind == Q8_CODES8) pack_codes(Q8_CODES8, &p, blocks, first, to);
        if (kind == Q8_FLOATS4) pack_codes(Q8_FLOATS4, &p, blocks, first, to);
        if (kind == Q8_HALVES4) pack_codes(Q8_HALVES4, &p, blocks, first, to);
    }
    t->codes = codes;
    t->groups = groups;
    t->per = w->group / 32;
    t->ldq = w->in / 32;
}

// A chunk of columns of at most PANELS panels of outputs, and all rows of the tile.
static void q8_many_chunk(const struct matmul *m, const struct tile *t, int64_t from,
                          int64_t groups, float *work) {
    static const float zeros[TILE_OUTPUTS] = {0};
    enum { SCALES = 2 * MANY_CHUNK / 16 * TILE_OUTPUTS, CODES = TILE_OUTPUTS * MANY_CHUNK };
    const struct weight *w = m->w;
    struct q8_tile tile[PANELS];
    uint8_t *codes = (uint8_t *)(work + PANELS * SCALES);
    int64_t outputs = t->o1 - t->o0, ldq = w->in / 32;
    int64_t panels = (outputs + TILE_OUTPUTS - 1) / TILE_OUTPUTS;
    int64_t width = groups * w->group / 32 * (int64_t)sizeof(struct q8);
    for (int64_t i = 0; i < panels; i++)
        q8_pack(w, t->o0 + i * TILE_OUTPUTS, outputs - i * TILE_OUTPUTS, from, groups,
                work + i * SCALES, codes + i * PARTS_MOST * CODES, &tile[i]);
    for (int64_t r = t->r0; r < t->r1; r += BAND_ROWS) {
        int64_t rows = t->r1 - r < BAND_ROWS ? t->r1 - r : BAND_ROWS;
        const struct q8 *x = m->q + r * ldq + from * w->group / 32;
        int64_t next = r + BAND_ROWS < t->r1 ? width : 0;
        for (int64_t i = 0; i < panels; i++) {
            int64_t o = t->o0 + i * TILE_OUTPUTS;
            struct q8_result to = {.y = m->y + r * m->ldy + o, .ldy = m->ldy};
            to.count = t->o1 - o < TILE_OUTPUTS ? t->o1 - o : TILE_OUTPUTS;
            if (from == 0) to.start = w->bias.dims ? (const float *)w->bias.data + o : zeros;
            q8_band(q8_kind_of(w), &tile[i], x, rows, to, next * i / panels,
                    next * (i + 1) / panels);
        }
    }
}

static void q8_many(const struct matmul *m, const struct tile *t, float *work) {
    int64_t groups = m->w->in / m->w->group, chunk = MANY_CHUNK / m->w->group;
    struct tile part = *t;
    for (; part.o0 < t->o1; part.o0 = part.o1) {
        part.o1 = part.o0 + PANELS * TILE_OUTPUTS;
        part.o1 = part.o1 < t->o1 ? part.o1 : t->o1;
        for (int64_t from = 0; from < groups; from += chunk)
            q8_many_chunk(m, &part, from, groups - from < chunk ? groups - from : chunk, work);
    }
}

#endif
