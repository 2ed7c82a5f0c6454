// Tokens to a tree: the stream of tokens, the making of nodes, and the statements.
#include "chat/jinja/parse.h"

#include <string.h>

static const char *describe(const struct token *t) {
    switch (t->kind) {
    case T_DATA: return "template data / text";
    case T_TEXT: return "string";
    case T_NUMBER: return t->value.kind == V_FLOAT ? "float" : "integer";
    case T_BLOCK: return "begin of statement block";
    case T_BLOCK_END: return "end of statement block";
    case T_PRINT: return "begin of print statement";
    case T_PRINT_END: return "end of print statement";
    case T_END: return "end of template";
    default: return NULL;
    }
}

noreturn void unexpected(struct parser *p, const char *wanted) {
    const char *what = describe(p->t);
    struct sv got = what ? sv(what) : sv_cut(p->t->text, 0, 100);
    p->vm->line = p->t->line;
    if (wanted) raise_error(p->vm, "expected '%s', got '%.*s'", wanted, (int)got.n, got.p);
    raise_error(p->vm, "unexpected '%.*s'", (int)got.n, got.p);
}

bool is_op(const struct parser *p, const char *op) {
    return p->t->kind == T_OP && sv_is(p->t->text, op);
}

bool is_name(const struct parser *p, const char *name) {
    return p->t->kind == T_NAME && sv_is(p->t->text, name);
}

bool next_is(const struct parser *p, const char *text) {
    return p->t->kind != T_END && sv_is(p->t[1].text, text) &&
           (p->t[1].kind == T_OP || p->t[1].kind == T_NAME);
}

bool skip_op(struct parser *p, const char *op) {
    if (!is_op(p, op)) return false;
    p->t++;
    return true;
}

bool skip_name(struct parser *p, const char *name) {
    if (!is_name(p, name)) return false;
    p->t++;
    return true;
}

void expect_op(struct parser *p, const char *op) {
    if (!skip_op(p, op)) unexpected(p, op);
}

struct sv expect_name(struct parser *p) {
    if (p->t->kind != T_NAME) unexpected(p, "name");
    return (p->t++)->text;
}

static void expect(struct parser *p, enum token_kind kind, const char *what) {
    if (p->t->kind != kind) unexpected(p, what);
    p->t++;
}

int symbol(struct parser *p, struct sv name) {
    int64_t at = map_get(p->symbols, name);
    if (at >= 0) return (int)at;
    struct jinja *t = p->out;
    if (t->n_symbols == p->cap_symbols) {
        size_t cap = p->cap_symbols * 2 + 32;
        struct sv *more = vm_alloc(p->vm, cap, sizeof *more);
        if (t->n_symbols) memcpy(more, t->symbol, t->n_symbols * sizeof *more);
        t->symbol = more;
        p->cap_symbols = cap;
    }
    t->symbol[t->n_symbols] = name;
    map_put(p->symbols, name, (int64_t)t->n_symbols);
    return (int)t->n_symbols++;
}

struct node *node(struct parser *p, enum node_kind kind) {
    struct node *n = vm_alloc(p->vm, 1, sizeof *n);
    n->kind = kind;
    n->line = p->t->line;
    n->symbol = -1;
    return n;
}

struct node *over(struct parser *p, struct node *n, const struct node *below) {
    if (below && below->depth >= n->depth) n->depth = below->depth + 1;
    if (n->depth > JINJA_NESTING)
        raise_error(p->vm, "the template nests over %d levels deep (limit JINJA_NESTING)",
                    JINJA_NESTING);
    return n;
}

struct node *node_of(struct parser *p, enum node_kind kind, struct node *a, struct node *b) {
    struct node *n = node(p, kind);
    n->a = a;
    n->b = b;
    return over(p, over(p, n, a), b);
}

void dive(struct parser *p) {
    p->vm->line = p->t->line;
    if (++p->nesting > JINJA_NESTING)
        raise_error(p->vm, "the template nests over %d levels deep (limit JINJA_NESTING)",
                    JINJA_NESTING);
}

void rise(struct parser *p) { p->nesting--; }

void nodes_add(struct parser *p, struct nodes *l, struct node *n) {
    if (l->n == l->cap) {
        size_t cap = l->cap * 2 + 2;
        struct node **at = vm_alloc(p->vm, cap, sizeof *at);
        if (l->n) memcpy(at, l->at, l->n * sizeof *at);
        l->at = at;
        l->cap = cap;
    }
    l->at[l->n++] = n;
}

struct node *with_items(struct parser *p, struct node *n, const struct nodes *l) {
    n->item = l->at;
    n->n = l->n;
    for (size_t i = 0; i < l->n; i++) over(p, n, l->at[i]);
    return n;
}

struct node *constant(struct parser *p, struct value v) {
    struct node *n = node(p, N_CONST);
    n->value = v;
    return n;
}

// Statements up to a tag that is one of `ends`, into the items of n. The stream is left at that
// tag's name.
static void body(struct parser *p, struct node *n, const char *const ends[]);
static struct node *statement(struct parser *p);

static const char *const end_if[] = {"elif", "else", "endif", NULL};
static const char *const end_else[] = {"endif", NULL};

static bool at_end(const struct parser *p, const char *const ends[]) {
    for (; *ends; ends++)
        if (is_name(p, *ends)) return true;
    return false;
}

static noreturn void no_end(struct parser *p, const char *const ends[]) {
    size_t mark = text_mark(p->vm);
    for (int i = 0; ends[i]; i++) {
        if (i) puts_text(p->vm, " or ");
        puts_text(p->vm, ends[i]);
    }
    p->vm->line = p->t->line;
    raise_error(p->vm, "unexpected end of template: looking for %s", p->vm->out->p + mark);
}

static struct node *print(struct parser *p) {
    struct node *n = node(p, N_PRINT);
    p->t++;
    over(p, n, n->a = tuple(p, true, false));
    expect(p, T_PRINT_END, "end of print statement");
    return n;
}

// Until a tag of `ends` (NULL: the end of the template).
static void statements(struct parser *p, struct node *n, const char *const ends[]) {
    struct nodes l = {0};
    dive(p);
    for (;;) {
        struct node *one;
        if (p->t->kind == T_DATA) {
            one = node(p, N_DATA);
            one->text = (p->t++)->text;
        } else if (p->t->kind == T_PRINT) {
            one = print(p);
        } else if (p->t->kind == T_BLOCK) {
            p->t++;
            if (ends && at_end(p, ends)) break;
            one = statement(p);
            expect(p, T_BLOCK_END, "end of statement block");
        } else {
            if (ends) no_end(p, ends);
            break;
        }
        nodes_add(p, &l, one);
    }
    rise(p);
    with_items(p, n, &l);
}

static void body(struct parser *p, struct node *n, const char *const ends[]) {
    skip_op(p, ":");
    expect(p, T_BLOCK_END, "end of statement block");
    statements(p, n, ends);
}

static void body_to(struct parser *p, struct node *n, const char *end) {
    body(p, n, (const char *const[]){end, NULL});
    p->t++;
}

static struct node *otherwise(struct parser *p, const char *end) {
    struct node *n = node(p, N_BODY);
    body_to(p, n, end);
    return n;
}

// elif is a chain of nodes walked by a loop, so it adds no depth.
static struct node *if_statement(struct parser *p) {
    struct node *first = NULL, *last = NULL;
    for (;;) {
        struct node *n = node(p, N_IF);
        p->t++;
        over(p, n, n->a = tuple(p, false, false));
        body(p, n, end_if);
        if (last)
            last->b = n, over(p, first, n->a);
        else
            first = n;
        for (size_t i = 0; last && i < n->n; i++) over(p, first, n->item[i]);
        last = n;
        if (is_name(p, "elif")) continue;
        bool more = is_name(p, "else");
        p->t++;
        if (more) {
            last->b = node(p, N_BODY);
            body(p, last->b, end_else);
            over(p, first, last->b);
            p->t++;
        }
        return first;
    }
}

static void check_loop_target(struct parser *p, const struct node *n) {
    if (n->kind == N_NAME && n->symbol == p->out->loop)
        raise_error(p->vm, "Can't assign to special loop variable in for-loop target");
    for (size_t i = 0; i < n->n; i++) check_loop_target(p, n->item[i]);
}

static struct node *for_statement(struct parser *p) {
    struct node *n = node(p, N_FOR);
    bool kept = p->keeps;
    p->keeps = false;
    n->a = target(p, false);
    check_loop_target(p, n->a);
    if (!skip_name(p, "in")) unexpected(p, "in");
    n->b = tuple(p, false, false);
    if (skip_name(p, "if")) over(p, n, n->c = expression(p));
    n->flag = skip_name(p, "recursive");
    over(p, over(p, n, n->a), n->b);
    p->loops++;
    body(p, n, (const char *const[]){"endfor", "else", NULL});
    p->loops--;
    bool more = is_name(p, "else");
    p->t++;
    if (more) over(p, n, n->otherwise = otherwise(p, "endfor"));
    n->keeps = p->keeps || n->flag;
    p->keeps |= kept;
    return n;
}

static struct node *block_filter(struct parser *p, struct node *n) {
    for (bool first = true; first || skip_op(p, "|"); first = false) n = filter(p, n);
    return n;
}

static struct node *set_statement(struct parser *p) {
    struct node *n = node(p, N_SET);
    over(p, n, n->a = target(p, true));
    if (skip_op(p, "=")) {
        over(p, n, n->b = tuple(p, true, false));
        return n;
    }
    n->kind = N_SET_BLOCK;
    if (skip_op(p, "|")) over(p, n, n->b = block_filter(p, NULL));
    body_to(p, n, "endset");
    return n;
}

static struct node *with_statement(struct parser *p) {
    struct node *n = node(p, N_WITH);
    struct nodes names = {0}, values = {0};
    while (p->t->kind != T_BLOCK_END) {
        if (names.n) expect_op(p, ",");
        nodes_add(p, &names, target(p, false));
        expect_op(p, "=");
        nodes_add(p, &values, expression(p));
    }
    over(p, n, n->a = with_items(p, node(p, N_TUPLE), &names));
    over(p, n, n->b = with_items(p, node(p, N_TUPLE), &values));
    body_to(p, n, "endwith");
    return n;
}

static void signature(struct parser *p, struct node *n) {
    struct signature *m = n->macro;
    struct nodes names = {0}, defaults = {0};
    expect_op(p, "(");
    while (!is_op(p, ")")) {
        if (names.n) expect_op(p, ",");
        nodes_add(p, &names, name_node(p, expect_name(p)));
        bool has = skip_op(p, "=");
        if (!has && defaults.n && defaults.at[defaults.n - 1])
            raise_error(p->vm, "non-default argument follows default argument");
        nodes_add(p, &defaults, has ? expression(p) : NULL);
        over(p, n, defaults.at[defaults.n - 1]);
    }
    p->t++;
    m->n = names.n;
    m->param = vm_alloc(p->vm, names.n, sizeof *m->param);
    for (size_t i = 0; i < names.n; i++) m->param[i] = names.at[i]->symbol;
    m->otherwise = defaults.at;
}

// The body of a macro or a call block: a function of its own, where the loops around don't count.
static void macro_body(struct parser *p, struct node *n, const char *end) {
    int loops = p->loops;
    p->loops = 0;
    if (p->n_macros == JINJA_NESTING)
        raise_error(p->vm, "macros nest over %d deep (limit JINJA_NESTING)", JINJA_NESTING);
    p->macro[p->n_macros++] = n->macro;
    body_to(p, n, end);
    p->n_macros--;
    p->loops = loops;
    p->keeps = true;
}

static struct node *macro_statement(struct parser *p) {
    struct node *n = node(p, N_MACRO);
    n->macro = vm_alloc(p->vm, 1, sizeof *n->macro);
    n->macro->name = expect_name(p);
    n->symbol = symbol(p, n->macro->name);
    signature(p, n);
    macro_body(p, n, "endmacro");
    return n;
}

static struct node *call_statement(struct parser *p) {
    struct node *n = node(p, N_CALL_BLOCK);
    n->macro = vm_alloc(p->vm, 1, sizeof *n->macro);
    if (is_op(p, "(")) signature(p, n);
    over(p, n, n->a = expression(p));
    if (n->a->kind != N_CALL) raise_error(p->vm, "expected call");
    macro_body(p, n, "endcall");
    return n;
}

static struct node *filter_statement(struct parser *p) {
    struct node *n = node(p, N_FILTERED);
    over(p, n, n->b = block_filter(p, NULL));
    body_to(p, n, "endfilter");
    return n;
}

static struct node *block_statement(struct parser *p) {
    struct node *n = node(p, N_SCOPE);
    int loops = p->loops;
    struct sv name = n->text = expect_name(p);
    for (size_t i = 0; i < p->blocks.n; i++) {
        spend(p->vm, 1);
        if (sv_eq(p->blocks.at[i]->text, name))
            raise_error(p->vm, "block '%.*s' defined twice", (int)sv_cut(name, 0, 100).n, name.p);
    }
    nodes_add(p, &p->blocks, n);
    n->flag = !skip_name(p, "scoped");
    if (skip_name(p, "required")) n->kind = N_ABSENT;
    p->loops = 0;
    body(p, n, (const char *const[]){"endblock", NULL});
    p->t++;
    p->loops = loops;
    if (p->t->kind == T_NAME && sv_eq(p->t->text, name)) p->t++;
    return n;
}

// Marks what an assistant wrote, for training; the text is what counts here.
static struct node *generation_statement(struct parser *p) {
    struct node *n = node(p, N_SCOPE);
    int loops = p->loops;
    p->loops = 0;
    body_to(p, n, "endgeneration");
    p->loops = loops;
    return n;
}

static struct node *autoescape_statement(struct parser *p) {
    struct node *n = node(p, N_AUTOESCAPE);
    over(p, n, n->a = expression(p));
    body_to(p, n, "endautoescape");
    return n;
}

static struct node *print_statement(struct parser *p) {
    struct node *n = node(p, N_BODY);
    struct nodes l = {0};
    while (p->t->kind != T_BLOCK_END) {
        if (l.n) expect_op(p, ",");
        struct node *one = node(p, N_PRINT);
        over(p, one, one->a = expression(p));
        nodes_add(p, &l, one);
    }
    return with_items(p, n, &l);
}

static struct node *jump_statement(struct parser *p, enum node_kind kind) {
    if (!p->loops) raise_error(p->vm, "'%s' outside loop", kind == N_BREAK ? "break" : "continue");
    return node(p, kind);
}

static struct node *break_statement(struct parser *p) { return jump_statement(p, N_BREAK); }

static struct node *continue_statement(struct parser *p) { return jump_statement(p, N_CONTINUE); }

// Statements that load other templates: a chat template may hold them where they aren't reached.

static struct node *absent(struct parser *p, const char *what) {
    struct node *n = node(p, N_ABSENT);
    n->text = sv(what);
    return n;
}

static void context_option(struct parser *p) {
    if ((is_name(p, "with") || is_name(p, "without")) && next_is(p, "context")) p->t += 2;
}

static struct node *include_statement(struct parser *p) {
    struct node *n = absent(p, "include");
    over(p, n, expression(p));
    if (is_name(p, "ignore") && next_is(p, "missing")) p->t += 2;
    context_option(p);
    return n;
}

static struct node *extends_statement(struct parser *p) {
    struct node *n = absent(p, "extends");
    return over(p, n, expression(p));
}

static struct node *import_statement(struct parser *p) {
    struct node *n = absent(p, "import");
    over(p, n, expression(p));
    if (!skip_name(p, "as")) unexpected(p, "as");
    target(p, false);
    context_option(p);
    return n;
}

static struct node *from_statement(struct parser *p) {
    struct node *n = absent(p, "from");
    over(p, n, expression(p));
    if (!skip_name(p, "import")) unexpected(p, "import");
    for (bool more = true; more; more = skip_op(p, ",")) {
        if (p->t->kind == T_BLOCK_END) break;
        context_option(p);
        if (p->t->kind != T_NAME) break;
        expect_name(p);
        if (skip_name(p, "as")) expect_name(p);
    }
    context_option(p);
    return n;
}

static struct node *statement(struct parser *p) {
    static const struct {
        const char *tag;
        struct node *(*parse)(struct parser *p);
    } table[] = {
        {"for", for_statement},
        {"set", set_statement},
        {"macro", macro_statement},
        {"call", call_statement},
        {"with", with_statement},
        {"filter", filter_statement},
        {"block", block_statement},
        {"print", print_statement},
        {"break", break_statement},
        {"continue", continue_statement},
        {"generation", generation_statement},
        {"autoescape", autoescape_statement},
        {"include", include_statement},
        {"extends", extends_statement},
        {"import", import_statement},
        {"from", from_statement},
    };
    p->vm->line = p->t->line;
    if (is_name(p, "if")) return if_statement(p);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (skip_name(p, table[i].tag)) return table[i].parse(p);
    if (p->t->kind != T_NAME) unexpected(p, "tag name");
    struct sv name = sv_cut(p->t->text, 0, 100);
    raise_error(p->vm, "Encountered unknown tag '%.*s'.", (int)name.n, name.p);
}

void parse(struct vm *vm, const struct tokens *tokens, struct map *symbols, struct jinja *t) {
    struct parser p = {.vm = vm, .t = tokens->at, .out = t, .symbols = symbols};
    t->caller = symbol(&p, sv("caller"));
    t->varargs = symbol(&p, sv("varargs"));
    t->kwargs = symbol(&p, sv("kwargs"));
    t->loop = symbol(&p, sv("loop"));
    t->root = node(&p, N_BODY);
    statements(&p, t->root, NULL);
}
