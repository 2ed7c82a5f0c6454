#include "tokenizer/sentencepiece.h"

#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/mem.h"
#include "tokenizer/unicode.h"

// --- the file ------------------------------------------------------------------------------------

struct proto {
    struct sv in;
    size_t at;
};

// One field of a message: a number, or bytes.
struct field {
    uint64_t number; // the field's, not its value
    uint64_t value;
    struct sv bytes;
    float single;
};

static bool varint(struct proto *p, uint64_t *out) {
    *out = 0;
    for (int shift = 0; shift < 64 && p->at < p->in.n; shift += 7) {
        unsigned char b = (unsigned char)p->in.p[p->at++];
        *out |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) return true;
    }
    return false;
}

static bool take(struct proto *p, uint64_t n, struct sv *out) {
    if (n > p->in.n - p->at) return false;
    *out = sv_n(p->in.p + p->at, (size_t)n);
    p->at += (size_t)n;
    return true;
}

// False at the end of the message, and on what isn't one (e is set).
static bool next_field(struct proto *p, struct field *f, struct error *e) {
    uint64_t tag, n = 0;
    *f = (struct field){0};
    if (p->at == p->in.n || e->set) return false;
    bool ok = varint(p, &tag);
    f->number = tag >> 3;
    switch (ok ? tag & 7 : 7) {
    case 0: ok = varint(p, &f->value); break;
    case 1: ok = take(p, 8, &f->bytes); break;
    case 2: ok = varint(p, &n) && take(p, n, &f->bytes); break;
    case 5:
        ok = take(p, 4, &f->bytes);
        if (ok && f->bytes.p) memcpy(&f->single, f->bytes.p, 4);
        break;
    default: ok = false;
    }
    return ok || fail(e, "not a SentencePiece model: byte %zu is no field (is the file complete?)",
                      p->at);
}

static bool read_piece(struct spm *s, struct vocab *v, struct sv message, struct error *e) {
    struct proto p = {message, 0};
    struct field f;
    struct sv text = {0};
    struct spm_piece piece = {0, SPM_NORMAL};
    size_t id = v->size;
    while (next_field(&p, &f, e)) {
        if (f.number == 1) text = f.bytes;
        if (f.number == 2) piece.score = f.single;
        if (f.number == 3) piece.kind = f.value <= SPM_BYTE ? (enum spm_kind)f.value : 0;
    }
    if (e->set) return false;
    if (!text.n || !utf8_valid(text)) return fail(e, "piece %zu has no text in UTF-8", id);
    if (piece.kind < SPM_NORMAL) return fail(e, "piece %zu is of an unknown kind", id);
    if (piece.score - piece.score != 0) return fail(e, "piece %zu has no finite score", id);
    if (!vocab_add(v, text, (int64_t)id, e)) return false;
    s->piece = mem_grow(s->piece, &s->cap, id + 1, sizeof *s->piece);
    s->piece[id] = piece;
    if (piece.kind == SPM_UNKNOWN && s->unk >= 0) return fail(e, "two pieces are the unknown one");
    if (piece.kind == SPM_UNKNOWN) s->unk = (int32_t)id;
    return piece.kind != SPM_USER || trie_put(&s->user, text, (int32_t)id, e);
}

static bool read_trainer(struct spm *s, struct sv message, struct error *e) {
    struct proto p = {message, 0};
    struct field f;
    uint64_t model = SPM_UNIGRAM;
    while (next_field(&p, &f, e)) {
        if (f.number == 3) model = f.value;
        if (f.number == 24) s->space_last = f.value;
        if (f.number == 35) s->byte_fallback = f.value;
        if (f.number == 44) {
            str_clear(&s->unk_text);
            str_add(&s->unk_text, f.bytes);
        }
    }
    if (e->set) return false;
    if (!utf8_valid(str_sv(&s->unk_text))) return fail(e, "unk_surface is not UTF-8");
    if (model != SPM_UNIGRAM && model != SPM_BPE)
        return fail(e, "model_type %llu is not supported (unigram and BPE are)",
                    (unsigned long long)model);
    s->model = (enum spm_model)model;
    return true;
}

static bool read_normalizer(struct spm *s, struct sv message, struct error *e) {
    struct proto p = {message, 0};
    struct field f;
    struct sv map = {0};
    while (next_field(&p, &f, e)) {
        if (f.number == 2) map = f.bytes;
        if (f.number == 3) s->prefix = f.value;
        if (f.number == 4) s->trim = f.value;
        if (f.number == 5) s->escape = f.value;
    }
    charsmap_free(&s->map);
    return !e->set && charsmap_read(&s->map, map, e);
}

static bool read_denormalizer(struct sv message, struct error *e) {
    struct proto p = {message, 0};
    struct field f;
    while (next_field(&p, &f, e))
        if (f.number == 2 && f.bytes.n) return fail(e, "a denormalizer is not supported");
    return !e->set;
}

bool spm_read(struct spm *s, struct vocab *v, struct sv file, struct error *e) {
    *s =
        (struct spm){.model = SPM_UNIGRAM, .unk = -1, .prefix = true, .trim = true, .escape = true};
    str_puts(&s->unk_text, " \xe2\x81\x87 ");
    unicode_init();
    struct proto p = {file, 0};
    struct field f;
    while (next_field(&p, &f, e)) {
        if (f.number == 1) read_piece(s, v, f.bytes, e);
        if (f.number == 2) read_trainer(s, f.bytes, e);
        if (f.number == 3) read_normalizer(s, f.bytes, e);
        if (f.number == 5) read_denormalizer(f.bytes, e);
    }
    if (e->set) return false;
    if (s->unk < 0) return fail(e, "not a SentencePiece model: no piece is the unknown one");
    return true;
}

void spm_free(struct spm *s) {
    free(s->piece);
    str_free(&s->unk_text);
    charsmap_free(&s->map);
    trie_free(&s->user);
    *s = (struct spm){0};
}

static bool arrange_piece(struct spm *s, struct vocab *v, struct sv text, struct spm_piece piece,
                          struct error *e) {
    size_t id = v->size;
    if (!vocab_append(v, text, e)) return false;
    s->piece = mem_grow(s->piece, &s->cap, id + 1, sizeof *s->piece);
    s->piece[id] = piece;
    if (piece.kind == SPM_UNKNOWN) s->unk = (int32_t)id;
    return true;
}

static bool arrange_words(struct spm *s, struct vocab *v, const struct vocab *old,
                          const struct spm_piece *pieces, const char *words, struct error *e) {
    struct sv word;
    for (size_t i = 0; (word = args_word(words, i)).n; i++) {
        int32_t id = vocab_id(old, word);
        struct spm_piece piece = id < 0 ? (struct spm_piece){0, SPM_CONTROL} : pieces[id];
        if (!arrange_piece(s, v, word, piece, e)) return false;
    }
    return true;
}

bool spm_arrange(struct spm *s, struct vocab *v, const struct spm_layout *layout, struct error *e) {
    struct vocab old = *v;
    struct spm_piece *pieces = s->piece;
    struct sv text;
    if (!*layout->head && !*layout->tail && !layout->skip) return true;
    *v = (struct vocab){0};
    s->piece = NULL;
    s->cap = 0;
    s->unk = -1;
    bool ok = arrange_words(s, v, &old, pieces, layout->head, e);
    for (size_t id = layout->skip; ok && id < old.size; id++)
        ok = !vocab_token(&old, (int32_t)id, &text) || arrange_piece(s, v, text, pieces[id], e);
    ok = ok && arrange_words(s, v, &old, pieces, layout->tail, e);
    vocab_free(&old);
    free(pieces);
    return ok && (s->unk >= 0 || fail(e, "the unknown piece is not where its class has it"));
}

// --- normalization -------------------------------------------------------------------------------

size_t spm_user(const struct spm *s, struct sv text) {
    size_t n = 0;
    int32_t k = 0;
    for (size_t i = 0; s->user.nodes && i < text.n; i++) {
        k = trie_step(&s->user, k, (unsigned char)text.p[i]);
        if (!k) break;
        if (s->user.value[k] >= 0) n = i + 1;
    }
    return n;
}

// What the next part of the text becomes; *n bytes of it are taken.
static struct sv next_part(const struct spm *s, struct sv text, size_t *n) {
    struct sv becomes;
    *n = spm_user(s, text);
    if (*n) return sv_cut(text, 0, *n);
    if (charsmap_find(&s->map, text, true, &becomes, n)) return becomes;
    unicode_next(text, n);
    return sv_cut(text, 0, *n);
}

static void add_space(const struct spm *s, struct str *out) {
    str_puts(out, s->escape ? "\xe2\x96\x81" : " ");
}

void spm_normalize(const struct spm *s, struct sv text, bool first, struct str *out) {
    size_t n, before = out->n;
    bool spaced = s->prefix && (first || s->each);
    while (s->trim && text.n && sv_is(next_part(s, text, &n), " ")) text = sv_cut(text, n, text.n);
    if (!text.n) return;
    if (spaced && !s->space_last) add_space(s, out);
    bool after_space = s->trim;
    for (; text.n; text = sv_cut(text, n, text.n)) {
        struct sv part = next_part(s, text, &n);
        while (after_space && part.n && part.p[0] == ' ') part = sv_cut(part, 1, part.n);
        for (size_t i = 0; i < part.n; i++) {
            if (part.p[i] == ' ')
                add_space(s, out);
            else
                str_addc(out, part.p[i]);
        }
        if (part.n) after_space = s->trim && part.p[part.n - 1] == ' ';
    }
    struct sv space = sv(s->escape ? "\xe2\x96\x81" : " ");
    while (s->trim && out->n > before && sv_ends(sv_cut(str_sv(out), before, out->n), space))
        out->n -= space.n;
    if (spaced && s->space_last) add_space(s, out);
}
