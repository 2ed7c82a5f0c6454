// Filters that read or make HTML: striptags, xmlattr, urlize.
#include "chat/jinja/filters.h"
#include "chat/jinja/letters.h"

#include <string.h>

static struct sv rest_of(struct sv s, size_t from) { return sv_cut(s, from, s.n); }

static bool control(uint32_t cp) {
    return (cp < 0x20 && cp != '\t' && cp != '\n' && cp != '\f' && cp != '\r') ||
           (cp >= 0x7f && cp < 0xa0);
}

// A number's character, as HTML 5 has it: 0x80 to 0x9f are those of Windows-1252.
static void put_numbered(struct vm *vm, uint32_t cp) {
    static const uint16_t windows[] = {
        0x20ac, 0x81,   0x201a, 0x192,  0x201e, 0x2026, 0x2020, 0x2021, 0x2c6,  0x2030, 0x160,
        0x2039, 0x152,  0x8d,   0x17d,  0x8f,   0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
        0x2013, 0x2014, 0x2dc,  0x2122, 0x161,  0x203a, 0x153,  0x9d,   0x17e,  0x178};
    if (cp == 0 || (cp >= 0xd800 && cp < 0xe000) || cp > 0x10ffff)
        put_code(vm, 0xfffd);
    else if (cp >= 0x80 && cp < 0xa0)
        put_code(vm, windows[cp - 0x80]);
    else if (!control(cp) && (cp < 0xfdd0 || cp > 0xfdef) && (cp & 0xfffe) != 0xfffe)
        put_code(vm, cp);
}

// "&#..." at i; returns its end, or i when there are no digits.
static size_t put_number_entity(struct vm *vm, struct sv s, size_t i) {
    size_t at = i + 2;
    int base = at < s.n && (s.p[at] | 32) == 'x' ? 16 : 10;
    if (base == 16) at++;
    size_t from = at;
    uint32_t cp = 0;
    for (; at < s.n && hex_digit(s.p[at]) >= 0 && hex_digit(s.p[at]) < base; at++)
        if (cp <= 0x10ffff) cp = cp * (uint32_t)base + (uint32_t)hex_digit(s.p[at]);
    if (at == from) return i;
    put_numbered(vm, cp);
    return at < s.n && s.p[at] == ';' ? at + 1 : at;
}

static const struct entity *find_entity(struct sv name) {
    size_t low = 0, high = entities_n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        int c = sv_cmp(name, sv(entities[mid].name));
        if (!c) return &entities[mid];
        if (c < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

// Reads the entity at s[i], an ampersand, as html.unescape() does: of a name that is none, the
// longest beginning that is one. Returns its end.
static size_t put_entity(struct vm *vm, struct sv s, size_t i) {
    enum { MOST = 32 };
    size_t n = 0, at = i + 1;
    spend(vm, 1);
    if (at < s.n && s.p[at] == '#') {
        size_t end = put_number_entity(vm, s, i);
        if (end > i) return end;
    }
    for (size_t chars = 0; at + n < s.n && chars < MOST; chars++) {
        size_t len;
        if (memchr("\t\n\f <&#;", s.p[at + n], 8)) break;
        utf8_decode(s, at + n, &len);
        n += len;
    }
    if (n && at + n < s.n && s.p[at + n] == ';') n++;
    for (size_t k = n; k > 1; k--) {
        const struct entity *e = find_entity(sv_cut(s, at, at + k));
        if (!e) continue;
        puts_text(vm, e->text);
        return at + k;
    }
    put_char(vm, '&');
    return at;
}

static void put_untagged(struct vm *vm, struct sv s) {
    size_t at = 0;
    for (ptrdiff_t tag; (tag = find_text(vm, s, sv("<"), at)) >= 0;) {
        bool comment = sv_starts(rest_of(s, (size_t)tag), sv("<!--"));
        ptrdiff_t end = comment ? find_text(vm, s, sv("-->"), (size_t)tag + 4)
                                : find_text(vm, s, sv(">"), (size_t)tag);
        if (end < 0) break;
        put(vm, sv_cut(s, at, (size_t)tag));
        at = (size_t)end + (comment ? 3 : 1);
    }
    put(vm, rest_of(s, at));
}

struct value filter_striptags(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    size_t mark = text_mark(vm), len;
    put_untagged(vm, to_sv(vm, at[0]));
    struct sv s = sv_of(text_take(vm, mark));
    bool gap = false, any = false;
    for (size_t i = 0; i < s.n; i += len) { // runs of white space to one space
        bool space = is_space(utf8_decode(s, i, &len));
        if (!space && gap && any) put_char(vm, ' ');
        if (!space) put(vm, sv_n(s.p + i, len));
        gap = space;
        any |= !space;
    }
    s = sv_of(text_take(vm, mark));
    for (size_t i = 0; i < s.n;) {
        const char *next = memchr(s.p + i, '&', s.n - i);
        size_t end = next ? (size_t)(next - s.p) : s.n;
        put(vm, sv_cut(s, i, end));
        i = next ? put_entity(vm, s, end) : end;
    }
    return text_take(vm, mark);
}

static void put_attribute_name(struct vm *vm, struct value key) {
    if (key.kind != V_TEXT) raise_error(vm, "expected string, got '%s'", type_name(key));
    struct sv s = sv_of(key);
    for (size_t k = 0; k < s.n; k++)
        if (memchr(" \t\n\r\f\v/>=", s.p[k], 9))
            raise_error(vm, "Invalid character in attribute name");
    put_html(vm, key);
}

struct value filter_xmlattr(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    if (at[0].kind == V_UNDEFINED) raise_undefined(vm, at[0]);
    if (at[0].kind != V_DICT) raise_error(vm, "xmlattr needs a mapping");
    const struct dict *d = at[0].dict;
    bool space = at[1].kind == V_MISSING || truth(at[1]);
    size_t mark = text_mark(vm);
    for (size_t i = 0; i < d->n; i++) {
        struct value v = d->at[i].value;
        if (v.kind == V_NONE || v.kind == V_UNDEFINED) continue;
        if (space || text_mark(vm) > mark) put_char(vm, ' ');
        put_attribute_name(vm, d->at[i].key);
        puts_text(vm, "=\"");
        put_html(vm, to_text(vm, v));
        put_char(vm, '"');
    }
    return captured(vm, mark);
}

// Links.

struct link {
    struct sv attributes; // rel and target
    size_t limit;         // characters of a link's text
    struct items schemes;
};

static bool starts_folded(struct sv s, const char *with) {
    size_t n = strlen(with);
    if (s.n < n) return false;
    for (size_t i = 0; i < n; i++) {
        char c = s.p[i] >= 'A' && s.p[i] <= 'Z' ? (char)(s.p[i] | 32) : s.p[i];
        if (c != with[i]) return false;
    }
    return true;
}

// What may follow a host: a port, then a path.
static bool is_host_end(struct sv s) {
    size_t i = 0, len, digits = 0;
    if (s.n && s.p[0] == ':') {
        for (i = 1; i < s.n && is_decimal(utf8_decode(s, i, &len)); i += len) digits++;
        if (!digits || digits > 5) return false;
    }
    return i == s.n || memchr("/?#", s.p[i], 3);
}

static bool is_top_level(struct sv label) {
    size_t n = label.n;
    if (starts_folded(label, "xn--") && !memchr(label.p + 4, '-', n - 4)) {
        size_t chars = utf8_count(rest_of(label, 4));
        return chars >= 2 && chars <= 59;
    }
    for (size_t i = 0; i < n; i++) {
        char c = (char)(label.p[i] | 32);
        if (c < 'a' || c > 'z') return false;
    }
    return n >= 2 && n <= 63;
}

static bool is_known_top_level(struct sv label) {
    static const char *const names[] = {"com", "net", "int", "edu", "gov", "org", "info", "mil"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (label.n == strlen(names[i]) && starts_folded(label, names[i])) return true;
    return false;
}

// Labels of word characters, % and - with dots between, the last a top-level domain. bare: without
// a scheme before it, so that it must be a known one, and the labels are of 2 to 63 characters.
static bool is_host(struct sv s, bool bare) {
    size_t i = 0, from = 0, len, labels = 0;
    for (; i < s.n; i += len) {
        int32_t cp = utf8_decode(s, i, &len);
        if (cp == '.') {
            size_t chars = utf8_count(sv_cut(s, from, i));
            if (!chars || (bare && (chars < 2 || chars > 63))) return false;
            labels++;
            from = i + 1;
        } else if (cp != '%' && cp != '-' && !is_word(cp)) {
            break;
        }
    }
    struct sv last = sv_cut(s, from, i);
    bool top = bare ? labels && is_known_top_level(last) : is_top_level(last);
    return top && is_host_end(rest_of(s, i));
}

static bool is_ip4(struct sv s) {
    size_t i = 0, len;
    for (int part = 0; part < 4; part++) {
        int digits = 0;
        if (part && (i == s.n || s.p[i++] != '.')) return false;
        for (; i < s.n && digits < 3 && is_decimal(utf8_decode(s, i, &len)); i += len) digits++;
        if (!digits) return false;
    }
    return is_host_end(rest_of(s, i));
}

// In square brackets, groups of up to four digits: two that end with a colon, then one to six.
static bool is_ip6(struct sv s) {
    size_t i = 1;
    int groups = 0;
    if (!s.n || s.p[0] != '[') return false;
    for (; groups < 8 && i < s.n && s.p[i] != ']'; groups++) {
        for (int digits = 0; i < s.n && digits < 4 && hex_digit(s.p[i]) >= 0; digits++) i++;
        bool colon = i < s.n && s.p[i] == ':';
        if (groups < 2 && !colon) return false;
        i += colon;
    }
    return groups >= 2 && i < s.n && s.p[i] == ']' && is_host_end(rest_of(s, i + 1));
}

static bool is_web(struct sv s) {
    size_t scheme = starts_folded(s, "https://") ? 8 : starts_folded(s, "http://") ? 7 : 0;
    struct sv host = rest_of(s, scheme);
    if (scheme) return is_host(host, false) || is_ip4(host) || is_ip6(host);
    if (starts_folded(s, "www.") && is_host(rest_of(s, 4), false)) return true;
    return is_host(s, true);
}

// name@host.domain, the domain without a hyphen.
static bool is_mail(struct sv s) {
    size_t at = s.n, dot = 0, len;
    while (at && s.p[at - 1] != '@') at--;
    if (at < 2) return false;
    bool whole = false;
    for (size_t i = at; i < s.n; i += len) {
        int32_t cp = utf8_decode(s, i, &len);
        if (!is_word(cp) && (i == at || (cp != '.' && cp != '-'))) return false;
        if (cp == '.') dot = i, whole = true;
        if (cp == '-') whole = false;
    }
    return whole && dot + 1 < s.n;
}

static void put_anchor(struct vm *vm, const char *before, struct sv to, const struct link *l,
                       struct sv text) {
    puts_text(vm, "<a href=\"");
    puts_text(vm, before);
    put(vm, to);
    put_char(vm, '"');
    if (l) put(vm, l->attributes);
    put_char(vm, '>');
    put(vm, text);
    puts_text(vm, "</a>");
}

static void put_web(struct vm *vm, struct sv s, const struct link *l) {
    bool scheme = sv_starts(s, sv("https://")) || sv_starts(s, sv("http://"));
    size_t chars = utf8_count(s), mark = text_mark(vm);
    struct sv text = s;
    if (chars > l->limit) {
        put(vm, sv_cut(s, 0, char_at(s, chars, l->limit)));
        puts_text(vm, "...");
        text = sv_of(text_take(vm, mark));
    }
    put_anchor(vm, scheme ? "" : "https://", s, l, text);
}

static void put_scheme(struct vm *vm, struct sv s, const struct link *l) {
    for (size_t i = 0; i < l->schemes.n; i++) {
        struct sv scheme = sv_of(l->schemes.at[i]);
        if (s.n == scheme.n || !sv_starts(s, scheme)) continue;
        put_anchor(vm, "", s, l, s);
        return;
    }
    put(vm, s);
}

static void put_middle(struct vm *vm, struct sv s, const struct link *l) {
    bool mail = memchr(s.p, '@', s.n) && !sv_starts(s, sv("www.")) && s.p[0] != '@' &&
                !memchr(s.p, ':', s.n);
    if (is_web(s))
        put_web(vm, s, l);
    else if (sv_starts(s, sv("mailto:")) && is_mail(rest_of(s, 7)))
        put_anchor(vm, "", s, NULL, rest_of(s, 7));
    else if (mail && is_mail(s))
        put_anchor(vm, "mailto:", s, NULL, s);
    else
        put_scheme(vm, s, l);
}

static size_t count_of(struct vm *vm, struct sv s, const char *what) {
    size_t n = 0, at = 0;
    for (ptrdiff_t hit; (hit = find_text(vm, s, sv(what), at)) >= 0; n++)
        at = (size_t)hit + strlen(what);
    return n;
}

// The punctuation at the end of a word, less what closes a bracket inside it.
static size_t middle_end(struct vm *vm, struct sv s) {
    static const char *const pairs[][2] = {{"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}};
    size_t end = s.n;
    for (;;) {
        if (end && memchr(")>.,", s.p[end - 1], 4))
            end--;
        else if (sv_ends(sv_cut(s, 0, end), sv("&gt;")))
            end -= 4;
        else
            break;
    }
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        size_t opened = count_of(vm, sv_cut(s, 0, end), pairs[i][0]);
        if (opened <= count_of(vm, sv_cut(s, 0, end), pairs[i][1])) continue;
        for (ptrdiff_t hit; opened && (hit = find_text(vm, s, sv(pairs[i][1]), end)) >= 0; opened--)
            end = (size_t)hit + strlen(pairs[i][1]);
    }
    return end;
}

static void put_word(struct vm *vm, struct sv word, const struct link *l) {
    size_t head = 0;
    for (;;) {
        if (head < word.n && (word.p[head] == '(' || word.p[head] == '<'))
            head++;
        else if (sv_starts(rest_of(word, head), sv("&lt;")))
            head += 4;
        else
            break;
    }
    put(vm, sv_cut(word, 0, head));
    word = rest_of(word, head);
    size_t end = middle_end(vm, word);
    spend(vm, 1 + word.n / 8);
    if (end) put_middle(vm, sv_cut(word, 0, end), l);
    put(vm, rest_of(word, end));
}

static bool is_scheme(struct sv s) {
    size_t i = 0, chars = 0, len;
    for (; i < s.n && s.p[i] != ':'; i += len, chars++) {
        int32_t cp = utf8_decode(s, i, &len);
        if (!is_word(cp) && cp != '.' && cp != '+' && cp != '-') return false;
    }
    struct sv end = rest_of(s, i);
    return chars >= 2 && (sv_is(end, ":") || sv_is(end, ":/") || sv_is(end, "://"));
}

// rel="..." of each word once, in order; target="...".
static struct sv link_attributes(struct vm *vm, const struct value *at) {
    struct dict *words = dict_new(vm);
    dict_set(vm, words, text_value(vm, sv("noopener")), none_value());
    if (truth(at[2])) dict_set(vm, words, text_value(vm, sv("nofollow")), none_value());
    if (truth(at[4])) {
        struct items own = split_words(vm, need_text(vm, at[4], "urlize's rel"), -1);
        for (size_t i = 0; i < own.n; i++) dict_set(vm, words, own.at[i], none_value());
    }
    const struct pair *sorted = sorted_pairs(vm, words);
    size_t mark = text_mark(vm);
    for (size_t i = 0; i < words->n; i++) {
        puts_text(vm, i ? " " : " rel=\"");
        put_escaped(vm, sv_of(sorted[i].key));
    }
    put_char(vm, '"');
    if (truth(at[3])) {
        struct sv target = to_sv(vm, at[3]);
        puts_text(vm, " target=\"");
        put_escaped(vm, target);
        put_char(vm, '"');
    }
    return sv_of(text_take(vm, mark));
}

struct value filter_urlize(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct link l = {.limit = SIZE_MAX, .attributes = link_attributes(vm, at)};
    if (given(at[1])) l.limit = to_count(vm, at[1], "urlize's limit");
    if (truth(at[5])) l.schemes = to_items(vm, at[5]);
    for (size_t i = 0; i < l.schemes.n; i++)
        if (!is_scheme(sv_of(need_text(vm, l.schemes.at[i], "urlize's schemes"))))
            raise_error(vm, "a scheme of urlize is no valid URI scheme prefix");
    struct value text = to_text(vm, at[0]);
    size_t mark = text_mark(vm);
    put_html(vm, text);
    struct sv s = sv_of(text_take(vm, mark));
    for (size_t i = 0, end, len; i < s.n; i = end) {
        bool space = is_space(utf8_decode(s, i, &len));
        for (end = i; end < s.n && is_space(utf8_decode(s, end, &len)) == space;) end += len;
        if (space)
            put(vm, sv_cut(s, i, end));
        else
            put_word(vm, sv_cut(s, i, end), &l);
    }
    return captured(vm, mark);
}
