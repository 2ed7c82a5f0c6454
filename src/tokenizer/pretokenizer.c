#include "tokenizer/pretokenizer.h"

#include <stdlib.h>

#include "base/mem.h"
#include "tokenizer/bytes.h"
#include "tokenizer/fields.h"
#include "tokenizer/scan.h"
#include "tokenizer/unicode.h"

enum { TEXT_LIMIT = 1 << 30 }; // steps in a row may multiply

void pieces_free(struct pieces *p) {
    str_free(&p->text);
    spans_free(&p->spans);
}

static bool read_behavior(struct json_object *j, struct sv otherwise, enum split_behavior *out,
                          struct error *e) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    struct sv text;
    if (!field_text_or(j, "behavior", &text, e)) return false;
    if (!text.n) text = otherwise;
    for (int k = 0; k < 5; k++)
        if (sv_is(text, names[k])) return *out = (enum split_behavior)k, true;
    return fail(e, "behavior \"%.*s\" is not supported", (int)text.n, text.p);
}

// The old key add_prefix_space and the new prepend_scheme must agree where both are there.
bool prepend_read(struct json_object *j, enum prepend_scheme *out, struct error *e) {
    static const char *const names[] = {"never", "first", "always"};
    struct sv text;
    bool old;
    if (!field_text_or(j, "prepend_scheme", &text, e) ||
        !field_bool(j, "add_prefix_space", true, &old, e))
        return false;
    *out = old ? PREPEND_ALWAYS : PREPEND_NEVER;
    if (!text.n) return true;
    for (int k = 0; k < 3; k++) {
        if (!sv_is(text, names[k])) continue;
        *out = (enum prepend_scheme)k;
        if (json_at(j, "add_prefix_space") && old != (*out != PREPEND_NEVER))
            return fail(e, "add_prefix_space and prepend_scheme \"%s\" contradict each other",
                        names[k]);
        return true;
    }
    return fail(e, "prepend_scheme \"%.*s\" is not supported", (int)text.n, text.p);
}

static bool read_metaspace(struct json_object *j, struct pre_step *s, struct error *e) {
    if (!field_char(j, "replacement", "\xe2\x96\x81", &s->replacement, e) ||
        !prepend_read(j, &s->prepend, e) || !field_bool(j, "split", true, &s->split, e))
        return false;
    unicode_init();
    unicode_add(&s->pattern.literal, s->replacement);
    return true;
}

static bool read_byte_level(struct json_object *j, struct pre_step *s, struct error *e) {
    bool prefix;
    if (!field_bool(j, "add_prefix_space", true, &prefix, e) ||
        !field_bool(j, "use_regex", true, &s->split, e) ||
        !pattern_regex(&s->pattern, sv(scan_regex(SCAN_GPT2)), true, e))
        return false;
    s->prepend = prefix ? PREPEND_ALWAYS : PREPEND_NEVER;
    return true;
}

static bool read_step(struct pretokenizer *t, struct json_object *j, struct error *e) {
    static const struct {
        const char *name;
        enum pre_kind kind;
    } kinds[] = {
        {"ByteLevel", PRE_BYTE_LEVEL},
        {"Split", PRE_SPLIT},
        {"Digits", PRE_DIGITS},
        {"Whitespace", PRE_WHITESPACE},
        {"WhitespaceSplit", PRE_WHITESPACE_SPLIT},
        {"Punctuation", PRE_PUNCTUATION},
        {"Metaspace", PRE_METASPACE},
        {"CharDelimiterSplit", PRE_CHAR_DELIMITER},
        {"FixedLength", PRE_FIXED_LENGTH},
        {"BertPreTokenizer", PRE_BERT},
        {"UnicodeScripts", PRE_SCRIPTS},
    };
    struct sv type;
    if (!field_type(j, &type, e)) return false;
    size_t k = 0, known = sizeof kinds / sizeof *kinds;
    while (k < known && !sv_is(type, kinds[k].name)) k++;
    if (k == known) return fail(e, "type \"%.*s\" is not supported", (int)type.n, type.p);

    t->step = mem_grow(t->step, &t->cap, t->n + 1, sizeof *t->step);
    struct pre_step *s = &t->step[t->n++];
    *s = (struct pre_step){.kind = kinds[k].kind, .behavior = SPLIT_ISOLATED};
    unicode_init();
    switch (s->kind) {
    case PRE_BYTE_LEVEL: return read_byte_level(j, s, e);
    case PRE_SPLIT:
        return pattern_read(&s->pattern, json_at(j, "pattern"), e) &&
               read_behavior(j, sv(""), &s->behavior, e) &&
               field_bool(j, "invert", false, &s->invert, e);
    case PRE_DIGITS:
        if (!field_bool(j, "individual_digits", false, &s->individual, e)) return false;
        s->behavior = s->individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
        return true;
    case PRE_PUNCTUATION: return read_behavior(j, sv("Isolated"), &s->behavior, e);
    case PRE_METASPACE: return read_metaspace(j, s, e);
    case PRE_CHAR_DELIMITER:
        s->behavior = SPLIT_REMOVED;
        return field_char(j, "delimiter", "", &s->replacement, e);
    case PRE_FIXED_LENGTH: return field_int(j, "length", 1, INT32_MAX, &s->length, e);
    case PRE_WHITESPACE_SPLIT: s->behavior = SPLIT_REMOVED; return true;
    case PRE_WHITESPACE:
    case PRE_BERT:
    case PRE_SCRIPTS: return true;
    }
    return true;
}

static bool read_any(struct pretokenizer *t, struct json_object *j, struct error *e) {
    if (!sv_is(json_text_at(j, "type"), "Sequence")) return read_step(t, j, e);
    struct json_object *list = field_array(j, "pretokenizers", e);
    if (!list) return false;
    for (size_t i = 0; i < json_object_array_length(list); i++)
        if (!read_any(t, json_object_array_get_idx(list, i), e))
            return fail_in(e, "pretokenizers[%zu]", i);
    return true;
}

bool pre_read(struct pretokenizer *t, struct json_object *j, struct error *e) {
    return !j || read_any(t, j, e) || fail_in(e, "pre_tokenizer");
}

void pre_free(struct pretokenizer *t) {
    for (size_t i = 0; i < t->n; i++) pattern_free(&t->step[i].pattern);
    free(t->step);
    *t = (struct pretokenizer){0};
}

// Spans of single characters that a step cuts at, and of what lies between.
static void char_spans(const struct pre_step *s, struct sv text, struct spans *out) {
    size_t done = 0;
    for (size_t i = 0, at = 0; i < text.n; at = i) {
        int32_t c = unicode_next(text, &i);
        bool match = s->kind == PRE_DIGITS           ? unicode_digit(c)
                     : s->kind == PRE_PUNCTUATION    ? unicode_punct(c)
                     : s->kind == PRE_CHAR_DELIMITER ? c == s->replacement
                                                     : unicode_space(c);
        if (!match) continue;
        if (done < at) spans_add(out, done, at, false);
        spans_add(out, at, i, true);
        done = i;
    }
    if (done < text.n) spans_add(out, done, text.n, false);
}

// \w+|[^\w\s]+: runs of word characters and of other marks; white space is dropped.
static void word_spans(struct sv text, struct spans *out) {
    int last = -1; // of the run before: 0 space, 1 word, 2 other
    size_t start = 0;
    for (size_t i = 0, at = 0; i < text.n; at = i) {
        int32_t c = unicode_next(text, &i);
        int class = unicode_word(c) ? 1 : unicode_space(c) ? 0 : 2;
        if (class == last) continue;
        if (last > 0) spans_add(out, start, at, true);
        start = at;
        last = class;
    }
    if (last > 0) spans_add(out, start, text.n, true);
}

// Words, and each punctuation mark for itself; white space is dropped.
static void bert_spans(struct sv text, struct spans *out) {
    size_t start = 0; // of the word
    for (size_t i = 0, at = 0; i < text.n; at = i) {
        int32_t c = unicode_next(text, &i);
        bool space = unicode_space(c);
        if (!space && !unicode_punct(c)) continue;
        if (start < at) spans_add(out, start, at, true);
        if (!space) spans_add(out, at, i, true);
        start = i;
    }
    if (start < text.n) spans_add(out, start, text.n, true);
}

// Runs of one script. What is of any script goes with what it follows; before the first script, the
// reference loses it.
static void script_spans(struct sv text, struct spans *out) {
    int last = 0;
    size_t start = 0;
    for (size_t i = 0, at = 0; i < text.n; at = i) {
        int script = unicode_script(unicode_next(text, &i));
        if (!script || script == last) continue;
        if (last) spans_add(out, start, at, true);
        start = at;
        last = script;
    }
    if (last) spans_add(out, start, text.n, true);
}

static void fixed_spans(int64_t length, struct sv text, struct spans *out) {
    for (size_t i = 0, at = 0; i < text.n; at = i) {
        for (int64_t k = 0; k < length && i < text.n; k++) unicode_next(text, &i);
        spans_add(out, at, i, true);
    }
}

// Turns the spans from index `from` on, matches and not, into pieces: what stays has match set.
static void behave(struct spans *s, size_t from, enum split_behavior behavior) {
    size_t n = from;
    bool before = false; // whether the span before was a match (by what was found)
    switch (behavior) {
    case SPLIT_REMOVED:
        for (size_t i = from; i < s->n; i++) s->p[i].match = !s->p[i].match;
        return;
    case SPLIT_ISOLATED:
        for (size_t i = from; i < s->n; i++) s->p[i].match = true;
        return;
    case SPLIT_MERGED_WITH_PREVIOUS:
    case SPLIT_CONTIGUOUS:
        for (size_t i = from; i < s->n; i++) {
            struct span x = s->p[i];
            bool join = behavior == SPLIT_CONTIGUOUS ? x.match == before : x.match && !before;
            if (join && n > from)
                s->p[n - 1].to = x.to;
            else
                s->p[n++] = (struct span){x.from, x.to, true};
            before = x.match;
        }
        s->n = n;
        return;
    case SPLIT_MERGED_WITH_NEXT:
        n = s->n;
        for (size_t i = s->n; i-- > from;) {
            struct span x = s->p[i];
            if (x.match && !before && n < s->n)
                s->p[n].from = x.from;
            else
                s->p[--n] = (struct span){x.from, x.to, true};
            before = x.match;
        }
        for (size_t i = n; i < s->n; i++) s->p[from + i - n] = s->p[i];
        s->n -= n - from;
        return;
    }
}

// Cuts one piece: appends spans relative to text, to keep or to drop.
static bool cut(const struct pre_step *s, struct sv text, struct spans *out, struct error *e) {
    size_t from = out->n;
    switch (s->kind) {
    case PRE_WHITESPACE: return word_spans(text, out), true;
    case PRE_FIXED_LENGTH: return fixed_spans(s->length, text, out), true;
    case PRE_BERT: return bert_spans(text, out), true;
    case PRE_SCRIPTS: return script_spans(text, out), true;
    case PRE_BYTE_LEVEL:
    case PRE_METASPACE:
        if (!s->split) return spans_add(out, 0, text.n, true), true;
        if (!pattern_spans(&s->pattern, text, out, e)) return false;
        behave(out, from, s->kind == PRE_METASPACE ? SPLIT_MERGED_WITH_NEXT : SPLIT_ISOLATED);
        return true;
    case PRE_SPLIT:
        if (!pattern_spans(&s->pattern, text, out, e)) return false;
        for (size_t i = from; s->invert && i < out->n; i++) out->p[i].match = !out->p[i].match;
        break;
    case PRE_DIGITS:
    case PRE_WHITESPACE_SPLIT:
    case PRE_PUNCTUATION:
    case PRE_CHAR_DELIMITER: char_spans(s, text, out); break;
    }
    behave(out, from, s->behavior);
    return true;
}

// The text of a piece as Metaspace wants it: its replacement for every space, and one before.
static void metaspace(const struct pre_step *s, struct sv text, bool first, struct str *out) {
    struct sv mark = str_sv(&s->pattern.literal);
    bool want = s->prepend == PREPEND_ALWAYS || (s->prepend == PREPEND_FIRST && first);
    if (want && !sv_starts(text, mark) && text.p[0] != ' ') str_add(out, mark);
    for (size_t i = 0, at = 0; i <= text.n; i++)
        if (i == text.n || text.p[i] == ' ') {
            str_add(out, sv_cut(text, at, i));
            if (i < text.n) str_add(out, mark);
            at = i + 1;
        }
}

// Adds the pieces that a step makes of one piece of `in` to `out`. *first: the piece begins the
// input; false afterwards when that beginning is dropped.
static bool step_piece(const struct pre_step *s, struct sv piece, bool *first, struct pieces *out,
                       struct str *changed, struct error *e) {
    str_clear(changed);
    if (s->kind == PRE_METASPACE) {
        metaspace(s, piece, *first, changed);
        piece = str_sv(changed);
    } else if (s->kind == PRE_BYTE_LEVEL && s->prepend == PREPEND_ALWAYS && piece.p[0] != ' ') {
        str_addc(changed, ' ');
        str_add(changed, piece);
        piece = str_sv(changed);
    }
    size_t before = out->spans.n, kept = before, at = out->text.n;
    if (!cut(s, piece, &out->spans, e)) return false;
    if (s->kind != PRE_BYTE_LEVEL) str_add(&out->text, piece);
    for (size_t i = before; i < out->spans.n; i++) {
        struct span x = out->spans.p[i];
        if (!x.match || x.from == x.to) continue;
        if (kept == before && x.from) *first = false;
        if (s->kind == PRE_BYTE_LEVEL) {
            size_t start = out->text.n;
            bytes_encode(&out->text, sv_cut(piece, x.from, x.to));
            out->spans.p[kept++] = (struct span){start, out->text.n, true};
        } else {
            out->spans.p[kept++] = (struct span){at + x.from, at + x.to, true};
        }
    }
    if (kept == before) *first = false;
    out->spans.n = kept;
    return true;
}

bool pre_run(const struct pretokenizer *t, struct sv text, bool first, struct pieces *out,
             struct pieces *spare, struct error *e) {
    str_clear(&out->text);
    out->spans.n = 0;
    str_add(&out->text, text);
    spans_add(&out->spans, 0, text.n, true);
    struct str changed = {0};
    bool ok = true;
    for (size_t k = 0; k < t->n && ok; k++) {
        str_clear(&spare->text);
        spare->spans.n = 0;
        for (size_t i = 0; i < out->spans.n && ok; i++) {
            struct span x = out->spans.p[i];
            bool begins = first && i == 0;
            ok = step_piece(&t->step[k], sv_cut(str_sv(&out->text), x.from, x.to), &begins, spare,
                            &changed, e);
            if (i == 0) first = begins;
        }
        struct pieces swap = *out;
        *out = *spare;
        *spare = swap;
        if (ok && out->text.n > TEXT_LIMIT)
            ok = fail(e, "pre-tokenized text is over %d bytes", TEXT_LIMIT);
    }
    str_free(&changed);
    return ok;
}
