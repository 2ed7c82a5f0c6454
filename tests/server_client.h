// A server that runs as a child, and a client of raw sockets, so that a test says what every byte
// is.
#ifndef TESTS_SERVER_CLIENT_H
#define TESTS_SERVER_CLIENT_H

#include "check.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"

#define MODEL    (FIXTURES "/text")
#define GREETING "Hello, w\xc3\xb6rld! \xf0\x9f\x98\x80"

#define CHAT "/v1/chat/completions"
#define TEXT "/v1/completions"
#define HI   "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"

enum { WAIT_MS = 60000 }; // without a sign of life: generous, for a busy machine

struct server {
    pid_t pid;
    int port;
    char path[108]; // of its socket, where that is a file
    FILE *err;      // what it says on standard error
};

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

// Starts the server with `args` after the usual ones, and waits for its address. False when it
// ended instead.
static inline bool server_launch(struct server *s, const char *const *args) {
    int out[2];
    *s = (struct server){.err = tmpfile()};
    assert_non_null(s->err);
    assert_int_equal(pipe(out), 0);
    s->pid = fork();
    if (s->pid == 0) {
        const char *argv[32] = {MLXCEL_SERVER, "--port", "0", "-t", "1"};
        for (int i = 0; args[i]; i++) argv[i + 5] = args[i];
        dup2(out[1], 1);
        dup2(fileno(s->err), 2);
        for (int fd = 3; fd < 64; fd++) close(fd);
        execv(MLXCEL_SERVER, (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    assert_true(s->pid > 0);
    close(out[1]);
    char line[128] = "";
    for (size_t n = 0; n + 1 < sizeof line && !strchr(line, '\n'); n++)
        if (read(out[0], line + n, 1) != 1) break;
    close(out[0]);
    return sscanf(line, "listening on http://127.0.0.1:%d", &s->port) == 1 ||
           sscanf(line, "listening on https://127.0.0.1:%d", &s->port) == 1 ||
           sscanf(line, "listening on unix:%107s", s->path) == 1;
}

// What it said on standard error so far.
static inline void server_said(struct server *s, struct str *out) {
    char chunk[4096];
    size_t n;
    rewind(s->err);
    while ((n = fread(chunk, 1, sizeof chunk, s->err)) > 0) str_add(out, sv_n(chunk, n));
}

static inline bool server_says(struct server *s, const char *text) {
    struct str said = {0};
    server_said(s, &said);
    bool found = sv_find(str_sv(&said), sv(text), 0) >= 0;
    str_free(&said);
    return found;
}

static inline void server_wait_for(struct server *s, const char *text) {
    double until = clock_now() + WAIT_MS / 1000.0;
    while (!server_says(s, text)) {
        if (clock_now() > until) fail_msg("the server does not say \"%s\"", text);
        usleep(5000);
    }
}

// Waits for the end. Returns the exit code as a shell gives it.
static inline int server_end(struct server *s) {
    int status;
    assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    struct str said = {0};
    server_said(s, &said);
    if (code == 1 || sv_find(str_sv(&said), sv("Sanitizer"), 0) >= 0) print_message("%s", said.p);
    str_free(&said);
    fclose(s->err);
    return code;
}

static inline int server_stop(struct server *s) {
    kill(s->pid, SIGTERM);
    return server_end(s);
}

// --- a client ------------------------------------------------------------------------------------

static inline int client_of_file(const char *path) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    strcpy(a.sun_path, path);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0) return fd;
    close(fd);
    return -1;
}

static inline int client_socket(const struct server *s, int receive_buffer) {
    if (*s->path) return client_of_file(s->path);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s->port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (receive_buffer)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0) return fd;
    close(fd);
    return -1;
}

static inline int client_open(const struct server *s) {
    int fd = client_socket(s, 0);
    assert_true(fd >= 0);
    return fd;
}

static inline void client_send(int fd, struct sv text) {
    while (text.n) {
        ssize_t n = send(fd, text.p, text.n, MSG_NOSIGNAL);
        if (n <= 0) return; // the server had enough; its answer says why
        text = sv_cut(text, (size_t)n, text.n);
    }
}

// Appends what comes; false at the end of the connection.
static inline bool client_take(int fd, struct str *out) {
    char chunk[8192];
    struct pollfd p = {fd, POLLIN, 0};
    if (poll(&p, 1, WAIT_MS) != 1) fail_msg("no answer for a minute; so far: %s", str_c(out));
    ssize_t n = recv(fd, chunk, sizeof chunk, 0);
    if (n > 0) str_add(out, sv_n(chunk, (size_t)n));
    return n > 0;
}

static inline void client_take_until(int fd, struct str *out, const char *text) {
    while (sv_find(str_sv(out), sv(text), 0) < 0)
        if (!client_take(fd, out)) fail_msg("the answer ends without \"%s\": %s", text, out->p);
}

static inline void client_ask(int fd, const char *method, const char *path, const char *headers,
                              struct sv body) {
    struct str s = {0};
    str_printf(&s, "%s %s HTTP/1.1\r\nHost: test\r\nConnection: close\r\n%s", method, path,
               headers);
    if (body.n) str_printf(&s, "Content-Length: %zu\r\n", body.n);
    str_puts(&s, "\r\n");
    str_add(&s, body);
    client_send(fd, str_sv(&s));
    str_free(&s);
}

// --- answers -------------------------------------------------------------------------------------

struct answer {
    int status;      // 0: the connection ended without one
    struct str head; // with the line of the status
    struct str body; // without the framing of chunks
    bool whole;      // it came to its end
};

// Takes chunks apart.
static inline bool unchunk(struct sv in, struct str *out) {
    for (;;) {
        ptrdiff_t end = sv_find(in, sv("\r\n"), 0);
        size_t n = end < 0 ? 0 : strtoul(in.p, NULL, 16), from = (size_t)end + 2;
        if (end < 0 || in.n < from + n + 2) return false;
        if (!n) return true;
        str_add(out, sv_cut(in, from, from + n));
        in = sv_cut(in, from + n + 2, in.n);
    }
}

static inline void answer_read(struct answer *a, struct sv all) {
    *a = (struct answer){0};
    ptrdiff_t end = sv_find(all, sv("\r\n\r\n"), 0);
    if (end < 0 || sscanf(all.p, "HTTP/1.1 %d", &a->status) != 1) return;
    str_add(&a->head, sv_cut(all, 0, (size_t)end + 2));
    struct sv body = sv_cut(all, (size_t)end + 4, all.n);
    ptrdiff_t length = sv_find(str_sv(&a->head), sv("Content-Length: "), 0);
    if (length >= 0) {
        str_add(&a->body, body);
        a->whole = strtoul(a->head.p + length + 16, NULL, 10) == body.n;
    } else {
        a->whole = unchunk(body, &a->body);
    }
}

static inline void answer_take(struct answer *a, int fd) {
    struct str all = {0};
    while (client_take(fd, &all)) continue;
    str_addc(&all, 0); // sscanf and strtoul stop there
    all.n--;
    answer_read(a, str_sv(&all));
    str_free(&all);
    close(fd);
}

static inline void answer_free(struct answer *a) {
    str_free(&a->head);
    str_free(&a->body);
}

static inline void ask(const struct server *s, struct answer *a, const char *method,
                       const char *path, const char *headers, struct sv body) {
    int fd = client_open(s);
    client_ask(fd, method, path, headers, body);
    answer_take(a, fd);
}

static inline void get(const struct server *s, struct answer *a, const char *path) {
    ask(s, a, "GET", path, "", sv(""));
}

static inline void post(const struct server *s, struct answer *a, const char *path,
                        const char *body) {
    ask(s, a, "POST", path, "", sv(body));
}

static inline bool has_header(const struct answer *a, const char *line) {
    struct str want = {0};
    str_printf(&want, "\r\n%s\r\n", line);
    bool found = sv_find(str_sv(&a->head), str_sv(&want), 0) >= 0;
    str_free(&want);
    return found;
}

static inline struct json_object *json_of(struct sv text) {
    struct error e = {0};
    struct json_object *o = json_read(text, "answer", &e);
    if (!o) fail_msg("%s: %.*s", e.text, (int)text.n, text.p);
    return o;
}

// The server with a model that is loaded.
static inline void server_start(struct server *s, const char *const *args) {
    struct answer a = {0};
    if (!server_launch(s, args)) {
        server_end(s);
        fail_msg("the server does not start");
    }
    do {
        answer_free(&a);
        get(s, &a, "/health");
        if (a.status != 200) usleep(2000);
    } while (a.status == 503);
    assert_int_equal(a.status, 200);
    answer_free(&a);
}

// One that ends before it serves, and says why. Returns its exit code.
static inline int server_run_to_end(const char *const *args, const char *says) {
    struct server s;
    assert_false(server_launch(&s, args));
    server_wait_for(&s, says);
    return server_end(&s);
}

static inline struct json_object *choice(struct json_object *o) {
    struct json_object *list = json_at(o, "choices");
    return list && json_object_array_length(list) ? json_object_array_get_idx(list, 0) : NULL;
}

// The text of a whole answer that must be good; owned by the caller.
static inline char *text_of(const struct answer *a, bool chat) {
    assert_int_equal(a->status, 200);
    struct json_object *o = json_of(str_sv(&a->body)), *c = choice(o);
    struct sv text =
        chat ? json_text_at(json_at(c, "message"), "content") : json_text_at(c, "text");
    char *copy = malloc(text.n + 1);
    memcpy(copy, text.p, text.n);
    copy[text.n] = 0;
    json_object_put(o);
    return copy;
}

// Asks for a whole answer, which must have this text; finish may be NULL.
static inline void expect_text_from(const struct server *s, const char *path, const char *body,
                                    const char *text, const char *finish) {
    struct answer a;
    post(s, &a, path, body);
    if (a.status != 200) fail_msg("%s: %d %s", body, a.status, str_c(&a.body));
    char *got = text_of(&a, sv_starts(sv(path), sv(CHAT)));
    assert_string_equal(got, text);
    struct json_object *o = json_of(str_sv(&a.body));
    if (finish) assert_true(sv_is(json_text_at(choice(o), "finish_reason"), finish));
    json_object_put(o);
    free(got);
    answer_free(&a);
}

static inline void expect_refusal(const struct answer *a, int status, const char *param,
                                  const char *message) {
    if (a->status != status) fail_msg("status %d: %s", a->status, str_c(&a->body));
    struct json_object *o = json_of(str_sv(&a->body)), *e = json_at(o, "error");
    assert_non_null(e);
    struct sv why = json_text_at(e, "message"), type = json_text_at(e, "type"), code, p;
    p = json_text_at(e, "param");
    code = json_text_at(e, "code");
    if (sv_find(why, sv(message), 0) < 0) fail_msg("\"%s\" does not say \"%s\"", why.p, message);
    assert_true(param ? sv_is(p, param) : p.n == 0);
    assert_true(type.n > 0);
    assert_int_equal(json_object_object_length(e), 4);
    if (status == 401) assert_true(sv_is(code, "invalid_api_key"));
    json_object_put(o);
}

// The JSON of an answer that must be good; owned by the caller.
static inline struct json_object *json_answer(struct answer *a, const char *what) {
    if (a->status != 200) fail_msg("%s: %d %s", what, a->status, str_c(&a->body));
    struct json_object *o = json_of(str_sv(&a->body));
    answer_free(a);
    return o;
}

static inline struct json_object *post_json(const struct server *s, const char *path,
                                            const char *body) {
    struct answer a;
    post(s, &a, path, body);
    return json_answer(&a, body);
}

static inline struct json_object *get_json(const struct server *s, const char *path) {
    struct answer a;
    get(s, &a, path);
    return json_answer(&a, path);
}

static inline struct json_object *nth(struct json_object *list, size_t i) {
    assert_true(json_object_is_type(list, json_type_array));
    assert_true(i < json_object_array_length(list));
    return json_object_array_get_idx(list, i);
}

// Takes the next event of a stream; NULL: it was the last, "[DONE]".
static inline struct json_object *next_event(struct sv *left) {
    ptrdiff_t end = sv_find(*left, sv("\n\n"), 0);
    assert_true(end > 6 && sv_starts(*left, sv("data: ")));
    struct sv data = sv_cut(*left, 6, (size_t)end);
    *left = sv_cut(*left, (size_t)end + 2, left->n);
    return sv_is(data, "[DONE]") ? NULL : json_of(data);
}

// Takes the timings, which differ each time, out of a text; they must be there.
static inline void cut_timings(struct str *text) {
    ptrdiff_t at = sv_find(str_sv(text), sv(",\"timings\":{"), 0);
    if (at < 0) fail_msg("no timings: %s", str_c(text));
    ptrdiff_t end = sv_find(str_sv(text), sv("}"), (size_t)at);
    memmove(text->p + at, text->p + end + 1, text->n - (size_t)end);
    text->n -= (size_t)(end + 1 - at);
}

// A request that the server answers with 400.
static inline void expect_refused(struct server *s, const char *path, const char *body,
                                  const char *param, const char *message) {
    struct answer a;
    post(s, &a, path, body);
    expect_refusal(&a, 400, param, message);
    answer_free(&a);
}

#endif
