// Clusters of blocks, whose shared memory each of them can reach. For files that are compiled for
// sm_90a.
#ifndef COMPUTE_CUDA_CLUSTER_CUH
#define COMPUTE_CUDA_CLUSTER_CUH

#include "compute/cuda/device.cuh"

static __device__ __forceinline__ int cluster_rank() {
    int r;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

static __device__ __forceinline__ int cluster_size() {
    int n;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
    return n;
}

// What a block wrote before it arrives, others see after they waited.
static __device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

static __device__ __forceinline__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// For those that wrote nothing, or no more than a barrier that they fenced.
static __device__ __forceinline__ void cluster_arrive_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;");
}

static __device__ __forceinline__ void cluster_meet() {
    cluster_arrive();
    cluster_wait();
}

// Where what is at `shared` in this block's memory is in that of the cluster's block `rank`.
static __device__ __forceinline__ uint32_t cluster_at(uint32_t shared, int rank) {
    uint32_t at;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(shared), "r"(rank));
    return at;
}

static __device__ __forceinline__ float cluster_float(uint32_t at) {
    float v;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(at) : "memory");
    return v;
}

// Floats to another block, which its barrier counts the bytes of.
static __device__ __forceinline__ void cluster_hand(uint32_t at, float4 v, uint32_t barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 "
                 "[%0], {%1, %2, %3, %4}, [%5];" ::"r"(at),
                 "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(barrier)
                 : "memory");
}

static __device__ __forceinline__ void cluster_hand(uint32_t at, float2 v, uint32_t barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 "
                 "[%0], {%1, %2}, [%3];" ::"r"(at),
                 "f"(v.x), "f"(v.y), "r"(barrier)
                 : "memory");
}

enum { CLUSTER_MOST = 8 }; // blocks

// A grid of clusters of so many blocks side by side.
static inline cudaLaunchConfig_t cluster_launch(cudaLaunchAttribute attribute[2], dim3 clusters,
                                                int blocks, int threads, size_t shared) {
    attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute[0].val.programmaticStreamSerializationAllowed = 1;
    attribute[1].id = cudaLaunchAttributeClusterDimension;
    attribute[1].val.clusterDim.x = (unsigned)blocks;
    attribute[1].val.clusterDim.y = attribute[1].val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(clusters.x * (unsigned)blocks, clusters.y, clusters.z);
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = shared;
    config.attrs = attribute, config.numAttrs = 2;
    return config;
}

// Blocks of the largest cluster, `most` at most, with which all run at once.
template <class Kernel>
static int cluster_blocks(struct context *c, Kernel kernel, int64_t clusters, int most, int threads,
                          size_t shared) {
    int best = 1;
    for (int s = 2; s <= CLUSTER_MOST && s <= most; s++) {
        if (s * clusters > c->dev->cuda->processors) break;
        cudaLaunchAttribute attribute[2] = {};
        cudaLaunchConfig_t config =
            cluster_launch(attribute, dim3((unsigned)clusters), s, threads, shared);
        int fit = 0;
        cuda_ok(&c->err, cudaOccupancyMaxActiveClusters(&fit, kernel, &config),
                "asking for the occupancy");
        if (fit >= clusters) best = s;
    }
    return best;
}

#endif
