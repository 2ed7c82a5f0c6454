// The methods of str.
#include "chat/jinja/letters.h"
#include "chat/jinja/value.h"

#include <string.h>
#include <utf8proc.h>

// An argument that must be text.
static struct sv text_arg(struct vm *vm, struct value v, const char *what) {
    if (v.kind == V_UNDEFINED) raise_undefined(vm, v);
    if (v.kind != V_TEXT) raise_error(vm, "%s must be str, not %s", what, type_name(v));
    return sv_of(v);
}

static bool given(struct value v) { return v.kind != V_MISSING && v.kind != V_NONE; }

// Markup's methods give Markup.
static struct value like(struct vm *vm, struct value of, struct value v) {
    return of.text->markup ? marked(vm, v) : v;
}

static struct value part(struct vm *vm, struct value of, struct sv s) {
    return like(vm, of, text_value(vm, s));
}

static struct value upper(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    size_t mark = text_mark(vm);
    put_upper(vm, sv_of(at[0]));
    return like(vm, at[0], text_take(vm, mark));
}

static struct value lower(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    size_t mark = text_mark(vm);
    put_lower(vm, sv_of(at[0]));
    return like(vm, at[0], text_take(vm, mark));
}

static struct value casefold(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s = sv_of(at[0]);
    size_t mark = text_mark(vm);
    for (size_t i = 0, len; i < s.n; i += len) {
        utf8proc_int32_t to[8];
        int boundary = 0;
        int32_t cp = utf8_decode(s, i, &len);
        utf8proc_ssize_t n =
            cp < 0 ? 0 : utf8proc_decompose_char(cp, to, 8, UTF8PROC_CASEFOLD, &boundary);
        for (utf8proc_ssize_t k = 0; k < n && k < 8; k++) put_code(vm, (uint32_t)to[k]);
    }
    return like(vm, at[0], text_take(vm, mark));
}

struct value capitalized(struct vm *vm, struct value v) {
    struct sv s = sv_of(v);
    size_t mark = text_mark(vm), at = 0;
    if (s.n) put_title(vm, utf8_decode(s, 0, &at));
    while (at < s.n) at = put_lower_at(vm, s, at);
    return like(vm, v, text_take(vm, mark));
}

static struct value capitalize(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return capitalized(vm, at[0]);
}

static struct value title(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s = sv_of(at[0]);
    size_t mark = text_mark(vm);
    bool inside = false;
    for (size_t i = 0, len; i < s.n; i += len) {
        int32_t cp = utf8_decode(s, i, &len);
        if (inside)
            put_lower_at(vm, s, i);
        else
            put_title(vm, cp);
        inside = is_cased(cp);
    }
    return like(vm, at[0], text_take(vm, mark));
}

static struct value swapcase(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s = sv_of(at[0]);
    size_t mark = text_mark(vm);
    for (size_t i = 0, len; i < s.n; i += len) {
        int32_t cp = utf8_decode(s, i, &len);
        if (is_upper(cp))
            put_lower_at(vm, s, i);
        else if (is_lower(cp))
            put_upper(vm, sv_n(s.p + i, len));
        else
            put(vm, sv_n(s.p + i, len));
    }
    return like(vm, at[0], text_take(vm, mark));
}

static struct value stripped(struct vm *vm, const struct value *at, bool left, bool right) {
    struct sv s = sv_of(at[0]);
    if (!given(at[1])) return part(vm, at[0], strip(s, left, right));
    return part(vm, at[0], strip_set(vm, s, text_arg(vm, at[1], "strip's argument"), left, right));
}

static struct value strip_both(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return stripped(vm, at, true, true);
}

static struct value lstrip(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return stripped(vm, at, true, false);
}

static struct value rstrip(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return stripped(vm, at, false, true);
}

static struct value list_of(struct vm *vm, const struct items *l) {
    return list_value(vm, l->at, l->n);
}

static void reverse(struct items *l) {
    for (size_t i = 0; i < l->n / 2; i++) {
        struct value t = l->at[i];
        l->at[i] = l->at[l->n - 1 - i];
        l->at[l->n - 1 - i] = t;
    }
}

static size_t char_len(struct sv s, size_t i) {
    size_t len;
    utf8_decode(s, i, &len);
    return len;
}

static bool space_at(struct sv s, size_t i) {
    size_t len;
    return is_space(utf8_decode(s, i, &len));
}

struct items split_words(struct vm *vm, struct value v, int64_t most) {
    struct items out = {0};
    struct sv s = sv_of(v);
    for (size_t i = 0; i < s.n;) {
        while (i < s.n && space_at(s, i)) i += char_len(s, i);
        if (i == s.n) break;
        size_t end = i;
        if (most-- == 0)
            end = s.n;
        else
            while (end < s.n && !space_at(s, end)) end += char_len(s, end);
        items_add(vm, &out, part(vm, v, sv_cut(s, i, end)));
        i = end;
    }
    return out;
}

static void split_at(struct vm *vm, struct value v, struct sv by, int64_t most, struct items *out) {
    struct sv s = sv_of(v);
    size_t from = 0;
    for (ptrdiff_t hit; most-- != 0 && (hit = find_text(vm, s, by, from)) >= 0;) {
        items_add(vm, out, part(vm, v, sv_cut(s, from, (size_t)hit)));
        from = (size_t)hit + by.n;
    }
    items_add(vm, out, part(vm, v, sv_cut(s, from, s.n)));
}

static int64_t most_splits(struct vm *vm, struct value v) {
    return v.kind == V_MISSING ? -1 : to_int(vm, v, "maxsplit");
}

static struct value split(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct items out = {0};
    int64_t most = most_splits(vm, at[2]);
    spend(vm, at[0].text->n / 64);
    if (!given(at[1])) {
        out = split_words(vm, at[0], most);
        return list_of(vm, &out);
    }
    struct sv by = text_arg(vm, at[1], "the separator");
    if (!by.n) raise_error(vm, "empty separator");
    split_at(vm, at[0], by, most, &out);
    return list_of(vm, &out);
}

static ptrdiff_t find_last(struct vm *vm, struct sv s, struct sv what, size_t end) {
    if (end < what.n) return -1;
    for (size_t i = end - what.n + 1; i-- > 0;) {
        spend(vm, what.n / 64 + 1);
        if (sv_eq(sv_n(s.p + i, what.n), what)) return (ptrdiff_t)i;
    }
    return -1;
}

static size_t word_start(struct sv s, size_t end) {
    struct sv rest = sv_cut(s, 0, end);
    while (rest.n) {
        size_t i = rest.n - 1;
        while (i && ((unsigned char)rest.p[i] & 0xc0) == 0x80) i--;
        if (space_at(s, i)) break;
        rest.n = i;
    }
    return rest.n;
}

static void rsplit_words(struct vm *vm, struct value v, int64_t most, struct items *out) {
    struct sv s = strip(sv_of(v), false, true);
    while (s.n) {
        if (most-- == 0) {
            items_add(vm, out, part(vm, v, s));
            return;
        }
        size_t from = word_start(s, s.n);
        items_add(vm, out, part(vm, v, sv_cut(s, from, s.n)));
        s = strip(sv_cut(s, 0, from), false, true);
    }
}

static struct value rsplit(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct items out = {0};
    int64_t most = most_splits(vm, at[2]);
    struct sv s = sv_of(at[0]);
    size_t end = s.n;
    spend(vm, s.n / 64);
    if (!given(at[1])) {
        rsplit_words(vm, at[0], most, &out);
    } else {
        struct sv by = text_arg(vm, at[1], "the separator");
        if (!by.n) raise_error(vm, "empty separator");
        for (ptrdiff_t hit; most-- != 0 && (hit = find_last(vm, s, by, end)) >= 0;
             end = (size_t)hit)
            items_add(vm, &out, part(vm, at[0], sv_cut(s, (size_t)hit + by.n, end)));
        items_add(vm, &out, part(vm, at[0], sv_cut(s, 0, end)));
    }
    reverse(&out);
    return list_of(vm, &out);
}

static struct value splitlines(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct items lines = split_lines(vm, sv_of(at[0]), truth(at[1]));
    return list_of(vm, &lines);
}

static struct value three(struct vm *vm, struct value of, struct sv a, struct sv b, struct sv c) {
    struct value *at = vm_alloc(vm, 3, sizeof *at);
    at[0] = part(vm, of, a);
    at[1] = part(vm, of, b);
    at[2] = part(vm, of, c);
    return tuple_value(vm, at, 3);
}

static struct value partition(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s = sv_of(at[0]), by = text_arg(vm, at[1], "the separator");
    if (!by.n) raise_error(vm, "empty separator");
    ptrdiff_t hit = find_text(vm, s, by, 0);
    if (hit < 0) return three(vm, at[0], s, sv(""), sv(""));
    return three(vm, at[0], sv_cut(s, 0, (size_t)hit), by, sv_cut(s, (size_t)hit + by.n, s.n));
}

static struct value rpartition(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s = sv_of(at[0]), by = text_arg(vm, at[1], "the separator");
    if (!by.n) raise_error(vm, "empty separator");
    ptrdiff_t hit = find_last(vm, s, by, s.n);
    if (hit < 0) return three(vm, at[0], sv(""), sv(""), s);
    return three(vm, at[0], sv_cut(s, 0, (size_t)hit), by, sv_cut(s, (size_t)hit + by.n, s.n));
}

static struct value join(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct iter it = iter_open(vm, at[1]);
    size_t mark = text_mark(vm);
    for (struct value x; iter_next(vm, &it, &x);) {
        if (x.kind != V_TEXT)
            raise_error(vm, "sequence item %zu: expected str instance, %s found", it.i - 1,
                        type_name(x));
        if (it.i > 1) put(vm, sv_of(at[0]));
        put(vm, sv_of(x));
    }
    return like(vm, at[0], text_take(vm, mark));
}

static struct value replace(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    int64_t count = at[3].kind == V_MISSING ? -1 : to_int(vm, at[3], "count");
    size_t mark = text_mark(vm);
    put_replaced(vm, sv_of(at[0]), text_arg(vm, at[1], "replace() argument 1"),
                 text_arg(vm, at[2], "replace() argument 2"), count);
    return like(vm, at[0], text_take(vm, mark));
}

// The bytes of at[0] between the character positions `from` and `to`; false when from is past the
// end. *skipped: bytes before.
static bool window(struct vm *vm, struct value v, struct value from, struct value to,
                   struct sv *out, size_t *skipped) {
    int64_t n = (int64_t)v.text->chars, a = 0, b = n;
    if (given(from)) a = to_int(vm, from, "start");
    if (given(to)) b = to_int(vm, to, "end");
    if (a < 0) a = a + n < 0 ? 0 : a + n;
    if (b < 0) b = b + n < 0 ? 0 : b + n;
    if (b > n) b = n;
    if (a > b) return false;
    struct sv s = sv_of(v);
    *skipped = char_at(s, v.text->chars, (size_t)a);
    *out = sv_cut(s, *skipped, char_at(s, v.text->chars, (size_t)b));
    spend(vm, s.n / 64);
    return true;
}

static bool affixed(struct vm *vm, const struct value *at, bool front) {
    struct sv s;
    size_t skipped;
    if (!window(vm, at[0], at[2], at[3], &s, &skipped)) return false;
    struct value one = at[1];
    struct items any = {&one, 1, 0};
    if (one.kind == V_TUPLE) any = to_items(vm, one);
    for (size_t i = 0; i < any.n; i++) {
        struct sv affix = text_arg(vm, any.at[i], "what startswith or endswith looks for");
        if (front ? sv_starts(s, affix) : sv_ends(s, affix)) return true;
    }
    return false;
}

static struct value startswith(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return bool_value(affixed(vm, at, true));
}

static struct value endswith(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return bool_value(affixed(vm, at, false));
}

static int64_t chars_before(struct sv s, size_t bytes) {
    return (int64_t)utf8_count(sv_cut(s, 0, bytes));
}

static int64_t position(struct vm *vm, const struct value *at, bool last) {
    struct sv s, what = text_arg(vm, at[1], "what find looks for");
    size_t skipped;
    if (!window(vm, at[0], at[2], at[3], &s, &skipped)) return -1;
    spend(vm, s.n / 64);
    ptrdiff_t hit = last ? find_last(vm, s, what, s.n) : find_text(vm, s, what, 0);
    return hit < 0 ? -1 : chars_before(sv_of(at[0]), skipped + (size_t)hit);
}

static struct value find(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return int_value(position(vm, at, false));
}

static struct value rfind(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return int_value(position(vm, at, true));
}

static struct value index_or_fail(struct vm *vm, const struct value *at, bool last) {
    int64_t i = position(vm, at, last);
    if (i < 0) raise_error(vm, "substring not found");
    return int_value(i);
}

static struct value str_index(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return index_or_fail(vm, at, false);
}

static struct value rindex_of(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return index_or_fail(vm, at, true);
}

static struct value count(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s, what = text_arg(vm, at[1], "what count looks for");
    size_t from = 0;
    int64_t n = 0;
    if (!window(vm, at[0], at[2], at[3], &s, &from)) return int_value(0);
    if (!what.n) return int_value(chars_before(s, s.n) + 1);
    from = 0;
    for (ptrdiff_t hit; (hit = find_text(vm, s, what, from)) >= 0; n++) from = (size_t)hit + what.n;
    return int_value(n);
}

static struct value removeprefix(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s = sv_of(at[0]), cut = text_arg(vm, at[1], "the prefix");
    return part(vm, at[0], sv_starts(s, cut) ? sv_cut(s, cut.n, s.n) : s);
}

static struct value removesuffix(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s = sv_of(at[0]), cut = text_arg(vm, at[1], "the suffix");
    return part(vm, at[0], sv_ends(s, cut) ? sv_cut(s, 0, s.n - cut.n) : s);
}

struct value padded(struct vm *vm, struct value v, struct value width, struct value fill,
                    int side) {
    size_t want = to_count(vm, width, "the width"), have = v.text->chars;
    size_t pad = want > have ? want - have : 0, left = side > 0 ? pad : 0, len;
    uint32_t cp = ' ';
    if (given(fill)) {
        struct sv f = text_arg(vm, fill, "the fill character");
        if (fill.text->chars != 1)
            raise_error(vm, "The fill character must be exactly one character long");
        cp = (uint32_t)utf8_decode(f, 0, &len);
    }
    if (side == 0) left = pad / 2 + (pad & want & 1);
    size_t mark = text_mark(vm);
    put_fill(vm, cp, left);
    put(vm, sv_of(v));
    put_fill(vm, cp, pad - left);
    return like(vm, v, text_take(vm, mark));
}

static struct value center(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return padded(vm, at[0], at[1], at[2], 0);
}

static struct value ljust(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return padded(vm, at[0], at[1], at[2], -1);
}

static struct value rjust(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    return padded(vm, at[0], at[1], at[2], 1);
}

static struct value zfill(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s = sv_of(at[0]);
    size_t want = to_count(vm, at[1], "the width"), have = at[0].text->chars;
    size_t mark = text_mark(vm), sign = s.n && (s.p[0] == '-' || s.p[0] == '+');
    put(vm, sv_cut(s, 0, sign));
    put_fill(vm, '0', want > have ? want - have : 0);
    put(vm, sv_cut(s, sign, s.n));
    return like(vm, at[0], text_take(vm, mark));
}

static struct value expandtabs(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s = sv_of(at[0]);
    size_t width = at[1].kind == V_MISSING ? 8 : to_count(vm, at[1], "tabsize");
    size_t mark = text_mark(vm), column = 0;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '\t') {
            size_t pad = width ? width - column % width : 0;
            put_fill(vm, ' ', pad);
            column += pad;
        } else {
            put_char(vm, c);
            column = c == '\n' || c == '\r' ? 0 : column + (((unsigned char)c & 0xc0) != 0x80);
        }
    }
    return like(vm, at[0], text_take(vm, mark));
}

static struct value format(struct vm *vm, const struct value *at, const struct args *all) {
    return like(vm, at[0], format_braces(vm, sv_of(at[0]), all));
}

static struct value format_map(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    if (at[1].kind != V_DICT) raise_error(vm, "format_map() needs a mapping");
    const struct dict *d = at[1].dict;
    struct keyword *kw = vm_alloc(vm, d->n, sizeof *kw);
    for (size_t i = 0; i < d->n; i++)
        kw[i] = (struct keyword){to_sv(vm, d->at[i].key), d->at[i].value};
    struct args args = {NULL, 0, kw, d->n};
    return like(vm, at[0], format_braces(vm, sv_of(at[0]), &args));
}

// str.maketrans(): a dict of code points to what stands for them. Its keys may be characters.
static struct value maketrans(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct dict *d = dict_new(vm);
    struct value v = (struct value){.kind = V_DICT, .dict = d};
    if (at[2].kind == V_MISSING) {
        if (at[1].kind != V_DICT) raise_error(vm, "maketrans() with one argument needs a dict");
        for (size_t i = 0; i < at[1].dict->n; i++) {
            struct value key = at[1].dict->at[i].key;
            size_t len;
            if (key.kind == V_TEXT && key.text->chars != 1)
                raise_error(vm, "a key of maketrans() must be one character");
            if (key.kind == V_TEXT) key = int_value(utf8_decode(sv_of(key), 0, &len));
            if (!is_int(key)) raise_error(vm, "keys of maketrans() must be strings or integers");
            dict_set(vm, d, key, at[1].dict->at[i].value);
        }
        return v;
    }
    struct sv from = text_arg(vm, at[1], "maketrans() argument 1");
    struct sv to = text_arg(vm, at[2], "maketrans() argument 2");
    if (at[1].text->chars != at[2].text->chars)
        raise_error(vm, "the first two maketrans arguments must have equal length");
    for (size_t i = 0, k = 0, n, m; i < from.n; i += n, k += m)
        dict_set(vm, d, int_value(utf8_decode(from, i, &n)), int_value(utf8_decode(to, k, &m)));
    struct sv gone =
        at[3].kind == V_MISSING ? sv("") : text_arg(vm, at[3], "maketrans() argument 3");
    for (size_t i = 0, n; i < gone.n; i += n)
        dict_set(vm, d, int_value(utf8_decode(gone, i, &n)), none_value());
    return v;
}

// What stands for a character: V_MISSING: itself, None: nothing.
static struct value translation(struct vm *vm, struct value table, int32_t cp) {
    struct value to = {.kind = V_MISSING};
    if (table.kind == V_DICT) return dict_get(vm, table.dict, int_value(cp));
    if (table.kind != V_TEXT && table.kind != V_LIST && table.kind != V_TUPLE)
        raise_error(vm, "'%s' object is not subscriptable", type_name(table));
    size_t n;
    if (has_length(table, &n) && (size_t)cp < n) to = get_item(vm, table, int_value(cp));
    return to;
}

static struct value translate(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s = sv_of(at[0]);
    size_t mark = text_mark(vm);
    for (size_t i = 0, len; i < s.n; i += len) {
        struct value to = translation(vm, at[1], utf8_decode(s, i, &len));
        if (to.kind == V_MISSING)
            put(vm, sv_n(s.p + i, len));
        else if (to.kind == V_TEXT)
            put(vm, sv_of(to));
        else if (to.kind != V_NONE)
            put_character(vm, to_int(vm, to, "a character mapping"));
    }
    return like(vm, at[0], text_take(vm, mark));
}

static struct value encode(struct vm *vm, const struct value *at, const struct args *all) {
    (void)at;
    (void)all;
    raise_error(vm, "encode() makes bytes, which are no text: leave it out");
}

// The is... methods: true when there is a character and all are of the class.
static bool all_are(struct value v, bool (*is)(int32_t cp)) {
    struct sv s = sv_of(v);
    for (size_t i = 0, len; i < s.n; i += len)
        if (!is(utf8_decode(s, i, &len))) return false;
    return s.n > 0;
}

static bool is_alnum(int32_t cp) { return is_alpha(cp) || is_numeric(cp); }

static bool ascii(int32_t cp) { return cp < 0x80; }

static struct value isalpha_(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(all_are(at[0], is_alpha));
}

static struct value isdecimal(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(all_are(at[0], is_decimal));
}

static struct value isdigit_(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(all_are(at[0], is_digit));
}

static struct value isnumeric(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(all_are(at[0], is_numeric));
}

static struct value isalnum_(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(all_are(at[0], is_alnum));
}

static struct value isascii_(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(!at[0].text->n || all_are(at[0], ascii));
}

static struct value isspace_(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(all_are(at[0], is_space));
}

static struct value isprintable(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(!at[0].text->n || all_are(at[0], is_printable));
}

// Some letter has case, and each that has is of the wanted one.
bool cased(struct sv s, bool want_upper) {
    bool any = false;
    for (size_t i = 0, len; i < s.n; i += len) {
        int32_t cp = utf8_decode(s, i, &len);
        if (is_title(cp) || (want_upper ? is_lower(cp) : is_upper(cp))) return false;
        any |= is_cased(cp);
    }
    return any;
}

static struct value isupper_(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(cased(sv_of(at[0]), true));
}

static struct value islower_(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    return bool_value(cased(sv_of(at[0]), false));
}

static struct value istitle(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    struct sv s = sv_of(at[0]);
    bool any = false, inside = false;
    for (size_t i = 0, len; i < s.n; i += len) {
        int32_t cp = utf8_decode(s, i, &len);
        bool letter = is_cased(cp), lower_case = letter && is_lower(cp);
        if (letter && lower_case != inside) return bool_value(false);
        inside = letter;
        any |= letter;
    }
    return bool_value(any);
}

static struct value isidentifier(struct vm *vm, const struct value *at, const struct args *all) {
    (void)vm;
    (void)all;
    struct sv s = sv_of(at[0]);
    for (size_t i = 0, len; i < s.n; i += len)
        if (!in_identifier(utf8_decode(s, i, &len), i == 0)) return bool_value(false);
    return bool_value(s.n > 0);
}

static const struct builtin table[] = {
    {"strip", "chars", 0, strip_both},
    {"split", "sep maxsplit", 0, split},
    {"startswith", "prefix start end", 1, startswith},
    {"endswith", "suffix start end", 1, endswith},
    {"lstrip", "chars", 0, lstrip},
    {"rstrip", "chars", 0, rstrip},
    {"replace", "old new count", 2, replace},
    {"upper", "", 0, upper},
    {"lower", "", 0, lower},
    {"title", "", 0, title},
    {"capitalize", "", 0, capitalize},
    {"casefold", "", 0, casefold},
    {"swapcase", "", 0, swapcase},
    {"join", "iterable", 1, join},
    {"find", "sub start end", 1, find},
    {"rfind", "sub start end", 1, rfind},
    {"index", "sub start end", 1, str_index},
    {"rindex", "sub start end", 1, rindex_of},
    {"count", "sub start end", 1, count},
    {"rsplit", "sep maxsplit", 0, rsplit},
    {"splitlines", "keepends", 0, splitlines},
    {"partition", "sep", 1, partition},
    {"rpartition", "sep", 1, rpartition},
    {"removeprefix", "prefix", 1, removeprefix},
    {"removesuffix", "suffix", 1, removesuffix},
    {"center", "width fillchar", 1, center},
    {"ljust", "width fillchar", 1, ljust},
    {"rjust", "width fillchar", 1, rjust},
    {"zfill", "width", 1, zfill},
    {"expandtabs", "tabsize", 0, expandtabs},
    {"format", NULL, 0, format},
    {"format_map", "mapping", 1, format_map},
    {"translate", "table", 1, translate},
    {"maketrans", "x y z", 1, maketrans},
    {"encode", "encoding errors", 0, encode},
    {"isalpha", "", 0, isalpha_},
    {"isdecimal", "", 0, isdecimal},
    {"isdigit", "", 0, isdigit_},
    {"isnumeric", "", 0, isnumeric},
    {"isalnum", "", 0, isalnum_},
    {"isascii", "", 0, isascii_},
    {"isspace", "", 0, isspace_},
    {"isprintable", "", 0, isprintable},
    {"isupper", "", 0, isupper_},
    {"islower", "", 0, islower_},
    {"istitle", "", 0, istitle},
    {"isidentifier", "", 0, isidentifier},
};

const struct builtin *find_text_method(struct sv name) {
    return find_builtin(table, sizeof table / sizeof *table, name);
}
