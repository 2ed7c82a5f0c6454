#include "server/exchange.h"

#include <malloc.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum {
    TREES_LARGE = 16 << 20, // bytes of one body's JSON whose memory is given back to the system
    BLOCK = 4096,           // bytes of a stream that libmicrohttpd takes at once
    PIECE = 1 << 16         // and of a whole answer
};

// --- answers -------------------------------------------------------------------------------------

void exchange_header(struct exchange *x, const char *name, const char *value) {
    if (x->headers < HEADERS_MOST) x->header[x->headers++] = (struct header){name, mem_text(value)};
}

// Which web pages may read the answer.
static void add_origin(struct exchange *x, struct MHD_Response *response) {
    const struct cors *c = &x->service->o->cors;
    const char *origin = MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, "Origin");
    const char *allowed = cors_origin(c, origin);
    if (allowed) MHD_add_response_header(response, "Access-Control-Allow-Origin", allowed);
    if (cors_varies(c)) MHD_add_response_header(response, "Vary", "Origin");
}

static bool queue(struct exchange *x, unsigned status, struct MHD_Response *response,
                  const char *type) {
    x->status = status;
    if (!response) return false;
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "X-Request-Id", x->id);
    MHD_add_response_header(response, "Request-Id", x->id); // what Anthropic's clients look for
    add_origin(x, response);
    for (size_t i = 0; i < x->headers; i++)
        MHD_add_response_header(response, x->header[i].name, x->header[i].value);
    if (status == 401) MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (status == 429 || status == 503) MHD_add_response_header(response, "Retry-After", "1");
    if (status == 405) MHD_add_response_header(response, "Allow", x->allow);
    if (x->hang_up) MHD_add_response_header(response, "Connection", "close");
    enum MHD_Result queued = MHD_queue_response(x->mhd, status, response);
    MHD_destroy_response(response);
    return queued == MHD_YES;
}

// Gives away the next bytes of x->events.
static ssize_t give(struct exchange *x, char *block, size_t size) {
    size_t n = x->events.n - x->sent;
    if (n > size) n = size;
    memcpy(block, x->events.p + x->sent, n);
    x->sent += n;
    return (ssize_t)n;
}

static ssize_t read_whole(void *arg, uint64_t at, char *block, size_t size) {
    struct exchange *x = arg;
    (void)at;
    ssize_t n = give(x, block, size);
    x->given = x->sent == x->events.n;
    return n;
}

// It is read piece by piece, so that it is known whether the client could have all of it.
static struct MHD_Response *response_of(struct exchange *x, struct sv bytes) {
    str_add(&x->events, bytes);
    x->given = !bytes.n;
    return MHD_create_response_from_callback(bytes.n, bytes.n < PIECE ? bytes.n + 1 : PIECE,
                                             read_whole, x, NULL);
}

bool exchange_send(struct exchange *x, unsigned status, const char *type, struct sv bytes) {
    return queue(x, status, response_of(x, bytes), type);
}

bool exchange_page(struct exchange *x, struct sv html, const char *policy) {
    struct MHD_Response *response = response_of(x, html);
    if (response) {
        MHD_add_response_header(response, "Content-Security-Policy", policy);
        MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
        MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
        MHD_add_response_header(response, "Cache-Control", "no-cache");
    }
    return queue(x, MHD_HTTP_OK, response, "text/html; charset=utf-8");
}

bool exchange_json(struct exchange *x, unsigned status, const struct str *json) {
    return exchange_send(x, status, "application/json", str_sv(json));
}

bool exchange_is_anthropic(const struct exchange *x) {
    return sv_starts(str_sv(&x->whole_path), sv("/v1/messages")) ||
           MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, "Anthropic-Version");
}

bool exchange_refuse(struct exchange *x) {
    struct str json = {0};
    const struct api *api = exchange_is_anthropic(x) ? &api_messages : &api_chat;
    if (x->route && x->route->api) api = x->route->api;
    x->refusal.request = x->id;
    api->refusal(&json, &x->refusal);
    bool sent = exchange_json(x, x->refusal.status, &json);
    str_free(&json);
    return sent;
}

bool exchange_ready(struct exchange *x) {
    switch (worker_state(x->service->worker, NULL)) {
    case WORKER_READY: return true;
    case WORKER_LOADING: return refuse(&x->refusal, 503, NULL, "Loading model");
    case WORKER_FAILED:
    case WORKER_STOPPED: break;
    }
    return refuse(&x->refusal, 503, NULL, "the server is stopping");
}

const char *exchange_query(const struct exchange *x, const char *name) {
    return MHD_lookup_connection_value(x->mhd, MHD_GET_ARGUMENT_KIND, name);
}

// --- the body ------------------------------------------------------------------------------------

void exchange_drop_body(struct exchange *x) {
    budget_give(&x->service->bodies, x->body.n);
    str_free(&x->body);
}

static bool take_tree(struct exchange *x) {
    struct budget *trees = &x->service->trees;
    size_t cost = json_cost(str_sv(&x->body));
    if (cost > trees->most)
        return refuse(&x->refusal, 413, NULL,
                      "the body's JSON would take %zu MiB of memory, over %zu (--max-body)",
                      cost >> 20, trees->most >> 20);
    if (!budget_take(trees, cost))
        return refuse(&x->refusal, 503, NULL, "too many large requests at once");
    x->tree = cost;
    return true;
}

void exchange_drop_json(struct exchange *x) {
    size_t cost = x->tree;
    x->tree = 0;
    budget_give(&x->service->trees, cost);
#ifdef __GLIBC__
    if (cost >= TREES_LARGE) malloc_trim(0); // else its threads' heaps keep what was the most
#endif
}

static struct json_object *read_body(struct exchange *x, enum json_type type, const char *what) {
    struct error e = {0};
    if (!x->body.n) refuse(&x->refusal, 400, NULL, "the body must be a JSON %s, not empty", what);
    if (x->refusal.status || !take_tree(x)) return NULL;
    struct json_object *o = json_read_strict(str_sv(&x->body), "the body", &e);
    exchange_drop_body(x);
    if (!e.set && json_object_is_type(o, type)) return o;
    if (e.set)
        refuse(&x->refusal, 400, NULL, "%s", e.text);
    else
        refuse(&x->refusal, 400, NULL, "the body must be a JSON %s, not %s", what, json_kind(o));
    json_object_put(o);
    exchange_drop_json(x);
    return NULL;
}

struct json_object *exchange_read_json(struct exchange *x) {
    return read_body(x, json_type_object, "object");
}

struct json_object *exchange_read_list(struct exchange *x) {
    return read_body(x, json_type_array, "array");
}

// --- the model's answers -------------------------------------------------------------------------

// Why a completion was lost, or is late.
static bool refuse_lost(struct exchange *x, enum completion_news news) {
    if (news == COMPLETION_LATE)
        return refuse(&x->refusal, 504, NULL,
                      "the answer takes too long (--request-timeout, --decode-timeout)");
    switch (worker_state(x->service->worker, NULL)) {
    case WORKER_LOADING:
    case WORKER_READY: return refuse(&x->refusal, 500, NULL, "the engine refuses this request");
    case WORKER_FAILED: return refuse(&x->refusal, 500, NULL, "the engine failed");
    case WORKER_STOPPED: break;
    }
    return refuse(&x->refusal, 503, NULL, "the server is stopping");
}

// Called for each block of a stream. It may wait: the thread is this connection's.
static ssize_t read_events(void *arg, uint64_t at, char *block, size_t size) {
    struct exchange *x = arg;
    (void)at;
    if (x->sent == x->events.n) {
        str_clear(&x->events);
        x->sent = 0;
        if (x->lost) return MHD_CONTENT_READER_END_OF_STREAM;
        enum completion_news news = completion_events(x->completion, x->client, &x->events);
        x->given = news == COMPLETION_END;
        if (x->given) return MHD_CONTENT_READER_END_OF_STREAM;
        if (news == COMPLETION_GONE) return MHD_CONTENT_READER_END_WITH_ERROR;
        if (news == COMPLETION_LOST || news == COMPLETION_LATE) {
            x->lost = true;
            refuse_lost(x, news);
            x->refusal.request = x->id;
            x->route->api->lost(&x->events, x->completion, &x->refusal);
        }
    }
    return give(x, block, size);
}

static bool send_events(struct exchange *x) {
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_events, x, NULL);
    if (response) {
        MHD_add_response_header(response, "Cache-Control", "no-cache");
        MHD_add_response_header(response, "X-Accel-Buffering", "no"); // nginx: pass it on at once
    }
    return queue(x, MHD_HTTP_OK, response, "text/event-stream");
}

static bool send_whole(struct exchange *x) {
    struct str json = {0};
    bool sent = false; // a client that left gets no answer
    enum completion_news news = completion_whole(x->completion, x->client, &json);
    if (news == COMPLETION_LOST || news == COMPLETION_LATE)
        refuse_lost(x, news);
    else if (news == COMPLETION_END)
        x->refusal = x->completion->failed;
    if (x->refusal.status)
        sent = exchange_refuse(x);
    else if (news == COMPLETION_END)
        sent = exchange_json(x, MHD_HTTP_OK, &json);
    str_free(&json);
    return sent;
}

// What isn't needed of the body goes before the answer, which may take long.
static bool start(struct exchange *x) {
    struct json_object *body = exchange_read_json(x);
    if (!body) return false;
    x->completion = completion_start(x->service, x->route->api, body, x->client, &x->refusal);
    json_object_put(body);
    if (!x->completion || !completion_keeps(x->completion)) exchange_drop_json(x);
    return x->completion != NULL;
}

bool exchange_answer(struct exchange *x) {
    return x->completion->ask.stream ? send_events(x) : send_whole(x);
}

bool exchange_complete(struct exchange *x) {
    return start(x) ? exchange_answer(x) : exchange_refuse(x);
}
