// The tests of jinja2: `value is name`. at[0] is the value, at[1] the operand.
#include "chat/jinja/value.h"

static struct value is_odd(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return bool_value(equal(vm, binary(vm, '%', at[0], int_value(2)), int_value(1)));
}

static struct value is_even(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return bool_value(equal(vm, binary(vm, '%', at[0], int_value(2)), int_value(0)));
}

static struct value is_divisible(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return bool_value(equal(vm, binary(vm, '%', at[0], at[1]), int_value(0)));
}

static struct value is_defined(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(at[0].kind != V_UNDEFINED);
}

static struct value is_undefined(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(at[0].kind == V_UNDEFINED);
}

static struct value is_none(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(at[0].kind == V_NONE);
}

static struct value is_boolean(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(at[0].kind == V_BOOL);
}

static struct value is_true(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(at[0].kind == V_BOOL && at[0].b);
}

static struct value is_false(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(at[0].kind == V_BOOL && !at[0].b);
}

static struct value is_integer(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(at[0].kind == V_INT || at[0].kind == V_BIG);
}

static struct value is_float(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(at[0].kind == V_FLOAT);
}

static struct value is_numeric(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(is_number(at[0]));
}

static struct value is_string(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(at[0].kind == V_TEXT);
}

static struct value is_mapping(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(at[0].kind == V_DICT);
}

static struct value is_escaped(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(at[0].kind == V_TEXT && at[0].text->markup);
}

static struct value is_walkable(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(is_iterable(at[0]));
}

static struct value is_same(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(identical(at[0], at[1]));
}

static struct value is_in(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return bool_value(contains(vm, at[1], at[0]));
}

static struct value is_filter(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    check_hashable(vm, at[0]);
    return bool_value(at[0].kind == V_TEXT && find_filter(sv_of(at[0])));
}

static struct value is_test(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    check_hashable(vm, at[0]);
    return bool_value(at[0].kind == V_TEXT && find_test(sv_of(at[0])));
}

static struct value is_lower(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return bool_value(cased(to_sv(vm, at[0]), false));
}

static struct value is_upper(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return bool_value(cased(to_sv(vm, at[0]), true));
}

static struct value is_eq(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return bool_value(equal(vm, at[0], at[1]));
}

static struct value is_ne(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return bool_value(!equal(vm, at[0], at[1]));
}

static struct value is_lt(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return bool_value(compare(vm, at[0], at[1], "<") == -1);
}

static struct value is_le(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return bool_value(compare(vm, at[0], at[1], "<=") <= 0);
}

static struct value is_gt(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return bool_value(compare(vm, at[0], at[1], ">") == 1);
}

static struct value is_ge(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return bool_value((unsigned)compare(vm, at[0], at[1], ">=") <= 1);
}

// Has a length and can be indexed.
static struct value is_sequence(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    enum kind k = at[0].kind;
    return bool_value(k == V_TEXT || k == V_LIST || k == V_TUPLE || k == V_DICT || k == V_RANGE ||
                      k == V_UNDEFINED);
}

static struct value is_callable(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    enum kind k = at[0].kind;
    return bool_value(k == V_BUILTIN || k == V_MACRO || k == V_LOOP || k == V_JOINER ||
                      k == V_UNDEFINED);
}

static const struct builtin table[] = {
    {"odd", "", 0, is_odd},
    {"even", "", 0, is_even},
    {"divisibleby", "num", 1, is_divisible},
    {"defined", "", 0, is_defined},
    {"undefined", "", 0, is_undefined},
    {"filter", "", 0, is_filter},
    {"test", "", 0, is_test},
    {"none", "", 0, is_none},
    {"boolean", "", 0, is_boolean},
    {"false", "", 0, is_false},
    {"true", "", 0, is_true},
    {"integer", "", 0, is_integer},
    {"float", "", 0, is_float},
    {"lower", "", 0, is_lower},
    {"upper", "", 0, is_upper},
    {"string", "", 0, is_string},
    {"mapping", "", 0, is_mapping},
    {"number", "", 0, is_numeric},
    {"sequence", "", 0, is_sequence},
    {"iterable", "", 0, is_walkable},
    {"callable", "", 0, is_callable},
    {"sameas", "other", 1, is_same},
    {"escaped", "", 0, is_escaped},
    {"in", "seq", 1, is_in},
    {"==", "other", 1, is_eq},
    {"eq", "other", 1, is_eq},
    {"equalto", "other", 1, is_eq},
    {"!=", "other", 1, is_ne},
    {"ne", "other", 1, is_ne},
    {">", "other", 1, is_gt},
    {"gt", "other", 1, is_gt},
    {"greaterthan", "other", 1, is_gt},
    {">=", "other", 1, is_ge},
    {"ge", "other", 1, is_ge},
    {"<", "other", 1, is_lt},
    {"lt", "other", 1, is_lt},
    {"lessthan", "other", 1, is_lt},
    {"<=", "other", 1, is_le},
    {"le", "other", 1, is_le},
};

const struct builtin *find_test(struct sv name) {
    return find_builtin(table, sizeof table / sizeof *table, name);
}
