#include "tokenizer/pattern.h"

#include <oniguruma.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tokenizer/fields.h"
#include "tokenizer/unicode.h"

enum {
    PATTERN_LIMIT = 1 << 16, // bytes of a regular expression
    REPLACED_LEAST =
        1 << 24, // a replacement may always make this much, of a large text 16 times it
};

void spans_add(struct spans *s, size_t from, size_t to, bool match) {
    s->p = mem_grow(s->p, &s->cap, s->n + 1, sizeof *s->p);
    s->p[s->n++] = (struct span){from, to, match};
}

void spans_free(struct spans *s) {
    free(s->p);
    *s = (struct spans){0};
}

// Oniguruma looks up properties that a program defines before its own. Ours are of the Unicode that
// the reference uses; it keeps the pointers, and takes at most 20.
static const struct {
    const char *name;
    int categories;
} properties[] = {
    {"L", IN_L},           {"Lu", IN_LU},       {"Ll", IN_LL},       {"Lm", IN_LM},
    {"Lo", IN_LO},         {"M", IN_M},         {"Mn", 1 << CAT_MN}, {"N", IN_N},
    {"Nd", 1 << CAT_ND},   {"Nl", 1 << CAT_NL}, {"P", IN_P},         {"Po", 1 << CAT_PO},
    {"S", IN_S},           {"So", 1 << CAT_SO}, {"Letter", IN_L},    {"Number", IN_N},
    {"Punctuation", IN_P}, {"Mc", 1 << CAT_MC},
};

enum { PROPERTIES = sizeof properties / sizeof *properties };
static OnigCodePoint *property_ranges[PROPERTIES + 2];

// [number of ranges, from, to, from, to...]
static OnigCodePoint *ranges_of(int categories) {
    OnigCodePoint *r = mem_array(2 * unicode_runs_n + 1, sizeof *r);
    for (size_t i = 0; i < unicode_runs_n; i++) {
        if (!(1 << (unicode_runs[i] & 0xff) & categories)) continue;
        OnigCodePoint from = unicode_runs[i] >> 8;
        OnigCodePoint to = i + 1 < unicode_runs_n ? (unicode_runs[i + 1] >> 8) - 1 : 0x10ffff;
        if (r[0] && r[2 * r[0]] + 1 == from)
            r[2 * r[0]] = to;
        else
            r[0]++, r[2 * r[0] - 1] = from, r[2 * r[0]] = to;
    }
    return r;
}

// What \w means in a bracket; outside of one, six signs of Latin-1 are in it as well.
static bool word(int32_t cp, bool bare) {
    if (bare && cp < 0x100 && unicode_category(cp) == CAT_NO) return true;
    if (unicode_in(cp, IN_L | IN_M | 1 << CAT_ND | 1 << CAT_NL | 1 << CAT_PC)) return true;
    return unicode_category(cp) == CAT_SO && unicode_word(cp); // letters in circles
}

static OnigCodePoint *word_ranges(bool bare) {
    OnigCodePoint *r = mem_array(2 * unicode_runs_n + 1, sizeof *r);
    for (int32_t cp = 0; cp < 0x110000; cp++) {
        if (!word(cp, bare)) continue;
        OnigCodePoint code = (OnigCodePoint)cp;
        if (!r[0] || r[2 * r[0]] + 1 != code) r[0]++, r[2 * r[0] - 1] = code;
        r[2 * r[0]] = code;
    }
    return r;
}

static void start(void) {
    unicode_init();
    OnigEncoding utf8 = ONIG_ENCODING_UTF8;
    onig_initialize(&utf8, 1);
    for (size_t i = 0; i < PROPERTIES; i++) {
        property_ranges[i] = ranges_of(properties[i].categories);
        onig_unicode_define_user_property(properties[i].name, property_ranges[i]);
    }
    property_ranges[PROPERTIES] = word_ranges(false);
    property_ranges[PROPERTIES + 1] = word_ranges(true);
    onig_unicode_define_user_property("mlxcelword", property_ranges[PROPERTIES]);
    onig_unicode_define_user_property("mlxcelbareword", property_ranges[PROPERTIES + 1]);
}

// Han of the newest Unicode: Oniguruma's own lacks two extensions.
#define HAN "\\p{Han}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"

// \w, \d and the like are built in, of Oniguruma's own Unicode: put ours in their place.
static void modernise(struct str *out, struct sv source) {
    static const struct {
        const char *old, *in, *bare; // in a bracket, outside
    } built_in[] = {
        {"\\w", "\\p{mlxcelword}", "\\p{mlxcelbareword}"},
        {"\\W", "\\P{mlxcelword}", "\\P{mlxcelbareword}"},
        {"\\d", "\\p{Nd}", "\\p{Nd}"},
        {"\\D", "\\P{Nd}", "\\P{Nd}"},
        {"[:punct:]", "\\p{P}\\p{S}", "[:punct:]"},
        {"[:^punct:]", "[^\\p{P}\\p{S}]", "[:^punct:]"},
        {"[:alpha:]", "[:alpha:]\\p{L}", "[:alpha:]"},
        {"[:^alpha:]", "[^[:alpha:]\\p{L}]", "[:^alpha:]"},
        {"[:upper:]", "[:upper:]\\p{Lu}", "[:upper:]"},
        {"[:lower:]", "[:lower:]\\p{Ll}", "[:lower:]"},
        {"\\p{Han}", HAN, "[" HAN "]"},
        {"\\P{Han}", "[^" HAN "]", "[^" HAN "]"},
        {"\\p{^Han}", "[^" HAN "]", "[^" HAN "]"},
    };
    int depth = 0; // of brackets
    for (size_t i = 0; i < source.n;) {
        struct sv rest = sv_cut(source, i, source.n);
        size_t k = 0, known = sizeof built_in / sizeof *built_in;
        while (k < known && !sv_starts(rest, sv(built_in[k].old))) k++;
        if (k < known) {
            str_puts(out, depth ? built_in[k].in : built_in[k].bare);
            i += strlen(built_in[k].old);
            continue;
        }
        size_t n = rest.p[0] == '\\' && rest.n > 1 ? 2 : 1;
        if (rest.p[0] == '[') depth++;
        if (rest.p[0] == ']' && depth) depth--;
        str_add(out, sv_cut(rest, 0, n));
        i += n;
    }
}

static const OnigUChar *bytes(const char *p) { return (const OnigUChar *)p; }

bool pattern_regex(struct pattern *p, struct sv source, bool scanners, struct error *e) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start);
    *p = (struct pattern){.scan = scanners ? scan_known(source) : SCAN_NONE};
    if (p->scan != SCAN_NONE) return true;
    if (source.n > PATTERN_LIMIT)
        return fail(e, "a regular expression of %zu bytes is over the limit of %d", source.n,
                    PATTERN_LIMIT);
    struct str text = {0};
    modernise(&text, source);
    OnigErrorInfo info;
    const char *from = str_c(&text);
    int code = onig_new(&p->re, bytes(from), bytes(from + text.n), ONIG_OPTION_NONE,
                        ONIG_ENCODING_UTF8, ONIG_SYNTAX_RUBY, &info);
    if (code != ONIG_NORMAL) {
        OnigUChar why[ONIG_MAX_ERROR_MESSAGE_LEN];
        int n = onig_error_code_to_str(why, code, &info);
        fail(e, "regular expression \"%.200s\": %.*s", from, n, (const char *)why);
        p->re = NULL;
    }
    str_free(&text);
    return code == ONIG_NORMAL;
}

bool pattern_read(struct pattern *p, struct json_object *j, struct error *e) {
    *p = (struct pattern){0};
    struct sv source;
    if (json_at(j, "Regex"))
        return field_text(j, "Regex", &source, e) && pattern_regex(p, source, true, e);
    if (!json_at(j, "String"))
        return fail(e, "pattern %.60s has neither \"String\" nor \"Regex\"",
                    json_object_to_json_string(j));
    if (!field_text(j, "String", &source, e)) return false;
    unicode_init();
    str_add(&p->literal, source);
    return true;
}

void pattern_free(struct pattern *p) {
    if (p->re) onig_free(p->re);
    str_free(&p->literal);
    *p = (struct pattern){0};
}

// The first match at or after `at`: 1 and its place, 0 when there is none, -1 on failure.
static int find(const struct pattern *p, struct sv text, size_t at, OnigRegion *region,
                size_t *from, size_t *to, struct error *e) {
    if (!p->re) {
        ptrdiff_t found = sv_find(text, str_sv(&p->literal), at);
        if (found < 0) return 0;
        *from = (size_t)found;
        *to = *from + p->literal.n;
        return 1;
    }
    const OnigUChar *s = bytes(text.p), *end = s + text.n;
    int code = onig_search(p->re, s, end, s + at, end, region, ONIG_OPTION_NONE);
    if (code == ONIG_MISMATCH) return 0;
    if (code < 0) {
        OnigUChar why[ONIG_MAX_ERROR_MESSAGE_LEN];
        int n = onig_error_code_to_str(why, code);
        fail(e, "regular expression: %.*s", n, (const char *)why);
        return -1;
    }
    *from = (size_t)region->beg[0];
    *to = (size_t)region->end[0];
    return 1;
}

static void scan_all(enum scan_kind kind, struct sv text, struct spans *out) {
    for (size_t at = 0, end; at < text.n; at = end) {
        end = scan_next(kind, text, at);
        spans_add(out, at, end, true);
    }
}

bool pattern_spans(const struct pattern *p, struct sv text, struct spans *out, struct error *e) {
    if (!text.n) return true; // not even an empty match
    if (p->scan != SCAN_NONE) return scan_all(p->scan, text, out), true;
    OnigRegion region;
    onig_region_init(&region);
    size_t done = 0, at = 0, from, to; // the end of the last match; where to look
    bool any = false;
    int found = 0;
    while (at <= text.n && (found = find(p, text, at, &region, &from, &to, e)) > 0) {
        if (from == to && any && from == done) { // empty, behind the last: look further on
            if (at >= text.n) break;
            unicode_next(text, &at);
            continue;
        }
        if (done < from) spans_add(out, done, from, false);
        spans_add(out, from, to, true);
        any = true;
        done = at = to;
    }
    onig_region_free(&region, 0);
    if (done < text.n) spans_add(out, done, text.n, false);
    return found >= 0;
}

bool pattern_replace(const struct pattern *p, struct sv text, struct sv with, struct str *out,
                     struct error *e) {
    struct spans spans = {0};
    bool ok = pattern_spans(p, text, &spans, e);
    size_t size = 0, limit = text.n > REPLACED_LEAST / 16 ? text.n * 16 : REPLACED_LEAST;
    for (size_t i = 0; i < spans.n && ok; i++) {
        size += spans.p[i].match ? with.n : spans.p[i].to - spans.p[i].from;
        if (size > limit) ok = fail(e, "Replace makes more than %zu bytes of %zu", limit, text.n);
    }
    for (size_t i = 0; i < spans.n && ok; i++)
        str_add(out, spans.p[i].match ? with : sv_cut(text, spans.p[i].from, spans.p[i].to));
    spans_free(&spans);
    return ok;
}
