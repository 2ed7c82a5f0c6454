// Cross-origin resource sharing: which web pages may read the server's answers.
#ifndef SERVER_CORS_H
#define SERVER_CORS_H

#include "base/args.h"

struct cors {
    // Sent as it is; "*" with credentials: whoever asks; "localhost": pages of this machine; NULL:
    // nothing is sent.
    const char *origins;
    const char *methods, *headers;
    bool credentials;
    struct sv *allowed; // [n] instead of origins: those and no others; owned
    size_t n;
};

extern const struct arg_group cors_arg_group;
bool cors_read(struct cors *c, const struct args *a, struct error *e);
void cors_free(struct cors *c);

// What Access-Control-Allow-Origin says to a page of `origin` (NULL: none was named); NULL: it is
// not sent.
const char *cors_origin(const struct cors *c, const char *origin);
// Whether that depends on the origin, so that caches have to be told.
bool cors_varies(const struct cors *c);

#endif
