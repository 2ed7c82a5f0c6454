#include "server/ask_tools.h"

#include "base/map.h"
#include "server/body.h"

static bool check_tool(struct json_object *tool, size_t i, struct refusal *r) {
    struct sv type = json_text_at(tool, "type");
    bool strict = false;
    if (!json_at(tool, "type"))
        return refuse(
            r, 400, "tools",
            "tools[%zu].type is missing; tools are {\"type\": \"function\", \"function\": "
            "{\"name\": ...}}",
            i);
    if (!sv_is(type, "function"))
        return refuse(r, 400, "tools", "tools[%zu].type is \"%.*s\"; it must be \"function\"", i,
                      (int)(type.n < 40 ? type.n : 40), type.p);
    struct json_object *function = json_at(tool, "function");
    if (!json_object_is_type(function, json_type_object) || !json_text_at(function, "name").n)
        return refuse(r, 400, "tools", "tools[%zu].function.name is missing", i);
    struct json_object *schema = json_at(function, "parameters");
    if (schema && !json_object_is_type(schema, json_type_object))
        return refuse(r, 400, "tools", "tools[%zu].function.parameters must be an object, not %s",
                      i, json_kind(schema));
    return body_flag(function, "strict", &strict, r);
}

static bool check_tools(struct json_object *tools, struct refusal *r) {
    if (!json_object_is_type(tools, json_type_array))
        return body_wrong_kind(r, "tools", "an array of tools", tools);
    for (size_t i = 0; i < json_object_array_length(tools); i++)
        if (!check_tool(json_object_array_get_idx(tools, i), i, r)) return false;
    return true;
}

// Where each tool's name is first.
static struct map tool_names(struct json_object *tools) {
    struct map names = {0};
    for (size_t i = 0; i < json_object_array_length(tools); i++) {
        struct json_object *tool = json_object_array_get_idx(tools, i);
        map_put(&names, json_text_at(json_at(tool, "function"), "name"), (int64_t)i);
    }
    return names;
}

// Adds to a's callable tools the one that {"type": "function", "function": {"name": ...}} names.
static bool add_callable(struct ask *a, struct json_object *tools, const struct map *names,
                         struct json_object *choice, struct refusal *r) {
    struct json_object *function = json_at(choice, "function");
    struct sv name = json_text_at(function ? function : choice, "name");
    int64_t at = name.n ? map_get(names, name) : -1;
    if (!name.n)
        return refuse(r, 400, "tool_choice", "\"tool_choice\" names a function without a name");
    if (at < 0)
        return refuse(r, 400, "tool_choice",
                      "\"tool_choice\" names \"%.*s\", which is not in \"tools\"",
                      (int)(name.n < 80 ? name.n : 80), name.p);
    json_object_array_add(a->callable,
                          json_object_get(json_object_array_get_idx(tools, (size_t)at)));
    return true;
}

// {"type": "allowed_tools", "allowed_tools": {"mode": ..., "tools": [...]}}
static bool read_allowed(struct ask *a, struct json_object *tools, const struct map *names,
                         struct json_object *choice, struct refusal *r) {
    struct json_object *own = json_at(choice, "allowed_tools");
    if (!own) own = choice;
    struct json_object *list = json_at(own, "tools");
    struct sv mode = json_text_at(own, "mode");
    if (!sv_is(mode, "auto") && !sv_is(mode, "required"))
        return refuse(r, 400, "tool_choice",
                      "\"tool_choice.allowed_tools.mode\" must be \"auto\" or \"required\"");
    if (!json_object_is_type(list, json_type_array) || !json_object_array_length(list))
        return refuse(r, 400, "tool_choice",
                      "\"tool_choice.allowed_tools.tools\" must be a list of tools");
    for (size_t i = 0; i < json_object_array_length(list); i++)
        if (!add_callable(a, tools, names, json_object_array_get_idx(list, i), r)) return false;
    a->must_call = sv_is(mode, "required");
    return true;
}

static bool any_strict(struct json_object *tools) {
    for (size_t i = 0; i < json_object_array_length(tools); i++) {
        struct json_object *tool = json_object_array_get_idx(tools, i);
        if (json_bool_at(json_at(tool, "function"), "strict", false)) return true;
    }
    return false;
}

static bool read_choice(struct ask *a, struct json_object *tools, struct json_object *choice,
                        struct refusal *r) {
    struct sv word = json_text(choice), type = json_text_at(choice, "type");
    a->must_call = sv_is(word, "required") || sv_is(type, "function");
    if (sv_is(type, "function") || sv_is(type, "allowed_tools")) {
        if (!tools)
            return refuse(r, 400, "tool_choice", "\"tool_choice\" names a tool; there are none");
        struct map names = tool_names(tools);
        a->callable = json_object_new_array();
        bool ok = sv_is(type, "function") ? add_callable(a, tools, &names, choice, r)
                                          : read_allowed(a, tools, &names, choice, r);
        map_free(&names);
        return ok;
    }
    if (choice && !a->must_call && !sv_is(word, "auto") && !sv_is(word, "none"))
        return refuse(r, 400, "tool_choice",
                      "\"tool_choice\" must be \"auto\", \"none\", \"required\", {\"type\": "
                      "\"function\", \"function\": {\"name\": ...}} or {\"type\": "
                      "\"allowed_tools\", \"allowed_tools\": {...}}");
    if (a->must_call && !tools)
        return refuse(r, 400, "tool_choice", "\"tool_choice\" is \"required\"; there are no tools");
    if (tools && !sv_is(word, "none") && (a->must_call || any_strict(tools)))
        a->callable = json_object_get(tools);
    return true;
}

bool ask_tools(struct ask *a, struct json_object *o, struct refusal *r) {
    struct json_object *tools = json_at(o, "tools"), *choice = json_at(o, "tool_choice");
    bool parallel = true;
    if (json_object_is_type(tools, json_type_array) && !json_object_array_length(tools))
        tools = NULL;
    if (tools && !check_tools(tools, r)) return false;
    if (!body_flag(o, "parallel_tool_calls", &parallel, r) || !read_choice(a, tools, choice, r))
        return false;
    a->one_call = !parallel;
    if (tools && !sv_is(json_text(choice), "none")) a->tools = json_object_get(tools);
    return true;
}
