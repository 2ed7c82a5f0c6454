#include "checkpoint/gguf_quant.h"

#include <math.h>
#include <string.h>

#include "tensor/tensor.h"

enum { SUPER = 256, GROUPS = SUPER / GGUF_GROUP };

static const struct block_type {
    uint8_t bits;
    bool exact, f32;   // f32: a scale is a product that f16 does not hold
    uint8_t d_at;      // where the block keeps its f16 scale
    int16_t m_at;      // ... and its f16 minimum, or -1
    uint8_t bias_of_d; // the bias is this many d
} types[] = {
    [GGUF_TYPE_Q4_0] = {4, true, false, 0, -1, 8},
    [GGUF_TYPE_Q4_1] = {4, true, false, 0, 2, 0},
    [GGUF_TYPE_Q5_0] = {8, true, false, 0, -1, 16},
    [GGUF_TYPE_Q5_1] = {8, true, false, 0, 2, 0},
    [GGUF_TYPE_Q8_0] = {8, true, false, 0, -1, 128},
    [GGUF_TYPE_Q2_K] = {8, false, true, 80, 82, 0},
    [GGUF_TYPE_Q3_K] = {8, true, false, 108, -1, 128},
    [GGUF_TYPE_Q4_K] = {4, true, true, 0, 2, 0},
    [GGUF_TYPE_Q5_K] = {8, true, true, 0, 2, 0},
    [GGUF_TYPE_Q6_K] = {8, false, true, 208, -1, 0},
};

int gguf_affine_bits(uint32_t type) {
    return type < sizeof types / sizeof *types ? types[type].bits : 0;
}

bool gguf_affine_exact(uint32_t type) { return types[type].exact; }

static float f16_at(const unsigned char *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return f16_to_f32(h);
}

bool gguf_scan(uint32_t type, const unsigned char *blocks, size_t n, bool *f16) {
    const struct block_type *t = &types[type];
    float largest = 0;
    for (const unsigned char *p = blocks, *end = p + n; p < end; p += gguf_type_bytes(type)) {
        float d = f16_at(p + t->d_at), m = t->m_at < 0 ? 0 : f16_at(p + t->m_at);
        if (!isfinite(d) || !isfinite(m)) return false;
        largest = fmaxf(largest, fabsf(d));
    }
    *f16 = !t->f32 && largest * (float)t->bias_of_d <= 65504;
    return true;
}

// The 32 codes of Q4_0 and Q4_1: low nibbles first.
static void nibbles(const unsigned char *q, uint8_t *code) {
    for (int i = 0; i < 16; i++) {
        code[i] = q[i] & 15;
        code[i + 16] = q[i] >> 4;
    }
}

// Q5_0 and Q5_1: the same with a fifth bit from a 32-bit mask.
static void five_bits(const unsigned char *q, const unsigned char *high, uint8_t *code) {
    uint32_t mask;
    memcpy(&mask, high, sizeof mask);
    nibbles(q, code);
    for (int i = 0; i < 32; i++) code[i] = (uint8_t)(code[i] | (mask >> i & 1) << 4);
}

// Q4_K and Q5_K: group g's 6-bit scale and minimum, out of 12 bytes.
static void scale_min(const unsigned char *s, int g, float *scale, float *min) {
    int sc = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | s[g - 4] >> 6 << 4;
    int mn = g < 4 ? s[g + 4] & 63 : s[g + 4] >> 4 | s[g] >> 6 << 4;
    *scale = (float)sc;
    *min = (float)mn;
}

// Bytes of Q4_K, and of Q5_K, whose 32 bytes of fifth bits (one mask a column) come before qs.
static void k45_block(const unsigned char *p, bool fifth, uint8_t *code, float *scale,
                      float *bias) {
    float d = f16_at(p), dmin = f16_at(p + 2);
    const unsigned char *qh = p + 16, *qs = fifth ? p + 48 : p + 16;
    for (int g = 0; g < GROUPS; g++) {
        float s, m;
        scale_min(p + 4, g, &s, &m);
        scale[g] = d * s;
        bias[g] = -(dmin * m);
        for (int i = 0; i < GGUF_GROUP; i++) {
            int q = qs[g / 2 * 32 + i] >> g % 2 * 4 & 15;
            if (fifth) q |= (qh[i] >> g & 1) << 4;
            code[g * GGUF_GROUP + i] = (uint8_t)q;
        }
    }
}

// Q3_K: hmask [32], qs [64], scales [12], d. Integers s q in [-124, 128], kept as 128 - s q.
static void q3k_block(const unsigned char *p, uint8_t *code, float *scale, float *bias) {
    const unsigned char *hmask = p, *qs = p + 32, *sc = p + 96;
    float d = f16_at(p + 108);
    for (int g = 0; g < GROUPS; g++) {
        scale[g] = -d;
        bias[g] = 128 * d;
        for (int i = 0; i < GGUF_GROUP; i++) {
            int sub = 2 * g + i / 16;
            int low = sub < 8 ? sc[sub] & 15 : sc[sub - 8] >> 4;
            int s = (low | (sc[8 + sub % 4] >> sub / 4 * 2 & 3) << 4) - 32;
            int q = (qs[g / 4 * 32 + i] >> g % 4 * 2 & 3) - (hmask[i] >> g & 1 ? 0 : 4);
            code[g * GGUF_GROUP + i] = (uint8_t)(128 - s * q);
        }
    }
}

// Q2_K: scales [16] (scale low, minimum high), qs [64], d, dmin.
static void q2k_values(const unsigned char *p, float *out) {
    float d = f16_at(p + 80), dmin = f16_at(p + 82);
    for (int g = 0; g < GROUPS; g++) {
        for (int i = 0; i < GGUF_GROUP; i++) {
            int s = p[2 * g + i / 16], q = p[16 + g / 4 * 32 + i] >> g % 4 * 2 & 3;
            out[g * GGUF_GROUP + i] = d * (float)(s & 15) * (float)q - dmin * (float)(s >> 4);
        }
    }
}

// Q6_K: ql [128], qh [64], scales int8 [16], d.
static void q6k_values(const unsigned char *p, float *out) {
    const unsigned char *ql = p, *qh = p + 128;
    float d = f16_at(p + 208);
    for (int g = 0; g < GROUPS; g++) {
        int half = g / 4, quarter = g % 4;
        for (int i = 0; i < GGUF_GROUP; i++) {
            int low = ql[half * 64 + quarter % 2 * 32 + i] >> quarter / 2 * 4 & 15;
            int q = (low | (qh[half * 32 + i] >> quarter * 2 & 3) << 4) - 32;
            float s = (float)(int8_t)p[192 + 2 * g + i / 16];
            out[g * GGUF_GROUP + i] = d * s * (float)q;
        }
    }
}

// The nearest 8-bit affine group: its ends are exact, the rest within half a step.
static void fit_group(const float *w, uint8_t *code, float *scale, float *bias) {
    float low = w[0], high = w[0];
    for (int i = 1; i < GGUF_GROUP; i++) {
        low = fminf(low, w[i]);
        high = fmaxf(high, w[i]);
    }
    float step = (high - low) / 255;
    *scale = step;
    *bias = low;
    for (int i = 0; i < GGUF_GROUP; i++)
        code[i] = step > 0 ? (uint8_t)fminf(rintf((w[i] - low) / step), 255) : 0;
}

// One block of a type with 32 or 256 elements.
static void block_affine(uint32_t type, const unsigned char *p, uint8_t *code, float *scale,
                         float *bias) {
    float w[SUPER], d = f16_at(p + types[type].d_at);
    *scale = d;
    *bias = -(float)types[type].bias_of_d * d;
    switch (type) {
    case GGUF_TYPE_Q4_0: nibbles(p + 2, code); return;
    case GGUF_TYPE_Q4_1: nibbles(p + 4, code), *bias = f16_at(p + 2); return;
    case GGUF_TYPE_Q5_0: five_bits(p + 6, p + 2, code); return;
    case GGUF_TYPE_Q5_1: five_bits(p + 8, p + 4, code), *bias = f16_at(p + 2); return;
    case GGUF_TYPE_Q8_0:
        for (int i = 0; i < 32; i++) code[i] = p[2 + i] ^ 128; // q + 128
        return;
    case GGUF_TYPE_Q3_K: q3k_block(p, code, scale, bias); return;
    case GGUF_TYPE_Q4_K: k45_block(p, false, code, scale, bias); return;
    case GGUF_TYPE_Q5_K: k45_block(p, true, code, scale, bias); return;
    case GGUF_TYPE_Q2_K: q2k_values(p, w); break;
    default: q6k_values(p, w); break;
    }
    for (int g = 0; g < GROUPS; g++)
        fit_group(w + g * GGUF_GROUP, code + g * GGUF_GROUP, &scale[g], &bias[g]);
}

void gguf_affine(uint32_t type, const unsigned char *blocks, size_t n, uint8_t *code, float *scale,
                 float *bias) {
    size_t block = gguf_type_block(type), groups = block / GGUF_GROUP;
    for (size_t b = 0; b < n / block; b++)
        block_affine(type, blocks + b * gguf_type_bytes(type), code + b * block, scale + b * groups,
                     bias + b * groups);
}

void gguf_floats(uint32_t type, const unsigned char *blocks, size_t n, float *out) {
    size_t block = gguf_type_block(type);
    for (size_t b = 0; b < n / block; b++) {
        const unsigned char *p = blocks + b * gguf_type_bytes(type);
        float *w = out + b * block, scale[GROUPS], bias[GROUPS];
        uint8_t code[SUPER];
        if (type == GGUF_TYPE_Q2_K) {
            q2k_values(p, w);
        } else if (type == GGUF_TYPE_Q6_K) {
            q6k_values(p, w);
        } else {
            block_affine(type, p, code, scale, bias);
            for (size_t i = 0; i < block; i++)
                w[i] = scale[i / GGUF_GROUP] * (float)code[i] + bias[i / GGUF_GROUP];
        }
    }
}
