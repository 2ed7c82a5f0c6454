// A matrix for each head: what latent attention puts queries into, and takes values out with. In
// f32, whatever the layout; products of many rows are product.cu's.
#include "compute/cuda/product_tiles.cuh"

enum { THREADS = 128, ROWS = 4 }; // rows of x that share a block's weights

struct heads {
    float *y;
    const float *x;
    int64_t ldy, ldx, n;
    const struct weight *w; // on the device
    int in, out;
};

static __device__ __forceinline__ void stage_rows(float *xs, const struct heads &h, int64_t r0) {
    int head = blockIdx.y;
    for (int i = threadIdx.x; i < ROWS * h.in; i += THREADS) {
        int64_t r = r0 + i / h.in;
        xs[i] = r < h.n ? h.x[r * h.ldx + head * h.in + i % h.in] : 0.0f;
    }
    __syncthreads();
}

// y = x w: a thread an output, which lie side by side in w's rows.
static __global__ void columns_kernel(const __grid_constant__ struct heads h) {
    extern __shared__ float xs[];
    wait_for_input();
    int64_t r0 = (int64_t)blockIdx.z * ROWS;
    stage_rows(xs, h, r0);
    const struct weight &w = h.w[blockIdx.y];
    int o = blockIdx.x * THREADS + threadIdx.x;
    if (o >= h.out) return;
    float sum[ROWS] = {};
    for (int k = 0; k < h.in; k++) {
        float v = weight_at(w, k, o);
#pragma unroll
        for (int r = 0; r < ROWS; r++) sum[r] += v * xs[r * h.in + k];
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (r0 + r < h.n) h.y[(r0 + r) * h.ldy + (int64_t)blockIdx.y * h.out + o] = sum[r];
}

// y = x w^T: a warp an output, its lanes along w's row.
static __global__ void rows_kernel(const __grid_constant__ struct heads h) {
    extern __shared__ float xs[];
    wait_for_input();
    int64_t r0 = (int64_t)blockIdx.z * ROWS;
    stage_rows(xs, h, r0);
    const struct weight &w = h.w[blockIdx.y];
    int lane = threadIdx.x % 32, warp = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    for (int o = warp; o < h.out; o += gridDim.x * (THREADS / 32)) {
        float sum[ROWS] = {};
        for (int k = lane; k < h.in; k += 32) {
            float v = weight_at(w, o, k);
#pragma unroll
            for (int r = 0; r < ROWS; r++) sum[r] += v * xs[r * h.in + k];
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            sum[r] = warp_sum(sum[r]);
            if (lane == 0 && r0 + r < h.n)
                h.y[(r0 + r) * h.ldy + (int64_t)blockIdx.y * h.out + o] = sum[r];
        }
    }
}

void cuda_head_linear(struct context *c, struct tensor y, struct tensor x, const struct matrices *w,
                      bool columns) {
    enum { OUTPUTS = 16 }; // of a warp, at most
    if (cuda_head_linear_many(c, y, x, w, columns) || c->dry || c->err.set || !x.n[0]) return;
    struct heads h = {(float *)y.data, (const float *)x.data, y.stride[0], x.stride[0],
                      x.n[0],          w->on_device,          (int)x.n[2], (int)y.n[2]};
    int64_t across = columns ? ceil_div(h.out, THREADS) : ceil_div(h.out, THREADS / 32 * OUTPUTS);
    dim3 grid((unsigned)across, (unsigned)w->n, (unsigned)ceil_div(h.n, ROWS));
    auto kernel = columns ? columns_kernel : rows_kernel;
    size_t shared = (size_t)(ROWS * h.in) * sizeof(float);
    if (allow_shared(c, "head_linear", kernel, shared))
        launch(c, "head_linear", kernel, grid, THREADS, shared, h);
}
