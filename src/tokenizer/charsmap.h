// The compiled normalization of SentencePiece: a map from strings to strings, as a double-array
// trie. "Precompiled" of tokenizer.json holds one, and so does a tokenizer.model.
#ifndef TOKENIZER_CHARSMAP_H
#define TOKENIZER_CHARSMAP_H

#include "base/error.h"
#include "base/str.h"

struct charsmap {
    uint32_t *unit; // [units] the trie; NULL: an empty map
    size_t units;
    struct str text; // what strings become, each with a NUL behind it
};

// Reads the blob: the trie's size in bytes, the trie, the texts.
bool charsmap_read(struct charsmap *m, struct sv blob, struct error *e);
void charsmap_free(struct charsmap *m);

// What the shortest (or, with `longest`, the longest) start of text that is in the map becomes;
// *n is its length. False when no start of text is.
bool charsmap_find(const struct charsmap *m, struct sv text, bool longest, struct sv *becomes,
                   size_t *n);

// Appends text as the Precompiled normalizer makes it.
void charsmap_run(const struct charsmap *m, struct sv text, struct str *out);

#endif
