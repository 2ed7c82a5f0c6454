// Matrices in every layout that kernels read, with what they stand for in double precision.
#ifndef TESTS_MATRIX_H
#define TESTS_MATRIX_H

#include "machine.h"

// side by side, every other one, as columns, as every other column, some of more
enum place { TIGHT, APART, DOWN, DOWN_APART, CUT };

struct layout {
    enum weight_layout kind;
    enum dtype type; // of dense data, or of scales and biases
    int bits, group;
    enum place place;
};

struct matrix {
    struct weight w;
    double *value;  // [out, in]
    double *spread; // |scale (code - 2^(bits - 1))|: what rounding of x is multiplied by
    double *size;   // |scale code| + |bias|: what f32 arithmetic rounds
};

static inline void matrix_free(struct matrix *m) {
    free(m->value);
    free(m->spread);
    free(m->size);
}

static inline struct matrix dense_matrix(struct machine *m, enum dtype type, int64_t out,
                                         int64_t in) {
    int64_t n = out * in;
    struct matrix a = {.value = mem_array((size_t)n, 8)};
    a.spread = mem_array((size_t)n, 8);
    a.size = mem_array((size_t)n, 8);
    for (int64_t i = 0; i < n; i++) a.value[i] = noise();
    void *data = round_to(type, a.value, n, a.value);
    for (int64_t i = 0; i < n; i++) a.size[i] = fabs(a.value[i]);
    a.w = (struct weight){.layout = WEIGHT_DENSE, .out = out, .in = in};
    a.w.data = tensor_2d(type, out, in, put(m, data, (size_t)n * dtype_size(type)));
    free(data);
    return a;
}

static inline struct matrix affine_matrix(struct machine *m, const struct layout *l, int64_t out,
                                          int64_t in) {
    int64_t n = out * in, groups = n / l->group, words = in * l->bits / 32;
    struct matrix a = {.value = mem_array((size_t)n, 8)};
    a.spread = mem_array((size_t)n, 8);
    a.size = mem_array((size_t)n, 8);
    double *scale = mem_array((size_t)groups, 8), *bias = mem_array((size_t)groups, 8);
    uint32_t *codes = mem_array((size_t)(out * words), 4);
    for (int64_t g = 0; g < groups; g++) {
        scale[g] = (g % 7 == 3 ? -1 : 1) * (0.5 + uniform()) / (1 << (l->bits - 1));
        bias[g] = -scale[g] * (1 << (l->bits - 1)) * (0.8 + 0.4 * uniform());
    }
    void *scales = round_to(l->type, scale, groups, scale);
    void *biases = round_to(l->type, bias, groups, bias);
    for (int64_t i = 0; i < n; i++) {
        uint32_t code = random_bits() & ((1u << l->bits) - 1);
        for (int b = 0; b < l->bits; b++) {
            int64_t bit = i % in * l->bits + b;
            codes[i / in * words + bit / 32] |= (code >> b & 1) << (bit & 31);
        }
        double s = scale[i / l->group], c = bias[i / l->group];
        a.value[i] = s * code + c;
        a.spread[i] = fabs(s * (code - (double)(1 << (l->bits - 1))));
        a.size[i] = fabs(s * code) + fabs(c);
    }
    int64_t each = in / l->group;
    size_t bytes = (size_t)groups * dtype_size(l->type);
    a.w = (struct weight){WEIGHT_AFFINE, out, in, l->bits, l->group, .bias = {0}};
    a.w.data = tensor_2d(DT_U32, out, words, put(m, codes, (size_t)(out * words) * 4));
    a.w.scales = tensor_2d(l->type, out, each, put(m, scales, bytes));
    a.w.biases = tensor_2d(l->type, out, each, put(m, biases, bytes));
    free(scale), free(bias), free(scales), free(biases), free(codes);
    return a;
}

static inline double e4m3_value(int b) {
    int exp = b >> 3 & 15, man = b & 7;
    double v = exp ? ldexp(8 + man, exp - 10) : ldexp(man, -9);
    return b & 128 ? -v : v;
}

// MXFP4 or NVFP4.
static inline struct matrix e2m1_matrix(struct machine *m, const struct layout *l, int64_t out,
                                        int64_t in) {
    static const double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    bool nv = l->kind == WEIGHT_NVFP4;
    int64_t n = out * in, groups = n / l->group;
    struct matrix a = {.value = mem_array((size_t)n, 8)};
    a.spread = mem_array((size_t)n, 8);
    a.size = mem_array((size_t)n, 8);
    uint8_t *codes = mem_array((size_t)n / 2, 1), *scales = mem_array((size_t)groups, 1);
    for (int64_t g = 0; g < groups; g++)
        scales[g] = (uint8_t)(nv ? 20 + random_bits() % 30 : 122 + random_bits() % 8);
    for (int64_t i = 0; i < n; i++) {
        uint32_t code = random_bits() & 15;
        uint8_t by = scales[i / l->group];
        codes[i / 2] |= (uint8_t)(code << i % 2 * 4);
        double scale = nv ? 0.75 * e4m3_value(by) : ldexp(1, by - 127);
        a.value[i] = (code & 8 ? -values[code & 7] : values[code & 7]) * scale;
        a.spread[i] = a.size[i] = fabs(a.value[i]);
    }
    a.w = (struct weight){l->kind, out, in, 4, l->group, .factor = 0.75f};
    a.w.data = tensor_2d(DT_U32, out, in / 8, put(m, codes, (size_t)n / 2));
    a.w.scales = tensor_2d(l->type, out, in / l->group, put(m, scales, (size_t)groups));
    free(codes), free(scales);
    return a;
}

// As bytes of F8_E8M0, random ones.
static inline void *powers_of_two(double *scale, int64_t n) {
    uint8_t *bytes = mem_array((size_t)n, 1);
    for (int64_t i = 0; i < n; i++) {
        bytes[i] = (uint8_t)(116 + random_bits() % 8);
        scale[i] = ldexp(1, bytes[i] - 127);
    }
    return bytes;
}

static inline struct matrix f8_matrix(struct machine *m, const struct layout *l, int64_t out,
                                      int64_t in) {
    int64_t rows = l->bits ? 1 : l->group; // MXFP8's blocks are of one row
    int64_t n = out * in, side = l->group, across = (in + side - 1) / side;
    int64_t blocks = (out + rows - 1) / rows * across;
    struct matrix a = {.value = mem_array((size_t)n, 8)};
    a.spread = mem_array((size_t)n, 8);
    a.size = mem_array((size_t)n, 8);
    double *scale = mem_array((size_t)blocks, 8);
    for (int64_t i = 0; i < blocks; i++) scale[i] = (0.5 + uniform()) / 100;
    void *scales = l->bits ? powers_of_two(scale, blocks) : round_to(l->type, scale, blocks, scale);
    uint8_t *data = mem_array((size_t)n, 1);
    for (int64_t i = 0; i < n; i++) {
        data[i] = (uint8_t)(random_bits() & 0xf7); // 0x7f and 0xff are no numbers
        double by = scale[i / in / rows * across + i % in / side];
        a.value[i] = e4m3_value(data[i]) * by;
        a.spread[i] = a.size[i] = fabs(a.value[i]);
    }
    a.w = (struct weight){WEIGHT_F8, out, in, .group = l->group, .block_rows = rows};
    a.w.data = tensor_2d(DT_F8_E4M3, out, in, put(m, data, (size_t)n));
    a.w.scales = tensor_2d(l->type, blocks / across, across,
                           put(m, scales, (size_t)blocks * dtype_size(l->type)));
    free(scale), free(scales), free(data);
    return a;
}

static inline struct matrix tight_matrix(struct machine *m, const struct layout *l, int64_t out,
                                         int64_t in) {
    if (l->kind == WEIGHT_DENSE) return dense_matrix(m, l->type, out, in);
    if (l->kind == WEIGHT_F8) return f8_matrix(m, l, out, in);
    return l->kind == WEIGHT_AFFINE ? affine_matrix(m, l, out, in) : e2m1_matrix(m, l, out, in);
}

static inline double *take(double *from, int64_t rows, int64_t width, int64_t row_step,
                           int64_t element_step, int64_t at) {
    double *to = mem_array((size_t)(rows * width), 8);
    for (int64_t i = 0; i < rows * width; i++)
        to[i] = from[i / width * row_step + i % width * element_step + at];
    free(from);
    return to;
}

// The same matrix as a view of one with twice its rows, or of one with rows for columns.
static inline struct matrix make_matrix(struct machine *m, const struct layout *l, int64_t out,
                                        int64_t in) {
    if (l->place == TIGHT) return tight_matrix(m, l, out, in);
    if (l->place == CUT) {
        struct matrix a = tight_matrix(m, l, out + 131, in);
        a.value = take(a.value, out, in, in, 1, 131 * in);
        a.spread = take(a.spread, out, in, in, 1, 131 * in);
        a.size = take(a.size, out, in, in, 1, 131 * in);
        a.w = weight_rows(&a.w, 131, out, 1);
        return a;
    }
    bool down = l->place != APART, apart = l->place != DOWN;
    int64_t all = apart ? 2 * out : out;
    struct matrix a = tight_matrix(m, l, down ? in : all, down ? all : in);
    int64_t step = down ? all / out : 2 * in, each = down ? all : 1, at = down ? apart : in;
    a.value = take(a.value, out, in, step, each, at);
    a.spread = take(a.spread, out, in, step, each, at);
    a.size = take(a.size, out, in, step, each, at);
    if (down) a.w = weight_transposed(&a.w);
    if (apart) a.w = weight_rows(&a.w, 1, out, 2);
    return a;
}

static const struct layout layouts[] = {
    {WEIGHT_DENSE, DT_F32, 0, 0, TIGHT},       {WEIGHT_DENSE, DT_F16, 0, 0, TIGHT},
    {WEIGHT_DENSE, DT_BF16, 0, 0, TIGHT},      {WEIGHT_AFFINE, DT_F16, 4, 32, TIGHT},
    {WEIGHT_AFFINE, DT_BF16, 4, 64, TIGHT},    {WEIGHT_AFFINE, DT_F32, 4, 128, TIGHT},
    {WEIGHT_AFFINE, DT_F16, 8, 32, TIGHT},     {WEIGHT_AFFINE, DT_BF16, 8, 64, TIGHT},
    {WEIGHT_AFFINE, DT_F32, 8, 128, TIGHT},    {WEIGHT_MXFP4, DT_F8_E8M0, 4, 32, TIGHT},
    {WEIGHT_MXFP4, DT_F8_E8M0, 4, 32, APART},  {WEIGHT_AFFINE, DT_BF16, 4, 64, APART},
    {WEIGHT_DENSE, DT_BF16, 0, 0, APART},      {WEIGHT_DENSE, DT_F16, 0, 0, DOWN},
    {WEIGHT_F8, DT_F32, 0, 128, TIGHT},        {WEIGHT_F8, DT_BF16, 0, 128, CUT},
    {WEIGHT_AFFINE, DT_F16, 2, 32, TIGHT},     {WEIGHT_AFFINE, DT_BF16, 3, 64, TIGHT},
    {WEIGHT_AFFINE, DT_F16, 5, 32, TIGHT},     {WEIGHT_AFFINE, DT_BF16, 6, 128, TIGHT},
    {WEIGHT_DENSE, DT_BF16, 0, 0, DOWN_APART}, {WEIGHT_NVFP4, DT_F8_E4M3, 4, 16, TIGHT},
    {WEIGHT_NVFP4, DT_F8_E4M3, 4, 16, APART},  {WEIGHT_F8, DT_F8_E8M0, 8, 32, TIGHT},
    {WEIGHT_AFFINE, DT_BF16, 4, 32, TIGHT},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static inline int64_t whole_groups(const struct layout *l, int64_t in) {
    return l->kind == WEIGHT_DENSE || (l->kind == WEIGHT_F8 && !l->bits)
               ? in
               : (in + l->group - 1) / l->group * l->group;
}

#endif
