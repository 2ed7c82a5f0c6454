// From a pattern to a deterministic automaton: states with empty steps (Thompson 1968), then sets
// of them.
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "grammar/dfa.h"

enum { STATES = 1 << 16, LAY_STEPS = 8, SET_STEPS = 16, AFTER = 4, AFTER_BYTES = 96 };

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
    struct effort *effort;
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
    int32_t all = -1;
    if (n->e->set || !effort_work(n->effort, LAY_STEPS, n->e)) return 0; // there may be no node
    const struct syn_node *r = &n->s->node[node];
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
    size_t depth = 0, steps = 0;
    bool accepts = false;
    visit(n, from, &depth);
    while (depth) {
        int32_t at = n->stack[--depth];
        const struct nfa_state *s = &n->state[at];
        steps++;
        if (s->kind == NFA_CHAR || s->kind == NFA_END) n->list[n->listed++] = at;
        accepts |= s->kind == NFA_ACCEPT;
        if (s->kind == NFA_SPLIT || (s->kind == NFA_BEGIN && begin) ||
            (s->kind == NFA_END && end)) {
            visit(n, s->to, &depth);
            visit(n, s->other, &depth);
        }
    }
    effort_work(n->effort, steps, n->e);
    return accepts;
}

static int by_number(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

struct subsets {
    struct nfa *n;
    struct dfa *d;
    struct map number;      // by the states in the set, and whether the text may end
    struct str *set;        // [states] int32
    size_t sets, cap, held; // held: bytes of the sets
    // [n] of each state of the n: the classes that it reads, from inclusive to exclusive; a list of
    // those that begin with the same class; and those that read the class at hand.
    int32_t *from, *to, *link, *active;
    int32_t *begin, *ends; // [classes + 1] that list, and how many states' ranges end there
    struct map after;      // where short lists of states lead: a state + 1; 0: nowhere
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
    effort_work(n->effort, SET_STEPS * (1 + listed), n->e);
    int64_t found = map_get(&x->number, str_sv(&key));
    int32_t state = found >= 0 ? (int32_t)found : dfa_add(x->d, accepts, n->e);
    bool held = found < 0 && state >= 0 && effort_hold(n->effort, 2 * key.n, n->e);
    if (!held) {
        str_free(&key);
        return state;
    }
    x->held += 2 * key.n;
    map_put(&x->number, str_sv(&key), state);
    x->set = mem_grow(x->set, &x->cap, (size_t)state + 1, sizeof *x->set);
    x->set[state] = key;
    x->sets++;
    return state;
}

// Puts the characters of a set's states on the lists of the classes that they begin with.
static void list_members(struct subsets *x, size_t state) {
    struct sv set = str_sv(&x->set[state]);
    for (size_t c = 0; c <= x->d->classes; c++) x->begin[c] = -1, x->ends[c] = 0;
    for (size_t i = 0; i < set.n / sizeof(int32_t); i++) {
        int32_t at;
        memcpy(&at, set.p + i * sizeof at, sizeof at);
        if (x->n->state[at].kind != NFA_CHAR) continue;
        x->link[at] = x->begin[x->from[at]];
        x->begin[x->from[at]] = at;
        x->ends[x->to[at]]++;
    }
    effort_work(x->n->effort, x->d->classes + set.n / sizeof(int32_t), x->n->e);
}

// Takes the states that do not read class c from the active ones, and adds those that begin with
// it. Returns how many there are.
static size_t move_on(struct subsets *x, size_t c, size_t active) {
    size_t kept = 0;
    for (size_t i = 0; i < active; i++)
        if (x->to[x->active[i]] > (int32_t)c) x->active[kept++] = x->active[i];
    for (int32_t at = x->begin[c]; at >= 0; at = x->link[at]) x->active[kept++] = at;
    return kept;
}

// Where the active states lead, which are few in most cases; how many, or more than AFTER.
static size_t list_after(const struct subsets *x, size_t active, int32_t to[AFTER]) {
    size_t n = 0;
    for (size_t i = 0; i < active; i++) {
        int32_t state = x->n->state[x->active[i]].to;
        size_t at = 0;
        while (at < n && to[at] < state) at++;
        if (at < n && to[at] == state) continue;
        if (n == AFTER) return AFTER + 1;
        memmove(to + at + 1, to + at, (n++ - at) * sizeof *to);
        to[at] = state;
    }
    return n;
}

static int32_t step(struct subsets *x, size_t active) {
    struct nfa *n = x->n;
    int32_t to[AFTER];
    bool accepts = false;
    size_t few = list_after(x, active, to);
    struct sv key = sv_n((const char *)to, few * sizeof *to);
    int64_t known = few <= AFTER ? map_get(&x->after, key) : -1;
    effort_work(n->effort, SET_STEPS + active, n->e);
    if (known >= 0) return (int32_t)known - 1;
    n->listed = 0;
    n->walk++;
    for (size_t i = 0; i < active; i++)
        accepts |= reach(n, n->state[x->active[i]].to, false, false);
    int32_t state = n->listed || accepts ? subset(x, accepts, false) : -1;
    if (few <= AFTER && effort_hold(n->effort, AFTER_BYTES, n->e)) {
        x->held += AFTER_BYTES;
        map_put(&x->after, key, state + 1);
    }
    return state;
}

static void add_steps(struct subsets *x, size_t state) {
    size_t active = 0;
    int32_t to = -1;
    list_members(x, state);
    for (size_t c = 0; c < x->d->classes && !x->n->e->set; c++) {
        if (x->ends[c] || x->begin[c] >= 0) { // else it leads where the last class does
            active = move_on(x, c, active);
            to = step(x, active);
        }
        x->d->next[state * x->d->classes + c] = to;
    }
}

static void find_classes(struct subsets *x) {
    struct nfa *n = x->n;
    uint32_t *low = mem_array(2 * n->n + 1, sizeof *low);
    size_t count = 0;
    for (size_t i = 0; i < n->n; i++) {
        if (n->state[i].kind != NFA_CHAR) continue;
        low[count++] = n->state[i].lo;
        low[count++] = n->state[i].hi + 1;
    }
    dfa_classes(x->d, low, count);
    for (size_t i = 0; i < n->n; i++) {
        if (n->state[i].kind != NFA_CHAR) continue;
        x->from[i] = (int32_t)dfa_class(x->d, n->state[i].lo);
        x->to[i] = (int32_t)dfa_class(x->d, n->state[i].hi) + 1;
    }
}

static void find_states(struct nfa *n, int32_t first, struct dfa *d) {
    struct subsets x = {.n = n, .d = d};
    int32_t *room = mem_array(7 * n->n, sizeof *room); // n->list has two parts
    n->list = room;
    n->stack = room + 2 * n->n;
    x.from = room + 3 * n->n;
    x.to = room + 4 * n->n;
    x.link = room + 5 * n->n;
    x.active = room + 6 * n->n;
    n->seen = mem_array(n->n, sizeof *n->seen);
    n->walk = 1;
    find_classes(&x);
    x.begin = mem_array(d->classes + 1, sizeof *x.begin);
    x.ends = mem_array(d->classes + 1, sizeof *x.ends);
    bool accepts = reach(n, first, true, false);
    subset(&x, accepts, true);
    for (size_t i = 0; i < d->states && !n->e->set; i++) add_steps(&x, i);
    for (size_t i = 0; i < x.sets; i++) str_free(&x.set[i]);
    effort_drop(n->effort, x.held);
    free(x.set);
    free(x.begin);
    free(x.ends);
    map_free(&x.number);
    map_free(&x.after);
    free(room);
    free(n->seen);
}

bool dfa_regex(struct dfa *d, struct effort *f, struct sv pattern, bool search, struct error *e) {
    struct syntax s = {.e = e, .effort = f};
    struct nfa n = {.s = &s, .effort = f, .e = e};
    *d = (struct dfa){.effort = f};
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
