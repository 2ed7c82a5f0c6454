#include "base/pool.h"

static const struct arg args[] = {
    {"-tb --threads-batch", ARG_INT, "N", NULL, "0", -1, 4096,
     "threads for steps of more than one token, as prompts are; 0 or less: as --threads"},
    {"-C --cpu-mask", ARG_TEXT, "HEX", NULL, NULL, 0, 0,
     "threads run only on the CPUs of this mask, as f0 for CPUs 4 to 7"},
    {"-Cr --cpu-range", ARG_TEXT, "FIRST-LAST", NULL, NULL, 0, 0,
     "threads run only on these CPUs, and on those of --cpu-mask"},
    {"--cpu-strict", ARG_INT, "0|1", NULL, "0", 0, 1,
     "1: each thread stays on one CPU of its own, those of different cores first"},
    {"--poll", ARG_INT, "LEVEL", NULL, "50", 0, 100,
     "how long a thread looks for work before it sleeps, twice so many microseconds; 0: it sleeps "
     "at once"},
};
const struct arg_group pool_arg_group = {"Threads", args, sizeof args / sizeof *args};

bool pool_read_options(const struct args *a, struct pool_options *opt, struct error *e) {
    int64_t threads = args_int(a, "threads"), most = args_int(a, "threads-batch");
    int64_t poll = args_int(a, "poll");
    *opt = (struct pool_options){
        .threads = threads > 0 ? (int)threads : 0,
        .most = most > 0 ? (int)most : 0,
        .spin = poll > 0 ? 2 * (int)poll : -1,
        .strict = args_int(a, "cpu-strict") == 1,
    };
    const char *mask = args_text(a, "cpu-mask"), *range = args_text(a, "cpu-range");
    if (mask && !cpus_add_mask(&opt->cpus, mask, e)) return fail_usage(e);
    if (range && !cpus_add_range(&opt->cpus, range, e)) return fail_usage(e);
    if (mask && !cpus_count(&opt->cpus)) fail(e, "--cpu-mask %s: has no CPU in it", mask);
    return !e->set || fail_usage(e);
}
