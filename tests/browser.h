// A headless Chromium as a child, driven over the pipe of its DevTools protocol: JSON messages,
// each ended by a NUL. What the page complains of (errors, violations of its policy) is collected.
#ifndef TESTS_BROWSER_H
#define TESTS_BROWSER_H

#include "check.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"

// Counted in looks, not by the clock: a machine that stood still for a minute has not waited.
enum { BROWSER_LOOK_MS = 20, BROWSER_LOOKS = 3000 };

struct browser {
    pid_t pid;
    int to, from;
    char profile[40];
    int calls;
    char session[64];      // of the page; empty: none yet
    struct str got;        // bytes of messages that were not taken yet
    struct str complaints; // of the page, a line each
    struct str posted;     // the body of its last POST
};

// The program, or NULL where there is none: MLXCEL_BROWSER, else Chromium as systems call it.
static inline const char *browser_program(void) {
    static const char *const names[] = {"chromium", "chromium-browser", "google-chrome"};
    static char path[512];
    const char *given = getenv("MLXCEL_BROWSER"), *dirs = getenv("PATH");
    if (given) return given;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (struct sv rest = sv(dirs); rest.n;) {
            ptrdiff_t colon = sv_find(rest, sv(":"), 0);
            struct sv dir = sv_cut(rest, 0, colon < 0 ? rest.n : (size_t)colon);
            rest = sv_cut(rest, dir.n + 1, rest.n);
            snprintf(path, sizeof path, "%.*s/%s", (int)dir.n, dir.p, names[i]);
            if (access(path, X_OK) == 0) return path;
        }
    }
    return NULL;
}

static inline void browser_run(struct browser *b, int read_end, int write_end) {
    char profile[64];
    snprintf(profile, sizeof profile, "--user-data-dir=%s", b->profile);
    // The sandbox is not for root, as which containers test; the page is our own.
    const char *argv[] = {browser_program(),
                          "--headless",
                          "--no-sandbox",
                          "--disable-gpu",
                          "--disable-dev-shm-usage",
                          "--no-first-run",
                          "--disable-background-networking",
                          "--disable-component-update",
                          "--disable-extensions",
                          "--hide-scrollbars",
                          "--window-size=1000,800",
                          "--remote-debugging-pipe",
                          profile,
                          "about:blank",
                          NULL};
    int null = open("/dev/null", O_RDWR);
    // The protocol's descriptors are 3 and 4; those that are there now may be among them.
    int in = fcntl(read_end, F_DUPFD, 10), out = fcntl(write_end, F_DUPFD, 10);
    for (int fd = 0; fd < 3; fd++) dup2(null, fd);
    dup2(in, 3);
    dup2(out, 4);
    for (int fd = 5; fd < 64; fd++) close(fd);
    setpgid(0, 0);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

// --- messages ------------------------------------------------------------------------------------

static inline void browser_note(struct browser *b, struct json_object *message) {
    struct json_object *p = json_at(message, "params"), *entry = json_at(p, "entry");
    struct sv method = json_text_at(message, "method");
    bool thrown = sv_is(method, "Runtime.exceptionThrown");
    // A status of 4xx is such an entry too; what comes of it is the test's to look at.
    bool logged = sv_is(method, "Log.entryAdded") && sv_is(json_text_at(entry, "level"), "error") &&
                  !sv_is(json_text_at(entry, "source"), "network");
    if (thrown || logged) {
        str_puts(&b->complaints, json_object_to_json_string(p));
        str_addc(&b->complaints, '\n');
    }
    struct json_object *body = json_at(json_at(p, "request"), "postData");
    if (!body) return;
    str_clear(&b->posted);
    str_add(&b->posted, json_text(body));
}

static inline struct json_object *browser_take(struct browser *b) {
    struct error e = {0};
    int looks = 0;
    ptrdiff_t end;
    while ((end = sv_find(str_sv(&b->got), sv_n("", 1), 0)) < 0) {
        char chunk[16384];
        struct pollfd p = {b->from, POLLIN, 0};
        if (poll(&p, 1, BROWSER_LOOK_MS) == 1) {
            ssize_t n = read(b->from, chunk, sizeof chunk);
            if (n <= 0) fail_msg("the browser ended");
            str_add(&b->got, sv_n(chunk, (size_t)n));
        } else if (++looks > BROWSER_LOOKS) {
            fail_msg("the browser says nothing for a minute");
        }
    }
    struct json_object *o = json_read(sv_n(b->got.p, (size_t)end), "browser", &e);
    if (!o) fail_msg("%s", e.text);
    size_t left = b->got.n - (size_t)end - 1;
    memmove(b->got.p, b->got.p + end + 1, left);
    b->got.n = left;
    return o;
}

// Calls a method; its result is the caller's.
static inline struct json_object *browser_call(struct browser *b, const char *method,
                                               const char *params) {
    struct str s = {0};
    int id = ++b->calls;
    str_printf(&s, "{\"id\":%d,\"method\":\"%s\",\"params\":%s", id, method, params);
    if (*b->session) str_printf(&s, ",\"sessionId\":\"%s\"", b->session);
    str_puts(&s, "}");
    str_addc(&s, 0);
    for (size_t at = 0; at < s.n;) {
        ssize_t n = write(b->to, s.p + at, s.n - at);
        assert_true(n > 0);
        at += (size_t)n;
    }
    str_free(&s);
    for (;;) {
        struct json_object *o = browser_take(b);
        browser_note(b, o);
        if (json_int_at(o, "id", 0) == id) {
            struct json_object *result = json_object_get(json_at(o, "result"));
            if (!result) fail_msg("%s %s: %s", method, params, json_object_to_json_string(o));
            json_object_put(o);
            return result;
        }
        json_object_put(o);
    }
}

static inline void browser_do(struct browser *b, const char *method, const char *params) {
    json_object_put(browser_call(b, method, params));
}

// --- the program ---------------------------------------------------------------------------------

static inline int browser_remove(const char *path, const struct stat *st, int kind,
                                 struct FTW *ftw) {
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

// Starts it with an empty page, of a window of 1000 x 800.
static inline void browser_open(struct browser *b) {
    int to[2], from[2];
    char params[200];
    *b = (struct browser){.profile = "/tmp/mlxcel-browser-XXXXXX"};
    assert_non_null(mkdtemp(b->profile));
    assert_int_equal(pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC), 0);
    b->pid = fork();
    if (b->pid == 0) browser_run(b, to[0], from[1]);
    assert_true(b->pid > 0);
    close(to[0]);
    close(from[1]);
    b->to = to[1];
    b->from = from[0];
    struct json_object *o = browser_call(b, "Target.createTarget", "{\"url\":\"about:blank\"}");
    snprintf(params, sizeof params, "{\"flatten\":true,\"targetId\":\"%s\"}",
             json_text_at(o, "targetId").p);
    json_object_put(o);
    o = browser_call(b, "Target.attachToTarget", params);
    snprintf(b->session, sizeof b->session, "%s", json_text_at(o, "sessionId").p);
    json_object_put(o);
    static const char *const domains[] = {"Page", "Runtime", "Log", "Network"};
    for (size_t i = 0; i < sizeof domains / sizeof *domains; i++) {
        snprintf(params, sizeof params, "%s.enable", domains[i]);
        browser_do(b, params, "{}");
    }
}

static inline void browser_close(struct browser *b) {
    kill(-b->pid, SIGKILL);
    waitpid(b->pid, NULL, 0);
    close(b->to);
    close(b->from);
    str_free(&b->got);
    str_free(&b->complaints);
    str_free(&b->posted);
    nftw(b->profile, browser_remove, 16, FTW_DEPTH | FTW_PHYS);
}

// --- a page --------------------------------------------------------------------------------------

// What a JavaScript expression, or the promise that it gives, comes to; the caller's. It must not
// throw.
static inline struct json_object *page_value(struct browser *b, const char *expression) {
    struct str params = {0};
    str_puts(&params, "{\"returnByValue\":true,\"awaitPromise\":true,\"expression\":");
    json_quote(&params, sv(expression));
    str_addc(&params, '}');
    struct json_object *o = browser_call(b, "Runtime.evaluate", params.p);
    str_free(&params);
    if (json_at(o, "exceptionDetails"))
        fail_msg("%s: %s", expression, json_object_to_json_string(o));
    struct json_object *value = json_object_get(json_at(json_at(o, "result"), "value"));
    json_object_put(o);
    return value;
}

static inline void page_run(struct browser *b, const char *statement) {
    json_object_put(page_value(b, statement));
}

static inline void page_check(struct browser *b, const char *expression, const char *want) {
    struct json_object *v = page_value(b, expression);
    const char *got = v ? json_object_get_string(v) : "null";
    if (strcmp(got, want) != 0) fail_msg("%s\nis   %s\nnot  %s", expression, got, want);
    json_object_put(v);
}

// Waits until it is true.
static inline void page_wait(struct browser *b, const char *expression) {
    struct json_object *v;
    for (int looks = 0; looks < BROWSER_LOOKS; looks++) {
        v = page_value(b, expression);
        bool yes = json_object_get_boolean(v);
        json_object_put(v);
        if (yes) return;
        usleep(BROWSER_LOOK_MS * 1000);
    }
    // Its end: what cmocka prints is not long.
    v = page_value(b, "document.body.innerText.slice(-500)");
    fail_msg("never: %s\nThe page says: %s\n%s", expression, json_object_get_string(v),
             str_c(&b->complaints));
}

static inline void page_load(struct browser *b, const char *url) {
    char params[200];
    snprintf(params, sizeof params, "{\"url\":\"%s\"}", url);
    browser_do(b, "Page.navigate", params);
    page_wait(b, "document.readyState === 'complete' && location.href !== 'about:blank'");
}

// A click where the element is, so that what lies over it gets it instead.
static inline void page_click(struct browser *b, const char *element) {
    struct str s = {0};
    // Two frames later what was scrolled is there for the mouse too.
    str_printf(
        &s,
        "(async () => { const e = %s; e.scrollIntoView({block: 'nearest'});"
        " await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));"
        " const r = e.getBoundingClientRect();"
        " return [r.x + r.width / 2, r.y + r.height / 2]; })()",
        element);
    struct json_object *at = page_value(b, s.p);
    double x = json_object_get_double(json_object_array_get_idx(at, 0));
    double y = json_object_get_double(json_object_array_get_idx(at, 1));
    json_object_put(at);
    static const char *const types[] = {"mouseMoved", "mousePressed", "mouseReleased"};
    for (size_t i = 0; i < 3; i++) {
        str_clear(&s);
        str_printf(&s, "{\"type\":\"%s\",\"x\":%g,\"y\":%g,\"button\":\"%s\",\"clickCount\":%d}",
                   types[i], x, y, i ? "left" : "none", i > 0);
        browser_do(b, "Input.dispatchMouseEvent", s.p);
    }
    str_free(&s);
}

// Types into what has the focus.
static inline void page_type(struct browser *b, const char *text) {
    struct str s = {0};
    str_puts(&s, "{\"text\":");
    json_quote(&s, sv(text));
    str_addc(&s, '}');
    browser_do(b, "Input.insertText", s.p);
    str_free(&s);
}

// "Enter", "Tab", "Escape"; shift: 8 with the shift key, else 0.
static inline void page_key(struct browser *b, const char *key, int shift) {
    int code = !strcmp(key, "Enter") ? 13 : !strcmp(key, "Tab") ? 9 : 27;
    char params[200];
    static const char *const types[] = {"keyDown", "keyUp"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(params, sizeof params,
                 "{\"type\":\"%s\",\"key\":\"%s\",\"code\":\"%s\",\"modifiers\":%d,"
                 "\"windowsVirtualKeyCode\":%d%s}",
                 types[i], key, key, shift, code, code == 13 ? ",\"text\":\"\\r\"" : "");
        browser_do(b, "Input.dispatchKeyEvent", params);
    }
}

// A picture for people, into the folder MLXCEL_PICTURES; without that, nothing.
static inline void page_picture(struct browser *b, const char *name) {
    const char *dir = getenv("MLXCEL_PICTURES");
    struct error e = {0};
    struct str bytes = {0};
    char path[512];
    if (!dir) return;
    usleep(200000);
    struct json_object *o = browser_call(b, "Page.captureScreenshot", "{}");
    assert_true(base64_decode(&bytes, json_text_at(o, "data")));
    snprintf(path, sizeof path, "%s/%s.png", dir, name);
    assert_true(file_write(path, str_sv(&bytes), &e));
    json_object_put(o);
    str_free(&bytes);
}

#endif
