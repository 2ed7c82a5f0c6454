// Text to token ids and back, as a checkpoint's tokenizer.json says (Hugging Face `tokenizers`
// format), or one of the older files that are read into the same stages: SentencePiece's
// tokenizer.model, tiktoken's ranks, vocab.json with merges.txt, vocab.txt.
//   text - added tokens - normalizer - pre-tokenizer - model - post-processor - ids - decoder -
//   text
// A kind that isn't supported is refused by name when the file is opened. A tokenizer is read-only
// once open: any number of threads may use it.
#ifndef TOKENIZER_TOKENIZER_H
#define TOKENIZER_TOKENIZER_H

#include "base/error.h"
#include "base/str.h"
#include "tokenizer/ids.h"

struct tokenizer;

// path is a checkpoint folder or a tokenizer's file. In a folder, tokenizer.json wins, then
// tokenizer.model (but a tiktoken file for classes that use one), then the others in the order
// above. Beside it, tokenizer_config.json, special_tokens_map.json and added_tokens.json name the
// begin and end tokens, and tokens that text may spell, as they do for transformers (5.24). Its
// add_bos_token and add_eos_token count only for the older files: where there is a tokenizer.json,
// its post-processor decides. What a class of the older files does beside reading them is in the
// tables of slow_*.c; a class that isn't there and that would matter is refused.
struct tokenizer *tok_open(const char *path, struct error *e); // NULL on failure
// The same from the text of a tokenizer.json; `name` stands for the file in errors.
struct tokenizer *tok_read(struct sv json, const char *name, struct error *e);
void tok_close(struct tokenizer *t); // NULL is fine

// Appends the ids of text to out. `special`: the post-processor adds its tokens (BOS and the like).
// Added tokens in the text are always recognised. Bytes that aren't UTF-8 count as U+FFFD.
bool tok_encode(const struct tokenizer *t, struct sv text, bool special, struct ids *out,
                struct error *e);
// The same for text in which what spells an added token is none: each id is the model's own.
bool tok_encode_plain(const struct tokenizer *t, struct sv text, bool special, struct ids *out,
                      struct error *e);

int64_t tok_size(const struct tokenizer *t);                // largest id + 1
int32_t tok_id(const struct tokenizer *t, struct sv token); // of exactly this token, or -1
struct sv tok_token(const struct tokenizer *t, int32_t id); // as the vocabulary has it, or empty
// Appends the bytes that a token stands for within a text, which need not be whole characters.
void tok_bytes(const struct tokenizer *t, int32_t id, struct str *out); // token_bytes.c
bool tok_is_special(const struct tokenizer *t, int32_t id);
int32_t tok_bos(const struct tokenizer *t); // from tokenizer_config.json, -1: none
int32_t tok_eos(const struct tokenizer *t);

// Appends the text of n ids to out, always valid UTF-8: what isn't comes out as U+FFFD. Ids that
// mean nothing give nothing. skip_special leaves special tokens out.
void tok_decode(const struct tokenizer *t, const int32_t *id, size_t n, bool skip_special,
                struct str *out);

// The same, id by id. Each push appends what is certain now, in whole characters; finish the rest.
// All the pieces together are what tok_decode gives for all the ids, but for one thing: of bytes in
// a row that are not UTF-8 (see decoder.h), a stream keeps the whole characters before the error.
struct tok_stream;
struct tok_stream *tok_stream_open(const struct tokenizer *t, bool skip_special);
void tok_stream_push(struct tok_stream *s, int32_t id, struct str *out);
void tok_stream_finish(struct tok_stream *s, struct str *out);
void tok_stream_close(struct tok_stream *s); // NULL is fine

#endif
