// One matrix in the layout that it was published in. Its rows need not lie side by side: the
// strides of data, scales and biases say where they are, so that one expert of a stack, or every
// other row of a tensor that interleaves two matrices, is a view of the published tensor.
#ifndef TENSOR_WEIGHT_H
#define TENSOR_WEIGHT_H

#include "tensor/tensor.h"

enum weight_layout {
    WEIGHT_NONE,  // absent
    WEIGHT_DENSE, // data [out, in] F32, F16 or BF16; published as [in, out], its stride[1] is not 1
    WEIGHT_AFFINE, // MLX: data [out, in * bits / 32] U32, each row one little-endian bit stream of
                   // codes; scales, biases [out, in / group] float: w = scale * code + bias
    WEIGHT_F8,    // data [out, in] F8_E4M3; scales float or F8_E8M0, one a block of block_rows rows
                  // and `group` columns: w = scale * data. block_row: of the first block, where
                  // data begins in it. MXFP8 is this with blocks of 1 by 32
    WEIGHT_MXFP4, // OCP microscaling: data [out, in / 8] U32, codes of 4 bits as above, each an
                  // e2m1 float; scales [out, in / 32] F8_E8M0: w = scale * e2m1(code)
    WEIGHT_NVFP4, // the same with groups of 16 and scales [out, in / 16] F8_E4M3:
                  // w = factor * scale * e2m1(code)
};

struct weight {
    enum weight_layout layout;
    int64_t out, in;
    int bits, group; // of a quantized layout
    int64_t block_row, block_rows;
    float factor;
    struct tensor data, scales, biases;
    struct tensor order; // [in] I32: column i of data meets column order[i] of x; dims 0: column i
    struct tensor bias;  // [out] F32, added to the product; dims 0: none
};

// Code i of a little-endian stream of `bits` bits each, whose words are `step` apart.
static inline uint32_t code_at(const uint32_t *words, int64_t step, int bits, int64_t i) {
    int64_t bit = i * bits, at = bit / 32 * step;
    int shift = (int)(bit & 31);
    uint32_t code = words[at] >> shift;
    if (shift + bits > 32) code |= words[at + step] << (32 - shift);
    return code & ((1u << bits) - 1);
}

// Bytes that reading the whole weight once moves.
size_t weight_bytes(const struct weight *w);

// A view of `count` outputs: from, from + step, ...
struct weight weight_rows(const struct weight *w, int64_t from, int64_t count, int64_t step);
// A view of a dense w without its bias as the matrix [in, out].
struct weight weight_transposed(const struct weight *w);

#endif
