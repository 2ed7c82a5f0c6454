// The conversation of `mlxcel run`.
#ifndef CLI_CHAT_LOOP_H
#define CLI_CHAT_LOOP_H

#include "base/args.h"

// Returns the exit code. a has the options of generate and run.
int chat_loop(const struct args *a, const char *path);

#endif
