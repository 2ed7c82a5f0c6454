// Tools and calls in a conversation whose template knows none: tools are described in the system
// message, and what was called and came of it is text, in the generic format of reply.h.
#include <stdlib.h>

#include "base/map.h"
#include "base/mem.h"
#include "chat/parts.h"
#include "chat/reply.h"

static const char before_tools[] =
    "These tools can be called, each with arguments of its schema:\n";
static const char behind_tools[] =
    "\nEach reply is one JSON object. To call tools, it has the key \"tool_calls\", with a list of "
    "objects that have the tool's \"name\" and its \"arguments\". To answer the user, once no tool "
    "is needed, it has the key \"response\", with the text of the answer.";

static bool is_list(struct json_object *v) { return json_object_is_type(v, json_type_array); }

static struct json_object *text_of(const struct str *s) {
    return json_object_new_string_len(str_c(s), (int)s->n);
}

static void add_json(struct str *s, struct json_object *v) {
    str_puts(s, json_object_to_json_string_ext(v, JSON_C_TO_STRING_PLAIN |
                                                      JSON_C_TO_STRING_NOSLASHESCAPE));
}

// Its "function", or what has none itself.
static struct json_object *function_of(struct json_object *o) {
    struct json_object *function = json_at(o, "function");
    return json_object_is_type(function, json_type_object) ? function : o;
}

static void set_content(struct json_object *m, const struct str *text) {
    json_object_object_add(m, "content", text_of(text));
}

// --- what was said -------------------------------------------------------------------------------

// Arguments come as an object's text, or as it.
static void add_call(struct str *s, struct json_object *call) {
    struct json_object *function = function_of(call), *v = json_at(function, "arguments");
    str_puts(s, "{\"name\": ");
    json_quote(s, json_text_at(function, "name"));
    str_puts(s, ", \"arguments\": ");
    if (json_object_is_type(v, json_type_string) && json_text(v).n)
        str_add(s, json_text(v));
    else if (json_object_is_type(v, json_type_object))
        add_json(s, v);
    else
        str_puts(s, "{}");
    str_addc(s, '}');
}

// What was said beside calls stands before them.
static void put_calls(struct json_object *m, struct json_object *calls) {
    struct str s = {0};
    str_add(&s, json_text_at(m, "content"));
    if (s.n) str_puts(&s, "\n\n");
    str_puts(&s, REPLY_CALLS " [");
    for (size_t i = 0; i < json_object_array_length(calls); i++) {
        if (i) str_puts(&s, ", ");
        add_call(&s, json_object_array_get_idx(calls, i));
    }
    str_puts(&s, "]}");
    set_content(m, &s);
    json_object_object_del(m, "tool_calls");
    str_free(&s);
}

static void put_answer(struct json_object *m) {
    struct json_object *content = json_at(m, "content");
    struct str s = {0};
    if (!json_object_is_type(content, json_type_string)) return;
    str_puts(&s, REPLY_ANSWER);
    s.n--; // the quote, which comes with the text
    json_quote(&s, json_text(content));
    str_addc(&s, '}');
    set_content(m, &s);
    str_free(&s);
}

// --- what came of it -----------------------------------------------------------------------------

// The names of the functions that calls so far were of, by the calls' ids; the last of an id
// counts.
struct called {
    struct map ids;
    struct sv *name; // of the messages
    size_t n, cap;
};

static void add_called(struct called *c, struct json_object *calls) {
    for (size_t i = 0; i < json_object_array_length(calls); i++) {
        struct json_object *call = json_object_array_get_idx(calls, i);
        struct sv id = json_text_at(call, "id");
        if (!id.n) continue;
        c->name = mem_grow(c->name, &c->cap, c->n + 1, sizeof *c->name);
        map_set(&c->ids, id, (int64_t)c->n);
        c->name[c->n++] = json_text_at(function_of(call), "name");
    }
}

static struct sv name_called(const struct called *c, struct sv id) {
    int64_t at = id.n && c->n ? map_get(&c->ids, id) : -1;
    return at < 0 ? sv("") : c->name[at];
}

static void add_result(struct str *s, const struct called *c, struct json_object *m) {
    struct json_object *v = json_at(m, "content");
    struct sv name = json_text_at(m, "name");
    if (!name.n) name = name_called(c, json_text_at(m, "tool_call_id"));
    if (s->n) str_addc(s, '\n');
    str_puts(s, "{\"tool_result\": {");
    if (name.n) {
        json_member(s, "name", name);
        str_puts(s, ", ");
    }
    str_puts(s, "\"content\": ");
    if (json_object_is_type(v, json_type_string))
        json_quote(s, json_text(v));
    else
        add_json(s, v);
    str_puts(s, "}}");
}

// --- the conversation ----------------------------------------------------------------------------

static bool has_role(struct json_object *m, const char *role) {
    return sv_is(json_text_at(m, "role"), role);
}

static struct json_object *add_message(struct json_object *out, const char *role) {
    struct json_object *m = json_object_new_object();
    json_object_object_add(m, "role", json_object_new_string(role));
    json_object_array_add(out, m);
    return m;
}

// Results that follow each other are one message of the user's, as is what he says then: templates
// want users and assistants to take turns.
static void put_results(struct json_object *out, struct str *results) {
    if (results->n) set_content(add_message(out, "user"), results);
    str_clear(results);
}

static struct json_object *rewrite(struct json_object *messages, bool answers, size_t open) {
    struct json_object *out = json_object_new_array();
    struct called called = {0};
    struct str results = {0};
    for (size_t i = 0; i < json_object_array_length(messages); i++) {
        struct json_object *m = json_object_array_get_idx(messages, i), *copy;
        struct json_object *calls = json_at(m, "tool_calls");
        struct sv said = json_text_at(m, "content");
        if (has_role(m, "tool")) {
            add_result(&results, &called, m);
            continue;
        }
        if (results.n && has_role(m, "user") && said.n) {
            str_puts(&results, "\n\n");
            str_add(&results, said);
            put_results(out, &results);
            continue;
        }
        put_results(out, &results);
        copy = json_object_new_object();
        json_add_members(copy, m);
        json_object_array_add(out, copy);
        if (is_list(calls) && json_object_array_length(calls)) {
            add_called(&called, calls);
            put_calls(copy, calls);
        } else if (answers && has_role(m, "assistant") && i != open) {
            put_answer(copy);
        }
    }
    put_results(out, &results);
    map_free(&called.ids);
    free(called.name);
    str_free(&results);
    return out;
}

static void describe(struct str *s, struct json_object *tools) {
    str_puts(s, before_tools);
    for (size_t i = 0; i < json_object_array_length(tools); i++) {
        add_json(s, function_of(json_object_array_get_idx(tools, i)));
        str_addc(s, '\n');
    }
    str_puts(s, behind_tools);
}

// Tools are told of by the system, or by the first user where a template has no system.
static struct json_object *tell(struct json_object *messages, struct json_object *tools,
                                bool system) {
    struct json_object *first = json_object_array_get_idx(messages, 0);
    struct str s = {0};
    struct sv said = json_text_at(first, "content");
    describe(&s, tools);
    if (has_role(first, "system") || (!system && has_role(first, "user"))) {
        bool before = has_role(first, "system");
        struct str all = {0};
        str_add(&all, before ? said : str_sv(&s));
        if (said.n) str_puts(&all, "\n\n");
        str_add(&all, before ? str_sv(&s) : said);
        set_content(first, &all);
        str_free(&all);
        str_free(&s);
        return messages;
    }
    struct json_object *out = json_object_new_array();
    set_content(add_message(out, system ? "system" : "user"), &s);
    for (size_t i = 0; i < json_object_array_length(messages); i++)
        json_object_array_add(out, json_object_get(json_object_array_get_idx(messages, i)));
    json_object_put(messages);
    str_free(&s);
    return out;
}

struct json_object *generic_messages(struct json_object *messages, const struct chat_options *opt,
                                     bool system) {
    size_t n = json_object_array_length(messages);
    size_t open = opt->continue_final_message ? n - 1 : n;
    struct json_object *out = rewrite(messages, opt->tools != NULL, open);
    return opt->tools ? tell(out, opt->tools, system) : out;
}
