#include "tokenizer/scan.h"

#include "tokenizer/unicode.h"

static const char *const regexes[SCAN_KINDS] = {
    [SCAN_GPT2] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    [SCAN_LLAMA3] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
                    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    [SCAN_QWEN2] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
                   " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    [SCAN_O200K] =
        "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
};

enum scan_kind scan_known(struct sv regex) {
    for (enum scan_kind k = SCAN_NONE + 1; k < SCAN_KINDS; k++)
        if (sv_is(regex, regexes[k])) return k;
    return SCAN_NONE;
}

const char *scan_regex(enum scan_kind kind) { return regexes[kind]; }

enum {
    IN_LN = IN_L | IN_N,
    IN_UPPER = IN_LU | IN_LT | IN_LM | IN_LO | IN_M, // what o200k lets begin a word
    IN_LOWER = IN_LL | IN_LM | IN_LO | IN_M,         // and end it
};

static bool newline(int32_t c) { return c == '\n' || c == '\r'; }

static bool in_at(struct sv t, size_t i, int categories) {
    return i < t.n && unicode_in(unicode_next(t, &i), categories);
}

// The end of the run of characters of some categories that begins at i.
static size_t run_of(struct sv t, size_t i, int categories) {
    for (size_t next = i; i < t.n && unicode_in(unicode_next(t, &next), categories);) i = next;
    return i;
}

static size_t run_of_others(struct sv t, size_t i) { // [^\s\p{L}\p{N}]
    for (size_t next = i; i < t.n; i = next) {
        int32_t c = unicode_next(t, &next);
        if (unicode_in(c, IN_LN) || unicode_space(c)) break;
    }
    return i;
}

static size_t up_to_three(struct sv t, size_t i) {
    for (int k = 0; k < 3 && in_at(t, i, IN_N); k++) unicode_next(t, &i);
    return i;
}

// 's 't 're 've 'm 'll 'd at i: the end, or i when there is none. Without case, the long s is an s.
static size_t contraction(struct sv t, size_t i, bool any_case) {
    if (i + 1 >= t.n || t.p[i] != '\'') return i;
    int fold = any_case ? 0x20 : 0;
    int a = t.p[i + 1] | fold, b = i + 2 < t.n ? t.p[i + 2] | fold : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return i + 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return i + 3;
    if (any_case && sv_starts(sv_cut(t, i + 1, t.n), sv("\xc5\xbf"))) return i + 3;
    return i;
}

// \s+(?!\S)|\s+, after \s*[\r\n]+ where lines count. text[i] is a space.
static size_t spaces(struct sv t, size_t i, bool lines) {
    size_t end = i, last = i,
           line = i; // last: where the last space begins; line: behind the last newline
    for (size_t next = i; end < t.n; end = next) {
        int32_t c = unicode_next(t, &next);
        if (!unicode_space(c)) break;
        if (newline(c)) line = next;
        last = end;
    }
    if (lines && line > i) return line;
    return end < t.n && last > i ? last : end;
}

static size_t gpt2(struct sv t, size_t i) {
    size_t end = contraction(t, i, false);
    if (end > i) return end;
    size_t word = i + (t.p[i] == ' ');
    if (in_at(t, word, IN_L)) return run_of(t, word, IN_L);
    if (in_at(t, word, IN_N)) return run_of(t, word, IN_N);
    end = run_of_others(t, word);
    return end > word ? end : spaces(t, i, false);
}

// What the newer patterns share behind their words and numbers; `tail` is a character that
// may follow punctuation as a newline may.
static size_t others(struct sv t, size_t i, char tail) {
    size_t word = i + (t.p[i] == ' ');
    size_t end = run_of_others(t, word);
    if (end == word) return spaces(t, i, true);
    while (end < t.n && (newline(t.p[end]) || t.p[end] == tail)) end++;
    return end;
}

static size_t llama3(struct sv t, size_t i, bool three_digits) {
    size_t end = contraction(t, i, true);
    if (end > i) return end;
    size_t next = i;
    int32_t c = unicode_next(t, &next);
    if (unicode_in(c, IN_L)) return run_of(t, next, IN_L);
    if (unicode_in(c, IN_N)) return three_digits ? up_to_three(t, i) : next;
    if (!newline(c) && in_at(t, next, IN_L)) return run_of(t, next, IN_L);
    return others(t, i, '\n');
}

// [upper]*[lower]+ at i; 0 when it doesn't match. Where the greedy first part leaves nothing for
// the second, the last character that may be either goes to the second.
static size_t lower_word(struct sv t, size_t i) {
    size_t middle = i, either = 0;
    for (size_t next = i; middle < t.n; middle = next) {
        int32_t c = unicode_next(t, &next);
        if (!unicode_in(c, IN_UPPER)) break;
        if (unicode_in(c, IN_LOWER)) either = next;
    }
    size_t end = run_of(t, middle, IN_LOWER);
    return end > middle ? end : either;
}

// [upper]+[lower]* at i; 0 when it doesn't match.
static size_t upper_word(struct sv t, size_t i) {
    size_t middle = run_of(t, i, IN_UPPER);
    return middle > i ? run_of(t, middle, IN_LOWER) : 0;
}

static size_t o200k(struct sv t, size_t i) {
    size_t next = i;
    int32_t c = unicode_next(t, &next);
    if (unicode_in(c, IN_N)) return up_to_three(t, i);
    bool prefix = !unicode_in(c, IN_L) && !newline(c);
    size_t end = prefix ? lower_word(t, next) : 0;
    if (!end) end = lower_word(t, i);
    if (!end && prefix) end = upper_word(t, next);
    if (!end) end = upper_word(t, i);
    return end ? contraction(t, end, true) : others(t, i, '/');
}

size_t scan_next(enum scan_kind kind, struct sv text, size_t at) {
    switch (kind) {
    case SCAN_GPT2: return gpt2(text, at);
    case SCAN_LLAMA3: return llama3(text, at, true);
    case SCAN_QWEN2: return llama3(text, at, false);
    case SCAN_O200K: return o200k(text, at);
    case SCAN_NONE:
    case SCAN_KINDS: break;
    }
    return text.n;
}
