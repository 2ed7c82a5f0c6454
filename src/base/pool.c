#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

// A hundred microseconds or so (a pause takes 40 to 140 cycles): longer than the gap between two
// ops.
enum { SPINS = 1 << 11 };

struct worker {
    struct pool *pool;
    pthread_t id;
    int thread;
};

struct pool {
    int threads, started;
    struct worker *worker;
    // One run. `ticket` is its number in the upper half and the tasks that nobody took in the
    // lower; a thread takes one by lowering it. A run ends when all tasks are done, so a helper
    // that lost its core to other load is not waited for unless it holds a task; and while it
    // holds one, fn, arg and tasks stay those of its run.
    void (*fn)(void *arg, int task, int thread);
    void *arg;
    int tasks;
    atomic_uint_fast64_t ticket;
    atomic_int done;
    atomic_int sleepers;
    atomic_bool quit;
    pthread_mutex_t lock;
    pthread_cond_t wake;
};

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool has_task(uint64_t ticket) { return (uint32_t)ticket != 0; }

// Takes tasks, in rising order, until there is none left.
static void work(struct pool *p, int thread) {
    uint64_t t = atomic_load_explicit(&p->ticket, memory_order_acquire);
    while (has_task(t)) {
        if (!atomic_compare_exchange_weak_explicit(&p->ticket, &t, t - 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        p->fn(p->arg, p->tasks - (int)(uint32_t)t, thread);
        atomic_fetch_add_explicit(&p->done, 1, memory_order_release);
        t = atomic_load_explicit(&p->ticket, memory_order_acquire);
    }
}

// Waits until there is a task to take, or the pool closes; spins first, then sleeps.
static void await_task(struct pool *p) {
    for (int i = 0; i < SPINS; i++) {
        if (has_task(atomic_load_explicit(&p->ticket, memory_order_relaxed))) return;
        if (atomic_load_explicit(&p->quit, memory_order_relaxed)) return;
        relax();
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleepers, 1);
    while (!has_task(atomic_load(&p->ticket)) && !atomic_load(&p->quit))
        pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->lock);
}

static void *helper(void *arg) {
    struct worker *w = arg;
    while (!atomic_load(&w->pool->quit)) {
        await_task(w->pool);
        work(w->pool, w->thread);
    }
    return NULL;
}

static void wake_sleepers(struct pool *p) {
    if (atomic_load(&p->sleepers) == 0) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

// Physical cores among the CPUs this process may use: CPUs that are the first of their siblings.
static int default_threads(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int cores = 0;
    for (int c = 0; c < CPU_SETSIZE; c++) {
        if (!CPU_ISSET(c, &set)) continue;
        char path[96];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 c);
        int first = c;
        FILE *f = fopen(path, "r");
        if (f) {
            char line[32]; // "0,4" or "0-1"
            if (fgets(line, sizeof line, f)) first = (int)strtol(line, NULL, 10);
            fclose(f);
        }
        if (first == c || !CPU_ISSET(first, &set)) cores++;
    }
    return cores > 0 ? cores : 1;
}

struct pool *pool_open(int threads, struct error *e) {
    if (threads <= 0) threads = default_threads();
    struct pool *p = mem_alloc(sizeof *p);
    p->threads = threads;
    p->worker = mem_array((size_t)threads, sizeof *p->worker);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    for (int i = 1; i < threads; i++) {
        p->worker[i] = (struct worker){.pool = p, .thread = i};
        int err = pthread_create(&p->worker[i].id, NULL, helper, &p->worker[i]);
        if (err) {
            fail(e, "cannot start thread %d of %d: %s (lower --threads)", i + 1, threads,
                 strerror(err));
            pool_close(p);
            return NULL;
        }
        p->started++;
    }
    return p;
}

void pool_close(struct pool *p) {
    if (!p) return;
    atomic_store(&p->quit, true);
    wake_sleepers(p);
    for (int i = 1; i <= p->started; i++) pthread_join(p->worker[i].id, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p->worker);
    free(p);
}

int pool_threads(const struct pool *p) { return p->threads; }

void pool_run(struct pool *p, int tasks, void (*fn)(void *arg, int task, int thread), void *arg) {
    if (p->threads == 1 || tasks <= 1) {
        for (int t = 0; t < tasks; t++) fn(arg, t, 0);
        return;
    }
    p->fn = fn;
    p->arg = arg;
    p->tasks = tasks;
    atomic_store_explicit(&p->done, 0, memory_order_relaxed);
    uint64_t run = (atomic_load_explicit(&p->ticket, memory_order_relaxed) >> 32) + 1;
    atomic_store(&p->ticket, run << 32 | (uint32_t)tasks);
    wake_sleepers(p);
    work(p, 0);
    for (int spins = 0; atomic_load_explicit(&p->done, memory_order_acquire) < tasks;) {
        relax();
        if (++spins < SPINS / 16) continue;
        sched_yield(); // a helper that holds a task may need this core
        spins = 0;
    }
}
