// mlxcel bench: how fast a model's prompts and generation are, and what that is of the machine's
// limit, which is measured in the same run.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "engine/bench.h"

enum { WARM_TOKENS = 8, MOST_RESULTS = 256 };

// One kind of pass, its repetitions, and what they are of the limit.
struct result {
    struct pass pass;
    double *speed; // [reps] tokens a second over all sequences, sorted
    int64_t reps;
    double median;
    double bytes, ops;           // a token, at least
    double of_bandwidth, of_ops; // parts of what the machine can do
    double of_limit;             // of the time that the slower of the two would take alone
};

struct report {
    const char *path, *load_format, *precision;
    struct sampling sampling; // of generation
    const struct engine_info *info;
    struct device_speed machine;
    const char *peak_name; // the arithmetic that counts as the machine's peak for this model
    double peak;
    double load_seconds;
    struct result *result;
    size_t results, cap;
};

// --- measuring -----------------------------------------------------------------------------------

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static const char *name_of(const struct result *r) {
    return r->pass.generate ? "generation" : "prompt";
}

// Runs a pass once to warm up, shortened, and then as often as asked.
static bool repeat(struct engine *engine, bool progress, struct result *r, struct error *e) {
    const char *name = name_of(r);
    double seconds;
    struct pass warm = r->pass;
    if (warm.generate && warm.tokens > WARM_TOKENS) warm.tokens = WARM_TOKENS;
    if (progress) fprintf(stderr, "\r%-10s warming up ", name);
    if (!engine_time(engine, &warm, &seconds, e)) return false;
    double tokens = (double)(r->pass.tokens * r->pass.sequences);
    r->speed = mem_array((size_t)r->reps, sizeof *r->speed);
    for (int64_t i = 0; i < r->reps; i++) {
        if (progress)
            fprintf(stderr, "\r%-10s %lld of %lld    ", name, (long long)i + 1, (long long)r->reps);
        if (!engine_time(engine, &r->pass, &seconds, e)) return false;
        r->speed[i] = tokens / seconds;
    }
    qsort(r->speed, (size_t)r->reps, sizeof *r->speed, by_value);
    r->median = (r->speed[(r->reps - 1) / 2] + r->speed[r->reps / 2]) / 2;
    return true;
}

static void compare(const struct engine *engine, const struct report *report, struct result *r) {
    struct pass_cost cost = engine_cost(engine, &r->pass);
    double tokens = (double)(r->pass.tokens * r->pass.sequences);
    r->bytes = cost.bytes / tokens;
    r->ops = cost.ops / tokens;
    r->of_bandwidth = r->bytes * r->median / report->machine.read;
    r->of_ops = r->ops * r->median / report->peak;
    r->of_limit = r->of_bandwidth > r->of_ops ? r->of_bandwidth : r->of_ops;
}

// On the CPU weights in few bits may be multiplied in 8; others, and all on a GPU, in bf16 where
// there is an instruction for it.
static void choose_peak(struct report *r, bool native) {
    bool int8 = native && r->info->bits_per_weight < 16 && r->machine.int8 > r->machine.f32;
    bool bf16 = native && r->machine.bf16 > r->machine.f32;
    r->peak_name = int8 ? "int8" : bf16 ? "bf16" : "f32";
    r->peak = int8 ? r->machine.int8 : bf16 ? r->machine.bf16 : r->machine.f32;
}

static bool measure(struct engine *engine, struct report *r, bool progress, struct error *e) {
    if (progress) fputs("the machine", stderr);
    bool ok = engine_measure(engine, &r->machine, e);
    for (size_t i = 0; i < r->results && ok; i++) ok = repeat(engine, progress, &r->result[i], e);
    if (progress) fprintf(stderr, "\r%*s\r", 40, "");
    if (!ok) return false;
    choose_peak(r, !strcmp(r->precision, "native"));
    for (size_t i = 0; i < r->results; i++) compare(engine, r, &r->result[i]);
    return true;
}

// --- printing ------------------------------------------------------------------------------------

static void add_result_text(struct str *s, const struct report *report, const struct result *r) {
    str_printf(s, "%-14s%.2f tok/s (%.2f to %.2f in %lld run%s): %lld tokens", name_of(r),
               r->median, r->speed[0], r->speed[r->reps - 1], (long long)r->reps,
               r->reps == 1 ? "" : "s", (long long)r->pass.tokens);
    if (r->pass.depth) str_printf(s, " after %lld", (long long)r->pass.depth);
    if (r->pass.sequences > 1)
        str_printf(s, ", %lld sequences at once", (long long)r->pass.sequences);
    str_printf(s, "\n%-14s%.1f %% of the limit: ", "", 100 * r->of_limit);
    add_bytes(s, (size_t)r->bytes);
    str_printf(s,
               " a token are %.1f %% of the read bandwidth, %.2f Gop are %.1f %% of the %s peak\n",
               100 * r->of_bandwidth, r->ops / 1e9, 100 * r->of_ops, report->peak_name);
}

static void add_peak_text(struct str *s, const struct device_peak *p) {
    str_printf(s, " %.0f Gop/s in f32", p->f32 / 1e9);
    if (p->int8 > 0) str_printf(s, ", %.0f Gop/s in int8", p->int8 / 1e9);
    if (p->bf16 > 0) str_printf(s, ", %.0f Gop/s in bf16", p->bf16 / 1e9);
    str_addc(s, '\n');
}

static void add_text(struct str *s, const struct report *r) {
    struct device_peak own = {r->machine.f32, r->machine.int8, r->machine.bf16};
    str_printf(s, "%-14s%s, %.1f million parameters, %.2f bits a weight%s\n", "model",
               r->info->family_name, (double)r->info->parameters / 1e6, r->info->bits_per_weight,
               strcmp(r->load_format, "dummy") ? "" : ", random weights");
    str_printf(s, "%-14s%s, precision %s, keys in %s and values in %s; loaded in %.2f s\n",
               "device", r->info->device, r->precision, r->info->cache_k, r->info->cache_v,
               r->load_seconds);
    str_printf(s, "%-14sreads %.1f GB/s, copies %.1f GB/s; peak", "machine", r->machine.read / 1e9,
               r->machine.copy / 1e9);
    add_peak_text(s, &own);
    for (int isa = 0; isa < ISA_BEST; isa++) {
        const struct device_peak *p = &r->machine.of_isa[isa];
        bool told = p->f32 == r->machine.f32 && p->bf16 == r->machine.bf16;
        if (p->f32 <= 0 || told) continue;
        str_printf(s, "%-14swith %s", "", isa_name((enum isa)isa));
        add_peak_text(s, p);
    }
    for (size_t i = 0; i < r->results; i++) add_result_text(s, r, &r->result[i]);
}

static void add_name(struct str *s, const char *key, const char *value) {
    add_json_key(s, key);
    json_quote(s, sv(value));
}

static void add_number(struct str *s, const char *key, double value) {
    add_json_key(s, key);
    str_printf(s, "%.10g", value);
}

static void add_result_json(struct str *s, const struct result *r) {
    str_addc(s, '{');
    add_name(s, "kind", name_of(r));
    add_number(s, "tokens", (double)r->pass.tokens);
    add_number(s, "depth", (double)r->pass.depth);
    add_number(s, "sequences", (double)r->pass.sequences);
    add_number(s, "tokens_per_second", r->median);
    add_json_key(s, "runs");
    for (int64_t i = 0; i < r->reps; i++) str_printf(s, "%c%.10g", i ? ',' : '[', r->speed[i]);
    str_addc(s, ']');
    add_number(s, "bytes_per_token", r->bytes);
    add_number(s, "ops_per_token", r->ops);
    add_number(s, "of_bandwidth", r->of_bandwidth);
    add_number(s, "of_peak", r->of_ops);
    add_number(s, "of_limit", r->of_limit);
    str_addc(s, '}');
}

// Of each instruction set that the machine has.
static void add_peaks(struct str *s, const struct device_speed *m) {
    add_json_key(s, "instruction_sets");
    str_addc(s, '{');
    for (int isa = 0; isa < ISA_BEST; isa++) {
        if (m->of_isa[isa].f32 <= 0) continue;
        add_json_key(s, isa_name((enum isa)isa));
        str_addc(s, '{');
        add_number(s, "f32_ops_per_second", m->of_isa[isa].f32);
        add_number(s, "int8_ops_per_second", m->of_isa[isa].int8);
        add_number(s, "bf16_ops_per_second", m->of_isa[isa].bf16);
        str_addc(s, '}');
    }
    str_addc(s, '}');
}

static void add_json(struct str *s, const struct report *r) {
    str_addc(s, '{');
    add_name(s, "model", r->path);
    add_name(s, "family", r->info->family);
    add_name(s, "load_format", r->load_format);
    add_name(s, "precision", r->precision);
    add_name(s, "cache_type_k", r->info->cache_k);
    add_name(s, "cache_type_v", r->info->cache_v);
    add_name(s, "device", r->info->device);
    add_number(s, "parameters", (double)r->info->parameters);
    add_number(s, "bits_per_weight", r->info->bits_per_weight);
    add_number(s, "weights_bytes", (double)r->info->weight_bytes);
    add_number(s, "load_seconds", r->load_seconds);
    add_json_key(s, "machine");
    str_addc(s, '{');
    add_number(s, "read_bytes_per_second", r->machine.read);
    add_number(s, "copy_bytes_per_second", r->machine.copy);
    add_number(s, "f32_ops_per_second", r->machine.f32);
    add_number(s, "int8_ops_per_second", r->machine.int8);
    add_number(s, "bf16_ops_per_second", r->machine.bf16);
    add_name(s, "peak", r->peak_name);
    add_peaks(s, &r->machine);
    str_addc(s, '}');
    add_json_key(s, "results");
    for (size_t i = 0; i < r->results; i++) {
        str_addc(s, i ? ',' : '[');
        add_result_json(s, &r->result[i]);
    }
    str_puts(s, "]}\n");
}

// --- the command ---------------------------------------------------------------------------------

// What a model is asked beyond what it was made for says nothing about it.
static bool check_context(const char *path, const struct engine_options *opt, struct error *e) {
    struct engine_options look = *opt;
    look.dry = true;
    look.context = 1;
    struct engine *engine = engine_open(path, &look, e);
    if (!engine) return false;
    int64_t most = engine_info(engine)->model_context, want = opt->context - 1;
    engine_close(engine);
    return want <= most ||
           fail(e,
                "%lld tokens (--n-depth and the larger of --n-prompt and --n-gen) are more than "
                "the %lld that the model was made for (--load-format dummy times any number)",
                (long long)want, (long long)most);
}

static struct engine *open_engine(const struct args *a, struct report *r, struct error *e) {
    double began = clock_now();
    struct load_progress progress;
    struct engine_options opt;
    cli_engine_options(a, &opt, &progress);
    if (!pool_read_options(a, &opt.pool, e)) return NULL;
    opt.load_dummy = !strcmp(r->load_format, "dummy");
    opt.batch = 0;
    for (size_t i = 0; i < r->results; i++) {
        const struct pass *p = &r->result[i].pass;
        int64_t tokens = p->depth + p->tokens + 1;
        if (tokens > opt.context) opt.context = tokens;
        if (p->sequences > opt.sequences) opt.sequences = p->sequences;
    }
    opt.tokens = opt.sequences * opt.context; // all at once, or not at all
    struct engine *engine = NULL;
    if (opt.load_dummy || check_context(r->path, &opt, e)) engine = engine_open(r->path, &opt, e);
    cli_progress_clear(&progress);
    r->load_seconds = clock_now() - began;
    return engine;
}

static size_t count(const char *text, char c) {
    size_t n = 0;
    for (; *text; text++) n += *text == c;
    return n;
}

// A number, or several with commas between.
static bool read_list(const struct args *a, const char *name, int64_t least, int64_t most,
                      struct ids *out, struct error *e) {
    struct error ignored = {0};
    const char *text = args_text(a, name);
    bool ok = cli_ids(text, out, &ignored) && out->n == 1 + count(text, ',');
    for (size_t i = 0; i < out->n && ok; i++) ok = out->id[i] >= least && out->id[i] <= most;
    return ok ||
           fail(e, "--%s %s: is not a number from %lld to %lld, or several with commas between",
                name, text, (long long)least, (long long)most);
}

static void add_results(struct report *r, int64_t reps, const struct ids *tokens, struct pass p) {
    for (size_t i = 0; i < tokens->n; i++) {
        p.tokens = tokens->id[i];
        if (!p.tokens) continue;
        r->result = mem_grow(r->result, &r->cap, r->results + 1, sizeof *r->result);
        r->result[r->results++] = (struct result){.pass = p, .reps = reps};
    }
}

// Each prompt and each generation, of each number of sequences, at each depth.
static bool plan(const struct args *a, struct report *r, struct error *e) {
    struct ids prompt = {0}, gen = {0}, depth = {0}, batch = {0};
    bool ok = read_list(a, "n-prompt", 0, 100000000, &prompt, e) &&
              read_list(a, "n-gen", 0, 100000000, &gen, e) &&
              read_list(a, "n-depth", 0, 100000000, &depth, e) &&
              read_list(a, "batch", 1, 4096, &batch, e);
    if (ok && (prompt.n + gen.n) * depth.n * batch.n > MOST_RESULTS)
        ok = fail(e, "more than %d combinations of -p, -n, -d and -b", MOST_RESULTS);
    for (size_t d = 0; d < depth.n && ok; d++)
        for (size_t b = 0; b < batch.n; b++) {
            struct pass p = {.sequences = batch.id[b], .depth = depth.id[d]};
            p.sampling = &r->sampling;
            add_results(r, args_int(a, "repetitions"), &prompt, p);
            p.generate = true;
            add_results(r, args_int(a, "repetitions"), &gen, p);
        }
    if (ok && !r->results) ok = fail(e, "nothing to do: -p and -n are both 0");
    ids_free(&prompt);
    ids_free(&gen);
    ids_free(&depth);
    ids_free(&batch);
    return ok;
}

static int run(const struct args *a) {
    struct error e = {0};
    struct report r = {.path = args_model(a, &e),
                       .load_format = args_text(a, "load-format"),
                       .precision = args_text(a, "precision")};
    cli_few_samplers(a, &r.sampling);
    bool ok = r.path && sampling_check(&r.sampling, &e) && plan(a, &r, &e);
    struct engine *engine = ok ? open_engine(a, &r, &e) : NULL;
    struct str out = {0};
    if (engine) {
        r.info = engine_info(engine);
        bool progress = isatty(STDERR_FILENO) && !args_flag(a, "quiet");
        if (measure(engine, &r, progress, &e))
            (args_flag(a, "json") ? add_json : add_text)(&out, &r);
    }
    if (!e.set) cli_write(str_sv(&out), &e);
    str_free(&out);
    for (size_t i = 0; i < r.results; i++) free(r.result[i].speed);
    free(r.result);
    engine_close(engine);
    if (!ok) return cli_usage(&e);
    return e.set ? cli_error(&e) : CLI_OK;
}

static const struct arg args[] = {
    {"-p --n-prompt", ARG_TEXT, "N,...", NULL, "512", 0, 0, "tokens of prompt to time; 0: none"},
    {"-n --n-gen", ARG_TEXT, "N,...", NULL, "128", 0, 0, "tokens of generation to time; 0: none"},
    {"-d --n-depth", ARG_TEXT, "N,...", NULL, "0", 0, 0,
     "tokens that the cache holds before the clock starts"},
    {"-b --batch", ARG_TEXT, "N,...", NULL, "1", 0, 0,
     "sequences at once; speeds are those of all together"},
    {"-r --repetitions", ARG_INT, "N", NULL, "5", 1, 1000,
     "runs of each, after one to warm up; the median counts"},
    {"--temp --temperature", ARG_NUMBER, "T", NULL, "0", 0, 100,
     "of generation; 0: always the likeliest token"},
    {"--load-format", ARG_CHOICE, "auto|dummy", NULL, "auto", 0, 0,
     "dummy: random weights in the shape of config.json, the only file that is read"},
    {"-t --threads", ARG_INT, "N", "LLAMA_ARG_THREADS", "0", -1, 4096,
     "CPU threads; 0 or less: one a physical core"},
    {"--json", ARG_FLAG, NULL, NULL, NULL, 0, 0, "as one JSON object"},
};
static const struct arg_group options = {"Bench", args, sizeof args / sizeof *args};
static const struct arg_group *const groups[] = {&args_model_group,   &options,
                                                 &untempered_options, &engine_device_group,
                                                 &pool_arg_group,     &engine_cache_group,
                                                 &common_options,     &refused_options,
                                                 &engine_other_group, NULL};

const struct command command_bench = {
    .name = "bench",
    .summary = "time prompts and generation, against the machine's limit",
    .operands = "[PATH]",
    .operands_most = 1,
    .about = "The limit is the time in which the machine could read what each step must read (all "
             "weights, the keys and values that are seen), or do the arithmetic, whichever is "
             "longer; the read bandwidth and the arithmetic peak are measured in the same run, "
             "with the same threads. A model that fits in the CPU's cache can be over 100 %.",
    .examples =
        "mlxcel bench -m models/llama-3.2-1b-4bit\n"
        "mlxcel bench -m bench/shapes/llama-8b-q4 --load-format dummy -p 0 -d 4096 -b 1,8\n",
    .groups = groups,
    .run = run,
};
