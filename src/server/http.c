#include "server/http.h"

#include <malloc.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/completion.h"
#include "server/listen.h"
#include "base/random.h"

enum {
    BODIES = 8,             // of the largest size, that all requests together may hold
    TREES = 32,             // of the largest body, that parsing all requests may take
    TREES_LARGE = 16 << 20, // bytes of one whose memory is given back to the system
    TOO_FAR = 4,            // a body that many times too large isn't read to its end
    EXTRA = 64,             // connections over the limit that are told so; more are closed unheard
    BLOCK = 4096,           // bytes of a stream that libmicrohttpd takes at once
    LOGGED_PATH = 80,       // bytes of a path in a log line
    ID_MOST = 129           // of a request's id, with its end
};

struct conn {
    int fd;
    double since;   // that it waits for a request, or for the rest of one
    bool answering; // it has one
    bool extra;     // one too many: it is told so
    struct conn *prev, *next;
};

struct http {
    const struct server_options *o;
    struct worker *worker;
    struct MHD_Daemon *daemon;
    struct str address;
    int64_t started; // seconds since 1970
    int listener;

    pthread_mutex_t lock; // of all below, and of every conn
    struct conn *conns;
    size_t conn_count;
    size_t answering;
    size_t body_bytes; // of all bodies now
    size_t tree_bytes; // of the JSON that is parsed of them
    bool draining;
};

struct route;

// One request and its answer. It is its connection's thread's alone.
struct exchange {
    struct http *http;
    struct conn *conn;
    struct MHD_Connection *mhd;
    const struct route *route; // NULL: none
    char method[16], path[LOGGED_PATH];
    char id[ID_MOST]; // the client's X-Request-Id, else ours
    double began;
    struct str body;
    size_t dropped; // bytes of it that were not kept
    struct refusal refusal;
    bool asked;       // the whole request is here
    bool names_model; // the path ends with the model's name
    bool lost;        // its stream had to end early, and says so
    unsigned status;
    struct completion *completion;
    size_t tree;       // bytes that are still taken for the body's JSON
    struct str events; // of a stream; [sent, n) wait for the connection
    size_t sent;
};

struct route {
    const char *method;
    const char *path; // without a slash at its end; with one: and a name behind it
    bool open;        // to everyone, and while the model is loaded
    enum MHD_Result (*run)(struct exchange *x);
};

// --- answers -------------------------------------------------------------------------------------

static enum MHD_Result send_response(struct exchange *x, struct MHD_Response *response) {
    if (!response) return MHD_NO;
    MHD_add_response_header(response, "X-Request-Id", x->id);
    if (x->status == 401) MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (x->status == 429 || x->status == 503) MHD_add_response_header(response, "Retry-After", "1");
    if (x->status == 405) MHD_add_response_header(response, "Allow", x->route->method);
    if (x->conn->extra) MHD_add_response_header(response, "Connection", "close");
    enum MHD_Result sent = MHD_queue_response(x->mhd, x->status, response);
    MHD_destroy_response(response);
    return sent;
}

static enum MHD_Result send_json(struct exchange *x, unsigned status, const struct str *json) {
    x->status = status;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(json->n, json->p, MHD_RESPMEM_MUST_COPY);
    if (response) MHD_add_response_header(response, "Content-Type", "application/json");
    return send_response(x, response);
}

static enum MHD_Result send_refusal(struct exchange *x) {
    struct str json = {0};
    refusal_json(&json, &x->refusal);
    enum MHD_Result sent = send_json(x, x->refusal.status, &json);
    str_free(&json);
    return sent;
}

// Why a completion was lost.
static bool refuse_lost(struct exchange *x) {
    switch (worker_state(x->http->worker, NULL)) {
    case WORKER_LOADING:
    case WORKER_READY: return refuse(&x->refusal, 500, NULL, "the engine refuses this request");
    case WORKER_FAILED: return refuse(&x->refusal, 500, NULL, "the engine failed");
    case WORKER_STOPPED: break;
    }
    return refuse(&x->refusal, 503, NULL, "the server is stopping");
}

// The last event of a stream that can't go on.
static void add_lost_event(struct exchange *x) {
    x->lost = true;
    refuse_lost(x);
    str_puts(&x->events, "data: ");
    refusal_json(&x->events, &x->refusal);
    str_puts(&x->events, "\n\n");
}

// Called for each block of a stream. It may wait: the thread is this connection's.
static ssize_t read_events(void *arg, uint64_t at, char *block, size_t size) {
    struct exchange *x = arg;
    (void)at;
    if (x->sent == x->events.n) {
        str_clear(&x->events);
        x->sent = 0;
        if (x->lost) return MHD_CONTENT_READER_END_OF_STREAM;
        enum completion_news news = completion_events(x->completion, x->conn->fd, &x->events);
        if (news == COMPLETION_END) return MHD_CONTENT_READER_END_OF_STREAM;
        if (news == COMPLETION_GONE) return MHD_CONTENT_READER_END_WITH_ERROR;
        if (news == COMPLETION_LOST) add_lost_event(x);
    }
    size_t n = x->events.n - x->sent;
    if (n > size) n = size;
    memcpy(block, x->events.p + x->sent, n);
    x->sent += n;
    return (ssize_t)n;
}

static enum MHD_Result send_events(struct exchange *x) {
    x->status = MHD_HTTP_OK;
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_events, x, NULL);
    if (!response) return MHD_NO;
    MHD_add_response_header(response, "Content-Type", "text/event-stream");
    MHD_add_response_header(response, "Cache-Control", "no-cache");
    MHD_add_response_header(response, "X-Accel-Buffering", "no"); // nginx: pass it on at once
    return send_response(x, response);
}

static void drop_body(struct exchange *x) {
    pthread_mutex_lock(&x->http->lock);
    x->http->body_bytes -= x->body.n;
    pthread_mutex_unlock(&x->http->lock);
    str_free(&x->body);
}

// --- routes --------------------------------------------------------------------------------------

static bool check_ready(struct exchange *x) {
    switch (worker_state(x->http->worker, NULL)) {
    case WORKER_READY: return true;
    case WORKER_LOADING: return refuse(&x->refusal, 503, NULL, "Loading model");
    case WORKER_FAILED:
    case WORKER_STOPPED: break;
    }
    return refuse(&x->refusal, 503, NULL, "the server is stopping");
}

static enum MHD_Result get_health(struct exchange *x) {
    struct str json = {0};
    if (!check_ready(x)) return send_refusal(x);
    str_puts(&json, "{\"status\":\"ok\"}");
    enum MHD_Result sent = send_json(x, MHD_HTTP_OK, &json);
    str_free(&json);
    return sent;
}

static void add_model(struct str *json, const struct http *h) {
    const struct engine_info *i = engine_info(worker_model(h->worker)->engine);
    str_puts(json, "{\"id\":");
    json_quote(json, sv(h->o->name));
    str_printf(json,
               ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"mlxcel\",\"meta\":"
               "{\"n_vocab\":%lld,\"n_ctx\":%lld,\"n_ctx_train\":%lld,\"n_embd\":%lld,"
               "\"n_params\":%lld,\"size\":%zu}}",
               (long long)h->started, (long long)i->vocab, (long long)i->context,
               (long long)i->model_context, (long long)i->hidden, (long long)i->parameters,
               i->weight_bytes);
}

static enum MHD_Result get_models(struct exchange *x) {
    struct str json = {0};
    str_puts(&json, "{\"object\":\"list\",\"data\":[");
    add_model(&json, x->http);
    str_puts(&json, "]}");
    enum MHD_Result sent = send_json(x, MHD_HTTP_OK, &json);
    str_free(&json);
    return sent;
}

static enum MHD_Result get_model(struct exchange *x) {
    struct str json = {0};
    if (!x->names_model) {
        x->refusal.code = "model_not_found";
        refuse(&x->refusal, 404, "model", "no such model: this server has \"%s\"",
               x->http->o->name);
        return send_refusal(x);
    }
    add_model(&json, x->http);
    enum MHD_Result sent = send_json(x, MHD_HTTP_OK, &json);
    str_free(&json);
    return sent;
}

static bool take_tree(struct exchange *x, size_t cost) {
    struct http *h = x->http;
    size_t most = TREES * h->o->max_body;
    if (cost > most)
        return refuse(&x->refusal, 413, NULL,
                      "the body's JSON would take %zu MiB of memory, over %zu (--max-body)",
                      cost >> 20, most >> 20);
    pthread_mutex_lock(&h->lock);
    bool room = cost <= most - h->tree_bytes;
    if (room) h->tree_bytes += cost;
    pthread_mutex_unlock(&h->lock);
    return room || refuse(&x->refusal, 503, NULL, "too many large requests at once");
}

static void drop_tree(struct http *h, size_t cost) {
    pthread_mutex_lock(&h->lock);
    h->tree_bytes -= cost;
    pthread_mutex_unlock(&h->lock);
#ifdef __GLIBC__
    if (cost >= TREES_LARGE) malloc_trim(0); // else its threads' heaps keep what was the most
#endif
}

// The body isn't needed longer, while the answer may take long.
static bool start(struct exchange *x, bool chat) {
    struct http *h = x->http;
    size_t cost = json_cost(str_sv(&x->body));
    if (!take_tree(x, cost)) return false;
    x->completion = completion_start(h->worker, chat, str_sv(&x->body), h->o, &x->refusal);
    drop_body(x);
    if (x->completion && completion_keeps(x->completion))
        x->tree = cost;
    else
        drop_tree(h, cost);
    return x->completion != NULL;
}

static enum MHD_Result complete(struct exchange *x, bool chat) {
    if (!start(x, chat)) return send_refusal(x);
    if (completion_streams(x->completion)) return send_events(x);
    struct str json = {0};
    enum MHD_Result sent = MHD_NO; // a client that left gets no answer
    enum completion_news news = completion_whole(x->completion, x->conn->fd, &json);
    if (news == COMPLETION_END) sent = send_json(x, MHD_HTTP_OK, &json);
    if (news == COMPLETION_LOST) {
        refuse_lost(x);
        sent = send_refusal(x);
    }
    str_free(&json);
    return sent;
}

static enum MHD_Result post_completions(struct exchange *x) { return complete(x, false); }
static enum MHD_Result post_chat(struct exchange *x) { return complete(x, true); }

static const struct route routes[] = {
    {"GET", "/health", true, get_health},
    {"GET", "/v1/health", true, get_health},
    {"GET", "/v1/models", false, get_models},
    {"GET", "/models", false, get_models},
    {"GET", "/v1/models/", false, get_model},
    {"GET", "/models/", false, get_model},
    {"POST", "/v1/completions", false, post_completions},
    {"POST", "/v1/chat/completions", false, post_chat},
    {"POST", "/chat/completions", false, post_chat},
};
enum { ROUTES = sizeof routes / sizeof *routes };

// --- a request comes in --------------------------------------------------------------------------

// A slash at the end of a path changes nothing.
static bool find_route(struct exchange *x, const char *method, const char *path) {
    struct sv asked = sv(path);
    while (asked.n > 1 && sv_ends(asked, sv("/"))) asked.n--;
    for (size_t i = 0; i < ROUTES; i++) {
        struct sv route = sv(routes[i].path);
        bool named = sv_ends(route, sv("/")) && sv_starts(asked, route);
        if (!named && !sv_eq(asked, route)) continue;
        x->route = &routes[i];
        x->names_model = named && sv_is(sv_cut(asked, route.n, asked.n), x->http->o->name);
    }
    if (!x->route) return refuse(&x->refusal, 404, NULL, "no route %s %s", x->method, x->path);
    if (!strcmp(method, "HEAD")) method = "GET"; // libmicrohttpd leaves the body out
    return !strcmp(method, x->route->method) ||
           refuse(&x->refusal, 405, NULL, "%s takes %s, not %s", x->path, x->route->method,
                  x->method);
}

// Takes as long for every key that is given as for any other of its length.
static bool same_key(struct sv given, struct sv key) {
    unsigned char differ = given.n != key.n;
    for (size_t i = 0; i < given.n; i++)
        differ |= (unsigned char)(given.p[i] ^ key.p[i < key.n ? i : 0]);
    return !differ;
}

static bool check_key(struct exchange *x) {
    const struct server_options *o = x->http->o;
    if (!o->keys || (x->route && x->route->open)) return true;
    struct sv scheme = sv("Bearer ");
    struct sv given = sv(MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, "Authorization"));
    bool good = false;
    if (sv_starts(given, scheme)) {
        given = sv_cut(given, scheme.n, given.n);
        for (size_t i = 0; i < o->keys; i++) good |= same_key(given, o->key[i]);
    }
    if (good) return true;
    x->refusal.code = "invalid_api_key";
    return refuse(&x->refusal, 401, NULL, "no valid key: send Authorization: Bearer KEY");
}

static bool too_large(struct exchange *x) {
    return refuse(&x->refusal, 413, NULL, "the body is over %zu MiB (--max-body)",
                  x->http->o->max_body >> 20);
}

// Also says, in *at_once, whether to answer before the body comes: its sender waits to be told, or
// it is so large that reading it to its end would be wrong.
static bool check_size(struct exchange *x, bool *at_once) {
    const char *length = MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, "Content-Length");
    const char *expect = MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, "Expect");
    unsigned long long n = length ? strtoull(length, NULL, 10) : 0;
    *at_once = expect || n / TOO_FAR > x->http->o->max_body;
    return n <= x->http->o->max_body || too_large(x);
}

static bool check_place(struct exchange *x) {
    return !x->conn->extra ||
           refuse(&x->refusal, 503, NULL, "too many connections (--max-connections)");
}

static void copy_printable(char *to, size_t room, const char *from) {
    size_t n = 0;
    for (; from[n] && n + 1 < room; n++) to[n] = from[n] > ' ' && from[n] <= '~' ? from[n] : '?';
    to[n] = 0;
}

static void name_request(struct exchange *x) {
    const char *given = MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, "X-Request-Id");
    struct str own = {0};
    str_puts(&own, "req_");
    random_letters(&own);
    copy_printable(x->id, sizeof x->id, given && *given ? given : own.p);
    str_free(&own);
}

static void wait_for_request(struct http *h, struct conn *c) {
    pthread_mutex_lock(&h->lock);
    c->since = clock_now();
    pthread_mutex_unlock(&h->lock);
}

// The header is here. What is wrong with it is told when the body was read too: a client that is
// still sending may not see an answer.
static enum MHD_Result begin(struct http *h, struct MHD_Connection *mhd, const char *path,
                             const char *method, struct exchange **out) {
    bool at_once = false;
    struct exchange *x = *out = mem_alloc(sizeof *x);
    x->http = h;
    x->mhd = mhd;
    x->conn = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    x->began = clock_now();
    copy_printable(x->path, sizeof x->path, path);
    copy_printable(x->method, sizeof x->method, method);
    name_request(x);
    wait_for_request(h, x->conn);
    bool good = check_size(x, &at_once) && check_place(x) && find_route(x, method, path) &&
                check_key(x) && (x->route->open || check_ready(x));
    return good || !at_once ? MHD_YES : send_refusal(x);
}

// Room for n more bytes of the body.
static bool take_room(struct exchange *x, size_t n) {
    struct http *h = x->http;
    if (x->body.n + n > h->o->max_body) return too_large(x);
    pthread_mutex_lock(&h->lock);
    bool room = h->body_bytes + n <= BODIES * h->o->max_body;
    if (room) h->body_bytes += n;
    pthread_mutex_unlock(&h->lock);
    return room || refuse(&x->refusal, 503, NULL, "too many large requests at once");
}

// False when the body goes on and on.
static bool receive(struct exchange *x, const char *data, size_t n) {
    if (!x->refusal.status && take_room(x, n)) {
        str_add(&x->body, sv_n(data, n));
        return true;
    }
    drop_body(x);
    x->dropped += n;
    return x->dropped / TOO_FAR <= x->http->o->max_body;
}

static enum MHD_Result answer(struct exchange *x) {
    struct http *h = x->http;
    x->asked = true;
    pthread_mutex_lock(&h->lock);
    bool draining = h->draining;
    x->conn->answering = true;
    h->answering++;
    pthread_mutex_unlock(&h->lock);
    if (draining) refuse(&x->refusal, 503, NULL, "the server is stopping");
    return x->refusal.status ? send_refusal(x) : x->route->run(x);
}

// libmicrohttpd calls this when the header is here, then for each part of the body, then once
// without any.
static enum MHD_Result handle(void *arg, struct MHD_Connection *mhd, const char *path,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **request) {
    struct exchange *x = *request;
    (void)version;
    if (!x) {
        enum MHD_Result result = begin(arg, mhd, path, method, &x);
        *request = x;
        return result;
    }
    if (!*size) return answer(x);
    bool more = receive(x, data, *size);
    *size = 0;
    return more ? MHD_YES : MHD_NO;
}

// --- a request is over ---------------------------------------------------------------------------

static void log_line(const struct exchange *x, bool done) {
    struct str s = {0};
    const union MHD_ConnectionInfo *peer =
        MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    address_host(&s, peer->client_addr);
    str_printf(&s, " %s %s %s %u", x->id, x->method, x->path, x->status);
    if (x->completion) {
        struct completion_facts f = completion_facts(x->completion);
        str_printf(&s, " %s %zu+%zu tokens", f.id, f.prompt, f.tokens);
        if (f.finish != FINISH_NOT) str_printf(&s, " %s", finish_name(f.finish));
        if (f.first > 0) str_printf(&s, ", first %.3f s", f.first);
    }
    str_printf(&s, ", %.3f s%s", clock_now() - x->began, done ? "" : ", cut off");
    log_say(x->route && x->route->open ? LOG_DEBUG : LOG_INFO, "%s", s.p); // probes are many
    str_free(&s);
}

static void completed(void *arg, struct MHD_Connection *mhd, void **request,
                      enum MHD_RequestTerminationCode how) {
    struct http *h = arg;
    struct exchange *x = *request;
    (void)mhd;
    if (!x) return;
    *request = NULL;
    log_line(x, how == MHD_REQUEST_TERMINATED_COMPLETED_OK && !x->lost);
    completion_close(x->completion);
    if (x->tree) drop_tree(h, x->tree);
    drop_body(x);
    str_free(&x->events);
    pthread_mutex_lock(&h->lock);
    if (x->asked) h->answering--;
    x->conn->answering = false;
    x->conn->since = clock_now();
    pthread_mutex_unlock(&h->lock);
    free(x);
}

// --- connections ---------------------------------------------------------------------------------

static void add_conn(struct http *h, int fd, void **context) {
    struct conn *c = mem_alloc(sizeof *c);
    *context = c;
    c->fd = fd;
    c->since = clock_now();
    pthread_mutex_lock(&h->lock);
    c->extra = ++h->conn_count > h->o->max_connections;
    c->next = h->conns;
    if (c->next) c->next->prev = c;
    h->conns = c;
    pthread_mutex_unlock(&h->lock);
}

static void remove_conn(struct http *h, struct conn *c) {
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
    double oldest = clock_now() - (h->draining ? 0 : h->o->receive_timeout);
    for (struct conn *c = h->conns; c; c = c->next)
        if (!c->answering && c->since < oldest) shutdown(c->fd, SHUT_RDWR);
    pthread_mutex_unlock(&h->lock);
}

// --- the daemon ----------------------------------------------------------------------------------

static void log_daemon(void *arg, const char *fmt, va_list args) {
    struct error text = {0};
    (void)arg;
    vfail(&text, fmt, args);
    log_say(LOG_DEBUG, "libmicrohttpd: %s", text.text);
}

struct http *http_open(const struct server_options *o, struct error *e) {
    struct http *h = mem_alloc(sizeof *h);
    h->o = o;
    h->started = (int64_t)time(NULL);
    pthread_mutex_init(&h->lock, NULL);
    h->listener = listen_on(o->host, o->port, &h->address, e);
    if (h->listener >= 0) return h;
    http_close(h);
    return NULL;
}

const char *http_address(const struct http *h) { return str_c(&h->address); }

bool http_serve(struct http *h, struct worker *w, struct error *e) {
    h->worker = w;
    h->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
            MHD_USE_ITC | MHD_USE_ERROR_LOG,
        0, NULL, NULL, handle, h, MHD_OPTION_EXTERNAL_LOGGER, log_daemon, NULL,
        MHD_OPTION_LISTEN_SOCKET, h->listener, MHD_OPTION_NOTIFY_COMPLETED, completed, h,
        MHD_OPTION_NOTIFY_CONNECTION, connection, h, MHD_OPTION_CONNECTION_LIMIT,
        h->o->max_connections + EXTRA, MHD_OPTION_CONNECTION_TIMEOUT, h->o->timeout,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, h->o->max_header, MHD_OPTION_END);
    return h->daemon || fail(e, "%s: libmicrohttpd does not start", http_address(h));
}

void http_drain(struct http *h) {
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
    pthread_mutex_destroy(&h->lock);
    str_free(&h->address);
    free(h);
}
