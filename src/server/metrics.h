// What the worker counts, as Prometheus reads it: llama-server's names, then our own.
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include <pthread.h>

#include "base/str.h"
#include "server/worker.h"

struct metrics {
    pthread_mutex_t lock;
    struct worker_stats before; // at the latest scrape: rates are of the time since
};

void metrics_open(struct metrics *m);
void metrics_close(struct metrics *m);
// Prometheus's text format, version 0.0.4. places: answers that can run at once.
void metrics_write(struct str *out, struct metrics *m, const struct worker_stats *now,
                   int64_t places);

#endif
