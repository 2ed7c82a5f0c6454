// mlxcel-server: what a model thinks and the tools that it calls, apart from what it says. The
// checkpoint of tests/fixtures/tools always thinks, says something and calls "weather".
#include "server_client.h"

#include "base/args.h"

#define MODEL_TOOLS (FIXTURES "/tools")

#define WEATHER                                                                                    \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{"        \
    "\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}}}}}]"
#define CITY "{\"city\": \"Z\xc3\xbcrich\"}"

static struct server s;

static int start(void **state) {
    (void)state;
    server_start(
        &s, ARGS("-m", MODEL_TOOLS, "--chat-template-kwargs", "{\"reasoning_effort\":\"low\"}"));
    return 0;
}

static int stop(void **state) {
    (void)state;
    return server_stop(&s);
}

// The one choice of a good answer.
static struct json_object *ask_chat(const struct server *from, const char *body,
                                    struct json_object **whole) {
    struct answer a;
    post(from, &a, CHAT, body);
    if (a.status != 200) fail_msg("%s: %d %s", body, a.status, str_c(&a.body));
    *whole = json_of(str_sv(&a.body));
    answer_free(&a);
    return choice(*whole);
}

static void check_text(struct json_object *message, const char *name, const char *want) {
    struct json_object *v = json_at(message, name);
    if (!want) {
        assert_null(v);
        return;
    }
    assert_non_null(v);
    assert_string_equal(json_object_get_string(v), want);
}

static void check_call(struct json_object *call) {
    struct json_object *function = json_at(call, "function");
    assert_true(sv_starts(json_text_at(call, "id"), sv("call_")));
    check_text(call, "type", "function");
    check_text(function, "name", "weather");
    check_text(function, "arguments", CITY);
}

static void whole_answer(void **state) {
    struct json_object *o, *c, *m, *calls;
    (void)state;
    c = ask_chat(&s, "{" HI "," WEATHER "}", &o);
    m = json_at(c, "message");
    check_text(m, "reasoning_content", "Zurich?");
    check_text(m, "reasoning", "Zurich?");
    check_text(m, "content", "I look.");
    calls = json_at(m, "tool_calls");
    assert_int_equal(json_object_array_length(calls), 1);
    check_call(json_object_array_get_idx(calls, 0));
    check_text(c, "finish_reason", "tool_calls");
    // "<think>", "\nZurich", "?\n" and "</think>"
    check_text(json_at(json_at(o, "usage"), "completion_tokens_details"), "reasoning_tokens", "4");
    json_object_put(o);
}

// Without tools, and where the request wants none, a call is text.
static void no_tools(void **state) {
    static const char *const bodies[] = {"{" HI "}",
                                         "{" HI "," WEATHER ",\"tool_choice\":\"none\"}"};
    static const char text[] = "I look. \n\n{\"name\": \"weather\", \"arguments\": " CITY "}\n";
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct json_object *o, *c = ask_chat(&s, bodies[i], &o), *m = json_at(c, "message");
        struct sv said = json_text_at(m, "content");
        assert_null(json_at(m, "tool_calls"));
        assert_true(sv_starts(said, sv("I look. \n")));
        assert_true(sv_find(said, sv("{\"name\": \"weather\""), 0) > 0);
        assert_true(said.n >= sizeof text - 1);
        check_text(c, "finish_reason", "stop");
        json_object_put(o);
    }
}

// Calls that were made go to the template as objects, whether they came as text or not.
static void history(void **state) {
    static const char *const arguments[] = {"{\"city\":\"Bern\"}",
                                            "\"{\\\"city\\\":\\\"Bern\\\"}\""};
    int64_t tokens[2];
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct json_object *o;
        struct str body = {0};
        str_printf(&body,
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\","
                   "\"content\":null,\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\","
                   "\"function\":{\"name\":\"weather\",\"arguments\":%s}}]},{\"role\":\"tool\","
                   "\"tool_call_id\":\"a\",\"content\":\"rain\"}]," WEATHER "}",
                   arguments[i]);
        ask_chat(&s, body.p, &o);
        tokens[i] = json_int_at(json_at(o, "usage"), "prompt_tokens", -1);
        json_object_put(o);
        str_free(&body);
    }
    assert_int_equal(tokens[0], tokens[1]);
}

// Calls fn for every event of a stream but the last, which must be [DONE].
static void each_event(const struct answer *a, void (*fn)(struct json_object *c, void *to),
                       void *to) {
    struct sv rest = str_sv(&a->body);
    while (!sv_is(rest, "data: [DONE]\n\n")) {
        ptrdiff_t end = sv_find(rest, sv("\n\n"), 0);
        assert_true(sv_starts(rest, sv("data: ")) && end > 0);
        struct json_object *o = json_of(sv_cut(rest, 6, (size_t)end));
        fn(choice(o), to);
        json_object_put(o);
        rest = sv_cut(rest, (size_t)end + 2, rest.n);
    }
}

struct stream {
    struct str reasoning, alias, content, name, arguments, finish;
    int ids;
};

static void gather(struct json_object *c, void *to) {
    struct stream *t = to;
    struct json_object *d = json_at(c, "delta"), *calls = json_at(d, "tool_calls");
    str_add(&t->reasoning, json_text_at(d, "reasoning_content"));
    str_add(&t->alias, json_text_at(d, "reasoning"));
    str_add(&t->content, json_text_at(d, "content"));
    str_add(&t->finish, json_text_at(c, "finish_reason"));
    if (!calls) return;
    struct json_object *call = json_object_array_get_idx(calls, 0), *f = json_at(call, "function");
    assert_int_equal(json_int_at(call, "index", -1), 0);
    if (json_at(call, "id")) t->ids++;
    str_add(&t->name, json_text_at(f, "name"));
    str_add(&t->arguments, json_text_at(f, "arguments"));
}

static void stream(void **state) {
    struct answer a;
    struct stream t = {0};
    (void)state;
    post(&s, &a, CHAT, "{" HI "," WEATHER ",\"stream\":true}");
    assert_int_equal(a.status, 200);
    each_event(&a, gather, &t);
    assert_string_equal(str_c(&t.reasoning), "Zurich?");
    assert_string_equal(str_c(&t.alias), "Zurich?");
    assert_string_equal(str_c(&t.content), "I look.");
    assert_string_equal(str_c(&t.name), "weather");
    assert_string_equal(str_c(&t.arguments), CITY);
    assert_string_equal(str_c(&t.finish), "tool_calls");
    assert_int_equal(t.ids, 1);
    struct str *const texts[] = {&t.reasoning, &t.alias,     &t.content,
                                 &t.name,      &t.arguments, &t.finish};
    for (size_t i = 0; i < 6; i++) str_free(texts[i]);
    answer_free(&a);
}

// The model would answer again after its end; with one call wanted nothing of that is computed.
static void one_call(void **state) {
    struct json_object *o;
    (void)state;
    struct json_object *c = ask_chat(
        &s,
        "{" HI "," WEATHER ",\"ignore_eos\":true,\"max_tokens\":60,\"parallel_tool_calls\":false}",
        &o);
    struct json_object *calls = json_at(json_at(c, "message"), "tool_calls");
    assert_int_equal(json_object_array_length(calls), 1);
    check_text(c, "finish_reason", "tool_calls");
    json_object_put(o);
}

// A call that is cut is text after all.
static void cut(void **state) {
    struct json_object *o;
    (void)state;
    struct json_object *c = ask_chat(&s, "{" HI "," WEATHER ",\"max_tokens\":16}", &o);
    struct json_object *m = json_at(c, "message");
    assert_null(json_at(m, "tool_calls"));
    assert_true(sv_find(json_text_at(m, "content"), sv("<tool_call>\n{\"name\": \"weather\""), 0) >
                0);
    check_text(c, "finish_reason", "length");
    json_object_put(o);
}

// Template variables: the server's, and the request's, which win.
static void thinking(void **state) {
    static const struct {
        const char *more;
        int tokens; // of "effort LEVEL\n" or of thinking that is off
    } cases[] = {
        {"", 11},
        {",\"reasoning_effort\":\"high\"", 12},
        {",\"chat_template_kwargs\":{\"reasoning_effort\":\"x\"}", 9},
    };
    int64_t plain = 0;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct json_object *o;
        struct str body = {0};
        str_printf(&body, "{" HI ",\"max_tokens\":1%s}", cases[i].more);
        ask_chat(&s, body.p, &o);
        int64_t n = json_int_at(json_at(o, "usage"), "prompt_tokens", 0) - cases[i].tokens;
        if (!i) plain = n;
        assert_int_equal(n, plain);
        json_object_put(o);
        str_free(&body);
    }
}

static void formats(void **state) {
    struct server other;
    struct json_object *o, *m;
    (void)state;
    server_start(&other, ARGS("-m", MODEL_TOOLS, "--reasoning-alias-field", "none"));
    m = json_at(ask_chat(&other, "{" HI "}", &o), "message");
    check_text(m, "reasoning_content", "Zurich?");
    check_text(m, "reasoning", NULL);
    json_object_put(o);
    assert_int_equal(server_stop(&other), 0);
    server_start(&other, ARGS("-m", MODEL_TOOLS, "--reasoning-format", "none"));
    m = json_at(ask_chat(&other, "{" HI "," WEATHER "}", &o), "message");
    check_text(m, "reasoning_content", NULL);
    check_text(m, "content", "<think>\nZurich?\n</think>\n\nI look.");
    assert_int_equal(json_object_array_length(json_at(m, "tool_calls")), 1);
    json_object_put(o);
    assert_int_equal(server_stop(&other), 0);
}

#define FUNCTION(name, more) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"" more "}}"
#define STRICT                                                                                        \
    ",\"strict\":true,\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"enum\":["       \
    "\"Oslo\",\"Bern\"]},\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":9}},\"required\":[" \
    "\"city\",\"days\"],\"additionalProperties\":false}"
#define HOT ",\"temperature\":2,\"max_tokens\":900,\"seed\":7"

static bool one_of_names(struct sv name, const char *names) {
    for (size_t i = 0; args_word(names, i).n; i++)
        if (sv_eq(name, args_word(names, i))) return true;
    return false;
}

// At a temperature at which everything comes that may, calls are of the functions named, with
// arguments that their schemas allow.
static void check_forced(const struct server *from) {
    static const struct {
        const char *body, *names;
        bool text; // an answer may be one
    } cases[] = {
        {"\"tools\":[" FUNCTION("a", STRICT) "," FUNCTION("b", "") "],\"tool_choice\":\"required\"",
         "a b", false},
        {"\"tools\":[" FUNCTION("a", STRICT) "," FUNCTION("b", "") "],\"tool_choice\":" FUNCTION(
             "b", ""),
         "b", false},
        {"\"tools\":[" FUNCTION("a", STRICT) "," FUNCTION("b", "") "," FUNCTION(
             "c",
             "") "],\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"required\","
                 "\"tools\":[" FUNCTION("a", "") "," FUNCTION("c", "") "]}}",
         "a c", false},
        {"\"tools\":[" FUNCTION("a", STRICT) "],\"parallel_tool_calls\":false", "a", true},
        {"\"tools\":[" FUNCTION("a", STRICT) "],\"response_format\":{\"type\":\"json_object\"}",
         "a", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str body = {0};
        struct json_object *o;
        int made = 0;
        str_printf(&body, "{" HI ",%s" HOT ",\"n\":4}", cases[i].body);
        ask_chat(from, body.p, &o);
        struct json_object *choices = json_at(o, "choices");
        for (size_t k = 0; k < json_object_array_length(choices); k++) {
            struct json_object *c = json_object_array_get_idx(choices, k);
            struct json_object *calls = json_at(json_at(c, "message"), "tool_calls");
            bool ended = !sv_is(json_text_at(c, "finish_reason"), "length");
            if (!cases[i].text && ended) check_text(json_at(c, "message"), "content", NULL);
            if (!cases[i].text && ended) check_text(c, "finish_reason", "tool_calls");
            for (size_t n = 0; calls && n < json_object_array_length(calls); n++) {
                struct json_object *f = json_at(json_object_array_get_idx(calls, n), "function");
                struct json_object *arguments = json_of(json_text_at(f, "arguments"));
                struct sv name = json_text_at(f, "name"), city = json_text_at(arguments, "city");
                int64_t days = json_int_at(arguments, "days", 0);
                bool strict = sv_is(name, "a");
                assert_true(one_of_names(name, cases[i].names));
                assert_int_equal(json_object_object_length(arguments), strict ? 2 : 0);
                if (strict) assert_true(sv_is(city, "Oslo") || sv_is(city, "Bern"));
                if (strict) assert_true(days >= 1 && days <= 9);
                json_object_put(arguments);
                made++;
            }
        }
        assert_true(made > 0);
        json_object_put(o);
        str_free(&body);
    }
}

static void forced(void **state) {
    (void)state;
    check_forced(&s);
}

static void refused(void **state) {
    static const struct {
        const char *body, *param, *why;
    } cases[] = {
        {"\"tool_choice\":\"required\"", "tool_choice", "no tools"},
        {"\"tools\":[" FUNCTION("a", "") "],\"tool_choice\":\"maybe\"", "tool_choice", "must be"},
        {"\"tools\":[" FUNCTION("a", "") "],\"tool_choice\":" FUNCTION("b", ""), "tool_choice",
         "\"b\", which is not in"},
        {"\"tools\":[" FUNCTION("a", ",\"strict\":true,\"parameters\":{\"not\":{}}") "]", "tools",
         "tools[0]: JSON schema, #/not"},
        {"\"tools\":[" FUNCTION("a b", "") "],\"tool_choice\":\"required\"", "tools", "a name is"},
        {"\"tools\":[" FUNCTION("a", ",\"strict\":1") "]", "strict", "must be a boolean"},
        {"\"tools\":[" FUNCTION("a", "") "],\"tool_choice\":\"required\",\"ignore_eos\":true",
         "tools", "exclude"},
        {"\"tools\":[{\"function\":{\"name\":\"a\"}}]", "tools", "tools[0].type is missing"},
        {"\"tools\":[{\"type\":\"f\"}]", "tools", "tools[0].type is \"f\""},
        {"\"functions\":[{\"name\":\"a\"}]", "functions", "give \"tools\""},
        {"\"function_call\":\"auto\"", "function_call", "give \"tool_choice\""},
        {"\"prompt_logprobs\":1", "prompt_logprobs", "not supported by this server"},
        {"\"guided_choice\":[]", "guided_choice", "a list of strings"},
        {"\"structured_outputs\":{\"structural_tag\":\"x\"}", "structured_outputs",
         "is not supported"},
        {"\"structured_outputs\":{\"json\":\"{\"}", "structured_outputs", "structured_outputs"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct answer a;
        struct str body = {0};
        str_printf(&body, "{" HI ",%s}", cases[i].body);
        post(&s, &a, CHAT, body.p);
        struct json_object *o = json_of(str_sv(&a.body)), *e = json_at(o, "error");
        if (a.status != 400 || !sv_is(json_text_at(e, "param"), cases[i].param) ||
            sv_find(json_text_at(e, "message"), sv(cases[i].why), 0) < 0)
            fail_msg("%s: %d %s", body.p, a.status, str_c(&a.body));
        json_object_put(o);
        str_free(&body);
        answer_free(&a);
    }
}

// vLLM's choices.
static void choices(void **state) {
    static const char *const bodies[] = {"\"guided_choice\":[\"y+s\",\"no\"]",
                                         "\"structured_outputs\":{\"choice\":[\"y+s\",\"no\"]}"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct str body = {0};
        struct json_object *o;
        str_printf(&body, "{" HI ",%s" HOT "}", bodies[i]);
        struct sv said = json_text_at(json_at(ask_chat(&s, body.p, &o), "message"), "content");
        assert_true(sv_is(said, "y+s") || sv_is(said, "no"));
        json_object_put(o);
        str_free(&body);
    }
}

// Stop strings are not looked for in what a model thinks, nor in its calls or marks.
static void stops(void **state) {
    struct json_object *o, *c, *m;
    (void)state;
    c = ask_chat(&s, "{" HI "," WEATHER ",\"stop\":[\"?\",\"name\",\"<\",\"{\"]}", &o);
    m = json_at(c, "message");
    check_text(m, "reasoning_content", "Zurich?");
    check_text(m, "content", "I look.");
    check_call(json_object_array_get_idx(json_at(m, "tool_calls"), 0));
    check_text(c, "finish_reason", "tool_calls");
    json_object_put(o);
    c = ask_chat(&s, "{" HI "," WEATHER ",\"stop\":\"k.\"}", &o);
    check_text(json_at(c, "message"), "content", "I loo");
    assert_null(json_at(json_at(c, "message"), "tool_calls"));
    check_text(c, "finish_reason", "stop");
    json_object_put(o);
}

// --- a model whose template has no format of calls -----------------------------------------------

static void gather_text(struct json_object *c, void *to) {
    struct json_object *d = json_at(c, "delta");
    str_add(to, json_text_at(d, "content"));
    assert_null(json_at(d, "tool_calls"));
}

// An answer comes without its object, whole and streamed, in every API.
static void generic_answers(const struct server *g) {
    static const char *const apis[][2] = {
        {"/v1/messages", "{" HI ",\"max_tokens\":30,\"tools\":[{\"name\":\"f\",\"input_schema\":{"
                         "\"type\":\"object\"}}]}"},
        {"/v1/responses", "{\"input\":\"Hi\",\"max_output_tokens\":30,\"tools\":[{\"type\":"
                          "\"function\",\"name\":\"f\"}]}"},
    };
    struct json_object *o;
    struct answer a;
    struct str text = {0};
    struct json_object *m =
        json_at(ask_chat(g, "{" HI "," WEATHER ",\"seed\":1,\"max_tokens\":40}", &o), "message");
    struct sv said = json_text_at(m, "content");
    if (!json_at(m, "tool_calls")) assert_true(said.n && !sv_starts(said, sv("{\"response\"")));
    post(g, &a, CHAT, "{" HI "," WEATHER ",\"seed\":1,\"max_tokens\":40,\"stream\":true}");
    each_event(&a, gather_text, &text);
    assert_true(sv_eq(str_sv(&text), said));
    answer_free(&a);
    str_free(&text);
    json_object_put(o);
    for (size_t i = 0; i < 2; i++) {
        post(g, &a, apis[i][0], apis[i][1]);
        if (a.status != 200 || sv_find(str_sv(&a.body), sv("{\\\"response\\\""), 0) >= 0)
            fail_msg("%s: %d %s", apis[i][0], a.status, str_c(&a.body));
        answer_free(&a);
    }
}

// The model is told of the tools, and of what came of calls, in roles that it knows.
static void generic_prompt(const struct server *g) {
    struct answer a;
    post(g, &a, "/apply-template",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\","
         "\"content\":null,\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\",\"function\":{"
         "\"name\":\"weather\",\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"a\","
         "\"content\":\"rain\"}]," WEATHER "}");
    struct json_object *o = json_of(str_sv(&a.body));
    struct sv prompt = json_text_at(o, "prompt");
    assert_true(sv_starts(prompt, sv("<|im_start|>system\n")));
    assert_true(sv_find(prompt, sv("{\"name\":\"weather\",\"parameters\":"), 0) > 0);
    assert_true(sv_find(prompt, sv("<|im_start|>user\n{\"tool_result\""), 0) > 0);
    assert_true(sv_find(prompt, sv("<|im_start|>tool"), 0) < 0);
    json_object_put(o);
    answer_free(&a);
}

static void generic_continued(const struct server *g) {
    static const char said[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":"
                               "\"assistant\",\"content\":\"I\"}],\"continue_final_message\":true,"
                               "\"max_tokens\":4," WEATHER "%s}";
    struct json_object *o;
    struct answer a;
    struct str body = {0};
    str_printf(&body, said, "");
    assert_null(json_at(json_at(ask_chat(g, body.p, &o), "message"), "tool_calls"));
    json_object_put(o);
    str_clear(&body);
    str_printf(&body, said, ",\"tool_choice\":\"required\"");
    post(g, &a, CHAT, body.p);
    assert_int_equal(a.status, 400);
    assert_true(sv_find(str_sv(&a.body), sv("end with a user's message"), 0) > 0);
    answer_free(&a);
    str_free(&body);
}

// One call is made where the request doesn't say that there may be more.
static void generic_calls(const struct server *g) {
    struct json_object *o;
    struct json_object *c = ask_chat(
        g, "{" HI "," WEATHER ",\"tool_choice\":\"required\",\"seed\":3,\"max_tokens\":900}", &o);
    struct json_object *calls = json_at(json_at(c, "message"), "tool_calls");
    assert_int_equal(json_object_array_length(calls), 1);
    check_text(c, "finish_reason", "tool_calls");
    json_object_put(o);
}

// Stop strings are looked for in the text that the client sees: not in the object around it.
#define NO_STOPS "[\":\",\"{\",\"\\\"\",\"\\n\",\"\\t\",\"response\"]"

// Gathers the text of an event of any API.
static void gather_said(struct json_object *event, struct str *to) {
    struct sv type = json_text_at(event, "type");
    struct json_object *d = json_at(event, "delta");
    struct json_object *choices = json_at(event, "choices");
    if (sv_is(type, "response.output_text.delta")) str_add(to, json_text(d));
    if (sv_is(type, "content_block_delta")) str_add(to, json_text_at(d, "text"));
    if (choices)
        str_add(to,
                json_text_at(json_at(json_object_array_get_idx(choices, 0), "delta"), "content"));
}

static void each_said(const struct answer *a, struct str *text) {
    struct sv rest = str_sv(&a->body);
    for (ptrdiff_t at; (at = sv_find(rest, sv("data: {"), 0)) >= 0;) {
        rest = sv_cut(rest, (size_t)at + 6, rest.n);
        struct json_object *o = json_of(sv_cut(rest, 0, (size_t)sv_find(rest, sv("\n"), 0)));
        gather_said(o, text);
        json_object_put(o);
    }
}

static void generic_stops(const struct server *g) {
    static const struct {
        const char *path, *tools, *stop, *stopped;
    } apis[] = {
        {CHAT, HI ",\"max_tokens\":60," WEATHER, "stop", "\"finish_reason\":\"stop\""},
        {"/v1/messages",
         HI
         ",\"max_tokens\":60,\"tools\":[{\"name\":\"f\",\"input_schema\":{\"type\":\"object\"}}]",
         "stop_sequences", "\"stop_sequence\":\"rld\""},
        {"/v1/responses",
         "\"input\":\"Hi\",\"max_output_tokens\":60,\"tools\":[{\"type\":\"function\",\"name\":\"f\"}]",
         "stop", "\"status\":\"completed\""},
    };
    static const struct {
        const char *stop, *text;
        bool stopped;
    } cases[] = {
        {"[\"zz\",\"rld\"]", "Hello, w\xc3\xb6", true},
        {NO_STOPS, "Hello, w\xc3\xb6rld!", false},
    };
    for (size_t i = 0; i < 3 * 2 * 2; i++) {
        size_t api = i / 4, k = i / 2 % 2;
        bool stream = i % 2, stopped;
        struct str body = {0}, text = {0};
        struct answer a;
        str_printf(&body, "{%s,\"temperature\":0,\"%s\":%s,\"stream\":%s}", apis[api].tools,
                   apis[api].stop, cases[k].stop, stream ? "true" : "false");
        post(g, &a, apis[api].path, body.p);
        if (stream)
            each_said(&a, &text);
        else
            str_printf(&text, cases[k].stopped ? "\"%s\"" : "\"%s", cases[k].text);
        stopped = sv_find(str_sv(&a.body), sv(apis[api].stopped), 0) >= 0;
        bool said = stream ? sv_starts(str_sv(&text), sv(cases[k].text)) &&
                                 (!cases[k].stopped || text.n == strlen(cases[k].text))
                           : sv_find(str_sv(&a.body), str_sv(&text), 0) >= 0;
        if (a.status != 200 || !said || stopped != cases[k].stopped)
            fail_msg("%s: %d %s", body.p, a.status, str_c(&a.body));
        str_free(&body);
        str_free(&text);
        answer_free(&a);
    }
}

// The tokens of the text have chances, those of the object around it have none.
static void gather_bytes(struct json_object *c, void *to) {
    struct json_object *list = json_at(json_at(c, "logprobs"), "content");
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct json_object *bytes = json_at(json_object_array_get_idx(list, i), "bytes");
        for (size_t k = 0; k < json_object_array_length(bytes); k++)
            str_addc(to, (char)json_object_get_int(json_object_array_get_idx(bytes, k)));
    }
}

static void generic_chances(const struct server *g) {
#define CHANCES "{" HI "," WEATHER ",\"temperature\":0,\"max_tokens\":47,\"logprobs\":true"
    static const char *const stops[] = {"", ",\"stop\":\"rld\""};
    for (size_t i = 0; i < 4; i++) {
        struct str body = {0}, bytes = {0}, text = {0};
        str_printf(&body, CHANCES "%s%s}", stops[i / 2], i % 2 ? ",\"stream\":true" : "");
        if (i % 2) {
            struct answer a;
            post(g, &a, CHAT, body.p);
            each_event(&a, gather_bytes, &bytes);
            each_event(&a, gather_text, &text);
            answer_free(&a);
        } else {
            struct json_object *o, *c = ask_chat(g, body.p, &o);
            gather_bytes(c, &bytes);
            str_add(&text, json_text_at(json_at(c, "message"), "content"));
            json_object_put(o);
        }
        assert_true(text.n > 0);
        assert_string_equal(str_c(&bytes), str_c(&text));
        struct str *const texts[] = {&body, &bytes, &text};
        for (size_t k = 0; k < 3; k++) str_free(texts[k]);
    }
}

// A call that is cut, and white space before an answer, are no text.
static void generic_cut(const struct server *g) {
    bool argued = false;
    for (int tokens = 1; tokens < 400; tokens += 19) {
        struct str body = {0};
        struct stream t = {0};
        struct json_object *o;
        struct answer a;
        str_printf(
            &body,
            "{" HI ",\"tools\":[" FUNCTION(
                "weather",
                ",\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{"
                "\"type\":\"string\",\"minLength\":200}},\"required\":[\"city\"]}") "],\"tool_choice\":\"required\",\"temperature\":0,\"max_tokens\":%d",
            tokens);
        size_t n = body.n;
        str_addc(&body, '}');
        struct json_object *c = ask_chat(g, body.p, &o);
        check_text(c, "finish_reason", "length");
        check_text(json_at(c, "message"), "content", "");
        assert_null(json_at(json_at(c, "message"), "tool_calls"));
        body.n = n;
        str_puts(&body, ",\"stream\":true}");
        post(g, &a, CHAT, body.p);
        each_event(&a, gather, &t);
        assert_int_equal(t.content.n, 0);
        assert_string_equal(str_c(&t.finish), "length");
        argued |= t.arguments.n > 9;
        struct str *const texts[] = {&t.reasoning, &t.alias,  &t.content, &t.name,
                                     &t.arguments, &t.finish, &body};
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) str_free(texts[k]);
        json_object_put(o);
        answer_free(&a);
    }
    assert_true(argued);
}

static void generic(void **state) {
    struct server g;
    (void)state;
    server_start(&g, ARGS("-m", MODEL, "--responses-store-max-entries", "0"));
    generic_answers(&g);
    generic_prompt(&g);
    generic_continued(&g);
    generic_calls(&g);
    generic_stops(&g);
    generic_chances(&g);
    generic_cut(&g);
    check_forced(&g);
    assert_int_equal(server_stop(&g), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_answer), cmocka_unit_test(no_tools), cmocka_unit_test(history),
        cmocka_unit_test(stream),       cmocka_unit_test(one_call), cmocka_unit_test(cut),
        cmocka_unit_test(thinking),     cmocka_unit_test(formats),  cmocka_unit_test(forced),
        cmocka_unit_test(refused),      cmocka_unit_test(choices),  cmocka_unit_test(generic),
        cmocka_unit_test(stops),
    };
    return cmocka_run_group_tests_name("server tools", tests, start, stop);
}
