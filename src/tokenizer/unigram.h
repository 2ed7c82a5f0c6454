// A unigram language model: of all ways to cut a text into tokens, the one with the greatest sum of
// scores (Viterbi).
#ifndef TOKENIZER_UNIGRAM_H
#define TOKENIZER_UNIGRAM_H

#include "base/json.h"
#include "tokenizer/ids.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocab.h"

struct unigram {
    struct trie trie; // of what may be a token of a text
    double *score;    // [size of the vocabulary], by id
    size_t cap;
    double unk_score; // of a character that no token covers
    int32_t unk;      // -1: none
    bool byte_fallback;
    const struct spm_piece *piece; // NULL: of a tokenizer.json. SentencePiece sums in single
                                   // precision, and prefers the pieces of the user
    double most;                   // the greatest score
    int32_t byte[256];             // <0x00> to <0xFF>, -1 where the vocabulary has none
};

struct unigram_node;

// Working memory of one encoding at a time. Zero it to begin.
struct unigram_work {
    struct unigram_node *node; // [bytes of the text + 1]
    size_t cap;
    struct ids starts, ends, ids; // of the tokens of the best way, the last one first
};

// model is the object of tokenizer.json without its vocabulary, which is the text of a JSON list:
// [["token", score], ...].
bool unigram_read(struct unigram *u, struct vocab *v, struct json_object *model, struct sv list,
                  struct error *e);
// The same of a tokenizer.model, which must outlive u; v holds its pieces.
bool unigram_of_spm(struct unigram *u, const struct spm *s, const struct vocab *v, struct error *e);
void unigram_free(struct unigram *u);
void unigram_work_free(struct unigram_work *w);

// Appends the ids of one piece, valid UTF-8 and not empty. Fails only where the unknown token is
// needed and there is none.
bool unigram_encode(const struct unigram *u, const struct vocab *v, struct unigram_work *w,
                    struct sv piece, struct ids *out, struct error *e);

#endif
