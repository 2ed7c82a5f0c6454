// Making, comparing and printing values.
#include "chat/jinja/value.h"

#include <stdio.h>
#include <string.h>

#include "chat/jinja/interp.h"

static struct text *new_text(struct vm *vm, struct sv s) {
    struct text *t = vm_alloc(vm, 1, sizeof *t);
    t->p = s.p;
    t->n = s.n;
    for (size_t i = 0; i < s.n; i++) t->chars += ((unsigned char)s.p[i] & 0xc0) != 0x80;
    spend(vm, s.n / 64);
    return t;
}

struct value text_value(struct vm *vm, struct sv s) {
    return (struct value){.kind = V_TEXT, .text = new_text(vm, s)};
}

struct value text_copy(struct vm *vm, struct sv s) {
    char *p = vm_alloc(vm, s.n, 1);
    if (s.n) memcpy(p, s.p, s.n);
    return text_value(vm, sv_n(p, s.n));
}

struct value marked(struct vm *vm, struct value text) {
    struct text *t = vm_alloc(vm, 1, sizeof *t);
    *t = *text.text;
    t->markup = true;
    return (struct value){.kind = V_TEXT, .text = t};
}

static struct value escaped(struct vm *vm, struct value text) {
    if (text.text->markup) return text;
    size_t mark = text_mark(vm);
    put_escaped(vm, sv_of(text));
    return text_take(vm, mark);
}

// Room for `want` elements: short values get none to spare.
static size_t spare(size_t n) { return n < 128 ? n : n * 2; }

struct value add_text(struct vm *vm, struct value a, struct value b) {
    bool markup = a.text->markup || b.text->markup;
    if (markup) a = escaped(vm, a), b = escaped(vm, b);
    struct sv x = sv_of(a), y = sv_of(b);
    struct text *t = vm_alloc(vm, 1, sizeof *t);
    struct room *room = a.text->room;
    text_room(vm, x.n + y.n);
    if (room && room->used == x.n && room->cap - room->used >= y.n) {
        memcpy(room->bytes + x.n, y.p, y.n);
        t->p = x.p;
    } else {
        room = vm_alloc(vm, 1, sizeof *room);
        room->cap = spare(x.n + y.n);
        room->bytes = vm_alloc(vm, room->cap, 1);
        if (x.n) memcpy(room->bytes, x.p, x.n);
        if (y.n) memcpy(room->bytes + x.n, y.p, y.n);
        t->p = room->bytes;
    }
    spend(vm, y.n / 64);
    t->room = room;
    t->n = room->used = x.n + y.n;
    t->chars = a.text->chars + b.text->chars;
    t->markup = markup;
    return (struct value){.kind = V_TEXT, .text = t};
}

struct value list_value(struct vm *vm, struct value *at, size_t n) {
    struct list *l = vm_alloc(vm, 1, sizeof *l);
    l->at = at;
    l->n = n;
    return (struct value){.kind = V_LIST, .list = l};
}

struct value tuple_value(struct vm *vm, struct value *at, size_t n) {
    struct value v = list_value(vm, at, n);
    v.kind = V_TUPLE;
    return v;
}

struct value pair_value(struct vm *vm, struct value a, struct value b) {
    struct value *at = vm_alloc(vm, 2, sizeof *at);
    at[0] = a;
    at[1] = b;
    return tuple_value(vm, at, 2);
}

struct value add_lists(struct vm *vm, struct value a, struct value b) {
    const struct list *x = a.list, *y = b.list;
    struct list *l = vm_alloc(vm, 1, sizeof *l);
    struct room *room = x->room;
    size_t n = x->n + y->n;
    spend(vm, y->n);
    if (room && room->used == x->n && room->cap - room->used >= y->n) {
        if (y->n) memcpy(room->values + x->n, y->at, y->n * sizeof *y->at);
    } else {
        room = vm_alloc(vm, 1, sizeof *room);
        room->cap = n < 8 ? n : n * 2;
        room->values = vm_alloc(vm, room->cap, sizeof *room->values);
        spend(vm, x->n);
        if (x->n) memcpy(room->values, x->at, x->n * sizeof *x->at);
        if (y->n) memcpy(room->values + x->n, y->at, y->n * sizeof *y->at);
    }
    l->at = room->values;
    l->n = room->used = n;
    l->room = room;
    return (struct value){.kind = a.kind, .list = l};
}

void items_add(struct vm *vm, struct items *l, struct value v) {
    spend(vm, 1);
    if (l->n == l->cap) {
        size_t cap = l->cap * 2 + 4;
        struct value *at = vm_alloc(vm, cap, sizeof *at);
        if (l->n) memcpy(at, l->at, l->n * sizeof *at);
        l->at = at;
        l->cap = cap;
    }
    l->at[l->n++] = v;
}

struct value iterator_value(struct vm *vm, struct items items, const char *type) {
    struct iterator *it = vm_alloc(vm, 1, sizeof *it);
    *it = (struct iterator){.items = items, .type = type};
    return (struct value){.kind = V_ITERATOR, .iterator = it};
}

struct value generator_value(struct vm *vm, generator_fn *more, const struct generator *g) {
    struct iterator *it = vm_alloc(vm, 1, sizeof *it);
    *it = (struct iterator){.type = "generator", .more = more};
    it->g = vm_alloc(vm, 1, sizeof *it->g);
    *it->g = *g;
    return (struct value){.kind = V_ITERATOR, .iterator = it};
}

struct value view_value(struct vm *vm, const struct dict *d, enum view_kind of) {
    struct view *w = vm_alloc(vm, 1, sizeof *w);
    *w = (struct view){d, of};
    return (struct value){.kind = V_VIEW, .view = w};
}

struct value bound_value(struct vm *vm, struct value self, const struct builtin *fn) {
    struct bound *b = vm_alloc(vm, 1, sizeof *b);
    *b = (struct bound){self, fn};
    return (struct value){.kind = V_BUILTIN, .bound = b};
}

// stop is exclusive; the caller has checked the size and that step isn't 0.
struct value range_value(struct vm *vm, int64_t start, int64_t stop, int64_t step) {
    struct range *r = vm_alloc(vm, 1, sizeof *r);
    bool any = step > 0 ? start < stop : start > stop;
    uint64_t span = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    *r = (struct range){start, stop, step, any ? (size_t)((span - 1) / stride + 1) : 0};
    return (struct value){.kind = V_RANGE, .range = r};
}

static struct value new_undefined(struct vm *vm, struct undefined u) {
    struct undefined *p = vm_alloc(vm, 1, sizeof *p);
    *p = u;
    return (struct value){.kind = V_UNDEFINED, .undefined = p};
}

struct value undefined_hint(struct vm *vm, const char *message) {
    return new_undefined(vm, (struct undefined){.name = sv(message), .hint = true});
}

struct value undefined_name(struct vm *vm, struct sv name) {
    return new_undefined(vm, (struct undefined){.name = name});
}

struct value undefined_member(struct vm *vm, struct value of, struct sv name) {
    return new_undefined(vm, (struct undefined){.name = name, .type = type_name(of)});
}

struct value unsafe_member(struct vm *vm, struct value of, struct sv name) {
    return new_undefined(vm,
                         (struct undefined){.name = name, .type = type_name(of), .unsafe = true});
}

noreturn void raise_undefined(struct vm *vm, struct value v) {
    const struct undefined *u = v.undefined;
    int n = u->name.n < 200 ? (int)u->name.n : 200;
    if (u->hint) raise_error(vm, "%.*s", n, u->name.p);
    if (!u->type) raise_error(vm, "'%.*s' is undefined", n, u->name.p);
    if (u->unsafe)
        raise_error(vm, "access to attribute '%.*s' of '%s' object is unsafe.", n, u->name.p,
                    u->type);
    bool none = !strcmp(u->type, "NoneType");
    raise_error(vm, "'%s%s' has no attribute '%.*s'", none ? "None" : u->type,
                none ? "" : " object", n, u->name.p);
}

static struct value json_number(struct vm *vm, struct json_object *o) {
    if (json_object_is_type(o, json_type_double)) return float_value(json_object_get_double(o));
    uint64_t u = json_object_get_uint64(o);
    if (json_object_get_int64(o) != INT64_MAX || u == INT64_MAX)
        return int_value(json_object_get_int64(o));
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)u);
    return int_parse(vm, sv_n(digits, (size_t)n), 10);
}

struct value json_value(struct vm *vm, struct json_object *o) {
    struct value v = none_value();
    enter(vm);
    switch (json_object_get_type(o)) {
    case json_type_null: break;
    case json_type_boolean: v = bool_value(json_object_get_boolean(o)); break;
    case json_type_int:
    case json_type_double: v = json_number(vm, o); break;
    case json_type_string: v = text_value(vm, json_text(o)); break;
    case json_type_array: {
        size_t n = json_object_array_length(o);
        struct value *at = vm_alloc(vm, n, sizeof *at);
        for (size_t i = 0; i < n; i++) at[i] = json_value(vm, json_object_array_get_idx(o, i));
        v = list_value(vm, at, n);
        break;
    }
    case json_type_object: {
        struct dict *d = dict_new(vm);
        struct json_object_iterator it = json_object_iter_begin(o), end = json_object_iter_end(o);
        for (; !json_object_iter_equal(&it, &end); json_object_iter_next(&it))
            dict_set(vm, d, text_value(vm, sv(json_object_iter_peek_name(&it))),
                     json_value(vm, json_object_iter_peek_value(&it)));
        v = (struct value){.kind = V_DICT, .dict = d};
        break;
    }
    }
    leave(vm);
    return v;
}

const char *type_name(struct value v) {
    static const char *const names[] = {[V_MISSING] = "Undefined",
                                        [V_UNDEFINED] = "Undefined",
                                        [V_NONE] = "NoneType",
                                        [V_BOOL] = "bool",
                                        [V_INT] = "int",
                                        [V_BIG] = "int",
                                        [V_FLOAT] = "float",
                                        [V_TEXT] = "str",
                                        [V_LIST] = "list",
                                        [V_TUPLE] = "tuple",
                                        [V_DICT] = "dict",
                                        [V_RANGE] = "range",
                                        [V_NAMESPACE] = "Namespace",
                                        [V_CYCLER] = "Cycler",
                                        [V_JOINER] = "Joiner",
                                        [V_LOOP] = "LoopContext",
                                        [V_MACRO] = "Macro",
                                        [V_BUILTIN] = "function"};
    static const char *const views[] = {"dict_keys", "dict_values", "dict_items"};
    if (v.kind == V_VIEW) return views[v.view->of];
    if (v.kind == V_ITERATOR) return v.iterator->type;
    if (v.kind == V_TEXT && v.text->markup) return "Markup";
    return names[v.kind];
}

struct sv sv_of(struct value v) {
    return sv_n(v.text->p, v.text->n);
}

bool truth(struct value v) {
    size_t n;
    switch (v.kind) {
    case V_MISSING:
    case V_UNDEFINED:
    case V_NONE: return false;
    case V_BOOL: return v.b;
    case V_INT: return v.i != 0;
    case V_FLOAT: return v.f != 0;
    default: return !has_length(v, &n) || n;
    }
}

bool has_length(struct value v, size_t *n) {
    switch (v.kind) {
    case V_UNDEFINED: *n = 0; return true;
    case V_TEXT: *n = v.text->chars; return true;
    case V_LIST:
    case V_TUPLE: *n = v.list->n; return true;
    case V_DICT: *n = v.dict->n; return true;
    case V_VIEW: *n = v.view->dict->n; return true;
    case V_RANGE: *n = v.range->n; return true;
    case V_LOOP: *n = loop_length(v.loop); return true;
    default: return false;
    }
}

bool identical(struct value a, struct value b) {
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case V_MISSING:
    case V_NONE: return true;
    case V_BOOL: return a.b == b.b;
    case V_INT: return a.i == b.i;
    case V_FLOAT: return a.f == b.f;
    case V_TEXT: return sv_eq(sv_of(a), sv_of(b));
    default: return a.list == b.list; // all the others are pointers
    }
}

static bool equal_dicts(struct vm *vm, const struct dict *a, const struct dict *b) {
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        struct value other = dict_get(vm, b, a->at[i].key);
        if (other.kind == V_MISSING || !equal(vm, a->at[i].value, other)) return false;
    }
    return true;
}

static bool equal_lists(struct vm *vm, const struct list *a, const struct list *b) {
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++)
        if (!equal(vm, a->at[i], b->at[i])) return false;
    return true;
}

bool equal(struct vm *vm, struct value a, struct value b) {
    spend(vm, 1);
    if (is_number(a) && is_number(b)) return compare_numbers(vm, a, b) == 0;
    if (a.kind != b.kind) return false;
    enter(vm);
    bool same = false;
    switch (a.kind) {
    case V_UNDEFINED: same = true; break;
    case V_TEXT:
        spend(vm, a.text->n / 64);
        same = sv_eq(sv_of(a), sv_of(b));
        break;
    case V_LIST:
    case V_TUPLE: same = equal_lists(vm, a.list, b.list); break;
    case V_DICT: same = equal_dicts(vm, a.dict, b.dict); break;
    case V_RANGE:
        same = a.range->n == b.range->n &&
               (!a.range->n || (a.range->start == b.range->start &&
                                (a.range->n == 1 || a.range->step == b.range->step)));
        break;
    default: same = identical(a, b);
    }
    leave(vm);
    return same;
}

int compare(struct vm *vm, struct value a, struct value b, const char *op) {
    spend(vm, 1);
    if (a.kind == V_UNDEFINED) raise_undefined(vm, a);
    if (b.kind == V_UNDEFINED) raise_undefined(vm, b);
    if (is_number(a) && is_number(b)) return compare_numbers(vm, a, b);
    if (a.kind == V_TEXT && b.kind == V_TEXT) {
        spend(vm, a.text->n / 64);
        int c = sv_cmp(sv_of(a), sv_of(b));
        return (c > 0) - (c < 0);
    }
    if (a.kind != b.kind || (a.kind != V_LIST && a.kind != V_TUPLE))
        raise_error(vm, "'%s' not supported between instances of '%s' and '%s'", op, type_name(a),
                    type_name(b));
    enter(vm);
    int c = (a.list->n > b.list->n) - (a.list->n < b.list->n);
    for (size_t i = 0; i < a.list->n && i < b.list->n; i++)
        if (!equal(vm, a.list->at[i], b.list->at[i])) {
            c = compare(vm, a.list->at[i], b.list->at[i], op);
            break;
        }
    leave(vm);
    return c;
}

bool contains(struct vm *vm, struct value in, struct value v) {
    if (in.kind == V_TEXT) {
        if (v.kind != V_TEXT)
            raise_error(vm, "'in <string>' requires string as left operand, not %s", type_name(v));
        spend(vm, in.text->n / 64);
        return find_text(vm, sv_of(in), sv_of(v), 0) >= 0;
    }
    if (in.kind == V_DICT) return dict_get(vm, in.dict, v).kind != V_MISSING;
    if (!is_iterable(in)) raise_error(vm, "argument of type '%s' is not iterable", type_name(in));
    struct iter it = iter_open(vm, in);
    for (struct value x; iter_next(vm, &it, &x);)
        if (equal(vm, x, v)) return true;
    return false;
}

static void put_repr_text(struct vm *vm, struct sv s) {
    bool twin = memchr(s.p, '\'', s.n) && !memchr(s.p, '"', s.n);
    char quote = twin ? '"' : '\'', code[16];
    put_char(vm, quote);
    for (size_t i = 0, len; i < s.n; i += len) {
        int32_t cp = utf8_decode(s, i, &len);
        const char *fmt = cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x";
        if (cp == quote || cp == '\\') {
            put_char(vm, '\\');
            put_char(vm, (char)cp);
        } else if (cp == '\n' || cp == '\r' || cp == '\t') {
            puts_text(vm, cp == '\n' ? "\\n" : cp == '\r' ? "\\r" : "\\t");
        } else if (cp >= 0 && is_printable(cp)) {
            put(vm, sv_n(s.p + i, len));
        } else {
            snprintf(code, sizeof code, fmt, cp < 0 ? (unsigned char)s.p[i] : (unsigned)cp);
            puts_text(vm, code);
        }
    }
    put_char(vm, quote);
}

static void put_dict(struct vm *vm, const struct dict *d) {
    put_char(vm, '{');
    for (size_t i = 0; i < d->n; i++) {
        if (i) puts_text(vm, ", ");
        put_repr(vm, d->at[i].key);
        puts_text(vm, ": ");
        put_repr(vm, d->at[i].value);
    }
    put_char(vm, '}');
}

static void put_list(struct vm *vm, struct value v, char open, char close) {
    struct iter it = iter_open(vm, v);
    put_char(vm, open);
    for (struct value x; iter_next(vm, &it, &x);) {
        if (it.i > 1) puts_text(vm, ", ");
        put_repr(vm, x);
    }
    if (v.kind == V_TUPLE && v.list->n == 1) put_char(vm, ',');
    put_char(vm, close);
}

static void put_range(struct vm *vm, const struct range *r) {
    puts_text(vm, "range(");
    put_number(vm, r->start);
    puts_text(vm, ", ");
    put_number(vm, r->stop);
    if (r->step != 1) {
        puts_text(vm, ", ");
        put_number(vm, r->step);
    }
    put_char(vm, ')');
}

static void put_object(struct vm *vm, struct value v) {
    put_char(vm, '<');
    puts_text(vm, type_name(v));
    if (v.kind == V_NAMESPACE) {
        put_char(vm, ' ');
        put_dict(vm, v.space);
    } else if (v.kind == V_MACRO) {
        struct sv name = macro_name(v.macro);
        puts_text(vm, name.n ? " " : " anonymous");
        if (name.n) put_repr_text(vm, name);
    } else if (v.kind == V_LOOP) {
        put_char(vm, ' ');
        put_loop(vm, v.loop);
    } else if (v.kind == V_BUILTIN) {
        put_char(vm, ' ');
        puts_text(vm, v.bound->fn->name);
    } else {
        puts_text(vm, " object");
    }
    put_char(vm, '>');
}

void put_repr(struct vm *vm, struct value v) {
    spend(vm, 1);
    enter(vm);
    switch (v.kind) {
    case V_MISSING:
    case V_UNDEFINED: puts_text(vm, "Undefined"); break;
    case V_NONE: puts_text(vm, "None"); break;
    case V_BOOL: puts_text(vm, v.b ? "True" : "False"); break;
    case V_INT: put_number(vm, v.i); break;
    case V_BIG: put_int(vm, v, 10); break;
    case V_FLOAT: put_float(vm, v.f); break;
    case V_TEXT:
        if (v.text->markup) puts_text(vm, "Markup(");
        put_repr_text(vm, sv_of(v));
        if (v.text->markup) put_char(vm, ')');
        break;
    case V_LIST: put_list(vm, v, '[', ']'); break;
    case V_TUPLE: put_list(vm, v, '(', ')'); break;
    case V_DICT: put_dict(vm, v.dict); break;
    case V_VIEW:
        puts_text(vm, type_name(v));
        put_char(vm, '(');
        put_list(vm, v, '[', ']');
        put_char(vm, ')');
        break;
    case V_RANGE: put_range(vm, v.range); break;
    default: put_object(vm, v);
    }
    leave(vm);
}

void put_str(struct vm *vm, struct value v) {
    if (v.kind == V_TEXT)
        put(vm, sv_of(v));
    else if (v.kind != V_UNDEFINED)
        put_repr(vm, v);
}

struct value to_text(struct vm *vm, struct value v) {
    if (v.kind == V_TEXT) return v;
    size_t mark = text_mark(vm);
    put_str(vm, v);
    return text_take(vm, mark);
}

struct sv to_sv(struct vm *vm, struct value v) {
    return sv_of(to_text(vm, v));
}
