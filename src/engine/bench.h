// Passes of a known shape over the model, timed, and what they cannot do without. For mlxcel bench:
// nothing else may be going on in the engine.
#ifndef ENGINE_BENCH_H
#define ENGINE_BENCH_H

#include "engine/engine.h"

// Sequences that hold `depth` tokens each take `tokens` more: as prompts, all together in steps as
// large as the engine's batch, with the logits of the last; or generating, one token a step, each
// sampled from the logits before it.
struct pass {
    int64_t sequences, depth, tokens; // tokens > 0; depth + tokens + 1 is within the context
    bool generate;
    const struct sampling *sampling; // NULL: the likeliest
};

// Fills the caches up to the depth, then times the rest. Sampling is part of it.
bool engine_time(struct engine *e, const struct pass *p, double *seconds, struct error *err);

// The least that the timed part must do: bytes moved (each step reads every matrix once, and each
// key and value that its rows see once), and operations (a multiply-add is two).
struct pass_cost {
    double bytes, ops;
};
struct pass_cost engine_cost(const struct engine *e, const struct pass *p);

// What the engine's device can do at best.
bool engine_measure(struct engine *e, struct device_speed *out, struct error *err);

#endif
