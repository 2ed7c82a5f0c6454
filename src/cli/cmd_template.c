// mlxcel template: messages to the prompt that a chat template makes of them.
#include <unistd.h>

#include "base/file.h"
#include "chat/chat.h"
#include "chat/jinja.h"
#include "checkpoint/config.h"
#include "cli/cli.h"
#include "cli/jsonl.h"
#include "engine/text.h"

struct renderer {
    struct chat *chat;            // NULL: each line of a batch brings its own template
    struct tokenizer *tokenizer;  // NULL: no ids are wanted
    struct json_object *defaults; // the template's variables for all calls, or NULL
    const char *effort;           // of calls that say none, or NULL
};

// A call is an object with what apply_chat_template takes. Its flags may also stand in kwargs,
// where that function has them.
static bool read_flag(struct json_object *call, const char *key, bool *out, struct error *e) {
    struct json_object *v = json_at(call, key);
    if (!v) v = json_at(json_at(call, "kwargs"), key);
    *out = json_object_get_boolean(v);
    return !v || json_object_is_type(v, json_type_boolean) ||
           fail(e, "%s must be true or false, not %s", key, json_kind(v));
}

// A call's kwargs are what the template sees; further members are those of a request to the server.
static struct json_object *variables(const struct renderer *r, const struct chat *c,
                                     struct json_object *call, struct error *e) {
    struct json_object *kwargs = json_at(call, "kwargs");
    if (kwargs && !json_object_is_type(kwargs, json_type_object)) {
        fail(e, "kwargs must be an object, not %s", json_kind(kwargs));
        return NULL;
    }
    if (r->effort && !json_at(call, "reasoning_effort"))
        json_object_object_add(call, "reasoning_effort", json_object_new_string(r->effort));
    struct json_object *out = chat_kwargs(c, json_at(call, "tools") != NULL, call, r->defaults, e);
    if (out) json_add_members(out, kwargs);
    return out;
}

static bool render_with(const struct renderer *r, const struct chat *c, struct json_object *call,
                        struct chat_prompt *out, struct error *e) {
    static const char go_on[] = "continue_final_message";
    struct chat_options opt = {
        .tools = json_at(call, "tools"),
        .documents = json_at(call, "documents"),
    };
    if (!read_flag(call, "add_generation_prompt", &opt.add_generation_prompt, e)) return false;
    if (!read_flag(call, go_on, &opt.continue_final_message, e)) return false;
    opt.kwargs = variables(r, c, call, e);
    if (opt.kwargs) json_object_object_del(opt.kwargs, go_on); // the template doesn't see it
    bool ok = opt.kwargs && chat_render(c, json_at(call, "messages"), &opt, out, e);
    json_object_put(opt.kwargs);
    return ok;
}

static bool render(const struct renderer *r, struct json_object *call, struct chat_prompt *out,
                   struct error *e) {
    struct json_object *source = json_at(call, "template");
    if (!source && !r->chat)
        return fail(e, "no template: give one as \"template\", or for all lines with -m or "
                       "--template");
    if (!source) return render_with(r, r->chat, call, out, e);
    if (!json_object_is_type(source, json_type_string))
        return fail(e, "template must be a template's source, not %s", json_kind(source));
    struct chat *c = chat_with_template(r->chat, json_text(source), e);
    bool ok = c && render_with(r, c, call, out, e);
    chat_close(c);
    return ok;
}

static bool add_prompt_ids(const struct renderer *r, const struct chat_prompt *p, struct str *s,
                           struct error *e) {
    struct ids ids = {0};
    bool ok = text_prompt_ids(r->tokenizer, p, &ids, e);
    if (ok) add_ids(s, &ids);
    ids_free(&ids);
    return ok;
}

// --- batches -------------------------------------------------------------------------------------

static bool answer_call(const struct renderer *r, struct json_object *call, struct str *body,
                        struct error *e) {
    struct chat_prompt prompt = {0};
    bool ok = render(r, call, &prompt, e);
    if (ok) {
        str_puts(body, "\"text\":");
        json_quote(body, str_sv(&prompt.text));
    }
    if (ok && r->tokenizer) {
        str_puts(body, ",\"ids\":[");
        ok = add_prompt_ids(r, &prompt, body, e);
        str_addc(body, ']');
    }
    chat_prompt_free(&prompt);
    return ok;
}

// The language by itself: {"template", "context"}
static bool answer_raw(struct json_object *o, struct str *body, struct error *e) {
    struct json_object *source = json_at(o, "template"), *context = json_at(o, "context");
    if (!json_object_is_type(source, json_type_string))
        return fail(e, "template must be a template's source, not %s", json_kind(source));
    if (context && !json_object_is_type(context, json_type_object))
        return fail(e, "context must be an object, not %s", json_kind(context));
    struct str text = {0};
    struct jinja *t = jinja_compile(json_text(source), e);
    bool ok = t && jinja_render(t, context, &text, e);
    if (ok) {
        str_puts(body, "\"text\":");
        json_quote(body, str_sv(&text));
    }
    jinja_free(t);
    str_free(&text);
    return ok;
}

static bool batch(const struct renderer *r, bool raw, struct error *e) {
    struct jsonl lines = {0};
    struct str body = {0};
    bool ok = true;
    while (ok && jsonl_next(&lines)) {
        str_clear(&body);
        if (!lines.error.set && raw)
            answer_raw(lines.object, &body, &lines.error);
        else if (!lines.error.set)
            answer_call(r, lines.object, &body, &lines.error);
        ok = jsonl_answer(&lines, str_sv(&body), e);
    }
    str_free(&body);
    jsonl_close(&lines);
    return ok;
}

// --- one conversation ----------------------------------------------------------------------------

static struct json_object *read_json(const char *path, struct error *e) {
    if (path) return json_read_file(path, CLI_INPUT_MAX, e);
    struct str text = {0};
    bool ok = cli_read(&text, e);
    if (ok && !sv_trim(str_sv(&text)).n) ok = fail(e, "standard input: no messages");
    struct json_object *o = ok ? json_read(str_sv(&text), "standard input", e) : NULL;
    str_free(&text);
    return o;
}

// A call, or an array of messages: a conversation that the model is to answer.
static struct json_object *read_call(const char *path, struct error *e) {
    struct json_object *o = read_json(path, e);
    if (!o || json_object_is_type(o, json_type_object)) return o;
    struct json_object *call = json_object_new_object();
    json_object_object_add(call, "messages", o);
    json_object_object_add(call, "add_generation_prompt", json_object_new_boolean(true));
    return call;
}

static bool single(const struct args *a, const struct renderer *r, struct error *e) {
    const char *path = a->operands && !sv_is(a->operand[0], "-") ? a->operand[0].p : NULL;
    struct json_object *call = read_call(path, e);
    struct chat_prompt prompt = {0};
    struct str ids = {0};
    bool ok =
        call && (render(r, call, &prompt, e) || fail_in(e, "%s", path ? path : "standard input"));
    if (ok && r->tokenizer) {
        ok = add_prompt_ids(r, &prompt, &ids, e);
        str_addc(&ids, '\n');
    }
    ok = ok && cli_write(str_sv(r->tokenizer ? &ids : &prompt.text), e);
    chat_prompt_free(&prompt);
    str_free(&ids);
    json_object_put(call);
    return ok;
}

// --- the command ---------------------------------------------------------------------------------

static bool open_checkpoint(struct renderer *r, const char *path, bool ids, struct error *e) {
    struct str dir = {0};
    struct config *config = NULL;
    bool ok = checkpoint_there(path, e);
    if (ok) config = config_open_beside(path, "config.json", e); // may be missing
    str_add(&dir, dir_exists(path) ? sv(path) : path_dir(path));
    struct sv type = config ? config_text(config, "model_type", "") : sv("");
    ok = ok && !e->set && (r->chat = chat_open(dir.p, type, e)) &&
         (!ids || (r->tokenizer = tok_open(path, e)));
    config_close(config);
    str_free(&dir);
    return ok;
}

// The template of a file, with the special tokens of the checkpoint if there is one.
static bool open_template(struct renderer *r, const char *path, struct error *e) {
    struct str source = {0};
    struct chat *c = NULL;
    bool ok = file_read(path, JINJA_SOURCE, &source, e) &&
              ((c = chat_with_template(r->chat, str_sv(&source), e)) || fail_in(e, "%s", path));
    str_free(&source);
    chat_close(r->chat);
    r->chat = c;
    return ok;
}

static bool check_usage(const struct args *a, struct error *e) {
    bool raw = args_flag(a, "raw"), ids = args_flag(a, "ids");
    bool lines = raw || args_flag(a, "jsonl");
    const char *template = args_text(a, "template"), *model = args_text(a, "model");
    if (raw && (template || ids))
        return fail(e, "--raw reads templates and their contexts from standard input, without a "
                       "checkpoint: leave --template and --ids out");
    if (ids && !model) return fail(e, "--ids needs a tokenizer: pass a checkpoint with -m PATH");
    if (lines && a->operands)
        return fail(e, "--%s reads from standard input: leave the file out", raw ? "raw" : "jsonl");
    if (lines) return true;
    if (!template && !model)
        return fail(e, "no template: pass a checkpoint with -m PATH, or --template FILE");
    if (!a->operands && isatty(STDIN_FILENO))
        return fail(e, "no messages: pass a JSON file, or - to read them from standard input");
    return true;
}

static int run(const struct args *a) {
    struct error e = {0};
    struct renderer r = {0};
    bool raw = args_flag(a, "raw"), lines = raw || args_flag(a, "jsonl");
    const char *template = args_text(a, "template"), *model = args_text(a, "model");
    if (!check_usage(a, &e)) return cli_usage(&e);
    bool ok = (r.defaults = args_object(a, "chat-template-kwargs", &e)) || !e.set;
    r.effort = args_text(a, "reasoning-effort");
    if (ok && model && !raw) ok = open_checkpoint(&r, model, args_flag(a, "ids"), &e);
    if (ok && template) ok = open_template(&r, template, &e);
    if (ok && !lines && !chat_ready(r.chat, &e))
        ok = fail_in(&e, "%s", template ? template : model);
    ok = ok && (lines ? batch(&r, raw, &e) : single(a, &r, &e));
    chat_close(r.chat);
    tok_close(r.tokenizer);
    json_object_put(r.defaults);
    return ok ? CLI_OK : cli_error(&e);
}

static const struct arg args[] = {
    {"--template --chat-template-file", ARG_TEXT, "FILE", NULL, NULL, 0, 0,
     "the template to use; with -m in place of the checkpoint's own"},
    {"--ids", ARG_FLAG, NULL, NULL, NULL, 0, 0,
     "print the prompt's token ids, with commas between; needs -m"},
    {"--jsonl", ARG_FLAG, NULL, NULL, NULL, 0, 0,
     "read an object a line from standard input, which may have a \"template\" of its own (the "
     "source), write {\"text\"} (with --ids also \"ids\") or {\"error\"} a line"},
    {"--raw", ARG_FLAG, NULL, NULL, NULL, 0, 0,
     "the Jinja language by itself: read {\"template\", \"context\"} a line from standard input, "
     "write {\"text\"} or {\"error\"} a line"},
};
static const struct arg_group options = {"Template", args, sizeof args / sizeof *args};
static const struct arg_group *const groups[] = {
    &args_model_group,   &options, &template_options, &common_options, &refused_options,
    &engine_other_group, NULL};

const struct command command_template = {
    .name = "template",
    .summary = "show the prompt that a chat template makes",
    .operands = "[messages.json]",
    .operands_most = 1,
    .about = "The file is an array of messages, which ends as generate has it, with the beginning "
             "of an answer; or an object with what apply_chat_template takes: messages, tools, "
             "documents, kwargs (further variables of the template), add_generation_prompt and "
             "continue_final_message (both false if not given; they may also stand in kwargs); "
             "and what a request to the server says of thinking: chat_template_kwargs, "
             "reasoning_effort, reasoning, enable_thinking. "
             "Without a file, or for -, it is standard input. The prompt is printed as it is, "
             "without a line break after it.",
    .examples =
        "mlxcel template -m models/llama-3.2-1b-4bit messages.json\n"
        "echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' | mlxcel template -m DIR --ids\n",
    .groups = groups,
    .run = run,
};
