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
    struct schedule sched;
    struct context ctx;
    int64_t max_wanted;        // rows of logits a step can give
    float *logits;             // [max_wanted, vocab] host
    struct rows rows;          // where a step's rows go: device tensors of [batch]
    struct tensor rows_wanted; // [batch] I32
    bool nan_told;
};

// Scratch and logits for steps that give up to `wanted` rows of logits.
bool engine_fit(struct engine *e, int64_t wanted, struct error *err);

#endif
