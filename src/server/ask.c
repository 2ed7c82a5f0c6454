#include "server/ask.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/breakers.h"
#include "grammar/grammar.h"
#include "server/ask_grammar.h"
#include "server/ask_prompt.h"
#include "server/ask_sampling.h"
#include "server/ask_tools.h"
#include "server/body.h"

enum { CHOICES_MOST = 128, TOPS_MOST = 20 };

// --- fields --------------------------------------------------------------------------------------

static bool missing(struct refusal *r, const char *name) {
    return refuse(r, 400, name, "\"%s\" is missing", name);
}

static bool read_limits(struct ask *a, struct json_object *o, struct refusal *r) {
    a->max_new = a->defaults ? a->defaults->max_new : -1;
    struct json_object *options = json_at(o, "stream_options");
    if (options && !json_object_is_type(options, json_type_object))
        return body_wrong_kind(r, "stream_options", "an object", options);
    return body_whole(o, "n_predict", -1, ASK_MOST, &a->max_new, r) &&
           body_whole(o, "max_tokens", -1, ASK_MOST, &a->max_new, r) &&
           body_whole(o, "max_completion_tokens", -1, ASK_MOST, &a->max_new, r) &&
           body_flag(o, "stream", &a->stream, r) &&
           body_flag(options, "include_usage", &a->include_usage, r);
}

// How many answers. The best of more would need all of their chances.
static bool read_choices(struct ask *a, struct json_object *o, struct refusal *r) {
    int64_t n = 1;
    if (!body_whole(o, "n", 1, CHOICES_MOST, &n, r)) return false;
    int64_t best_of = n;
    if (!body_whole(o, "best_of", 1, CHOICES_MOST, &best_of, r)) return false;
    a->choices = (size_t)n;
    return best_of == n ||
           refuse(r, 400, "best_of",
                  "\"best_of\" is %lld and \"n\" %lld; this server gives every answer "
                  "that it makes",
                  (long long)best_of, (long long)n);
}

// Chats say whether, and how many; completions how many.
static bool read_logprobs(struct ask *a, struct json_object *o, bool chat, struct refusal *r) {
    struct json_object *v = json_at(o, "logprobs");
    bool none = json_object_is_type(v, json_type_boolean) && !json_object_get_boolean(v);
    if (!chat) {
        a->logprobs = v && !none;
        return none || body_whole(o, "logprobs", 0, TOPS_MOST, &a->tops, r);
    }
    if (!body_flag(o, "logprobs", &a->logprobs, r) ||
        !body_whole(o, "top_logprobs", 0, TOPS_MOST, &a->tops, r))
        return false;
    return a->logprobs || !a->tops ||
           refuse(r, 400, "top_logprobs", "\"top_logprobs\" needs \"logprobs\": true");
}

static bool read_echo(struct ask *a, struct json_object *o, bool chat, struct refusal *r) {
    if (!body_flag(o, "echo", &a->echo, r)) return false;
    if (a->echo && chat) return refuse(r, 400, "echo", "\"echo\" is for /v1/completions");
    return !a->echo || !a->logprobs ||
           refuse(r, 400, "echo", "\"echo\" with \"logprobs\" is not supported by this server");
}

static bool add_stop(struct ask *a, struct json_object *v, struct refusal *r) {
    struct sv text = json_text(v);
    if (!json_object_is_type(v, json_type_string))
        return body_wrong_kind(r, "stop", "a string or a list of strings", v);
    if (text.n > ASK_STOP_BYTES)
        return refuse(r, 400, "stop", "a text of \"stop\" has %zu bytes; it may have %d", text.n,
                      ASK_STOP_BYTES);
    if (text.n) str_add(&a->stop[a->stops++], text);
    return true;
}

static bool read_stops(struct ask *a, struct json_object *o, struct refusal *r) {
    struct json_object *v = json_at(o, "stop");
    if (!v) return true;
    if (!json_object_is_type(v, json_type_array)) return add_stop(a, v, r);
    size_t n = json_object_array_length(v);
    if (n > ASK_STOPS)
        return refuse(r, 400, "stop", "\"stop\" has %zu texts; it may have %d", n, ASK_STOPS);
    for (size_t i = 0; i < n; i++)
        if (!add_stop(a, json_object_array_get_idx(v, i), r)) return false;
    return true;
}

// --- what can't be honoured ----------------------------------------------------------------------

// Fields that would change the answer. Each has a value besides null, false and the empty ones
// that asks for nothing: a number, or a word.
struct field {
    const char *name;
    double number; // NAN: none
    const char *word;
    const char *instead; // of it, or NULL
};

// Of every route, as vLLM's, mlx-lm's and lablup/mlxcel's.
static const struct field unsupported[] = {
    {"adapter", NAN, NULL, NULL},
    {"adapters", NAN, NULL, NULL},
    {"lora_request", NAN, NULL, NULL},
    {"prompt_logprobs", NAN, NULL, NULL},
    {"prompt_embeds", NAN, NULL, NULL},
    {"bad_words", NAN, NULL, NULL},
    {"allowed_token_ids", NAN, NULL, NULL},
    {"logits_processors", NAN, NULL, NULL},
    {"use_beam_search", NAN, NULL, NULL},
    {"truncate_prompt_tokens", NAN, NULL, NULL},
    {"include_stop_str_in_output", NAN, NULL, NULL},
    {"return_token_ids", NAN, NULL, NULL},
    {"return_tokens_as_token_ids", NAN, NULL, NULL},
    {"thinking_token_budget", -1, NULL, NULL},
    {"thinking_budget_tokens", -1, NULL, NULL},
    {"documents", NAN, NULL, NULL},
};
// Of OpenAI's; llama-server's own routes know some of them.
static const struct field unsupported_openai[] = {
    {"functions", NAN, NULL, "tools"},
    {"function_call", NAN, "none", "tool_choice"},
    {"suffix", NAN, NULL, NULL},
    {"audio", NAN, NULL, NULL},
    {"modalities", NAN, NULL, NULL},
    {"web_search_options", NAN, NULL, NULL},
    {"n_probs", 0, NULL, NULL},
    {"post_sampling_probs", NAN, NULL, NULL},
    {"n_cmpl", 1, NULL, NULL},
    {"n_indent", 0, NULL, NULL},
    {"t_max_predict_ms", 0, NULL, NULL},
    {"return_tokens", NAN, NULL, NULL},
    {"response_fields", NAN, NULL, NULL},
};
// Of every route: only true asks for nothing.
static const char *const always[] = {"skip_special_tokens", "include_reasoning",
                                     "parse_tool_calls"};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static bool asks_nothing(struct json_object *v, double number, const char *word) {
    switch (json_object_get_type(v)) {
    case json_type_null: return true;
    case json_type_boolean: return !json_object_get_boolean(v);
    case json_type_double:
    case json_type_int:
        return json_object_get_double(v) == number ||
               (number == 0 && json_object_get_double(v) < 0);
    case json_type_object: return json_object_object_length(v) == 0;
    case json_type_array: return json_object_array_length(v) == 0;
    case json_type_string: return json_text(v).n == 0 || (word && sv_is(json_text(v), word));
    }
    return false;
}

// The ways to ask for plain text by fields that could ask for more.
static bool asks_for_text(const char *name, struct json_object *v) {
    if (!strcmp(name, "modalities"))
        return json_object_is_type(v, json_type_array) && json_object_array_length(v) == 1 &&
               sv_is(json_text(json_object_array_get_idx(v, 0)), "text");
    return false;
}

static bool refuse_fields(struct json_object *o, const struct field *f, size_t n,
                          struct refusal *r) {
    for (size_t i = 0; i < n; i++) {
        const char *name = f[i].name, *instead = f[i].instead;
        struct json_object *v = json_at(o, name);
        if (asks_nothing(v, f[i].number, f[i].word) || asks_for_text(name, v)) continue;
        return refuse(r, 400, name, "\"%s\" is not supported by this server%s%s%s", name,
                      instead ? "; give \"" : "", instead ? instead : "", instead ? "\"" : "");
    }
    return true;
}

// An adapter that is not there has no scale but 0.
static bool check_lora(struct json_object *o, struct refusal *r) {
    struct json_object *list = json_at(o, "lora");
    if (list && !json_object_is_type(list, json_type_array))
        return body_wrong_kind(r, "lora", "an array of {\"id\", \"scale\"}", list);
    for (size_t i = 0; list && i < json_object_array_length(list); i++)
        if (json_number_at(json_object_array_get_idx(list, i), "scale", 0) != 0)
            return refuse(r, 400, "lora", "\"lora\": this server has no adapters");
    return true;
}

// What no route can do.
static bool check_supported(struct json_object *o, struct refusal *r) {
    float target = -1;
    bool lazy = false;
    for (size_t i = 0; i < COUNT(always); i++) {
        bool on = true;
        if (!body_flag(o, always[i], &on, r)) return false;
        if (!on)
            return refuse(r, 400, always[i], "\"%s\": false is not supported by this server",
                          always[i]);
    }
    if (!body_number(o, "adaptive_target", -1e30, 1, &target, r) ||
        !body_flag(o, "grammar_lazy", &lazy, r))
        return false;
    if (lazy) return refuse(r, 400, "grammar_lazy", "\"grammar_lazy\" is not supported");
    if (target >= 0)
        return refuse(r, 400, "adaptive_target", "\"adaptive_target\" is not supported");
    return check_lora(o, r) && refuse_fields(o, unsupported, COUNT(unsupported), r);
}

static bool check_openai(struct json_object *o, bool chat, struct refusal *r) {
    if (!chat && !asks_nothing(json_at(o, "tools"), NAN, NULL))
        return refuse(r, 400, "tools", "\"tools\" are for chats (/v1/chat/completions)");
    bool marks = !chat; // the beginning that the tokenizer adds, where no template does
    if (!body_flag(o, "add_special_tokens", &marks, r)) return false;
    if (marks == chat)
        return refuse(r, 400, "add_special_tokens",
                      "\"add_special_tokens\": %s is not supported by this server",
                      marks ? "true" : "false");
    return refuse_fields(o, unsupported_openai, COUNT(unsupported_openai), r);
}

// Where reasoning goes is the server's to say, here as there.
static bool check_format(struct json_object *o, const struct server_options *opt,
                         struct refusal *r) {
    struct json_object *v = json_at(o, "reasoning_format");
    bool inside = opt->reasoning == REASONING_INSIDE;
    return !v || sv_is(json_text(v), "none") == inside ||
           refuse(r, 400, "reasoning_format",
                  "\"reasoning_format\" is not supported by this server: it is started with "
                  "--reasoning-format");
}

// The one that the checkpoint has is the one that its answers are read by.
static bool check_template(struct json_object *o, struct refusal *r) {
    return asks_nothing(json_at(o, "chat_template"), NAN, NULL) ||
           refuse(r, 400, "chat_template",
                  "\"chat_template\" is not supported by this server: it uses the checkpoint's");
}

// --- the prompt ----------------------------------------------------------------------------------

// Parts of text become one text, with line breaks between: not every template knows parts.
static bool join_parts(struct json_object *message, struct json_object *content, size_t at,
                       struct refusal *r) {
    struct str text = {0};
    for (size_t i = 0; i < json_object_array_length(content); i++) {
        struct json_object *part = json_object_array_get_idx(content, i);
        struct sv type = json_text_at(part, "type");
        if (!sv_is(type, "text") || !json_object_is_type(json_at(part, "text"), json_type_string)) {
            str_free(&text);
            return refuse(r, 400, "messages",
                          "messages[%zu].content[%zu]: a part of type \"%.*s\"; this server takes "
                          "{\"type\": \"text\", \"text\": ...}",
                          at, i, (int)(type.n < 40 ? type.n : 40), type.p);
        }
        if (i) str_addc(&text, '\n');
        str_add(&text, json_text_at(part, "text"));
    }
    struct json_object *joined = json_object_new_string_len(str_c(&text), (int)text.n);
    json_object_object_add(message, "content", joined);
    str_free(&text);
    return true;
}

// Makes of a message what every template knows; chat_render looks for what is wrong with the rest.
static bool simplify(struct json_object *message, size_t at, struct refusal *r) {
    struct json_object *content = json_at(message, "content");
    // OpenAI's newer name for the system's role is one that templates do not know.
    if (sv_is(json_text_at(message, "role"), "developer"))
        json_object_object_add(message, "role", json_object_new_string("system"));
    return !json_object_is_type(content, json_type_array) || join_parts(message, content, at, r);
}

// Where the prompt ends: with what begins an answer, or inside the last message.
static bool read_ending(struct chat_options *opt, struct json_object *o, struct refusal *r) {
    if (!body_flag(o, "continue_final_message", &opt->continue_final_message, r)) return false;
    opt->add_generation_prompt = !opt->continue_final_message;
    return body_flag(o, "add_generation_prompt", &opt->add_generation_prompt, r);
}

// What the template gets: the body's messages, and options, whose kwargs are the caller's to put.
static bool read_chat(struct ask *a, struct json_object *o, const struct text_model *m,
                      struct json_object *defaults, struct json_object **messages,
                      struct chat_options *opt, struct refusal *r) {
    struct error e = {0};
    struct json_object *list;
    if (!json_object_object_get_ex(o, "messages", &list)) return missing(r, "messages");
    if (!json_object_is_type(list, json_type_array))
        return body_wrong_kind(r, "messages", "an array of messages", list);
    size_t n = json_object_array_length(list);
    if (!n) return refuse(r, 400, "messages", "\"messages\" is empty");
    if (!check_template(o, r) || !ask_tools(a, o, r)) return false;
    for (size_t i = 0; i < n; i++)
        if (!simplify(json_object_array_get_idx(list, i), i, r)) return false;
    *messages = list;
    *opt = (struct chat_options){.fit_calls = true, .tools = a->tools};
    if (!read_ending(opt, o, r)) return false;
    opt->kwargs = chat_kwargs(m->chat, a->tools != NULL, o, defaults, &e);
    return opt->kwargs || refuse(r, 400, NULL, "%s", e.text);
}

// Models that were not made for calls don't know where to end a list of them, so there is one
// unless more are asked for. A text that goes on can't become an object: it is plain, and calls
// nothing.
static bool set_generic(struct ask *a, struct json_object *o, bool go_on, struct refusal *r) {
    if (!json_bool_at(o, "parallel_tool_calls", false)) a->one_call = true;
    if (!go_on) return true;
    if (a->must_call)
        return refuse(r, 400, "tool_choice",
                      "the last message goes on (\"continue_final_message\"), in which this model "
                      "can't call a tool: end with a user's message, or leave \"tool_choice\" out");
    json_object_put(a->tools);
    json_object_put(a->callable);
    a->tools = a->callable = NULL;
    return true;
}

static bool read_messages(struct ask *a, struct json_object *o, const struct text_model *m,
                          struct json_object *defaults, struct refusal *r) {
    struct error e = {0};
    struct json_object *list;
    struct chat_options opt;
    if (!read_chat(a, o, m, defaults, &list, &opt, r)) return false;
    bool ok = text_chat_prompt(m, list, &opt, &a->prompt, &e);
    json_object_put(opt.kwargs);
    if (!ok) return refuse(r, 400, "messages", "%s", e.text);
    if (a->prompt.reply->generic && !set_generic(a, o, opt.continue_final_message, r)) return false;
    return ask_check_length(a->prompt.ids.n, "messages", m, r);
}

bool ask_common(struct ask *a, struct json_object *o, const struct text_model *m,
                struct refusal *r) {
    bool cached = true;
    if (!check_supported(o, r)) return false;
    if (!read_limits(a, o, r) || !ask_sampling(a, o, m, r) || !read_stops(a, o, r)) return false;
    if (!body_flag(o, "cache_prompt", &cached, r) ||
        !body_whole(o, "priority", -ENGINE_PRIORITY_MOST, ENGINE_PRIORITY_MOST, &a->priority, r))
        return false;
    a->uncached = !cached;
    return body_flag(o, "timings_per_token", &a->timings, r) &&
           body_flag(o, "return_progress", &a->progress, r);
}

static bool read_all(struct ask *a, struct json_object *o, bool chat, const struct text_model *m,
                     struct json_object *kwargs, struct refusal *r) {
    return check_openai(o, chat, r) && ask_common(a, o, m, r) && read_choices(a, o, r) &&
           read_logprobs(a, o, chat, r) && read_echo(a, o, chat, r) &&
           (chat ? read_messages(a, o, m, kwargs, r) : ask_prompts(a, o, m, r)) &&
           ask_grammar(a, o, chat, m, r);
}

bool ask_chat(struct ask *a, struct json_object *o, const struct text_model *m,
              const struct server_options *opt, struct refusal *r) {
    return check_format(o, opt, r) && read_all(a, o, true, m, opt->kwargs, r);
}

bool ask_text(struct ask *a, struct json_object *o, const struct text_model *m,
              const struct server_options *opt, struct refusal *r) {
    return read_all(a, o, false, m, opt->kwargs, r);
}

bool ask_chat_text(struct json_object *o, const struct text_model *m,
                   const struct server_options *opt, struct str *out, struct refusal *r) {
    struct ask a = {0};
    struct error e = {0};
    struct json_object *list = NULL;
    struct chat_options chat = {0};
    struct chat_prompt prompt = {0};
    bool ok = read_chat(&a, o, m, opt->kwargs, &list, &chat, r);
    if (ok) {
        ok = (chat_check_contents(list, &e) && chat_render(m->chat, list, &chat, &prompt, &e)) ||
             refuse(r, 400, "messages", "%s", e.text);
        json_object_put(chat.kwargs);
    }
    str_add(out, str_sv(&prompt.text));
    chat_prompt_free(&prompt);
    ask_free(&a);
    return ok;
}

void ask_free(struct ask *a) {
    free(a->sampling.bias);
    breakers_close(a->sampling.breakers);
    grammar_close(a->sampling.grammar);
    ids_free(&a->stop_ids);
    str_free(&a->echoed);
    ids_free(&a->prompt.ids);
    for (size_t i = 0; i < a->mores; i++) {
        ids_free(&a->more[i].ids);
        str_free(&a->more[i].echoed);
    }
    free(a->more);
    json_object_put(a->fields);
    str_free(&a->settings);
    json_object_put(a->tools);
    json_object_put(a->callable);
    for (size_t i = 0; i < a->stops; i++) str_free(&a->stop[i]);
    *a = (struct ask){0};
}
