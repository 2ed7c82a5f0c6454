// How long a tokenizer takes to open, and what it encodes and decodes in a second:
//   bench_tokenizer TOKENIZER TEXT
// The text is cut at line ends into parts of about 20 kB, as documents come.
#include <stdio.h>

#include "base/clock.h"
#include "base/file.h"
#include "tokenizer/tokenizer.h"

enum { PART = 20000 };

static bool measure(const struct tokenizer *t, struct sv text, struct error *e) {
    struct ids ids = {0};
    struct str back = {0};
    double begin = clock_now();
    for (size_t at = 0, end; at < text.n; at = end) {
        ptrdiff_t newline = at + PART < text.n ? sv_find(text, sv("\n"), at + PART) : -1;
        end = newline < 0 ? text.n : (size_t)newline + 1;
        if (!tok_encode(t, sv_cut(text, at, end), false, &ids, e)) return false;
    }
    double middle = clock_now();
    tok_decode(t, ids.id, ids.n, false, &back);
    double mega = (double)text.n / 1e6;
    printf("%zu ids, encode %.1f MB/s, decode %.1f MB/s\n", ids.n, mega / (middle - begin),
           mega / (clock_now() - middle));
    ids_free(&ids);
    str_free(&back);
    return true;
}

int main(int argc, char **argv) {
    struct error e = {0};
    struct str text = {0};
    double begin = clock_now();
    struct tokenizer *t = argc == 3 ? tok_open(argv[1], &e) : NULL;
    if (t) printf("opened in %.3f s, ", clock_now() - begin);
    bool ok = t && file_read(argv[2], 1 << 30, &text, &e) && measure(t, str_sv(&text), &e);
    if (!ok) fprintf(stderr, "%s\n", e.set ? e.text : "usage: bench_tokenizer TOKENIZER TEXT");
    tok_close(t);
    str_free(&text);
    return !ok;
}
