// Hand-written matchers for the split patterns that nearly all byte-level models share. Each
// pattern matches somewhere at every position, so the matches lie end to end and one call gives the
// next. tests/test_tokenizer.c holds them equal to Oniguruma.
#ifndef TOKENIZER_SCAN_H
#define TOKENIZER_SCAN_H

#include "base/str.h"

enum scan_kind {
    SCAN_NONE,
    SCAN_GPT2,   // GPT-2, SmolLM2
    SCAN_LLAMA3, // Llama 3: up to three digits together
    SCAN_QWEN2,  // Qwen 2 and 3: one digit at a time
    SCAN_O200K,  // GPT-4o, gpt-oss
    SCAN_KINDS,
};

enum scan_kind scan_known(struct sv regex); // SCAN_NONE for one that has no scanner
const char *scan_regex(enum scan_kind kind);
// The end of the match that begins at text[at], at < text.n. The text is valid UTF-8.
size_t scan_next(enum scan_kind kind, struct sv text, size_t at);

#endif
