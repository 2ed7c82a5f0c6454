// The tree that the parser makes and the interpreter walks. A node's parts by kind are listed
// beside the kind; parts not named there are unused.
#ifndef CHAT_AST_H
#define CHAT_AST_H

#include "base/map.h"
#include "chat/jinja/value.h"

enum node_kind {
    // Expressions
    N_CONST,   // value
    N_NAME,    // symbol
    N_LIST,    // item[n]
    N_TUPLE,   // item[n]
    N_DICT,    // item[n]: key, value, key, value ...
    N_MEMBER,  // a . text
    N_ITEM,    // a [ b ]
    N_SLICE,   // a [ item[0] : item[1] : item[2] ], NULL where absent
    N_CALL,    // a ( args )
    N_FILTER,  // a | text ( args ), fn NULL when there is none of that name; a NULL: of a block
    N_TEST,    // a is text ( args ), fn
    N_NOT,     // a
    N_SIGN,    // op a
    N_BINARY,  // a op b
    N_COMPARE, // item[0] text[0] item[1] text[1] item[2] ...: < > l(<=) g(>=) = ! i(n) n(ot in)
    N_AND,     // a, b
    N_OR,      // a, b
    N_CONCAT,  // item[n]
    N_COND,    // a if b else c (NULL: undefined)
    // Statements; a body is item[n]
    N_DATA,       // text
    N_PRINT,      // a
    N_IF,         // a: the test; item[n]; b: an N_IF for elif, or an N_BODY, or NULL
    N_BODY,       // item[n]
    N_SCOPE,      // item[n], in a scope of its own; flag: that of the template (block, text: name)
    N_WITH,       // targets a, b: tuples of equal length; item[n]
    N_FOR,        // target a, iterable b, condition c or NULL; item[n]; otherwise: N_BODY or NULL
    N_SET,        // target a, value b
    N_SET_BLOCK,  // target a, filter b or NULL; item[n]
    N_FILTERED,   // filter b; item[n]
    N_MACRO,      // symbol, macro; item[n]
    N_CALL_BLOCK, // call a, macro; item[n]
    N_AUTOESCAPE, // a; item[n]
    N_NS_TARGET,  // symbol . text, as a target
    N_ABSENT,     // text: what a template by itself can't do, an error when it is reached
    N_BREAK,
    N_CONTINUE,
};

struct node;

struct call_args {
    struct node **at; // positional
    size_t n;
    struct sv *name; // of keywords
    struct node **kw;
    size_t n_kw;
    struct node *star, *star2; // *args, **kwargs; or NULL
};

struct signature {
    struct sv name;          // empty for a call block's body
    int *param;              // symbols
    struct node **otherwise; // default of each parameter, NULL: none
    size_t n;
    bool varargs, kwargs, caller; // its body uses these names
};

struct node {
    enum node_kind kind;
    char op;
    bool flag;  // N_FOR: recursive; N_SLICE: all of it is literal
    bool keeps; // N_FOR: a macro or call block inside may outlive one turn's scope
    int line, symbol;
    int depth; // of the tree below
    struct node *a, *b, *c, *otherwise;
    struct node **item;
    size_t n;
    struct sv text;
    struct value value;
    struct call_args *args;
    const struct builtin *fn;
    struct signature *macro;
    const int *unset; // symbols that are undefined where the scope of this node begins (scopes.c)
    size_t n_unset;
};

// A compiled template.
struct jinja {
    struct arena arena;
    struct node *root; // N_BODY
    struct sv *symbol; // names by number
    size_t n_symbols;
    int caller, varargs, kwargs, loop; // symbols of the names that the engine sets itself
};

enum token_kind {
    T_DATA,
    T_NAME,
    T_TEXT,
    T_NUMBER,
    T_OP,
    T_BLOCK,
    T_BLOCK_END,
    T_PRINT,
    T_PRINT_END,
    T_END
};

struct token {
    enum token_kind kind;
    int line;
    struct sv text;     // a name, an operator, template data
    struct value value; // T_TEXT, T_NUMBER
};

struct tokens {
    struct token *at; // ends with a T_END
    size_t n, cap;
};

struct tokens lex(struct vm *vm, struct sv source);
// `symbols` is the caller's, to be freed also when parsing fails.
void parse(struct vm *vm, const struct tokens *tokens, struct map *symbols, struct jinja *t);
// What jinja2's compiler decides before anything runs; see there.
void resolve_scopes(struct vm *vm, struct jinja *t);

#endif
