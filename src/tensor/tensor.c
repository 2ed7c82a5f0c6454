#include "tensor/tensor.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "SafeTensors data is little-endian");

static const struct {
    const char *name;
    size_t size;
} types[DT_COUNT] = {
    [DT_BOOL] = {"BOOL", 1},       [DT_U8] = {"U8", 1},           [DT_I8] = {"I8", 1},
    [DT_F8_E4M3] = {"F8_E4M3", 1}, [DT_F8_E5M2] = {"F8_E5M2", 1}, [DT_F8_E8M0] = {"F8_E8M0", 1},
    [DT_U16] = {"U16", 2},         [DT_I16] = {"I16", 2},         [DT_F16] = {"F16", 2},
    [DT_BF16] = {"BF16", 2},       [DT_U32] = {"U32", 4},         [DT_I32] = {"I32", 4},
    [DT_F32] = {"F32", 4},         [DT_U64] = {"U64", 8},         [DT_I64] = {"I64", 8},
    [DT_F64] = {"F64", 8},
};

size_t dtype_size(enum dtype t) { return types[t].size; }

const char *dtype_name(enum dtype t) { return types[t].name; }

bool dtype_from_name(struct sv name, enum dtype *out) {
    for (int t = 0; t < DT_COUNT; t++) {
        if (!sv_is(name, types[t].name)) continue;
        *out = (enum dtype)t;
        return true;
    }
    return false;
}

static float bits_f32(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t f32_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

float f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, man = h & 1023;
    if (exp == 31) return bits_f32(sign | 0x7f800000 | man << 13);
    if (exp) return bits_f32(sign | (exp + 112) << 23 | man << 13);
    float sub = (float)man * 0x1p-24f; // subnormal: exact
    return sign ? -sub : sub;
}

uint16_t f32_to_f16(float f) {
    uint32_t u = f32_bits(f), sign = u >> 16 & 0x8000, mag = u & 0x7fffffff;
    if (mag > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (mag >= 0x477ff000) return (uint16_t)(sign | 0x7c00); // 65520 and over round to infinity
    if (mag < 0x38800000) {                                  // below 2^-14: subnormal
        float rounded = bits_f32(mag) + 0x1p-1f;             // the sum's ulp is 2^-24
        return (uint16_t)(sign | (f32_bits(rounded) - f32_bits(0x1p-1f)));
    }
    uint32_t even = mag >> 13 & 1;
    return (uint16_t)(sign | (mag - 0x38000000 + 0xfff + even) >> 13);
}

float bf16_to_f32(uint16_t h) { return bits_f32((uint32_t)h << 16); }

static float e4m3_to_f32(uint8_t b) {
    if ((b & 127) == 127) return bits_f32(0x7fc00000);
    return f16_to_f32((uint16_t)((b & 128) << 8 | (b & 127) << 7)) *
           256; // the same but for the bias
}

static float e8m0_to_f32(uint8_t b) {
    if (b == 0) return 0x1p-127f; // subnormal
    return bits_f32(b == 255 ? 0x7fc00000 : (uint32_t)b << 23);
}

uint16_t f32_to_bf16(float f) {
    uint32_t u = f32_bits(f);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float load_float(const void *p, enum dtype type, int64_t i) {
    if (type == DT_F32) return ((const float *)p)[i];
    if (type == DT_F8_E4M3) return e4m3_to_f32(((const uint8_t *)p)[i]);
    if (type == DT_F8_E8M0) return e8m0_to_f32(((const uint8_t *)p)[i]);
    uint16_t h = ((const uint16_t *)p)[i];
    return type == DT_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}

void store_float(void *p, enum dtype type, int64_t i, float value) {
    if (type == DT_F32)
        ((float *)p)[i] = value;
    else
        ((uint16_t *)p)[i] = type == DT_F16 ? f32_to_f16(value) : f32_to_bf16(value);
}

struct tensor tensor_nd(enum dtype t, int dims, const int64_t *n, void *data) {
    assert(dims >= 0 && dims <= TENSOR_DIMS);
    struct tensor out = {.type = t, .dims = dims, .data = data};
    int64_t step = 1;
    for (int d = dims - 1; d >= 0; d--) {
        out.n[d] = n[d];
        out.stride[d] = step;
        step *= n[d];
    }
    return out;
}

struct tensor tensor_1d(enum dtype t, int64_t a, void *data) {
    return tensor_nd(t, 1, (int64_t[]){a}, data);
}

struct tensor tensor_2d(enum dtype t, int64_t a, int64_t b, void *data) {
    return tensor_nd(t, 2, (int64_t[]){a, b}, data);
}

int64_t tensor_count(struct tensor t) {
    int64_t count = 1;
    for (int d = 0; d < t.dims; d++) count *= t.n[d];
    return count;
}

size_t tensor_bytes(struct tensor t) { return (size_t)tensor_count(t) * dtype_size(t.type); }

bool tensor_contiguous(struct tensor t) {
    int64_t step = 1;
    for (int d = t.dims - 1; d >= 0; d--) {
        if (t.n[d] != 1 && t.stride[d] != step) return false;
        step *= t.n[d];
    }
    return true;
}

bool tensor_rows_contiguous(struct tensor t) {
    if (t.dims == 0) return true;
    struct tensor row = t;
    row.n[0] = 1;
    return t.n[0] <= 1 || t.dims > 1 ? tensor_contiguous(row) : t.stride[0] == 1;
}

bool tensor_same_shape(struct tensor a, struct tensor b) {
    if (a.dims != b.dims) return false;
    for (int d = 0; d < a.dims; d++)
        if (a.n[d] != b.n[d]) return false;
    return true;
}

int64_t tensor_width(struct tensor t) { return t.dims ? t.n[t.dims - 1] : 1; }

int64_t tensor_rows(struct tensor t) {
    int64_t rows = 1;
    for (int d = 0; d < t.dims - 1; d++) rows *= t.n[d];
    return rows;
}

struct tensor tensor_split_heads(struct tensor t, int64_t heads) {
    assert(t.dims == 2 && t.n[1] % heads == 0);
    struct tensor out = tensor_nd(t.type, 3, (int64_t[]){t.n[0], heads, t.n[1] / heads}, t.data);
    out.stride[0] = t.stride[0];
    return out;
}

struct tensor tensor_join_heads(struct tensor t) {
    assert(t.dims == 3);
    struct tensor out = tensor_2d(t.type, t.n[0], t.n[1] * t.n[2], t.data);
    out.stride[0] = t.stride[0];
    return out;
}

struct tensor tensor_slice(struct tensor t, int dim, int64_t from, int64_t count) {
    assert(dim < t.dims && from >= 0 && count >= 0 && from + count <= t.n[dim]);
    t.n[dim] = count;
    if (t.data) t.data = (char *)t.data + (size_t)(from * t.stride[dim]) * dtype_size(t.type);
    return t;
}

void tensor_shape_text(struct tensor t, char out[96]) {
    size_t at = 0;
    out[at++] = '[';
    for (int d = 0; d < t.dims; d++)
        at += (size_t)snprintf(out + at, 96 - at, "%s%lld", d ? ", " : "", (long long)t.n[d]);
    snprintf(out + at, 96 - at, "] %s", dtype_name(t.type));
}
