// Times masks over a real vocabulary, and makes random texts under JSON schemas.
//   bench_grammar time TOKENIZER CASES          microseconds a mask, new and known
//   bench_grammar walk TOKENIZER CASES [N]      N random answers a schema, a JSON line for each
//                                               that was finished (tools/make_schema_cases.py)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "grammar/grammar.h"
#include "tokenizer/tokenizer.h"

enum { STEPS = 400 };

static uint64_t state = 1;

static uint32_t random_below(uint32_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % n);
}

static struct lexicon *lexicon(const struct tokenizer *t) {
    size_t n = (size_t)tok_size(t);
    struct str all = {0};
    size_t *at = mem_array(n + 1, sizeof *at);
    struct sv *text = mem_array(n, sizeof *text);
    int32_t end = tok_eos(t);
    for (size_t i = 0; i < n; i++) {
        if (!tok_is_special(t, (int32_t)i)) tok_bytes(t, (int32_t)i, &all);
        at[i + 1] = all.n;
    }
    for (size_t i = 0; i < n; i++) text[i] = sv_n(all.p + at[i], at[i + 1] - at[i]);
    struct lexicon *l = lex_open(text, n, &end, end >= 0);
    str_free(&all);
    free(at);
    free(text);
    return l;
}

struct times {
    double seconds, slowest, first; // first: of masks that had to be found
    size_t masks, firsts;
};

static bool allowed(const uint64_t *mask, int32_t id) { return mask[id / 64] >> (id % 64) & 1; }

// The first allowed one of a list, from a random place on; list NULL: of all tokens.
static int32_t pick_from(const uint64_t *mask, const int32_t *list, uint32_t n) {
    uint32_t from = n ? random_below(n) : 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = (from + i) % n;
        int32_t id = list ? list[at] : (int32_t)at;
        if (allowed(mask, id)) return id;
    }
    return -1;
}

// Any of the allowed tokens, but every third time a brief one, so that texts end.
static int32_t pick(const struct lexicon *l, const uint64_t *mask, const int32_t *brief,
                    uint32_t n) {
    int32_t id = random_below(3) ? -1 : pick_from(mask, brief, n);
    return id >= 0 ? id : pick_from(mask, NULL, (uint32_t)l->tokens);
}

static bool walk(const struct lexicon *l, struct grammar *g, struct str *text, const int32_t *brief,
                 uint32_t briefs, struct times *t) {
    struct matcher *m = matcher_open(g);
    bool done = false;
    str_clear(text);
    for (int i = 0; i < STEPS && !done; i++) {
        double began = clock_now();
        const uint64_t *mask = matcher_mask(m);
        double seconds = clock_now() - began;
        t->seconds += seconds;
        t->masks++;
        if (seconds > t->slowest) t->slowest = seconds;
        if (seconds > 2e-6) t->first += seconds, t->firsts++;
        int32_t id = mask ? pick(l, mask, brief, briefs) : -1;
        if (id < 0 || !matcher_token(m, id)) {
            fprintf(stderr, "a dead end after %s\n", str_c(text));
            break;
        }
        done = allowed(l->ends, id);
        if (!done) str_add(text, sv_n(l->text + l->at[id], l->length[id]));
    }
    matcher_close(m);
    return done;
}

static void walk_case(const struct lexicon *l, struct json_object *c, size_t number, int n,
                      bool print, struct times *t) {
    struct json_object *schema = NULL;
    struct error e = {0};
    struct str text = {0}, line = {0};
    json_object_object_get_ex(c, "schema", &schema);
    struct grammar *g = grammar_schema(l, schema, NULL, &e);
    int32_t *brief = mem_array(l->tokens, sizeof *brief);
    uint32_t briefs = 0;
    for (size_t i = 0; i < l->tokens; i++)
        if (l->length[i] == 1 || allowed(l->ends, (int32_t)i)) brief[briefs++] = (int32_t)i;
    for (int i = 0; i < n && g; i++) {
        if (!walk(l, g, &text, brief, briefs, t) || !print) continue;
        str_clear(&line);
        json_quote(&line, str_sv(&text));
        printf("{\"case\":%zu,\"text\":%s}\n", number, str_c(&line));
    }
    free(brief);
    str_free(&text);
    str_free(&line);
    grammar_close(g);
}

static int fault(const struct error *e) {
    fprintf(stderr, "bench_grammar: %s\n", e->text);
    return 1;
}

int main(int argc, char **argv) {
    struct error e = {0};
    if (argc < 4) {
        fprintf(stderr, "usage: bench_grammar time|walk TOKENIZER CASES [N]\n");
        return 2;
    }
    bool print = !strcmp(argv[1], "walk");
    struct tokenizer *t = tok_open(argv[2], &e);
    if (!t) return fault(&e);
    struct json_object *cases = json_read_file(argv[3], 1 << 24, &e);
    if (!cases) return fault(&e);
    double began = clock_now();
    struct lexicon *l = lexicon(t);
    double made = clock_now() - began;
    struct times times = {0};
    for (size_t i = 0; i < json_object_array_length(cases); i++)
        walk_case(l, json_object_array_get_idx(cases, i), i, argc > 4 ? atoi(argv[4]) : 3, print,
                  &times);
    fprintf(stderr,
            "%zu tokens: lexicon %.0f ms, %zu nodes; %zu masks, %.2f us each; of these %zu found "
            "anew, %.1f us each, at most %.0f us\n",
            l->tokens, made * 1e3, l->plain.nodes + l->rest.nodes, times.masks,
            times.seconds / (double)times.masks * 1e6, times.firsts,
            times.firsts ? times.first / (double)times.firsts * 1e6 : 0, times.slowest * 1e6);
    lex_close(l);
    json_object_put(cases);
    tok_close(t);
    return 0;
}
