// The CUDA device: its memory, its stream, recorded steps, and the table of its ops.
#include "compute/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/mem.h"

bool cuda_ok(struct error *e, cudaError_t status, const char *what) {
    if (status == cudaSuccess) return true;
    cudaGetLastError(); // or the next call would tell of it again
    return fail(e, "CUDA: %s failed: %s (%s)", what, cudaGetErrorString(status),
                cudaGetErrorName(status));
}

// --- memory --------------------------------------------------------------------------------------

static void *device_new(struct device *d, size_t size) {
    void *p = NULL;
    struct cuda *cuda = d->cuda;
    if (cudaMalloc(&p, size) != cudaSuccess) {
        cudaGetLastError();
        return NULL;
    }
    cuda_ok(&cuda->err, cudaMemsetAsync(p, 0, size, cuda->stream), "clearing memory");
    return p;
}

static void device_drop(struct device *d, void *p) {
    cuda_ok(&d->cuda->err, cudaStreamSynchronize(d->cuda->stream), "waiting for the device");
    cuda_ok(&d->cuda->err, cudaFree(p), "freeing memory");
}

void cuda_upload(struct device *d, void *dst, const void *src, size_t size) {
    cuda_ok(&d->cuda->err, cudaMemcpyAsync(dst, src, size, cudaMemcpyHostToDevice, d->cuda->stream),
            "a copy to the device");
}

static void copy(struct device *d, void *dst, const void *src, size_t size) {
    cuda_ok(&d->cuda->err,
            cudaMemcpyAsync(dst, src, size, cudaMemcpyDeviceToDevice, d->cuda->stream),
            "a copy on the device");
}

static void clear(struct device *d, void *dst, size_t size) {
    cuda_ok(&d->cuda->err, cudaMemsetAsync(dst, 0, size, d->cuda->stream), "clearing memory");
}

// Less what the driver takes as the model runs: kernels' code, recorded steps, rounded sizes.
static void memory(const struct device *d, size_t *available, size_t *total) {
    enum { RESERVE = 512 << 20 };
    *available = *total = 0;
    cuda_ok(&d->cuda->err, cudaMemGetInfo(available, total), "asking for the memory");
    *available = *available < RESERVE ? 0 : *available - RESERVE;
}

static void read_back(struct context *c, void *host, const void *data, size_t size) {
    struct cuda *cuda = c->dev->cuda;
    if (cuda->err.set) fail(&c->err, "%s", cuda->err.text);
    cuda_ok(&c->err, cudaMemcpyAsync(host, data, size, cudaMemcpyDeviceToHost, cuda->stream),
            "a copy from the device");
    cuda_ok(&c->err, cudaStreamSynchronize(cuda->stream), "a step");
}

// --- recorded steps ------------------------------------------------------------------------------

struct recording {
    struct recording_key key;
    cudaGraphExec_t graph;
};

enum { RECORDINGS_MOST = 128 };

static bool same_key(const struct recording_key *a, const struct recording_key *b) {
    return a->scratch == b->scratch && a->rows == b->rows && a->which == b->which;
}

static bool replay(struct context *c, const struct recording_key *key) {
    struct cuda *cuda = c->dev->cuda;
    for (int i = 0; i < cuda->recordings; i++)
        if (same_key(&cuda->recording[i].key, key))
            return cuda_ok(&c->err, cudaGraphLaunch(cuda->recording[i].graph, cuda->stream),
                           "a recorded step");
    return false;
}

static void record(struct context *c, int64_t rows) {
    struct cuda *cuda = c->dev->cuda;
    cuda->is_single = rows == 1;
    cuda->is_recording =
        cuda_ok(&c->err, cudaStreamBeginCapture(cuda->stream, cudaStreamCaptureModeRelaxed),
                "recording a step");
}

static void drop_recordings(struct device *d) {
    struct cuda *cuda = d->cuda;
    while (cuda->recordings)
        cuda_ok(&cuda->err, cudaGraphExecDestroy(cuda->recording[--cuda->recordings].graph),
                "dropping a recorded step");
}

static bool recorded(struct context *c, const struct recording_key *key) {
    struct cuda *cuda = c->dev->cuda;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t ready = NULL;
    cuda->is_recording = false;
    bool ended = cuda_ok(&c->err, cudaStreamEndCapture(cuda->stream, &graph), "recording a step");
    cudaError_t status = ended ? cudaGraphInstantiate(&ready, graph, 0) : cudaSuccess;
    if (graph) cudaGraphDestroy(graph);
    if (status == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        drop_recordings(c->dev); // which makes room
        return false;
    }
    if (!cuda_ok(&c->err, status, "recording a step") || c->err.set) return true;
    if (cuda->recordings == RECORDINGS_MOST) drop_recordings(c->dev);
    cuda->recording[cuda->recordings++] = (struct recording){*key, ready};
    cuda_ok(&c->err, cudaGraphLaunch(ready, cuda->stream), "a recorded step");
    return true;
}

// --- the device ----------------------------------------------------------------------------------

static void close_device(struct device *d) {
    drop_recordings(d);
    cuda_drop_staging(d->cuda);
    blas_close(d->cuda->blas);
    cudaFree(d->cuda->arrived);
    cudaStreamDestroy(d->cuda->stream);
    free(d->cuda->recording);
    free(d->cuda);
    free(d);
}

static const struct ops cuda_ops = {
    .embed = cuda_embed,
    .linear = cuda_linear,
    .glu = cuda_glu,
    .around = cuda_around,
    .narrows = cuda_narrows,
    .act_mul = cuda_act_mul,
    .activate = cuda_activate,
    .rms_norm = cuda_rms_norm,
    .layer_norm = cuda_layer_norm,
    .add_to = cuda_add_to,
    .copy_to = cuda_copy_to,
    .scale = cuda_scale,
    .soft_cap = cuda_soft_cap,
    .gather_rows = cuda_gather_rows,
    .take_bands = cuda_take_bands,
    .rope = cuda_rope,
    .kv_write = cuda_kv_write,
    .place_heads = cuda_place_heads,
    .attention = cuda_attention,
    .placed_attention = cuda_placed_attention,
    .scale_rows = cuda_scale_rows,
    .clamp = cuda_clamp,
    .join = cuda_join,
    .argmax = cuda_argmax,
    .top_logits = cuda_top_logits,
    .bound_ids = cuda_bound_ids,
    .select_keys = cuda_select_keys,
    .head_linear = cuda_head_linear,
    .scale_columns = cuda_scale_columns,
    .match_size = cuda_match_size,
    .cut_below = cuda_cut_below,
    .mix_streams = cuda_mix_streams,
    .mixture = cuda_mixture,
    .route = cuda_route,
    .expert_linear = cuda_expert_linear,
    .expert_glu = cuda_expert_glu,
    .expert_glu_rows = cuda_expert_glu_rows,
    .expert_sum = cuda_expert_sum,
    .expert_sum_to = cuda_expert_sum_to,
    .convolve = cuda_convolve,
    .convolve_many = cuda_convolve_many,
    .delta_gates = cuda_delta_gates,
    .gated_norm = cuda_gated_norm,
    .selective_scan = cuda_selective_scan,
    .ssd_scan = cuda_ssd_scan,
    .gated_lru = cuda_gated_lru,
    .log_decay = cuda_log_decay,
    .delta_rule = cuda_delta_rule,
    .read = read_back,
    .replay = replay,
    .record = record,
    .recorded = recorded,
    .forget = drop_recordings,
    .alloc = device_new,
    .free = device_drop,
    .upload = cuda_upload,
    .load = cuda_load,
    .loaded = cuda_loaded,
    .copy = copy,
    .clear = clear,
    .memory = memory,
    .measure = cuda_measure,
    .close = close_device,
};

int cuda_devices(void) {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
    cudaGetLastError();
    return 0;
}

// "12.4" of what the runtime has for it.
static const char *version_text(int version, char out[16]) {
    snprintf(out, 16, "%d.%d", version / 1000 % 100, version / 10 % 100);
    return out;
}

static struct device *no_device(int index, struct error *e) {
    char has[16], wants[16];
    int count = cuda_devices(), driver = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess || !driver)
        fail(e, "device \"cuda:%d\": there is no NVIDIA driver here (--device cpu does without)",
             index);
    else if (driver / 1000 < CUDART_VERSION / 1000)
        fail(
            e,
            "device \"cuda:%d\": the NVIDIA driver is for CUDA %s, and %s is needed: install a newer "
            "one (--device cpu does without)",
            index, version_text(driver, has), version_text(CUDART_VERSION, wants));
    else
        fail(e,
             "device \"cuda:%d\": this machine has %d CUDA device%s that the driver lets us use%s",
             index, count, count == 1 ? "" : "s",
             count ? ", counted from 0" : " (--device cpu does without)");
    return NULL;
}

// MLXCEL_CUDA_PINNED_LOAD=0: weights are loaded from where they are mapped.
static bool read_pins(bool *pins, struct error *e) {
    const char *text = getenv("MLXCEL_CUDA_PINNED_LOAD");
    *pins = true;
    return !text || !*text || args_flag_text(sv("MLXCEL_CUDA_PINNED_LOAD"), sv(text), pins, e);
}

static bool find_encoder(void **encode_map) {
    enum cudaDriverEntryPointQueryResult found;
    return cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", encode_map, 12000,
                                            cudaEnableDefault, &found) == cudaSuccess &&
           found == cudaDriverEntryPointSuccess;
}

struct device *cuda_open(int index, struct error *e) {
    struct cudaDeviceProp p;
    bool pins;
    if (!read_pins(&pins, e)) return NULL;
    if (index >= cuda_devices()) return no_device(index, e);
    cudaStream_t stream = NULL;
    if (!cuda_ok(e, cudaGetDeviceProperties(&p, index), "asking for the device's properties") ||
        !cuda_ok(e, cudaSetDevice(index), "choosing the device"))
        return NULL;
    if (p.major < 8) {
        fail(
            e,
            "device \"cuda:%d\": %s has compute capability %d.%d; 8.0 or later is needed (--device cpu "
            "does without)",
            index, p.name, p.major, p.minor);
        return NULL;
    }
    int32_t *arrived = NULL;
    if (!cuda_ok(e, cudaMalloc((void **)&arrived, ARRIVED * sizeof *arrived),
                 "a first allocation") ||
        !cuda_ok(e, cudaMemset(arrived, 0, ARRIVED * sizeof *arrived), "clearing memory") ||
        !cuda_ok(e, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream")) {
        cudaFree(arrived);
        return NULL;
    }
    struct device *d = mem_alloc(sizeof *d);
    d->ops = &cuda_ops;
    d->cuda = mem_alloc(sizeof *d->cuda);
    d->cuda->index = index;
    d->cuda->processors = p.multiProcessorCount;
    d->cuda->stream = stream;
    d->cuda->arrived = arrived;
    d->cuda->pins = pins;
    d->cuda->pairs = p.major >= 9;
    d->cuda->hopper = p.major == 9 && p.minor == 0 && find_encoder(&d->cuda->encode_map);
    d->cuda->block_shared = p.sharedMemPerBlockOptin;
    d->cuda->all_shared = p.sharedMemPerMultiprocessor;
    d->cuda->blas = blas_open();
    d->cuda->recording = mem_array(RECORDINGS_MOST, sizeof *d->cuda->recording);
    snprintf(d->name, sizeof d->name, "cuda:%d (%.40s)", index, p.name);
    return d;
}
