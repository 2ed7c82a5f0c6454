// The normalizer of tokenizer.json: a list of steps over text (Sequences are flattened).
#ifndef TOKENIZER_NORMALIZER_H
#define TOKENIZER_NORMALIZER_H

#include "base/json.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/pattern.h"
#include "tokenizer/sentencepiece.h"

enum norm_kind {
    NORM_NFC,
    NORM_NFD,
    NORM_NFKC,
    NORM_NFKD,
    NORM_LOWERCASE,
    NORM_STRIP_ACCENTS,
    NORM_STRIP,
    NORM_REPLACE,
    NORM_PREPEND,
    NORM_BYTE_LEVEL,
    NORM_NMT,
    NORM_PRECOMPILED,
    NORM_BERT,
    NORM_SPM,
};

struct norm_step {
    enum norm_kind kind;
    bool left, right;       // strip: which ends
    struct pattern pattern; // replace
    struct str text;        // replace: with what; prepend: what
    struct charsmap map;    // precompiled
    const struct spm *spm;  // of a tokenizer.model, which does all itself
    // bert
    bool clean, chinese, accents, lower;
};

struct normalizer {
    struct norm_step *step;
    size_t n, cap;
};

// j is NULL (no normalizer) or the object.
bool norm_read(struct normalizer *z, struct json_object *j, struct error *e);
void norm_free(struct normalizer *z);
void norm_spm(struct normalizer *z, const struct spm *spm); // which must outlive z
// Sets *out to the normalized text, which is valid UTF-8 when `in` is. `first` says that it is the
// start of the whole input.
bool norm_run(const struct normalizer *z, struct sv in, bool first, struct str *out,
              struct error *e);

#endif
