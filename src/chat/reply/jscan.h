// A checker for JSON that comes a byte at a time: it says where a value ends, and at once when it
// went wrong. It keeps nothing of the text.
#ifndef CHAT_REPLY_JSCAN_H
#define CHAT_REPLY_JSCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum { JSCAN_DEPTH = 128 };

struct jscan {
    uint8_t state;
    uint8_t literal; // of true, false, null: which, and how much of it was seen
    uint8_t seen;
    uint8_t hex; // digits of \u to come
    int depth;
    uint64_t object[JSCAN_DEPTH / 64]; // a bit a level: an object, not an array
    bool control;                      // the last byte was a raw control character in a string
};

enum jscan_result {
    JSCAN_MORE, // the value goes on
    JSCAN_DONE, // c was its last byte
    JSCAN_PAST, // it ended before c (numbers)
    JSCAN_BAD,
};

// All zero is the beginning: white space, then a value. A raw control character in a string passes,
// and is told (models write line breaks so).
enum jscan_result jscan_push(struct jscan *j, char c);
bool jscan_space(char c); // white space as JSON has it
// Whether text is one value, with white space around it.
bool jscan_whole(struct sv text);

#endif
