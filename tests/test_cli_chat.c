// mlxcel run: conversations through a pipe and at a terminal.
#include "program.h"

#include <sys/ioctl.h>
#include <termios.h>

#include "base/json.h"

static char dir[] = "/tmp/mlxcel-chat-XXXXXX"; // for what is saved, and the history

static char *in_dir(const char *name) { return path_join(dir, name); }

static struct json_object *read_json(const char *path) {
    struct error e = {0};
    struct json_object *o = json_read_file(path, 1 << 20, &e);
    assert_string_equal(e.text, "");
    return o;
}

static void check_message(struct json_object *list, size_t i, const char *role, const char *text) {
    struct json_object *m = json_object_array_get_idx(list, i);
    assert_true(sv_is(json_text_at(m, "role"), role));
    assert_true(sv_is(json_text_at(m, "content"), text));
}

// --- through a pipe ------------------------------------------------------------------------------

static void test_pipe(void **state) {
    (void)state;
    struct program p;
    assert_int_equal(program_run(&p, "one\r\n\n  \ntwo", ARGS("run", MODEL)), 0);
    assert_string_equal(str_c(&p.out_text), GREETING "\n" GREETING "\n"); // no prompts, no banner
    assert_string_equal(str_c(&p.err_text), "");
    program_free(&p);
}

// Reasoning is shown when asked for, and remembered.
static void test_reasoning(void **state) {
    static const char text[] = "I look. \n<tool_call>\n{\"name\": \"weather\", \"arguments\": "
                               "{\"city\": \"Z\xc3\xbcrich\"}}\n</tool_call>\n";
    (void)state;
    struct program p;
    struct str want = {0};
    assert_int_equal(program_run(&p, "one", ARGS("run", FIXTURES "/tools")), 0);
    assert_string_equal(str_c(&p.out_text), text);
    program_free(&p);
    assert_int_equal(program_run(&p, "one", ARGS("run", FIXTURES "/tools", "--show-reasoning")), 0);
    str_printf(&want, "Zurich?\n\n%s", text);
    assert_string_equal(str_c(&p.out_text), want.p);
    program_free(&p);
    str_free(&want);
    char *path = in_dir("thought.json");
    str_printf(&want, "one\n/save %s\n", path);
    assert_int_equal(program_run(&p, want.p, ARGS("run", FIXTURES "/tools")), 0);
    struct json_object *o = read_json(path), *m = json_object_array_get_idx(o, 1);
    assert_true(sv_is(json_text_at(m, "reasoning_content"), "Zurich?"));
    json_object_put(o);
    program_free(&p);
    str_free(&want);
    unlink(path);
    free(path);
}

static void test_commands(void **state) {
    (void)state;
    char *first = in_dir("first.json"), *second = in_dir("second.json");
    struct str script = {0};
    str_printf(&script,
               "one\\\ntwo\n\"\"\"three\r\nfour\n\"\"\"\n/save %s\n/clear\n/system  Be brief. \n"
               "five\n/save %s\n/load %s\nsix\n/save %s\n/bye\nnever\n",
               first, second, first, first);
    struct program p;
    assert_int_equal(program_run(&p, script.p, ARGS("run", "-m", MODEL, "--system", "Hm.")), 0);
    assert_string_equal(str_c(&p.out_text),
                        GREETING "\n" GREETING "\n" GREETING "\n" GREETING "\n");
    assert_string_equal(str_c(&p.err_text), "");
    program_free(&p);
    struct json_object *o = read_json(first);
    assert_int_equal(json_object_array_length(o), 7);
    check_message(o, 0, "system", "Hm.");
    check_message(o, 1, "user", "one\ntwo");
    check_message(o, 2, "assistant", GREETING);
    check_message(o, 3, "user", "three\nfour");
    check_message(o, 5, "user", "six");
    json_object_put(o);
    o = read_json(second);
    assert_int_equal(json_object_array_length(o), 3);
    check_message(o, 0, "system", "Be brief.");
    check_message(o, 1, "user", "five");
    json_object_put(o);
    str_free(&script);
    free(first);
    free(second);
}

static void test_clear_keeps_system(void **state) {
    (void)state;
    char *file = in_dir("clear.json");
    struct str script = {0};
    str_printf(&script, "/help\none\n/clear\n/save %s\n", file);
    struct program p;
    assert_int_equal(program_run(&p, script.p, ARGS("run", MODEL, "-sys", "Hm.")), 0);
    assert_true(sv_starts(str_sv(&p.out_text), sv("/help")));
    program_free(&p);
    struct json_object *o = read_json(file);
    assert_int_equal(json_object_array_length(o), 1);
    check_message(o, 0, "system", "Hm.");
    json_object_put(o);
    str_free(&script);
    free(file);
}

// A command or message that fails is told, the conversation goes on, and the exit code says so.
static void test_mistakes(void **state) {
    (void)state;
    char *bad = in_dir("bad.json");
    struct error e = {0};
    assert_true(file_write(bad, sv("[{\"role\": \"user\"}]"), &e));
    struct str script = {0};
    str_printf(&script, "/sav x\n/save\n/save /no/such/dir/x\n/load /no/such\n/load %s\n/load %s\n",
               bad, FIXTURES "/text/config.json");
    for (int i = 0; i < 200; i++) str_puts(&script, "long ");
    str_puts(&script, "\nshort\n");
    struct program p;
    assert_int_equal(program_run(&p, script.p, ARGS("run", MODEL, "-c", "64")), 1);
    assert_string_equal(str_c(&p.out_text), GREETING "\n");
    static const char *const want[] = {"unknown command /sav; did you mean /save?",
                                       "/save needs a file name",
                                       "/no/such/dir/x",
                                       "/no/such: No such file",
                                       "message 0 lacks",
                                       "is not a saved conversation",
                                       "/clear forgets it, and a larger -c (--ctx-size)"};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        if (sv_find(str_sv(&p.err_text), sv(want[i]), 0) < 0)
            fail_msg("\"%s\" is not in: %s", want[i], str_c(&p.err_text));
    program_free(&p);
    str_free(&script);
    free(bad);
}

// Without a template: marked speakers, and an end where the next one would begin.
static void test_no_template(void **state) {
    (void)state;
    char model[] = "/tmp/mlxcel-model-XXXXXX";
    assert_non_null(mkdtemp(model));
    model_copy(model, "tokenizer_config.json");
    struct program p;
    assert_int_equal(program_run(&p, "Hi\n", ARGS("run", model, "--stats")), 0);
    assert_string_equal(str_c(&p.out_text), GREETING "\n");
    assert_true(sv_find(str_sv(&p.err_text), sv("has no chat template"), 0) >= 0);
    // "User: Hi\n\nAssistant:" is 20 bytes, and a token a byte
    assert_true(sv_find(str_sv(&p.err_text), sv(" 20 tokens"), 0) >= 0);
    program_free(&p);
    assert_int_equal(program_run(&p, "Hi\n", ARGS("run", model, "-q", "--raw", "--stats")), 0);
    assert_true(sv_starts(str_sv(&p.err_text), sv("prompt ")));
    assert_true(sv_find(str_sv(&p.err_text), sv(" 2 tokens"), 0) >= 0);
    program_free(&p);
    assert_int_equal(program_run(&p, "", ARGS("generate", "-m", model, "-p", "Hi", "--stats")), 0);
    assert_true(sv_find(str_sv(&p.err_text), sv(" 2 tokens"), 0) >= 0);
    assert_true(sv_find(str_sv(&p.err_text), sv("has no chat template: the prompt is given as it"),
                        0) >= 0);
    program_free(&p);
    assert_int_equal(program_run(&p, "", ARGS("generate", model, "-p", "Hi", "--raw")), 0);
    assert_string_equal(str_c(&p.err_text), "");
    program_free(&p);
    folder_remove(model);
}

// An answer that the context cuts says so, and the next message learns what to do.
static void test_full(void **state) {
    (void)state;
    struct program p;
    assert_int_equal(program_run(&p, "one\ntwo\n", ARGS("run", MODEL, "-c", "40", "--ignore-eos")),
                     1);
    assert_true(sv_starts(str_sv(&p.err_text), sv("mlxcel: warn: the answer is cut: the context of "
                                                  "40 tokens is full (-c, --ctx-size)\n"
                                                  "mlxcel: error: the conversation has ")));
    assert_true(sv_find(str_sv(&p.err_text), sv("/clear forgets it"), 0) > 0);
    program_free(&p);
}

static void test_pipe_signals(void **state) {
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM};
    for (int i = 0; i < 2; i++) {
        struct program p;
        program_start(&p, ARGS("run", MODEL, "--ignore-eos"));
        assert_int_equal(write(p.in, "one\n", 4), 4);
        program_read(&p, GREETING);
        kill(p.pid, signals[i]);
        assert_int_equal(program_finish(&p), 128 + signals[i]);
        assert_true(sv_ends(str_sv(&p.out_text), sv("\n")));
        program_free(&p);
    }
}

// --- at a terminal -------------------------------------------------------------------------------

struct terminal {
    pid_t pid;
    int fd;
    struct str text;
    size_t seen; // what was expected and found ends here
};

static void terminal_start(struct terminal *t, const char *const *args) {
    *t = (struct terminal){.fd = posix_openpt(O_RDWR | O_NOCTTY)};
    assert_true(t->fd >= 0 && grantpt(t->fd) == 0 && unlockpt(t->fd) == 0);
    const char *name = ptsname(t->fd);
    t->pid = fork();
    if (t->pid == 0) {
        const char *argv[64] = {MLXCEL};
        for (int i = 0; args[i]; i++) argv[i + 1] = args[i];
        setsid();
        int fd = open(name, O_RDWR); // of a session's leader: its controlling terminal
        struct winsize size = {.ws_row = 24, .ws_col = 200};
        ioctl(fd, TIOCSWINSZ, &size);
        for (int i = 0; i < 3; i++) dup2(fd, i);
        for (int i = 3; i < 64; i++) close(i);
        execv(MLXCEL, (char *const *)(uintptr_t)argv);
        _exit(127);
    }
}

static bool terminal_take(struct terminal *t) {
    struct pollfd p = {t->fd, POLLIN, 0};
    char chunk[4096];
    if (poll(&p, 1, PROGRAM_WAIT_MS) <= 0) {
        kill(t->pid, SIGKILL);
        fail_msg("the terminal was silent for a minute; so far: %s", str_c(&t->text));
    }
    ssize_t n = read(t->fd, chunk, sizeof chunk); // EIO when the other end is closed
    if (n > 0) str_add(&t->text, sv_n(chunk, (size_t)n));
    return n > 0;
}

// Waits for the text to come after what was expected before.
static void terminal_expect(struct terminal *t, const char *text) {
    ptrdiff_t at;
    while ((at = sv_find(str_sv(&t->text), sv(text), t->seen)) < 0)
        if (!terminal_take(t)) fail_msg("\"%s\" never came: %s", text, str_c(&t->text));
    t->seen = (size_t)at + strlen(text);
}

// Waits for a prompt, and until keys reach the program one by one: libedit writes the prompt first.
static void terminal_prompt(struct terminal *t, const char *prompt) {
    struct termios now;
    terminal_expect(t, prompt);
    if (!strstr(MLXCEL_FEATURES, "+libedit")) return;
    while (tcgetattr(t->fd, &now) == 0 && now.c_lflag & ICANON) usleep(1000);
}

static void terminal_type(struct terminal *t, const char *keys) {
    assert_int_equal(write(t->fd, keys, strlen(keys)), strlen(keys));
}

static void terminal_finish(struct terminal *t, int code) {
    int status;
    while (terminal_take(t)) continue;
    assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), code);
    close(t->fd);
    str_free(&t->text);
}

static void test_terminal(void **state) {
    (void)state;
    struct terminal t;
    terminal_start(&t, ARGS("run", MODEL));
    terminal_expect(&t, "/help lists the commands");
    terminal_prompt(&t, ">>> ");
    terminal_type(&t, "Grüße\r");
    terminal_expect(&t, GREETING);
    terminal_prompt(&t, ">>> ");
    terminal_type(&t, "half a line\x03"); // Ctrl-C: the line is dropped
    terminal_prompt(&t, ">>> ");
    terminal_type(&t, "\"\"\"\r");
    terminal_prompt(&t, "... ");
    terminal_type(&t, "text\"\"\"\r");
    terminal_expect(&t, GREETING);
    terminal_prompt(&t, ">>> ");
    char *file = in_dir("first.json");
    struct str save = {0};
    str_printf(&save, "/save %s\r", file);
    terminal_type(&t, save.p);
    terminal_expect(&t, "Saved.");
    struct json_object *o = read_json(file);
    assert_int_equal(json_object_array_length(o), 4);
    check_message(o, 0, "user",
                  "Gr\xc3\xbc\xc3\x9f"
                  "e");
    check_message(o, 2, "user", "text");
    json_object_put(o);
    terminal_prompt(&t, ">>> ");
    terminal_type(&t, "\"\"\"\r"); // Ctrl-D in the midst of a message drops it
    terminal_prompt(&t, "... ");
    terminal_type(&t, "half a message\r");
    terminal_prompt(&t, "... ");
    terminal_type(&t, "\x04");
    terminal_prompt(&t, ">>> ");
    terminal_type(&t, save.p);
    terminal_expect(&t, "Saved.");
    o = read_json(file);
    assert_int_equal(json_object_array_length(o), 4);
    json_object_put(o);
    str_free(&save);
    free(file);
    terminal_prompt(&t, ">>> ");
    terminal_type(&t, "/system x\r");
    terminal_expect(&t, "A new conversation");
    terminal_prompt(&t, ">>> ");
    terminal_type(&t, "/exit\r");
    terminal_finish(&t, 0);
}

static void test_terminal_interrupt(void **state) {
    (void)state;
    struct terminal t;
    terminal_start(&t, ARGS("run", MODEL, "--ignore-eos"));
    for (int i = 0; i < 2; i++) { // each time anew
        terminal_prompt(&t, ">>> ");
        terminal_type(&t, "Hi\r");
        terminal_expect(&t, GREETING);
        terminal_type(&t, "\x03\x03"); // twice doesn't end the program either
    }
    terminal_prompt(&t, ">>> ");
    terminal_type(&t,
                  "/bye\r"); // not Ctrl-D: the second Ctrl-C may be between two prompts just now
    terminal_finish(&t, 0);

    terminal_start(&t, ARGS("run", MODEL, "--ignore-eos"));
    terminal_prompt(&t, ">>> ");
    kill(t.pid, SIGTERM);
    terminal_finish(&t, 143);
}

static void test_terminal_prompt(void **state) {
    (void)state;
    struct terminal t;
    terminal_start(&t, ARGS("generate", "-m", MODEL)); // no prompt: a conversation
    terminal_prompt(&t, ">>> ");
    terminal_type(&t, "\x04");
    terminal_finish(&t, 0);
    terminal_start(&t, ARGS("generate", "-m", MODEL, "-p", "Hi"));
    terminal_expect(&t, GREETING "\r\n");
    terminal_finish(&t, 0);
}

// With line editing the arrow brings back the last line, also of the last run.
static void test_history(void **state) {
    (void)state;
    if (!strstr(MLXCEL_FEATURES, "+libedit")) skip();
    struct terminal t;
    terminal_start(&t, ARGS("run", MODEL, "-q"));
    terminal_prompt(&t, ">>> ");
    terminal_type(&t, "remarkable\r");
    terminal_expect(&t, GREETING);
    terminal_prompt(&t, ">>> ");
    terminal_type(&t, "\x04");
    terminal_finish(&t, 0);
    char *path = in_dir("mlxcel/history");
    assert_true(file_exists(path));
    free(path);
    terminal_start(&t, ARGS("run", MODEL, "-q"));
    terminal_prompt(&t, ">>> ");
    terminal_type(&t, "\033[A");
    terminal_expect(&t, "remarkable");
    terminal_type(&t, "\r");
    terminal_expect(&t, GREETING);
    terminal_prompt(&t, ">>> ");
    terminal_type(&t, "/bye\r");
    terminal_finish(&t, 0);
}

static int open_dir(void **state) {
    (void)state;
    if (!mkdtemp(dir)) return -1;
    setenv("XDG_STATE_HOME", dir, 1);
    setenv("LLAMA_ARG_THREADS", "1", 1);
    setenv("TERM", "xterm", 1);
    unsetenv("LLAMA_ARG_N_PREDICT");
    return 0;
}

static int close_dir(void **state) {
    (void)state;
    static const char *const names[] = {"first.json", "second.json",    "clear.json",
                                        "bad.json",   "mlxcel/history", "mlxcel"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = in_dir(names[i]);
        remove(path);
        free(path);
    }
    return rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_clear_keeps_system),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_no_template),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_pipe_signals),
        cmocka_unit_test(test_terminal),
        cmocka_unit_test(test_terminal_interrupt),
        cmocka_unit_test(test_terminal_prompt),
        cmocka_unit_test(test_history),
    };
    return cmocka_run_group_tests(tests, open_dir, close_dir);
}
