// A thread pool for one caller at a time. The caller works too; helpers spin briefly between runs
// and then sleep, so a decode step's hundreds of small ops do not each pay for a wake-up.
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/error.h"

struct pool;

// threads counts the caller; 0 means one a physical core that this process may use.
struct pool *pool_open(int threads, struct error *e);
void pool_close(struct pool *p); // NULL is fine
int pool_threads(const struct pool *p);

// Calls fn(arg, task, thread) for every task in [0, tasks), spread over the threads, and returns
// when all are done. thread is in [0, pool_threads). Tasks are handed out in rising order.
void pool_run(struct pool *p, int tasks, void (*fn)(void *arg, int task, int thread), void *arg);

#endif
