// The variables of lablup/mlxcel that the server does not read, and why: what it says of one that
// is set. docs/variables.md holds the same as a table (--mlxcel-variables prints it).
#ifndef SERVER_MLXCEL_VARIABLES_H
#define SERVER_MLXCEL_VARIABLES_H

#include "base/args.h"

extern const struct arg_group unread_variable_group;

#endif
