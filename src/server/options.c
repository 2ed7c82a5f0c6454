// Names, short forms, defaults and variables are those of lablup/mlxcel, which has most of them
// from llama-server.
#include "server/options.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/sampling_args.h"
#include "server/llama_options.h"
#include "server/mlxcel_variables.h"
#include "server/tls.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define KEYS     "LLAMA_API_KEY MLXCEL_API_KEY"

enum { DEFAULT_PARALLEL = 4, LEAST_CONTEXT = 512, KEY_FILE_MOST = 1 << 20 };

static const struct arg engine_args[] = {
    {"-np --parallel", ARG_INT, "N", "LLAMA_ARG_N_PARALLEL", "4", -1, 4096,
     "answers that are made at once; 0 or less: 4"},
    {"--max-queue-depth --max-queue", ARG_INT, "N", NULL, "32", 0, 1e6,
     "requests that may wait for one of those places; more are told to try again (429)"},
    {"-c --ctx-size", ARG_INT, "N", "LLAMA_ARG_CTX_SIZE", "0", 0, 1e9,
     "tokens of prompts and answers, shared evenly by the --parallel answers, of which each has at "
     "least 512; 0: for each what the model was made for, or less if memory asks"},
    {"--cache-tokens", ARG_INT, "N", NULL, "0", 0, 1e9,
     "tokens that the caches hold of all answers, and of earlier ones, together; answers that need "
     "more wait. At least one answer's context; 0: of each answer its context, or less if memory "
     "asks"},
    {"--cache-snapshots", ARG_INT, "N", NULL, "0", 0, 65536,
     "copies of recurrent state that are kept, of models that have it, for prompts that begin like "
     "an earlier one; 0: two for each answer, and two"},
    {"--cache-prompt --prompt-cache --no-cache-prompt --no-prompt-cache", ARG_SWITCH, NULL,
     "LLAMA_ARG_CACHE_PROMPT LLAMA_ARG_NO_CACHE_PROMPT MLXCEL_PROMPT_CACHE_ENABLED", "on", 0, 0,
     "use what the caches hold of other requests that begin the same"},
    {"-t --threads", ARG_INT, "N", "LLAMA_ARG_THREADS", "0", -1, 4096,
     "CPU threads of the engine; 0 or less: one a physical core"},
    {"-b --batch-size", ARG_INT, "N", "LLAMA_ARG_BATCH LLAMA_ARG_BATCH_SIZE", "512", 1, 65536,
     "tokens that one step computes at most, of all requests together"},
    {"--prefill-chunk-size", ARG_INT, "N", "MLXCEL_PREFILL_CHUNK", "0", 0, 65536,
     "of them, tokens of one prompt at most; 0: as many"},
};
static const struct arg_group engine_group = {"Engine", engine_args, COUNT(engine_args)};

static const struct arg chat_args[] = {
    {"--jinja", ARG_FLAG, NULL, NULL, NULL, 0, 0, "changes nothing: templates are always Jinja"},
    {"--chat-template-kwargs", ARG_TEXT, "JSON", "LLAMA_ARG_CHAT_TEMPLATE_KWARGS", NULL, 0, 0,
     "an object with variables for the chat template, as {\"enable_thinking\": false}; a request's "
     "own win"},
    {"-rea --reasoning", ARG_CHOICE, "on|off|auto", "LLAMA_ARG_REASONING", "auto", 0, 0,
     "whether models think, where requests say nothing; auto: the model's own way"},
    {"--reasoning-effort", ARG_TEXT, "LEVEL", "LLAMA_ARG_REASONING_EFFORT", NULL, 0, 0,
     "how much, in the words of the model's template; none turns it off, default is the model's own "
     "way"},
    {"--reasoning-budget", ARG_INT, "N", "LLAMA_ARG_THINK_BUDGET LLAMA_ARG_REASONING_BUDGET", "-1",
     -1, 1e9, "0: as --reasoning off; -1: no limit; there are no others"},
    {"--reasoning-format", ARG_CHOICE, "auto|deepseek|none", "LLAMA_ARG_THINK", "auto", 0, 0,
     "auto and deepseek: what the model thinks is sent as reasoning_content; none: within the "
     "content, as it wrote it"},
    {"--reasoning-alias-field", ARG_CHOICE, "reasoning|none", "MLXCEL_REASONING_ALIAS_FIELD",
     "reasoning", 0, 0, "send it by this name too; none: only as reasoning_content"},
};
static const struct arg_group chat_group = {"Chat", chat_args, COUNT(chat_args)};

static const struct arg http_args[] = {
    {"-a --alias", ARG_TEXT, "NAME", "LLAMA_ARG_ALIAS", NULL, 0, 0,
     "what the API calls the model, instead of its folder's name; several with commas between"},
    {"--host", ARG_TEXT, "HOST", "LLAMA_ARG_HOST", "127.0.0.1", 0, 0,
     "the address to listen on; 0.0.0.0, or :: with IPv6, for every one of this machine; or the "
     "path of a Unix socket, which ends with .sock"},
    {"--ui --webui --no-ui --no-webui", ARG_SWITCH, NULL,
     "LLAMA_ARG_UI LLAMA_ARG_WEBUI LLAMA_ARG_NO_UI LLAMA_ARG_NO_WEBUI", "on", 0, 0,
     "a chat page at /"},
    {"--port", ARG_INT, "N", "LLAMA_ARG_PORT", "8080", 0, 65535, "0: any that is free"},
    {"--reuse-port", ARG_FLAG, NULL, "LLAMA_ARG_REUSE_PORT", NULL, 0, 0,
     "other servers may listen on the same port; the system spreads the connections"},
    {"--api-prefix", ARG_TEXT, "PATH", "LLAMA_ARG_API_PREFIX", "", 0, 0,
     "what every route's path begins with, as /llm"},
    {"--ssl-key-file", ARG_TEXT, "FILE", "LLAMA_ARG_SSL_KEY_FILE", NULL, 0, 0,
     "speak TLS, with this private key (PEM) and --ssl-cert-file"},
    {"--ssl-cert-file", ARG_TEXT, "FILE", "LLAMA_ARG_SSL_CERT_FILE", NULL, 0, 0,
     "its certificate, and those that lead to the issuer (PEM)"},
    {"--api-key", ARG_TEXTS, "KEY", KEYS, NULL, 0, 0,
     "clients must send this as Authorization: Bearer KEY or X-Api-Key: KEY; several with commas "
     "between, or by giving the option again"},
    {"--api-key-file", ARG_TEXT, "FILE", "LLAMA_ARG_API_KEY_FILE", NULL, 0, 0,
     "a file with such keys, one a line, beside those of --api-key; # begins a comment, at the "
     "beginning of a line or behind white space"},
    {"-to --timeout", ARG_INT, "SECONDS", "LLAMA_ARG_TIMEOUT", "3600", 1, 1e6,
     "a connection on which nothing moves for so long is closed"},
    {"--receive-timeout", ARG_INT, "SECONDS", NULL, "60", 1, 1e6,
     "a request must have arrived in so long, and the next one on the same connection"},
    {"--drain-timeout", ARG_INT, "SECONDS", NULL, "30", 0, 1e6,
     "after SIGTERM or SIGINT, running answers get so long to end"},
    {"--request-timeout", ARG_INT, "SECONDS", NULL, "0", 0, 1e9,
     "an answer that is not whole in so long is cut off (504); 0: no limit"},
    {"--decode-timeout", ARG_INT, "SECONDS", "MLXCEL_DECODE_TIMEOUT", "600", 0, 1e9,
     "so is one that has begun and gets no token for so long; 0: no limit"},
    {"--sse-ping-interval", ARG_INT, "SECONDS", "LLAMA_ARG_SSE_PING_INTERVAL", "30", -1, 1e6,
     "a stream that is silent for so long gets a comment, so that proxies keep it; 0 or -1: none"},
    {"--threads-http", ARG_INT, "N", "LLAMA_ARG_THREADS_HTTP", "-1", -1, 1e6,
     "changes nothing: each connection has a thread"},
    {"--max-body", ARG_INT, "MIB", NULL, "16", 1, 1024, "the largest body of a request"},
    {"--max-header", ARG_INT, "KIB", NULL, "32", 4, 1024, "the largest header of a request"},
    {"--max-connections", ARG_INT, "N", NULL, "512", 1, 1e5,
     "connections at once; requests of more are told to try again (503)"},
};
static const struct arg_group http_group = {"HTTP", http_args, COUNT(http_args)};

static const struct arg route_args[] = {
    {"--metrics", ARG_FLAG, NULL, "LLAMA_ARG_ENDPOINT_METRICS", NULL, 0, 0,
     "GET /metrics tells Prometheus what the server does"},
    {"--props", ARG_FLAG, NULL, "LLAMA_ARG_ENDPOINT_PROPS", NULL, 0, 0,
     "take POST /props, which has nothing to change; GET /props is always there"},
    {"--slots --no-slots", ARG_SWITCH, NULL, "LLAMA_ARG_ENDPOINT_SLOTS LLAMA_ARG_NO_ENDPOINT_SLOTS",
     "on", 0, 0, "GET /slots tells what each place does"},
    {"--slot-save-path", ARG_TEXT, "DIR", "LLAMA_ARG_SLOT_SAVE_PATH", NULL, 0, 0,
     "a folder in which POST /slots/N?action=save keeps the tokens of a place, for restore"},
    {"--spm-infill", ARG_FLAG, NULL, NULL, NULL, 0, 0,
     "/infill gives the model the suffix before the prefix, for models that were trained so"},
};
static const struct arg_group route_group = {"Routes", route_args, COUNT(route_args)};

static const struct arg log_args[] = {
    {"-v --verbose --log-verbose", ARG_FLAG, NULL, NULL, NULL, 0, 0, "say more on standard error"},
    {"-q --quiet", ARG_FLAG, NULL, NULL, NULL, 0, 0,
     "only errors on standard error, no line for each request"},
    {"-lv --verbosity --log-verbosity", ARG_INT, "N", "LLAMA_ARG_LOG_VERBOSITY", NULL, 0, 1e9,
     "0, 1: errors; 2: warnings too; 3: a line for each request too; 4 and more: as -v"},
    {"--log-disable", ARG_FLAG, NULL, NULL, NULL, 0, 0, "say nothing at all"},
    {"--log-format", ARG_CHOICE, "text|json", "MLXCEL_LOG_FORMAT", "text", 0, 0,
     "json: each line is an object"},
    {"--log-jsonl --no-log-jsonl", ARG_SWITCH, NULL, "LLAMA_ARG_LOG_JSONL LLAMA_ARG_NO_LOG_JSONL",
     "off", 0, 0, "on: as --log-format json"},
    {"--log-file", ARG_TEXT, "FILE", "LLAMA_ARG_LOG_FILE LLAMA_LOG_FILE", NULL, 0, 0,
     "append the lines to this file too"},
    {"--log-timestamps --no-log-timestamps", ARG_SWITCH, NULL,
     "LLAMA_ARG_LOG_TIMESTAMPS LLAMA_ARG_NO_LOG_TIMESTAMPS", "off", 0, 0,
     "begin lines of text with the time, which JSON always has"},
    {"--log-prefix --no-log-prefix", ARG_SWITCH, NULL,
     "LLAMA_ARG_LOG_PREFIX LLAMA_ARG_NO_LOG_PREFIX", "on", 0, 0,
     "begin lines of text with the program's name and the level"},
    {"--log-colors", ARG_CHOICE, "on|off|auto", "LLAMA_ARG_LOG_COLORS", "auto", 0, 0,
     "changes nothing: lines have no colors"},
    {"--log-prompts", ARG_FLAG, NULL, NULL, NULL, 0, 0,
     "log the body of each request, with prompts and all; else no line holds any of it"},
    {"--log-forwarded", ARG_FLAG, NULL, NULL, NULL, 0, 0,
     "log the client that a proxy names in X-Forwarded-For, which anybody can forge, with the peer"},
    {"--log-interval", ARG_INT, "SECONDS", NULL, "10", 0, 1e6,
     "while there is work, log so often how much; 0: never"},
};
static const struct arg_group log_group = {"Log", log_args, COUNT(log_args)};

static const struct arg common_args[] = {
    {"-h --help --usage", ARG_FLAG, NULL, NULL, NULL, 0, 0, "show this help"},
    {"--llama-options", ARG_FLAG, NULL, NULL, NULL, 0, 0,
     "the options and variables of llama-server that are not in this help, and what becomes of "
     "each, as a table in Markdown"},
    {"--mlxcel-variables", ARG_FLAG, NULL, NULL, NULL, 0, 0,
     "the variables of lablup/mlxcel that are not read, and why, as a table in Markdown"},
    {"-V --version", ARG_FLAG, NULL, NULL, NULL, 0, 0, "the version, and what is in this build"},
    {"--man", ARG_FLAG, NULL, NULL, NULL, 0, 0,
     "the manual page, in mdoc: mlxcel-server --man | man -l -"},
};
static const struct arg_group common_group = {"General", common_args, COUNT(common_args)};

static const struct arg_group *const groups[] = {&args_model_group,
                                                 &engine_group,
                                                 &engine_device_group,
                                                 &pool_arg_group,
                                                 &engine_cache_group,
                                                 &defaults_arg_group,
                                                 &sampling_arg_group,
                                                 &constraint_arg_group,
                                                 &chat_group,
                                                 &responses_store_group,
                                                 &http_group,
                                                 &route_group,
                                                 &cors_arg_group,
                                                 &log_group,
                                                 &common_group,
                                                 &llama_option_group,
                                                 &engine_other_group,
                                                 &unread_variable_group,
                                                 NULL};
const struct arg_group *const server_others[] = {&llama_option_group, &engine_other_group, NULL};

static const struct variable variables[] = {
    {"MLXCEL_LOG", "The least level of messages shown: error, warn, info (the default), debug."},
    {"MLXCEL_CPU_ISA",
     "The CPU kernels to use: plain, avx2, avx512, avx512-bf16, neon, dotprod, best (the default)."},
    {"MLXCEL_WEIGHT_MATERIALIZATION",
     "Eager (the default): weights are read while loading; lazy: when needed."},
    {"MLXCEL_CUDA_PINNED_LOAD",
     "1 (the default): weights go to a GPU through pinned memory; 0: without, which is slower."},
};

static const struct command *const program[] = {&command_server};

const struct manual server_manual = {
    .name = "mlxcel-server",
    .purpose = "serve a language model over the APIs of OpenAI, Anthropic and llama-server",
    .see = "mlxcel",
    .command = program,
    .commands = COUNT(program),
    .variable = variables,
    .variables = COUNT(variables),
    .more_exits = ".It 128 and more\nStopped at once by the signal of that number less 128.\n",
};

const struct command command_server = {
    .name = "mlxcel-server",
    .alone = true,
    .summary = "serve a model over the APIs of OpenAI, Anthropic and llama-server",
    .about =
        "Answers GET /health and /v1/models, and POST /v1/chat/completions, /v1/completions and "
        "/v1/responses as OpenAI does, /v1/messages and /v1/messages/count_tokens as Anthropic "
        "does, /completion, /infill, /tokenize, /detokenize and /apply-template as "
        "llama-server does, with its /props, /slots and /metrics; a browser "
        "gets a chat page at /. It listens as soon "
        "as it has looked at the files, and says 503 until the model is loaded. SIGTERM and "
        "SIGINT let running answers end; a second one does not. SIGHUP opens the --log-file again, "
        "after a rotation, and changes nothing else.",
    .operands = "[PATH]",
    .operands_most = 1,
    .examples = "mlxcel-server -m models/SmolLM2-135M-Instruct\n"
                "mlxcel-server -m DIR --host 0.0.0.0 --api-key SECRET -np 8\n",
    .groups = groups,
};

// Takes the first of a list with commas between, without white space around it.
static struct sv first_of(struct sv *list) {
    ptrdiff_t comma = sv_find(*list, sv(","), 0);
    struct sv first = sv_cut(*list, 0, comma < 0 ? list->n : (size_t)comma);
    *list = sv_cut(*list, first.n + 1, list->n);
    return sv_trim(first);
}

// The folder's name, also of "models/x/" and of a file in the folder.
static char *model_name(const char *path) {
    char *real = realpath(path, NULL);
    struct sv at = sv(real ? real : path);
    struct str dir = {0};
    str_add(&dir, at);
    if (file_exists(str_c(&dir))) {
        str_clear(&dir);
        str_add(&dir, path_dir(real ? real : path));
    }
    struct sv name = path_name(str_c(&dir));
    char *copy = mem_textn(name.p, name.n);
    str_free(&dir);
    free(real);
    return copy;
}

static void add_name(struct server_options *o, char *name) {
    o->name = mem_resize(o->name, o->names + 1, sizeof *o->name);
    o->name[o->names++] = name;
}

static void read_names(struct server_options *o, const char *alias) {
    for (struct sv rest = sv(alias); rest.n;) {
        struct sv name = first_of(&rest);
        if (name.n && !sv_is(name, server_options_name(o, name)))
            add_name(o, mem_textn(name.p, name.n));
    }
    if (!o->names) add_name(o, model_name(o->model));
}

const char *server_options_name(const struct server_options *o, struct sv asked) {
    for (size_t i = 0; i < o->names; i++)
        if (sv_is(asked, o->name[i])) return o->name[i];
    return o->names ? o->name[0] : "";
}

static void add_key(struct server_options *o, struct sv key) {
    o->key = mem_resize(o->key, o->keys + 1, sizeof *o->key);
    o->key[o->keys++] = key;
}

static void add_keys(struct server_options *o, struct sv list) {
    while (list.n) {
        struct sv key = first_of(&list);
        if (key.n) add_key(o, key);
    }
}

// Up to a # at its beginning or behind white space; a key may hold one.
static struct sv without_comment(struct sv line) {
    for (size_t i = 0; i < line.n; i++)
        if (line.p[i] == '#' && (!i || line.p[i - 1] == ' ' || line.p[i - 1] == '\t'))
            return sv_trim(sv_cut(line, 0, i));
    return sv_trim(line);
}

static bool read_keys(struct server_options *o, const struct args *a, struct error *e) {
    const char *file = args_text(a, "api-key-file");
    const struct sv *key;
    size_t n = args_texts(a, "api-key", &key);
    for (size_t i = 0; i < n; i++) add_keys(o, key[i]);
    // As in llama-server, the variables' keys are good beside those of the command line.
    add_keys(o, sv(getenv("LLAMA_API_KEY")));
    add_keys(o, sv(getenv("MLXCEL_API_KEY")));
    if (n && !o->keys)
        return fail(e, "--api-key, LLAMA_API_KEY or MLXCEL_API_KEY is given but holds no key");
    if (!file) return true;
    if (!file_read(file, KEY_FILE_MOST, &o->key_file, e)) return fail_in(e, "--api-key-file");
    size_t before = o->keys;
    for (struct sv rest = str_sv(&o->key_file); rest.n;) {
        ptrdiff_t end = sv_find(rest, sv("\n"), 0);
        struct sv line = sv_cut(rest, 0, end < 0 ? rest.n : (size_t)end);
        rest = sv_cut(rest, line.n + 1, rest.n);
        if (without_comment(line).n) add_key(o, without_comment(line));
    }
    return o->keys > before || fail(e, "--api-key-file %s holds no key", file);
}

static bool read_tls(struct server_options *o, const struct args *a, struct error *e) {
    const char *key = args_text(a, "ssl-key-file"), *cert = args_text(a, "ssl-cert-file");
    if (!key && !cert) return true;
    if (!key || !cert)
        return fail(e, "--ssl-%s-file is given without --ssl-%s-file: TLS needs both",
                    key ? "key" : "cert", key ? "cert" : "key");
    if (!file_read(key, KEY_FILE_MOST, &o->tls_key, e)) return fail_in(e, "--ssl-key-file");
    if (!file_read(cert, KEY_FILE_MOST, &o->tls_cert, e)) return fail_in(e, "--ssl-cert-file");
    return tls_check(&(struct pem){key, str_sv(&o->tls_key)},
                     &(struct pem){cert, str_sv(&o->tls_cert)}, e);
}

// "/llm/" is "/llm". Paths of requests are compared when %20 and its like are decoded, so the
// prefix has none, and nothing that would need one.
static bool read_prefix(struct server_options *o, const struct args *a, struct error *e) {
    const char *given = args_text(a, "api-prefix");
    struct sv path = sv(given ? given : "");
    while (sv_ends(path, sv("/"))) path.n--;
    if (path.n && path.p[0] != '/')
        return fail(e, "--api-prefix \"%s\": must begin with a slash, as /llm", path.p);
    for (size_t i = 0; i < path.n; i++)
        if (path.p[i] <= ' ' || path.p[i] > '~' || strchr("\"#%<>?\\^`{|}", path.p[i]))
            return fail(e,
                        "--api-prefix \"%s\": may have letters, digits, / and -._~!$&'()*+,;=:@ "
                        "alone, as /llm",
                        path.p);
    if (sv_find(path, sv("//"), 0) >= 0)
        return fail(e, "--api-prefix \"%s\": has a slash behind a slash", path.p);
    o->prefix = path;
    return true;
}

static void read_log(struct server_options *o, const struct args *a) {
    bool json = args_flag(a, "log-jsonl") || !strcmp(args_text(a, "log-format"), "json");
    o->log = (struct log_options){
        .name = "mlxcel-server",
        .file = args_text(a, "log-file"),
        .json = json,
        .bare = !args_flag(a, "log-prefix"),
        .timestamps = args_flag(a, "log-timestamps"),
    };
    o->log_prompts = args_flag(a, "log-prompts");
    o->log_forwarded = args_flag(a, "log-forwarded");
    o->log_interval = (unsigned)args_int(a, "log-interval");
}

static bool read_engine(struct engine_options *opt, const struct args *a, struct error *e) {
    int64_t context = args_int(a, "ctx-size");
    int64_t sequences = args_int(a, "parallel");
    if (sequences < 1) sequences = DEFAULT_PARALLEL;
    if (context) {
        int64_t share = context / sequences;
        if (share < LEAST_CONTEXT)
            log_say(LOG_WARN,
                    "--ctx-size %lld is %lld tokens for each of %lld answers: each gets %d",
                    (long long)context, (long long)share, (long long)sequences, LEAST_CONTEXT);
        context = share < LEAST_CONTEXT ? LEAST_CONTEXT : share;
    }
    *opt = engine_read_options(a);
    opt->context = context;
    opt->sequences = sequences;
    opt->batch = args_int(a, "batch-size");
    opt->tokens = args_int(a, "cache-tokens");
    opt->snapshots = args_int(a, "cache-snapshots");
    opt->chunk = args_int(a, "prefill-chunk-size");
    return pool_read_options(a, &opt->pool, e);
}

// What the options say of thinking, as variables of all requests' templates.
static void add_thinking(struct json_object *kwargs, const struct args *a) {
    static const char *const levels[] = {"reasoning_effort", "reasoning_strength"};
    const char *level = args_text(a, "reasoning-effort"), *word = args_text(a, "reasoning");
    bool given = level && *level && strcmp(level, "default") != 0;
    bool none = given && !strcmp(level, "none"), off = !strcmp(word, "off");
    bool cut = args_given(a, "reasoning-budget") && args_int(a, "reasoning-budget") == 0;
    for (int i = 0; i < 2 && given && !none; i++)
        json_object_object_add(kwargs, levels[i], json_object_new_string(level));
    if (given || off || cut || !strcmp(word, "on"))
        json_object_object_add(kwargs, "enable_thinking",
                               json_object_new_boolean(!none && !off && !cut));
}

static bool read_kwargs(struct server_options *o, const struct args *a, struct error *e) {
    if (args_int(a, "reasoning-budget") > 0)
        return fail(e,
                    "--reasoning-budget %lld: thinking can't be cut off; 0 turns it off, -1 "
                    "leaves it as long as it is",
                    (long long)args_int(a, "reasoning-budget"));
    struct json_object *own = args_object(a, "chat-template-kwargs", e);
    o->kwargs = json_object_new_object();
    add_thinking(o->kwargs, a);
    json_add_members(o->kwargs, own);
    json_object_put(own);
    return !e->set;
}

static bool read_chat(struct server_options *o, const struct args *a, struct error *e) {
    bool alias = !strcmp(args_text(a, "reasoning-alias-field"), "reasoning");
    bool inside = !strcmp(args_text(a, "reasoning-format"), "none");
    o->reasoning = inside ? REASONING_INSIDE : alias ? REASONING_AND_ALIAS : REASONING_APART;
    return read_kwargs(o, a, e);
}

static bool read_routes(struct server_options *o, const struct args *a, struct error *e) {
    o->metrics = args_flag(a, "metrics");
    o->props = args_flag(a, "props");
    o->slots = args_flag(a, "slots");
    o->suffix_first = args_flag(a, "spm-infill");
    o->slot_dir = args_text(a, "slot-save-path");
    if (o->slot_dir && !dir_exists(o->slot_dir))
        return fail(e, "--slot-save-path %s: there is no such folder", o->slot_dir);
    return cors_read(&o->cors, a, e);
}

bool server_options_read(struct server_options *o, const struct args *a, struct error *e) {
    *o = (struct server_options){
        .model = args_model(a, e),
        .queue = args_int(a, "max-queue-depth"),
        .page = args_flag(a, "ui"),
        .responses = responses_store_read(a),
        .host = args_text(a, "host"),
        .port = (int)args_int(a, "port"),
        .max_body = (size_t)args_int(a, "max-body") << 20,
        .max_header = (size_t)args_int(a, "max-header") << 10,
        .max_connections = (unsigned)args_int(a, "max-connections"),
        .timeout = (unsigned)args_int(a, "timeout"),
        .receive_timeout = (unsigned)args_int(a, "receive-timeout"),
        .drain_timeout = (unsigned)args_int(a, "drain-timeout"),
        .request_timeout = (unsigned)args_int(a, "request-timeout"),
        .token_timeout = (unsigned)args_int(a, "decode-timeout"),
        .uncached = !args_flag(a, "cache-prompt"),
        .shared_port = args_flag(a, "reuse-port"),
    };
    int64_t ping = args_int(a, "sse-ping-interval");
    if (ping > 0) o->ping = (unsigned)ping;
    read_log(o, a);
    if (!log_open(&o->log, e)) return false; // what follows may have something to say
    if (strchr(o->host, ','))
        return fail(e,
                    "--host %s: one address; 0.0.0.0, or :: with IPv6, is every one of this "
                    "machine",
                    o->host);
    if (!o->model || !read_engine(&o->engine, a, e)) return false;
    if (o->engine.batch < o->engine.sequences)
        return fail(e, "--batch-size %lld is less than --parallel %lld: each answer needs a place",
                    (long long)o->engine.batch, (long long)o->engine.sequences);
    read_names(o, args_text(a, "alias"));
    return defaults_read(&o->defaults, a, e) && read_keys(o, a, e) && read_chat(o, a, e) &&
           read_tls(o, a, e) && read_prefix(o, a, e) && read_routes(o, a, e);
}

void server_options_free(struct server_options *o) {
    for (size_t i = 0; i < o->names; i++) free(o->name[i]);
    free(o->name);
    free(o->key);
    str_free(&o->key_file);
    str_free(&o->tls_key);
    str_free(&o->tls_cert);
    defaults_free(&o->defaults);
    json_object_put(o->kwargs);
    cors_free(&o->cors);
    *o = (struct server_options){0};
}
