#include "tokenizer/decoder.h"

#include <stdlib.h>

#include "base/mem.h"
#include "tokenizer/bytes.h"
#include "tokenizer/fields.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/unicode.h"

enum { STEPS_LIMIT = 64 }; // feed() calls itself once a step

static struct decode_step *add_step(struct decoder *d, enum decode_kind kind) {
    d->step = mem_grow(d->step, &d->cap, d->n + 1, sizeof *d->step);
    struct decode_step *s = &d->step[d->n++];
    *s = (struct decode_step){.kind = kind};
    return s;
}

static bool read_strip(struct decode_step *s, struct json_object *j, struct error *e) {
    int32_t c;
    if (!field_char(j, "content", "", &c, e) ||
        !field_int(j, "start", 0, INT32_MAX, &s->start, e) ||
        !field_int(j, "stop", 0, INT32_MAX, &s->stop, e))
        return false;
    unicode_add(&s->text, c);
    return true;
}

static bool read_replace(struct decode_step *s, struct json_object *j, struct error *e) {
    struct sv text;
    if (!pattern_read(&s->pattern, json_at(j, "pattern"), e) || !field_text(j, "content", &text, e))
        return false;
    str_add(&s->text, text);
    return true;
}

static bool read_metaspace(struct decode_step *s, struct json_object *j, struct error *e) {
    enum prepend_scheme prepend;
    int32_t c;
    if (!field_char(j, "replacement", "\xe2\x96\x81", &c, e) || !prepend_read(j, &prepend, e))
        return false;
    s->first = prepend != PREPEND_NEVER;
    unicode_add(&s->text, c);
    return true;
}

static bool read_wordpiece(struct decode_step *s, struct json_object *j, struct error *e) {
    struct sv prefix = sv("##");
    if (json_at(j, "prefix") && !field_text(j, "prefix", &prefix, e)) return false;
    str_add(&s->text, prefix);
    return field_bool(j, "cleanup", true, &s->cleanup, e);
}

static bool read_bpe(struct decode_step *s, struct json_object *j, struct error *e) {
    struct sv suffix = sv("</w>");
    if (json_at(j, "suffix") && !field_text(j, "suffix", &suffix, e)) return false;
    str_add(&s->text, suffix);
    return suffix.n || fail(e, "key \"suffix\" is empty (it ends a word)");
}

static bool read_ctc(struct decode_step *s, struct json_object *j, struct error *e) {
    struct sv pad = sv("<pad>"), between = sv("|");
    if ((json_at(j, "pad_token") && !field_text(j, "pad_token", &pad, e)) ||
        (json_at(j, "word_delimiter_token") && !field_text(j, "word_delimiter_token", &between, e)))
        return false;
    str_add(&s->pad, pad);
    str_add(&s->text, between);
    return field_bool(j, "cleanup", true, &s->cleanup, e);
}

static bool read_any(struct decoder *d, struct json_object *j, struct error *e) {
    struct sv type;
    if (!field_type(j, &type, e)) return false;
    if (d->n == STEPS_LIMIT) return fail(e, "more than %d decoders in a row", STEPS_LIMIT);
    if (sv_is(type, "ByteLevel")) return add_step(d, DECODE_BYTE_LEVEL), true;
    if (sv_is(type, "ByteFallback")) return add_step(d, DECODE_BYTE_FALLBACK), true;
    if (sv_is(type, "Fuse")) return add_step(d, DECODE_FUSE), true;
    if (sv_is(type, "Strip")) return read_strip(add_step(d, DECODE_STRIP), j, e);
    if (sv_is(type, "Replace")) return read_replace(add_step(d, DECODE_REPLACE), j, e);
    if (sv_is(type, "Metaspace")) return read_metaspace(add_step(d, DECODE_METASPACE), j, e);
    if (sv_is(type, "WordPiece")) return read_wordpiece(add_step(d, DECODE_WORDPIECE), j, e);
    if (sv_is(type, "BPEDecoder")) return read_bpe(add_step(d, DECODE_BPE), j, e);
    if (sv_is(type, "CTC")) return read_ctc(add_step(d, DECODE_CTC), j, e);
    if (!sv_is(type, "Sequence"))
        return fail(e, "type \"%.*s\" is not supported", (int)type.n, type.p);
    struct json_object *list = field_array(j, "decoders", e);
    if (!list) return false;
    for (size_t i = 0; i < json_object_array_length(list); i++)
        if (!read_any(d, json_object_array_get_idx(list, i), e))
            return fail_in(e, "decoders[%zu]", i);
    return true;
}

bool decode_read(struct decoder *d, struct json_object *j, struct error *e) {
    unicode_init();
    if (!j) return add_step(d, DECODE_JOIN), true;
    return read_any(d, j, e) || fail_in(e, "decoder");
}

void decode_spm(struct decoder *d, const struct spm *spm) {
    struct decode_step *s = add_step(d, DECODE_SPM);
    s->first = spm->prefix || spm->trim;
    s->all = spm->trim;
    s->bytes = spm->byte_fallback;
    str_puts(&s->text, "\xe2\x96\x81");
}

void decode_free(struct decoder *d) {
    for (size_t i = 0; i < d->n; i++) {
        pattern_free(&d->step[i].pattern);
        str_free(&d->step[i].text);
        str_free(&d->step[i].pad);
    }
    free(d->step);
    *d = (struct decoder){0};
}

void decode_open(struct decode_stream *s, const struct decoder *d, bool eager) {
    *s = (struct decode_stream){.d = d, .state = mem_array(d->n, sizeof *s->state), .eager = eager};
}

void decode_close(struct decode_stream *s) {
    for (size_t i = 0; i < s->d->n; i++) {
        str_free(&s->state[i].held);
        str_free(&s->state[i].token);
    }
    free(s->state);
    *s = (struct decode_stream){0};
}

// Some text of a token on its way: all of it, or after a step that makes one token of all (Fuse,
// ByteLevel) what is known by now. It holds whole characters only.
struct part {
    struct sv text;
    bool begin, end;
};

static void feed(struct decode_stream *s, size_t k, struct part p);

static void pass(struct decode_stream *s, size_t k, struct sv text, bool begin, bool end) {
    if (text.n || begin || end) feed(s, k + 1, (struct part){text, begin, end});
}

// The first n held bytes go on; the rest stays.
static void pass_held(struct decode_stream *s, size_t k, size_t n, bool begin, bool end) {
    struct str *held = &s->state[k].held;
    struct str go = *held;
    *held = (struct str){0};
    str_add(held, sv_cut(str_sv(&go), n, go.n));
    pass(s, k, sv_cut(str_sv(&go), 0, n), begin, end);
    str_free(&go);
}

// Everything that comes becomes one token, which ends with the stream.
static void pass_fused(struct decode_stream *s, size_t k, struct sv text, bool end) {
    bool begin = !s->state[k].begun;
    if (!text.n && !end) return;
    s->state[k].begun = true;
    pass(s, k, text, begin, end);
}

static void byte_level(struct decode_stream *s, size_t k, bool more) {
    struct str text = {0}, *held = &s->state[k].held;
    size_t used = unicode_lossy(&text, str_sv(held), more);
    struct str rest = {0};
    str_add(&rest, sv_cut(str_sv(held), used, held->n));
    str_free(held);
    *held = rest;
    pass_fused(s, k, str_sv(&text), !more);
    str_free(&text);
}

// The whole characters of a run of byte tokens that is good so far go on as a token that grows.
static void send_run(struct decode_stream *s, size_t k) {
    struct decode_state *state = &s->state[k];
    size_t n = state->held.n - utf8_partial(str_sv(&state->held));
    if (!n || !utf8_valid(sv_cut(str_sv(&state->held), 0, n))) return;
    bool begin = !state->begun;
    state->begun = true;
    pass_held(s, k, n, begin, false);
}

// A run of byte tokens has ended: what has not gone on is text if all of it is UTF-8, else each
// byte is an error.
static void end_run(struct decode_stream *s, size_t k) {
    struct str run = s->state[k].held;
    bool begun = s->state[k].begun, good = utf8_valid(str_sv(&run));
    s->state[k].held = (struct str){0};
    s->state[k].begun = false;
    if (begun || (good && run.n)) pass(s, k, good ? str_sv(&run) : sv(""), !begun, true);
    for (size_t i = 0; !good && i < run.n; i++) pass(s, k, sv("\xef\xbf\xbd"), true, true);
    str_free(&run);
}

// The byte of a token <0xXX>, -1: it isn't one.
static int byte_of_token(struct sv t) {
    if (t.n != 6 || !sv_starts(t, sv("<0x")) || t.p[5] != '>') return -1;
    int high = hex_digit(t.p[3]), low = hex_digit(t.p[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

static void byte_fallback(struct decode_stream *s, size_t k, struct sv t) {
    int byte = byte_of_token(t);
    if (byte >= 0) {
        str_addc(&s->state[k].held, (char)byte);
        if (s->eager) send_run(s, k);
        return;
    }
    end_run(s, k);
    pass(s, k, t, true, true);
}

static void replace_all(struct str *text, struct sv from, struct sv to) {
    struct str made = {0};
    size_t done = 0;
    if (!from.n) return;
    for (ptrdiff_t at; (at = sv_find(str_sv(text), from, done)) >= 0; done = (size_t)at + from.n) {
        str_add(&made, sv_cut(str_sv(text), done, (size_t)at));
        str_add(&made, to);
    }
    if (done) {
        str_add(&made, sv_cut(str_sv(text), done, text->n));
        str_free(text);
        *text = made;
    }
}

// SentencePiece makes an error of each byte by itself that is part of no character.
static void spm_bytes(struct decode_stream *s, size_t k, bool more) {
    struct str *held = &s->state[k].held, made = {0};
    size_t i = 0, len;
    for (; i < held->n; i += len) {
        struct sv rest = sv_cut(str_sv(held), i, held->n);
        bool good = utf8_decode(rest, 0, &len) >= 0;
        if (!good && more && utf8_partial(rest) == rest.n) break;
        str_add(&made, good ? sv_cut(rest, 0, len) : sv("\xef\xbf\xbd"));
    }
    struct str rest = {0};
    str_add(&rest, sv_cut(str_sv(held), i, held->n));
    str_free(held);
    *held = rest;
    s->state[k].begun |= made.n > 0;
    pass(s, k, str_sv(&made), true, true);
    str_free(&made);
}

static void spm(struct decode_stream *s, size_t k, struct sv t) {
    const struct decode_step *step = &s->d->step[k];
    struct decode_state *state = &s->state[k];
    int byte = step->bytes ? byte_of_token(t) : -1;
    if (byte >= 0) {
        str_addc(&state->held, (char)byte);
        spm_bytes(s, k, true);
        return;
    }
    spm_bytes(s, k, false);
    struct sv mark = str_sv(&step->text);
    bool marked = step->first && !state->begun && sv_starts(t, mark);
    struct str made = {0};
    str_add(&made, sv_cut(t, marked ? mark.n : 0, t.n));
    replace_all(&made, mark, sv(" "));
    state->begun |= made.n > 0 || (marked && !step->all);
    pass(s, k, str_sv(&made), true, true);
    str_free(&made);
}

static void strip(struct decode_stream *s, size_t k, struct part p) {
    const struct decode_step *step = &s->d->step[k];
    struct decode_state *state = &s->state[k];
    struct sv c = str_sv(&step->text);
    if (p.begin) state->stripped = 0;
    while (state->stripped >= 0 && p.text.n) {
        bool take = state->stripped < step->start && sv_starts(p.text, c);
        if (take) p.text = sv_cut(p.text, c.n, p.text.n);
        state->stripped = take ? state->stripped + 1 : -1;
    }
    // What may still turn out to be the token's end waits.
    str_add(&state->held, p.text);
    size_t keep = state->held.n;
    for (int64_t i = 0; i < step->stop && sv_ends(sv_cut(str_sv(&state->held), 0, keep), c); i++)
        keep -= c.n;
    if (p.end) {
        state->held.n = keep;
        pass_held(s, k, keep, p.begin, true);
    } else {
        pass_held(s, k, keep, p.begin, false);
    }
}

// The longest end of text that more text could make a match of.
static size_t half_match(struct sv text, struct sv literal) {
    size_t n = literal.n ? literal.n - 1 : 0;
    if (n > text.n) n = text.n;
    while (n && !sv_eq(sv_cut(text, text.n - n, text.n), sv_cut(literal, 0, n))) n--;
    return n;
}

static void replace(struct decode_stream *s, size_t k, struct part p) {
    const struct decode_step *step = &s->d->step[k];
    struct str *held = &s->state[k].held, made = {0};
    str_add(held, p.text);
    size_t ready = held->n;
    if (!p.end) { // a literal: what may go on as a match waits
        struct sv what = str_sv(&step->pattern.literal), text = str_sv(held);
        size_t done = 0; // behind the last whole match
        for (ptrdiff_t at; (at = sv_find(text, what, done)) >= 0;) done = (size_t)at + what.n;
        ready -= half_match(sv_cut(text, done, text.n), what);
    }
    struct error e = {0}; // a pattern that takes too long leaves the text as it is
    struct sv from = sv_cut(str_sv(held), 0, ready);
    if (!pattern_replace(&step->pattern, from, str_sv(&step->text), &made, &e)) {
        str_clear(&made);
        str_add(&made, from);
    }
    struct str rest = {0};
    str_add(&rest, sv_cut(str_sv(held), ready, held->n));
    str_free(held);
    *held = rest;
    pass(s, k, str_sv(&made), p.begin, p.end);
    str_free(&made);
}

static void metaspace(struct decode_stream *s, size_t k, struct part p) {
    const struct decode_step *step = &s->d->step[k];
    struct sv mark = str_sv(&step->text);
    struct str made = {0};
    for (size_t i = 0, at = 0; i < p.text.n; at = i) {
        unicode_next(p.text, &i);
        struct sv c = sv_cut(p.text, at, i);
        if (!sv_eq(c, mark))
            str_add(&made, c);
        else if (s->state[k].tokens || !step->first)
            str_addc(&made, ' ');
    }
    pass(s, k, str_sv(&made), p.begin, p.end);
    str_free(&made);
}

// The spaces that English text doesn't have.
static void clean_up(struct str *text) {
    static const char *const pairs[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        replace_all(text, sv(pairs[i][0]), sv(pairs[i][1]));
}

// A token that begins a word gets a space before it, unless it is the first.
static void wordpiece(struct decode_stream *s, size_t k, struct sv token) {
    const struct decode_step *step = &s->d->step[k];
    struct str made = {0};
    if (s->state[k].tokens) {
        if (sv_starts(token, str_sv(&step->text)))
            token = sv_cut(token, step->text.n, token.n);
        else
            str_addc(&made, ' ');
    }
    str_add(&made, token);
    if (step->cleanup) clean_up(&made);
    pass(s, k, str_sv(&made), true, true);
    str_free(&made);
}

// The suffix is a space, but at the very end nothing: what begins with the first one waits for the
// next token.
static void end_word(struct decode_stream *s, size_t k, const char *suffix) {
    struct decode_state *state = &s->state[k];
    if (!state->begun) return;
    struct str rest = state->held;
    state->held = (struct str){0};
    state->begun = false;
    replace_all(&rest, str_sv(&s->d->step[k].text), sv(suffix));
    pass(s, k, str_sv(&rest), false, true);
    str_free(&rest);
}

static void bpe(struct decode_stream *s, size_t k, struct sv token) {
    ptrdiff_t at = sv_find(token, str_sv(&s->d->step[k].text), 0);
    size_t ready = at < 0 ? token.n : (size_t)at;
    end_word(s, k, " ");
    s->state[k].begun = true;
    str_add(&s->state[k].held, sv_cut(token, ready, token.n));
    pass(s, k, sv_cut(token, 0, ready), true, false);
}

// One token a time step: repetitions and padding mean nothing.
static void ctc(struct decode_stream *s, size_t k, struct sv token) {
    const struct decode_step *step = &s->d->step[k];
    struct decode_state *state = &s->state[k];
    if (state->begun && sv_eq(token, str_sv(&state->held))) return;
    state->begun = true;
    str_clear(&state->held);
    str_add(&state->held, token);
    struct str made = {0};
    str_add(&made, token);
    replace_all(&made, str_sv(&step->pad), sv(""));
    if (step->cleanup) {
        clean_up(&made);
        replace_all(&made, str_sv(&step->text), sv(" "));
    }
    if (made.n) pass(s, k, str_sv(&made), true, true);
    str_free(&made);
}

// Whether a step can only take tokens whole.
static bool wants_whole(const struct decode_step *step) {
    if (step->kind == DECODE_REPLACE)
        return step->pattern.re || step->pattern.scan != SCAN_NONE || !step->pattern.literal.n;
    return step->kind == DECODE_BYTE_LEVEL || step->kind == DECODE_BYTE_FALLBACK ||
           step->kind == DECODE_WORDPIECE || step->kind == DECODE_BPE || step->kind == DECODE_CTC ||
           step->kind == DECODE_SPM;
}

static void run_step(struct decode_stream *s, size_t k, struct part p) {
    struct decode_state *state = &s->state[k];
    switch (s->d->step[k].kind) {
    case DECODE_JOIN:
        if (p.begin && state->tokens) pass(s, k, sv(" "), true, false);
        pass(s, k, p.text, p.begin, p.end);
        break;
    case DECODE_BYTE_LEVEL:
        if (!bytes_decode(&state->held, p.text)) str_add(&state->held, p.text);
        byte_level(s, k, true);
        break;
    case DECODE_BYTE_FALLBACK: byte_fallback(s, k, p.text); break;
    case DECODE_FUSE: pass_fused(s, k, p.text, false); break;
    case DECODE_STRIP: strip(s, k, p); break;
    case DECODE_REPLACE: replace(s, k, p); break;
    case DECODE_METASPACE: metaspace(s, k, p); break;
    case DECODE_WORDPIECE: wordpiece(s, k, p.text); break;
    case DECODE_BPE: bpe(s, k, p.text); break;
    case DECODE_CTC: ctc(s, k, p.text); break;
    case DECODE_SPM: spm(s, k, p.text); break;
    }
    state->tokens += p.end;
}

static void feed(struct decode_stream *s, size_t k, struct part p) {
    if (k == s->d->n) {
        str_add(s->out, p.text);
        return;
    }
    struct str *token = &s->state[k].token;
    if ((p.begin && p.end) || !wants_whole(&s->d->step[k])) {
        run_step(s, k, p);
        return;
    }
    str_add(token, p.text);
    if (!p.end) return;
    run_step(s, k, (struct part){str_sv(token), true, true});
    str_clear(token);
}

void decode_push(struct decode_stream *s, struct sv token, struct str *out) {
    s->out = out;
    feed(s, 0, (struct part){token, true, true});
}

void decode_finish(struct decode_stream *s, struct str *out) {
    s->out = out;
    for (size_t k = 0; k < s->d->n; k++) {
        enum decode_kind kind = s->d->step[k].kind;
        if (kind == DECODE_BYTE_LEVEL) byte_level(s, k, false);
        if (kind == DECODE_FUSE) pass_fused(s, k, sv(""), true);
        if (kind == DECODE_BYTE_FALLBACK) end_run(s, k);
        if (kind == DECODE_SPM) spm_bytes(s, k, false);
        if (kind == DECODE_BPE) end_word(s, k, "");
    }
}
