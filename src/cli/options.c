// The options that several commands share. Names, short forms, defaults and variables are those of
// lablup/mlxcel; what it lacks is called as in llama.cpp.
#include "cli/cli.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const struct arg engine_args[] = {
    {"-c --ctx-size", ARG_INT, "N", "LLAMA_ARG_CTX_SIZE", "0", 0, 1e9,
     "tokens of prompt and answer together; 0: what the model was made for, or less if memory asks"},
    {"--threads", ARG_INT, "N", "LLAMA_ARG_THREADS", "0", -1, 4096,
     "CPU threads; 0 or less: one a physical core"},
};
const struct arg_group engine_options_group = {"Engine", engine_args, COUNT(engine_args)};

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
    {"-t --temp --temperature", ARG_NUMBER, "T", "LLAMA_ARG_TEMPERATURE", "0", 0, 100,
     "0: always the likeliest token; higher: more random; not the threads, which are --threads"},
    {"--top-k", ARG_INT, "N", "LLAMA_ARG_TOP_K", "0", 0, 1e9,
     "only the N likeliest tokens; 0: all"},
    {"--top-p", ARG_NUMBER, "P", "LLAMA_ARG_TOP_P", "1", 0, 1,
     "only the likeliest tokens that together have this probability; 1: all"},
    {"--min-p", ARG_NUMBER, "P", "LLAMA_ARG_MIN_P", "0", 0, 1,
     "only tokens at least this likely, as a part of the likeliest; 0: all"},
    {"--repetition-penalty --repeat-penalty", ARG_NUMBER, "R", "LLAMA_ARG_REPEAT_PENALTY", "1",
     0.01, 100, "makes tokens that were there less likely; 1: off"},
    {"--repeat-last-n", ARG_INT, "N", NULL, "64", -1, 1e9,
     "how many tokens back the penalties look; -1: all, 0: none"},
    {"-s --seed", ARG_INT, "N", NULL, "-1", -1, 0x1p53 - 1,
     "the same seed gives the same answer; -1: another one each time"},
};
const struct arg_group sampling_options = {"Sampling", sampling_args, COUNT(sampling_args)};
const struct arg_group untempered_options = {"Sampling", sampling_args + 1,
                                             COUNT(sampling_args) - 1};

static const struct arg common_args[] = {
    {"-v --verbose", ARG_FLAG, NULL, NULL, NULL, 0, 0, "say what is being done"},
    {"-q --quiet", ARG_FLAG, NULL, NULL, NULL, 0, 0, "only errors on standard error"},
    {"-h --help", ARG_FLAG, NULL, NULL, NULL, 0, 0, "show this help"},
};
const struct arg_group common_options = {"General", common_args, COUNT(common_args)};

static const struct arg refused_args[] = {
    ARG_REFUSES("--adapter --lora", NULL,
                "LoRA adapters are not in this build; merge the adapter first"),
    ARG_REFUSES("--image", NULL, "vision models are not in this build"),
    ARG_REFUSES("--audio", NULL, "audio models are not in this build"),
    ARG_REFUSES("--video", NULL, "video is not in this build"),
    ARG_REFUSES("-hf --hf-repo --models-dir --revision", NULL,
                "downloads are not in this build; pass a checkpoint's folder with -m"),
    ARG_REFUSES("--surgery", NULL, "surgery on weights is not in this build"),
    ARG_REFUSES("--adaptive-target --adaptive-decay", NULL,
                "the adaptive-p sampler is not in this build"),
};
const struct arg_group refused_options = {NULL, refused_args, COUNT(refused_args)};

static const struct arg refused_chat_args[] = {
    ARG_REFUSES("-cnv --conversation -i --interactive -if --interactive-first", NULL,
                "mlxcel run is the conversation"),
    ARG_REFUSES("-no-cnv --no-conversation -st --single-turn", NULL,
                "with --prompt there is one answer and no conversation"),
    ARG_REFUSES("-np --parallel", NULL, "many requests at once are mlxcel serve's"),
    ARG_IGNORES("-cb --cont-batching -nocb --no-cont-batching", NULL, NULL,
                "many requests at once are mlxcel serve's"),
    ARG_IGNORES("-b --batch-size -ub --ubatch-size", "N", NULL,
                "the engine chooses the size of its steps"),
    ARG_REFUSES("-e --escape", NULL, "a prompt is taken as it is; let the shell or --file escape"),
    ARG_IGNORES("--no-escape", NULL, NULL, "a prompt is taken as it is"),
    ARG_IGNORES("-co --color --simple-io --no-display-prompt", NULL, NULL,
                "there are no colors, and the prompt is not shown again"),
    ARG_REFUSES("--chat-template --chat-template-file", NULL,
                "the checkpoint's own template is used; --raw leaves it out"),
    ARG_REFUSES("-sysf --system-prompt-file", NULL, "pass the text with --system"),
};
const struct arg_group refused_chat_options = {NULL, refused_chat_args, COUNT(refused_chat_args)};
