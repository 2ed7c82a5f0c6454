// How servers with the OpenAI API bear many clients at once: the tokens a second that one streaming
// client gets and that many get together, how long each waits for its first token and between two,
// and whether anybody's answer differs from what it is alone.
//   bench_server [-c CLIENTS] [-s SECONDS] [-n TOKENS] [-p WORDS] [-k PROMPTS] [-r ROUNDS] URL...
//   bench_server --shared WORDS [-r ROUNDS] URL...     a long system message, twice and once more
// Servers take turns, round by round, so what slows the machine for a while slows all of them. It
// is one thread that looks for a few words in the events instead of reading their JSON, because it
// takes its time from the servers that it measures.
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/args.h"
#include "base/clock.h"
#include "base/mem.h"

enum { SERVERS = 8, ANSWER_S = 600 };

struct list {
    double *at;
    size_t n, cap;
};

struct result {
    double seconds;
    size_t tokens, answers, differ, failed;
    struct list first, between; // seconds
};

struct server {
    const char *url;
    struct str host, port, path;
    struct addrinfo *address;
    struct str *alone; // [prompts] what each answer is, with nobody else there
    double *rate[2];   // [rounds] tokens a second of one client and of all
};

struct setup {
    size_t clients, prompts, words, tokens, rounds;
    double seconds;
    struct server server[SERVERS];
    size_t servers;
    bool told; // what went wrong was said once
};

// One answer on its way.
struct stream {
    int fd; // -1: none
    size_t prompt;
    struct str in, body, text; // bytes; of them without chunks; JSON's text of the answer
    bool head, done, failed;
    double asked;
    struct list events; // when text came
    size_t tokens;
};

static void list_add(struct list *l, double x) {
    l->at = mem_grow(l->at, &l->cap, l->n + 1, sizeof *l->at);
    l->at[l->n++] = x;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double quantile(struct list *l, double q) {
    if (!l->n) return 0;
    qsort(l->at, l->n, sizeof *l->at, by_value);
    return l->at[(size_t)(q * (double)(l->n - 1))];
}

// --- what is asked -------------------------------------------------------------------------------

static void add_words(struct str *s, uint64_t seed, size_t n) {
    static const char *const words[] = {
        "river",  "stone", "letter", "winter", "garden", "number", "music",  "window",
        "island", "paper", "doctor", "silver", "forest", "engine", "market", "planet",
    };
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        str_printf(s, "%s%s", i ? " " : "", words[seed >> 60]);
    }
}

static void add_request(struct str *out, const struct server *s, const char *route,
                        const struct str *body) {
    str_printf(out,
               "POST %s%s HTTP/1.1\r\nHost: %s:%s\r\nContent-Type: application/json\r\n"
               "Connection: close\r\nContent-Length: %zu\r\n\r\n",
               str_c(&s->path), route, str_c(&s->host), str_c(&s->port), body->n);
    str_add(out, str_sv(body));
}

static void completion_request(struct str *out, const struct setup *o, const struct server *s,
                               size_t prompt) {
    struct str body = {0};
    str_printf(&body, "{\"prompt\":\"A story of %zu things: ", prompt + 2);
    add_words(&body, prompt + 1, o->words);
    str_printf(&body,
               ".\",\"max_tokens\":%zu,\"temperature\":0,\"ignore_eos\":true,\"stream\":true,"
               "\"stream_options\":{\"include_usage\":true}}",
               o->tokens);
    add_request(out, s, "/v1/completions", &body);
    str_free(&body);
}

static void chat_request(struct str *out, const struct server *s, uint64_t seed, size_t words,
                         uint64_t user) {
    struct str body = {0};
    str_puts(&body, "{\"messages\":[{\"role\":\"system\",\"content\":\"");
    add_words(&body, seed, words);
    str_puts(&body, "\"},{\"role\":\"user\",\"content\":\"");
    add_words(&body, user, 40);
    str_puts(&body, "\"}],\"max_tokens\":8,\"temperature\":0,\"ignore_eos\":true,\"stream\":true}");
    add_request(out, s, "/v1/chat/completions", &body);
    str_free(&body);
}

// --- what comes ----------------------------------------------------------------------------------

// What stands between `key` and the quote that ends its text.
static struct sv text_after(struct sv line, const char *key) {
    ptrdiff_t at = sv_find(line, sv(key), 0);
    if (at < 0) return sv("");
    size_t from = (size_t)at + strlen(key), to = from;
    while (to < line.n && line.p[to] != '"') to += line.p[to] == '\\' ? 2 : 1;
    return sv_cut(line, from, to);
}

static void take_event(struct stream *x, struct sv line, double now) {
    static const char tokens[] = "\"completion_tokens\":";
    if (!sv_starts(line, sv("data: "))) return;
    if (sv_is(sv_trim(line), "data: [DONE]")) x->done = true;
    struct sv text = text_after(line, "\"text\":\"");
    if (!text.n) text = text_after(line, "\"content\":\"");
    if (text.n) list_add(&x->events, now);
    str_add(&x->text, text);
    ptrdiff_t at = sv_find(line, sv(tokens), 0);
    if (at >= 0) x->tokens = strtoul(line.p + at + strlen(tokens), NULL, 10);
    if (sv_find(line, sv("\"error\":{"), 0) >= 0) x->failed = true;
}

static void take_events(struct stream *x, double now) {
    struct sv left = str_sv(&x->body);
    for (ptrdiff_t end; (end = sv_find(left, sv("\n"), 0)) >= 0;) {
        take_event(x, sv_cut(left, 0, (size_t)end), now);
        left = sv_cut(left, (size_t)end + 1, left.n);
    }
    memmove(x->body.p, left.p, left.n);
    x->body.n = left.n;
}

// Takes whole chunks from `in`. Every server here sends events in chunks.
static void take_chunks(struct stream *x) {
    struct sv left = str_sv(&x->in);
    for (;;) {
        ptrdiff_t end = sv_find(left, sv("\r\n"), 0);
        if (end < 0) break;
        size_t n = strtoul(left.p, NULL, 16), from = (size_t)end + 2;
        if (n > left.n || left.n - n < from + 2) break;
        str_add(&x->body, sv_cut(left, from, from + n));
        left = sv_cut(left, from + n + 2, left.n);
    }
    memmove(x->in.p, left.p, left.n);
    x->in.n = left.n;
}

static void take_bytes(struct stream *x, double now) {
    if (!x->head) {
        ptrdiff_t end = sv_find(str_sv(&x->in), sv("\r\n\r\n"), 0);
        if (end < 0) return;
        x->head = true;
        if (!sv_starts(str_sv(&x->in), sv("HTTP/1.1 200"))) {
            x->failed = true;
            return;
        }
        size_t rest = x->in.n - (size_t)end - 4;
        memmove(x->in.p, x->in.p + end + 4, rest);
        x->in.n = rest;
    }
    take_chunks(x);
    take_events(x, now);
}

// --- connections ---------------------------------------------------------------------------------

static void hang_up(struct stream *x) {
    if (x->fd >= 0) close(x->fd);
    x->fd = -1;
}

static bool ask(struct stream *x, const struct server *s, const struct str *request) {
    const struct addrinfo *a = s->address;
    x->in.n = x->body.n = x->text.n = x->events.n = x->tokens = 0;
    x->head = x->done = x->failed = false;
    x->asked = clock_now();
    x->fd = a ? socket(a->ai_family, SOCK_STREAM, 0) : -1;
    bool ok = x->fd >= 0 && connect(x->fd, a->ai_addr, a->ai_addrlen) == 0;
    for (size_t sent = 0; ok && sent < request->n;) {
        ssize_t n = send(x->fd, request->p + sent, request->n - sent, MSG_NOSIGNAL);
        ok = n > 0;
        if (ok) sent += (size_t)n;
    }
    x->failed = !ok;
    if (!ok) hang_up(x);
    return ok;
}

// Reads what is there; false when the answer is over.
static bool receive(struct stream *x) {
    char block[1 << 14];
    ssize_t n = recv(x->fd, block, sizeof block, 0);
    if (n > 0) str_add(&x->in, sv_n(block, (size_t)n));
    if (n > 0) take_bytes(x, clock_now());
    if (n <= 0 && !x->done) x->failed = true;
    return !x->done && !x->failed;
}

static void stream_free(struct stream *x) {
    hang_up(x);
    str_free(&x->in);
    str_free(&x->body);
    str_free(&x->text);
    free(x->events.at);
}

// --- many ----------------------------------------------------------------------------------------

static void tell_failure(struct setup *o, const struct server *s, const struct stream *x) {
    if (o->told) return;
    o->told = true;
    fprintf(stderr, "bench_server: %s: an answer failed: %.*s\n", s->url,
            (int)(x->in.n < 400 ? x->in.n : 400), str_c(&x->in));
}

static void account(struct setup *o, struct server *s, struct stream *x, struct result *r) {
    struct str *alone = &s->alone[x->prompt];
    if (x->failed || !x->events.n) {
        r->failed++;
        tell_failure(o, s, x);
        return;
    }
    list_add(&r->first, x->events.at[0] - x->asked);
    for (size_t i = 1; i < x->events.n; i++)
        list_add(&r->between, x->events.at[i] - x->events.at[i - 1]);
    r->tokens += x->tokens;
    r->answers++;
    if (!alone->n)
        str_add(alone, str_sv(&x->text));
    else
        r->differ += !sv_eq(str_sv(alone), str_sv(&x->text));
}

static bool ask_prompt(struct setup *o, struct server *s, struct stream *x, size_t prompt) {
    struct str request = {0};
    x->prompt = prompt % o->prompts;
    completion_request(&request, o, s, x->prompt);
    bool ok = ask(x, s, &request);
    str_free(&request);
    return ok;
}

// Nobody asks again once the time is over; all that was asked is waited for, and counts. One client
// also goes on until every prompt was answered once.
static void run(struct setup *o, struct server *s, size_t clients, struct result *r) {
    struct stream *x = mem_array(clients, sizeof *x);
    struct pollfd *p = mem_array(clients, sizeof *p);
    double began = clock_now(), end = began + o->seconds;
    size_t asked = 0, open = 0;
    for (; asked < clients; asked++) open += ask_prompt(o, s, &x[asked], asked);
    while (open && clock_now() < end + ANSWER_S) {
        for (size_t i = 0; i < clients; i++) p[i] = (struct pollfd){x[i].fd, POLLIN, 0};
        poll(p, clients, 1000);
        for (size_t i = 0; i < clients; i++) {
            if (!p[i].revents || receive(&x[i])) continue;
            hang_up(&x[i]);
            account(o, s, &x[i], r);
            bool more = clock_now() < end || (clients == 1 && asked < o->prompts);
            if (!more || !ask_prompt(o, s, &x[i], asked++)) open--;
        }
    }
    r->failed += open;
    r->seconds = clock_now() - began;
    for (size_t i = 0; i < clients; i++) stream_free(&x[i]);
    free(x);
    free(p);
}

static void print_row(const struct server *s, size_t clients, struct result *r) {
    printf("%-28s %7zu %9.1f %8.0f %8.0f %9.1f %9.1f %8zu %7zu %7zu\n", s->url, clients,
           (double)r->tokens / r->seconds, 1e3 * quantile(&r->first, 0.5),
           1e3 * quantile(&r->first, 0.99), 1e3 * quantile(&r->between, 0.5),
           1e3 * quantile(&r->between, 0.99), r->answers, r->differ, r->failed);
    fflush(stdout);
}

static bool measure(struct setup *o, struct server *s, size_t round) {
    bool good = true;
    for (size_t k = 0; k < 2; k++) {
        struct result r = {0};
        size_t clients = k ? o->clients : 1;
        run(o, s, clients, &r);
        s->rate[k][round] = (double)r.tokens / r.seconds;
        print_row(s, clients, &r);
        good &= !r.failed && !r.differ;
        free(r.first.at);
        free(r.between.at);
    }
    return good;
}

// The median of the rounds' ratios a / b.
static void print_ratio(const struct setup *o, const char *what, const double *a, const double *b) {
    struct list ratio = {0};
    for (size_t i = 0; i < o->rounds; i++) list_add(&ratio, a[i] / b[i]);
    printf("%s: %.2f (%.2f to %.2f)\n", what, quantile(&ratio, 0.5), quantile(&ratio, 0),
           quantile(&ratio, 1));
    free(ratio.at);
}

static bool measure_load(struct setup *o) {
    bool good = true;
    struct str what = {0};
    printf("%-28s %7s %9s %8s %8s %9s %9s %8s %7s %7s\n", "server", "clients", "tok/s", "first ms",
           "p99", "token ms", "p99", "answers", "differ", "failed");
    for (size_t round = 0; round < o->rounds; round++)
        for (size_t i = 0; i < o->servers; i++) good &= measure(o, &o->server[i], round);
    for (size_t i = 0; i < o->servers; i++) {
        struct server *s = &o->server[i];
        str_clear(&what);
        str_printf(&what, "%s: %zu clients to 1", s->url, o->clients);
        print_ratio(o, what.p, s->rate[1], s->rate[0]);
        if (!i) continue;
        str_clear(&what);
        str_printf(&what, "%s to %s: %zu clients", o->server[0].url, s->url, o->clients);
        print_ratio(o, what.p, o->server[0].rate[1], s->rate[1]);
    }
    str_free(&what);
    return good;
}

// --- a shared beginning --------------------------------------------------------------------------

// Seconds to the first text of a chat; 0: it failed.
static double first_text(struct setup *o, const struct server *s, uint64_t seed, size_t words,
                         uint64_t user) {
    struct stream x = {.fd = -1};
    struct str request = {0};
    chat_request(&request, s, seed, words, user);
    if (ask(&x, s, &request))
        while (receive(&x)) continue;
    double first = x.failed || !x.events.n ? 0 : x.events.at[0] - x.asked;
    if (first == 0) tell_failure(o, s, &x);
    stream_free(&x);
    str_free(&request);
    return first;
}

static bool measure_shared(struct setup *o, size_t words) {
    bool good = true;
    printf("%-28s %10s %10s %10s %8s\n", "server", "first ms", "second", "third", "ratio");
    for (size_t round = 0; round < o->rounds; round++) {
        for (size_t i = 0; i < o->servers; i++) {
            const struct server *s = &o->server[i];
            uint64_t seed = (uint64_t)(clock_now() * 1e6);
            double t[3];
            for (size_t k = 0; k < 3; k++) t[k] = first_text(o, s, seed, words, seed + k + 1);
            printf("%-28s %10.1f %10.1f %10.1f %8.3f\n", s->url, 1e3 * t[0], 1e3 * t[1], 1e3 * t[2],
                   t[0] > 0 ? t[1] / t[0] : 0);
            good &= t[0] > 0 && t[1] > 0 && t[2] > 0;
        }
    }
    return good;
}

// --- options -------------------------------------------------------------------------------------

static const struct arg bench_args[] = {
    {"-c --clients", ARG_INT, "N", NULL, "64", 1, 4096, "clients at once, beside one alone"},
    {"-s --seconds", ARG_NUMBER, "S", NULL, "10", 0.1, 1e5, "of each run, at least"},
    {"-n --tokens", ARG_INT, "N", NULL, "64", 1, 1e6, "of an answer"},
    {"-p --words", ARG_INT, "N", NULL, "32", 1, 1e6, "of a prompt"},
    {"-k --prompts", ARG_INT, "N", NULL, "16", 1, 1e6, "different prompts"},
    {"-r --rounds", ARG_INT, "N", NULL, "1", 1, 1000, "each measures every server once"},
    {"--shared", ARG_INT, "WORDS", NULL, NULL, 1, 1e7,
     "time the first text of chats that share a system message of so many words, instead"},
    {"-h --help", ARG_FLAG, NULL, NULL, NULL, 0, 0, "show this help"},
};
static const struct arg_group bench_group = {"Options", bench_args,
                                             sizeof bench_args / sizeof *bench_args};
static const struct arg_group *const groups[] = {&bench_group, NULL};
static const struct command command = {
    .name = "bench_server",
    .alone = true,
    .summary = "measure servers with the OpenAI API under load",
    .operands = "http://HOST:PORT...",
    .operands_most = SERVERS,
    .groups = groups,
};

// "http://host:port/path"
static bool read_url(struct server *s, const char *url, struct error *e) {
    struct sv rest = sv(url), scheme = sv("http://");
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    s->url = url;
    if (!sv_starts(rest, scheme)) return fail(e, "%s: must begin with http://", url);
    rest = sv_cut(rest, scheme.n, rest.n);
    ptrdiff_t slash = sv_find(rest, sv("/"), 0);
    struct sv host = sv_cut(rest, 0, slash < 0 ? rest.n : (size_t)slash);
    struct sv path = sv_cut(rest, host.n, rest.n);
    ptrdiff_t colon = sv_find(host, sv(":"), 0);
    str_add(&s->host, sv_cut(host, 0, colon < 0 ? host.n : (size_t)colon));
    str_add(&s->port, colon < 0 ? sv("80") : sv_cut(host, (size_t)colon + 1, host.n));
    str_add(&s->path, sv_ends(path, sv("/")) ? sv_cut(path, 0, path.n - 1) : path);
    int err = getaddrinfo(str_c(&s->host), str_c(&s->port), &hints, &s->address);
    return !err || fail(e, "%s: %s", url, gai_strerror(err));
}

static bool read_setup(struct setup *o, const struct args *a, struct error *e) {
    *o = (struct setup){
        .clients = (size_t)args_int(a, "clients"),
        .prompts = (size_t)args_int(a, "prompts"),
        .words = (size_t)args_int(a, "words"),
        .tokens = (size_t)args_int(a, "tokens"),
        .rounds = (size_t)args_int(a, "rounds"),
        .seconds = args_number(a, "seconds"),
        .servers = a->operands,
    };
    if (!o->servers) return fail(e, "no server: pass http://HOST:PORT");
    for (size_t i = 0; i < o->servers; i++) {
        struct server *s = &o->server[i];
        s->alone = mem_array(o->prompts, sizeof *s->alone);
        for (size_t k = 0; k < 2; k++) s->rate[k] = mem_array(o->rounds, sizeof(double));
        if (!read_url(s, a->operand[i].p, e)) return false;
    }
    return true;
}

static void setup_free(struct setup *o) {
    for (size_t i = 0; i < o->servers; i++) {
        struct server *s = &o->server[i];
        for (size_t k = 0; s->alone && k < o->prompts; k++) str_free(&s->alone[k]);
        free(s->alone);
        free(s->rate[0]);
        free(s->rate[1]);
        str_free(&s->host);
        str_free(&s->port);
        str_free(&s->path);
        if (s->address) freeaddrinfo(s->address);
    }
}

int main(int argc, char **argv) {
    struct error e = {0};
    struct args a;
    struct setup o = {0};
    bool ok = args_parse(&a, &command, argc - 1, argv + 1, &e);
    if (ok && args_flag(&a, "help")) {
        args_help(stdout, &command);
    } else if (ok && (ok = read_setup(&o, &a, &e))) {
        bool shared = args_given(&a, "shared");
        ok = shared ? measure_shared(&o, (size_t)args_int(&a, "shared")) : measure_load(&o);
    }
    if (e.set) fprintf(stderr, "bench_server: %s\n", e.text);
    setup_free(&o);
    args_free(&a);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
