// mlxcel inspect: what a checkpoint is and what running it will take, without loading it.
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/cli.h"

struct report {
    const char *path;
    const struct engine_info *info;
    bool tokenizer, chat_template, fits;
    size_t needed;
};

static bool has_file(const char *dir, const char *name) {
    char *path = path_join(dir, name);
    bool there = file_exists(path);
    free(path);
    return there;
}

// Newer checkpoints keep the template in a file of its own, older ones in tokenizer_config.json.
static bool has_template(const char *dir) {
    if (has_file(dir, "chat_template.jinja") || has_file(dir, "chat_template.json")) return true;
    if (!has_file(dir, "tokenizer_config.json")) return false;
    char *path = path_join(dir, "tokenizer_config.json");
    struct error ignored = {0};
    struct json_object *o = json_read_file(path, 64 << 20, &ignored);
    bool there = json_at(o, "chat_template") != NULL;
    json_object_put(o);
    free(path);
    return there;
}

static void look_beside(struct report *r) {
    struct str dir = {0};
    str_add(&dir, dir_exists(r->path) ? sv(r->path) : path_dir(r->path));
    r->tokenizer = has_file(dir.p, "tokenizer.json") || has_file(dir.p, "tokenizer.model");
    r->chat_template = has_template(dir.p);
    str_free(&dir);
}

static void add_count(struct str *s, int64_t n) {
    if (n >= 1000000000)
        str_printf(s, "%.2f billion", (double)n / 1e9);
    else if (n >= 1000000)
        str_printf(s, "%.1f million", (double)n / 1e6);
    else
        str_printf(s, "%lld", (long long)n);
}

static void add_line(struct str *s, const char *label, size_t bytes) {
    str_printf(s, "%-14s", label);
    add_bytes(s, bytes);
    str_addc(s, '\n');
}

static void add_text(struct str *s, const struct report *r) {
    const struct engine_info *i = r->info;
    str_printf(s, "%-14s%s (%s), %lld layer%s, width %lld, vocabulary %lld\n", "architecture",
               i->family_name, i->family, (long long)i->layers, plural(i->layers),
               (long long)i->hidden, (long long)i->vocab);
    str_printf(s, "%-14s", "parameters");
    add_count(s, i->parameters);
    str_printf(s, ", %.2f bits a weight\n", i->bits_per_weight);
    str_printf(s, "%-14s%s, chat template: %s\n", "tokenizer", r->tokenizer ? "yes" : "no",
               r->chat_template ? "yes" : "no");
    str_printf(s, "%-14s%lld tokens of the model's %lld, %lld at once\n", "context",
               (long long)i->context, (long long)i->model_context, (long long)i->sequences);
    str_printf(s, "%-14s%s\n", "device", i->device);
    add_line(s, "weights", i->weight_bytes);
    str_printf(s, "%-14s", "cache");
    add_bytes(s, i->state_bytes);
    str_puts(s, " (");
    add_bytes(s, i->state_bytes_per_token);
    str_puts(s, " a token");
    if (i->fixed_bytes) {
        str_puts(s, ", recurrent state ");
        add_bytes(s, i->fixed_bytes);
    }
    str_puts(s, ")\n");
    add_line(s, "scratch", i->scratch_bytes);
    str_printf(s, "%-14s", "in all");
    add_bytes(s, r->needed);
    str_puts(s, " of ");
    add_bytes(s, i->available_bytes);
    str_printf(s, " available: %s\n", r->fits ? "fits" : "DOES NOT FIT");
}

static void add_int(struct str *s, const char *key, int64_t value) {
    add_json_key(s, key);
    str_printf(s, "%lld", (long long)value);
}

static void add_name(struct str *s, const char *key, const char *value) {
    add_json_key(s, key);
    json_quote(s, sv(value));
}

static void add_truth(struct str *s, const char *key, bool value) {
    add_json_key(s, key);
    str_puts(s, value ? "true" : "false");
}

static void add_json(struct str *s, const struct report *r) {
    const struct engine_info *i = r->info;
    str_addc(s, '{');
    add_name(s, "model", r->path);
    add_name(s, "family", i->family);
    add_name(s, "family_name", i->family_name);
    add_int(s, "layers", i->layers);
    add_int(s, "hidden_size", i->hidden);
    add_int(s, "vocab_size", i->vocab);
    add_int(s, "parameters", i->parameters);
    add_json_key(s, "bits_per_weight");
    str_printf(s, "%.4f", i->bits_per_weight);
    add_truth(s, "tokenizer", r->tokenizer);
    add_truth(s, "chat_template", r->chat_template);
    add_int(s, "context", i->context);
    add_int(s, "model_context", i->model_context);
    add_int(s, "batch", i->sequences);
    add_name(s, "device", i->device);
    add_int(s, "weights_bytes", (int64_t)i->weight_bytes);
    add_int(s, "kv_cache_bytes", (int64_t)i->state_bytes);
    add_int(s, "recurrent_bytes", (int64_t)i->fixed_bytes);
    add_int(s, "kv_cache_bytes_per_token", (int64_t)i->state_bytes_per_token);
    add_int(s, "scratch_bytes", (int64_t)i->scratch_bytes);
    add_int(s, "total_bytes", (int64_t)r->needed);
    add_int(s, "available_bytes", (int64_t)i->available_bytes);
    add_truth(s, "fits", r->fits);
    str_puts(s, "}\n");
}

// The default context is 8192, but no more than the model's own.
static struct engine *open_dry(const struct args *a, const char *path, struct error *e) {
    struct load_progress progress;
    struct engine_options opt;
    cli_engine_options(a, &opt, &progress);
    opt.dry = true;
    opt.context = args_int(a, "max-tokens");
    opt.sequences = args_int(a, "batch");
    if (args_given(a, "max-tokens")) return engine_open(path, &opt, e);
    int64_t usual = opt.context;
    opt.context = 0;
    struct engine *whole = engine_open(path, &opt, e);
    if (!whole || engine_info(whole)->model_context <= usual) return whole;
    engine_close(whole);
    opt.context = usual;
    return engine_open(path, &opt, e);
}

static int run(const struct args *a) {
    struct error e = {0};
    struct report r = {.path = args_model(a, &e)};
    if (!r.path) return cli_usage(&e);
    struct engine *engine = open_dry(a, r.path, &e);
    if (!engine) return cli_error(&e);
    r.info = engine_info(engine);
    r.needed = r.info->weight_bytes + r.info->state_bytes + r.info->scratch_bytes;
    r.fits = r.needed <= r.info->available_bytes;
    look_beside(&r);
    struct str out = {0};
    if (args_flag(a, "json"))
        add_json(&out, &r);
    else
        add_text(&out, &r);
    cli_write(str_sv(&out), &e);
    str_free(&out);
    engine_close(engine);
    return e.set ? cli_error(&e) : CLI_OK;
}

static const struct arg args[] = {
    {"-n --max-tokens -c --ctx-size", ARG_INT, "N", NULL, "8192", 1, 1e9,
     "tokens of context to plan for; the default is no more than the model's own"},
    {"--batch", ARG_INT, "N", NULL, "1", 1, 4096, "sequences at once to plan for"},
    {"--threads", ARG_INT, "N", "LLAMA_ARG_THREADS", "0", -1, 4096,
     "CPU threads; 0 or less: one a physical core"},
    {"--json", ARG_FLAG, NULL, NULL, NULL, 0, 0, "as one JSON object"},
};
static const struct arg_group options = {"Inspect", args, sizeof args / sizeof *args};
static const struct arg_group *const groups[] = {
    &args_model_group, &options,         &engine_device_group, &engine_cache_group,
    &common_options,   &refused_options, &engine_other_group,  NULL};

const struct command command_inspect = {
    .name = "inspect",
    .summary = "show what a checkpoint is and the memory that it will need",
    .operands = "[PATH]",
    .operands_most = 1,
    .about = "Reads config.json and the headers of the weights, and loads nothing. That a model "
             "does not fit is an answer, not an error: the exit code is 0.",
    .examples = "mlxcel inspect -m models/llama-3.2-1b-4bit\n"
                "mlxcel inspect -m models/llama-3.2-1b-4bit --max-tokens 32768 --json\n",
    .groups = groups,
    .run = run,
};
