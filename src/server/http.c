#include "server/http.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "server/framing.h"
#include "server/listen.h"
#include "server/report.h"
#include "server/routes.h"

enum {
    BODIES = 8,          // of the largest size, that all requests together may hold
    TREES = 32,          // of the largest body, that parsing all requests may take
    TOO_FAR = 4,         // a body that many times too large isn't read to its end
    OWN_FILES = 64,      // that may be open besides connections
    EXTRA = 64,          // connections over the limit that are told so; more are closed unheard
    POOLS = 4,           // of the largest header, that libmicrohttpd gets for a connection
    PARAMETER = 64,      // bytes that it takes of these for a parameter of a query
    FORWARDED_MOST = 129 // bytes of X-Forwarded-For in a log line, with its end
};

struct conn {
    int fd;
    double since;             // that it waits for a request, or for the rest of one
    bool answering;           // it has one
    bool extra;               // one too many: it is told so
    struct exchange *request; // its thread's alone
    struct conn *prev, *next;
};

struct http {
    struct service service;
    struct MHD_Daemon *daemon;
    struct str address;
    int listener;
    unsigned most, extra; // connections that are served, and more that are told so

    pthread_mutex_t lock; // of all below, and of every conn
    struct error why;     // what the daemon said last
    struct conn *conns;
    size_t conn_count;
    size_t answering;
    bool draining;
};

// --- a request comes in --------------------------------------------------------------------------

// Whether this thread's connection has a request that is known.
static _Thread_local bool in_request;

// Takes as long for every key that is given as for any other of its length.
static bool same_key(struct sv given, struct sv key) {
    unsigned char differ = given.n != key.n;
    for (size_t i = 0; i < given.n; i++)
        differ |= (unsigned char)(given.p[i] ^ key.p[i < key.n ? i : 0]);
    return !differ;
}

static bool check_key(struct exchange *x) {
    const struct server_options *o = x->service->o;
    if (!o->keys || (x->route && x->route->open)) return true;
    struct sv scheme = sv("Bearer ");
    struct sv bearer = sv(MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, "Authorization"));
    struct sv given = sv(MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, "X-Api-Key"));
    if (bearer.n >= scheme.n && !strncasecmp(bearer.p, scheme.p, scheme.n))
        given = sv_trim(sv_cut(bearer, scheme.n, bearer.n));
    bool good = false;
    for (size_t i = 0; i < o->keys; i++) good |= same_key(given, o->key[i]);
    if (good) return true;
    x->refusal.code = "invalid_api_key";
    return refuse(&x->refusal, 401, NULL,
                  "no valid key: send Authorization: Bearer KEY, or X-Api-Key: KEY");
}

static bool too_large(struct exchange *x) {
    return refuse(&x->refusal, 413, NULL, "the body is over %zu MiB (--max-body)",
                  x->service->o->max_body >> 20);
}

// Also says, in *at_once, whether to answer before the body comes: its sender waits to be told, or
// it is so large that reading it to its end would be wrong.
static bool check_size(struct exchange *x, bool *at_once) {
    const char *length = MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, "Content-Length");
    const char *expect = MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, "Expect");
    unsigned long long n = length ? strtoull(length, NULL, 10) : 0;
    *at_once = expect || n / TOO_FAR > x->service->o->max_body;
    return n <= x->service->o->max_body || too_large(x);
}

static bool check_place(struct exchange *x) {
    return !x->hang_up ||
           refuse(&x->refusal, 503, NULL, "too many connections (--max-connections)");
}

static void copy_printable(char *to, size_t room, const char *from) {
    size_t n = 0;
    for (; from[n] && n + 1 < room; n++) to[n] = from[n] > ' ' && from[n] <= '~' ? from[n] : '?';
    to[n] = 0;
}

static void name_request(struct exchange *x) {
    struct str own = {0};
    str_puts(&own, "req_");
    random_letters(&own);
    copy_printable(x->id, sizeof x->id, own.p);
    str_free(&own);
}

static void take_name(struct exchange *x) {
    const char *given = MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, "X-Request-Id");
    if (given && *given) copy_printable(x->id, sizeof x->id, given);
}

static void wait_for_request(struct http *h, struct conn *c) {
    pthread_mutex_lock(&h->lock);
    c->since = clock_now();
    pthread_mutex_unlock(&h->lock);
}

// Without what every path begins with, so that the prefix alone is nothing; a path that does not
// begin so is no route's. A slash at its end changes nothing.
static void keep_path(struct exchange *x, const char *path) {
    struct sv prefix = x->service->o->prefix, rest = sv(path);
    copy_printable(x->path, sizeof x->path, path);
    if (sv_starts(rest, prefix))
        rest = sv_cut(rest, prefix.n, rest.n);
    else
        rest = sv("-");
    str_add(&x->whole_path, rest);
    while (x->whole_path.n > 1 && sv_ends(str_sv(&x->whole_path), sv("/"))) x->whole_path.n--;
}

static bool check_header_size(struct exchange *x) {
    size_t n =
        MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;
    return n <= x->service->o->max_header ||
           refuse(&x->refusal, 431, NULL, "the header is over %zu KiB (--max-header)",
                  x->service->o->max_header >> 10);
}

// The header is here. Where it leaves open where the request ends, that is told at once; what else
// is wrong when the body was read too: a client that is still sending may not see an answer.
static bool begin(struct http *h, struct exchange *x, const char *path, const char *method,
                  const char *version) {
    bool at_once = false;
    x->header_read = true;
    keep_path(x, path);
    copy_printable(x->method, sizeof x->method, method);
    take_name(x);
    wait_for_request(h, x->conn);
    if (x->refusal.status || !check_header_size(x) || !framing_check_header(x, version)) {
        x->hang_up = true;
        return exchange_refuse(x);
    }
    bool good = check_size(x, &at_once) && check_place(x) && routes_find(x, method) &&
                check_key(x) && (x->route->open || exchange_ready(x));
    return good || !at_once || exchange_refuse(x);
}

// Room for n more bytes of the body.
static bool take_room(struct exchange *x, size_t n) {
    if (x->body.n + n > x->service->o->max_body) return too_large(x);
    return budget_take(&x->service->bodies, n) ||
           refuse(&x->refusal, 503, NULL, "too many large requests at once");
}

// False when the body goes on and on.
static bool receive(struct exchange *x, const char *data, size_t n) {
    if (!x->refusal.status && take_room(x, n)) {
        str_add(&x->body, sv_n(data, n));
        return true;
    }
    exchange_drop_body(x);
    x->dropped += n;
    return x->dropped / TOO_FAR <= x->service->o->max_body;
}

static bool answer(struct http *h, struct exchange *x) {
    x->asked = true;
    pthread_mutex_lock(&h->lock);
    bool draining = h->draining;
    x->conn->answering = true;
    h->answering++;
    pthread_mutex_unlock(&h->lock);
    if (draining) refuse(&x->refusal, 503, NULL, "the server is stopping");
    if (h->service.o->log_prompts && x->body.n) report_body(x);
    return x->refusal.status ? exchange_refuse(x) : x->route->run(x);
}

// libmicrohttpd calls this when the header is here, with what `meet` returned, then for each part
// of the body, then once without any.
static enum MHD_Result handle(void *arg, struct MHD_Connection *mhd, const char *path,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **request) {
    struct exchange *x = *request;
    (void)mhd;
    if (!x) return MHD_NO;
    if (!x->header_read) return begin(arg, x, path, method, version) ? MHD_YES : MHD_NO;
    if (!*size) return answer(arg, x) ? MHD_YES : MHD_NO;
    bool more = receive(x, data, *size);
    *size = 0;
    return more ? MHD_YES : MHD_NO;
}

// --- a request is over ---------------------------------------------------------------------------

// The peer, and behind it whom a proxy names.
static void name_client(const struct exchange *x, struct str *out) {
    char from[FORWARDED_MOST];
    const char *given = NULL;
    const union MHD_ConnectionInfo *peer =
        MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    address_host(out, peer ? peer->client_addr : NULL);
    if (x->service->o->log_forwarded && !x->unanswered)
        given = MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, "X-Forwarded-For");
    if (!given) return;
    copy_printable(from, sizeof from, given);
    str_printf(out, "(%s)", from);
}

static void report(const struct exchange *x, bool whole) {
    struct str client = {0};
    name_client(x, &client);
    report_request(x, &client, whole);
    str_free(&client);
}

// Whether the client got all of its answer, as far as this side can know: one that closes the
// connection when it has all, as proxies do, may do so before libmicrohttpd looks again.
static bool is_whole(struct exchange *x, enum MHD_RequestTerminationCode how) {
    bool closed = how == MHD_REQUEST_TERMINATED_WITH_ERROR && x->given;
    return !x->lost && (how == MHD_REQUEST_TERMINATED_COMPLETED_OK || closed);
}

// libmicrohttpd answers by itself what it can't read.
static bool is_its_own(struct exchange *x) {
    const union MHD_ConnectionInfo *own =
        MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_HTTP_STATUS);
    if (x->status || !own) return false;
    x->status = own->http_status;
    return true;
}

static void end_request(struct http *h, struct exchange *x, bool whole) {
    report(x, whole);
    completion_close(x->completion);
    if (x->tree) exchange_drop_json(x);
    exchange_drop_body(x);
    str_free(&x->events);
    str_free(&x->whole_path);
    for (size_t i = 0; i < x->headers; i++) free(x->header[i].value);
    pthread_mutex_lock(&h->lock);
    if (x->asked) h->answering--;
    x->conn->request = NULL;
    x->conn->answering = false;
    x->conn->since = clock_now();
    pthread_mutex_unlock(&h->lock);
    free(x);
}

static void completed(void *arg, struct MHD_Connection *mhd, void **request,
                      enum MHD_RequestTerminationCode how) {
    struct exchange *x = *request;
    (void)mhd;
    *request = NULL;
    in_request = false;
    if (x) end_request(arg, x, is_its_own(x) || is_whole(x, how));
}

// --- a request begins ----------------------------------------------------------------------------

// libmicrohttpd has no memory for so many parameters, and then answers nothing. So the answer is
// written here; with TLS, the connection is only closed.
static bool check_parameters(struct exchange *x, const char *target) {
    size_t n = 1, most = x->service->o->max_header / PARAMETER;
    for (const char *c = target; (c = strchr(c, '&')); c++) n++;
    if (n <= most) return true;
    refuse(&x->refusal, x->status = 414, NULL, "a query has at most %zu parameters (--max-header)",
           most);
    struct str json = {0}, all = {0};
    refusal_json(&json, &x->refusal);
    str_printf(&all,
               "HTTP/1.1 414 URI Too Long\r\nContent-Type: application/json\r\n"
               "X-Request-Id: %s\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
               x->id, json.n, json.p);
    if (!x->service->o->tls_key.n)
        x->given = send(x->client, all.p, all.n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)all.n;
    shutdown(x->client, SHUT_RDWR);
    str_free(&json);
    str_free(&all);
    return false;
}

// The first line of a request is here. Returns the request; NULL: it is over.
static void *meet(void *arg, const char *target, struct MHD_Connection *mhd) {
    struct http *h = arg;
    struct exchange *x = mem_alloc(sizeof *x);
    x->service = &h->service;
    x->mhd = mhd;
    x->conn = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    x->conn->request = x;
    x->client = x->conn->fd;
    x->hang_up = x->conn->extra;
    x->began = clock_now();
    in_request = true;
    char *path = mem_textn(target, strcspn(target, "?"));
    copy_printable(x->path, sizeof x->path, path);
    copy_printable(x->method, sizeof x->method, "-"); // not told yet
    free(path);
    name_request(x);
    if (check_parameters(x, target)) {
        framing_check_target(x, target);
        return x;
    }
    end_request(h, x, x->given);
    return NULL;
}

// --- connections ---------------------------------------------------------------------------------

static void add_conn(struct http *h, int fd, void **context) {
    struct conn *c = mem_alloc(sizeof *c);
    *context = c;
    c->fd = fd;
    c->since = clock_now();
    pthread_mutex_lock(&h->lock);
    c->extra = ++h->conn_count > h->most;
    c->next = h->conns;
    if (c->next) c->next->prev = c;
    h->conns = c;
    pthread_mutex_unlock(&h->lock);
}

// libmicrohttpd does not always say that a request is over: not when it has no memory to answer it.
static void remove_conn(struct http *h, struct conn *c) {
    if (c->request) {
        c->request->unanswered = true;
        end_request(h, c->request, false);
    }
    pthread_mutex_lock(&h->lock);
    h->conn_count--;
    if (c->next) c->next->prev = c->prev;
    if (c->prev)
        c->prev->next = c->next;
    else
        h->conns = c->next;
    pthread_mutex_unlock(&h->lock);
    free(c);
}

static void connection(void *arg, struct MHD_Connection *mhd, void **context,
                       enum MHD_ConnectionNotificationCode what) {
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        add_conn(arg, MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
                 context);
    else
        remove_conn(arg, *context);
}

// A descriptor stays a connection's until it is off the list, so none is shut down by mistake.
void http_tick(struct http *h) {
    pthread_mutex_lock(&h->lock);
    double oldest = clock_now() - (h->draining ? 0 : h->service.o->receive_timeout);
    for (struct conn *c = h->conns; c; c = c->next)
        if (!c->answering && c->since < oldest) shutdown(c->fd, SHUT_RDWR);
    pthread_mutex_unlock(&h->lock);
}

// --- the daemon ----------------------------------------------------------------------------------

static void log_daemon(void *arg, const char *fmt, va_list args) {
    struct http *h = arg;
    struct error text = {0};
    vfail(&text, fmt, args);
    size_t n = strlen(text.text);
    if (n && text.text[n - 1] == '?') text.text[n - 1] = 0; // which was the end of its line
    pthread_mutex_lock(&h->lock);
    h->why = text;
    pthread_mutex_unlock(&h->lock);
    unsigned status;
    log_say(LOG_DEBUG, "libmicrohttpd: %s", text.text);
    if (!in_request &&
        sscanf(text.text, "Error processing request (HTTP response code is %u", &status) == 1)
        log_say(LOG_INFO, "a connection without a request that can be read is answered %u", status);
}

// %41 is A, in paths and queries; but %00 stays what it is, since a path would end there and be
// another's. Returns the new length.
static size_t unescape(void *arg, struct MHD_Connection *mhd, char *s) {
    char *to = s;
    (void)arg, (void)mhd;
    for (const char *from = s; *from; to++) {
        int high = *from == '%' ? hex_digit(from[1]) : -1;
        int low = high >= 0 ? hex_digit(from[2]) : -1;
        bool code = low >= 0 && high + low > 0;
        *to = code ? (char)(high * 16 + low) : *from;
        from += code ? 3 : 1;
    }
    *to = 0;
    return (size_t)(to - s);
}

static bool check_tls(const struct server_options *o, struct error *e) {
    return !o->tls_key.n || MHD_is_feature_supported(MHD_FEATURE_TLS) == MHD_YES ||
           fail(e, "--ssl-key-file: this machine's libmicrohttpd is built without TLS; install one "
                   "with GnuTLS, or put a proxy before the server");
}

// Connections that no descriptor is left for would wait for ever, and the thread that accepts them
// would try again all the time: so there are no more than the process may have.
static void fit_connections(struct http *h) {
    struct rlimit files;
    rlim_t wanted = (rlim_t)h->service.o->max_connections + EXTRA + OWN_FILES;
    h->most = h->service.o->max_connections;
    h->extra = EXTRA;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= wanted) return;
    rlim_t was = files.rlim_cur;
    files.rlim_cur = files.rlim_max < wanted ? files.rlim_max : wanted;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0) files.rlim_cur = was;
    if (files.rlim_cur >= wanted) return;
    unsigned left = (unsigned)files.rlim_cur;
    left -= left / 2 < OWN_FILES ? left / 2 : OWN_FILES;
    h->extra = left / 8 < EXTRA ? left / 8 : EXTRA;
    if (left - h->extra < h->most) h->most = left - h->extra;
    log_say(LOG_WARN,
            "the process may open %llu files (ulimit -n): %u of %u connections are served at once "
            "(--max-connections)",
            (unsigned long long)files.rlim_cur, h->most, h->service.o->max_connections);
}

struct http *http_open(const struct server_options *o, struct error *e) {
    struct http *h = mem_alloc(sizeof *h);
    h->service.o = o;
    fit_connections(h);
    h->service.started = (int64_t)time(NULL);
    budget_open(&h->service.bodies, BODIES * o->max_body);
    budget_open(&h->service.trees, TREES * o->max_body);
    metrics_open(&h->service.metrics);
    pthread_mutex_init(&h->lock, NULL);
    h->listener = -1;
    str_puts(&h->address, listen_is_file(o->host) ? "unix:"
                          : o->tls_key.n          ? "https://"
                                                  : "http://");
    if (check_tls(o, e)) h->listener = listen_on(o->host, o->port, o->shared_port, &h->address, e);
    if (h->listener >= 0) h->service.responses = responses_store_open(&o->responses, e);
    if (h->service.responses) return h;
    http_close(h);
    return NULL;
}

const char *http_address(const struct http *h) { return str_c(&h->address); }

bool http_serve(struct http *h, struct worker *w, struct error *e) {
    const struct server_options *o = h->service.o;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_KEY, 0, o->tls_key.p},
        {MHD_OPTION_HTTPS_MEM_CERT, 0, o->tls_cert.p},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
                     MHD_USE_POLL | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    h->service.worker = w;
    h->daemon = MHD_start_daemon(
        o->tls_key.n ? flags | MHD_USE_TLS : flags, 0, NULL, NULL, handle, h,
        MHD_OPTION_EXTERNAL_LOGGER, log_daemon, h, MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL,
        MHD_OPTION_URI_LOG_CALLBACK, meet, h, MHD_OPTION_LISTEN_SOCKET, h->listener,
        MHD_OPTION_NOTIFY_COMPLETED, completed, h, MHD_OPTION_NOTIFY_CONNECTION, connection, h,
        MHD_OPTION_CONNECTION_LIMIT, h->most + h->extra, MHD_OPTION_CONNECTION_TIMEOUT, o->timeout,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, POOLS * o->max_header, MHD_OPTION_ARRAY,
        o->tls_key.n ? tls : tls + 2, MHD_OPTION_END);
    if (h->daemon) return true;
    return fail(e, "%s: libmicrohttpd does not start%s: %s", http_address(h),
                o->tls_key.n ? " with --ssl-key-file and --ssl-cert-file" : "", h->why.text);
}

// As long as it listens, a socket's file is its own; then another server may take the name.
static void leave_name(struct http *h) {
    if (h->listener >= 0 && listen_is_file(h->service.o->host)) unlink(h->service.o->host);
}

void http_drain(struct http *h) {
    leave_name(h);
    pthread_mutex_lock(&h->lock);
    h->draining = true;
    pthread_mutex_unlock(&h->lock);
    MHD_quiesce_daemon(h->daemon);
    shutdown(h->listener, SHUT_RDWR); // refuses who comes now; the daemon may not be done with it
    http_tick(h);
}

size_t http_running(struct http *h) {
    pthread_mutex_lock(&h->lock);
    size_t n = h->answering;
    pthread_mutex_unlock(&h->lock);
    return n;
}

void http_close(struct http *h) {
    if (!h) return;
    if (h->daemon) MHD_stop_daemon(h->daemon); // closes the listening socket if it wasn't quiesced
    if (h->listener >= 0 && (!h->daemon || h->draining)) close(h->listener);
    if (!h->draining) leave_name(h);
    responses_store_close(h->service.responses);
    budget_close(&h->service.bodies);
    budget_close(&h->service.trees);
    metrics_close(&h->service.metrics);
    pthread_mutex_destroy(&h->lock);
    str_free(&h->address);
    free(h);
}
