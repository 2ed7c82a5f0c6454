// From rules to an automaton in three steps: graphs with empty steps, written from the end of each
// rule to its beginning (lay_*); the same without empty steps (join_*); and what holds of all rules
// together: which of them can end, which are left recursive.
#include "grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "grammar/ends.h"

enum { STATES = 1 << 19, EDGES = 1 << 20, COPIES = 64, INLINED = 24, INLINE_DEPTH = 24 };

// A state with empty steps. Kinds: a byte and then `to`, a call and then `to`, the end of a rule,
// or empty steps to a list of others.
enum state_kind { STATE_BYTE, STATE_CALL, STATE_END, STATE_SPLIT };
struct state {
    enum state_kind kind;
    unsigned char lo, hi;
    int32_t callee, to;
    int32_t step;   // STATE_SPLIT: the first of its list, -1: none
    int32_t node;   // in the automaton, -1: none
    uint32_t visit; // of the last walk that came here
};

struct step {
    int32_t to, next;
};

struct layer {
    struct automaton *a;
    const struct syntax *s;
    struct error *e;
    struct state *state;
    struct step *step;
    size_t states, steps, state_cap, step_cap;
    int32_t *size;  // [rules] 0: unknown, -1: being counted
    int32_t *stack; // of a walk
    size_t stack_cap;
    int32_t *todo; // states that become nodes
    size_t todos, todo_cap;
    uint32_t visits;
};

// --- with empty steps ----------------------------------------------------------------------------

static int32_t add_state(struct layer *l, struct state s) {
    if (l->states >= STATES) fail(l->e, "the grammar needs more than %d states", STATES);
    if (l->e->set) return 0;
    l->state = mem_grow(l->state, &l->state_cap, l->states + 1, sizeof *l->state);
    s.node = s.step = -1;
    l->state[l->states] = s;
    return (int32_t)l->states++;
}

static int32_t add_byte(struct layer *l, int lo, int hi, int32_t to) {
    return add_state(l, (struct state){
                            .kind = STATE_BYTE,
                            .lo = (unsigned char)lo,
                            .hi = (unsigned char)hi,
                            .to = to,
                        });
}

static int32_t add_split(struct layer *l) {
    return add_state(l, (struct state){.kind = STATE_SPLIT});
}

static void add_step(struct layer *l, int32_t from, int32_t to) {
    if (l->e->set) return;
    l->step = mem_grow(l->step, &l->step_cap, l->steps + 1, sizeof *l->step);
    l->step[l->steps] = (struct step){to, l->state[from].step};
    l->state[from].step = (int32_t)l->steps++;
}

// The states that a part takes, as far as it matters: above COPIES, all are alike. A rule that
// can't be put in the place of its call counts as that.
static int32_t size_of(struct layer *l, int32_t node, int depth) {
    const struct syn_node *n = &l->s->node[node];
    int64_t sum = 1;
    if (depth > INLINE_DEPTH) return COPIES + 1;
    if (n->kind == SYN_CALL) {
        int32_t *size = &l->size[n->a];
        if (*size < 0) return COPIES + 1;
        if (*size > 0) return *size;
        *size = -1;
        int32_t found = size_of(l, l->s->rule[n->a].node, depth + 1);
        *size = found > INLINED ? COPIES + 1 : found;
        return *size;
    }
    if (n->kind == SYN_UNTIL || n->kind == SYN_WITHOUT)
        return n->b < COPIES ? n->b + 1 : COPIES + 1;
    for (int32_t c = n->child; c >= 0 && sum <= COPIES; c = l->s->node[c].next)
        sum += size_of(l, c, depth + 1);
    if (n->kind == SYN_REPEAT) sum *= n->b > 0 ? n->b : n->a > 0 ? n->a : 1;
    return sum > COPIES ? COPIES + 1 : (int32_t)sum;
}

static int32_t lay(struct layer *l, int32_t node, int32_t next, int depth);

static int32_t lay_seq(struct layer *l, const struct syn_node *n, int32_t next, int depth) {
    size_t children = 0;
    for (int32_t c = n->child; c >= 0; c = l->s->node[c].next) children++;
    int32_t *list = mem_array(children, sizeof *list);
    size_t i = 0;
    for (int32_t c = n->child; c >= 0; c = l->s->node[c].next) list[i++] = c;
    while (i && !l->e->set) next = lay(l, list[--i], next, depth);
    free(list);
    return next;
}

static int32_t lay_alt(struct layer *l, const struct syn_node *n, int32_t next, int depth) {
    int32_t split = add_split(l);
    for (int32_t c = n->child; c >= 0 && !l->e->set; c = l->s->node[c].next)
        add_step(l, split, lay(l, c, next, depth));
    return split;
}

static int32_t add_loop(struct layer *l, int32_t body, int32_t min, int32_t max, int32_t next) {
    struct automaton *a = l->a;
    a->loop = mem_grow(a->loop, &a->loop_cap, a->loops + 1, sizeof *a->loop);
    a->loop[a->loops++] = (struct pda_loop){.body = body, .min = min, .max = max};
    return add_state(l,
                     (struct state){.kind = STATE_CALL, .callee = -(int32_t)a->loops, .to = next});
}

// The child once or more.
static int32_t lay_more(struct layer *l, int32_t child, int32_t next, int depth) {
    int32_t again = add_split(l), first = lay(l, child, again, depth);
    add_step(l, again, first);
    add_step(l, again, next);
    return first;
}

static int32_t either(struct layer *l, int32_t one, int32_t other) {
    int32_t split = add_split(l);
    add_step(l, split, one);
    add_step(l, split, other);
    return split;
}

// Few small repeats are written out, so that they need no counting.
static int32_t lay_repeat(struct layer *l, const struct syn_node *n, int32_t next, int depth) {
    int32_t min = n->a, max = n->b, end = next;
    int64_t most = max < 0 ? min : max;
    if (most > 1 && size_of(l, n->child, 0) * most > COPIES)
        return add_loop(l, n->child, min, max, next);
    if (max < 0) next = lay_more(l, n->child, next, depth);
    if (max < 0 && min == 0) return either(l, next, end);
    for (int64_t i = max < 0 ? min - 1 : max; i-- > 0 && !l->e->set;) {
        next = lay(l, n->child, next, depth);
        if (i >= min) next = either(l, next, end);
    }
    return next;
}

// Where the text's beginning of n bytes goes with byte c: how many bytes of it were read then.
static size_t fall(struct sv text, const size_t *border, size_t n, char c) {
    while (n && text.p[n] != c) n = border[n - 1];
    return text.p[n] == c ? n + 1 : 0;
}

// A chain of states, one for each byte of the text that was read, and from each the way back to
// what is still a beginning of the text (Knuth, Morris, Pratt 1977).
static int32_t lay_until(struct layer *l, const struct syn_node *n, int32_t next) {
    struct sv text = sv_n(l->s->text.p + n->a, (size_t)n->b);
    size_t *border = mem_array(text.n + 1, sizeof *border);
    int32_t *at = mem_array(text.n + 1, sizeof *at);
    for (size_t i = 1; i < text.n; i++) border[i] = fall(text, border, border[i - 1], text.p[i]);
    for (size_t i = 0; i < text.n; i++) at[i] = add_split(l);
    at[text.n] = n->kind == SYN_UNTIL ? next : -1;
    for (size_t i = 0; i < text.n && !l->e->set; i++) {
        if (n->kind == SYN_WITHOUT) add_step(l, at[i], next);
        for (int lo = 0, hi; lo < 256; lo = hi) {
            size_t to = fall(text, border, i, (char)lo);
            for (hi = lo + 1; hi < 256 && fall(text, border, i, (char)hi) == to;) hi++;
            if (at[to] >= 0) add_step(l, at[i], add_byte(l, lo, hi - 1, at[to]));
        }
    }
    int32_t first = at[0];
    free(border);
    free(at);
    return first;
}

static int32_t lay(struct layer *l, int32_t node, int32_t next, int depth) {
    const struct syn_node *n = &l->s->node[node];
    if (depth > SYN_DEPTH) fail(l->e, "the grammar is nested deeper than %d", SYN_DEPTH);
    if (l->e->set) return 0;
    switch (n->kind) {
    case SYN_SEQ: return lay_seq(l, n, next, depth + 1);
    case SYN_ALT: return lay_alt(l, n, next, depth + 1);
    case SYN_RANGE: return add_byte(l, n->a, n->b, next);
    case SYN_REPEAT: return lay_repeat(l, n, next, depth + 1);
    case SYN_UNTIL:
    case SYN_WITHOUT: return lay_until(l, n, next);
    case SYN_CALL: break;
    }
    if (size_of(l, node, 0) <= INLINED) return lay(l, l->s->rule[n->a].node, next, depth + 1);
    return add_state(l, (struct state){.kind = STATE_CALL, .callee = n->a, .to = next});
}

// --- without empty steps -------------------------------------------------------------------------

// The node of a state, which gets its edges when its turn comes.
static int32_t node_of(struct layer *l, int32_t state) {
    struct automaton *a = l->a;
    if (l->e->set || l->state[state].node >= 0) return l->e->set ? 0 : l->state[state].node;
    a->node = mem_grow(a->node, &a->node_cap, a->nodes + 1, sizeof *a->node);
    a->node[a->nodes] = (struct pda_node){.loop = -1};
    l->todo = mem_grow(l->todo, &l->todo_cap, l->todos + 1, sizeof *l->todo);
    l->todo[l->todos++] = state;
    return l->state[state].node = (int32_t)a->nodes++;
}

static void add_edge(struct layer *l, int32_t node, const struct state *s) {
    struct automaton *a = l->a;
    unsigned char lo = s->lo, hi = s->hi;
    int32_t to = node_of(l, s->to);
    if (a->edges >= EDGES) fail(l->e, "the grammar needs more than %d edges", EDGES);
    if (l->e->set) return;
    a->edge = mem_grow(a->edge, &a->edge_cap, a->edges + 1, sizeof *a->edge);
    a->edge[a->edges++] = (struct pda_edge){lo, hi, to};
    a->node[node].edges++;
}

static void add_call(struct layer *l, int32_t node, const struct state *s) {
    struct automaton *a = l->a;
    int32_t callee = s->callee, to = node_of(l, s->to);
    if (a->calls >= EDGES) fail(l->e, "the grammar needs more than %d calls", EDGES);
    if (l->e->set) return;
    a->call = mem_grow(a->call, &a->call_cap, a->calls + 1, sizeof *a->call);
    a->call[a->calls++] = (struct pda_call){callee, to};
    a->node[node].calls++;
}

// All that empty steps lead to from a state is its node's.
static void join(struct layer *l, int32_t from) {
    int32_t node = l->state[from].node;
    size_t n = 0;
    l->a->node[node].edge = (int32_t)l->a->edges;
    l->a->node[node].call = (int32_t)l->a->calls;
    l->visits++;
    l->stack = mem_grow(l->stack, &l->stack_cap, 1, sizeof *l->stack);
    l->stack[n++] = from;
    l->state[from].visit = l->visits;
    while (n && !l->e->set) {
        struct state s = l->state[l->stack[--n]];
        if (s.kind == STATE_BYTE) add_edge(l, node, &s);
        if (s.kind == STATE_CALL) add_call(l, node, &s);
        if (s.kind == STATE_END) l->a->node[node].final = true;
        for (int32_t i = s.step; i >= 0; i = l->step[i].next) {
            int32_t to = l->step[i].to;
            if (l->state[to].visit == l->visits) continue;
            l->state[to].visit = l->visits;
            l->stack = mem_grow(l->stack, &l->stack_cap, n + 1, sizeof *l->stack);
            l->stack[n++] = to;
        }
    }
}

static void join_all(struct layer *l) {
    while (l->todos && !l->e->set) join(l, l->todo[--l->todos]);
}

// The graph of one rule. Its states are of no use afterwards.
static int32_t lay_rule(struct layer *l, int32_t body) {
    l->states = l->steps = l->visits = 0;
    int32_t end = add_state(l, (struct state){.kind = STATE_END});
    int32_t first = node_of(l, lay(l, body, end, 0));
    join_all(l);
    return first;
}

// Rules, then the bodies of loops, which may hold more loops. Until it has a rule, a loop's body is
// the syntax's node.
static void lay_rules(struct layer *l) {
    struct automaton *a = l->a;
    size_t cap = 0;
    a->rule = mem_grow(NULL, &cap, l->s->rules + 1, sizeof *a->rule);
    for (; a->rules < l->s->rules && !l->e->set; a->rules++)
        a->rule[a->rules].start = lay_rule(l, l->s->rule[a->rules].node);
    for (size_t i = 0; i < a->loops && !l->e->set; i++) {
        a->rule = mem_grow(a->rule, &cap, a->rules + 1, sizeof *a->rule);
        a->rule[a->rules].start = lay_rule(l, a->loop[i].body);
        a->node = mem_grow(a->node, &a->node_cap, a->nodes + 1, sizeof *a->node);
        a->node[a->nodes] = (struct pda_node){.loop = (int32_t)i};
        a->loop[i].body = (int32_t)a->rules++;
        a->loop[i].node = (int32_t)a->nodes++;
    }
}

static void find_classes(struct automaton *a) {
    bool cut[257] = {true};
    for (size_t i = 0; i < a->edges; i++) cut[a->edge[i].lo] = cut[a->edge[i].hi + 1] = true;
    for (int i = 0; i < 256; i++) {
        if (cut[i]) a->sample[a->classes++] = (unsigned char)i;
        a->class[i] = (unsigned char)(a->classes - 1);
    }
}

void pda_free(struct automaton *a) {
    free(a->node);
    free(a->edge);
    free(a->call);
    free(a->rule);
    free(a->loop);
    *a = (struct automaton){0};
}

static bool all_defined(const struct syntax *s, struct error *e) {
    for (size_t i = 0; i < s->rules; i++)
        if (s->rule[i].node < 0) return fail(e, "rule \"%s\" is not defined", s->rule[i].name);
    return true;
}

bool pda_make(struct automaton *a, const struct syntax *s, int32_t root, struct error *e) {
    *a = (struct automaton){.root = root};
    if (e->set || !all_defined(s, e)) return false;
    struct layer l = {.a = a, .s = s, .e = e};
    l.size = mem_array(s->rules, sizeof *l.size);
    lay_rules(&l);
    free(l.state);
    free(l.step);
    free(l.size);
    free(l.stack);
    free(l.todo);
    if (!e->set) find_classes(a);
    if (!e->set && ends_check(a, s, e)) return true;
    pda_free(a);
    return false;
}
