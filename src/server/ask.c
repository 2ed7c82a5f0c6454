#include "server/ask.h"

#include <math.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/json.h"

enum { MAX_CHOICES = 1, MOST = 1000000000 }; // MOST: of tokens, and of counts of them

// What holds where a request says nothing. Where the checkpoint says nothing either, it is what
// lablup/mlxcel's server and llama-server have.
static struct sampling defaults(const struct generation_config *g) {
    struct sampling s = sampling_greedy();
    s.temperature = g->has_temperature ? (float)g->temperature : 0.8f;
    s.top_k = g->has_top_k ? g->top_k : 40;
    s.top_p = g->has_top_p ? (float)g->top_p : 0.95f;
    s.min_p = g->has_min_p ? (float)g->min_p : 0.05f;
    s.repetition_penalty = g->has_repetition_penalty ? (float)g->repetition_penalty : 1;
    s.penalty_window = 64;
    if (g->has_do_sample && !g->do_sample) s.temperature = 0;
    return s;
}

// --- fields --------------------------------------------------------------------------------------

static bool wrong_kind(struct refusal *r, const char *name, const char *wanted,
                       struct json_object *v) {
    return refuse(r, 400, name, "\"%s\" must be %s, not %s", name, wanted, json_kind(v));
}

static bool missing(struct refusal *r, const char *name) {
    return refuse(r, 400, name, "\"%s\" is missing", name);
}

// These leave *out as it is when the field is absent or null.
static bool read_flag(struct json_object *o, const char *name, bool *out, struct refusal *r) {
    struct json_object *v = json_at(o, name);
    if (!v) return true;
    if (!json_object_is_type(v, json_type_boolean)) return wrong_kind(r, name, "a boolean", v);
    *out = json_object_get_boolean(v);
    return true;
}

static bool read_number(struct json_object *o, const char *name, double least, double most,
                        float *out, struct refusal *r) {
    struct json_object *v = json_at(o, name);
    if (!v) return true;
    if (!json_object_is_type(v, json_type_double) && !json_object_is_type(v, json_type_int))
        return wrong_kind(r, name, "a number", v);
    double d = json_object_get_double(v);
    if (!(d >= least && d <= most)) // also when it is NaN
        return refuse(r, 400, name, "\"%s\" is %g; it must be from %g to %g", name, d, least, most);
    *out = (float)d;
    return true;
}

// The whole number that the number v is, also when it is written as 3.0 or 1e3. False when it is
// none; *fits tells whether *out holds it.
static bool whole(struct json_object *v, int64_t *out, bool *fits) {
    double d = json_object_get_double(v);
    if (json_object_is_type(v, json_type_int)) {
        *out = json_object_get_int64(v);
        *fits = *out < INT64_MAX || json_object_get_uint64(v) == INT64_MAX;
        return true;
    }
    if (d != floor(d)) return false;
    const double limit = 9223372036854775808.0; // 2^63
    *fits = d >= -limit && d < limit;
    *out = *fits ? (int64_t)d : 0;
    return true;
}

static bool read_whole(struct json_object *o, const char *name, int64_t least, int64_t most,
                       int64_t *out, struct refusal *r) {
    struct json_object *v = json_at(o, name);
    if (!v) return true;
    if (!json_object_is_type(v, json_type_double) && !json_object_is_type(v, json_type_int))
        return wrong_kind(r, name, "a whole number", v);
    bool fits;
    int64_t n;
    const char *text = json_object_to_json_string_ext(v, JSON_C_TO_STRING_PLAIN);
    if (!whole(v, &n, &fits))
        return refuse(r, 400, name, "\"%s\" must be a whole number, not %.40s", name, text);
    if (!fits || n < least || n > most)
        return refuse(r, 400, name, "\"%s\" is %.40s; it must be from %lld to %lld", name, text,
                      (long long)least, (long long)most);
    *out = n;
    return true;
}

static uint64_t random_seed(void) {
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = (uint64_t)(clock_now() * 1e9);
    return seed;
}

static bool read_sampling(struct ask *a, struct json_object *o, struct refusal *r) {
    struct sampling *s = &a->sampling;
    int64_t seed = -1;
    bool ok = read_number(o, "temperature", 0, 100, &s->temperature, r) &&
              read_whole(o, "top_k", -1, MOST, &s->top_k, r) &&
              read_number(o, "top_p", 0, 1, &s->top_p, r) &&
              read_number(o, "min_p", 0, 1, &s->min_p, r) &&
              read_number(o, "repeat_penalty", 0.01, 100, &s->repetition_penalty, r) &&
              read_number(o, "repetition_penalty", 0.01, 100, &s->repetition_penalty, r) &&
              read_number(o, "presence_penalty", -2, 2, &s->presence_penalty, r) &&
              read_number(o, "frequency_penalty", -2, 2, &s->frequency_penalty, r) &&
              read_whole(o, "repeat_last_n", -1, MOST, &s->penalty_window, r) &&
              read_whole(o, "seed", INT64_MIN, INT64_MAX, &seed, r);
    if (s->top_k < 0) s->top_k = 0; // vLLM's word for all is -1, the engine's is 0
    s->seed = seed == -1 ? random_seed() : (uint64_t)seed;
    return ok;
}

static bool read_limits(struct ask *a, struct json_object *o, struct refusal *r) {
    a->max_new = -1;
    struct json_object *options = json_at(o, "stream_options");
    if (options && !json_object_is_type(options, json_type_object))
        return wrong_kind(r, "stream_options", "an object", options);
    return read_whole(o, "n_predict", -1, MOST, &a->max_new, r) &&
           read_whole(o, "max_tokens", -1, MOST, &a->max_new, r) &&
           read_whole(o, "max_completion_tokens", -1, MOST, &a->max_new, r) &&
           read_flag(o, "ignore_eos", &a->ignore_eos, r) && read_flag(o, "stream", &a->stream, r) &&
           read_flag(options, "include_usage", &a->include_usage, r);
}

static bool add_stop(struct ask *a, struct json_object *v, struct refusal *r) {
    struct sv text = json_text(v);
    if (!json_object_is_type(v, json_type_string))
        return wrong_kind(r, "stop", "a string or a list of strings", v);
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
static const struct {
    const char *name;
    double number; // NAN: none
    const char *word;
} unsupported[] = {
    {"functions", NAN, NULL},
    {"function_call", NAN, "none"},
    {"response_format", NAN, NULL},
    {"json_schema", NAN, NULL},
    {"grammar", NAN, NULL},
    {"regex", NAN, NULL},
    {"guided_json", NAN, NULL},
    {"guided_regex", NAN, NULL},
    {"guided_choice", NAN, NULL},
    {"guided_grammar", NAN, NULL},
    {"logprobs", NAN, NULL},
    {"top_logprobs", 0, NULL},
    {"prompt_logprobs", NAN, NULL},
    {"n_probs", 0, NULL},
    {"logit_bias", NAN, NULL},
    {"best_of", 1, NULL},
    {"echo", NAN, NULL},
    {"suffix", NAN, NULL},
    {"audio", NAN, NULL},
    {"modalities", NAN, NULL},
    {"web_search_options", NAN, NULL},
    {"stop_token_ids", NAN, NULL},
    {"min_tokens", 0, NULL},
    {"typical_p", 1, NULL},
    {"top_n_sigma", -1, NULL},
    {"mirostat", 0, NULL},
    {"dynatemp_range", 0, NULL},
    {"xtc_probability", 0, NULL},
    {"dry_multiplier", 0, NULL},
    {"samplers", NAN, NULL},
};
enum { UNSUPPORTED = sizeof unsupported / sizeof *unsupported };

static bool asks_nothing(struct json_object *v, double number, const char *word) {
    switch (json_object_get_type(v)) {
    case json_type_null: return true;
    case json_type_boolean: return !json_object_get_boolean(v);
    case json_type_double:
    case json_type_int: return json_object_get_double(v) == number;
    case json_type_object: return json_object_object_length(v) == 0;
    case json_type_array: return json_object_array_length(v) == 0;
    case json_type_string: return json_text(v).n == 0 || (word && sv_is(json_text(v), word));
    }
    return false;
}

// The ways to ask for plain text by fields that could ask for more.
static bool asks_for_text(const char *name, struct json_object *v) {
    if (!strcmp(name, "response_format")) return sv_is(json_text_at(v, "type"), "text");
    if (!strcmp(name, "modalities"))
        return json_object_is_type(v, json_type_array) && json_object_array_length(v) == 1 &&
               sv_is(json_text(json_object_array_get_idx(v, 0)), "text");
    return false;
}

static bool refuse_unsupported(struct json_object *o, bool chat, struct refusal *r) {
    int64_t n = 1;
    if (!chat && !asks_nothing(json_at(o, "tools"), NAN, NULL))
        return refuse(r, 400, "tools", "\"tools\" are for chats (/v1/chat/completions)");
    if (!read_whole(o, "n", 1, 128, &n, r)) return false;
    if (n > MAX_CHOICES)
        return refuse(r, 400, "n", "\"n\" is %lld; this server gives one choice a request",
                      (long long)n);
    for (size_t i = 0; i < UNSUPPORTED; i++) {
        const char *name = unsupported[i].name;
        struct json_object *v = json_at(o, name);
        if (asks_nothing(v, unsupported[i].number, unsupported[i].word)) continue;
        if (!asks_for_text(name, v))
            return refuse(r, 400, name, "\"%s\" is not supported by this server", name);
    }
    return true;
}

// --- the prompt ----------------------------------------------------------------------------------

static bool add_id(struct ask *a, struct json_object *v, int64_t vocab, struct refusal *r) {
    int64_t id = json_object_is_type(v, json_type_int) ? json_object_get_int64(v) : -1;
    if (id < 0 || id >= vocab)
        return refuse(r, 400, "prompt",
                      "element %zu of \"prompt\" is no token id: those are 0 to %lld",
                      a->prompt.ids.n, (long long)vocab - 1);
    ids_push(&a->prompt.ids, (int32_t)id);
    return true;
}

// A string, a list of ids, or a list of one of these.
static bool read_prompt(struct ask *a, struct json_object *o, const struct text_model *m,
                        struct refusal *r) {
    struct error e = {0};
    struct json_object *v, *first = NULL;
    size_t n = 1;
    if (!json_object_object_get_ex(o, "prompt", &v)) return missing(r, "prompt");
    if (json_object_is_type(v, json_type_array)) {
        n = json_object_array_length(v);
        first = n ? json_object_array_get_idx(v, 0) : NULL;
    }
    bool nested =
        json_object_is_type(first, json_type_string) || json_object_is_type(first, json_type_array);
    if (nested && n > 1)
        return refuse(r, 400, "prompt", "\"prompt\" is a list of %zu prompts; send them one by one",
                      n);
    if (nested) v = first;
    if (json_object_is_type(v, json_type_string))
        return tok_encode(m->tokenizer, json_text(v), true, &a->prompt.ids, &e) ||
               refuse(r, 400, "prompt", "%s", e.text);
    if (!json_object_is_type(v, json_type_array))
        return wrong_kind(r, "prompt", "a string or a list of token ids", v);
    n = json_object_array_length(v);
    for (size_t i = 0; i < n; i++)
        if (!add_id(a, json_object_array_get_idx(v, i), engine_info(m->engine)->vocab, r))
            return false;
    return true;
}

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

static bool check_tools(struct json_object *tools, struct refusal *r) {
    if (!json_object_is_type(tools, json_type_array))
        return wrong_kind(r, "tools", "an array of tools", tools);
    for (size_t i = 0; i < json_object_array_length(tools); i++) {
        struct json_object *tool = json_object_array_get_idx(tools, i);
        struct sv type = json_text_at(tool, "type");
        if (!sv_is(type, "function"))
            return refuse(r, 400, "tools", "tools[%zu].type is \"%.*s\"; it must be \"function\"",
                          i, (int)(type.n < 40 ? type.n : 40), type.p);
        struct json_object *function = json_at(tool, "function");
        if (!json_object_is_type(function, json_type_object) || !json_text_at(function, "name").n)
            return refuse(r, 400, "tools", "tools[%zu].function.name is missing", i);
        struct json_object *schema = json_at(function, "parameters");
        if (schema && !json_object_is_type(schema, json_type_object))
            return refuse(r, 400, "tools",
                          "tools[%zu].function.parameters must be an object, not %s", i,
                          json_kind(schema));
    }
    return true;
}

// The tools that the model is told of. "none" is as if there were none.
static bool read_tools(struct ask *a, struct json_object *o, struct refusal *r) {
    struct json_object *tools = json_at(o, "tools"), *choice = json_at(o, "tool_choice");
    bool parallel = true, any = !asks_nothing(tools, NAN, NULL);
    if (any && !check_tools(tools, r)) return false;
    if (!read_flag(o, "parallel_tool_calls", &parallel, r)) return false;
    if (choice && !sv_is(json_text(choice), "auto") && !sv_is(json_text(choice), "none"))
        return refuse(
            r, 400, "tool_choice",
            "\"tool_choice\" may be \"auto\" or \"none\": this server can't force a call");
    a->one_call = !parallel;
    if (any && !sv_is(json_text(choice), "none")) a->tools = json_object_get(tools);
    return true;
}

static bool read_messages(struct ask *a, struct json_object *o, const struct text_model *m,
                          struct json_object *defaults, struct refusal *r) {
    struct error e = {0};
    struct json_object *list;
    if (!json_object_object_get_ex(o, "messages", &list)) return missing(r, "messages");
    if (!json_object_is_type(list, json_type_array))
        return wrong_kind(r, "messages", "an array of messages", list);
    size_t n = json_object_array_length(list);
    if (!n) return refuse(r, 400, "messages", "\"messages\" is empty");
    if (!read_tools(a, o, r)) return false;
    for (size_t i = 0; i < n; i++)
        if (!simplify(json_object_array_get_idx(list, i), i, r)) return false;
    struct chat_options opt = {.add_generation_prompt = true, .fit_calls = true, .tools = a->tools};
    opt.kwargs = chat_kwargs(m->chat, a->tools != NULL, o, defaults, &e);
    if (!opt.kwargs) return refuse(r, 400, NULL, "%s", e.text);
    bool ok = text_chat_prompt(m, list, &opt, &a->prompt, &e);
    json_object_put(opt.kwargs);
    return ok || refuse(r, 400, "messages", "%s", e.text);
}

static bool check_length(const struct ask *a, bool chat, const struct text_model *m,
                         struct refusal *r) {
    const char *param = chat ? "messages" : "prompt";
    size_t context = (size_t)engine_info(m->engine)->context;
    if (!a->prompt.ids.n) return refuse(r, 400, param, "the prompt has no tokens");
    if (a->prompt.ids.n < context) return true;
    r->code = "context_length_exceeded";
    return refuse(r, 400, param,
                  "the prompt has %zu tokens; the context holds %zu, with the answer (--ctx-size, "
                  "--parallel)",
                  a->prompt.ids.n, context);
}

bool ask_read(struct ask *a, bool chat, struct sv body, const struct text_model *m,
              struct json_object *kwargs, struct refusal *r) {
    struct error e = {0};
    *a = (struct ask){.sampling = defaults(&m->defaults)};
    struct json_object *o = body.n ? json_read(body, "the body", &e) : NULL;
    if (e.set) return refuse(r, 400, NULL, "%s", e.text);
    bool ok = json_object_is_type(o, json_type_object) ||
              refuse(r, 400, NULL, "the body must be a JSON object, not %s",
                     body.n ? json_kind(o) : "empty");
    ok = ok && refuse_unsupported(o, chat, r) && read_limits(a, o, r) && read_sampling(a, o, r) &&
         read_stops(a, o, r) &&
         (chat ? read_messages(a, o, m, kwargs, r) : read_prompt(a, o, m, r)) &&
         check_length(a, chat, m, r);
    json_object_put(o);
    return ok;
}

void ask_free(struct ask *a) {
    ids_free(&a->prompt.ids);
    json_object_put(a->tools);
    for (size_t i = 0; i < a->stops; i++) str_free(&a->stop[i]);
    *a = (struct ask){0};
}
