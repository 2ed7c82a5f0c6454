#include "grammar/syntax.h"

#include <stdlib.h>

#include "base/mem.h"

void syn_free(struct syntax *s) {
    for (size_t i = 0; i < s->rules; i++) free(s->rule[i].name);
    free(s->rule);
    free(s->node);
    str_free(&s->text);
    *s = (struct syntax){0};
}

static int32_t add_node(struct syntax *s, enum syn_kind kind, int32_t a, int32_t b) {
    if (s->nodes >= SYN_NODES) fail(s->e, "the grammar has more than %d parts", SYN_NODES);
    if (s->e->set || !effort_work(s->effort, 1, s->e)) return 0;
    s->node = mem_grow(s->node, &s->node_cap, s->nodes + 1, sizeof *s->node);
    s->node[s->nodes] = (struct syn_node){kind, -1, -1, -1, a, b};
    return (int32_t)s->nodes++;
}

int32_t syn_seq(struct syntax *s) { return add_node(s, SYN_SEQ, 0, 0); }
int32_t syn_alt(struct syntax *s) { return add_node(s, SYN_ALT, 0, 0); }
int32_t syn_range(struct syntax *s, int lo, int hi) { return add_node(s, SYN_RANGE, lo, hi); }
int32_t syn_call(struct syntax *s, int32_t rule) { return add_node(s, SYN_CALL, rule, 0); }

int32_t syn_repeat(struct syntax *s, int32_t child, int64_t a, int64_t b) {
    if (a > SYN_REPEATS || b > SYN_REPEATS)
        fail(s->e, "something is repeated %lld times; it may be %d times",
             (long long)(a > b ? a : b), SYN_REPEATS);
    int32_t repeat = add_node(s, SYN_REPEAT, (int32_t)a, b < 0 ? -1 : (int32_t)b);
    syn_add(s, repeat, child);
    return repeat;
}

int32_t syn_text(struct syntax *s, struct sv text) {
    int32_t seq = syn_seq(s);
    for (size_t i = 0; i < text.n && !s->e->set; i++) {
        unsigned char c = (unsigned char)text.p[i];
        syn_add(s, seq, syn_range(s, c, c));
    }
    return seq;
}

int32_t syn_mark(struct syntax *s, struct sv text) {
    if (!text.n) return syn_seq(s);
    int32_t at = (int32_t)s->text.n;
    str_add(&s->text, text);
    return add_node(s, SYN_MARK, at, (int32_t)text.n);
}

int32_t syn_until(struct syntax *s, struct sv text) {
    int32_t at = (int32_t)s->text.n;
    str_add(&s->text, text);
    return add_node(s, SYN_UNTIL, at, (int32_t)text.n);
}

int32_t syn_without(struct syntax *s, const struct sv *text, size_t n, struct sv first) {
    int32_t at = (int32_t)s->text.n;
    if (first.n) str_add(&s->text, first);
    if (first.n || !n) str_addc(&s->text, 0);
    for (size_t i = 0; i < n; i++) {
        str_add(&s->text, text[i]);
        str_addc(&s->text, 0);
    }
    return add_node(s, first.n ? SYN_OTHER : SYN_WITHOUT, at, (int32_t)s->text.n - at);
}

void syn_add(struct syntax *s, int32_t parent, int32_t child) {
    if (s->e->set) return;
    struct syn_node *p = &s->node[parent];
    if (p->last < 0)
        p->child = child;
    else
        s->node[p->last].next = child;
    p->last = child;
}

// Characters whose UTF-8 has the same length, and which no split below would take apart.
static void add_sequence(struct syntax *s, int32_t alt, uint32_t lo, uint32_t hi) {
    char a[4], b[4];
    size_t n = utf8_encode(lo, a);
    utf8_encode(hi, b);
    int32_t seq = syn_seq(s);
    for (size_t i = 0; i < n; i++)
        syn_add(s, seq, syn_range(s, (unsigned char)a[i], (unsigned char)b[i]));
    syn_add(s, alt, seq);
}

void syn_add_chars(struct syntax *s, int32_t alt, uint32_t lo, uint32_t hi) {
    static const uint32_t last[] = {0x7f, 0x7ff, 0xd7ff, 0xdfff, 0xffff};
    if (lo > hi || s->e->set) return;
    for (size_t i = 0; i < sizeof last / sizeof *last; i++) {
        if (lo > last[i] || hi <= last[i]) continue;
        syn_add_chars(s, alt, lo, last[i]);
        syn_add_chars(s, alt, last[i] + 1, hi);
        return;
    }
    if (lo >= 0xd800 && hi <= 0xdfff) return; // surrogates are no characters
    for (int bits = 6; bits < 24 && lo > 0x7f; bits += 6) {
        uint32_t low = (1u << bits) - 1;
        if ((lo & ~low) == (hi & ~low)) break;
        uint32_t cut = lo & low ? lo | low : (hi & ~low) - 1;
        if (!(lo & low) && (hi & low) == low) continue;
        syn_add_chars(s, alt, lo, cut);
        syn_add_chars(s, alt, cut + 1, hi);
        return;
    }
    add_sequence(s, alt, lo, hi);
}

int32_t syn_rule(struct syntax *s, struct sv name) {
    if (s->rules >= SYN_RULES) fail(s->e, "the grammar has more than %d rules", SYN_RULES);
    if (s->e->set || !effort_hold(s->effort, name.n, s->e)) return 0;
    s->rule = mem_grow(s->rule, &s->rule_cap, s->rules + 1, sizeof *s->rule);
    s->rule[s->rules] = (struct syn_rule){mem_textn(name.p, name.n), -1};
    return (int32_t)s->rules++;
}

void syn_define(struct syntax *s, int32_t rule, int32_t node) {
    if (!s->e->set) s->rule[rule].node = node;
}
