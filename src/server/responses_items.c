#include "server/responses_items.h"

#include "base/random.h"

enum { ID_LENGTH = 128 }; // bytes of an id

static void put(struct json_object *o, const char *key, struct sv text) {
    json_object_object_add(o, key, json_object_new_string_len(text.n ? text.p : "", (int)text.n));
}

static bool is_text(struct json_object *v) { return json_object_is_type(v, json_type_string); }
static bool is_list(struct json_object *v) { return json_object_is_type(v, json_type_array); }

void items_new_id(struct str *out, const char *kind) {
    str_printf(out, "%s_", kind);
    random_letters(out);
}

void items_add_line(struct str *out, struct json_object *item) {
    str_puts(out, json_object_to_json_string_ext(item, JSON_C_TO_STRING_PLAIN |
                                                           JSON_C_TO_STRING_NOSLASHESCAPE));
    str_addc(out, '\n');
}

struct sv items_line_id(struct sv line) {
    static const char before[] = "{\"id\":\"";
    ptrdiff_t end = sv_find(line, sv("\""), sizeof before - 1);
    return sv_starts(line, sv(before)) && end > 0 ? sv_cut(line, sizeof before - 1, (size_t)end)
                                                  : sv("");
}

// --- from a request ------------------------------------------------------------------------------

// Ids that could not stand in a URL, or in JSON as they are, are replaced.
static bool good_id(struct sv id) {
    for (size_t i = 0; i < id.n; i++) {
        char c = id.p[i], small = (char)(c | 32);
        bool letter = (c >= '0' && c <= '9') || (small >= 'a' && small <= 'z');
        if (!letter && c != '_' && c != '-') return false;
    }
    return id.n && id.n <= ID_LENGTH;
}

static struct json_object *make(struct json_object *in, const char *type, const char *kind) {
    struct json_object *item = json_object_new_object();
    struct str id = {0};
    str_add(&id, json_text_at(in, "id"));
    if (!good_id(str_sv(&id))) {
        str_clear(&id);
        items_new_id(&id, kind);
    }
    put(item, "id", str_sv(&id));
    put(item, "type", sv(type));
    str_free(&id);
    return item;
}

static bool one_of(struct sv word, const char *words) {
    for (struct sv rest = sv(words); rest.n;) {
        ptrdiff_t space = sv_find(rest, sv(" "), 0);
        struct sv first = sv_cut(rest, 0, space < 0 ? rest.n : (size_t)space);
        if (sv_eq(word, first)) return true;
        rest = sv_cut(rest, first.n + 1, rest.n);
    }
    return false;
}

static void add_part(struct json_object *list, const char *type, struct sv text) {
    struct json_object *part = json_object_new_object();
    put(part, "type", sv(type));
    put(part, "text", text);
    if (sv_is(sv(type), "output_text"))
        json_object_object_add(part, "annotations", json_object_new_array());
    json_object_array_add(list, part);
}

// v's texts as parts of one type: v is a text or a list of parts, whose types are one of `types`.
// What an assistant refused is what it said.
static bool add_parts(struct json_object *list, struct json_object *v, const char *type,
                      const char *types, const char *where, size_t at, struct refusal *r) {
    if (is_text(v)) {
        add_part(list, type, json_text(v));
        return true;
    }
    if (!is_list(v))
        return refuse(r, 400, "input", "input[%zu].%s must be a string or an array, not %s", at,
                      where, json_kind(v));
    for (size_t i = 0; i < json_object_array_length(v); i++) {
        struct json_object *part = json_object_array_get_idx(v, i);
        struct sv is = json_text_at(part, "type");
        struct json_object *text = json_at(part, sv_is(is, "refusal") ? "refusal" : "text");
        if (!one_of(is, types) || !is_text(text))
            return refuse(r, 400, "input",
                          "input[%zu].%s[%zu]: a part of type \"%.*s\"; this server takes "
                          "{\"type\": \"%s\", \"text\": ...}",
                          at, where, i, SHOW(is), type);
        add_part(list, type, json_text(text));
    }
    return true;
}

static struct json_object *read_message(struct json_object *in, size_t at, struct refusal *r) {
    struct sv role = json_text_at(in, "role");
    bool assistant = sv_is(role, "assistant");
    if (!one_of(role, "user assistant system developer")) {
        refuse(r, 400, "input",
               "input[%zu].role is \"%.*s\"; it must be user, assistant, system or developer", at,
               SHOW(role));
        return NULL;
    }
    struct json_object *item = make(in, "message", "msg"), *content = json_object_new_array();
    put(item, "status", sv("completed"));
    put(item, "role", role);
    json_object_object_add(item, "content", content);
    add_parts(content, json_at(in, "content"), assistant ? "output_text" : "input_text",
              "input_text output_text text refusal", "content", at, r);
    return item;
}

// A text that must be there.
static bool take_text(struct json_object *item, struct json_object *in, const char *key, bool empty,
                      size_t at, struct refusal *r) {
    struct json_object *v = json_at(in, key);
    if (!is_text(v) || (!empty && !json_text(v).n))
        return refuse(r, 400, "input", "input[%zu].%s must be a string%s", at, key,
                      empty ? "" : ", and not empty");
    put(item, key, json_text(v));
    return true;
}

static bool is_cut(struct json_object *item) {
    return sv_is(json_text_at(item, "status"), "incomplete");
}

static struct json_object *read_call(struct json_object *in, size_t at, struct refusal *r) {
    struct json_object *item = make(in, "function_call", "fc");
    put(item, "status", sv(is_cut(in) ? "incomplete" : "completed"));
    if (take_text(item, in, "arguments", true, at, r) &&
        take_text(item, in, "call_id", false, at, r))
        take_text(item, in, "name", false, at, r);
    return item;
}

static struct json_object *read_result(struct json_object *in, size_t at, struct refusal *r) {
    struct json_object *item = make(in, "function_call_output", "fco");
    struct json_object *v = json_at(in, "output");
    put(item, "status", sv("completed"));
    take_text(item, in, "call_id", false, at, r);
    if (is_text(v)) {
        put(item, "output", json_text(v));
        return item;
    }
    struct json_object *list = json_object_new_array();
    json_object_object_add(item, "output", list);
    add_parts(list, v, "input_text", "input_text output_text text", "output", at, r);
    return item;
}

// Encrypted reasoning is another server's. What this one's models thought is in the content.
static struct json_object *read_reasoning(struct json_object *in, size_t at, struct refusal *r) {
    struct json_object *item = make(in, "reasoning", "rs");
    struct json_object *summary = json_object_new_array(), *content = json_object_new_array();
    json_object_object_add(item, "summary", summary);
    json_object_object_add(item, "content", content);
    if (json_at(in, "summary"))
        add_parts(summary, json_at(in, "summary"), "summary_text", "summary_text", "summary", at,
                  r);
    if (json_at(in, "content"))
        add_parts(content, json_at(in, "content"), "reasoning_text", "reasoning_text text",
                  "content", at, r);
    return item;
}

static struct json_object *read_item(struct json_object *in, size_t at, struct refusal *r) {
    struct sv type = json_text_at(in, "type");
    if (!json_object_is_type(in, json_type_object)) {
        refuse(r, 400, "input", "input[%zu] must be an object, not %s", at, json_kind(in));
        return NULL;
    }
    if (sv_is(type, "message") || (!type.n && json_at(in, "role"))) return read_message(in, at, r);
    if (sv_is(type, "function_call")) return read_call(in, at, r);
    if (sv_is(type, "function_call_output")) return read_result(in, at, r);
    if (sv_is(type, "reasoning")) return read_reasoning(in, at, r);
    refuse(r, 400, "input",
           "input[%zu] is of type \"%.*s\"; this server takes message, function_call, "
           "function_call_output and reasoning",
           at, SHOW(type));
    return NULL;
}

struct json_object *items_read(struct json_object *input, struct refusal *r) {
    struct json_object *items = json_object_new_array();
    if (is_text(input)) {
        struct json_object *message = json_object_new_object();
        put(message, "role", sv("user"));
        json_object_object_add(message, "content", json_object_get(input));
        json_object_array_add(items, read_message(message, 0, r));
        json_object_put(message);
    } else if (is_list(input)) {
        for (size_t i = 0; i < json_object_array_length(input) && !r->status; i++)
            json_object_array_add(items, read_item(json_object_array_get_idx(input, i), i, r));
    } else {
        refuse(r, 400, "input", "\"input\" must be a string or an array of items, not %s",
               json_kind(input));
    }
    if (!r->status) return items;
    json_object_put(items);
    return NULL;
}

// --- to messages ---------------------------------------------------------------------------------

struct talk {
    struct json_object *messages;
    struct json_object *turn; // the assistant's message, while what follows may belong to it
    struct str thought;       // what it thinks before that
    struct str system;        // of the first message
};

// Texts of parts, with line breaks between.
static void join(struct str *out, struct json_object *v) {
    if (is_text(v)) str_add(out, json_text(v));
    if (!is_list(v)) return;
    for (size_t i = 0; i < json_object_array_length(v); i++) {
        if (out->n) str_addc(out, '\n');
        str_add(out, json_text_at(json_object_array_get_idx(v, i), "text"));
    }
}

static struct json_object *add_message(struct talk *t, const char *role) {
    struct json_object *message = json_object_new_object();
    put(message, "role", sv(role));
    json_object_array_add(t->messages, message);
    return message;
}

// The models' templates know one system message, at the beginning, and not all know a second.
static void add_system(struct talk *t, struct sv text) {
    size_t n = json_object_array_length(t->messages);
    struct json_object *first = json_object_array_get_idx(t->messages, 0);
    if (n > 1 || (n && !sv_is(json_text_at(first, "role"), "system"))) {
        put(add_message(t, "system"), "content", text);
        return;
    }
    if (!n) add_message(t, "system");
    if (t->system.n) str_puts(&t->system, "\n\n");
    str_add(&t->system, text);
}

// Text begins a new turn when the one before has some, or calls already.
static struct json_object *turn(struct talk *t, bool text) {
    if (t->turn && text && (json_at(t->turn, "content") || json_at(t->turn, "tool_calls")))
        t->turn = NULL;
    if (!t->turn) t->turn = add_message(t, "assistant");
    if (t->thought.n) put(t->turn, "reasoning_content", str_sv(&t->thought));
    str_clear(&t->thought);
    return t->turn;
}

static void add_said(struct talk *t, struct json_object *item) {
    struct sv role = json_text_at(item, "role");
    struct str text = {0};
    join(&text, json_at(item, "content"));
    if (sv_is(role, "assistant")) {
        put(turn(t, true), "content", str_sv(&text));
    } else {
        t->turn = NULL;
        str_clear(&t->thought);
        if (sv_is(role, "user"))
            put(add_message(t, "user"), "content", str_sv(&text));
        else
            add_system(t, str_sv(&text));
    }
    str_free(&text);
}

// A call that was cut was none; its text followed it.
static void add_call(struct talk *t, struct json_object *item) {
    if (is_cut(item)) return;
    struct json_object *message = turn(t, false), *calls = json_at(message, "tool_calls");
    struct json_object *call = json_object_new_object(), *function = json_object_new_object();
    if (!calls) {
        calls = json_object_new_array();
        json_object_object_add(message, "tool_calls", calls);
    }
    put(call, "id", json_text_at(item, "call_id"));
    put(call, "type", sv("function"));
    put(function, "name", json_text_at(item, "name"));
    put(function, "arguments", json_text_at(item, "arguments"));
    json_object_object_add(call, "function", function);
    json_object_array_add(calls, call);
}

static void add_result(struct talk *t, struct json_object *item) {
    struct json_object *message = add_message(t, "tool");
    struct str text = {0};
    t->turn = NULL;
    str_clear(&t->thought);
    put(message, "tool_call_id", json_text_at(item, "call_id"));
    join(&text, json_at(item, "output"));
    put(message, "content", str_sv(&text));
    str_free(&text);
}

// What is thought after text or calls is of the next turn. A summary stands in for a content.
static void add_thought(struct talk *t, struct json_object *item) {
    struct json_object *content = json_at(item, "content");
    bool empty = !is_list(content) || !json_object_array_length(content);
    t->turn = NULL;
    join(&t->thought, empty ? json_at(item, "summary") : content);
}

struct json_object *items_messages(struct json_object *items, struct sv instructions) {
    struct talk t = {.messages = json_object_new_array()};
    if (instructions.n) add_system(&t, instructions);
    for (size_t i = 0; i < json_object_array_length(items); i++) {
        struct json_object *item = json_object_array_get_idx(items, i);
        struct sv type = json_text_at(item, "type");
        if (sv_is(type, "message")) add_said(&t, item);
        if (sv_is(type, "function_call")) add_call(&t, item);
        if (sv_is(type, "function_call_output")) add_result(&t, item);
        if (sv_is(type, "reasoning")) add_thought(&t, item);
    }
    if (sv_is(json_text_at(json_object_array_get_idx(t.messages, 0), "role"), "system"))
        put(json_object_array_get_idx(t.messages, 0), "content", str_sv(&t.system));
    str_free(&t.thought);
    str_free(&t.system);
    return t.messages;
}
