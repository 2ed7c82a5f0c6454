// One request over HTTP and its answer, as the routes see it. It is its connection's thread's
// alone.
#ifndef SERVER_EXCHANGE_H
#define SERVER_EXCHANGE_H

#include "server/api.h"
#include "server/completion.h"

struct MHD_Connection;
struct conn;
struct exchange;

struct route {
    const char *method;
    const char *path; // without a slash at its end; with one: and anything behind it; empty:
                      // --api-prefix alone
    bool open;        // to everyone, and while the model is loaded
    // Which writes its errors, and its answers if it has some. NULL: the errors of the client's
    // API, as where there is no route.
    const struct api *api;
    // Answers, with one of the functions below. False: it can't be, and the connection is closed.
    bool (*run)(struct exchange *x);
};

enum {
    LOGGED_PATH = 80, // bytes of a path in a log line
    ID_MOST = 129,    // of a request's id, with its end
    HEADERS_MOST = 4  // that a route adds to its answer
};

struct exchange {
    struct service *service;
    const struct route *route; // NULL: none
    struct sv rest;            // of the path, behind the route's
    struct str body;           // exchange_drop_body frees it
    struct refusal refusal;
    unsigned status;               // of the answer
    struct completion *completion; // or NULL

    // What is http.c's and exchange.c's alone.
    struct MHD_Connection *mhd;
    struct conn *conn;
    int client;                         // the connection's descriptor
    char method[16], path[LOGGED_PATH]; // printable
    struct str whole_path;              // without a slash at its end
    char allow[40];                     // the methods that the path takes
    char id[ID_MOST];                   // the client's X-Request-Id, else ours
    struct header {
        const char *name;
        char *value;
    } header[HEADERS_MOST];
    size_t headers;
    double began;
    size_t dropped;   // bytes of the body that were not kept
    bool hang_up;     // the connection ends with the answer
    bool header_read; // the request's header is here
    bool asked;       // the whole request is here
    bool lost;        // its stream had to end early, and says so
    bool unanswered;  // libmicrohttpd gave up, and its header is gone
    bool given;       // libmicrohttpd has all of the answer
    size_t tree;      // bytes that are still taken for the body's JSON
    struct str
        events; // the answer, or what there is of a stream; [sent, n) wait for the connection
    size_t sent;
};

// The answers.
bool exchange_send(struct exchange *x, unsigned status, const char *type, struct sv bytes);
// A document for a browser, which may do what the policy says (Content-Security-Policy).
bool exchange_page(struct exchange *x, struct sv html, const char *policy);
// A header more, for the next of these; name is a constant, value is copied.
void exchange_header(struct exchange *x, const char *name, const char *value);
bool exchange_json(struct exchange *x, unsigned status, const struct str *json);
bool exchange_refuse(struct exchange *x);   // with x->refusal, as the route's API tells it
bool exchange_complete(struct exchange *x); // an answer of the model, whole or as events
bool exchange_answer(struct exchange *x);   // the same, where x->completion has been started

// The body as an object; the caller puts it, and calls exchange_drop_json when that is done. NULL
// with a refusal.
struct json_object *exchange_read_json(struct exchange *x);
struct json_object *exchange_read_list(struct exchange *x); // the same of an array
void exchange_drop_json(struct exchange *x);
void exchange_drop_body(struct exchange *x);
// A query's parameter, NULL where there is none.
const char *exchange_query(const struct exchange *x, const char *name);
bool exchange_is_anthropic(const struct exchange *x); // the client's API; else it is OpenAI's
bool exchange_ready(struct exchange *x); // else the refusal says why the model can't be asked

#endif
