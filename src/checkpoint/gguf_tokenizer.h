// The tokenizer of a GGUF file as the files that Hugging Face publishes: tokenizer.json (byte-level
// BPE, or SentencePiece BPE in its converted form), tokenizer_config.json with the chat template,
// generation_config.json.
#ifndef CHECKPOINT_GGUF_TOKENIZER_H
#define CHECKPOINT_GGUF_TOKENIZER_H

#include "checkpoint/gguf.h"

struct gguf_tokenizer { // the texts of the three files
    struct str tokenizer, config, generation;
    int64_t bos, eos; // for config.json; -1: none
};

// rows: of the embedding, which no token id may reach. Refuses by name a tokenizer model, or a
// pre-tokenizer, whose published form is not known here. The caller frees t in any case.
bool gguf_tokenizer_read(const struct gguf *g, int64_t rows, struct gguf_tokenizer *t,
                         struct error *e);
void gguf_tokenizer_free(struct gguf_tokenizer *t);

#endif
