// A thread pool for one caller at a time. The caller works too; helpers spin briefly between runs
// and then sleep, so a decode step's hundreds of small ops do not each pay for a wake-up. Nobody is
// waited for who holds no task: a helper whose core does something else only helps less.
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/args.h"
#include "base/cpus.h"

struct pool;

struct pool_options {
    int threads;      // counting the caller; 0: see pool_open
    int most;         // after pool_use(p, true), no fewer; 0: as many
    int spin;         // microseconds of looking for work before sleeping; 0: 100; less: none
    struct cpus cpus; // where threads run; none: wherever the system puts them
    bool strict;      // each thread on one CPU of its own, physical cores first
};

// Without a number of threads there is one a physical core that this process may use (of opt->cpus,
// if there are any), but no more than its control group allows it CPUs' worth of time. More threads
// than CPUs where opt says which, or CPUs that this process may not use, are an error.
struct pool *pool_open(const struct pool_options *opt, struct error *e);
void pool_close(struct pool *p);        // NULL is fine
int pool_threads(const struct pool *p); // of the next run

// Whether the next runs get opt->most threads, as they do from the start, or opt->threads: reading
// memory takes fewer than arithmetic does.
void pool_use(struct pool *p, bool most);

// Calls fn(arg, task, thread) for every task in [0, tasks), spread over the threads, and returns
// when all are done. thread is in [0, pool_threads). Tasks are handed out in rising order.
void pool_run(struct pool *p, int tasks, void (*fn)(void *arg, int task, int thread), void *arg);

// The command line's: --threads is each program's own, the rest is this group (pool_args.c).
extern const struct arg_group pool_arg_group;
bool pool_read_options(const struct args *a, struct pool_options *opt, struct error *e);

#endif
