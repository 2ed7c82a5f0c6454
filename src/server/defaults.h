// What a request gets where it says nothing: the server's options, and what those leave open, the
// checkpoint's generation_config.json.
#ifndef SERVER_DEFAULTS_H
#define SERVER_DEFAULTS_H

#include "base/args.h"
#include "engine/constraint_args.h"
#include "engine/loop.h"
#include "engine/sample.h"

extern const struct arg_group defaults_arg_group;

struct defaults {
    struct sampling sampling; // of the options; its biases are owned
    bool temperature, top_k, top_p, min_p, repetition_penalty; // that there was an option for it
    int64_t seed;                                              // -1: another one each time
    int64_t max_new;                                           // -1: as many as the context holds
    bool ignore_eos;
    bool own_breakers; // of DRY, instead of the usual ones
    const struct sv *breaker;
    size_t breakers;
    struct loop loop;
    struct constraint_args form;
};

// The views in d are a's. d is the caller's to free in any case.
bool defaults_read(struct defaults *d, const struct args *a, struct error *e);
void defaults_free(struct defaults *d);

#endif
