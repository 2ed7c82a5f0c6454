#include "server/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    // Seconds until a peer that is silent is asked whether it is there, between questions, and how
    // many; and milliseconds that sent bytes may go unconfirmed. Who vanished without a word is
    // noticed by these, and its answer cancelled. Connections have them from their listener.
    PROBE_AFTER = 30,
    PROBE_EACH = 10,
    PROBES = 3,
    UNCONFIRMED_MS = 60000,
};

static void set(int fd, int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof value);
}

static void probe_peers(int fd) {
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
#ifdef TCP_USER_TIMEOUT
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, PROBE_AFTER);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_EACH);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, UNCONFIRMED_MS);
#endif
}

// Closes fd; errno stays.
static int give_up(int fd) {
    int err = errno;
    close(fd);
    errno = err;
    return -1;
}

static int try_address(const struct addrinfo *a, bool shared) {
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    if (fd < 0) return -1;
    // A server that was just stopped leaves connections that linger; its address is free all the
    // same.
    set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (shared) set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    probe_peers(fd);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
    return give_up(fd);
}

static socklen_t size_of(const struct sockaddr *a) {
    return a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

void address_host(struct str *out, const struct sockaddr *a) {
    char host[64]; // of numbers, and of an IPv6 scope
    if (!a || a->sa_family == AF_UNIX) {
        str_puts(out, "unix");
        return;
    }
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
    address_host(address, a);
    str_printf(address, ":%s", port);
}

// --- a file --------------------------------------------------------------------------------------

bool listen_is_file(const char *host) { return sv_ends(sv(host), sv(".sock")); }

// A socket's file that nobody listens on any more is removed. False: the name is taken.
static bool make_room(const char *path, const struct sockaddr_un *a, struct error *e) {
    struct stat st;
    if (lstat(path, &st) != 0) return true;
    if (!S_ISSOCK(st.st_mode)) return fail(e, "--host %s: there is a file that is no socket", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return fail(e, "--host %s: %s", path, strerror(errno));
    bool served = connect(fd, (const struct sockaddr *)a, sizeof *a) == 0 || errno != ECONNREFUSED;
    close(fd);
    if (served) return fail(e, "--host %s: another server listens there", path);
    return unlink(path) == 0 || fail(e, "--host %s: %s", path, strerror(errno));
}

// Nobody can connect before listen, so the file has its mode by then.
static int listen_on_file(const char *path, struct str *address, struct error *e) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n >= sizeof a.sun_path) {
        fail(e, "--host %s: a socket's path has at most %zu bytes", path, sizeof a.sun_path - 1);
        return -1;
    }
    memcpy(a.sun_path, path, n);
    if (!make_room(path, &a, e)) return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && (bind(fd, (const struct sockaddr *)&a, sizeof a) != 0 ||
                    chmod(path, 0660) != 0 || listen(fd, SOMAXCONN) != 0))
        fd = give_up(fd);
    if (fd < 0)
        fail(e, "cannot listen on %s: %s (--host)", path, strerror(errno));
    else
        str_puts(address, path);
    return fd;
}

int listen_on(const char *host, int port, bool shared, struct str *address, struct error *e) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char service[16];
    if (listen_is_file(host)) return listen_on_file(host, address, e);
    snprintf(service, sizeof service, "%d", port);
    int err = getaddrinfo(host, service, &hints, &list);
    if (err) {
        fail(e, "--host %s: %s", host, gai_strerror(err));
        return -1;
    }
    int fd = -1;
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) fd = try_address(a, shared);
    if (fd < 0)
        fail(e, "cannot listen on %s, port %d: %s (--host, --port)", host, port, strerror(errno));
    else
        tell_address(fd, address);
    freeaddrinfo(list);
    return fd;
}
