// What the log tells of the server's work: a line for each request, which holds nothing of what was
// asked or answered.
#ifndef SERVER_REPORT_H
#define SERVER_REPORT_H

#include "server/exchange.h"

// A request is over. client: who sent it. whole: it got all of its answer.
void report_request(const struct exchange *x, const struct str *client, bool whole);
// Its body, for --log-prompts.
void report_body(const struct exchange *x);

#endif
