// The CPU's hot loops, one table an instruction set. The plain C table is the definition that the
// others are tested against. A kernel works on rows of f32 in host memory and on one thread.
//
// An output element is computed the same way however many rows or columns a call has, so that a
// sequence in a batch gets bit for bit what it gets alone.
#ifndef COMPUTE_CPU_KERNELS_H
#define COMPUTE_CPU_KERNELS_H

#include "compute/compute.h"

// y[r][o - from] for the outputs o in [from, to) of one weight, over n rows of x.
struct matmul {
    const struct weight *w;
    const float *x; // [n, ldx]
    float *y;       // [n, ldy], indexed by o itself
    int64_t n, ldx, ldy;
};

struct cpu_kernels {
    // work: w->in floats for the kernel's own use
    void (*matmul)(const struct matmul *m, int64_t from, int64_t to, float *work);
    // y[i] = row `row` of the weight, dequantized, in floats
    void (*dequantize_row)(const struct weight *w, int64_t row, float *y);
    float (*dot)(const float *a, const float *b, int64_t n);
    void (*rms_norm)(float *y, const float *x, const float *w, int64_t n, float eps);
    void (*act_mul)(float *y, const float *a, const float *b, int64_t n, enum activation act);
    // a page's scores for one query: s[t] = q . k[t] * scale, t in [from, to); k [page, width]
    void (*scores)(float *s, const float *q, const void *k, enum dtype type, int64_t width,
                   int64_t from, int64_t to, float scale);
    // acc[i] = acc[i] * keep + sum over t in [from, to) of p[t] * v[t][i]
    void (*accumulate)(float *acc, const float *p, const void *v, enum dtype type, int64_t width,
                       int64_t from, int64_t to, float keep);
};

extern const struct cpu_kernels kernels_plain;

// Element i of a float tensor's memory (F32, F16 or BF16) as f32.
float load_float(const void *p, enum dtype type, int64_t i);
void store_float(void *p, enum dtype type, int64_t i, float value);

#endif
