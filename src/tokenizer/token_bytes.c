// The bytes of single tokens, as they stand within a text.
#include "tokenizer/bytes.h"
#include "tokenizer/parts.h"

static bool has_step(const struct tokenizer *t, enum decode_kind kind) {
    for (size_t i = 0; i < t->decoder.n; i++)
        if (t->decoder.step[i].kind == kind) return true;
    return false;
}

// <0xXX> stands for a byte where a decoder knows that.
static bool names_byte(const struct tokenizer *t, struct sv token, struct str *out) {
    if (token.n != 6 || !sv_starts(token, sv("<0x")) || token.p[5] != '>') return false;
    if (!has_step(t, DECODE_BYTE_FALLBACK) && !has_step(t, DECODE_SPM)) return false;
    int high = hex_digit(token.p[3]), low = hex_digit(token.p[4]);
    if (high < 0 || low < 0) return false;
    str_addc(out, (char)(high << 4 | low));
    return true;
}

// What the token adds after another one: at the beginning of a text some decoders drop a space.
void tok_bytes(const struct tokenizer *t, int32_t id, struct str *out) {
    struct sv token = tok_token(t, id), before = sv("a");
    if (added_by_id(&t->added, id)) {
        str_add(out, token);
        return;
    }
    if (has_step(t, DECODE_BYTE_LEVEL) && bytes_decode(out, token)) return;
    if (names_byte(t, token, out)) return;
    struct decode_stream s;
    struct str text = {0};
    decode_open(&s, &t->decoder, true);
    decode_push(&s, before, &text);
    decode_push(&s, token, &text);
    decode_finish(&s, &text);
    decode_close(&s);
    str_add(out, sv_cut(str_sv(&text), before.n, text.n));
    str_free(&text);
}
