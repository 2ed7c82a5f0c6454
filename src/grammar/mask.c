// The mask of a set, by a walk over trees of tokens that steps from set to set. Most tokens need no
// walk: where a string goes on, any character leads to the same set, from there again, and so on
// until the string is as long as it may be (a chain), so the number of a token's characters
// decides.
#include "grammar/mask.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

// A walk over tokens from a set: what is like another one, in the sense of `kind`, is that one.
struct mask_walk {
    struct machine *m;
    const struct lexicon *l;
    int32_t from;
    int kind; // LIKE or NEAR
    uint64_t *mask;
    // The chain: set[i] after i characters, up to the last one, which leads to itself (loops), to
    // nothing, or as far as tokens go. A plain token of n characters of the groups in decided[n]
    // goes along it. At set[i] all does so that is of the groups in ahead[i].
    int32_t set[LEX_LONGEST + 1];
    uint64_t decided[LEX_LONGEST + 2], ahead[LEX_LONGEST + 1];
    size_t last;
    bool loops;
    size_t most; // characters that can be read along it
};

static int32_t step(struct machine *m, int32_t set, unsigned char byte) {
    const int32_t *next = m->set[set].next;
    int32_t to = next ? next[m->a->class[byte]] : MACHINE_UNKNOWN;
    return to == MACHINE_UNKNOWN ? machine_step(m, set, byte) : to;
}

// The set after a byte, or what is like it.
static int32_t step_like(const struct mask_walk *w, int32_t set, unsigned char byte) {
    int32_t to = step(w->m, set, byte);
    return to < 0 ? to : w->m->set[to].like[w->kind];
}

// --- where nearly all characters lead ------------------------------------------------------------

// Whether any of the bytes lo to hi, and `more` that go on with the character, lead to a set. No
// part of a character may.
static bool lead_to(const struct mask_walk *w, int32_t from, int32_t then, int lo, int hi,
                    int more) {
    int32_t last = MACHINE_UNKNOWN;
    for (int b = lo; b <= hi; b++) {
        int32_t to = step_like(w, from, (unsigned char)b);
        if (to == last) continue;
        last = to;
        if (!more || then < 0) {
            if (to != then) return false;
        } else if (to < 0 || to == then || !lead_to(w, to, then, 0x80, 0xbf, more - 1)) {
            return false;
        }
    }
    return true;
}

// The same of any whole character beyond ASCII.
static bool whole_lead_to(const struct mask_walk *w, int32_t from, int32_t then) {
    static const struct {
        unsigned char lo, hi, next_lo, next_hi;
        int more; // after the next
    } lead[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 0}, {0xe0, 0xe0, 0xa0, 0xbf, 1}, {0xe1, 0xec, 0x80, 0xbf, 1},
        {0xed, 0xed, 0x80, 0x9f, 1}, {0xee, 0xef, 0x80, 0xbf, 1}, {0xf0, 0xf0, 0x90, 0xbf, 2},
        {0xf1, 0xf3, 0x80, 0xbf, 2}, {0xf4, 0xf4, 0x80, 0x8f, 2},
    };
    if (then < 0) return lead_to(w, from, then, 0xc2, 0xf4, 0);
    for (size_t i = 0; i < sizeof lead / sizeof *lead; i++) {
        int32_t last = MACHINE_UNKNOWN;
        for (int b = lead[i].lo; b <= lead[i].hi; b++) {
            int32_t to = step_like(w, from, (unsigned char)b);
            if (to == last) continue;
            last = to;
            if (to < 0 || to == then ||
                !lead_to(w, to, then, lead[i].next_lo, lead[i].next_hi, lead[i].more))
                return false;
        }
    }
    return true;
}

// Where most of the characters lead that plain tokens have of ASCII.
static int32_t usual_step(const int32_t to[128]) {
    int most = 0, best = 'a';
    for (int b = 'a'; b <= 'z'; b++) {
        int same = 0;
        for (int k = ' '; k < 0x7f; k++) same += to[k] == to[b];
        if (same > most) most = same, best = b;
    }
    return to[best];
}

// Finds out where nearly all characters lead from a set.
static void find_then(const struct mask_walk *w, int32_t set) {
    int32_t to[128];
    uint64_t groups = ((uint64_t)1 << LEX_GROUPS) - 1;
    for (int b = 0; b < 128; b++) to[b] = step_like(w, set, (unsigned char)b);
    int32_t then = usual_step(to);
    for (int b = 0; b < 128; b++)
        if (to[b] != then) groups &= ~((uint64_t)1 << lex_group[b]);
    bool loose = then == set && lead_to(w, set, then, 0x80, 0xff, 0);
    if (!loose) groups &= ~((uint64_t)1 << LEX_LOOSE);
    if (!loose && !whole_lead_to(w, set, then)) groups &= ~((uint64_t)1 << LEX_WHOLE);
    if (w->m->e->set) return;
    w->m->set[set].then[w->kind] = then;
    w->m->set[set].groups[w->kind] = groups;
}

// chars: the most that a token has.
static void find_chain(struct mask_walk *w, size_t chars) {
    uint64_t groups[LEX_LONGEST + 1] = {0}, all = ~(uint64_t)0;
    int32_t set = w->from;
    w->most = SIZE_MAX;
    for (size_t i = 0; !i || i < chars; i++) {
        struct machine *m = w->m;
        if (m->set[set].then[w->kind] == MACHINE_UNKNOWN) find_then(w, set);
        if (m->e->set) return;
        int32_t then = m->set[set].then[w->kind];
        groups[i] = m->set[set].groups[w->kind];
        w->last = i;
        w->set[i] = set;
        w->decided[i] = all;
        w->decided[i + 1] = all &= groups[i];
        w->loops = then == set;
        if (then < 0) w->most = i;
        if (then < 0 || w->loops) break;
        set = then;
    }
    w->ahead[w->last] = groups[w->last];
    for (size_t i = w->last; i-- > 0;) w->ahead[i] = groups[i] & w->ahead[i + 1];
}

static uint64_t decided(const struct mask_walk *w, size_t chars) {
    return w->decided[chars <= w->last ? chars : w->last + 1];
}

// --- tokens --------------------------------------------------------------------------------------

static void allow(const struct mask_walk *w, const struct lex_node *n) {
    uint32_t token = n->token;
    if (!token) return;
    w->mask[(token - 1) / 64] |= (uint64_t)1 << ((token - 1) % 64);
    if (!n->more) return;
    while ((token = (uint32_t)w->l->more[token]))
        w->mask[(token - 1) / 64] |= (uint64_t)1 << ((token - 1) % 64);
}

// Allows those of a tree of plain tokens that go along the chain. Returns whether any could: then
// what is decided is in the mask.
static bool allow_chain(const struct mask_walk *w, const struct lex_tree *t) {
    if (!w->most || !w->decided[1]) return false;
    if (w->most >= t->chars && !(t->groups & ~decided(w, t->chars))) {
        for (size_t i = 0; i < w->l->words; i++) w->mask[i] |= t->set[i];
        return true;
    }
    const uint64_t *groups = w->l->groups;
    for (size_t i = 0; i < t->ids; i++) {
        int32_t id = t->id[i];
        size_t chars = w->l->chars[id];
        bool all = chars <= w->most && !(groups[id] & ~decided(w, chars));
        w->mask[id / 64] |= (uint64_t)all << (id % 64);
    }
    return true;
}

// Where a walk is, at each depth.
struct path {
    int32_t set;
    uint16_t chars, rest; // begun; bytes that the last one lacks
    uint64_t groups;      // of its bytes
};

static struct path path_on(const struct path *p, int32_t set, unsigned char byte) {
    bool begins = (byte & 0xc0) != 0x80;
    int rest = !begins ? p->rest - 1 : byte < 0xc0 ? 0 : byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    return (struct path){
        .set = set,
        .chars = (uint16_t)(p->chars + begins),
        .rest = (uint16_t)(rest < 0 ? 0 : rest),
        .groups = p->groups | (uint64_t)1 << (byte < 128 ? lex_group[byte] : LEX_WHOLE),
    };
}

// Whether all that hangs below a node goes along the chain.
static bool on_chain(const struct mask_walk *w, const struct path *p, uint64_t below, bool plain) {
    size_t i = !plain ? 0 : p->chars <= w->last ? p->chars : w->last;
    if (below & ~w->ahead[i] || w->m->set[p->set].like[w->kind] != w->set[i]) return false;
    if (!plain) return w->loops && !w->last;
    return !p->rest && (p->chars <= w->last || w->loops);
}

// Adds the tokens of a tree whose bytes may follow the set. known: those that were decided are in
// the mask.
static void walk(const struct mask_walk *w, const struct lex_tree *t, bool plain, bool known) {
    struct path at[LEX_LONGEST + 1];
    at[0] = (struct path){.set = w->from};
    uint64_t all = known ? decided(w, t->chars) : 0;
    for (uint32_t i = 0; i < t->nodes;) {
        const struct lex_node *n = &t->node[i];
        const struct path *from = &at[n->depth - 1];
        int32_t to = step(w->m, from->set, n->byte);
        if (to < 0) {
            i = n->after;
            continue;
        }
        struct path *p = &at[n->depth];
        *p = path_on(from, to, n->byte);
        allow(w, n);
        i++;
        if (i == n->after || !on_chain(w, p, t->below[i - 1], plain)) continue;
        bool skip = known && !((p->groups | t->below[i - 1]) & ~all);
        for (; i < n->after && !skip; i++)
            if (!plain || w->l->chars[t->node[i].token - !!t->node[i].token] <= w->most)
                allow(w, &t->node[i]);
        i = n->after;
    }
}

static struct mask_walk walk_from(struct machine *m, const struct lexicon *l, int32_t from,
                                  int kind, size_t chars) {
    struct mask_walk w = {.m = m, .l = l, .from = from, .kind = kind};
    w.mask = mem_array(l->words, sizeof *w.mask);
    find_chain(&w, chars);
    return w;
}

static void add_tokens(const struct mask_walk *w, const struct lex_tree *plain,
                       const struct lex_tree *rest) {
    bool known = allow_chain(w, plain);
    if (!known || plain->groups & ~decided(w, plain->chars)) walk(w, plain, true, known);
    walk(w, rest, false, false);
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
    struct mask_walk w = walk_from(m, l, set, NEAR, l->plain.chars);
    if (!m->e->set) add_tokens(&w, &l->plain, &l->rest);
    return keep(&w);
}

const uint64_t *mask_of(struct machine *m, const struct lexicon *l, int32_t set) {
    set = m->set[set].like[LIKE];
    if (m->set[set].mask[LIKE]) return m->set[set].mask[LIKE];
    const uint64_t *brief = short_mask(m, l, m->set[set].like[NEAR]);
    if (!brief) return NULL;
    struct mask_walk w = walk_from(m, l, set, LIKE, l->long_plain.chars);
    memcpy(w.mask, brief, l->words * sizeof *w.mask);
    if (!m->e->set) add_tokens(&w, &l->long_plain, &l->long_rest);
    if (m->set[set].done)
        for (size_t i = 0; i < l->words; i++) w.mask[i] |= l->ends[i];
    return keep(&w);
}
