// The byte alphabet of GPT-2: a printable character for each byte, so that a vocabulary of bytes
// can be written as text.
#ifndef TOKENIZER_BYTES_H
#define TOKENIZER_BYTES_H

#include "base/str.h"

void bytes_encode(struct str *out, struct sv text); // appends each byte's character
// Appends the bytes that the characters of text stand for. False, and nothing appended, when one is
// not of the alphabet.
bool bytes_decode(struct str *out, struct sv text);

#endif
