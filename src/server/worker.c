#include "server/worker.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"

struct worker {
    const char *path;
    struct engine_options opt;
    struct text_model model; // its engine is the thread's
    size_t most;             // jobs at once
    pthread_t thread;
    pthread_mutex_t lock; // of all below, and of every job
    pthread_cond_t work;  // there may be something for the thread to do
    enum worker_state state;
    struct error why;
    bool stop, joined;
    struct job *jobs; // not finished, in the order they came
    size_t n;
};

struct track {
    int64_t number; // in the engine; 0: not there yet
    bool cancel, told;
    struct job_news news; // not taken yet
};

struct job {
    struct worker *worker;
    struct job *next;
    pthread_cond_t news;
    struct request request; // for the engine, over these arrays
    int32_t *prompt, *stop_ids;
    struct track *track; // [tracks] its answers
    size_t tracks, running, last;
    bool cancel, closed; // closed: nobody waits for it
    int64_t cached;
};

void job_news_free(struct job_news *n) {
    ids_free(&n->ids);
    free(n->chance);
}

static void job_free(struct job *j) {
    pthread_cond_destroy(&j->news);
    free(j->prompt);
    free(j->stop_ids);
    for (size_t i = 0; i < j->tracks; i++) job_news_free(&j->track[i].news);
    free(j->track);
    free(j);
}

// Takes a job off the list. What is left of it is its owner's.
static void end_job(struct worker *w, struct job *j) {
    struct job **at = &w->jobs;
    while (*at != j) at = &(*at)->next;
    *at = j->next;
    if (j->closed)
        job_free(j);
    else
        pthread_cond_signal(&j->news);
}

static void end_track(struct worker *w, struct job *j, struct track *t, enum finish f) {
    t->news.finish = f;
    w->n--;
    if (--j->running == 0)
        end_job(w, j);
    else if (!j->closed)
        pthread_cond_signal(&j->news);
}

static void cancel_job(struct worker *w, struct job *j) {
    struct track *t = j->track;
    for (size_t left = j->running; left; t++) {
        if (t->news.finish != FINISH_NOT) continue;
        left--;
        end_track(w, j, t, FINISH_CANCELLED); // the last may free j
    }
}

// --- the thread; all of these hold the lock ------------------------------------------------------

// The server checked the request before, so what the engine says is for its operator.
static void enter(struct worker *w, struct job *j) {
    struct error why = {0};
    struct sampling sampling = j->request.sampling;
    for (size_t i = 0; i < j->tracks && !why.set; i++, sampling.seed++) {
        int64_t first = j->track[0].number;
        j->track[i].number = first ? engine_fork(w->model.engine, first, &sampling, &why)
                                   : engine_submit(w->model.engine, &j->request, &why);
    }
    if (!why.set) return;
    log_say(LOG_ERROR, "the engine refuses a request: %s", why.text);
    for (size_t i = 0; i < j->tracks; i++)
        if (j->track[i].number) engine_cancel(w->model.engine, j->track[i].number);
    cancel_job(w, j);
}

// New jobs into the engine, cancelled ones out of it: their events end them.
static void hand_over(struct worker *w) {
    for (struct job *j = w->jobs, *next; j; j = next) {
        next = j->next;
        if (!j->track[0].number && j->cancel)
            cancel_job(w, j);
        else if (!j->track[0].number)
            enter(w, j);
        else
            for (size_t i = 0; i < j->tracks; i++)
                if ((j->cancel || j->track[i].cancel) && j->track[i].news.finish == FINISH_NOT)
                    engine_cancel(w->model.engine, j->track[i].number);
    }
}

static void add_chances(struct job_news *n, const struct event *event) {
    n->chance = mem_grow(n->chance, &n->cap, n->chances + 1 + event->tops, sizeof *n->chance);
    n->chance[n->chances++] = (struct chance){(int32_t)event->tops, event->chance};
    for (size_t i = 0; i < event->tops; i++) n->chance[n->chances++] = event->top[i];
}

static struct track *track_of(struct worker *w, int64_t number, struct job **job) {
    for (struct job *j = w->jobs; j; j = j->next)
        for (size_t i = 0; i < j->tracks; i++)
            if (j->track[i].number == number && j->track[i].news.finish == FINISH_NOT) {
                *job = j;
                return &j->track[i];
            }
    return NULL;
}

static void deliver(struct worker *w) {
    struct event event;
    while (engine_event(w->model.engine, &event)) {
        struct job *j;
        struct track *t = track_of(w, event.request, &j);
        if (!t) continue;
        if (t == j->track) j->cached = event.cached; // the prompt's; the others share it
        if (event.id >= 0) ids_push(&t->news.ids, event.id);
        if (event.id >= 0 && j->request.chances) add_chances(&t->news, &event);
        if (event.finish != FINISH_NOT)
            end_track(w, j, t, event.finish);
        else if (!j->closed)
            pthread_cond_signal(&j->news);
    }
}

static void serve(struct worker *w) {
    struct error why = {0};
    while (!w->stop && !why.set) {
        hand_over(w);
        if (!engine_busy(w->model.engine)) {
            pthread_cond_wait(&w->work, &w->lock);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        bool ok = engine_step(w->model.engine, &why);
        pthread_mutex_lock(&w->lock);
        if (ok) deliver(w);
    }
    w->why = why;
}

static void *run(void *arg) {
    struct worker *w = arg;
    struct error why = {0};
    bool ok = text_open(&w->model, w->path, &w->opt, &why);
    pthread_mutex_lock(&w->lock);
    w->why = why;
    w->state = ok ? WORKER_READY : WORKER_FAILED;
    if (ok) serve(w);
    w->state = w->why.set ? WORKER_FAILED : WORKER_STOPPED;
    while (w->jobs) cancel_job(w, w->jobs);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

// --- everyone else -------------------------------------------------------------------------------

struct worker *worker_start(const char *path, const struct engine_options *opt, int64_t queue,
                            struct error *e) {
    struct worker *w = mem_alloc(sizeof *w);
    w->path = path;
    w->opt = *opt;
    w->most = (size_t)(opt->sequences + queue);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->work, NULL);
    int err = pthread_create(&w->thread, NULL, run, w);
    if (!err) return w;
    fail(e, "cannot start the engine's thread: %s", strerror(err));
    w->joined = true;
    worker_close(w);
    return NULL;
}

enum worker_state worker_state(struct worker *w, struct error *why) {
    pthread_mutex_lock(&w->lock);
    enum worker_state state = w->state;
    if (why) *why = w->why;
    pthread_mutex_unlock(&w->lock);
    return state;
}

const struct text_model *worker_model(const struct worker *w) { return &w->model; }
size_t worker_most(const struct worker *w) { return w->most; }

void worker_stop(struct worker *w) {
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
    if (!w->joined) pthread_join(w->thread, NULL);
    w->joined = true;
}

void worker_close(struct worker *w) {
    if (!w) return;
    worker_stop(w);
    text_close(&w->model);
    pthread_cond_destroy(&w->work);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static int32_t *copy_ids(const int32_t *ids, size_t n) {
    int32_t *copy = mem_array(n, sizeof *copy);
    if (n) memcpy(copy, ids, n * sizeof *copy);
    return copy;
}

static struct job *job_open(struct worker *w, const struct request *r, size_t choices) {
    struct job *j = mem_alloc(sizeof *j);
    j->worker = w;
    j->track = mem_array(choices, sizeof *j->track);
    j->tracks = j->running = choices;
    j->request = *r;
    j->request.prompt = j->prompt = copy_ids(r->prompt, r->n);
    j->request.stop_ids = j->stop_ids = copy_ids(r->stop_ids, r->stop_count);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&j->news, &attr);
    pthread_condattr_destroy(&attr);
    return j;
}

struct job *worker_submit(struct worker *w, const struct request *r, size_t choices, bool *full) {
    struct job *j = NULL;
    pthread_mutex_lock(&w->lock);
    *full = choices > w->most || w->n > w->most - choices;
    if (!*full && w->state == WORKER_READY) {
        j = job_open(w, r, choices);
        struct job **end = &w->jobs;
        while (*end) end = &(*end)->next;
        *end = j;
        w->n += choices;
        pthread_cond_signal(&w->work);
    }
    pthread_mutex_unlock(&w->lock);
    return j;
}

static struct timespec after_ms(int ms) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
    return t;
}

// The next answer in turn that has news, or NULL.
static struct track *with_news(struct job *j) {
    for (size_t i = 1; i <= j->tracks; i++) {
        size_t at = (j->last + i) % j->tracks;
        struct track *t = &j->track[at];
        if (!t->news.ids.n && (t->told || t->news.finish == FINISH_NOT)) continue;
        j->last = at;
        return t;
    }
    return NULL;
}

bool job_wait(struct job *j, int ms, struct job_news *out) {
    struct timespec until = after_ms(ms);
    struct track *t = NULL;
    int err = 0;
    pthread_mutex_lock(&j->worker->lock);
    while (!(t = with_news(j)) && !err)
        err = pthread_cond_timedwait(&j->news, &j->worker->lock, &until);
    out->ids.n = out->chances = 0;
    if (t) {
        struct job_news empty = *out;
        *out = t->news;
        out->choice = j->last;
        t->told = out->finish != FINISH_NOT;
        empty.finish = out->finish;
        t->news = empty;
    }
    pthread_mutex_unlock(&j->worker->lock);
    return t != NULL;
}

int64_t job_cached(struct job *j) {
    pthread_mutex_lock(&j->worker->lock);
    int64_t cached = j->cached;
    pthread_mutex_unlock(&j->worker->lock);
    return cached;
}

void job_cancel(struct job *j, size_t choice) {
    pthread_mutex_lock(&j->worker->lock);
    j->track[choice].cancel = true;
    pthread_cond_signal(&j->worker->work);
    pthread_mutex_unlock(&j->worker->lock);
}

void job_cancel_all(struct job *j) {
    pthread_mutex_lock(&j->worker->lock);
    j->cancel = true;
    pthread_cond_signal(&j->worker->work);
    pthread_mutex_unlock(&j->worker->lock);
}

void job_close(struct job *j) {
    if (!j) return;
    struct worker *w = j->worker;
    pthread_mutex_lock(&w->lock);
    bool done = j->running == 0;
    j->cancel = j->closed = true;
    pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
    if (done) job_free(j);
}
