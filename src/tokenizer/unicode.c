#include "tokenizer/unicode.h"

#include <pthread.h>
#include <string.h>
#include <utf8proc.h>

uint8_t unicode_table[0x110000];

static void fill(void) {
    for (size_t i = 0; i < unicode_runs_n; i++) {
        uint32_t from = unicode_runs[i] >> 8;
        uint32_t to = i + 1 < unicode_runs_n ? unicode_runs[i + 1] >> 8 : 0x110000;
        memset(unicode_table + from, unicode_runs[i] & 0xff, to - from);
    }
}

void unicode_init(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill);
}

static bool listed(const struct code_range *r, size_t n, int32_t cp) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (r[mid].to < (uint32_t)cp)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && r[low].from <= (uint32_t)cp;
}

bool unicode_space(int32_t cp) {
    if (cp < 0x80) return cp == ' ' || (cp >= '\t' && cp <= '\r');
    if (cp > 0x10ffff) return false;
    return cp == 0x85 || (1 << unicode_table[cp] & (1 << CAT_ZS | 1 << CAT_ZL | 1 << CAT_ZP));
}

bool unicode_digit(int32_t cp) {
    return unicode_in(cp, IN_N) || listed(unicode_more_digits, unicode_more_digits_n, cp);
}

bool unicode_punct(int32_t cp) {
    if (cp < 0x80) return unicode_in(cp, IN_P | IN_S);
    return unicode_in(cp, IN_P) ? !listed(unicode_not_punct, unicode_not_punct_n, cp)
                                : listed(unicode_more_punct, unicode_more_punct_n, cp);
}

bool unicode_word(int32_t cp) {
    return unicode_in(cp, IN_L | IN_M | 1 << CAT_ND | 1 << CAT_NL | 1 << CAT_PC) ||
           listed(unicode_more_word, unicode_more_word_n, cp);
}

bool unicode_known(int32_t cp) { return !listed(unicode_inert, unicode_inert_n, cp); }

bool unicode_mark(int32_t cp) {
    return unicode_in(cp, IN_M) ? unicode_known(cp)
                                : listed(unicode_more_marks, unicode_more_marks_n, cp);
}

int32_t unicode_tolower(int32_t cp) {
    for (size_t i = 0; i < unicode_lower_n; i++)
        if ((uint32_t)cp >= unicode_lower[i].from && (uint32_t)cp <= unicode_lower[i].to)
            return cp + unicode_lower[i].by;
    return utf8proc_tolower(cp);
}

bool unicode_bert_control(int32_t cp) {
    return unicode_in(cp, 1 << CAT_CC | 1 << CAT_CF | 1 << CAT_CO) &&
           !listed(unicode_bert_kept, unicode_bert_kept_n, cp);
}

bool unicode_bert_mark(int32_t cp) {
    return unicode_in(cp, 1 << CAT_MN) ? !listed(unicode_bert_not_mn, unicode_bert_not_mn_n, cp)
                                       : listed(unicode_bert_mn, unicode_bert_mn_n, cp);
}

int unicode_script(int32_t cp) {
    size_t low = 0, high = unicode_scripts_n; // the last run that begins at cp or before
    while (high - low > 1) {
        size_t mid = (low + high) / 2;
        if (unicode_scripts[mid] >> 8 <= (uint32_t)cp)
            low = mid;
        else
            high = mid;
    }
    return (int)(unicode_scripts[low] & 0xff);
}

int32_t unicode_before(struct sv s, size_t i, size_t *at) {
    do i--;
    while (i > 0 && ((unsigned char)s.p[i] & 0xc0) == 0x80);
    *at = i;
    return unicode_next(s, &i);
}

void unicode_add(struct str *out, int32_t cp) {
    char utf8[4];
    str_add(out, sv_n(utf8, utf8_encode((uint32_t)cp, utf8)));
}

size_t unicode_lossy(struct str *out, struct sv text, bool more) {
    size_t i = 0, good = 0, len;
    while (i < text.n) {
        if (utf8_decode(text, i, &len) >= 0) {
            i += len;
            continue;
        }
        str_add(out, sv_cut(text, good, i));
        // The longest start of a character here counts as one error; at the end it may go on.
        size_t bad = 1;
        for (size_t n = 3; n > 1; n--)
            if (i + n <= text.n && utf8_partial(sv_cut(text, i, i + n)) == n) {
                bad = n;
                break;
            }
        if (more && i + bad == text.n && utf8_partial(sv_cut(text, i, text.n)) == bad) return i;
        str_puts(out, "\xef\xbf\xbd");
        good = i += bad;
    }
    str_add(out, sv_cut(text, good, i));
    return i;
}
