// The model of a tokenizer: turns a piece of text into ids. Each kind is a file of its own; this
// chooses among them, and holds the vocabulary that all have.
#ifndef TOKENIZER_MODEL_H
#define TOKENIZER_MODEL_H

#include "tokenizer/bpe.h"
#include "tokenizer/document.h"
#include "tokenizer/unigram.h"
#include "tokenizer/wordpiece.h"

enum model_kind { MODEL_BPE, MODEL_UNIGRAM, MODEL_WORDPIECE, MODEL_WORDLEVEL };

struct model {
    enum model_kind kind;
    struct vocab vocab;
    struct bpe bpe;
    struct unigram unigram;
    struct wordpiece wordpiece; // of the last two kinds
};

struct model_cached;

// Working memory of one encoding at a time, with a cache of words.
struct model_work {
    struct bpe_work *bpe;
    struct unigram_work unigram;
    struct model_cached *cache;
};

bool model_read(struct model *m, const struct document *d, struct error *e);
void model_free(struct model *m);

void model_work_open(struct model_work *w, const struct model *m);
void model_work_close(struct model_work *w);
// Appends the ids of one piece, which is valid UTF-8 and not empty.
bool model_encode(const struct model *m, struct model_work *w, struct sv piece, struct ids *out,
                  struct error *e);

#endif
