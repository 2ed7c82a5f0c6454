#include "tensor/weight.h"

size_t weight_bytes(const struct weight *w) {
    if (w->layout == WEIGHT_NONE) return 0;
    size_t total = tensor_bytes(w->data);
    if (w->layout != WEIGHT_DENSE) total += tensor_bytes(w->scales);
    if (w->layout == WEIGHT_AFFINE) total += tensor_bytes(w->biases);
    return w->bias.dims ? total + tensor_bytes(w->bias) : total;
}

static struct tensor every(struct tensor t, int64_t from, int64_t count, int64_t step) {
    if (!t.dims) return t;
    t = tensor_slice(t, 0, from, (count - 1) * step + 1);
    t.n[0] = count;
    t.stride[0] *= step;
    return t;
}

struct weight weight_rows(const struct weight *w, int64_t from, int64_t count, int64_t step) {
    struct weight r = *w;
    r.out = count;
    r.data = every(w->data, from, count, step);
    if (w->layout == WEIGHT_F8 && w->block_rows > 1) { // step is 1
        int64_t first = (w->block_row + from) / w->block_rows;
        int64_t last = (w->block_row + from + count - 1) / w->block_rows;
        r.block_row = (w->block_row + from) % w->block_rows;
        r.scales = tensor_slice(w->scales, 0, first, last - first + 1);
    } else {
        r.scales = every(w->scales, from, count, step);
    }
    r.biases = every(w->biases, from, count, step);
    r.bias = every(w->bias, from, count, step);
    return r;
}

struct weight weight_transposed(const struct weight *w) {
    struct weight r = {.layout = w->layout, .out = w->in, .in = w->out, .data = w->data};
    for (int d = 0; d < 2; d++) {
        r.data.n[d] = w->data.n[1 - d];
        r.data.stride[d] = w->data.stride[1 - d];
    }
    return r;
}
