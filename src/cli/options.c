// The options that several commands share. Names, short forms, defaults and variables are those of
// lablup/mlxcel; what it lacks is called as in llama.cpp.
#include "cli/cli.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const struct arg model_args[] = {
    {"-m --model", ARG_TEXT, "PATH", "LLAMA_ARG_MODEL", NULL, 0, 0,
     "the checkpoint: its folder, or a file in it"},
};
const struct arg_group model_options = {"Model", model_args, COUNT(model_args)};

static const struct arg engine_args[] = {
    {"-c --ctx-size", ARG_INT, "N", "LLAMA_ARG_CTX_SIZE", "0", 0, 1e9,
     "tokens of prompt and answer together; 0: what the model was made for, or less if memory asks"},
    {"--threads", ARG_INT, "N", "LLAMA_ARG_THREADS", "0", -1, 4096,
     "CPU threads; 0 or less: one a physical core"},
    {"--device", ARG_TEXT, "auto|gpu|cpu|cuda[:N]", "MLXCEL_DEVICE", "auto", 0, 0,
     "where to compute; auto and gpu: the GPU if this build and machine have one, else the CPU"},
    {"--precision", ARG_CHOICE, "native|f32", NULL, "native", 0, 0,
     "f32: every operation in 32-bit floats; native: as fast as tests show to be safe"},
};
const struct arg_group engine_options_group = {"Engine", engine_args, COUNT(engine_args)};

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
const struct arg_group cache_options = {"Cache", cache_args, COUNT(cache_args)};

static const struct arg prompt_args[] = {
    {"-p --prompt", ARG_TEXT, "TEXT", NULL, NULL, 0, 0, "the prompt; - reads standard input"},
    {"-f --file", ARG_TEXT, "FILE", NULL, NULL, 0, 0, "read the prompt from a file"},
    {"-sys --system --system-prompt", ARG_TEXT, "TEXT", NULL, NULL, 0, 0,
     "a system message before the prompt"},
    {"-n --max-tokens --predict --n-predict", ARG_INT, "N", "LLAMA_ARG_N_PREDICT", "-1", -1, 1e9,
     "tokens to generate at most; -1: until the model ends or the context is full"},
    {"--raw --no-chat-template", ARG_FLAG, NULL, NULL, NULL, 0, 0,
     "give the prompt to the model as it is, without its chat template"},
    {"--jinja", ARG_FLAG, NULL, NULL, NULL, 0, 0, "changes nothing: templates are always Jinja"},
    {"--stop", ARG_TEXTS, "TEXT", NULL, NULL, 0, 0,
     "end before this text; may be given several times"},
    {"--ignore-eos", ARG_FLAG, NULL, NULL, NULL, 0, 0,
     "go on after the model's end-of-sequence tokens"},
};
const struct arg_group prompt_options = {"Prompt and answer", prompt_args, COUNT(prompt_args)};

static const struct arg template_args[] = {
    {"--chat-template-kwargs", ARG_TEXT, "JSON", "LLAMA_ARG_CHAT_TEMPLATE_KWARGS", NULL, 0, 0,
     "an object with variables for the chat template, as {\"enable_thinking\": false}"},
    {"--reasoning-effort", ARG_TEXT, "LEVEL", NULL, NULL, 0, 0,
     "how much to think, in the words of the model's template; none turns thinking off"},
};
const struct arg_group template_options = {"Chat template", template_args, COUNT(template_args)};

static const struct arg sampling_args[] = {
    {"-t --temp --temperature", ARG_NUMBER, "T", NULL, "0", 0, 100,
     "0: always the likeliest token; higher: more random; not the threads, which are --threads"},
    {"--top-k", ARG_INT, "N", "LLAMA_ARG_TOP_K", "0", 0, 1e9,
     "only the N likeliest tokens; 0: all"},
    {"--top-p", ARG_NUMBER, "P", NULL, "1", 0, 1,
     "only the likeliest tokens that together have this probability; 1: all"},
    {"--min-p", ARG_NUMBER, "P", NULL, "0", 0, 1,
     "only tokens at least this likely, as a part of the likeliest; 0: all"},
    {"--repetition-penalty --repeat-penalty", ARG_NUMBER, "R", NULL, "1", 0.01, 100,
     "makes tokens that were there less likely; 1: off"},
    {"--presence-penalty", ARG_NUMBER, "R", NULL, "0", -100, 100,
     "taken from the logit of a token that was there; 0: off"},
    {"--frequency-penalty", ARG_NUMBER, "R", NULL, "0", -100, 100,
     "taken from the logit of a token for each time it was there; 0: off"},
    {"--repeat-last-n", ARG_INT, "N", NULL, "64", -1, 1e9,
     "how many tokens back the penalties look; -1: all, 0: none"},
    {"-s --seed", ARG_INT, "N", NULL, "-1", -1, 0x1p53 - 1,
     "the same seed gives the same answer; -1: another one each time"},
};
const struct arg_group sampling_options = {"Sampling", sampling_args, COUNT(sampling_args)};

static const struct arg common_args[] = {
    {"-v --verbose", ARG_FLAG, NULL, NULL, NULL, 0, 0, "say what is being done"},
    {"-q --quiet", ARG_FLAG, NULL, NULL, NULL, 0, 0, "only errors on standard error"},
    {"-h --help", ARG_FLAG, NULL, NULL, NULL, 0, 0, "show this help"},
};
const struct arg_group common_options = {"General", common_args, COUNT(common_args)};

#define REFUSED(names, why)                                                                        \
    { names, ARG_REFUSED, "VALUE", NULL, NULL, 0, 0, why }
static const struct arg refused_args[] = {
    REFUSED("--adapter --lora", "LoRA adapters are not in this build; merge the adapter first"),
    REFUSED("--draft-model --model-draft -md --draft --draft-max",
            "speculative decoding is not in this build"),
    REFUSED("--image", "vision models are not in this build"),
    REFUSED("--audio", "audio models are not in this build"),
    REFUSED("--video", "video is not in this build"),
    REFUSED("-hf --hf-repo --models-dir --revision",
            "downloads are not in this build; pass a checkpoint's folder with -m"),
    REFUSED("-ngl --n-gpu-layers --gpu-layers -sm --split-mode -ts --tensor-split -mg --main-gpu",
            "a model can't be split between devices; --device says where it runs"),
    REFUSED("-fa --flash-attn", "there is one way to compute attention, and nothing to choose"),
    REFUSED("--prio --prio-batch", "priorities are the system's to give: see nice and chrt"),
    REFUSED("-Cb --cpu-mask-batch -Crb --cpu-range-batch --cpu-strict-batch --poll-batch",
            "threads run on the same CPUs for every step: --cpu-mask, --cpu-range"),
    REFUSED("--numa", "memory is the system's to place: see numactl"),
    REFUSED("--mlock --no-mmap", "weights are always mapped files; there is nothing to choose"),
    REFUSED("--tp-size --pp-size", "parallel runs over several devices are not in this build"),
    REFUSED("--surgery", "surgery on weights is not in this build"),
    REFUSED("--grammar --grammar-file -j --json-schema", "grammars are not in this build"),
    REFUSED("--dry-multiplier --dry-base --dry-allowed-length --dry-penalty-last-n",
            "the DRY penalty is not in this build; see --repetition-penalty"),
};
const struct arg_group refused_options = {NULL, refused_args, COUNT(refused_args)};

static const struct arg refused_chat_args[] = {
    REFUSED("-cnv --conversation -i --interactive -if --interactive-first",
            "mlxcel run is the conversation"),
    REFUSED("-no-cnv --no-conversation -st --single-turn",
            "with --prompt there is one answer and no conversation"),
    REFUSED("-cb --cont-batching -nocb --no-cont-batching -np --parallel",
            "many requests at once are mlxcel serve's"),
    REFUSED("-b --batch-size -ub --ubatch-size", "the engine chooses the size of its steps"),
    REFUSED("-co --color -e --escape --no-display-prompt --no-warmup --simple-io",
            "llama.cpp has it, and it stands for nothing here"),
    REFUSED("--chat-template --chat-template-file",
            "the checkpoint's own template is used; --raw leaves it out"),
    REFUSED("-sysf --system-prompt-file", "pass the text with --system"),
};
const struct arg_group refused_chat_options = {NULL, refused_chat_args, COUNT(refused_chat_args)};
