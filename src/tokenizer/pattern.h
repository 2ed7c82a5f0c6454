// What Split and Replace look for: a literal string, or a regular expression in Oniguruma's Ruby
// syntax. Patterns that nearly all models share are recognised by their text and matched by a
// scanner (scan.h); the result is the same.
#ifndef TOKENIZER_PATTERN_H
#define TOKENIZER_PATTERN_H

#include "base/json.h"
#include "tokenizer/scan.h"

struct span {
    size_t from, to; // bytes
    bool match;      // found by the pattern, or what lies between
};

struct spans {
    struct span *p;
    size_t n, cap;
};

void spans_add(struct spans *s, size_t from, size_t to, bool match);
void spans_free(struct spans *s);

struct pattern {
    enum scan_kind scan;          // SCAN_NONE: one of the two below
    struct re_pattern_buffer *re; // NULL: literal
    struct str literal;
};

// Reads {"String": s} or {"Regex": s}.
bool pattern_read(struct pattern *p, struct json_object *j, struct error *e);
// A regular expression; with `scanners`, common ones get theirs.
bool pattern_regex(struct pattern *p, struct sv source, bool scanners, struct error *e);
void pattern_free(struct pattern *p);

// Appends spans that cover text from end to end: the matches, left to right, and what lies between.
// An empty match is a span, too, but not right behind the match before it. The text is valid UTF-8.
// Fails when a regular expression takes too long (Oniguruma's retry limit).
bool pattern_spans(const struct pattern *p, struct sv text, struct spans *out, struct error *e);
// Appends text to out with every match replaced.
bool pattern_replace(const struct pattern *p, struct sv text, struct sv with, struct str *out,
                     struct error *e);

#endif
