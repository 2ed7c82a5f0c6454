// The device's limits, measured: reading and copying memory beyond its cache, multiply-adds in f32
// from registers, and a large product of bf16. Each is the best of some passes.
#include "compute/cuda/device.cuh"

enum { PASSES = 8, PRODUCT = 8192 };

static const size_t SWEEP = (size_t)2 << 30; // several times any cache

static __global__ void read_kernel(const uint4 *p, size_t n, uint32_t *sink) {
    uint32_t sum = 0;
    size_t step = (size_t)gridDim.x * blockDim.x, i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * step < n; i += 4 * step) {
        uint4 v[4];
#pragma unroll
        for (int k = 0; k < 4; k++) v[k] = __ldcs(p + i + k * step);
#pragma unroll
        for (int k = 0; k < 4; k++) sum += v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
    }
    if (sum == 0x12345678) *sink = sum; // so that the loads stay
}

static __global__ void burn_kernel(float *sink, int rounds) {
    float acc[16];
    for (int k = 0; k < 16; k++) acc[k] = (float)(threadIdx.x + k);
    for (int r = 0; r < rounds; r++)
#pragma unroll
        for (int k = 0; k < 16; k++) acc[k] = fmaf(acc[k], 0.75f, 0.25f);
    for (int k = 1; k < 16; k++) acc[0] += acc[k];
    if (acc[0] == 12345.0f) *sink = acc[0];
}

// Numbers of a spread of 1: arithmetic on zeros is faster than on data.
static __global__ void fill_kernel(__nv_bfloat16 *p, size_t n) {
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) {
        uint32_t h = (uint32_t)i * 2654435761u;
        h = (h ^ h >> 15) * 2246822519u;
        p[i] = __float2bfloat16_rn((float)(h >> 8) / 8388608.0f - 1.0f);
    }
}

struct timer {
    cudaEvent_t from, to;
};

static double seconds(struct timer t) {
    float ms = 0;
    cudaEventSynchronize(t.to);
    cudaEventElapsedTime(&ms, t.from, t.to);
    return ms / 1e3;
}

enum kind { READ, COPY, BURN, MATMUL };

static void pass(struct cuda *d, enum kind kind, char *memory, size_t size) {
    int blocks = d->processors * 8;
    if (kind == READ)
        read_kernel<<<blocks, 512, 0, d->stream>>>((const uint4 *)memory, size / 16,
                                                   (uint32_t *)memory);
    if (kind == COPY)
        cudaMemcpyAsync(memory, memory + size / 2, size / 2, cudaMemcpyDeviceToDevice, d->stream);
    if (kind == BURN) burn_kernel<<<blocks, 256, 0, d->stream>>>((float *)memory, 4096);
    if (kind == MATMUL) {
        char *x = memory, *w = x + PRODUCT * PRODUCT * 2, *y = w + PRODUCT * PRODUCT * 2;
        blas_product(d->blas, d->stream, tensor_2d(DT_F32, PRODUCT, PRODUCT, y), false,
                     tensor_2d(DT_BF16, PRODUCT, PRODUCT, x), w, PRODUCT);
    }
}

// Units of work a second.
static double best(struct cuda *d, enum kind kind, char *memory, size_t size, double work) {
    struct timer t;
    double best = 0;
    cudaEventCreate(&t.from);
    cudaEventCreate(&t.to);
    for (int i = 0; i < PASSES; i++) {
        cudaEventRecord(t.from, d->stream);
        pass(d, kind, memory, size);
        cudaEventRecord(t.to, d->stream);
        double speed = work / seconds(t);
        if (i > 0 && speed > best) best = speed;
    }
    cudaEventDestroy(t.from);
    cudaEventDestroy(t.to);
    return best;
}

bool cuda_measure(struct device *d, struct device_speed *out, struct error *e) {
    struct cuda *cuda = d->cuda;
    size_t available, total, size = SWEEP;
    device_memory(d, &available, &total);
    if (size > available / 2) size = available / 2 / 64 * 64;
    char *memory = (char *)device_alloc(d, size, "measuring memory", e);
    if (!memory) return false;
    fill_kernel<<<1024, 256, 0, cuda->stream>>>((__nv_bfloat16 *)memory, size / 2);
    out->read = best(cuda, READ, memory, size, (double)size);
    out->copy = best(cuda, COPY, memory, size, (double)size);
    double ops = 4096.0 * 16 * 2 * 256 * cuda->processors * 8;
    out->f32 = best(cuda, BURN, memory, size, ops);
    out->int8 = 0;
    size_t need = (size_t)PRODUCT * PRODUCT * 8;
    double product = 2.0 * PRODUCT * PRODUCT * PRODUCT;
    bool matmul = cuda->blas && size >= need;
    fill_kernel<<<1024, 256, 0, cuda->stream>>>((__nv_bfloat16 *)memory, size / 2);
    out->bf16 = matmul ? best(cuda, MATMUL, memory, size, product) : 0;
    device_free(d, memory);
    return cuda_ok(e, cudaGetLastError(), "measuring the device");
}
