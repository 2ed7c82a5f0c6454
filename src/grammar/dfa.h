// Within grammar/: regular languages over characters, as deterministic automata. They can be joined
// (what is in both) and inverted, which a grammar can't.
#ifndef GRAMMAR_DFA_H
#define GRAMMAR_DFA_H

#include "grammar/chars.h"
#include "grammar/effort.h"
#include "grammar/syntax.h"

enum { DFA_STATES = 20000, DFA_STEPS = 1 << 22 };

// State 0 is the first. Class i is of the characters from low[i] to low[i + 1] - 1.
struct dfa {
    uint32_t *low; // [classes], low[0] is 0
    int32_t *next; // [states, classes], -1: none
    bool *final;   // [states]
    size_t classes, states, next_cap, final_cap;
    struct effort *effort; // of whoever made it; NULL: none
};

void dfa_free(struct dfa *d);
// To make one: the classes that the n characters in low begin, where low, which has room for one
// more, becomes d's; then state by state. -1 with an error.
void dfa_classes(struct dfa *d, uint32_t *low, size_t n);
int32_t dfa_add(struct dfa *d, bool final, struct error *e);
size_t dfa_class(const struct dfa *d, uint32_t c); // of a character

// search: what holds a match somewhere, else what is one as a whole. dfa_regex.c and regex.c
bool dfa_regex(struct dfa *d, struct effort *f, struct sv pattern, bool search, struct error *e);
// Texts of least to most characters; most < 0: no end.
bool dfa_length(struct dfa *d, struct effort *f, int64_t least, int64_t most, struct error *e);
// Those texts alone.
bool dfa_words(struct dfa *d, struct effort *f, const struct sv *word, size_t n, struct error *e);
bool dfa_and(struct dfa *d, const struct dfa *with, struct error *e); // leaves what is in both
bool dfa_not(struct dfa *d, struct error *e);                         // all other texts
bool dfa_has(const struct dfa *d, struct sv text);
bool dfa_empty(const struct dfa *d); // there is no text at all

// A rule for the texts of d. quote: as they are written between such quotes in JSON (and Python),
// where each character has one way to be written; 0: as they are. -1 with an error.
int32_t dfa_rule(struct syntax *s, const struct dfa *d, char quote, const char *name);

// regex.c: a pattern as a syntax over code points instead of bytes, in which a call of REGEX_BEGIN
// or REGEX_END is ^ or $. Returns the root's node.
enum { REGEX_BEGIN, REGEX_END };
int32_t regex_parse(struct syntax *s, struct sv pattern);

#endif
