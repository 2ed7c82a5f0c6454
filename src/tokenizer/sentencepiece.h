// SentencePiece's tokenizer.model: a protocol buffer with the pieces, their scores and kinds, and
// what is done to text first. Its unigram models run on unigram.h, its BPE models on spm_bpe.h.
#ifndef TOKENIZER_SENTENCEPIECE_H
#define TOKENIZER_SENTENCEPIECE_H

#include "tokenizer/charsmap.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocab.h"

enum spm_kind {
    SPM_NORMAL = 1,
    SPM_UNKNOWN,
    SPM_CONTROL,
    SPM_USER,   // a piece wherever it stands
    SPM_UNUSED, // never a result
    SPM_BYTE,
};

enum spm_model { SPM_UNIGRAM = 1, SPM_BPE };

struct spm_piece {
    float score;
    enum spm_kind kind;
};

struct spm {
    enum spm_model model;
    struct spm_piece *piece; // [size of the vocabulary]
    size_t cap;
    int32_t unk;
    bool byte_fallback;
    struct str unk_text; // what the unknown piece decodes to
    struct charsmap map; // normalizes
    struct trie user;    // the pieces of kind SPM_USER, which are not normalized
    bool prefix;         // a space before the text (behind it, with `space_last`)
    bool each;           // also before each part between special tokens
    bool trim;           // no space at the ends, and only one at a time inside
    bool escape;         // spaces become U+2581
    bool space_last;
};

// Reads a file. v, empty so far, becomes the pieces.
bool spm_read(struct spm *s, struct vocab *v, struct sv file, struct error *e);
void spm_free(struct spm *s);

// Tokens that come before the pieces and behind them, with spaces between, and how many of the
// first pieces are dropped. A token that is a piece's text is that piece; others are control ones.
struct spm_layout {
    const char *head;
    size_t skip;
    const char *tail;
};
// Gives the pieces their ids in a layout.
bool spm_arrange(struct spm *s, struct vocab *v, const struct spm_layout *layout, struct error *e);

// Appends the normalized text, valid UTF-8. `first`: the text begins the input.
void spm_normalize(const struct spm *s, struct sv text, bool first, struct str *out);

// The longest piece of kind SPM_USER that text begins with; 0: none.
size_t spm_user(const struct spm *s, struct sv text);

#endif
