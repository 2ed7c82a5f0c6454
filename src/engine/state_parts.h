// Shared by state.c and state_plan.c.
#ifndef ENGINE_STATE_PARTS_H
#define ENGINE_STATE_PARTS_H

#include "engine/state.h"

static inline int64_t pages_for(int64_t tokens) { return (tokens + PAGE_TOKENS - 1) / PAGE_TOKENS; }

// Tokens before a row's own that it may see; -1: all.
int64_t look_back(int64_t window, int64_t chunk);
// Pages that a sequence of `tokens` tokens holds at once in a group: while a step computes some
// rows, they and what the first of them sees are live, and both ends may cut a page.
int64_t live_pages(const struct state_plan *p, int64_t back, int64_t tokens);

#endif
