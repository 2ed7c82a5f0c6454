// Texts that a repetition does not go beyond (DRY's sequence breakers), as tokens of a vocabulary.
#ifndef ENGINE_BREAKERS_H
#define ENGINE_BREAKERS_H

#include "base/error.h"
#include "base/str.h"
#include "tokenizer/tokenizer.h"

enum { BREAKER_BYTES = 40, BREAKER_TOKENS = 20, BREAKERS_MOST = 64 };

struct breakers;

// llama.cpp's: "\n", ":", "\"", "*".
extern const struct sv breakers_default[4];

// A text is in a token, or begins at a token's end and goes on in the ones after it. Looks at every
// token of the vocabulary. Texts longer than BREAKER_BYTES are cut.
struct breakers *breakers_open(const struct tokenizer *t, const struct sv *text, size_t n,
                               struct error *e);
// Any number of owners, of any thread, may share one; the last to close it frees it. NULL is fine.
struct breakers *breakers_share(struct breakers *b);
void breakers_close(struct breakers *b);

bool breakers_token(const struct breakers *b, int32_t id); // it holds a text
// Tokens at the end of history that come after the last text in it.
size_t breakers_after(const struct breakers *b, const int32_t *history, size_t n);

#endif
