// HTTP, by libmicrohttpd: a listening socket, a thread for each connection, limits, keys and a log
// line for each request. Connections' threads parse, submit, wait and write; they compute
// nothing.
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "server/options.h"
#include "server/worker.h"

struct http;

// Listens; clients that come wait until http_serve. o must outlive it.
struct http *http_open(const struct server_options *o, struct error *e);
const char *http_address(const struct http *h); // "http://127.0.0.1:8080", "unix:/a/b.sock"
// Starts to answer. w must outlive h.
bool http_serve(struct http *h, struct worker *w, struct error *e);
// To be called a few times a second: ends connections whose request is late.
void http_tick(struct http *h);
// From now on, nobody new is let in and idle connections are closed.
void http_drain(struct http *h);
size_t http_running(struct http *h); // requests that are not yet answered
// Ends every connection. The worker must have stopped, so that no request waits for it. NULL is
// fine.
void http_close(struct http *h);

#endif
