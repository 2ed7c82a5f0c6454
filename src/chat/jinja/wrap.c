// The wordwrap filter: lines cut as Python's textwrap cuts them.
#include "chat/jinja/filters.h"
#include "chat/jinja/letters.h"

#include <string.h>

struct line { // one line of input
    struct vm *vm;
    const int32_t *cp;
    const size_t *byte; // where each character begins, and the end
    size_t n;
    struct sv text;
    size_t width;
    bool break_long, hyphens;
};

// To textwrap, only these are white space between words.
static bool blank(const struct line *l, size_t i) {
    return i < l->n && (l->cp[i] == ' ' || (l->cp[i] >= '\t' && l->cp[i] <= '\r'));
}

static bool dash(const struct line *l, size_t i) { return i < l->n && l->cp[i] == '-'; }

static bool word(const struct line *l, size_t i) { return i < l->n && is_word(l->cp[i]); }

static bool letter(const struct line *l, size_t i) { return word(l, i) && !is_decimal(l->cp[i]); }

static bool punct_or_word(const struct line *l, size_t i) {
    return word(l, i) ||
           (i < l->n && l->cp[i] > 0 && l->cp[i] < 0x80 && memchr("!\"'&.,?", l->cp[i], 7));
}

// The end of dashes before a word, which part words as a piece of their own; i: none.
static size_t dashes(const struct line *l, size_t i) {
    size_t end = i;
    if (!i || !punct_or_word(l, i - 1)) return i;
    while (dash(l, end)) end++;
    return end - i >= 2 && word(l, end) ? end : i;
}

// A hyphen after which a word may be parted: behind two letters, or one with a hyphen before it;
// before two letters.
static bool parting(const struct line *l, size_t i) {
    if (!dash(l, i) || i < 2) return false;
    bool two = letter(l, i - 1) && letter(l, i - 2);
    bool more = i > 2 && punct_or_word(l, i - 1) && dash(l, i - 2) && letter(l, i - 3);
    return (two || more) && letter(l, i + 1) && letter(l, i + 2 + dash(l, i + 2));
}

static size_t piece_end(const struct line *l, size_t i) {
    size_t end = i;
    while (blank(l, end)) end++;
    if (end > i) return end;
    if (l->hyphens && (end = dashes(l, i)) > i) return end;
    for (end = i + 1; end < l->n && !blank(l, end); end++) {
        if (l->hyphens && parting(l, end)) return end + 1;
        if (l->hyphens && dashes(l, end) > end) break;
    }
    return end;
}

static bool is_white(const struct line *l, size_t from, size_t to) {
    while (from < to && is_space(l->cp[from])) from++;
    return from == to;
}

// Where a piece too long for a line is cut, when `left` characters fit on it.
static size_t cut(const struct line *l, size_t from, size_t end, size_t left) {
    size_t to = from + left;
    if (!l->hyphens || end - from <= left) return to < end ? to : end;
    for (size_t hyphen = to; hyphen-- > from + 1;) {
        size_t i = from;
        if (!dash(l, hyphen)) continue;
        while (i < hyphen && dash(l, i)) i++;
        return i < hyphen ? hyphen + 1 : to;
    }
    return to;
}

static void put_line(const struct line *l, size_t from, size_t to, struct sv between, bool first) {
    if (!first) put(l->vm, between);
    put(l->vm, sv_cut(l->text, l->byte[from], l->byte[to]));
}

static void put_wrapped(const struct line *l, struct sv between) {
    bool first = true;
    for (size_t i = 0, end = 0; i < l->n;) { // a line a turn; [i, end) is the piece at hand
        if (end <= i) end = piece_end(l, i);
        if (!first && is_white(l, i, end)) {
            i = end;
            if (i == l->n) break;
            end = piece_end(l, i);
        }
        size_t from = i, last = i; // the line, and where its last piece begins
        while (i < l->n && end - from <= l->width) {
            last = i;
            i = end;
            if (i < l->n) end = piece_end(l, i);
        }
        if (i < l->n && end - i > l->width && (l->break_long || i == from)) {
            size_t to = l->break_long ? cut(l, i, end, l->width - (i - from)) : end;
            last = i; // also when nothing more fits: white space before it stays
            i = to;
        }
        size_t to = i > from && is_white(l, last, i) ? last : i;
        spend(l->vm, 1 + (to - from));
        if (to == from) continue;
        put_line(l, from, to, between, first);
        first = false;
    }
}

static void decode(struct line *l) {
    int32_t *cp = vm_alloc(l->vm, l->text.n, sizeof *cp);
    size_t *byte = vm_alloc(l->vm, l->text.n + 1, sizeof *byte), len;
    l->n = 0;
    for (size_t i = 0; i < l->text.n; i += len) {
        byte[l->n] = i;
        cp[l->n++] = utf8_decode(l->text, i, &len);
    }
    byte[l->n] = l->text.n;
    l->cp = cp;
    l->byte = byte;
}

struct value filter_wordwrap(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    if (at[0].kind == V_UNDEFINED) raise_undefined(vm, at[0]);
    if (at[0].kind != V_TEXT) raise_error(vm, "wordwrap needs text, not %s", type_name(at[0]));
    struct line l = {.vm = vm,
                     .width = at[1].kind == V_MISSING ? 79 : to_count(vm, at[1], "width"),
                     .break_long = at[2].kind == V_MISSING || truth(at[2]),
                     .hyphens = at[4].kind == V_MISSING || truth(at[4])};
    struct sv between = sv("\n");
    if (given(at[3]) && at[3].kind != V_TEXT) raise_error(vm, "wordwrap's wrapstring must be str");
    if (given(at[3])) between = sv_of(at[3]);
    struct items lines = split_lines(vm, sv_of(at[0]), false);
    if (!l.width && lines.n) raise_error(vm, "invalid width 0 (must be > 0)");
    size_t mark = text_mark(vm);
    for (size_t i = 0; i < lines.n; i++) {
        if (i) put(vm, between);
        l.text = sv_of(lines.at[i]);
        decode(&l);
        put_wrapped(&l, between);
    }
    return text_take(vm, mark);
}
