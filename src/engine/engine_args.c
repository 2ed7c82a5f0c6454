#include <string.h>

#include "compute/device.h"
#include "engine/engine.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const struct arg device_args[] = {
    {"--device", ARG_TEXT, "auto|gpu|cpu|cuda[:N]", "MLXCEL_DEVICE", "auto", 0, 0,
     "where to compute; auto and gpu: the GPU if this build and machine have one, else the CPU"},
    {"--precision", ARG_CHOICE, "native|f32", NULL, "native", 0, 0,
     "f32: every operation in 32-bit floats; native: as fast as tests show to be safe"},
};
const struct arg_group engine_device_group = {"Device", device_args, COUNT(device_args)};

static const struct arg cache_args[] = {
    {"-ctk --cache-type-k", ARG_CHOICE, "f16|fp16|bf16|f32|q8_0|int8", "LLAMA_ARG_CACHE_TYPE_K",
     NULL, 0, 0,
     "how keys are kept; q8_0 or int8: in 8 bits with a scale for each 32, CPU only; without it f16, "
     "with --precision f32 f32"},
    {"-ctv --cache-type-v", ARG_CHOICE, "f16|fp16|bf16|f32|q8_0|int8", "LLAMA_ARG_CACHE_TYPE_V",
     NULL, 0, 0, "the same of values"},
    {"--kv-cache-mode", ARG_CHOICE, "f16|fp16|bf16|f32|q8_0|int8", NULL, NULL, 0, 0,
     "the same of both; --cache-type-k and --cache-type-v win"},
};
const struct arg_group engine_cache_group = {"Cache", cache_args, COUNT(cache_args)};

static const struct arg refused_args[] = {
    ARG_REFUSES("--draft-model --model-draft -md --draft --draft-max",
                "speculative decoding is not in this build"),
    ARG_REFUSES(
        "-ngl --n-gpu-layers --gpu-layers -sm --split-mode -ts --tensor-split -mg --main-gpu",
        "a model can't be split between devices; --device says where it runs"),
    ARG_REFUSES("-fa --flash-attn", "there is one way to compute attention, and nothing to choose"),
    ARG_REFUSES("--prio --prio-batch", "priorities are the system's to give: see nice and chrt"),
    ARG_REFUSES("-Cb --cpu-mask-batch -Crb --cpu-range-batch --cpu-strict-batch --poll-batch",
                "threads run on the same CPUs for every step: --cpu-mask, --cpu-range"),
    ARG_REFUSES("--numa", "memory is the system's to place: see numactl"),
    ARG_REFUSES("--mlock --no-mmap", "weights are always mapped files; there is nothing to choose"),
    ARG_REFUSES("--tp-size --pp-size", "parallel runs over several devices are not in this build"),
};
const struct arg_group engine_refused_group = {NULL, refused_args, COUNT(refused_args)};

struct engine_options engine_read_options(const struct args *a) {
    return (struct engine_options){
        .device = device_wish(args_text(a, "device")),
        .isa = ISA_BEST,
        .precision = strcmp(args_text(a, "precision"), "f32") ? PRECISION_NATIVE : PRECISION_F32,
        .cache_k = args_either(a, "cache-type-k", "kv-cache-mode"),
        .cache_v = args_either(a, "cache-type-v", "kv-cache-mode"),
    };
}
