// From rules to an automaton in three steps: graphs with empty steps, written from the end of each
// rule to its beginning (lay_*); the same without empty steps (join_*); and what holds of all rules
// together: which of them can end, which are left recursive.
#include "grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "grammar/ends.h"
#include "grammar/lexicon.h"

enum { STATES = 1 << 19, EDGES = 1 << 20, COPIES = 64, INLINED = 24, INLINE_DEPTH = 24 };
enum { LAY_STEPS = 8, JOIN_STEPS = 4 }; // of work, for one of its nodes or states

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

// Memory of the automaton, and as much again for what is found out about it.
static void hold(struct layer *l, size_t bytes) { effort_hold(l->s->effort, 2 * bytes, l->e); }

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
    if (l->steps >= EDGES) fail(l->e, "the grammar needs more than %d steps", EDGES);
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
    if (n->kind == SYN_MARK || n->kind == SYN_UNTIL || n->kind == SYN_WITHOUT ||
        n->kind == SYN_OTHER)
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
    hold(l, sizeof *a->loop + sizeof *a->node);
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
    effort_work(l->s->effort, COPIES, l->e);
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

// A special token's first byte is no part of the text that it stands for.
static int32_t lay_mark(struct layer *l, const struct syn_node *n, int32_t next) {
    for (int32_t i = n->b; i-- > 0 && !l->e->set;) {
        int c = (unsigned char)l->s->text.p[n->a + i], split = add_split(l);
        add_step(l, split, add_byte(l, c, c, next));
        add_step(l, split, add_byte(l, LEX_SPECIAL_BYTE, LEX_SPECIAL_BYTE, split));
        next = split;
    }
    return next;
}

// A state for each place in a tree of texts, the first where none has begun.
struct texts {
    int32_t (*go)[256]; // [states]
    bool *whole;        // [states] a text was read
    size_t states;
};

static int32_t add_text(struct texts *t, struct sv text) {
    int32_t at = 0;
    for (size_t i = 0; i < text.n; i++) {
        int32_t *to = &t->go[at][(unsigned char)text.p[i]];
        if (!*to) *to = (int32_t)t->states++;
        at = *to;
    }
    return at;
}

// From each state the way back to what is still a beginning of a text (Aho and Corasick 1975).
static void link_texts(struct texts *t) {
    int32_t *todo = mem_array(t->states, sizeof *todo), *back = mem_array(t->states, sizeof *back);
    size_t n = 1;
    for (size_t i = 0; i < n; i++) {
        int32_t at = todo[i];
        t->whole[at] |= t->whole[back[at]];
        for (int c = 0; c < 256; c++) {
            int32_t to = t->go[at][c], behind = at ? t->go[back[at]][c] : 0;
            if (!to) {
                t->go[at][c] = behind;
                continue;
            }
            back[to] = behind;
            todo[n++] = to;
        }
        t->go[at][LEX_SPECIAL_BYTE] = at;
    }
    free(todo);
    free(back);
}

static struct texts texts_open(struct sv list) {
    struct texts t = {.states = 1};
    t.go = mem_array(list.n + 2, sizeof *t.go);
    t.whole = mem_array(list.n + 2, sizeof *t.whole);
    while (list.n) {
        ptrdiff_t end = sv_find(list, sv_n("", 1), 0);
        struct sv text = sv_cut(list, 0, end < 0 ? list.n : (size_t)end);
        if (text.n) t.whole[add_text(&t, text)] = true;
        list = sv_cut(list, text.n + 1, list.n);
    }
    link_texts(&t);
    return t;
}

// White space, and then what doesn't begin with one of the bytes.
static int32_t lay_first(struct layer *l, const struct texts *t, const int32_t *at, struct sv none,
                         int32_t next) {
    int32_t first = add_split(l);
    add_step(l, first, next);
    for (int c = 0; c < 256 && !l->e->set; c++) {
        bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
        bool special = c == LEX_SPECIAL_BYTE;
        int32_t to = space || special ? first : at[t->go[0][c]];
        if (to >= 0 && sv_find(none, sv_n((const char[]){(char)c}, 1), 0) < 0)
            add_step(l, first, add_byte(l, c, c, to));
    }
    return first;
}

static int32_t lay_texts(struct layer *l, const struct syn_node *n, int32_t next) {
    struct sv list = sv_n(l->s->text.p + n->a, (size_t)n->b), none = {0};
    if (n->kind == SYN_OTHER) {
        none = sv_cut(list, 0, (size_t)sv_find(list, sv_n("", 1), 0));
        list = sv_cut(list, none.n + 1, list.n);
    }
    struct texts t = texts_open(list);
    int32_t *at = mem_array(t.states, sizeof *at);
    for (size_t i = 0; i < t.states; i++)
        at[i] = !t.whole[i] ? add_split(l) : n->kind == SYN_UNTIL ? next : -1;
    for (size_t i = 0; i < t.states && !l->e->set; i++) {
        if (t.whole[i]) continue;
        if (n->kind != SYN_UNTIL) add_step(l, at[i], next);
        for (int lo = 0, hi; lo < 256; lo = hi) {
            int32_t to = t.go[i][lo];
            for (hi = lo + 1; hi < 256 && t.go[i][hi] == to;) hi++;
            if (at[to] >= 0) add_step(l, at[i], add_byte(l, lo, hi - 1, at[to]));
        }
    }
    int32_t first = none.n ? lay_first(l, &t, at, none, next) : at[0];
    free(at);
    free(t.go);
    free(t.whole);
    return first;
}

static int32_t lay(struct layer *l, int32_t node, int32_t next, int depth) {
    const struct syn_node *n = &l->s->node[node];
    if (depth > SYN_DEPTH) fail(l->e, "the grammar is nested deeper than %d", SYN_DEPTH);
    if (l->e->set || !effort_work(l->s->effort, LAY_STEPS, l->e)) return 0;
    switch (n->kind) {
    case SYN_SEQ: return lay_seq(l, n, next, depth + 1);
    case SYN_ALT: return lay_alt(l, n, next, depth + 1);
    case SYN_RANGE: return add_byte(l, n->a, n->b, next);
    case SYN_REPEAT: return lay_repeat(l, n, next, depth + 1);
    case SYN_MARK: return lay_mark(l, n, next);
    case SYN_UNTIL:
    case SYN_WITHOUT:
    case SYN_OTHER: return lay_texts(l, n, next);
    case SYN_CALL: break;
    }
    effort_work(l->s->effort, COPIES, l->e);
    if (size_of(l, node, 0) <= INLINED) return lay(l, l->s->rule[n->a].node, next, depth + 1);
    return add_state(l, (struct state){.kind = STATE_CALL, .callee = n->a, .to = next});
}

// --- without empty steps -------------------------------------------------------------------------

// The node of a state, which gets its edges when its turn comes.
static int32_t node_of(struct layer *l, int32_t state) {
    struct automaton *a = l->a;
    if (l->e->set || l->state[state].node >= 0) return l->e->set ? 0 : l->state[state].node;
    hold(l, sizeof *a->node);
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
    hold(l, sizeof *a->edge);
    if (l->e->set) return;
    a->edge = mem_grow(a->edge, &a->edge_cap, a->edges + 1, sizeof *a->edge);
    a->edge[a->edges++] = (struct pda_edge){lo, hi, to};
    a->node[node].edges++;
}

static void add_call(struct layer *l, int32_t node, const struct state *s) {
    struct automaton *a = l->a;
    int32_t callee = s->callee, to = node_of(l, s->to);
    if (a->calls >= EDGES) fail(l->e, "the grammar needs more than %d calls", EDGES);
    hold(l, sizeof *a->call);
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
    while (n && effort_work(l->s->effort, JOIN_STEPS, l->e)) {
        struct state s = l->state[l->stack[--n]];
        if (s.kind == STATE_BYTE) add_edge(l, node, &s);
        if (s.kind == STATE_CALL) add_call(l, node, &s);
        if (s.kind == STATE_END) l->a->node[node].final = true;
        for (int32_t i = s.step; i >= 0; i = l->step[i].next) {
            int32_t to = l->step[i].to;
            effort_work(l->s->effort, 1, l->e);
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

size_t pda_bytes(const struct automaton *a) {
    return a->nodes * sizeof *a->node + a->edges * sizeof *a->edge + a->calls * sizeof *a->call +
           a->rules * sizeof *a->rule + a->loops * sizeof *a->loop;
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
