#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"

enum { UNKNOWN = -2 }; // read the environment first

static const char *const names[] = {"error", "warn", "info", "debug"};
static atomic_int least_shown = UNKNOWN;
static struct log_options how;
static int file = -1;
static atomic_ullong lost; // lines that the file lacks, and nobody was told

static int level_from_env(void) {
    const char *want = getenv("MLXCEL_LOG");
    for (int i = 0; want && i < 4; i++)
        if (!strcmp(want, names[i])) return i;
    return LOG_WARN;
}

bool log_environment(struct error *e) {
    const char *want = getenv("MLXCEL_LOG");
    bool known = !want || !*want;
    for (int i = 0; !known && i < 4; i++) known = !strcmp(want, names[i]);
    return known || fail(e, "MLXCEL_LOG \"%s\": must be one of error|warn|info|debug", want);
}

static void tell_lost(void) {
    unsigned long long n = atomic_exchange(&lost, 0);
    if (n) log_say(LOG_ERROR, "--log-file %s lacks %llu lines", how.file, n);
}

static void end(void) {
    file = -1;
    tell_lost();
}

static bool check_file(int fd, const char *path, struct error *e) {
    struct stat st;
    if (fstat(fd, &st) != 0) return fail(e, "--log-file %s: %s", path, strerror(errno));
    return S_ISREG(st.st_mode) || S_ISCHR(st.st_mode) || S_ISFIFO(st.st_mode) ||
           fail(e, "--log-file %s: is no file, terminal or pipe", path);
}

// A pipe that nobody reads, or that is full, must not hold up who logs. -1: an error.
static int open_file(const char *path, struct error *e) {
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0640);
    if (fd < 0 && errno == ENXIO)
        fail(e, "--log-file %s: is a pipe that nobody reads, or a socket", path);
    else if (fd < 0)
        fail(e, "--log-file %s: %s", path, strerror(errno));
    if (fd < 0 || check_file(fd, path, e)) return fd;
    close(fd);
    return -1;
}

bool log_open(const struct log_options *o, struct error *e) {
    how = *o;
    if (!o->file) return true;
    file = open_file(o->file, e);
    return file >= 0 && (atexit(end) == 0 || fail(e, "--log-file %s: no memory", o->file));
}

// The number of the open file stays, as other threads may be writing to it.
void log_reopen(void) {
    struct error e = {0};
    if (file < 0) return;
    int fd = open_file(how.file, &e);
    if (fd >= 0 && (dup2(fd, file) < 0 || fcntl(file, F_SETFD, FD_CLOEXEC) < 0))
        fail(&e, "--log-file %s: %s", how.file, strerror(errno));
    if (fd >= 0) close(fd);
    if (e.set)
        log_say(LOG_ERROR, "%s; lines go to the file that was open before", e.text);
    else
        log_say(LOG_INFO, "--log-file %s is opened again", how.file);
}

void log_set(enum log_level least) { atomic_store(&least_shown, (int)least); }

bool log_shows(enum log_level level) {
    int least = atomic_load(&least_shown);
    if (least == UNKNOWN) atomic_store(&least_shown, least = level_from_env());
    return (int)level <= least;
}

static void add_time(struct str *s) {
    struct timespec now;
    struct tm t;
    char text[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &t);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &t);
    str_printf(s, "%s.%03dZ", text, (int)(now.tv_nsec / 1000000));
}

// In one piece, so that lines of threads don't mix.
static bool put(int fd, const struct str *line) {
    for (size_t at = 0; at < line->n;) {
        ssize_t n = write(fd, line->p + at, line->n - at);
        if (n < 0 && errno != EINTR) return false;
        if (n > 0) at += (size_t)n;
    }
    return true;
}

// A full disk costs the line, and is told once; so is how many it cost, when there is room again.
static void put_in_file(const struct str *line) {
    if (put(file, line))
        tell_lost();
    else if (atomic_fetch_add(&lost, 1) == 0)
        log_say(LOG_ERROR, "--log-file %s: %s; lines are lost", how.file, strerror(errno));
}

static void put_line(struct str *line) {
    str_addc(line, '\n');
    put(STDERR_FILENO, line);
    if (file >= 0) put_in_file(line);
    str_free(line);
}

static void put_text(enum log_level level, struct sv text) {
    struct str line = {0};
    if (how.timestamps) {
        add_time(&line);
        str_addc(&line, ' ');
    }
    if (!how.bare) str_printf(&line, "%s: %s: ", how.name ? how.name : "mlxcel", names[level]);
    size_t from = line.n;
    str_add(&line, text);
    for (size_t i = from; i < line.n; i++)
        if ((unsigned char)line.p[i] < ' ' || line.p[i] == 0x7f) line.p[i] = '?';
    put_line(&line);
}

static void put_json(enum log_level level, const char *type, struct sv members) {
    struct str line = {0};
    str_puts(&line, "{\"time\":\"");
    add_time(&line);
    str_printf(&line, "\",\"level\":\"%s\",\"type\":\"%s\",", names[level], type);
    str_add(&line, members);
    str_addc(&line, '}');
    put_line(&line);
}

void log_event(enum log_level level, const char *type, struct sv text, struct sv members) {
    if (!log_shows(level)) return;
    if (how.json)
        put_json(level, type, members);
    else
        put_text(level, text);
}

void log_say(enum log_level level, const char *fmt, ...) {
    if (!log_shows(level)) return;
    char text[1024];
    struct str members = {0};
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    str_puts(&members, "\"message\":");
    json_quote(&members, sv(text));
    log_event(level, "log", sv(text), str_sv(&members));
    str_free(&members);
}
