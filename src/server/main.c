// mlxcel-server: listens, loads, serves until a signal, drains.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "server/http.h"
#include "server/mlxcel_variables.h"
#include "server/report.h"

enum {
    EXIT_USAGE = 2,
    TICK_MS = 50,
    FAREWELL_TICKS = 10,
    LAST_SECONDS = 5
}; // ended by a second signal: 128 + its number

static int wrong(const struct error *e) {
    fprintf(stderr, "mlxcel-server: error: %s\n", e->text);
    return EXIT_USAGE;
}

// Whatever is logged, the reason of an end is told.
static int failed(const struct error *e) {
    fflush(stdout);
    if (!log_shows(LOG_ERROR)) log_set(LOG_ERROR);
    log_say(LOG_ERROR, "%s", e->text);
    return EXIT_FAILURE;
}

// SIGHUP, from the start, and SIGINT and SIGTERM, once the files are looked at, are taken by
// wait_signal alone; every thread has them blocked.
static void block_hangup(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, set, NULL);
}

static void block_signals(sigset_t *set) {
    block_hangup(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); // a file that may not grow is an error of who writes it
}

// The signal that is to end the server, or 0 after a moment.
static int wait_signal(const sigset_t *set) {
    struct timespec tick = {.tv_nsec = TICK_MS * 1000000L};
    int got = sigtimedwait(set, NULL, &tick);
    if (got == SIGHUP) log_reopen();
    return got > 0 && got != SIGHUP ? got : 0;
}

// Lets running answers end. Returns the exit code.
static int drain(struct http *h, const struct server_options *o, const sigset_t *set) {
    double until = clock_now() + o->drain_timeout;
    size_t left;
    http_drain(h);
    left = http_running(h);
    log_say(LOG_INFO, "stopping: %zu request%s to be answered", left, plural((int64_t)left));
    while ((left = http_running(h)) && clock_now() < until) {
        int again = wait_signal(set);
        if (again) return 128 + again;
        http_tick(h);
    }
    if (left)
        log_say(LOG_WARN, "cut off (--drain-timeout): %zu request%s", left, plural((int64_t)left));
    return EXIT_SUCCESS;
}

static void say_ready(struct worker *w, const struct server_options *o, double seconds) {
    const struct engine_info *i = engine_info(worker_model(w)->engine);
    log_say(LOG_INFO, "%s (%s) is loaded in %.2f s on %s: %lld answer%s at once, of %lld tokens",
            o->name[0], i->family_name, seconds, i->device, (long long)i->sequences,
            plural(i->sequences), (long long)i->context);
}

// Until a signal or a failure. Returns the exit code.
static int serve(struct http *h, struct worker *w, const struct server_options *o,
                 const sigset_t *set) {
    double began = clock_now();
    struct figures figures = {.at = began};
    bool ready = false;
    for (;;) {
        struct error why = {0};
        int got = wait_signal(set);
        enum worker_state state = worker_state(w, &why);
        if (got && state == WORKER_LOADING) _exit(128 + got); // loading can't be interrupted
        if (got) return drain(h, o, set);
        if (state == WORKER_FAILED) return failed(&why);
        if (state == WORKER_READY && !ready) say_ready(w, o, clock_now() - began);
        ready = state == WORKER_READY;
        if (ready) report_figures(&figures, w, o->log_interval);
        http_tick(h);
    }
}

// The worker has stopped: a moment for the clients of what it left to be told so. Connections whose
// clients take nothing are closed then; what else their threads do ends by itself or is called off.
static void say_farewell(struct http *h) {
    struct timespec tick = {.tv_nsec = TICK_MS * 1000000L};
    for (int i = 0; i < FAREWELL_TICKS && http_running(h); i++) nanosleep(&tick, NULL);
}

static volatile sig_atomic_t last_code;

static void leave(int number) {
    (void)number;
    _exit(last_code);
}

// A thread that is still busy with a body of its client's holds up the end so long and no longer.
static void close_soon(struct http *h, int code) {
    struct sigaction act = {.sa_handler = leave};
    last_code = code;
    sigaction(SIGALRM, &act, NULL);
    alarm(LAST_SECONDS);
    http_close(h);
    alarm(0);
}

// The form that answers have where requests ask for none.
static bool check_form(const struct text_model *m, const struct constraint_args *form,
                       struct error *e) {
    struct effort effort = effort_usual();
    if (form->constraint.kind == CONSTRAINT_NONE) return true;
    struct grammar *g = constraint_grammar(m, &form->constraint, NULL, &effort, e);
    grammar_close(g);
    return g || fail_in(e, "%s", form->option);
}

// What is wrong with the files is told before anybody connects. Returns the exit code.
static int check_files(const struct server_options *o) {
    struct engine_options opt = o->engine;
    struct text_model m;
    struct error e = {0};
    opt.dry = true;
    opt.context = 1; // what memory holds is told when it is loaded
    bool ok = text_open(&m, o->model, &opt, &e);
    int code = !ok ? failed(&e) : check_form(&m, &o->defaults.form, &e) ? EXIT_SUCCESS : wrong(&e);
    text_close(&m);
    return code;
}

static int run(const struct server_options *o) {
    struct error e = {0};
    sigset_t set;
    int code = check_files(o);
    if (code) return code;
    block_signals(&set);
    struct http *h = http_open(o, &e);
    struct worker *w = h ? worker_start(o->model, &o->engine, o->queue, &e) : NULL;
    code = EXIT_FAILURE;
    if (w && o->slot_dir) worker_keep_tokens(w);
    if (w && http_serve(h, w, &e)) {
        printf("listening on %s\n", http_address(h));
        fflush(stdout);
        code = serve(h, w, o, &set);
    } else {
        failed(&e);
    }
    if (w) worker_stop(w);
    if (w) say_farewell(h);
    close_soon(h, code);
    worker_close(w);
    return code;
}

static void set_log_level(const struct args *a) {
    int64_t n = args_int(a, "verbosity");
    if (!getenv("MLXCEL_LOG")) log_set(LOG_INFO);
    if (args_given(a, "verbosity"))
        log_set(n < 2 ? LOG_ERROR : n == 2 ? LOG_WARN : n == 3 ? LOG_INFO : LOG_DEBUG);
    if (args_flag(a, "verbose")) log_set(LOG_DEBUG);
    if (args_flag(a, "quiet")) log_set(LOG_ERROR);
    if (args_flag(a, "log-disable")) log_set(LOG_NONE);
}

static int start(const struct args *a) {
    struct error e = {0};
    struct server_options o = {0};
    sigset_t hangup;
    block_hangup(&hangup);
    set_log_level(a);
    bool ok = log_environment(&e) && server_options_read(&o, a, &e);
    if (ok) args_warn(a, &server_manual);
    int code = ok ? run(&o) : wrong(&e);
    server_options_free(&o);
    return code;
}

int main(int argc, char **argv) {
    struct error e = {0};
    struct args a;
    int code = EXIT_SUCCESS;
    files_standard();
    map_faults_end();
    if (!args_parse(&a, &command_server, argc - 1, argv + 1, &e))
        code = wrong(&e);
    else if (args_flag(&a, "help"))
        args_help(stdout, &command_server);
    else if (args_flag(&a, "llama-options"))
        args_others(stdout, server_others);
    else if (args_flag(&a, "mlxcel-variables"))
        args_unread(stdout, &unread_variable_group);
    else if (args_flag(&a, "man"))
        args_man(stdout, &server_manual);
    else if (args_flag(&a, "version"))
        printf("mlxcel-server %s\nfeatures  %s\n", MLXCEL_VERSION, MLXCEL_FEATURES);
    else
        code = start(&a);
    args_free(&a);
    return code;
}
