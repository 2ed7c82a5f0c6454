// Filters that make text.
#include "chat/jinja/filters.h"
#include "chat/jinja/letters.h"

#include <string.h>

static struct value like(struct vm *vm, struct value of, struct value v) {
    return of.text->markup ? marked(vm, v) : v;
}

// Text as it is, other values as str() gives them.
static struct sv plain(struct vm *vm, struct value v) { return to_sv(vm, v); }

struct value need_text(struct vm *vm, struct value v, const char *filter) {
    if (v.kind == V_UNDEFINED) raise_undefined(vm, v);
    if (v.kind != V_TEXT) raise_error(vm, "%s needs text, not %s", filter, type_name(v));
    return v;
}

struct value filter_upper(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct value v = to_text(vm, at[0]);
    size_t mark = text_mark(vm);
    put_upper(vm, sv_of(v));
    return like(vm, v, text_take(vm, mark));
}

struct value filter_lower(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct value v = to_text(vm, at[0]);
    size_t mark = text_mark(vm);
    put_lower(vm, sv_of(v));
    return like(vm, v, text_take(vm, mark));
}

struct value filter_capitalize(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return capitalized(vm, to_text(vm, at[0]));
}

static bool begins_word(int32_t cp) {
    return is_space(cp) || (cp > 0 && cp < 0x80 && memchr("-({[<", cp, 5));
}

struct value filter_title(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s = plain(vm, at[0]);
    size_t mark = text_mark(vm), from = 0, len;
    while (from < s.n) {
        size_t to;
        int32_t cp = utf8_decode(s, from, &len);
        put_upper(vm, sv_n(s.p + from, len));
        from = to = from + len;
        if (begins_word(cp)) continue;
        while (to < s.n && !begins_word(utf8_decode(s, to, &len))) to += len;
        put_lower(vm, sv_cut(s, from, to));
        from = to;
    }
    return text_take(vm, mark);
}

struct value filter_trim(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct value v = to_text(vm, at[0]);
    struct sv s = sv_of(v);
    s = given(at[1]) ? strip_set(vm, s, sv_of(need_text(vm, at[1], "trim")), true, true)
                     : strip(s, true, true);
    return like(vm, v, text_value(vm, s));
}

struct value filter_string(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return to_text(vm, at[0]);
}

struct value filter_safe(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return marked(vm, to_text(vm, at[0]));
}

struct value filter_escape(struct vm *vm, const struct value *at, const struct args *all) {
    struct value v = to_text(vm, at[0]);
    return v.text->markup ? v : filter_forceescape(vm, &v, all);
}

struct value filter_forceescape(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s = plain(vm, at[0]);
    size_t mark = text_mark(vm);
    put_escaped(vm, s);
    return marked(vm, text_take(vm, mark));
}

struct value filter_replace(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s = plain(vm, at[0]), old = plain(vm, at[1]), with = plain(vm, at[2]);
    size_t mark = text_mark(vm);
    put_replaced(vm, s, old, with, given(at[3]) ? to_int(vm, at[3], "count") : -1);
    return text_take(vm, mark);
}

struct value filter_format(struct vm *vm, const struct value *at, const struct args *all) {
    struct value arg;
    if (all->n && all->n_kw)
        raise_error(vm, "can't handle positional and keyword arguments at the same time");
    if (all->n_kw) {
        struct dict *d = dict_new(vm);
        for (size_t i = 0; i < all->n_kw; i++)
            dict_set(vm, d, text_value(vm, all->kw[i].name), all->kw[i].value);
        arg = (struct value){.kind = V_DICT, .dict = d};
    } else {
        struct items items = {0};
        for (size_t i = 0; i < all->n; i++) items_add(vm, &items, all->at[i]);
        arg = tuple_value(vm, items.at, items.n);
    }
    return format_percent(vm, to_text(vm, at[0]), arg);
}

struct value filter_indent(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s = sv_of(need_text(vm, at[0], "indent")), by = sv("    ");
    size_t mark = text_mark(vm);
    if (at[1].kind == V_TEXT) {
        by = sv_of(at[1]);
    } else if (at[1].kind != V_MISSING) {
        put_fill(vm, ' ', to_count(vm, at[1], "indent's width"));
        by = sv_of(text_take(vm, mark));
    }
    // Split with a newline more, so that an empty last line counts.
    struct value more = add_text(vm, text_value(vm, s), text_value(vm, sv("\n")));
    struct items lines = split_lines(vm, sv_of(more), false);
    bool blank = truth(at[3]);
    if (truth(at[2])) put(vm, by);
    for (size_t i = 0; i < lines.n; i++) {
        struct sv line = sv_of(lines.at[i]);
        if (i) put_char(vm, '\n');
        if (i && (blank || line.n)) put(vm, by);
        put(vm, line);
    }
    return text_take(vm, mark);
}

struct value filter_center(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct value width = at[1].kind == V_MISSING ? int_value(80) : at[1];
    return padded(vm, to_text(vm, at[0]), width, none_value(), 0);
}

struct value filter_wordcount(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s = plain(vm, at[0]);
    int64_t n = 0;
    bool inside = false;
    for (size_t i = 0, len; i < s.n; i += len) {
        bool word = is_word(utf8_decode(s, i, &len));
        n += word && !inside;
        inside = word;
    }
    return int_value(n);
}

struct value filter_truncate(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct value v = at[0];
    struct sv end = sv("...");
    size_t have;
    if (at[3].kind != V_MISSING) end = sv_of(need_text(vm, at[3], "truncate"));
    size_t ends = at[3].kind == V_MISSING ? 3 : at[3].text->chars;
    size_t length = at[1].kind == V_MISSING ? 255 : to_count(vm, at[1], "length");
    size_t leeway = given(at[4]) ? to_count(vm, at[4], "leeway") : 5;
    if (length < ends) raise_error(vm, "expected length >= %zu, got %zu", ends, length);
    if (given(at[4]) && to_int(vm, at[4], "leeway") < 0) raise_error(vm, "expected leeway >= 0");
    if (!has_length(v, &have)) raise_error(vm, "object of type '%s' has no len()", type_name(v));
    if (have <= length || have - length <= leeway) return v;
    struct sv s = sv_of(need_text(vm, v, "truncate"));
    struct sv kept = sv_cut(s, 0, char_at(s, v.text->chars, length - ends));
    if (!truth(at[2])) {
        size_t space = kept.n;
        while (space && kept.p[space - 1] != ' ') space--;
        if (space) kept.n = space - 1;
    }
    size_t mark = text_mark(vm);
    put(vm, kept);
    put(vm, end);
    return text_take(vm, mark);
}

static void put_quoted(struct vm *vm, struct sv s, bool query) {
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        bool keep =
            (c < 0x80 && is_word(c)) || c == '.' || c == '-' || c == '~' || (c == '/' && !query);
        if (keep) {
            put_char(vm, (char)c);
        } else if (c == ' ' && query) {
            put_char(vm, '+');
        } else {
            char code[3] = {'%', hex[c >> 4], hex[c & 15]};
            put(vm, sv_n(code, 3));
        }
    }
}

struct value filter_urlencode(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct value v = at[0];
    size_t mark;
    if (v.kind == V_DICT) v = view_value(vm, v.dict, VIEW_ITEMS);
    if (v.kind == V_TEXT || !is_iterable(v)) {
        struct sv s = plain(vm, v);
        mark = text_mark(vm);
        put_quoted(vm, s, false);
        return text_take(vm, mark);
    }
    mark = text_mark(vm);
    struct iter it = iter_open(vm, v);
    for (struct value x; iter_next(vm, &it, &x);) {
        struct items pair = to_items(vm, x);
        if (pair.n != 2) raise_error(vm, "urlencode needs pairs of a key and a value");
        if (it.i > 1) put_char(vm, '&');
        put_quoted(vm, plain(vm, pair.at[0]), true);
        put_char(vm, '=');
        put_quoted(vm, plain(vm, pair.at[1]), true);
    }
    return text_take(vm, mark);
}
