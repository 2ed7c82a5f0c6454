// What nobody can guess.
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include "base/str.h"

// n random bytes of the system's, at most 256. Where it has none yet, early in the boot, they come
// from the time and the process.
void random_fill(void *to, size_t n);
void random_letters(struct str *s); // appends 24 letters and digits

#endif
