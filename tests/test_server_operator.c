// The routes of the one who runs the server, under llama-server's names: properties, slots,
// metrics, adapters; the prefix of all paths; and what browsers are told.
#include "server_client.h"

#include "base/file.h"

#define COMPLETION "/completion"
#define NL         "{\"prompt\":\"a\\n\",\"temperature\":0"

static void expect_status(const struct server *s, const char *method, const char *path,
                          int status) {
    struct answer a;
    ask(s, &a, method, path, "", sv(""));
    if (a.status != status) fail_msg("%s %s: %d %s", method, path, a.status, str_c(&a.body));
    answer_free(&a);
}

// What was not turned on, or was turned off, says so.
static void turned_off(void **state) {
    struct server s;
    struct answer a;
    (void)state;
    server_start(&s, ARGS("-m", MODEL, "--no-slots"));
    static const char *const routes[][3] = {{"GET", "/slots", "--slots"},
                                            {"GET", "/metrics", "--metrics"},
                                            {"POST", "/props", "--props"},
                                            {"POST", "/slots/0", "--slot-save-path"}};
    for (size_t i = 0; i < 4; i++) {
        ask(&s, &a, routes[i][0], routes[i][1], "", sv("{}"));
        assert_int_equal(a.status, 501);
        struct json_object *o = json_of(str_sv(&a.body)), *e = json_at(o, "error");
        assert_true(sv_is(json_text_at(e, "type"), "not_supported_error"));
        assert_true(sv_find(json_text_at(e, "message"), sv(routes[i][2]), 0) > 0);
        json_object_put(o);
        answer_free(&a);
    }
    struct json_object *o = get_json(&s, "/props");
    assert_false(json_bool_at(o, "endpoint_slots", true));
    assert_false(json_bool_at(o, "endpoint_metrics", true));
    json_object_put(o);
    assert_int_equal(server_stop(&s), 0);
}

// Each of several names is a model of its own in the list, and answers go by the one asked for.
static void names(void **state) {
    static const char *const asked[][2] = {{"big", "big"}, {"small", "small"}, {"other", "big"}};
    struct server s;
    struct answer a;
    (void)state;
    server_start(&s, ARGS("-m", MODEL, "-a", "big, small,,big"));
    struct json_object *o = get_json(&s, "/v1/models"), *list = json_at(o, "data");
    assert_int_equal(json_object_array_length(list), 2);
    for (size_t i = 0; i < 2; i++) {
        struct json_object *one = json_object_array_get_idx(list, i);
        assert_true(sv_is(json_text_at(one, "id"), asked[i][1]));
        assert_int_equal(json_object_array_length(json_at(one, "aliases")), 2);
    }
    json_object_put(o);
    get(&s, &a, "/v1/models/none");
    expect_refusal(&a, 404, "model", "this server has \"big\", \"small\"");
    answer_free(&a);
    o = get_json(&s, "/v1/models/small");
    assert_true(sv_is(json_text_at(o, "id"), "small"));
    json_object_put(o);
    for (size_t i = 0; i < 3; i++) {
        struct str body = {0};
        str_printf(&body, "{" HI ",\"model\":\"%s\",\"max_tokens\":1}", asked[i][0]);
        post(&s, &a, CHAT, body.p);
        o = json_of(str_sv(&a.body));
        assert_true(sv_is(json_text_at(o, "model"), asked[i][1]));
        json_object_put(o);
        answer_free(&a);
        str_free(&body);
    }
    assert_int_equal(server_stop(&s), 0);
}

static void props(void **state) {
    struct server s;
    struct answer a;
    (void)state;
    server_start(&s, ARGS("-m", MODEL, "-np", "2", "-c", "2048", "--props", "-a", "name"));
    struct json_object *o = get_json(&s, "/props");
    struct json_object *d = json_at(o, "default_generation_settings");
    assert_int_equal(json_int_at(o, "total_slots", 0), 2);
    assert_true(sv_is(json_text_at(o, "model_path"), MODEL));
    assert_true(sv_is(json_text_at(o, "model_alias"), "name"));
    assert_true(sv_is(json_text_at(o, "eos_token"), "<|im_end|>"));
    assert_true(sv_starts(json_text_at(o, "chat_template"), sv("{% for message")));
    assert_false(json_bool_at(json_at(o, "modalities"), "vision", true));
    assert_false(json_bool_at(o, "is_sleeping", true));
    assert_int_equal(json_int_at(d, "n_ctx", 0), 1024);
    assert_int_equal(json_int_at(json_at(d, "params"), "seed", 0), UINT32_MAX);
    assert_true(json_number_at(json_at(d, "params"), "temperature", 0) == 0.7); // the checkpoint's
    assert_int_equal(json_int_at(json_at(d, "params"), "n_predict", 0), -1);
    json_object_put(o);
    post(&s, &a, "/props", "{}");
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body.p, "{\"success\":true}");
    answer_free(&a);
    get(&s, &a, "/lora-adapters");
    assert_string_equal(a.body.p, "[]");
    answer_free(&a);
    post(&s, &a, "/lora-adapters", "[{\"id\":0,\"scale\":0.0}]");
    assert_string_equal(a.body.p, "{\"success\":true}");
    answer_free(&a);
    assert_int_equal(server_stop(&s), 0);
}

// --- slots ---------------------------------------------------------------------------------------

static size_t busy(struct json_object *slots) {
    size_t n = 0;
    for (size_t i = 0; i < json_object_array_length(slots); i++)
        n += json_bool_at(nth(slots, i), "is_processing", false);
    return n;
}

// Waits until so many slots are at work.
static struct json_object *wait_busy(const struct server *s, size_t n) {
    for (double until = clock_now() + WAIT_MS / 1000.0;;) {
        struct json_object *o = get_json(s, "/slots");
        if (busy(o) == n) return o;
        json_object_put(o);
        if (clock_now() > until) fail_msg("no %zu slots are busy", n);
        usleep(2000);
    }
}

static void slots(void **state) {
    struct server s;
    int fd[2];
    (void)state;
    server_start(&s, ARGS("-m", MODEL, "-np", "2"));
    struct json_object *o = get_json(&s, "/slots");
    assert_int_equal(json_object_array_length(o), 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(json_int_at(nth(o, i), "id", -1), i);
        assert_int_equal(json_int_at(nth(o, i), "n_ctx", 0), 65536);
        assert_null(json_at(nth(o, i), "params"));
    }
    json_object_put(o);
    expect_status(&s, "GET", "/slots?fail_on_no_slot=1", 200);
    // A stream that nobody reads goes on for long.
    for (int i = 0; i < 2; i++) {
        fd[i] = client_open(&s);
        client_ask(fd[i], "POST", COMPLETION, "",
                   sv(NL ",\"ignore_eos\":true,\"stream\":true,\"seed\":7,\"n_predict\":60000}"));
        json_object_put(wait_busy(&s, (size_t)i + 1));
    }
    expect_status(&s, "GET", "/slots?fail_on_no_slot=1", 503);
    o = wait_busy(&s, 2);
    struct json_object *slot = nth(o, 0), *next = nth(json_at(slot, "next_token"), 0);
    assert_int_equal(json_int_at(json_at(slot, "params"), "seed", 0), 7);
    assert_true(json_bool_at(json_at(slot, "params"), "stream", false));
    assert_int_equal(json_int_at(slot, "n_prompt_tokens", 0), 2);
    int64_t made = json_int_at(next, "n_decoded", -1);
    assert_true(made >= 0 && made < 60000);
    assert_int_equal(json_int_at(next, "n_remain", 0), 60000 - made);
    json_object_put(o);
    for (int i = 0; i < 2; i++) close(fd[i]); // whoever leaves gives the slot back
    o = wait_busy(&s, 0);
    for (size_t i = 0; i < 2; i++) {
        next = nth(json_at(nth(o, i), "next_token"), 0);
        assert_int_equal(json_int_at(next, "n_remain", 0), -1);
        assert_int_equal(json_int_at(next, "n_decoded", -1), 0);
    }
    json_object_put(o);
    assert_int_equal(server_stop(&s), 0);
}

#define LONG                                                                                       \
    "{\"temperature\":0,\"n_predict\":4,\"prompt\":\"Whoever has saved what he read, and has "     \
    "forgotten it since, reads what he saved, and need not read this long beginning again.\"}"

static int64_t cached(const struct server *s) {
    struct json_object *o = post_json(s, COMPLETION, LONG);
    int64_t n = json_int_at(json_at(o, "timings"), "cache_n", -1);
    json_object_put(o);
    return n;
}

// Tokens that were saved are in the caches of the server that restores them.
static void saved_slots(void **state) {
    char dir[] = "/tmp/mlxcel_test_slots_XXXXXX";
    struct server s;
    struct answer a;
    (void)state;
    assert_non_null(mkdtemp(dir));
    server_start(&s, ARGS("-m", MODEL, "-np", "1", "--slot-save-path", dir));
    post(&s, &a, "/slots/0?action=save", "{\"filename\":\"one.json\"}");
    assert_int_equal(a.status, 400);
    assert_true(sv_find(str_sv(&a.body), sv("holds nothing yet"), 0) > 0);
    answer_free(&a);
    struct json_object *o = post_json(&s, COMPLETION, LONG);
    int64_t tokens = json_int_at(o, "tokens_evaluated", 0) + 4 - 1;
    json_object_put(o);
    o = post_json(&s, "/slots/0?action=save", "{\"filename\":\"one.json\"}");
    assert_int_equal(json_int_at(o, "id_slot", -1), 0);
    assert_int_equal(json_int_at(o, "n_saved", 0), tokens);
    assert_true(json_int_at(o, "n_written", 0) > tokens);
    assert_true(json_number_at(json_at(o, "timings"), "save_ms", -1) >= 0);
    json_object_put(o);
    assert_int_equal(server_stop(&s), 0);
    server_start(&s, ARGS("-m", MODEL, "-np", "2", "--slot-save-path", dir));
    o = post_json(&s, "/slots/1?action=restore", "{\"filename\":\"one.json\"}");
    assert_int_equal(json_int_at(o, "n_restored", 0), tokens);
    json_object_put(o);
    assert_int_equal(cached(&s), (tokens - 4) / 32 * 32);
    static const char *const wrong[][3] = {
        {"/slots/1?action=restore", "{\"filename\":\"none.json\"}", "none.json"},
        {"/slots/1?action=restore", "{\"filename\":\"../one.json\"}", "a plain name"},
        {"/slots/1?action=save", "{\"filename\":\".one\"}", "a plain name"},
        {"/slots/1?action=save", "{\"filename\":\"a/b\"}", "a plain name"},
        {"/slots/1?action=save", "{\"filename\":\"\"}", "a plain name"},
        {"/slots/1?action=save", "{\"filename\":5}", "a plain name"},
        {"/slots/2?action=save", "{\"filename\":\"one\"}", "Invalid slot ID"},
        {"/slots/x?action=save", "{\"filename\":\"one\"}", "Invalid slot ID"},
        {"/slots/0?action=melt", "{\"filename\":\"one\"}", "Invalid action"},
        {"/slots/0", "{\"filename\":\"one\"}", "Invalid action"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        post(&s, &a, wrong[i][0], wrong[i][1]);
        assert_int_equal(a.status, 400);
        if (sv_find(str_sv(&a.body), sv(wrong[i][2]), 0) < 0) fail_msg("%s", a.body.p);
        answer_free(&a);
    }
    post(&s, &a, "/slots/0?action=erase", "{}");
    assert_int_equal(a.status, 501);
    answer_free(&a);
    // A file of another model, and one that is none.
    char *path = path_join(dir, "one.json");
    struct str file = {0};
    struct error e = {0};
    assert_true(file_read(path, 1 << 20, &file, &e));
    memcpy(strstr(file.p, "1 layers"), "2", 1);
    assert_true(file_write(path, str_sv(&file), &e));
    post(&s, &a, "/slots/0?action=restore", "{\"filename\":\"one.json\"}");
    assert_int_equal(a.status, 400);
    assert_true(sv_find(str_sv(&a.body), sv("is of another model"), 0) > 0);
    answer_free(&a);
    assert_true(file_write(path, sv("{\"model\""), &e));
    post(&s, &a, "/slots/0?action=restore", "{\"filename\":\"one.json\"}");
    assert_int_equal(a.status, 400);
    answer_free(&a);
    assert_int_equal(server_stop(&s), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    str_free(&file);
    free(path);
}

static double deferred(const struct server *s) {
    struct answer a;
    get(s, &a, "/metrics");
    const char *at = strstr(str_c(&a.body), "\nllamacpp:requests_deferred ");
    assert_non_null(at);
    double n = strtod(strchr(at, ' '), NULL);
    answer_free(&a);
    return n;
}

static void wait_deferred(const struct server *s, double n) {
    double until = clock_now() + WAIT_MS / 1000.0;
    while (deferred(s) != n) {
        if (clock_now() > until) fail_msg("not %g are deferred", n);
        usleep(2000);
    }
}

// As much as the context holds.
static void lengthen(const char *path) {
    struct str file = {0};
    struct error e = {0};
    assert_true(file_read(path, 1 << 20, &file, &e));
    file.n = (size_t)(strstr(file.p, "\"tokens\":[") - file.p);
    str_puts(&file, "\"tokens\":[1");
    for (int i = 1; i < 65000; i++) str_printf(&file, ",%d", 1 + i % 7);
    str_puts(&file, "]}");
    assert_true(file_write(path, str_sv(&file), &e));
    str_free(&file);
}

// Nothing is restored for whom nobody is there, or for longer than an answer may take.
static void unwanted_restores(void **state) {
    char dir[] = "/tmp/mlxcel_test_slots_XXXXXX";
    struct server s;
    struct answer a;
    (void)state;
    assert_non_null(mkdtemp(dir));
    char *path = path_join(dir, "one.json");
    server_start(&s, ARGS("-m", MODEL, "-np", "1", "--metrics", "--slot-save-path", dir));
    json_object_put(post_json(&s, COMPLETION, LONG));
    json_object_put(post_json(&s, "/slots/0?action=save", "{\"filename\":\"one.json\"}"));
    int busy = client_open(&s), fd = client_open(&s);
    client_ask(busy, "POST", COMPLETION, "",
               sv(NL ",\"ignore_eos\":true,\"stream\":true,\"n_predict\":60000}"));
    json_object_put(wait_busy(&s, 1));
    client_ask(fd, "POST", "/slots/0?action=restore", "", sv("{\"filename\":\"one.json\"}"));
    wait_deferred(&s, 1);
    close(fd);
    wait_deferred(&s, 0);
    struct json_object *o = get_json(&s, "/slots");
    assert_true(json_bool_at(nth(o, 0), "is_processing", false)); // it did not come to its turn
    json_object_put(o);
    close(busy);
    assert_int_equal(server_stop(&s), 0);
    lengthen(path);
    server_start(&s,
                 ARGS("-m", MODEL, "-np", "1", "--request-timeout", "1", "--slot-save-path", dir));
    post(&s, &a, "/slots/0?action=restore", "{\"filename\":\"one.json\"}");
    assert_int_equal(a.status, 504);
    assert_non_null(strstr(a.body.p, "--request-timeout"));
    answer_free(&a);
    json_object_put(wait_busy(&s, 0));
    assert_int_equal(server_stop(&s), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    free(path);
}

// --- metrics -------------------------------------------------------------------------------------

static double metric(struct sv text, const char *name, const char *kind) {
    struct str line = {0};
    str_printf(&line, "# TYPE %s %s\n%s ", name, kind, name);
    ptrdiff_t at = sv_find(text, str_sv(&line), 0);
    if (at < 0) fail_msg("no \"%s\" in %s", line.p, text.p);
    double value = strtod(text.p + at + line.n, NULL);
    str_clear(&line);
    str_printf(&line, "# HELP %s ", name);
    assert_true(sv_find(text, str_sv(&line), 0) >= 0);
    str_free(&line);
    return value;
}

static void metrics(void **state) {
    static const char *const counters[] = {
        "llamacpp:prompt_seconds_total", "llamacpp:tokens_predicted_seconds_total",
        "llamacpp:spec_decode_num_draft_tokens_total",
        "llamacpp:spec_decode_num_accepted_tokens_total", "llamacpp:spec_decode_num_drafts_total"};
    static const char *const gauges[] = {"llamacpp:requests_processing",
                                         "llamacpp:requests_deferred"};
    struct server s;
    struct answer a;
    int64_t computed = 0, found = 0, made = 0, longest = 0;
    (void)state;
    server_start(&s, ARGS("-m", MODEL, "--metrics"));
    for (int n = 1; n <= 16; n *= 4) {
        struct str body = {0};
        str_printf(&body,
                   "{\"temperature\":0,\"ignore_eos\":true,\"n_predict\":%d,\"prompt\":\"The "
                   "second time this prompt is found in the caches, but for its end.\"}",
                   n);
        struct json_object *o = post_json(&s, COMPLETION, body.p), *t = json_at(o, "timings");
        computed += json_int_at(t, "prompt_n", 0);
        found += json_int_at(t, "cache_n", 0);
        made += json_int_at(t, "predicted_n", 0);
        longest = json_int_at(o, "tokens_evaluated", 0) + n;
        json_object_put(o);
        str_free(&body);
    }
    assert_true(found > 0);
    get(&s, &a, "/metrics");
    assert_int_equal(a.status, 200);
    assert_true(has_header(&a, "Content-Type: text/plain; version=0.0.4"));
    assert_true(sv_find(str_sv(&a.head), sv("\r\nProcess-Start-Time-Unix: 1"), 0) > 0);
    struct sv text = str_sv(&a.body);
    assert_true(metric(text, "llamacpp:prompt_tokens_total", "counter") == (double)computed);
    assert_true(metric(text, "llamacpp:prompt_tokens_cached_total", "counter") == (double)found);
    assert_true(metric(text, "llamacpp:tokens_predicted_total", "counter") == (double)made);
    assert_true(metric(text, "llamacpp:n_tokens_max", "counter") == (double)longest);
    // The first token comes with the prompt, whose second chunk may be a step of its own.
    assert_true(metric(text, "llamacpp:n_decode_total", "counter") >= (double)made);
    assert_true(metric(text, "llamacpp:n_busy_slots_per_decode", "gauge") == 1);
    assert_true(metric(text, "llamacpp:prompt_tokens_seconds", "gauge") > 0);
    assert_true(metric(text, "llamacpp:predicted_tokens_seconds", "gauge") > 0);
    assert_true(metric(text, "mlxcel_batch_sequences_completed", "counter") == 3);
    assert_true(metric(text, "mlxcel_slots_total", "gauge") == 4);
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        assert_true(metric(text, counters[i], "counter") >= 0);
    for (size_t i = 0; i < sizeof gauges / sizeof *gauges; i++)
        assert_true(metric(text, gauges[i], "gauge") == 0);
    answer_free(&a);
    get(&s, &a, "/metrics"); // nothing came since the last time
    assert_true(metric(str_sv(&a.body), "llamacpp:predicted_tokens_seconds", "gauge") == 0);
    answer_free(&a);
    assert_int_equal(server_stop(&s), 0);
}

// --- browsers --------------------------------------------------------------------------

static void expect_origin(const struct server *s, const char *method, const char *origin,
                          const char *allowed) {
    struct str header = {0}, want = {0};
    struct answer a;
    if (origin) str_printf(&header, "Origin: %s\r\n", origin);
    str_printf(&want, "Access-Control-Allow-Origin: %s", allowed ? allowed : "");
    ask(s, &a, method, "/props", str_c(&header), sv(""));
    assert_int_equal(a.status, 200);
    if (allowed ? !has_header(&a, want.p)
                : sv_find(str_sv(&a.head), sv("Access-Control-Allow-Origin"), 0) >= 0)
        fail_msg("%s from %s: %s", method, str_c(&header), a.head.p);
    str_free(&header);
    str_free(&want);
    answer_free(&a);
}

static void preflights(void **state) {
    struct server s;
    struct answer a;
    (void)state;
    server_start(&s, ARGS("-m", MODEL, "--api-key", "secret"));
    ask(&s, &a, "OPTIONS", "/completions",
        "Origin: web.mydomain.fr\r\nAccess-Control-Request-Method: POST\r\n"
        "Access-Control-Request-Headers: Authorization\r\n",
        sv(""));
    assert_int_equal(a.status, 200);
    assert_int_equal(a.body.n, 0);
    assert_true(has_header(&a, "Access-Control-Allow-Origin: web.mydomain.fr"));
    assert_true(has_header(&a, "Access-Control-Allow-Credentials: true"));
    assert_true(has_header(&a, "Access-Control-Allow-Methods: GET, POST, DELETE, OPTIONS"));
    assert_true(has_header(&a, "Access-Control-Allow-Headers: *"));
    assert_true(has_header(&a, "Vary: Origin"));
    answer_free(&a);
    // Refusals may be read too, and native ones have llama-server's form.
    ask(&s, &a, "POST", "/completions", "Origin: http://a.b\r\n", sv("{}"));
    assert_int_equal(a.status, 401);
    assert_true(has_header(&a, "Access-Control-Allow-Origin: http://a.b"));
    assert_true(sv_find(str_sv(&a.body), sv("\"type\":\"authentication_error\""), 0) > 0);
    answer_free(&a);
    ask(&s, &a, "OPTIONS", "/nothing", "", sv(""));
    assert_int_equal(a.status, 200);
    answer_free(&a);
    assert_int_equal(server_stop(&s), 0);
}

static void origins(void **state) {
    static const char *const local[] = {"http://localhost", "http://localhost:8080",
                                        "http://127.0.0.1", "http://127.0.0.1:3000",
                                        "http://[::1]",     "https://[::1]:3000"};
    static const char *const foreign[] = {
        "http://web.mydomain.fr",    "http://evil.com", "http://notlocalhost",
        "http://localhost.evil.com", "localhost",       "null"};
    struct server s;
    (void)state;
    server_start(&s, ARGS("-m", MODEL));
    expect_origin(&s, "GET", "http://a.b", "http://a.b");
    expect_origin(&s, "GET", NULL, NULL);
    assert_int_equal(server_stop(&s), 0);
    server_start(&s, ARGS("-m", MODEL, "--cors-origins", "localhost"));
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        expect_origin(&s, "OPTIONS", local[i], local[i]);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        expect_origin(&s, i % 2 ? "GET" : "OPTIONS", foreign[i], NULL);
    assert_int_equal(server_stop(&s), 0);
    server_start(&s, ARGS("-m", MODEL, "--no-cors-credentials"));
    expect_origin(&s, "GET", "http://a.b", "*");
    assert_int_equal(server_stop(&s), 0);
    server_start(&s, ARGS("-m", MODEL, "--cors-origins", "https://one.example"));
    expect_origin(&s, "GET", "http://a.b", "https://one.example");
    assert_int_equal(server_stop(&s), 0);
    server_start(&s, ARGS("-m", MODEL, "--allowed-origins", "https://a.b, http://c:80"));
    expect_origin(&s, "GET", "https://a.b", "https://a.b");
    expect_origin(&s, "GET", "http://c:80", "http://c:80");
    expect_origin(&s, "GET", "http://c", NULL);
    assert_int_equal(server_stop(&s), 0);
}

// Options that are wrong end the program before it listens.
static void wrong_options(void **state) {
    static const char *const wrong[][4] = {
        {"--slot-save-path", "/nowhere/at/all", NULL},
        {"--allowed-origins", "a.b", NULL},
        {"--allowed-origins", "https://a.b/path", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct server s;
        assert_false(server_launch(&s, ARGS("-m", MODEL, wrong[i][0], wrong[i][1])));
        assert_true(server_says(&s, wrong[i][0]));
        assert_int_equal(server_end(&s), 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turned_off),    cmocka_unit_test(names),
        cmocka_unit_test(props),         cmocka_unit_test(slots),
        cmocka_unit_test(saved_slots),   cmocka_unit_test(metrics),
        cmocka_unit_test(preflights),    cmocka_unit_test(origins),
        cmocka_unit_test(wrong_options), cmocka_unit_test(unwanted_restores),
    };
    return cmocka_run_group_tests_name("server_operator", tests, NULL, NULL);
}
