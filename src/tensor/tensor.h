// Shapes and views. A `struct tensor` is a value: it views memory that a weight, a state buffer or
// a context's scratch owns. Its data is a device address; only a backend (or the host, on the CPU
// device, through read_*) may follow it.
#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum dtype {
    DT_BOOL,
    DT_U8,
    DT_I8,
    DT_F8_E4M3,
    DT_F8_E5M2,
    DT_F8_E8M0,
    DT_U16,
    DT_I16,
    DT_F16,
    DT_BF16,
    DT_U32,
    DT_I32,
    DT_F32,
    DT_U64,
    DT_I64,
    DT_F64,
    DT_COUNT
};

size_t dtype_size(enum dtype t);
const char *dtype_name(enum dtype t);                  // as SafeTensors writes it: "BF16"
bool dtype_from_name(struct sv name, enum dtype *out); // exact, upper case

float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f); // nearest, ties to even; overflow to infinity
float bf16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f); // nearest, ties to even; NaN stays NaN
// Element i of memory of a float type: F32, F16, BF16, and to read F8_E4M3, which has no
// infinities, and F8_E8M0, 2^(b - 127), where 255 is NaN.
float load_float(const void *p, enum dtype type, int64_t i);
void store_float(void *p, enum dtype type, int64_t i, float value);

enum { TENSOR_DIMS = 4 };

struct tensor {
    enum dtype type;
    int dims;
    int64_t n[TENSOR_DIMS];      // outermost first
    int64_t stride[TENSOR_DIMS]; // in elements; that of the last dimension is 1
    void *data;                  // NULL in a dry run (compute.h)
};

// A contiguous tensor over data.
struct tensor tensor_1d(enum dtype t, int64_t a, void *data);
struct tensor tensor_2d(enum dtype t, int64_t a, int64_t b, void *data);
struct tensor tensor_nd(enum dtype t, int dims, const int64_t *n, void *data);

int64_t tensor_count(struct tensor t); // elements
size_t tensor_bytes(struct tensor t);  // of a contiguous tensor
bool tensor_contiguous(struct tensor t);
// Contiguous but for the stride of the first dimension: what ops take.
bool tensor_rows_contiguous(struct tensor t);
bool tensor_same_shape(struct tensor a, struct tensor b);
// The product of the dimensions before the last: how many rows of n[dims - 1] there are.
int64_t tensor_rows(struct tensor t);
int64_t tensor_width(struct tensor t); // the last dimension

// Views. Splitting heads keeps the stride of the rows, so it also takes a band of columns.
struct tensor tensor_split_heads(struct tensor t, int64_t heads); // [n, heads * w] -> [n, heads, w]
struct tensor tensor_join_heads(struct tensor t);                 // and back
struct tensor tensor_slice(struct tensor t, int dim, int64_t from, int64_t count);

void tensor_shape_text(struct tensor t, char out[96]); // "[2, 64] BF16"

#endif
