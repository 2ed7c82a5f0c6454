// Names that nobody can guess.
#ifndef SERVER_RANDOM_H
#define SERVER_RANDOM_H

#include "base/str.h"

void random_letters(struct str *s); // appends 24 letters and digits

#endif
