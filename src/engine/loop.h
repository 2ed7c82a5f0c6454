// Answers that have begun to repeat themselves without end, as vLLM and lablup/mlxcel find them:
// what came last is one pattern, count times in a row.
#ifndef ENGINE_LOOP_H
#define ENGINE_LOOP_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { LOOP_SIZE_MOST = 1024, LOOP_COUNT_MOST = 65536 };

struct loop {
    int64_t least, most; // tokens of the pattern; most 0: off
    int64_t count;       // at least 2
};

bool loop_check(const struct loop *l, struct error *e); // false with a message: out of range
bool loop_ends(const struct loop *l, const int32_t *ids, size_t n); // whether ids end with one

#endif
