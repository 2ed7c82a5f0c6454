// mlxcel logits: the model's numbers for given ids, for tests and for comparing engines.
#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"
#include "checkpoint/safetensors.h"
#include "cli/cli.h"

struct task {
    struct ids ids;
    int64_t vocab;
    float *logits;   // [ids, vocab]
    int32_t *greedy; // [greedy_want]
    size_t greedy_n, greedy_want;
};

static bool read_ids(struct task *t, const char *text, struct error *e) {
    if (!cli_ids(text, &t->ids, e)) return fail_in(e, "--ids");
    return t->ids.n || fail(e, "--ids: no token ids; pass at least one, as in --ids 1,2,3");
}

static bool compute(struct engine *engine, struct task *t, struct error *e) {
    size_t count;
    t->vocab = engine_info(engine)->vocab;
    if (!size_mul(t->ids.n, (size_t)t->vocab, &count))
        return fail(e, "--ids: logits of %zu ids by %lld do not fit in memory", t->ids.n,
                    (long long)t->vocab);
    t->logits = mem_array(count, sizeof *t->logits);
    t->greedy = mem_array(t->greedy_want, sizeof *t->greedy);
    struct request r = {
        .prompt = t->ids.id,
        .n = t->ids.n,
        .max_new = (int64_t)t->greedy_want,
        .sampling = sampling_greedy(),
        .prompt_logits = t->logits,
    };
    if (!engine_submit(engine, &r, e)) return false;
    while (engine_busy(engine) && engine_step(engine, e)) {
        struct event event;
        while (engine_event(engine, &event))
            if (event.id >= 0 && t->greedy_n < t->greedy_want) t->greedy[t->greedy_n++] = event.id;
    }
    if (!e->set && t->greedy_n < t->greedy_want)
        fail(e, "the context was full after %zu of %zu greedy ids", t->greedy_n, t->greedy_want);
    return !e->set;
}

static bool write_file(const char *path, struct task *t, struct error *e) {
    char names[2][12] = {"logits", "greedy_ids"};
    struct st_tensor out[2] = {
        {.name = names[0], .t = tensor_2d(DT_F32, (int64_t)t->ids.n, t->vocab, t->logits)},
        {.name = names[1], .t = tensor_1d(DT_I32, (int64_t)t->greedy_n, t->greedy)},
    };
    return st_write(path, out, t->greedy_want ? 2 : 1, e);
}

// The ids of a row's `top` greatest logits, the greatest first; ties go to the lowest id.
static void top_ids(const float *row, int64_t vocab, int64_t top, int32_t *best) {
    int64_t n = 0;
    for (int64_t id = 0; id < vocab; id++) {
        if (n == top && !(row[id] > row[best[n - 1]])) continue;
        int64_t at = n < top ? n++ : n - 1;
        for (; at > 0 && row[id] > row[best[at - 1]]; at--) best[at] = best[at - 1];
        best[at] = (int32_t)id;
    }
}

// JSON has no NaN or infinity.
static void add_float(struct str *s, float f) {
    if (f - f == 0)
        str_printf(s, "%.9g", (double)f);
    else
        str_puts(s, "null");
}

static void add_row_json(struct str *s, const struct task *t, size_t i, int64_t top,
                         const int32_t *best) {
    const float *row = t->logits + i * (size_t)t->vocab;
    str_printf(s, "%s\n  {\"id\":%d,", i ? "," : "", t->ids.id[i]);
    str_puts(s, top ? "\"top\":[" : "\"logits\":[");
    for (int64_t k = 0; k < (top ? top : t->vocab); k++) {
        if (k) str_addc(s, ',');
        if (top) str_printf(s, "{\"id\":%d,\"logit\":", best[k]);
        add_float(s, row[top ? best[k] : k]);
        if (top) str_addc(s, '}');
    }
    str_puts(s, "]}");
}

static void add_row_text(struct str *s, const struct task *t, size_t i, int64_t top,
                         const int32_t *best) {
    const float *row = t->logits + i * (size_t)t->vocab;
    str_printf(s, "%zu\t%d", i, t->ids.id[i]);
    for (int64_t k = 0; k < (top ? top : t->vocab); k++) {
        if (top)
            str_printf(s, "\t%d:%.6g", best[k], (double)row[best[k]]);
        else
            str_printf(s, "\t%.9g", (double)row[k]);
    }
    str_addc(s, '\n');
}

// Row by row, since all rows of a large vocabulary are long. top 0: every logit.
static bool print(const struct task *t, int64_t top, bool json, struct error *e) {
    if (top > t->vocab) top = t->vocab;
    int32_t *best = mem_array((size_t)top, sizeof *best);
    struct str s = {0};
    if (json) str_printf(&s, "{\"vocab_size\":%lld,\"rows\":[", (long long)t->vocab);
    for (size_t i = 0; i < t->ids.n && !e->set; i++) {
        if (top) top_ids(t->logits + i * (size_t)t->vocab, t->vocab, top, best);
        (json ? add_row_json : add_row_text)(&s, t, i, top, best);
        cli_write(str_sv(&s), e);
        str_clear(&s);
    }
    if (json) str_puts(&s, "\n]");
    if (t->greedy_want) str_puts(&s, json ? ",\"greedy_ids\":[" : "greedy");
    for (size_t i = 0; i < t->greedy_n; i++)
        str_printf(&s, json ? (i ? ",%d" : "%d") : "\t%d", t->greedy[i]);
    if (t->greedy_want && json) str_addc(&s, ']');
    if (json) str_addc(&s, '}');
    if (json || t->greedy_want) str_addc(&s, '\n');
    cli_write(str_sv(&s), e);
    str_free(&s);
    free(best);
    return !e->set;
}

static struct engine *open_engine(const struct args *a, const char *path, const struct task *t,
                                  struct error *e) {
    struct load_progress progress;
    struct engine_options opt;
    cli_engine_options(a, &opt, &progress);
    opt.context = args_int(a, "ctx-size");
    if (!opt.context) opt.context = (int64_t)(t->ids.n + t->greedy_want);
    opt.chunk = args_int(a, "chunk");
    if (!pool_read_options(a, &opt.pool, e)) return NULL;
    struct engine *engine = engine_open(path, &opt, e);
    cli_progress_clear(&progress);
    return engine;
}

static int run(const struct args *a) {
    struct error e = {0};
    struct task t = {.greedy_want = (size_t)args_int(a, "greedy")};
    const char *path = args_model(a, &e), *out = args_text(a, "out");
    if (path && !args_text(a, "ids")) fail(&e, "no token ids: pass --ids 1,2,3");
    if (e.set || !read_ids(&t, args_text(a, "ids"), &e)) {
        ids_free(&t.ids);
        return cli_usage(&e);
    }
    struct engine *engine = open_engine(a, path, &t, &e);
    bool ok = engine && compute(engine, &t, &e);
    if (ok && out) ok = write_file(out, &t, &e);
    if (ok && !out) ok = print(&t, args_int(a, "top"), args_flag(a, "json"), &e);
    engine_close(engine);
    ids_free(&t.ids);
    free(t.logits);
    free(t.greedy);
    return ok ? CLI_OK : cli_error(&e);
}

static const struct arg args[] = {
    {"--ids", ARG_TEXT, "1,2,3", NULL, NULL, 0, 0, "the token ids"},
    {"--greedy", ARG_INT, "N", NULL, "0", 0, 1e6, "then generate N tokens, always the likeliest"},
    {"--chunk", ARG_INT, "N", NULL, "0", 0, 1e6,
     "ids to give the model at a time; 0: as many as it takes"},
    {"--out", ARG_TEXT, "FILE", NULL, NULL, 0, 0,
     "write a SafeTensors file: logits [ids, vocabulary] F32 and, with --greedy, greedy_ids I32"},
    {"--top", ARG_INT, "N", NULL, "5", 0, 1e6,
     "without --out: print the N greatest logits of each row; 0: all of them"},
    {"--json", ARG_FLAG, NULL, NULL, NULL, 0, 0, "without --out: print one JSON object"},
};
static const struct arg_group options = {"Logits", args, sizeof args / sizeof *args};
static const struct arg_group *const groups[] = {&args_model_group,     &options,
                                                 &engine_options_group, &engine_device_group,
                                                 &pool_arg_group,       &engine_cache_group,
                                                 &common_options,       &refused_options,
                                                 &engine_other_group,   NULL};

const struct command command_logits = {
    .name = "logits",
    .summary = "compute a model's logits for given token ids",
    .operands = "[PATH]",
    .operands_most = 1,
    .about = "Row i holds the logits that follow the first i + 1 ids. For tests, and to compare "
             "engines with each other.",
    .examples = "mlxcel logits -m models/llama-3.2-1b-4bit --ids 128000,9906 --greedy 8\n"
                "mlxcel logits -m DIR --ids 1,2,3 --precision f32 --out logits.safetensors\n",
    .groups = groups,
    .run = run,
};
