// Regular expressions, as far as ECMA-262, Python and most others agree on them. What they don't
// agree on has its smaller meaning: \d, \w and \s are ASCII's, and so are \D, \W and \S but that \S
// and \D have letters beyond ASCII which no dialect counts among digits or spaces.
#include <string.h>

#include "grammar/dfa.h"
#include "grammar/grammar.h"

enum { NEST = 100 };

struct regex {
    struct syntax *s;
    struct sv in;
    size_t at;
    struct error *e;
};

static bool wrong(struct regex *r, const char *what) {
    return fail(r->e, "regular expression, byte %zu: %s", r->at, what);
}

static int peek(const struct regex *r) {
    return r->at < r->in.n ? (unsigned char)r->in.p[r->at] : -1;
}

static bool eat(struct regex *r, const char *what) {
    if (!sv_starts(sv_cut(r->in, r->at, r->in.n), sv(what))) return false;
    r->at += strlen(what);
    return true;
}

static bool read_hex(struct regex *r, size_t least, size_t most, uint32_t *out) {
    size_t n = 0;
    for (*out = 0; n < most && peek(r) >= 0 && hex_digit(r->in.p[r->at]) >= 0; n++)
        *out = *out << 4 | (uint32_t)hex_digit(r->in.p[r->at++]);
    return (n >= least && *out <= CHAR_LAST) || wrong(r, "an escape stands for no character");
}

// \uXXXX, \u{X...}, and two of the first for a character beyond U+FFFF.
static bool read_unicode(struct regex *r, uint32_t *out) {
    uint32_t low;
    if (eat(r, "{")) return read_hex(r, 1, 6, out) && (eat(r, "}") || wrong(r, "\"}\" is missing"));
    if (!read_hex(r, 4, 4, out)) return false;
    if (*out < 0xd800 || *out > 0xdfff) return true;
    if (*out > 0xdbff || !eat(r, "\\u") || !read_hex(r, 4, 4, &low) || low < 0xdc00 || low > 0xdfff)
        return wrong(r, "half a surrogate pair is no character");
    *out = 0x10000 + ((*out - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

static void add_word(struct chars *c) {
    chars_add(c, '0', '9');
    chars_add(c, 'A', 'Z');
    chars_add(c, '_', '_');
    chars_add(c, 'a', 'z');
}

static void add_space(struct chars *c) {
    chars_add(c, '\t', '\r');
    chars_add(c, ' ', ' ');
}

static bool add_class(struct chars *c, int letter) {
    struct chars some = {0};
    switch (letter) {
    case 'd': chars_add(c, '0', '9'); return true;
    case 'w': add_word(c); return true;
    case 's': add_space(c); return true;
    case 'D': chars_add(&some, '0', '9'); break;
    case 'W': add_word(&some); break;
    case 'S':
        add_space(&some);
        chars_add(&some, 0x1c, 0x1f); // a space to Python
        break;
    default: return false;
    }
    if (letter == 'W') chars_add(&some, 0x80, CHAR_LAST);
    if (letter == 'D') chars_add(&some, 0x660, CHAR_LAST);
    if (letter == 'S') chars_add(&some, 0x80, 0xa0), chars_add(&some, 0x1680, CHAR_LAST);
    chars_tidy(&some, true);
    for (size_t i = 0; i < some.n; i++) chars_add(c, some.range[i].lo, some.range[i].hi);
    chars_free(&some);
    return true;
}

// A character behind a backslash, that is no class.
static bool read_escape(struct regex *r, uint32_t *out) {
    size_t len;
    int32_t c = r->at < r->in.n ? utf8_decode(r->in, r->at, &len) : -1;
    if (c < 0) return wrong(r, "a backslash has nothing behind it");
    r->at += len;
    *out = (uint32_t)c;
    switch (c) {
    case 't': *out = '\t'; return true;
    case 'n': *out = '\n'; return true;
    case 'r': *out = '\r'; return true;
    case 'f': *out = '\f'; return true;
    case 'v': *out = '\v'; return true;
    case '0': *out = 0; return true;
    case 'x': return read_hex(r, 2, 2, out);
    case 'u': return read_unicode(r, out);
    case 'c':
        *out = (uint32_t)peek(r) & 31;
        return r->at++ < r->in.n || wrong(r, "\\c has nothing behind it");
    case 'B': return wrong(r, "word boundaries (\\b) are not supported");
    case 'p':
    case 'P': return wrong(r, "Unicode properties (\\p) are not supported");
    case 'k': return wrong(r, "backreferences (\\k) are not supported");
    case 'A':
    case 'Z':
    case 'z':
    case 'G': return wrong(r, "\\A, \\Z and the like are not supported: use ^ and $");
    default: break;
    }
    if (c >= '1' && c <= '9') return wrong(r, "backreferences (\\1) are not supported");
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return !letter || wrong(r, "an unknown escape");
}

static int32_t set_node(struct regex *r, struct chars *c, bool not ) {
    int32_t alt = syn_alt(r->s);
    chars_tidy(c, not );
    for (size_t i = 0; i < c->n; i++)
        syn_add(r->s, alt, syn_range(r->s, (int)c->range[i].lo, (int)c->range[i].hi));
    chars_free(c);
    return alt;
}

// One end of a range in brackets; *class: it was a whole class instead.
static bool read_member(struct regex *r, struct chars *set, uint32_t *out, bool *class) {
    size_t len;
    *class = false;
    if (eat(r, "\\")) {
        if (peek(r) >= 0 && (*class = add_class(set, peek(r)))) return r->at++, true;
        if (eat(r, "b")) return *out = '\b', true;
        return read_escape(r, out);
    }
    if (eat(r, "[:")) return wrong(r, "classes like [:alpha:] are not supported");
    int32_t c = peek(r) < 0 ? -1 : utf8_decode(r->in, r->at, &len);
    if (c < 0) return wrong(r, peek(r) < 0 ? "\"]\" is missing" : "there is invalid UTF-8");
    r->at += len;
    *out = (uint32_t)c;
    return true;
}

static int32_t read_set(struct regex *r) {
    struct chars set = {0};
    bool not = eat(r, "^");
    while (!eat(r, "]") && !r->e->set) {
        uint32_t lo = 0, hi = 0;
        bool class, other = false;
        if (!read_member(r, &set, &lo, &class)) break;
        hi = lo;
        bool range = peek(r) == '-' && r->at + 1 < r->in.n && r->in.p[r->at + 1] != ']';
        if (range) {
            r->at++;
            if (!read_member(r, &set, &hi, &other)) break;
            if (class || other) chars_add(&set, '-', '-');
        }
        if (range && !class && !other && hi < lo) wrong(r, "a range ends before it begins");
        if (!class && (!range || !other)) chars_add(&set, lo, range && !other ? hi : lo);
        if (class && range && !other) chars_add(&set, hi, hi);
        if (!class && other) chars_add(&set, lo, lo);
    }
    return set_node(r, &set, not );
}

static int32_t read_choice(struct regex *r, int depth);

static int32_t read_group(struct regex *r, int depth) {
    if (depth > NEST) wrong(r, "parentheses are nested deeper than 100");
    if (eat(r, "?=") || eat(r, "?!")) wrong(r, "lookahead, (?=...) and (?!...), is not supported");
    if (eat(r, "?<=") || eat(r, "?<!"))
        wrong(r, "lookbehind, (?<=...) and (?<!...), is not supported");
    if (eat(r, "?>")) wrong(r, "atomic groups, (?>...), are not supported");
    if (eat(r, "?P=")) wrong(r, "backreferences, (?P=...), are not supported");
    if (eat(r, "?P<") || eat(r, "?<"))
        while (peek(r) >= 0 && !eat(r, ">")) r->at++;
    else if (!eat(r, "?:") && peek(r) == '?')
        wrong(r, "this kind of group, (?...), is not supported");
    int32_t node = read_choice(r, depth);
    if (!eat(r, ")")) wrong(r, "\")\" is missing");
    return node;
}

static int32_t read_dot(struct regex *r) {
    struct chars set = {0};
    chars_add(&set, '\n', '\n');
    chars_add(&set, '\r', '\r');
    chars_add(&set, 0x2028, 0x2029);
    return set_node(r, &set, true);
}

static int32_t read_atom(struct regex *r, int depth) {
    struct chars set = {0};
    uint32_t c = 0;
    bool class;
    if (eat(r, "(")) return read_group(r, depth + 1);
    if (eat(r, "[")) return read_set(r);
    if (eat(r, ".")) return read_dot(r);
    if (eat(r, "^")) return syn_call(r->s, REGEX_BEGIN);
    if (eat(r, "$")) return syn_call(r->s, REGEX_END);
    if (eat(r, "\\b")) wrong(r, "word boundaries (\\b) are not supported");
    if (peek(r) == '*' || peek(r) == '+' || peek(r) == '?')
        wrong(r, "there is nothing to be repeated");
    else if (read_member(r, &set, &c, &class) && !class)
        chars_add(&set, c, c);
    return set_node(r, &set, false);
}

static bool read_count(struct regex *r, int64_t *out) {
    size_t from = r->at;
    for (*out = 0; peek(r) >= '0' && peek(r) <= '9'; r->at++)
        if (*out <= SYN_REPEATS) *out = *out * 10 + (peek(r) - '0');
    return r->at > from;
}

// {2}, {2,} or {2,5}; anything else that begins with a brace is text.
static bool read_counts(struct regex *r, int64_t *least, int64_t *most) {
    size_t from = r->at;
    bool ok = eat(r, "{") && read_count(r, least);
    *most = *least;
    if (ok && eat(r, ",") && !read_count(r, most)) *most = -1;
    if (ok && eat(r, "}")) return true;
    r->at = from;
    return false;
}

static int32_t read_repeats(struct regex *r, int32_t atom) {
    int64_t least = 0, most = -1;
    bool again = true;
    if (eat(r, "+"))
        least = 1;
    else if (eat(r, "?"))
        most = 1;
    else if (!eat(r, "*"))
        again = read_counts(r, &least, &most);
    if (!again) return atom;
    if (most >= 0 && most < least) wrong(r, "a repeat ends before it begins");
    if (peek(r) == '+') wrong(r, "possessive repeats (a++) are not supported");
    eat(r, "?"); // that it takes as little as it can changes nothing for the whole
    if (peek(r) == '*' || peek(r) == '+' || peek(r) == '?') wrong(r, "a repeat of a repeat");
    return syn_repeat(r->s, atom, least, most);
}

static int32_t read_choice(struct regex *r, int depth) {
    int32_t alt = syn_alt(r->s);
    do {
        int32_t seq = syn_seq(r->s);
        while (!r->e->set && peek(r) >= 0 && peek(r) != '|' && peek(r) != ')')
            syn_add(r->s, seq, read_repeats(r, read_atom(r, depth)));
        syn_add(r->s, alt, seq);
    } while (!r->e->set && eat(r, "|"));
    return alt;
}

int32_t regex_parse(struct syntax *s, struct sv pattern) {
    struct regex r = {.s = s, .in = pattern, .e = s->e};
    int32_t node = read_choice(&r, 0);
    if (peek(&r) == ')') wrong(&r, "\")\" has no \"(\"");
    return node;
}

int32_t regex_read(struct syntax *s, struct sv pattern) {
    struct dfa d = {0};
    int32_t rule = -1;
    if (dfa_regex(&d, s->effort, pattern, false, s->e))
        rule = dfa_rule(s, &d, 0, "regular expression");
    dfa_free(&d);
    return rule;
}
