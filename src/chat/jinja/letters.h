// What Python's str knows of characters beyond their general category (letter_data.c holds the
// tables), and HTML's names for them.
#ifndef CHAT_LETTERS_H
#define CHAT_LETTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Code points may be -1 (invalid UTF-8), which is nothing of all this.
bool is_lower(int32_t cp);     // as str.islower() of the one character
bool is_upper(int32_t cp);     // as str.isupper()
bool is_title(int32_t cp);     // a digraph in title case
bool is_cased(int32_t cp);     // one of the three
bool is_ignorable(int32_t cp); // between letters, doesn't end a word when case is mapped
bool is_alpha(int32_t cp);     // as str.isalpha()
bool is_decimal(int32_t cp);   // as str.isdecimal()
bool is_digit(int32_t cp);     // as str.isdigit()
bool is_numeric(int32_t cp);   // as str.isnumeric()
bool is_word(int32_t cp);      // \w of re
bool in_identifier(int32_t cp, bool first);
int decimal_value(int32_t cp); // 0 to 9; -1: no decimal

// Letters that become several in upper or title case (Unicode's SpecialCasing, unconditional rows).
struct casing {
    int32_t from, upper[3], title[3]; // zero-ended unless all three are used
};
const struct casing *find_casing(int32_t cp); // NULL: the letter maps to one letter

// letter_data.c

struct letter_run {
    int32_t first, last;
};
struct letters { // sorted
    const struct letter_run *run;
    size_t n;
};
// Besides general categories: Ll, Lu; Mn Me Cf Lm Sk; Nd; Nl No; L and Nl; those and Mn Mc Nd Pc.
extern const struct letters other_lower, other_upper, more_ignorable, more_digits, more_numeric,
    more_starts, no_starts, more_further, no_further;
extern const struct casing casings[]; // sorted
extern const size_t casings_n;

struct entity {
    const char *name, *text; // the name mostly with its semicolon
};
extern const struct entity entities[]; // sorted
extern const size_t entities_n;

#endif
