// Text as Python's str sees it: code points, Unicode white space and case.
#include "chat/jinja/value.h"

#include <string.h>
#include <utf8proc.h>

#include "base/mem.h"
#include "chat/jinja/letters.h"

// What str.isspace() and strip() take for white space.
bool is_space(int32_t cp) {
    if (cp < 0x80) return cp == ' ' || (cp >= 9 && cp <= 13) || (cp >= 0x1c && cp <= 0x1f);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

// What repr() shows as it is.
bool is_printable(int32_t cp) {
    if (cp < 0x80) return cp >= 0x20 && cp != 0x7f;
    switch (utf8proc_category(cp)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
    }
}

// The code point that ends at s[end], and where it begins.
static int32_t decode_back(struct sv s, size_t end, size_t *from) {
    size_t at = end - 1, len;
    while (at > 0 && end - at < 4 && ((unsigned char)s.p[at] & 0xc0) == 0x80) at--;
    int32_t cp = utf8_decode(s, at, &len);
    *from = at + len == end ? at : end - 1;
    return at + len == end ? cp : -1;
}

struct sv strip(struct sv s, bool left, bool right) {
    size_t from = 0, to = s.n, len;
    while (left && from < to && is_space(utf8_decode(s, from, &len))) from += len;
    while (right && to > from && is_space(decode_back(s, to, &len))) to = len;
    return sv_cut(s, from, to);
}

ptrdiff_t find_text(struct vm *vm, struct sv in, struct sv what, size_t from) {
    ptrdiff_t hit = sv_find(in, what, from);
    size_t end = hit < 0 ? in.n : (size_t)hit;
    spend(vm, (end > from ? end - from : 0) / 8 + 1);
    return hit;
}

static bool in_set(struct vm *vm, struct sv set, struct sv c) {
    spend(vm, set.n / 16 + 1);
    return sv_find(set, c, 0) >= 0;
}

struct sv strip_set(struct vm *vm, struct sv s, struct sv set, bool left, bool right) {
    size_t from = 0, to = s.n, at, len;
    while (left && from < to) {
        utf8_decode(s, from, &len);
        if (!in_set(vm, set, sv_n(s.p + from, len))) break;
        from += len;
    }
    while (right && to > from) {
        decode_back(s, to, &at);
        if (!in_set(vm, set, sv_n(s.p + at, to - at))) break;
        to = at;
    }
    return sv_cut(s, from, to);
}

size_t char_at(struct sv s, size_t chars, size_t i) {
    if (chars == s.n) return i; // ASCII
    size_t at = 0;
    for (; i && at < s.n; i--) {
        do at++;
        while (at < s.n && ((unsigned char)s.p[at] & 0xc0) == 0x80);
    }
    return at;
}

struct value repeat_text(struct vm *vm, struct value v, struct value times) {
    size_t n = to_count(vm, times, "the repeat count"), mark = text_mark(vm), total;
    if (!size_mul(v.text->n, n, &total)) total = SIZE_MAX;
    text_room(vm, total);
    for (size_t i = 0; total && i < n; i++) put(vm, sv_of(v));
    struct value r = text_take(vm, mark);
    return v.text->markup ? marked(vm, r) : r;
}

void put_escaped(struct vm *vm, struct sv s) {
    for (size_t i = 0; i < s.n; i++) {
        switch (s.p[i]) {
        case '&': puts_text(vm, "&amp;"); break;
        case '<': puts_text(vm, "&lt;"); break;
        case '>': puts_text(vm, "&gt;"); break;
        case '\'': puts_text(vm, "&#39;"); break;
        case '"': puts_text(vm, "&#34;"); break;
        default: put_char(vm, s.p[i]);
        }
    }
}

void put_html(struct vm *vm, struct value text) {
    if (text.text->markup)
        put(vm, sv_of(text));
    else
        put_escaped(vm, sv_of(text));
}

static void put_mapped(struct vm *vm, const int32_t to[3]) {
    for (int i = 0; i < 3 && to[i]; i++) put_code(vm, (uint32_t)to[i]);
}

void put_title(struct vm *vm, int32_t cp) {
    const struct casing *c = cp < 0x80 ? NULL : find_casing(cp);
    if (c)
        put_mapped(vm, c->title);
    else
        put_code(vm, (uint32_t)utf8proc_totitle(cp));
}

void put_upper(struct vm *vm, struct sv s) {
    for (size_t i = 0, len; i < s.n; i += len) {
        int32_t cp = utf8_decode(s, i, &len);
        const struct casing *c = cp < 0x80 ? NULL : find_casing(cp);
        if (cp < 0)
            put(vm, sv_n(s.p + i, len));
        else if (c)
            put_mapped(vm, c->upper);
        else
            put_code(vm, (uint32_t)utf8proc_toupper(cp));
    }
}

// A capital sigma ends a word when a letter stands before it and none after.
static bool final_sigma(struct vm *vm, struct sv s, size_t from, size_t to) {
    size_t at, len;
    for (;; from = at) {
        spend(vm, 1);
        if (from == 0) return false;
        int32_t cp = decode_back(s, from, &at);
        if (is_ignorable(cp)) continue;
        if (!is_cased(cp)) return false;
        break;
    }
    for (; to < s.n; to += len) {
        int32_t cp = utf8_decode(s, to, &len);
        spend(vm, 1);
        if (!is_ignorable(cp)) return !is_cased(cp);
    }
    return true;
}

size_t put_lower_at(struct vm *vm, struct sv s, size_t i) {
    size_t len;
    int32_t cp = utf8_decode(s, i, &len);
    if (cp < 0)
        put(vm, sv_n(s.p + i, len));
    else if (cp == 0x130)
        puts_text(vm, "i\xcc\x87");
    else if (cp == 0x3a3)
        put_code(vm, final_sigma(vm, s, i, i + len) ? 0x3c2 : 0x3c3);
    else
        put_code(vm, (uint32_t)utf8proc_tolower(cp));
    return i + len;
}

void put_lower(struct vm *vm, struct sv s) {
    for (size_t i = 0; i < s.n;) i = put_lower_at(vm, s, i);
}

struct value lowered(struct vm *vm, struct value v) {
    if (v.kind != V_TEXT) return v;
    size_t mark = text_mark(vm);
    put_lower(vm, sv_of(v));
    return text_take(vm, mark);
}

// count < 0: all. An empty `old` stands before every character and at the end.
void put_replaced(struct vm *vm, struct sv s, struct sv old, struct sv with, int64_t count) {
    size_t at = 0, len;
    for (; count; count--) {
        ptrdiff_t hit = find_text(vm, s, old, at);
        if (hit < 0) break;
        spend(vm, 1);
        put(vm, sv_cut(s, at, (size_t)hit));
        put(vm, with);
        at = (size_t)hit + old.n;
        if (old.n) continue;
        if (at >= s.n) return;
        utf8_decode(s, at, &len);
        put(vm, sv_cut(s, at, at + len));
        at += len;
    }
    put(vm, sv_cut(s, at, s.n));
}

static bool ends_line(int32_t cp) {
    return (cp >= '\n' && cp <= '\r') || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 || cp == 0x2028 ||
           cp == 0x2029;
}

struct items split_lines(struct vm *vm, struct sv s, bool keep_ends) {
    struct items lines = {0};
    for (size_t from = 0, at = 0, len; from < s.n; from = at) {
        int32_t cp = 0;
        size_t end;
        while (at < s.n && !ends_line(cp = utf8_decode(s, at, &len))) at += len;
        end = at;
        if (at < s.n) at += len;
        if (cp == '\r' && at < s.n && s.p[at] == '\n') at++;
        items_add(vm, &lines, text_value(vm, sv_cut(s, from, keep_ends ? at : end)));
    }
    return lines;
}
