// Within grammar/: what holds of an automaton's rules together.
#ifndef GRAMMAR_ENDS_H
#define GRAMMAR_ENDS_H

#include "grammar/automaton.h"

// Leaves out what can never end, ranks the rules, and refuses a grammar that has no text, is left
// recursive, or counts what may be empty. s: for the names.
bool ends_check(struct automaton *a, const struct syntax *s, struct error *e);

#endif
