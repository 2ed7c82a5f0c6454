// A grammar of any bytes: byte 0 picks GBNF, a regular expression or a JSON schema. What is
// accepted is walked: masks are what trying the tokens says, and what can begin can go on.
#include <stdlib.h>

#include "base/json.h"
#include "grammar/grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const words[] = {
    "a", "b",  "{",  "}",   "[",    "]",    "\"",   ":", ",",  "1",    "0", "-",     ".",
    " ", "\n", "ab", "\":", "true", "\xc3", "\xa9", "é", "\\", "null", "x", "<end>",
};
enum { WORDS = sizeof words / sizeof *words, END = WORDS - 1, STEPS = 24 };

static struct lexicon *lexicon(void) {
    static struct lexicon *l;
    struct sv text[WORDS];
    int32_t end = END;
    for (int i = 0; i < WORDS; i++) text[i] = sv(words[i]);
    if (!l) l = lex_open(text, WORDS, &end, 1);
    return l;
}

static struct grammar *schema(struct sv text, struct error *e) {
    struct json_object *o = json_read(text, "schema", e);
    struct grammar *g = o ? grammar_schema(lexicon(), o, NULL, e) : NULL;
    json_object_put(o);
    return g;
}

static void walk(struct grammar *g, uint32_t seed) {
    struct matcher *m = matcher_open(g);
    for (int step = 0; step < STEPS; step++) {
        uint64_t mask = matcher_mask(m)[0];
        int32_t next = -1;
        for (int32_t i = 0; i < WORDS; i++) {
            struct matcher *try = matcher_copy(m);
            if (matcher_token(try, i) != (mask >> i & 1)) abort();
            matcher_close(try);
            seed = seed * 1664525u + 1013904223u;
            if (i != END && mask >> i & 1 && (next < 0 || seed >> 30 == 0)) next = i;
        }
        if (next < 0 || !matcher_token(m, next)) break;
    }
    matcher_close(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct error e = {0};
    struct grammar *g;
    if (size < 1) return 0;
    struct sv text = sv_n((const char *)data + 1, size - 1);
    if (data[0] % 3 == 0)
        g = grammar_gbnf(lexicon(), text, NULL, &e);
    else if (data[0] % 3 == 1)
        g = grammar_regex(lexicon(), text, NULL, &e);
    else
        g = schema(text, &e);
    if (!g != e.set) abort();
    if (g) walk(g, (uint32_t)size);
    grammar_close(g);
    return 0;
}
