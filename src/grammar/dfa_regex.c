// From a pattern to a deterministic automaton: states with empty steps (Thompson 1968), then sets
// of them.
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "grammar/dfa.h"

enum { STATES = 1 << 16 };

enum nfa_kind { NFA_CHAR, NFA_SPLIT, NFA_BEGIN, NFA_END, NFA_ACCEPT };
struct nfa_state {
    enum nfa_kind kind;
    uint32_t lo, hi;
    int32_t to, other; // other: of a split, -1: none
};

struct nfa {
    const struct syntax *s;
    struct nfa_state *state;
    size_t n, cap;
    int32_t *list; // a set of states; and room for a walk
    size_t listed;
    int32_t *stack;
    uint32_t *seen; // [n] walk that came here last
    uint32_t walk;
    size_t work;
    struct error *e;
};

static int32_t add(struct nfa *n, enum nfa_kind kind, uint32_t lo, uint32_t hi, int32_t to) {
    if (n->n >= STATES)
        fail(n->e, "a regular expression is too large: its repeats make more than %d states",
             STATES);
    if (n->e->set) return 0;
    n->state = mem_grow(n->state, &n->cap, n->n + 1, sizeof *n->state);
    n->state[n->n] = (struct nfa_state){kind, lo, hi, to, -1};
    return (int32_t)n->n++;
}

static int32_t split(struct nfa *n, int32_t to, int32_t other) {
    int32_t s = add(n, NFA_SPLIT, 0, 0, to);
    if (!n->e->set) n->state[s].other = other;
    return s;
}

static int32_t lay(struct nfa *n, int32_t node, int32_t next);

static int32_t lay_seq(struct nfa *n, int32_t child, int32_t next) {
    size_t children = 0;
    for (int32_t c = child; c >= 0; c = n->s->node[c].next) children++;
    int32_t *list = mem_array(children, sizeof *list);
    size_t i = 0;
    for (int32_t c = child; c >= 0; c = n->s->node[c].next) list[i++] = c;
    while (i && !n->e->set) next = lay(n, list[--i], next);
    free(list);
    return next;
}

static int32_t lay_repeat(struct nfa *n, const struct syn_node *r, int32_t next) {
    int32_t end = next;
    if (r->b < 0) {
        int32_t again = split(n, -1, next), first = lay(n, r->child, again);
        if (!n->e->set) n->state[again].to = first;
        next = r->a ? first : again;
    }
    for (int32_t i = r->b < 0 ? r->a - 1 : r->b; i-- > 0 && !n->e->set;) {
        next = lay(n, r->child, next);
        if (i >= r->a) next = split(n, next, end);
    }
    return next;
}

static int32_t lay(struct nfa *n, int32_t node, int32_t next) {
    const struct syn_node *r = &n->s->node[node];
    int32_t all = -1;
    if (n->e->set) return 0;
    switch (r->kind) {
    case SYN_SEQ: return lay_seq(n, r->child, next);
    case SYN_RANGE: return add(n, NFA_CHAR, (uint32_t)r->a, (uint32_t)r->b, next);
    case SYN_CALL: return add(n, r->a == REGEX_BEGIN ? NFA_BEGIN : NFA_END, 0, 0, next);
    case SYN_REPEAT: return lay_repeat(n, r, next);
    default: break;
    }
    for (int32_t c = r->child; c >= 0 && !n->e->set; c = n->s->node[c].next)
        all = split(n, lay(n, c, next), all);
    return all < 0 ? split(n, -1, -1) : all;
}

// --- sets ----------------------------------------------------------------------------------------

static void visit(struct nfa *n, int32_t state, size_t *depth) {
    if (state < 0 || n->seen[state] == n->walk) return;
    n->seen[state] = n->walk;
    n->stack[(*depth)++] = state;
}

// Adds to the list what empty steps lead to from a state. True: the text may end there.
static bool reach(struct nfa *n, int32_t from, bool begin, bool end) {
    size_t depth = 0;
    bool accepts = false;
    visit(n, from, &depth);
    while (depth) {
        int32_t at = n->stack[--depth];
        const struct nfa_state *s = &n->state[at];
        n->work++;
        if (s->kind == NFA_CHAR || s->kind == NFA_END) n->list[n->listed++] = at;
        accepts |= s->kind == NFA_ACCEPT;
        if (s->kind == NFA_SPLIT || (s->kind == NFA_BEGIN && begin) ||
            (s->kind == NFA_END && end)) {
            visit(n, s->to, &depth);
            visit(n, s->other, &depth);
        }
    }
    return accepts;
}

static int by_number(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

struct subsets {
    struct nfa *n;
    struct dfa *d;
    struct map number; // by the states in the set, and whether the text may end
    struct str *set;   // [states] int32
    size_t cap;
};

// The state for the list, in which a text that ends is `accepts`.
static int32_t subset(struct subsets *x, bool accepts, bool begin) {
    struct nfa *n = x->n;
    size_t listed = n->listed;
    struct str key = {0};
    if (listed > 1) qsort(n->list, listed, sizeof *n->list, by_number);
    str_add(&key, sv_n((const char *)n->list, listed * sizeof *n->list));
    n->walk++;
    for (size_t i = 0; i < listed && !accepts; i++)
        accepts = n->state[n->list[i]].kind == NFA_END && reach(n, n->list[i], begin, true);
    str_addc(&key, accepts);
    int64_t found = map_get(&x->number, str_sv(&key));
    int32_t state = found >= 0 ? (int32_t)found : dfa_add(x->d, accepts, n->e);
    if (found >= 0 || state < 0) {
        str_free(&key);
        return state;
    }
    map_put(&x->number, str_sv(&key), state);
    x->set = mem_grow(x->set, &x->cap, (size_t)state + 1, sizeof *x->set);
    x->set[state] = key;
    return state;
}

static void add_steps(struct subsets *x, size_t state) {
    struct nfa *n = x->n;
    struct sv set = str_sv(&x->set[state]);
    size_t members = set.n / sizeof(int32_t);
    for (size_t c = 0; c < x->d->classes && !n->e->set; c++) {
        uint32_t low = x->d->low[c];
        bool accepts = false;
        n->listed = 0;
        n->walk++;
        for (size_t i = 0; i < members; i++) {
            int32_t at;
            memcpy(&at, set.p + i * sizeof at, sizeof at);
            const struct nfa_state *s = &n->state[at];
            n->work++;
            if (s->kind == NFA_CHAR && s->lo <= low && low <= s->hi)
                accepts |= reach(n, s->to, false, false);
        }
        if (n->work > DFA_WORK) fail(n->e, "a regular expression takes too long to prepare");
        if (n->listed || accepts) {
            int32_t to = subset(x, accepts, false);
            x->d->next[state * x->d->classes + c] = to;
        }
    }
}

static void find_classes(struct nfa *n, struct dfa *d) {
    uint32_t *low = mem_array(2 * n->n + 1, sizeof *low);
    size_t count = 0;
    for (size_t i = 0; i < n->n; i++) {
        if (n->state[i].kind != NFA_CHAR) continue;
        low[count++] = n->state[i].lo;
        low[count++] = n->state[i].hi + 1;
    }
    dfa_classes(d, low, count);
}

static void find_states(struct nfa *n, int32_t first, struct dfa *d) {
    struct subsets x = {.n = n, .d = d};
    n->list = mem_array(2 * n->n, sizeof *n->list);
    n->stack = mem_array(n->n, sizeof *n->stack);
    n->seen = mem_array(n->n, sizeof *n->seen);
    n->walk = 1;
    find_classes(n, d);
    bool accepts = reach(n, first, true, false);
    subset(&x, accepts, true);
    for (size_t i = 0; i < d->states && !n->e->set; i++) add_steps(&x, i);
    for (size_t i = 0; i < d->states && x.set; i++) str_free(&x.set[i]);
    free(x.set);
    map_free(&x.number);
    free(n->list);
    free(n->stack);
    free(n->seen);
}

bool dfa_regex(struct dfa *d, struct sv pattern, bool search, struct error *e) {
    struct syntax s = {.e = e};
    struct nfa n = {.s = &s, .e = e};
    *d = (struct dfa){0};
    int32_t root = regex_parse(&s, pattern);
    int32_t first = add(&n, NFA_ACCEPT, 0, 0, -1);
    for (int side = 0; side < 2; side++) { // from the end
        if (search) {
            int32_t any = split(&n, -1, first), one = add(&n, NFA_CHAR, 0, CHAR_LAST, any);
            if (!e->set) n.state[any].to = one;
            first = any;
        }
        if (!side) first = lay(&n, root, first);
    }
    if (!e->set) find_states(&n, first, d);
    free(n.state);
    syn_free(&s);
    return !e->set;
}
