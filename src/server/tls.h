// The files of TLS, looked at before libmicrohttpd gets them, which doesn't tell what is wrong.
#ifndef SERVER_TLS_H
#define SERVER_TLS_H

#include "base/error.h"
#include "base/str.h"

struct pem {
    const char *file;
    struct sv text;
};

// Those of --ssl-key-file and --ssl-cert-file. An error says which is wrong, and how. Without
// GnuTLS in the build there is none.
bool tls_check(const struct pem *key, const struct pem *cert, struct error *e);

#endif
