#include "tensor/weight.h"

struct weight weight_rows(const struct weight *w, int64_t from, int64_t count) {
    struct weight r = *w;
    r.out = count;
    r.data = tensor_slice(w->data, w->transposed ? 1 : 0, from, count);
    if (w->layout == WEIGHT_AFFINE) {
        r.scales = tensor_slice(w->scales, 0, from, count);
        r.biases = tensor_slice(w->biases, 0, from, count);
    }
    if (w->bias.dims) r.bias = tensor_slice(w->bias, 0, from, count);
    return r;
}

size_t weight_bytes(const struct weight *w) {
    if (w->layout == WEIGHT_NONE) return 0;
    size_t total = tensor_bytes(w->data);
    if (w->layout == WEIGHT_AFFINE) total += tensor_bytes(w->scales) + tensor_bytes(w->biases);
    return w->bias.dims ? total + tensor_bytes(w->bias) : total;
}
