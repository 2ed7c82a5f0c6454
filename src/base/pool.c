#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

// A decode step's gaps between ops are shorter, as a rule; a wake-up takes 10 to 50.
enum { DEFAULT_SPIN = 100 };

struct worker {
    struct pool *pool;
    pthread_t id;
    int thread;
};

struct pool {
    int most, few, started;
    double spin; // seconds
    struct worker *worker;
    struct cpus *cpus; // [most], of each thread; NULL: anywhere
    bool called;
    pthread_t caller; // of the last run
    // One run. `ticket` is its number in the upper half and the tasks that nobody took in the
    // lower; a thread takes one by lowering it. A run ends when all tasks are done, so a helper
    // that lost its core to other load is not waited for unless it holds a task; and while it
    // holds one, fn, arg and tasks stay those of its run.
    void (*fn)(void *arg, int task, int thread);
    void *arg;
    int tasks;
    atomic_int threads; // that take part: those after them take no task
    atomic_uint_fast64_t ticket;
    char apart[64]; // threads that count what is done don't disturb those that look for work
    atomic_int done;
    atomic_int sleepers; // of the threads that take part
    atomic_bool waiting; // the caller sleeps until all is done
    atomic_bool quit;
    pthread_mutex_t lock;
    pthread_cond_t wake, recall, finished;
};

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool has_task(uint64_t ticket) { return (uint32_t)ticket != 0; }
static bool takes_part(struct pool *p, int thread) {
    return thread < atomic_load_explicit(&p->threads, memory_order_relaxed);
}

static void tell_done(struct pool *p, int tasks, int of) {
    bool last = atomic_fetch_add(&p->done, tasks) + tasks == of;
    if (!last || !atomic_load(&p->waiting)) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_signal(&p->finished);
    pthread_mutex_unlock(&p->lock);
}

// Takes tasks, in rising order, until there is none left. They are counted as done together, at the
// end: until then the run, and with it fn, arg and tasks, is the same.
static void work(struct pool *p, int thread) {
    uint64_t t = atomic_load_explicit(&p->ticket, memory_order_acquire);
    int done = 0, tasks = 0;
    while (has_task(t) && takes_part(p, thread)) {
        if (!atomic_compare_exchange_weak_explicit(&p->ticket, &t, t - 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        tasks = p->tasks;
        p->fn(p->arg, tasks - (int)(uint32_t)t, thread);
        done++;
        t = atomic_load_explicit(&p->ticket, memory_order_acquire);
    }
    if (done) tell_done(p, done, tasks);
}

// --- waiting -------------------------------------------------------------------------------------

static bool wanted(struct pool *p, int thread) {
    return atomic_load(&p->quit) || (has_task(atomic_load(&p->ticket)) && takes_part(p, thread));
}

static bool all_done(struct pool *p, int tasks) {
    return atomic_load_explicit(&p->done, memory_order_acquire) == tasks;
}

// Spins until the thread has a task to take or, of the caller (thread 0), all tasks are done. False
// when that takes too long. The one that it waits for may be on the same CPU, put there as it woke:
// so it lets others run at times, but not as soon as a gap between two ops is over, since other
// load would take the CPU for a few milliseconds.
static bool spin(struct pool *p, int thread, int tasks) {
    enum { LOOKS = 32 };
    static const double PATIENCE = 20e-6;
    double now = clock_now(), end = now + p->spin, yield = now + PATIENCE;
    while (now < end) {
        for (int i = 0; i < LOOKS; i++, relax())
            if (thread ? wanted(p, thread) : all_done(p, tasks)) return true;
        now = clock_now();
        if (now < yield) continue;
        sched_yield();
        yield = now + PATIENCE;
    }
    return false;
}

// Waits until there is a task to take, or the pool closes. It can return early.
static void await_task(struct pool *p, int thread) {
    if (takes_part(p, thread) && spin(p, thread, 0)) return;
    pthread_mutex_lock(&p->lock);
    while (!takes_part(p, thread) && !atomic_load(&p->quit))
        pthread_cond_wait(&p->recall, &p->lock);
    atomic_fetch_add(&p->sleepers, 1);
    if (!wanted(p, thread)) pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->lock);
}

// Waits for the helpers that still have tasks.
static void await_done(struct pool *p, int tasks) {
    if (all_done(p, tasks) || spin(p, 0, tasks)) return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->waiting, true);
    while (atomic_load(&p->done) != tasks) pthread_cond_wait(&p->finished, &p->lock);
    atomic_store(&p->waiting, false);
    pthread_mutex_unlock(&p->lock);
}

// The CPUs were there when the pool was opened. Where they are gone since, threads run anywhere.
static void pin(const struct pool *p, int thread) {
    if (p->cpus) cpus_pin(&p->cpus[thread]);
}

static void *helper(void *arg) {
    struct worker *w = arg;
    pin(w->pool, w->thread);
    while (!atomic_load(&w->pool->quit)) {
        await_task(w->pool, w->thread);
        work(w->pool, w->thread);
    }
    return NULL;
}

static void wake(struct pool *p, pthread_cond_t *cond) {
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(cond);
    pthread_mutex_unlock(&p->lock);
}

// --- opening -------------------------------------------------------------------------------------

static int default_threads(const struct cpus *cpus) {
    int list[CPUS_MOST], cores = cpus_list(cpus, list);
    double quota = cpus_quota("/sys/fs/cgroup", "/proc/self/cgroup");
    int worth = quota < CPUS_MOST ? (int)quota + (quota > (int)quota) : CPUS_MOST;
    int threads = worth > 0 && worth < cores ? worth : cores;
    return threads > 0 ? threads : 1;
}

// Which CPUs each thread gets.
static bool place(struct pool *p, const struct pool_options *opt, const struct cpus *cpus,
                  struct error *e) {
    struct cpus allowed = cpus_allowed();
    int list[CPUS_MOST], n = cpus_count(cpus);
    if (!cpus_within(cpus, &allowed))
        return fail(e, "the CPUs that threads shall run on are not all CPUs that this process may "
                       "use (--cpu-mask, --cpu-range; taskset -p tells which those are)");
    if (p->most > n)
        return fail(e,
                    "%d threads for %d CPU%s: each needs one (--threads, --threads-batch; "
                    "--cpu-mask, --cpu-range)",
                    p->most, n, plural(n));
    cpus_list(cpus, list);
    p->cpus = mem_array((size_t)p->most, sizeof *p->cpus);
    for (int i = 0; i < p->most; i++) {
        if (opt->strict)
            p->cpus[i].bit[list[i] / 64] = (uint64_t)1 << (list[i] % 64);
        else
            p->cpus[i] = *cpus;
    }
    return true;
}

static bool start(struct pool *p, struct error *e) {
    for (int i = 1; i < p->most; i++) {
        p->worker[i] = (struct worker){.pool = p, .thread = i};
        int err = pthread_create(&p->worker[i].id, NULL, helper, &p->worker[i]);
        if (err)
            return fail(e, "cannot start thread %d of %d: %s (lower --threads)", i + 1, p->most,
                        strerror(err));
        p->started++;
    }
    return true;
}

static bool enough(const struct pool *p, struct error *e) {
    return p->most >= p->few ||
           fail(e, "%d threads for many rows are fewer than the %d for one (--threads-batch)",
                p->most, p->few);
}

struct pool *pool_open(const struct pool_options *opt, struct error *e) {
    struct cpus cpus = opt->cpus;
    bool pins = cpus_count(&cpus) > 0 || opt->strict;
    if (!cpus_count(&cpus)) cpus = cpus_allowed();
    struct pool *p = mem_alloc(sizeof *p);
    p->few = opt->threads > 0 ? opt->threads : default_threads(&cpus);
    p->most = opt->most > 0 ? opt->most : p->few;
    p->spin = opt->spin < 0 ? 0 : 1e-6 * (opt->spin ? opt->spin : DEFAULT_SPIN);
    p->worker = mem_array((size_t)p->most, sizeof *p->worker);
    atomic_store(&p->threads, p->most);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->recall, NULL);
    pthread_cond_init(&p->finished, NULL);
    if (enough(p, e) && (!pins || place(p, opt, &cpus, e)) && start(p, e)) return p;
    pool_close(p);
    return NULL;
}

void pool_close(struct pool *p) {
    if (!p) return;
    atomic_store(&p->quit, true);
    wake(p, &p->wake);
    wake(p, &p->recall);
    for (int i = 1; i <= p->started; i++) pthread_join(p->worker[i].id, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_cond_destroy(&p->recall);
    pthread_cond_destroy(&p->finished);
    pthread_mutex_destroy(&p->lock);
    free(p->worker);
    free(p->cpus);
    free(p);
}

int pool_threads(const struct pool *p) {
    return atomic_load_explicit(&p->threads, memory_order_relaxed);
}

void pool_use(struct pool *p, bool most) {
    int threads = most ? p->most : p->few;
    if (threads == pool_threads(p)) return;
    atomic_store(&p->threads, threads);
    wake(p, &p->recall);
}

static void pin_caller(struct pool *p) {
    pthread_t self = pthread_self();
    if (p->called && pthread_equal(self, p->caller)) return;
    p->called = true;
    p->caller = self;
    pin(p, 0);
}

void pool_run(struct pool *p, int tasks, void (*fn)(void *arg, int task, int thread), void *arg) {
    if (p->cpus) pin_caller(p);
    if (pool_threads(p) == 1 || tasks <= 1) {
        for (int t = 0; t < tasks; t++) fn(arg, t, 0);
        return;
    }
    p->fn = fn;
    p->arg = arg;
    p->tasks = tasks;
    atomic_store_explicit(&p->done, 0, memory_order_relaxed);
    uint64_t run = (atomic_load_explicit(&p->ticket, memory_order_relaxed) >> 32) + 1;
    atomic_store(&p->ticket, run << 32 | (uint32_t)tasks);
    if (atomic_load(&p->sleepers)) wake(p, &p->wake);
    work(p, 0);
    await_done(p, tasks);
}
