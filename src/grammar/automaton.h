// Within grammar/: a syntax as a pushdown automaton over bytes. Each rule is a graph of nodes
// without empty steps. An edge reads a byte, a call reads what a rule or a loop does, and a final
// node returns. Whatever can be begun can be ended: parts that never end are left out.
#ifndef GRAMMAR_AUTOMATON_H
#define GRAMMAR_AUTOMATON_H

#include "grammar/syntax.h"

struct pda_edge {
    unsigned char lo, hi;
    int32_t to;
};

struct pda_call {
    int32_t rule; // -1 - i: loop i
    int32_t to;   // where it returns to
};

// Of a loop (its rule's number is that of its body): how often the body goes on.
struct pda_loop {
    int32_t body, min, max; // max < 0: no end
    int32_t node;           // that stands for it; a frame on it counts
};

struct pda_node {
    int32_t edge, edges, call, calls; // [edge, edge + edges)
    int32_t loop;                     // -1: an ordinary node
    bool final, last;                 // last: final, and nothing else
};

struct pda_rule {
    int32_t start;
    int32_t rank; // a rule that may begin with another one has a lower rank
};

struct automaton {
    struct pda_node *node;
    struct pda_edge *edge;
    struct pda_call *call;
    struct pda_rule *rule;
    struct pda_loop *loop;
    size_t nodes, edges, calls, rules, loops;
    size_t node_cap, edge_cap, call_cap, loop_cap;
    int32_t root;              // a rule
    unsigned char class[256];  // bytes that no edge tells apart have the same
    unsigned char sample[256]; // a byte of each class
    int classes;
};

// Refuses what is left recursive, what can't be written at all, and what is too large.
bool pda_make(struct automaton *a, const struct syntax *s, int32_t root, struct error *e);
void pda_free(struct automaton *a);
size_t pda_bytes(const struct automaton *a); // of memory, about

#endif
