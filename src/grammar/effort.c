#include "grammar/effort.h"

enum { ASK_EACH = 1 << 15 };

struct effort effort_usual(void) {
    return (struct effort){
        .steps = EFFORT_STEPS, .bytes = EFFORT_BYTES, .asked = EFFORT_STEPS + ASK_EACH};
}

bool effort_goes_on(struct effort *f, struct error *e) {
    f->asked = f->steps;
    f->stopped |= f->stop && f->stop(f->arg);
    return !f->stopped || fail(e, "it was called off");
}

bool effort_work(struct effort *f, size_t steps, struct error *e) {
    if (!f) return true;
    if (f->stopped) return fail(e, "it was called off");
    if (steps > f->steps) {
        f->steps = 0;
        return fail(e,
                    "it takes too long to prepare, more than %d million steps (use fewer or "
                    "simpler patterns, smaller bounds and shorter lists)",
                    EFFORT_STEPS / 1000000);
    }
    f->steps -= steps;
    if (!f->stop || f->asked - f->steps < ASK_EACH) return true;
    return effort_goes_on(f, e);
}

bool effort_hold(struct effort *f, size_t bytes, struct error *e) {
    if (!f) return true;
    if (bytes > f->bytes)
        return fail(e,
                    "it takes too much memory to prepare, more than %d MiB (use fewer or simpler "
                    "patterns and smaller bounds)",
                    EFFORT_BYTES >> 20);
    f->bytes -= bytes;
    return true;
}

void effort_drop(struct effort *f, size_t bytes) {
    if (f) f->bytes += bytes;
}
