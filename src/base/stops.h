// Finds where a text that comes in pieces ends: before the first of some stop strings.
#ifndef BASE_STOPS_H
#define BASE_STOPS_H

#include "base/str.h"

struct stops {
    struct str *stop; // [n]
    size_t n;
    struct str held; // text that came and was not given out
    bool found;
    size_t by; // the stop string that was found
};

void stops_set(struct stops *s, const struct sv *texts, size_t n); // copies them; empty ones go
void stops_free(struct stops *s);
// Moves to *out what is certain of s->held, to which text is to be appended. True when a stop
// string was found: the text before it was moved, it and what came behind it stay held.
bool stops_settle(struct stops *s, struct str *out);
void stops_finish(struct stops *s, struct str *out); // nothing more comes: all that is text
struct sv stops_by(const struct stops *s);           // the stop string that was found, or empty

#endif
