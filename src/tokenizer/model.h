// The model of tokenizer.json: turns a piece of text into ids. Each kind is a file of its own; this
// chooses among them, and holds the vocabulary that all have.
#ifndef TOKENIZER_MODEL_H
#define TOKENIZER_MODEL_H

#include "tokenizer/bpe.h"

enum model_kind { MODEL_BPE };

struct model {
    enum model_kind kind;
    struct vocab vocab;
    struct bpe bpe;
};

// Working memory of one encoding at a time.
struct model_work {
    struct bpe_work *bpe;
};

bool model_read(struct model *m, struct json_object *j, struct error *e);
void model_free(struct model *m);

void model_work_open(struct model_work *w, const struct model *m);
void model_work_close(struct model_work *w);
// Appends the ids of one piece, which is valid UTF-8 and not empty.
bool model_encode(const struct model *m, struct model_work *w, struct sv piece, struct ids *out,
                  struct error *e);

#endif
