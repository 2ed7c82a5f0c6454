// The edge of mlxcel-server: requests that could be read in two ways or don't fit, keys, prefixes,
// origins, and files that are none.
#include "server_client.h"

#include <sys/stat.h>

#include "folder.h"

static struct server server;

static int start(void **state) {
    (void)state;
    server_start(&server, ARGS("-m", MODEL));
    return 0;
}

static int stop(void **state) {
    (void)state;
    return server_stop(&server);
}

// Stops a server. Appends what it said to its end.
static void stop_and_hear(struct server *s, struct str *said) {
    FILE *err = s->err;
    s->err = fdopen(dup(fileno(err)), "r"); // server_stop closes it
    assert_int_equal(server_stop(s), 0);
    s->err = err;
    server_said(s, said);
    fclose(err);
}

// Sends bytes, and takes what comes until the server closes.
static void send_raw(struct answer *a, struct sv bytes) {
    int fd = client_open(&server);
    client_send(fd, bytes);
    answer_take(a, fd);
}

#define LINE "POST " TEXT " HTTP/1.1\r\nHost: x\r\n"
#define NEXT "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"

// Where the one who passes a request on may see another end of it than the server does, nothing
// behind it is taken for a request.
static void ambiguous(void **state) {
    static const struct {
        const char *bytes;
        int status;
        const char *why;
    } cases[] = {
        {LINE "Content-Length: 4\r\nContent-Length: 9\r\n\r\n{}{}" NEXT, 400, "Content-Length"},
        {LINE "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}" NEXT, 400, "more than once"},
        {"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\ncontent-length: 5\r\n\r\n" NEXT,
         400, "Content-Length"},
        {LINE "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" NEXT, 400,
         "exclude each other"},
        {LINE "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" NEXT, 400,
         "exclude each other"},
        {LINE "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n" NEXT, 400,
         "Transfer-Encoding"},
        {LINE "Transfer-Encoding: gzip\r\n\r\n{}" NEXT, 501, "only \"chunked\""},
        {LINE "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" NEXT, 501, "only \"chunked\""},
        {LINE "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" NEXT, 501, "only \"chunked\""},
        {LINE "Transfer-Encoding:\r\n\r\n0\r\n\r\n" NEXT, 501, "only \"chunked\""},
        {"POST " TEXT " HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" NEXT, 400,
         "HTTP/1.0"},
        {LINE "Content-Length : 4\r\n\r\n{}{}" NEXT, 400, "a header's name"},
        {LINE "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n" NEXT, 400, "a header's name"},
        {"GET /health HTTP/1.1\r\n Content-Length: 4\r\nHost: x\r\n\r\n" NEXT, 400,
         "a header's name"},
        {LINE "A: b\r\n c\r\n\r\n" NEXT, 400, "goes on in the next"},
        {LINE "Content: 44\r\n -Length\r\n\r\n" NEXT, 400, "goes on in the next"},
        {LINE "A: b\rContent-Length: 4\r\n\r\n" NEXT, 400, "a control character"},
        {LINE "A: b\x01\r\n\r\n" NEXT, 400, "a control character"},
        {"GET /health HTTP/1.1\r\n\r\n" NEXT, 400, "the header Host is missing"},
        {"GET /health HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n" NEXT, 400, "the header Host"},
        {"GET /health HTTP/1.1 HTTP/1.1\r\nHost: x\r\n\r\n" NEXT, 400, "white space"},
        {"GET /health\rx HTTP/1.1\r\nHost: x\r\n\r\n" NEXT, 400, "white space"},
        {"GET /health\x7f HTTP/1.1\r\nHost: x\r\n\r\n" NEXT, 400, "a control character"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct answer a;
        send_raw(&a, sv(cases[i].bytes));
        if (a.status != cases[i].status) fail_msg("%s: %d", cases[i].bytes, a.status);
        expect_refusal(&a, cases[i].status, NULL, cases[i].why);
        assert_true(a.whole); // and nothing behind it
        assert_true(has_header(&a, "Connection: close"));
        answer_free(&a);
    }
}

#define CLOSE "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"

// What is unusual and clear.
static void clear(void **state) {
    static const char *const good[] = {
        "GET /health HTTP/1.0\r\n\r\n",
        "GET /health HTTP/1.1\nHost: x\nConnection: close\n\n",
        "\r\nGET /health HTTP/1.1\r\nhOST:x\r\nConnection: close\r\n\r\n",
        "GET /health?a=%20&b HTTP/1.1\r\nHost: x\r\nX: a\tb \xc3\xa4\r\nConnection: close\r\n\r\n",
        CLOSE "Content-Length: 2\r\n\r\n{}",
        "GET /health HTTP/1.0\r\nHost: x\r\nX-Api-Key:\r\n\r\n",
        CLOSE "transfer-encoding: Chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\n\r\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct answer a;
        send_raw(&a, sv(good[i]));
        if (a.status != 200) fail_msg("%s: %d %s", good[i], a.status, str_c(&a.body));
        assert_true(a.whole);
        answer_free(&a);
    }
}

// `times` times the same text within a request.
static void ask_filled(struct answer *a, const char *before, const char *text, size_t times,
                       const char *after) {
    struct str s = {0};
    str_puts(&s, before);
    for (size_t i = 0; i < times; i++) str_puts(&s, text);
    str_puts(&s, after);
    send_raw(a, str_sv(&s));
    str_free(&s);
}

#define END " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

static void too_much(void **state) {
    static const struct {
        const char *before, *text, *after;
        size_t times;
        int status;
        const char *why; // NULL: libmicrohttpd says it in its own way
    } cases[] = {
        {"GET /health?a", "&b", END, 400, 200, "ok"},
        {"GET /health?a", "&b", END, 600, 414, "at most 512 parameters (--max-header)"},
        {"GET /health?a", "&b=c", END, 5000, 414, "at most 512 parameters (--max-header)"},
        {"GET /health?", "&", END, 30000, 414, "at most 512 parameters (--max-header)"},
        {"GET /", "a", END, 40000, 431, "over 32 KiB (--max-header)"},
        {"GET /", "a", END, 300000, 414, NULL},
        {"GET /health HTTP/1.1\r\nHost: x\r\nX: ", "a", "\r\n\r\n", 33000, 431,
         "over 32 KiB (--max-header)"},
        {"GET /health HTTP/1.1\r\nHost: x\r\n", "a:\r\n", "\r\n", 8000, 431, NULL},
        {"GET /health HTTP/1.1\r\nHost: x\r\nCookie: ", "a;", "\r\n\r\n", 15000, 431, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct answer a;
        ask_filled(&a, cases[i].before, cases[i].text, cases[i].times, cases[i].after);
        if (a.status != cases[i].status) fail_msg("case %zu: %d", i, a.status);
        if (cases[i].why && sv_find(str_sv(&a.body), sv(cases[i].why), 0) < 0)
            fail_msg("case %zu: %s", i, str_c(&a.body));
        if (a.status == 414 && cases[i].why) expect_refusal(&a, 414, NULL, cases[i].why);
        answer_free(&a);
    }
    server_wait_for(&server, "- /health 414, 0.");
    server_wait_for(&server, "a connection without a request that can be read is answered 414");
    server_wait_for(&server, "- /health 431, 0.");
}

// A client that has the last event and closes at once, as nginx does, was not cut off. It may be
// quicker than the server, which is seen within so many.
static void closes_first(void **state) {
    struct str said = {0};
    struct server s;
    char dir[32];
    (void)state;
    folder_make(dir);
    char *path = path_join(dir, "a.sock");
    server_start(&s, ARGS("-m", MODEL, "--host", path));
    for (int i = 0; i < 300; i++) {
        struct str all = {0};
        int fd = client_open(&s);
        client_ask(fd, "POST", TEXT, "",
                   sv("{\"prompt\":\"\\n\",\"temperature\":0,\"stream\":true}"));
        client_take_until(fd, &all, "[DONE]");
        close(fd);
        str_free(&all);
    }
    stop_and_hear(&s, &said);
    assert_true(sv_find(str_sv(&said), sv("cut off"), 0) < 0);
    str_free(&said);
    free(path);
    folder_remove(dir);
}

// --- keys, prefixes, origins ---------------------------------------------------------------------

static void keys(void **state) {
    static const char text[] = "# one\n  # two\nk3 # three\n  k#4\t#\nk5#\n";
    static const struct {
        const char *header;
        int status;
    } cases[] = {
        {"Authorization: Bearer a\r\n", 200},
        {"Authorization: Bearer b\r\n", 200},
        {"Authorization: bearer b\r\n", 200},
        {"Authorization: BEARER  b\r\n", 200},
        {"X-Api-Key: k3\r\n", 200},
        {"X-Api-Key: k#4\r\n", 200},
        {"X-Api-Key: k5#\r\n", 200},
        {"Authorization: Basic b\r\n", 401},
        {"Authorization: Bearerb\r\n", 401},
        {"Authorization: Bearer \r\n", 401},
        {"X-Api-Key: k3 # three\r\n", 401},
        {"X-Api-Key: # one\r\n", 401},
        {"Authorization: Bearer  b c\r\n", 401},
    };
    char path[] = "/tmp/mlxcel-keys-XXXXXX";
    struct server s;
    int fd = mkstemp(path);
    (void)state;
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    server_start(&s, ARGS("-m", MODEL, "--api-key", "a, b", "--api-key-file", path));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct answer a;
        ask(&s, &a, "GET", "/v1/models", cases[i].header, sv(""));
        if (a.status != cases[i].status) fail_msg("%s: %d", cases[i].header, a.status);
        answer_free(&a);
    }
    assert_int_equal(server_stop(&s), 0);
    assert_int_equal(unlink(path), 0);
}

// The page is at /llm/, and /llm leads there.
static void prefix(void **state) {
    static const char *const wrong[][2] = {{"llm", "must begin with a slash"},
                                           {"/a b", "letters, digits"},
                                           {"/a%20b", "letters, digits"},
                                           {"/a?b", "letters, digits"},
                                           {"/a//b", "a slash behind a slash"}};
    struct server s;
    struct answer a;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(
            server_run_to_end(ARGS("-m", MODEL, "--api-prefix", wrong[i][0]), wrong[i][1]), 2);
    assert_true(server_launch(&s, ARGS("-m", MODEL, "--api-prefix", "/v/llm")));
    get(&s, &a, "/v/llm");
    assert_int_equal(a.status, 308);
    assert_true(has_header(&a, "Location: llm/"));
    answer_free(&a);
    get(&s, &a, "/v/llm/");
    assert_int_equal(a.status, 200);
    assert_true(has_header(&a, "Content-Type: text/html; charset=utf-8"));
    answer_free(&a);
    get(&s, &a, "/v/llmx");
    expect_refusal(&a, 404, NULL, "no route");
    answer_free(&a);
    server_stop(&s); // it may be loading yet
}

static void origins(void **state) {
    struct server s;
    struct answer a;
    (void)state;
    assert_int_equal(server_run_to_end(ARGS("-m", MODEL, "--cors-origins", "https://a.b,*"),
                                       "--cors-origins: \"*\" is no origin"),
                     2);
    server_start(&s, ARGS("-m", MODEL, "--cors-origins", "https://a.b, http://c:80"));
    ask(&s, &a, "GET", "/health", "Origin: http://c:80\r\n", sv(""));
    assert_true(has_header(&a, "Access-Control-Allow-Origin: http://c:80"));
    assert_true(has_header(&a, "Vary: Origin"));
    answer_free(&a);
    ask(&s, &a, "GET", "/health", "Origin: http://d\r\n", sv(""));
    assert_true(sv_find(str_sv(&a.head), sv("Allow-Origin"), 0) < 0);
    assert_true(has_header(&a, "Vary: Origin"));
    answer_free(&a);
    assert_int_equal(server_stop(&s), 0);
}

// --- files ---------------------------------------------------------------------------------------

static void slot_files(void **state) {
    static const char *const actions[] = {"save", "restore"};
    char dir[32];
    struct server s;
    struct answer a;
    struct stat st;
    (void)state;
    folder_make(dir);
    char *pipe = path_join(dir, "pipe"), *file = path_join(dir, "file");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    server_start(&s, ARGS("-m", MODEL, "-np", "1", "--slot-save-path", dir));
    expect_text_from(&s, TEXT, "{\"prompt\":\"\\n\",\"temperature\":0}", GREETING, NULL);
    for (size_t i = 0; i < 2; i++) {
        struct str path = {0};
        str_printf(&path, "/slots/0?action=%s", actions[i]);
        post(&s, &a, path.p, "{\"filename\":\"pipe\"}");
        assert_int_equal(a.status, i ? 400 : 500);
        assert_true(sv_find(str_sv(&a.body), sv("the log says why"), 0) > 0);
        assert_true(sv_find(str_sv(&a.body), sv(dir), 0) < 0);
        answer_free(&a);
        server_wait_for(&s, "not a regular file");
        str_free(&path);
    }
    post(&s, &a, "/slots/0?action=restore", "{\"filename\":\"none\"}");
    assert_int_equal(a.status, 400);
    assert_true(sv_find(str_sv(&a.body), sv(dir), 0) < 0);
    answer_free(&a);
    post(&s, &a, "/slots/0?action=save", "{\"filename\":\"file\"}");
    assert_int_equal(a.status, 200);
    answer_free(&a);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(server_stop(&s), 0);
    free(pipe);
    free(file);
    folder_remove(dir);
}

// Nothing waits for who reads a pipe, and what could not be written is told.
static void log_files(void **state) {
    char dir[32];
    struct server s;
    struct answer a;
    (void)state;
    folder_make(dir);
    char *pipe = path_join(dir, "pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(server_run_to_end(ARGS("-m", MODEL, "--log-file", pipe), "nobody reads"), 2);
    assert_int_equal(server_run_to_end(ARGS("-m", MODEL, "--log-file", dir), "directory"), 2);
    int reader = open(pipe, O_RDONLY | O_NONBLOCK);
    server_start(&s, ARGS("-m", MODEL, "-v", "--log-file", pipe));
    for (int i = 0; i < 40 && !server_says(&s, "lines are lost"); i++) {
        for (int j = 0; j < 40; j++) { // until it is full
            get(&s, &a, "/none");
            assert_int_equal(a.status, 404);
            answer_free(&a);
        }
    }
    server_wait_for(&s, "temporarily unavailable; lines are lost");
    for (char block[4096]; read(reader, block, sizeof block) > 0;) continue;
    get(&s, &a, "/none");
    answer_free(&a);
    server_wait_for(&s, "pipe lacks ");
    close(reader);
    get(&s, &a, "/none");
    answer_free(&a);
    assert_int_equal(server_stop(&s), 0);
    server_start(&s, ARGS("-m", MODEL, "--log-file", "/dev/null"));
    assert_int_equal(server_stop(&s), 0);
    free(pipe);
    folder_remove(dir);
}

static size_t lines_with(const char *path, const char *text) {
    struct str all = {0};
    struct error e = {0};
    size_t n = 0;
    if (!file_read(path, 1 << 20, &all, &e)) fail_msg("%s", e.text);
    for (ptrdiff_t at = 0; (at = sv_find(str_sv(&all), sv(text), (size_t)at)) >= 0; at++) n++;
    str_free(&all);
    return n;
}

// A file that was given another name is followed by a new one, and nothing else happens.
static void hangup(void **state) {
    char dir[32];
    struct server s;
    struct answer a;
    (void)state;
    folder_make(dir);
    char *path = path_join(dir, "log"), *old = path_join(dir, "log.1");
    server_start(&s, ARGS("-m", MODEL, "-v", "--log-file", path));
    server_wait_for(&s, "is loaded");
    assert_int_equal(rename(path, old), 0);
    kill(s.pid, SIGHUP);
    server_wait_for(&s, "log is opened again");
    get(&s, &a, "/none");
    assert_int_equal(a.status, 404);
    answer_free(&a);
    server_wait_for(&s, "/none 404");
    assert_int_equal(lines_with(old, "is loaded"), 1);
    assert_int_equal(lines_with(old, "/none 404"), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    kill(s.pid, SIGHUP);
    server_wait_for(&s, "lines go to the file that was open before");
    assert_int_equal(rmdir(path), 0);
    kill(s.pid, SIGHUP);
    usleep(200000);
    assert_int_equal(server_stop(&s), 0);
    assert_int_equal(lines_with(path, "stopping: 0 requests"), 1);
    server_start(&s, ARGS("-m", MODEL));
    kill(s.pid, SIGHUP);
    usleep(200000);
    assert_int_equal(server_stop(&s), 0);
    free(path);
    free(old);
    folder_remove(dir);
}

static void full_log(void **state) {
    struct str said = {0};
    struct server s;
    (void)state;
    if (access("/dev/full", W_OK) != 0) skip();
    server_start(&s, ARGS("-m", MODEL, "--log-file", "/dev/full"));
    server_wait_for(&s, "error: --log-file /dev/full: No space left on device; lines are lost");
    stop_and_hear(&s, &said);
    ptrdiff_t at = sv_find(str_sv(&said), sv("lines are lost"), 0);
    assert_true(sv_find(str_sv(&said), sv("lines are lost"), (size_t)at + 1) < 0);
    assert_true(sv_find(str_sv(&said), sv("--log-file /dev/full lacks 3 lines"), 0) > 0);
    str_free(&said);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ambiguous, start, stop),
        cmocka_unit_test_setup_teardown(clear, start, stop),
        cmocka_unit_test_setup_teardown(too_much, start, stop),
        cmocka_unit_test(closes_first),
        cmocka_unit_test(keys),
        cmocka_unit_test(prefix),
        cmocka_unit_test(origins),
        cmocka_unit_test(slot_files),
        cmocka_unit_test(log_files),
        cmocka_unit_test(full_log),
        cmocka_unit_test(hangup),
    };
    return cmocka_run_group_tests_name("server_edge", tests, NULL, NULL);
}
