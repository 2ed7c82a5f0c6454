// Expressions: precedence, from loose to tight, is that of jinja2.
#include "chat/jinja/parse.h"

#include <string.h>

static struct node *unary(struct parser *p, bool with_filter);

// A macro's signature lists which of the special names its body, or a macro within, uses.
static void note_use(struct parser *p, struct sv name) {
    for (int i = 0; i < p->n_macros; i++) {
        p->macro[i]->varargs |= sv_is(name, "varargs");
        p->macro[i]->kwargs |= sv_is(name, "kwargs");
        p->macro[i]->caller |= sv_is(name, "caller");
    }
}

struct node *name_node(struct parser *p, struct sv name) {
    struct node *n = node(p, N_NAME);
    n->symbol = symbol(p, name);
    n->text = name;
    return n;
}

static struct node *literal_name(struct parser *p) {
    struct sv s = p->t->text;
    struct node *n;
    if (sv_is(s, "true") || sv_is(s, "True"))
        n = constant(p, bool_value(true));
    else if (sv_is(s, "false") || sv_is(s, "False"))
        n = constant(p, bool_value(false));
    else if (sv_is(s, "none") || sv_is(s, "None"))
        n = constant(p, none_value());
    else
        n = name_node(p, s), note_use(p, s);
    p->t++;
    return n;
}

static struct node *list_literal(struct parser *p) {
    struct node *n = node(p, N_LIST);
    struct nodes l = {0};
    p->t++;
    while (!is_op(p, "]")) {
        if (l.n) expect_op(p, ",");
        if (is_op(p, "]")) break;
        nodes_add(p, &l, expression(p));
    }
    p->t++;
    return with_items(p, n, &l);
}

static struct node *dict_literal(struct parser *p) {
    struct node *n = node(p, N_DICT);
    struct nodes l = {0};
    p->t++;
    while (!is_op(p, "}")) {
        if (l.n) expect_op(p, ",");
        if (is_op(p, "}")) break;
        nodes_add(p, &l, expression(p));
        expect_op(p, ":");
        nodes_add(p, &l, expression(p));
    }
    p->t++;
    return with_items(p, n, &l);
}

static struct node *string_literal(struct parser *p) { // neighbours are joined
    struct node *n = constant(p, p->t->value);
    for (p->t++; p->t->kind == T_TEXT; p->t++) {
        n->value = add_text(p->vm, n->value, p->t->value);
        n->value = text_value(p->vm, sv_of(n->value)); // shared by threads: no room to grow into
    }
    return n;
}

static struct node *primary(struct parser *p) {
    struct node *n = NULL;
    p->vm->line = p->t->line;
    if (p->t->kind == T_NAME) {
        n = literal_name(p);
    } else if (p->t->kind == T_TEXT) {
        n = string_literal(p);
    } else if (p->t->kind == T_NUMBER) {
        n = constant(p, p->t->value);
        p->t++;
    } else if (skip_op(p, "(")) {
        n = tuple(p, true, true);
        expect_op(p, ")");
    } else if (is_op(p, "[")) {
        n = list_literal(p);
    } else if (is_op(p, "{")) {
        n = dict_literal(p);
    } else {
        unexpected(p, NULL);
    }
    return n;
}

static bool literal(const struct node *n) {
    if (!n || n->kind == N_CONST) return true;
    if (n->kind != N_LIST && n->kind != N_TUPLE && n->kind != N_DICT) return false;
    for (size_t i = 0; i < n->n; i++)
        if (!literal(n->item[i])) return false;
    return true;
}

static struct node *subscript(struct parser *p, struct node *of) {
    struct nodes part = {0};
    bool slice = false;
    for (int i = 0; i < 3; i++) {
        bool empty = is_op(p, ":") || is_op(p, "]");
        nodes_add(p, &part, empty ? NULL : expression(p));
        if (!is_op(p, ":") || i == 2) break;
        p->t++;
        slice = true;
    }
    if (!slice && !part.at[0]) unexpected(p, NULL);
    if (!slice && is_op(p, ",")) { // a[b, c]: the key is a tuple
        struct nodes keys = {0};
        nodes_add(p, &keys, part.at[0]);
        while (skip_op(p, ",")) nodes_add(p, &keys, expression(p));
        part.at[0] = with_items(p, node(p, N_TUPLE), &keys);
    }
    expect_op(p, "]");
    if (!slice) return node_of(p, N_ITEM, of, part.at[0]);
    while (part.n < 3) nodes_add(p, &part, NULL);
    struct node *n = with_items(p, node_of(p, N_SLICE, of, NULL), &part);
    n->flag = literal(of) && literal(part.at[0]) && literal(part.at[1]) && literal(part.at[2]);
    return n;
}

static struct node *member(struct parser *p, struct node *of) {
    if (p->t->kind == T_NUMBER && p->t->value.kind == V_INT) {
        struct node *key = constant(p, p->t->value);
        p->t++;
        return node_of(p, N_ITEM, of, key);
    }
    if (p->t->kind != T_NAME) unexpected(p, "name or number");
    struct node *n = node_of(p, N_MEMBER, of, NULL);
    n->text = (p->t++)->text;
    return n;
}

static struct call_args *call_args(struct parser *p, struct node *holder) {
    struct call_args *args = vm_alloc(p->vm, 1, sizeof *args);
    struct nodes at = {0}, kw = {0}, names = {0};
    expect_op(p, "(");
    for (bool first = true; !is_op(p, ")"); first = false) {
        if (!first) expect_op(p, ",");
        if (is_op(p, ")")) break;
        bool star2 = is_op(p, "**");
        if (star2 || is_op(p, "*")) {
            if (args->star2 || (args->star && !star2))
                raise_error(p->vm, "invalid syntax for function call");
            p->t++;
            struct node *rest = expression(p);
            *(star2 ? &args->star2 : &args->star) = rest;
            over(p, holder, rest);
        } else if (p->t->kind == T_NAME && next_is(p, "=")) {
            if (args->star2) raise_error(p->vm, "invalid syntax for function call");
            struct node *name = node(p, N_CONST);
            name->text = p->t->text;
            nodes_add(p, &names, name);
            p->t += 2;
            nodes_add(p, &kw, expression(p));
            over(p, holder, kw.at[kw.n - 1]);
        } else {
            if (args->star || args->star2 || kw.n)
                raise_error(p->vm, "invalid syntax for function call");
            nodes_add(p, &at, expression(p));
            over(p, holder, at.at[at.n - 1]);
        }
    }
    p->t++;
    args->at = at.at;
    args->n = at.n;
    args->kw = kw.at;
    args->n_kw = kw.n;
    args->name = vm_alloc(p->vm, kw.n, sizeof *args->name);
    for (size_t i = 0; i < kw.n; i++) args->name[i] = names.at[i]->text;
    return args;
}

static struct node *call(struct parser *p, struct node *of) {
    struct node *n = node_of(p, N_CALL, of, NULL);
    n->args = call_args(p, n);
    return n;
}

static struct node *postfix(struct parser *p, struct node *n) {
    for (;;) {
        if (skip_op(p, "."))
            n = member(p, n);
        else if (skip_op(p, "["))
            n = subscript(p, n);
        else if (is_op(p, "("))
            n = call(p, n);
        else
            return n;
    }
}

// Dotted names are no names of ours, but they parse.
static struct sv dotted_name(struct parser *p) {
    struct sv name = expect_name(p);
    while (skip_op(p, ".")) {
        struct sv more = expect_name(p);
        name = sv_n(name.p, (size_t)(more.p + more.n - name.p));
    }
    return name;
}

struct node *filter(struct parser *p, struct node *of) {
    struct node *n = node_of(p, N_FILTER, of, NULL);
    n->text = dotted_name(p);
    n->fn = find_filter(n->text);
    n->args = is_op(p, "(") ? call_args(p, n) : vm_alloc(p->vm, 1, sizeof *n->args);
    return n;
}

static bool test_operand(const struct parser *p) {
    if (p->t->kind == T_TEXT || p->t->kind == T_NUMBER) return true;
    if (p->t->kind == T_OP) return is_op(p, "[") || is_op(p, "{");
    return p->t->kind == T_NAME && !is_name(p, "else") && !is_name(p, "or") && !is_name(p, "and");
}

static struct node *test(struct parser *p, struct node *of) {
    bool negated = skip_name(p, "not");
    struct node *n = node_of(p, N_TEST, of, NULL);
    n->text = dotted_name(p);
    n->fn = find_test(n->text);
    if (is_op(p, "(")) {
        n->args = call_args(p, n);
    } else {
        n->args = vm_alloc(p->vm, 1, sizeof *n->args);
        if (test_operand(p)) {
            if (is_name(p, "is")) raise_error(p->vm, "You cannot chain multiple tests with is");
            struct nodes one = {0};
            nodes_add(p, &one, postfix(p, primary(p)));
            over(p, n, one.at[0]);
            n->args->at = one.at;
            n->args->n = 1;
        }
    }
    return negated ? node_of(p, N_NOT, n, NULL) : n;
}

static struct node *filters(struct parser *p, struct node *n) {
    for (;;) {
        if (skip_op(p, "|"))
            n = filter(p, n);
        else if (skip_name(p, "is"))
            n = test(p, n);
        else if (is_op(p, "("))
            n = call(p, n);
        else
            return n;
    }
}

static struct node *unary(struct parser *p, bool with_filter) {
    struct node *n;
    dive(p);
    if (is_op(p, "-") || is_op(p, "+")) {
        char op = (p->t++)->text.p[0];
        n = node_of(p, N_SIGN, unary(p, false), NULL);
        n->op = op;
    } else {
        n = primary(p);
    }
    n = postfix(p, n);
    if (with_filter) n = filters(p, n);
    rise(p);
    return n;
}

static struct node *binary_node(struct parser *p, char op, struct node *a, struct node *b) {
    struct node *n = node_of(p, N_BINARY, a, b);
    n->op = op;
    return n;
}

static struct node *power(struct parser *p) { // to the left, as jinja2 has it
    struct node *n = unary(p, true);
    while (skip_op(p, "**")) n = binary_node(p, '^', n, unary(p, true));
    return n;
}

static struct node *product(struct parser *p) {
    struct node *n = power(p);
    for (;;) {
        char op = is_op(p, "*") ? '*' : is_op(p, "/") ? '/' : is_op(p, "//") ? 'f' : '%';
        if (op == '%' && !is_op(p, "%")) return n;
        p->t++;
        n = binary_node(p, op, n, power(p));
    }
}

static struct node *concat(struct parser *p) {
    struct node *first = product(p);
    if (!is_op(p, "~")) return first;
    struct nodes l = {0};
    nodes_add(p, &l, first);
    while (skip_op(p, "~")) nodes_add(p, &l, product(p));
    return with_items(p, node(p, N_CONCAT), &l);
}

static struct node *sum(struct parser *p) {
    struct node *n = concat(p);
    while (is_op(p, "+") || is_op(p, "-")) {
        char op = (p->t++)->text.p[0];
        n = binary_node(p, op, n, concat(p));
    }
    return n;
}

// The comparison at hand, taken; 0: none.
static char comparison_op(struct parser *p) {
    static const char *const ops[] = {"==", "!=", "<=", ">=", "<", ">"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (skip_op(p, ops[i])) return "=!lg<>"[i];
    if (skip_name(p, "in")) return 'i';
    if (!is_name(p, "not") || !next_is(p, "in")) return 0;
    p->t += 2;
    return 'n';
}

static struct node *comparison(struct parser *p) {
    struct node *first = sum(p);
    char op = comparison_op(p);
    if (!op) return first;
    struct nodes l = {0};
    nodes_add(p, &l, first);
    size_t mark = text_mark(p->vm);
    for (; op; op = comparison_op(p)) {
        put_char(p->vm, op);
        nodes_add(p, &l, sum(p));
    }
    struct node *n = with_items(p, node(p, N_COMPARE), &l);
    n->text = sv_of(text_take(p->vm, mark));
    return n;
}

static struct node *negation(struct parser *p) {
    if (!is_name(p, "not")) return comparison(p);
    dive(p);
    p->t++;
    struct node *n = node_of(p, N_NOT, negation(p), NULL);
    rise(p);
    return n;
}

static struct node *conjunction(struct parser *p) {
    struct node *n = negation(p);
    while (skip_name(p, "and")) n = node_of(p, N_AND, n, negation(p));
    return n;
}

static struct node *disjunction(struct parser *p) {
    struct node *n = conjunction(p);
    while (skip_name(p, "or")) n = node_of(p, N_OR, n, conjunction(p));
    return n;
}

struct node *expression(struct parser *p) {
    dive(p);
    struct node *n = disjunction(p);
    while (skip_name(p, "if")) {
        struct node *cond = disjunction(p);
        n = node_of(p, N_COND, n, cond);
        if (skip_name(p, "else")) over(p, n, n->c = expression(p));
    }
    rise(p);
    return n;
}

static bool tuple_ends(const struct parser *p) {
    return p->t->kind == T_PRINT_END || p->t->kind == T_BLOCK_END || is_op(p, ")");
}

struct node *tuple(struct parser *p, bool with_cond, bool parens) {
    struct nodes l = {0};
    bool many = false;
    while (!tuple_ends(p)) {
        nodes_add(p, &l, with_cond ? expression(p) : disjunction(p));
        if (!skip_op(p, ",")) break;
        many = true;
    }
    if (!many && l.n) return l.at[0];
    if (!l.n && !parens) unexpected(p, "an expression");
    return with_items(p, node(p, N_TUPLE), &l);
}

// What a value can be assigned to: a name, where allowed an attribute of a namespace, or a tuple
// of such.
static struct node *target_one(struct parser *p, bool with_ns) {
    dive(p);
    struct node *n;
    if (skip_op(p, "(")) {
        struct nodes l = {0};
        while (!is_op(p, ")")) {
            nodes_add(p, &l, target_one(p, with_ns));
            if (!skip_op(p, ",")) break;
        }
        expect_op(p, ")");
        n = with_items(p, node(p, N_TUPLE), &l);
        if (l.n == 1 && !sv_is(p->t[-2].text, ",")) n = l.at[0];
    } else if (p->t->kind != T_NAME) {
        unexpected(p, NULL);
    } else {
        n = literal_name(p);
        if (n->kind != N_NAME) raise_error(p->vm, "can't assign to a constant");
        if (with_ns && skip_op(p, ".")) {
            n->kind = N_NS_TARGET;
            n->text = expect_name(p);
        }
    }
    rise(p);
    return n;
}

struct node *target(struct parser *p, bool with_ns) {
    struct nodes l = {0};
    bool many = false;
    do {
        if (l.n && p->t->kind == T_BLOCK_END) break;
        nodes_add(p, &l, target_one(p, with_ns));
        many |= is_op(p, ",");
    } while (skip_op(p, ","));
    return many ? with_items(p, node(p, N_TUPLE), &l) : l.at[0];
}
