// Messages that call tools. The clients of an API send a call's arguments as the text of an object,
// and often no content beside it; templates differ in which of these they can take.
#include "chat/parts.h"

// The forms of such a message, as they are tried.
static const struct call_form forms[] = {
    {.content = CONTENT_MISSING},
    {.content = CONTENT_NULL},
    {.content = CONTENT_EMPTY},
    {.content = CONTENT_MISSING, .text = true},
    {.content = CONTENT_NULL, .text = true},
    {.content = CONTENT_EMPTY, .text = true},
};
enum { FORMS = sizeof forms / sizeof *forms };

// The arguments' value shows whether a prompt tells of the call.
#define VALUE "argument-of-a-call"
static const char conversation[] =
    "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"tool_calls\":[{\"id\":"
    "\"call12345\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{"
    "\\\"a\\\": \\\"" VALUE "\\\"}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"call12345\","
    "\"name\":\"f\",\"content\":\"b\"}]";
static const char functions[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"c\",\"parameters\":{"
    "\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"description\":\"d\"}},"
    "\"required\":[\"a\"]}}}]";

static struct json_object *copy_members(struct json_object *from) {
    struct json_object *to = json_object_new_object();
    json_add_members(to, from);
    return to;
}

static struct json_object *open_call(struct json_object *call) {
    struct json_object *function = json_at(call, "function");
    struct json_object *arguments = json_at(function, "arguments"), *copy;
    struct error e = {0};
    if (!json_object_is_type(arguments, json_type_string)) return json_object_get(call);
    struct json_object *o = json_read(json_text(arguments), "arguments", &e);
    if (!json_object_is_type(o, json_type_object)) {
        json_object_put(o);
        return json_object_get(call);
    }
    function = copy_members(function);
    json_object_object_add(function, "arguments", o);
    copy = copy_members(call);
    json_object_object_add(copy, "function", function);
    return copy;
}

void call_fit(struct json_object *message, struct call_form form) {
    struct json_object *calls = json_at(message, "tool_calls");
    size_t n = json_object_is_type(calls, json_type_array) ? json_object_array_length(calls) : 0;
    if (!n) return;
    if (!json_at(message, "content") && form.content != CONTENT_MISSING)
        json_object_object_add(message, "content",
                               form.content == CONTENT_EMPTY ? json_object_new_string("") : NULL);
    if (form.text) return;
    struct json_object *open = json_object_new_array();
    for (size_t i = 0; i < n; i++)
        json_object_array_add(open, open_call(json_object_array_get_idx(calls, i)));
    json_object_object_add(message, "tool_calls", open);
}

enum taken { TAKEN_NOT, TAKEN, TAKEN_AND_TOLD };

// Whether the template takes the messages, which go, and whether its prompt tells of VALUE.
static enum taken renders(const struct chat_template *t, struct json_object *tokens,
                          struct json_object *messages, struct json_object *tools) {
    static const struct jinja_limits limits = {
        .steps = 1000000, .memory = 16 << 20, .output = 1 << 20, .depth = 500};
    struct error e = {0};
    struct str out = {0};
    bool raised;
    struct json_object *context = copy_members(tokens);
    json_object_object_add(context, "messages", messages);
    json_object_object_add(context, "tools", tools);
    json_object_object_add(context, "documents", NULL);
    json_object_object_add(context, "add_generation_prompt", json_object_new_boolean(true));
    enum taken taken = TAKEN_NOT;
    if (jinja_render_within(t->compiled, context, &limits, &out, &raised, &e))
        taken = sv_find(str_sv(&out), sv(VALUE), 0) >= 0 ? TAKEN_AND_TOLD : TAKEN;
    json_object_put(context);
    str_free(&out);
    return taken;
}

static enum taken takes(const struct chat_template *t, struct json_object *tokens,
                        struct call_form form) {
    struct error e = {0};
    struct json_object *messages = json_read(sv(conversation), "messages", &e);
    call_fit(json_object_array_get_idx(messages, 1), form);
    return renders(t, tokens, messages, json_read(sv(functions), "tools", &e));
}

bool system_told(const struct chat_template *t, struct json_object *tokens) {
    static const char talk[] = "[{\"role\":\"system\",\"content\":\"" VALUE "\"},"
                               "{\"role\":\"user\",\"content\":\"a\"}]";
    struct error e = {0};
    return t->compiled &&
           renders(t, tokens, json_read(sv(talk), "messages", &e), NULL) == TAKEN_AND_TOLD;
}

struct call_form call_form_of(const struct chat_template *t, struct json_object *tokens) {
    size_t any = FORMS; // of a template that knows no calls: one that is no error
    for (size_t i = 0; i < FORMS && t->compiled; i++) {
        enum taken taken = takes(t, tokens, forms[i]);
        if (taken == TAKEN_AND_TOLD) {
            struct call_form form = forms[i];
            form.told = true;
            return form;
        }
        if (taken == TAKEN && any == FORMS) any = i;
    }
    return forms[any == FORMS ? 0 : any];
}
