#include "engine/state.h"

#include <stdlib.h>

#include "base/mem.h"

static int64_t pages_for(int64_t tokens) { return (tokens + PAGE_TOKENS - 1) / PAGE_TOKENS; }

// Pages that a sequence of `tokens` tokens holds at once in a group with this window: while a step
// computes a chunk, the chunk and the window before its first token are live, and both ends may
// cut a page.
static int64_t live_pages(const struct state_plan *p, int64_t window, int64_t tokens) {
    int64_t all = pages_for(tokens);
    if (window <= 0) return all;
    int64_t most = pages_for(window + p->chunk) + 1;
    return all < most ? all : most;
}

static int64_t group_pages(const struct state_plan *p, int64_t window) {
    return p->sequences * live_pages(p, window, p->context);
}

static size_t layer_page_bytes(const struct state_plan *p, int64_t layer) {
    const struct state_decl *d = &p->layer[layer];
    return (size_t)(d->kv_heads * PAGE_TOKENS * (d->k_width + d->v_width)) * dtype_size(p->type);
}

size_t state_bytes(const struct state_plan *p) {
    size_t total = 0;
    for (int64_t i = 0; i < p->layers; i++) {
        size_t layer;
        if (!size_mul((size_t)group_pages(p, p->layer[i].window), layer_page_bytes(p, i), &layer) ||
            !size_add(total, layer, &total))
            return SIZE_MAX;
    }
    return total;
}

size_t state_bytes_per_token(const struct state_plan *p) {
    size_t total = 0;
    for (int64_t i = 0; i < p->layers; i++)
        if (p->layer[i].window <= 0) total += layer_page_bytes(p, i) / PAGE_TOKENS;
    return total;
}

static struct page_group *group_of(const struct state *s, int64_t window) {
    for (int64_t g = 0; g < s->groups; g++)
        if (s->group[g].window == window) return &s->group[g];
    return NULL;
}

static void add_group(struct state *s, int64_t window) {
    if (group_of(s, window)) return;
    int64_t pages = group_pages(&s->plan, window), cells = s->plan.sequences * s->width;
    struct page_group *g = &s->group[s->groups++];
    *g =
        (struct page_group){.window = window, .pages = pages, .n_free = pages, .unreserved = pages};
    g->free_page = mem_array((size_t)pages, sizeof *g->free_page);
    for (int64_t i = 0; i < pages; i++) g->free_page[i] = (int32_t)(pages - 1 - i);
    g->reserved = mem_array((size_t)s->plan.sequences, sizeof *g->reserved);
    g->first = mem_array((size_t)s->plan.sequences, sizeof *g->first);
    g->table = mem_array((size_t)cells, sizeof *g->table);
    for (int64_t i = 0; i < cells; i++) g->table[i] = -1;
    g->device_table = tensor_2d(DT_I32, s->plan.sequences, s->width, NULL);
}

static struct kv shape_of(const struct state_plan *p, int64_t layer, int64_t pages) {
    const struct state_decl *d = &p->layer[layer];
    int64_t k[] = {pages, d->kv_heads, PAGE_TOKENS, d->k_width};
    int64_t v[] = {pages, d->kv_heads, PAGE_TOKENS, d->v_width};
    return (struct kv){.k = tensor_nd(p->type, 4, k, NULL),
                       .v = tensor_nd(p->type, 4, v, NULL),
                       .table = tensor_2d(DT_I32, p->sequences, pages_for(p->context), NULL)};
}

void state_shapes(const struct state_plan *p, struct kv *kv) {
    for (int64_t i = 0; i < p->layers; i++) kv[i] = shape_of(p, i, 1);
}

bool state_open(struct state *s, struct device *dev, const struct state_plan *p, struct error *e) {
    *s = (struct state){.plan = *p, .width = pages_for(p->context)};
    s->group = mem_array((size_t)p->layers, sizeof *s->group);
    s->kv = mem_array((size_t)p->layers, sizeof *s->kv);
    s->dirty = mem_array((size_t)p->sequences, sizeof *s->dirty);
    s->high = mem_array((size_t)p->sequences, sizeof *s->high);
    for (int64_t i = 0; i < p->layers; i++) {
        add_group(s, p->layer[i].window);
        s->kv[i] = shape_of(p, i, group_of(s, p->layer[i].window)->pages);
    }
    s->dev = dev;
    for (int64_t g = 0; g < s->groups; g++) {
        struct tensor *t = &s->group[g].device_table;
        t->data = device_alloc(dev, tensor_bytes(*t), "page tables", e);
    }
    for (int64_t i = 0; i < p->layers && !e->set; i++) {
        struct kv *kv = &s->kv[i];
        kv->k.data = device_alloc(dev, tensor_bytes(kv->k), "the cache", e);
        if (!e->set) kv->v.data = device_alloc(dev, tensor_bytes(kv->v), "the cache", e);
        kv->table = group_of(s, p->layer[i].window)->device_table;
    }
    if (e->set) state_close(s);
    return !e->set;
}

void state_close(struct state *s) {
    for (int64_t i = 0; s->dev && i < s->plan.layers; i++) {
        device_free(s->dev, s->kv[i].k.data);
        device_free(s->dev, s->kv[i].v.data);
    }
    for (int64_t g = 0; g < s->groups; g++) {
        if (s->dev) device_free(s->dev, s->group[g].device_table.data);
        free(s->group[g].free_page);
        free(s->group[g].reserved);
        free(s->group[g].first);
        free(s->group[g].table);
    }
    free(s->group);
    free(s->kv);
    free(s->dirty);
    free(s->high);
    *s = (struct state){0};
}

bool state_reserve(struct state *s, int64_t seq, int64_t tokens) {
    for (int64_t g = 0; g < s->groups; g++)
        if (live_pages(&s->plan, s->group[g].window, tokens) > s->group[g].unreserved) return false;
    for (int64_t g = 0; g < s->groups; g++) {
        int64_t pages = live_pages(&s->plan, s->group[g].window, tokens);
        s->group[g].unreserved -= pages;
        s->group[g].reserved[seq] += pages;
    }
    return true;
}

// Frees the pages before entry `to` of a sequence's table.
static void free_before(struct page_group *g, int32_t *table, int64_t seq, int64_t to) {
    for (; g->first[seq] < to; g->first[seq]++) {
        int32_t *entry = &table[g->first[seq]];
        if (*entry >= 0) g->free_page[g->n_free++] = *entry;
        *entry = -1;
    }
}

void state_advance(struct state *s, int64_t seq, int64_t begin, int64_t end) {
    for (int64_t i = 0; i < s->groups; i++) {
        struct page_group *g = &s->group[i];
        int32_t *table = g->table + seq * s->width;
        if (g->window > 0 && begin >= g->window)
            free_before(g, table, seq, (begin - g->window + 1) / PAGE_TOKENS);
        for (int64_t p = pages_for(s->high[seq]); p < pages_for(end); p++)
            table[p] = g->free_page[--g->n_free];
    }
    s->high[seq] = end;
    s->dirty[seq] = true;
}

void state_release(struct state *s, int64_t seq) {
    for (int64_t i = 0; i < s->groups; i++) {
        struct page_group *g = &s->group[i];
        free_before(g, g->table + seq * s->width, seq, pages_for(s->high[seq]));
        g->first[seq] = 0;
        g->unreserved += g->reserved[seq];
        g->reserved[seq] = 0;
    }
    s->high[seq] = 0;
    s->dirty[seq] = true;
}

void state_upload(struct state *s) {
    size_t row = (size_t)s->width * sizeof(int32_t);
    for (int64_t seq = 0; seq < s->plan.sequences; seq++) {
        if (!s->dirty[seq]) continue;
        for (int64_t i = 0; i < s->groups; i++) {
            struct page_group *g = &s->group[i];
            device_upload(s->dev, (char *)g->device_table.data + (size_t)seq * row,
                          g->table + seq * s->width, row);
        }
        s->dirty[seq] = false;
    }
}
