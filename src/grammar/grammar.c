#include "grammar/grammar.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "grammar/machine.h"
#include "grammar/mask.h"

enum { CROWDED = 16 }; // a machine keeps as many times less where grammars take too much in all

struct grammar {
    const struct lexicon *lexicon; // NULL: none
    struct automaton automaton;
    struct machine machine;
    size_t fixed;              // bytes of the automaton
    atomic_size_t bytes;       // with the machine's, when one last looked
    struct grammar_room *room; // which they are taken from; NULL: none
    atomic_int users;
    struct matcher *matchers;
};

struct matcher {
    struct grammar *grammar;
    struct matcher *next; // of the same grammar
    int32_t set;          // MACHINE_DEAD: nothing more may come
};

// --- making --------------------------------------------------------------------------------------

// Free text up to a mark, some line breaks and spaces, and then the grammar.
static int32_t frame_rule(struct syntax *s, int32_t root, const struct grammar_frame *f) {
    if (!f || !f->after.n) return root;
    int32_t seq = syn_seq(s), space = syn_alt(s), rule = syn_rule(s, sv("answer"));
    syn_add(s, space, syn_text(s, sv("\n")));
    syn_add(s, space, syn_text(s, sv(" ")));
    syn_add(s, seq, syn_until(s, f->after));
    syn_add(s, seq, syn_repeat(s, space, 0, 2));
    syn_add(s, seq, syn_call(s, root));
    if (f->open.n) {
        int32_t alt = syn_alt(s), opened = syn_seq(s);
        syn_add(s, opened, syn_mark(s, f->open));
        syn_add(s, opened, seq);
        syn_add(s, alt, opened);
        syn_add(s, alt, syn_call(s, root));
        seq = alt;
    }
    syn_define(s, rule, seq);
    return rule;
}

// Tells what it takes by now.
static void account(struct grammar *g) {
    size_t now = g->fixed + g->machine.bytes, before = atomic_exchange(&g->bytes, now);
    if (g->room) atomic_fetch_add(&g->room->bytes, now - before);
}

struct grammar *grammar_rules(const struct lexicon *l, struct syntax *s, int32_t root,
                              const struct grammar_frame *f) {
    struct grammar *g = mem_alloc(sizeof *g);
    struct effort *effort = s->effort;
    struct error *e = s->e;
    bool ok = !e->set && pda_make(&g->automaton, s, frame_rule(s, root, f), e);
    syn_free(s);
    if (!ok) {
        free(g);
        return NULL;
    }
    g->lexicon = l;
    g->users = 1;
    machine_open(&g->machine, &g->automaton, l ? l->longest : 1, effort, e);
    if (g->machine.first < 0) fail(e, "no text is possible");
    if (l && !e->set) mask_of(&g->machine, l, g->machine.first);
    g->fixed = sizeof *g + pda_bytes(&g->automaton);
    if (effort) g->room = effort->room;
    account(g);
    if (!e->set) return g;
    grammar_close(g);
    return NULL;
}

struct grammar *grammar_share(struct grammar *g) {
    atomic_fetch_add(&g->users, 1);
    return g;
}

size_t grammar_bytes(const struct grammar *g) { return g->bytes; }

static bool fits(struct sv text, const char *what, struct error *e) {
    return text.n <= GRAMMAR_BYTES ||
           fail(e, "the %s has %zu bytes; it may have %d", what, text.n, GRAMMAR_BYTES);
}

struct grammar *grammar_gbnf(const struct lexicon *l, struct sv text, const struct grammar_frame *f,
                             struct error *e) {
    struct effort usual = effort_usual();
    struct syntax s = {.e = e, .effort = &usual};
    if (!fits(text, "grammar", e)) return NULL;
    return grammar_rules(l, &s, gbnf_read(&s, text), f);
}

struct grammar *grammar_regex(const struct lexicon *l, struct sv pattern,
                              const struct grammar_frame *f, struct error *e) {
    struct effort usual = effort_usual();
    struct syntax s = {.e = e, .effort = &usual};
    if (!fits(pattern, "regular expression", e)) return NULL;
    return grammar_rules(l, &s, regex_read(&s, pattern), f);
}

struct grammar *grammar_schema(const struct lexicon *l, struct json_object *schema,
                               const struct grammar_frame *f, struct error *e) {
    struct effort usual = effort_usual();
    struct syntax s = {.e = e, .effort = &usual};
    return grammar_rules(l, &s, schema_read(&s, schema), f);
}

void grammar_close(struct grammar *g) {
    if (!g || atomic_fetch_sub(&g->users, 1) > 1) return;
    if (g->room) atomic_fetch_sub(&g->room->bytes, g->bytes);
    machine_close(&g->machine);
    pda_free(&g->automaton);
    free(g);
}

// --- matching ------------------------------------------------------------------------------------

static struct matcher *new_matcher(struct grammar *g, int32_t set) {
    struct matcher *m = mem_alloc(sizeof *m);
    *m = (struct matcher){g, g->matchers, set};
    g->matchers = m;
    atomic_fetch_add(&g->users, 1);
    return m;
}

struct matcher *matcher_open(struct grammar *g) {
    return new_matcher(g, g->machine.first);
}
struct matcher *matcher_copy(const struct matcher *m) {
    return new_matcher(m->grammar, m->set);
}

void matcher_close(struct matcher *m) {
    if (!m) return;
    struct matcher **at = &m->grammar->matchers;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
    grammar_close(m->grammar);
    free(m);
}

// Before a token's work: frees what no matcher needs when there is too much.
static void begin(struct grammar *g) {
    machine_begin(&g->machine);
    bool full = g->room && g->room->bytes > g->room->most;
    if (!machine_full(&g->machine, full ? CROWDED : 1)) return;
    size_t n = 0;
    for (struct matcher *m = g->matchers; m; m = m->next) n++;
    int32_t **root = mem_array(n, sizeof *root);
    n = 0;
    for (struct matcher *m = g->matchers; m; m = m->next) root[n++] = &m->set;
    machine_clean(&g->machine, root, n);
    account(g);
    free(root);
}

bool matcher_bytes(struct matcher *m, struct sv text) {
    begin(m->grammar);
    int32_t set = m->set;
    for (size_t i = 0; i < text.n && set >= 0; i++)
        set = machine_step(&m->grammar->machine, set, (unsigned char)text.p[i]);
    if (set < 0) return false;
    m->set = set;
    return true;
}

bool matcher_token(struct matcher *m, int32_t id) {
    const struct lexicon *l = m->grammar->lexicon;
    if (id < 0 || (size_t)id >= l->tokens) return false;
    if (l->ends[id / 64] >> (id % 64) & 1) return matcher_done(m);
    return l->length[id] && matcher_bytes(m, sv_n(l->text + l->at[id], l->length[id]));
}

bool matcher_done(const struct matcher *m) {
    return m->set >= 0 && m->grammar->machine.set[m->set].done;
}

const uint64_t *matcher_mask(struct matcher *m) {
    struct grammar *g = m->grammar;
    begin(g);
    const uint64_t *mask = m->set < 0 ? NULL : mask_of(&g->machine, g->lexicon, m->set);
    account(g);
    return mask;
}

size_t matcher_tokens(const struct matcher *m) { return m->grammar->lexicon->tokens; }
