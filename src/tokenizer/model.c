#include "tokenizer/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tokenizer/fields.h"

enum {
    CACHE_SLOTS = 16384,
    CACHE_TEXT = 34,
    CACHE_IDS = 15,
};

// A word and its ids.
struct model_cached {
    uint8_t n, ids; // ids 0: free
    char text[CACHE_TEXT];
    int32_t id[CACHE_IDS];
};

// Files older than the key "type" are known by their members.
static struct sv guess_type(const struct document *d) {
    if (d->merges.n) return sv("BPE");
    if (d->vocab.n && d->vocab.p[0] == '[') return sv("Unigram");
    if (json_at(d->model, "continuing_subword_prefix")) return sv("WordPiece");
    return sv(json_at(d->model, "unk_token") ? "WordLevel" : "");
}

static bool read_kind(struct model *m, const struct document *d, struct error *e) {
    if (!d->model) return fail(e, "is missing (is this a tokenizer.json?)");
    struct sv type;
    if (!field_text_or(d->model, "type", &type, e)) return false;
    if (!type.n) type = guess_type(d);
    if (!type.n) return fail(e, "key \"type\" is missing");
    static const char *const kinds[] = {"BPE", "Unigram", "WordPiece", "WordLevel"};
    int k = 0;
    while (k < 4 && !sv_is(type, kinds[k])) k++;
    if (k == 4)
        return fail(e, "type \"%.*s\" is not supported", type.n < 60 ? (int)type.n : 60, type.p);
    m->kind = (enum model_kind)k;
    if (!d->vocab.n) return fail(e, "key \"vocab\" is missing");
    if (m->kind == MODEL_UNIGRAM)
        return unigram_read(&m->unigram, &m->vocab, d->model, d->vocab, e);
    if (!vocab_read(&m->vocab, d->vocab, e)) return false;
    if (m->kind == MODEL_BPE) return bpe_read(&m->bpe, &m->vocab, d->model, d->merges, e);
    if (m->kind == MODEL_WORDPIECE) return wordpiece_read(&m->wordpiece, &m->vocab, d->model, e);
    return wordlevel_read(&m->wordpiece, &m->vocab, d->model, e);
}

bool model_read(struct model *m, const struct document *d, struct error *e) {
    return read_kind(m, d, e) || fail_in(e, "model");
}

bool model_read_spm(struct model *m, struct sv file, const struct spm_layout *layout,
                    struct error *e) {
    if (!spm_read(&m->spm, &m->vocab, file, e) || !spm_arrange(&m->spm, &m->vocab, layout, e))
        return false;
    m->kind = m->spm.model == SPM_BPE ? MODEL_SPM_BPE : MODEL_UNIGRAM;
    if (m->kind == MODEL_UNIGRAM) return unigram_of_spm(&m->unigram, &m->spm, &m->vocab, e);
    spm_bpe_open(&m->spm_bpe, &m->spm, &m->vocab);
    return true;
}

void model_free(struct model *m) {
    spm_bpe_free(&m->spm_bpe);
    spm_free(&m->spm);
    vocab_free(&m->vocab);
    bpe_free(&m->bpe);
    unigram_free(&m->unigram);
    wordpiece_free(&m->wordpiece);
}

void model_work_open(struct model_work *w, const struct model *m) {
    *w = (struct model_work){0};
    if (m->kind == MODEL_BPE) w->bpe = bpe_work_open();
    w->cache = mem_array(CACHE_SLOTS, sizeof *w->cache);
}

void model_work_close(struct model_work *w) {
    bpe_work_close(w->bpe);
    unigram_work_free(&w->unigram);
    spm_bpe_work_free(&w->spm_bpe);
    free(w->cache);
}

static bool encode(const struct model *m, struct model_work *w, struct sv piece, struct ids *out,
                   struct error *e) {
    switch (m->kind) {
    case MODEL_BPE: return bpe_encode(&m->bpe, &m->vocab, w->bpe, piece, out, e);
    case MODEL_UNIGRAM: return unigram_encode(&m->unigram, &m->vocab, &w->unigram, piece, out, e);
    case MODEL_SPM_BPE: return spm_bpe_encode(&m->spm_bpe, &m->vocab, &w->spm_bpe, piece, out, e);
    case MODEL_WORDPIECE: return wordpiece_encode(&m->wordpiece, piece, out, e);
    case MODEL_WORDLEVEL: return wordlevel_encode(&m->wordpiece, &m->vocab, piece, out, e);
    }
    return false;
}

static bool encode_part(const struct model *m, struct model_work *w, struct sv piece,
                        struct ids *out, struct error *e) {
    if (piece.n > CACHE_TEXT) return encode(m, w, piece, out, e);
    struct model_cached *c = &w->cache[sv_hash(piece) % CACHE_SLOTS];
    if (c->ids && sv_eq(sv_n(c->text, c->n), piece)) return ids_add(out, c->id, c->ids), true;
    size_t before = out->n;
    if (!encode(m, w, piece, out, e)) return false;
    if (out->n == before || out->n - before > CACHE_IDS) return true;
    c->n = (uint8_t)piece.n;
    c->ids = (uint8_t)(out->n - before);
    memcpy(c->text, piece.p, piece.n);
    memcpy(c->id, out->id + before, c->ids * sizeof *c->id);
    return true;
}

bool model_encode(const struct model *m, struct model_work *w, struct sv piece, struct ids *out,
                  struct error *e) {
    for (size_t n; m->kind == MODEL_BPE && (n = bpe_part(&m->bpe, piece)) < piece.n;
         piece = sv_cut(piece, n, piece.n))
        if (!encode_part(m, w, sv_cut(piece, 0, n), out, e)) return false;
    return encode_part(m, w, piece, out, e);
}
