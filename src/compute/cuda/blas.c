// cuBLASLt for products of many rows, found when the program runs: a machine without it, or with
// another major version, uses the kernels of product.cu.
#include <cublasLt.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "compute/cuda/cuda.h"

enum { WORKSPACE = 64 << 20, PLANS = 64 };

struct plan {
    int64_t n, out, in, ldy, ldx, ldw;
    enum dtype x_type, y_type;
    bool add;
    int64_t heads; // products beside each other
    bool columns;  // w is [in, out]
    cublasLtMatmulAlgo_t algo;
};

struct blas {
    void *library, *workspace;
    cublasLtHandle_t handle;
    cublasStatus_t (*create)(cublasLtHandle_t *);
    cublasStatus_t (*destroy)(cublasLtHandle_t);
    cublasStatus_t (*desc_init)(cublasLtMatmulDesc_t, size_t, cublasComputeType_t, cudaDataType_t);
    cublasStatus_t (*desc_set)(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void *,
                               size_t);
    cublasStatus_t (*layout_init)(cublasLtMatrixLayout_t, size_t, cudaDataType_t, uint64_t,
                                  uint64_t, int64_t);
    cublasStatus_t (*layout_set)(cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t,
                                 const void *, size_t);
    cublasStatus_t (*preference_init)(cublasLtMatmulPreference_t, size_t);
    cublasStatus_t (*preference_set)(cublasLtMatmulPreference_t,
                                     cublasLtMatmulPreferenceAttributes_t, const void *, size_t);
    cublasStatus_t (*choose)(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                             cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                             cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t *,
                             int *);
    cublasStatus_t (*matmul)(cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, const void *,
                             cublasLtMatrixLayout_t, const void *, cublasLtMatrixLayout_t,
                             const void *, const void *, cublasLtMatrixLayout_t, void *,
                             cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *, void *, size_t,
                             cudaStream_t);
    struct plan plan[PLANS]; // of shapes seen, the oldest overwritten
    int plans;
};

static bool find(struct blas *b, const char *name, void *to) {
    void *symbol = dlsym(b->library, name);
    memcpy(to, &symbol, sizeof symbol); // a function's address, which C has no cast for
    return symbol != NULL;
}

static bool find_all(struct blas *b) {
    return find(b, "cublasLtCreate", &b->create) && find(b, "cublasLtDestroy", &b->destroy) &&
           find(b, "cublasLtMatmulDescInit_internal", &b->desc_init) &&
           find(b, "cublasLtMatmulDescSetAttribute", &b->desc_set) &&
           find(b, "cublasLtMatrixLayoutInit_internal", &b->layout_init) &&
           find(b, "cublasLtMatrixLayoutSetAttribute", &b->layout_set) &&
           find(b, "cublasLtMatmulPreferenceInit_internal", &b->preference_init) &&
           find(b, "cublasLtMatmulPreferenceSetAttribute", &b->preference_set) &&
           find(b, "cublasLtMatmulAlgoGetHeuristic", &b->choose) &&
           find(b, "cublasLtMatmul", &b->matmul);
}

struct blas *blas_open(void) {
    struct blas *b = mem_alloc(sizeof *b);
    b->library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL);
    if (b->library && find_all(b) && cudaMalloc(&b->workspace, WORKSPACE) == cudaSuccess &&
        b->create(&b->handle) == CUBLAS_STATUS_SUCCESS)
        return b;
    blas_close(b);
    return NULL;
}

void blas_close(struct blas *b) {
    if (!b) return;
    if (b->handle) b->destroy(b->handle);
    if (b->workspace) cudaFree(b->workspace);
    if (b->library) dlclose(b->library);
    free(b);
}

// cuBLAS counts columns first: y^T [out, n] = (w^T)^T x^T.
struct problem {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t w, x, y;
};

static bool beside(const struct blas *b, cublasLtMatrixLayout_t layout, int64_t heads,
                   int64_t step) {
    int32_t count = (int32_t)heads;
    return heads == 1 ||
           (!b->layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count) &&
            !b->layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step,
                           sizeof step));
}

static bool describe(const struct blas *b, struct problem *p, const struct plan *s) {
    cublasOperation_t turn = s->columns ? CUBLAS_OP_N : CUBLAS_OP_T;
    cudaDataType_t x = s->x_type == DT_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    cudaDataType_t y = s->y_type == DT_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    uint64_t n = (uint64_t)s->n, out = (uint64_t)s->out, in = (uint64_t)s->in;
    return !b->desc_init(&p->desc, sizeof p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) &&
           !b->desc_set(&p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &turn, sizeof turn) &&
           !b->layout_init(&p->w, sizeof p->w, x, s->columns ? out : in, s->columns ? in : out,
                           s->ldw) &&
           !b->layout_init(&p->x, sizeof p->x, x, in, n, s->ldx) &&
           !b->layout_init(&p->y, sizeof p->y, y, out, n, s->ldy) &&
           beside(b, &p->w, s->heads, s->in * s->out) && beside(b, &p->x, s->heads, s->in) &&
           beside(b, &p->y, s->heads, s->out);
}

static bool choose(struct blas *b, struct problem *p, struct plan *s) {
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t result;
    uint64_t most = WORKSPACE;
    int found = 0;
    if (b->preference_init(&preference, sizeof preference) ||
        b->preference_set(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                          sizeof most) ||
        b->choose(b->handle, &p->desc, &p->w, &p->x, &p->y, &p->y, &preference, 1, &result,
                  &found) ||
        !found)
        return false;
    s->algo = result.algo;
    return true;
}

static const struct plan *plan_for(struct blas *b, struct problem *p, struct plan wanted) {
    for (int i = 0; i < PLANS && i < b->plans; i++) {
        struct plan *s = &b->plan[i];
        if (s->n == wanted.n && s->out == wanted.out && s->in == wanted.in &&
            s->ldy == wanted.ldy && s->ldx == wanted.ldx && s->ldw == wanted.ldw &&
            s->x_type == wanted.x_type && s->y_type == wanted.y_type && s->add == wanted.add &&
            s->heads == wanted.heads && s->columns == wanted.columns)
            return s;
    }
    if (!choose(b, p, &wanted)) return NULL;
    struct plan *s = &b->plan[b->plans++ % PLANS];
    *s = wanted;
    return s;
}

static bool multiply(struct blas *b, cudaStream_t stream, struct plan wanted, void *y,
                     const void *x, const void *w) {
    struct problem p;
    float one = 1, keep = wanted.add ? 1 : 0;
    if (!describe(b, &p, &wanted)) return false;
    const struct plan *s = plan_for(b, &p, wanted);
    return s && !b->matmul(b->handle, &p.desc, &one, w, &p.w, x, &p.x, &keep, y, &p.y, y, &p.y,
                           &s->algo, b->workspace, WORKSPACE, stream);
}

bool blas_product(struct blas *b, cudaStream_t stream, struct tensor y, bool add, struct tensor x,
                  const void *w, int64_t ldw) {
    struct plan wanted = {.n = y.n[0], .out = y.n[1], .in = x.n[1], .add = add, .heads = 1};
    wanted.ldy = y.stride[0], wanted.ldx = x.stride[0], wanted.ldw = ldw;
    wanted.y_type = y.type, wanted.x_type = x.type;
    return multiply(b, stream, wanted, y.data, x.data, w);
}

bool blas_heads(struct blas *b, cudaStream_t stream, struct tensor y, struct tensor x,
                const void *w, bool columns) {
    struct plan wanted = {.n = y.n[0], .out = y.n[2], .in = x.n[2], .columns = columns};
    wanted.heads = y.n[1], wanted.ldw = columns ? y.n[2] : x.n[2];
    wanted.ldy = y.stride[0], wanted.ldx = x.stride[0];
    wanted.y_type = y.type, wanted.x_type = x.type;
    return multiply(b, stream, wanted, y.data, x.data, w);
}
