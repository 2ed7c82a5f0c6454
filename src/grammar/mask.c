#include "grammar/mask.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

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

static struct mask_walk walk_from(struct machine *m, const struct lexicon *l, int32_t from,
                                  int kind) {
    struct mask_walk w = {.m = m, .l = l, .from = from, .kind = kind};
    w.mask = mem_array(l->words, sizeof *w.mask);
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

// Keeps the mask with its set. What was not looked at to its end is NULL.
static const uint64_t *keep(const struct mask_walk *w) {
    if (w->m->e->set) {
        free(w->mask);
        return NULL;
    }
    w->m->bytes += w->l->words * sizeof *w->mask;
    return w->m->set[w->from].mask[w->kind] = w->mask;
}

// The short tokens that may follow a set, which are those that may follow one that is near.
static const uint64_t *short_mask(struct machine *m, const struct lexicon *l, int32_t set) {
    if (m->set[set].mask[NEAR]) return m->set[set].mask[NEAR];
    struct mask_walk w = walk_from(m, l, set, NEAR);
    bool known = allow_groups(&w);
    if (!known || l->plain_groups & ~w.home) walk(&w, &l->plain, known);
    walk(&w, &l->rest, false);
    return keep(&w);
}

const uint64_t *mask_of(struct machine *m, const struct lexicon *l, int32_t set) {
    set = m->set[set].like[LIKE];
    if (m->set[set].mask[LIKE]) return m->set[set].mask[LIKE];
    const uint64_t *brief = short_mask(m, l, m->set[set].like[NEAR]);
    if (!brief) return NULL;
    struct mask_walk w = walk_from(m, l, set, LIKE);
    memcpy(w.mask, brief, l->words * sizeof *w.mask);
    walk(&w, &l->long_plain, false);
    walk(&w, &l->long_rest, false);
    if (m->set[set].done)
        for (size_t i = 0; i < l->words; i++) w.mask[i] |= l->ends[i];
    return keep(&w);
}
