#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/random.h"
#include "engine/sampling_args.h"

int cli_error(const struct error *e) {
    fflush(stdout);
    fprintf(stderr, "mlxcel: error: %s\n", e->text);
    return e->usage ? CLI_USAGE : CLI_ERROR;
}

int cli_usage(const struct error *e) {
    cli_error(e);
    return CLI_USAGE;
}

static bool write_failed(struct error *e) {
    return fail(e, "standard output: %s", strerror(errno ? errno : EIO));
}

bool cli_write(struct sv text, struct error *e) {
    errno = 0;
    if (text.n == 0) return true;
    if (fwrite(text.p, 1, text.n, stdout) == text.n && fflush(stdout) == 0) return true;
    return write_failed(e);
}

bool cli_finish(struct error *e) {
    errno = 0;
    return (fflush(stdout) == 0 && !ferror(stdout)) || write_failed(e);
}

bool cli_read(struct str *out, struct error *e) {
    char chunk[1 << 14];
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, stdin)) > 0;) {
        str_add(out, sv_n(chunk, n));
        if (out->n > CLI_INPUT_MAX)
            return fail(e, "standard input: the text is over %d MiB", CLI_INPUT_MAX >> 20);
    }
    return !ferror(stdin) || fail(e, "standard input: %s", strerror(errno));
}

bool cli_ids(const char *text, struct ids *out, struct error *e) {
    for (const char *p = text;;) {
        p += strspn(p, " ,[]\t\r\n");
        if (!*p) return true;
        char *end;
        errno = 0;
        long long id = strtoll(p, &end, 10);
        if (end == p || errno || id < 0 || id > INT32_MAX)
            return fail(e, "\"%.*s\" is not a token id (they look like 1,2,3)",
                        (int)strcspn(p, " ,[]\t\r\n"), p);
        ids_push(out, (int32_t)id);
        p = end;
    }
}

// --- signals -------------------------------------------------------------------------------------

static volatile sig_atomic_t got;
static int wake[2] = {-1, -1}; // a pipe that a signal makes readable

static void note(int signal) {
    int before = errno;
    got = signal;
    if (write(wake[1], "", 1) < 0) errno = before; // full: readable anyway
}

void signals_catch(bool twice_ends) {
    if (wake[0] < 0 && pipe2(wake, O_CLOEXEC | O_NONBLOCK) != 0) return;
    // SA_RESTART: a write is not torn by a signal. Waiting for input is poll's, which always
    // returns.
    int flags = twice_ends ? SA_RESTART | (int)SA_RESETHAND : SA_RESTART;
    struct sigaction act = {.sa_handler = note, .sa_flags = flags};
    sigemptyset(&act.sa_mask);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
}

void signals_release(void) {
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

int signals_got(void) { return got; }

void signals_clear(void) {
    char drained[64];
    got = 0;
    while (wake[0] >= 0 && read(wake[0], drained, sizeof drained) > 0) continue;
}

// A signal may come between looking at signals_got and a read that then never returns; the pipe
// keeps it.
bool signals_wait(int fd) {
    struct pollfd fds[] = {{fd, POLLIN, 0}, {wake[0], POLLIN, 0}};
    while (!got && !fds[0].revents)
        if (poll(fds, 2, -1) < 0 && errno != EINTR) break;
    return !got;
}

// --- opening a model -----------------------------------------------------------------------------

static void show_progress(void *arg, size_t done, size_t total) {
    struct load_progress *p = arg;
    int percent = total ? (int)(100.0 * (double)done / (double)total) : 100;
    if (percent == p->percent) return;
    p->percent = percent;
    p->shown = true;
    fprintf(stderr, "\rloading %3d %%", percent);
    fflush(stderr);
}

void cli_progress_clear(struct load_progress *p) {
    if (p->shown) fprintf(stderr, "\r%*s\r", 20, "");
    p->shown = false;
}

void cli_engine_options(const struct args *a, struct engine_options *opt, struct load_progress *p) {
    int64_t threads = args_int(a, "threads");
    *p = (struct load_progress){.percent = -1};
    *opt = engine_read_options(a);
    opt->pool.threads = threads > 0 ? (int)threads : 0;
    opt->progress = isatty(STDERR_FILENO) && !args_flag(a, "quiet") ? show_progress : NULL;
    opt->progress_arg = p;
}

static uint64_t random_seed(void) {
    uint64_t seed;
    random_fill(&seed, sizeof seed);
    return seed >> 12; // 52 bits: passes through JSON and --seed unchanged
}

static void tell_unused(const struct args *a) {
    static const char *const names[] = {"top-k", "top-p", "min-p", "seed"};
    struct sv temp = args_given_by(a, "temp");
    if (args_number(a, "temp") > 2 && sv_is(temp, "-t"))
        log_say(LOG_WARN, "-t is the temperature here; threads: --threads");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (args_number(a, "temp") == 0 && args_given(a, names[i]))
            log_say(LOG_INFO, "--%s changes nothing at temperature 0 (--temp)", names[i]);
}

void cli_few_samplers(const struct args *a, struct sampling *s) {
    int64_t seed = args_int(a, "seed");
    *s = sampling_greedy();
    s->temperature = (float)args_number(a, "temp");
    s->top_k = args_int(a, "top-k");
    s->top_p = (float)args_number(a, "top-p");
    s->min_p = (float)args_number(a, "min-p");
    s->repetition_penalty = (float)args_number(a, "repetition-penalty");
    s->penalty_window = args_int(a, "repeat-last-n");
    s->seed = seed < 0 ? random_seed() : (uint64_t)seed;
}

bool cli_sampling(const struct args *a, struct sampling *s, struct error *e) {
    tell_unused(a);
    cli_few_samplers(a, s);
    return sampling_args_read(a, s, e) && sampling_check(s, e);
}

// --- text ----------------------------------------------------------------------------------------

void add_bytes(struct str *s, size_t n) {
    if (n < 1024)
        str_printf(s, "%zu bytes", n);
    else if (n < 1024 * 1024)
        str_printf(s, "%.1f KiB", (double)n / 0x1p10);
    else if (n < 1024 * 1024 * 1024)
        str_printf(s, "%.1f MiB", (double)n / 0x1p20);
    else
        str_printf(s, "%.2f GiB", (double)n / 0x1p30);
}

void add_ids(struct str *s, const struct ids *ids) {
    for (size_t i = 0; i < ids->n; i++) str_printf(s, i ? ",%d" : "%d", ids->id[i]);
}

void add_json_key(struct str *s, const char *key) {
    bool first = s->n == 0 || s->p[s->n - 1] == '{';
    str_printf(s, "%s\"%s\":", first ? "" : ",", key);
}
