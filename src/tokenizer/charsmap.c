#include "tokenizer/charsmap.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/mem.h"
#include "tokenizer/unicode.h"

static uint32_t little(const char *p) {
    const unsigned char *b = (const unsigned char *)p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

bool charsmap_read(struct charsmap *m, struct sv blob, struct error *e) {
    *m = (struct charsmap){0};
    if (!blob.n) return true;
    size_t size = blob.n >= 4 ? little(blob.p) : 0;
    if (blob.n < 4 || size % 4 || size > blob.n - 4)
        return fail(e, "precompiled_charsmap: its trie of %zu bytes does not fit in %zu", size,
                    blob.n);
    if (!utf8_valid(sv_cut(blob, 4 + size, blob.n)))
        return fail(e, "precompiled_charsmap: its texts are not UTF-8");
    m->units = size / 4;
    m->unit = mem_array(m->units, sizeof *m->unit);
    for (size_t i = 0; i < m->units; i++) m->unit[i] = little(blob.p + 4 + 4 * i);
    str_add(&m->text, sv_cut(blob, 4 + size, blob.n));
    return true;
}

void charsmap_free(struct charsmap *m) {
    free(m->unit);
    str_free(&m->text);
    *m = (struct charsmap){0};
}

// A unit of the trie: the byte that leads to it, whether a value hangs below, and the distance to
// what is below.
static uint32_t label(uint32_t unit) { return unit & (1u << 31 | 0xff); }
static bool has_value(uint32_t unit) { return unit >> 8 & 1; }
static size_t below(uint32_t unit) { return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6); }

bool charsmap_find(const struct charsmap *m, struct sv text, bool longest, struct sv *becomes,
                   size_t *n) {
    if (!m->units) return false;
    bool found = false;
    size_t at = below(m->unit[0]);
    for (size_t i = 0; i < text.n; i++) {
        unsigned char byte = (unsigned char)text.p[i];
        at ^= byte;
        if (!byte || at >= m->units || label(m->unit[at]) != byte) break;
        uint32_t unit = m->unit[at];
        at ^= below(unit);
        if (!has_value(unit)) continue;
        if (at >= m->units) break;
        size_t value = m->unit[at] & 0x7fffffff;
        if (value >= m->text.n || ((unsigned char)m->text.p[value] & 0xc0) == 0x80) break;
        struct sv rest = sv_cut(str_sv(&m->text), value, m->text.n);
        const char *end = memchr(rest.p, 0, rest.n);
        *becomes = sv_n(rest.p, end ? (size_t)(end - rest.p) : rest.n);
        *n = i + 1;
        found = true;
        if (!longest) break;
    }
    return found;
}

// A character too new for utf8proc 2.8 that goes on with the one before it.
static bool new_mark(int32_t cp) { return cp == 0x897; }

// The end of the user-perceived character at text[i].
static size_t grapheme_end(struct sv text, size_t i) {
    utf8proc_int32_t state = 0;
    int32_t before = unicode_next(text, &i);
    for (size_t next = i; i < text.n; i = next) {
        int32_t c = unicode_next(text, &next);
        bool ends = utf8proc_grapheme_break_stateful(before, c, &state);
        if (ends && !(new_mark(c) && before >= 0x20)) break;
        before = c;
    }
    return i;
}

// The reference looks up each short user-perceived character as a whole, and then takes what the
// shortest start of it becomes for all of it; what it finds nothing for goes character by
// character.
void charsmap_run(const struct charsmap *m, struct sv text, struct str *out) {
    struct sv becomes;
    size_t n;
    for (size_t i = 0; i < text.n;) {
        size_t end = grapheme_end(text, i);
        struct sv whole = sv_cut(text, i, end);
        if (whole.n < 6 && charsmap_find(m, whole, false, &becomes, &n)) {
            str_add(out, becomes);
            i = end;
            continue;
        }
        for (size_t at = i; i < end; at = i) {
            unicode_next(text, &i);
            struct sv c = sv_cut(text, at, i);
            str_add(out, charsmap_find(m, c, false, &becomes, &n) ? becomes : c);
        }
    }
}
