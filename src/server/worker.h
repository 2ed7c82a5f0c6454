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

// r's arrays are copied, but for those of its sampling, which must be there until job_close. NULL
// with *full set when the queue is full, else when the worker isn't READY.
struct job *worker_submit(struct worker *w, const struct request *r, bool *full);
// Appends the ids that came since the last call to out, after waiting at most ms milliseconds for
// some. When the result is FINISH_STOP, the last id of out is the stop id. FINISH_CANCELLED without
// job_cancel: the worker stopped or failed.
enum finish job_wait(struct job *j, int ms, struct ids *out);
// Tokens of the prompt that the caches held; known once ids came.
int64_t job_cached(struct job *j);
void job_cancel(struct job *j);
void job_close(struct job *j); // cancels it if it runs; NULL is fine

#endif
