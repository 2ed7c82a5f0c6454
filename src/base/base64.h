// Base64 (RFC 4648): what files and requests carry bytes in.
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/str.h"

// Appends the bytes that text stands for. False, and nothing appended, when it is not base64:
// padding is needed, white space is not allowed.
bool base64_decode(struct str *out, struct sv text);

#endif
