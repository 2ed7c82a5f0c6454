// One matrix, or a stack of them (experts), in the layout that it was published in.
#ifndef TENSOR_WEIGHT_H
#define TENSOR_WEIGHT_H

#include "tensor/tensor.h"

enum weight_layout {
    WEIGHT_NONE,   // absent
    WEIGHT_DENSE,  // data [out, in] F32, F16 or BF16
    WEIGHT_AFFINE, // MLX: data [out, in * bits / 32] U32, each row one little-endian bit stream of
                   // codes; scales, biases [out, in / group] float: w = scale * code + bias
};

struct weight {
    enum weight_layout layout;
    int64_t out, in;
    int bits, group; // of a quantized layout
    struct tensor data, scales, biases;
    struct tensor bias; // [out] F32, added to the product; dims 0: none
    bool transposed;    // dense data as published is [in, out]; store_weight turns it
};

// A view of the outputs [from, from + count).
struct weight weight_rows(const struct weight *w, int64_t from, int64_t count);

// Bytes that reading the whole weight once moves.
size_t weight_bytes(const struct weight *w);

#endif
