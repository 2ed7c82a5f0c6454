// What the interpreter shares with the values that point into a running template: loops, macros.
#ifndef CHAT_INTERP_H
#define CHAT_INTERP_H

#include "chat/jinja/ast.h"

struct binding {
    int symbol;
    struct value value;
};

// Variables set in one block; the outermost scope's are vm->global.
struct scope {
    struct scope *up; // NULL: the outermost
    bool exported;    // an outermost one for a block: inputs are not hidden by what is yet unset
    struct binding *at;
    size_t n, cap;
};

struct loop { // the variable `loop`
    const struct node *node;
    struct scope *scope; // around the loop
    struct iter it;
    size_t index0, depth0;
    struct vm *vm;
    struct value current, before;
    struct value changed; // what loop.changed() saw last: a tuple
};

struct macro {
    const struct node *node;
    struct scope *scope; // where it was defined
};

void run_template(struct vm *vm);

#endif
