// Unicode properties as the reference tokenizers see them: general categories of Unicode 16, which
// is newer than what Debian's Oniguruma and utf8proc hold.
#ifndef TOKENIZER_UNICODE_H
#define TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

// The order is that of unidata.c.
enum category {
    CAT_CN,
    CAT_LU,
    CAT_LL,
    CAT_LT,
    CAT_LM,
    CAT_LO,
    CAT_MN,
    CAT_MC,
    CAT_ME,
    CAT_ND,
    CAT_NL,
    CAT_NO,
    CAT_PC,
    CAT_PD,
    CAT_PS,
    CAT_PE,
    CAT_PI,
    CAT_PF,
    CAT_PO,
    CAT_SM,
    CAT_SC,
    CAT_SK,
    CAT_SO,
    CAT_ZS,
    CAT_ZL,
    CAT_ZP,
    CAT_CC,
    CAT_CF,
    CAT_CO,
    CAT_CS,
};

// Sets of categories, for unicode_in.
enum {
    IN_LU = 1 << CAT_LU,
    IN_LL = 1 << CAT_LL,
    IN_LT = 1 << CAT_LT,
    IN_LM = 1 << CAT_LM,
    IN_LO = 1 << CAT_LO,
    IN_L = IN_LU | IN_LL | IN_LT | IN_LM | IN_LO,
    IN_M = 1 << CAT_MN | 1 << CAT_MC | 1 << CAT_ME,
    IN_N = 1 << CAT_ND | 1 << CAT_NL | 1 << CAT_NO,
    IN_P = 1 << CAT_PC | 1 << CAT_PD | 1 << CAT_PS | 1 << CAT_PE | 1 << CAT_PI | 1 << CAT_PF |
           1 << CAT_PO,
    IN_S = 1 << CAT_SM | 1 << CAT_SC | 1 << CAT_SK | 1 << CAT_SO,
};

struct code_range {
    uint32_t from, to; // both inside
};

struct code_shift {
    uint32_t from, to; // both inside
    int32_t by;
};

// unidata.c
extern const uint32_t unicode_runs[];
extern const size_t unicode_runs_n;
extern const struct code_range unicode_not_punct[];
extern const size_t unicode_not_punct_n;
extern const struct code_range unicode_more_punct[];
extern const size_t unicode_more_punct_n;
extern const struct code_range unicode_more_digits[];
extern const size_t unicode_more_digits_n;
extern const struct code_range unicode_more_word[];
extern const size_t unicode_more_word_n;
extern const struct code_range unicode_inert[];
extern const size_t unicode_inert_n;
extern const struct code_range unicode_more_marks[];
extern const size_t unicode_more_marks_n;
extern const struct code_shift unicode_lower[];
extern const size_t unicode_lower_n;

extern const struct code_range unicode_bert_kept[];
extern const size_t unicode_bert_kept_n;
extern const struct code_range unicode_bert_not_mn[];
extern const size_t unicode_bert_not_mn_n;
extern const struct code_range unicode_bert_mn[];
extern const size_t unicode_bert_mn_n;

// uniscripts.c
extern const uint32_t unicode_scripts[];
extern const size_t unicode_scripts_n;

// Fills the table below; call before anything else here. Any thread, any number of times.
void unicode_init(void);
extern uint8_t unicode_table[0x110000]; // the category of each code point

static inline enum category unicode_category(int32_t cp) { return unicode_table[cp]; }
static inline bool unicode_in(int32_t cp, int categories) {
    return 1 << unicode_table[cp] & categories;
}
bool unicode_space(int32_t cp); // White_Space
bool unicode_digit(int32_t cp); // to the Digits pre-tokenizer
bool unicode_punct(int32_t cp); // to the Punctuation pre-tokenizer: ASCII symbols are in
bool unicode_word(int32_t cp);  // \w of Rust's regex crate (Oniguruma's differs: it has all of N)
bool unicode_mark(int32_t cp);  // to the StripAccents normalizer
bool unicode_known(int32_t cp); // to the normalizers, which are of Unicode 9
int32_t unicode_tolower(int32_t cp);
bool unicode_bert_control(int32_t cp); // dropped by BertNormalizer
bool unicode_bert_mark(int32_t cp);    // an accent to BertNormalizer
// A number for the script, to the UnicodeScripts pre-tokenizer; 0: any.
int unicode_script(int32_t cp);

// Decodes the code point at s[*i], which must be inside, and moves *i behind it. The text must be
// valid UTF-8.
static inline int32_t unicode_next(struct sv s, size_t *i) {
    const unsigned char *p = (const unsigned char *)s.p + *i;
    int32_t c = p[0];
    if (c < 0x80) return *i += 1, c;
    if (c < 0xe0) return *i += 2, (c & 0x1f) << 6 | (p[1] & 0x3f);
    if (c < 0xf0) return *i += 3, (c & 0x0f) << 12 | (p[1] & 0x3f) << 6 | (p[2] & 0x3f);
    return *i += 4, (c & 7) << 18 | (p[1] & 0x3f) << 12 | (p[2] & 0x3f) << 6 | (p[3] & 0x3f);
}
// The code point that ends before s[i], i > 0; *at is where it starts.
int32_t unicode_before(struct sv s, size_t i, size_t *at);
void unicode_add(struct str *out, int32_t cp);

// Appends `text` with each maximal invalid sequence replaced by U+FFFD, as every lossy decoder does
// since Unicode 6. With `more`, a cut character at the end is left for later. Returns the bytes
// consumed.
size_t unicode_lossy(struct str *out, struct sv text, bool more);

#endif
