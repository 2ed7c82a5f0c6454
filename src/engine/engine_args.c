#include <string.h>

#include "base/log.h"
#include "compute/device.h"
#include "engine/engine.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const struct arg device_args[] = {
    {"-dev --device", ARG_TEXT, "auto|gpu|cpu|cuda[:N]", "MLXCEL_DEVICE LLAMA_ARG_DEVICE", "auto",
     0, 0,
     "where to compute; auto and gpu: the GPU if this build and machine have one, else the CPU; "
     "none: the CPU"},
    {"-ngl --n-gpu-layers --gpu-layers", ARG_INT, "N|auto|all", "LLAMA_ARG_N_GPU_LAYERS", NULL, -1,
     1e6,
     "0: as --device cpu; any other number changes nothing: a model is on one device, all of it"},
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

#define SPLIT    "a model is on one device, all of it; --device says which"
#define ATTENDS  "there is one way to compute attention"
#define MAPPED   "weights are mapped files, which the system keeps"
#define THREADED "threads run on the same CPUs for every step: --cpu-mask, --cpu-range"
#define NO_DRAFT "speculative decoding is not in this build, and changes no answer"

// What llama.cpp and lablup/mlxcel have and this engine hasn't.
static const struct arg other_args[] = {
    ARG_IGNORES("-fa --flash-attn", "[on|off|auto|0|1]", "LLAMA_ARG_FLASH_ATTN", ATTENDS),
    ARG_IGNORES("-sm --split-mode", "MODE", "LLAMA_ARG_SPLIT_MODE", SPLIT),
    ARG_IGNORES("-ts --tensor-split", "LIST", "LLAMA_ARG_TENSOR_SPLIT", SPLIT),
    ARG_IGNORES("-mg --main-gpu", "N", "LLAMA_ARG_MAIN_GPU", SPLIT ", as cuda:1"),
    ARG_IGNORES("-ot --override-tensor", "LIST", "LLAMA_ARG_OVERRIDE_TENSOR", SPLIT),
    ARG_IGNORES("-cmoe --cpu-moe", NULL, "LLAMA_ARG_CPU_MOE", SPLIT),
    ARG_IGNORES("-ncmoe --n-cpu-moe", "N", "LLAMA_ARG_N_CPU_MOE", SPLIT),
    ARG_IGNORES("-ncffn --n-cpu-ffn", "N", "LLAMA_ARG_N_CPU_FFN", SPLIT),
    ARG_IGNORES("--moe-cache-mib", "N", "LLAMA_ARG_MOE_CACHE_MIB", SPLIT),
    ARG_IGNORES("-kvo --kv-offload -nkvo --no-kv-offload", NULL, "LLAMA_ARG_KV_OFFLOAD",
                "the caches are where the model is"),
    ARG_IGNORES("--op-offload --no-op-offload", NULL, NULL, SPLIT),
    ARG_IGNORES("--no-host", NULL, "LLAMA_ARG_NO_HOST", SPLIT),
    ARG_IGNORES("--repack -nr --no-repack", NULL, "LLAMA_ARG_REPACK",
                "weights are computed with in the layout that they have"),
    ARG_IGNORES("-fit --fit", "[on|off]", "LLAMA_ARG_FIT",
                "without --ctx-size the context is what fits"),
    ARG_IGNORES("-fitt --fit-target", "LIST", "LLAMA_ARG_FIT_TARGET", SPLIT),
    ARG_IGNORES("-fitc --fit-ctx", "N", "LLAMA_ARG_FIT_CTX", "--ctx-size says what must fit"),
    ARG_IGNORES("--mmap --no-mmap --mlock", NULL, NULL, MAPPED),
    ARG_IGNORES("-dio --direct-io -ndio --no-direct-io", NULL, NULL, MAPPED),
    ARG_IGNORES("-lm --load-mode", "MODE", "LLAMA_ARG_LOAD_MODE", MAPPED),
    ARG_IGNORES("-lzm --lazy-mode", "MODE", "LLAMA_ARG_LAZY_MODE", MAPPED),
    ARG_IGNORES("--check-tensors", NULL, NULL,
                "shapes and scales are checked whenever a model is loaded"),
    ARG_IGNORES("--numa", "MODE", "LLAMA_ARG_NUMA", "memory is the system's to place: see numactl"),
    ARG_IGNORES("--prio --prio-batch", "N", NULL,
                "priorities are the system's to give: see nice and chrt"),
    ARG_IGNORES("-Cb --cpu-mask-batch -Crb --cpu-range-batch --cpu-strict-batch --poll-batch",
                "VALUE", NULL, THREADED),
    ARG_IGNORES("-dt --defrag-thold", "N", "LLAMA_ARG_DEFRAG_THOLD",
                "pages of the caches can't be fragmented"),
    ARG_IGNORES("--swa-full", NULL, "LLAMA_ARG_SWA_FULL",
                "what a window has left behind is found again as long as its pages are there"),
    ARG_IGNORES("--perf --no-perf", NULL, "LLAMA_ARG_PERF", "what is measured costs nothing"),
    ARG_IGNORES("--warmup --no-warmup", NULL, NULL, "there is nothing to warm up"),
    ARG_IGNORES("--offline", NULL, "LLAMA_ARG_OFFLINE", "nothing is ever downloaded"),
    ARG_IGNORES("--verbose-prompt", NULL, NULL, "mlxcel template shows prompts, with their ids"),
    ARG_IGNORES("--keep", "N", NULL, "a context that is full is not shifted"),
    ARG_REFUSES("--rpc", "LLAMA_ARG_RPC", "a model runs on one machine"),
    ARG_REFUSES("--tp-size --pp-size", NULL,
                "parallel runs over several devices are not in this build"),
    ARG_REFUSES("--list-devices", NULL, "--version says which devices this build can use"),
    ARG_REFUSES("--override-kv", NULL, "edit the checkpoint's config.json"),
    ARG_REFUSES("--rope-scaling --rope-scale --rope-freq-base --rope-freq-scale",
                "LLAMA_ARG_ROPE_SCALING_TYPE LLAMA_ARG_ROPE_SCALE LLAMA_ARG_ROPE_FREQ_BASE "
                "LLAMA_ARG_ROPE_FREQ_SCALE",
                "positions are as config.json has them: edit its rope_scaling and rope_theta"),
    ARG_REFUSES("--yarn-orig-ctx --yarn-ext-factor --yarn-attn-factor --yarn-beta-slow "
                "--yarn-beta-fast",
                "LLAMA_ARG_YARN_ORIG_CTX LLAMA_ARG_YARN_EXT_FACTOR LLAMA_ARG_YARN_ATTN_FACTOR "
                "LLAMA_ARG_YARN_BETA_SLOW LLAMA_ARG_YARN_BETA_FAST",
                "positions are as config.json has them: edit its rope_scaling"),
    ARG_REFUSES("-gan --grp-attn-n -gaw --grp-attn-w", NULL, "self-extension is not in this build"),
    ARG_REFUSES("--control-vector --control-vector-scaled --control-vector-layer-range", NULL,
                "control vectors are not in this build"),
    ARG_REFUSES("--draft-model --model-draft -md --spec-draft-model -hfd -hfrd --hf-repo-draft "
                "--spec-draft-hf",
                "LLAMA_ARG_SPEC_DRAFT_MODEL LLAMA_ARG_MODEL_DRAFT LLAMA_ARG_SPEC_DRAFT_HF_REPO",
                NO_DRAFT ": leave the draft model out"),
    ARG_IGNORES("--spec-type", "LIST", "LLAMA_ARG_SPEC_TYPE", NO_DRAFT),
    ARG_IGNORES("--spec-default", NULL, NULL, NO_DRAFT),
    ARG_IGNORES("--draft --draft-n --draft-max --spec-draft-n-max", "N",
                "LLAMA_ARG_DRAFT_MAX LLAMA_ARG_SPEC_DRAFT_N_MAX", NO_DRAFT),
    ARG_IGNORES("--draft-min --draft-n-min --spec-draft-n-min", "N",
                "LLAMA_ARG_DRAFT_MIN LLAMA_ARG_SPEC_DRAFT_N_MIN", NO_DRAFT),
    ARG_IGNORES("--draft-p-split --spec-draft-p-split --draft-p-min --spec-draft-p-min", "P",
                "LLAMA_ARG_SPEC_DRAFT_P_SPLIT LLAMA_ARG_SPEC_DRAFT_P_MIN", NO_DRAFT),
    ARG_IGNORES("-ctkd --cache-type-k-draft --spec-draft-type-k -ctvd --cache-type-v-draft "
                "--spec-draft-type-v",
                "TYPE", "LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V",
                NO_DRAFT),
    ARG_IGNORES("-ngld --gpu-layers-draft --n-gpu-layers-draft --spec-draft-ngl -devd "
                "--device-draft --spec-draft-device -cd --ctx-size-draft",
                "VALUE", "LLAMA_ARG_N_GPU_LAYERS_DRAFT", NO_DRAFT),
    ARG_IGNORES("-td --threads-draft --spec-draft-threads -tbd --threads-batch-draft "
                "--spec-draft-threads-batch",
                "N", NULL, NO_DRAFT),
    ARG_IGNORES("-Cd --cpu-mask-draft --spec-draft-cpu-mask -Crd --cpu-range-draft "
                "--spec-draft-cpu-range --cpu-strict-draft --spec-draft-cpu-strict --prio-draft "
                "--spec-draft-prio --poll-draft --spec-draft-poll",
                "VALUE", NULL, NO_DRAFT),
    ARG_IGNORES("-Cbd --cpu-mask-batch-draft --spec-draft-cpu-mask-batch -Crbd "
                "--cpu-range-batch-draft --cpu-strict-batch-draft --spec-draft-cpu-strict-batch "
                "--prio-batch-draft --spec-draft-prio-batch --poll-batch-draft "
                "--spec-draft-poll-batch",
                "VALUE", NULL, NO_DRAFT),
    ARG_IGNORES("-cmoed --cpu-moe-draft --spec-draft-cpu-moe", NULL, "LLAMA_ARG_SPEC_DRAFT_CPU_MOE",
                NO_DRAFT),
    ARG_IGNORES("-ncmoed --n-cpu-moe-draft --spec-draft-ncmoe --spec-draft-n-cpu-moe -otd "
                "--override-tensor-draft --spec-draft-override-tensor",
                "VALUE", "LLAMA_ARG_SPEC_DRAFT_N_CPU_MOE", NO_DRAFT),
    ARG_IGNORES("--spec-draft-backend-sampling --no-spec-draft-backend-sampling", NULL,
                "LLAMA_ARG_SPEC_DRAFT_BACKEND_SAMPLING", NO_DRAFT),
    ARG_IGNORES("--spec-draft-sampling", "WORD", "LLAMA_ARG_SPEC_DRAFT_SAMPLING", NO_DRAFT),
    ARG_IGNORES("--spec-synth-len --spec-synth-rates", "VALUE",
                "LLAMA_ARG_SPEC_SYNTH_LEN LLAMA_ARG_SPEC_SYNTH_RATES", NO_DRAFT),
    ARG_IGNORES("--spec-ngram-mod-n-min --spec-ngram-mod-n-max --spec-ngram-mod-n-match "
                "--spec-ngram-simple-size-n --spec-ngram-simple-size-m "
                "--spec-ngram-simple-min-hits --spec-ngram-map-k-size-n --spec-ngram-map-k-size-m "
                "--spec-ngram-map-k-min-hits --spec-ngram-map-k4v-size-n "
                "--spec-ngram-map-k4v-size-m --spec-ngram-map-k4v-min-hits --spec-ngram-size-n "
                "--spec-ngram-size-m --spec-ngram-min-hits",
                "N", NULL, NO_DRAFT),
    ARG_IGNORES("-lcs --lookup-cache-static -lcd --lookup-cache-dynamic", "FILE", NULL, NO_DRAFT),
    ARG_IGNORES("--draft-kind --draft-block-size", "VALUE",
                "LLAMA_ARG_DRAFT_KIND LLAMA_ARG_DRAFT_BLOCK_SIZE", NO_DRAFT),
};
const struct arg_group engine_other_group = {NULL, other_args, COUNT(other_args)};

static const char *device_of(const struct args *a) {
    int64_t layers = args_int(a, "n-gpu-layers");
    if (args_given(a, "n-gpu-layers") && layers == 0) return "cpu";
    if (layers > 0)
        log_say(LOG_INFO, "--n-gpu-layers %lld: a model is on one device, all of it",
                (long long)layers);
    return device_wish(args_text(a, "device"));
}

struct engine_options engine_read_options(const struct args *a) {
    return (struct engine_options){
        .device = device_of(a),
        .isa = ISA_BEST,
        .precision = strcmp(args_text(a, "precision"), "f32") ? PRECISION_NATIVE : PRECISION_F32,
        .cache_k = args_either(a, "cache-type-k", "kv-cache-mode"),
        .cache_v = args_either(a, "cache-type-v", "kv-cache-mode"),
    };
}
