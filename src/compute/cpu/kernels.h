// The CPU's hot loops, one table an instruction set. The plain C table is the definition that the
// others are tested against. A kernel works on host memory and on one thread.
//
// An output element is computed the same way, in the same order, however many rows or columns a
// call has, so that a sequence in a batch gets bit for bit what it gets alone.
#ifndef COMPUTE_CPU_KERNELS_H
#define COMPUTE_CPU_KERNELS_H

#include "compute/recurrent.h"

// Codes that products with activations in 8 bits take: affine ones, and e2m1 with a scale for each
// block of 32, or for each half of one.
enum q8_kind {
    Q8_CODES2,
    Q8_CODES3,
    Q8_CODES4,
    Q8_CODES5,
    Q8_CODES6,
    Q8_CODES8,
    Q8_FLOATS4,
    Q8_HALVES4,
};
enum { Q8_KINDS = Q8_HALVES4 + 1 };

static inline bool q8_floats(enum q8_kind kind) { return kind >= Q8_FLOATS4; }

static inline int q8_bits(enum q8_kind kind) {
    return kind == Q8_CODES8 ? 8 : q8_floats(kind) ? 4 : 2 + (int)kind;
}

// For other weights than those that are rounded for, any.
static inline enum q8_kind q8_kind_of(const struct weight *w) {
    if (w->layout == WEIGHT_MXFP4) return Q8_FLOATS4;
    if (w->layout == WEIGHT_NVFP4) return Q8_HALVES4;
    return w->bits >= 2 && w->bits <= 6 ? (enum q8_kind)(w->bits - 2) : Q8_CODES8;
}

// 32 activations in 8 bits: x = scale * q, |q| <= 127. For 4-bit codes the even elements come
// first, then the odd ones, as masking and shifting a byte with two codes yields them; for 2-bit
// codes those of each half come likewise, every fourth first.
struct q8 {
    int8_t q[32];
    float scale; // of at most 22 bits, so that Q8_FLOAT times it is exact
    float moved; // -Q8_FLOAT * scale
    float sum;   // of the exact activations, for the weights' bias
    // Q8_BITS - centre * sum of q. A sum of code * q that begins with it is that of the signed
    // codes, code - centre, and seen as a float it is that sum plus Q8_FLOAT. Of Q8_HALVES4: the
    // same of each half without Q8_BITS, in 16 bits, the first one's in the lower ones.
    int32_t start;
};
enum { Q8_BITS = 0x4b400000 };
static const float Q8_FLOAT = 0x1.8p23f; // whose bits are Q8_BITS, and whose ulp is 1

// A tile of y = x w^T: the rows [r0, r1) of x and the outputs [o0, o1) of w.
struct matmul {
    const struct weight *w;
    const float *x;     // [n, ldx]
    const struct q8 *q; // [n, in / 32], or NULL: compute in f32
    float *y;           // [n, ldy]
    int64_t ldx, ldy;
    bool bf16; // x is rounded to bf16, as w is, whose rows lie together
};
struct tile {
    int64_t r0, r1, o0, o1;
};

// Floats that a thread needs to work in, for a weight with `in` columns: a panel of the weight,
// whose rows are padded, or all would lie in the same few sets of a cache.
enum { MATMUL_OUTPUTS = 128, MATMUL_CHUNK = 1024, MATMUL_PAD = 16 };
static inline int64_t matmul_work(int64_t in) {
    return MATMUL_OUTPUTS * (MATMUL_CHUNK + MATMUL_PAD) + in;
}

// Keys or values that a cache keeps of some tokens of one page, of one head. Values, and keys that
// are values too, stand as rows: [tokens, width]; keys that are only keys stand across: [width,
// tokens], so that what a score needs of many tokens is side by side. Of I8 there is a BF16 scale
// for each KV_BLOCK elements of a token, in the same order: [tokens, blocks] or [blocks, tokens].
struct kept {
    char *p;
    uint16_t *scale;  // NULL but of I8
    const char *next; // what the next step will read: a hint
};

// One step of attention: `queries` heads that share a kv head, against the tokens [at, at + count)
// of a sequence, of which query m sees [from[m], to[m]). The tokens are those of the pieces, one
// after the other. The state of the running softmax is the weighted sum acc, the largest score top,
// and the sum of exp(score - top). A step begins at a multiple of ATTEND_TOKENS.
enum { ATTEND_TOKENS = 64, ATTEND_LD = ATTEND_TOKENS + 16 };
struct attend_piece {
    int64_t count, room; // tokens here, and up to the page's end
    struct kept k, v;
};
struct attend {
    int64_t queries, k_width, v_width, at, count;
    const float *q; // [queries, k_width], scaled
    const struct attend_piece *piece;
    int64_t pieces;
    enum dtype k_type, v_type;
    bool across;       // the keys are
    int64_t page, ldv; // elements from one of a key to the next across; from a value to the next
    float soft_cap;    // of scores; 0: none
    const int64_t *from, *to;
    float *acc, *top, *sum; // [queries, v_width], [queries], [queries]
    float *work;            // attend_work floats
};
static inline int64_t attend_work(int64_t queries, int64_t k_width, int64_t v_width) {
    return (queries + k_width + v_width) * ATTEND_LD;
}

// A band of channels through the rows of one run (compute/recurrent.h). ld: floats from a row to
// the next.
struct scan {
    int64_t rows, channels, states;
    float *y;
    const float *x, *delta, *b, *c;
    int64_t ld_y, ld_x, ld_delta, ld_b, ld_c;
    const float *a, *d;
    float *h;
    int64_t ld_h; // of a, too
};
struct lru {
    int64_t rows, channels;
    float *y;
    const float *x, *gate, *input, *rate;
    int64_t ld_y, ld_x, ld_gate, ld_input;
    float *h;
    bool first; // the first row is the sequence's first
};

// The rows [from, to) of a chunk of SSD_CHUNK for one head: row t is
//     y[t] = decay[t] (c[t] h) + sum over s <= t of mix[t, s] x[s] + d x[t]
// The lists are by place in the chunk; those of x and b begin with the chunk, c and y with `from`.
struct ssd_rows {
    int64_t from, to, width, states;
    float *const *y;                  // [width] each
    const float *const *x;            // [width]
    const float *const *b, *const *c; // [states]
    const float *mix;                 // [SSD_CHUNK, SSD_CHUNK]
    const float *decay;               // [SSD_CHUNK]
    float d;
    float *h; // [states, width]
};

// A row of a chunk of a delta rule, one head's: its own puts' keys are made, and those before it
// decay. Scores are its products with the keys: a's with those before it, as they were, r's with
// all, decayed.
struct delta_row {
    int64_t width, before, count; // of a key; puts before this row's, and with them
    const float *r, *k;           // [width]
    const float *a, *b;           // [width], or NULL: the delta rule with beta
    float beta;
    const float *g;
    bool each;                           // g is [width], not one
    float *keys, *decay;                 // [count, width], [width]
    float *a_scores, *r_scores;          // [before], [count]
    float *a_decayed, *r_decayed, *work; // [width]: what they read S with; [2 * width]
};
// y = x h; rows is even
struct delta_read {
    int64_t rows, k_width, v_width;
    const float *x, *h; // [rows, k_width], [k_width, v_width]
    float *y;           // [rows, v_width]
};
// y = from + sum over i < count of by[i] x[i]
struct delta_mix {
    int64_t count, width;
    const float *from, *by, *x; // [width], [count], [count, width]
    float *y;                   // may be from
};
// h = diag(decay) h + sum over i < count of keys[i] values[i]^T
struct delta_carry {
    int64_t count, k_width, v_width;
    const float *keys, *values, *decay;
    float *h;
};

// 2 sqrt(2 / pi), and that times 0.044715. With u the polynomial of the tanh approximation of GELU,
// x (1 + tanh(u)) / 2 is x / (1 + e^(-2 u)), which keeps its precision where tanh comes near -1.
static const float GELU_LINEAR = 1.5957691216f, GELU_CUBIC = 0.0713548162726f;

struct cpu_kernels {
    void (*matmul)(const struct matmul *m, const struct tile *t, float *work);
    // Rounds a row of n activations, n a multiple of 32, for a kind of weights. NULL: products are
    // all in f32.
    void (*quantize)(struct q8 *q, const float *x, int64_t n, enum q8_kind kind);
    // y = row `row` of the weight, in floats
    void (*dequantize_row)(const struct weight *w, int64_t row, float *y);
    // w NULL: ones; b NULL: zeros
    void (*rms_norm)(float *y, const float *x, const float *w, int64_t n, float eps);
    void (*layer_norm)(float *y, const float *x, const float *w, const float *b, int64_t n,
                       float eps);
    void (*activate)(float *x, int64_t n, enum activation act);
    void (*act_mul)(float *y, const float *a, const float *b, int64_t n, enum activation act);
    void (*add)(float *x, const float *y, int64_t n); // x += y
    void (*scale)(float *x, int64_t n, float by);
    void (*soft_cap)(float *x, int64_t n, float cap);
    void (*add_scaled)(float *x, const float *y, int64_t n, float by); // x += by * y
    float (*mean_square)(const float *x, int64_t n);
    // Sum of exp((x - less) * by).
    float (*exp_sum)(const float *x, int64_t n, float less, float by);
    // x = max(x - (mean + by * deviation), 0)
    void (*cut_below)(float *x, int64_t n, float by);
    // x = min(max(x, least), most) + plus
    void (*clamp)(float *x, int64_t n, float least, float most, float plus);
    // cos and sin of at * freq[i], times scale
    void (*angles)(float *cos, float *sin, const float *freq, int64_t n, float at, float scale);
    // rotates the pairs (a[i], b[i]) in place
    void (*rotate)(float *a, float *b, const float *cos, const float *sin, int64_t n);
    // rotates the pairs (a[2 i], a[2 i + 1]) in place
    void (*rotate_pairs)(float *a, const float *cos, const float *sin, int64_t n);
    // n floats as elements of another type
    void (*convert)(void *to, enum dtype type, const float *from, int64_t n);
    void (*attend)(const struct attend *a);
    // y = b + sum over k < taps of w[k] * x[k]; w [taps, ld], b may be NULL
    void (*convolve)(float *y, const float *const *x, const float *w, const float *b, int taps,
                     int64_t n, int64_t ld);
    void (*scan)(const struct scan *s);
    void (*lru)(const struct lru *l);
    // scores[t, s] = c[t] b[s] for from <= t < to, s <= t; [SSD_CHUNK, SSD_CHUNK]
    void (*ssd_scores)(const struct ssd_rows *s, float *scores);
    void (*ssd_rows)(const struct ssd_rows *s);
    // h = by * h + sum over the whole chunk of b[s] x[s]^T; x [SSD_CHUNK, width]
    void (*ssd_carry)(const struct ssd_rows *s, const float *x, float by);
    // y = rate * softplus(x + bias)
    void (*log_decay)(float *y, const float *x, const float *rate, const float *bias, int64_t n);
    void (*delta_row)(const struct delta_row *d);
    void (*delta_read)(const struct delta_read *d);
    void (*delta_mix)(const struct delta_mix *d);
    void (*delta_carry)(const struct delta_carry *d);
};

// Products with bf16 weights of kernels_avx512, on CPUs that multiply pairs of them (AVX512-BF16).
void matmul_avx512_bf16(const struct matmul *m, const struct tile *t, float *work);

extern const struct cpu_kernels kernels_plain, kernels_avx2, kernels_avx512, kernels_neon,
    kernels_dotprod;

// A row as it is kept in I8 (struct kept): |q| <= 127. A block that holds what is no finite number
// reads as NaN.
void keep_row(int8_t *q, uint16_t *scale, const float *x, int64_t n);
// Twice the value of each e2m1 code (OCP MX 1.0): 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
extern const int8_t e2m1_twice[16];

#endif
