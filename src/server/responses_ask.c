#include "server/responses_ask.h"

#include <string.h>

#include "base/log.h"
#include "base/map.h"
#include "server/ask.h"
#include "server/body.h"
#include "server/responses_items.h"

enum { TOPS_MOST = 20, METADATA_MOST = 16, METADATA_KEY = 64, METADATA_VALUE = 512 };

static bool is_object(struct json_object *v) { return json_object_is_type(v, json_type_object); }
static bool is_list(struct json_object *v) { return json_object_is_type(v, json_type_array); }
static bool is_text(struct json_object *v) { return json_object_is_type(v, json_type_string); }

static void set(struct json_object *o, const char *key, struct json_object *owned) {
    json_object_object_add(o, key, owned);
}

// What clients call their requests: told again, and nothing else.
static const char *const labels[] = {"prompt_cache_key", "safety_identifier", "user"};
enum { LABELS = sizeof labels / sizeof *labels };

// --- what can't be honoured ----------------------------------------------------------------------

static bool refuse_unsupported(struct json_object *o, struct refusal *r) {
    static const char *const names[] = {"conversation", "prompt", "context_management",
                                        "moderation"};
    bool background = false;
    int64_t n = 1;
    struct json_object *truncation = json_at(o, "truncation");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct json_object *v = json_at(o, names[i]);
        if (v && !(is_list(v) && !json_object_array_length(v)))
            return refuse(r, 400, names[i], "\"%s\" is not supported by this server", names[i]);
    }
    if (!body_flag(o, "background", &background, r) || !body_whole(o, "n", 1, 1, &n, r))
        return false;
    if (background)
        return refuse(r, 400, "background",
                      "\"background\" is not supported by this server: wait for the answer, or set "
                      "\"stream\"");
    for (size_t i = 0; i < LABELS; i++) {
        struct json_object *v = json_at(o, labels[i]);
        if (v && !is_text(v)) return body_wrong_kind(r, labels[i], "a string", v);
    }
    return !truncation || sv_is(json_text(truncation), "disabled") ||
           refuse(r, 400, "truncation", "\"truncation\" may only be \"disabled\"");
}

static bool check_metadata(struct json_object *o, struct refusal *r) {
    static const char name[] = "metadata";
    struct json_object *v = json_at(o, name);
    if (!v) return true;
    if (!is_object(v)) return body_wrong_kind(r, name, "an object", v);
    if (json_object_object_length(v) > METADATA_MOST)
        return refuse(r, 400, name, "\"metadata\" has %d pairs; it may have %d",
                      json_object_object_length(v), METADATA_MOST);
    json_object_object_foreach(v, key, value) {
        if (utf8_count(sv(key)) > METADATA_KEY || !is_text(value) ||
            utf8_count(json_text(value)) > METADATA_VALUE)
            return refuse(r, 400, name,
                          "\"metadata\" holds strings of up to %d characters, by keys of up to %d",
                          METADATA_VALUE, METADATA_KEY);
    }
    return true;
}

// --- fields --------------------------------------------------------------------------------------

// The chances of tokens are told when either field asks for them.
static bool read_logprobs(struct json_object *chat, struct json_object *o, struct refusal *r) {
    static const char *const known[] = {"file_search_call.results",
                                        "web_search_call.results",
                                        "web_search_call.action.sources",
                                        "message.input_image.image_url",
                                        "computer_call_output.output.image_url",
                                        "code_interpreter_call.outputs",
                                        "reasoning.encrypted_content",
                                        "message.output_text.logprobs"};
    enum { KNOWN = sizeof known / sizeof *known };
    struct json_object *include = json_at(o, "include");
    int64_t tops = 0;
    bool wanted = false;
    if (!body_whole(o, "top_logprobs", 0, TOPS_MOST, &tops, r)) return false;
    if (include && !is_list(include)) return body_wrong_kind(r, "include", "an array", include);
    for (size_t i = 0; include && i < json_object_array_length(include); i++) {
        struct sv word = json_text(json_object_array_get_idx(include, i));
        size_t k = 0;
        while (k < KNOWN && !sv_is(word, known[k])) k++;
        if (k == KNOWN)
            return refuse(r, 400, "include", "include[%zu] is \"%.*s\", which nothing is called", i,
                          SHOW(word));
        wanted |= k == KNOWN - 1;
    }
    set(chat, "logprobs", json_object_new_boolean(wanted || tops));
    set(chat, "top_logprobs", json_object_new_int64(tops));
    return true;
}

static bool read_format(struct json_object *chat, struct json_object *o, struct refusal *r) {
    struct json_object *text = json_at(o, "text"), *format = json_at(text, "format");
    if (text && !is_object(text)) return body_wrong_kind(r, "text", "an object", text);
    if (!format) return true;
    if (!is_object(format)) return body_wrong_kind(r, "text.format", "an object", format);
    struct sv type = json_text_at(format, "type");
    if (sv_is(type, "json_schema")) {
        // A chat has all but the type one level deeper.
        struct json_object *wrapped = json_object_new_object();
        set(wrapped, "type", json_object_get(json_at(format, "type")));
        set(wrapped, "json_schema", json_object_get(format));
        set(chat, "response_format", wrapped);
        return is_object(json_at(format, "schema")) ||
               refuse(r, 400, "text.format.schema", "\"text.format.schema\" must be an object");
    }
    set(chat, "response_format", json_object_get(format));
    return sv_is(type, "text") || sv_is(type, "json_object") ||
           refuse(r, 400, "text.format.type",
                  "\"text.format.type\" is \"%.*s\"; it must be \"text\", \"json_object\" or "
                  "\"json_schema\"",
                  SHOW(type));
}

static bool read_limits(struct json_object *chat, struct json_object *o, struct refusal *r) {
    int64_t most = -1, calls;
    if (!body_whole(o, "max_output_tokens", 1, ASK_MOST, &most, r) ||
        !body_whole(o, "max_tool_calls", 1, ASK_MOST, &calls, r)) // of tools that OpenAI runs
        return false;
    if (most > 0) set(chat, "max_completion_tokens", json_object_new_int64(most));
    return true;
}

// --- tools ---------------------------------------------------------------------------------------

// A chat has all but the type one level deeper.
static struct json_object *wrap_tool(struct json_object *tool) {
    static const char *const keys[] = {"name", "description", "parameters", "strict"};
    struct json_object *out = json_object_new_object(), *function = json_object_new_object();
    set(out, "type", json_object_new_string("function"));
    set(out, "function", function);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct json_object *v = json_at(tool, keys[i]);
        if (v) set(function, keys[i], json_object_get(v));
    }
    return out;
}

// allowed: names of those that the model is told of; NULL: all.
static bool read_tools(struct json_object *chat, struct json_object *o, const struct map *allowed,
                       struct refusal *r) {
    struct json_object *tools = json_at(o, "tools"), *list = json_object_new_array();
    set(chat, "tools", list);
    if (!tools) return true;
    if (!is_list(tools)) return body_wrong_kind(r, "tools", "an array of tools", tools);
    for (size_t i = 0; i < json_object_array_length(tools); i++) {
        struct json_object *tool = json_object_array_get_idx(tools, i);
        struct sv type = json_text_at(tool, "type"), name = json_text_at(tool, "name");
        if (!sv_is(type, "function"))
            return refuse(r, 400, "tools",
                          "tools[%zu].type is \"%.*s\"; this server takes \"function\"", i,
                          SHOW(type));
        if (!name.n) return refuse(r, 400, "tools", "tools[%zu].name is missing", i);
        if (!allowed || map_get(allowed, name) >= 0) json_object_array_add(list, wrap_tool(tool));
    }
    return true;
}

static bool take_name(struct map *names, struct json_object *tool, struct refusal *r) {
    struct sv name = json_text_at(tool, "name");
    if (!sv_is(json_text_at(tool, "type"), "function") || !name.n)
        return refuse(r, 400, "tool_choice",
                      "\"tool_choice\" must name functions: {\"type\": \"function\", \"name\": "
                      "...}");
    map_set(names, name, 0);
    return true;
}

static bool read_allowed(struct json_object *chat, struct json_object *o,
                         struct json_object *choice, struct refusal *r) {
    struct json_object *list = json_at(choice, "tools");
    struct map names = {0};
    bool ok = is_list(list) || body_wrong_kind(r, "tool_choice.tools", "an array of tools", list);
    for (size_t i = 0; ok && i < json_object_array_length(list); i++)
        ok = take_name(&names, json_object_array_get_idx(list, i), r);
    ok = ok && read_tools(chat, o, &names, r);
    set(chat, "tool_choice", json_object_get(json_at(choice, "mode")));
    map_free(&names);
    return ok;
}

static bool read_choice(struct json_object *chat, struct json_object *o, struct refusal *r) {
    struct json_object *choice = json_at(o, "tool_choice");
    struct map name = {0};
    if (sv_is(json_text_at(choice, "type"), "allowed_tools"))
        return read_allowed(chat, o, choice, r);
    if (!is_object(choice)) {
        if (choice) set(chat, "tool_choice", json_object_get(choice));
        return read_tools(chat, o, NULL, r);
    }
    bool ok = take_name(&name, choice, r) && read_tools(chat, o, NULL, r);
    map_free(&name);
    if (!ok) return false;
    struct json_object *wrapped = json_object_new_object(), *function = json_object_new_object();
    set(function, "name", json_object_get(json_at(choice, "name")));
    set(wrapped, "type", json_object_new_string("function"));
    set(wrapped, "function", function);
    set(chat, "tool_choice", wrapped);
    return true;
}

// --- the conversation so far ---------------------------------------------------------------------

static bool read_store(struct responses_ask *q, struct json_object *o, struct service *s,
                       struct refusal *r) {
    struct json_object *previous = json_at(o, "previous_response_id");
    bool store = true;
    if (!body_flag(o, "store", &store, r)) return false;
    if (previous && !is_text(previous))
        return body_wrong_kind(r, "previous_response_id", "a string", previous);
    const char *off = store || previous ? responses_store_off(s->responses) : NULL;
    if (off && previous)
        return refuse(r, 400, "previous_response_id",
                      "\"previous_response_id\": this server stores no responses: %s", off);
    if (off && json_at(o, "store"))
        return refuse(r, 400, "store", "\"store\": this server stores no responses: %s", off);
    q->store = store && !off;
    return true;
}

static bool damaged(struct sv id, const struct error *e, struct refusal *r) {
    log_say(LOG_ERROR, "stored response %.*s: %s", SHOW(id), e->text);
    return refuse(r, 500, "previous_response_id", "the previous response can't be read");
}

// Adds the items of the response before, and what it answered.
static bool add_history(struct responses_ask *q, struct json_object *list, struct sv id,
                        struct sv body, struct refusal *r) {
    struct error e = {0};
    for (struct sv rest = str_sv(&q->items); rest.n && !e.set;) {
        ptrdiff_t end = sv_find(rest, sv("\n"), 0);
        struct sv line = sv_cut(rest, 0, end < 0 ? rest.n : (size_t)end);
        json_object_array_add(list, json_read(line, "an item", &e));
        rest = sv_cut(rest, line.n + 1, rest.n);
    }
    struct json_object *response = e.set ? NULL : json_read(body, "its body", &e);
    struct json_object *output = json_at(response, "output");
    for (size_t i = 0; is_list(output) && i < json_object_array_length(output); i++) {
        struct json_object *item = json_object_array_get_idx(output, i);
        items_add_line(&q->items, item);
        json_object_array_add(list, json_object_get(item));
    }
    json_object_put(response);
    return !e.set || damaged(id, &e, r);
}

static bool read_history(struct responses_ask *q, struct json_object *list, struct sv id,
                         struct service *s, struct refusal *r) {
    struct str body = {0};
    struct error e = {0};
    bool ok = false;
    switch (responses_store_get(s->responses, id, &q->items, &body, &e)) {
    case STORED_ERROR: damaged(id, &e, r); break;
    case STORED_NOT:
        r->code = "previous_response_not_found";
        refuse(r, 400, "previous_response_id", "Previous response with id '%.*s' not found.",
               SHOW(id));
        break;
    case STORED:
        q->trees = &s->trees;
        q->taken = json_cost(str_sv(&q->items)) + json_cost(str_sv(&body));
        if (budget_take(q->trees, q->taken)) {
            ok = add_history(q, list, id, str_sv(&body), r);
        } else {
            q->taken = 0;
            refuse(r, 503, NULL, "too many large requests at once");
        }
    }
    str_free(&body);
    return ok;
}

static bool read_input(struct responses_ask *q, struct json_object *o, struct service *s,
                       struct refusal *r) {
    struct json_object *instructions = json_at(o, "instructions"), *own = NULL;
    struct sv previous = json_text_at(o, "previous_response_id");
    if (instructions && !is_text(instructions))
        return body_wrong_kind(r, "instructions", "a string", instructions);
    if (!json_at(o, "input")) return refuse(r, 400, "input", "\"input\" is missing");
    struct json_object *list = json_object_new_array();
    bool ok = !json_at(o, "previous_response_id") || read_history(q, list, previous, s, r);
    if (ok) own = items_read(json_at(o, "input"), r);
    for (size_t i = 0; own && i < json_object_array_length(own); i++) {
        struct json_object *item = json_object_array_get_idx(own, i);
        items_add_line(&q->items, item);
        json_object_array_add(list, json_object_get(item));
    }
    struct json_object *messages = own ? items_messages(list, json_text(instructions)) : NULL;
    if (messages && !json_object_array_length(messages))
        refuse(r, 400, "input", "\"input\" has nothing that could be answered");
    if (messages) set(q->chat, "messages", messages);
    json_object_put(own);
    json_object_put(list);
    return !r->status;
}

// --- the whole -----------------------------------------------------------------------------------

static void add_value(struct responses_ask *q, const char *name, struct json_object *v,
                      const char *otherwise) {
    const int plain = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE;
    str_printf(&q->echo, "\"%s\":", name);
    str_puts(&q->echo, v ? json_object_to_json_string_ext(v, plain) : otherwise);
}

static void add_echo(struct responses_ask *q, const char *name, struct json_object *v,
                     const char *otherwise) {
    str_addc(&q->echo, ',');
    add_value(q, name, v, otherwise);
}

static void echo(struct responses_ask *q, struct json_object *o) {
    static const char *const as_they_are[] = {"instructions", "max_output_tokens", "max_tool_calls",
                                              "previous_response_id"};
    struct json_object *text = json_at(o, "text"), *reasoning = json_at(o, "reasoning");
    for (size_t i = 0; i < sizeof as_they_are / sizeof *as_they_are; i++)
        add_echo(q, as_they_are[i], json_at(o, as_they_are[i]), "null");
    for (size_t i = 0; i < LABELS; i++) add_echo(q, labels[i], json_at(o, labels[i]), "null");
    add_echo(q, "metadata", json_at(o, "metadata"), "{}");
    add_echo(q, "parallel_tool_calls", json_at(o, "parallel_tool_calls"), "true");
    add_echo(q, "tool_choice", json_at(o, "tool_choice"), "\"auto\"");
    add_echo(q, "tools", json_at(o, "tools"), "[]");
    add_echo(q, "top_logprobs", json_at(o, "top_logprobs"), "0");
    add_echo(q, "reasoning", is_object(reasoning) ? reasoning : NULL,
             "{\"effort\":null,\"summary\":null}");
    str_puts(&q->echo, ",\"service_tier\":\"default\",\"truncation\":\"disabled\"");
    str_printf(&q->echo, ",\"store\":%s,\"text\":{", q->store ? "true" : "false");
    add_value(q, "format", json_at(text, "format"), "{\"type\":\"text\"}");
    add_echo(q, "verbosity", json_at(text, "verbosity"), "\"medium\"");
    str_addc(&q->echo, '}');
}

bool responses_ask_read(struct responses_ask *q, struct json_object *body, struct service *s,
                        struct refusal *r) {
    if (!refuse_unsupported(body, r) || !check_metadata(body, r) || !read_store(q, body, s, r))
        return false;
    q->chat = json_object_new_object();
    json_add_members(q->chat, body); // fields for the sampler are the same in all APIs
    bool ok = read_limits(q->chat, body, r) && read_logprobs(q->chat, body, r) &&
              read_format(q->chat, body, r) && read_choice(q->chat, body, r) &&
              read_input(q, body, s, r);
    if (ok) echo(q, body);
    return ok;
}

void responses_ask_rename(struct refusal *r) {
    static const char *const names[][2] = {
        {"messages", "input"},
        {"max_completion_tokens", "max_output_tokens"},
        {"response_format", "text.format"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        refusal_rename(r, names[i][0], names[i][1]);
}

void responses_ask_drop_chat(struct responses_ask *q) {
    json_object_put(q->chat);
    q->chat = NULL;
    if (q->taken) budget_give(q->trees, q->taken);
    q->taken = 0;
}

void responses_ask_free(struct responses_ask *q) {
    responses_ask_drop_chat(q);
    str_free(&q->items);
    str_free(&q->echo);
}
