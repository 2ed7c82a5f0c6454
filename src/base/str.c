#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct sv sv(const char *s) {
    return (struct sv){s ? s : "", s ? strlen(s) : 0};
}

struct sv sv_n(const char *p, size_t n) {
    return (struct sv){p ? p : "", n};
}

struct sv sv_cut(struct sv s, size_t from, size_t to) {
    if (to > s.n) to = s.n;
    if (from > to) from = to;
    return (struct sv){s.p + from, to - from};
}

bool sv_eq(struct sv a, struct sv b) {
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool sv_is(struct sv a, const char *b) { return sv_eq(a, sv(b)); }

bool sv_starts(struct sv s, struct sv with) { return sv_eq(sv_cut(s, 0, with.n), with); }

bool sv_ends(struct sv s, struct sv with) {
    return s.n >= with.n && sv_eq(sv_cut(s, s.n - with.n, s.n), with);
}

ptrdiff_t sv_find(struct sv in, struct sv what, size_t from) {
    if (from > in.n) return -1;
    if (what.n == 0) return (ptrdiff_t)from;
    if (from == in.n) return -1;
    const char *at = what.n == 1 ? memchr(in.p + from, what.p[0], in.n - from)
                                 : memmem(in.p + from, in.n - from, what.p, what.n);
    return at ? at - in.p : -1;
}

static bool blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

struct sv sv_trim(struct sv s) {
    while (s.n && blank(s.p[0])) s.p++, s.n--;
    while (s.n && blank(s.p[s.n - 1])) s.n--;
    return s;
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)(c | 32);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int sv_cmp(struct sv a, struct sv b) {
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

uint64_t sv_hash(struct sv s) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < s.n; i++) h = (h ^ (unsigned char)s.p[i]) * 0x100000001b3u;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    return h ^ (h >> 32);
}

static void room(struct str *s, size_t more) {
    size_t need;
    if (!size_add(s->n, more, &need) || !size_add(need, 1, &need)) need = SIZE_MAX;
    s->p = mem_grow(s->p, &s->cap, need, 1);
}

void str_free(struct str *s) {
    free(s->p);
    *s = (struct str){0};
}

void str_clear(struct str *s) {
    s->n = 0;
    if (s->p) s->p[0] = 0;
}

void str_add(struct str *s, struct sv add) {
    room(s, add.n);
    if (add.n) memcpy(s->p + s->n, add.p, add.n);
    s->n += add.n;
    s->p[s->n] = 0;
}

void str_addc(struct str *s, char c) { str_add(s, sv_n(&c, 1)); }

void str_puts(struct str *s, const char *text) { str_add(s, sv(text)); }

void str_printf(struct str *s, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n > 0) {
        room(s, (size_t)n);
        vsnprintf(s->p + s->n, (size_t)n + 1, fmt, again);
        s->n += (size_t)n;
    }
    va_end(again);
}

struct sv str_sv(const struct str *s) {
    return sv_n(s->p, s->n);
}

const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

const char *str_c(const struct str *s) { return s->p ? s->p : ""; }

int32_t utf8_decode(struct sv s, size_t i, size_t *len) {
    const unsigned char *p = (const unsigned char *)s.p + i;
    size_t left = i < s.n ? s.n - i : 0;
    *len = 1;
    if (!left) return -1;
    if (p[0] < 0x80) return p[0];
    size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || left < n) return -1;
    int32_t cp = p[0] & (0x7f >> n);
    for (size_t k = 1; k < n; k++) {
        if ((p[k] & 0xc0) != 0x80) return -1;
        cp = cp << 6 | (p[k] & 0x3f);
    }
    static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (cp < least[n] || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000)) return -1;
    *len = n;
    return cp;
}

size_t utf8_encode(uint32_t cp, char out[4]) {
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    size_t n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (size_t k = n - 1; k > 0; k--, cp >>= 6) out[k] = (char)(0x80 | (cp & 0x3f));
    out[0] = (char)((0xf00 >> n & 0xff) | cp);
    return n;
}

bool utf8_valid(struct sv s) {
    for (size_t i = 0, n = 1; i < s.n; i += n, n = 1)
        if ((unsigned char)s.p[i] >= 0x80 && utf8_decode(s, i, &n) < 0) return false;
    return true;
}

size_t utf8_count(struct sv s) {
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
    return n;
}

size_t utf8_partial(struct sv s) {
    for (size_t back = 1; back <= 3 && back <= s.n; back++) {
        unsigned char c = (unsigned char)s.p[s.n - back];
        if ((c & 0xc0) == 0x80) continue;
        size_t want = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;
        if (c > 0xf4 || want <= back) return 0;
        // The bytes that are there must be able to begin a character: fill in the lowest rest
        // and the highest, one of which must be valid.
        for (int fill = 0x80; fill <= 0xbf; fill += 0x3f) {
            char whole[4];
            memset(whole, fill, sizeof whole);
            memcpy(whole, s.p + s.n - back, back);
            size_t n;
            if (utf8_decode(sv_n(whole, want), 0, &n) >= 0) return back;
        }
        return 0;
    }
    return 0;
}
