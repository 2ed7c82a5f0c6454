// A request of Anthropic's Messages API becomes one of OpenAI's chats, and is read as that. What
// the two have by the same name stays as it is, and so do this server's own fields.
#include "server/ask_anthropic.h"

#include <string.h>

#include "base/json.h"
#include "server/body.h"

// Fields of OpenAI's that would ask for what Anthropic's answers have no place for.
static const char *const none_of_it[] = {"n",    "best_of",         "logprobs", "top_logprobs",
                                         "stop", "response_format", "functions"};

static void add_string(struct json_object *o, const char *name, const char *text) {
    json_object_object_add(o, name, json_object_new_string(text));
}

static struct sv type_of(struct json_object *o) { return json_text_at(o, "type"); }

// A type as an error shows it: the first bytes of a text that may be anything.
static int shown(struct sv type) { return (int)(type.n < 40 ? type.n : 40); }

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
                           struct refusal *r) {
    struct json_object *text = json_at(block, "text");
    if (!json_object_is_type(text, json_type_string))
        return body_wrong_kind(r, "messages", "a list of blocks whose \"text\" is a string", text);
    add_text(message, text);
    return true;
}

// A text, or a list of blocks of text, as parts of a message.
static bool add_texts(struct json_object *message, struct json_object *content, const char *where,
                      struct refusal *r) {
    if (!content || json_object_is_type(content, json_type_string)) {
        json_object_object_add(message, "content",
                               content ? json_object_get(content) : json_object_new_string(""));
        return true;
    }
    if (!json_object_is_type(content, json_type_array))
        return body_wrong_kind(r, where, "a string or a list of blocks of text", content);
    for (size_t i = 0; i < json_object_array_length(content); i++) {
        struct json_object *block = json_object_array_get_idx(content, i);
        struct sv type = type_of(block);
        if (!sv_is(type, "text"))
            return refuse(r, 400, where,
                          "block %zu of \"%s\" is of type \"%.*s\"; this server takes \"text\"", i,
                          where, shown(type), type.p);
        if (!add_text_block(message, block, r)) return false;
    }
    return true;
}

static bool add_result(struct json_object *out, struct json_object *block, struct refusal *r) {
    struct json_object *message = json_object_new_object();
    struct json_object *id = json_at(block, "tool_use_id");
    if (!json_object_is_type(id, json_type_string)) {
        json_object_put(message);
        return body_wrong_kind(r, "messages", "a list whose tool_results have a \"tool_use_id\"",
                               id);
    }
    add_string(message, "role", "tool");
    json_object_object_add(message, "tool_call_id", json_object_get(id));
    json_object_array_add(out, message);
    return add_texts(message, json_at(block, "content"), "content", r);
}

static bool add_call(struct json_object *message, struct json_object *block, struct refusal *r) {
    struct json_object *name = json_at(block, "name"), *input = json_at(block, "input");
    if (!json_object_is_type(name, json_type_string))
        return body_wrong_kind(r, "messages", "a list whose tool_uses have a \"name\"", name);
    if (input && !json_object_is_type(input, json_type_object))
        return body_wrong_kind(r, "messages", "a list whose tool_uses have an object as \"input\"",
                               input);
    struct json_object *call = json_object_new_object(), *function = json_object_new_object();
    json_object_object_add(call, "id", json_object_get(json_at(block, "id")));
    add_string(call, "type", "function");
    json_object_object_add(call, "function", function);
    json_object_object_add(function, "name", json_object_get(name));
    json_object_object_add(function, "arguments",
                           input ? json_object_get(input) : json_object_new_object());
    json_object_array_add(list_of(message, "tool_calls"), call);
    return true;
}

// Several blocks of thinking are one reasoning.
static void add_thinking(struct json_object *message, struct json_object *block) {
    struct str all = {0};
    str_add(&all, json_text_at(message, "reasoning_content"));
    str_add(&all, json_text_at(block, "thinking"));
    json_object_object_add(message, "reasoning_content",
                           json_object_new_string_len(str_c(&all), (int)all.n));
    str_free(&all);
}

static bool add_block(struct json_object *out, const char *role, struct json_object *block,
                      struct refusal *r) {
    struct sv type = type_of(block);
    bool assistant = !strcmp(role, "assistant");
    if (sv_is(type, "text")) return add_text_block(turn(out, role), block, r);
    if (!assistant && sv_is(type, "tool_result")) return add_result(out, block, r);
    if (assistant && sv_is(type, "tool_use")) return add_call(turn(out, role), block, r);
    if (assistant && sv_is(type, "thinking")) {
        add_thinking(turn(out, role), block);
        return true;
    }
    if (assistant && sv_is(type, "redacted_thinking")) return true; // nobody here can read it
    return refuse(r, 400, "messages",
                  "\"messages\" has a block of type \"%.*s\" in a message of \"%s\"; this server "
                  "takes text and tool_result of users, text, thinking and tool_use of assistants",
                  shown(type), type.p, role);
}

static bool add_message(struct json_object *out, struct json_object *message, size_t at,
                        struct refusal *r) {
    static const char *const roles[] = {"user", "assistant", "system"};
    struct json_object *content = json_at(message, "content");
    const char *role = NULL;
    for (size_t i = 0; i < 3; i++)
        if (sv_is(json_text_at(message, "role"), roles[i])) role = roles[i];
    if (!role)
        return refuse(r, 400, "messages",
                      "messages[%zu].role must be \"user\", \"assistant\" or \"system\"", at);
    if (json_object_is_type(content, json_type_string)) {
        add_text(turn(out, role), content);
        return true;
    }
    if (!json_object_is_type(content, json_type_array))
        return refuse(r, 400, "messages",
                      "messages[%zu].content must be a string or a list of blocks, not %s", at,
                      json_kind(content));
    for (size_t i = 0; i < json_object_array_length(content); i++)
        if (!add_block(out, role, json_object_array_get_idx(content, i), r)) return false;
    return true;
}

static bool set_messages(struct json_object *chat, struct json_object *o, struct refusal *r) {
    struct json_object *list = json_at(o, "messages"), *system = json_at(o, "system");
    struct json_object *out = json_object_new_array();
    json_object_object_add(chat, "messages", out);
    if (!json_object_is_type(list, json_type_array))
        return body_wrong_kind(r, "messages", "an array of messages", list);
    if (system && !add_texts(turn(out, "system"), system, "system", r)) return false;
    size_t n = json_object_array_length(list);
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

static bool add_tool(struct json_object *out, struct json_object *tool, size_t at,
                     struct refusal *r) {
    struct sv type = type_of(tool);
    if (type.n && !sv_is(type, "custom"))
        return refuse(r, 400, "tools", "tools[%zu] is \"%.*s\"; this server runs no tools itself",
                      at, shown(type), type.p);
    struct json_object *one = json_object_new_object(), *function = json_object_new_object();
    add_string(one, "type", "function");
    json_object_object_add(one, "function", function);
    json_object_array_add(out, one);
    static const char *const members[][2] = {{"name", "name"},
                                             {"description", "description"},
                                             {"input_schema", "parameters"},
                                             {"strict", "strict"}};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        struct json_object *v = json_at(tool, members[i][0]);
        if (v) json_object_object_add(function, members[i][1], json_object_get(v));
    }
    return true;
}

static bool set_tools(struct json_object *chat, struct json_object *tools, struct refusal *r) {
    struct json_object *out = json_object_new_array();
    json_object_object_add(chat, "tools", out);
    if (tools && !json_object_is_type(tools, json_type_array))
        return body_wrong_kind(r, "tools", "an array of tools", tools);
    for (size_t i = 0; tools && i < json_object_array_length(tools); i++)
        if (!add_tool(out, json_object_array_get_idx(tools, i), i, r)) return false;
    return true;
}

static bool set_tool_choice(struct json_object *chat, struct json_object *choice,
                            struct refusal *r) {
    struct sv type = type_of(choice);
    json_object_object_del(chat, "tool_choice");
    if (!choice) return true;
    if (sv_is(type, "auto") || sv_is(type, "none")) {
        add_string(chat, "tool_choice", sv_is(type, "auto") ? "auto" : "none");
    } else if (sv_is(type, "any")) {
        add_string(chat, "tool_choice", "required");
    } else if (sv_is(type, "tool")) {
        struct json_object *one = json_object_new_object(), *function = json_object_new_object();
        add_string(one, "type", "function");
        json_object_object_add(one, "function", function);
        json_object_object_add(function, "name", json_object_get(json_at(choice, "name")));
        json_object_object_add(chat, "tool_choice", one);
    } else {
        return refuse(r, 400, "tool_choice",
                      "\"tool_choice\" must have the type auto, any, tool or none");
    }
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
                      "\"thinking\" must have the type enabled, disabled or adaptive");
    json_object_object_add(chat, "enable_thinking", json_object_new_boolean(on));
    return true;
}

// How the answer is to look, and how much effort it is worth.
static bool set_output(struct json_object *chat, struct json_object *config, struct refusal *r) {
    struct json_object *format = json_at(config, "format"), *effort = json_at(config, "effort");
    if (effort) json_object_object_add(chat, "reasoning_effort", json_object_get(effort));
    if (!format) return true;
    if (!sv_is(type_of(format), "json_schema"))
        return refuse(r, 400, "output_config",
                      "the format in \"output_config\" must have the type json_schema");
    struct json_object *as = json_object_new_object(), *schema = json_object_new_object();
    add_string(as, "type", "json_schema");
    json_object_object_add(as, "json_schema", schema);
    json_object_object_add(schema, "schema", json_object_get(json_at(format, "schema")));
    json_object_object_add(chat, "response_format", as);
    return true;
}

static bool convert(struct json_object *chat, struct json_object *o, struct refusal *r) {
    struct json_object *stops = json_at(o, "stop_sequences");
    json_add_members(chat, o);
    for (size_t i = 0; i < sizeof none_of_it / sizeof *none_of_it; i++)
        json_object_object_del(chat, none_of_it[i]);
    if (stops && !json_object_is_type(stops, json_type_array))
        return body_wrong_kind(r, "stop_sequences", "a list of strings", stops);
    if (stops) json_object_object_add(chat, "stop", json_object_get(stops));
    return set_messages(chat, o, r) && set_tools(chat, json_at(o, "tools"), r) &&
           set_tool_choice(chat, json_at(o, "tool_choice"), r) &&
           set_thinking(chat, json_at(o, "thinking"), r) &&
           set_output(chat, json_at(o, "output_config"), r);
}

bool ask_messages(struct ask *a, struct json_object *o, const struct text_model *m,
                  const struct server_options *opt, struct refusal *r) {
    if (!json_at(o, "max_tokens")) return refuse(r, 400, "max_tokens", "\"max_tokens\" is missing");
    struct json_object *chat = json_object_new_object();
    bool ok = convert(chat, o, r) && ask_chat(a, chat, m, opt, r);
    json_object_put(chat);
    return ok;
}

bool ask_count(struct ask *a, struct json_object *o, const struct text_model *m,
               const struct server_options *opt, struct refusal *r) {
    json_object_object_add(o, "max_tokens", json_object_new_int(1));
    if (ask_messages(a, o, m, opt, r)) return true;
    // A prompt that does not fit was counted all the same.
    if (!r->code || strcmp(r->code, "context_length_exceeded") != 0) return false;
    *r = (struct refusal){0};
    return true;
}
