// What it costs to hand work to the threads: build/bench_pool [THREADS]
//
// A decode step is some hundreds of runs of a few tasks each, with short serial stretches between.
// The cost of a run is its time less that of its tasks, spread evenly; the median of many counts.
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/pool.h"

enum { RUNS = 4001 };

static void burn(double seconds) {
    for (double began = clock_now(); clock_now() - began < seconds;) continue;
}

static void task(void *arg, int i, int thread) {
    (void)i;
    (void)thread;
    burn(*(double *)arg);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

// Microseconds a run beyond its tasks' share.
static void time_runs(struct pool *p, int tasks, double each, double between) {
    static double cost[RUNS];
    for (int r = 0; r < RUNS; r++) {
        burn(between);
        double began = clock_now();
        pool_run(p, tasks, task, &each);
        cost[r] = 1e6 * (clock_now() - began - each * tasks / pool_threads(p));
    }
    qsort(cost, RUNS, sizeof *cost, by_value);
    printf("%3d tasks of %3.0f us, %4.0f us between:  median %6.2f us, 9 of 10 below %6.2f us\n",
           tasks, each * 1e6, between * 1e6, cost[RUNS / 2], cost[RUNS * 9 / 10]);
}

int main(int argc, char **argv) {
    struct error e = {0};
    struct pool_options opt = {.threads = argc > 1 ? atoi(argv[1]) : 0};
    struct pool *p = pool_open(&opt, &e);
    if (!p) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    int n = pool_threads(p);
    printf("%d threads\n", n);
    time_runs(p, n, 0, 0);
    time_runs(p, n, 0, 5e-6);
    time_runs(p, n, 0, 50e-6);
    time_runs(p, n, 0, 500e-6);
    time_runs(p, 12 * n, 0, 5e-6);
    time_runs(p, 12 * n, 5e-6, 5e-6);
    pool_close(p);
    return 0;
}
