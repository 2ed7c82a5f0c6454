// Filters that give generators: each element is made when it is asked for, so what comes after the
// last one that is needed is neither computed nor able to fail.
#include "chat/jinja/filters.h"

static struct value no_value(void) { return (struct value){.kind = V_MISSING}; }

// The arguments of a filter or test that is named by the first `skip` arguments.
static struct args rest(const struct args *all, size_t skip) {
    return (struct args){all->at + skip, all->n - skip, all->kw, all->n_kw};
}

static struct sv name_arg(struct vm *vm, struct value v) {
    if (v.kind != V_TEXT)
        raise_error(vm, "a filter's or test's name must be str, not %s", type_name(v));
    return sv_of(v);
}

static struct value keyword_or(const struct args *all, const char *name) {
    for (size_t i = 0; i < all->n_kw; i++)
        if (sv_is(all->kw[i].name, name)) return all->kw[i].value;
    return no_value();
}

static void map_begin(struct vm *vm, struct generator *g) {
    const struct args all = g->args;
    g->path = keyword_or(&all, "attribute");
    g->otherwise = keyword_or(&all, "default");
    if (all.n || g->path.kind == V_MISSING) {
        if (!all.n) raise_error(vm, "map requires a filter argument");
        struct sv name = name_arg(vm, all.at[0]);
        g->fn = find_filter(name);
        if (!g->fn) raise_error(vm, "No filter named '%.*s'.", (int)sv_cut(name, 0, 100).n, name.p);
        g->args = rest(&all, 1);
    } else if (all.n_kw > 1 + (g->otherwise.kind != V_MISSING)) {
        raise_error(vm, "map got an unexpected keyword argument");
    }
}

static bool map_more(struct vm *vm, struct generator *g, struct value *out) {
    struct value x;
    if (!g->begun) {
        if (!truth(g->of)) return false;
        map_begin(vm, g);
        g->source = iter_open(vm, g->of);
        g->begun = true;
    }
    if (!iter_next(vm, &g->source, &x)) return false;
    *out =
        g->fn ? call_builtin(vm, g->fn, x, &g->args) : item_attribute(vm, x, g->path, g->otherwise);
    return true;
}

struct value filter_map(struct vm *vm, const struct value *at, const struct args *all) {
    return generator_value(vm, map_more, &(struct generator){.of = at[0], .args = *all});
}

static void select_begin(struct vm *vm, struct generator *g) {
    const struct args all = g->args;
    size_t skip = g->attribute;
    if (skip && !all.n) raise_error(vm, "Missing parameter for attribute name");
    if (skip) g->path = all.at[0];
    if (all.n <= skip) return;
    struct sv name = name_arg(vm, all.at[skip]);
    g->fn = find_test(name);
    if (!g->fn) raise_error(vm, "No test named '%.*s'.", (int)sv_cut(name, 0, 100).n, name.p);
    g->args = rest(&all, skip + 1);
}

// select, reject, and their forms that look at an attribute.
static bool select_more(struct vm *vm, struct generator *g, struct value *out) {
    if (!g->begun) {
        if (!truth(g->of)) return false;
        select_begin(vm, g);
        g->source = iter_open(vm, g->of);
        g->begun = true;
    }
    while (iter_next(vm, &g->source, out)) {
        struct value y = g->attribute ? item_attribute(vm, *out, g->path, no_value()) : *out;
        if (truth(g->fn ? call_builtin(vm, g->fn, y, &g->args) : y) == g->want) return true;
    }
    return false;
}

static struct value select_items(struct vm *vm, struct value of, const struct args *all, bool want,
                                 bool attribute) {
    return generator_value(
        vm, select_more,
        &(struct generator){.of = of, .args = *all, .want = want, .attribute = attribute});
}

struct value filter_select(struct vm *vm, const struct value *at, const struct args *all) {
    return select_items(vm, at[0], all, true, false);
}

struct value filter_reject(struct vm *vm, const struct value *at, const struct args *all) {
    return select_items(vm, at[0], all, false, false);
}

struct value filter_selectattr(struct vm *vm, const struct value *at, const struct args *all) {
    return select_items(vm, at[0], all, true, true);
}

struct value filter_rejectattr(struct vm *vm, const struct value *at, const struct args *all) {
    return select_items(vm, at[0], all, false, true);
}

static bool unique_more(struct vm *vm, struct generator *g, struct value *out) {
    if (!g->begun) g->source = iter_open(vm, g->of), g->seen = dict_new(vm);
    g->begun = true;
    while (iter_next(vm, &g->source, out)) {
        struct value key = item_attribute(vm, *out, g->path, no_value());
        if (g->want) key = lowered(vm, key);
        if (dict_get(vm, g->seen, key).kind != V_MISSING) continue;
        dict_set(vm, g->seen, key, bool_value(true));
        return true;
    }
    return false;
}

struct value filter_unique(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return generator_value(vm, unique_more,
                           &(struct generator){.of = at[0], .path = at[2], .want = !truth(at[1])});
}

static bool items_more(struct vm *vm, struct generator *g, struct value *out) {
    if (g->of.kind == V_UNDEFINED) return false;
    if (g->of.kind != V_DICT) raise_error(vm, "Can only get item pairs from a mapping.");
    if (!g->begun) g->source = iter_open(vm, view_value(vm, g->of.dict, VIEW_ITEMS));
    g->begun = true;
    return iter_next(vm, &g->source, out);
}

struct value filter_items(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return generator_value(vm, items_more, &(struct generator){.of = at[0]});
}

// A row is complete once an element for the next one is there, which waits in `held`.
static bool batch_more(struct vm *vm, struct generator *g, struct value *out) {
    struct items row = {0};
    if (!g->begun) g->source = iter_open(vm, g->of);
    g->begun = true;
    if (g->held.kind != V_MISSING) items_add(vm, &row, g->held);
    g->held = no_value();
    for (struct value x; iter_next(vm, &g->source, &x);) {
        if (equal(vm, size_value(row.n), g->size)) {
            g->held = x;
            *out = list_value(vm, row.at, row.n);
            return true;
        }
        items_add(vm, &row, x);
    }
    if (!row.n) return false;
    int64_t want = given(g->otherwise) ? to_int(vm, g->size, "batch's size") : 0;
    while ((int64_t)row.n < want) items_add(vm, &row, g->otherwise);
    *out = list_value(vm, row.at, row.n);
    return true;
}

struct value filter_batch(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return generator_value(vm, batch_more,
                           &(struct generator){.of = at[0], .size = at[1], .otherwise = at[2]});
}

static bool slice_more(struct vm *vm, struct generator *g, struct value *out) {
    if (!g->begun) {
        struct items all = to_items(vm, g->of);
        g->of = list_value(vm, all.at, all.n);
        if (!to_int(vm, g->size, "slice's count"))
            raise_error(vm, "integer division or modulo by zero");
        g->begun = true;
    }
    const struct list *l = g->of.list;
    size_t n = to_count(vm, g->size, "slice's count");
    if (g->turn >= n) return false;
    size_t i = g->turn++, more = l->n % n, len = l->n / n + (i < more);
    size_t from = i * (l->n / n) + (i < more ? i : more);
    struct items row = {0};
    for (size_t k = 0; k < len; k++) items_add(vm, &row, l->at[from + k]);
    if (given(g->otherwise) && i >= more) items_add(vm, &row, g->otherwise);
    *out = list_value(vm, row.at, row.n);
    return true;
}

struct value filter_slice(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return generator_value(vm, slice_more,
                           &(struct generator){.of = at[0], .size = at[1], .otherwise = at[2]});
}
