// mlxcel-server: OpenAI's Responses API: what is asked, what is answered.
#include "responses_client.h"

#ifdef HAVE_SQLITE
#define STORE "--responses-store-file", ":memory:"
#else
#define STORE "--responses-store-ttl-secs", "60"
#endif

static struct server text, tools;

static int start(void **state) {
    (void)state;
    server_start(&text, ARGS("-m", MODEL, STORE));
    server_start(&tools, ARGS("-m", MODEL_TOOLS, STORE, "--chat-template-kwargs",
                              "{\"reasoning_effort\":\"low\"}"));
    return 0;
}

static int stop(void **state) {
    (void)state;
    assert_false(server_says(&text, "Hello")); // prompts and answers are not for the log
    return server_stop(&text) | server_stop(&tools);
}

// --- what is asked, what is in an answer ---------------------------------------------------------

static void whole_answer(void **state) {
    struct json_object *o = create(
        &text, "{\"model\":\"any\",\"input\":\"Hi\",\"metadata\":{\"k\":\"v\"},\"user\":\"me\"" COLD
               ",\"max_output_tokens\":40,\"include\":[\"reasoning.encrypted_content\"]}");
    (void)state;
    check_id(o, "id", "resp_");
    check_text(o, "object", "response");
    check_text(o, "status", "completed");
    check_text(o, "model", "text");
    check_text(json_at(o, "metadata"), "k", "v");
    check_text(o, "user", "me");
    check_text(o, "tool_choice", "auto");
    check_text(o, "truncation", "disabled");
    check_text(json_at(json_at(o, "text"), "format"), "type", "text");
    assert_true(json_int_at(o, "created_at", 0) > 1700000000);
    assert_true(json_int_at(o, "completed_at", 0) >= json_int_at(o, "created_at", 0));
    assert_int_equal(json_int_at(o, "max_output_tokens", 0), 40);
    assert_true(json_number_at(o, "temperature", 1) == 0);
    assert_true(json_number_at(o, "top_p", 0) == 0.95);
    assert_null(json_at(o, "error"));
    assert_null(json_at(o, "incomplete_details"));
    assert_null(json_at(o, "instructions"));
    assert_int_equal(length(o, "tools"), 0);
    assert_int_equal(length(o, "output"), 1);
    check_message(output(o, 0), GREETING, "completed");
    struct json_object *usage = json_at(o, "usage");
    assert_int_equal(json_int_at(usage, "input_tokens", 0), 21);
    assert_int_equal(json_int_at(usage, "output_tokens", 0), 13);
    assert_int_equal(json_int_at(usage, "total_tokens", 0), 34);
    assert_non_null(json_at(json_at(usage, "input_tokens_details"), "cached_tokens"));
    assert_int_equal(json_int_at(json_at(usage, "output_tokens_details"), "reasoning_tokens", -1),
                     0);
    json_object_put(o);
}

// As compact as the rest.
static void echoed(void **state) {
    struct answer a;
    (void)state;
    post(&text, &a, "/v1/responses", "{\"input\":\"Hi\",\"max_output_tokens\":1}");
    assert_true(sv_find(str_sv(&a.body),
                        sv(",\"text\":{\"format\":{\"type\":\"text\"},\"verbosity\":"), 0) > 0);
    answer_free(&a);
}

static void check_call(struct json_object *item) {
    check_id(item, "id", "fc_");
    check_id(item, "call_id", "call_");
    check_text(item, "type", "function_call");
    check_text(item, "status", "completed");
    check_text(item, "name", "weather");
    check_text(item, "arguments", CITY);
}

static void check_output(struct json_object *o) {
    struct json_object *thought = output(o, 0);
    assert_int_equal(length(o, "output"), 3);
    check_id(thought, "id", "rs_");
    check_text(thought, "type", "reasoning");
    check_text(part(thought), "type", "reasoning_text");
    check_text(part(thought), "text", "Zurich?");
    assert_int_equal(length(thought, "summary"), 0);
    check_message(output(o, 1), "I look.", "completed");
    check_call(output(o, 2));
    check_text(o, "status", "completed");
    check_text(json_at(json_at(o, "usage"), "output_tokens_details"), "reasoning_tokens", "4");
}

static void reasoning_and_calls(void **state) {
    struct json_object *o = create(&tools, "{\"input\":\"Hi\"," WEATHER "}");
    (void)state;
    check_output(o);
    check_text(nth(json_at(o, "tools"), 0), "name", "weather");
    json_object_put(o);
    o = post_json(&tools, "/responses", "{\"input\":\"Hi\"," WEATHER ",\"tool_choice\":\"none\"}");
    assert_int_equal(length(o, "output"), 2);
    json_object_put(o);
    // Of two tools the model is told of one.
    struct json_object *one = create(
        &tools, "{\"input\":\"Hi\",\"tools\":[{\"type\":\"function\",\"name\":\"other\"},{\"type\":"
                "\"function\",\"name\":\"weather\"}],\"tool_choice\":{\"type\":\"allowed_tools\","
                "\"mode\":\"auto\",\"tools\":[{\"type\":\"function\",\"name\":\"weather\"}]}}");
    o = create(&tools,
               "{\"input\":\"Hi\",\"tools\":[{\"type\":\"function\",\"name\":\"weather\"}]}");
    assert_int_equal(input_tokens(one), input_tokens(o));
    json_object_put(one);
    json_object_put(o);
}

static void cut(void **state) {
    struct json_object *o = create(&text, "{\"input\":\"Hi\",\"max_output_tokens\":3" COLD "}");
    (void)state;
    check_text(o, "status", "incomplete");
    check_text(json_at(o, "incomplete_details"), "reason", "max_output_tokens");
    check_message(output(o, 0), "Hello, w", "incomplete");
    assert_null(json_at(o, "completed_at"));
    json_object_put(o);
}

// An answer of no text is still a message.
static void nothing(void **state) {
    struct json_object *o = create(&text, "{\"input\":\"Hi\",\"stop\":\"Hello\"" COLD "}");
    (void)state;
    check_message(output(o, 0), "", "completed");
    json_object_put(o);
}

static void formats(void **state) {
    struct json_object *o = create(
        &text, "{\"input\":\"Hi\",\"temperature\":2,\"text\":{\"format\":{\"type\":\"json_schema\","
               "\"name\":\"n\",\"strict\":true,\"schema\":{\"const\":true}}}}");
    (void)state;
    check_message(output(o, 0), "true", "completed");
    check_text(json_at(json_at(o, "text"), "format"), "name", "n");
    json_object_put(o);
    o = create(&text, "{\"input\":\"Hi\",\"text\":{\"format\":{\"type\":\"text\"}}" COLD "}");
    check_message(output(o, 0), GREETING, "completed");
    json_object_put(o);
}

static void logprobs(void **state) {
    struct json_object *o =
        create(&text, "{\"input\":\"Hi\",\"include\":[\"message.output_text.logprobs\"],"
                      "\"top_logprobs\":2" COLD "}");
    (void)state;
    struct json_object *list = json_at(part(output(o, 0)), "logprobs");
    assert_int_equal(json_object_array_length(list), 12); // the end has no text
    check_text(nth(list, 0), "token", "Hello");
    assert_true(json_number_at(nth(list, 0), "logprob", 1) <= 0);
    assert_int_equal(length(nth(list, 0), "top_logprobs"), 2);
    json_object_put(o);
    o = create(&text, "{\"input\":\"Hi\"" COLD "}");
    assert_int_equal(length(part(output(o, 0)), "logprobs"), 0);
    json_object_put(o);
}

// --- what the model gets -------------------------------------------------------------------------

// Items make the prompt that the same messages of a chat make.
static void same_prompt(void **state) {
    static const struct {
        const char *responses, *chat;
    } cases[] = {
        {"\"input\":\"Hi\"", HI},
        {"\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"H\"},{"
         "\"type\":\"text\",\"text\":\"i\"}]}]",
         "\"messages\":[{\"role\":\"user\",\"content\":\"H\\ni\"}]"},
        {"\"input\":\"Hi\",\"instructions\":\"Be kind\"",
         "\"messages\":[{\"role\":\"system\",\"content\":\"Be kind\"},{\"role\":\"user\","
         "\"content\":\"Hi\"}]"},
        {"\"input\":[{\"type\":\"message\",\"role\":\"developer\",\"content\":\"Be brief\"},{"
         "\"role\":\"user\",\"content\":\"Hi\"}],\"instructions\":\"Be kind\"",
         "\"messages\":[{\"role\":\"system\",\"content\":\"Be kind\\n\\nBe brief\"},{\"role\":"
         "\"user\",\"content\":\"Hi\"}]"},
        {"\"input\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"type\":\"reasoning\",\"summary\":[],"
         "\"content\":[{\"type\":\"reasoning_text\",\"text\":\"Zurich?\"}]},{\"role\":"
         "\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"I look.\"}]},{\"type\":"
         "\"function_call\",\"call_id\":\"a\",\"name\":\"weather\",\"arguments\":\"{}\"},{\"type\":"
         "\"function_call_output\",\"call_id\":\"a\",\"output\":\"rain\"}]",
         "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\","
         "\"reasoning_content\":\"Zurich?\",\"content\":\"I look.\",\"tool_calls\":[{\"id\":\"a\","
         "\"type\":\"function\",\"function\":{\"name\":\"weather\",\"arguments\":\"{}\"}}]},{"
         "\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"rain\"}]"},
        {"\"input\":[{\"type\":\"function_call\",\"call_id\":\"a\",\"name\":\"weather\","
         "\"arguments\":\"{}\"},{\"type\":\"function_call\",\"call_id\":\"b\",\"name\":\"weather\","
         "\"arguments\":\"{}\"},{\"type\":\"function_call_output\",\"call_id\":\"a\",\"output\":[{"
         "\"type\":\"input_text\",\"text\":\"rain\"}]}]",
         "\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\",\"type\":"
         "\"function\",\"function\":{\"name\":\"weather\",\"arguments\":\"{}\"}},{\"id\":\"b\","
         "\"type\":\"function\",\"function\":{\"name\":\"weather\",\"arguments\":\"{}\"}}]},{"
         "\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"rain\"}]"},
        {"\"input\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"type\":\"function_call\","
         "\"status\":\"incomplete\",\"call_id\":\"a\",\"name\":\"weather\",\"arguments\":\"{\"}]",
         HI},
        {"\"input\":\"Hi\",\"reasoning\":{\"effort\":\"high\",\"summary\":\"auto\"}",
         HI ",\"reasoning_effort\":\"high\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str body = {0};
        str_printf(&body, "{%s,\"max_output_tokens\":1}", cases[i].responses);
        struct json_object *o = create(&tools, body.p);
        struct json_object *count = post_json(&tools, RESPONSES "/input_tokens", body.p);
        str_clear(&body);
        str_printf(&body, "{%s,\"max_tokens\":1}", cases[i].chat);
        struct json_object *c = post_json(&tools, CHAT, body.p);
        int64_t want = json_int_at(json_at(c, "usage"), "prompt_tokens", -2);
        if (input_tokens(o) != want)
            fail_msg("%s: %lld tokens, not %lld", cases[i].responses, (long long)input_tokens(o),
                     (long long)want);
        check_text(count, "object", "response.input_tokens");
        assert_int_equal(json_int_at(count, "input_tokens", -1), want);
        json_object_put(count);
        json_object_put(o);
        json_object_put(c);
        str_free(&body);
    }
}

// --- streams -------------------------------------------------------------------------------------

static void streamed(void **state) {
    struct stream t;
    (void)state;
    stream_of(&tools, "{\"input\":\"Hi\"," WEATHER ",\"stream\":true}", &t);
    assert_string_equal(t.types.p, OPENING PART("reasoning_text") PART("output_text") ADDED
                        "response.function_call_arguments.delta\n"
                        "response.function_call_arguments.done\nresponse.output_item.done\n"
                        "response.completed\n");
    assert_string_equal(str_c(&t.text[0]), "Zurich?");
    assert_string_equal(str_c(&t.text[1]), "I look.");
    assert_string_equal(str_c(&t.text[2]), CITY);
    struct json_object *o = json_of(str_sv(&t.last));
    check_output(o);
    json_object_put(o);
    stream_free(&t);
    stream_of(&text,
              "{\"input\":\"Hi\",\"stream\":true,\"max_output_tokens\":3,\"top_logprobs\":1" COLD
              "}",
              &t);
    assert_string_equal(t.types.p, OPENING PART("output_text") "response.incomplete\n");
    assert_string_equal(str_c(&t.text[1]), "Hello, w");
    o = json_of(str_sv(&t.last));
    check_message(output(o, 0), "Hello, w", "incomplete");
    assert_int_equal(length(part(output(o, 0)), "logprobs"), 3);
    json_object_put(o);
    stream_free(&t);
}

// A call that is cut was told of already: it stays, incomplete, and its text is a message.
static void cut_call(void **state) {
    struct stream t;
    (void)state;
    stream_of(&tools, "{\"input\":\"Hi\"," WEATHER ",\"stream\":true,\"max_output_tokens\":17}",
              &t);
    struct json_object *o = json_of(str_sv(&t.last));
    check_text(o, "status", "incomplete");
    assert_int_equal(length(o, "output"), 4);
    check_text(output(o, 2), "type", "function_call");
    check_text(output(o, 2), "status", "incomplete");
    check_text(output(o, 2), "arguments", str_c(&t.text[2]));
    assert_true(sv_find(json_text_at(part(output(o, 3)), "text"), sv("weather"), 0) > 0);
    json_object_put(o);
    stream_free(&t);
}

// --- what is refused -----------------------------------------------------------------------------

static void refused(void **state) {
    static const struct {
        const char *body, *param, *message;
    } cases[] = {
        {"{}", "input", "is missing"},
        {"{\"input\":7}", "input", "must be a string or an array"},
        {"{\"input\":[]}", "input", "nothing that could be answered"},
        {"{\"input\":[7]}", "input", "input[0] must be an object"},
        {"{\"input\":[null]}", "input", "input[0] must be an object"},
        {"{\"input\":[{\"type\":\"item_reference\",\"id\":\"x\"}]}", "input", "item_reference"},
        {"{\"input\":[{\"role\":\"robot\",\"content\":\"\"}]}", "input", "input[0].role"},
        {"{\"input\":[{\"role\":\"user\"}]}", "input", "input[0].content must be"},
        {"{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\",\"image_url\":"
         "\"x\"}]}]}",
         "input", "a part of type \"input_image\""},
        {"{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":7}]}]}",
         "input", "input[0].content[0]"},
        {"{\"input\":[{\"type\":\"function_call\",\"call_id\":\"\",\"name\":\"f\",\"arguments\":"
         "\"{}\"}]}",
         "input", "input[0].call_id"},
        {"{\"input\":[{\"type\":\"function_call_output\",\"call_id\":\"a\"}]}", "input",
         "input[0].output must be"},
        {"{\"input\":\"Hi\",\"instructions\":[]}", "instructions", "a string"},
        {"{\"input\":\"Hi\",\"background\":true}", "background", "not supported"},
        {"{\"input\":\"Hi\",\"conversation\":\"c\"}", "conversation", "not supported"},
        {"{\"input\":\"Hi\",\"prompt\":{\"id\":\"x\"}}", "prompt", "not supported"},
        {"{\"input\":\"Hi\",\"truncation\":\"auto\"}", "truncation", "disabled"},
        {"{\"input\":\"Hi\",\"n\":2}", "n", "from 1 to 1"},
        {"{\"input\":\"Hi\",\"user\":{}}", "user", "a string"},
        {"{\"input\":\"Hi\",\"max_output_tokens\":0}", "max_output_tokens", "from 1"},
        {"{\"input\":\"Hi\",\"top_logprobs\":21}", "top_logprobs", "to 20"},
        {"{\"input\":\"Hi\",\"include\":[\"everything\"]}", "include", "include[0]"},
        {"{\"input\":\"Hi\",\"metadata\":{\"k\":7}}", "metadata", "strings"},
        {"{\"input\":\"Hi\",\"temperature\":\"hot\"}", "temperature", "a number"},
        {"{\"input\":\"Hi\",\"text\":{\"format\":{\"type\":\"xml\"}}}", "text.format.type", "xml"},
        {"{\"input\":\"Hi\",\"text\":{\"format\":{\"type\":\"json_schema\"}}}",
         "text.format.schema", "an object"},
        {"{\"input\":\"Hi\",\"text\":{\"format\":{\"type\":\"json_schema\",\"schema\":{\"not\":{}"
         "}}}}",
         "text.format", "not"},
        {"{\"input\":\"Hi\",\"tools\":[{\"type\":\"web_search\"}]}", "tools", "web_search"},
        {"{\"input\":\"Hi\",\"tools\":[{\"type\":\"function\"}]}", "tools", "tools[0].name"},
        {"{\"input\":\"Hi\",\"tools\":{}}", "tools", "an array"},
        {"{\"input\":\"Hi\",\"tool_choice\":{\"type\":\"mcp\"}}", "tool_choice", "functions"},
        {"{\"input\":\"Hi\",\"tool_choice\":{\"type\":\"allowed_tools\"}}", "tool_choice.tools",
         "an array"},
        {"{\"input\":\"Hi\",\"store\":1}", "store", "a boolean"},
        {"{\"input\":\"Hi\",\"previous_response_id\":7}", "previous_response_id", "a string"},
#ifdef HAVE_SQLITE
        {"{\"input\":\"Hi\",\"previous_response_id\":\"resp_x\"}", "previous_response_id",
         "Previous response with id 'resp_x' not found."},
#else
        {"{\"input\":\"Hi\",\"previous_response_id\":\"resp_x\"}", "previous_response_id",
         "without SQLite"},
        {"{\"input\":\"Hi\",\"store\":true}", "store", "without SQLite"},
#endif
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused(&text, RESPONSES, cases[i].body, cases[i].param, cases[i].message);
    struct str long_input = {0};
    str_puts(&long_input, "{\"input\":\"");
    for (int i = 0; i < 70000; i++) str_addc(&long_input, 'x');
    str_puts(&long_input, "\"}");
    expect_refused(&text, RESPONSES, long_input.p, "input", "exceeds the available context size");
    // But it can be counted.
    struct json_object *o = post_json(&text, RESPONSES "/input_tokens", long_input.p);
    assert_true(json_int_at(o, "input_tokens", 0) >= 70000);
    json_object_put(o);
    str_free(&long_input);
    expect_refused(&text, RESPONSES "/input_tokens", "{}", "input", "\"input\" is missing");
    // What was read as a chat's is told in the words of this API.
    expect_refused(
        &text, RESPONSES,
        "{\"input\":\"Hi\",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"a\","
        "\"schema\":{\"$ref\":\"#/a\"}}}}",
        "text.format", "\"text.format\": ");
}

static void compact(void **state) {
    struct answer a;
    (void)state;
    post(&text, &a, RESPONSES "/compact", "{\"model\":\"text\",\"input\":\"Hi\"}");
    expect_refusal(&a, 501, NULL, "does not compact conversations");
    answer_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(echoed),
        cmocka_unit_test(whole_answer),
        cmocka_unit_test(reasoning_and_calls),
        cmocka_unit_test(cut),
        cmocka_unit_test(nothing),
        cmocka_unit_test(formats),
        cmocka_unit_test(logprobs),
        cmocka_unit_test(same_prompt),
        cmocka_unit_test(streamed),
        cmocka_unit_test(cut_call),
        cmocka_unit_test(refused),
        cmocka_unit_test(compact),
    };
    return cmocka_run_group_tests_name("server responses", tests, start, stop);
}
