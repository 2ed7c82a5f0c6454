#include "chat/coded.h"

#include <string.h>

bool coded_knows(const struct coded *c, const char *variable) {
    for (const char *const *v = c->variables; *v; v++)
        if (!strcmp(*v, variable)) return true;
    return false;
}

struct json_object *coded_message(const struct coded_call *call, size_t i) {
    return json_object_array_get_idx(call->messages, i);
}

struct sv coded_role(const struct coded_call *call, size_t i) {
    return json_text_at(coded_message(call, i), "role");
}

size_t coded_pieces(struct json_object *message) {
    struct json_object *content = json_at(message, "content");
    if (!json_object_is_type(content, json_type_array)) return content != NULL;
    return json_object_array_length(content);
}

bool coded_piece(const struct coded_call *call, size_t i, size_t k, struct sv *text,
                 struct error *e) {
    struct json_object *content = json_at(coded_message(call, i), "content"), *piece = content;
    if (json_object_is_type(content, json_type_array))
        piece = json_object_array_get_idx(content, k);
    struct sv type = json_text_at(piece, "type");
    if (json_object_is_type(piece, json_type_object) && (!type.n || sv_is(type, "text")))
        piece = json_at(piece, "text");
    *text = json_text(piece);
    if (json_object_is_type(piece, json_type_string)) return true;
    if (type.n && !sv_is(type, "text"))
        return fail(e,
                    "messages[%zu].content[%zu] is of type \"%.*s\": this model's chat takes "
                    "text only",
                    i, k, (int)type.n, type.p);
    return fail(e, "messages[%zu].content[%zu].text must be text, not %s", i, k, json_kind(piece));
}

bool coded_content(const struct coded_call *call, size_t i, const char *between, struct str *out,
                   struct error *e) {
    size_t n = coded_pieces(coded_message(call, i));
    struct sv text;
    for (size_t k = 0; k < n; k++) {
        if (!coded_piece(call, i, k, &text, e)) return false;
        if (k) str_puts(out, between);
        str_add(out, text);
    }
    return true;
}

bool coded_calls(const struct coded_call *call, size_t i, size_t *n, struct error *e) {
    struct json_object *calls = json_at(coded_message(call, i), "tool_calls");
    bool list = json_object_is_type(calls, json_type_array);
    *n = list ? json_object_array_length(calls) : 0;
    return list || !calls ||
           fail(e, "messages[%zu].tool_calls must be a list, not %s", i, json_kind(calls));
}

struct json_object *coded_function(const struct coded_call *call, size_t i, size_t k,
                                   struct sv *name, struct error *e) {
    struct json_object *calls = json_at(coded_message(call, i), "tool_calls");
    struct json_object *one = json_object_array_get_idx(calls, k);
    struct json_object *function = json_at(one, "function");
    if (!json_object_is_type(function, json_type_object)) function = one;
    *name = json_text_at(function, "name");
    if (name->n) return function;
    fail(e, "messages[%zu].tool_calls[%zu].function.name is missing", i, k);
    return NULL;
}

struct json_object *coded_arguments(size_t i, size_t k, struct json_object *function,
                                    struct error *e) {
    struct json_object *v = json_at(function, "arguments");
    if (!v) return json_object_new_object();
    if (json_object_is_type(v, json_type_string)) {
        struct error ignored = {0};
        if (!sv_trim(json_text(v)).n) return json_object_new_object();
        v = json_read(json_text(v), "arguments", &ignored);
        if (!v) return NULL;
    } else {
        json_object_get(v);
    }
    if (json_object_is_type(v, json_type_object)) return v;
    fail(e, "messages[%zu].tool_calls[%zu].function.arguments must be an object, not %s", i, k,
         json_kind(v));
    json_object_put(v);
    return NULL;
}

bool coded_flag(const struct coded_call *call, const char *variable, bool *value, struct error *e) {
    struct json_object *v = json_at(call->kwargs, variable);
    if (!v) return true;
    *value = json_object_get_boolean(v);
    return json_object_is_type(v, json_type_boolean) ||
           fail(e, "%s must be true or false, not %s", variable, json_kind(v));
}
