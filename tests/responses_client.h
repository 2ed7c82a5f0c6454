// Requests to the Responses API, and what their answers hold. What the models of the fixtures say
// is known: that of tests/fixtures/text greets, that of tests/fixtures/tools thinks, says something
// and calls "weather".
#ifndef TESTS_RESPONSES_CLIENT_H
#define TESTS_RESPONSES_CLIENT_H

#include "server_client.h"

#define RESPONSES   "/v1/responses"
#define MODEL_TOOLS (FIXTURES "/tools")
#define COLD        ",\"temperature\":0"
#define WEATHER                                                                                    \
    "\"tools\":[{\"type\":\"function\",\"name\":\"weather\",\"strict\":true,\"parameters\":{"      \
    "\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}}}}]"
#define CITY "{\"city\": \"Z\xc3\xbcrich\"}"

// --- what is in an answer ------------------------------------------------------------------------

static inline struct json_object *create(const struct server *s, const char *body) {
    return post_json(s, RESPONSES, body);
}

static inline void check_text(struct json_object *o, const char *key, const char *want) {
    struct json_object *v = json_at(o, key);
    if (!v) fail_msg("there is no %s in %s", key, json_object_to_json_string(o));
    assert_string_equal(json_object_get_string(v), want);
}

static inline size_t length(struct json_object *o, const char *key) {
    return json_object_array_length(json_at(o, key));
}

static inline struct json_object *output(struct json_object *response, size_t i) {
    return nth(json_at(response, "output"), i);
}

static inline struct json_object *part(struct json_object *item) {
    assert_int_equal(length(item, "content"), 1);
    return nth(json_at(item, "content"), 0);
}

static inline void check_id(struct json_object *o, const char *key, const char *kind) {
    struct sv id = json_text_at(o, key);
    assert_true(sv_starts(id, sv(kind)));
    assert_true(id.n > 20);
}

static inline int64_t input_tokens(struct json_object *response) {
    return json_int_at(json_at(response, "usage"), "input_tokens", -1);
}

static inline char *id_of(struct json_object *response) {
    struct sv id = json_text_at(response, "id");
    return strndup(id.p, id.n);
}

static inline void check_message(struct json_object *item, const char *want, const char *status) {
    check_id(item, "id", "msg_");
    check_text(item, "type", "message");
    check_text(item, "role", "assistant");
    check_text(item, "status", status);
    check_text(part(item), "type", "output_text");
    check_text(part(item), "text", want);
    assert_int_equal(length(part(item), "annotations"), 0);
}

// --- streams -------------------------------------------------------------------------------------

struct stream {
    struct str types;   // of the events, with line breaks behind them; of several deltas one
    struct str text[3]; // of deltas: reasoning, message, call
    struct str last;    // the response of the last event
};

static inline void stream_free(struct stream *t) {
    str_free(&t->types);
    for (size_t i = 0; i < 3; i++) str_free(&t->text[i]);
    str_free(&t->last);
}

// Takes the events apart: each has its type twice and the next number.
static inline void read_events(struct stream *t, struct sv rest) {
    static const char *const deltas[] = {"response.reasoning_text.delta",
                                         "response.output_text.delta",
                                         "response.function_call_arguments.delta"};
    struct sv before = sv("");
    for (int64_t number = 0; rest.n; number++) {
        ptrdiff_t line = sv_find(rest, sv("\n"), 0), end = sv_find(rest, sv("\n\n"), 0);
        assert_true(sv_starts(rest, sv("event: ")) && line > 0 && end > line);
        struct sv type = sv_cut(rest, 7, (size_t)line);
        assert_true(sv_starts(sv_cut(rest, (size_t)line + 1, rest.n), sv("data: ")));
        struct json_object *o = json_of(sv_cut(rest, (size_t)line + 7, (size_t)end));
        assert_true(sv_eq(json_text_at(o, "type"), type));
        assert_int_equal(json_int_at(o, "sequence_number", -1), number);
        for (size_t i = 0; i < 3; i++)
            if (sv_is(type, deltas[i])) str_add(&t->text[i], json_text_at(o, "delta"));
        if (!sv_eq(type, before)) str_printf(&t->types, "%.*s\n", (int)type.n, type.p);
        str_clear(&t->last);
        struct json_object *response = json_at(o, "response");
        if (response) {
            ptrdiff_t at = sv_find(rest, sv("\"response\":{"), 0);
            str_add(&t->last, sv_cut(rest, (size_t)at + 11, (size_t)end - 1));
        }
        json_object_put(o);
        before = type;
        rest = sv_cut(rest, (size_t)end + 2, rest.n);
    }
}

#define OPENING "response.created\nresponse.in_progress\n"
#define ADDED   "response.output_item.added\n"
#define PART(kind)                                                                                 \
    ADDED "response.content_part.added\nresponse." kind ".delta\nresponse." kind                   \
          ".done\nresponse.content_part.done\nresponse.output_item.done\n"

static inline void stream_of(const struct server *s, const char *body, struct stream *t) {
    struct answer a;
    post(s, &a, RESPONSES, body);
    if (a.status != 200) fail_msg("%d %s", a.status, str_c(&a.body));
    assert_true(a.whole);
    assert_true(has_header(&a, "Content-Type: text/event-stream"));
    *t = (struct stream){0};
    read_events(t, str_sv(&a.body));
    answer_free(&a);
}

#endif
