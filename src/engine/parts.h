// Shared by the engine's own files.
#ifndef ENGINE_PARTS_H
#define ENGINE_PARTS_H

#include "checkpoint/config.h"
#include "checkpoint/store.h"
#include "checkpoint/weights.h"
#include "engine/engine.h"
#include "engine/state.h"
#include "models/family.h"

// One request on its way.
struct task {
    int64_t number;
    int32_t *ids; // the prompt, then what was generated
    size_t n, cap, prompt;
    size_t done; // tokens that the state holds
    size_t end;  // n may grow to this
    enum finish at_end;
    int32_t *stop;
    size_t stops;
    struct sampler *sampler;
    float *prompt_logits;
    int64_t seq; // its row of the page tables; -1: it waits
    bool over;   // finished in this step
};

// A task's part in one step: its rows [done, done + rows) of it.
struct turn {
    struct task *task;
    size_t rows;
    bool prompt; // prompt rows, not a decode row
};

// One step's rows on the host, and where they go on the device.
struct inputs {
    int64_t n, runs, wanted;
    int32_t *ids, *pos, *index, *seq, *length, *want; // [batch]
    int32_t *run;                                     // [batch + 1]
    struct rows rows;                                 // device tensors of [batch]
    struct tensor rows_wanted;                        // [batch] I32
};

struct engine {
    struct engine_options opt;
    struct engine_info info;
    struct engine_stats stats;
    struct device *dev;
    struct config *config;
    struct weights *weights;
    struct decoder *decoder;
    struct store store;
    struct state_decl *decl; // [layers]
    struct state state;
    struct context ctx;
    int64_t max_wanted; // rows of logits a step can give
    float *logits;      // [max_wanted, vocab] host
    struct inputs in;
    struct task **task; // in the order they came
    size_t tasks, task_cap;
    struct turn *turn; // of the step, in the order of its rows
    size_t turns, turn_cap;
    bool *seq_used; // [sequences]
    int64_t last_number;
    bool nan_told;
    struct event *event; // a queue: [event_at, events)
    size_t event_at, events, event_cap;
};

// Scratch and logits for steps that give up to `wanted` rows of logits.
bool engine_fit(struct engine *e, int64_t wanted, struct error *err);
void task_free(struct task *t);

#endif
