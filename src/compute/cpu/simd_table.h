// The table of the kernels of one instruction set, made of the vector files: each such set has a
// file of its own (CMakeLists.txt), which defines KERNELS as the table's name and includes this.
#ifndef COMPUTE_CPU_SIMD_TABLE_H
#define COMPUTE_CPU_SIMD_TABLE_H

#include "compute/cpu/simd_attend.h"
#include "compute/cpu/simd_delta.h"
#include "compute/cpu/simd_matmul.h"
#include "compute/cpu/simd_recurrent.h"
#include "compute/cpu/simd_rows.h"

#if defined(__ARM_NEON)

#include "compute/cpu/simd_q8_neon.h"

static void matmul_tile(const struct matmul *m, const struct tile *t, float *work) {
    if (m->q)
        matmul_q8(m, t, work);
    else
        matmul_f32(m, t, work);
}

#else

#include "compute/cpu/simd_f8.h"
#include "compute/cpu/simd_q8_few.h"
#include "compute/cpu/simd_q8_many.h"

static void matmul_tile(const struct matmul *m, const struct tile *t, float *work) {
#if defined(__AVX512F__)
    if (m->bf16) {
        matmul_avx512_bf16(m, t, work);
        return;
    }
#endif
    if (f8_direct(m, t))
        matmul_f8(m, t);
    else if (!m->q)
        matmul_f32(m, t, work);
    else if (t->r1 - t->r0 > Q8_ROWS)
        q8_many(m, t, work);
    else
        q8_few(m, t, work);
}

#endif

const struct cpu_kernels KERNELS = {
    .matmul = matmul_tile,
    .quantize = quantize_row,
    .dequantize_row = dequantize_row,
    .rms_norm = rms_norm_row,
    .layer_norm = layer_norm_row,
    .activate = activate_row,
    .act_mul = act_mul_row,
    .add = add_row,
    .scale = scale_row,
    .soft_cap = soft_cap_row,
    .add_scaled = add_scaled_row,
    .mean_square = mean_square,
    .exp_sum = exp_sum,
    .cut_below = cut_below_row,
    .clamp = clamp_row,
    .angles = rope_angles,
    .rotate = rotate_row,
    .rotate_pairs = rotate_pairs_row,
    .convert = convert_row,
    .attend = attend_step,
    .convolve = convolve_row,
    .scan = scan_rows,
    .lru = lru_rows,
    .ssd_scores = ssd_scores,
    .ssd_rows = ssd_rows,
    .ssd_carry = ssd_carry,
    .log_decay = log_decay_row,
    .delta_row = delta_row,
    .delta_read = delta_read,
    .delta_mix = delta_mix,
    .delta_carry = delta_carry,
};

#endif
