#include "tokenizer/model.h"

#include "tokenizer/fields.h"

static bool read_kind(struct model *m, struct json_object *j, struct error *e) {
    if (!json_object_is_type(j, json_type_object))
        return fail(e, "%s", j ? "not an object" : "is missing (is this a tokenizer.json?)");
    struct sv type;
    if (!field_text_or(j, "type", &type, e)) return false;
    // Files older than the key are known by their members.
    if (!type.n && json_at(j, "merges")) type = sv("BPE");
    if (!type.n) return fail(e, "key \"type\" is missing");
    if (!sv_is(type, "BPE"))
        return fail(e, "type \"%.*s\" is not supported", type.n < 60 ? (int)type.n : 60, type.p);
    m->kind = MODEL_BPE;
    struct json_object *vocab = field_object(j, "vocab", e);
    return vocab && vocab_read(&m->vocab, vocab, e) && bpe_read(&m->bpe, &m->vocab, j, e);
}

bool model_read(struct model *m, struct json_object *j, struct error *e) {
    return read_kind(m, j, e) || fail_in(e, "model");
}

void model_free(struct model *m) {
    vocab_free(&m->vocab);
    bpe_free(&m->bpe);
}

void model_work_open(struct model_work *w, const struct model *m) {
    *w = (struct model_work){0};
    switch (m->kind) {
    case MODEL_BPE: w->bpe = bpe_work_open(); break;
    }
}

void model_work_close(struct model_work *w) { bpe_work_close(w->bpe); }

bool model_encode(const struct model *m, struct model_work *w, struct sv piece, struct ids *out,
                  struct error *e) {
    switch (m->kind) {
    case MODEL_BPE: return bpe_encode(&m->bpe, &m->vocab, w->bpe, piece, out, e);
    }
    return false;
}
