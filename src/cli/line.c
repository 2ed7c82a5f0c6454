#include "cli/line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/cli.h"

#ifdef HAVE_LIBEDIT
#include <histedit.h>
enum { HISTORY_LINES = 1000 };
#endif

struct line {
    bool terminal, ended;
    struct str input; // read, but not given out yet
#ifdef HAVE_LIBEDIT
    EditLine *edit; // NULL: plain lines
    History *history;
    char *history_path; // NULL: nowhere to keep it
    const char *prompt;
#endif
};

bool line_terminal(const struct line *l) { return l->terminal; }

// The first `n` bytes of the input as a line, without the `skip` bytes after them.
static enum line_result give(struct line *l, size_t n, size_t skip, struct str *out) {
    struct sv text = sv_cut(str_sv(&l->input), 0, n);
    str_add(out, sv_ends(text, sv("\r")) ? sv_cut(text, 0, n - 1) : text);
    l->input.n -= n + skip;
    memmove(l->input.p, l->input.p + n + skip, l->input.n);
    return LINE_READ;
}

static enum line_result read_plain(struct line *l, const char *prompt, struct str *out) {
    if (l->terminal) {
        fputs(prompt, stdout);
        fflush(stdout);
    }
    char chunk[4096];
    ptrdiff_t at;
    while ((at = sv_find(str_sv(&l->input), sv("\n"), 0)) < 0 && !l->ended) {
        if (!signals_wait(STDIN_FILENO)) return LINE_INTERRUPTED;
        ssize_t n = read(STDIN_FILENO, chunk, sizeof chunk);
        if (n > 0)
            str_add(&l->input, sv_n(chunk, (size_t)n));
        else
            l->ended = true;
    }
    if (at >= 0) return give(l, (size_t)at, 1, out);
    l->ended = !l->terminal; // at a terminal one may go on after Ctrl-D
    return l->input.n ? give(l, l->input.n, 0, out) : LINE_END;
}

#ifdef HAVE_LIBEDIT

static char *prompt_of(EditLine *edit) {
    struct line *l;
    el_get(edit, EL_CLIENTDATA, &l);
    return (char *)(uintptr_t)l->prompt; // libedit doesn't write to it
}

// libedit's own reader goes on reading after a signal; this one returns, so Ctrl-C gives a new
// prompt. One character, of as many bytes as UTF-8 needs.
static int read_char(EditLine *edit, wchar_t *out) {
    (void)edit;
    char bytes[4];
    size_t len;
    for (size_t n = 0; n < sizeof bytes;) {
        if (!signals_wait(STDIN_FILENO)) return -1;
        ssize_t got = read(STDIN_FILENO, bytes + n, 1);
        if (got <= 0) return (int)got;
        struct sv so_far = sv_n(bytes, ++n);
        if (utf8_partial(so_far)) continue;
        int32_t c = utf8_decode(so_far, 0, &len);
        *out = c < 0 ? 0xfffd : (wchar_t)c;
        return 1;
    }
    return -1;
}

static char *history_path(void) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    struct str dir = {0};
    struct error ignored = {0};
    char *path = NULL;
    if (state && *state)
        str_printf(&dir, "%s/mlxcel", state);
    else if (home && *home)
        str_printf(&dir, "%s/.local/state/mlxcel", home);
    if (dir.n && dir_make(dir.p, &ignored)) path = path_join(dir.p, "history");
    str_free(&dir);
    return path;
}

static void open_edit(struct line *l) {
    HistEvent ev;
    l->edit = el_init("mlxcel", stdin, stdout, stderr);
    if (!l->edit) return;
    l->history = history_init();
    l->history_path = history_path();
    history(l->history, &ev, H_SETSIZE, HISTORY_LINES);
    history(l->history, &ev, H_SETUNIQUE, 1);
    if (l->history_path) history(l->history, &ev, H_LOAD, l->history_path);
    el_set(l->edit, EL_CLIENTDATA, l);
    el_set(l->edit, EL_PROMPT, prompt_of);
    el_set(l->edit, EL_EDITOR, "emacs");
    el_set(l->edit, EL_HIST, history, l->history);
    el_set(l->edit, EL_GETCFN, read_char);
    el_set(l->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(l->edit, NULL); // the person's own ~/.editrc
}

static enum line_result read_edited(struct line *l, const char *prompt, struct str *out) {
    int n;
    l->prompt = prompt;
    const char *text = el_gets(l->edit, &n);
    if (signals_got()) {
        el_reset(l->edit);
        return LINE_INTERRUPTED;
    }
    if (!text || n <= 0) return LINE_END;
    str_add(out, sv_n(text, (size_t)n));
    if (sv_ends(str_sv(out), sv("\n"))) out->p[--out->n] = 0;
    return LINE_READ;
}

struct line *line_open(void) {
    struct line *l = mem_alloc(sizeof *l);
    l->terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    if (l->terminal) open_edit(l);
    return l;
}

void line_close(struct line *l) {
    HistEvent ev;
    if (l->edit) {
        if (l->history_path) history(l->history, &ev, H_SAVE, l->history_path);
        history_end(l->history);
        el_end(l->edit);
    }
    free(l->history_path);
    str_free(&l->input);
    free(l);
}

enum line_result line_read(struct line *l, const char *prompt, struct str *out) {
    return l->edit ? read_edited(l, prompt, out) : read_plain(l, prompt, out);
}

void line_remember(struct line *l, const char *text) {
    HistEvent ev;
    if (l->edit && *text) history(l->history, &ev, H_ENTER, text);
}

#else

struct line *line_open(void) {
    struct line *l = mem_alloc(sizeof *l);
    l->terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    return l;
}

void line_close(struct line *l) {
    str_free(&l->input);
    free(l);
}

enum line_result line_read(struct line *l, const char *prompt, struct str *out) {
    return read_plain(l, prompt, out);
}

void line_remember(struct line *l, const char *text) {
    (void)l;
    (void)text;
}

#endif
