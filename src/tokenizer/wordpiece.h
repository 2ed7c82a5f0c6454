// Greedy vocabularies of whole words: WordPiece, which takes the longest token at each place of a
// word, and WordLevel, which knows words only.
#ifndef TOKENIZER_WORDPIECE_H
#define TOKENIZER_WORDPIECE_H

#include "base/json.h"
#include "tokenizer/ids.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocab.h"

struct wordpiece {
    struct trie trie;
    int32_t inside; // where a walk begins that isn't at the word's start; -1: no token does
    int64_t most;   // characters in a word that is tried
    struct str unk; // the token for what is not in the vocabulary
    int32_t unk_id; // -1: it isn't there either
};

// model is the object of tokenizer.json; its vocabulary is read already.
bool wordpiece_read(struct wordpiece *w, const struct vocab *v, struct json_object *model,
                    struct error *e);
bool wordlevel_read(struct wordpiece *w, const struct vocab *v, struct json_object *model,
                    struct error *e);
void wordpiece_free(struct wordpiece *w);

// Append the ids of one piece, valid UTF-8 and not empty. They fail only where the unknown token is
// needed and the vocabulary has none of that name.
bool wordpiece_encode(const struct wordpiece *w, struct sv piece, struct ids *out, struct error *e);
bool wordlevel_encode(const struct wordpiece *w, const struct vocab *v, struct sv piece,
                      struct ids *out, struct error *e);

#endif
