// mlxcel generate: one prompt, one answer, streamed.
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/chat_loop.h"
#include "cli/turn.h"
#include "engine/sampling_args.h"

// The line break that an editor or echo puts at the end isn't meant as a part of the prompt.
static void trim_end(struct str *s) {
    if (s->n && s->p[s->n - 1] == '\n') s->p[--s->n] = 0;
    if (s->n && s->p[s->n - 1] == '\r') s->p[--s->n] = 0;
}

static bool read_prompt(const struct args *a, struct str *out, struct error *e) {
    const char *text = args_text(a, "prompt"), *file = args_text(a, "file");
    if (text && strcmp(text, "-") != 0) {
        str_puts(out, text);
        return true;
    }
    if (!(file ? file_read(file, CLI_INPUT_MAX, out, e) : cli_read(out, e))) return false;
    trim_end(out);
    return out->n || fail(e, "%s: the prompt is empty", file ? file : "standard input");
}

static double per_second(size_t n, double seconds) { return seconds > 0 ? (double)n / seconds : 0; }

static void add_json(struct str *s, const char *path, const struct turn_options *opt,
                     const struct turn *t, double load_seconds) {
    const struct answer *a = &t->answer;
    double prompt, rest;
    size_t n;
    turn_times(t, &prompt, &rest, &n);
    str_puts(s, "{\"model\":");
    json_quote(s, sv(path));
    str_puts(s, ",\"text\":");
    json_quote(s, str_sv(&t->said.content));
    if (t->said.reasoning.n) {
        str_puts(s, ",\"reasoning\":");
        json_quote(s, str_sv(&t->said.reasoning));
    }
    str_puts(s, ",\"ids\":[");
    for (size_t i = 0; i < a->ids.n; i++) str_printf(s, i ? ",%d" : "%d", a->ids.id[i]);
    str_printf(s, "],\"finish_reason\":\"%s\",\"seed\":%llu", finish_name(a->finish),
               (unsigned long long)opt->sampling.seed);
    str_printf(s,
               ",\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu}",
               t->prompt.n, a->ids.n, t->prompt.n + a->ids.n);
    str_printf(s,
               ",\"timings\":{\"load_ms\":%.3f,\"prompt_n\":%zu,\"prompt_ms\":%.3f,"
               "\"prompt_per_second\":%.3f,\"predicted_n\":%zu,\"predicted_ms\":%.3f,"
               "\"predicted_per_second\":%.3f}}\n",
               load_seconds * 1e3, t->prompt.n, prompt * 1e3, per_second(t->prompt.n, prompt), n,
               rest * 1e3, per_second(n, rest));
}

static bool answer_prompt(const struct args *a, const char *path, struct text_model *m,
                          const struct turn_options *opt, struct sv prompt, double load_seconds,
                          struct error *e) {
    bool json = args_flag(a, "json");
    struct json_object *messages = turn_messages(a);
    turn_add(messages, "user", prompt);
    struct turn t;
    struct str end = {0};
    bool ok = turn_run(&t, m, opt, messages, !json, e);
    if (ok && json) add_json(&end, path, opt, &t, load_seconds);
    if (ok && !json && t.line_open) str_addc(&end, '\n');
    ok = ok && cli_write(str_sv(&end), e);
    if (ok) turn_tell_end(&t, m);
    if (ok && args_flag(a, "stats")) turn_print_stats(&t, load_seconds);
    turn_close(&t);
    str_free(&end);
    json_object_put(messages);
    return ok;
}

static int one_shot(const struct args *a, const char *path) {
    struct error e = {0};
    struct turn_options opt;
    struct text_model m = {0};
    struct str prompt = {0};
    double load_seconds;
    if (args_text(a, "prompt") && args_text(a, "file"))
        fail(&e, "--prompt and --file exclude each other");
    if (args_text(a, "prompt") && !*args_text(a, "prompt"))
        fail(&e, "--prompt is empty: pass a text, or - for standard input");
    if (e.set || !turn_read_options(a, &opt, &e)) return cli_usage(&e);
    bool ok = read_prompt(a, &prompt, &e) && turn_open(a, path, &opt, &m, &load_seconds, &e);
    if (ok && !opt.raw && !chat_has_template(m.chat))
        log_say(LOG_WARN, "%s has no chat template: the prompt is given as it is (--raw)", path);
    signals_catch(true);
    ok = ok && answer_prompt(a, path, &m, &opt, str_sv(&prompt), load_seconds, &e);
    str_free(&prompt);
    text_close(&m);
    turn_free_options(&opt);
    if (!ok) return cli_error(&e);
    return signals_got() ? 128 + signals_got() : CLI_OK;
}

// Both commands do both: with a prompt one answer, without one a conversation. They differ in where
// lines from a pipe go: to generate they are the prompt, to run the messages of a conversation.
static int generate_or_chat(const struct args *a, bool pipe_is_prompt) {
    struct error e = {0};
    const char *path = args_model(a, &e);
    if (!path) return cli_usage(&e);
    bool given = args_text(a, "prompt") || args_text(a, "file");
    if (given || (pipe_is_prompt && !isatty(STDIN_FILENO))) return one_shot(a, path);
    return chat_loop(a, path);
}

static int generate(const struct args *a) { return generate_or_chat(a, true); }
static int run(const struct args *a) { return generate_or_chat(a, false); }

static const struct arg args[] = {
    {"--stats", ARG_FLAG, NULL, NULL, NULL, 0, 0,
     "afterwards, tell times and tokens a second on standard error"},
    {"--json", ARG_FLAG, NULL, NULL, NULL, 0, 0,
     "with a prompt: print one JSON object at the end: text, reasoning, ids, finish_reason, usage, "
     "timings"},
    {"--show-reasoning", ARG_FLAG, NULL, NULL, NULL, 0, 0,
     "print what the model thinks before it answers too"},
};
static const struct arg_group options = {"Output", args, sizeof args / sizeof *args};
static const struct arg_group *const groups[] = {
    &args_model_group,
    &prompt_options,
    &template_options,
    &sampling_options,
    &sampling_arg_group,
    &constraint_arg_group,
    &engine_options_group,
    &engine_device_group,
    &pool_arg_group,
    &engine_cache_group,
    &options,
    &common_options,
    &refused_options,
    &engine_other_group,
    &refused_chat_options,
    NULL,
};

const struct command command_generate = {
    .name = "generate",
    .alias = "gen",
    .summary = "answer a prompt",
    .operands = "[PATH]",
    .operands_most = 1,
    .about = "The answer goes to standard output as it is made. Without --prompt and --file the "
             "prompt is read from standard input; on a terminal a conversation begins instead, as "
             "with mlxcel run.",
    .examples = "mlxcel generate models/SmolLM2-135M-Instruct -p \"Why is the sky blue?\"\n"
                "mlxcel generate -m DIR -p \"Once upon a time\" --raw -n 100 --temp 0.8 --seed 1\n"
                "git diff | mlxcel generate -m DIR --system \"Write a commit message\" --stats\n",
    .groups = groups,
    .run = generate,
};

const struct command command_run = {
    .name = "run",
    .summary = "talk with a model",
    .operands = "[PATH]",
    .operands_most = 1,
    .about = "A conversation with line editing and history; /help lists its commands, Ctrl-C stops "
             "an answer, Ctrl-D ends. A line that ends in a backslash goes on in the next, and "
             "\"\"\" begins and ends a message of several lines. Without a terminal, each line of "
             "standard input is a message. With --prompt it answers once, as mlxcel generate does.",
    .examples = "mlxcel run models/SmolLM2-135M-Instruct\n"
                "mlxcel run -m DIR --system \"Answer in one sentence.\" --temp 0.7\n",
    .groups = groups,
    .run = run,
};
