// What making a grammar may take: steps of work, bytes of memory, and time, which is over when who
// waits for it says so. One object goes through all that makes a grammar, down to the loops, so
// that whatever takes it, it is bounded as a whole. What goes over it is an error, and then so is
// everything that comes after. NULL stands for no bounds in all of these.
#ifndef GRAMMAR_EFFORT_H
#define GRAMMAR_EFFORT_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/error.h"

enum { EFFORT_STEPS = 100000000, EFFORT_BYTES = 256 << 20 };

// Memory of all grammars that are there, whoever has them.
struct grammar_room {
    size_t most;
    atomic_size_t bytes; // taken; it may come to more, which is then given back as it can be
};

struct effort {
    size_t steps, bytes;     // that are left; a step takes a few nanoseconds
    bool (*stop)(void *arg); // asked several times a millisecond; NULL: it goes on to its end
    void *arg;
    bool stopped;              // stop has said so
    bool full;                 // there was no room
    struct grammar_room *room; // where the grammar belongs; NULL: it is no one else's concern
    size_t asked;              // steps that were left when it was asked
};

struct effort effort_usual(void);                       // all of the above
bool effort_goes_on(struct effort *f, struct error *e); // asks stop
bool effort_work(struct effort *f, size_t steps, struct error *e);
bool effort_hold(struct effort *f, size_t bytes, struct error *e);
void effort_drop(struct effort *f, size_t bytes);

#endif
