// No cuBLASLt.
extern "C" {
#include "compute/cuda/cuda.h"
}

struct blas *blas_open(void) {
    return NULL;
}
void blas_close(struct blas *) {}
bool blas_product(struct blas *, cudaStream_t, struct tensor, bool, struct tensor, const void *,
                  int64_t) {
    return false;
}
bool blas_heads(struct blas *, cudaStream_t, struct tensor, struct tensor, const void *, bool) {
    return false;
}
