// Several answers to one prompt, the chances of their tokens, and prompts that come back with them.
// The model is certain of one token, whose logit is 8 ahead of the 263 others.
#include "server_client.h"

#include <math.h>

static struct server main_server;

static int start_main(void **state) {
    (void)state;
    server_start(&main_server, ARGS("-m", MODEL, "-np", "2", "--max-queue-depth", "3"));
    return 0;
}

static int stop_main(void **state) {
    (void)state;
    return server_stop(&main_server);
}

static struct json_object *ask_json(const char *path, const char *body) {
    return post_json(&main_server, path, body);
}

// 8, less what the norm's epsilon takes, as `mlxcel logits` and the checkpoint's numbers have it.
static void expect_logprob(struct json_object *v, bool certain) {
    const double ahead = 7.9997444;
    double want = (certain ? ahead : 0) - log(exp(ahead) + 263);
    assert_true(fabs(json_object_get_double(v) - want) < 1e-6);
}

static const char *const pieces[] = {"Hello", ",", " w", "\xc3", "\xb6"};

static void expect_chat_token(struct json_object *t, size_t i) {
    struct sv want = sv(pieces[i]);
    struct json_object *bytes = json_at(t, "bytes");
    assert_int_equal(json_object_array_length(bytes), want.n);
    for (size_t k = 0; k < want.n; k++)
        assert_int_equal(json_object_get_int(nth(bytes, k)), (unsigned char)want.p[k]);
    assert_true(sv_eq(json_text_at(t, "token"), i < 3 ? want : sv("\xef\xbf\xbd")));
    expect_logprob(json_at(t, "logprob"), true);
}

static void chat_logprobs(void **state) {
    (void)state;
    struct json_object *o = ask_json(CHAT, "{" HI ",\"temperature\":0,\"max_tokens\":5,"
                                           "\"logprobs\":true,\"top_logprobs\":2}");
    struct json_object *content = json_at(json_at(choice(o), "logprobs"), "content");
    assert_int_equal(json_object_array_length(content), 5);
    for (size_t i = 0; i < 5; i++) {
        struct json_object *top = json_at(nth(content, i), "top_logprobs");
        expect_chat_token(nth(content, i), i);
        assert_int_equal(json_object_array_length(top), 2);
        expect_chat_token(nth(top, 0), i);
        expect_logprob(json_at(nth(top, 1), "logprob"), false);
    }
    json_object_put(o);
    // The end's own token is none of the text's, nor are those of a stop string.
    o = ask_json(CHAT, "{" HI ",\"temperature\":0,\"logprobs\":true}");
    content = json_at(json_at(choice(o), "logprobs"), "content");
    assert_int_equal(json_object_array_length(content), 12);
    assert_int_equal(json_object_array_length(json_at(nth(content, 0), "top_logprobs")), 0);
    json_object_put(o);
    o = ask_json(CHAT, "{" HI ",\"temperature\":0,\"logprobs\":true,\"stop\":\", w\"}");
    content = json_at(json_at(choice(o), "logprobs"), "content");
    assert_int_equal(json_object_array_length(content), 1);
    json_object_put(o);
    // What they are is what the model says, before any sampler.
    o = ask_json(CHAT, "{" HI ",\"temperature\":0,\"logprobs\":true,\"max_tokens\":1,"
                       "\"logit_bias\":{\"65\":100}}");
    expect_logprob(json_at(nth(json_at(json_at(choice(o), "logprobs"), "content"), 0), "logprob"),
                   false);
    json_object_put(o);
}

static void text_logprobs(void **state) {
    static const char *const spelt[] = {"Hello", ",", " w", "bytes:\\xc3", "bytes:\\xb6"};
    static const int offset[] = {0, 5, 6, 8, 8};
    (void)state;
    for (int tops = 0; tops <= 2; tops += 2) {
        struct str body = {0};
        str_printf(&body, "{\"prompt\":\"\\n\",\"temperature\":0,\"max_tokens\":5,\"logprobs\":%d}",
                   tops);
        struct json_object *o = ask_json(TEXT, body.p), *l = json_at(choice(o), "logprobs");
        for (size_t i = 0; i < 5; i++) {
            struct json_object *top = nth(json_at(l, "top_logprobs"), i);
            assert_true(sv_is(json_text(nth(json_at(l, "tokens"), i)), spelt[i]));
            expect_logprob(nth(json_at(l, "token_logprobs"), i), true);
            assert_int_equal(json_object_get_int(nth(json_at(l, "text_offset"), i)), offset[i]);
            assert_int_equal(json_object_object_length(top), tops ? 2 : 1);
            expect_logprob(json_at(top, spelt[i]), true);
        }
        json_object_put(o);
        str_free(&body);
    }
}

// In a stream each token's chances come with its text, once.
static void streamed(void **state) {
    (void)state;
    struct answer a;
    size_t tokens[2] = {0}, ends[2] = {0}, roles[2] = {0}, usages = 0;
    struct str text[2] = {{0}};
    struct json_object *o;
    post(&main_server, &a, CHAT,
         "{" HI ",\"temperature\":0,\"n\":2,\"logprobs\":true,\"stream\":true,"
         "\"stream_options\":{\"include_usage\":true}}");
    assert_int_equal(a.status, 200);
    struct sv left = str_sv(&a.body);
    while ((o = next_event(&left)) != NULL) {
        struct json_object *c = choice(o), *usage = json_at(o, "usage");
        if (usage) {
            assert_null(c);
            assert_int_equal(json_int_at(usage, "prompt_tokens", 0), 21);
            assert_int_equal(json_int_at(usage, "completion_tokens", 0), 26);
            usages++;
        }
        size_t i = (size_t)json_int_at(c, "index", 0);
        assert_true(i < 2);
        struct json_object *content = json_at(json_at(c, "logprobs"), "content");
        for (size_t k = 0; content && k < json_object_array_length(content); k++)
            if (tokens[i]++ < 5) expect_chat_token(nth(content, k), tokens[i] - 1);
        str_add(&text[i], json_text_at(json_at(c, "delta"), "content"));
        roles[i] += json_text_at(json_at(c, "delta"), "role").n > 0;
        ends[i] += json_text_at(c, "finish_reason").n > 0;
        json_object_put(o);
    }
    assert_int_equal(left.n, 0);
    assert_int_equal(usages, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tokens[i], 12);
        assert_int_equal(ends[i], 1);
        assert_int_equal(roles[i], 1);
        assert_string_equal(str_c(&text[i]), GREETING);
        str_free(&text[i]);
    }
    answer_free(&a);
}

// More answers than places: they take turns. Each has a seed of its own, the first the request's,
// and stops for itself.
static void choices(void **state) {
    (void)state;
    struct json_object *o = ask_json(TEXT, "{\"prompt\":\"\\n\",\"temperature\":0,\"n\":5}");
    struct json_object *list = json_at(o, "choices");
    assert_int_equal(json_object_array_length(list), 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(json_int_at(nth(list, i), "index", -1), i);
        assert_true(sv_is(json_text_at(nth(list, i), "text"), GREETING));
        assert_true(sv_is(json_text_at(nth(list, i), "finish_reason"), "stop"));
    }
    assert_int_equal(json_int_at(json_at(o, "usage"), "prompt_tokens", 0), 1);
    assert_int_equal(json_int_at(json_at(o, "usage"), "completion_tokens", 0), 65);
    json_object_put(o);
#define HOT                                                                                        \
    "{\"prompt\":\"\\n\",\"temperature\":50,\"top_k\":0,\"top_p\":1,\"min_p\":0,"                  \
    "\"ignore_eos\":true,\"max_tokens\":40,\"stop\":\"A\","
    o = ask_json(TEXT, HOT "\"seed\":7,\"n\":3,\"best_of\":3}");
    for (size_t i = 0; i < 3; i++) {
        struct str body = {0};
        str_printf(&body, HOT "\"seed\":%zu}", 7 + i);
        struct json_object *alone = ask_json(TEXT, body.p);
        struct json_object *one = nth(json_at(o, "choices"), i);
        assert_true(sv_eq(json_text_at(choice(alone), "text"), json_text_at(one, "text")));
        json_object_put(alone);
        str_free(&body);
    }
    json_object_put(o);
}

static void echoes(void **state) {
    (void)state;
    expect_text_from(&main_server, TEXT,
                     "{\"prompt\":\"a\\n\",\"temperature\":0,\"max_tokens\":2,\"echo\":true}",
                     "a\nHello,", "length");
    expect_text_from(&main_server, TEXT,
                     "{\"prompt\":[97,10],\"temperature\":0,\"max_tokens\":2,\"echo\":true}",
                     "a\nHello,", "length");
    struct answer a;
    struct str text = {0};
    struct json_object *o;
    post(&main_server, &a, TEXT,
         "{\"prompt\":\"a\\n\",\"temperature\":0,\"max_tokens\":2,\"echo\":true,\"stream\":true}");
    struct sv left = str_sv(&a.body);
    while ((o = next_event(&left)) != NULL) {
        str_add(&text, json_text_at(choice(o), "text"));
        json_object_put(o);
    }
    assert_string_equal(str_c(&text), "a\nHello,");
    str_free(&text);
    answer_free(&a);
}

static void refused(void **state) {
    static const struct {
        const char *path, *body, *param, *message;
    } cases[] = {
        {TEXT, "{\"prompt\":\"a\",\"n\":0}", "n", "must be from 1 to 128"},
        {TEXT, "{\"prompt\":\"a\",\"n\":6}", "n", "makes and queues 5 at most"},
        {TEXT, "{\"prompt\":\"a\",\"best_of\":2}", "best_of", "\"best_of\" is 2 and \"n\" 1"},
        {TEXT, "{\"prompt\":\"a\",\"logprobs\":21}", "logprobs", "from 0 to 20"},
        {TEXT, "{\"prompt\":\"a\",\"logprobs\":true}", "logprobs", "a whole number"},
        {TEXT, "{\"prompt\":\"a\",\"echo\":true,\"logprobs\":1}", "echo", "not supported"},
        {TEXT, "{\"prompt\":\"a\",\"suffix\":\"b\"}", "suffix", "not supported"},
#define FIELD(path, body, name, value)                                                             \
    {path, "{" body ",\"" name "\":" value "}", name, "supported"}
#define BOTH(name, value) FIELD(TEXT, "\"prompt\":\"a\"", name, value), FIELD(CHAT, HI, name, value)
        BOTH("include_stop_str_in_output", "true"),
        BOTH("adapters", "\"a/b\""),
        BOTH("skip_special_tokens", "false"),
        BOTH("include_reasoning", "false"),
        BOTH("return_token_ids", "true"),
        BOTH("return_tokens_as_token_ids", "true"),
        BOTH("use_beam_search", "true"),
        BOTH("truncate_prompt_tokens", "4"),
        BOTH("documents", "[{}]"),
        BOTH("thinking_budget_tokens", "0"),
        BOTH("n_cmpl", "2"),
        BOTH("t_max_predict_ms", "5"),
        BOTH("response_fields", "[\"a\"]"),
        FIELD(CHAT, HI, "chat_template", "\"{{ 1 }}\""),
        FIELD(CHAT, HI, "reasoning_format", "\"none\""),
        FIELD(CHAT, HI, "add_special_tokens", "true"),
        FIELD(TEXT, "\"prompt\":\"a\"", "add_special_tokens", "false"),
        {CHAT, "{" HI ",\"lora\":[{\"id\":0,\"scale\":1}]}", "lora", "no adapters"},
        {CHAT, "{" HI ",\"echo\":true}", "echo", "is for /v1/completions"},
        {CHAT, "{" HI ",\"logprobs\":1}", "logprobs", "must be a boolean"},
        {CHAT, "{" HI ",\"top_logprobs\":1}", "top_logprobs", "needs \"logprobs\""},
        {CHAT, "{" HI ",\"logprobs\":true,\"top_logprobs\":-1}", "top_logprobs", "from 0 to 20"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused(&main_server, cases[i].path, cases[i].body, cases[i].param,
                       cases[i].message);
}

// Values that ask for nothing are fine.
static void neutral(void **state) {
    static const char fields[] =
        "\"max_tokens\":1,\"skip_special_tokens\":true,\"include_stop_str_in_output\":false,"
        "\"include_reasoning\":true,\"adapters\":null,\"lora\":[],\"n_cmpl\":1,\"n_indent\":0,"
        "\"t_max_predict_ms\":-1,\"documents\":[],\"chat_template\":null,\"documents\":[],"
        "\"thinking_token_budget\":-1,\"truncate_prompt_tokens\":null,\"return_token_ids\":false,"
        "\"use_beam_search\":false,\"reasoning_format\":\"auto\",\"length_penalty\":1}";
    struct str body = {0};
    (void)state;
    str_printf(&body, "{\"prompt\":\"a\",%s", fields);
    json_object_put(post_json(&main_server, TEXT, body.p));
    str_clear(&body);
    str_printf(&body, "{" HI ",%s", fields);
    json_object_put(post_json(&main_server, CHAT, body.p));
    str_free(&body);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chat_logprobs), cmocka_unit_test(text_logprobs),
        cmocka_unit_test(streamed),      cmocka_unit_test(choices),
        cmocka_unit_test(echoes),        cmocka_unit_test(refused),
        cmocka_unit_test(neutral),
    };
    return cmocka_run_group_tests_name("server_choices", tests, start_main, stop_main);
}
