// Shared by the two halves of the parser: the stream of tokens and the making of nodes (parse.c),
// used by statements (parse.c) and expressions (expression.c).
#ifndef CHAT_PARSE_H
#define CHAT_PARSE_H

#include "base/map.h"
#include "chat/jinja/ast.h"

struct nodes {
    struct node **at;
    size_t n, cap;
};

struct parser {
    struct vm *vm;
    struct token *t; // the next one
    struct jinja *out;
    struct map *symbols; // name -> number
    size_t cap_symbols;
    int nesting, loops;
    struct signature *macro[JINJA_NESTING]; // open ones, outermost first
    int n_macros;
    struct nodes blocks;
    bool keeps; // a macro or call block was met in the loop being parsed
};

noreturn void unexpected(struct parser *p, const char *wanted); // wanted may be NULL
bool is_op(const struct parser *p, const char *op);
bool is_name(const struct parser *p, const char *name);
bool next_is(const struct parser *p, const char *text); // the token after this one
bool skip_op(struct parser *p, const char *op);
bool skip_name(struct parser *p, const char *name);
void expect_op(struct parser *p, const char *op);
struct sv expect_name(struct parser *p);

void dive(struct parser *p); // one level deeper into the source; balanced by rise()
void rise(struct parser *p);
int symbol(struct parser *p, struct sv name);
void nodes_add(struct parser *p, struct nodes *l, struct node *n);
struct node *node(struct parser *p, enum node_kind kind);
struct node *node_of(struct parser *p, enum node_kind kind, struct node *a, struct node *b);
struct node *constant(struct parser *p, struct value v);
struct node *with_items(struct parser *p, struct node *n, const struct nodes *l);
// The interpreter recurses as deep as the tree is, so its depth is bounded, also where the parser
// itself only loops (a.b.c.d, a + b + c): every node is put over each one below it.
struct node *over(struct parser *p, struct node *n, const struct node *below);

// expression.c
struct node *expression(struct parser *p);
// One expression, or several with commas between. parens: inside (), where there may be none.
struct node *tuple(struct parser *p, bool with_cond, bool parens);
struct node *filter(struct parser *p, struct node *of); // after the |; of NULL: of a block
struct node *target(struct parser *p, bool with_ns);
struct node *name_node(struct parser *p, struct sv name);

#endif
