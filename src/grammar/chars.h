// Within grammar/: sets of characters, as ranges of code points.
#ifndef GRAMMAR_CHARS_H
#define GRAMMAR_CHARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHAR_LAST = 0x10ffff };

struct char_range {
    uint32_t lo, hi;
};

struct chars {
    struct char_range *range;
    size_t n, cap;
};

void chars_free(struct chars *c);
void chars_add(struct chars *c, uint32_t lo, uint32_t hi);
// Sorts the ranges and joins those that touch; `not`: leaves all others instead.
void chars_tidy(struct chars *c, bool not );

#endif
