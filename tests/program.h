// Runs the built program (the macro MLXCEL) as a person or a script would, and takes what it says.
// The rest of what these tests share: the checkpoint of tests/fixtures/text and its known answer.
#ifndef TESTS_PROGRAM_H
#define TESTS_PROGRAM_H

#include "check.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "folder.h"

#define MODEL    (FIXTURES "/text")
#define GREETING "Hello, w\xc3\xb6rld! \xf0\x9f\x98\x80"

enum { PROGRAM_WAIT_MS = 60000 }; // without a sign of life: generous, for a busy machine

struct program {
    pid_t pid;
    int in, out, err; // the other ends of its standard files; -1: closed
    struct str out_text, err_text;
    int status; // as waitpid gives it
};

// args: NULL-ended, without the program's name.
static inline void program_start_at(struct program *p, const char *path, const char *const *args) {
    int in[2], out[2], err[2];
    *p = (struct program){0};
    assert_int_equal(pipe(in) | pipe(out) | pipe(err), 0);
    p->pid = fork();
    if (p->pid == 0) {
        const char *argv[64] = {path};
        for (int i = 0; args[i]; i++) argv[i + 1] = args[i];
        dup2(in[0], 0);
        dup2(out[1], 1);
        dup2(err[1], 2);
        for (int fd = 3; fd < 64; fd++) close(fd);
        execv(path, (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    assert_true(p->pid > 0);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    p->in = in[1];
    p->out = out[0];
    p->err = err[0];
}

static inline void program_start(struct program *p, const char *const *args) {
    program_start_at(p, MLXCEL, args);
}

static inline void program_end_input(struct program *p) {
    if (p->in >= 0) close(p->in);
    p->in = -1;
}

static inline void program_take(int *fd, struct str *to) {
    char chunk[4096];
    ssize_t n = read(*fd, chunk, sizeof chunk);
    if (n > 0) {
        str_add(to, sv_n(chunk, (size_t)n));
        return;
    }
    close(*fd);
    *fd = -1;
}

// Takes what comes until standard output holds `text`; NULL: until both outputs are closed.
static inline void program_read(struct program *p, const char *text) {
    while (p->out >= 0 || p->err >= 0) {
        if (text && sv_find(str_sv(&p->out_text), sv(text), 0) >= 0) return;
        struct pollfd fds[2] = {{p->out, POLLIN, 0}, {p->err, POLLIN, 0}};
        if (poll(fds, 2, PROGRAM_WAIT_MS) <= 0) {
            kill(p->pid, SIGKILL);
            fail_msg("no output for a minute; so far: %s", str_c(&p->out_text));
        }
        if (fds[0].revents) program_take(&p->out, &p->out_text);
        if (fds[1].revents) program_take(&p->err, &p->err_text);
    }
}

// Reads to the end and waits. Returns the exit code as a shell gives it: 128 + a signal that
// killed.
static inline int program_finish(struct program *p) {
    program_end_input(p);
    program_read(p, NULL);
    assert_int_equal(waitpid(p->pid, &p->status, 0), p->pid);
    return WIFSIGNALED(p->status) ? 128 + WTERMSIG(p->status) : WEXITSTATUS(p->status);
}

static inline void program_free(struct program *p) {
    str_free(&p->out_text);
    str_free(&p->err_text);
}

// All of it at once, with `input` (shorter than a pipe's buffer) on standard input.
static inline int program_run(struct program *p, const char *input, const char *const *args) {
    program_start(p, args);
    if (*input) assert_int_equal(write(p->in, input, strlen(input)), strlen(input));
    return program_finish(p);
}

// Copies the model into a folder, but for the file `without` (NULL: all of it).
static inline void model_copy(const char *to, const char *without) {
    static const char *const files[] = {"config.json", "generation_config.json", "tokenizer.json",
                                        "tokenizer_config.json", "model.safetensors"};
    struct str data = {0};
    struct error e = {0};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (without && !strcmp(files[i], without)) continue;
        char *source = path_join(MODEL, files[i]), *copy = path_join(to, files[i]);
        assert_true(file_read(source, 1 << 20, &data, &e));
        assert_true(file_write(copy, str_sv(&data), &e));
        free(source);
        free(copy);
    }
    str_free(&data);
}

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

// Runs a shell command and checks what it prints on standard output, and its exit code.
static inline void check_command(const char *command, int want_code, const char *want) {
    struct program p;
    program_start_at(&p, "/bin/sh", ARGS("-c", command));
    assert_int_equal(program_finish(&p), want_code);
    assert_string_equal(str_c(&p.out_text), want);
    program_free(&p);
}

#endif
