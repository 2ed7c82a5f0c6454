// A strict pull reader for JSON (RFC 8259): one token a call, no recursion, no tree, and no memory
// but one buffer for strings that hold escapes. It is for texts whose writer is not trusted and
// whose shape is known (the header of a SafeTensors file); documents are read with json.h.
//
// Refused, with the byte where it went wrong: invalid UTF-8, raw control characters, escapes of
// half a surrogate pair, comments, NaN, trailing commas, nesting over JREAD_DEPTH, and anything but
// white space after the value.
#ifndef BASE_JREAD_H
#define BASE_JREAD_H

#include "base/error.h"
#include "base/str.h"

enum { JREAD_DEPTH = 64 };

enum jtoken {
    J_ERROR,
    J_END, // the whole value was read
    J_OBJECT,
    J_OBJECT_END,
    J_ARRAY,
    J_ARRAY_END,
    J_KEY,    // text
    J_STRING, // text
    J_INT,    // i: a plain integer that fits
    J_UINT,   // u: a plain integer above INT64_MAX that fits 64 bits
    J_NUMBER, // text: any other number, as it is written
    J_TRUE,
    J_FALSE,
    J_NULL,
};

struct jread {
    struct sv text; // of the last J_KEY, J_STRING or J_NUMBER; valid until the next call
    int64_t i;
    uint64_t u;
    size_t at; // the byte after the last token

    struct sv in;
    const char *what;
    struct error *e;
    struct str unescaped;
    int depth;
    bool in_object[JREAD_DEPTH];
    unsigned char expect;
};

// `what` names the source in errors; it, text and e must outlive the reader.
void jread_open(struct jread *j, struct sv text, const char *what, struct error *e);
void jread_close(struct jread *j);

// The next token. After J_ERROR (e is set) and J_END it stays at that.
enum jtoken jread_next(struct jread *j);

// Reads on to the end of the value that token began (one more value when it was J_KEY).
bool jread_skip(struct jread *j, enum jtoken token);

// After J_KEY: passes over the key's value, whose text is left in *value for a reader of its own.
// Of a list or object only the quotes and brackets are looked at.
bool jread_pass(struct jread *j, struct sv *value);

const char *jtoken_name(enum jtoken t); // for errors: "an object", "a string", ...

#endif
