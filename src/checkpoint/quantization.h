// What config.json says of how the matrices are quantized: MLX's "quantization", or the
// "quantization_config" of other publishers. What a tensor's shape and type show is read from those
// (weights.h); this has what they do not show, what must be refused, and what dummy weights are
// made from.
#ifndef CHECKPOINT_QUANTIZATION_H
#define CHECKPOINT_QUANTIZATION_H

#include "checkpoint/config.h"

// How a matrix [out, in] NAME is published.
enum scheme {
    SCHEME_DENSE,       // NAME.weight, a float type
    SCHEME_AFFINE,      // MLX: NAME.weight U32, .scales, .biases
    SCHEME_MXFP4,       // MLX's float modes: NAME.weight U32, .scales U8; of gpt-oss the experts
    SCHEME_MXFP8,       //
    SCHEME_NVFP4,       // (with .global_scale, F32, in some)
    SCHEME_F8,          // NAME.weight F8_E4M3, .weight_scale or .weight_scale_inv
    SCHEME_INT8,        // compressed-tensors: NAME.weight I8, .weight_scale
    SCHEME_PACKED,      // NAME.weight_packed I32, .weight_scale, .weight_zero_point, .weight_g_idx
    SCHEME_PACKED_NV,   // NAME.weight_packed U8, .weight_scale F8_E4M3, .weight_global_scale
    SCHEME_PACKED_MX,   // NAME.weight_packed U8, .weight_scale U8
    SCHEME_MODELOPT_NV, // NAME.weight U8, .weight_scale F8_E4M3, .weight_scale_2
    SCHEME_AWQ,         // NAME.qweight [in, out / 8] I32, .qzeros, .scales
    SCHEME_GPTQ,        // NAME.qweight [in * bits / 32, out] I32, .qzeros, .scales, .g_idx
    SCHEME_BITNET,      // NAME.weight [out / 4, in] U8, .weight_scale
};

struct quantization {
    enum scheme scheme;        // of most matrices
    int64_t bits, group;       // group 0: a row is one
    int64_t rows, columns;     // of a block of SCHEME_F8; 0: all
    bool inverse;              // SCHEME_F8: the scales are .weight_scale_inv
    bool symmetric;            // SCHEME_PACKED: no zero points
    bool reordered;            // columns do not come in the order of their groups
    bool plain_zeros;          // SCHEME_GPTQ: zeros are as they are (v2), not less one
    bool multiplies;           // SCHEME_BITNET: the scale is a factor, not a divisor
    bool experts_only;         // SCHEME_MXFP4: of gpt-oss
    bool experts_apart;        // each expert has tensors of its own, where they could be stacked
    struct config *exceptions; // has what is said of single matrices; NULL: nothing
};

// A layout that this engine does not read sticks to c as an error that names the key.
struct quantization quantization_read(struct config *c);

// Of one matrix, for dummies: as q says for all, or the config for this one. stack: it is one of
// many in one tensor. Where groups do not fit `in`, or words of packed codes `out`, it is dense.
struct quantization quantization_of(const struct quantization *q, const char *name, bool stack,
                                    int64_t out, int64_t in);

#endif
