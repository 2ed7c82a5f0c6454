// The CUDA runtime's functions on a machine without a GPU: streams do at once what they are told.
//
// EMULATE_PROCESSORS   how many the device has (132)
// EMULATE_COMPUTE      its compute capability: 90 (default) or 80
// EMULATE_CLUSTER      blocks of a cluster at most (16)
#include "emulate.h"

#undef cudaFuncSetAttribute
#include <cuda.h>
#include <stdio.h>

#include <map>

#include "runtime.h"

static int setting(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

static bool is_hopper(void) { return setting("EMULATE_COMPUTE", 90) >= 90; }
static int processors(void) { return setting("EMULATE_PROCESSORS", 132); }
static size_t block_shared(void) { return (is_hopper() ? 227 : 163) << 10; }
static size_t all_shared(void) { return (is_hopper() ? 228 : 164) << 10; }

// --- graphs --------------------------------------------------------------------------------------

struct CUgraph_st {
    std::vector<std::function<void()>> steps;
};
static CUgraph_st *recording;

static cudaError_t now_or_later(std::function<void()> f) {
    if (recording)
        recording->steps.push_back(f);
    else
        f();
    return cudaSuccess;
}

struct allowance {
    int shared;
    bool clusters;
};
static std::map<const void *, allowance> allowed;

cudaError_t emu::run(const cudaLaunchConfig_t *config, const void *kernel,
                     std::function<void()> body) {
    unsigned in_cluster = 1;
    bool early = false;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const cudaLaunchAttribute &a = config->attrs[i];
        if (a.id == cudaLaunchAttributeClusterDimension) in_cluster = a.val.clusterDim.x;
        if (a.id == cudaLaunchAttributeProgrammaticStreamSerialization)
            early = a.val.programmaticStreamSerializationAllowed;
    }
    size_t size = config->dynamicSmemBytes;
    const allowance a = allowed[kernel];
    if (size > 48 << 10 && size > (size_t)a.shared) return cudaErrorInvalidValue;
    if (in_cluster > (a.clusters ? 16 : 8)) return cudaErrorInvalidClusterSize;
    dim3 blocks = config->gridDim, threads = config->blockDim;
    return now_or_later([=] {
        emu::run_blocks(kernel, blocks, threads, in_cluster, size, early, body);
        if (size + emu::static_shared() > block_shared()) emu::die("too much shared memory");
    });
}

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t, enum cudaStreamCaptureMode) {
    recording = new CUgraph_st;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *graph) {
    *graph = recording;
    recording = NULL;
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *to, cudaGraph_t graph, unsigned long long) {
    *to = (cudaGraphExec_t) new CUgraph_st(*graph);
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    return cudaGraphDestroy((cudaGraph_t)graph);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
    for (auto &step : ((cudaGraph_t)graph)->steps) step();
    return cudaSuccess;
}

// --- memory --------------------------------------------------------------------------------------

static void *fresh; // allocated, not written to
enum { SCRATCH = 128 << 20 };

cudaError_t cudaMalloc(void **p, size_t size) {
    fresh = *p = aligned_alloc(256, (size + 255) / 256 * 256);
    if (*p) memset(*p, 0xff, size);
    return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaHostAlloc(void **p, size_t size, unsigned) { return cudaMalloc(p, size); }
cudaError_t cudaFree(void *p) {
    emu::all_over();
    free(p);
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void *p) { return cudaFree(p); }
cudaError_t cudaMemset(void *p, int value, size_t size) {
    memset(p, value, size);
    return cudaSuccess;
}
// Scratch memory, which is large, is left NaN: nobody may expect zeros there.
cudaError_t cudaMemsetAsync(void *p, int value, size_t size, cudaStream_t) {
    if (p == fresh && size >= SCRATCH) return cudaSuccess;
    return now_or_later([=] {
        emu::all_over();
        memset(p, value, size);
    });
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind,
                            cudaStream_t) {
    return now_or_later([=] {
        emu::all_over();
        memmove(to, from, size);
    });
}
cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
    *available = (size_t)6 << 30, *total = (size_t)8 << 30;
    return cudaSuccess;
}

// --- the device ----------------------------------------------------------------------------------

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int) {
    *p = {};
    snprintf(p->name, sizeof p->name, "emulated");
    p->major = is_hopper() ? 9 : 8;
    p->multiProcessorCount = processors();
    p->sharedMemPerBlockOptin = block_shared(), p->sharedMemPerMultiprocessor = all_shared();
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
const char *cudaGetErrorString(cudaError_t e) { return e == cudaSuccess ? "none" : "an error"; }
const char *cudaGetErrorName(cudaError_t e) {
    static char text[32];
    snprintf(text, sizeof text, "%d", (int)e);
    return text;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned) {
    *s = NULL;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t *e) {
    *e = (cudaEvent_t)1;
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned) { return cudaEventCreate(e); }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t, cudaEvent_t) {
    *ms = 1;
    return cudaSuccess;
}

// --- kernels -------------------------------------------------------------------------------------

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute what, int value) {
    if (what == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        if ((size_t)value > block_shared()) return cudaErrorInvalidValue;
        allowed[kernel].shared = value;
    }
    if (what == cudaFuncAttributeNonPortableClusterSizeAllowed) allowed[kernel].clusters = value;
    return cudaSuccess;
}

// Processors stand in groups of 16, and a cluster in one of them.
cudaError_t cudaOccupancyMaxActiveClusters(int *count, const void *kernel,
                                           const cudaLaunchConfig_t *config) {
    int size = 1, each = (int)(all_shared() / (config->dynamicSmemBytes + 2048));
    int by_threads = 2048 / (int)config->blockDim.x;
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension)
            size = (int)config->attrs[i].val.clusterDim.x;
    if (each > by_threads) each = by_threads;
    *count = 0;
    if (size > setting("EMULATE_CLUSTER", 16) || (size > 8 && !allowed[kernel].clusters))
        return size > 8 && !allowed[kernel].clusters ? cudaErrorInvalidClusterSize : cudaSuccess;
    for (int left = processors(); left > 0; left -= 16)
        *count += (left < 16 ? left : 16) * each / size;
    return cudaSuccess;
}

static CUresult encode(CUtensorMap *to, CUtensorMapDataType, cuuint32_t dims, void *data,
                       const cuuint64_t *size, const cuuint64_t *step, const cuuint32_t *box,
                       const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                       CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    emu::map m = {(const char *)data,
                  {(int64_t)size[0], (int64_t)size[1]},
                  (int64_t)step[0],
                  {(int)box[0], (int)box[1]},
                  swizzle == CU_TENSOR_MAP_SWIZZLE_128B};
    bool fits = dims == 2 && (uintptr_t)data % 16 == 0 && step[0] % 16 == 0 && box[0] <= 256 &&
                box[1] <= 256 && box[0] * 2 % 16 == 0 && (!m.swizzled || box[0] * 2 <= 128) &&
                size[0] && size[1];
    memcpy((void *)to, &m, sizeof m);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *, void **to, unsigned, unsigned long long,
                                             enum cudaDriverEntryPointQueryResult *found) {
    *to = (void *)encode;
    *found = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

} // extern "C"
