#include "server/llama_options.h"

#define ONE_MODEL                                                                                  \
    "one model is served, from a folder, and nothing is downloaded: hf download OWNER/NAME "       \
    "--local-dir DIR, and -m DIR"
#define TEXT_ONLY "models take text alone in this build"
#define GENERATES "embedding and reranking models are not in this build"
#define NO_TOOLS  "the server runs no tools, reads no files and calls nobody for a request"
#define NO_LORA   "LoRA adapters are not in this build; merge the adapter first"
#define TOGETHER  "requests always run together; --parallel 1 makes one answer at a time"
#define FOUND     "what was computed is found again by its tokens while --cache-tokens hold it"
#define UNSHIFTED "a context that is full is not shifted: the answer ends"
#define BY_PARTS  "every step computes parts of the prompts that wait, up to --batch-size tokens"
#define OWN_PAGE  "the page is its own, and keeps its settings in the browser"

static const struct arg args[] = {
    // Batches and caches.
    ARG_IGNORES("-ub --ubatch-size", "N", "LLAMA_ARG_UBATCH LLAMA_ARG_UBATCH_SIZE",
                "there is one size of step: --batch-size"),
    ARG_IGNORES("-cb --cont-batching -nocb --no-cont-batching --no-batch", NULL,
                "LLAMA_ARG_CONT_BATCHING", TOGETHER),
    ARG_IGNORES("-kvu --kv-unified -no-kvu --no-kv-unified", NULL, "LLAMA_ARG_KV_UNIFIED",
                "the caches are pages that all answers share"),
    ARG_REFUSES("--kv-unified-per-slot", "LLAMA_ARG_KV_UNIFIED_PER_SLOT",
                "--ctx-size is shared evenly by the --parallel answers: give their product"),
    ARG_REFUSES("--context-shift", "LLAMA_ARG_CONTEXT_SHIFT", UNSHIFTED),
    ARG_IGNORES("--no-context-shift", NULL, "LLAMA_ARG_NO_CONTEXT_SHIFT", UNSHIFTED),
    ARG_IGNORES("--cache-reuse", "N", "LLAMA_ARG_CACHE_REUSE",
                FOUND "; keys are not turned to other positions"),
    ARG_IGNORES("-cram --cache-ram", "MIB", "LLAMA_ARG_CACHE_RAM", FOUND),
    ARG_IGNORES("--cache-idle-slots --no-cache-idle-slots", NULL, "LLAMA_ARG_CACHE_IDLE_SLOTS",
                FOUND),
    ARG_IGNORES("-ctxcp --ctx-checkpoints --swa-checkpoints", "N", "LLAMA_ARG_CTX_CHECKPOINTS",
                "--cache-snapshots says how many copies of recurrent state are kept"),
    ARG_IGNORES("-cms --checkpoint-min-step", "N", "LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT",
                "copies of recurrent state are made where they may be of use"),
    ARG_IGNORES("-sps --slot-prompt-similarity", "P", NULL, "the caches are everybody's"),
    ARG_IGNORES("--sleep-idle-seconds", "N", NULL, "the model stays loaded"),
    ARG_IGNORES("-bs --backend-sampling", NULL, "LLAMA_ARG_BACKEND_SAMPLING",
                "greedy choices are made on the device, others by the processor"),
    // What an answer is.
    ARG_REFUSES("--adaptive-target --adaptive-decay", NULL,
                "the adaptive-p sampler is not in this build"),
    ARG_REFUSES("-sp --special", NULL,
                "special tokens are never shown; /detokenize writes them out"),
    ARG_REFUSES("-r --reverse-prompt", NULL, "requests say where an answer stops: \"stop\""),
    ARG_IGNORES("-e --escape --no-escape", NULL, NULL, "prompts come as JSON, which has escapes"),
    ARG_REFUSES("--chat-template --chat-template-file",
                "LLAMA_ARG_CHAT_TEMPLATE LLAMA_ARG_CHAT_TEMPLATE_FILE",
                "the checkpoint's own template is used: put yours into its folder, as "
                "chat_template.jinja"),
    ARG_REFUSES("--no-jinja", NULL, "templates are always Jinja"),
    ARG_IGNORES("", NULL, "LLAMA_ARG_JINJA", "templates are always Jinja"),
    ARG_REFUSES("--skip-chat-parsing", "LLAMA_ARG_SKIP_CHAT_PARSING",
                "send the prompt to /completion, whose answers are plain text"),
    ARG_IGNORES("--no-skip-chat-parsing", NULL, NULL, "chats are always taken apart"),
    ARG_REFUSES("--prefill-assistant", "LLAMA_ARG_PREFILL_ASSISTANT",
                "requests say that the last message goes on: \"continue_final_message\""),
    ARG_IGNORES("--no-prefill-assistant", NULL, NULL,
                "the last message goes on where requests say \"continue_final_message\""),
    ARG_REFUSES("--reasoning-budget-message", "LLAMA_ARG_THINK_BUDGET_MESSAGE",
                "thinking is not cut off"),
    ARG_IGNORES("--reasoning-preserve --no-reasoning-preserve", NULL,
                "LLAMA_ARG_REASONING_PRESERVE",
                "what a client sends of earlier thinking goes to the template, which decides"),
    ARG_REFUSES("--show-reasoning", NULL, "see --reasoning-format"),
    // Models.
    ARG_REFUSES("-mu --model-url -dr --docker-repo -hf -hfr --hf-repo -hff --hf-file --revision",
                "LLAMA_ARG_MODEL_URL LLAMA_ARG_DOCKER_REPO LLAMA_ARG_HF_REPO LLAMA_ARG_HF_FILE",
                ONE_MODEL),
    ARG_IGNORES("-hft --hf-token", "TOKEN", NULL, "nothing is ever downloaded"),
    ARG_REFUSES("--models-dir --models-preset --models-max --models-autoload --no-models-autoload",
                "LLAMA_ARG_MODELS_DIR LLAMA_ARG_MODELS_PRESET LLAMA_ARG_MODELS_MAX "
                "LLAMA_ARG_MODELS_AUTOLOAD",
                ONE_MODEL),
    ARG_REFUSES("--embd-gemma-default --fim-qwen-1.5b-default --fim-qwen-3b-default "
                "--fim-qwen-7b-default --fim-qwen-7b-spec --fim-qwen-14b-spec "
                "--fim-qwen-30b-default --gpt-oss-20b-default --gpt-oss-120b-default "
                "--vision-gemma-4b-default --vision-gemma-12b-default",
                NULL, ONE_MODEL),
    ARG_REFUSES("-cl --cache-list", NULL, ONE_MODEL),
    ARG_IGNORES("--tags", "LIST", "LLAMA_ARG_TAGS", "one model is served, and needs none"),
    ARG_REFUSES("--adapter --lora --lora-scaled --lora-init-without-apply", NULL, NO_LORA),
    ARG_REFUSES("-mm --mmproj -mmu --mmproj-url --image", "LLAMA_ARG_MMPROJ LLAMA_ARG_MMPROJ_URL",
                TEXT_ONLY),
    ARG_IGNORES("--mmproj-auto --no-mmproj --no-mmproj-auto --mmproj-offload --no-mmproj-offload",
                NULL, "LLAMA_ARG_MMPROJ_AUTO LLAMA_ARG_MMPROJ_OFFLOAD", TEXT_ONLY),
    ARG_IGNORES("-mmdev --mmproj-device --image-min-tokens --image-max-tokens "
                "--mtmd-batch-max-tokens --video-fps --video-timestamp-interval "
                "--video-ffmpeg-dir",
                "VALUE",
                "MTMD_BACKEND_DEVICE LLAMA_ARG_IMAGE_MIN_TOKENS LLAMA_ARG_IMAGE_MAX_TOKENS "
                "LLAMA_ARG_MTMD_BATCH_MAX_TOKENS LLAMA_ARG_VIDEO_FPS "
                "LLAMA_ARG_VIDEO_TIMESTAMP_INTERVAL LLAMA_ARG_VIDEO_FFMPEG_DIR",
                TEXT_ONLY),
    ARG_REFUSES("--embedding --embeddings --rerank --reranking --pooling --embd-normalize",
                "LLAMA_ARG_EMBEDDINGS LLAMA_ARG_RERANKING LLAMA_ARG_POOLING "
                "LLAMA_ARG_EMBEDDING_MODEL LLAMA_ARG_RERANKER_MODEL",
                GENERATES),
    // Files, tools and the page.
    ARG_REFUSES("--path", "LLAMA_ARG_STATIC_PATH", "the page is its own; no files are served"),
    ARG_REFUSES("--media-path", NULL, NO_TOOLS),
    ARG_REFUSES("--tools --tools-runtime --mcp-servers-config --mcp-servers-json -ag --agent",
                "LLAMA_ARG_TOOLS LLAMA_ARG_TOOLS_RUNTIME LLAMA_ARG_MCP_SERVERS_CONFIG "
                "LLAMA_ARG_MCP_SERVERS_JSON LLAMA_ARG_AGENT",
                NO_TOOLS),
    ARG_IGNORES("-no-ag --no-agent", NULL, NULL, NO_TOOLS),
    ARG_IGNORES("--ui-config --webui-config --ui-config-file --webui-config-file", "VALUE",
                "LLAMA_ARG_UI_CONFIG LLAMA_ARG_UI_CONFIG_FILE", OWN_PAGE),
    ARG_REFUSES("--ui-mcp-proxy --webui-mcp-proxy", "LLAMA_ARG_UI_MCP_PROXY", NO_TOOLS),
    ARG_IGNORES("--no-ui-mcp-proxy --no-webui-mcp-proxy", NULL, NULL, NO_TOOLS),
    ARG_REFUSES("--log-prompts-dir", NULL, "--log-prompts writes them to the log"),
    ARG_REFUSES("--completion-bash", NULL, "--help and --man list the options"),
    ARG_IGNORES("", NULL, "LLAMA_SERVER_SLOTS_DEBUG", "/slots never shows what anybody wrote"),
    ARG_IGNORES("", NULL, "AIP_MODE AIP_HTTP_PORT AIP_HEALTH_ROUTE AIP_PREDICT_ROUTE",
                "there are no routes of Vertex AI"),
    // lablup/mlxcel's.
    ARG_REFUSES("--max-batch-size", NULL,
                "an answer that has a place is in every step: --parallel"),
    ARG_REFUSES("--max-batch-prefill --max-batch-prefill-tokens --prefill-grant-interval", NULL,
                BY_PARTS),
    ARG_REFUSES("--enable-preemption --preemption-policy", NULL,
                "when the caches are full, the answers that came last wait again"),
    ARG_REFUSES("--max-kv-size --kv-cache-budget", NULL,
                "--ctx-size is what an answer may hold, --cache-tokens all of them"),
    ARG_REFUSES("--conversation-store-max-entries --conversation-store-max-bytes "
                "--conversation-store-ttl-secs",
                NULL, "there is no store of conversations; see --responses-store-file"),
};
const struct arg_group llama_option_group = {NULL, args, sizeof args / sizeof *args};
