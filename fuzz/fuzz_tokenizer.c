// tokenizer.json of any bytes: what is accepted must encode a text and decode any ids, and
// streaming must give what decoding gives. Bytes behind a NUL are the text.
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// exact: no decoder whose stream keeps what a bad run of bytes would lose.
static void round_trip(const struct tokenizer *t, struct sv text, bool exact) {
    struct ids ids = {0};
    struct error e = {0};
    struct str whole = {0}, streamed = {0};
    if (!tok_encode(t, text, true, &ids, &e) && !e.set) abort();
    for (size_t i = 0; i < text.n && i < 64; i++) ids_push(&ids, text.p[i] * 3);
    tok_decode(t, ids.id, ids.n, false, &whole);
    struct tok_stream *s = tok_stream_open(t, false);
    for (size_t i = 0; i < ids.n; i++) {
        size_t before = streamed.n;
        tok_stream_push(s, ids.id[i], &streamed);
        if (!utf8_valid(sv_cut(str_sv(&streamed), before, streamed.n))) abort();
    }
    tok_stream_finish(s, &streamed);
    tok_stream_close(s);
    if (exact && !sv_eq(str_sv(&whole), str_sv(&streamed))) abort();
    str_free(&whole);
    str_free(&streamed);
    ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sv all = sv_n((const char *)data, size);
    const char *nul = size ? memchr(data, 0, size) : NULL;
    size_t split = nul ? (size_t)(nul - all.p) : size;
    struct error e = {0};
    struct tokenizer *t = tok_read(sv_cut(all, 0, split), "fuzz", &e);
    if (!t) return e.set ? 0 : (abort(), 0);
    // Its name may hide behind escapes.
    bool exact = sv_find(all, sv("Fallback"), 0) < 0 && sv_find(all, sv("\\"), 0) < 0;
    round_trip(t, sv_cut(all, split, size), exact);
    round_trip(t, sv("Hello  w\xc3\xb6rld\n\xe4\xbd\xa0 a b ab 12 <x> \xff"), exact);
    tok_close(t);
    return 0;
}
