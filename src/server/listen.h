// The socket that a server listens on.
#ifndef SERVER_LISTEN_H
#define SERVER_LISTEN_H

#include "base/error.h"
#include "base/str.h"

// Returns a socket that listens on host (a name or a number) and port (0: any that is free), or -1.
// Appends "http://host:port", with the numbers that it got, to address.
int listen_on(const char *host, int port, struct str *address, struct error *e);

// Appends the number of the address that a peer or a socket has: "127.0.0.1", "[::1]".
struct sockaddr;
void address_host(struct str *out, const struct sockaddr *a);

#endif
