// Within grammar/: an automaton at work. What was read so far is a set of frames: places in the
// automaton, each with what it returns to, which is a set again. Sets are kept by what is in them,
// so that the same situation is the same number, and the step from one to the next by a byte is
// looked up once it was found.
//
// Sets that no text as long as a token can tell apart are `like` each other: they differ only in
// counts that are far from their bounds. What is found for one holds for the other. The same of
// most tokens, which are short (LEX_SHORT), is `near`: that many more sets share.
#ifndef GRAMMAR_MACHINE_H
#define GRAMMAR_MACHINE_H

#include "grammar/automaton.h"
#include "grammar/effort.h"

enum {
    MACHINE_WIDE = 1 << 14, // ways to read a text at once
    MACHINE_SETS = 1 << 18,
    MACHINE_BYTES = 64 << 20, // of memory more than is in use: what is not in use is dropped then
    MACHINE_STEPS = 1 << 23,  // of work for a token, as struct effort counts it
    MACHINE_DEAD = -1,
    MACHINE_UNKNOWN = -2,
};

enum { LIKE, NEAR };

struct frame {
    int32_t node; // -1: the text may end
    int32_t count;
    int32_t up;      // the set that it returns to, -1: none
    int32_t like[2]; // LIKE, NEAR
    int32_t chain;   // of its hash
    uint32_t stamp;  // of the walk that came here last
};

struct frame_set {
    int32_t first, n; // in machine.member
    int32_t like[2], chain;
    bool done;     // the text may end here
    int32_t *next; // [classes] sets, -2: not known; NULL: none is
    // Where nearly all characters lead, or what is like it, of LIKE and NEAR; -2: not known. And
    // the groups of bytes (lexicon.h) that do.
    int32_t then[2];
    uint64_t groups[2];
    uint64_t *mask[2]; // [words] tokens that may follow, of NEAR short ones; owned; NULL: not known
};

struct table {
    int32_t *slot; // chains of the entries with the same hash
    size_t slots, n;
};

struct machine {
    const struct automaton *a;
    int32_t reach[2]; // bytes of the longest token, and of the longest short one
    struct frame *frame;
    struct frame_set *set;
    int32_t *member;
    size_t frames, sets, members, frame_cap, set_cap, member_cap;
    struct table frame_table, set_table;
    size_t bytes;                 // about what it takes
    size_t kept_bytes, kept_sets; // after the last cleaning
    int32_t first;
    // of a walk:
    int32_t *item;
    size_t items, item_cap;
    struct pda_call *pending; // calls: the rule, and the frame it returns to; a heap
    int32_t *caller;          // of the rule that begins
    size_t pendings, pending_cap, caller_cap;
    uint32_t stamp;
    // What the work at hand may take, and where it is told that it takes more: steps are then dead
    // that are not known. While a grammar is made they are its maker's, then the machine's own.
    struct effort *effort;
    struct error *e;
    struct effort own;
    struct error why;
};

// longest: bytes of a token. What it takes is f's until machine_begin.
void machine_open(struct machine *m, const struct automaton *a, size_t longest, struct effort *f,
                  struct error *e);
void machine_begin(struct machine *m); // the work for another token
void machine_close(struct machine *m);
// The set after a byte more, or MACHINE_DEAD.
int32_t machine_step(struct machine *m, int32_t set, unsigned char byte);
// Time to clean, where it may keep so many times less than usual.
bool machine_full(const struct machine *m, size_t less);
// Drops all but the sets root[0 .. n), which get new numbers.
void machine_clean(struct machine *m, int32_t *const *root, size_t n);

#endif
