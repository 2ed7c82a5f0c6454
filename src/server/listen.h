// The socket that a server listens on.
#ifndef SERVER_LISTEN_H
#define SERVER_LISTEN_H

#include "base/error.h"
#include "base/str.h"

// Returns a socket that listens on host (a name or a number) and port (0: any that is free), or -1.
// shared: other servers may listen there too, and the system spreads the connections. A host that
// ends with ".sock" is a file instead, which is the owner's and the group's; one that a server left
// behind is replaced. Appends where it is to address, as a peer is told: "127.0.0.1:8080" with the
// numbers that it got, or the file.
int listen_on(const char *host, int port, bool shared, struct str *address, struct error *e);
bool listen_is_file(const char *host);

// Appends the number of the address that a peer or a socket has: "127.0.0.1", "[::1]", "unix".
struct sockaddr;
void address_host(struct str *out, const struct sockaddr *a);

#endif
