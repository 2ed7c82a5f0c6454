#include "engine/pages.h"

#include <stdlib.h>

#include "base/mem.h"

static void add_free(struct pages *p, int32_t id) {
    p->page[id].newer = p->first_free;
    p->first_free = id;
    p->free++;
}

void pages_open(struct pages *p, int64_t count) {
    *p = (struct pages){.count = count, .first_free = -1, .oldest = -1, .newest = -1, .buckets = 1};
    while (p->buckets < count) p->buckets *= 2;
    p->page = mem_array((size_t)count, sizeof *p->page);
    p->bucket = mem_array((size_t)p->buckets, sizeof *p->bucket);
    for (int64_t i = 0; i < p->buckets; i++) p->bucket[i] = -1;
    for (int64_t i = count; i-- > 0;) add_free(p, (int32_t)i);
}

void pages_close(struct pages *p) {
    free(p->page);
    free(p->bucket);
    *p = (struct pages){0};
}

static void add_idle(struct pages *p, int32_t id) {
    p->page[id].older = p->newest;
    p->page[id].newer = -1;
    *(p->newest >= 0 ? &p->page[p->newest].newer : &p->oldest) = id;
    p->newest = id;
    p->idle++;
}

static void remove_idle(struct pages *p, int32_t id) {
    const struct page *g = &p->page[id];
    *(g->older >= 0 ? &p->page[g->older].newer : &p->oldest) = g->newer;
    *(g->newer >= 0 ? &p->page[g->newer].older : &p->newest) = g->older;
    p->idle--;
}

static int32_t *bucket_of(const struct pages *p, struct digest name) {
    return &p->bucket[name.a & (uint64_t)(p->buckets - 1)];
}

static void remove_name(struct pages *p, int32_t id) {
    struct page *g = &p->page[id];
    int32_t *at = bucket_of(p, g->name);
    while (*at != id) at = &p->page[*at].next;
    *at = g->next;
    g->named = false;
}

int32_t pages_take(struct pages *p) {
    int32_t id = p->first_free;
    if (id >= 0) {
        p->first_free = p->page[id].newer;
        p->free--;
    } else if ((id = p->oldest) >= 0) {
        remove_idle(p, id);
        remove_name(p, id);
    } else {
        return -1;
    }
    p->page[id].uses = 1;
    return id;
}

void pages_keep(struct pages *p, int32_t id) {
    if (!p->page[id].uses++) remove_idle(p, id);
}

void pages_drop(struct pages *p, int32_t id) {
    if (--p->page[id].uses) return;
    if (p->page[id].named)
        add_idle(p, id);
    else
        add_free(p, id);
}

int32_t pages_find(const struct pages *p, struct digest name) {
    int32_t id = *bucket_of(p, name);
    while (id >= 0 && !digest_same(p->page[id].name, name)) id = p->page[id].next;
    return id;
}

void pages_forget(struct pages *p, int32_t id) {
    if (!p->page[id].named) return;
    remove_name(p, id);
    if (p->page[id].uses) return;
    remove_idle(p, id);
    add_free(p, id);
}

void pages_name(struct pages *p, int32_t id, struct digest name) {
    struct page *g = &p->page[id];
    int32_t other = g->named ? id : pages_find(p, name);
    if (other >= 0 && p->page[other].uses) return;
    if (other >= 0) pages_forget(p, other);
    int32_t *bucket = bucket_of(p, name);
    g->name = name;
    g->named = true;
    g->next = *bucket;
    *bucket = id;
}
