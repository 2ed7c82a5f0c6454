// The command line's samplers, but for those whose defaults are each program's own (temperature,
// top-k, top-p, min-p, the repetition penalty and its window, the seed).
#ifndef ENGINE_SAMPLING_ARGS_H
#define ENGINE_SAMPLING_ARGS_H

#include "base/args.h"
#include "engine/loop.h"
#include "engine/sample.h"
#include "tokenizer/tokenizer.h"

extern const struct arg_group sampling_arg_group;

// Sets what the group has of s. Its biases are the caller's to free (sampling_args_free).
bool sampling_args_read(const struct args *a, struct sampling *s, struct error *e);
// Opens s->breakers, which is the caller's too, when DRY is on.
bool sampling_args_breakers(const struct args *a, const struct tokenizer *t, struct sampling *s,
                            struct error *e);
// What --loop-detection says; off unless it is given.
bool sampling_args_loop(const struct args *a, struct loop *l, struct error *e);
void sampling_args_free(struct sampling *s);

#endif
