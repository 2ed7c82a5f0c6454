// Products of quantized weights with at most Q8_ROWS rows of x (simd_q8.h), which read the weights
// as published, once: memory is what binds them.
#ifndef COMPUTE_CPU_SIMD_Q8_FEW_H
#define COMPUTE_CPU_SIMD_Q8_FEW_H

#include "compute/cpu/simd_q8.h"

// Each lane goes through rows that follow each other, and fetches what is some way ahead in its
// own: LANES streams, in pages of their own, which prefetchers keep apart. One stream has too few
// reads in flight, and many in one page confuse them.
enum { CODES_AHEAD = 512, SCALES_AHEAD = 64 }; // bytes

// Bytes from a row's beginning to what is to be fetched when byte `at` is read: `ahead` further on,
// or past the row's end in the row that is `next` bytes from this one.
INLINE int64_t ahead_of(int64_t at, int64_t ahead, int64_t row_bytes, int64_t next) {
    at += ahead;
    return at < row_bytes ? at : at - row_bytes + next;
}

struct few {
    struct q8_panel p;
    const struct q8 *x; // [rows, blocks]
    int64_t blocks;     // of 32 columns
    int64_t next;       // rows to the one that a lane reads next: 1, or 0 after the last
    int64_t stride;     // bytes from a row of codes to the next
    int shift;          // a group is 1 << shift blocks
    struct spread spread;
};

// --- one row of x --------------------------------------------------------------------------------

// The codes of one output are multiplied where they lie, SPAN blocks at a time: a block is 128
// bits, whose four lanes hold parts of its sum. The parts of four outputs are added up and put side
// by side in these 128 bits, and those of LANES outputs transposed, so that a lane holds an output.
enum { SPAN = LANES / 4 };

#if defined(__AVX512F__)

INLINE vi vi_four(const int8_t *a, const int8_t *b, const int8_t *c, const int8_t *d) {
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)a));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)b), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)c), 2);
    return _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)d), 3);
}

INLINE void load_block_halves(enum q8_kind kind, const struct q8 *x, int n, vi q[2]) {
    const int8_t *a = x->q, *b = x[n > 1 ? 1 : 0].q, *c = x[n > 2 ? 2 : 0].q,
                 *d = x[n > 3 ? 3 : 0].q;
    if (kind == Q8_CODES8) {
        q[0] = vi_four(a, a + 16, b, b + 16);
        q[1] = vi_four(c, c + 16, d, d + 16);
    } else {
        q[0] = vi_four(a, b, c, d);
        q[1] = vi_four(a + 16, b + 16, c + 16, d + 16);
    }
}

// Of n blocks of one output: four parts of each sum.
INLINE vi span_dots(enum q8_kind kind, const uint8_t *codes, int n, const struct spread *s,
                    const vi q[2]) {
    vi zero = _mm512_setzero_si512();
    if (q8_narrow(kind)) {
        vi half[2];
        load_halves(q8_bits(kind), codes, n, s, half);
        return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(zero, half[0], q[0]), half[1], q[1]);
    }
    if (kind == Q8_CODES8) {
        vi a = _mm512_dpbusd_epi32(zero, vi_load_some(codes, n < 2 ? 32 : 64), q[0]);
        vi b = _mm512_dpbusd_epi32(zero,
                                   vi_load_some(codes + 64, n < 3   ? 0
                                                            : n < 4 ? 32
                                                                    : 64),
                                   q[1]);
        return vi_add(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
    }
    vi c = vi_load_some(codes, n * 16), low = vi_and(c, vi_low());
    vi high = vi_and(vi_shift4(c), vi_low());
    if (q8_floats(kind)) {
        low = vi_e2m1(low);
        high = vi_e2m1(high);
    }
    return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(zero, low, q[0]), high, q[1]);
}

// 128 bits i of vector j become 128 bits j of vector i.
INLINE void transpose_blocks(vi a[SPAN]) {
    vi b0 = _mm512_shuffle_i32x4(a[0], a[1], 0x44), b1 = _mm512_shuffle_i32x4(a[0], a[1], 0xee);
    vi b2 = _mm512_shuffle_i32x4(a[2], a[3], 0x44), b3 = _mm512_shuffle_i32x4(a[2], a[3], 0xee);
    a[0] = _mm512_shuffle_i32x4(b0, b2, 0x88);
    a[1] = _mm512_shuffle_i32x4(b0, b2, 0xdd);
    a[2] = _mm512_shuffle_i32x4(b1, b3, 0x88);
    a[3] = _mm512_shuffle_i32x4(b1, b3, 0xdd);
}

// The sum in f32 from that without its start.
INLINE vf span_sum(enum q8_kind kind, int half, vi s, const struct q8 *x) {
    return sum_of_bits(vi_add(s, vi_set(start_of(kind, half, x))));
}

#else

INLINE void load_block_halves(enum q8_kind kind, const struct q8 *x, int n, vi q[2]) {
    const int8_t *a = x->q, *b = x[n > 1 ? 1 : 0].q;
    q[0] = kind == Q8_CODES8 ? vi_two(a, a + 16) : vi_two(a, b);
    q[1] = kind == Q8_CODES8 ? vi_two(b, b + 16) : vi_two(a + 16, b + 16);
}

// Signed codes times q, in pairs: at most 2 * 128 * 127, which fits.
INLINE vi signed_pairs(vi codes, vi q) {
    return _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(q, codes));
}

// Of n blocks of one output: four parts of each sum.
INLINE vi span_dots(enum q8_kind kind, const uint8_t *codes, int n, const struct spread *s,
                    const vi q[2]) {
    vi ones = vi_set16(1);
    if (q8_narrow(kind)) { // four products at most 63 * 128 each fit
        vi half[2];
        load_halves(q8_bits(kind), codes, n, s, half);
        vi pairs = _mm256_add_epi16(_mm256_maddubs_epi16(half[0], q[0]),
                                    _mm256_maddubs_epi16(half[1], q[1]));
        return vi_madd(pairs, ones);
    }
    if (kind == Q8_CODES8) {
        vi centre = _mm256_set1_epi8(-128);
        vi a = signed_pairs(_mm256_xor_si256(vi_load(codes), centre), q[0]), b = a;
        if (n > 1) b = signed_pairs(_mm256_xor_si256(vi_load(codes + 32), centre), q[1]);
        a = vi_madd(a, ones);
        b = vi_madd(b, ones);
        return vi_add(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
    }
    vi c = n > 1 ? vi_load(codes) : vi_two(codes, codes), low = vi_and(c, vi_low());
    vi high = vi_and(vi_shift4(c), vi_low());
    if (q8_floats(kind))
        c = _mm256_add_epi16(signed_pairs(vi_e2m1(low), q[0]), signed_pairs(vi_e2m1(high), q[1]));
    else
        c = _mm256_add_epi16(_mm256_maddubs_epi16(low, q[0]), _mm256_maddubs_epi16(high, q[1]));
    return vi_madd(c, ones);
}

// 128 bits i of vector j become 128 bits j of vector i.
INLINE void transpose_blocks(vi a[SPAN]) {
    vi b = _mm256_permute2x128_si256(a[0], a[1], 0x20);
    a[1] = _mm256_permute2x128_si256(a[0], a[1], 0x31);
    a[0] = b;
}

// The sum in f32. Those of codes of 8 bits and of e2m1 are of signed codes, the others lack their
// start.
INLINE vf span_sum(enum q8_kind kind, int half, vi s, const struct q8 *x) {
    if (kind == Q8_CODES8 || q8_floats(kind)) return _mm256_cvtepi32_ps(s);
    return sum_of_bits(vi_add(s, vi_set(start_of(kind, half, x))));
}

#endif

// n blocks of x in the order of their codes (span_dots).
INLINE void load_span(enum q8_kind kind, const struct q8 *x, int n, vi q[2]) {
    load_block_halves(kind, x, n, q);
    if (kind == Q8_HALVES4) { // even elements, and odd ones
        vi even = vi_low64(q[0], q[1]), odd = vi_high64(q[0], q[1]);
        q[0] = even;
        q[1] = odd;
    }
    if (kind != Q8_CODES2) return;
    vi even = vi_low32(q[0], q[1]), odd = vi_high32(q[0], q[1]); // as load_halves has them
    q[0] = even;
    q[1] = odd;
}

// The sums of four outputs' blocks, or of their halves, of which the second's are in *more. Parts
// of sums of codes of up to 5 bits fit 16 bits: 8 * 31 * 127 at most.
INLINE vi sum_four(enum q8_kind kind, const vi s[4], vi *more) {
    vi a, b, ones = vi_set16(1);
    if (q8_bits(kind) > 5) {
        a = vi_add(vi_low32(s[0], s[1]), vi_high32(s[0], s[1])); // 0 1 0 1
        b = vi_add(vi_low32(s[2], s[3]), vi_high32(s[2], s[3]));
        return vi_add(vi_low64(a, b), vi_high64(a, b));
    }
    a = vi_madd(vi_pack(s[0], s[1]), ones); // 0 0 1 1
    b = vi_madd(vi_pack(s[2], s[3]), ones);
    *more = vi_odd32(a, b);
    return kind == Q8_HALVES4 ? vi_even32(a, b) : vi_add(vi_even32(a, b), *more);
}

// The first of a block's groups, as they are loaded.
INLINE int64_t group_at(enum q8_kind kind, const struct few *f, int64_t block) {
    return kind == Q8_HALVES4 ? 2 * block : block >> f->shift;
}

// y and its part of n blocks
INLINE vf add_span(enum q8_kind kind, const struct few *f, int64_t block, int n, vf y) {
    int64_t bytes = 4 * q8_bits(kind), at = block * bytes;
    int64_t next = ahead_of(at, CODES_AHEAD, f->blocks * bytes, f->next * f->stride);
    const struct q8 *x = f->x + block;
    vi q[2], s[SPAN], more[SPAN];
    load_span(kind, x, n, q);
    for (int i = 0; i < SPAN; i++) {
        vi four[4];
        for (int k = 0; k < 4; k++) {
            const uint8_t *codes = f->p.codes[4 * i + k];
            four[k] = span_dots(kind, codes + at, n, &f->spread, q);
            for (int64_t l = 0; l < SPAN * bytes; l += 64)
                _mm_prefetch((const char *)codes + next + l, _MM_HINT_T0);
        }
        s[i] = sum_four(kind, four, &more[i]);
    }
    transpose_blocks(s);
    if (kind == Q8_HALVES4) transpose_blocks(more);
    for (int i = 0; i < n; i++) {
        int64_t g = (group_at(kind, f, block + i) - f->p.from) * LANES;
        const float *scale = f->p.scale + g;
        vf bias = q8_floats(kind) ? vf_zero() : vf_load(f->p.bias + g);
        y = add_block(y, span_sum(kind, 0, s[i], x + i), vf_load(scale), bias, x + i);
        if (kind == Q8_HALVES4)
            y = add_block(y, span_sum(kind, 1, more[i], x + i), vf_load(scale + LANES), bias,
                          x + i);
    }
    return y;
}

INLINE vf add_spans(enum q8_kind kind, const struct few *f, int64_t block, int64_t end, vf y) {
    for (; block + SPAN <= end; block += SPAN) y = add_span(kind, f, block, SPAN, y);
    switch (end - block) {
    case 1: return add_span(kind, f, block, 1, y);
#if defined(__AVX512F__)
    case 2: return add_span(kind, f, block, 2, y);
    case 3: return add_span(kind, f, block, 3, y);
#endif
    default: return y;
    }
}

// --- more ----------------------------------------------------------------------------------------

// y += the parts of the blocks [block, end) for xr rows of x
INLINE void few_blocks(int xr, enum q8_kind kind, const struct few *f, int64_t block, int64_t end,
                       vf y[Q8_ROWS]) {
    int64_t bytes = 4 * q8_bits(kind), lines = (LANES * bytes + 63) / 64;
    for (; block < end; block++) {
        int64_t g = (group_at(kind, f, block) - f->p.from) * LANES;
        int64_t next = ahead_of(block * bytes, CODES_AHEAD, f->blocks * bytes, f->next * f->stride);
        vf scale[2] = {vf_load(f->p.scale + g)}, bias = vf_zero();
        if (kind == Q8_HALVES4) scale[1] = vf_load(f->p.scale + g + LANES);
        if (!q8_floats(kind)) bias = vf_load(f->p.bias + g);
        vi c[8];
        load_codes(kind, &f->p, block, c);
        for (int64_t i = 0; i < lines; i++) // of some rows in turn
            _mm_prefetch((const char *)f->p.codes[(block * lines + i) % LANES] + next, _MM_HINT_T0);
        for (int r = 0; r < xr; r++) {
            const struct q8 *x = f->x + r * f->blocks + block;
            for (int half = 0; half < (kind == Q8_HALVES4 ? 2 : 1); half++)
                y[r] = add_block(y[r], block_sum(kind, half, c, x), scale[half], bias, x);
        }
    }
}

// --- any number ----------------------------------------------------------------------------------

// Some of the scales that will come are fetched while others are used: one row of four at a time,
// since a line has four times 16 bytes.
INLINE void fetch_scales(const struct few *f, const struct tensor *t,
                         const uint8_t *const row[LANES], int64_t chunk) {
    int64_t size = (int64_t)dtype_size(t->type);
    int64_t next =
        ahead_of(f->p.from * size, SCALES_AHEAD, t->n[1] * size, f->next * t->stride[0] * size);
    for (int64_t l = chunk % 4; l < LANES; l += 4)
        _mm_prefetch((const char *)row[l] + next, _MM_HINT_T0);
}

// y += the products of LANES outputs with xr rows of x, by chunks of 16 bytes of scales
INLINE void few_panel(int xr, enum q8_kind kind, const struct weight *w, struct few *f,
                      vf y[Q8_ROWS]) {
    int64_t groups = group_at(kind, f, f->blocks), some = q8_floats(kind) ? 16 : 8;
    f->p.groups = groups < some ? groups : some;
    for (int64_t block = 0, chunk = 0, end; block < f->blocks; block = end, chunk++) {
        f->p.from = group_at(kind, f, block);
        if (f->p.from + some > groups) f->p.from = groups - f->p.groups; // some once more
        end = f->p.from + f->p.groups;
        end = kind == Q8_HALVES4 ? end / 2 : end << f->shift;
        load_scales(kind, w, &f->p);
        fetch_scales(f, &w->scales, f->p.scales, chunk);
        if (!q8_floats(kind)) fetch_scales(f, &w->biases, f->p.biases, chunk);
        if (xr == 1)
            y[0] = add_spans(kind, f, block, end, y[0]);
        else
            few_blocks(xr, kind, f, block, end, y);
    }
}

INLINE void q8_few_rows(int xr, enum q8_kind kind, const struct weight *w, struct few *f,
                        vf y[Q8_ROWS]) {
    switch (xr) {
    case 1: few_panel(1, kind, w, f, y); break;
    case 2: few_panel(2, kind, w, f, y); break;
    case 3: few_panel(3, kind, w, f, y); break;
    case 4: few_panel(4, kind, w, f, y); break;
#if defined(__AVX512F__)
    case 5: few_panel(5, kind, w, f, y); break;
    case 6: few_panel(6, kind, w, f, y); break;
    case 7: few_panel(7, kind, w, f, y); break;
    case 8: few_panel(8, kind, w, f, y); break;
#endif
    }
}

// Each kind has a function of its own: compilers allocate registers worse in a larger one.
static void few_codes2(int xr, const struct weight *w, struct few *f, vf y[Q8_ROWS]) {
    q8_few_rows(xr, Q8_CODES2, w, f, y);
}
static void few_codes3(int xr, const struct weight *w, struct few *f, vf y[Q8_ROWS]) {
    q8_few_rows(xr, Q8_CODES3, w, f, y);
}
static void few_codes5(int xr, const struct weight *w, struct few *f, vf y[Q8_ROWS]) {
    q8_few_rows(xr, Q8_CODES5, w, f, y);
}
static void few_codes6(int xr, const struct weight *w, struct few *f, vf y[Q8_ROWS]) {
    q8_few_rows(xr, Q8_CODES6, w, f, y);
}
static void few_codes4(int xr, const struct weight *w, struct few *f, vf y[Q8_ROWS]) {
    q8_few_rows(xr, Q8_CODES4, w, f, y);
}
static void few_codes8(int xr, const struct weight *w, struct few *f, vf y[Q8_ROWS]) {
    q8_few_rows(xr, Q8_CODES8, w, f, y);
}
static void few_floats4(int xr, const struct weight *w, struct few *f, vf y[Q8_ROWS]) {
    q8_few_rows(xr, Q8_FLOATS4, w, f, y);
}
static void few_halves4(int xr, const struct weight *w, struct few *f, vf y[Q8_ROWS]) {
    q8_few_rows(xr, Q8_HALVES4, w, f, y);
}

static void q8_few(const struct matmul *m, const struct tile *t, float *work) {
    static void (*const of_kind[])(int, const struct weight *, struct few *, vf *) = {
        [Q8_CODES2] = few_codes2,   [Q8_CODES3] = few_codes3,  [Q8_CODES4] = few_codes4,
        [Q8_CODES5] = few_codes5,   [Q8_CODES6] = few_codes6,  [Q8_CODES8] = few_codes8,
        [Q8_FLOATS4] = few_floats4, [Q8_HALVES4] = few_halves4};
    const struct weight *w = m->w;
    int xr = (int)(t->r1 - t->r0);
    struct few f = {.blocks = w->in / 32, .stride = w->data.stride[0] * 4};
    f.shift = w->group == 32 ? 0 : w->group == 64 ? 1 : 2;
    f.x = m->q + t->r0 * f.blocks;
    if (q8_narrow(q8_kind_of(w))) spread_of(q8_kind_of(w), &f.spread);
    f.p.scale = work;
    f.p.bias = work + 16 * LANES;
    int64_t count = (t->o1 - t->o0 + LANES - 1) / LANES; // of a lane
    for (int64_t o = t->o0; o < t->o0 + count; o++) {
        f.next = o + 1 < t->o0 + count;
        q8_rows(w, o, count, t->o1, &f.p);
        vf y[Q8_ROWS];
        float lane[LANES] = {0};
        for (int64_t l = 0; l < LANES && w->bias.dims && o + l * count < t->o1; l++)
            lane[l] = ((const float *)w->bias.data)[o + l * count];
        for (int i = 0; i < Q8_ROWS; i++) y[i] = vf_load(lane);
        of_kind[q8_kind_of(w)](xr, w, &f, y);
        for (int i = 0; i < xr; i++) {
            vf_store(lane, y[i]);
            float *to = m->y + (t->r0 + i) * m->ldy;
            for (int64_t l = 0; l < LANES && o + l * count < t->o1; l++)
                to[o + l * count] = lane[l];
        }
    }
}

#endif
