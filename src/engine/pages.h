// Pages that several sequences may use at once. A page is a number; its memory is someone else's.
// One that is in use counts its users. Once its content is known it has a name, under which it is
// found again; with a name it stays when nobody uses it any more, idle, until the space is needed:
// then the one that has been idle longest goes first.
#ifndef ENGINE_PAGES_H
#define ENGINE_PAGES_H

#include "engine/digest.h"

struct page {
    struct digest name;
    bool named;
    int32_t uses;
    int32_t older, newer; // neighbours among the idle; `newer` is the next of the free
    int32_t next;         // with the same bucket
};

struct pages {
    int64_t count, free, idle; // all, those without content, those with a name but no user
    struct page *page;         // [count]
    int32_t first_free, oldest, newest;
    int32_t *bucket; // [buckets], a power of two
    int64_t buckets;
};

void pages_open(struct pages *p, int64_t count);
void pages_close(struct pages *p);

int32_t pages_take(struct pages *p);          // one that only the caller uses; -1: all are in use
void pages_keep(struct pages *p, int32_t id); // one user more
void pages_drop(struct pages *p, int32_t id); // one user less
int32_t pages_find(const struct pages *p, struct digest name); // -1: none
// Names a page in use, unless another in use has that name. It is taken from an idle one.
void pages_name(struct pages *p, int32_t id, struct digest name);
void pages_forget(struct pages *p, int32_t id); // its name; an idle one is free
static inline int64_t pages_left(const struct pages *p) { return p->free + p->idle; }

#endif
