// Kernels with a fault each, to see that the emulator tells: faults N runs the Nth.
#include <stdio.h>

static int fault;
static float *out, *in;

static __device__ uint32_t at_of(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

// Each thread reads what another wrote.
static __global__ void no_barrier_kernel(float *y) {
    __shared__ float x[64];
    x[threadIdx.x] = (float)threadIdx.x;
    y[threadIdx.x] = x[63 - threadIdx.x];
}

// The second write may come before the reads of the first.
static __global__ void overwriting_kernel(float *y) {
    __shared__ float x;
    for (int i = 0; i < 2; i++) {
        if (threadIdx.x == 40) x = (float)i;
        __syncthreads();
        y[threadIdx.x] += x;
    }
}

// A copy is read before it is waited for.
static __global__ void early_kernel(float *y, const float *x) {
    __shared__ float to[64];
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at_of(&to[threadIdx.x])),
                 "l"(x + threadIdx.x));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 1;");
    y[threadIdx.x] = to[threadIdx.x];
}

// Another block's memory, when that may be over.
static __global__ void over_kernel(float *y) {
    __shared__ float x;
    uint32_t at, size;
    float v;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    x = (float)blockIdx.x;
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (blockIdx.x + 1 == size) return;
    __syncthreads();
    __syncthreads();
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(at_of(&x)), "r"(size - 1));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(at) : "memory");
    y[blockIdx.x] = v;
}

static __global__ void beyond_kernel(float *y) {
    extern __shared__ float4 memory[];
    memory[threadIdx.x] = make_float4(1, 2, 3, 4);
    y[threadIdx.x] = memory[threadIdx.x].x;
}

// Some lanes leave a warp's exchange.
static __global__ void apart_kernel(float *y) {
    if (threadIdx.x < 20) y[threadIdx.x] = __shfl_xor_sync(~0u, y[threadIdx.x], 1);
    __syncthreads();
}

static __global__ void fill_kernel(float *y) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
    y[threadIdx.x] = 1;
}

// What the launch before writes is read without waiting for it.
static __global__ void hasty_kernel(float *y, const float *x) {
    y[threadIdx.x] = x[63 - threadIdx.x];
}

template <class... P, class... A>
static void start(void (*kernel)(P...), unsigned blocks, unsigned cluster, unsigned threads,
                  size_t size, A... args) {
    cudaLaunchAttribute attribute[2] = {};
    attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute[0].val.programmaticStreamSerializationAllowed = 1;
    attribute[1].id = cudaLaunchAttributeClusterDimension;
    attribute[1].val.clusterDim.x = cluster;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks), config.blockDim = dim3(threads), config.dynamicSmemBytes = size;
    config.attrs = attribute, config.numAttrs = 2;
    cudaLaunchKernelEx(&config, kernel, P(args)...);
}

int main(int argc, char **argv) {
    fault = argc > 1 ? atoi(argv[1]) : 0;
    cudaMalloc((void **)&out, 1024), cudaMalloc((void **)&in, 1024);
    cudaMemset(in, 0, 1024), cudaMemset(out, 0, 1024);
    if (fault == 0) start(no_barrier_kernel, 1, 1, 64, 0, out);
    if (fault == 1) start(overwriting_kernel, 1, 1, 64, 0, out);
    if (fault == 2) start(early_kernel, 1, 1, 64, 0, out, in);
    if (fault == 3) start(over_kernel, 4, 4, 32, 0, out);
    if (fault == 4) start(beyond_kernel, 1, 1, 64, 63 * 16, out);
    if (fault == 5) start(apart_kernel, 1, 1, 64, 0, out);
    if (fault == 6) start(fill_kernel, 1, 1, 64, 0, in), start(hasty_kernel, 1, 1, 64, 0, out, in);
    float y[64];
    cudaMemcpyAsync(y, out, sizeof y, cudaMemcpyDeviceToHost, NULL);
    for (int i = 0; i < 64; i += 9) printf("%g ", (double)y[i]);
    printf("\n");
    return 0;
}
