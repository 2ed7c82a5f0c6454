#include "cli/turn.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/sampling_args.h"

bool turn_read_options(const struct args *a, struct turn_options *opt, struct error *e) {
    *opt = (struct turn_options){
        .max_new = args_int(a, "max-tokens"),
        .raw = args_flag(a, "raw"),
        .ignore_eos = args_flag(a, "ignore-eos"),
        .reasoning = args_flag(a, "show-reasoning"),
        .effort = args_text(a, "reasoning-effort"),
    };
    opt->stops = args_texts(a, "stop", &opt->stop);
    opt->kwargs = args_object(a, "chat-template-kwargs", e);
    if (!e->set && cli_sampling(a, &opt->sampling, e) && sampling_args_loop(a, &opt->loop, e) &&
        constraint_args_read(a, &opt->form, e))
        return true;
    turn_free_options(opt);
    return false;
}

void turn_free_options(struct turn_options *opt) {
    json_object_put(opt->kwargs);
    constraint_args_free(&opt->form);
    sampling_args_free(&opt->sampling);
}

bool turn_open(const struct args *a, const char *path, struct turn_options *turn,
               struct text_model *m, double *seconds, struct error *e) {
    double began = clock_now();
    struct load_progress progress;
    struct engine_options opt;
    cli_engine_options(a, &opt, &progress);
    opt.context = args_int(a, "ctx-size");
    bool ok = pool_read_options(a, &opt.pool, e) && text_open(m, path, &opt, e) &&
              sampling_args_breakers(a, m->tokenizer, &turn->sampling, e);
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

// A command line and a file may hold anything; text in JSON is UTF-8.
static struct json_object *json_of(struct sv content) {
    struct str text = {0};
    for (size_t i = 0, len; i < content.n; i += len) {
        bool good = utf8_decode(content, i, &len) >= 0;
        str_add(&text, good ? sv_cut(content, i, i + len) : sv("\xef\xbf\xbd"));
    }
    struct json_object *o = json_object_new_string_len(str_c(&text), (int)text.n);
    str_free(&text);
    return o;
}

void turn_add(struct json_object *messages, const char *role, struct sv content) {
    struct json_object *m = json_object_new_object();
    json_object_object_add(m, "role", json_object_new_string(role));
    json_object_object_add(m, "content", json_of(content));
    json_object_array_add(messages, m);
}

void turn_remember(const struct turn *t, struct json_object *messages) {
    struct sv reasoning = str_sv(&t->said.reasoning);
    turn_add(messages, "assistant", str_sv(&t->said.content));
    struct json_object *m =
        json_object_array_get_idx(messages, json_object_array_length(messages) - 1);
    if (reasoning.n) json_object_object_add(m, "reasoning_content", json_of(reasoning));
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

static bool chat_prompt(const struct text_model *m, const struct turn_options *opt,
                        struct json_object *messages, struct text_prompt *out, struct error *e) {
    struct chat_options chat = {.add_generation_prompt = true};
    struct json_object *request = json_object_new_object();
    if (opt->effort)
        json_object_object_add(request, "reasoning_effort", json_object_new_string(opt->effort));
    chat.kwargs = chat_kwargs(m->chat, false, request, opt->kwargs, e);
    bool ok = chat.kwargs && text_chat_prompt(m, messages, &chat, out, e);
    json_object_put(chat.kwargs);
    json_object_put(request);
    return ok;
}

// Without a template nothing says how the answer is marked: all of it is text.
static bool read_prompt(const struct text_model *m, const struct turn_options *opt,
                        struct json_object *messages, struct text_prompt *out, struct error *e) {
    *out = (struct text_prompt){0};
    if (opt->raw || !chat_has_template(m->chat))
        return plain_ids(m, opt->labels && !opt->raw, messages, &out->ids, e);
    return chat_prompt(m, opt, messages, out, e);
}

// --- the answer ----------------------------------------------------------------------------------

// Reasoning is dim on a terminal, and ends with an empty line.
static bool print_part(struct turn *t, enum reply_kind kind, struct sv text, struct error *e) {
    bool reasoning = kind == REPLY_REASONING, terminal = isatty(STDOUT_FILENO);
    struct str s = {0};
    if (reasoning && !t->dim && terminal) str_puts(&s, "\033[2m");
    if (!reasoning && t->dim) str_puts(&s, terminal ? "\033[0m\n\n" : "\n\n");
    str_add(&s, text);
    t->dim = reasoning;
    t->line_open = text.n && text.p[text.n - 1] != '\n';
    bool ok = cli_write(str_sv(&s), e);
    str_free(&s);
    return ok;
}

static void say(struct turn *t, enum reply_kind kind, struct sv text) {
    str_add(kind == REPLY_REASONING ? &t->said.reasoning : &t->said.content, text);
}

// What a piece, or the answer's end, shows.
static bool take(struct turn *t, const struct turn_options *opt, bool stream, struct sv piece,
                 bool end, struct error *e) {
    if (!t->reply) {
        say(t, REPLY_CONTENT, piece);
        return !stream || !piece.n || print_part(t, REPLY_CONTENT, piece, e);
    }
    struct reply_event event;
    if (end)
        reply_finish(t->reply);
    else
        reply_push(t->reply, piece);
    while (reply_next(t->reply, &event)) {
        say(t, event.kind, event.text);
        bool shown = stream && (event.kind == REPLY_CONTENT || opt->reasoning);
        if (shown && !print_part(t, event.kind, event.text, e)) return false;
    }
    return true;
}

static bool start(struct turn *t, struct text_model *m, const struct turn_options *opt,
                  struct json_object *messages, struct error *e) {
    struct text_prompt prompt;
    bool ok = read_prompt(m, opt, messages, &prompt, e);
    t->prompt = prompt.ids;
    struct request r = {
        .prompt = t->prompt.id,
        .n = t->prompt.n,
        .max_new = opt->max_new,
        .sampling = opt->sampling,
        .loop = opt->loop,
        .stop_ids = m->defaults.eos,
        .stop_count = opt->ignore_eos ? 0 : m->defaults.eos_count,
    };
    struct reply_options parts = {.opened = prompt.opened};
    if (ok && opt->form.constraint.kind != CONSTRAINT_NONE) {
        struct effort effort = effort_usual();
        r.sampling.grammar =
            constraint_grammar(m, &opt->form.constraint, prompt.reply ? &prompt : NULL, &effort, e);
        ok = r.sampling.grammar != NULL;
    }
    ok = ok && answer_start(&t->answer, m, &r, prompt.reply, opt->stop, opt->stops, e);
    grammar_close(r.sampling.grammar); // the answer keeps it
    if (!ok) return false;
    if (prompt.reply) t->reply = reply_open(prompt.reply, &parts);
    return true;
}

bool turn_run(struct turn *t, struct text_model *m, const struct turn_options *opt,
              struct json_object *messages, bool stream, struct error *e) {
    *t = (struct turn){0};
    if (!start(t, m, opt, messages, e)) return false;
    struct sv piece;
    while (answer_next(&t->answer, &piece, e)) {
        if (!take(t, opt, stream, piece, false, e)) break;
        if (signals_got()) answer_cancel(&t->answer);
    }
    if (!e->set) take(t, opt, stream, sv(""), true, e);
    if (t->dim && isatty(STDOUT_FILENO)) cli_write(sv("\033[0m"), e);
    return !e->set;
}

void turn_close(struct turn *t) {
    answer_close(&t->answer);
    reply_close(t->reply);
    reply_message_free(&t->said);
    ids_free(&t->prompt);
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
