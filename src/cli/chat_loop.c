#include "cli/chat_loop.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/line.h"
#include "cli/turn.h"

enum { CONVERSATION_MAX = 64 << 20 };

struct conversation {
    const struct args *args;
    struct text_model *model;
    struct turn_options opt;
    struct line *line;
    struct json_object *messages;
    struct sv
        *stop; // the command line's, and where the next speaker begins if there is no template
    bool failed, over;
};

static const char help_text[] =
    "/help, /?           this list\n"
    "/clear              forget the conversation, but not the system message\n"
    "/system TEXT        begin anew with this system message; without TEXT: with none\n"
    "/save FILE          write the conversation as JSON\n"
    "/load FILE          go on with a conversation that was saved\n"
    "/exit, /bye, /quit  leave (also Ctrl-D)\n"
    "Ctrl-C              stop the answer\n"
    "line\\               goes on in the next line\n"
    "\"\"\"                 begins and ends a message of several lines; Ctrl-D drops it\n";

static void complain(struct conversation *c, const struct error *e) {
    cli_error(e);
    c->failed = true;
}

static void say(const struct conversation *c, const char *text) {
    if (line_terminal(c->line)) printf("%s\n", text);
}

static struct json_object *system_message(const struct conversation *c) {
    struct json_object *first = json_object_array_get_idx(c->messages, 0);
    return sv_is(json_text_at(first, "role"), "system") ? first : NULL;
}

static void begin_anew(struct conversation *c, struct sv system) {
    struct json_object *messages = json_object_new_array();
    if (system.n) turn_add(messages, "system", system);
    json_object_put(c->messages);
    c->messages = messages;
}

static bool save(const struct conversation *c, const char *path, struct error *e) {
    if (!*path) return fail(e, "/save needs a file name");
    struct str text = {0};
    str_puts(&text, json_object_to_json_string_ext(
                        c->messages, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
    str_addc(&text, '\n');
    bool ok = file_write(path, str_sv(&text), e);
    str_free(&text);
    return ok;
}

static bool check_messages(struct json_object *list, const char *path, struct error *e) {
    if (!json_object_is_type(list, json_type_array))
        return fail(e, "%s: is not a saved conversation: a list of messages was expected", path);
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *m = json_object_array_get_idx(list, i);
        if (!json_text_at(m, "role").n ||
            !json_object_is_type(json_at(m, "content"), json_type_string))
            return fail(e, "%s: message %zu lacks a \"role\" or a \"content\" of text", path, i);
    }
    return true;
}

static bool load(struct conversation *c, const char *path, struct error *e) {
    if (!*path) return fail(e, "/load needs a file name");
    struct json_object *list = json_read_file(path, CONVERSATION_MAX, e);
    if (!list || !check_messages(list, path, e)) {
        json_object_put(list);
        return false;
    }
    json_object_put(c->messages);
    c->messages = list;
    return true;
}

// "/name rest"
static void command(struct conversation *c, struct sv text) {
    static const char names[] = "/help /clear /system /save /load /exit /bye /quit";
    struct error e = {0};
    struct sv name = args_word(text.p, 0), rest = sv_trim(sv_cut(text, name.n, text.n));
    if (sv_is(name, "/help") || sv_is(name, "/?")) {
        cli_write(sv(help_text), &e);
    } else if (sv_is(name, "/exit") || sv_is(name, "/bye") || sv_is(name, "/quit")) {
        c->over = true;
    } else if (sv_is(name, "/clear")) {
        struct str keep = {0};
        str_add(&keep, json_text_at(system_message(c), "content"));
        begin_anew(c, str_sv(&keep));
        str_free(&keep);
        say(c, "The conversation is forgotten.");
    } else if (sv_is(name, "/system")) {
        begin_anew(c, rest);
        say(c, rest.n ? "A new conversation with this system message."
                      : "A new conversation without a system message.");
    } else if (sv_is(name, "/save")) {
        if (save(c, rest.p, &e)) say(c, "Saved.");
    } else if (sv_is(name, "/load")) {
        if (load(c, rest.p, &e)) say(c, "Loaded.");
    } else {
        struct sv near = args_nearest(name, names);
        fail(&e, "unknown command %.*s; %s%.*s%s", (int)name.n, name.p,
             near.n ? "did you mean " : "/help lists them", (int)near.n, near.p, near.n ? "?" : "");
    }
    if (e.set) complain(c, &e);
}

static void drop_last(struct conversation *c) {
    json_object_array_del_idx(c->messages, json_object_array_length(c->messages) - 1, 1);
}

// A message that could not be answered is taken back, so the conversation can go on.
static void answer(struct conversation *c, struct sv text) {
    struct error e = {0};
    struct turn t;
    turn_add(c->messages, "user", text);
    bool ok = turn_run(&t, c->model, &c->opt, c->messages, true, &e);
    size_t context = (size_t)engine_info(c->model->engine)->context;
    if (!ok && t.prompt.n >= context) {
        e = (struct error){0};
        fail(&e,
             "the conversation has %zu tokens, and the context holds %zu: /clear forgets it, and "
             "a larger -c (--ctx-size) holds more",
             t.prompt.n, context);
    }
    if (t.line_open) cli_write(sv("\n"), &e);
    if (ok) turn_tell_end(&t, c->model);
    if (ok && args_flag(c->args, "stats")) turn_print_stats(&t, 0);
    if (ok)
        turn_remember(&t, c->messages);
    else
        drop_last(c);
    turn_close(&t);
    if (e.set) complain(c, &e);
}

// Lines to one message: """ ... """ and backslashes at the ends. At a terminal Ctrl-D in the midst
// of one drops it; what a pipe ends with is a message too.
static enum line_result read_message(struct conversation *c, struct str *out) {
    static const struct sv fence = {"\"\"\"", 3};
    struct str line = {0};
    bool fenced = false, more = false;
    enum line_result r;
    str_clear(out);
    while ((r = line_read(c->line, out->n || fenced ? "... " : ">>> ", &line)) == LINE_READ) {
        struct sv text = str_sv(&line);
        line_remember(c->line, str_c(&line));
        if (!fenced && !more && sv_starts(sv_trim(text), fence)) {
            fenced = true;
            text = sv_trim(text);
            text = sv_cut(text, fence.n, text.n);
        }
        bool end = fenced && sv_ends(text, fence);
        if (end) text = sv_cut(text, 0, text.n - fence.n);
        more = !fenced && sv_ends(text, sv("\\"));
        if (more) text = sv_cut(text, 0, text.n - 1);
        str_add(out, text);
        str_clear(&line);
        if (end || (!fenced && !more)) break;
        if (more || text.n) str_addc(out, '\n');
    }
    str_free(&line);
    if (r != LINE_END || !(fenced || more)) return r;
    if (line_terminal(c->line)) {
        str_clear(out);
        printf("\n");
    }
    return line_terminal(c->line) || out->n ? LINE_READ : r;
}

static void converse(struct conversation *c) {
    struct str message = {0};
    signals_catch(false);
    while (!c->over && signals_got() != SIGTERM) {
        signals_clear();
        enum line_result r = read_message(c, &message);
        if (r == LINE_INTERRUPTED && signals_got() == SIGINT && line_terminal(c->line)) {
            printf("\n");
            continue;
        }
        if (r != LINE_READ) break;
        struct sv text = sv_trim(str_sv(&message));
        if (text.n == 0) continue;
        if (text.p[0] == '/' && sv_find(text, sv("\n"), 0) < 0) {
            message.p[text.p - message.p + (ptrdiff_t)text.n] = 0;
            command(c, text);
        } else {
            answer(c, text);
        }
        if (signals_got() == SIGINT && !line_terminal(c->line)) break;
    }
    str_free(&message);
}

static int exit_code(const struct conversation *c) {
    int signal = signals_got();
    if (signal == SIGTERM || (signal && !line_terminal(c->line))) return 128 + signal;
    return c->failed && !line_terminal(c->line) ? CLI_ERROR : CLI_OK;
}

// A model without a template would write both sides of the conversation.
static void without_template(struct conversation *c) {
    log_say(LOG_WARN, "this model has no chat template, so it probably was not made to converse: "
                      "messages are marked \"User:\" and \"Assistant:\" (--raw: not at all)");
    c->opt.labels = true;
    c->stop = mem_array(c->opt.stops + 1, sizeof *c->stop);
    for (size_t i = 0; i < c->opt.stops; i++) c->stop[i] = c->opt.stop[i];
    c->stop[c->opt.stops++] = sv("\nUser:");
    c->opt.stop = c->stop;
}

int chat_loop(const struct args *a, const char *path) {
    struct error e = {0};
    struct text_model m = {0};
    struct conversation c = {.args = a, .model = &m};
    double load_seconds;
    if (args_flag(a, "json")) fail(&e, "--json needs a prompt: pass --prompt or --file");
    if (e.set || !turn_read_options(a, &c.opt, &e)) return cli_usage(&e);
    if (!turn_open(a, path, &c.opt, &m, &load_seconds, &e)) {
        turn_free_options(&c.opt);
        text_close(&m);
        return cli_error(&e);
    }
    if (!chat_has_template(m.chat) && !c.opt.raw) without_template(&c);
    c.line = line_open();
    c.messages = turn_messages(a);
    if (line_terminal(c.line) && !args_flag(a, "quiet"))
        printf("%s (%s), %lld tokens of context; /help lists the commands\n", path,
               engine_info(m.engine)->family_name, (long long)engine_info(m.engine)->context);
    converse(&c);
    int code = exit_code(&c);
    if (line_terminal(c.line) && !c.over) printf("\n");
    line_close(c.line);
    json_object_put(c.messages);
    free(c.stop);
    turn_free_options(&c.opt);
    text_close(&m);
    return code;
}
