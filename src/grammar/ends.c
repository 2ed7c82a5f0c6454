#include "grammar/ends.h"

#include <stdlib.h>

#include "base/mem.h"

enum {
    PART_STEPS = 8
}; // of work, for a node, an edge, a call or a rule: all is looked at so often

// What leads to a node: lists of the nodes that step to it, and of those that call a rule.
struct link {
    int32_t from, next;
    int32_t rule; // that is called on the way to the node, -1: a byte is read
};

struct ends {
    struct automaton *a;
    const struct syntax *s;
    struct link *link;
    size_t links;
    int32_t *into;          // [nodes] first link into a node
    int32_t *caller;        // [rules] first of `call_link`
    struct link *call_link; // to: in .rule
    size_t call_links;
    bool *ends;    // [nodes]
    bool *ruled;   // [rules]
    int32_t *todo; // nodes whose end was found
    size_t todos;
};

// The rule that a call reads, and whether it may be skipped over: a loop that need not go on.
static int32_t callee(const struct automaton *a, const struct pda_call *c, bool *skipped) {
    if (c->rule >= 0) return *skipped = false, c->rule;
    const struct pda_loop *loop = &a->loop[-1 - c->rule];
    *skipped = loop->min == 0;
    return loop->body;
}

static void mark(struct ends *x, int32_t node) {
    if (x->ends[node]) return;
    x->ends[node] = true;
    x->todo[x->todos++] = node;
}

static void link_all(struct ends *x, bool bytes) {
    struct automaton *a = x->a;
    for (size_t i = 0; i < a->nodes; i++) x->into[i] = -1;
    for (size_t i = 0; i < a->rules; i++) x->caller[i] = -1;
    for (size_t i = 0; i < a->nodes; i++) {
        const struct pda_node *n = &a->node[i];
        for (int32_t k = n->edge; bytes && k < n->edge + n->edges; k++) {
            x->link[x->links] = (struct link){(int32_t)i, x->into[a->edge[k].to], -1};
            x->into[a->edge[k].to] = (int32_t)x->links++;
        }
        for (int32_t k = n->call; k < n->call + n->calls; k++) {
            bool skipped;
            int32_t rule = callee(a, &a->call[k], &skipped), to = a->call[k].to;
            x->link[x->links] = (struct link){(int32_t)i, x->into[to], skipped ? -1 : rule};
            x->into[to] = (int32_t)x->links++;
            x->call_link[x->call_links] = (struct link){(int32_t)i, x->caller[rule], to};
            x->caller[rule] = (int32_t)x->call_links++;
        }
    }
}

static void rule_ends(struct ends *x, int32_t rule) {
    x->ruled[rule] = true;
    for (int32_t i = x->caller[rule]; i >= 0; i = x->call_link[i].next)
        if (x->ends[x->call_link[i].rule]) mark(x, x->call_link[i].from);
}

// Which nodes lead to the end of their rule: by any steps, or (bytes false) without reading. For
// each rule then whether it does.
static void find_ends(struct ends *x, bool bytes) {
    struct automaton *a = x->a;
    int32_t *starts = mem_array(a->nodes, sizeof *starts),
            *more = mem_array(a->rules, sizeof *more);
    x->links = x->call_links = x->todos = 0;
    link_all(x, bytes);
    for (size_t i = 0; i < a->nodes; i++) starts[i] = -1, x->ends[i] = false;
    for (size_t i = 0; i < a->rules; i++) {
        x->ruled[i] = false;
        more[i] = starts[a->rule[i].start];
        starts[a->rule[i].start] = (int32_t)i;
    }
    for (size_t i = 0; i < a->nodes; i++)
        if (a->node[i].final) mark(x, (int32_t)i);
    while (x->todos) {
        int32_t node = x->todo[--x->todos];
        for (int32_t r = starts[node]; r >= 0; r = more[r]) rule_ends(x, r);
        for (int32_t i = x->into[node]; i >= 0; i = x->link[i].next)
            if (x->link[i].rule < 0 || x->ruled[x->link[i].rule]) mark(x, x->link[i].from);
    }
    free(starts);
    free(more);
}

// Takes away the edges and calls that lead nowhere.
static void trim(struct ends *x) {
    struct automaton *a = x->a;
    for (size_t i = 0; i < a->loops; i++)
        if (!x->ruled[a->loop[i].body]) a->loop[i].max = a->loop[i].min;
    for (size_t i = 0; i < a->nodes; i++) {
        struct pda_node *n = &a->node[i];
        int32_t kept = 0;
        for (int32_t k = n->edge; k < n->edge + n->edges; k++)
            if (x->ends[a->edge[k].to]) a->edge[n->edge + kept++] = a->edge[k];
        n->edges = kept;
        kept = 0;
        for (int32_t k = n->call; k < n->call + n->calls; k++) {
            bool skipped;
            bool ends = x->ruled[callee(a, &a->call[k], &skipped)] || skipped;
            if (ends && x->ends[a->call[k].to]) a->call[n->call + kept++] = a->call[k];
        }
        n->calls = kept;
        n->last = n->final && !n->edges && !n->calls;
    }
}

// A rule's name; loops' bodies have that of nothing.
static const char *name_of(const struct ends *x, int32_t rule) {
    return (size_t)rule < x->s->rules ? x->s->rule[rule].name : "a repeated part";
}

// Adds the rules that rule r may begin with, each a link from r; `ends` says what may be empty.
static void first_rules(struct ends *x, int32_t r, uint32_t *seen, int32_t *stack) {
    struct automaton *a = x->a;
    size_t n = 0;
    stack[n++] = a->rule[r].start;
    seen[a->rule[r].start] = (uint32_t)r + 1;
    while (n) {
        const struct pda_node *node = &a->node[stack[--n]];
        for (int32_t k = node->call; k < node->call + node->calls; k++) {
            bool skipped;
            int32_t rule = callee(a, &a->call[k], &skipped), to = a->call[k].to;
            x->call_link[x->call_links] = (struct link){r, x->caller[r], rule};
            x->caller[r] = (int32_t)x->call_links++;
            if ((!x->ruled[rule] && !skipped) || seen[to] == (uint32_t)r + 1) continue;
            seen[to] = (uint32_t)r + 1;
            stack[n++] = to;
        }
    }
}

// Each rule that is left has another one before it that is left: going back ends in a circle.
static bool left_recursive(struct ends *x, const int32_t *before, struct error *e) {
    int32_t *back = mem_array(x->a->rules, sizeof *back), at = 0;
    for (size_t i = 0; i < x->call_links; i++)
        if (before[x->call_link[i].from]) back[x->call_link[i].rule] = x->call_link[i].from;
    while (!before[at]) at++;
    for (size_t i = 0; i < x->a->rules || (size_t)at >= x->s->rules; i++) at = back[at];
    free(back);
    return fail(e,
                "rule \"%s\" is left recursive: it may begin with itself (write it with a repeat, "
                "or with itself at the end)",
                name_of(x, at));
}

// Ranks in Kahn's order. Which rules call which at their beginning is in call_link now.
static bool rank_rules(struct ends *x, struct error *e) {
    struct automaton *a = x->a;
    int32_t *before = mem_array(a->rules, sizeof *before), rank = 0;
    int32_t *todo = mem_array(a->rules, sizeof *todo);
    size_t n = 0;
    for (size_t i = 0; i < x->call_links; i++) before[x->call_link[i].rule]++;
    for (size_t i = 0; i < a->rules; i++)
        if (!before[i]) todo[n++] = (int32_t)i;
    while (n) {
        int32_t r = todo[--n];
        a->rule[r].rank = rank++;
        for (int32_t i = x->caller[r]; i >= 0; i = x->call_link[i].next)
            if (!--before[x->call_link[i].rule]) todo[n++] = x->call_link[i].rule;
    }
    bool ok = (size_t)rank == a->rules || left_recursive(x, before, e);
    free(before);
    free(todo);
    return ok;
}

static bool find_ranks(struct ends *x, struct error *e) {
    struct automaton *a = x->a;
    uint32_t *seen = mem_array(a->nodes, sizeof *seen);
    int32_t *stack = mem_array(a->nodes, sizeof *stack);
    x->call_links = 0;
    for (size_t i = 0; i < a->rules; i++) x->caller[i] = -1;
    for (size_t i = 0; i < a->rules; i++) first_rules(x, (int32_t)i, seen, stack);
    free(seen);
    free(stack);
    return rank_rules(x, e);
}

static bool counts_well(const struct ends *x, struct error *e) {
    for (size_t i = 0; i < x->a->loops; i++)
        if (x->ruled[x->a->loop[i].body] && x->a->loop[i].max)
            return fail(e,
                        "what may be empty is repeated %d times or more: that can't be counted "
                        "(write * or +)",
                        x->a->loop[i].min);
    return true;
}

bool ends_check(struct automaton *a, const struct syntax *s, struct error *e) {
    struct ends x = {.a = a, .s = s};
    if (!effort_work(s->effort, PART_STEPS * (a->nodes + a->edges + a->calls + a->rules), e))
        return false;
    x.link = mem_array(a->edges + a->calls + 1, sizeof *x.link);
    x.call_link = mem_array(a->calls + 1, sizeof *x.call_link);
    x.into = mem_array(a->nodes, sizeof *x.into);
    x.caller = mem_array(a->rules, sizeof *x.caller);
    x.ends = mem_array(a->nodes, sizeof *x.ends);
    x.ruled = mem_array(a->rules, sizeof *x.ruled);
    x.todo = mem_array(a->nodes, sizeof *x.todo);
    find_ends(&x, true);
    bool ok = x.ruled[a->root] ||
              fail(e, "no text is possible: rule \"%s\" never ends", name_of(&x, a->root));
    if (ok) trim(&x);
    if (ok) find_ends(&x, false);
    ok = ok && counts_well(&x, e) && find_ranks(&x, e);
    free(x.link);
    free(x.call_link);
    free(x.into);
    free(x.caller);
    free(x.ends);
    free(x.ruled);
    free(x.todo);
    return ok;
}
