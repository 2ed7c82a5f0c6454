// What the log tells of the server's work: a line for each request, and while there is work lines
// of figures. They hold nothing of what was asked or answered.
#ifndef SERVER_REPORT_H
#define SERVER_REPORT_H

#include "server/exchange.h"

// A request is over. client: who sent it. whole: it got all of its answer.
void report_request(const struct exchange *x, const struct str *client, bool whole);
// Its body, for --log-prompts.
void report_body(const struct exchange *x);

// The figures of the latest line; at first zero, of the time when the server began.
struct figures {
    double at; // on clock_now
    struct worker_stats stats;
};
// To be called often; speaks every `interval` seconds in which something was done; 0: never.
void report_figures(struct figures *last, struct worker *w, unsigned interval);

#endif
