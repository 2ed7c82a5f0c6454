// ggml's block types, and what each becomes: MLX affine groups of 32 (w = scale * code + bias).
//
//   Q4_0  d (q - 8)             4-bit, scale d, bias -8 d        exact
//   Q4_1  d q + m               4-bit, d, m                      exact
//   Q5_0  d (q - 16)            8-bit, d, -16 d                  exact
//   Q5_1  d q + m               8-bit, d, m                      exact
//   Q8_0  d q, q signed         8-bit, d, -128 d                 exact
//   Q3_K  d s q per 16          8-bit, -d, 128 d                 exact: |s q| <= 128 is the code
//   Q4_K  d s q - dmin t per 32 4-bit, f32 d s, -dmin t          exact in f32
//   Q5_K  the same              8-bit, f32 d s, -dmin t          exact in f32
//   Q2_K  d s q - dmin t per 16 8-bit, f32, fitted to each 32    within 1/510 of the group's range
//   Q6_K  d s q per 16          8-bit, f32, fitted to each 32    within 1/510 of the group's range
//
// "Exact" is bit for bit what ggml's own dequantization gives in f32 (but for the sign of zero).
// Where f16 holds scales and biases exactly they are f16; 5-bit codes sit in 8 bits because the
// kernels read 4 and 8.
#ifndef CHECKPOINT_GGUF_QUANT_H
#define CHECKPOINT_GGUF_QUANT_H

#include "checkpoint/gguf.h"

enum { GGUF_GROUP = 32 };

int gguf_affine_bits(uint32_t type);   // 4 or 8; 0 for a type that is no block type
bool gguf_affine_exact(uint32_t type); // of a block type

// Looks at every block of n bytes: false when a scale is not finite. *f16 is whether f16 holds all
// scales and biases exactly.
bool gguf_scan(uint32_t type, const unsigned char *blocks, size_t n, bool *f16);

// n elements of whole blocks -> code [n], scale [n / 32], bias [n / 32].
void gguf_affine(uint32_t type, const unsigned char *blocks, size_t n, uint8_t *code, float *scale,
                 float *bias);

// n elements of whole blocks -> the values they stand for [n].
void gguf_floats(uint32_t type, const unsigned char *blocks, size_t n, float *out);

#endif
