// SentencePiece's kind of byte-pair encoding: two neighbours merge when their text together is a
// piece, the piece with the greatest score first.
#ifndef TOKENIZER_SPM_BPE_H
#define TOKENIZER_SPM_BPE_H

#include "tokenizer/heap.h"
#include "tokenizer/ids.h"
#include "tokenizer/sentencepiece.h"

struct spm_bpe {
    const struct spm *spm;
    int32_t *rank;  // [size of the vocabulary] by falling score; -1: not made by merging
    size_t longest; // bytes of the longest piece
    bool unused;    // some pieces are
    int32_t byte[256];
};

struct spm_symbol {
    int32_t from, to; // bytes of the text; from == to: merged into another
    int32_t prev, next;
    bool fixed; // a user's piece, which doesn't merge
};

// Working memory of one encoding at a time. Zero it to begin.
struct spm_bpe_work {
    struct spm_symbol *symbol;
    size_t n, cap;
    struct heap heap;
    int32_t *left; // [size of the vocabulary] bytes of an unused piece's left part, as last merged
    struct ids todo; // pairs of from, to
};

// s must outlive b. v holds its pieces.
void spm_bpe_open(struct spm_bpe *b, const struct spm *s, const struct vocab *v);
void spm_bpe_free(struct spm_bpe *b);
void spm_bpe_work_free(struct spm_bpe_work *w);

// Appends the ids of a text, normalized by s.
bool spm_bpe_encode(const struct spm_bpe *b, const struct vocab *v, struct spm_bpe_work *w,
                    struct sv text, struct ids *out, struct error *e);

#endif
