// mlxcel-server's API: what it answers, byte for byte, and what it refuses.
#include "server_client.h"

static struct server main_server; // for the tests that need no options of their own

static int start_main(void **state) {
    (void)state;
    server_start(&main_server, ARGS("-m", MODEL));
    return 0;
}

static int stop_main(void **state) {
    (void)state;
    assert_false(server_says(&main_server, "Hello")); // prompts and answers are not for the log
    return server_stop(&main_server);
}

static void expect_text(const char *path, const char *body, const char *text, const char *finish) {
    expect_text_from(&main_server, path, body, text, finish);
}

// --- whole answers -------------------------------------------------------------------------------

static void health_and_models(void **state) {
    struct answer a;
    (void)state;
    get(&main_server, &a, "/health");
    assert_int_equal(a.status, 200);
    assert_true(sv_is(str_sv(&a.body), "{\"status\":\"ok\"}"));
    assert_true(has_header(&a, "Content-Type: application/json"));
    answer_free(&a);
    ask(&main_server, &a, "HEAD", "/health", "", sv(""));
    assert_int_equal(a.status, 200);
    assert_int_equal(a.body.n, 0);
    answer_free(&a);
    get(&main_server, &a, "/v1/models?x=1");
    assert_int_equal(a.status, 200);
    struct json_object *o = json_of(str_sv(&a.body));
    assert_true(sv_is(json_text_at(o, "object"), "list"));
    struct json_object *m = json_object_array_get_idx(json_at(o, "data"), 0);
    assert_true(sv_is(json_text_at(m, "id"), "text"));
    assert_true(sv_is(json_text_at(m, "object"), "model"));
    assert_int_equal(json_int_at(json_at(m, "meta"), "n_ctx", 0), 65536);
    json_object_put(o);
    answer_free(&a);
}

static void one_model(void **state) {
    static const char *const paths[] = {"/v1/models/text", "/models/text/"};
    struct answer list, one;
    (void)state;
    get(&main_server, &list, "/v1/models/");
    assert_int_equal(list.status, 200);
    for (size_t i = 0; i < 2; i++) {
        struct str want = {0};
        get(&main_server, &one, paths[i]);
        assert_int_equal(one.status, 200);
        str_printf(&want, "{\"object\":\"list\",\"data\":[%s]}", one.body.p);
        assert_string_equal(list.body.p, want.p);
        str_free(&want);
        answer_free(&one);
    }
    answer_free(&list);
    get(&main_server, &one, "/v1/models/tex");
    expect_refusal(&one, 404, "model", "no such model: this server has \"text\"");
    assert_true(sv_find(str_sv(&one.body), sv("\"model_not_found\""), 0) > 0);
    answer_free(&one);
    post(&main_server, &one, "/v1/models/text", "{}");
    expect_refusal(&one, 405, NULL, "takes GET, not POST");
    answer_free(&one);
    expect_text(CHAT "/", "{" HI ",\"temperature\":0}", GREETING, "stop");
}

// The second time all but the last page of the prompt is there, and usage says so.
static void cached(void **state) {
    struct answer a;
    (void)state;
    for (int64_t want = 0; want <= 64; want += 64) {
        post(&main_server, &a, TEXT,
             "{\"prompt\":\"It is said of long beginnings that whoever has read them once need "
             "not read them again.\",\"max_tokens\":2}");
        struct json_object *o = json_of(str_sv(&a.body));
        struct json_object *details = json_at(json_at(o, "usage"), "prompt_tokens_details");
        assert_int_equal(json_int_at(details, "cached_tokens", -1), want);
        json_object_put(o);
        answer_free(&a);
    }
}

#define USAGE                                                                                      \
    "\"usage\":{\"prompt_tokens\":21,\"completion_tokens\":13,\"total_tokens\":34,"                \
    "\"prompt_tokens_details\":{\"cached_tokens\":0,\"audio_tokens\":0},"                          \
    "\"completion_tokens_details\":{\"reasoning_tokens\":0,\"audio_tokens\":0,"                    \
    "\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}}"

static void chat(void **state) {
    struct answer a;
    (void)state;
    post(&main_server, &a, CHAT, "{\"model\":\"any\"," HI ",\"temperature\":0}");
    assert_int_equal(a.status, 200);
    assert_true(a.whole);
    assert_true(has_header(&a, "Content-Type: application/json"));
    struct json_object *o = json_of(str_sv(&a.body));
    struct sv id = json_text_at(o, "id");
    assert_true(sv_starts(id, sv("chatcmpl-")));
    struct str want = {0};
    str_printf(
        &want,
        "{\"id\":\"%.*s\",\"object\":\"chat.completion\",\"created\":%lld,\"model\":\"text\","
        "\"system_fingerprint\":\"mlxcel-" MLXCEL_VERSION "\",\"choices\":[{\"index\":0,"
        "\"message\":{\"role\":\"assistant\",\"content\":\"" GREETING "\",\"refusal\":null,"
        "\"annotations\":[]},\"logprobs\":null,"
        "\"finish_reason\":\"stop\"}]," USAGE "}",
        (int)id.n, id.p, (long long)json_int_at(o, "created", 0));
    cut_timings(&a.body);
    assert_string_equal(a.body.p, want.p);
    str_free(&want);
    json_object_put(o);
    answer_free(&a);
}

static void prompts(void **state) {
    (void)state;
    expect_text(TEXT, "{\"prompt\":\"Hi\\n\",\"temperature\":0}", GREETING, "stop");
    expect_text(TEXT, "{\"prompt\":[\"Hi\\n\"],\"temperature\":0}", GREETING, "stop");
    expect_text(TEXT, "{\"prompt\":[72,105,10],\"temperature\":0}", GREETING, "stop");
    expect_text(TEXT, "{\"prompt\":[[10]],\"temperature\":0}", GREETING, "stop");
    expect_text(
        CHAT,
        "{\"messages\":[{\"role\":\"developer\",\"content\":\"Be kind\"},{\"role\":"
        "\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Hi\"},{\"type\":\"text\",\"text\":\"there\"}]}],\"top_k\":1}",
        GREETING, "stop");
}

static void limits_and_stops(void **state) {
    (void)state;
    expect_text(TEXT, "{\"prompt\":\"\\n\",\"max_tokens\":2,\"temperature\":0}", "Hello,",
                "length");
    expect_text(TEXT, "{\"prompt\":\"\\n\",\"max_tokens\":2.0,\"temperature\":0}", "Hello,",
                "length");
    expect_text(TEXT, "{\"prompt\":\"\\n\",\"n_predict\":1,\"temperature\":0}", "Hello", "length");
    expect_text(TEXT, "{\"prompt\":\"\\n\",\"max_tokens\":0}", "", "length");
    expect_text(CHAT, "{" HI ",\"max_completion_tokens\":3,\"temperature\":0}", "Hello, w",
                "length");
    // Half a character at the end becomes one that says so.
    expect_text(TEXT, "{\"prompt\":\"\\n\",\"max_tokens\":4,\"temperature\":0}",
                "Hello, w\xef\xbf\xbd", "length");
    expect_text(TEXT, "{\"prompt\":\"\\n\",\"stop\":\"w\xc3\xb6r\",\"temperature\":0}", "Hello, ",
                "stop");
    expect_text(TEXT, "{\"prompt\":\"\\n\",\"stop\":[\"zzz\",\"ld\",\"\"],\"temperature\":0}",
                "Hello, w\xc3\xb6r", "stop");
    expect_text(TEXT,
                "{\"prompt\":\"\\n\",\"ignore_eos\":true,\"max_tokens\":14,\"temperature\":0}",
                GREETING "Hello", "length");
}

// A field of the sampling must reach the sampler, and the same seed gives the same answer.
static void sampling(void **state) {
    struct answer a, b, c;
    (void)state;
#define HOT                                                                                        \
    "{\"prompt\":\"\\n\",\"temperature\":50,\"top_k\":0,\"top_p\":1,\"min_p\":0,"                  \
    "\"max_tokens\":40,\"ignore_eos\":true,"
    post(&main_server, &a, TEXT, HOT "\"seed\":1}");
    post(&main_server, &b, TEXT, HOT "\"seed\":1}");
    post(&main_server, &c, TEXT, HOT "\"seed\":9223372036854775807}");
    char *one = text_of(&a, false), *same = text_of(&b, false), *other = text_of(&c, false);
    assert_string_equal(one, same);
    assert_string_not_equal(one, other);
    // All tokens may come for 0 and for -1, unlike for 1.
    expect_text(TEXT, HOT "\"seed\":1,\"top_k\":-1}", one, NULL);
    free(one);
    free(same);
    free(other);
    answer_free(&a);
    answer_free(&b);
    answer_free(&c);
    // The certain token is 8 ahead of the others: after it came four times, it isn't any more.
#define COLD "{\"prompt\":\"\\n\",\"temperature\":0,\"max_tokens\":59,\"ignore_eos\":true"
    expect_text(TEXT, COLD ",\"frequency_penalty\":0.1}",
                GREETING GREETING GREETING GREETING "Hello, w\xc3\xb6rld!", NULL);
    post(&main_server, &a, TEXT, COLD ",\"frequency_penalty\":2}");
    one = text_of(&a, false);
    assert_true(sv_starts(sv(one), sv(GREETING GREETING GREETING GREETING)));
    assert_string_not_equal(one, GREETING GREETING GREETING GREETING "Hello, w\xc3\xb6rld!");
    free(one);
    answer_free(&a);
}

// --- streams -------------------------------------------------------------------------------------

struct stream {
    struct sv left; // events not yet looked at
    char id[64];
    long long created;
    bool chat, usage;
};

// The next event must be this, byte for byte: `choice` is what its choice holds.
static void expect_event(struct stream *s, const char *choices) {
    struct str want = {0};
    str_printf(&want,
               "data: {\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":\"text\","
               "\"system_fingerprint\":\"mlxcel-" MLXCEL_VERSION "\",%s}\n\n",
               s->id, s->chat ? "chat.completion.chunk" : "text_completion", s->created, choices);
    struct sv got = sv_cut(s->left, 0, want.n);
    if (!sv_eq(got, str_sv(&want))) fail_msg("event:\n%.*swanted:\n%s", (int)got.n, got.p, want.p);
    s->left = sv_cut(s->left, want.n, s->left.n);
    str_free(&want);
}

static void expect_choice(struct stream *s, const char *said, const char *finish) {
    struct str c = {0};
    str_printf(&c, "\"choices\":[{\"index\":0,%s,\"logprobs\":null,\"finish_reason\":%s}]%s", said,
               finish, s->usage ? ",\"usage\":null" : "");
    expect_event(s, c.p);
    str_free(&c);
}

// The text of the next event, which must be one of text; false when it is another.
static bool next_text(struct stream *s, struct str *text) {
    ptrdiff_t end = sv_find(s->left, sv("\n\n"), 0);
    assert_true(end > 6);
    struct json_object *o = json_of(sv_cut(s->left, 6, (size_t)end)), *c = choice(o);
    struct sv said =
        s->chat ? json_text_at(json_at(c, "delta"), "content") : json_text_at(c, "text");
    struct str quoted = {0};
    json_quote(&quoted, said);
    struct str event = {0};
    str_printf(&event, s->chat ? "\"delta\":{\"content\":%s}" : "\"text\":%s", quoted.p);
    if (said.n) {
        str_add(text, said);
        expect_choice(s, event.p, "null");
    }
    bool more = said.n > 0;
    str_free(&quoted);
    str_free(&event);
    json_object_put(o);
    return more;
}

static void expect_stream(struct str *body, bool is_chat, bool usage, const char *text,
                          const char *finish) {
    cut_timings(body);
    struct stream s = {.left = str_sv(body), .chat = is_chat, .usage = usage};
    assert_int_equal(sscanf(body->p, "data: {\"id\":\"%63[^\"]", s.id), 1);
    ptrdiff_t at = sv_find(s.left, sv("\"created\":"), 0);
    assert_true(at > 0);
    s.created = strtoll(body->p + at + 10, NULL, 10);
    if (is_chat)
        expect_choice(&s, "\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null}",
                      "null");
    struct str all = {0};
    while (next_text(&s, &all)) continue;
    assert_string_equal(str_c(&all), text);
    str_free(&all);
    expect_choice(&s, is_chat ? "\"delta\":{}" : "\"text\":\"\"", finish);
    if (usage) expect_event(&s, "\"choices\":[]," USAGE);
    assert_true(sv_is(s.left, "data: [DONE]\n\n"));
}

static void streams(void **state) {
    struct answer a;
    (void)state;
    post(&main_server, &a, CHAT, "{" HI ",\"temperature\":0,\"stream\":true}");
    assert_int_equal(a.status, 200);
    assert_true(a.whole);
    assert_true(has_header(&a, "Content-Type: text/event-stream"));
    assert_true(has_header(&a, "Cache-Control: no-cache"));
    assert_true(has_header(&a, "Transfer-Encoding: chunked"));
    expect_stream(&a.body, true, false, GREETING, "\"stop\"");
    answer_free(&a);
    post(&main_server, &a, CHAT,
         "{" HI ",\"temperature\":0,\"stream\":true,\"stream_options\":"
         "{\"include_usage\":true}}");
    expect_stream(&a.body, true, true, GREETING, "\"stop\"");
    answer_free(&a);
    post(&main_server, &a, TEXT,
         "{\"prompt\":\"\\n\",\"temperature\":0,\"stream\":true,"
         "\"max_tokens\":4}");
    expect_stream(&a.body, false, false, "Hello, w\xef\xbf\xbd", "\"length\"");
    answer_free(&a);
    post(&main_server, &a, TEXT,
         "{\"prompt\":\"\\n\",\"temperature\":0,\"stream\":true,"
         "\"stop\":\"ld\"}");
    expect_stream(&a.body, false, false, "Hello, w\xc3\xb6r", "\"stop\"");
    answer_free(&a);
}

// The client's own id comes back, what is not printable in it replaced; without one there is ours.
static void request_ids(void **state) {
    struct answer a;
    (void)state;
    ask(&main_server, &a, "GET", "/health", "X-Request-Id: mine-1\r\n", sv(""));
    assert_true(has_header(&a, "X-Request-Id: mine-1"));
    answer_free(&a);
    ask(&main_server, &a, "GET", "/nothing", "X-Request-Id: a\xc3\xb6 b\r\n", sv(""));
    assert_true(has_header(&a, "X-Request-Id: a???b"));
    answer_free(&a);
    get(&main_server, &a, "/health");
    assert_true(sv_find(str_sv(&a.head), sv("\r\nX-Request-Id: req_"), 0) > 0);
    answer_free(&a);
}

static void kept_alive(void **state) {
    (void)state;
    struct sv request = sv("GET /health HTTP/1.1\r\nHost: test\r\n\r\n");
    struct str all = {0};
    int fd = client_open(&main_server);
    for (int i = 0; i < 3; i++) {
        str_clear(&all);
        client_send(fd, request);
        client_take_until(fd, &all, "{\"status\":\"ok\"}");
    }
    str_free(&all);
    close(fd);
}

static void slow_reader(void **state) {
    struct answer a;
    (void)state;
    int fd = client_socket(&main_server, 2048);
    client_ask(fd, "POST", TEXT, "",
               sv("{\"prompt\":\"\\n\",\"stream\":true,\"temperature\":0,\"ignore_eos\":true,"
                  "\"max_tokens\":1300}"));
    for (int i = 0; i < 5; i++) expect_text(CHAT, "{" HI ",\"temperature\":0}", GREETING, "stop");
    answer_take(&a, fd);
    assert_int_equal(a.status, 200);
    assert_true(a.whole);
    struct str want = {0};
    for (int i = 0; i < 100; i++) str_puts(&want, GREETING);
    expect_stream(&a.body, false, false, want.p, "\"length\"");
    str_free(&want);
    answer_free(&a);
}

// --- refusals ------------------------------------------------------------------------------------

static void refused_bodies(void **state) {
    static const struct {
        const char *path, *body, *param, *message;
    } cases[] = {
        {CHAT, "", NULL, "must be a JSON object"},
        {CHAT, "{\"messages\":", NULL, "JSON"},
        {CHAT, "[1]", NULL, "must be a JSON object, not an array"},
        {CHAT, "{\"messages\":[],}", NULL, "not valid JSON"},
        {CHAT, "{'messages':[]}", NULL, "not valid JSON"},
        {CHAT, "{\"temperature\":NaN}", NULL, "not valid JSON"},
        {CHAT, "{}/*a*/", NULL, "JSON"},
        {CHAT, "null", NULL, "the JSON value is null"},
        {CHAT, "{} x", NULL, "text after"},
        {CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", NULL, "JSON"},
        {CHAT, "{}", "messages", "\"messages\" is missing"},
        {CHAT, "{\"messages\":null}", "messages", "must be an array of messages, not null"},
        {CHAT, "{\"messages\":\"Hi\"}", "messages", "must be an array of messages, not a string"},
        {CHAT, "{\"messages\":[]}", "messages", "is empty"},
        {CHAT, "{\"messages\":[\"Hi\"]}", "messages", "messages[0] must be an object"},
        {CHAT, "{\"messages\":[{\"content\":\"Hi\"}]}", "messages", "messages[0].role is missing"},
        {CHAT, "{\"messages\":[{\"role\":\"user\"}]}", "messages",
         "messages[0].content is missing"},
        {CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":null}]}", "messages",
         "messages[0].content is null"},
        {CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\"}]}",
         "messages", "messages[1].content is missing"},
        {CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":5}]}", "messages", "not a number"},
        {CHAT,
         "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":"
         "{\"url\":\"http://127.0.0.1/\"}}]}]}",
         "messages", "messages[0].content[0]: a part of type \"image_url\""},
        {CHAT, "{" HI ",\"temperature\":\"hot\"}", "temperature", "must be a number, not a string"},
        {CHAT, "{" HI ",\"temperature\":-1}", "temperature", "must be from 0 to 100"},
        {CHAT, "{" HI ",\"top_p\":1.5}", "top_p", "must be from 0 to 1"},
        {CHAT, "{" HI ",\"top_k\":1.5}", "top_k", "must be a whole number, not 1.5"},
        {CHAT, "{" HI ",\"top_k\":-2}", "top_k",
         "\"top_k\" is -2; it must be from -1 to 1000000000"},
        {CHAT, "{" HI ",\"seed\":1e300}", "seed",
         "\"seed\" is 1e300; it must be from -9223372036854775808 to 9223372036854775807"},
        {CHAT, "{" HI ",\"seed\":9223372036854775808}", "seed", "is 9223372036854775808; it must"},
        {CHAT, "{" HI ",\"max_tokens\":3.5}", "max_tokens", "must be a whole number, not 3.5"},
        {CHAT, "{" HI ",\"max_tokens\":\"many\"}", "max_tokens", "a whole number"},
        {CHAT, "{" HI ",\"max_tokens\":-2}", "max_tokens", "must be from -1"},
        {CHAT, "{" HI ",\"stream\":1}", "stream", "must be a boolean"},
        {CHAT, "{" HI ",\"stream_options\":true}", "stream_options", "must be an object"},
        {CHAT, "{" HI ",\"stop\":5}", "stop", "must be a string or a list"},
        {CHAT, "{" HI ",\"stop\":[\"a\",null]}", "stop", "must be a string or a list"},
        {CHAT, "{" HI ",\"tools\":{\"type\":\"function\"}}", "tools", "an array of tools, not an"},
        {CHAT, "{" HI ",\"tools\":[{\"type\":\"function\"}]}", "tools",
         "tools[0].function.name is missing"},
        {CHAT, "{" HI ",\"tools\":[{\"type\":\"web\"}]}", "tools", "tools[0].type is \"web\""},
        {CHAT, "{" HI ",\"tool_choice\":\"required\"}", "tool_choice", "there are no tools"},
        {CHAT, "{" HI ",\"reasoning_effort\":5}", NULL, "reasoning_effort"},
        {TEXT, "{\"prompt\":\"a\",\"tools\":[{}]}", "tools", "\"tools\" are for chats"},
        {CHAT, "{" HI ",\"response_format\":{\"type\":\"xml\"}}", "response_format", "is \"xml\""},
        {CHAT, "{" HI ",\"response_format\":{\"type\":\"json_schema\"}}", "response_format",
         "json_schema.schema\" is missing"},
        {CHAT, "{" HI ",\"json_schema\":{\"properties\":{\"a\":{\"not\":{}}}}}", "json_schema",
         "#/properties/a/not: "},
        {CHAT, "{" HI ",\"grammar\":\"root ::= root\"}", "grammar", "never ends"},
        {CHAT, "{" HI ",\"regex\":\"a(?=b)\"}", "regex", "lookahead"},
        {CHAT, "{" HI ",\"regex\":\"a\",\"grammar\":\"root ::= \\\"a\\\"\"}", "regex", "exclude"},
        {CHAT, "{" HI ",\"regex\":\"a\",\"ignore_eos\":true}", "regex", "exclude"},
        {CHAT, "{" HI ",\"modalities\":[\"text\",\"audio\"]}", "modalities", "not supported"},
        {CHAT, "{" HI ",\"modalities\":\"audio\"}", "modalities", "not supported"},
        {TEXT, "{}", "prompt", "\"prompt\" is missing"},
        {TEXT, "{\"prompt\":null}", "prompt", "must be a string or a list of token ids, not null"},
        {TEXT, "{\"prompt\":[]}", "prompt", "no tokens"},
        {TEXT, "{\"prompt\":[1,-1]}", "prompt", "element 1"},
        {TEXT, "{\"prompt\":[264]}", "prompt", "those are 0 to 263"},
        {TEXT, "{\"prompt\":[\"a\",{}]}", "prompt", "\"prompt_string\" is missing"},
        {TEXT, "{\"prompt\":[\"a\",[]]}", "prompt", "no tokens"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused(&main_server, cases[i].path, cases[i].body, cases[i].param,
                       cases[i].message);
}

// Answers that are held to a grammar, greedy and drawn.
static void grammars(void **state) {
    (void)state;
    expect_text(CHAT, "{" HI ",\"temperature\":0,\"regex\":\"xyx\"}", "xyx", "stop");
    expect_text(CHAT, "{" HI ",\"temperature\":2,\"grammar\":\"root ::= \\\"[\\\" [q] \\\"]\\\"\"}",
                "[q]", "stop");
    expect_text(CHAT,
                "{" HI ",\"temperature\":2,\"response_format\":{\"type\":\"json_schema\","
                "\"json_schema\":{\"name\":\"n\",\"strict\":true,\"schema\":{\"const\":true}}}}",
                "true", "stop");
    expect_text(TEXT, "{\"prompt\":\"a\",\"json_schema\":{\"enum\":[12]}}", "12", "stop");
}

// What asks for nothing special is no reason to refuse.
static void harmless_fields(void **state) {
    (void)state;
    expect_text(CHAT,
                "{" HI
                ",\"temperature\":0,\"tools\":[],\"tool_choice\":\"auto\",\"response_format\":"
                "{\"type\":\"text\"},\"logprobs\":false,\"top_logprobs\":null,\"logit_bias\":{},"
                "\"n\":1,\"user\":\"me\",\"store\":false,\"metadata\":{\"a\":\"b\"},\"stop\":null,"
                "\"modalities\":[\"text\"],\"stream\":false,\"max_tokens\":null,\"unheard\":[1],"
                "\"dry_multiplier\":0,\"typical_p\":1.0}",
                GREETING, "stop");
}

static void routes(void **state) {
    struct answer a;
    (void)state;
    get(&main_server, &a, "/v1/nothing");
    expect_refusal(&a, 404, NULL, "no route GET /v1/nothing");
    answer_free(&a);
    get(&main_server, &a, CHAT);
    expect_refusal(&a, 405, NULL, "takes POST, not GET");
    assert_true(has_header(&a, "Allow: POST"));
    answer_free(&a);
    post(&main_server, &a, "/health", "{}");
    expect_refusal(&a, 405, NULL, "takes GET, not POST");
    answer_free(&a);
}

static void long_prompts(void **state) {
    struct server s;
    struct answer a;
    struct str body = {0};
    (void)state;
    server_start(&s, ARGS("-m", MODEL, "-c", "1024", "-np", "2"));
    str_puts(&body, "{\"prompt\":\"");
    for (int i = 0; i < 511; i++) str_addc(&body, 'x');
    str_puts(&body, "\",\"temperature\":0}");
    post(&s, &a, TEXT, body.p); // one token is left
    assert_int_equal(a.status, 200);
    answer_free(&a);
    body.n -= strlen("\",\"temperature\":0}");
    str_puts(&body, "x\"}");
    post(&s, &a, TEXT, body.p);
    expect_refusal(&a, 400, "prompt",
                   "the prompt has 512 tokens, which exceeds the available context size of 512");
    assert_true(sv_find(str_sv(&a.body), sv("\"context_length_exceeded\""), 0) > 0);
    answer_free(&a);
    str_free(&body);
    assert_int_equal(server_stop(&s), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(health_and_models),
        cmocka_unit_test(one_model),
        cmocka_unit_test(cached),
        cmocka_unit_test(chat),
        cmocka_unit_test(prompts),
        cmocka_unit_test(limits_and_stops),
        cmocka_unit_test(sampling),
        cmocka_unit_test(streams),
        cmocka_unit_test(request_ids),
        cmocka_unit_test(kept_alive),
        cmocka_unit_test(slow_reader),
        cmocka_unit_test(refused_bodies),
        cmocka_unit_test(grammars),
        cmocka_unit_test(harmless_fields),
        cmocka_unit_test(routes),
        cmocka_unit_test(long_prompts),
    };
    return cmocka_run_group_tests_name("server", tests, start_main, stop_main);
}
