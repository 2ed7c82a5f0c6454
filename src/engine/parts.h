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
enum { STEADY_MOST = 64, STEP_LISTS = 7, STEP_ALIGN = 16 };

// What comes back of the logits of a step: of each row where the greatest is, or what top_logits
// tells; or the rows that were asked for.
enum back { BACK_GREATEST, BACK_BEST, BACK_ASKED };

struct choices {
    enum back back;
    int64_t vocab, best;  // best: how many of each row
    struct tensor logits; // [rows, vocab] of the step, until the next one
    void *on_device;      // what came back, before it did:
    int32_t *greatest;    // [rows]
    float *told;          // [rows, best] logits, [rows, best] I32 ids, [rows, 3] about the others
    float *cooling;       // [rows] for top_logits
    int32_t *id;          // [best] of one row
    float *row;           // [vocab] the one row that was read whole
    int64_t read;         // its number; -1: none
    struct chance *top;   // of one row
    size_t top_cap;
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
    enum dtype cache_k, cache_v;
    struct state_decl *decl; // [layers]
    struct state state;
    struct schedule sched;
    struct context ctx;
    int64_t max_wanted; // rows of logits a step can give
    // What a step reads, in one list that goes to the device at once: inputs there, staged here
    struct tensor inputs;
    int32_t *staged;
    struct choices choices;
    // The logits of steps of so many rows that were computed, which are recorded from now on
    struct tensor steady[BACK_ASKED][STEADY_MOST + 1];
    bool nan_told;
};

// Scratch for steps that give up to `wanted` rows of logits.
bool engine_fit(struct engine *e, int64_t wanted, struct error *err);

// choose.c. For steps after which so many tokens are chosen at most.
bool choices_open(struct choices *c, struct device *d, int64_t vocab, int64_t rows,
                  struct error *err);
void choices_close(struct choices *c, struct device *d);
void choices_plan(struct choices *c, const struct schedule *s); // what is to come back of a step
// Of c->logits. cooling [rows] F32, c->cooling on the device, is used where the best come back.
void choices_compute(struct choices *c, struct context *ctx, struct tensor cooling);
void choices_read(struct choices *c, struct context *ctx);
// Takes a turn's wanted rows, the first of which is *at: logits that the caller asked for, and
// tokens as long as the next row is of the token chosen.
void choices_take(struct engine *e, struct turn *turn, size_t *at);

#endif
