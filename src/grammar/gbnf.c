// GBNF as llama.cpp reads it: rules "name ::= alternatives", where a rule ends with its line but
// not within parentheses or after "|".
#include <string.h>

#include "base/map.h"
#include "grammar/chars.h"
#include "grammar/grammar.h"

enum { NEST = 100 };

struct gbnf {
    struct syntax *s;
    struct sv in;
    size_t at;
    struct map names; // of rules
    struct error *e;
};

static bool wrong(struct gbnf *g, const char *what) {
    size_t line = 1;
    for (size_t i = 0; i < g->at && i < g->in.n; i++) line += g->in.p[i] == '\n';
    return fail(g->e, "line %zu of the grammar: %s", line, what);
}

static int peek(const struct gbnf *g) {
    return g->at < g->in.n ? (unsigned char)g->in.p[g->at] : -1;
}

static bool eat(struct gbnf *g, const char *what) {
    size_t n = strlen(what);
    if (!sv_starts(sv_cut(g->in, g->at, g->in.n), sv(what))) return false;
    g->at += n;
    return true;
}

static void skip(struct gbnf *g, bool lines) {
    for (int c = peek(g); c == ' ' || c == '\t' || c == '#' || (lines && (c == '\r' || c == '\n'));
         c = peek(g)) {
        if (c != '#')
            g->at++;
        else
            while (peek(g) >= 0 && peek(g) != '\n' && peek(g) != '\r') g->at++;
    }
}

static bool in_name(int c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static struct sv read_name(struct gbnf *g) {
    size_t from = g->at;
    while (in_name(peek(g))) g->at++;
    return sv_cut(g->in, from, g->at);
}

static int32_t rule_of(struct gbnf *g, struct sv name) {
    int64_t found = map_get(&g->names, name);
    if (found >= 0) return (int32_t)found;
    int32_t rule = syn_rule(g->s, name);
    map_put(&g->names, name, rule);
    return rule;
}

static bool read_hex(struct gbnf *g, int digits, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < digits; i++) {
        int digit = g->at < g->in.n ? hex_digit(g->in.p[g->at]) : -1;
        if (digit < 0) return wrong(g, "an escape lacks hexadecimal digits");
        *out = *out << 4 | (uint32_t)digit;
        g->at++;
    }
    bool good = *out <= 0x10ffff && (*out < 0xd800 || *out > 0xdfff);
    return good || wrong(g, "an escape stands for no character");
}

static bool read_char(struct gbnf *g, uint32_t *out) {
    size_t len = 1;
    if (peek(g) < 0) return wrong(g, "it ends within quotes or brackets");
    if (peek(g) != '\\') {
        int32_t c = utf8_decode(g->in, g->at, &len);
        g->at += len;
        *out = (uint32_t)c;
        return c >= 0 || wrong(g, "there is invalid UTF-8");
    }
    g->at++;
    int c = peek(g);
    g->at++;
    switch (c) {
    case 'x': return read_hex(g, 2, out);
    case 'u': return read_hex(g, 4, out);
    case 'U': return read_hex(g, 8, out);
    case 't': *out = '\t'; return true;
    case 'r': *out = '\r'; return true;
    case 'n': *out = '\n'; return true;
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^': *out = (uint32_t)c; return true;
    default:
        return wrong(g, "an unknown escape (there are \\n \\r \\t \\\\ \\\" \\[ \\] \\x \\u \\U)");
    }
}

static int32_t read_literal(struct gbnf *g) {
    int32_t seq = syn_seq(g->s);
    while (!eat(g, "\"") && !g->e->set) {
        uint32_t c;
        char utf8[4];
        if (read_char(g, &c)) syn_add(g->s, seq, syn_text(g->s, sv_n(utf8, utf8_encode(c, utf8))));
    }
    return seq;
}

static int32_t read_class(struct gbnf *g) {
    struct chars set = {0};
    bool not = eat(g, "^");
    while (!eat(g, "]") && !g->e->set) {
        uint32_t lo = 0, hi;
        bool ok = read_char(g, &lo);
        hi = lo;
        if (ok && peek(g) == '-' && g->at + 1 < g->in.n && g->in.p[g->at + 1] != ']') {
            g->at++;
            ok = read_char(g, &hi);
        }
        if (ok && hi < lo) wrong(g, "a range ends before it begins");
        if (ok) chars_add(&set, lo, hi);
    }
    chars_tidy(&set, not );
    int32_t node = syn_alt(g->s);
    for (size_t i = 0; i < set.n; i++) syn_add_chars(g->s, node, set.range[i].lo, set.range[i].hi);
    chars_free(&set);
    return node;
}

static int32_t read_alternatives(struct gbnf *g, int depth);

static int32_t read_group(struct gbnf *g, int depth) {
    if (depth > NEST) wrong(g, "parentheses are nested deeper than 100");
    skip(g, true);
    int32_t node = read_alternatives(g, depth);
    if (!eat(g, ")")) wrong(g, "\")\" is missing");
    return node;
}

static bool read_count(struct gbnf *g, int64_t *out) {
    size_t from = g->at;
    for (*out = 0; peek(g) >= '0' && peek(g) <= '9'; g->at++)
        if (*out <= SYN_REPEATS) *out = *out * 10 + (peek(g) - '0');
    return g->at > from;
}

// What follows "{".
static int32_t read_counts(struct gbnf *g, int32_t item) {
    int64_t least, most;
    skip(g, true);
    if (!read_count(g, &least)) wrong(g, "\"{\" must be followed by a number");
    most = least;
    skip(g, true);
    if (eat(g, ",")) {
        skip(g, true);
        if (!read_count(g, &most)) most = -1;
        skip(g, true);
    }
    if (!eat(g, "}")) wrong(g, "\"}\" is missing");
    if (most >= 0 && most < least) wrong(g, "a repeat ends before it begins");
    return syn_repeat(g->s, item, least, most);
}

static int32_t read_repeats(struct gbnf *g, int32_t item, bool nested) {
    for (;; skip(g, nested)) {
        if (g->e->set)
            return item;
        else if (eat(g, "*"))
            item = syn_repeat(g->s, item, 0, -1);
        else if (eat(g, "+"))
            item = syn_repeat(g->s, item, 1, -1);
        else if (eat(g, "?"))
            item = syn_repeat(g->s, item, 0, 1);
        else if (eat(g, "{"))
            item = read_counts(g, item);
        else
            return item;
    }
}

// -1: there is none.
static int32_t read_item(struct gbnf *g, int depth) {
    if (eat(g, "\"")) return read_literal(g);
    if (eat(g, "[")) return read_class(g);
    if (eat(g, "(")) return read_group(g, depth + 1);
    if (eat(g, ".")) {
        int32_t any = syn_alt(g->s);
        syn_add_chars(g->s, any, 0, 0x10ffff);
        return any;
    }
    if (peek(g) == '<' || peek(g) == '!') {
        wrong(g, "tokens (<...>) can't be named in a grammar here: write their text");
        return -1;
    }
    struct sv name = read_name(g);
    return name.n ? syn_call(g->s, rule_of(g, name)) : -1;
}

static int32_t read_sequence(struct gbnf *g, int depth) {
    int32_t seq = syn_seq(g->s), item;
    while (!g->e->set && (item = read_item(g, depth)) >= 0) {
        skip(g, depth > 0);
        syn_add(g->s, seq, read_repeats(g, item, depth > 0));
        skip(g, depth > 0);
    }
    return seq;
}

static int32_t read_alternatives(struct gbnf *g, int depth) {
    int32_t alt = syn_alt(g->s);
    do {
        skip(g, true);
        syn_add(g->s, alt, read_sequence(g, depth));
    } while (!g->e->set && eat(g, "|"));
    return alt;
}

static void read_rule(struct gbnf *g) {
    struct sv name = read_name(g);
    if (!name.n) wrong(g, "a rule's name is missing");
    int32_t rule = rule_of(g, name);
    skip(g, false);
    if (!eat(g, "::=")) wrong(g, "\"::=\" is missing after a rule's name");
    skip(g, true);
    int32_t body = read_alternatives(g, 0);
    if (peek(g) >= 0 && peek(g) != '\n' && peek(g) != '\r')
        wrong(g,
              "what follows can't be read: a name, \"...\", [...], (...), | or the line's end is "
              "expected");
    if (g->e->set) return;
    if (g->s->rule[rule].node >= 0) wrong(g, "a rule is defined twice");
    syn_define(g->s, rule, body);
    skip(g, true);
}

int32_t gbnf_read(struct syntax *s, struct sv text) {
    struct gbnf g = {.s = s, .in = text, .e = s->e};
    skip(&g, true);
    while (!s->e->set && peek(&g) >= 0) read_rule(&g);
    int64_t root = map_get(&g.names, sv("root"));
    if (root < 0) fail(s->e, "the grammar has no rule \"root\"");
    map_free(&g.names);
    return (int32_t)root;
}
