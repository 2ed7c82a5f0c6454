// Filters that make text.
#include "chat/jinja/filters.h"

#include <string.h>
#include <utf8proc.h>

static struct value like(struct vm *vm, struct value of, struct value v) {
    return of.text->markup ? marked(vm, v) : v;
}

// Text as it is, other values as str() gives them.
static struct sv plain(struct vm *vm, struct value v) { return to_sv(vm, v); }

static struct value need_text(struct vm *vm, struct value v, const char *filter) {
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

static bool word_char(int32_t cp) {
    if (cp < 0x80) return cp == '_' || (cp >= '0' && cp <= '9') || (cp | 32) - 'a' + 0u < 26u;
    utf8proc_category_t c = utf8proc_category(cp);
    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO) ||
           (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO);
}

struct value filter_wordcount(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s = plain(vm, at[0]);
    int64_t n = 0;
    bool inside = false;
    for (size_t i = 0, len; i < s.n; i += len) {
        bool word = word_char(utf8_decode(s, i, &len));
        n += word && !inside;
        inside = word;
    }
    return int_value(n);
}

struct value filter_truncate(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct value v = need_text(vm, at[0], "truncate");
    struct sv s = sv_of(v), end = sv("...");
    if (at[3].kind != V_MISSING) end = sv_of(need_text(vm, at[3], "truncate"));
    size_t ends = at[3].kind == V_MISSING ? 3 : at[3].text->chars;
    size_t length = at[1].kind == V_MISSING ? 255 : to_count(vm, at[1], "length");
    size_t leeway = given(at[4]) ? to_count(vm, at[4], "leeway") : 5;
    if (length < ends) raise_error(vm, "expected length >= %zu, got %zu", ends, length);
    if (v.text->chars <= length || v.text->chars - length <= leeway) return v;
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

// Words and the white space between them, as pieces that can't be broken.
static size_t piece_end(struct sv s, size_t i, bool hyphens) {
    size_t len;
    bool space = is_space(utf8_decode(s, i, &len));
    size_t from = i;
    for (; i < s.n; i += len) {
        int32_t cp = utf8_decode(s, i, &len);
        if (is_space(cp) != space) break;
        // After a hyphen between letters a line may break.
        if (hyphens && cp == '-' && i > from && i + 1 < s.n) {
            size_t next;
            if (word_char((unsigned char)s.p[i - 1]) && word_char(utf8_decode(s, i + 1, &next)))
                return i + 1;
        }
    }
    return i;
}

static size_t count_chars(struct sv s) {
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
    return n;
}

struct wrap {
    size_t width;
    bool break_long, hyphens;
    struct sv between;
};

// One line of input as lines of at most `width` characters.
static void put_wrapped(struct vm *vm, struct sv s, const struct wrap *w, bool first) {
    size_t from = 0, to = 0, chars = 0; // the line at hand
    for (size_t i = 0, end; i < s.n; i = end) {
        end = piece_end(s, i, w->hyphens);
        struct sv piece = sv_cut(s, i, end);
        size_t n = count_chars(piece), len;
        bool space = is_space(utf8_decode(s, i, &len));
        if (space && to == from && !first) { // white space that begins a wrapped line goes
            from = to = end;
            continue;
        }
        if (n > w->width && w->break_long && !space) { // fill the line, go on with the rest
            n = w->width > chars ? w->width - chars : 0;
            end = i + char_at(piece, piece.n == count_chars(piece) ? piece.n : 0, n);
        } else if (chars + n <= w->width || to == from) {
            if (to == from) from = i;
            to = end;
            chars += n;
            continue;
        }
        if (end > i) {
            if (to == from) from = i;
            if (n && n <= w->width - chars && sv_cut(s, i, end).n < piece.n)
                to = end;
            else
                end = i;
        }
        struct sv line = strip(sv_cut(s, from, to), false, true);
        if (!first) put(vm, w->between);
        put(vm, line);
        first = false;
        from = to = end;
        chars = 0;
    }
    struct sv line = strip(sv_cut(s, from, to), false, true);
    if (!line.n) return;
    if (!first) put(vm, w->between);
    put(vm, line);
}

struct value filter_wordwrap(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s = sv_of(need_text(vm, at[0], "wordwrap"));
    struct wrap w = {.width = at[1].kind == V_MISSING ? 79 : to_count(vm, at[1], "width"),
                     .break_long = at[2].kind == V_MISSING || truth(at[2]),
                     .hyphens = at[4].kind == V_MISSING || truth(at[4]),
                     .between = given(at[3]) ? plain(vm, at[3]) : sv("\n")};
    if (!w.width) raise_error(vm, "invalid width 0 (must be > 0)");
    struct items lines = split_lines(vm, s, false);
    size_t mark = text_mark(vm);
    for (size_t i = 0; i < lines.n; i++) {
        if (i) put(vm, w.between);
        put_wrapped(vm, sv_of(lines.at[i]), &w, true);
    }
    return text_take(vm, mark);
}

static void put_quoted(struct vm *vm, struct sv s, bool query) {
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        bool keep =
            (c < 0x80 && word_char(c)) || c == '.' || c == '-' || c == '~' || (c == '/' && !query);
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

// Named entities of markup, and numbers; others stay.
static size_t put_entity(struct vm *vm, struct sv s, size_t i) {
    static const struct {
        const char *name, *text;
    } named[] = {{"&amp;", "&"}, {"&lt;", "<"},   {"&gt;", ">"},          {"&quot;", "\""},
                 {"&#39;", "'"}, {"&#34;", "\""}, {"&nbsp;", "\xc2\xa0"}, {"&apos;", "'"}};
    for (size_t k = 0; k < sizeof named / sizeof *named; k++)
        if (sv_starts(sv_cut(s, i, s.n), sv(named[k].name))) {
            puts_text(vm, named[k].text);
            return i + strlen(named[k].name);
        }
    put_char(vm, '&');
    return i + 1;
}

struct value filter_striptags(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s = plain(vm, at[0]);
    size_t mark = text_mark(vm);
    for (size_t i = 0; i < s.n;) {
        bool comment = sv_starts(sv_cut(s, i, s.n), sv("<!--"));
        ptrdiff_t end = s.p[i] != '<' ? -1 : sv_find(s, sv(comment ? "-->" : ">"), i);
        if (end >= 0)
            i = (size_t)end + (comment ? 3 : 1);
        else
            put_char(vm, s.p[i++]);
    }
    s = sv_of(text_take(vm, mark));
    bool gap = false, any = false;
    for (size_t i = 0, len; i < s.n;) {
        if (is_space(utf8_decode(s, i, &len))) {
            gap = any;
            i += len;
            continue;
        }
        if (gap) put_char(vm, ' ');
        gap = false;
        any = true;
        if (s.p[i] == '&') {
            i = put_entity(vm, s, i);
        } else {
            put(vm, sv_n(s.p + i, len));
            i += len;
        }
    }
    return text_take(vm, mark);
}

struct value filter_xmlattr(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    if (at[0].kind != V_DICT) raise_error(vm, "xmlattr needs a mapping");
    const struct dict *d = at[0].dict;
    bool space = at[1].kind == V_MISSING || truth(at[1]);
    size_t mark = text_mark(vm);
    for (size_t i = 0; i < d->n; i++) {
        struct value v = d->at[i].value;
        if (v.kind == V_NONE || v.kind == V_UNDEFINED) continue;
        struct sv key = plain(vm, d->at[i].key), text = plain(vm, v);
        for (size_t k = 0; k < key.n; k++)
            if (memchr(" \t\n\r\f\v/>=", key.p[k], 9))
                raise_error(vm, "Invalid character in attribute name");
        if (space || text_mark(vm) > mark) put_char(vm, ' ');
        put_escaped(vm, key);
        puts_text(vm, "=\"");
        put_escaped(vm, text);
        put_char(vm, '"');
    }
    return text_take(vm, mark);
}

// Labels with dots between, the last a top-level domain of 2 to 63 letters; then, where they are, a
// port and a path.
static bool is_host(struct sv s) {
    size_t i = 0, label = 0, port = 0;
    bool letters = true;
    for (; i < s.n && (word_char((unsigned char)s.p[i]) || memchr("-%.", s.p[i], 3)); i++) {
        char lower = (char)(s.p[i] | 32);
        bool letter = lower >= 'a' && lower <= 'z';
        if (s.p[i] == '.') {
            if (!label) return false;
            label = 0, letters = true;
        } else {
            label++, letters &= letter;
        }
    }
    if (!letters || label < 2 || label > 63) return false;
    if (i < s.n && s.p[i] == ':')
        for (i++; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++) port++;
    return port <= 5 && (i == s.n || strchr("/?#", s.p[i]));
}

// A word that is a web address becomes a link; punctuation around it stays outside.
static void put_link(struct vm *vm, struct sv word, size_t limit, struct sv attributes) {
    size_t head = 0;
    while (head < word.n && (word.p[head] == '(' || word.p[head] == '<')) head++;
    struct sv middle = sv_cut(word, head, word.n);
    while (middle.n && memchr(").,>", middle.p[middle.n - 1], 4)) middle.n--;
    bool plain_http = sv_starts(middle, sv("http://"));
    bool http = plain_http || sv_starts(middle, sv("https://"));
    bool www = sv_starts(middle, sv("www.")) && is_host(sv_cut(middle, 4, middle.n));
    if (http) http = is_host(sv_cut(middle, plain_http ? 7 : 8, middle.n));
    put_escaped(vm, sv_cut(word, 0, head));
    if (http || www) {
        puts_text(vm, www ? "<a href=\"https://" : "<a href=\"");
        put_escaped(vm, middle);
        put_char(vm, '"');
        put(vm, attributes);
        put_char(vm, '>');
        size_t chars = count_chars(middle), cut = char_at(middle, chars, limit);
        put_escaped(vm, chars > limit ? sv_cut(middle, 0, cut) : middle);
        puts_text(vm, chars > limit ? "...</a>" : "</a>");
    } else {
        put_escaped(vm, middle);
    }
    put_escaped(vm, sv_cut(word, head + middle.n, word.n));
}

struct value filter_urlize(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s = plain(vm, at[0]);
    size_t limit = given(at[1]) ? to_count(vm, at[1], "the limit") : SIZE_MAX;
    size_t mark = text_mark(vm);
    puts_text(vm, truth(at[2]) ? " rel=\"nofollow noopener\"" : " rel=\"noopener\"");
    if (given(at[3])) {
        puts_text(vm, " target=\"");
        put_escaped(vm, plain(vm, at[3]));
        put_char(vm, '"');
    }
    struct sv attributes = sv_of(text_take(vm, mark));
    for (size_t i = 0, end; i < s.n; i = end) {
        size_t len;
        end = piece_end(s, i, false);
        if (is_space(utf8_decode(s, i, &len)))
            put(vm, sv_cut(s, i, end));
        else
            put_link(vm, sv_cut(s, i, end), limit, attributes);
    }
    return text_take(vm, mark);
}
