#include "server/worker.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
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
    struct place *place; // [sequences] what ran there last; NULL: nothing could yet
    bool keep;
    struct ids *kept; // [sequences] its tokens, where they are kept
    struct engine_stats stats;
    int64_t made, ended; // tokens of answers, and answers, in all
};

struct track {
    int64_t number; // in the engine; 0: not there yet
    bool cancel, told;
    bool runs;            // it has a place
    struct job_news news; // not taken yet
    struct job_facts facts;
    struct ids all; // of the answer, where they are kept
};

struct asked {
    struct request request; // for the engine, over these arrays
    int32_t *prompt;
    int64_t cached; // of its tokens
};

struct job {
    struct worker *worker;
    struct job *next;
    pthread_cond_t news;
    struct asked *asked; // [prompts]
    size_t prompts;
    int32_t *stop_ids;
    struct track *track; // [tracks] the answers to the first prompt, then to the next
    size_t tracks, running, last;
    bool cancel, closed; // closed: nobody waits for it
    bool steps, moved;   // moved: a step that is not told of
    char *about;
};

static size_t count_places(const struct worker *w) {
    return (size_t)engine_info(w->model.engine)->sequences;
}

void job_news_free(struct job_news *n) {
    ids_free(&n->ids);
    free(n->chance);
}

static void job_free(struct job *j) {
    pthread_cond_destroy(&j->news);
    for (size_t i = 0; i < j->prompts; i++) free(j->asked[i].prompt);
    free(j->asked);
    free(j->stop_ids);
    free(j->about);
    for (size_t i = 0; i < j->tracks; i++) {
        job_news_free(&j->track[i].news);
        ids_free(&j->track[i].all);
    }
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

// The prompt that an answer is to.
static struct asked *asked_of(const struct job *j, const struct track *t) {
    return &j->asked[(size_t)(t - j->track) / (j->tracks / j->prompts)];
}

// What is there to tell of an answer that has a place.
static void describe(const struct job *j, const struct track *t, struct place *out) {
    const struct request *r = &asked_of(j, t)->request;
    int64_t made = t->facts.made;
    *out = (struct place){
        .busy = t->news.finish == FINISH_NOT,
        .number = t->number,
        .prompt = (int64_t)r->n,
        .cached = asked_of(j, t)->cached,
        .done = t->facts.done,
        .made = made,
        .left = r->max_new < 0      ? -1
                : r->max_new > made ? r->max_new - made
                                    : 0,
        .about = mem_text(j->about),
    };
}

// What the caches hold of it: the last token was not computed.
static void keep_tokens(struct ids *kept, const struct request *r, const struct ids *answer) {
    kept->n = 0;
    ids_add(kept, r->prompt, r->n);
    if (answer->n) ids_add(kept, answer->id, answer->n - 1);
}

static void end_track(struct worker *w, struct job *j, struct track *t, enum finish f) {
    t->news.finish = f;
    t->runs = false;
    w->n--;
    w->ended++;
    if (t->facts.place >= 0) {
        struct place *p = &w->place[t->facts.place];
        free(p->about);
        describe(j, t, p);
        if (w->keep) keep_tokens(&w->kept[t->facts.place], &asked_of(j, t)->request, &t->all);
    }
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
    size_t each = j->tracks / j->prompts;
    for (size_t i = 0; i < j->tracks && !why.set; i++) {
        const struct request *r = &j->asked[i / each].request;
        struct sampling sampling = r->sampling;
        sampling.seed += i % each;
        j->track[i].number =
            i % each
                ? engine_fork(w->model.engine, j->track[i / each * each].number, &sampling, &why)
                : engine_submit(w->model.engine, r, &why);
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

// The track has a place since the step that began at `began`.
static void settle(struct track *t, int64_t place, double began) {
    if (place < 0) return;
    t->facts.place = place;
    if (t->facts.began <= 0) t->facts.began = began;
}

// Of a prompt's answers, the first one tells: the others share what that one computed.
static void keep_cached(const struct job *j, const struct track *t, int64_t cached) {
    if ((size_t)(t - j->track) % (j->tracks / j->prompts) == 0) asked_of(j, t)->cached = cached;
}

static void take_token(struct worker *w, struct job *j, struct track *t, int32_t id, double now) {
    struct job_facts *f = &t->facts;
    ids_push(&t->news.ids, id);
    if (w->keep) ids_push(&t->all, id);
    f->done = (int64_t)asked_of(j, t)->request.n;
    f->made++;
    f->last = now;
    if (f->made == 1) f->prompted = now;
    w->made++;
}

// began: of the step that the events are of.
static void deliver(struct worker *w, double began) {
    struct event event;
    double now = clock_now();
    while (engine_event(w->model.engine, &event)) {
        struct job *j;
        struct track *t = track_of(w, event.request, &j);
        if (!t) continue;
        settle(t, event.place, began);
        keep_cached(j, t, event.cached);
        if (event.id >= 0) take_token(w, j, t, event.id, now);
        if (event.id >= 0 && j->asked->request.chances) add_chances(&t->news, &event);
        if (event.finish == FINISH_LENGTH && !t->facts.made) { // only the prompt was asked for
            t->facts.done = (int64_t)asked_of(j, t)->request.n;
            t->facts.prompted = now;
        }
        if (event.finish != FINISH_NOT)
            end_track(w, j, t, event.finish);
        else if (!j->closed)
            pthread_cond_signal(&j->news);
    }
}

// Who has a place after the step that began at `began`, and how far their prompts are.
static void watch(struct worker *w, double began) {
    double now = clock_now();
    for (struct job *j = w->jobs; j; j = j->next) {
        for (size_t i = 0; i < j->tracks; i++) {
            struct track *t = &j->track[i];
            struct progress p;
            t->runs = t->number && engine_progress(w->model.engine, t->number, &p) && p.place >= 0;
            if (!t->runs) continue;
            settle(t, p.place, began);
            keep_cached(j, t, (int64_t)p.cached);
            if (t->facts.made || t->facts.done == (int64_t)p.done) continue;
            t->facts.done = (int64_t)p.done;
            t->facts.prompted = now;
            j->moved = j->steps;
            if (j->moved && !j->closed) pthread_cond_signal(&j->news);
        }
    }
}

static void serve(struct worker *w) {
    struct error why = {0};
    w->place = mem_array(count_places(w), sizeof *w->place);
    w->kept = mem_array(count_places(w), sizeof *w->kept);
    while (!w->stop && !why.set) {
        hand_over(w);
        if (!engine_busy(w->model.engine)) {
            pthread_cond_wait(&w->work, &w->lock);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        double began = clock_now();
        bool ok = engine_step(w->model.engine, &why);
        pthread_mutex_lock(&w->lock);
        w->stats = engine_stats(w->model.engine);
        if (!ok) continue;
        deliver(w, began);
        watch(w, began);
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

struct place *worker_places(struct worker *w, size_t *n) {
    struct place *out = mem_array(*n = count_places(w), sizeof *out);
    pthread_mutex_lock(&w->lock);
    for (const struct job *j = w->jobs; j; j = j->next)
        for (size_t i = 0; i < j->tracks; i++) {
            const struct track *t = &j->track[i];
            if (t->runs && t->news.finish == FINISH_NOT) describe(j, t, &out[t->facts.place]);
        }
    for (size_t i = 0; i < *n && w->place; i++) {
        if (out[i].number) continue;
        out[i] = w->place[i];
        out[i].about = mem_text(w->place[i].about);
    }
    pthread_mutex_unlock(&w->lock);
    return out;
}

void worker_places_free(const struct worker *w, struct place *p) {
    for (size_t i = 0; p && i < count_places(w); i++) free(p[i].about);
    free(p);
}

void worker_keep_tokens(struct worker *w) {
    pthread_mutex_lock(&w->lock);
    w->keep = true;
    pthread_mutex_unlock(&w->lock);
}

bool worker_tokens(struct worker *w, size_t place, struct ids *out) {
    bool busy = false;
    pthread_mutex_lock(&w->lock);
    for (const struct job *j = w->jobs; j; j = j->next)
        for (size_t i = 0; i < j->tracks; i++)
            busy |= j->track[i].runs && j->track[i].facts.place == (int64_t)place;
    if (!busy) ids_add(out, w->kept[place].id, w->kept[place].n);
    pthread_mutex_unlock(&w->lock);
    return !busy;
}

struct worker_stats worker_stats(struct worker *w) {
    struct worker_stats s = {0};
    pthread_mutex_lock(&w->lock);
    s.engine = w->stats;
    s.made = w->made;
    s.ended = w->ended;
    for (const struct job *j = w->jobs; j; j = j->next)
        for (size_t i = 0; i < j->tracks; i++) {
            if (j->track[i].news.finish != FINISH_NOT) continue;
            *(j->track[i].runs ? &s.running : &s.waiting) += 1;
        }
    pthread_mutex_unlock(&w->lock);
    return s;
}

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
    worker_places_free(w, w->place);
    for (size_t i = 0; w->kept && i < count_places(w); i++) ids_free(&w->kept[i]);
    free(w->kept);
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

static struct job *job_open(struct worker *w, const struct order *o) {
    struct job *j = mem_alloc(sizeof *j);
    j->worker = w;
    j->tracks = j->running = o->prompts * o->choices;
    j->track = mem_array(j->tracks, sizeof *j->track);
    for (size_t i = 0; i < j->tracks; i++) j->track[i].facts.place = -1;
    j->about = mem_text(o->about);
    j->steps = o->steps;
    j->stop_ids = copy_ids(o->request.stop_ids, o->request.stop_count);
    j->prompts = o->prompts;
    j->asked = mem_array(j->prompts, sizeof *j->asked);
    for (size_t i = 0; i < j->prompts; i++) {
        struct asked *a = &j->asked[i];
        a->request = o->request;
        a->request.prompt = a->prompt = copy_ids(o->prompt[i].id, o->prompt[i].n);
        a->request.n = o->prompt[i].n;
        a->request.stop_ids = j->stop_ids;
    }
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&j->news, &attr);
    pthread_condattr_destroy(&attr);
    return j;
}

struct job *worker_submit(struct worker *w, const struct order *o, bool *full) {
    struct job *j = NULL;
    size_t choices = o->prompts * o->choices;
    pthread_mutex_lock(&w->lock);
    *full = choices > w->most || w->n > w->most - choices;
    if (!*full && w->state == WORKER_READY) {
        j = job_open(w, o);
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
    while (!(t = with_news(j)) && !j->moved && !err)
        err = pthread_cond_timedwait(&j->news, &j->worker->lock, &until);
    j->moved = false;
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

struct job_facts job_facts(struct job *j, size_t choice) {
    pthread_mutex_lock(&j->worker->lock);
    struct job_facts facts = j->track[choice].facts;
    facts.cached = asked_of(j, &j->track[choice])->cached;
    pthread_mutex_unlock(&j->worker->lock);
    return facts;
}

int64_t job_cached(struct job *j) {
    pthread_mutex_lock(&j->worker->lock);
    int64_t cached = 0;
    for (size_t i = 0; i < j->prompts; i++) cached += j->asked[i].cached;
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
