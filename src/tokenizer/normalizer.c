#include "tokenizer/normalizer.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/base64.h"
#include "base/mem.h"
#include "tokenizer/bytes.h"
#include "tokenizer/fields.h"
#include "tokenizer/unicode.h"

enum {
    TEXT_LIMIT = 1 << 30, // bytes: steps in a row may multiply
    MOST_DECOMPOSED = 18, // code points from one, by Unicode's promise
};

static bool read_precompiled(struct norm_step *s, struct json_object *j, struct error *e) {
    struct sv text;
    struct str blob = {0};
    bool ok = field_text_or(j, "precompiled_charsmap", &text, e);
    if (ok && !base64_decode(&blob, text))
        ok = fail(e, "key \"precompiled_charsmap\" is not base64");
    ok = ok && charsmap_read(&s->map, str_sv(&blob), e);
    str_free(&blob);
    return ok;
}

static bool read_bert(struct norm_step *s, struct json_object *j, struct error *e) {
    return field_bool(j, "clean_text", true, &s->clean, e) &&
           field_bool(j, "handle_chinese_chars", true, &s->chinese, e) &&
           field_bool(j, "lowercase", true, &s->lower, e) &&
           field_bool(j, "strip_accents", s->lower, &s->accents, e);
}

static bool read_step(struct normalizer *z, struct json_object *j, struct error *e) {
    static const struct {
        const char *name;
        enum norm_kind kind;
    } kinds[] = {
        {"NFC", NORM_NFC},
        {"NFD", NORM_NFD},
        {"NFKC", NORM_NFKC},
        {"NFKD", NORM_NFKD},
        {"Strip", NORM_STRIP},
        {"StripAccents", NORM_STRIP_ACCENTS},
        {"Replace", NORM_REPLACE},
        {"Lowercase", NORM_LOWERCASE},
        {"Prepend", NORM_PREPEND},
        {"ByteLevel", NORM_BYTE_LEVEL},
        {"Nmt", NORM_NMT},
        {"Precompiled", NORM_PRECOMPILED},
        {"BertNormalizer", NORM_BERT},
    };
    struct sv type, text;
    if (!field_type(j, &type, e)) return false;
    size_t k = 0, known = sizeof kinds / sizeof *kinds;
    while (k < known && !sv_is(type, kinds[k].name)) k++;
    if (k == known) return fail(e, "type \"%.*s\" is not supported", (int)type.n, type.p);

    z->step = mem_grow(z->step, &z->cap, z->n + 1, sizeof *z->step);
    struct norm_step *s = &z->step[z->n++];
    *s = (struct norm_step){.kind = kinds[k].kind};
    switch (s->kind) {
    case NORM_STRIP:
        return field_bool(j, "strip_left", true, &s->left, e) &&
               field_bool(j, "strip_right", true, &s->right, e);
    case NORM_REPLACE:
        if (!pattern_read(&s->pattern, json_at(j, "pattern"), e) ||
            !field_text(j, "content", &text, e))
            return false;
        str_add(&s->text, text);
        return true;
    case NORM_PREPEND:
        if (!field_text(j, "prepend", &text, e)) return false;
        str_add(&s->text, text);
        return true;
    case NORM_PRECOMPILED: return read_precompiled(s, j, e);
    case NORM_BERT: return read_bert(s, j, e);
    default: return true;
    }
}

static bool read_any(struct normalizer *z, struct json_object *j, struct error *e) {
    if (!sv_is(json_text_at(j, "type"), "Sequence")) return read_step(z, j, e);
    struct json_object *list = field_array(j, "normalizers", e);
    if (!list) return false;
    for (size_t i = 0; i < json_object_array_length(list); i++)
        if (!read_any(z, json_object_array_get_idx(list, i), e))
            return fail_in(e, "normalizers[%zu]", i);
    return true;
}

bool norm_read(struct normalizer *z, struct json_object *j, struct error *e) {
    return !j || read_any(z, j, e) || fail_in(e, "normalizer");
}

void norm_spm(struct normalizer *z, const struct spm *spm) {
    z->step = mem_grow(z->step, &z->cap, z->n + 1, sizeof *z->step);
    z->step[z->n++] = (struct norm_step){.kind = NORM_SPM, .spm = spm};
}

void norm_free(struct normalizer *z) {
    for (size_t i = 0; i < z->n; i++) {
        pattern_free(&z->step[i].pattern);
        str_free(&z->step[i].text);
        charsmap_free(&z->step[i].map);
    }
    free(z->step);
    *z = (struct normalizer){0};
}

struct points {
    int32_t *p;
    size_t n, cap;
};

static int combining_class(int32_t cp) {
    int ccc = utf8proc_get_property(cp)->combining_class & 0xff;
    return ccc && unicode_known(cp) ? ccc : 0;
}

// Puts p[0..n), marks with a class, into the canonical order: by class, stable. utf8proc sorts them
// by exchanging neighbours, which a long run of marks makes quadratic; this counts.
static void order_run(int32_t *p, size_t n) {
    size_t count[256] = {0}, at = 0;
    int32_t *sorted = mem_array(n, sizeof *sorted);
    for (size_t i = 0; i < n; i++) count[combining_class(p[i])]++;
    for (int c = 0; c < 256; c++) {
        size_t here = count[c];
        count[c] = at;
        at += here;
    }
    for (size_t i = 0; i < n; i++) sorted[count[combining_class(p[i])]++] = p[i];
    memcpy(p, sorted, n * sizeof *p);
    free(sorted);
}

static void order_marks(struct points *p) {
    for (size_t i = 0, end; i < p->n; i = end + 1) {
        for (end = i; end < p->n && combining_class(p->p[end]);) end++;
        if (end - i > 1) order_run(p->p + i, end - i);
    }
}

// Composes what is decomposed and in order. utf8proc must not see what the reference doesn't know,
// nor U+11A7, which it takes for a Hangul final consonant: those begin a stretch of their own.
static void compose_all(struct points *p) {
    size_t kept = 0;
    for (size_t i = 0, end; i < p->n; i = end) {
        for (end = i + 1; end < p->n && p->p[end] != 0x11a7 && unicode_known(p->p[end]);) end++;
        utf8proc_ssize_t n =
            utf8proc_normalize_utf32(p->p + i, (utf8proc_ssize_t)(end - i),
                                     (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
        size_t made = n >= 0 ? (size_t)n : end - i;
        memmove(p->p + kept, p->p + i, made * sizeof *p->p);
        kept += made;
    }
    p->n = kept;
}

static void decompose(int32_t cp, bool compat, struct points *p) {
    int how = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0), boundary = 0;
    int32_t made[MOST_DECOMPOSED];
    utf8proc_ssize_t n = -1;
    if (unicode_known(cp))
        n = utf8proc_decompose_char(cp, made, MOST_DECOMPOSED, (utf8proc_option_t)how, &boundary);
    if (n < 0) made[0] = cp, n = 1;
    p->p = mem_grow(p->p, &p->cap, p->n + (size_t)n, sizeof *p->p);
    memcpy(p->p + p->n, made, (size_t)n * sizeof *made);
    p->n += (size_t)n;
}

// One of the four Unicode forms: decompose, order the marks, and perhaps compose.
static void unicode_form(struct sv in, bool compat, bool compose, struct str *out) {
    struct points p = {0};
    for (size_t i = 0; i < in.n;) decompose(unicode_next(in, &i), compat, &p);
    order_marks(&p);
    if (compose) compose_all(&p);
    for (size_t i = 0; i < p.n; i++) unicode_add(out, p.p[i]);
    free(p.p);
}

static bool ascii(struct sv s) {
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] >= 0x80) return false;
    return true;
}

static void lowercase(struct sv in, struct str *out) {
    for (size_t i = 0; i < in.n;) {
        int32_t cp = unicode_next(in, &i);
        if (cp == 0x130) // the one character whose lower case is two
            str_puts(out, "i\xcc\x87");
        else
            unicode_add(out, unicode_tolower(cp));
    }
}

static void strip_accents(struct sv in, struct str *out) {
    for (size_t i = 0; i < in.n;) {
        int32_t cp = unicode_next(in, &i);
        if (!unicode_mark(cp)) unicode_add(out, cp);
    }
}

// What neural machine translation drops, and what it takes for a space.
static void nmt(struct sv in, struct str *out) {
    for (size_t i = 0; i < in.n;) {
        int32_t c = unicode_next(in, &i);
        if ((c >= 0x01 && c <= 0x08) || c == 0x0b || (c >= 0x0e && c <= 0x1f) || c == 0x7f ||
            c == 0x8f || c == 0x9f)
            continue;
        bool space = c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 ||
                     (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xfeff || c == 0xfffd;
        unicode_add(out, space ? ' ' : c);
    }
}

// The ranges of BERT's own code, with a gap in its fifth extension.
static bool chinese(int32_t c) {
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b81f) ||
           (c >= 0x2b920 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) ||
           (c >= 0x2f800 && c <= 0x2fa1f);
}

static void bert_clean(const struct norm_step *s, struct sv in, struct str *out) {
    for (size_t i = 0; i < in.n;) {
        int32_t c = unicode_next(in, &i);
        if (s->clean) {
            bool control = c != '\t' && c != '\n' && c != '\r' && unicode_bert_control(c);
            if (control || c == 0xfffd) continue;
            if (unicode_space(c)) c = ' ';
        }
        bool pad = s->chinese && chinese(c);
        if (pad) str_addc(out, ' ');
        unicode_add(out, c);
        if (pad) str_addc(out, ' ');
    }
}

static void bert(const struct norm_step *s, struct sv in, struct str *out) {
    struct str a = {0}, b = {0};
    bert_clean(s, in, &a);
    if (s->accents) {
        unicode_form(str_sv(&a), false, false, &b);
        str_clear(&a);
        for (size_t i = 0; i < b.n;) {
            int32_t c = unicode_next(str_sv(&b), &i);
            if (!unicode_bert_mark(c)) unicode_add(&a, c);
        }
    }
    if (s->lower)
        lowercase(str_sv(&a), out);
    else
        str_add(out, str_sv(&a));
    str_free(&a);
    str_free(&b);
}

static struct sv strip(struct sv s, bool left, bool right) {
    for (size_t i = 0; left && s.n && unicode_space(unicode_next(s, &i)); i = 0)
        s = sv_cut(s, i, s.n);
    for (size_t at; right && s.n && unicode_space(unicode_before(s, s.n, &at));)
        s = sv_cut(s, 0, at);
    return s;
}

static bool run_step(const struct norm_step *s, struct sv in, bool first, struct str *out,
                     struct error *e) {
    switch (s->kind) {
    case NORM_NFC:
    case NORM_NFD:
    case NORM_NFKC:
    case NORM_NFKD:
        if (ascii(in))
            str_add(out, in);
        else
            unicode_form(in, s->kind == NORM_NFKC || s->kind == NORM_NFKD,
                         s->kind == NORM_NFC || s->kind == NORM_NFKC, out);
        return true;
    case NORM_LOWERCASE: return lowercase(in, out), true;
    case NORM_STRIP_ACCENTS: return strip_accents(in, out), true;
    case NORM_STRIP: return str_add(out, strip(in, s->left, s->right)), true;
    case NORM_REPLACE: return pattern_replace(&s->pattern, in, str_sv(&s->text), out, e);
    case NORM_PREPEND:
        if (in.n) str_add(out, str_sv(&s->text));
        str_add(out, in);
        return true;
    case NORM_BYTE_LEVEL: return bytes_encode(out, in), true;
    case NORM_NMT: return nmt(in, out), true;
    case NORM_PRECOMPILED: return charsmap_run(&s->map, in, out), true;
    case NORM_BERT: return bert(s, in, out), true;
    case NORM_SPM: return spm_normalize(s->spm, in, first, out), true;
    }
    return true;
}

bool norm_run(const struct normalizer *z, struct sv in, bool first, struct str *out,
              struct error *e) {
    struct str step = {0};
    str_clear(out);
    bool ok = true;
    if (!z->n) str_add(out, in);
    for (size_t i = 0; i < z->n && ok; i++) {
        str_clear(&step);
        ok = run_step(&z->step[i], i ? str_sv(out) : in, first, &step, e);
        struct str swap = *out;
        *out = step;
        step = swap;
        if (ok && out->n > TEXT_LIMIT) ok = fail(e, "normalized text is over %d bytes", TEXT_LIMIT);
    }
    str_free(&step);
    return ok;
}
