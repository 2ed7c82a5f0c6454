// Shared by the tokenizers' fuzz targets: what is accepted must encode a text and decode any ids,
// and streaming must give what decoding gives.
#ifndef FUZZ_ROUND_TRIP_H
#define FUZZ_ROUND_TRIP_H

#include <stdlib.h>

#include "tokenizer/tokenizer.h"

// exact: no decoder whose stream keeps what a bad run of bytes would lose.
static inline void round_trip(const struct tokenizer *t, struct sv text, bool exact) {
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

#endif
