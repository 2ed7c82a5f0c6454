// How long the parts of an answer took, as llama-server tells it.
#ifndef SERVER_TIMINGS_H
#define SERVER_TIMINGS_H

#include "base/str.h"
#include "server/worker.h"

// "timings":{...} of an answer that has `made` tokens.
void timings_write(struct str *out, const struct job_facts *f, size_t made);
// "prompt_progress":{...} of a prompt of `total` tokens.
void timings_progress(struct str *out, const struct job_facts *f, size_t total);

#endif
