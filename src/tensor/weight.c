#include "tensor/weight.h"

size_t weight_bytes(const struct weight *w) {
    if (w->layout == WEIGHT_NONE) return 0;
    size_t total = tensor_bytes(w->data);
    if (w->layout == WEIGHT_AFFINE) total += tensor_bytes(w->scales) + tensor_bytes(w->biases);
    return w->bias.dims ? total + tensor_bytes(w->bias) : total;
}
