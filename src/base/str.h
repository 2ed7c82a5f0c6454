// Text: `struct sv` views bytes that someone else owns; `struct str` owns and grows. Neither needs
// a NUL to end it and both may hold NULs; a str keeps one after its end, so its p is a C string.
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sv {
    const char *p;
    size_t n;
};

struct sv sv(const char *s); // views a C string; NULL gives an empty view
struct sv sv_n(const char *p, size_t n);
struct sv sv_cut(struct sv s, size_t from, size_t to); // [from, to), clamped
bool sv_eq(struct sv a, struct sv b);
bool sv_is(struct sv a, const char *b);
bool sv_starts(struct sv s, struct sv with);
bool sv_ends(struct sv s, struct sv with);
ptrdiff_t sv_find(struct sv in, struct sv what, size_t from); // byte offset or -1
struct sv sv_trim(struct sv s);                               // ASCII white space, both ends
int sv_cmp(struct sv a, struct sv b);                         // by bytes
uint64_t sv_hash(struct sv s);                                // FNV-1a with a final mix

struct str {
    char *p; // NULL while empty
    size_t n, cap;
};

void str_free(struct str *s);
void str_clear(struct str *s); // keeps the memory
void str_add(struct str *s, struct sv add);
void str_addc(struct str *s, char c);
void str_puts(struct str *s, const char *text);
void str_printf(struct str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct sv str_sv(const struct str *s);
const char *str_c(const struct str *s); // "" while empty

// "s" unless n is 1.
const char *plural(int64_t n);

int hex_digit(char c); // its value, or -1

// UTF-8. Decodes the code point at s[i] and sets *len to its bytes; an invalid or cut sequence
// gives -1 and *len 1. Surrogates and overlong forms are invalid.
int32_t utf8_decode(struct sv s, size_t i, size_t *len);
size_t utf8_encode(uint32_t cp, char out[4]); // returns the number of bytes
bool utf8_valid(struct sv s);
size_t utf8_count(struct sv s); // how many characters begin in s
// Bytes at the end of s that begin a character which more bytes could complete (0 to 3).
size_t utf8_partial(struct sv s);

#endif
