// The kernels for 64-bit Arm's NEON, which every such processor has.
#if defined(__aarch64__)
#include "compute/cpu/simd_attend.h"
#include "compute/cpu/simd_delta.h"
#include "compute/cpu/simd_matmul.h"
#include "compute/cpu/simd_q8_neon.h"
#include "compute/cpu/simd_recurrent.h"
#include "compute/cpu/simd_rows.h"

const struct cpu_kernels kernels_neon = {
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
