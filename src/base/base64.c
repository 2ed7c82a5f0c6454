#include "base/base64.h"

static int digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_decode(struct str *out, struct sv text) {
    size_t before = out->n, n = text.n;
    if (n % 4) return false;
    while (n && text.n - n < 2 && text.p[n - 1] == '=') n--;
    uint32_t bits = 0;
    for (size_t i = 0; i < n; i++) {
        int d = digit(text.p[i]);
        if (d < 0) {
            out->n = before;
            return false;
        }
        bits = bits << 6 | (uint32_t)d;
        if (i % 4) str_addc(out, (char)(bits >> (6 - 2 * (i % 4))));
    }
    return true;
}
