// The pass between parsing and running, which does what jinja2's compiler does with names.
//
// There, a name is resolved once for each scope (the template, a loop's body, a macro, ...), in the
// order of the source: when the first that the scope does with it is to set it, and no scope around
// knows it, it is a variable of this scope alone, undefined until it is set, and hides a variable
// of that name among the template's inputs, also from scopes inside that run earlier:
//   {% for x in l %}{{ tools }}{% endfor %}{% set tools = 1 %}    prints nothing
// One that is first met in a branch of an if is what it was before. Names of the first kind are
// listed in the node's `unset`.
//
// Filters and tests that don't exist are refused here, unless directly inside an if, so that a
// template may ask whether there is one.
#include "chat/jinja/ast.h"

#include <string.h>

struct entry {
    int symbol;
    bool unset;
};

struct names {
    struct entry *at;
    size_t n, cap;
};

struct frame {
    struct vm *vm;
    const struct jinja *t;
    const struct frame *up; // NULL: the template, or a block, which sees only what was exported
    struct names names;
    bool soft;
};

static void expression_names(struct frame *f, const struct node *n);
static void frame_of(struct frame *up, struct node *n, const struct node *target);

static bool has(struct vm *vm, const struct names *l, int symbol) {
    for (size_t i = 0; i < l->n; i++) {
        spend(vm, 1);
        if (l->at[i].symbol == symbol) return true;
    }
    return false;
}

static bool known_around(const struct frame *f, int symbol) {
    for (const struct frame *up = f->up; up; up = up->up)
        if (has(f->vm, &up->names, symbol)) return true;
    return false;
}

static void add(struct frame *f, int symbol, bool unset) {
    struct names *l = &f->names;
    if (has(f->vm, l, symbol)) return;
    if (l->n == l->cap) {
        size_t cap = l->cap * 2 + 8;
        struct entry *at = vm_alloc(f->vm, cap, sizeof *at);
        if (l->n) memcpy(at, l->at, l->n * sizeof *at);
        l->at = at;
        l->cap = cap;
    }
    l->at[l->n++] = (struct entry){symbol, unset};
}

static void load(struct frame *f, int symbol) {
    if (!known_around(f, symbol)) add(f, symbol, false);
}

static void store(struct frame *f, int symbol) { add(f, symbol, !known_around(f, symbol)); }

static void parameter(struct frame *f, int symbol) { add(f, symbol, false); }

static void target_names(struct frame *f, const struct node *n, void (*how)(struct frame *, int)) {
    if (n->kind == N_NAME)
        how(f, n->symbol);
    else if (n->kind == N_NS_TARGET)
        load(f, n->symbol);
    for (size_t i = 0; i < n->n; i++) target_names(f, n->item[i], how);
}

// Expressions.

static void all_names(struct frame *f, struct node *const *at, size_t n) {
    for (size_t i = 0; i < n; i++) expression_names(f, at[i]);
}

static void argument_names(struct frame *f, const struct call_args *args) {
    all_names(f, args->at, args->n);
    all_names(f, args->kw, args->n_kw);
    expression_names(f, args->star);
    expression_names(f, args->star2);
}

static noreturn void no_such(struct frame *f, const struct node *n) {
    struct sv name = sv_cut(n->text, 0, 100);
    f->vm->line = n->line;
    raise_error(f->vm, "No %s named '%.*s'.", n->kind == N_FILTER ? "filter" : "test", (int)name.n,
                name.p);
}

static void expression_names(struct frame *f, const struct node *n) {
    if (!n) return;
    spend(f->vm, 1);
    bool soft = f->soft;
    if ((n->kind == N_FILTER || n->kind == N_TEST) && !n->fn && !soft) no_such(f, n);
    if (n->kind == N_NAME) load(f, n->symbol);
    f->soft |= n->kind == N_COND;
    if (n->kind == N_COND) expression_names(f, n->b);
    expression_names(f, n->a);
    if (n->kind != N_COND) expression_names(f, n->b);
    expression_names(f, n->c);
    all_names(f, n->item, n->n);
    if (n->args) argument_names(f, n->args);
    f->soft = soft;
}

// Statements: the names of one scope, without what lies in scopes inside it.

static void statement_names(struct frame *f, const struct node *n);

static void body_names(struct frame *f, const struct node *n) {
    for (size_t i = 0; i < n->n; i++) statement_names(f, n->item[i]);
}

static void if_names(struct frame *f, const struct node *n) {
    size_t before = f->names.n;
    bool soft = f->soft;
    f->soft = true;
    for (; n && n->kind == N_IF; n = n->b) {
        expression_names(f, n->a);
        body_names(f, n);
    }
    if (n) body_names(f, n);
    f->soft = soft;
    for (size_t i = before; i < f->names.n; i++) f->names.at[i].unset = false;
}

static void statement_names(struct frame *f, const struct node *n) {
    spend(f->vm, 1);
    switch (n->kind) {
    case N_PRINT: expression_names(f, n->a); break;
    case N_BODY: body_names(f, n); break;
    case N_FOR: expression_names(f, n->b); break;
    case N_SET_BLOCK: target_names(f, n->a, store); break;
    case N_FILTERED: expression_names(f, n->b); break;
    case N_WITH: expression_names(f, n->b); break;
    case N_CALL_BLOCK: expression_names(f, n->a); break;
    case N_AUTOESCAPE: expression_names(f, n->a); break;
    case N_MACRO: store(f, n->symbol); break;
    case N_SET:
        expression_names(f, n->b);
        target_names(f, n->a, store);
        break;
    case N_IF: if_names(f, n); break;
    default: break;
    }
}

// The scopes inside.

static void inner_frames(struct frame *f, struct node *n);

static void open_frame(struct frame *f, struct frame *up, const struct node *n) {
    *f = (struct frame){.vm = up->vm, .t = up->t, .up = up};
    if (n->kind == N_SCOPE && n->flag) f->up = NULL;
    if (n->kind == N_FOR) parameter(f, f->t->loop);
    if (!n->macro) return;
    for (size_t i = 0; i < n->macro->n; i++) parameter(f, n->macro->param[i]);
    for (size_t i = 0; i < n->macro->n; i++) expression_names(f, n->macro->otherwise[i]);
    parameter(f, f->t->caller);
    parameter(f, f->t->varargs);
    parameter(f, f->t->kwargs);
}

static void list_unset(struct frame *f, struct node *n) {
    int *unset = vm_alloc(f->vm, f->names.n, sizeof *unset);
    for (size_t i = 0; i < f->names.n; i++)
        if (f->names.at[i].unset) unset[n->n_unset++] = f->names.at[i].symbol;
    n->unset = unset;
}

// The scope of n's items; `target` are names that it begins with.
static void frame_of(struct frame *up, struct node *n, const struct node *target) {
    struct frame f;
    open_frame(&f, up, n);
    if (target) target_names(&f, target, parameter);
    body_names(&f, n);
    list_unset(&f, n);
    for (size_t i = 0; i < n->n; i++) inner_frames(&f, n->item[i]);
}

// A loop's condition sees the loop's target.
static void condition_frame(struct frame *up, const struct node *n) {
    struct frame f;
    open_frame(&f, up, n);
    target_names(&f, n->a, parameter);
    expression_names(&f, n->c);
}

static void inner_frames(struct frame *f, struct node *n) {
    switch (n->kind) {
    case N_IF:
        for (; n && n->kind == N_IF; n = n->b)
            for (size_t i = 0; i < n->n; i++) inner_frames(f, n->item[i]);
        if (n) inner_frames(f, n);
        break;
    case N_BODY:
        for (size_t i = 0; i < n->n; i++) inner_frames(f, n->item[i]);
        break;
    case N_FOR:
        if (n->c) condition_frame(f, n);
        frame_of(f, n, n->a);
        if (n->otherwise) frame_of(f, n->otherwise, NULL);
        break;
    case N_WITH: frame_of(f, n, n->a); break;
    case N_SCOPE:
    case N_SET_BLOCK:
    case N_FILTERED:
    case N_MACRO:
    case N_CALL_BLOCK:
    case N_AUTOESCAPE: frame_of(f, n, NULL); break;
    default: break;
    }
}

void resolve_scopes(struct vm *vm, struct jinja *t) {
    struct frame f = {.vm = vm, .t = t};
    body_names(&f, t->root);
    list_unset(&f, t->root);
    for (size_t i = 0; i < t->root->n; i++) inner_frames(&f, t->root->item[i]);
}
