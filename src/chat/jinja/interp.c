// Walks the tree: statements, expressions, calls.
#include "base/mem.h"
#include "chat/jinja/interp.h"

#include <string.h>

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

static struct value eval(struct vm *vm, const struct node *n, struct scope *s);
static enum flow exec_all(struct vm *vm, const struct node *n, struct scope *s);

// Variables.

static struct scope *scope_new(struct vm *vm, struct scope *up) {
    struct scope *s = vm_alloc(vm, 1, sizeof *s);
    s->up = up;
    return s;
}

static void bind(struct vm *vm, struct scope *s, int symbol, struct value v) {
    if (!s->up) {
        vm->global[symbol] = v;
        return;
    }
    size_t i = 0;
    while (i < s->n && s->at[i].symbol != symbol) i++;
    if (i == s->cap) {
        size_t cap = s->cap * 2 + 4;
        struct binding *at = vm_alloc(vm, cap, sizeof *at);
        if (s->n) memcpy(at, s->at, s->n * sizeof *at);
        s->at = at;
        s->cap = cap;
    }
    if (i == s->n) s->n++;
    s->at[i] = (struct binding){symbol, v};
}

static void unset_names(struct vm *vm, const struct node *n, struct scope *s) {
    for (size_t i = 0; i < n->n_unset; i++)
        bind(vm, s, n->unset[i], (struct value){.kind = V_MISSING});
}

// The scope that n's items run in.
static struct scope *scope_of(struct vm *vm, const struct node *n, struct scope *up) {
    struct scope *s = scope_new(vm, up);
    unset_names(vm, n, s);
    return s;
}

static struct value hidden(const struct vm *vm, int symbol) {
    const struct node *root = vm->t->root;
    size_t i = 0;
    while (i < root->n_unset && root->unset[i] != symbol) i++;
    return i < root->n_unset ? vm->hidden[i] : (struct value){.kind = V_MISSING};
}

static struct value bound_to(const struct vm *vm, const struct scope *s, int symbol) {
    for (; s->up; s = s->up)
        for (size_t i = 0; i < s->n; i++)
            if (s->at[i].symbol == symbol) return s->at[i].value;
    struct value v = vm->global[symbol];
    return v.kind == V_MISSING && s->exported ? hidden(vm, symbol) : v;
}

static struct value look_up(struct vm *vm, const struct scope *s, int symbol) {
    struct value v = bound_to(vm, s, symbol);
    return v.kind == V_MISSING ? undefined_name(vm, vm->t->symbol[symbol]) : v;
}

static void assign_member(struct vm *vm, struct scope *s, const struct node *to, struct value v) {
    struct value space = look_up(vm, s, to->symbol);
    if (space.kind != V_NAMESPACE)
        raise_error(vm, "cannot assign attribute on non-namespace object");
    if (to->text.n && to->text.p[0] == '_')
        raise_error(vm, "a namespace cannot hold the underscore-prefixed attribute '%.*s'",
                    (int)sv_cut(to->text, 0, 100).n, to->text.p);
    dict_set(vm, space.space, text_value(vm, to->text), v);
}

static void assign(struct vm *vm, struct scope *s, const struct node *to, struct value v) {
    if (to->kind == N_NAME) {
        bind(vm, s, to->symbol, v);
        return;
    }
    if (to->kind == N_NS_TARGET) {
        assign_member(vm, s, to, v);
        return;
    }
    struct items all = to_items(vm, v);
    if (all.n > to->n) raise_error(vm, "too many values to unpack (expected %zu)", to->n);
    if (all.n < to->n)
        raise_error(vm, "not enough values to unpack (expected %zu, got %zu)", to->n, all.n);
    for (size_t i = 0; i < all.n; i++) assign(vm, s, to->item[i], all.at[i]);
}

// Calls.

static size_t split_params(const char *params, struct sv out[MAX_PARAMS]) {
    size_t n = 0;
    for (const char *p = params; *p && n < MAX_PARAMS; n++) {
        const char *end = strchr(p, ' ');
        out[n] = end ? sv_n(p, (size_t)(end - p)) : sv(p);
        p = end ? end + 1 : p + out[n].n;
    }
    return n;
}

struct value call_builtin(struct vm *vm, const struct builtin *fn, struct value self,
                          const struct args *args) {
    struct value at[MAX_PARAMS + 1] = {self};
    if (!fn->params) return fn->call(vm, at, args);
    struct sv name[MAX_PARAMS] = {0};
    size_t n = split_params(fn->params, name);
    if (args->n > n)
        raise_error(vm, "%s takes at most %zu arguments (%zu given)", fn->name, n, args->n);
    for (size_t i = 0; i < args->n; i++) at[i + 1] = args->at[i];
    for (size_t k = 0; k < args->n_kw; k++) {
        struct sv key = args->kw[k].name;
        size_t i = 0;
        while (i < n && !sv_eq(name[i], key)) i++;
        if (i == n || at[i + 1].kind != V_MISSING)
            raise_error(vm, "%s got an unexpected keyword argument '%.*s'", fn->name,
                        (int)sv_cut(key, 0, 100).n, key.p);
        at[i + 1] = args->kw[k].value;
    }
    for (int i = 0; i < fn->least; i++)
        if (at[i + 1].kind == V_MISSING)
            raise_error(vm, "%s lacks its argument '%.*s'", fn->name, (int)name[i].n, name[i].p);
    return fn->call(vm, at, args);
}

static const struct keyword *find_keyword(const struct args *args, struct sv name) {
    for (size_t i = 0; i < args->n_kw; i++)
        if (sv_eq(args->kw[i].name, name)) return &args->kw[i];
    return NULL;
}

static bool is_param(const struct vm *vm, const struct signature *g, struct sv name) {
    for (size_t i = 0; i < g->n; i++)
        if (sv_eq(vm->t->symbol[g->param[i]], name)) return true;
    return false;
}

// Keywords that are no parameters: the macro's kwargs, or an error.
static void bind_keywords(struct vm *vm, const struct signature *g, const struct args *args,
                          struct scope *s) {
    struct dict *rest = dict_new(vm);
    for (size_t i = 0; i < args->n_kw; i++) {
        struct sv name = args->kw[i].name;
        if (is_param(vm, g, name) || (g->caller && sv_is(name, "caller"))) continue;
        if (!g->kwargs)
            raise_error(vm, "macro '%.*s' takes no keyword argument '%.*s'",
                        (int)sv_cut(g->name, 0, 100).n, g->name.p, (int)sv_cut(name, 0, 100).n,
                        name.p);
        dict_set(vm, rest, text_value(vm, name), args->kw[i].value);
    }
    if (g->kwargs) bind(vm, s, vm->t->kwargs, (struct value){.kind = V_DICT, .dict = rest});
}

static void bind_params(struct vm *vm, const struct signature *g, const struct args *args,
                        struct scope *s) {
    for (size_t i = 0; i < g->n; i++) {
        const struct keyword *kw = find_keyword(args, vm->t->symbol[g->param[i]]);
        struct value v;
        if (i < args->n)
            v = args->at[i];
        else if (kw)
            v = kw->value;
        else if (g->otherwise[i])
            v = eval(vm, g->otherwise[i], s);
        else
            v = undefined_hint(vm, "a macro's parameter was not provided");
        bind(vm, s, g->param[i], v);
    }
    if (g->caller && !is_param(vm, g, sv("caller"))) {
        const struct keyword *kw = find_keyword(args, sv("caller"));
        bind(vm, s, vm->t->caller, kw ? kw->value : undefined_hint(vm, "No caller defined"));
    }
    bind_keywords(vm, g, args, s);
    size_t extra = args->n > g->n ? args->n - g->n : 0;
    if (extra && !g->varargs)
        raise_error(vm, "macro '%.*s' takes not more than %zu argument(s)",
                    (int)sv_cut(g->name, 0, 100).n, g->name.p, g->n);
    if (!g->varargs) return;
    struct value *more = vm_alloc(vm, extra, sizeof *more);
    for (size_t i = 0; i < extra; i++) more[i] = args->at[g->n + i];
    bind(vm, s, vm->t->varargs, tuple_value(vm, more, extra));
}

struct value captured(struct vm *vm, size_t mark) {
    struct value v = text_take(vm, mark);
    return vm->autoescape ? marked(vm, v) : v;
}

static struct value call_macro(struct vm *vm, const struct macro *m, const struct args *args) {
    enter(vm);
    int line = vm->line;
    struct scope *s = scope_of(vm, m->node, m->scope);
    bind_params(vm, m->node->macro, args, s);
    size_t mark = text_mark(vm);
    exec_all(vm, m->node, s);
    vm->line = line;
    leave(vm);
    return captured(vm, mark);
}

static enum flow run_loop(struct vm *vm, const struct node *n, struct value over, struct scope *up,
                          size_t depth0);

// loop(items) inside a recursive loop: its body again, over the items, one level deeper.
static struct value call_loop(struct vm *vm, const struct loop *l, const struct args *args) {
    if (!l->node->flag)
        raise_error(vm, "The loop must have the 'recursive' marker to be called recursively.");
    if (args->n != 1 || args->n_kw) raise_error(vm, "loop() takes one argument");
    size_t mark = text_mark(vm);
    run_loop(vm, l->node, args->at[0], l->scope, l->depth0 + 1);
    return captured(vm, mark);
}

static struct value call_value(struct vm *vm, struct value f, const struct args *args) {
    if (f.kind == V_BUILTIN) return call_builtin(vm, f.bound->fn, f.bound->self, args);
    if (f.kind == V_MACRO) return call_macro(vm, f.macro, args);
    if (f.kind == V_LOOP) return call_loop(vm, f.loop, args);
    if (f.kind == V_UNDEFINED) raise_undefined(vm, f);
    if (f.kind != V_JOINER) raise_error(vm, "'%s' object is not callable", type_name(f));
    struct value v = f.joiner->used ? f.joiner->separator : text_value(vm, sv(""));
    f.joiner->used = true;
    return v;
}

// The arguments of a call. The caller of a call block (NULL: none) stands behind the keywords that
// are written, before those of **.
static struct args eval_args(struct vm *vm, const struct call_args *from, struct scope *s,
                             const struct value *caller) {
    struct items at = {0};
    for (size_t i = 0; i < from->n; i++) items_add(vm, &at, eval(vm, from->at[i], s));
    if (from->star) {
        struct iter it = iter_open(vm, eval(vm, from->star, s));
        for (struct value x; iter_next(vm, &it, &x);) items_add(vm, &at, x);
    }
    struct value extra = {0};
    size_t n_extra = 0;
    size_t n_kw = from->n_kw;
    if (from->star2) {
        extra = eval(vm, from->star2, s);
        if (extra.kind != V_DICT) raise_error(vm, "argument after ** must be a mapping");
        n_extra = extra.dict->n;
    }
    struct keyword *kw = vm_alloc(vm, n_kw + n_extra + 1, sizeof *kw);
    for (size_t i = 0; i < n_kw; i++)
        kw[i] = (struct keyword){from->name[i], eval(vm, from->kw[i], s)};
    if (caller) kw[n_kw++] = (struct keyword){sv("caller"), *caller};
    for (size_t i = 0; i < n_extra; i++) {
        struct pair *p = &extra.dict->at[i];
        if (p->key.kind != V_TEXT) raise_error(vm, "keywords must be strings");
        kw[n_kw++] = (struct keyword){sv_of(p->key), p->value};
    }
    return (struct args){at.at, at.n, kw, n_kw};
}

// Expressions.

static struct value eval_dict(struct vm *vm, const struct node *n, struct scope *s) {
    struct dict *d = dict_new(vm);
    for (size_t i = 0; i + 1 < n->n; i += 2) {
        struct value key = eval(vm, n->item[i], s);
        dict_set(vm, d, key, eval(vm, n->item[i + 1], s));
    }
    return (struct value){.kind = V_DICT, .dict = d};
}

static struct value eval_list(struct vm *vm, const struct node *n, struct scope *s) {
    struct value *at = vm_alloc(vm, n->n, sizeof *at);
    for (size_t i = 0; i < n->n; i++) at[i] = eval(vm, n->item[i], s);
    return n->kind == N_LIST ? list_value(vm, at, n->n) : tuple_value(vm, at, n->n);
}

static struct value eval_slice(struct vm *vm, const struct node *n, struct scope *s) {
    struct value of = eval(vm, n->a, s), part[3];
    for (int i = 0; i < 3; i++) part[i] = n->item[i] ? eval(vm, n->item[i], s) : none_value();
    // jinja2 computes what is literal beforehand, where a slice that can't be is undefined.
    if (n->flag && !can_slice(of, part)) return undefined_member(vm, of, sv("slice"));
    return get_slice(vm, of, part);
}

static bool holds(struct vm *vm, char op, struct value a, struct value b) {
    switch (op) {
    case '=': return equal(vm, a, b);
    case '!': return !equal(vm, a, b);
    case '<': return compare(vm, a, b, "<") == -1;
    case 'l': return compare(vm, a, b, "<=") <= 0;
    case '>': return compare(vm, a, b, ">") == 1;
    case 'g': return (unsigned)compare(vm, a, b, ">=") <= 1;
    case 'i': return contains(vm, b, a);
    default: return !contains(vm, b, a);
    }
}

static struct value eval_compare(struct vm *vm, const struct node *n, struct scope *s) {
    struct value a = eval(vm, n->item[0], s);
    for (size_t i = 1; i < n->n; i++) {
        struct value b = eval(vm, n->item[i], s);
        if (!holds(vm, n->text.p[i - 1], a, b)) return bool_value(false);
        a = b;
    }
    return bool_value(true);
}

// What follows the first operand is put together before it is appended, so that the first, when it
// has grown this way before, grows in place.
static struct value eval_concat(struct vm *vm, const struct node *n, struct scope *s) {
    struct value first = to_text(vm, eval(vm, n->item[0], s));
    size_t mark = text_mark(vm);
    for (size_t i = 1; i < n->n; i++) {
        struct value v = eval(vm, n->item[i], s);
        put_str(vm, v);
    }
    if (first.text->markup) first = text_value(vm, sv_of(first)); // the result is plain
    return add_text(vm, first, text_take(vm, mark));
}

static struct value repeat_list(struct vm *vm, struct value v, struct value times) {
    size_t n = to_count(vm, times, "the repeat count"), total;
    if (!size_mul(v.list->n, n, &total)) total = SIZE_MAX;
    struct value *at = vm_alloc(vm, total, sizeof *at);
    for (size_t i = 0; i < total; i++) at[i] = v.list->at[i % v.list->n];
    spend(vm, total);
    return v.kind == V_LIST ? list_value(vm, at, total) : tuple_value(vm, at, total);
}

static bool is_sequence(struct value v) {
    return v.kind == V_TEXT || v.kind == V_LIST || v.kind == V_TUPLE;
}

static struct value repeat(struct vm *vm, struct value v, struct value times) {
    return v.kind == V_TEXT ? repeat_text(vm, v, times) : repeat_list(vm, v, times);
}

struct value binary(struct vm *vm, char op, struct value a, struct value b) {
    if (is_number(a) && is_number(b)) return arithmetic(vm, op, a, b);
    if (op == '%' && a.kind == V_TEXT) return format_percent(vm, a, b);
    if (a.kind == V_UNDEFINED) raise_undefined(vm, a);
    if (b.kind == V_UNDEFINED) raise_undefined(vm, b);
    if (op == '+' && a.kind == b.kind && a.kind == V_TEXT) return add_text(vm, a, b);
    if (op == '+' && a.kind == b.kind && is_sequence(a)) return add_lists(vm, a, b);
    if (op == '*' && is_sequence(a) && is_int(b)) return repeat(vm, a, b);
    if (op == '*' && is_int(a) && is_sequence(b)) return repeat(vm, b, a);
    if (op == '+' && is_sequence(a))
        raise_error(vm, "can only concatenate %s (not \"%s\") to %s", type_name(a), type_name(b),
                    type_name(a));
    char name[2] = {op, 0};
    raise_error(vm, "unsupported operand type(s) for %s: '%s' and '%s'",
                op == 'f'   ? "//"
                : op == '^' ? "** or pow()"
                            : name,
                type_name(a), type_name(b));
}

static struct value eval_sign(struct vm *vm, const struct node *n, struct scope *s) {
    struct value v = eval(vm, n->a, s);
    if (v.kind == V_UNDEFINED) raise_undefined(vm, v);
    if (!is_number(v)) raise_error(vm, "bad operand type for unary %c: '%s'", n->op, type_name(v));
    return n->op == '-' ? negate(vm, v) : arithmetic(vm, '+', int_value(0), v);
}

static struct value eval_filter(struct vm *vm, const struct node *n, struct scope *s) {
    struct value v = n->a ? eval(vm, n->a, s) : vm->piped;
    vm->line = n->line;
    if (!n->fn)
        raise_error(vm, "No filter named '%.*s'.", (int)sv_cut(n->text, 0, 100).n, n->text.p);
    struct args args = eval_args(vm, n->args, s, NULL);
    vm->line = n->line;
    return call_builtin(vm, n->fn, v, &args);
}

static struct value eval_test(struct vm *vm, const struct node *n, struct scope *s) {
    struct value v = eval(vm, n->a, s);
    vm->line = n->line;
    if (!n->fn) raise_error(vm, "No test named '%.*s'.", (int)sv_cut(n->text, 0, 100).n, n->text.p);
    struct args args = eval_args(vm, n->args, s, NULL);
    return bool_value(truth(call_builtin(vm, n->fn, v, &args)));
}

static struct value eval_call(struct vm *vm, const struct node *n, struct scope *s) {
    struct value f = eval(vm, n->a, s);
    struct args args = eval_args(vm, n->args, s, NULL);
    vm->line = n->line;
    return call_value(vm, f, &args);
}

static struct value eval_cond(struct vm *vm, const struct node *n, struct scope *s) {
    if (truth(eval(vm, n->b, s))) return eval(vm, n->a, s);
    if (n->c) return eval(vm, n->c, s);
    return undefined_hint(vm, "an inline if was false and has no else");
}

static struct value eval_binary(struct vm *vm, const struct node *n, struct scope *s) {
    struct value a = eval(vm, n->a, s), b = eval(vm, n->b, s);
    vm->line = n->line;
    return binary(vm, n->op, a, b);
}

static struct value eval_inner(struct vm *vm, const struct node *n, struct scope *s) {
    struct value v;
    switch (n->kind) {
    case N_LIST:
    case N_TUPLE: return eval_list(vm, n, s);
    case N_DICT: return eval_dict(vm, n, s);
    case N_MEMBER: return get_member(vm, eval(vm, n->a, s), n->text);
    case N_ITEM: v = eval(vm, n->a, s); return get_item(vm, v, eval(vm, n->b, s));
    case N_SLICE: return eval_slice(vm, n, s);
    case N_CALL: return eval_call(vm, n, s);
    case N_FILTER: return eval_filter(vm, n, s);
    case N_TEST: return eval_test(vm, n, s);
    case N_NOT: return bool_value(!truth(eval(vm, n->a, s)));
    case N_SIGN: return eval_sign(vm, n, s);
    case N_BINARY: return eval_binary(vm, n, s);
    case N_COMPARE: return eval_compare(vm, n, s);
    case N_AND: v = eval(vm, n->a, s); return truth(v) ? eval(vm, n->b, s) : v;
    case N_OR: v = eval(vm, n->a, s); return truth(v) ? v : eval(vm, n->b, s);
    case N_CONCAT: return eval_concat(vm, n, s);
    default: return eval_cond(vm, n, s);
    }
}

static struct value eval(struct vm *vm, const struct node *n, struct scope *s) {
    spend(vm, 1);
    if (n->kind == N_CONST) return n->value;
    if (n->kind == N_NAME) return look_up(vm, s, n->symbol);
    enter(vm);
    vm->line = n->line;
    struct value v = eval_inner(vm, n, s);
    leave(vm);
    return v;
}

// Statements.

static void print_value(struct vm *vm, struct value v) {
    if (!vm->autoescape) {
        put_str(vm, v);
        return;
    }
    put_html(vm, to_text(vm, v));
}

// The next item that passes the loop's own condition, which sees what the body has done so far.
static bool passing(struct vm *vm, struct generator *g, struct value *out) {
    while (iter_next(vm, &g->source, out)) {
        g->scope->n = 0;
        assign(vm, g->scope, g->loop->a, *out);
        if (truth(eval(vm, g->loop->c, g->scope))) return true;
    }
    return false;
}

static struct value passing_items(struct vm *vm, const struct node *n, struct value over,
                                  struct scope *up) {
    struct generator g = {.source = iter_open(vm, over), .loop = n, .scope = scope_new(vm, up)};
    return generator_value(vm, passing, &g);
}

static enum flow run_loop(struct vm *vm, const struct node *n, struct value over, struct scope *up,
                          size_t depth0) {
    enter(vm);
    if (n->c) over = passing_items(vm, n, over, up);
    struct loop *l = vm_alloc(vm, 1, sizeof *l);
    *l = (struct loop){
        .node = n, .scope = up, .it = iter_open(vm, over), .depth0 = depth0, .vm = vm};
    struct scope *s = NULL;
    bool ended = false; // a turn reached the body's end
    enum flow flow = FLOW_ON;
    for (struct value x; flow != FLOW_BREAK && iter_next(vm, &l->it, &x);) {
        if (!s || n->keeps) s = scope_new(vm, up);
        s->n = 0;
        unset_names(vm, n, s);
        l->index0 = l->it.i - 1;
        l->before = l->current;
        l->current = x;
        bind(vm, s, vm->t->loop, (struct value){.kind = V_LOOP, .loop = l});
        assign(vm, s, n->a, x);
        flow = exec_all(vm, n, s);
        ended |= flow == FLOW_ON;
    }
    flow = FLOW_ON;
    if (!ended && n->otherwise) flow = exec_all(vm, n->otherwise, scope_of(vm, n->otherwise, up));
    leave(vm);
    return flow;
}

static enum flow exec_if(struct vm *vm, const struct node *n, struct scope *s) {
    while (n && n->kind == N_IF) {
        if (truth(eval(vm, n->a, s))) return exec_all(vm, n, s);
        n = n->b;
    }
    return n ? exec_all(vm, n, s) : FLOW_ON;
}

// The items of n in a scope of their own, their output as a value.
static enum flow capture(struct vm *vm, const struct node *n, struct scope *s, struct value *out) {
    size_t mark = text_mark(vm);
    enum flow flow = exec_all(vm, n, scope_of(vm, n, s));
    *out = captured(vm, mark);
    if (!n->b) return flow;
    vm->piped = *out;
    *out = eval(vm, n->b, s);
    return flow;
}

static enum flow exec_set_block(struct vm *vm, const struct node *n, struct scope *s) {
    struct value v;
    enum flow flow = capture(vm, n, s, &v);
    if (flow == FLOW_ON) assign(vm, s, n->a, v);
    return flow;
}

static enum flow exec_filtered(struct vm *vm, const struct node *n, struct scope *s) {
    struct value v;
    enum flow flow = capture(vm, n, s, &v);
    if (flow == FLOW_ON) print_value(vm, v);
    return flow;
}

static enum flow exec_with(struct vm *vm, const struct node *n, struct scope *s) {
    struct scope *inner = scope_of(vm, n, s);
    for (size_t i = 0; i < n->a->n; i++)
        assign(vm, inner, n->a->item[i], eval(vm, n->b->item[i], s));
    return exec_all(vm, n, inner);
}

static struct value macro_value(struct vm *vm, const struct node *n, struct scope *s) {
    struct macro *m = vm_alloc(vm, 1, sizeof *m);
    *m = (struct macro){n, s};
    return (struct value){.kind = V_MACRO, .macro = m};
}

static void exec_call_block(struct vm *vm, const struct node *n, struct scope *s) {
    struct value f = eval(vm, n->a->a, s);
    struct value caller = macro_value(vm, n, s);
    struct args args = eval_args(vm, n->a->args, s, &caller);
    vm->line = n->line;
    print_value(vm, call_value(vm, f, &args));
}

static enum flow exec_autoescape(struct vm *vm, const struct node *n, struct scope *s) {
    bool before = vm->autoescape;
    vm->autoescape = truth(eval(vm, n->a, s));
    enum flow flow = exec_all(vm, n, scope_of(vm, n, s));
    vm->autoescape = before;
    return flow;
}

static enum flow exec(struct vm *vm, const struct node *n, struct scope *s) {
    vm->line = n->line;
    spend(vm, 1);
    switch (n->kind) {
    case N_DATA: put(vm, n->text); return FLOW_ON;
    case N_PRINT: print_value(vm, eval(vm, n->a, s)); return FLOW_ON;
    case N_IF: return exec_if(vm, n, s);
    case N_BODY: return exec_all(vm, n, s);
    case N_SCOPE: {
        if (n->flag) s = scope_new(vm, NULL); // not on the stack: a macro may keep it
        if (n->flag) s->exported = true;
        return exec_all(vm, n, scope_of(vm, n, s));
    }
    case N_WITH: return exec_with(vm, n, s);
    case N_FOR: return run_loop(vm, n, eval(vm, n->b, s), s, 0);
    case N_SET: assign(vm, s, n->a, eval(vm, n->b, s)); return FLOW_ON;
    case N_SET_BLOCK: return exec_set_block(vm, n, s);
    case N_FILTERED: return exec_filtered(vm, n, s);
    case N_MACRO: bind(vm, s, n->symbol, macro_value(vm, n, s)); return FLOW_ON;
    case N_CALL_BLOCK: exec_call_block(vm, n, s); return FLOW_ON;
    case N_AUTOESCAPE: return exec_autoescape(vm, n, s);
    case N_ABSENT:
        raise_error(vm,
                    "%.*s: no loader for this environment specified: a chat template is one "
                    "file",
                    (int)n->text.n, n->text.p);
    case N_BREAK: return FLOW_BREAK;
    default: return FLOW_CONTINUE;
    }
}

static enum flow exec_all(struct vm *vm, const struct node *n, struct scope *s) {
    enum flow flow = FLOW_ON;
    enter(vm);
    for (size_t i = 0; i < n->n && flow == FLOW_ON; i++) flow = exec(vm, n->item[i], s);
    leave(vm);
    return flow;
}

void run_template(struct vm *vm) {
    struct scope root = {0};
    const struct node *n = vm->t->root;
    vm->hidden = vm_alloc(vm, n->n_unset, sizeof *vm->hidden);
    for (size_t i = 0; i < n->n_unset; i++) vm->hidden[i] = vm->global[n->unset[i]];
    unset_names(vm, n, &root);
    exec_all(vm, vm->t->root, &root);
}
