// The pprint filter: Python's pprint.pformat(), 80 characters wide.
#include "chat/jinja/filters.h"

#include <string.h>

enum { WIDTH = 80 };

static void put_pretty(struct vm *vm, struct value v, int64_t indent, int64_t after, int level);

// Kinds that don't compare are in the order of their types' names.
static bool key_before(struct vm *vm, struct value a, struct value b) {
    spend(vm, 1);
    bool same = a.kind == b.kind && (a.kind == V_TEXT || a.kind == V_TUPLE);
    if (same || (is_number(a) && is_number(b))) return compare(vm, a, b, "<") == -1;
    return strcmp(type_name(a), type_name(b)) < 0;
}

static struct pair *ordered(struct vm *vm, const struct dict *d) {
    struct pair *at = vm_alloc(vm, d->n, sizeof *at);
    for (size_t i = 0; i < d->n; i++) { // mostly sorted, and few
        size_t k = i;
        for (; k && key_before(vm, d->at[i].key, at[k - 1].key); k--) at[k] = at[k - 1];
        at[k] = d->at[i];
        spend(vm, 1);
    }
    return at;
}

// repr() with each dict in the order of its keys.
static void put_ordered(struct vm *vm, struct value v) {
    bool group = v.kind == V_TUPLE && v.list->group;
    if (group || (v.kind != V_DICT && v.kind != V_LIST && v.kind != V_TUPLE)) {
        put_repr(vm, v);
        return;
    }
    enter(vm);
    struct pair *at = v.kind == V_DICT ? ordered(vm, v.dict) : NULL;
    size_t n = at ? v.dict->n : v.list->n;
    put_char(vm, at ? '{' : v.kind == V_LIST ? '[' : '(');
    for (size_t i = 0; i < n; i++) {
        spend(vm, 1);
        if (i) puts_text(vm, ", ");
        if (at) {
            put_ordered(vm, at[i].key);
            puts_text(vm, ": ");
        }
        put_ordered(vm, at ? at[i].value : v.list->at[i]);
    }
    if (v.kind == V_TUPLE && n == 1) put_char(vm, ',');
    put_char(vm, at ? '}' : v.kind == V_LIST ? ']' : ')');
    leave(vm);
}

static struct value ordered_repr(struct vm *vm, struct value v) {
    size_t mark = text_mark(vm);
    put_ordered(vm, v);
    return text_take(vm, mark);
}

static struct value repr_of(struct vm *vm, struct sv s) {
    size_t mark = text_mark(vm);
    put_repr(vm, text_value(vm, s));
    return text_take(vm, mark);
}

static int64_t chars(struct value v) { return (int64_t)v.text->chars; }

static void new_line(struct vm *vm, int64_t indent) {
    puts_text(vm, "\n");
    put_fill(vm, ' ', (size_t)indent);
}

// The end of a word and the white space after it.
static size_t word_end(struct sv s, size_t i) {
    size_t len;
    while (i < s.n && !is_space(utf8_decode(s, i, &len))) i += len;
    while (i < s.n && is_space(utf8_decode(s, i, &len))) i += len;
    return i;
}

// A line of a text as pieces that fit; width and last_width are for pieces on and at its end.
static void add_pieces(struct vm *vm, struct sv line, int64_t width, int64_t last_width,
                       struct items *out) {
    size_t from = 0, to = 0;
    while (to < line.n) {
        size_t end = word_end(line, to);
        struct value piece = repr_of(vm, sv_cut(line, from, end));
        if (chars(piece) > (end == line.n ? last_width : width)) {
            if (to > from) items_add(vm, out, repr_of(vm, sv_cut(line, from, to)));
            from = to;
        }
        to = end;
    }
    if (to > from) items_add(vm, out, repr_of(vm, sv_cut(line, from, to)));
}

static void put_text(struct vm *vm, struct value v, int64_t indent, int64_t after, int level) {
    struct items lines = split_lines(vm, sv_of(v), true), pieces = {0};
    if (level == 1) indent++, after++;
    for (size_t i = 0; i < lines.n; i++) {
        int64_t width = WIDTH - indent, last = width - (i + 1 == lines.n ? after : 0);
        struct value whole = repr_of(vm, sv_of(lines.at[i]));
        if (chars(whole) <= last)
            items_add(vm, &pieces, whole);
        else
            add_pieces(vm, sv_of(lines.at[i]), width, last, &pieces);
    }
    bool parens = level == 1 && pieces.n != 1;
    if (parens) put_char(vm, '(');
    for (size_t i = 0; i < pieces.n; i++) {
        if (i) new_line(vm, indent);
        put(vm, sv_of(pieces.at[i]));
    }
    if (parens) put_char(vm, ')');
}

static void put_items(struct vm *vm, struct value v, int64_t indent, int64_t after, int level) {
    const struct list *l = v.list;
    const char *end = v.kind == V_LIST ? "]" : l->n == 1 ? ",)" : ")";
    put_char(vm, v.kind == V_LIST ? '[' : '(');
    for (size_t i = 0; i < l->n; i++) {
        bool last = i + 1 == l->n;
        put_pretty(vm, l->at[i], indent + 1, last ? after + (int64_t)strlen(end) : 1, level);
        if (last) continue;
        put_char(vm, ',');
        new_line(vm, indent + 1);
    }
    puts_text(vm, end);
}

static void put_pairs(struct vm *vm, const struct dict *d, int64_t indent, int64_t after,
                      int level) {
    struct pair *at = ordered(vm, d);
    put_char(vm, '{');
    for (size_t i = 0; i < d->n; i++) {
        bool last = i + 1 == d->n;
        struct value key = ordered_repr(vm, at[i].key);
        put(vm, sv_of(key));
        puts_text(vm, ": ");
        put_pretty(vm, at[i].value, indent + 3 + chars(key), last ? after + 1 : 1, level);
        if (last) continue;
        put_char(vm, ',');
        new_line(vm, indent + 1);
    }
    put_char(vm, '}');
}

// `indent` columns stand before the value, `after` follow its last line.
static void put_pretty(struct vm *vm, struct value v, int64_t indent, int64_t after, int level) {
    enter(vm);
    struct value whole = ordered_repr(vm, v);
    bool plain_tuple = v.kind == V_TUPLE && !v.list->group;
    if (chars(whole) <= WIDTH - indent - after)
        put(vm, sv_of(whole));
    else if (v.kind == V_DICT)
        put_pairs(vm, v.dict, indent, after, level + 1);
    else if (v.kind == V_LIST || plain_tuple)
        put_items(vm, v, indent, after, level + 1);
    else if (v.kind == V_TEXT && !v.text->markup && v.text->n)
        put_text(vm, v, indent, after, level + 1);
    else
        put(vm, sv_of(whole));
    leave(vm);
}

struct value filter_pprint(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    size_t mark = text_mark(vm);
    put_pretty(vm, at[0], 0, 0, 0);
    return text_take(vm, mark);
}
