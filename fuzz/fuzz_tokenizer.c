// tokenizer.json of any bytes: what is accepted must encode a text and decode any ids, and
// streaming must give what decoding gives. Bytes behind a NUL are the text.
#include <stdlib.h>
#include <string.h>

#include "round_trip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
