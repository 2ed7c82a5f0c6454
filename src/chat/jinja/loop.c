// What a template may ask of `loop` and of a macro.
#include "chat/jinja/interp.h"

size_t loop_length(const struct loop *l) { return iter_count(l->vm, &l->it); }

void put_loop(struct vm *vm, const struct loop *l) {
    put_number(vm, (int64_t)l->index0 + 1);
    put_char(vm, '/');
    put_number(vm, (int64_t)loop_length(l));
}

static struct value next_item(struct vm *vm, const struct loop *l) {
    struct value x;
    return iter_peek(vm, &l->it, &x) ? x : undefined_hint(vm, "there is no next item");
}

struct value loop_member(struct vm *vm, struct loop *l, struct sv name) {
    struct value x;
    if (sv_is(name, "index")) return size_value(l->index0 + 1);
    if (sv_is(name, "index0")) return size_value(l->index0);
    if (sv_is(name, "revindex")) return size_value(loop_length(l) - l->index0);
    if (sv_is(name, "revindex0")) return size_value(loop_length(l) - l->index0 - 1);
    if (sv_is(name, "first")) return bool_value(l->index0 == 0);
    if (sv_is(name, "last")) return bool_value(!iter_peek(vm, &l->it, &x));
    if (sv_is(name, "length")) return size_value(loop_length(l));
    if (sv_is(name, "depth")) return size_value(l->depth0 + 1);
    if (sv_is(name, "depth0")) return size_value(l->depth0);
    if (sv_is(name, "nextitem")) return next_item(vm, l);
    if (sv_is(name, "previtem"))
        return l->index0 ? l->before : undefined_hint(vm, "there is no previous item");
    return (struct value){.kind = V_MISSING};
}

struct value loop_cycle(struct vm *vm, const struct value *at, const struct args *all) {
    if (!all->n) raise_error(vm, "no items for cycling given");
    return all->at[at[0].loop->index0 % all->n];
}

struct value loop_changed(struct vm *vm, const struct value *at, const struct args *all) {
    struct loop *l = at[0].loop;
    struct value *copy = vm_alloc(vm, all->n, sizeof *copy);
    for (size_t i = 0; i < all->n; i++) copy[i] = all->at[i];
    struct value now = tuple_value(vm, copy, all->n);
    bool changed = l->changed.kind == V_MISSING || !equal(vm, l->changed, now);
    if (changed) l->changed = now;
    return bool_value(changed);
}

struct sv macro_name(const struct macro *m) {
    return m->node->macro->name;
}

struct value macro_member(struct vm *vm, const struct macro *m, struct sv name) {
    const struct signature *g = m->node->macro;
    if (sv_is(name, "name")) return g->name.n ? text_value(vm, g->name) : none_value();
    if (sv_is(name, "catch_kwargs")) return bool_value(g->kwargs);
    if (sv_is(name, "catch_varargs")) return bool_value(g->varargs);
    if (sv_is(name, "caller")) return bool_value(g->caller);
    if (!sv_is(name, "arguments")) return (struct value){.kind = V_MISSING};
    struct value *at = vm_alloc(vm, g->n, sizeof *at);
    for (size_t i = 0; i < g->n; i++) at[i] = text_value(vm, vm->t->symbol[g->param[i]]);
    return tuple_value(vm, at, g->n);
}
