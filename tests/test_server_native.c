// llama-server's own routes: what its clients expect of them, as its own tests have it.
#include "folder.h"
#include "server_client.h"

#include <math.h>

#include "base/file.h"

#define COMPLETION "/completion"
#define NL         "{\"prompt\":\"a\\n\",\"temperature\":0"

static struct server main_server;

static int start_main(void **state) {
    (void)state;
    server_start(&main_server, ARGS("-m", MODEL, "-np", "2", "-c", "2048"));
    return 0;
}

static int stop_main(void **state) {
    (void)state;
    return server_stop(&main_server);
}

static struct json_object *ask_json(const char *path, const char *body) {
    return post_json(&main_server, path, body);
}

static int64_t timing(struct json_object *o, const char *name) {
    return json_int_at(json_at(o, "timings"), name, -1);
}

static void expect_text_at(struct json_object *o, const char *key, const char *want) {
    struct sv got = json_text_at(o, key);
    if (!json_object_is_type(json_at(o, key), json_type_string) || !sv_is(got, want))
        fail_msg("%s is \"%s\", not \"%s\"", key, got.p ? got.p : "", want);
}

// An error as llama-server writes it.
static void expect_error(const struct server *s, const char *method, const char *path,
                         const char *body, int status, const char *type, const char *message) {
    struct answer a;
    ask(s, &a, method, path, "", sv(body));
    if (a.status != status) fail_msg("%s: %d %s", body, a.status, str_c(&a.body));
    struct json_object *o = json_of(str_sv(&a.body)), *e = json_at(o, "error");
    assert_int_equal(json_int_at(e, "code", 0), status);
    expect_text_at(e, "type", type);
    if (sv_find(json_text_at(e, "message"), sv(message), 0) < 0)
        fail_msg("\"%s\" does not say \"%s\"", json_text_at(e, "message").p, message);
    json_object_put(o);
    answer_free(&a);
}

static void refuse_body(const char *path, const char *body, const char *message) {
    expect_error(&main_server, "POST", path, body, 400, "invalid_request_error", message);
}

// --- completions ---------------------------------------------------------------------------------

static void whole(void **state) {
    static const char *const keys[] = {"index",
                                       "content",
                                       "tokens",
                                       "id_slot",
                                       "stop",
                                       "model",
                                       "tokens_predicted",
                                       "tokens_evaluated",
                                       "generation_settings",
                                       "prompt",
                                       "has_new_line",
                                       "truncated",
                                       "stop_type",
                                       "stopping_word",
                                       "tokens_cached",
                                       "timings"};
    (void)state;
    struct json_object *o = ask_json(COMPLETION, NL ",\"n_predict\":3}");
    assert_int_equal(json_object_object_length(o), sizeof keys / sizeof *keys);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) assert_non_null(json_at(o, keys[i]));
    expect_text_at(o, "content", "Hello, w");
    expect_text_at(o, "model", "text");
    expect_text_at(o, "prompt", "a\n");
    expect_text_at(o, "stop_type", "limit");
    expect_text_at(o, "stopping_word", "");
    assert_int_equal(json_object_array_length(json_at(o, "tokens")), 0);
    assert_true(json_bool_at(o, "stop", false));
    assert_false(json_bool_at(o, "truncated", true));
    assert_false(json_bool_at(o, "has_new_line", true));
    assert_int_equal(json_int_at(o, "index", -1), 0);
    assert_in_range(json_int_at(o, "id_slot", -1), 0, 1);
    assert_int_equal(json_int_at(o, "tokens_predicted", 0), 3);
    assert_int_equal(json_int_at(o, "tokens_evaluated", 0), 2);
    assert_int_equal(json_int_at(o, "tokens_cached", 0), 4);
    assert_int_equal(timing(o, "prompt_n"), 2);
    assert_int_equal(timing(o, "predicted_n"), 3);
    assert_int_equal(timing(o, "cache_n"), 0);
    json_object_put(o);
    o = ask_json("/completions", NL ",\"n_predict\":2,\"return_tokens\":true}");
    assert_int_equal(json_object_get_int(nth(json_at(o, "tokens"), 0)), 259);
    assert_int_equal(json_object_get_int(nth(json_at(o, "tokens"), 1)), 44);
    json_object_put(o);
    // Only the prompt.
    o = ask_json(COMPLETION, NL ",\"n_predict\":0}");
    expect_text_at(o, "content", "");
    assert_int_equal(timing(o, "prompt_n"), 2);
    assert_int_equal(timing(o, "predicted_n"), 0);
    json_object_put(o);
}

static void ends(void **state) {
    (void)state;
    struct json_object *o = ask_json(COMPLETION, NL "}");
    expect_text_at(o, "content", GREETING);
    expect_text_at(o, "stop_type", "eos");
    assert_int_equal(json_int_at(o, "tokens_predicted", 0), 13);
    json_object_put(o);
    o = ask_json(COMPLETION, NL ",\"stop\":[\"zzz\",\"rld\"]}");
    expect_text_at(o, "content", "Hello, w\xc3\xb6");
    expect_text_at(o, "stop_type", "word");
    expect_text_at(o, "stopping_word", "rld");
    json_object_put(o);
    // A context that is full. A break of a line was written.
    o = ask_json(COMPLETION, NL ",\"logit_bias\":[[10,100]]}");
    expect_text_at(o, "stop_type", "limit");
    assert_true(json_bool_at(o, "truncated", false));
    assert_true(json_bool_at(o, "has_new_line", false));
    assert_int_equal(timing(o, "predicted_n"), 1022);
    json_object_put(o);
    // The end that never comes.
    o = ask_json(COMPLETION, NL ",\"ignore_eos\":true,\"n_predict\":20}");
    struct json_object *settings = json_at(o, "generation_settings");
    struct json_object *bias = nth(json_at(settings, "logit_bias"), 0);
    assert_true(json_object_object_get_ex(bias, "bias", NULL));
    assert_null(json_at(bias, "bias"));
    assert_int_equal(json_int_at(bias, "token", 0), 263);
    assert_int_equal(timing(o, "predicted_n"), 20);
    json_object_put(o);
    o = ask_json(COMPLETION, NL ",\"ignore_eos\":false,\"n_predict\":1}");
    bias = json_at(json_at(o, "generation_settings"), "logit_bias");
    assert_int_equal(json_object_array_length(bias), 0);
    json_object_put(o);
}

// Before a line that begins with too little white space, and at the end of one when time is over.
static void line_limits(void **state) {
    (void)state;
#define LINES                                                                                      \
    "{\"prompt\":\"a\",\"temperature\":0,\"n_predict\":9,\"grammar\":\"root ::= \\\"a\\\\n  b\\\\n c\\\"\","
    struct json_object *o = ask_json(COMPLETION, LINES "\"n_indent\":2}");
    expect_text_at(o, "content", "a\n  b\n ");
    expect_text_at(o, "stop_type", "limit");
    json_object_put(o);
    o = ask_json(COMPLETION, LINES "\"n_indent\":1}");
    expect_text_at(o, "content", "a\n  b\n c");
    json_object_put(o);
    o = ask_json(COMPLETION, LINES "\"t_max_predict_ms\":60000}");
    expect_text_at(o, "content", "a\n  b\n c");
    json_object_put(o);
    o = ask_json(COMPLETION, "{\"prompt\":\"a\",\"temperature\":0,\"logit_bias\":[[10,100]],"
                             "\"t_max_predict_ms\":1}");
    assert_false(json_bool_at(o, "truncated", true));
    expect_text_at(o, "stop_type", "limit");
    json_object_put(o);
}

static void settings(void **state) {
    (void)state;
    struct json_object *o =
        ask_json(COMPLETION, NL ",\"n_predict\":1,\"seed\":42,\"top_p\":0.9,\"min_p\":0.01,"
                                "\"stop\":[\"x\"],\"samplers\":[\"top_k\",\"temperature\"],"
                                "\"dry_sequence_breakers\":[\"!\"],\"n_probs\":2}");
    struct json_object *s = json_at(o, "generation_settings");
    assert_int_equal(json_int_at(s, "seed", 0), 42);
    assert_int_equal(json_int_at(s, "n_predict", 0), 1);
    assert_int_equal(json_int_at(s, "max_tokens", 0), 1);
    assert_int_equal(json_int_at(s, "n_probs", 0), 2);
    assert_true(json_number_at(s, "top_p", 0) == 0.9);
    assert_true(json_number_at(s, "min_p", 0) == 0.01);
    assert_true(json_number_at(s, "adaptive_target", 0) == -1);
    assert_non_null(json_at(s, "adaptive_decay"));
    assert_true(sv_is(json_text(nth(json_at(s, "stop"), 0)), "x"));
    assert_true(sv_is(json_text(nth(json_at(s, "samplers"), 1)), "temperature"));
    assert_int_equal(json_object_array_length(json_at(s, "samplers")), 2);
    assert_true(sv_is(json_text(nth(json_at(s, "dry_sequence_breakers"), 0)), "!"));
    json_object_put(o);
    // The seed of an answer gives the same answer again.
#define HOT                                                                                        \
    "{\"prompt\":\"a\",\"temperature\":50,\"top_k\":0,\"top_p\":1,\"min_p\":0,\"n_predict\":20"
    o = ask_json(COMPLETION, HOT "}");
    int64_t seed = json_int_at(json_at(o, "generation_settings"), "seed", -1);
    struct str body = {0};
    str_printf(&body, HOT ",\"seed\":%lld}", (long long)seed);
    struct json_object *again = ask_json(COMPLETION, body.p);
    struct json_object *other = ask_json(COMPLETION, HOT ",\"seed\":1}");
    assert_true(sv_eq(json_text_at(o, "content"), json_text_at(again, "content")));
    assert_false(sv_eq(json_text_at(o, "content"), json_text_at(other, "content")));
    str_free(&body);
    json_object_put(o);
    json_object_put(again);
    json_object_put(other);
}

static void wanted_fields(void **state) {
    (void)state;
    struct json_object *o = ask_json(
        COMPLETION, NL ",\"n_predict\":2,\"response_fields\":[\"content\",\"prompt\",\"nothing\","
                       "\"generation_settings/n_predict\",\"content/x\",\"\"]}");
    assert_int_equal(json_object_object_length(o), 3);
    expect_text_at(o, "content", "Hello,");
    expect_text_at(o, "prompt", "a\n");
    assert_int_equal(json_int_at(o, "generation_settings/n_predict", 0), 2);
    json_object_put(o);
    static const char *const all[] = {"[]", "5", "[\"content\",5]"};
    for (size_t i = 0; i < 3; i++) {
        struct str body = {0};
        str_printf(&body, NL ",\"n_predict\":1,\"response_fields\":%s}", all[i]);
        o = ask_json(COMPLETION, body.p);
        assert_non_null(json_at(o, "generation_settings"));
        json_object_put(o);
        str_free(&body);
    }
}

// Text, ids, both in one list, objects; and lists of those, which are several prompts.
static void prompts(void **state) {
    static const char *const one[] = {
        "\"a\\n\"",     "[97,10]",
        "[\"a\",10]",   "[[97,\"\\n\"]]",
        "[\"a\\n\"]",   "{\"prompt_string\":\"a\\n\"}",
        "[97,\"\\n\"]", "{\"prompt_string\":[97,10],\"multimodal_data\":[]}"};
    (void)state;
    for (size_t i = 0; i < sizeof one / sizeof *one; i++) {
        struct str body = {0};
        str_printf(&body, "{\"temperature\":0,\"n_predict\":1,\"prompt\":%s}", one[i]);
        struct json_object *o = ask_json(COMPLETION, body.p);
        expect_text_at(o, "prompt", "a\n");
        expect_text_at(o, "content", "Hello");
        json_object_put(o);
        str_free(&body);
    }
    struct json_object *list =
        ask_json(COMPLETION, "{\"temperature\":0,\"n_predict\":1,\"n_cmpl\":2,\"prompt\":["
                             "\"a\\n\",[98,\"\\n\"]]}");
    assert_int_equal(json_object_array_length(list), 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(json_int_at(nth(list, i), "index", -1), i);
        expect_text_at(nth(list, i), "prompt", i < 2 ? "a\n" : "b\n");
        expect_text_at(nth(list, i), "content", "Hello");
    }
    json_object_put(list);
    // OpenAI's route takes several, too.
    struct json_object *o = ask_json(TEXT, "{\"temperature\":0,\"max_tokens\":1,\"echo\":true,"
                                           "\"prompt\":[\"a\\n\",[98,10],\"cc\\n\"]}");
    static const char *const texts[] = {"a\nHello", "b\nHello", "cc\nHello"};
    for (size_t i = 0; i < 3; i++) {
        expect_text_at(nth(json_at(o, "choices"), i), "text", texts[i]);
        assert_int_equal(json_int_at(nth(json_at(o, "choices"), i), "index", -1), i);
    }
    assert_int_equal(json_int_at(json_at(o, "usage"), "prompt_tokens", 0), 7);
    json_object_put(o);
}

// What a stream says before its end, together, is what a whole answer says.
static void streams(void **state) {
    struct answer a;
    struct json_object *o, *last = NULL;
    struct str text = {0};
    size_t tokens = 0;
    (void)state;
    post(&main_server, &a, COMPLETION, NL ",\"stream\":true,\"n_probs\":1}");
    assert_true(has_header(&a, "Content-Type: text/event-stream"));
    assert_true(sv_find(str_sv(&a.body), sv("[DONE]"), 0) < 0);
    struct sv left = str_sv(&a.body);
    while (left.n) {
        assert_null(last);
        o = next_event(&left);
        if (json_bool_at(o, "stop", false)) {
            last = o;
            continue;
        }
        size_t n = json_object_array_length(json_at(o, "tokens"));
        assert_true(n > 0);
        tokens += n;
        assert_int_equal(json_int_at(o, "tokens_predicted", 0), tokens);
        assert_int_equal(json_int_at(o, "tokens_evaluated", 0), 2);
        assert_null(json_at(o, "timings"));
        str_add(&text, json_text_at(o, "content"));
        json_object_put(o);
    }
    assert_string_equal(str_c(&text), GREETING);
    assert_int_equal(tokens, 13);
    expect_text_at(last, "content", "");
    expect_text_at(last, "stop_type", "eos");
    assert_int_equal(json_object_array_length(json_at(last, "tokens")), 0);
    assert_non_null(json_at(last, "generation_settings"));
    assert_null(json_at(last, "completion_probabilities"));
    assert_int_equal(timing(last, "predicted_n"), 13);
    json_object_put(last);
    str_free(&text);
    answer_free(&a);
}

// A prompt's progress, from nothing to all of it, before its first token.
static void expect_progress(const char *path, const char *begin, const char *end) {
    struct answer a;
    struct json_object *o;
    struct str body = {0};
    int64_t done = -1, events = 0;
    double ms = 0;
    str_puts(&body, "{\"stream\":true,\"timings_per_token\":true,\"return_progress\":true,"
                    "\"cache_prompt\":false,\"n_predict\":2,");
    str_puts(&body, begin);
    for (int i = 0; i < 900; i++) str_addc(&body, 'x');
    str_puts(&body, end);
    post(&main_server, &a, path, body.p);
    assert_int_equal(a.status, 200);
    struct sv left = str_sv(&a.body);
    int64_t total = sv_is(sv(path), CHAT) ? 919 : 900; // the template's are 19
    while (left.n && (o = next_event(&left)) != NULL) {
        struct json_object *p = json_at(o, "prompt_progress"), *t = json_at(o, "timings");
        if (p) {
            assert_int_equal(json_int_at(p, "total", 0), total);
            assert_int_equal(json_int_at(p, "cache", -1), 0);
            assert_true(json_int_at(p, "processed", -1) > done);
            done = json_int_at(p, "processed", -1);
            assert_int_equal(timing(o, "prompt_n"), done);
            assert_true(json_number_at(t, "prompt_ms", -1) >= ms);
            ms = json_number_at(t, "prompt_ms", -1);
            if (!events++) assert_int_equal(done, 0);
        } else if (t) {
            assert_int_equal(done, total);
        }
        json_object_put(o);
    }
    assert_true(events > 1 && ms > 0);
    str_free(&body);
    answer_free(&a);
}

static void progress(void **state) {
    (void)state;
    expect_progress(COMPLETION, "\"prompt\":\"", "\"}");
    expect_progress(TEXT, "\"prompt\":\"", "\"}");
    expect_progress(CHAT, "\"messages\":[{\"role\":\"user\",\"content\":\"", "\"}]}");
}

// --- timings -------------------------------------------------------------------------------------

static void timings(void **state) {
    (void)state;
    for (int n = 1; n <= 8; n += 7) {
        struct str body = {0};
        str_printf(&body, NL ",\"n_predict\":%d}", n);
        struct json_object *o = ask_json(COMPLETION, body.p), *t = json_at(o, "timings");
        double ms = json_number_at(t, "predicted_ms", -1);
        double rate = json_number_at(t, "predicted_per_second", -1);
        assert_int_equal(json_int_at(t, "predicted_n", 0), n);
        assert_true(json_number_at(t, "prompt_ms", 0) > 0);
        assert_true(json_number_at(t, "prompt_per_token_ms", 0) > 0);
        assert_true(json_number_at(t, "prompt_per_second", 0) > 0);
        // The first token comes with the prompt.
        if (n == 1) assert_true(ms == 0 && rate == 0);
        if (n == 1) assert_true(json_number_at(t, "predicted_per_token_ms", -1) == 0);
        if (n > 1) assert_true(fabs(rate - 1e3 / ms * (n - 1)) < 1e-6 * rate);
        json_object_put(o);
        str_free(&body);
    }
    static const char *const long_prompt =
        "{\"temperature\":0,\"n_predict\":4,\"prompt\":\"Whoever has read this long beginning "
        "once need not read all of it again when it comes back.\"%s}";
    for (int i = 0; i < 3; i++) {
        struct str body = {0};
        str_printf(&body, long_prompt, i == 2 ? ",\"cache_prompt\":false" : "");
        struct json_object *o = ask_json(COMPLETION, body.p);
        int64_t n = json_int_at(o, "tokens_evaluated", 0);
        assert_int_equal(timing(o, "prompt_n") + timing(o, "cache_n"), n);
        assert_int_equal(timing(o, "cache_n"), i == 1 ? (n - 1) / 32 * 32 : 0);
        json_object_put(o);
        str_free(&body);
    }
}

// OpenAI's routes tell them too: at the end, or with timings_per_token in each event with text.
static void openai_timings(void **state) {
    (void)state;
    for (int each = 0; each <= 1; each++) {
        struct answer a;
        struct json_object *o;
        size_t with = 0, without = 0;
        post(&main_server, &a, CHAT,
             each ? "{" HI ",\"temperature\":0,\"stream\":true,\"timings_per_token\":true}"
                  : "{" HI ",\"temperature\":0,\"stream\":true}");
        struct sv left = str_sv(&a.body);
        while ((o = next_event(&left)) != NULL) {
            struct json_object *t = json_at(o, "timings");
            *(t ? &with : &without) += 1;
            if (t) assert_true(json_int_at(t, "predicted_n", 0) > 0);
            if (json_text_at(choice(o), "finish_reason").n) assert_non_null(t);
            json_object_put(o);
        }
        assert_true(each ? without == 1 && with > 1 : with == 1 && without > 1);
        answer_free(&a);
    }
}

// --- probabilities -------------------------------------------------------------------------------

static void probabilities(void **state) {
    (void)state;
    struct json_object *o = ask_json(COMPLETION, NL ",\"n_predict\":5,\"n_probs\":3}");
    struct json_object *list = json_at(o, "completion_probabilities");
    assert_int_equal(json_object_array_length(list), 5);
    for (size_t i = 0; i < 5; i++) {
        struct json_object *top = json_at(nth(list, i), "top_logprobs");
        assert_int_equal(json_object_array_length(top), 3);
        assert_int_equal(json_int_at(nth(list, i), "id", -1), json_int_at(nth(top, 0), "id", -2));
        assert_true(json_number_at(nth(list, i), "logprob", 1) < 0);
        assert_true(json_object_array_length(json_at(nth(list, i), "bytes")) > 0);
    }
    expect_text_at(nth(list, 2), "token", " w");
    expect_text_at(nth(list, 3), "token", ""); // half a character
    json_object_put(o);
    // The end's token has some, and no text.
    o = ask_json(COMPLETION, NL ",\"n_probs\":1}");
    list = json_at(o, "completion_probabilities");
    assert_int_equal(json_object_array_length(list), 13);
    assert_int_equal(json_int_at(nth(list, 12), "id", 0), 263);
    expect_text_at(nth(list, 12), "token", "");
    json_object_put(o);
    // What the sampler drew from, which top_k leaves.
    o = ask_json(COMPLETION, "{\"prompt\":\"a\\n\",\"temperature\":3,\"top_k\":4,\"top_p\":1,"
                             "\"min_p\":0,\"n_predict\":5,\"n_probs\":9,\"seed\":1,"
                             "\"post_sampling_probs\":true}");
    list = json_at(o, "completion_probabilities");
    assert_int_equal(json_object_array_length(list), 5);
    for (size_t i = 0; i < 5; i++) {
        struct json_object *top = json_at(nth(list, i), "top_probs");
        double sum = 0, own = json_number_at(nth(list, i), "prob", 0);
        assert_int_equal(json_object_array_length(top), 4);
        for (size_t k = 0; k < 4; k++) sum += json_number_at(nth(top, k), "prob", 0);
        assert_true(fabs(sum - 1) < 1e-5 && own > 0 && own <= 1);
    }
    json_object_put(o);
}

// --- refusals ------------------------------------------------------------------------------------

static void refused(void **state) {
    static const struct {
        const char *path, *body, *message;
    } cases[] = {
        {COMPLETION, "{}", "\"prompt\" is missing"},
        {COMPLETION, "[]", "must be a JSON object"},
        {COMPLETION, NL ",\"n_predict\":-2}", "from -1"},
        {COMPLETION, NL ",\"n_cmpl\":0}", "from 1 to 128"},
        {COMPLETION, NL ",\"n_cmpl\":99}", "99 answers are asked for"},
        {COMPLETION, NL ",\"n_probs\":-1}", "from 0 to 100"},
        {COMPLETION, NL ",\"id_slot\":2}", "\"id_slot\" is 2; it must be from -1 to 1"},
        {COMPLETION, NL ",\"n_indent\":\"x\"}", "a whole number"},
        {COMPLETION, NL ",\"stream_options\":{\"include_usage\":1}}", "must be a boolean"},
        {COMPLETION, NL ",\"cache_prompt\":1}", "must be a boolean"},
        {COMPLETION, NL ",\"lora\":[{\"id\":0,\"scale\":1}]}", "no adapters"},
        {COMPLETION, NL ",\"lora\":5}", "must be an array"},
        {COMPLETION, NL ",\"include_stop_str_in_output\":true}",
         "\"include_stop_str_in_output\" is not"},
        {COMPLETION, NL ",\"skip_special_tokens\":false}", "\"skip_special_tokens\": false is not"},
        {"/apply-template", "{" HI ",\"chat_template\":\"{{ 1 }}\"}", "it uses the checkpoint's"},
        {"/tokenize", "{\"prompt\":\"a\"}", "\"content\" is missing"},
        {COMPLETION, NL ",\"grammar_lazy\":true}", "not supported"},
        {COMPLETION, NL ",\"adaptive_target\":0.5}", "not supported"},
        {COMPLETION, "{\"prompt\":{}}", "\"prompt_string\" is missing"},
        {COMPLETION, "{\"prompt\":{\"prompt_string\":\"<__media__>\",\"multimodal_data\":\"iVB\"}}",
         "takes text alone"},
        {COMPLETION, "{\"prompt\":[\"a\",null]}", "not null"},
        {COMPLETION, "{\"prompt\":[1,2.5]}", "element 1"},
        {"/tokenize", "{\"content\":5}", "a string or a list"},
        {"/tokenize", "{\"content\":\"a\",\"with_pieces\":1}", "must be a boolean"},
        {"/detokenize", "{\"tokens\":\"a\"}", "a list of token ids"},
        {"/detokenize", "{\"tokens\":[\"a\"]}", "a list of token ids"},
        {"/detokenize", "{\"tokens\":[264]}", "those are 0 to 263"},
        {"/apply-template", "{}", "\"messages\" is missing"},
        {"/lora-adapters", "{}", "must be a JSON array"},
        {"/lora-adapters", "[{\"id\":0,\"scale\":0.5}]", "no adapters"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuse_body(cases[i].path, cases[i].body, cases[i].message);
    struct str body = {0};
    struct answer a;
    str_puts(&body, "{\"prompt\":\"");
    for (int i = 0; i < 1024; i++) str_addc(&body, 'x');
    str_puts(&body, "\"}");
    post(&main_server, &a, COMPLETION, body.p);
    assert_int_equal(a.status, 400);
    struct json_object *o = json_of(str_sv(&a.body)), *e = json_at(o, "error");
    expect_text_at(e, "type", "exceed_context_size_error");
    assert_int_equal(json_int_at(e, "n_prompt_tokens", 0), 1024);
    assert_int_equal(json_int_at(e, "n_ctx", 0), 1024);
    json_object_put(o);
    answer_free(&a);
    str_free(&body);
}

// What asks for nothing here, or only for how caches are used, is no reason to refuse.
static void harmless(void **state) {
    (void)state;
    struct json_object *o = ask_json(
        COMPLETION, NL ",\"n_predict\":1,\"lora\":[],\"id_slot\":1,\"n_keep\":-1,\"n_discard\":0,"
                       "\"n_cache_reuse\":256,\"cache_prompt\":true,\"speculative.n_max\":3,"
                       "\"backend_sampling\":true,\"adaptive_target\":-1,\"grammar\":\"\","
                       "\"response_fields\":null,\"t_max_prompt_ms\":500,\"verbose\":true,"
                       "\"t_max_predict_ms\":0,\"n_probs\":0,\"lora\":[{\"id\":0,\"scale\":0}]}");
    expect_text_at(o, "content", "Hello");
    json_object_put(o);
}

// --- tokens and templates ------------------------------------------------------------------------

static void tokens(void **state) {
    static const struct {
        const char *path, *body, *want;
    } cases[] = {
        {"/tokenize", "{\"content\":\"the\\n\"}", "{\"tokens\":[258,10]}"},
        {"/tokenize", "{\"content\":[\"the\",10,\"a\"],\"add_special\":true}",
         "{\"tokens\":[258,10,97]}"},
        {"/tokenize", "{\"content\":\"<|im_end|>a\"}", "{\"tokens\":[263,97]}"},
        {"/tokenize", "{\"content\":\"<|\",\"parse_special\":false}", "{\"tokens\":[60,124]}"},
        {"/tokenize", "{\"content\":\"<|im_end|>\",\"parse_special\":false}",
         "{\"tokens\":[60,124,105,109,95,101,110,100,124,62]}"},
        {"/tokenize", "{\"content\":\"the\xc3\xa1<|im_end|>\",\"with_pieces\":true}",
         "{\"tokens\":[{\"id\":258,\"piece\":\"the\"},{\"id\":195,\"piece\":[195]},"
         "{\"id\":161,\"piece\":[161]},{\"id\":263,\"piece\":\"<|im_end|>\"}]}"},
        {"/tokenize", "{}", "{\"tokens\":[]}"},
        {"/detokenize", "{\"tokens\":[259,263,195,161]}",
         "{\"content\":\"Hello<|im_end|>\xc3\xa1\"}"},
        {"/detokenize", "{\"tokens\":[195]}", "{\"content\":\"\xef\xbf\xbd\"}"},
        {"/detokenize", "{}", "{\"content\":\"\"}"},
        {"/apply-template", "{" HI "}",
         "{\"prompt\":\"<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\n\"}"},
        {"/apply-template", "{" HI ",\"add_generation_prompt\":false}",
         "{\"prompt\":\"<|im_start|>user\\nHi<|im_end|>\\n\"}"},
        {"/apply-template",
         "{\"messages\":[{\"role\":\"assistant\",\"content\":\"Well\"}],"
         "\"continue_final_message\":true}",
         "{\"prompt\":\"<|im_start|>assistant\\nWell\"}"},
        {"/v1/chat/completions/input_tokens", "{" HI "}",
         "{\"object\":\"response.input_tokens\",\"input_tokens\":21}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct answer a;
        post(&main_server, &a, cases[i].path, cases[i].body);
        assert_int_equal(a.status, 200);
        assert_string_equal(a.body.p, cases[i].want);
        answer_free(&a);
    }
}

// --- filling in the middle -----------------------------------------------------------------------

static bool is_id(struct json_object *v, int id) { return json_object_get_int(v) == id; }

// Gives the token `id` of a tokenizer.json another spelling.
static void name_token(struct json_object *tokenizer, int id, const char *mark) {
    struct json_object *vocab = json_at(json_at(tokenizer, "model"), "vocab"), *added;
    const char *old = NULL;
    struct str text = {0};
    struct error e = {0};
    json_object_object_foreach(vocab, key, v) {
        if (is_id(v, id)) old = key;
    }
    assert_non_null(old);
    json_object_object_del(vocab, old);
    json_object_object_add(vocab, mark, json_object_new_int(id));
    str_printf(&text,
               "{\"id\":%d,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,"
               "\"rstrip\":false,\"normalized\":false,\"special\":true}",
               id, mark);
    assert_non_null(added = json_read(str_sv(&text), "token", &e));
    json_object_array_add(json_at(tokenizer, "added_tokens"), added);
    str_free(&text);
}

// Every text begins with token 250 from now on.
static void add_beginning(struct json_object *tokenizer) {
    struct error e = {0};
    name_token(tokenizer, 250, "<s>");
    struct json_object *post = json_read(
        sv("{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\","
           "\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[{"
           "\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"Sequence\":{\"id\":\"B\","
           "\"type_id\":1}}],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[250],"
           "\"tokens\":[\"<s>\"]}}}"),
        "post", &e);
    assert_non_null(post);
    json_object_object_add(tokenizer, "post_processor", post);
}

// A copy of the model whose tokenizer knows the marks, with ids that its text doesn't need.
static void make_coder(char *dir, int marks) {
    static const char *const names[] = {"config.json", "generation_config.json", "tokenizer.json",
                                        "tokenizer_config.json", "model.safetensors"};
    static const char *const mark[] = {"<fim_prefix>", "<fim_suffix>", "<fim_middle>",
                                       "<|file_sep|>", "<reponame>"};
    struct error e = {0};
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *from = path_join(MODEL, names[i]), *to = path_join(dir, names[i]);
        struct str data = {0};
        assert_true(file_read(from, 1 << 20, &data, &e));
        struct json_object *o = i == 2 || i == 3 ? json_of(str_sv(&data)) : NULL;
        for (int k = 0; k < marks && i == 2; k++) name_token(o, 251 + k, mark[k]);
        if (i == 2 && marks == 5) add_beginning(o);
        if (i == 3 && marks == 5)
            json_object_object_add(o, "bos_token", json_object_new_string("<s>"));
        struct sv text = o ? sv(json_object_to_json_string(o)) : str_sv(&data);
        assert_true(file_write(to, text, &e));
        json_object_put(o);
        str_free(&data);
        free(from);
        free(to);
    }
}

static void expect_prompt(const struct server *s, const char *body, const char *prompt) {
    struct json_object *o = post_json(s, "/infill", body);
    expect_text_at(o, "prompt", prompt);
    json_object_put(o);
}

#define FILL "\"n_predict\":1,\"input_prefix\":\"int <fim_middle>\",\"input_suffix\":\"}\\n\""

static void infill(void **state) {
    char dir[] = "/tmp/mlxcel_test_fim_XXXXXX", repo[] = "/tmp/mlxcel_test_fim_XXXXXX";
    struct server s;
    (void)state;
    make_coder(dir, 3);
    make_coder(repo, 5);
    server_start(&s, ARGS("-m", dir, "-np", "1"));
    expect_prompt(&s, "{" FILL "}", "<fim_prefix>int <fim_middle><fim_suffix>}\n<fim_middle>");
    struct json_object *o = post_json(&s, "/tokenize",
                                      "{\"content\":\"int <fim_middle>\","
                                      "\"parse_special\":false}");
    // What spells a mark in a file is text: the prompt has its three marks and no others.
    size_t text = json_object_array_length(json_at(o, "tokens"));
    json_object_put(o);
    o = post_json(&s, "/infill", "{" FILL ",\"prompt\":\"x\",\"samplers\":[\"top_k\",\"infill\"]}");
    assert_int_equal(json_int_at(o, "tokens_evaluated", 0), text + 1 + 2 + 3);
    expect_text_at(o, "prompt", "<fim_prefix>int <fim_middle>x<fim_suffix>}\n<fim_middle>");
    json_object_put(o);
    expect_prompt(&s, "{" FILL ",\"input_extra\":[{\"filename\":\"a.h\",\"text\":\"x;\"}]}",
                  "\n\n--- snippet ---\n\nx;<fim_prefix>int <fim_middle><fim_suffix>}\n"
                  "<fim_middle>");
    o = post_json(&s, "/infill",
                  "{\"n_predict\":1,\"input_prefix\":\"\",\"input_suffix\":\"\","
                  "\"input_extra\":[{\"text\":\"<fim_middle>\"}]}");
    assert_int_equal(json_int_at(o, "tokens_evaluated", 0), 19 + (text - 3) + 3);
    json_object_put(o);
    static const char *const wrong[] = {
        "{\"input_suffix\":\"b\"}",
        "{\"input_prefix\":\"a\"}",
        "{" FILL ",\"prompt\":5}",
        "{" FILL ",\"input_extra\":{}}",
        "{" FILL ",\"input_extra\":[{}]}",
        "{" FILL ",\"input_extra\":[5]}",
        "{" FILL ",\"input_extra\":[{\"filename\":\"ok\"}]}",
        "{" FILL ",\"input_extra\":[{\"filename\":123,\"text\":\"abc\"}]}",
        "{" FILL ",\"input_extra\":[{\"filename\":\"ok\",\"text\":456}]}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_error(&s, "POST", "/infill", wrong[i], 400, "invalid_request_error", "");
    assert_int_equal(server_stop(&s), 0);
    server_start(&s, ARGS("-m", repo, "-np", "1", "-c", "512", "--spm-infill"));
    expect_prompt(
        &s,
        "{" FILL ",\"input_extra\":[{\"filename\":\"a.h\",\"text\":\"x;\"},"
        "{\"text\":\"y\"}]}",
        "<s><reponame>myproject\n<|file_sep|>a.h\nx;<|file_sep|>tmp\ny<|file_sep|>filename\n"
        "<fim_suffix>}\n<fim_prefix>int <fim_middle><fim_middle>");
    // What begins a text begins it once, and no list that begins with an id.
    struct answer a;
    post(&s, &a, "/tokenize", "{\"content\":[\"a\",\"b\"],\"add_special\":true}");
    assert_string_equal(a.body.p, "{\"tokens\":[250,97,98]}");
    answer_free(&a);
    post(&s, &a, "/tokenize", "{\"content\":[97,\"b\"],\"add_special\":true}");
    assert_string_equal(a.body.p, "{\"tokens\":[97,98]}");
    answer_free(&a);
    post(&s, &a, "/tokenize", "{\"content\":\"a\",\"add_special\":true,\"parse_special\":false}");
    assert_string_equal(a.body.p, "{\"tokens\":[250,97]}");
    answer_free(&a);
    post(&s, &a, "/tokenize", "{\"content\":\"a\"}");
    assert_string_equal(a.body.p, "{\"tokens\":[97]}");
    answer_free(&a);
    o = post_json(&s, COMPLETION, "{\"prompt\":[\"a\",\"b\",10],\"n_predict\":0}");
    expect_text_at(o, "prompt", "<s>ab\n");
    json_object_put(o);
    // Files beside the one that is filled in are cut to what the context holds.
    struct str body = {0};
    str_puts(&body, "{\"n_predict\":100,\"input_prefix\":\"a\",\"input_suffix\":\"b\","
                    "\"input_extra\":[{\"text\":\"");
    for (int i = 0; i < 1000; i++) str_addc(&body, 'z');
    str_puts(&body, "\"}]}");
    o = post_json(&s, "/infill", body.p);
    assert_int_equal(json_int_at(o, "tokens_evaluated", 0), 512 - 100);
    json_object_put(o);
    str_free(&body);
    assert_int_equal(server_stop(&s), 0);
    folder_remove(dir);
    folder_remove(repo);
    expect_error(&main_server, "POST", "/infill", "{" FILL "}", 501, "not_supported_error",
                 "Infill is not supported by this model: prefix token is missing. suffix token");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),         cmocka_unit_test(ends),
        cmocka_unit_test(line_limits),   cmocka_unit_test(settings),
        cmocka_unit_test(wanted_fields), cmocka_unit_test(prompts),
        cmocka_unit_test(streams),       cmocka_unit_test(progress),
        cmocka_unit_test(timings),       cmocka_unit_test(openai_timings),
        cmocka_unit_test(probabilities), cmocka_unit_test(refused),
        cmocka_unit_test(harmless),      cmocka_unit_test(tokens),
        cmocka_unit_test(infill),
    };
    return cmocka_run_group_tests_name("server_native", tests, start_main, stop_main);
}
