// The engine: a model, the state of many sequences, and the steps that move them on. It knows
// neither text nor a family's name.
//
// Every step is one ragged batch: the decode rows of running requests and chunks of prompts that
// wait, together, under one budget of rows. A request waits until there are pages for its prompt.
// Should they run out later, the latest request waits again, and goes on as if nothing had been.
//
// What requests leave in the caches is used by those that begin with the same tokens: they compute
// only the rest. None of this changes what a request gets.
//
//   engine_submit(e, &request, &err);
//   while (engine_busy(e) && engine_step(e, &err))
//       while (engine_event(e, &event)) use(event.id);
//
// An engine is used by one thread at a time.
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "base/error.h"
#include "compute/compute.h"
#include "engine/loop.h"
#include "engine/sample.h"

struct engine;

struct engine_options {
    const char *device;       // "auto", "cpu"; NULL: auto
    struct pool_options pool; // of the CPU
    enum isa isa;             // ISA_BEST unless a test says otherwise
    enum precision precision;
    // How keys and values are kept: "f16" (or "fp16"), "bf16", "f32", or "q8_0" (or "int8"), 8-bit
    // whole numbers with a scale for each 32. NULL: f16, with PRECISION_F32 f32. What an indexer
    // chooses by is never kept in 8 bits, but in f16.
    const char *cache_k, *cache_v;
    int64_t context;   // tokens a sequence may hold; 0: the model's own, less if memory asks
    int64_t sequences; // at once; 0: 1
    int64_t batch;     // rows a step, at most; 0: 512
    int64_t chunk;     // rows of one prompt in a step, at most; 0: batch
    int64_t tokens;    // that the caches hold of all sequences together, at least one's
                       // context; 0: of each its context, less if memory asks
    int64_t snapshots; // of recurrent state that are kept; 0: some for each sequence
    int64_t drafts;    // tokens of engine_draft that a sequence may try in a step, at most
    bool load_dummy;   // random weights in the shape of config.json: only that file is read
    bool dry;          // know what is needed, load nothing (for inspect): no steps
    // Reads "loading" progress on a terminal: called with bytes done and in all; may be NULL.
    void (*progress)(void *arg, size_t done, size_t total);
    void *progress_arg;
};

// The command line's (engine_args.c): --device and --precision; how the cache is kept; and what
// people know from llama.cpp that no program here has. The options that follow from the first two
// groups, and no others.
extern const struct arg_group engine_device_group, engine_cache_group, engine_other_group;
struct engine_options engine_read_options(const struct args *a);

// path: a checkpoint's folder, or a file in it.
struct engine *engine_open(const char *path, const struct engine_options *opt, struct error *e);
void engine_close(struct engine *e); // NULL is fine

// What the engine is and needs. Bytes are those of the options it was opened with.
struct engine_info {
    const char *family, *family_name; // "llama", "Llama"
    char device[64];
    int64_t layers, hidden, vocab;
    int64_t parameters;
    double bits_per_weight;
    int64_t context;       // tokens a sequence may hold
    int64_t model_context; // what the checkpoint was trained for
    int64_t sequences, batch;
    int64_t cache_tokens;          // that the caches hold of all sequences together
    const char *cache_k, *cache_v; // how they are kept: "f16"
    size_t weight_bytes, state_bytes, scratch_bytes; // needed in all
    size_t fixed_bytes; // of state_bytes: recurrent state and its snapshots
    size_t state_bytes_per_token;
    size_t available_bytes; // before anything was loaded
};
const struct engine_info *engine_info(const struct engine *e);

enum chances {
    CHANCES_NONE,
    CHANCES_LOGITS, // natural logarithms of the probabilities that the logits stand for
    CHANCES_DRAWN   // probabilities of what the sampler drew from
};

struct request {
    const int32_t *prompt; // at least one id
    size_t n;
    int64_t max_new; // tokens to generate, at most; 0 only computes the prompt; -1: as many as the
                     // context holds
    struct sampling sampling;
    const int32_t *stop_ids; // generation ends with one of these
    size_t stop_count;
    struct loop loop;     // ends with FINISH_LOOP where it has begun to go in circles
    enum chances chances; // what each event tells: its token's own, and those of
    int64_t tops;         // so many of the likeliest tokens
    float *prompt_logits; // [n, vocab], filled as the prompt is computed; NULL: not wanted
    uint64_t salt;        // only requests with the same salt share what was computed
    size_t common;        // tokens that other requests are likely to begin with too; 0: not known
    bool uncached;        // this one shares nothing
    int64_t priority;     // lower ones go first: for each less, ahead of ENGINE_OVERTAKES requests
                          // that came before, and no more, so that none waits for ever
};
enum { ENGINE_OVERTAKES = 64, ENGINE_PRIORITY_MOST = 1000 };

enum finish {
    FINISH_NOT,
    FINISH_STOP,
    FINISH_LOOP,
    FINISH_LENGTH,
    FINISH_CONTEXT,
    FINISH_CANCELLED
};
const char *finish_name(enum finish f); // "stop", "length", ... as the OpenAI API says it

struct event {
    int64_t request;
    int64_t place; // of `sequences`, where it runs; -1: it waits
    int32_t id; // the new token, -1 when there is none (the last event of a request has none when
                // it was cancelled or had max_new 0). A stop id is reported, with FINISH_STOP.
    enum finish finish;
    int64_t cached;           // tokens of the prompt that were found in the caches, not computed
    float chance;             // the token's, where request.chances asked for it
    const struct chance *top; // [tops] of the likeliest, best first; valid until the next step
    size_t tops;
};

// Returns the request's number (> 0), or 0 when it is refused: an id outside the vocabulary, a
// prompt longer than the context, sampling out of range. Its arrays but prompt_logits are copied.
int64_t engine_submit(struct engine *e, const struct request *r, struct error *err);
// A new request that goes on from all that a running one has so far, prompt and tokens, with a
// sampling of its own; for the rest it is the same. What they have in common is computed once.
int64_t engine_fork(struct engine *e, int64_t request, const struct sampling *s, struct error *err);
// Tokens that may follow the request's latest, which the next steps try at once with it, as many as
// are allowed. Those that are just what would have been chosen are gained, the others leave no
// trace: the request gets the same tokens with any draft. A request that is over is ignored.
bool engine_draft(struct engine *e, int64_t request, const int32_t *ids, size_t n,
                  struct error *err);
void engine_cancel(struct engine *e, int64_t request); // unknown numbers are ignored
bool engine_busy(const struct engine *e);
bool engine_step(struct engine *e, struct error *err);  // false: the engine can't go on
bool engine_event(struct engine *e, struct event *out); // the next one, in order

// How far a request is. A place is one of `sequences` that run at once.
struct progress {
    int64_t place; // -1: it waits
    size_t done;   // of its tokens, that the caches hold: found there, or computed
    size_t cached; // of the prompt, that were found there when it began
};
bool engine_progress(const struct engine *e, int64_t request, struct progress *out); // false: over

// Seconds and rows so far, for "tokens per second".
struct engine_stats {
    double prompt_seconds, decode_seconds; // steps with prompt rows count as prompt
    int64_t prompt_tokens, decode_tokens, steps;
    int64_t cached_tokens;     // found in the caches
    int64_t preempted;         // requests that had to wait again
    int64_t pages, pages_used; // of the caches now, and those that running requests use
    int64_t whole_rows;        // of logits that were read whole to choose a token
    int64_t turns;             // requests in each step, of all steps together
    int64_t longest;           // tokens of the request that had the most
};
struct engine_stats engine_stats(const struct engine *e);

#endif
