// The decoder of tokenizer.json: turns tokens back into text. A list of steps (Sequences are
// flattened), each a filter that takes tokens one after the other and passes on what is certain, so
// that decoding a list and streaming it are the same thing.
#ifndef TOKENIZER_DECODER_H
#define TOKENIZER_DECODER_H

#include "base/json.h"
#include "tokenizer/pattern.h"
#include "tokenizer/sentencepiece.h"

enum decode_kind {
    DECODE_JOIN, // no decoder: tokens with spaces between
    DECODE_BYTE_LEVEL,
    DECODE_BYTE_FALLBACK,
    DECODE_FUSE,
    DECODE_STRIP,
    DECODE_REPLACE,
    DECODE_METASPACE,
    DECODE_WORDPIECE,
    DECODE_BPE,
    DECODE_CTC,
    DECODE_SPM,
};

struct decode_step {
    enum decode_kind kind;
    struct pattern pattern; // replace
    // replace: with what; strip: the character; metaspace: its mark; wordpiece: the prefix of
    // what goes on with a word; bpe: the suffix of a word's end; ctc: the token between words
    struct str text;
    struct str pad;      // ctc: the token for nothing
    bool cleanup;        // wordpiece, ctc: English spacing
    int64_t start, stop; // strip: at most how many at the two ends
    bool first;          // metaspace: the first token loses its marks; spm: a mark at the start
    bool all;            // spm: all marks at the start go
    bool bytes;          // spm: there are tokens for bytes
};

struct decoder {
    struct decode_step *step;
    size_t n, cap;
};

bool decode_read(struct decoder *d, struct json_object *j, struct error *e);
void decode_spm(struct decoder *d, const struct spm *spm);
void decode_free(struct decoder *d);

// What a step keeps between tokens.
struct decode_state {
    struct str held;  // not passed on yet
    struct str token; // the parts of a token that is wanted whole
    size_t tokens;    // complete ones, so far
    int64_t stripped; // strip: characters taken from the token's start; -1 when its text has begun
    bool begun;       // a token that goes out in parts has begun: byte level, fuse, byte fallback,
                      // bpe; ctc: there was a token
};

struct decode_stream {
    const struct decoder *d;
    struct decode_state *state; // [d->n]
    struct str *out;            // where text goes during a call
    bool eager;
};

// Bytes in a row that are not UTF-8 as a whole come out of ByteFallback as one U+FFFD each, also
// those that make whole characters. A list of tokens is decoded so. A stream can't wait for the end
// of every row: `eager` sends each character when it is whole, and only the rest of a bad row
// becomes U+FFFD.
void decode_open(struct decode_stream *s, const struct decoder *d, bool eager);
void decode_close(struct decode_stream *s);
void decode_push(struct decode_stream *s, struct sv token, struct str *out);
void decode_finish(struct decode_stream *s, struct str *out);

#endif
