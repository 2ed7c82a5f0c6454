// Within grammar/: the tokens that may come next.
#ifndef GRAMMAR_MASK_H
#define GRAMMAR_MASK_H

#include "grammar/lexicon.h"
#include "grammar/machine.h"

// The tokens that may follow a set, as bits of l->words words, which the machine keeps with the
// set. NULL: finding them takes too much, and m->e is set.
const uint64_t *mask_of(struct machine *m, const struct lexicon *l, int32_t set);

#endif
