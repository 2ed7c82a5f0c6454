// A request of Anthropic's Messages API becomes one of OpenAI's chats, and is read as that. What
// the two have by the same name stays as it is, and so do this server's own fields.
#include "server/ask_anthropic.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "server/ask_prompt.h"
#include "server/body.h"

// Fields of OpenAI's that would ask for what Anthropic's answers have no place for.
static const char *const none_of_it[] = {"n",    "best_of",         "logprobs", "top_logprobs",
                                         "stop", "response_format", "functions"};

static void add_string(struct json_object *o, const char *name, const char *text) {
    json_object_object_add(o, name, json_object_new_string(text));
}

static struct sv type_of(struct json_object *o) { return json_text_at(o, "type"); }

// Where a value is in the body, as errors name it: "messages.2.content.1".
struct spot {
    char path[96];
};

static struct spot spot_in(const char *path, const char *key, size_t i) {
    struct spot at;
    int n = snprintf(at.path, sizeof at.path, "%s%s%s.%zu", path, *path ? "." : "", key, i);
    if (n >= (int)sizeof at.path) at.path[0] = 0; // never: three numbers at most
    return at;
}

static bool wrong(struct refusal *r, const char *param, const char *path, const char *key,
                  const char *wanted, struct json_object *v) {
    const char *dot = *path ? "." : "";
    if (!v) return refuse(r, 400, param, "%s%s%s: Field required", path, dot, key);
    return refuse(r, 400, param, "%s%s%s: Input should be %s, not %s", path, dot, key, wanted,
                  json_kind(v));
}

// A member that has to be a string. NULL with a refusal.
static struct json_object *string_at(struct json_object *o, const char *param, const char *path,
                                     const char *key, struct refusal *r) {
    struct json_object *v = json_at(o, key);
    if (json_object_is_type(v, json_type_string)) return v;
    wrong(r, param, path, key, "a valid string", v);
    return NULL;
}

// The type of a block or a tool, which has to be an object. False with a refusal.
static bool type_at(struct json_object *o, const char *param, const char *path, struct sv *type,
                    struct refusal *r) {
    if (!json_object_is_type(o, json_type_object))
        return refuse(r, 400, param, "%s: Input should be an object, not %s", path, json_kind(o));
    *type = json_text(string_at(o, param, path, "type", r));
    return !r->status;
}

// --- messages ------------------------------------------------------------------------------------

// The last of the new messages when it is this role's, else a new one: turns of the same role one
// after the other are one.
static struct json_object *turn(struct json_object *out, const char *role) {
    size_t n = json_object_array_length(out);
    struct json_object *last = n ? json_object_array_get_idx(out, n - 1) : NULL;
    if (last && sv_is(json_text_at(last, "role"), role)) return last;
    last = json_object_new_object();
    add_string(last, "role", role);
    json_object_array_add(out, last);
    return last;
}

// The list that a message has by this name, which it gets if it has none.
static struct json_object *list_of(struct json_object *message, const char *name) {
    struct json_object *list = json_at(message, name);
    if (list) return list;
    list = json_object_new_array();
    json_object_object_add(message, name, list);
    return list;
}

static void add_text(struct json_object *message, struct json_object *text) {
    struct json_object *part = json_object_new_object();
    add_string(part, "type", "text");
    json_object_object_add(part, "text", json_object_get(text));
    json_object_array_add(list_of(message, "content"), part);
}

static bool add_text_block(struct json_object *message, struct json_object *block,
                           const char *param, const char *path, struct refusal *r) {
    struct json_object *text = string_at(block, param, path, "text", r);
    if (text) add_text(message, text);
    return text != NULL;
}

// What is in o by that name: a text, or a list of blocks of text, as parts of a message.
static bool add_texts(struct json_object *message, struct json_object *o, const char *path,
                      const char *key, const char *param, struct refusal *r) {
    struct json_object *content = json_at(o, key);
    if (!content || json_object_is_type(content, json_type_string)) {
        json_object_object_add(message, "content",
                               content ? json_object_get(content) : json_object_new_string(""));
        return true;
    }
    if (!json_object_is_type(content, json_type_array))
        return wrong(r, param, path, key, "a valid string or a list of blocks", content);
    for (size_t i = 0; i < json_object_array_length(content); i++) {
        struct json_object *block = json_object_array_get_idx(content, i);
        struct spot at = spot_in(path, key, i);
        struct sv type = {0};
        if (!type_at(block, param, at.path, &type, r)) return false;
        if (!sv_is(type, "text"))
            return refuse(r, 400, param,
                          "%s: blocks of type \"%.*s\" are not supported here: only text", at.path,
                          SHOW(type));
        if (!add_text_block(message, block, param, at.path, r)) return false;
    }
    return true;
}

static bool add_result(struct json_object *out, struct json_object *block, const char *path,
                       struct refusal *r) {
    struct json_object *id = string_at(block, "messages", path, "tool_use_id", r);
    if (!id) return false;
    struct json_object *message = json_object_new_object();
    add_string(message, "role", "tool");
    json_object_object_add(message, "tool_call_id", json_object_get(id));
    json_object_array_add(out, message);
    return add_texts(message, block, path, "content", "messages", r);
}

static bool add_call(struct json_object *message, struct json_object *block, const char *path,
                     struct refusal *r) {
    struct json_object *name = string_at(block, "messages", path, "name", r);
    struct json_object *id = string_at(block, "messages", path, "id", r);
    struct json_object *input = json_at(block, "input");
    if (!name || !id) return false;
    if (input && !json_object_is_type(input, json_type_object))
        return wrong(r, "messages", path, "input", "an object", input);
    struct json_object *call = json_object_new_object(), *function = json_object_new_object();
    json_object_object_add(call, "id", json_object_get(id));
    add_string(call, "type", "function");
    json_object_object_add(call, "function", function);
    json_object_object_add(function, "name", json_object_get(name));
    json_object_object_add(function, "arguments",
                           input ? json_object_get(input) : json_object_new_object());
    json_object_array_add(list_of(message, "tool_calls"), call);
    return true;
}

// Several blocks of thinking are one reasoning.
static bool add_thinking(struct json_object *message, struct json_object *block, const char *path,
                         struct refusal *r) {
    struct json_object *more = string_at(block, "messages", path, "thinking", r);
    struct str all = {0};
    if (!more) return false;
    str_add(&all, json_text_at(message, "reasoning_content"));
    str_add(&all, json_text(more));
    json_object_object_add(message, "reasoning_content",
                           json_object_new_string_len(str_c(&all), (int)all.n));
    str_free(&all);
    return true;
}

static bool add_block(struct json_object *out, const char *role, struct json_object *block,
                      const char *path, struct refusal *r) {
    struct sv type = {0};
    bool assistant = !strcmp(role, "assistant");
    if (!type_at(block, "messages", path, &type, r)) return false;
    if (sv_is(type, "text")) return add_text_block(turn(out, role), block, "messages", path, r);
    if (!assistant && sv_is(type, "tool_result")) return add_result(out, block, path, r);
    if (assistant && sv_is(type, "tool_use")) return add_call(turn(out, role), block, path, r);
    if (assistant && sv_is(type, "thinking")) return add_thinking(turn(out, role), block, path, r);
    if (assistant && sv_is(type, "redacted_thinking")) return true; // nobody here can read it
    return refuse(
        r, 400, "messages",
        "%s: blocks of type \"%.*s\" are not supported with role \"%s\": this server takes "
        "text and tool_result of users, text, thinking and tool_use of assistants",
        path, SHOW(type), role);
}

static bool add_message(struct json_object *out, struct json_object *message, size_t i,
                        struct refusal *r) {
    static const char *const roles[] = {"user", "assistant", "system"};
    struct json_object *content = json_at(message, "content");
    struct spot at = spot_in("", "messages", i);
    const char *role = NULL;
    if (!json_object_is_type(message, json_type_object))
        return refuse(r, 400, "messages", "%s: Input should be an object, not %s", at.path,
                      json_kind(message));
    struct sv given = json_text(string_at(message, "messages", at.path, "role", r));
    if (r->status) return false;
    for (size_t k = 0; k < 3; k++)
        if (sv_is(given, roles[k])) role = roles[k];
    if (!role)
        return refuse(r, 400, "messages",
                      "%s.role: Input should be 'user', 'assistant' or 'system', not '%.*s'",
                      at.path, SHOW(given));
    if (json_object_is_type(content, json_type_string)) {
        add_text(turn(out, role), content);
        return true;
    }
    if (!json_object_is_type(content, json_type_array))
        return wrong(r, "messages", at.path, "content", "a valid string or a list of blocks",
                     content);
    for (size_t k = 0; k < json_object_array_length(content); k++) {
        struct spot in = spot_in(at.path, "content", k);
        if (!add_block(out, role, json_object_array_get_idx(content, k), in.path, r)) return false;
    }
    return true;
}

static bool set_messages(struct json_object *chat, struct json_object *o, struct refusal *r) {
    struct json_object *list = json_at(o, "messages"), *system = json_at(o, "system");
    struct json_object *out = json_object_new_array();
    json_object_object_add(chat, "messages", out);
    if (!json_object_is_type(list, json_type_array))
        return wrong(r, "messages", "", "messages", "a valid list", list);
    size_t n = json_object_array_length(list);
    if (!n) return refuse(r, 400, "messages", "messages: at least one message is required");
    if (system && !add_texts(turn(out, "system"), o, "", "system", "system", r)) return false;
    for (size_t i = 0; i < n; i++)
        if (!add_message(out, json_object_array_get_idx(list, i), i, r)) return false;
    n = json_object_array_length(out);
    struct json_object *last = n ? json_object_array_get_idx(out, n - 1) : NULL;
    bool go_on = sv_is(json_text_at(last, "role"), "assistant") && json_at(last, "content") &&
                 !json_at(last, "tool_calls");
    if (go_on)
        json_object_object_add(chat, "continue_final_message", json_object_new_boolean(true));
    return true;
}

// --- tools ---------------------------------------------------------------------------------------

static bool add_tool(struct json_object *out, struct json_object *tool, size_t i,
                     struct refusal *r) {
    static const char *const members[][2] = {{"name", "name"},
                                             {"description", "description"},
                                             {"input_schema", "parameters"},
                                             {"strict", "strict"}};
    struct spot at = spot_in("", "tools", i);
    struct sv type = type_of(tool);
    bool strict;
    if (type.n && !sv_is(type, "custom"))
        return refuse(r, 400, "tools", "%s: type \"%.*s\": this server runs no tools itself",
                      at.path, SHOW(type));
    struct json_object *name = string_at(tool, "tools", at.path, "name", r);
    struct json_object *schema = json_at(tool, "input_schema");
    if (!name || !body_flag(tool, "strict", &strict, r)) return false;
    if (!json_text(name).n)
        return refuse(r, 400, "tools", "%s.name: String should have at least 1 character", at.path);
    if (!json_object_is_type(schema, json_type_object))
        return wrong(r, "tools", at.path, "input_schema", "an object", schema);
    struct json_object *one = json_object_new_object(), *function = json_object_new_object();
    add_string(one, "type", "function");
    json_object_object_add(one, "function", function);
    json_object_array_add(out, one);
    for (size_t k = 0; k < sizeof members / sizeof *members; k++) {
        struct json_object *v = json_at(tool, members[k][0]);
        if (v) json_object_object_add(function, members[k][1], json_object_get(v));
    }
    return true;
}

static bool set_tools(struct json_object *chat, struct json_object *tools, struct refusal *r) {
    struct json_object *out = json_object_new_array();
    json_object_object_add(chat, "tools", out);
    if (tools && !json_object_is_type(tools, json_type_array))
        return wrong(r, "tools", "", "tools", "a valid list", tools);
    for (size_t i = 0; tools && i < json_object_array_length(tools); i++)
        if (!add_tool(out, json_object_array_get_idx(tools, i), i, r)) return false;
    return true;
}

static struct json_object *tool_named(struct json_object *tools, struct sv name) {
    for (size_t i = 0; i < json_object_array_length(tools); i++) {
        struct json_object *tool = json_object_array_get_idx(tools, i);
        if (sv_eq(json_text_at(json_at(tool, "function"), "name"), name)) return tool;
    }
    return NULL;
}

static bool choose_tool(struct json_object *chat, struct json_object *choice, struct refusal *r) {
    struct json_object *name = string_at(choice, "tool_choice", "tool_choice", "name", r);
    if (!name) return false;
    if (!tool_named(json_at(chat, "tools"), json_text(name)))
        return refuse(r, 400, "tool_choice",
                      "tool_choice.name: no tool in tools has the name \"%.*s\"",
                      SHOW(json_text(name)));
    struct json_object *one = json_object_new_object(), *function = json_object_new_object();
    add_string(one, "type", "function");
    json_object_object_add(one, "function", function);
    json_object_object_add(function, "name", json_object_get(name));
    json_object_object_add(chat, "tool_choice", one);
    return true;
}

static bool set_tool_choice(struct json_object *chat, struct json_object *choice,
                            struct refusal *r) {
    struct sv type = type_of(choice);
    bool must = sv_is(type, "any") || sv_is(type, "tool");
    json_object_object_del(chat, "tool_choice");
    if (!choice) return true;
    if (!must && !sv_is(type, "auto") && !sv_is(type, "none"))
        return refuse(
            r, 400, "tool_choice",
            "tool_choice: Input should be an object with the type 'auto', 'any', 'tool' or "
            "'none'");
    if (must && !json_object_array_length(json_at(chat, "tools")))
        return refuse(r, 400, "tool_choice",
                      "tool_choice: the type '%.*s' may only be specified while providing tools",
                      SHOW(type));
    if (sv_is(type, "tool") && !choose_tool(chat, choice, r)) return false;
    if (!sv_is(type, "tool"))
        add_string(chat, "tool_choice",
                   sv_is(type, "any")    ? "required"
                   : sv_is(type, "auto") ? "auto"
                                         : "none");
    bool one_call = false;
    if (!body_flag(choice, "disable_parallel_tool_use", &one_call, r)) return false;
    if (one_call)
        json_object_object_add(chat, "parallel_tool_calls", json_object_new_boolean(false));
    return true;
}

// --- the rest ------------------------------------------------------------------------------------

static bool set_thinking(struct json_object *chat, struct json_object *thinking,
                         struct refusal *r) {
    struct sv type = type_of(thinking);
    if (!thinking || sv_is(type, "adaptive")) return true;
    bool on = sv_is(type, "enabled");
    if (!on && !sv_is(type, "disabled"))
        return refuse(r, 400, "thinking",
                      "thinking: Input should be an object with the type 'enabled', 'disabled' or "
                      "'adaptive'");
    json_object_object_add(chat, "enable_thinking", json_object_new_boolean(on));
    return true;
}

// How the answer is to look, and how much effort it is worth.
static bool set_output(struct json_object *chat, struct json_object *config, struct refusal *r) {
    struct json_object *format = json_at(config, "format"), *effort = json_at(config, "effort");
    struct json_object *given = json_at(format, "schema");
    if (effort) json_object_object_add(chat, "reasoning_effort", json_object_get(effort));
    if (!format) return true;
    if (!sv_is(type_of(format), "json_schema"))
        return refuse(
            r, 400, "output_config",
            "output_config.format: Input should be an object with the type 'json_schema'");
    if (!json_object_is_type(given, json_type_object))
        return wrong(r, "output_config", "output_config.format", "schema", "an object", given);
    struct json_object *as = json_object_new_object(), *schema = json_object_new_object();
    add_string(as, "type", "json_schema");
    json_object_object_add(as, "json_schema", schema);
    json_object_object_add(schema, "schema", json_object_get(given));
    json_object_object_add(chat, "response_format", as);
    return true;
}

static bool convert(struct json_object *chat, struct json_object *o, struct refusal *r) {
    struct json_object *stops = json_at(o, "stop_sequences");
    json_add_members(chat, o);
    for (size_t i = 0; i < sizeof none_of_it / sizeof *none_of_it; i++)
        json_object_object_del(chat, none_of_it[i]);
    if (stops && !json_object_is_type(stops, json_type_array))
        return wrong(r, "stop_sequences", "", "stop_sequences", "a valid list", stops);
    if (stops) json_object_object_add(chat, "stop", json_object_get(stops));
    return set_messages(chat, o, r) && set_tools(chat, json_at(o, "tools"), r) &&
           set_tool_choice(chat, json_at(o, "tool_choice"), r) &&
           set_thinking(chat, json_at(o, "thinking"), r) &&
           set_output(chat, json_at(o, "output_config"), r);
}

// What ask_chat refuses, in the names of this API.
static void rename_fields(struct refusal *r) {
    refusal_rename(r, "stop", "stop_sequences");
    refusal_rename(r, "response_format", "output_config.format");
    if (!r->tokens) return;
    // Clients that can shorten a conversation look for these words.
    r->why = (struct error){0};
    fail(&r->why, "prompt is too long: %lld tokens > %lld maximum (--ctx-size, --parallel)",
         (long long)r->tokens, (long long)r->context - 1);
}

bool ask_messages(struct ask *a, struct json_object *o, const struct text_model *m,
                  const struct server_options *opt, struct refusal *r) {
    struct json_object *most = json_at(o, "max_tokens");
    if (!json_object_is_type(most, json_type_int) && !json_object_is_type(most, json_type_double))
        return wrong(r, "max_tokens", "", "max_tokens", "a valid integer", most);
    struct json_object *chat = json_object_new_object();
    bool ok = convert(chat, o, r) && ask_chat(a, chat, m, opt, r);
    rename_fields(r);
    json_object_put(chat);
    return ok;
}

bool ask_count(struct ask *a, struct json_object *o, const struct text_model *m,
               const struct server_options *opt, struct refusal *r) {
    json_object_object_add(o, "max_tokens", json_object_new_int(1));
    return ask_counted(ask_messages(a, o, m, opt, r), r);
}
