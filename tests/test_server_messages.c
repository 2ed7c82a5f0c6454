// mlxcel-server: Anthropic's Messages API. What a prompt comes to is compared with OpenAI's API, by
// the number of its tokens; what is said is that of tests/fixtures/text and tests/fixtures/tools.
#include "server_client.h"

#define MODEL_TOOLS (FIXTURES "/tools")
#define MESSAGES    "/v1/messages"
#define COUNT       "/v1/messages/count_tokens"
#define TOOL        "{\"name\":\"weather\",\"input_schema\":{\"type\":\"object\"}}"
#define FUNCTION                                                                                   \
    "{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{\"type\":\"object\"}}}"
#define CITY "{\"city\": \"Z\xc3\xbcrich\"}"

static struct server text, tools; // with either checkpoint

static int start(void **state) {
    (void)state;
    server_start(&text, ARGS("-m", MODEL));
    server_start(&tools, ARGS("-m", MODEL_TOOLS));
    return 0;
}

static int stop(void **state) {
    (void)state;
    return server_stop(&text) | server_stop(&tools);
}

static struct json_object *ask_good(const struct server *s, const char *path, const char *body) {
    struct answer a;
    post(s, &a, path, body);
    if (a.status != 200) fail_msg("%s: %d %s", body, a.status, str_c(&a.body));
    struct json_object *o = json_of(str_sv(&a.body));
    answer_free(&a);
    return o;
}

static void check_is(struct json_object *o, const char *name, const char *want) {
    struct json_object *v = json_at(o, name);
    const char *got = v ? json_object_get_string(v) : "null";
    if (strcmp(got, want) != 0) fail_msg("\"%s\" is %s, not %s", name, got, want);
}

static struct json_object *block(struct json_object *message, size_t i) {
    return json_object_array_get_idx(json_at(message, "content"), i);
}

// Tokens of a prompt, wherever they came from.
static int64_t input_of(struct json_object *message) {
    struct json_object *usage = json_at(message, "usage");
    return json_int_at(usage, "input_tokens", -1) +
           json_int_at(usage, "cache_read_input_tokens", -1);
}

// --- whole answers -------------------------------------------------------------------------------

static void whole(void **state) {
    struct answer a;
    (void)state;
    post(&text, &a, MESSAGES, "{\"model\":\"any\",\"max_tokens\":100," HI "}");
    assert_int_equal(a.status, 200);
    assert_true(sv_find(str_sv(&a.head), sv("\r\nRequest-Id: req_"), 0) > 0);
    struct json_object *o = json_of(str_sv(&a.body)), *usage = json_at(o, "usage");
    assert_true(sv_starts(json_text_at(o, "id"), sv("msg_")));
    check_is(o, "type", "message");
    check_is(o, "role", "assistant");
    check_is(o, "model", "text");
    check_is(o, "stop_reason", "end_turn");
    check_is(o, "stop_sequence", "null");
    assert_int_equal(json_object_array_length(json_at(o, "content")), 1);
    check_is(block(o, 0), "type", "text");
    check_is(block(o, 0), "text", GREETING);
    check_is(usage, "input_tokens", "21");
    check_is(usage, "output_tokens", "13");
    check_is(usage, "cache_creation_input_tokens", "0");
    check_is(usage, "cache_read_input_tokens", "0");
    json_object_put(o);
    answer_free(&a);
}

static void ends(void **state) {
    static const struct {
        const char *fields, *text, *reason, *sequence;
    } cases[] = {
        {"\"max_tokens\":3", "Hello, w", "max_tokens", "null"},
        {"\"max_tokens\":50,\"stop_sequences\":[\"!\",\"rld\"]", "Hello, w\xc3\xb6",
         "stop_sequence", "rld"},
        {"\"max_tokens\":50,\"stop_sequences\":[\"zz\"]", GREETING, "end_turn", "null"},
        {"\"max_tokens\":1e9,\"ignore_eos\":true,\"n\":3,\"stop\":\"H\"", NULL,
         "model_context_window_exceeded", "null"},
    };
    struct server small;
    (void)state;
    server_start(&small, ARGS("-m", MODEL, "-c", "512", "-np", "1"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str body = {0};
        str_printf(&body, "{" HI ",%s}", cases[i].fields);
        struct json_object *o = ask_good(&small, MESSAGES, body.p);
        if (cases[i].text) check_is(block(o, 0), "text", cases[i].text);
        check_is(o, "stop_reason", cases[i].reason);
        check_is(o, "stop_sequence", cases[i].sequence);
        json_object_put(o);
        str_free(&body);
    }
    assert_int_equal(server_stop(&small), 0);
}

static void cached(void **state) {
    static const char body[] = "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":"
                               "\"A text of more tokens than a page of the cache has, so that the "
                               "next one that begins like it finds some of them there.\"}]}";
    (void)state;
    struct json_object *first = ask_good(&text, MESSAGES, body);
    struct json_object *second = ask_good(&text, MESSAGES, body);
    assert_true(json_int_at(json_at(second, "usage"), "cache_read_input_tokens", 0) >= 32);
    assert_int_equal(input_of(first), input_of(second));
    json_object_put(first);
    json_object_put(second);
}

static void calls(void **state) {
    (void)state;
    struct json_object *o =
        ask_good(&tools, MESSAGES, "{\"max_tokens\":99," HI ",\"tools\":[" TOOL "]}");
    check_is(o, "stop_reason", "tool_use");
    assert_int_equal(json_object_array_length(json_at(o, "content")), 3);
    check_is(block(o, 0), "type", "thinking");
    check_is(block(o, 0), "thinking", "Zurich?");
    check_is(block(o, 0), "signature", "");
    check_is(block(o, 1), "text", "I look.");
    check_is(block(o, 2), "type", "tool_use");
    check_is(block(o, 2), "name", "weather");
    assert_true(sv_starts(json_text_at(block(o, 2), "id"), sv("toolu_")));
    check_is(json_at(block(o, 2), "input"), "city", "Z\xc3\xbcrich");
    check_is(json_at(json_at(o, "usage"), "output_tokens_details"), "thinking_tokens", "4");
    json_object_put(o);
    o = ask_good(&tools, MESSAGES,
                 "{\"max_tokens\":99," HI ",\"tools\":[" TOOL
                 "],\"tool_choice\":{\"type\":\"none\"}}");
    check_is(o, "stop_reason", "end_turn");
    check_is(block(o, 1), "type", "text"); // the call's
    json_object_put(o);
}

static void forced(void **state) {
    static const char *const choices[] = {"{\"type\":\"any\"}",
                                          "{\"type\":\"tool\",\"name\":\"weather\"}"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct str body = {0};
        str_printf(&body,
                   "{\"max_tokens\":99,\"seed\":1," HI ",\"tools\":[" TOOL "],\"tool_choice\":%s}",
                   choices[i]);
        struct json_object *o = ask_good(&tools, MESSAGES, body.p);
        size_t n = json_object_array_length(json_at(o, "content"));
        check_is(o, "stop_reason", "tool_use");
        check_is(block(o, n - 1), "name", "weather");
        json_object_put(o);
        str_free(&body);
    }
}

// --- streams -------------------------------------------------------------------------------------

struct stream {
    struct str events; // their types, but for repeated deltas
    struct str content, reason;
    int64_t index, input, output;
};

static void take_event(struct stream *t, struct sv name, struct json_object *o) {
    struct json_object *delta = json_at(o, "delta");
    struct sv type = json_text_at(delta, "type");
    if (!type.n) type = json_text_at(json_at(o, "content_block"), "type");
    assert_true(sv_eq(json_text_at(o, "type"), name));
    if (sv_is(name, "content_block_start")) t->index++;
    if (json_at(o, "index")) assert_int_equal(json_int_at(o, "index", -1), t->index);
    struct str entry = {0};
    str_add(&entry, name);
    if (type.n) str_printf(&entry, ":%.*s", (int)type.n, type.p);
    str_addc(&entry, ' ');
    if (!sv_ends(str_sv(&t->events), str_sv(&entry))) str_add(&t->events, str_sv(&entry));
    str_free(&entry);
    static const char *const texts[] = {"text", "thinking", "partial_json"};
    for (size_t i = 0; i < 3; i++) str_add(&t->content, json_text_at(delta, texts[i]));
    str_add(&t->reason, json_text_at(delta, "stop_reason"));
    if (sv_is(name, "message_start")) t->input = input_of(json_at(o, "message"));
    if (!sv_is(name, "message_delta")) return;
    assert_int_equal(input_of(o), t->input);
    t->output = json_int_at(json_at(o, "usage"), "output_tokens", -1);
}

static void read_stream(struct stream *t, struct sv rest) {
    *t = (struct stream){.index = -1};
    while (rest.n) {
        ptrdiff_t line = sv_find(rest, sv("\ndata: "), 0), end = sv_find(rest, sv("\n\n"), 0);
        assert_true(sv_starts(rest, sv("event: ")) && line > 0 && end > line);
        struct json_object *o = json_of(sv_cut(rest, (size_t)line + 7, (size_t)end));
        take_event(t, sv_cut(rest, 7, (size_t)line), o);
        json_object_put(o);
        rest = sv_cut(rest, (size_t)end + 2, rest.n);
    }
}

static void check_stream(const struct server *s, const char *fields, const char *events,
                         const char *content, const char *reason, int64_t output) {
    struct answer a;
    struct stream t;
    struct str body = {0};
    str_printf(&body, "{\"stream\":true," HI ",%s}", fields);
    post(s, &a, MESSAGES, body.p);
    assert_int_equal(a.status, 200);
    assert_true(a.whole && has_header(&a, "Content-Type: text/event-stream"));
    read_stream(&t, str_sv(&a.body));
    assert_string_equal(t.events.p, events);
    assert_string_equal(str_c(&t.content), content);
    assert_string_equal(t.reason.p, reason);
    assert_int_equal(t.output, output);
    str_free(&t.events);
    str_free(&t.content);
    str_free(&t.reason);
    str_free(&body);
    answer_free(&a);
}

#define BEGIN "message_start ping "
#define END   "message_delta message_stop "
#define THOUGHT                                                                                    \
    "content_block_start:thinking content_block_delta:thinking_delta "                             \
    "content_block_delta:signature_delta content_block_stop "
#define SAID "content_block_start:text content_block_delta:text_delta content_block_stop "
#define CALLED                                                                                     \
    "content_block_start:tool_use content_block_delta:input_json_delta content_block_stop "

static void streams(void **state) {
    (void)state;
    check_stream(&text, "\"max_tokens\":100", BEGIN SAID END, GREETING, "end_turn", 13);
    check_stream(&text, "\"max_tokens\":100,\"stop_sequences\":[\"Hello\"]", BEGIN END, "",
                 "stop_sequence", 1);
    check_stream(&tools, "\"max_tokens\":100,\"tools\":[" TOOL "]", BEGIN THOUGHT SAID CALLED END,
                 "Zurich?I look." CITY, "tool_use", 22);
}

// A call that never became whole is text, and no block was begun for it.
static void lost_call(void **state) {
    struct stream t;
    struct answer a;
    (void)state;
    post(&tools, &a, MESSAGES, "{\"stream\":true,\"max_tokens\":16," HI ",\"tools\":[" TOOL "]}");
    read_stream(&t, str_sv(&a.body));
    assert_string_equal(t.events.p, BEGIN THOUGHT SAID END);
    assert_true(sv_find(str_sv(&t.content), sv("\"name\": \"weather\""), 0) > 0);
    assert_string_equal(t.reason.p, "max_tokens");
    str_free(&t.events);
    str_free(&t.content);
    str_free(&t.reason);
    answer_free(&a);
}

// The server stops: the stream says so.
static void lost_stream(void **state) {
    static const char body[] = "{\"stream\":true,\"max_tokens\":1e9,\"ignore_eos\":true," HI "}";
    struct server other;
    struct str all = {0};
    (void)state;
    server_start(&other, ARGS("-m", MODEL, "--drain-timeout", "0"));
    int fd = client_open(&other);
    client_ask(fd, "POST", MESSAGES, "", sv(body));
    client_take_until(fd, &all, "event: message_start");
    kill(other.pid, SIGTERM);
    while (client_take(fd, &all)) continue;
    if (sv_find(
            str_sv(&all),
            sv("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":"
               "\"overloaded_error\",\"message\":\"the server is stopping\"},\"request_id\":\"req_"),
            0) < 0)
        fail_msg("no error: %s", all.p + all.n - 200);
    close(fd);
    str_free(&all);
    assert_int_equal(server_end(&other), 0);
}

// --- prompts -------------------------------------------------------------------------------------

// Each prompt of Anthropic's is the one that OpenAI's API makes.
static void prompts(void **state) {
#define USER(text)      "{\"role\":\"user\",\"content\":" text "}"
#define ASSISTANT(text) "{\"role\":\"assistant\",\"content\":" text "}"
#define PART(text)      "{\"type\":\"text\",\"text\":\"" text "\"}"
    static const struct {
        const char *anthropic, *openai;
    } cases[] = {
        {"\"messages\":[" USER("\"Hi\"") "]", "\"messages\":[" USER("\"Hi\"") "]"},
        {"\"system\":\"Be brief\",\"messages\":[" USER("\"Hi\"") "]",
         "\"messages\":[{\"role\":\"system\",\"content\":\"Be brief\"}," USER("\"Hi\"") "]"},
        {"\"system\":[" PART("Be") "," PART("brief") "],\"messages\":[" USER(
             "[" PART("Hi") "]") "]",
         "\"messages\":[{\"role\":\"system\",\"content\":\"Be\\nbrief\"}," USER("\"Hi\"") "]"},
        // Turns of one role are one turn.
        {"\"messages\":[" USER("\"Hi\"") "," USER("\"there\"") "," ASSISTANT("\"Ho\"") "," USER(
             "\"x\"") "]",
         "\"messages\":[" USER("\"Hi\\nthere\"") "," ASSISTANT("\"Ho\"") "," USER("\"x\"") "]"},
        // The model goes on with what it is said to have begun.
        {"\"messages\":[" USER("\"Hi\"") "," ASSISTANT("\"Well\"") "]",
         "\"messages\":[" USER("\"Hi\"") "," ASSISTANT(
             "\"Well\"") "],\"continue_final_message\":true"},
        {"\"messages\":[" USER("\"Hi\"") "],\"tools\":[" TOOL "]",
         "\"messages\":[" USER("\"Hi\"") "],\"tools\":[" FUNCTION "]"},
        {"\"messages\":[" USER("\"Hi\"") "],\"thinking\":{\"type\":\"disabled\"}",
         "\"messages\":[" USER("\"Hi\"") "],\"enable_thinking\":false"},
        {"\"messages\":[" USER("\"Hi\"") "],\"output_config\":{\"effort\":\"low\"}",
         "\"messages\":[" USER("\"Hi\"") "],\"reasoning_effort\":\"low\""},
        {"\"tools\":[" TOOL
         "],\"messages\":[" USER("\"Hi\"") "," ASSISTANT("[{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"\"}," PART("I look") ",{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"weather\",\"input\":{\"city\":\"Bern\"}}]") "," USER(
             "[{\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"content\":[" PART(
                 "rain") "]}," PART("And?") "]") "]",
         "\"tools\":[" FUNCTION "],\"messages\":[" USER(
             "\"Hi\"") ",{\"role\":\"assistant\",\"reasoning_content\":\"hm\",\"content\":\"I look\",\"tool_calls\":[{\"id\":\"a\","
                       "\"type\":\"function\",\"function\":{\"name\":\"weather\",\"arguments\":\"{\\\"city\\\":\\\"Bern\\\"}\"}}]},"
                       "{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"rain\"}," USER(
                           "\"And?\"") "]"},
        {"\"tools\":[" TOOL
         "],\"messages\":[" USER("\"Hi\"") "," ASSISTANT("[{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"weather\",\"input\":{}}]") "," USER(
             "[{\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"is_error\":true}]") "]",
         "\"tools\":[" FUNCTION "],\"messages\":[" USER(
             "\"Hi\"") ",{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\",\"function\":"
                       "{\"name\":\"weather\",\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"\"}]"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str body = {0};
        str_printf(&body, "{\"max_tokens\":1,%s}", cases[i].anthropic);
        struct json_object *o = ask_good(&tools, MESSAGES, body.p);
        struct json_object *count = ask_good(&tools, COUNT, body.p);
        str_clear(&body);
        str_printf(&body, "{\"max_tokens\":1,%s}", cases[i].openai);
        struct json_object *chat = ask_good(&tools, CHAT, body.p);
        int64_t want = json_int_at(json_at(chat, "usage"), "prompt_tokens", -1);
        if (input_of(o) != want) fail_msg("%s: %d tokens", cases[i].anthropic, (int)input_of(o));
        assert_int_equal(json_int_at(count, "input_tokens", -1), want);
        json_object_put(o);
        json_object_put(count);
        json_object_put(chat);
        str_free(&body);
    }
}

// A prompt that is too long is counted, and needs no max_tokens for it.
static void count_long(void **state) {
    struct server small;
    struct str body = {0};
    (void)state;
    server_start(&small, ARGS("-m", MODEL, "-c", "512", "-np", "1"));
    str_puts(&body, "{\"messages\":[{\"role\":\"user\",\"content\":\"");
    for (int i = 0; i < 600; i++) str_puts(&body, "12");
    str_puts(&body, "\"}]}");
    struct json_object *o = ask_good(&small, COUNT, body.p);
    assert_int_equal(json_int_at(o, "input_tokens", -1), 19 + 1200);
    json_object_put(o);
    str_free(&body);
    assert_int_equal(server_stop(&small), 0);
}

// Values that a schema says, within OpenAI's field for it.
static void schema(void **state) {
    (void)state;
    struct json_object *o =
        ask_good(&text, MESSAGES,
                 "{\"max_tokens\":20,\"seed\":1," HI ",\"output_config\":{\"format\":{\"type\":"
                 "\"json_schema\",\"schema\":{\"const\":7}}}}");
    check_is(block(o, 0), "text", "7");
    json_object_put(o);
}

// --- refusals ------------------------------------------------------------------------------------

static void check_error(const struct answer *a, int status, const char *type, const char *message) {
    if (a->status != status) fail_msg("status %d: %s", a->status, str_c(&a->body));
    struct json_object *o = json_of(str_sv(&a->body)), *e = json_at(o, "error");
    check_is(o, "type", "error");
    check_is(e, "type", type);
    struct sv why = json_text_at(e, "message");
    if (sv_find(why, sv(message), 0) < 0) fail_msg("\"%s\" does not say \"%s\"", why.p, message);
    struct str id = {0};
    str_printf(&id, "Request-Id: %s", json_object_get_string(json_at(o, "request_id")));
    assert_true(has_header(a, str_c(&id)));
    str_free(&id);
    json_object_put(o);
}

static void refusals(void **state) {
    static const struct {
        const char *body, *message;
    } cases[] = {
        {"[]", "the body must be a JSON object"},
        {"{" HI "}", "max_tokens: Field required"},
        {"{\"max_tokens\":\"9\"," HI "}",
         "max_tokens: Input should be a valid integer, not a string"},
        {"{\"max_tokens\":1}", "messages: Field required"},
        {"{\"max_tokens\":1,\"messages\":{}}",
         "messages: Input should be a valid list, not an object"},
        {"{\"max_tokens\":1,\"messages\":[]}", "messages: at least one message is required"},
        {"{\"max_tokens\":1,\"messages\":[3]}", "messages.0: Input should be an object"},
        {"{\"max_tokens\":1,\"messages\":[{}]}", "messages.0.role: Field required"},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"\"},{\"role\":\"tool\",\"content\":\"\"}]}",
         "messages.1.role: Input should be 'user', 'assistant' or 'system', not 'tool'"},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\"}]}",
         "messages.0.content: Field required"},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":3}]}",
         "messages.0.content: Input should be a valid string or a list of blocks"},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[3]}]}",
         "messages.0.content.0: Input should be an object"},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{}]}]}",
         "messages.0.content.0.type: Field required"},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"c\"},{\"type\":\"text\"}]}]}",
         "messages.2.content.1.text: Field required"},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":[]}]}]}",
         "messages.0.content.0.text: Input should be a valid string, not an array"},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]}",
         "messages.0.content.0: blocks of type \"image\" are not supported with role \"user\""},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_use\"}]}]}",
         "blocks of type \"tool_use\" are not supported with role \"user\""},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\"}]}]}",
         "messages.0.content.0.tool_use_id: Field required"},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"content\":[{\"type\":\"image\"}]}]}]}",
         "messages.0.content.0.content.0: blocks of type \"image\" are not supported here"},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\"}]}]}",
         "messages.0.content.0.name: Field required"},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"name\":\"a\",\"id\":3}]}]}",
         "messages.0.content.0.id: Input should be a valid string"},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"name\":\"a\",\"id\":\"b\",\"input\":3}]}]}",
         "messages.0.content.0.input: Input should be an object"},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\"}]}]}",
         "messages.0.content.0.thinking: Field required"},
        {"{\"max_tokens\":1,\"system\":3," HI "}",
         "system: Input should be a valid string or a list of blocks"},
        {"{\"max_tokens\":1,\"system\":[{\"type\":\"image\"}]," HI "}",
         "system.0: blocks of type \"image\""},
        {"{\"max_tokens\":1," HI ",\"tools\":3}", "tools: Input should be a valid list"},
        {"{\"max_tokens\":1," HI ",\"tools\":[3]}", "tools.0.name: Field required"},
        {"{\"max_tokens\":1," HI ",\"tools\":[{\"name\":\"\",\"input_schema\":{}}]}",
         "tools.0.name: String should have"},
        {"{\"max_tokens\":1," HI ",\"tools\":[{\"name\":\"a\"}]}",
         "tools.0.input_schema: Field required"},
        {"{\"max_tokens\":1," HI ",\"tools\":[{\"type\":\"bash_20250124\",\"name\":\"bash\"}]}",
         "this server runs no tools itself"},
        {"{\"max_tokens\":1," HI ",\"tool_choice\":\"auto\"}",
         "tool_choice: Input should be an object with the type 'auto'"},
        {"{\"max_tokens\":1," HI ",\"tools\":[" TOOL "],\"tool_choice\":{\"type\":\"tool\"}}",
         "tool_choice.name: Field required"},
        {"{\"max_tokens\":1," HI ",\"tools\":[" TOOL
         "],\"tool_choice\":{\"type\":\"tool\",\"name\":\"x\"}}",
         "tool_choice.name: no tool in tools has the name \"x\""},
        {"{\"max_tokens\":1," HI ",\"tool_choice\":{\"type\":\"any\"}}",
         "tool_choice: the type 'any' may only be specified while providing tools"},
        {"{\"max_tokens\":1," HI ",\"thinking\":{\"type\":\"much\"}}",
         "thinking: Input should be an object with the type 'enabled'"},
        {"{\"max_tokens\":1," HI ",\"stop_sequences\":\"a\"}",
         "stop_sequences: Input should be a valid list"},
        {"{\"max_tokens\":1," HI ",\"stop_sequences\":[1]}", "\"stop_sequences\" must be"},
        {"{\"max_tokens\":1," HI ",\"output_config\":{\"format\":{}}}",
         "output_config.format: Input should be an object with the type 'json_schema'"},
        {"{\"max_tokens\":1," HI ",\"output_config\":{\"format\":{\"type\":\"json_schema\"}}}",
         "output_config.format.schema: Field required"},
        {"{\"max_tokens\":1," HI
         ",\"output_config\":{\"format\":{\"type\":\"json_schema\",\"schema\":{\"$ref\":\"#/a\"}}}}",
         "\"output_config.format\": "},
        {"{\"max_tokens\":1," HI ",\"temperature\":-1}", "\"temperature\" is -1"},
    };
    struct answer a;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        post(&text, &a, MESSAGES, cases[i].body);
        check_error(&a, 400, "invalid_request_error", cases[i].message);
        answer_free(&a);
    }
    post(&text, &a, COUNT, "{\"messages\":3}");
    check_error(&a, 400, "invalid_request_error", "messages: Input should be a valid list");
    answer_free(&a);
}

// Clients that shorten a conversation by themselves look for these words.
static void too_long(void **state) {
    struct server small;
    struct answer a;
    struct str body = {0};
    (void)state;
    server_start(&small, ARGS("-m", MODEL, "-c", "512", "-np", "1"));
    str_puts(&body, "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"");
    for (int i = 0; i < 600; i++) str_puts(&body, "12");
    str_puts(&body, "\"}]}");
    post(&small, &a, MESSAGES, body.p);
    check_error(&a, 400, "invalid_request_error", "prompt is too long: 1219 tokens > 511 maximum");
    answer_free(&a);
    str_free(&body);
    assert_int_equal(server_stop(&small), 0);
}

// --- beside messages -----------------------------------------------------------------------------

#define VERSION "anthropic-version: 2023-06-01\r\n"

static void no_routes(void **state) {
    static const struct {
        const char *method, *path, *headers;
        int status;
        const char *type, *message;
    } cases[] = {
        {"GET", MESSAGES, "", 405, "invalid_request_error", "takes POST, not GET"},
        {"DELETE", COUNT, "", 405, "invalid_request_error", "takes POST, not DELETE"},
        {"POST", MESSAGES "/batches", "", 404, "not_found_error", "no route POST"},
        {"POST", "/v1/complete", VERSION, 404, "not_found_error", "no route POST /v1/complete"},
        {"GET", "/v1/models/x", VERSION, 404, "not_found_error", "no such model"},
    };
    struct answer a;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ask(&text, &a, cases[i].method, cases[i].path, cases[i].headers, sv(""));
        check_error(&a, cases[i].status, cases[i].type, cases[i].message);
        answer_free(&a);
    }
    ask(&text, &a, "POST", "/v1/complete", "", sv("")); // of nobody's client
    expect_refusal(&a, 404, NULL, "no route");
    answer_free(&a);
}

static void check_model(struct json_object *o) {
    struct sv since = json_text_at(o, "created_at");
    check_is(o, "type", "model");
    check_is(o, "id", "text");
    check_is(o, "display_name", "text");
    check_is(o, "lifecycle", "active");
    check_is(o, "max_input_tokens", "65536");
    assert_int_equal(since.n, sizeof "2026-11-30T11:06:00Z" - 1);
    assert_true(sv_starts(since, sv("20")) && since.p[10] == 'T' && since.p[19] == 'Z');
}

// As Anthropic's clients look for them.
static void models(void **state) {
    struct answer a;
    (void)state;
    ask(&text, &a, "GET", "/v1/models?limit=20", VERSION, sv(""));
    struct json_object *o = json_answer(&a, "models");
    assert_int_equal(json_object_array_length(json_at(o, "data")), 1);
    check_model(nth(json_at(o, "data"), 0));
    check_is(o, "has_more", "false");
    check_is(o, "first_id", "text");
    check_is(o, "last_id", "text");
    json_object_put(o);
    ask(&text, &a, "GET", "/v1/models?after_id=text", VERSION, sv(""));
    o = json_answer(&a, "models");
    assert_int_equal(json_object_array_length(json_at(o, "data")), 0);
    check_is(o, "has_more", "false");
    check_is(o, "last_id", "null");
    json_object_put(o);
    ask(&text, &a, "GET", "/v1/models/text", VERSION, sv(""));
    o = json_answer(&a, "model");
    check_model(o);
    json_object_put(o);
}

static void keys(void **state) {
    static const char body[] = "{\"max_tokens\":1," HI "}";
    struct server other;
    struct answer a;
    (void)state;
    server_start(&other, ARGS("-m", MODEL, "--api-key", "sesame"));
    post(&other, &a, MESSAGES, body);
    check_error(&a, 401, "authentication_error", "X-Api-Key");
    answer_free(&a);
    ask(&other, &a, "POST", MESSAGES, "x-api-key: wrong\r\n", sv(body));
    check_error(&a, 401, "authentication_error", "X-Api-Key");
    answer_free(&a);
    static const char *const good[] = {"x-api-key: sesame\r\n", "Authorization: Bearer sesame\r\n"};
    for (size_t i = 0; i < 2; i++) {
        ask(&other, &a, "POST", MESSAGES, good[i], sv(body));
        assert_int_equal(a.status, 200);
        answer_free(&a);
    }
    assert_int_equal(server_stop(&other), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),      cmocka_unit_test(ends),        cmocka_unit_test(cached),
        cmocka_unit_test(calls),      cmocka_unit_test(forced),      cmocka_unit_test(streams),
        cmocka_unit_test(lost_call),  cmocka_unit_test(lost_stream), cmocka_unit_test(prompts),
        cmocka_unit_test(count_long), cmocka_unit_test(schema),      cmocka_unit_test(refusals),
        cmocka_unit_test(keys),       cmocka_unit_test(too_long),    cmocka_unit_test(no_routes),
        cmocka_unit_test(models),
    };
    return cmocka_run_group_tests_name("server messages", tests, start, stop);
}
