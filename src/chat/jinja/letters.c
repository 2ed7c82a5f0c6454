#include "chat/jinja/letters.h"

#include <utf8proc.h>

static bool in(const struct letters *l, int32_t cp) {
    size_t low = 0, high = l->n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (cp < l->run[mid].first)
            high = mid;
        else if (cp > l->run[mid].last)
            low = mid + 1;
        else
            return true;
    }
    return false;
}

static utf8proc_category_t category(int32_t cp) {
    return cp < 0 ? UTF8PROC_CATEGORY_CN : utf8proc_category(cp);
}

bool is_lower(int32_t cp) {
    if (cp < 0x80) return cp >= 'a' && cp <= 'z';
    return category(cp) == UTF8PROC_CATEGORY_LL || in(&other_lower, cp);
}

bool is_upper(int32_t cp) {
    if (cp < 0x80) return cp >= 'A' && cp <= 'Z';
    return category(cp) == UTF8PROC_CATEGORY_LU || in(&other_upper, cp);
}

bool is_title(int32_t cp) { return category(cp) == UTF8PROC_CATEGORY_LT; }

bool is_cased(int32_t cp) { return is_lower(cp) || is_upper(cp) || is_title(cp); }

bool is_ignorable(int32_t cp) {
    switch (category(cp)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: return in(&more_ignorable, cp);
    }
}

bool is_alpha(int32_t cp) {
    utf8proc_category_t c = category(cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(int32_t cp) { return category(cp) == UTF8PROC_CATEGORY_ND; }

bool is_digit(int32_t cp) { return is_decimal(cp) || in(&more_digits, cp); }

bool is_numeric(int32_t cp) {
    utf8proc_category_t c = category(cp);
    return c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO || is_digit(cp) ||
           in(&more_numeric, cp);
}

bool is_word(int32_t cp) {
    if (cp < 0x80) return cp == '_' || (cp >= '0' && cp <= '9') || (cp | 32) - 'a' + 0u < 26u;
    return is_alpha(cp) || is_numeric(cp);
}

bool in_identifier(int32_t cp, bool first) {
    if (cp < 0x80) return is_word(cp) && !(first && cp >= '0' && cp <= '9');
    utf8proc_category_t c = category(cp);
    bool start = is_alpha(cp) || c == UTF8PROC_CATEGORY_NL;
    if (first) return start ? !in(&no_starts, cp) : in(&more_starts, cp);
    bool further = start || c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC ||
                   c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_PC;
    return further ? !in(&no_further, cp) : in(&more_further, cp);
}

// Decimals come in runs of ten, or of several tens, from 0 to 9.
int decimal_value(int32_t cp) {
    if (cp < 0x80) return cp >= '0' && cp <= '9' ? cp - '0' : -1;
    if (!is_decimal(cp)) return -1;
    int32_t from = cp;
    while (is_decimal(from - 1)) from--;
    return (cp - from) % 10;
}

const struct casing *find_casing(int32_t cp) {
    size_t low = 0, high = casings_n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (casings[mid].from == cp) return &casings[mid];
        if (casings[mid].from < cp)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}
