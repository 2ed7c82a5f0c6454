// What the routes share.
#ifndef SERVER_SERVICE_H
#define SERVER_SERVICE_H

#include "server/budget.h"
#include "server/metrics.h"
#include "server/options.h"
#include "server/responses_store.h"
#include "server/worker.h"

struct service {
    const struct server_options *o;
    struct worker *worker;
    int64_t started;      // seconds since 1970
    struct budget bodies; // bytes of all requests' bodies
    struct budget trees;  // bytes of the JSON that is parsed of them
    struct responses_store *responses;
    struct metrics metrics;
};

#endif
