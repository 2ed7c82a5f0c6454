// Shared by the engine's own files.
#ifndef ENGINE_PARTS_H
#define ENGINE_PARTS_H

#include "checkpoint/config.h"
#include "checkpoint/store.h"
#include "checkpoint/weights.h"
#include "engine/engine.h"
#include "engine/schedule.h"
#include "engine/state.h"
#include "models/family.h"

// Rows of the steps that are recorded: each has its own recording.
enum { STEADY_MOST = 64, STEP_LISTS = 6, STEP_ALIGN = 16 };

struct engine {
    struct engine_options opt;
    struct engine_info info;
    struct engine_stats stats;
    struct device *dev;
    struct config *config;
    struct weights *weights;
    struct decoder *decoder;
    struct store store;
    enum dtype cache_k, cache_v;
    struct state_decl *decl; // [layers]
    struct state state;
    struct schedule sched;
    struct context ctx;
    int64_t max_wanted; // rows of logits a step can give
    float *logits;      // [max_wanted, vocab] host
    // What a step reads, in one list that goes to the device at once: inputs there, staged here
    struct tensor inputs;
    int32_t *staged;
    struct tensor chosen; // [batch] I32, device: the greatest logit of each row that is wanted
    int32_t *choice;      // [batch] the same on the host
    struct chance *top;   // of one row
    size_t top_cap;
    bool met[STEADY_MOST + 1]; // steps of so many rows were computed, and are recorded from now on
    bool nan_told;
};

// Scratch and logits for steps that give up to `wanted` rows of logits.
bool engine_fit(struct engine *e, int64_t wanted, struct error *err);

#endif
