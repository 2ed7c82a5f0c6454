// Source to tokens: template data with its white space already trimmed as the tags ask, and the
// tokens inside tags.
#include "chat/jinja/ast.h"

#include <stdlib.h>
#include <string.h>

#include "chat/jinja/letters.h"

struct lexer {
    struct vm *vm;
    struct sv s;
    size_t at;
    int line;
    bool line_start; // what came before the data at hand ends a line
    struct tokens out;
};

static void add(struct lexer *x, enum token_kind kind, struct sv text) {
    struct tokens *t = &x->out;
    if (t->n == t->cap) {
        size_t cap = t->cap * 2 + 64;
        struct token *more = vm_alloc(x->vm, cap, sizeof *more);
        if (t->n) memcpy(more, t->at, t->n * sizeof *more);
        t->at = more;
        t->cap = cap;
    }
    t->at[t->n++] = (struct token){.kind = kind, .line = x->line, .text = text};
}

// Moves on to `to`, counting lines.
static void advance(struct lexer *x, size_t to) {
    for (; x->at < to; x->at++) x->line += x->s.p[x->at] == '\n';
    x->line_start = x->at > 0 && x->s.p[x->at - 1] == '\n';
    x->vm->line = x->line;
}

static bool looking_at(const struct lexer *x, size_t at, const char *what) {
    return sv_starts(sv_cut(x->s, at, x->s.n), sv(what));
}

static size_t skip_space(const struct lexer *x, size_t at) {
    struct sv rest = strip(sv_cut(x->s, at, x->s.n), true, false);
    return x->s.n - rest.n;
}

// The data before a tag, less what the tag's sign (or lstrip_blocks) takes away.
static struct sv before_tag(const struct lexer *x, struct sv data, char sign, bool print) {
    if (sign == '-') return strip(data, false, true);
    if (sign == '+' || print) return data;
    size_t line = data.n;
    while (line && data.p[line - 1] != '\n') line--;
    if (line == 0 && !x->line_start) return data;
    return strip(sv_cut(data, line, data.n), true, false).n ? data : sv_cut(data, 0, line);
}

// The end of a tag that closes with `end` at `at`, over the white space that goes with it; 0 when
// there is none. plus: "+%}" closes too, and trim_blocks takes a newline.
static size_t tag_end(const struct lexer *x, size_t at, const char *end, bool block) {
    char sign = at < x->s.n ? x->s.p[at] : 0;
    if (sign == '-' && looking_at(x, at + 1, end)) return skip_space(x, at + 3);
    if (block && sign == '+' && looking_at(x, at + 1, end)) return at + 3;
    if (!looking_at(x, at, end)) return 0;
    at += 2;
    return block && at < x->s.n && x->s.p[at] == '\n' ? at + 1 : at;
}

static char sign_at(const struct lexer *x, size_t at) {
    char c = at < x->s.n ? x->s.p[at] : 0;
    return c == '-' || c == '+' ? c : 0;
}

// Past `word` with white space around it, after a tag's opening at `at`; 0 when it isn't there.
static size_t word_tag(const struct lexer *x, size_t at, const char *word) {
    at += 2;
    if (sign_at(x, at)) at++;
    at = skip_space(x, at);
    return looking_at(x, at, word) ? skip_space(x, at + strlen(word)) : 0;
}

static void comment(struct lexer *x) {
    for (size_t at = x->at + 2 + (sign_at(x, x->at + 2) != 0); at < x->s.n; at++) {
        char c = x->s.p[at];
        if (c != '#' && c != '-' && c != '+') continue;
        size_t end = tag_end(x, at, "#}", true);
        if (end) {
            advance(x, end);
            return;
        }
    }
    raise_error(x->vm, "Missing end of comment tag");
}

// Raw text from `from`; its own opening tag takes no newline away unless it says so.
static void raw(struct lexer *x, size_t from) {
    advance(x, looking_at(x, from, "-%}") ? skip_space(x, from + 3) : from + 2);
    for (size_t at = x->at; at < x->s.n; at++) {
        if (!looking_at(x, at, "{%")) continue;
        size_t word = word_tag(x, at, "endraw"), end = word ? tag_end(x, word, "%}", true) : 0;
        if (!end) continue;
        struct sv data = before_tag(x, sv_cut(x->s, x->at, at), sign_at(x, at + 2), false);
        if (data.n) add(x, T_DATA, data);
        advance(x, end);
        return;
    }
    raise_error(x->vm, "Missing end of raw directive");
}

// \xhh, \uhhhh, \Uhhhhhhhh. Half a surrogate pair has no UTF-8: U+FFFD stands for it.
static size_t hex_escape(struct lexer *x, struct sv s, size_t at, int digits) {
    uint32_t cp = 0;
    for (int i = 0; i < digits; i++, at++) {
        int d = at < s.n ? hex_digit(s.p[at]) : -1;
        if (d < 0) raise_error(x->vm, "a string has a cut \\x, \\u or \\U escape");
        cp = cp << 4 | (uint32_t)d;
    }
    if (cp > 0x10ffff) raise_error(x->vm, "a string has an escape for no Unicode character");
    put_code(x->vm, cp >= 0xd800 && cp < 0xe000 ? 0xfffd : cp);
    return at;
}

static size_t octal_escape(struct lexer *x, struct sv s, size_t at) {
    uint32_t cp = 0;
    for (int i = 0; i < 3 && at < s.n && s.p[at] >= '0' && s.p[at] <= '7'; i++, at++)
        cp = cp * 8 + (uint32_t)(s.p[at] - '0');
    put_code(x->vm, cp);
    return at;
}

static struct value unescape(struct lexer *x, struct sv s) {
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    size_t mark = text_mark(x->vm);
    for (size_t at = 0; at < s.n;) {
        char c = s.p[at++];
        if (c != '\\') {
            put_char(x->vm, c);
            continue;
        }
        c = s.p[at++]; // the lexer saw to it that something follows
        const char *plain = c ? strchr(from, c) : NULL;
        if (plain)
            put_char(x->vm, to[plain - from]);
        else if (c == 'x' || c == 'u' || c == 'U')
            at = hex_escape(x, s, at, c == 'x' ? 2 : c == 'u' ? 4 : 8);
        else if (c >= '0' && c <= '7')
            at = octal_escape(x, s, at - 1);
        else if (c == 'N')
            raise_error(x->vm, "\\N{...} escapes are not supported: write the character itself");
        else if (c != '\n')
            put(x->vm, sv_n(s.p + at - 2, 2));
    }
    return text_take(x->vm, mark);
}

static void string(struct lexer *x) {
    char quote = x->s.p[x->at];
    size_t at = x->at + 1;
    while (at < x->s.n && x->s.p[at] != quote) at += x->s.p[at] == '\\' ? 2 : 1;
    if (at >= x->s.n) raise_error(x->vm, "unexpected char '%c': the string has no end", quote);
    struct value v = unescape(x, sv_cut(x->s, x->at + 1, at));
    add(x, T_TEXT, sv(""));
    x->out.at[x->out.n - 1].value = v;
    advance(x, at + 1);
}

static bool digit_of(char c, int base) {
    int d = hex_digit(c);
    return d >= 0 && d < base;
}

// The end of digits with single underscores between them.
static size_t digits(const struct lexer *x, size_t at, int base, bool under) {
    while (at < x->s.n) {
        bool skip = under && x->s.p[at] == '_' && at + 1 < x->s.n;
        if (!digit_of(x->s.p[at + skip], base)) break;
        at += 1 + skip;
        under = true;
    }
    return at;
}

static struct sv without_underscores(struct vm *vm, struct sv s) {
    char *p = vm_alloc(vm, s.n + 1, 1);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] != '_') p[n++] = s.p[i];
    return sv_n(p, n);
}

// The end of a fraction and an exponent after the digits that end at `at`; `at` when neither is
// there.
static size_t fraction(const struct lexer *x, size_t at) {
    size_t end = at;
    if (at + 1 < x->s.n && x->s.p[at] == '.' && digit_of(x->s.p[at + 1], 10))
        end = digits(x, at + 1, 10, false);
    size_t e = end;
    if (e >= x->s.n || (x->s.p[e] | 32) != 'e') return end;
    e += 1 + (sign_at(x, e + 1) != 0);
    return e < x->s.n && digit_of(x->s.p[e], 10) ? digits(x, e, 10, false) : end;
}

static void number(struct lexer *x) {
    size_t from = x->at, end = digits(x, from, 10, false), whole = end;
    char c = from + 1 < x->s.n ? (char)(x->s.p[from + 1] | 32) : 0;
    int base = x->s.p[from] != '0' ? 10 : c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
    if (base != 10) {
        end = digits(x, from + 2, base, true);
        if (end > from + 2)
            from += 2;
        else
            end = whole, base = 10;
    } else if (from == 0 || x->s.p[from - 1] != '.') { // the 1.5 of `list.1.5` is no fraction
        end = fraction(x, whole);
    }
    struct sv text = without_underscores(x->vm, sv_cut(x->s, from, end));
    if (base == 10 && end == whole && text.p[0] == '0') { // 007 is 00, then 7
        size_t zeros = 0;
        while (zeros < text.n && text.p[zeros] == '0') zeros++;
        if (zeros < text.n) text = sv_cut(text, 0, zeros), end = from + zeros;
    }
    bool is_float = base == 10 && end > whole;
    add(x, T_NUMBER, sv_cut(x->s, x->at, end));
    x->out.at[x->out.n - 1].value =
        is_float ? float_value(strtod(text.p, NULL)) : int_parse(x->vm, text, base);
    advance(x, end);
}

static bool name(struct lexer *x) {
    size_t at = x->at, len;
    while (at < x->s.n && in_identifier(utf8_decode(x->s, at, &len), at == x->at)) at += len;
    if (at == x->at) return false;
    add(x, T_NAME, sv_cut(x->s, x->at, at));
    advance(x, at);
    return true;
}

static size_t operator_at(const struct lexer *x) {
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (looking_at(x, x->at, two[i])) return 2;
    return x->s.p[x->at] && strchr("+-/*%~[](){}><=.:|,;", x->s.p[x->at]) ? 1 : 0;
}

// Brackets must pair up inside one tag; `open` holds the closing ones that are due.
static void balance(struct lexer *x, char c, char *open, int *n) {
    const char *pair = strchr("()[]{}", c);
    if (!pair || !c) return;
    if (c == '(' || c == '[' || c == '{') {
        if (*n == JINJA_NESTING)
            raise_error(x->vm, "brackets nest over %d deep (limit JINJA_NESTING)", JINJA_NESTING);
        open[(*n)++] = pair[1];
    } else if (*n == 0) {
        raise_error(x->vm, "unexpected '%c'", c);
    } else if (open[--*n] != c) {
        raise_error(x->vm, "unexpected '%c', expected '%c'", c, open[*n]);
    }
}

// The inside of {{ }} or {% %}, to its end.
static void inside(struct lexer *x, const char *end, enum token_kind closes) {
    char open[JINJA_NESTING];
    int n = 0;
    while (x->at < x->s.n) {
        size_t stop = n ? 0 : tag_end(x, x->at, end, closes == T_BLOCK_END), op;
        if (stop) {
            add(x, closes, sv(""));
            advance(x, stop);
            return;
        }
        spend(x->vm, 1);
        char c = x->s.p[x->at];
        size_t len;
        if (is_space(utf8_decode(x->s, x->at, &len))) {
            advance(x, x->at + len);
        } else if (c >= '0' && c <= '9') {
            number(x);
        } else if (c == '\'' || c == '"') {
            string(x);
        } else if (name(x)) {
            continue;
        } else if ((op = operator_at(x))) {
            balance(x, op == 1 ? c : 0, open, &n);
            add(x, T_OP, sv_cut(x->s, x->at, x->at + op));
            advance(x, x->at + op);
        } else {
            raise_error(x->vm, "unexpected char '%.*s'", (int)len, x->s.p + x->at);
        }
    }
}

// \r\n and \r become \n; one newline at the very end goes.
static struct sv normalize(struct vm *vm, struct sv s) {
    char *p = vm_alloc(vm, s.n + 1, 1);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\r' && i + 1 < s.n && s.p[i + 1] == '\n') continue;
        p[n++] = s.p[i] == '\r' ? '\n' : s.p[i];
    }
    if (n && p[n - 1] == '\n') n--;
    return sv_n(p, n);
}

static size_t next_tag(const struct lexer *x) {
    for (size_t at = x->at; at + 1 < x->s.n; at++) {
        const char *brace = memchr(x->s.p + at, '{', x->s.n - 1 - at);
        if (!brace) break;
        at = (size_t)(brace - x->s.p);
        if (brace[1] == '%' || brace[1] == '{' || brace[1] == '#') return at;
    }
    return x->s.n;
}

struct tokens lex(struct vm *vm, struct sv source) {
    struct lexer x = {.vm = vm, .s = normalize(vm, source), .line = 1, .line_start = true};
    while (x.at < x.s.n) {
        size_t tag = next_tag(&x);
        char what = tag < x.s.n ? x.s.p[tag + 1] : 0, sign = what ? sign_at(&x, tag + 2) : 0;
        struct sv data = sv_cut(x.s, x.at, tag);
        if (what) data = before_tag(&x, data, sign, what == '{');
        if (data.n) add(&x, T_DATA, data);
        advance(&x, tag);
        if (!what) break;
        size_t word = what == '%' ? word_tag(&x, tag, "raw") : 0;
        if (what == '#') {
            comment(&x);
        } else if (word && (looking_at(&x, word, "%}") || looking_at(&x, word, "-%}"))) {
            raw(&x, word);
        } else {
            add(&x, what == '%' ? T_BLOCK : T_PRINT, sv(""));
            advance(&x, tag + 2 + (sign != 0));
            inside(&x, what == '%' ? "%}" : "}}", what == '%' ? T_BLOCK_END : T_PRINT_END);
        }
    }
    add(&x, T_END, sv(""));
    return x.out;
}
