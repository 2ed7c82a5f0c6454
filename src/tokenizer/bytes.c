#include "tokenizer/bytes.h"

#include "tokenizer/unicode.h"

// Bytes that are printable Latin-1 stand for themselves; the others are numbered from U+0100 up, in
// their order: 0x00-0x20, 0x7f-0xa0, 0xad.
static int32_t byte_char(unsigned char byte) {
    if (byte <= 0x20) return 0x100 + byte;
    if (byte >= 0x7f && byte <= 0xa0) return 0x121 + (byte - 0x7f);
    return byte == 0xad ? 0x143 : byte;
}

// -1 for a character outside the alphabet.
static int byte_of(int32_t cp) {
    if (cp >= 0x100 && cp <= 0x120) return cp - 0x100;
    if (cp >= 0x121 && cp <= 0x142) return cp - 0x121 + 0x7f;
    if (cp == 0x143) return 0xad;
    return cp > 0x20 && cp <= 0xff && byte_char((unsigned char)cp) == cp ? cp : -1;
}

void bytes_encode(struct str *out, struct sv text) {
    char buf[512]; // two bytes a character
    for (size_t i = 0; i < text.n;) {
        size_t n = 0;
        for (; i < text.n && n + 2 <= sizeof buf; i++) {
            uint32_t c = (uint32_t)byte_char((unsigned char)text.p[i]);
            if (c >= 0x80) buf[n++] = (char)(0xc0 | c >> 6), c = 0x80 | (c & 0x3f);
            buf[n++] = (char)c;
        }
        str_add(out, sv_n(buf, n));
    }
}

bool bytes_decode(struct str *out, struct sv text) {
    size_t before = out->n;
    for (size_t i = 0; i < text.n;) {
        int byte = byte_of(unicode_next(text, &i));
        if (byte < 0) {
            out->n = before;
            return false;
        }
        str_addc(out, (char)byte);
    }
    return true;
}
