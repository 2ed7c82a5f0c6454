#include "grammar/grammar.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "grammar/machine.h"

struct grammar {
    const struct lexicon *lexicon; // NULL: none
    struct automaton automaton;
    struct machine machine;
    size_t fixed;        // bytes of the automaton
    atomic_size_t bytes; // of the machine, when one last looked
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

struct grammar *grammar_rules(const struct lexicon *l, struct syntax *s, int32_t root,
                              const struct grammar_frame *f) {
    struct grammar *g = mem_alloc(sizeof *g);
    bool ok = !s->e->set && pda_make(&g->automaton, s, frame_rule(s, root, f), s->e);
    syn_free(s);
    if (!ok) {
        free(g);
        return NULL;
    }
    g->lexicon = l;
    g->users = 1;
    machine_open(&g->machine, &g->automaton, l ? l->longest : 1);
    g->fixed = sizeof *g + pda_bytes(&g->automaton);
    g->bytes = g->machine.bytes;
    return g;
}

struct grammar *grammar_share(struct grammar *g) {
    atomic_fetch_add(&g->users, 1);
    return g;
}

size_t grammar_bytes(const struct grammar *g) { return g->fixed + g->bytes; }

static bool fits(struct sv text, const char *what, struct error *e) {
    return text.n <= GRAMMAR_BYTES ||
           fail(e, "the %s has %zu bytes; it may have %d", what, text.n, GRAMMAR_BYTES);
}

struct grammar *grammar_gbnf(const struct lexicon *l, struct sv text, const struct grammar_frame *f,
                             struct error *e) {
    struct syntax s = {.e = e};
    if (!fits(text, "grammar", e)) return NULL;
    return grammar_rules(l, &s, gbnf_read(&s, text), f);
}

struct grammar *grammar_regex(const struct lexicon *l, struct sv pattern,
                              const struct grammar_frame *f, struct error *e) {
    struct syntax s = {.e = e};
    if (!fits(pattern, "regular expression", e)) return NULL;
    return grammar_rules(l, &s, regex_read(&s, pattern), f);
}

struct grammar *grammar_schema(const struct lexicon *l, struct json_object *schema,
                               const struct grammar_frame *f, struct error *e) {
    struct syntax s = {.e = e};
    return grammar_rules(l, &s, schema_read(&s, schema), f);
}

void grammar_close(struct grammar *g) {
    if (!g || atomic_fetch_sub(&g->users, 1) > 1) return;
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

// Frees what no matcher needs when there is too much.
static void clean(struct grammar *g) {
    if (!machine_full(&g->machine)) return;
    size_t n = 0;
    for (struct matcher *m = g->matchers; m; m = m->next) n++;
    int32_t **root = mem_array(n, sizeof *root);
    n = 0;
    for (struct matcher *m = g->matchers; m; m = m->next) root[n++] = &m->set;
    machine_clean(&g->machine, root, n);
    g->bytes = g->machine.bytes;
    free(root);
}

bool matcher_bytes(struct matcher *m, struct sv text) {
    clean(m->grammar);
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

static void allow(const struct lexicon *l, uint32_t token, uint64_t *mask) {
    for (; token; token = (uint32_t)l->more[token]) {
        uint32_t id = token - 1;
        mask[id / 64] |= (uint64_t)1 << (id % 64);
    }
}

// A walk over tokens from a set: what is like it, in the sense of `kind`, is where it began.
struct mask_walk {
    struct machine *m;
    const struct lexicon *l;
    int32_t from;
    int kind;      // LIKE or NEAR
    uint64_t home; // groups of the bytes that lead from there back to what is like it
    uint64_t *mask;
};

static bool at_home(const struct mask_walk *w, int32_t set) {
    return w->m->set[set].like[w->kind] == w->from;
}

// Adds the tokens of a tree whose bytes may follow the set. Tokens of bytes that lead home alone
// are all allowed, and need no steps. known: those are in the mask.
static void walk(const struct mask_walk *w, const struct lex_tree *t, bool known) {
    int32_t at[LEX_LONGEST + 1];
    at[0] = w->from;
    for (uint32_t i = 0; i < t->nodes;) {
        const struct lex_node *n = &t->node[i];
        int32_t to = machine_step(w->m, at[n->depth - 1], n->byte);
        bool all = to >= 0 && !(t->below[i] & ~w->home) && at_home(w, to);
        at[n->depth] = to;
        if (to >= 0) allow(w->l, n->token, w->mask);
        for (uint32_t k = i + 1; all && !known && k < n->after; k++)
            allow(w->l, t->node[k].token, w->mask);
        i = to >= 0 && !all ? i + 1 : n->after;
    }
}

// Whether after any of the bytes lo to hi, and `more` that go on with the character, one is home.
static bool returns(const struct mask_walk *w, int32_t from, int lo, int hi, int more) {
    int32_t last = MACHINE_DEAD;
    for (int b = lo; b <= hi; b++) {
        int32_t to = machine_step(w->m, from, (unsigned char)b);
        if (to < 0) return false;
        if (to == last) continue;
        if (!more && !at_home(w, to)) return false;
        if (more && (last >= 0 || !returns(w, to, 0x80, 0xbf, more - 1))) return false;
        last = to;
    }
    return true;
}

// The same after any whole character beyond ASCII, and not within one.
static bool returns_whole(const struct mask_walk *w) {
    static const struct {
        unsigned char lo, hi, next_lo, next_hi, more; // more: after the next
    } lead[] = {
        {0xe0, 0xe0, 0xa0, 0xbf, 1}, {0xe1, 0xec, 0x80, 0xbf, 1}, {0xed, 0xed, 0x80, 0x9f, 1},
        {0xee, 0xef, 0x80, 0xbf, 1}, {0xf0, 0xf0, 0x90, 0xbf, 2}, {0xf1, 0xf3, 0x80, 0xbf, 2},
        {0xf4, 0xf4, 0x80, 0x8f, 2},
    };
    for (int b = 0xc2; b <= 0xf4; b++) {
        int32_t to = machine_step(w->m, w->from, (unsigned char)b);
        if (to < 0 || at_home(w, to)) return false;
    }
    if (!returns(w, w->from, 0xc2, 0xdf, 1)) return false;
    for (size_t i = 0; i < sizeof lead / sizeof *lead; i++)
        for (int b = lead[i].lo; b <= lead[i].hi; b++) {
            int32_t to = machine_step(w->m, w->from, (unsigned char)b);
            if (!returns(w, to, lead[i].next_lo, lead[i].next_hi, lead[i].more)) return false;
        }
    return true;
}

// The groups of bytes any of which lead home, as inside of a string.
static uint64_t home_groups(const struct mask_walk *w) {
    uint64_t home = ((uint64_t)1 << LEX_GROUPS) - 1;
    for (int b = 0; b < 128; b++)
        if (home >> lex_group[b] & 1 && !returns(w, w->from, b, b, 0))
            home &= ~((uint64_t)1 << lex_group[b]);
    if (returns(w, w->from, 0x80, 0xff, 0)) return home;
    home &= ~((uint64_t)1 << LEX_LOOSE);
    return returns_whole(w) ? home : home & ~((uint64_t)1 << LEX_WHOLE);
}

static struct mask_walk walk_from(struct grammar *g, int32_t from, int kind) {
    struct mask_walk w = {.m = &g->machine, .l = g->lexicon, .from = from, .kind = kind};
    w.mask = mem_array(g->lexicon->words, sizeof *w.mask);
    g->machine.bytes += g->lexicon->words * sizeof *w.mask;
    w.home = home_groups(&w);
    return w;
}

// Plain tokens of bytes that lead home: for many of them it is quicker to look at every token.
// Returns whether it was done.
static bool allow_groups(const struct mask_walk *w) {
    const struct lexicon *l = w->l;
    if (!(l->plain_groups & ~w->home)) {
        memcpy(w->mask, l->plain_set, l->words * sizeof *w->mask);
        return true;
    }
    bool letters = w->home >> lex_group['z'] & w->home >> lex_group['a'] & 1;
    for (size_t i = 0; i < l->tokens && letters; i++) {
        bool all = l->groups[i] && !(l->groups[i] & ~w->home);
        w->mask[i / 64] |= (uint64_t)all << (i % 64);
    }
    return letters;
}

// The short tokens that may follow a set, which are those that may follow one that is near.
static const uint64_t *short_mask(struct grammar *g, int32_t set) {
    const struct lexicon *l = g->lexicon;
    if (g->machine.set[set].mask[NEAR]) return g->machine.set[set].mask[NEAR];
    struct mask_walk w = walk_from(g, set, NEAR);
    bool known = allow_groups(&w);
    if (!known || l->plain_groups & ~w.home) walk(&w, &l->plain, known);
    walk(&w, &l->rest, false);
    return g->machine.set[set].mask[NEAR] = w.mask;
}

const uint64_t *matcher_mask(struct matcher *m) {
    struct grammar *g = m->grammar;
    struct machine *machine = &g->machine;
    const struct lexicon *l = g->lexicon;
    clean(g);
    int32_t set = m->set < 0 ? m->set : machine->set[m->set].like[LIKE];
    if (set < 0) return NULL;
    if (machine->set[set].mask[LIKE]) return machine->set[set].mask[LIKE];
    struct mask_walk w = walk_from(g, set, LIKE);
    memcpy(w.mask, short_mask(g, machine->set[set].like[NEAR]), l->words * sizeof *w.mask);
    walk(&w, &l->long_plain, false);
    walk(&w, &l->long_rest, false);
    if (machine->set[set].done)
        for (size_t i = 0; i < l->words; i++) w.mask[i] |= l->ends[i];
    machine->set[set].mask[LIKE] = w.mask;
    g->bytes = machine->bytes;
    return w.mask;
}

size_t matcher_tokens(const struct matcher *m) { return m->grammar->lexicon->tokens; }
