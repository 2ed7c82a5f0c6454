// tiktoken files: each line holds a token's bytes in base64 and its rank, which is its id. Any two
// neighbours merge whose bytes together are a token, the least rank first.
#include "base/base64.h"
#include "tokenizer/bytes.h"
#include "tokenizer/parts.h"

static bool read_line(struct model *m, struct sv line, struct str *bytes, struct error *e) {
    ptrdiff_t space = sv_find(line, sv(" "), 0);
    struct sv digits = sv_cut(line, (size_t)space + 1, line.n);
    int64_t rank = 0;
    str_clear(bytes);
    bool ok = space > 0 && base64_decode(bytes, sv_cut(line, 0, (size_t)space)) && bytes->n &&
              digits.n && digits.n < 10;
    for (size_t i = 0; ok && i < digits.n; i++) {
        ok = digits.p[i] >= '0' && digits.p[i] <= '9';
        rank = rank * 10 + (digits.p[i] - '0');
    }
    if (!ok) return fail(e, "it is not a token in base64 and its rank");
    struct str text = {0};
    bytes_encode(&text, str_sv(bytes));
    ok = vocab_add(&m->vocab, str_sv(&text), rank, e);
    str_free(&text);
    return ok;
}

// The characters of the alphabet stand for one byte each, so a token falls apart between any two.
static void add_merges(struct model *m) {
    const struct vocab *v = &m->vocab;
    struct sv token;
    for (int32_t id = 0; id < (int32_t)v->size; id++) {
        if (!vocab_token(v, id, &token)) continue;
        for (size_t i = 1; i < token.n; i++) {
            if (((unsigned char)token.p[i] & 0xc0) == 0x80) continue;
            int32_t left = vocab_id(v, sv_cut(token, 0, i));
            int32_t right = left < 0 ? -1 : vocab_id(v, sv_cut(token, i, token.n));
            if (right >= 0) bpe_merge_put(&m->bpe, (struct bpe_merge){left, right, id, id});
        }
    }
}

bool tiktoken_read(struct model *m, struct sv file, struct error *e) {
    struct str bytes = {0};
    bool ok = true;
    size_t number = 1;
    for (size_t at = 0, end; ok && at < file.n; at = end + 1, number++) {
        ptrdiff_t newline = sv_find(file, sv("\n"), at);
        end = newline < 0 ? file.n : (size_t)newline;
        struct sv line = sv_trim(sv_cut(file, at, end));
        ok = !line.n || read_line(m, line, &bytes, e) || fail_in(e, "line %zu", number);
    }
    str_free(&bytes);
    if (!ok) return false;
    m->kind = MODEL_BPE;
    m->bpe.ignore_merges = true; // a whole piece that is a token is that token
    bpe_index(&m->bpe, &m->vocab);
    add_merges(m);
    return true;
}
