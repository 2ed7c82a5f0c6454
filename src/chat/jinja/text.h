// Python's white space, for those outside the Jinja engine too.
#ifndef CHAT_TEXT_H
#define CHAT_TEXT_H

#include "base/str.h"

bool is_space(int32_t cp);                           // as str.isspace()
bool is_printable(int32_t cp);                       // as str.isprintable()
struct sv strip(struct sv s, bool left, bool right); // as str.strip(), .lstrip(), .rstrip()

#endif
