// The pre-tokenizer of tokenizer.json: cuts normalized text into pieces, which the model then takes
// one by one. A list of steps (Sequences are flattened); each cuts every piece further, and some
// change the text.
#ifndef TOKENIZER_PRETOKENIZER_H
#define TOKENIZER_PRETOKENIZER_H

#include "base/json.h"
#include "tokenizer/pattern.h"

// What to do with the matches of a pattern.
enum split_behavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS,
};

enum pre_kind {
    PRE_BYTE_LEVEL,
    PRE_SPLIT,
    PRE_DIGITS,
    PRE_WHITESPACE,
    PRE_WHITESPACE_SPLIT,
    PRE_PUNCTUATION,
    PRE_METASPACE,
    PRE_CHAR_DELIMITER,
    PRE_FIXED_LENGTH,
    PRE_BERT,
    PRE_SCRIPTS,
};

enum prepend_scheme { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS };

struct pre_step {
    enum pre_kind kind;
    enum split_behavior behavior;
    bool invert;                 // split: matches are what lies between
    bool split;                  // byte level: cut by GPT-2's pattern; metaspace: cut
    struct pattern pattern;      // split, byte level, metaspace
    enum prepend_scheme prepend; // byte level, metaspace
    int32_t replacement;         // metaspace: for a space; char delimiter: the character
    bool individual;             // digits: each for itself
    int64_t length;              // fixed length: characters in a piece
};

struct pretokenizer {
    struct pre_step *step;
    size_t n, cap;
};

// Text in pieces: the spans whose `match` is set; the others are dropped.
struct pieces {
    struct str text;
    struct spans spans;
};

void pieces_free(struct pieces *p);

bool pre_read(struct pretokenizer *t, struct json_object *j, struct error *e);
void pre_free(struct pretokenizer *t);
// Cuts text, which must not be empty. `first` says that it is the start of the whole input. *out is
// overwritten; `spare` is working memory.
bool pre_run(const struct pretokenizer *t, struct sv text, bool first, struct pieces *out,
             struct pieces *spare, struct error *e);

// Shared with the decoders.
bool prepend_read(struct json_object *j, enum prepend_scheme *out, struct error *e);

#endif
