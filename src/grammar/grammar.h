// What an answer may be: a grammar, and which tokens may come next in it.
//
//   struct grammar *g = grammar_schema(lexicon, schema, &err);
//   struct matcher *m = matcher_open(g);
//   grammar_close(g); // the matcher keeps it
//   ... allowed = matcher_mask(m); pick an id of them; matcher_token(m, id); ...
//   matcher_close(m);
//
// A grammar is exact over bytes. What it can't hold exactly is refused, with where and why, and so
// is what would take too much: each limit's message names it. Once a matcher was opened, a grammar
// and all of its matchers are used by one thread at a time; grammars may be closed by any.
#ifndef GRAMMAR_GRAMMAR_H
#define GRAMMAR_GRAMMAR_H

#include "base/error.h"
#include "base/json.h"
#include "grammar/lexicon.h"
#include "grammar/syntax.h"

enum { GRAMMAR_BYTES = 1 << 20 }; // of a grammar's text

struct grammar;

// What stands before a grammar's text in an answer. Empty: nothing. Marks may be special tokens.
struct grammar_frame {
    struct sv after; // all is free up to this mark, after which there may be white space
    struct sv open;  // with it, what is free begins with this mark, and need not be there at all
};

// In GBNF, llama.cpp's format, from its rule "root".
struct grammar *grammar_gbnf(const struct lexicon *l, struct sv text, const struct grammar_frame *f,
                             struct error *e);
// The whole text is what a regular expression says.
struct grammar *grammar_regex(const struct lexicon *l, struct sv pattern,
                              const struct grammar_frame *f, struct error *e);
// JSON that a JSON Schema allows (drafts 7 to 2020-12), with its properties in the schema's order.
struct grammar *grammar_schema(const struct lexicon *l, struct json_object *schema,
                               const struct grammar_frame *f, struct error *e);
// Of rules that the caller has written, from one of them on; s is freed. NULL when s->e is set.
struct grammar *grammar_rules(const struct lexicon *l, struct syntax *s, int32_t root,
                              const struct grammar_frame *f);
// The same forms as rules within others: the rule that stands for all of it; 0 when s->e is set.
int32_t gbnf_read(struct syntax *s, struct sv text);
int32_t regex_read(struct syntax *s, struct sv pattern);
int32_t schema_read(struct syntax *s, struct json_object *schema);
// The same once more, to be closed too, and about the memory that it takes. By any thread.
struct grammar *grammar_share(struct grammar *g);
size_t grammar_bytes(const struct grammar *g);
void grammar_close(struct grammar *g); // NULL is fine

struct matcher;
struct matcher *matcher_open(struct grammar *g);
struct matcher *matcher_copy(const struct matcher *m);
void matcher_close(struct matcher *m); // NULL is fine

// Goes on by a token, or by bytes. False when that is not allowed, and then the matcher stands
// where it stood.
bool matcher_token(struct matcher *m, int32_t id);
bool matcher_bytes(struct matcher *m, struct sv text);
bool matcher_done(const struct matcher *m); // the text may end here
// The tokens that may come next, as bits: token i is bit i % 64 of word i / 64, and there are
// lexicon.words of them. Valid until the next call for any matcher of the grammar.
const uint64_t *matcher_mask(struct matcher *m);
size_t matcher_tokens(const struct matcher *m); // of the vocabulary

#endif
