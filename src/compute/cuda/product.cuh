// How kernels read a weight's rows in their published layouts, as the A operand of
// mma.m16n8k16 (bf16).
//
// A lane holds two rows (its group g = lane / 4, and g + 8) of a tile of 16 outputs. Since a sum
// over k may run in any order, the lane's four pairs of an mma's k are 8 elements that follow each
// other in memory (two steps of mma): one 16-byte load of a dense row, one word of 4-bit codes. The
// same elements of x are its B operand. A chunk is 128 k: 32 a lane, in 4 blocks of 8.
#ifndef COMPUTE_CUDA_PRODUCT_CUH
#define COMPUTE_CUDA_PRODUCT_CUH

#include "compute/cuda/device.cuh"

enum { CHUNK = 128 };

// One matrix of a launch.
struct matrix {
    const void *data, *scales, *biases;
    int64_t ld, ld_scales, ld_biases; // from row to row, in elements (words of codes)
    const float *bias;                // [out] or NULL
    float *y;
    int64_t ldy, out;
};

// What every matrix of a launch has in common.
struct shape {
    int in;
    int group_shift;       // log2 of the group
    enum dtype scale_type; // of scales and biases
};

// Four packed pairs: 8 elements as bf16.
struct eight {
    uint32_t pair[4];
};

// BITS 16: dense BF16; 17: dense F16; else affine codes of that many bits.
enum { DENSE_BF16 = 16, DENSE_F16 = 17 };

template <int BITS> struct weight_row;

template <int BITS> struct dense_row {
    uint4 block[4];

    // Where block j of a lane begins in a chunk.
    static __device__ __forceinline__ int offset(int t, int j) { return 32 * j + 8 * t; }

    __device__ __forceinline__ void load(const struct matrix &m, const struct shape &s, int64_t row,
                                         int k, int t) {
        const uint16_t *p = (const uint16_t *)m.data + row * m.ld;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int at = k + offset(t, j);
            block[j] = at < s.in ? __ldg((const uint4 *)(p + at)) : make_uint4(0, 0, 0, 0);
        }
    }

    // 32 elements that follow each other, from k on.
    __device__ __forceinline__ void load_run(const struct matrix &m, const struct shape &s,
                                             int64_t row, int k) {
        const uint16_t *p = (const uint16_t *)m.data + row * m.ld + k;
#pragma unroll
        for (int j = 0; j < 4; j++)
            block[j] =
                k + 8 * j < s.in ? __ldg((const uint4 *)(p + 8 * j)) : make_uint4(0, 0, 0, 0);
    }

    __device__ __forceinline__ struct eight expand(int j) const {
        struct eight e = {{block[j].x, block[j].y, block[j].z, block[j].w}};
        if (BITS == DENSE_F16) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float2 v = __half22float2(*(const __half2 *)&e.pair[i]);
                e.pair[i] = pack(v.x, v.y);
            }
        }
        return e;
    }
};

template <> struct weight_row<DENSE_BF16> : dense_row<DENSE_BF16> {};
template <> struct weight_row<DENSE_F16> : dense_row<DENSE_F16> {};

// Words of a lane's 32 codes, in the widest loads that their alignment allows.
template <int WORDS>
static __device__ __forceinline__ void load_words(uint32_t *to, const uint32_t *p) {
    if (WORDS % 4 == 0) {
#pragma unroll
        for (int i = 0; i < WORDS / 4; i++) {
            uint4 v = __ldg((const uint4 *)p + i);
            to[4 * i] = v.x, to[4 * i + 1] = v.y, to[4 * i + 2] = v.z, to[4 * i + 3] = v.w;
        }
    } else if (WORDS % 2 == 0) {
#pragma unroll
        for (int i = 0; i < WORDS / 2; i++) {
            uint2 v = __ldg((const uint2 *)p + i);
            to[2 * i] = v.x, to[2 * i + 1] = v.y;
        }
    } else {
#pragma unroll
        for (int i = 0; i < WORDS; i++) to[i] = __ldg(p + i);
    }
}

// A lane's 32 elements lie in one group, since groups are multiples of 32.
template <int BITS> struct weight_row {
    uint32_t word[BITS];
    float scale, bias;

    static __device__ __forceinline__ int offset(int t, int j) { return 32 * t + 8 * j; }

    __device__ __forceinline__ void load(const struct matrix &m, const struct shape &s, int64_t row,
                                         int k, int t) {
        int at = k + 32 * t;
        scale = bias = 0;
#pragma unroll
        for (int i = 0; i < BITS; i++) word[i] = 0;
        if (at >= s.in) return;
        load_words<BITS>(word, (const uint32_t *)m.data + row * m.ld + at / 32 * BITS);
        int group = at >> s.group_shift;
        scale = float_at(m.scales, s.scale_type, row * m.ld_scales + group);
        bias = float_at(m.biases, s.scale_type, row * m.ld_biases + group);
    }

    __device__ __forceinline__ void load_run(const struct matrix &m, const struct shape &s,
                                             int64_t row, int k) {
        load(m, s, row, k, 0);
    }

    // The code as the mantissa of 2^23: exact.
    __device__ __forceinline__ float value(int i) const {
        int bit = i * BITS, w = bit >> 5, shift = bit & 31;
        uint32_t code = word[w] >> shift;
        if (shift + BITS > 32) code |= word[w + 1 < BITS ? w + 1 : w] << (32 - shift);
        code &= (1u << BITS) - 1;
        return fmaf(__uint_as_float(0x4b000000u | code) - 8388608.0f, scale, bias);
    }

    __device__ __forceinline__ struct eight expand(int j) const {
        struct eight e;
#pragma unroll
        for (int i = 0; i < 4; i++) // 4 bits: the order of paired_at
            e.pair[i] = BITS == 4 ? pack(value(8 * j + i), value(8 * j + i + 4))
                                  : pack(value(8 * j + 2 * i), value(8 * j + 2 * i + 1));
        return e;
    }
};

// 4-bit codes with BF16 scales: two codes at a time. A word's codes i and i + 4 are 16 bits apart,
// so they are a pair, and x is laid out to match.
enum { FOUR_BF16 = 20 };

// Whether x meets the codes of a kind in the order in which their pairs come.
static __host__ __device__ constexpr bool is_paired(int kind) {
    return kind == 4 || kind == FOUR_BF16;
}

template <> struct weight_row<FOUR_BF16> {
    uint32_t word[4];
    __nv_bfloat16 scale, bias;

    static __device__ __forceinline__ int offset(int t, int j) { return 32 * t + 8 * j; }

    __device__ __forceinline__ void load(const struct matrix &m, const struct shape &s, int64_t row,
                                         int k, int t) {
        int at = k + 32 * t;
        scale = bias = __float2bfloat16_rn(0.0f);
        word[0] = word[1] = word[2] = word[3] = 0;
        if (at >= s.in) return;
        load_words<4>(word, (const uint32_t *)m.data + row * m.ld + at / 8);
        int group = at >> s.group_shift;
        scale = ((const __nv_bfloat16 *)m.scales)[row * m.ld_scales + group];
        bias = ((const __nv_bfloat16 *)m.biases)[row * m.ld_biases + group];
    }

    __device__ __forceinline__ void load_run(const struct matrix &m, const struct shape &s,
                                             int64_t row, int k) {
        load(m, s, row, k, 0);
    }

    __device__ __forceinline__ struct eight expand(int j) const {
        const __nv_bfloat162 base = __float2bfloat162_rn(128.0f);
        __nv_bfloat162 s = __bfloat162bfloat162(scale), b = __bfloat162bfloat162(bias);
        struct eight e;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t code = (word[j] >> (4 * i) & 0x000f000fu) | 0x43004300u; // 128 + code
            __nv_bfloat162 v = __hfma2(__hsub2(*(__nv_bfloat162 *)&code, base), s, b);
            e.pair[i] = *(uint32_t *)&v;
        }
        return e;
    }
};

// MXFP4: e2m1 codes in groups of 32, each with a power of two. All its values are bf16's own.
enum { FOUR_E2M1 = 21 };

template <> struct weight_row<FOUR_E2M1> {
    uint32_t word[4];
    float half_scale;

    static __device__ __forceinline__ int offset(int t, int j) { return 32 * t + 8 * j; }

    __device__ __forceinline__ void load(const struct matrix &m, const struct shape &s, int64_t row,
                                         int k, int t) {
        int at = k + 32 * t;
        half_scale = 0;
        word[0] = word[1] = word[2] = word[3] = 0;
        if (at >= s.in) return;
        load_words<4>(word, (const uint32_t *)m.data + row * m.ld + at / 8);
        half_scale = 0.5f * power_of_two(((const uint8_t *)m.scales)[row * m.ld_scales + at / 32]);
    }

    __device__ __forceinline__ void load_run(const struct matrix &m, const struct shape &s,
                                             int64_t row, int k) {
        load(m, s, row, k, 0);
    }

    __device__ __forceinline__ struct eight expand(int j) const {
        struct eight e;
#pragma unroll
        for (int i = 0; i < 4; i++)
            e.pair[i] = pack(half_scale * e2m1_twice(word[j] >> (8 * i) & 15),
                             half_scale * e2m1_twice(word[j] >> (8 * i + 4) & 15));
        return e;
    }
};

// Of 8 elements of x, which one stands at place i.
template <int BITS> static __device__ __forceinline__ int paired_at(int i) {
    return is_paired(BITS) ? (i & 1) * 4 + (i >> 1) : i;
}

static __device__ __forceinline__ void mma(float acc[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                           uint32_t a3, uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// 16 outputs by 8 rows over 8 elements a lane: w of rows g and g + 8.
static __device__ __forceinline__ void mma_eight(float acc[4], const struct eight &low,
                                                 const struct eight &high, uint4 x) {
    mma(acc, low.pair[0], high.pair[0], low.pair[1], high.pair[1], x.x, x.y);
    mma(acc, low.pair[2], high.pair[2], low.pair[3], high.pair[3], x.z, x.w);
}

#endif
