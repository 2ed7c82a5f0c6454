// Kimi K3's chat, XTML: a message is <|open|>message role="user"<|sep|>text<|close|>message<|sep|>
// <|end_of_msg|>, as Moonshot AI's encoding_k3.py writes it. Only the four marks are special
// tokens; every piece of text between them is encoded by itself and can't hold one.
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "chat/coded.h"
#include "chat/jinja.h"
#include "chat/jinja/text.h"

struct xtml {
    const struct coded_call *call;
    struct chat_prompt *out;
    bool thinking;
    size_t asked;   // the last message of an assistant + 1, 0: none
    size_t results; // of tools since then
    struct error *e;
};

static void mark(struct xtml *x, const char *token) { str_puts(&x->out->text, token); }

static void text(struct xtml *x, struct sv s) {
    struct chat_prompt *p = x->out;
    if (!s.n) return;
    p->plain = mem_grow(p->plain, &p->cap, p->spans + 1, sizeof *p->plain);
    p->plain[p->spans++] = (struct chat_span){p->text.n, p->text.n + s.n};
    str_add(&p->text, s);
}

static void words(struct xtml *x, const char *s) { text(x, sv(s)); }

static void attribute(struct xtml *x, const char *name, struct sv value) {
    struct str s = {0};
    str_printf(&s, " %s", name);
    text(x, str_sv(&s));
    words(x, "=\"");
    str_clear(&s);
    for (size_t i = 0; i < value.n; i++) {
        char c = value.p[i];
        if (c == '&')
            str_puts(&s, "&amp;");
        else if (c == '"')
            str_puts(&s, "&quot;");
        else
            str_addc(&s, c);
    }
    text(x, str_sv(&s));
    words(x, "\"");
    str_free(&s);
}

static void number(struct xtml *x, const char *name, size_t n) {
    struct str s = {0};
    str_printf(&s, "%zu", n);
    attribute(x, name, str_sv(&s));
    str_free(&s);
}

static void begin(struct xtml *x, const char *tag) {
    mark(x, "<|open|>");
    words(x, tag);
}

static void sep(struct xtml *x) { mark(x, "<|sep|>"); }

static void open_plain(struct xtml *x, const char *tag) {
    begin(x, tag);
    sep(x);
}

static void close_tag(struct xtml *x, const char *tag) {
    mark(x, "<|close|>");
    words(x, tag);
    sep(x);
}

static void open_message(struct xtml *x, const char *role) {
    begin(x, "message");
    attribute(x, "role", sv(role));
}

static void end_message(struct xtml *x) {
    close_tag(x, "message");
    mark(x, "<|end_of_msg|>");
}

// A system message of the renderer's own.
static void notice(struct xtml *x, const char *type, struct sv body) {
    open_message(x, "system");
    attribute(x, "type", sv(type));
    sep(x);
    text(x, body);
    end_message(x);
}

static bool content(struct xtml *x, size_t i) {
    size_t n = coded_pieces(coded_message(x->call, i));
    struct sv piece;
    for (size_t k = 0; k < n; k++) {
        if (!coded_piece(x->call, i, k, &piece, x->e)) return false;
        text(x, piece);
    }
    return true;
}

static bool declare_tools(struct xtml *x, struct json_object *tools, bool more) {
    struct str s = {0};
    str_puts(&s, more ? "## New Tools Available\n"
                        "The system dynamically extends the toolset via lazy-loading.\n"
                        "You have access to all existing and extended tools.\n"
                        "Here are the specs for the extended tools.\n\n"
                      : "# Tools\n"
                        "Here are the available tools, described in JSONSchema.\n\n");
    str_puts(&s, "```json\n");
    bool ok = jinja_dumps(tools, true, &s, x->e);
    str_puts(&s, "\n```");
    if (ok) notice(x, "tool-declare", str_sv(&s));
    str_free(&s);
    return ok;
}

// system and user messages
static bool spoken(struct xtml *x, size_t i, const char *role) {
    struct json_object *m = coded_message(x->call, i), *tools = json_at(m, "tools");
    if (!strcmp(role, "system") && json_object_is_type(tools, json_type_array) &&
        json_object_array_length(tools))
        return declare_tools(x, tools, true);
    open_message(x, role);
    struct sv name = json_text_at(m, "name");
    if (name.n) attribute(x, "name", name);
    sep(x);
    if (!content(x, i)) return false;
    end_message(x);
    return true;
}

static const char *type_of(struct json_object *v) {
    switch (json_object_get_type(v)) {
    case json_type_boolean: return "boolean";
    case json_type_null: return "null";
    case json_type_int:
    case json_type_double: return "number";
    case json_type_string: return "string";
    case json_type_object: return "object";
    default: return "array";
    }
}

static bool argument(struct xtml *x, const char *key, struct json_object *value) {
    struct str s = {0};
    begin(x, "argument");
    attribute(x, "key", sv(key));
    attribute(x, "type", sv(type_of(value)));
    sep(x);
    bool is_text = json_object_is_type(value, json_type_string);
    bool ok = is_text || jinja_dumps(value, false, &s, x->e);
    text(x, is_text ? json_text(value) : str_sv(&s));
    close_tag(x, "argument");
    str_free(&s);
    return ok;
}

static bool arguments(struct xtml *x, size_t i, size_t k, struct json_object *function) {
    struct json_object *args = coded_arguments(i, k, function, x->e);
    if (!args && !x->e->set) { // text that is no JSON, kept as it is
        begin(x, "json");
        attribute(x, "type", sv("object"));
        sep(x);
        text(x, json_text_at(function, "arguments"));
        close_tag(x, "json");
    }
    if (args) {
        json_object_object_foreach(args, key, value) {
            if (!x->e->set) argument(x, key, value);
        }
    }
    json_object_put(args);
    return !x->e->set;
}

static bool calls(struct xtml *x, size_t i) {
    size_t n;
    if (!coded_calls(x->call, i, &n, x->e)) return false;
    if (n) open_plain(x, "tools");
    for (size_t k = 0; k < n; k++) {
        struct sv name;
        struct json_object *function = coded_function(x->call, i, k, &name, x->e);
        if (!function) return false;
        begin(x, "call");
        attribute(x, "tool", name);
        number(x, "index", k + 1);
        sep(x);
        if (!arguments(x, i, k, function)) return false;
        close_tag(x, "call");
    }
    if (n) close_tag(x, "tools");
    return true;
}

static bool assistant(struct xtml *x, size_t i) {
    struct json_object *m = coded_message(x->call, i);
    x->asked = i + 1;
    x->results = 0;
    open_message(x, "assistant");
    struct sv name = json_text_at(m, "name");
    if (name.n) attribute(x, "name", name);
    sep(x);
    if (x->thinking) {
        struct sv reasoning = json_text_at(m, "reasoning_content");
        open_plain(x, "think");
        if (strip(reasoning, true, true).n) text(x, reasoning);
        close_tag(x, "think");
    }
    open_plain(x, "response");
    if (!content(x, i)) return false;
    close_tag(x, "response");
    if (!calls(x, i)) return false;
    end_message(x);
    return true;
}

// Results of tools go in the order of the calls that they answer, under their names, if all of a
// run name a call by its id; else as they stand.

struct answer {
    size_t result; // its message
    size_t call;   // of the last assistant's calls; as many as there are: unknown
};

static int by_call(const void *a, const void *b) {
    const struct answer *x = a, *y = b;
    if (x->call != y->call) return x->call < y->call ? -1 : 1;
    return x->result < y->result ? -1 : 1;
}

// The first call of each id; of calls that there are n of.
static void index_calls(const struct xtml *x, size_t n, struct map *ids) {
    struct json_object *list =
        n ? json_at(coded_message(x->call, x->asked - 1), "tool_calls") : NULL;
    for (size_t k = 0; k < n; k++) {
        struct json_object *id = json_at(json_object_array_get_idx(list, k), "id");
        if (id) map_put(ids, sv(json_object_get_string(id)), (int64_t)k);
    }
}

static bool result(struct xtml *x, struct answer a, size_t n) {
    struct json_object *m = coded_message(x->call, a.result);
    struct sv name = json_text_at(m, json_at(m, "tool") ? "tool" : "name");
    size_t place = x->results++, k = a.call;
    if (k == n && !name.n && place < n) k = place;
    if (k < n && !coded_function(x->call, x->asked - 1, k, &name, x->e)) return false;
    if (!name.n)
        return fail(x->e,
                    "messages[%zu]: whose result is this? Give a tool_call_id of the calls "
                    "before it, or the tool's name",
                    a.result);
    open_message(x, "tool");
    attribute(x, "tool", name);
    number(x, "index", x->results);
    sep(x);
    if (!content(x, a.result)) return false;
    end_message(x);
    return true;
}

// Messages [from, to) are results.
static bool results(struct xtml *x, size_t from, size_t to) {
    size_t n = 0, count = to - from;
    bool all = true, ok = true;
    if (x->asked && !coded_calls(x->call, x->asked - 1, &n, x->e)) return false;
    struct map ids = {0};
    index_calls(x, n, &ids);
    struct answer *a = mem_array(count, sizeof *a);
    for (size_t i = 0; i < count; i++) {
        struct json_object *m = coded_message(x->call, from + i), *id = json_at(m, "tool_call_id");
        if (!id) id = json_at(m, "id");
        int64_t k = id ? map_get(&ids, sv(json_object_get_string(id))) : -1;
        a[i] = (struct answer){from + i, k < 0 ? n : (size_t)k};
        all &= k >= 0;
    }
    for (size_t i = 0; i < count && !all; i++) a[i].call = n;
    qsort(a, count, sizeof *a, by_call);
    for (size_t i = 0; i < count && ok; i++) ok = result(x, a[i], n);
    map_free(&ids);
    free(a);
    return ok;
}

static bool message(struct xtml *x, size_t *i) {
    struct sv role = coded_role(x->call, *i);
    size_t from = (*i)++, n = json_object_array_length(x->call->messages);
    if (sv_is(role, "user")) return spoken(x, from, "user");
    if (sv_is(role, "system")) return spoken(x, from, "system");
    if (sv_is(role, "assistant")) return assistant(x, from);
    if (!sv_is(role, "tool"))
        return fail(x->e,
                    "messages[%zu].role is \"%.*s\": Kimi K3's chat knows system, user, assistant "
                    "and tool",
                    from, (int)role.n, role.p);
    while (*i < n && sv_is(coded_role(x->call, *i), "tool")) ++*i;
    return results(x, from, *i);
}

static bool effort(struct xtml *x) {
    struct sv level = json_text_at(x->call->kwargs, "thinking_effort");
    struct str s = {0};
    if (!level.n) level = json_text_at(x->call->kwargs, "reasoning_effort");
    if (sv_is(level, "none")) x->thinking = false;
    if (!x->thinking) return true;
    if (!level.n) level = sv("max");
    if (!sv_is(level, "low") && !sv_is(level, "high") && !sv_is(level, "max"))
        return fail(x->e,
                    "reasoning_effort is \"%.*s\": Kimi K3 knows low, high and max (and none)",
                    (int)level.n, level.p);
    str_printf(&s,
               "`thinking_effort` guides on how much to think in your thinking channel (not "
               "including the response channel), supported values include `low`, `medium`, "
               "`high`, and `max`.\nNow the system is invoked with `thinking_effort=%.*s`.",
               (int)level.n, level.p);
    notice(x, "thinking-effort", str_sv(&s));
    str_free(&s);
    return true;
}

static void choice(struct xtml *x) {
    struct sv choice = json_text_at(x->call->kwargs, "tool_choice");
    if (sv_is(choice, "required"))
        notice(x, "tool-choice",
               sv("The system is invoked with `tool_choice=required`.\n"
                  "You MUST call tools in the next message."));
    if (sv_is(choice, "none"))
        notice(x, "tool-choice",
               sv("The system is invoked with `tool_choice=none`.\n"
                  "You MUST NOT call any tools in the next message."));
}

static struct json_object *schema_of(const struct coded_call *call, struct json_object *format) {
    struct json_object *schema, *wrapper = json_at(format, "json_schema");
    if (call->kwargs && json_object_object_get_ex(call->kwargs, "response_schema", &schema))
        return schema;
    if (!json_object_is_type(wrapper, json_type_object)) return wrapper;
    if (json_object_object_get_ex(wrapper, "schema", &schema)) return schema;
    if (json_object_object_get_ex(wrapper, "json_schema", &schema)) return schema;
    return wrapper;
}

static bool response_format(struct xtml *x) {
    static const char how[] =
        "Your response must be raw JSON data without markdown code blocks (```json) or any "
        "additional formatting.";
    struct json_object *format = json_at(x->call->kwargs, "response_format");
    struct sv type = json_text(format);
    if (!type.n) type = json_text_at(format, "type");
    bool by_schema = sv_is(type, "json_schema"), ok = true;
    if (!by_schema && !sv_is(type, "json_object")) return true;
    struct str s = {0};
    str_printf(&s, "The system is invoked with `response_format=%.*s`.\n%s", (int)type.n, type.p,
               how);
    if (by_schema) {
        str_puts(&s, "\nThe JSON data must match the following schema:\n```json\n");
        ok = jinja_dumps(schema_of(x->call, format), true, &s, x->e);
        str_puts(&s, "\n```");
    }
    if (ok) notice(x, "response-format", str_sv(&s));
    str_free(&s);
    return ok;
}

static bool render(const struct coded_call *call, struct chat_prompt *out, struct error *e) {
    struct xtml x = {.call = call, .out = out, .thinking = true, .e = e};
    if (call->go_on)
        return fail(e, "continue_final_message: Kimi K3's chat can't go on with a message");
    if (!coded_flag(call, "enable_thinking", &x.thinking, e) ||
        !coded_flag(call, "thinking", &x.thinking, e))
        return false;
    if (call->tools && json_object_array_length(call->tools) &&
        !declare_tools(&x, call->tools, false))
        return false;
    if (!effort(&x)) return false;
    for (size_t i = 0, n = json_object_array_length(call->messages); i < n;)
        if (!message(&x, &i)) return false;
    choice(&x);
    if (!response_format(&x)) return false;
    if (!call->generate) return true;
    open_message(&x, "assistant");
    sep(&x);
    open_plain(&x, x.thinking ? "think" : "response");
    return true;
}

static const char *const variables[] = {
    "thinking",    "enable_thinking", "thinking_effort", "reasoning_effort",
    "tool_choice", "response_format", "response_schema", NULL};

const struct coded coded_kimi_k3 = {
    .source = "<|open|>think<|sep|><|open|>tools<|sep|>",
    .variables = variables,
    .render = render,
};
