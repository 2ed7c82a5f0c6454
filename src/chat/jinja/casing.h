// Letters that become several in upper or title case (Unicode's SpecialCasing, unconditional rows).
#ifndef CHAT_CASING_H
#define CHAT_CASING_H

#include <stdint.h>

struct casing {
    int32_t from, upper[3], title[3]; // zero-ended unless all three are used
};

const struct casing *find_casing(int32_t cp); // NULL: the letter maps to one letter

#endif
