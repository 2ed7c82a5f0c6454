// The command line's grammars, of programs that answer.
#ifndef ENGINE_CONSTRAINT_ARGS_H
#define ENGINE_CONSTRAINT_ARGS_H

#include "base/args.h"
#include "engine/constraint.h"

extern const struct arg_group constraint_arg_group;

struct constraint_args {
    struct constraint constraint; // its text and schema are these; NONE: there is no such option
    const char *option;           // that asked for it
    struct str text;
    struct json_object *schema;
};

// c is the caller's to free in any case.
bool constraint_args_read(const struct args *a, struct constraint_args *c, struct error *e);
void constraint_args_free(struct constraint_args *c);

#endif
