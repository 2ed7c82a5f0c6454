#include "engine/state.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static int64_t pages_for(int64_t tokens) { return (tokens + PAGE_TOKENS - 1) / PAGE_TOKENS; }

// Tokens before a row's own that it may see; -1: all.
static int64_t look_back(int64_t window, int64_t chunk) {
    if (window > 0 && chunk > 0) return (window < chunk ? window : chunk) - 1;
    return window > 0 ? window - 1 : chunk - 1;
}

// Pages that a sequence of `tokens` tokens holds at once in a group: while a step computes some
// rows, they and what the first of them sees are live, and both ends may cut a page.
static int64_t live_pages(const struct state_plan *p, int64_t back, int64_t tokens) {
    int64_t all = pages_for(tokens);
    if (back < 0) return all;
    int64_t most = pages_for(back + 1 + p->chunk) + 1;
    return all < most ? all : most;
}

static int64_t group_pages(const struct state_plan *p, const struct paged_decl *d) {
    return p->sequences * live_pages(p, look_back(d->window, d->chunk), p->context);
}

static size_t page_bytes(const struct state_plan *p, const struct paged_decl *d) {
    return (size_t)(d->heads * PAGE_TOKENS * (d->k_width + d->v_width)) * dtype_size(p->type);
}

// A piece of fixed state begins at a multiple of 64 bytes.
static int64_t fixed_stride(int64_t elements) { return (elements + 15) / 16 * 16; }

static int64_t fixed_width(const struct state_plan *p) {
    int64_t width = 0;
    for (int64_t i = 0; i < p->layers; i++)
        for (int k = 0; k < LAYER_FIXED; k++) width += fixed_stride(p->layer[i].fixed[k]);
    return width;
}

size_t state_bytes(const struct state_plan *p) {
    size_t total, part;
    if (!size_mul((size_t)(p->sequences * fixed_width(p)), sizeof(float), &total)) return SIZE_MAX;
    for (int64_t i = 0; i < p->layers; i++) {
        for (int k = 0; k < LAYER_PAGED; k++) {
            const struct paged_decl *d = &p->layer[i].paged[k];
            if (!size_mul((size_t)group_pages(p, d), page_bytes(p, d), &part) ||
                !size_add(total, part, &total))
                return SIZE_MAX;
        }
    }
    return total;
}

size_t state_bytes_per_token(const struct state_plan *p) {
    size_t total = 0;
    for (int64_t i = 0; i < p->layers; i++) {
        for (int k = 0; k < LAYER_PAGED; k++) {
            const struct paged_decl *d = &p->layer[i].paged[k];
            if (look_back(d->window, d->chunk) < 0) total += page_bytes(p, d) / PAGE_TOKENS;
        }
    }
    return total;
}

static struct page_group *group_of(const struct state *s, const struct paged_decl *d) {
    for (int64_t g = 0; g < s->groups; g++)
        if (s->group[g].window == d->window && s->group[g].chunk == d->chunk) return &s->group[g];
    return NULL;
}

static void add_group(struct state *s, const struct paged_decl *d) {
    if (!d->heads || group_of(s, d)) return;
    int64_t pages = group_pages(&s->plan, d), cells = s->plan.sequences * s->width;
    struct page_group *g = &s->group[s->groups++];
    *g = (struct page_group){.window = d->window,
                             .chunk = d->chunk,
                             .pages = pages,
                             .n_free = pages,
                             .unreserved = pages};
    g->free_page = mem_array((size_t)pages, sizeof *g->free_page);
    for (int64_t i = 0; i < pages; i++) g->free_page[i] = (int32_t)(pages - 1 - i);
    g->reserved = mem_array((size_t)s->plan.sequences, sizeof *g->reserved);
    g->first = mem_array((size_t)s->plan.sequences, sizeof *g->first);
    g->table = mem_array((size_t)cells, sizeof *g->table);
    for (int64_t i = 0; i < cells; i++) g->table[i] = -1;
    g->device_table = tensor_2d(DT_I32, s->plan.sequences, s->width, NULL);
}

static struct kv shape_of(const struct state_plan *p, const struct paged_decl *d, int64_t pages) {
    int64_t k[] = {pages, d->heads, PAGE_TOKENS, d->k_width};
    int64_t v[] = {pages, d->heads, PAGE_TOKENS, d->v_width};
    return (struct kv){.k = tensor_nd(p->type, 4, k, NULL),
                       .v = tensor_nd(p->type, 4, v, NULL),
                       .table = tensor_2d(DT_I32, p->sequences, pages_for(p->context), NULL)};
}

// The layers' pieces of fixed state stand side by side in a sequence's row.
static void place_fixed(const struct state_plan *p, struct layer_state *layer, float *base) {
    int64_t at = 0, width = fixed_width(p);
    for (int64_t i = 0; i < p->layers; i++) {
        for (int k = 0; k < LAYER_FIXED; k++) {
            int64_t n = p->layer[i].fixed[k];
            if (!n) continue;
            layer[i].fixed[k] = tensor_2d(DT_F32, p->sequences, n, base ? base + at : NULL);
            layer[i].fixed[k].stride[0] = width;
            at += fixed_stride(n);
        }
    }
}

static void share(const struct state_plan *p, struct layer_state *layer) {
    for (int64_t i = 0; i < p->layers; i++)
        if (p->layer[i].shared)
            memcpy(layer[i].kv, layer[p->layer[i].owner].kv, sizeof layer[i].kv);
}

void state_shapes(const struct state_plan *p, struct layer_state *layer) {
    for (int64_t i = 0; i < p->layers; i++)
        for (int k = 0; k < LAYER_PAGED; k++)
            if (p->layer[i].paged[k].heads) layer[i].kv[k] = shape_of(p, &p->layer[i].paged[k], 1);
    place_fixed(p, layer, NULL);
    share(p, layer);
}

static void open_paged(struct state *s, const struct paged_decl *d, struct kv *kv,
                       struct error *e) {
    if (!d->heads || e->set) return;
    *kv = shape_of(&s->plan, d, group_of(s, d)->pages);
    kv->k.data = device_alloc(s->dev, tensor_bytes(kv->k), "the cache", e);
    if (!e->set) kv->v.data = device_alloc(s->dev, tensor_bytes(kv->v), "the cache", e);
    kv->table = group_of(s, d)->device_table;
}

bool state_open(struct state *s, struct device *dev, const struct state_plan *p, struct error *e) {
    *s = (struct state){.plan = *p, .width = pages_for(p->context)};
    s->group = mem_array((size_t)p->layers * LAYER_PAGED, sizeof *s->group);
    s->layer = mem_array((size_t)p->layers, sizeof *s->layer);
    s->dirty = mem_array((size_t)p->sequences, sizeof *s->dirty);
    s->high = mem_array((size_t)p->sequences, sizeof *s->high);
    for (int64_t i = 0; i < p->layers; i++)
        for (int k = 0; k < LAYER_PAGED; k++) add_group(s, &p->layer[i].paged[k]);
    s->dev = dev;
    for (int64_t g = 0; g < s->groups; g++) {
        struct tensor *t = &s->group[g].device_table;
        t->data = device_alloc(dev, tensor_bytes(*t), "page tables", e);
    }
    for (int64_t i = 0; i < p->layers; i++)
        for (int k = 0; k < LAYER_PAGED; k++)
            open_paged(s, &p->layer[i].paged[k], &s->layer[i].kv[k], e);
    s->fixed_width = fixed_width(p);
    if (!e->set)
        s->fixed = device_alloc(dev, (size_t)(p->sequences * s->fixed_width) * sizeof *s->fixed,
                                "recurrent state", e);
    if (!e->set) place_fixed(p, s->layer, s->fixed);
    if (!e->set) share(p, s->layer);
    if (e->set) state_close(s);
    return !e->set;
}

void state_close(struct state *s) {
    for (int64_t i = 0; s->dev && i < s->plan.layers; i++) {
        for (int k = 0; k < LAYER_PAGED && !s->plan.layer[i].shared; k++) {
            device_free(s->dev, s->layer[i].kv[k].k.data);
            device_free(s->dev, s->layer[i].kv[k].v.data);
        }
    }
    if (s->dev) device_free(s->dev, s->fixed);
    for (int64_t g = 0; g < s->groups; g++) {
        if (s->dev) device_free(s->dev, s->group[g].device_table.data);
        free(s->group[g].free_page);
        free(s->group[g].reserved);
        free(s->group[g].first);
        free(s->group[g].table);
    }
    free(s->group);
    free(s->layer);
    free(s->dirty);
    free(s->high);
    *s = (struct state){0};
}

static int64_t back_of(const struct page_group *g) { return look_back(g->window, g->chunk); }

bool state_reserve(struct state *s, int64_t seq, int64_t tokens) {
    for (int64_t g = 0; g < s->groups; g++)
        if (live_pages(&s->plan, back_of(&s->group[g]), tokens) > s->group[g].unreserved)
            return false;
    if (s->fixed_width)
        device_clear(s->dev, s->fixed + seq * s->fixed_width,
                     (size_t)s->fixed_width * sizeof *s->fixed);
    for (int64_t g = 0; g < s->groups; g++) {
        int64_t pages = live_pages(&s->plan, back_of(&s->group[g]), tokens);
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

// The first token that the token at `index` sees, which no later one looks behind.
static int64_t first_seen(const struct page_group *g, int64_t index) {
    int64_t first = g->window > 0 && index >= g->window ? index - g->window + 1 : 0;
    int64_t chunk = g->chunk > 0 ? index / g->chunk * g->chunk : 0;
    return first > chunk ? first : chunk;
}

void state_advance(struct state *s, int64_t seq, int64_t begin, int64_t end) {
    for (int64_t i = 0; i < s->groups; i++) {
        struct page_group *g = &s->group[i];
        int32_t *table = g->table + seq * s->width;
        free_before(g, table, seq, first_seen(g, begin) / PAGE_TOKENS);
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
