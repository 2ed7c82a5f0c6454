// The tokens of a vocabulary as bytes, in trees: what follows from a text can be looked for in all
// of them at once. Made once for a tokenizer; constant then, threads may share it.
#ifndef GRAMMAR_LEXICON_H
#define GRAMMAR_LEXICON_H

#include "base/str.h"

// Longer tokens are never allowed; most are short.
enum { LEX_LONGEST = 256, LEX_SHORT = 16 };

// Before a special token's name where it stands for the token: no text has this byte.
#define LEX_SPECIAL "\xff"
enum { LEX_SPECIAL_BYTE = 0xff };

// A tree's nodes, each before its children, in the order of their bytes.
struct lex_node {
    uint32_t after; // the node after all that hang below this one
    uint32_t token; // the first of its tokens in lexicon.token, from 1; 0: none
    uint16_t depth; // from 1
    unsigned char byte;
    bool more; // there are more tokens of the same bytes
};

struct lex_tree {
    struct lex_node *node;
    uint64_t *below; // [nodes] groups of the bytes that hang below
    size_t nodes, cap;
    int32_t *id; // [ids] its tokens, rising
    size_t ids;
    // Of trees of plain tokens: all of them, as bits; the groups of all their bytes; the most
    // characters that one has.
    uint64_t *set;
    uint64_t groups;
    size_t chars;
};

// Bytes by what grammars tell apart: each of ASCII's marks alone, letters and digits in a few
// groups. What is not ASCII is a group of its own in whole characters, and another one in loose
// bytes.
enum { LEX_WHOLE, LEX_LOOSE, LEX_GROUPS = 44 };
extern const unsigned char lex_group[128];

struct lexicon {
    size_t tokens, words; // ids are below tokens; 64-bit words of a set of ids
    size_t longest;
    int32_t
        *more; // [tokens + 1] from a token (its id + 1) to the next one with the same bytes, or 0
    // Short tokens of whole printable characters but " and \, which strings hold as they are, and
    // the rest of the short ones; and the same of the long ones.
    struct lex_tree plain, rest, long_plain, long_rest;
    uint64_t *groups; // [tokens] of a plain token's bytes, as bits
    uint16_t *chars;  // [tokens] of a plain token
    uint64_t *ends;   // [words] tokens that end an answer
    char *text;       // of token i: length[i] bytes from at[i]; 0: it is never allowed
    uint32_t *at;
    uint16_t *length;
};

// text[id]: the bytes of a token; empty: it is never allowed. ends: those that end an answer, of
// which an id outside the vocabulary is ignored.
struct lexicon *lex_open(const struct sv *text, size_t tokens, const int32_t *ends, size_t count);
void lex_close(struct lexicon *l); // NULL is fine

#endif
