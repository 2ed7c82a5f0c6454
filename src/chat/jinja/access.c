// Walking values, and reaching into them: subscripts, attributes, slices.
#include "chat/jinja/value.h"

#include <string.h>

#include "chat/jinja/interp.h"

bool is_iterable(struct value v) {
    size_t n;
    return v.kind == V_ITERATOR || has_length(v, &n);
}

struct iter iter_open(struct vm *vm, struct value v) {
    struct iter it = {.over = v};
    if (v.kind == V_ITERATOR)
        it.n = SIZE_MAX;
    else if (v.kind == V_LOOP || !has_length(v, &it.n))
        raise_error(vm, "'%s' object is not iterable", type_name(v));
    return it;
}

static struct value view_at(struct vm *vm, const struct view *w, size_t i) {
    const struct pair *p = &w->dict->at[i];
    if (w->of == VIEW_KEYS) return p->key;
    return w->of == VIEW_VALUES ? p->value : pair_value(vm, p->key, p->value);
}

static struct value range_at(const struct range *r, size_t i) {
    return int_value(r->start + (int64_t)i * r->step);
}

static struct value next_char(struct vm *vm, struct iter *it) {
    struct sv s = sv_of(it->over);
    size_t from = it->byte;
    do it->byte++;
    while (it->byte < s.n && ((unsigned char)s.p[it->byte] & 0xc0) == 0x80);
    return text_value(vm, sv_cut(s, from, it->byte));
}

static bool make_one(struct vm *vm, struct iterator *t, struct value *out) {
    if (!t->more) return false;
    enter(vm);
    bool made = t->more(vm, t->g, out);
    if (!made) t->more = NULL;
    leave(vm);
    return made;
}

bool iter_next(struct vm *vm, struct iter *it, struct value *out) {
    if (it->i >= it->n) return false;
    spend(vm, 1);
    struct value v = it->over;
    size_t i = it->i++;
    switch (v.kind) {
    case V_TEXT: *out = next_char(vm, it); return true;
    case V_LIST:
    case V_TUPLE: *out = v.list->at[i]; return true;
    case V_DICT: *out = v.dict->at[i].key; return true;
    case V_VIEW: *out = view_at(vm, v.view, i); return true;
    case V_RANGE: *out = range_at(v.range, i); return true;
    default: break;
    }
    struct iterator *t = v.iterator; // others may walk it too
    if (t->pos < t->items.n) {
        *out = t->items.at[t->pos++];
        return true;
    }
    if (make_one(vm, t, out)) return true;
    it->i--;
    return false;
}

bool iter_peek(struct vm *vm, const struct iter *it, struct value *out) {
    struct iter copy = *it;
    if (it->over.kind != V_ITERATOR) return iter_next(vm, &copy, out);
    struct iterator *t = it->over.iterator;
    if (t->pos == t->items.n) {
        if (!make_one(vm, t, out)) return false;
        items_add(vm, &t->items, *out);
    }
    *out = t->items.at[t->pos];
    return true;
}

size_t iter_count(struct vm *vm, const struct iter *it) {
    if (it->over.kind != V_ITERATOR) return it->n;
    struct iterator *t = it->over.iterator;
    for (struct value x; make_one(vm, t, &x);) items_add(vm, &t->items, x);
    return it->i + t->items.n - t->pos;
}

struct items to_items(struct vm *vm, struct value v) {
    if (v.kind == V_LIST || v.kind == V_TUPLE)
        return (struct items){.at = v.list->at, .n = v.list->n};
    struct items all = {0};
    struct iter it = iter_open(vm, v);
    for (struct value x; iter_next(vm, &it, &x);) items_add(vm, &all, x);
    return all;
}

// Python's index: negative ones count from the end. False when outside.
static bool index_of(struct value key, size_t n, size_t *i) {
    if (key.kind != V_INT && key.kind != V_BOOL) return false;
    int64_t at = key.kind == V_BOOL ? key.b : key.i;
    if (at < 0) at += (int64_t)n;
    *i = (size_t)at;
    return at >= 0 && (size_t)at < n;
}

static struct value char_value(struct vm *vm, struct value v, size_t i) {
    struct sv s = sv_of(v);
    size_t from = char_at(s, v.text->chars, i);
    spend(vm, from / 64);
    struct iter it = {.over = v, .byte = from};
    return next_char(vm, &it);
}

static struct value item_or_missing(struct vm *vm, struct value v, struct value key) {
    size_t n = 0, i;
    if (v.kind == V_DICT && key.kind != V_LIST && key.kind != V_DICT)
        return dict_get(vm, v.dict, key);
    bool indexed = v.kind == V_TEXT || v.kind == V_LIST || v.kind == V_TUPLE || v.kind == V_RANGE;
    if (!indexed || !has_length(v, &n) || !index_of(key, n, &i))
        return (struct value){.kind = V_MISSING};
    if (v.kind == V_TEXT) return char_value(vm, v, i);
    return v.kind == V_RANGE ? range_at(v.range, i) : v.list->at[i];
}

struct value get_item(struct vm *vm, struct value v, struct value key) {
    if (v.kind == V_UNDEFINED) raise_undefined(vm, v);
    struct value x = item_or_missing(vm, v, key);
    if (x.kind == V_MISSING && key.kind == V_TEXT) x = get_attribute(vm, v, sv_of(key));
    if (x.kind == V_MISSING) x = undefined_member(vm, v, to_sv(vm, key));
    return x;
}

static struct value group_member(const struct list *l, struct sv name) {
    if (sv_is(name, "grouper")) return l->at[0];
    return sv_is(name, "list") ? l->at[1] : (struct value){.kind = V_MISSING};
}

static struct value cycler_member(const struct cycler *c, struct sv name) {
    return sv_is(name, "current") ? c->items.at[c->pos] : (struct value){.kind = V_MISSING};
}

static struct value number_member(struct value v, struct sv name) {
    bool whole = v.kind != V_FLOAT;
    struct value self = v.kind == V_BOOL ? int_value(v.b) : v;
    if (sv_is(name, "real")) return self;
    if (sv_is(name, "imag")) return whole ? int_value(0) : float_value(0);
    if (whole && sv_is(name, "numerator")) return self;
    if (whole && sv_is(name, "denominator")) return int_value(1);
    return (struct value){.kind = V_MISSING};
}

static struct value range_member(const struct range *r, struct sv name) {
    if (sv_is(name, "start")) return int_value(r->start);
    if (sv_is(name, "stop")) return int_value(r->stop);
    return sv_is(name, "step") ? int_value(r->step) : (struct value){.kind = V_MISSING};
}

struct value get_attribute(struct vm *vm, struct value v, struct sv name) {
    struct value x = {.kind = V_MISSING};
    if (sv_starts(name, sv("__")) && sv_ends(name, sv("__"))) return unsafe_member(vm, v, name);
    const struct builtin *fn = find_method(v, name);
    if (fn) return fn->call ? bound_value(vm, v, fn) : unsafe_member(vm, v, name);
    switch (v.kind) {
    case V_NAMESPACE: return dict_get_sv(vm, v.space, name);
    case V_LOOP: return loop_member(vm, v.loop, name);
    case V_MACRO: return macro_member(vm, v.macro, name);
    case V_CYCLER: return cycler_member(v.cycler, name);
    case V_BOOL:
    case V_INT:
    case V_BIG:
    case V_FLOAT: return number_member(v, name);
    case V_RANGE: return range_member(v.range, name);
    case V_TUPLE: return v.list->group ? group_member(v.list, name) : x;
    default: return x;
    }
}

struct value get_member(struct vm *vm, struct value v, struct sv name) {
    if (v.kind == V_UNDEFINED) raise_undefined(vm, v);
    struct value x = get_attribute(vm, v, name);
    if (x.kind == V_MISSING && v.kind == V_DICT) x = dict_get_sv(vm, v.dict, name);
    return x.kind == V_MISSING ? undefined_member(vm, v, name) : x;
}

// One bound of a slice over n elements, clamped as Python does. The far end of a backward slice is
// -1, one before the first.
static int64_t bound_at(struct vm *vm, struct value part, int64_t n, bool back, int64_t otherwise) {
    if (part.kind == V_NONE) return otherwise;
    int64_t low = back ? -1 : 0, high = back ? n - 1 : n;
    if (part.kind == V_BIG) return compare_numbers(vm, part, int_value(0)) < 0 ? low : high;
    int64_t i = to_int(vm, part, "a slice index");
    if (i < 0) i += n;
    return i < low ? low : i > high ? high : i;
}

static struct value slice_text(struct vm *vm, struct value v, int64_t from, int64_t to,
                               int64_t step) {
    struct sv s = sv_of(v);
    size_t chars = v.text->chars;
    if (step == 1) {
        size_t a = char_at(s, chars, (size_t)from), b = a;
        if (to > from)
            b = a + char_at(sv_cut(s, a, s.n), chars == s.n ? s.n - a : 0, (size_t)(to - from));
        spend(vm, b / 64);
        struct value part = text_value(vm, sv_cut(s, a, b));
        return v.text->markup ? marked(vm, part) : part;
    }
    size_t *start = vm_alloc(vm, chars + 1, sizeof *start), n = 0, mark = text_mark(vm);
    for (size_t i = 0; i < s.n; i++)
        if (((unsigned char)s.p[i] & 0xc0) != 0x80) start[n++] = i;
    start[n] = s.n;
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
        put(vm, sv_cut(s, start[i], start[i + 1]));
    return text_take(vm, mark);
}

bool can_slice(struct value v, const struct value part[3]) {
    for (int i = 0; i < 3; i++)
        if (part[i].kind != V_NONE && !is_int(part[i])) return false;
    return v.kind == V_TEXT || v.kind == V_LIST || v.kind == V_TUPLE || v.kind == V_RANGE;
}

struct value get_slice(struct vm *vm, struct value v, const struct value part[3]) {
    if (v.kind == V_UNDEFINED) raise_undefined(vm, v);
    size_t n = 0;
    if (!can_slice(v, part) || !has_length(v, &n))
        raise_error(vm, "'%s' object can't be sliced, or not by these", type_name(v));
    int64_t len = (int64_t)n, step = 1;
    if (part[2].kind != V_NONE) step = to_int(vm, part[2], "a slice step");
    if (step == 0) raise_error(vm, "slice step cannot be zero");
    if (step > len) step = len + 1;
    if (step < -len) step = -len - 1;
    bool back = step < 0;
    int64_t from = bound_at(vm, part[0], len, back, back ? len - 1 : 0);
    int64_t to = bound_at(vm, part[1], len, back, back ? -1 : len);
    if (v.kind == V_TEXT) return slice_text(vm, v, from, to, step);
    if (v.kind == V_RANGE) {
        const struct range *r = v.range;
        return range_value(vm, r->start + from * r->step, r->start + to * r->step, r->step * step);
    }
    if (step == 1) {
        struct value r = list_value(vm, v.list->at + from, to > from ? (size_t)(to - from) : 0);
        r.kind = v.kind;
        return r;
    }
    struct items some = {0};
    for (int64_t i = from; back ? i > to : i < to; i += step) items_add(vm, &some, v.list->at[i]);
    struct value r = list_value(vm, some.at, some.n);
    r.kind = v.kind;
    return r;
}
