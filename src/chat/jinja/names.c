// What a compiled template says about its variables.
#include "chat/jinja.h"

#include "chat/jinja/ast.h"

static int symbol_of(const struct jinja *t, struct sv name) {
    for (size_t i = 0; i < t->n_symbols; i++)
        if (sv_eq(t->symbol[i], name)) return (int)i;
    return -1;
}

bool jinja_names(const struct jinja *t, struct sv name) { return symbol_of(t, name) >= 0; }

static bool is_test(const struct node *n, int symbol, const char *test) {
    return n && n->kind == N_TEST && sv_is(n->text, test) && n->a->kind == N_NAME &&
           n->a->symbol == symbol;
}

// In `n` or below it, which is at most JINJA_NESTING deep.
static bool provides_below(const struct node *n, int symbol);

static bool provides_in(struct node *const *list, size_t n, int symbol) {
    for (size_t i = 0; i < n; i++)
        if (list[i] && provides_below(list[i], symbol)) return true;
    return false;
}

static bool provides_below(const struct node *n, int symbol) {
    if (n->kind == N_NOT && is_test(n->a, symbol, "defined")) return true;
    if (is_test(n, symbol, "undefined")) return true;
    struct node *const parts[] = {n->a, n->b, n->c, n->otherwise};
    if (provides_in(parts, 4, symbol) || provides_in(n->item, n->n, symbol)) return true;
    if (n->macro && provides_in(n->macro->otherwise, n->macro->n, symbol)) return true;
    const struct call_args *args = n->args;
    if (!args) return false;
    struct node *const rest[] = {args->star, args->star2};
    return provides_in(args->at, args->n, symbol) || provides_in(args->kw, args->n_kw, symbol) ||
           provides_in(rest, 2, symbol);
}

bool jinja_provides_for(const struct jinja *t, struct sv name) {
    int symbol = symbol_of(t, name);
    return symbol >= 0 && provides_below(t->root, symbol);
}
