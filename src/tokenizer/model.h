// The model of a tokenizer: turns a piece of text into ids. Each kind is a file of its own; this
// chooses among them, and holds the vocabulary that all have.
#ifndef TOKENIZER_MODEL_H
#define TOKENIZER_MODEL_H

#include "tokenizer/bpe.h"
#include "tokenizer/document.h"
#include "tokenizer/spm_bpe.h"
#include "tokenizer/unigram.h"
#include "tokenizer/wordpiece.h"

enum model_kind { MODEL_BPE, MODEL_UNIGRAM, MODEL_WORDPIECE, MODEL_WORDLEVEL, MODEL_SPM_BPE };

struct model {
    enum model_kind kind;
    struct vocab vocab;
    struct bpe bpe;
    struct unigram unigram;
    struct wordpiece wordpiece; // word piece, word level
    struct spm_bpe spm_bpe;
    struct spm spm; // what a tokenizer.model was read into; of other files, empty
};

struct model_cached;

// Working memory of one encoding at a time, with a cache of words.
struct model_work {
    struct bpe_work *bpe;
    struct unigram_work unigram;
    struct spm_bpe_work spm_bpe;
    struct model_cached *cache;
};

bool model_read(struct model *m, const struct document *d, struct error *e);
// Of a tokenizer.model, with ids as the layout has them. m must stay where it is.
bool model_read_spm(struct model *m, struct sv file, const struct spm_layout *layout,
                    struct error *e);
void model_free(struct model *m);

void model_work_open(struct model_work *w, const struct model *m);
void model_work_close(struct model_work *w);
// Appends the ids of one piece, which is valid UTF-8 and not empty.
bool model_encode(const struct model *m, struct model_work *w, struct sv piece, struct ids *out,
                  struct error *e);

#endif
