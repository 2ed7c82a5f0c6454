// The engine's thread: it loads the model and then alone steps the engine. Other threads hand it
// jobs, which the engine batches, and wait for what comes of them.
//
//   worker_start - LOADING - READY - (worker_stop) - STOPPED
//                     \________/\___ FAILED
#ifndef SERVER_WORKER_H
#define SERVER_WORKER_H

#include "engine/text.h"

struct worker;
struct job; // one request on its way; belongs to the thread that submitted it

// What came of one of a job's answers since the last time.
struct job_news {
    size_t choice;
    struct ids ids;
    struct chance *chance; // [chances] where the request asked for them: of each id first its own,
    size_t chances, cap;   // whose `id` is the number of the likeliest, which come after it
    enum finish finish;    // FINISH_STOP: the last of ids, or of those before, is the stop id
};
void job_news_free(struct job_news *n);

enum worker_state { WORKER_LOADING, WORKER_READY, WORKER_FAILED, WORKER_STOPPED };

// Begins to load path. queue: jobs that may wait for one of opt->sequences places. Strings in opt,
// and path, must live as long as the worker.
struct worker *worker_start(const char *path, const struct engine_options *opt, int64_t queue,
                            struct error *e);
// why, which may be NULL, gets the reason of WORKER_FAILED.
enum worker_state worker_state(struct worker *w, struct error *why);
// Once the worker was READY, until worker_close. Only its parts that never change may be used: the
// tokenizer, the templates, the defaults, engine_info.
const struct text_model *worker_model(const struct worker *w);
// Ends every job with FINISH_CANCELLED, and the thread. Jobs stay valid. The step that runs, or the
// loading, is waited for.
void worker_stop(struct worker *w);
// Stops and frees; every job must be closed by then. NULL is fine.
void worker_close(struct worker *w);

// What runs in one of the engine's places, or did last.
struct place {
    bool busy;
    int64_t number;                     // the engine's; 0: nothing yet
    int64_t prompt, cached, done, made; // tokens, as in struct job_facts
    int64_t left;                       // that the answer may still have; -1: no limit of its own
    char *about;                        // of worker_submit
};
// All of them, once the worker was READY; the caller frees them.
struct place *worker_places(struct worker *w, size_t *n);
void worker_places_free(const struct worker *w, struct place *p); // NULL is fine

// From now on, what the places hold is kept for worker_tokens. Before the worker is READY.
void worker_keep_tokens(struct worker *w);
// Appends the tokens of what ran last in a place, with its prompt. False: something runs there now.
bool worker_tokens(struct worker *w, size_t place, struct ids *out);

struct worker_stats {
    struct engine_stats engine;
    int64_t running, waiting; // answers
    int64_t ended, made;      // answers that are over, and tokens of all answers
};
struct worker_stats worker_stats(struct worker *w);

// Answers that can be made or wait at once, which is the most that one request may have.
size_t worker_most(const struct worker *w);
struct order {
    struct request request;   // but for its prompt
    const struct ids *prompt; // [prompts]
    size_t prompts;
    size_t choices;    // answers to each prompt, which differ in their seeds: the request's and
                       // those after it
    const char *about; // what worker_places tells of it, or NULL
    bool steps;        // job_wait returns too when a step has worked at its prompts
};
// Its arrays are copied, but for those of its sampling, which must be there until job_close. The
// answers' numbers count those of the first prompt first. NULL with *full set when the queue is
// full, else when the worker isn't READY.
struct job *worker_submit(struct worker *w, const struct order *o, bool *full);
// After waiting at most ms milliseconds for some, the news of one answer; false: there are none.
// FINISH_CANCELLED without job_cancel: the worker stopped or failed. An answer's end is told once.
bool job_wait(struct job *j, int ms, struct job_news *out);
// Tokens of the prompts that the caches held; known once ids came.
int64_t job_cached(struct job *j);
// How far an answer is.
struct job_facts {
    int64_t place;  // of the engine's, where it runs or ran; -1: it waits
    int64_t cached; // tokens of its prompt that the caches held when it began
    int64_t done;   // tokens of its prompt that the caches hold
    int64_t made;   // tokens of the answer
    // clock_now when it got its place, at the latest step of its prompt (which gives the first
    // token), at its latest token; 0: not yet
    double began, prompted, last;
};
struct job_facts job_facts(struct job *j, size_t choice);
void job_cancel(struct job *j, size_t choice);
void job_cancel_all(struct job *j);
void job_close(struct job *j); // cancels it if it runs; NULL is fine

#endif
