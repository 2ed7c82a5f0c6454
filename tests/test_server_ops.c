// mlxcel-server as its operator sees it: sockets, paths, deadlines, logs.
#include "folder.h"
#include "server_client.h"

#include <sys/stat.h>

#define ENDLESS "\"temperature\":0,\"ignore_eos\":true,\"max_tokens\":-1"
#define STREAM  "{\"prompt\":\"\\n\",\"stream\":true," ENDLESS "}"

static void expect_greeting(const struct server *s) {
    expect_text_from(s, TEXT, "{\"prompt\":\"\\n\",\"temperature\":0}", GREETING, "stop");
}

// --- sockets -------------------------------------------------------------------------------------

static void socket_file(void **state) {
    char dir[32], path[64], too_long[200] = "/tmp/";
    struct server s;
    struct stat st;
    (void)state;
    folder_make(dir);
    snprintf(path, sizeof path, "%s/a.sock", dir);
    server_start(&s, ARGS("-m", MODEL, "--host", path));
    assert_string_equal(s.path, path);
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 0777, 0660);
    expect_greeting(&s);
    server_wait_for(&s, "info: unix req_");
    assert_int_equal(
        server_run_to_end(ARGS("-m", MODEL, "--host", path), "another server listens there"), 1);
    expect_greeting(&s);
    assert_int_equal(server_stop(&s), 0);
    assert_int_equal(stat(path, &st), -1);
    // One that a killed server left is replaced; what is no socket is not.
    server_start(&s, ARGS("-m", MODEL, "--host", path));
    kill(s.pid, SIGKILL);
    assert_int_equal(server_end(&s), 128 + SIGKILL);
    assert_int_equal(stat(path, &st), 0);
    server_start(&s, ARGS("-m", MODEL, "--host", path));
    expect_greeting(&s);
    assert_int_equal(server_stop(&s), 0);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(
        server_run_to_end(ARGS("-m", MODEL, "--host", path), "a file that is no socket"), 1);
    assert_int_equal(unlink(path), 0);
    memset(too_long + 5, 'x', 150);
    strcpy(too_long + 155, ".sock");
    assert_int_equal(server_run_to_end(ARGS("-m", MODEL, "--host", too_long), "at most 107 bytes"),
                     1);
    rmdir(dir);
}

static void shared_port(void **state) {
    struct server a, b;
    char port[16];
    (void)state;
    server_start(&a, ARGS("-m", MODEL, "--reuse-port"));
    snprintf(port, sizeof port, "%d", a.port);
    server_start(&b, ARGS("-m", MODEL, "--reuse-port", "--port", port));
    assert_int_equal(a.port, b.port);
    assert_int_equal(server_stop(&a), 0);
    server_wait_for(&b, "is loaded"); // who was asked until now may have been the other
    expect_greeting(&b);
    assert_int_equal(server_stop(&b), 0);
}

// Whether the kernel asks a silent client of this port now and then if it is still there: its timer
// is that of keep-alive.
static bool probed(int port) {
    char line[256];
    bool found = false;
    FILE *f = fopen("/proc/net/tcp", "r");
    if (!f) skip();
    while (fgets(line, sizeof line, f)) {
        unsigned local, peer, here, there, status, timer;
        if (sscanf(line, " %*d: %x:%x %x:%x %x %*x:%*x %x:", &local, &here, &peer, &there, &status,
                   &timer) == 6)
            found |= here == (unsigned)port && status == 1 && timer == 2;
    }
    fclose(f);
    return found;
}

static void vanished_peers(void **state) {
    struct server s;
    struct str all = {0};
    (void)state;
    server_start(&s, ARGS("-m", MODEL));
    int fd = client_open(&s);
    client_send(fd, sv("GET /health HTTP/1.1\r\nHost: test\r\n\r\n"));
    client_take_until(fd, &all, "}");
    usleep(50000); // the answer is confirmed
    assert_true(probed(s.port));
    str_free(&all);
    close(fd);
    assert_int_equal(server_stop(&s), 0);
}

static void prefix(void **state) {
    struct server s;
    struct answer a;
    (void)state;
    assert_true(server_launch(&s, ARGS("-m", MODEL, "--api-prefix", "/llm/v7/")));
    do {
        get(&s, &a, "/llm/v7/health");
        answer_free(&a);
    } while (a.status == 503);
    expect_text_from(&s, "/llm/v7" TEXT, "{\"prompt\":\"\\n\",\"temperature\":0}", GREETING,
                     "stop");
    static const char *const none[] = {"/health", "/llm", "/llm/v7health", "/llm/health", "/"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        get(&s, &a, none[i]);
        expect_refusal(&a, 404, NULL, "no route GET");
        answer_free(&a);
    }
    assert_int_equal(server_stop(&s), 0);
    assert_int_equal(
        server_run_to_end(ARGS("-m", MODEL, "--api-prefix", "llm"), "begin with a slash"), 2);
}

static void keys_of_files(void **state) {
    static const char lines[] = "# not a key\nkey\n#\n";
    char keys[] = "/tmp/mlxcel-keys-XXXXXX";
    int fd = mkstemp(keys);
    struct server s;
    struct answer a;
    (void)state;
    assert_int_equal(write(fd, lines, sizeof lines - 1), sizeof lines - 1);
    close(fd);
    setenv("LLAMA_API_KEY", "second,third", 1);
    setenv("MLXCEL_API_KEY", "fourth", 1);
    server_start(&s, ARGS("-m", MODEL, "--api-key-file", keys, "--api-key", "first"));
    unsetenv("LLAMA_API_KEY");
    unsetenv("MLXCEL_API_KEY");
    static const char *const good[] = {"key", "first", "second", "third", "fourth"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char header[64];
        snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", good[i]);
        ask(&s, &a, "GET", "/v1/models", header, sv(""));
        assert_int_equal(a.status, 200);
        answer_free(&a);
    }
    ask(&s, &a, "GET", "/v1/models", "Authorization: Bearer # not a key\r\n", sv(""));
    assert_int_equal(a.status, 401);
    answer_free(&a);
    assert_int_equal(unlink(keys), 0);
    assert_int_equal(server_stop(&s), 0);
}

// --- time ----------------------------------------------------------------------------------------

static void deadlines(void **state) {
    struct server s;
    struct answer a;
    (void)state;
    server_start(&s, ARGS("-m", MODEL, "-np", "1", "--request-timeout", "1"));
    post(&s, &a, TEXT, "{\"prompt\":\"\\n\"," ENDLESS "}");
    expect_refusal(&a, 504, NULL, "takes too long (--request-timeout, --decode-timeout)");
    answer_free(&a);
    post(&s, &a, TEXT, STREAM);
    assert_int_equal(a.status, 200);
    assert_true(a.whole);
    struct sv end = sv("\"type\":\"timeout_error\",\"param\":null,\"code\":null}}\n\n");
    assert_true(sv_ends(str_sv(&a.body), end));
    answer_free(&a);
    expect_greeting(&s); // the place is free
    assert_int_equal(server_stop(&s), 0);
}

// A grammar takes a while to be made, which ends when its client leaves, or the server has to.
static void grammars(void **state) {
    struct server s;
    struct answer a;
    (void)state;
    server_start(&s, ARGS("-m", MODEL, "-np", "1", "--drain-timeout", "0"));
    struct str body = {0}, text = {0};
    str_puts(&text, "{\"prompt\":\"\\n\",\"regex\":\"");
    for (int i = 0; i < 400; i++) str_puts(&text, "(a?b?c?d?e?f?)");
    str_puts(&text, "\"}");
    ask(&s, &a, "POST", TEXT, "", str_sv(&text));
    expect_refusal(&a, 400, "regex", "100 million steps (use fewer or simpler patterns");
    answer_free(&a);
    int fd = client_open(&s);
    client_ask(fd, "POST", TEXT, "X-Request-Id: leaver\r\n", str_sv(&text));
    close(fd);
    server_wait_for(&s, "leaver POST /v1/completions 503");
    // More of them than are made at once: those that wait are told at the end, and it is a clean
    // one.
    int waiting[6];
    for (size_t i = 0; i < 6; i++) {
        str_clear(&body);
        str_printf(&body, "{\"prompt\":\"\\n\",\"regex\":\"%zu", i);
        str_add(&body, sv_cut(str_sv(&text), strlen("{\"prompt\":\"\\n\",\"regex\":\""), text.n));
        waiting[i] = client_open(&s);
        client_ask(waiting[i], "POST", TEXT, "", str_sv(&body));
    }
    int code = server_stop(&s);
    for (size_t i = 0; i < 6; i++) close(waiting[i]);
    assert_int_equal(code, 0);
    str_free(&text);
    str_free(&body);
}

// A stream that waits for its turn gets comments, which clients skip.
static void pings(void **state) {
    struct server s;
    struct str all = {0};
    (void)state;
    server_start(&s, ARGS("-m", MODEL, "-np", "1", "--sse-ping-interval", "1"));
    int first = client_open(&s), second = client_open(&s);
    client_ask(first, "POST", TEXT, "", sv(STREAM));
    client_take_until(first, &all, "Hello");
    str_clear(&all);
    client_ask(second, "POST", TEXT, "", sv(STREAM));
    client_take_until(second, &all, "\r\n3\r\n:\n\n\r\n3\r\n:\n\n\r\n"); // two, each a chunk
    assert_true(sv_find(str_sv(&all), sv("data:"), 0) < 0);
    close(first);
    client_take_until(second, &all, "Hello");
    close(second);
    str_free(&all);
    assert_int_equal(server_stop(&s), 0);
}

// --- logs ----------------------------------------------------------------------------------------

#define SECRET "xyzzy"

static void ask_secret(const struct server *s, const char *headers) {
    struct answer a;
    ask(s, &a, "POST", CHAT, headers,
        sv("{\"messages\":[{\"role\":\"user\",\"content\":\"" SECRET "\"}],\"temperature\":0}"));
    assert_int_equal(a.status, 200);
    answer_free(&a);
}

// The object of the log's line of this type, once it is there.
static struct json_object *logged(struct server *s, const char *type) {
    struct str mark = {0}, said = {0};
    str_printf(&mark, "\"type\":\"%s\"", type);
    server_wait_for(s, mark.p);
    server_said(s, &said);
    size_t at = (size_t)sv_find(str_sv(&said), str_sv(&mark), 0), from = at, to = at;
    while (from && said.p[from - 1] != '\n') from--;
    while (said.p[to] != '\n') to++;
    struct json_object *o = json_of(sv_cut(str_sv(&said), from, to));
    str_free(&mark);
    str_free(&said);
    return o;
}

// Every line is an object.
static void expect_json_lines(struct server *s) {
    struct str said = {0};
    server_said(s, &said);
    struct sv left = str_sv(&said);
    for (ptrdiff_t end; (end = sv_find(left, sv("\n"), 0)) >= 0;) {
        struct json_object *o = json_of(sv_cut(left, 0, (size_t)end));
        struct sv time = json_text_at(o, "time");
        assert_true(time.n == strlen("2026-11-30T11:06:00.123Z") && sv_ends(time, sv("Z")));
        assert_true(json_text_at(o, "level").n && json_text_at(o, "type").n);
        json_object_put(o);
        left = sv_cut(left, (size_t)end + 1, left.n);
    }
    assert_int_equal(left.n, 0);
    str_free(&said);
}

static void json_logs(void **state) {
    struct server s;
    (void)state;
    server_start(&s, ARGS("-m", MODEL, "--log-format", "json", "-v", "--log-interval", "1"));
    ask_secret(&s, "X-Request-Id: my \"id\"\r\nX-Forwarded-For: 10.0.0.9\r\n");
    server_wait_for(&s, "\"path\":\"" CHAT "\"");
    struct str said = {0};
    server_said(&s, &said);
    ptrdiff_t at = sv_find(str_sv(&said), sv("\"id\":\"my?\\\"id\\\"\""), 0);
    assert_true(at > 0);
    size_t from = (size_t)at, to = (size_t)at;
    while (from && said.p[from - 1] != '\n') from--;
    while (said.p[to] != '\n') to++;
    struct json_object *o = json_of(sv_cut(str_sv(&said), from, to));
    assert_true(sv_is(json_text_at(o, "type"), "request"));
    assert_true(sv_is(json_text_at(o, "level"), "info"));
    assert_true(sv_is(json_text_at(o, "client"), "127.0.0.1"));
    assert_true(sv_is(json_text_at(o, "method"), "POST"));
    assert_true(sv_is(json_text_at(o, "finish_reason"), "stop"));
    assert_true(json_bool_at(o, "whole", false));
    assert_int_equal(json_int_at(o, "status", 0), 200);
    assert_int_equal(json_int_at(o, "prompt_tokens", 0), 24);
    assert_int_equal(json_int_at(o, "cached_tokens", -1), 0);
    assert_int_equal(json_int_at(o, "completion_tokens", 0), 13);
    double all = json_number_at(o, "seconds", 0),
           first = json_number_at(o, "first_token_seconds", 0);
    double prompt = json_number_at(o, "prompt_seconds", 0);
    double queue = json_number_at(o, "queue_seconds", 0);
    double made = json_number_at(o, "generation_seconds", 0);
    const double rounded = 2e-4; // each is told in tenths of a millisecond, which may be 0
    assert_true(prompt >= 0 && made >= 0 && queue + prompt <= first + rounded);
    assert_true(first <= all + rounded);
    assert_true(json_number_at(o, "tokens_per_second", 0) > 1);
    json_object_put(o);
    o = logged(&s, "figures");
    assert_int_equal(json_int_at(o, "running", -1), 0);
    assert_int_equal(json_int_at(o, "pages_used", -1), 0);
    assert_true(json_int_at(o, "pages", 0) > 0);
    json_object_put(o);
    assert_false(server_says(&s, SECRET));
    assert_false(server_says(&s, "10.0.0.9"));
    expect_json_lines(&s);
    str_free(&said);
    assert_int_equal(server_stop(&s), 0);
}

static void asked_for_logs(void **state) {
    char path[] = "/tmp/mlxcel-log-XXXXXX";
    struct server s;
    struct str file = {0};
    struct error e = {0};
    (void)state;
    close(mkstemp(path));
    server_start(&s, ARGS("-m", MODEL, "--log-prompts", "--log-forwarded", "--log-timestamps",
                          "--no-log-prefix", "--log-file", path));
    ask_secret(&s, "X-Forwarded-For: 10.0.0.9\r\n");
    server_wait_for(&s, "13 tokens stop, 0 cached, queued 0.");
    server_wait_for(&s, " 127.0.0.1(10.0.0.9) req_");
    server_wait_for(&s, "body {\"messages\":[{\"role\":\"user\",\"content\":\"" SECRET);
    assert_false(server_says(&s, "mlxcel-server: info:"));
    server_wait_for(&s, "Z text (Llama) is loaded");
    assert_int_equal(server_stop(&s), 0);
    assert_true(file_read(path, 1 << 20, &file, &e));
    assert_true(sv_find(str_sv(&file), sv(SECRET), 0) > 0);
    assert_true(sv_find(str_sv(&file), sv("stopping: 0 requests"), 0) > 0);
    str_free(&file);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(server_run_to_end(ARGS("-m", MODEL, "--log-file", "/nothing/x"), "/nothing/x"),
                     2);
}

static void quiet_logs(void **state) {
    struct server s;
    struct str said = {0};
    (void)state;
    server_start(&s, ARGS("-m", MODEL, "--log-disable"));
    ask_secret(&s, "");
    kill(s.pid, SIGTERM);
    usleep(100000);
    server_said(&s, &said);
    assert_int_equal(said.n, 0);
    assert_int_equal(server_end(&s), 0);
    str_free(&said);
    server_start(&s, ARGS("-m", MODEL, "-lv", "2"));
    ask_secret(&s, "");
    assert_false(server_says(&s, "req_"));
    assert_int_equal(server_stop(&s), 0);
    // The reason of an end is always told.
    assert_int_equal(server_run_to_end(ARGS("-m", FIXTURES "/nothing", "--log-disable"), "no such"),
                     1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(socket_file),    cmocka_unit_test(shared_port),
        cmocka_unit_test(vanished_peers), cmocka_unit_test(prefix),
        cmocka_unit_test(keys_of_files),  cmocka_unit_test(deadlines),
        cmocka_unit_test(grammars),       cmocka_unit_test(pings),
        cmocka_unit_test(json_logs),      cmocka_unit_test(asked_for_logs),
        cmocka_unit_test(quiet_logs),
    };
    return cmocka_run_group_tests_name("server_ops", tests, NULL, NULL);
}
