// mlxcel-server under load and attack, and as a process: keys, starting, stopping.
#include "server_model.h"

#include <sys/resource.h>

#include "server/http.h"

static struct server main_server; // for the tests that need no options of their own

static int start_main(void **state) {
    (void)state;
    server_start(&main_server, ARGS("-m", MODEL, "--max-body", "1", "--receive-timeout", "2"));
    return 0;
}

static int stop_main(void **state) {
    (void)state;
    return server_stop(&main_server);
}

// --- hostile clients -----------------------------------------------------------------------------

static void large_bodies(void **state) {
    struct answer a;
    struct str body = {0};
    (void)state;
    for (int i = 0; i < 1100000; i++) str_addc(&body, ' ');
    ask(&main_server, &a, "POST", CHAT, "", str_sv(&body)); // read to its end, and dropped
    expect_refusal(&a, 413, NULL, "over 1 MiB (--max-body)");
    answer_free(&a);
    // Who waits to be told is told, and who promises far too much.
    ask(&main_server, &a, "POST", CHAT, "Expect: 100-continue\r\nContent-Length: 1100000\r\n",
        sv(""));
    expect_refusal(&a, 413, NULL, "over 1 MiB");
    answer_free(&a);
    ask(&main_server, &a, "POST", CHAT, "Content-Length: 99999999999\r\n", sv(""));
    expect_refusal(&a, 413, NULL, "over 1 MiB");
    answer_free(&a);
    // Without a length.
    struct str chunks = {0};
    str_printf(&chunks, "%zx\r\n", body.n);
    str_add(&chunks, str_sv(&body));
    str_puts(&chunks, "\r\n0\r\n\r\n");
    int fd = client_open(&main_server);
    client_ask(fd, "POST", CHAT, "Transfer-Encoding: chunked\r\n", sv(""));
    client_send(fd, str_sv(&chunks));
    answer_take(&a, fd);
    expect_refusal(&a, 413, NULL, "over 1 MiB");
    answer_free(&a);
    str_free(&chunks);
    // In the limit, but not when it is parsed.
    str_clear(&body);
    str_puts(&body, "{\"messages\":[{}");
    for (int i = 0; i < 100000; i++) str_puts(&body, ",{}");
    str_puts(&body, "]}");
    ask(&main_server, &a, "POST", CHAT, "", str_sv(&body));
    expect_refusal(&a, 413, NULL, "the body's JSON would take 83 MiB of memory, over 32");
    answer_free(&a);
    // Within all limits but that of depth.
    str_clear(&body);
    for (int i = 0; i < 200; i++) str_puts(&body, "{\"messages\":");
    ask(&main_server, &a, "POST", CHAT, "", str_sv(&body));
    expect_refusal(&a, 400, NULL, "nesting too deep");
    answer_free(&a);
    str_free(&body);
}

static void garbage(void **state) {
    static const char *const texts[] = {
        "\r\n\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", // TLS
        "GET\r\n\r\n",
        "GET /nothing HTTP/9.9\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n{}",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n{}", // and leaves
        "GET /%00%ff%2e%2e/%2e%2e HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct str all = {0};
        int fd = client_open(&main_server);
        client_send(fd, sv(texts[i]));
        shutdown(fd, SHUT_WR);
        while (client_take(fd, &all)) continue;
        assert_false(sv_starts(str_sv(&all), sv("HTTP/1.1 200")));
        str_free(&all);
        close(fd);
    }
    struct answer a;
    struct str header = {0};
    str_puts(&header, "X: ");
    for (int i = 0; i < 100000; i++) str_addc(&header, 'x');
    str_puts(&header, "\r\n");
    ask(&main_server, &a, "GET", "/health", header.p, sv(""));
    assert_true(a.status == 0 || a.status >= 400);
    answer_free(&a);
    str_free(&header);
    get(&main_server, &a, "/health");
    assert_int_equal(a.status, 200);
    answer_free(&a);
}

// Connections that send nothing, or never enough, are closed; others do not notice.
static void late_requests(void **state) {
    struct str all = {0};
    double began = clock_now();
    (void)state;
    int silent = client_open(&main_server), header = client_open(&main_server);
    int body = client_open(&main_server);
    client_send(header, sv("GET /health HTTP/1.1\r\nHos"));
    client_send(body, sv("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"));
    expect_text_from(&main_server, TEXT, "{\"prompt\":\"\\n\",\"temperature\":0}", GREETING,
                     "stop");
    while (client_take(silent, &all)) continue;
    while (client_take(header, &all)) continue;
    while (client_take(body, &all)) continue;
    assert_true(clock_now() - began > 1.5);
    close(silent);
    close(header);
    close(body);
    str_free(&all);
}

#define ENDLESS "\"temperature\":0,\"ignore_eos\":true,\"max_tokens\":-1"

// --- many at once --------------------------------------------------------------------------------

enum { CLIENTS = 8 };

struct client {
    const struct server *server;
    char body[700];
    char *alone, *together;
    pthread_t thread;
};

static void *ask_one(void *arg) {
    struct client *c = arg;
    struct answer a;
    post(c->server, &a, TEXT, c->body);
    c->together = text_of(&a, false);
    answer_free(&a);
    return NULL;
}

// Eight clients, four places, steps of 16 tokens: prompts in chunks beside others' answers.
static void together(void **state) {
    struct client c[CLIENTS] = {0};
    struct server s;
    char dir[MODEL_DIR];
    (void)state;
    model_make(dir, "llama/base");
    server_start(&s, ARGS("-m", dir, "-np", "4", "-b", "16", "--precision", "f32"));
    for (size_t i = 0; i < CLIENTS; i++) {
        struct str body = {0};
        str_puts(&body, "{\"prompt\":[");
        for (size_t k = 0; k < 5 + 9 * i; k++) str_printf(&body, "%zu,", (k * 37 + i * 11) % 128);
        str_puts(&body, "7],\"temperature\":0,\"ignore_eos\":true,\"max_tokens\":40}");
        assert_true(body.n < sizeof c[i].body);
        memcpy(c[i].body, body.p, body.n + 1);
        str_free(&body);
        c[i].server = &s;
        ask_one(&c[i]);
        c[i].alone = c[i].together;
    }
    for (size_t i = 0; i < CLIENTS; i++) pthread_create(&c[i].thread, NULL, ask_one, &c[i]);
    for (size_t i = 0; i < CLIENTS; i++) pthread_join(c[i].thread, NULL);
    for (size_t i = 0; i < CLIENTS; i++) {
        assert_string_equal(c[i].together, c[i].alone);
        for (size_t k = 0; k < i; k++) assert_string_not_equal(c[i].alone, c[k].alone);
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        free(c[i].alone);
        free(c[i].together);
    }
    assert_int_equal(server_stop(&s), 0);
    model_remove(dir);
}

// --- clients that leave, clients that are slow, servers that are full ----------------------------

static int start_stream(const struct server *s, int receive_buffer) {
    int fd = client_socket(s, receive_buffer);
    struct str all = {0};
    assert_true(fd >= 0);
    client_ask(fd, "POST", TEXT, "", sv("{\"prompt\":\"\\n\",\"stream\":true," ENDLESS "}"));
    client_take_until(fd, &all, "Hello");
    str_free(&all);
    return fd;
}

// One place. Whoever has it leaves, in the middle of a stream or while waiting for a whole answer;
// whoever waits for it too. Each answer would take 65536 steps.
static void leaving(void **state) {
    struct server s;
    struct answer a;
    (void)state;
    server_start(&s, ARGS("-m", MODEL, "-np", "1"));
    int stream = start_stream(&s, 0), whole = client_open(&s), queued = client_open(&s);
    client_ask(queued, "POST", TEXT, "", sv("{\"prompt\":\"\\n\"," ENDLESS "}"));
    close(queued);
    server_wait_for(&s, " 1+0 tokens"); // its line in the log
    close(stream);
    client_ask(whole, "POST", TEXT, "", sv("{\"prompt\":\"\\n\\n\"," ENDLESS "}"));
    usleep(50000);
    close(whole);
    post(&s, &a, TEXT, "{\"prompt\":\"\\n\",\"temperature\":0}");
    char *text = text_of(&a, false);
    assert_string_equal(text, GREETING);
    free(text);
    answer_free(&a);
    assert_int_equal(server_stop(&s), 0);
}

static void full(void **state) {
    struct server s;
    struct answer a;
    (void)state;
    server_start(&s, ARGS("-m", MODEL, "-np", "1", "--max-queue", "0"));
    int fd = start_stream(&s, 0);
    post(&s, &a, TEXT, "{\"prompt\":\"\\n\"}");
    expect_refusal(&a, 429, NULL, "the queue is full");
    assert_true(has_header(&a, "Retry-After: 1"));
    answer_free(&a);
    close(fd);
    server_wait_for(&s, "cut off");
    do { // the place is free a moment later
        post(&s, &a, TEXT, "{\"prompt\":\"\\n\",\"temperature\":0}");
        if (a.status == 429) answer_free(&a);
    } while (a.status == 429);
    assert_int_equal(a.status, 200);
    answer_free(&a);
    assert_int_equal(server_stop(&s), 0);
}

static void let_open(rlim_t now, rlim_t most) {
    struct rlimit files = {now, most};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
}

// The status that the last of n connections gets which say nothing else.
static int last_of(const struct server *s, int n) {
    int fd[100];
    struct answer a;
    assert_in_range(n, 1, 100);
    for (int i = 0; i < n; i++) fd[i] = client_open(s);
    client_ask(fd[n - 1], "GET", "/health", "", sv(""));
    answer_take(&a, fd[n - 1]);
    int status = a.status;
    answer_free(&a);
    for (int i = 0; i + 1 < n; i++) close(fd[i]);
    return status;
}

// Those that were closed may be there for a moment still.
static void expect_last(const struct server *s, int n, int status) {
    double until = clock_now() + WAIT_MS / 1000.0;
    for (int got; (got = last_of(s, n)) != status; usleep(20000))
        if (clock_now() > until) fail_msg("%d connections: %d", n, got);
}

// The server takes the descriptors that it may have, and no more connections than fit into these.
// Comes last: a process can't undo it.
static void few_files(void **state) {
    struct rlimit was;
    struct server s;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    if (was.rlim_max < 1024) skip();
    let_open(64, was.rlim_max);
    server_start(&s, ARGS("-m", MODEL));
    let_open(was.rlim_cur, was.rlim_max);
    expect_last(&s, 100, 200);
    assert_false(server_says(&s, "ulimit -n"));
    assert_int_equal(server_stop(&s), 0);
    let_open(64, 64);
    server_start(&s, ARGS("-m", MODEL));
    server_wait_for(&s, "64 files (ulimit -n): 28 of 512 connections");
    expect_last(&s, 20, 200);
    expect_last(&s, 30, 503);
    assert_int_equal(server_stop(&s), 0);
}

static void many_connections(void **state) {
    struct server s;
    struct answer a;
    (void)state;
    server_start(&s, ARGS("-m", MODEL, "--max-connections", "1"));
    struct str all = {0};
    int fd = -1;
    do { // the one that asked before may still be there
        if (fd >= 0) close(fd);
        str_clear(&all);
        fd = client_open(&s);
        client_send(fd, sv("GET /health HTTP/1.1\r\nHost: test\r\n\r\n"));
        client_take_until(fd, &all, "}");
    } while (!sv_starts(str_sv(&all), sv("HTTP/1.1 200")));
    get(&s, &a, "/health");
    expect_refusal(&a, 503, NULL, "too many connections");
    answer_free(&a);
    str_free(&all);
    close(fd);
    do {
        get(&s, &a, "/health");
        answer_free(&a);
    } while (a.status == 503);
    assert_int_equal(server_stop(&s), 0);
}

// Bodies count only until they are read: answers that take long leave room for others'.
static void many_bodies(void **state) {
    struct server s;
    struct answer a;
    struct str body = {0};
    int fd[8];
    (void)state;
    server_start(&s, ARGS("-m", MODEL, "--max-body", "1", "-np", "9"));
    for (int i = 0; i < 1000000; i++) str_addc(&body, ' ');
    str_puts(&body, "{\"prompt\":\"\\n\",\"stream\":true," ENDLESS "}");
    for (size_t i = 0; i < 8; i++) {
        struct str all = {0};
        fd[i] = client_open(&s);
        client_ask(fd[i], "POST", TEXT, "", str_sv(&body));
        client_take_until(fd[i], &all, "Hello");
        str_free(&all);
    }
    str_clear(&body);
    for (int i = 0; i < 1000000; i++) str_addc(&body, ' ');
    str_puts(&body, "{\"prompt\":\"\\n\",\"max_tokens\":1}");
    ask(&s, &a, "POST", TEXT, "", str_sv(&body));
    assert_int_equal(a.status, 200);
    answer_free(&a);
    for (size_t i = 0; i < 8; i++) close(fd[i]);
    str_free(&body);
    assert_int_equal(server_stop(&s), 0);
}

// --- keys, starting, stopping --------------------------------------------------------------------

static void keys(void **state) {
    static const struct {
        const char *header;
        int status;
    } cases[] = {
        {"", 401},
        {"Authorization: Bearer \r\n", 401},
        {"Authorization: Bearer secre\r\n", 401},
        {"Authorization: Bearer secrets\r\n", 401},
        {"Authorization: Basic secret\r\n", 401},
        {"Authorization: Bearer secret\r\n", 200},
        {"Authorization: Bearer other\r\n", 200},
        {"Authorization: Bearer third\r\n", 200},
        {"Authorization: Bearer filed\r\n", 200},
        {"Authorization: Bearer last,one\r\n", 200},
    };
    char keys[] = "/tmp/mlxcel-keys-XXXXXX";
    static const char lines[] = "filed\r\n\n  \nlast,one";
    int fd = mkstemp(keys);
    assert_int_equal(write(fd, lines, sizeof lines - 1), sizeof lines - 1);
    close(fd);
    struct server s;
    struct answer a;
    (void)state;
    server_start(&s, ARGS(MODEL, "--jinja", "--api-key", "secret,other", "--api-key", "third", "-a",
                          "my \"model\"", "--api-key-file", keys));
    assert_int_equal(unlink(keys), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ask(&s, &a, "GET", "/v1/models", cases[i].header, sv(""));
        if (cases[i].status == 401)
            expect_refusal(&a, 401, NULL, "no valid key");
        else
            assert_true(sv_find(str_sv(&a.body), sv("\"my \\\"model\\\"\""), 0) > 0);
        assert_int_equal(a.status, cases[i].status);
        answer_free(&a);
    }
    assert_false(server_says(&s, "secret"));
    assert_int_equal(server_stop(&s), 0);
}

static void wrong_starts(void **state) {
    char port[16], sum[96];
    (void)state;
    assert_int_equal(
        server_run_to_end(ARGS("-m", MODEL, "--parallell", "2"), "did you mean --parallel?"), 2);
    assert_int_equal(server_run_to_end(ARGS("-c", "5"), "no model: pass a checkpoint's folder"), 2);
    assert_int_equal(server_run_to_end(ARGS("-m", MODEL, "--port", "99999"), "from 0 to 65535"), 2);
    assert_int_equal(server_run_to_end(ARGS("-m", MODEL, "--api-key", ","), "holds no key"), 2);
    assert_int_equal(
        server_run_to_end(ARGS("-m", MODEL, "--api-key-file", "/dev/null"), "regular file"), 2);
    char keys[] = "/tmp/mlxcel-keys-XXXXXX";
    close(mkstemp(keys));
    assert_int_equal(server_run_to_end(ARGS("-m", MODEL, "--api-key-file", keys), "holds no key"),
                     2);
    assert_int_equal(unlink(keys), 0);
    assert_int_equal(server_run_to_end(ARGS("-m", MODEL, "--api-key-file", "/nothing"), "/nothing"),
                     2);
    assert_int_equal(server_run_to_end(ARGS("-m", FIXTURES "/nothing"), "no such checkpoint"), 1);
    snprintf(port, sizeof port, "%d", main_server.port);
    snprintf(sum, sizeof sum, "cannot listen on 127.0.0.1, port %s", port);
    assert_int_equal(server_run_to_end(ARGS("-m", MODEL, "--port", port), sum), 1);
    assert_int_equal(server_run_to_end(ARGS(FIXTURES "/llama"), "has no config.json"), 1);
    assert_int_equal(server_run_to_end(ARGS(MODEL, "-m", MODEL), "two models"), 2);
    assert_int_equal(server_run_to_end(ARGS("a/b"), "does not download"), 1);
    setenv("MLXCEL_LOG", "loud", 1);
    assert_int_equal(server_run_to_end(ARGS(MODEL), "MLXCEL_LOG \"loud\": must be one of"), 2);
    unsetenv("MLXCEL_LOG");
    static const char *const refused[] = {"-hf", "--models-dir", "--adapter", "--lora", "-md"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        snprintf(sum, sizeof sum, "error: %s: ", refused[i]);
        assert_int_equal(server_run_to_end(ARGS(MODEL, refused[i], "x"), sum), 2);
    }
}

// In this process, so that the loading can be held up.
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void wait_at_gate(void *arg, size_t done, size_t total) {
    (void)arg, (void)done, (void)total;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
}

static void loading(void **state) {
    char name[] = "text", *names[] = {name};
    struct server_options o = {
        .model = MODEL,
        .name = names,
        .names = 1,
        .engine = {.pool.threads = 1, .isa = ISA_BEST, .sequences = 1, .progress = wait_at_gate},
        .host = "127.0.0.1",
        .max_body = 1 << 20,
        .max_header = 1 << 15,
        .max_connections = 8,
        .timeout = 60,
        .receive_timeout = 60,
    };
    struct error e = {0};
    struct server s = {0};
    struct answer a;
    (void)state;
    pthread_mutex_lock(&gate);
    struct http *h = http_open(&o, &e);
    assert_non_null(h);
    struct worker *w = worker_start(o.model, &o.engine, o.queue, &e);
    assert_non_null(w);
    assert_true(http_serve(h, w, &e));
    assert_int_equal(sscanf(http_address(h), "http://127.0.0.1:%d", &s.port), 1);
    static const char *const paths[] = {"/health", "/v1/models", TEXT};
    for (size_t i = 0; i < 3; i++) {
        ask(&s, &a, i == 2 ? "POST" : "GET", paths[i], "", i == 2 ? sv("{}") : sv(""));
        expect_refusal(&a, 503, NULL, "Loading model");
        assert_true(sv_find(str_sv(&a.body), sv("\"code\":503"), 0) > 0);
        assert_true(has_header(&a, "Retry-After: 1"));
        answer_free(&a);
    }
    pthread_mutex_unlock(&gate);
    while (worker_state(w, NULL) == WORKER_LOADING) usleep(1000);
    post(&s, &a, TEXT, "{\"prompt\":\"\\n\",\"temperature\":0}");
    assert_int_equal(a.status, 200);
    answer_free(&a);
    worker_stop(w);
    get(&s, &a, "/health");
    expect_refusal(&a, 503, NULL, "the server is stopping");
    answer_free(&a);
    http_close(h);
    worker_close(w);
}

// SIGTERM: the running answer comes to its end, nobody new gets in.
static void drain(void **state) {
    struct server s;
    struct answer a;
    (void)state;
    server_start(&s, ARGS("-m", MODEL));
    int fd = client_open(&s), idle = client_open(&s);
    struct str all = {0};
    client_ask(fd, "POST", TEXT, "",
               sv("{\"prompt\":\"\\n\",\"stream\":true,\"temperature\":0,\"ignore_eos\":true,"
                  "\"max_tokens\":1300}"));
    client_take_until(fd, &all, "Hello");
    kill(s.pid, SIGTERM);
    server_wait_for(&s, "stopping: 1 request to be answered");
    assert_false(client_take(idle, &all));
    assert_int_equal(client_socket(&s, 0), -1);
    while (client_take(fd, &all)) continue;
    answer_read(&a, str_sv(&all));
    assert_true(a.whole);
    assert_true(sv_ends(str_sv(&a.body), sv("data: [DONE]\n\n")));
    answer_free(&a);
    str_free(&all);
    close(fd);
    close(idle);
    assert_int_equal(server_end(&s), 0);
}

// A second signal, or the limit, cuts the answer off; its client is told so.
#define STOPPING_EVENT                                                                             \
    "data: {\"error\":{\"message\":\"the server is stopping\",\"type\":\"unavailable_error\","     \
    "\"param\":null,\"code\":503}}\n\n"

static void drain_cut(void **state) {
    struct server s;
    struct str all = {0};
    (void)state;
    server_start(&s, ARGS("-m", MODEL));
    int fd = start_stream(&s, 0);
    kill(s.pid, SIGINT);
    server_wait_for(&s, "stopping: 1 request to be answered");
    kill(s.pid, SIGTERM);
    while (client_take(fd, &all)) continue;
    assert_true(sv_find(str_sv(&all), sv(STOPPING_EVENT "\r\n0\r\n\r\n"), 0) >= 0);
    assert_true(sv_find(str_sv(&all), sv("[DONE]"), 0) < 0);
    close(fd);
    assert_int_equal(server_end(&s), 128 + SIGTERM);
    server_start(&s, ARGS("-m", MODEL, "--drain-timeout", "0"));
    fd = start_stream(&s, 0);
    kill(s.pid, SIGINT);
    server_wait_for(&s, "cut off (--drain-timeout): 1 request");
    str_clear(&all);
    client_take_until(fd, &all, STOPPING_EVENT);
    str_free(&all);
    close(fd);
    assert_int_equal(server_end(&s), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_bodies),
        cmocka_unit_test(garbage),
        cmocka_unit_test(late_requests),
        cmocka_unit_test(together),
        cmocka_unit_test(leaving),
        cmocka_unit_test(full),
        cmocka_unit_test(many_connections),
        cmocka_unit_test(many_bodies),
        cmocka_unit_test(keys),
        cmocka_unit_test(wrong_starts),
        cmocka_unit_test(loading),
        cmocka_unit_test(drain),
        cmocka_unit_test(drain_cut),
        cmocka_unit_test(few_files),
    };
    return cmocka_run_group_tests_name("server_load", tests, start_main, stop_main);
}
