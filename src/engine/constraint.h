// What requests ask their answers to be: grammars over a model's vocabulary. The vocabulary's bytes
// are looked up when the first grammar is asked for, and grammars are kept for those who ask for
// the same again. Any number of threads may ask.
#ifndef ENGINE_CONSTRAINT_H
#define ENGINE_CONSTRAINT_H

#include "chat/call_grammar.h"
#include "engine/text.h"
#include "grammar/grammar.h"

enum constraint_kind { CONSTRAINT_NONE, CONSTRAINT_GBNF, CONSTRAINT_REGEX, CONSTRAINT_SCHEMA };

struct constraint {
    enum constraint_kind kind;
    struct sv text;             // GBNF, or a regular expression
    struct json_object *schema; // of CONSTRAINT_SCHEMA
    // NULL, or: the answer calls these tools, or is what the rest says where that is not required.
    struct json_object *tools;
    bool calls_required, one_call;
};

// The grammar for an answer to prompt p, which may reason before it (NULL: a plain prompt). The
// caller closes it, while m is open; several requests may have the same one. NULL is a failure: it
// can't be held, takes more than f allows, was stopped by f (f->stopped) or there is no room for it
// now (f->full).
struct grammar *constraint_grammar(const struct text_model *m, const struct constraint *c,
                                   const struct text_prompt *p, struct effort *f, struct error *e);

enum {
    GRAMMARS_MOST = 64, // that are kept
    GRAMMARS_BYTES = 256 << 20,
    GRAMMARS_ROOM = 1 << 30, // bytes of all, with those that are in use
    GRAMMARS_MAKERS = 2,     // threads that make some at the same time; others wait for them
};

struct vocabulary;
struct vocabulary *vocabulary_open(void);
void vocabulary_close(struct vocabulary *v); // NULL is fine

#endif
