// Where a request ends. Proxies and servers that read one header differently can be made to take a
// part of one client's body for the next request (request smuggling), so what could be read in two
// ways is refused, and the connection closed.
#ifndef SERVER_FRAMING_H
#define SERVER_FRAMING_H

#include "server/exchange.h"

// Of the path and its query as they were sent. False with a refusal.
bool framing_check_target(struct exchange *x, const char *target);
// Of the header; version: "HTTP/1.1". False with a refusal.
bool framing_check_header(struct exchange *x, const char *version);

#endif
