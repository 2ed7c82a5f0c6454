// What llama-server and lablup/mlxcel have by name and this server hasn't, beside what is so of
// every program here (engine_other_group): a line for each, with what becomes of it.
// docs/llama-server.md holds the same as a table (--llama-options prints it).
#ifndef SERVER_LLAMA_OPTIONS_H
#define SERVER_LLAMA_OPTIONS_H

#include "base/args.h"

extern const struct arg_group llama_option_group;

#endif
