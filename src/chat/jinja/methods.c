// Methods of lists, tuples, dicts, numbers and the engine's own objects. Those that would change
// their object are known, so that using one fails as in the sandbox, but have no function.
#include "chat/jinja/value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct value seq_count(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    int64_t n = 0;
    struct iter it = iter_open(vm, at[0]);
    for (struct value x; iter_next(vm, &it, &x);) n += equal(vm, x, at[1]);
    return int_value(n);
}

static struct value seq_index(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct iter it = iter_open(vm, at[0]);
    int64_t from = at[2].kind == V_MISSING ? 0 : to_int(vm, at[2], "start");
    int64_t to = at[3].kind == V_MISSING ? INT64_MAX : to_int(vm, at[3], "stop");
    if (from < 0) from += (int64_t)it.n;
    if (to < 0) to += (int64_t)it.n;
    for (struct value x; iter_next(vm, &it, &x);) {
        int64_t i = (int64_t)it.i - 1;
        if (i >= from && i < to && equal(vm, x, at[1])) return int_value(i);
    }
    raise_error(vm, "the value is not in the %s", type_name(at[0]));
}

static struct value list_copy(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return list_value(vm, at[0].list->at, at[0].list->n);
}

static struct value dict_get_or(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct value v = dict_get(vm, at[0].dict, at[1]);
    if (v.kind != V_MISSING) return v;
    return at[2].kind == V_MISSING ? none_value() : at[2];
}

static struct value dict_keys(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return view_value(vm, at[0].dict, VIEW_KEYS);
}

static struct value dict_values(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return view_value(vm, at[0].dict, VIEW_VALUES);
}

static struct value dict_items(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return view_value(vm, at[0].dict, VIEW_ITEMS);
}

static struct value dict_duplicate(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return dict_copy(vm, at[0].dict);
}

static struct value float_is_integer(struct vm *vm, const struct value *at,
                                     const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(isfinite(at[0].f) && at[0].f == trunc(at[0].f));
}

static struct value number_itself(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return at[0].kind == V_FLOAT ? at[0] : arithmetic(vm, '+', at[0], int_value(0));
}

static struct value float_hex(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    char text[40];
    double f = at[0].f;
    if (!isfinite(f)) return to_text(vm, at[0]);
    snprintf(text, sizeof text, f == 0 ? "%.1a" : "%.13a", f);
    return text_copy(vm, sv(text));
}

static struct value number_ratio(struct vm *vm, const struct value *at, const struct args *all) {
    if (at[0].kind != V_FLOAT) return pair_value(vm, number_itself(vm, at, all), int_value(1));
    if (!isfinite(at[0].f)) raise_error(vm, "cannot convert NaN or infinity to integer ratio");
    int exp;
    double m = frexp(at[0].f, &exp);
    for (; m != trunc(m); exp--) m *= 2;
    struct value top = int_from_double(vm, m), bottom = int_value(1);
    struct value power = arithmetic(vm, '^', int_value(2), int_value(exp < 0 ? -exp : exp));
    if (exp < 0)
        bottom = power;
    else
        top = arithmetic(vm, '*', top, power);
    return pair_value(vm, top, bottom);
}

// The digits of the magnitude in base 2.
static struct sv binary_digits(struct vm *vm, struct value v) {
    size_t mark = text_mark(vm);
    put_int(vm, v, 2);
    struct sv s = sv_of(text_take(vm, mark));
    return sv_starts(s, sv("-")) ? sv_cut(s, 1, s.n) : s;
}

static struct value int_bit_length(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return size_value(truth(at[0]) ? binary_digits(vm, at[0]).n : 0);
}

static struct value int_bit_count(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s = binary_digits(vm, at[0]);
    int64_t n = 0;
    for (size_t i = 0; i < s.n; i++) n += s.p[i] == '1';
    return int_value(n);
}

static struct value dict_fromkeys(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct dict *d = dict_new(vm);
    struct iter it = iter_open(vm, at[1]);
    for (struct value x; iter_next(vm, &it, &x);)
        dict_set(vm, d, x, at[2].kind == V_MISSING ? none_value() : at[2]);
    return (struct value){.kind = V_DICT, .dict = d};
}

static struct value cycler_next(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    struct cycler *c = at[0].cycler;
    struct value v = c->items.at[c->pos];
    c->pos = (c->pos + 1) % c->items.n;
    return v;
}

static struct value cycler_reset(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    at[0].cycler->pos = 0;
    return none_value();
}

static const struct builtin list_methods[] = {
    {"count", "value", 1, seq_count},
    {"index", "value start stop", 1, seq_index},
    {"copy", "", 0, list_copy},
    {"append", "", 0, NULL},
    {"clear", "", 0, NULL},
    {"extend", "", 0, NULL},
    {"insert", "", 0, NULL},
    {"pop", "", 0, NULL},
    {"remove", "", 0, NULL},
    {"reverse", "", 0, NULL},
    {"sort", "", 0, NULL},
};

static const struct builtin tuple_methods[] = {
    // and those of ranges
    {"count", "value", 1, seq_count},
    {"index", "value start stop", 1, seq_index},
};

static const struct builtin dict_methods[] = {
    {"get", "key default", 1, dict_get_or},
    {"keys", "", 0, dict_keys},
    {"values", "", 0, dict_values},
    {"items", "", 0, dict_items},
    {"copy", "", 0, dict_duplicate},
    {"fromkeys", "iterable value", 1, dict_fromkeys},
    {"clear", "", 0, NULL},
    {"pop", "", 0, NULL},
    {"popitem", "", 0, NULL},
    {"setdefault", "", 0, NULL},
    {"update", "", 0, NULL},
};

static const struct builtin int_methods[] = {
    {"conjugate", "", 0, number_itself},
    {"as_integer_ratio", "", 0, number_ratio},
    {"bit_length", "", 0, int_bit_length},
    {"bit_count", "", 0, int_bit_count},
};

static const struct builtin float_methods[] = {
    {"is_integer", "", 0, float_is_integer},
    {"conjugate", "", 0, number_itself},
    {"as_integer_ratio", "", 0, number_ratio},
    {"hex", "", 0, float_hex},
};

// dict is a function with one method.
static const struct builtin dict_function_methods[] = {
    {"fromkeys", "iterable value", 1, dict_fromkeys},
};

static const struct builtin cycler_methods[] = {
    {"next", "", 0, cycler_next},
    {"reset", "", 0, cycler_reset},
};

static const struct builtin loop_methods[] = {
    {"cycle", NULL, 0, loop_cycle},
    {"changed", NULL, 0, loop_changed},
};

const struct builtin *find_method(struct value of, struct sv name) {
    switch (of.kind) {
    case V_TEXT: return find_text_method(name);
    case V_LIST:
        return find_builtin(list_methods, sizeof list_methods / sizeof *list_methods, name);
    case V_TUPLE:
    case V_RANGE:
        return find_builtin(tuple_methods, sizeof tuple_methods / sizeof *tuple_methods, name);
    case V_DICT:
        return find_builtin(dict_methods, sizeof dict_methods / sizeof *dict_methods, name);
    case V_BOOL:
    case V_INT:
    case V_BIG: return find_builtin(int_methods, sizeof int_methods / sizeof *int_methods, name);
    case V_BUILTIN:
        if (strcmp(of.bound->fn->name, "dict") != 0) return NULL;
        return find_builtin(dict_function_methods, 1, name);
    case V_FLOAT:
        return find_builtin(float_methods, sizeof float_methods / sizeof *float_methods, name);
    case V_CYCLER:
        return find_builtin(cycler_methods, sizeof cycler_methods / sizeof *cycler_methods, name);
    case V_LOOP:
        return find_builtin(loop_methods, sizeof loop_methods / sizeof *loop_methods, name);
    default: return NULL;
    }
}
