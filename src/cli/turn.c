#include "cli/turn.h"

#include "base/clock.h"
#include "base/log.h"

bool turn_read_options(const struct args *a, struct turn_options *opt, struct error *e) {
    *opt = (struct turn_options){
        .max_new = args_int(a, "max-tokens"),
        .raw = args_flag(a, "raw"),
        .ignore_eos = args_flag(a, "ignore-eos"),
    };
    opt->stops = args_texts(a, "stop", &opt->stop);
    return cli_sampling(a, &opt->sampling, e);
}

bool turn_open(const struct args *a, const char *path, struct text_model *m, double *seconds,
               struct error *e) {
    double began = clock_now();
    struct load_progress progress;
    struct engine_options opt;
    cli_engine_options(a, &opt, &progress);
    opt.context = args_int(a, "ctx-size");
    bool ok = text_open(m, path, &opt, e);
    cli_progress_clear(&progress);
    *seconds = clock_now() - began;
    if (ok)
        log_say(LOG_INFO, "%s: loaded in %.2f s on %s", path, *seconds,
                engine_info(m->engine)->device);
    return ok;
}

struct json_object *turn_messages(const struct args *a) {
    struct json_object *messages = json_object_new_array();
    const char *system = args_text(a, "system");
    if (system) turn_add(messages, "system", sv(system));
    return messages;
}

void turn_add(struct json_object *messages, const char *role, struct sv content) {
    struct json_object *m = json_object_new_object();
    json_object_object_add(m, "role", json_object_new_string(role));
    // A command line and a file may hold anything; text in JSON is UTF-8.
    struct str text = {0};
    for (size_t i = 0, len; i < content.n; i += len) {
        bool good = utf8_decode(content, i, &len) >= 0;
        str_add(&text, good ? sv_cut(content, i, i + len) : sv("\xef\xbf\xbd"));
    }
    json_object_object_add(m, "content", json_object_new_string_len(str_c(&text), (int)text.n));
    json_object_array_add(messages, m);
    str_free(&text);
}

static void add_labelled(struct str *s, struct json_object *message) {
    struct sv role = json_text_at(message, "role"), text = json_text_at(message, "content");
    char first = role.n && role.p[0] >= 'a' && role.p[0] <= 'z' ? role.p[0] - 'a' + 'A' : '?';
    struct sv rest = sv_cut(role, 1, role.n);
    str_printf(s, "%c%.*s: ", first, (int)rest.n, rest.p);
    str_add(s, text);
    str_puts(s, "\n\n");
}

// The prompt without a template. A model that was never taught to converse goes on best with a
// dialogue that it can see is one.
static bool plain_ids(const struct text_model *m, bool labels, struct json_object *messages,
                      struct ids *out, struct error *e) {
    struct str text = {0};
    for (size_t i = 0; i < json_object_array_length(messages); i++) {
        struct json_object *message = json_object_array_get_idx(messages, i);
        if (labels) {
            add_labelled(&text, message);
        } else {
            if (i) str_addc(&text, '\n');
            str_add(&text, json_text_at(message, "content"));
        }
    }
    if (labels) str_puts(&text, "Assistant:");
    bool ok = tok_encode(m->tokenizer, str_sv(&text), true, out, e);
    str_free(&text);
    return ok;
}

static bool prompt_ids(const struct text_model *m, const struct turn_options *opt,
                       struct json_object *messages, struct ids *out, struct error *e) {
    if (opt->raw || !chat_has_template(m->chat))
        return plain_ids(m, opt->labels && !opt->raw, messages, out, e);
    struct chat_options chat = {.add_generation_prompt = true};
    return text_chat_ids(m, messages, &chat, out, e);
}

bool turn_run(struct turn *t, struct text_model *m, const struct turn_options *opt,
              struct json_object *messages, bool stream, struct error *e) {
    *t = (struct turn){0};
    if (!prompt_ids(m, opt, messages, &t->prompt, e)) return false;
    struct request r = {
        .prompt = t->prompt.id,
        .n = t->prompt.n,
        .max_new = opt->max_new,
        .sampling = opt->sampling,
        .stop_ids = m->defaults.eos,
        .stop_count = opt->ignore_eos ? 0 : m->defaults.eos_count,
    };
    if (!answer_start(&t->answer, m, &r, opt->stop, opt->stops, e)) return false;
    struct sv piece;
    while (answer_next(&t->answer, &piece, e)) {
        str_add(&t->text, piece);
        if (stream && !cli_write(piece, e)) break;
        if (signals_got()) answer_cancel(&t->answer);
    }
    return !e->set;
}

void turn_close(struct turn *t) {
    answer_close(&t->answer);
    ids_free(&t->prompt);
    str_free(&t->text);
}

void turn_times(const struct turn *t, double *prompt, double *rest, size_t *rest_tokens) {
    const struct answer *a = &t->answer;
    *prompt = a->first > 0 ? a->first - a->started : 0;
    *rest = a->first > 0 ? a->last - a->first : 0;
    *rest_tokens = a->ids.n ? a->ids.n - 1 : 0;
}

void turn_tell_end(const struct turn *t, const struct text_model *m) {
    if (t->answer.finish == FINISH_CONTEXT)
        log_say(LOG_WARN, "the answer is cut: the context of %lld tokens is full (-c, --ctx-size)",
                (long long)engine_info(m->engine)->context);
}

static void print_stage(const char *name, double seconds, size_t tokens) {
    fprintf(stderr, "%-11s %9.3f s %7zu token%s %10.2f tok/s\n", name, seconds, tokens,
            plural((int64_t)tokens), seconds > 0 ? (double)tokens / seconds : 0.0);
}

void turn_print_stats(const struct turn *t, double load_seconds) {
    double prompt, rest;
    size_t n;
    turn_times(t, &prompt, &rest, &n);
    if (load_seconds > 0) fprintf(stderr, "%-11s %9.3f s\n", "load", load_seconds);
    print_stage("prompt", prompt, t->prompt.n);
    print_stage("generation", rest, n);
    fprintf(stderr, "%-11s %9.3f s\n", "first token", prompt);
}
