// What the readers of the formats that came before tokenizer.json share. Each reads the model, and
// writes the other stages as the text of a tokenizer.json, as the transformers class of the
// checkpoint would make them.
#ifndef TOKENIZER_SLOW_H
#define TOKENIZER_SLOW_H

#include "tokenizer/parts.h"
#include "tokenizer/settings.h"

struct slow {
    struct tokenizer *t;
    const char *file, *dir;
    struct json_object *settings;
    struct sv class;          // of the settings, without "Fast"; empty: they name none
    struct token_list tokens; // added ones
    struct str stages;
};

// slow_bpe.c, slow_bert.c, slow_spm.c, slow_ranks.c: vocab.json with merges.txt, vocab.txt,
// SentencePiece, tiktoken
bool slow_bpe(struct slow *s, struct error *e);
bool slow_bert(struct slow *s, struct error *e);
bool slow_spm(struct slow *s, struct sv text, struct error *e);
bool slow_ranks(struct slow *s, struct sv text, struct error *e);
bool slow_is_ranks(struct sv text); // whether a file that is called .model holds tiktoken ranks

// slow.c
bool slow_is(const struct slow *s, const char *names);    // the class is one of them
bool slow_unknown(const struct slow *s, struct error *e); // fails: such a class isn't known
// Gives roles that the settings leave open to tokens of the model: "bos=<s> eos=</s>".
void slow_roles(struct slow *s, const char *roles);
// Reads the list of added tokens; the model and the roles are there.
bool slow_tokens(struct slow *s, struct error *e);
void slow_stage(struct slow *s, const char *key, const char *value);
// Splits text by a regular expression, then spells the bytes of each part, with a space before it
// if it should begin with one.
void slow_split(struct slow *s, const char *regex, bool prefix);
// Puts tokens around a text. Words are roles ("cls"), tokens ("</s>") or "src_lang", the token of
// the settings' language; those that name no token are left out.
void slow_around(struct slow *s, const char *before, const char *after);

#endif
