// Filters on sequences.
#include "chat/jinja/filters.h"

#include <string.h>

#include "base/clock.h"

struct value item_attribute(struct vm *vm, struct value item, struct value path,
                            struct value otherwise) {
    if (!given(path)) return item;
    if (path.kind != V_TEXT) return get_item(vm, item, path);
    struct sv s = sv_of(path);
    for (size_t from = 0, to; from <= s.n; from = to + 1) {
        ptrdiff_t dot = sv_find(s, sv("."), from);
        to = dot < 0 ? s.n : (size_t)dot;
        struct sv part = sv_cut(s, from, to);
        size_t digits = 0;
        while (digits < part.n && part.p[digits] >= '0' && part.p[digits] <= '9') digits++;
        bool number = part.n && digits == part.n;
        item = get_item(vm, item, number ? int_parse(vm, part, 10) : text_value(vm, part));
        if (item.kind == V_UNDEFINED && given(otherwise)) item = otherwise;
    }
    return item;
}

static struct value no_value(void) { return (struct value){.kind = V_MISSING}; }

// What a sequence is ordered by: the attribute, in lower case unless case matters.
static struct value order_key(struct vm *vm, struct value item, struct value path, bool fold) {
    struct value v = item_attribute(vm, item, path, no_value());
    return fold ? lowered(vm, v) : v;
}

struct keyed {
    struct value key, item;
};

// Stable; `down` reverses the order but not that of equals.
static void merge_sort(struct vm *vm, struct keyed *at, struct keyed *spare, size_t n, bool down) {
    if (n < 2) return;
    size_t half = n / 2, i = 0, j = half;
    merge_sort(vm, at, spare, half, down);
    merge_sort(vm, at + half, spare, n - half, down);
    memcpy(spare, at, n * sizeof *at);
    for (size_t k = 0; k < n; k++) {
        bool right = i == half;
        if (!right && j < n)
            right = down ? compare(vm, spare[i].key, spare[j].key, "<") == -1
                         : compare(vm, spare[j].key, spare[i].key, "<") == -1;
        at[k] = spare[right ? j++ : i++];
    }
}

static struct keyed *sorted(struct vm *vm, const struct items *items, const struct value *keys,
                            bool down) {
    struct keyed *at = vm_alloc(vm, items->n, sizeof *at);
    struct keyed *spare = vm_alloc(vm, items->n, sizeof *spare);
    for (size_t i = 0; i < items->n; i++) at[i] = (struct keyed){keys[i], items->at[i]};
    merge_sort(vm, at, spare, items->n, down);
    return at;
}

static struct value list_of_keyed(struct vm *vm, const struct keyed *at, size_t n) {
    struct value *out = vm_alloc(vm, n, sizeof *out);
    for (size_t i = 0; i < n; i++) out[i] = at[i].item;
    return list_value(vm, out, n);
}

const struct pair *sorted_pairs(struct vm *vm, const struct dict *d) {
    struct value *keys = vm_alloc(vm, d->n, sizeof *keys);
    for (size_t i = 0; i < d->n; i++) keys[i] = d->at[i].key;
    struct items values = {vm_alloc(vm, d->n, sizeof *values.at), d->n, d->n};
    for (size_t i = 0; i < d->n; i++) values.at[i] = d->at[i].value;
    struct keyed *at = sorted(vm, &values, keys, false);
    struct pair *out = vm_alloc(vm, d->n, sizeof *out);
    for (size_t i = 0; i < d->n; i++) out[i] = (struct pair){at[i].key, at[i].item};
    return out;
}

// "a,b" sorts by several attributes: the keys are lists.
static struct value sort_key(struct vm *vm, struct value item, struct value path, bool fold) {
    if (path.kind != V_TEXT) return order_key(vm, item, path, fold);
    struct sv s = sv_of(path);
    struct items keys = {0};
    for (size_t from = 0, to; from <= s.n; from = to + 1) {
        ptrdiff_t comma = sv_find(s, sv(","), from);
        to = comma < 0 ? s.n : (size_t)comma;
        items_add(vm, &keys, order_key(vm, item, text_value(vm, sv_cut(s, from, to)), fold));
    }
    return list_value(vm, keys.at, keys.n);
}

struct value filter_sort(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct items items = to_items(vm, at[0]);
    struct value *keys = vm_alloc(vm, items.n, sizeof *keys);
    for (size_t i = 0; i < items.n; i++) keys[i] = sort_key(vm, items.at[i], at[3], !truth(at[2]));
    return list_of_keyed(vm, sorted(vm, &items, keys, truth(at[1])), items.n);
}

struct value filter_dictsort(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    if (at[0].kind == V_UNDEFINED) raise_undefined(vm, at[0]);
    if (at[0].kind != V_DICT) raise_error(vm, "'%s' has no items to sort", type_name(at[0]));
    bool by_value = at[2].kind == V_TEXT && sv_is(sv_of(at[2]), "value");
    if (given(at[2]) && !by_value && !(at[2].kind == V_TEXT && sv_is(sv_of(at[2]), "key")))
        raise_error(vm, "You can only sort by either \"key\" or \"value\"");
    const struct dict *d = at[0].dict;
    struct items items = {0};
    struct value *keys = vm_alloc(vm, d->n, sizeof *keys);
    for (size_t i = 0; i < d->n; i++) {
        struct value by = by_value ? d->at[i].value : d->at[i].key;
        keys[i] = truth(at[1]) ? by : lowered(vm, by);
        items_add(vm, &items, pair_value(vm, d->at[i].key, d->at[i].value));
    }
    return list_of_keyed(vm, sorted(vm, &items, keys, truth(at[3])), d->n);
}

static struct value extreme(struct vm *vm, const struct value *at, int sign) {
    struct iter it = iter_open(vm, at[0]);
    struct value best, best_key = no_value();
    for (struct value x; iter_next(vm, &it, &x);) {
        struct value key = order_key(vm, x, at[2], !truth(at[1]));
        if (best_key.kind != V_MISSING && compare(vm, key, best_key, sign < 0 ? "<" : ">") != sign)
            continue;
        best = x;
        best_key = key;
    }
    if (best_key.kind == V_MISSING)
        return undefined_hint(vm, "No aggregated item, sequence was empty.");
    return best;
}

struct value filter_min(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return extreme(vm, at, -1);
}

struct value filter_max(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return extreme(vm, at, 1);
}

struct value filter_sum(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct value total = at[2].kind == V_MISSING ? int_value(0) : at[2];
    struct iter it = iter_open(vm, at[0]);
    if (total.kind == V_TEXT) raise_error(vm, "sum() can't sum strings [use ''.join(seq) instead]");
    for (struct value x; iter_next(vm, &it, &x);)
        total = binary(vm, '+', total, item_attribute(vm, x, at[1], no_value()));
    return total;
}

static struct value group_value(struct vm *vm, struct value key, struct items *members) {
    struct value v = pair_value(vm, key, list_value(vm, members->at, members->n));
    struct list *l = vm_alloc(vm, 1, sizeof *l);
    *l = *v.list;
    l->group = true;
    return (struct value){.kind = V_TUPLE, .list = l};
}

struct value filter_groupby(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct items items = to_items(vm, at[0]), out = {0};
    struct value *keys = vm_alloc(vm, items.n, sizeof *keys);
    bool fold = !truth(at[3]);
    for (size_t i = 0; i < items.n; i++) {
        keys[i] = item_attribute(vm, items.at[i], at[1], at[2]);
        if (fold) keys[i] = lowered(vm, keys[i]);
    }
    struct keyed *by = sorted(vm, &items, keys, false);
    for (size_t i = 0; i < items.n;) {
        struct items members = {0};
        size_t first = i;
        for (; i < items.n && equal(vm, by[i].key, by[first].key); i++)
            items_add(vm, &members, by[i].item);
        struct value name = item_attribute(vm, by[first].item, at[1], at[2]); // in its own case
        items_add(vm, &out, group_value(vm, name, &members));
        if (i == first) raise_error(vm, "groupby: a key differs from itself (NaN?)");
    }
    return list_value(vm, out.at, out.n);
}

struct value filter_join(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv by = at[1].kind == V_MISSING ? sv("") : to_sv(vm, at[1]);
    struct iter it = iter_open(vm, at[0]);
    size_t mark = text_mark(vm);
    for (struct value x; iter_next(vm, &it, &x);) {
        if (it.i > 1) put(vm, by);
        put_str(vm, item_attribute(vm, x, at[2], no_value()));
    }
    return text_take(vm, mark);
}

struct value filter_first(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct iter it = iter_open(vm, at[0]);
    struct value x;
    return iter_next(vm, &it, &x) ? x : undefined_hint(vm, "No first item, sequence was empty.");
}

struct value filter_last(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    if (at[0].kind == V_ITERATOR)
        raise_error(vm, "'%s' object is not reversible", type_name(at[0]));
    struct items items = to_items(vm, at[0]);
    return items.n ? items.at[items.n - 1]
                   : undefined_hint(vm, "No last item, sequence was empty.");
}

struct value filter_random(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    size_t n;
    if (!has_length(at[0], &n))
        raise_error(vm, "object of type '%s' has no len()", type_name(at[0]));
    if (!n) return undefined_hint(vm, "No random item, sequence was empty.");
    if (at[0].kind == V_DICT || at[0].kind == V_VIEW || at[0].kind == V_LOOP)
        raise_error(vm, "'%s' object has no item by number", type_name(at[0]));
    struct items items = to_items(vm, at[0]);
    return items.at[(uint64_t)(clock_now() * 1e9) % items.n];
}

struct value filter_list(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct items items = to_items(vm, at[0]);
    return list_value(vm, items.at, items.n);
}

struct value filter_reverse(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    if (at[0].kind == V_TEXT)
        return get_slice(vm, at[0],
                         (const struct value[]){none_value(), none_value(), int_value(-1)});
    struct items items = to_items(vm, at[0]), out = {0};
    for (size_t i = items.n; i-- > 0;) items_add(vm, &out, items.at[i]);
    if (at[0].kind == V_ITERATOR) return list_value(vm, out.at, out.n);
    return iterator_value(vm, out, at[0].kind == V_LIST ? "list_reverseiterator" : "reversed");
}
