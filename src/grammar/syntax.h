// The one form that every front end writes, rules over bytes; what knows of a format of its own
// (chat/) writes it too, and makes a grammar of it (grammar_rules).
//
//   struct syntax s = {.e = &err};
//   int32_t root = syn_rule(&s, sv("root")), body = syn_seq(&s);
//   syn_add(&s, body, syn_text(&s, sv("yes")));
//   syn_define(&s, root, body);
//
// Nodes and rules are numbers. A node has one place: to use something twice, make it a rule. What
// goes over a limit sets s->e, after which nothing is added and any number may be passed on.
#ifndef GRAMMAR_SYNTAX_H
#define GRAMMAR_SYNTAX_H

#include "base/error.h"
#include "base/str.h"
#include "grammar/effort.h"

enum { SYN_NODES = 1 << 20, SYN_RULES = 1 << 16, SYN_DEPTH = 400, SYN_REPEATS = 1 << 20 };

enum syn_kind {
    SYN_SEQ,     // its children, one after the other; without any: nothing
    SYN_ALT,     // one of its children; without any: what can't be written
    SYN_RANGE,   // a byte from a to b
    SYN_REPEAT,  // its child, a to b times; b < 0: no end
    SYN_CALL,    // rule a
    SYN_MARK,    // text [a, a + b), also where special tokens stand for parts of it
    SYN_UNTIL,   // any bytes up to the first time that this text was read, with it
    SYN_WITHOUT, // any bytes in which none of the texts in it is, each of which ends with a NUL
    SYN_OTHER,   // the same; what isn't white space does not begin with one of the first's bytes
};

struct syn_node {
    enum syn_kind kind;
    int32_t child, last, next; // -1: none
    int32_t a, b;
};

struct syn_rule {
    char *name;
    int32_t node; // -1: not defined
};

struct syntax {
    struct syn_node *node;
    size_t nodes, node_cap;
    struct syn_rule *rule;
    size_t rules, rule_cap;
    struct str text; // of SYN_MARK, SYN_UNTIL, SYN_WITHOUT and SYN_OTHER
    struct error *e;
    struct effort *effort; // that may go into it; NULL: any
};

void syn_free(struct syntax *s);
int32_t syn_seq(struct syntax *s);
int32_t syn_alt(struct syntax *s);
int32_t syn_range(struct syntax *s, int lo, int hi);                       // bytes
int32_t syn_repeat(struct syntax *s, int32_t child, int64_t a, int64_t b); // b < 0: no end
int32_t syn_call(struct syntax *s, int32_t rule);
int32_t syn_text(struct syntax *s, struct sv text);
int32_t syn_mark(struct syntax *s, struct sv text);
int32_t syn_until(struct syntax *s, struct sv text);
// Any bytes in which none of the texts is, and which, `first` being no empty text, begin with none
// of its bytes, but for white space before them. In none of the texts is a NUL.
int32_t syn_without(struct syntax *s, const struct sv *text, size_t n, struct sv first);
void syn_add(struct syntax *s, int32_t parent, int32_t child);
// Adds to the alternatives alt the characters from lo to hi (code points), in UTF-8.
void syn_add_chars(struct syntax *s, int32_t alt, uint32_t lo, uint32_t hi);

int32_t syn_rule(struct syntax *s, struct sv name); // a new one; names are for errors
void syn_define(struct syntax *s, int32_t rule, int32_t node);

#endif
