// What a request may say of its sampling and of its end reaches the engine, and what is wrong with
// it is refused by name. The model's answer is certain: its first token is 259, "Hello", and its
// greatest logits are 8 ahead of the others.
#include "server_client.h"

static struct server main_server;

static int start_main(void **state) {
    (void)state;
    server_start(&main_server, ARGS("-m", MODEL));
    return 0;
}

static int stop_main(void **state) {
    (void)state;
    return server_stop(&main_server);
}

#define COLD "{\"prompt\":\"\\n\",\"temperature\":0,\"max_tokens\":5,"
#define HOT                                                                                        \
    "{\"prompt\":\"\\n\",\"temperature\":50,\"top_k\":0,\"top_p\":1,\"min_p\":0,"                  \
    "\"max_tokens\":13,\"seed\":3,"

static void expect(const char *body, const char *text) {
    expect_text_from(&main_server, TEXT, body, text, NULL);
}

// Whether the body's answer is another than the model's own.
static bool differs(const char *body, const char *own) {
    struct answer a;
    post(&main_server, &a, TEXT, body);
    char *text = text_of(&a, false);
    bool same = !strcmp(text, own);
    free(text);
    answer_free(&a);
    return !same;
}

// Hot enough that any token may come, but for what a filter leaves.
static void filters(void **state) {
    (void)state;
    assert_true(differs(HOT "\"ignore_eos\":false}", GREETING));
    expect(HOT "\"samplers\":[\"top_k\"],\"top_k\":1}", GREETING);
    expect(HOT "\"samplers\":\"km\",\"min_p\":1}", GREETING);
    expect(HOT "\"samplers\":[\"temperature\"],\"temperature\":0}", GREETING);
    expect(HOT "\"typical_p\":0.0001,\"samplers\":\"y\"}", GREETING);
    expect(HOT "\"top_n_sigma\":0.5}", GREETING);
    expect(HOT "\"mirostat\":2,\"mirostat_tau\":0,\"temperature\":0.3}", GREETING);
    expect(HOT "\"mirostat\":1,\"mirostat_tau\":0,\"temperature\":0.3}", GREETING);
    expect(HOT "\"temperature\":1.5,\"dynatemp_range\":1.5,\"dynatemp_exponent\":9,\"seed\":1}",
           GREETING);
    assert_true(
        differs("{\"prompt\":\"\\n\",\"temperature\":0,\"max_tokens\":13,\"xtc_probability\":1,"
                "\"xtc_threshold\":0.000001,\"top_p\":1,\"top_k\":0,\"min_p\":0}",
                GREETING));
    expect("{\"prompt\":\"\\n\",\"temperature\":0,\"max_tokens\":13,\"xtc_probability\":1,"
           "\"xtc_threshold\":0.000001}",
           GREETING); // min-p left one candidate
}

static void biases(void **state) {
    (void)state;
    expect(COLD "\"logit_bias\":{\"65\":100}}", "AAAAA");
    expect(COLD "\"logit_bias\":{\"65\":100,\"66\":101}}", "BBBBB");
    expect(COLD "\"logit_bias\":[[65,100]]}", "AAAAA");
    expect(COLD "\"logit_bias\":[[\"A\",100]]}", "AAAAA");
    expect(COLD "\"logit_bias\":{\"A\":100}}", "AAAAA");
    expect(COLD "\"logit_bias\":[[65,100],[65,false]]}", "Hello, w\xc3\xb6");
    assert_true(differs(COLD "\"logit_bias\":[[259,false]]}", "Hello, w\xc3\xb6"));
}

static void ends(void **state) {
    (void)state;
#define LONG "{\"prompt\":\"\\n\",\"temperature\":0,\"max_tokens\":40,"
    expect(LONG "\"stop_token_ids\":[260]}", "Hello,");
    expect(LONG "\"ignore_eos\":true,\"stop_token_ids\":[44]}", "Hello");
    expect(LONG "\"ignore_eos\":true,\"max_pattern_size\":13,\"min_pattern_size\":13,"
                "\"min_count\":2}",
           GREETING GREETING);
    expect(LONG "\"ignore_eos\":true,\"repetition_detection\":{\"max_pattern_size\":13,"
                "\"min_count\":2}}",
           GREETING GREETING);
    // The end can't come as the 13th token.
    expect(LONG "\"min_tokens\":14,\"max_tokens\":13,\"logit_bias\":{\"65\":4}}", GREETING "A");
    expect(LONG "\"min_tokens\":12}", GREETING);
}

static void repetitions(void **state) {
    (void)state;
#define TWICE LONG "\"ignore_eos\":true,\"dry_multiplier\":90,\"max_tokens\":16"
    assert_true(differs(TWICE "}", GREETING "Hello, w"));
    expect(TWICE ",\"dry_sequence_breakers\":[\",\"]}", GREETING "Hello, w");
    expect(TWICE ",\"dry_penalty_last_n\":13}", GREETING "Hello, w");
    expect(TWICE ",\"dry_allowed_length\":3}", GREETING "Hello, w");
    expect(TWICE ",\"dry_penalty_last_n\":0}", GREETING "Hello, w");
}

static void refused(void **state) {
    static const struct {
        const char *field, *param, *message;
    } cases[] = {
        {"\"typical_p\":2", "typical_p", "must be from 0 to 1"},
        {"\"mirostat\":3", "mirostat", "must be from 0 to 2"},
        {"\"xtc_probability\":-1", "xtc_probability", "must be from 0 to 1"},
        {"\"samplers\":[\"best\"]", "samplers", "there is no sampler \"best\""},
        {"\"samplers\":\"kz\"", "samplers", "the letter 'z'"},
        {"\"samplers\":5", "samplers", "a list of names"},
        {"\"samplers\":[5]", "samplers", "a list of names"},
        {"\"logit_bias\":5", "logit_bias", "must be an object"},
        {"\"logit_bias\":{\"9999\":1}", "logit_bias", "ids of the vocabulary"},
        {"\"logit_bias\":{\"5\":\"x\"}", "logit_bias", "must be"},
        {"\"logit_bias\":{\"5\":true}", "logit_bias", "must be"},
        {"\"logit_bias\":[[5]]", "logit_bias", "must be"},
        {"\"logit_bias\":[[-1,1]]", "logit_bias", "must be"},
        {"\"dry_sequence_breakers\":[1]", "dry_sequence_breakers", "a list of strings"},
        {"\"stop_token_ids\":[264]", "stop_token_ids", "those are 0 to 263"},
        {"\"stop_token_ids\":5", "stop_token_ids", "a list of token ids"},
        {"\"max_pattern_size\":3,\"min_count\":1", "max_pattern_size", "min_count is 1"},
        {"\"repetition_detection\":{\"max_pattern_size\":3,\"min_pattern_size\":4}",
         "repetition_detection", "min_pattern_size is 4"},
        {"\"adaptive_target\":0.5", "adaptive_target", "not supported"},
        {"\"bad_words\":[\"a\"]", "bad_words", "not supported"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str body = {0};
        str_printf(&body, "{\"prompt\":\"a\",%s}", cases[i].field);
        expect_refused(&main_server, TEXT, body.p, cases[i].param, cases[i].message);
        str_free(&body);
    }
}

// The server's options hold where a request says nothing.
static void defaults(void **state) {
    struct server s;
    (void)state;
#define PROMPT "{\"prompt\":\"\\n\""
    server_start(&s, ARGS("-m", MODEL, "--temp", "50", "--top-k", "1", "-n", "5", "-l", "65+100",
                          "--loop-detection", "1,1,3"));
    expect_text_from(&s, TEXT, PROMPT "}", "AAA", "stop");
    expect_text_from(&s, TEXT, PROMPT ",\"max_tokens\":2}", "AA", "length");
    expect_text_from(&s, TEXT, PROMPT ",\"max_pattern_size\":0}", "AAAAA", "length");
    expect_text_from(&s, TEXT, PROMPT ",\"logit_bias\":{}}", "Hello, w\xc3\xb6", "length");
    assert_int_equal(server_stop(&s), 0);
    server_start(&s, ARGS("-m", MODEL, "--temp", "50", "--samplers", "temperature", "--grammar",
                          "root ::= \"yes\" | \"no\"", "--seed", "4"));
    char *text[2];
    for (int i = 0; i < 2; i++) { // the same seed
        struct answer a;
        post(&s, &a, TEXT, PROMPT "}");
        text[i] = text_of(&a, false);
        answer_free(&a);
    }
    assert_true(!strcmp(text[0], "yes") || !strcmp(text[0], "no"));
    assert_string_equal(text[0], text[1]);
    free(text[0]);
    free(text[1]);
    expect_text_from(&s, TEXT, PROMPT ",\"regex\":\"xyx\"}", "xyx", "stop");
    assert_int_equal(server_stop(&s), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters),     cmocka_unit_test(biases),  cmocka_unit_test(ends),
        cmocka_unit_test(repetitions), cmocka_unit_test(refused), cmocka_unit_test(defaults),
    };
    return cmocka_run_group_tests_name("server_sampling", tests, start_main, stop_main);
}
