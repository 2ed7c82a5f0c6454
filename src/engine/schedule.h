// Which rows of which requests a step computes. Knows requests and state, not the model, so that it
// can be tested without one.
//
// A request waits until there is a place and pages for what it has so far. Rows of requests that
// are being answered go first, then chunks of prompts, in their order: they go as they came, but
// for those of another priority, which may overtake so many. When pages run out, the last request
// gives all of its own back and waits again; what it had computed may still be found when its turn
// comes. So the first request always goes on.
//
//   while (sched_busy(s)) {
//       if (!sched_plan(s)) continue;
//       ... compute s->rows ...
//       for (each of s->turn, and each of its rows from the last that is not drafted)
//           if (!sched_token(s, turn, the token after it)) break;
//       sched_finish(s);
//   }
#ifndef ENGINE_SCHEDULE_H
#define ENGINE_SCHEDULE_H

#include "engine/engine.h"
#include "engine/state.h"

// One request on its way.
struct task {
    int64_t number;
    int64_t priority, order; // tasks go by order: the number, moved by the priority
    int32_t *ids;            // the prompt, then what was generated
    size_t n, cap, prompt;
    size_t done; // tokens that the state holds
    size_t end;  // n may grow to this
    enum finish at_end;
    int32_t *stop;
    size_t stops;
    struct sampler *sampler; // may be NULL
    struct loop loop;
    enum chances chances;
    int64_t tops;
    float *prompt_logits;
    size_t logits_done; // rows of them that are filled
    bool uncached;
    struct digest *chain; // [links] names of the beginnings of ids, a page each
    size_t links, link_cap;
    struct digest before; // the chain's beginning
    bool grown;           // longer than the short context
    int64_t cached;       // tokens that it began with
    size_t known;         // tokens at which others that began the same left it
    size_t common;        // tokens at which others are expected to part from it; 0: not known
    int64_t origin;       // the request that it was forked from, 0: none
    int32_t *draft;       // [drafts] that may follow
    size_t drafts;
    int64_t seq;        // its row of the page tables; -1: it waits
    size_t rows, tries; // of this step: all, and those of them that are drafted
    bool begun;         // was given a place once
    bool over;          // finished in this step
};

// A task's part in one step: its rows [from, from + rows).
struct turn {
    struct task *task;
    size_t from, rows;
    size_t drafts, accepted; // the last rows, of drafted tokens, and how many of them stand
    bool prompt;             // prompt rows, not decode rows
    int32_t held;            // copy of its fixed state as before, -1: none
};

// One step's rows.
struct step_rows {
    int64_t n, runs, wanted;
    int32_t *ids, *index, *seq, *length, *want; // [batch]
    int32_t *run;                               // [batch + 1]
};

struct limits {
    int64_t context, sequences, batch, chunk, drafts;
    int64_t short_context; // a request that grows longer is computed anew; 0: there is no such
};

struct schedule {
    struct limits limits;
    struct state *state;
    struct digest seed;
    struct task **task; // in the order they go, which is that of their coming but for priorities
    size_t tasks, task_cap;
    struct turn *turn; // of the step, in the order of its rows
    size_t turns, turn_cap;
    struct step_rows rows;
    bool *seq_used; // [sequences]
    int64_t last_number;
    int64_t cached, preempted; // in all: tokens found, requests that had to wait again
    struct event *event;       // a queue: [event_at, events)
    size_t event_at, events, event_cap;
    struct chance *chance; // of the events' tops, one after the other; likewise
    size_t chance_at, chances, chance_cap;
};

void sched_open(struct schedule *s, const struct limits *l, struct state *state);
void sched_close(struct schedule *s);

// The request must have been checked. Takes the sampler, which may be NULL.
int64_t sched_submit(struct schedule *s, const struct request *r, struct sampler *sampler);
// A new request with all that `from` has, which takes the sampler.
int64_t sched_fork(struct schedule *s, const struct task *from, struct sampler *sampler);
void sched_cancel(struct schedule *s, int64_t request);
void sched_draft(struct schedule *s, struct task *t, const int32_t *ids, size_t n);
struct task *sched_task(const struct schedule *s, int64_t request); // NULL: it is over
bool sched_busy(const struct schedule *s);
bool sched_event(struct schedule *s, struct event *out);

// The next step's turns and rows. False: there is nothing to compute.
bool sched_plan(struct schedule *s);
// The token after the turn's latest row that counts. True: the next row is of that very token.
bool sched_token(struct schedule *s, struct turn *turn, int32_t id);
// What the latest token's event tells of chances.
void sched_chances(struct schedule *s, float own, const struct chance *top, size_t n);
// Ends the step.
void sched_finish(struct schedule *s);

#endif
