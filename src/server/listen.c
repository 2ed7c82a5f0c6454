#include "server/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int try_address(const struct addrinfo *a) {
    int yes = 1;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    if (fd < 0) return -1;
    // A server that was just stopped leaves connections that linger; its address is free all the
    // same.
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
    int err = errno;
    close(fd);
    errno = err;
    return -1;
}

static socklen_t size_of(const struct sockaddr *a) {
    return a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

void address_host(struct str *out, const struct sockaddr *a) {
    char host[64]; // of numbers, and of an IPv6 scope
    bool known = getnameinfo(a, size_of(a), host, sizeof host, NULL, 0, NI_NUMERICHOST) == 0;
    str_printf(out, a->sa_family == AF_INET6 ? "[%s]" : "%s", known ? host : "?");
}

static void tell_address(int fd, struct str *address) {
    struct sockaddr_storage name = {0};
    struct sockaddr *a = (struct sockaddr *)&name;
    char port[16] = "?";
    socklen_t size = sizeof name;
    getsockname(fd, a, &size);
    getnameinfo(a, size, NULL, 0, port, sizeof port, NI_NUMERICSERV);
    str_puts(address, "http://");
    address_host(address, a);
    str_printf(address, ":%s", port);
}

int listen_on(const char *host, int port, struct str *address, struct error *e) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    int err = getaddrinfo(host, service, &hints, &list);
    if (err) {
        fail(e, "--host %s: %s", host, gai_strerror(err));
        return -1;
    }
    int fd = -1;
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) fd = try_address(a);
    if (fd < 0)
        fail(e, "cannot listen on %s, port %d: %s (--host, --port)", host, port, strerror(errno));
    else
        tell_address(fd, address);
    freeaddrinfo(list);
    return fd;
}
