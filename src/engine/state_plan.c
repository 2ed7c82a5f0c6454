// What a plan's state is made of: its sizes, and the memory.
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/state_parts.h"

int64_t look_back(int64_t window, int64_t chunk) {
    if (window > 0 && chunk > 0) return (window < chunk ? window : chunk) - 1;
    return window > 0 ? window - 1 : chunk - 1;
}

int64_t live_pages(const struct state_plan *p, int64_t back, int64_t tokens) {
    int64_t all = pages_for(tokens);
    if (back < 0) return all;
    int64_t most = pages_for(back + 1 + p->chunk) + 1;
    return all < most ? all : most;
}

// A windowed group has as many pages again as its sequences can use at once: the ends of what was
// computed before stay there, so that it can be gone on from.
static int64_t group_pages(const struct state_plan *p, int64_t window, int64_t chunk) {
    int64_t all = p->sequences * pages_for(p->context), back = look_back(window, chunk);
    int64_t most = pages_for(p->tokens > p->context ? p->tokens : p->context);
    if (back >= 0) most = 2 * p->sequences * live_pages(p, back, p->context);
    if (most > all) most = all;
    return most < INT32_MAX ? most : INT32_MAX; // page tables are of I32
}

// An indexer's keys, by which it chooses, are not kept in 8 bits.
static enum dtype k_type(const struct state_plan *p, int k) {
    return k == 1 && p->k_type == DT_I8 ? DT_F16 : p->k_type;
}

static int64_t scales(enum dtype type, int64_t width) {
    return type == DT_I8 ? kv_blocks(width) : 0;
}

static size_t row_bytes(enum dtype type, int64_t width) {
    return (size_t)width * dtype_size(type) + (size_t)scales(type, width) * sizeof(uint16_t);
}

size_t state_token_bytes(const struct state_plan *p, int64_t layer, int k) {
    const struct paged_decl *d = &p->layer[layer].paged[k];
    return (size_t)d->heads *
           (row_bytes(k_type(p, k), d->k_width) + row_bytes(p->v_type, d->v_width));
}

// A piece of fixed state begins at a multiple of 64 bytes.
static int64_t fixed_stride(int64_t elements) { return (elements + 15) / 16 * 16; }

static int64_t fixed_width(const struct state_plan *p) {
    int64_t width = 0;
    for (int64_t i = 0; i < p->layers; i++)
        for (int k = 0; k < LAYER_FIXED; k++) width += fixed_stride(p->layer[i].fixed[k]);
    return width;
}

size_t state_fixed_bytes(const struct state_plan *p) {
    size_t row = (size_t)fixed_width(p) * sizeof(float), all;
    return size_mul(row, (size_t)(p->sequences + p->snapshots), &all) ? all : SIZE_MAX;
}

size_t state_bytes(const struct state_plan *p) {
    size_t total = state_fixed_bytes(p), part;
    for (int64_t i = 0; i < p->layers; i++) {
        for (int k = 0; k < LAYER_PAGED; k++) {
            const struct paged_decl *d = &p->layer[i].paged[k];
            int64_t pages = d->heads ? group_pages(p, d->window, d->chunk) : 0;
            size_t page = PAGE_TOKENS * state_token_bytes(p, i, k);
            if (!size_mul((size_t)pages, page, &part) || !size_add(total, part, &total))
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
            if (look_back(d->window, d->chunk) < 0) total += state_token_bytes(p, i, k);
        }
    }
    return total;
}

static struct page_group *group_of(const struct state *s, int64_t window, int64_t chunk) {
    for (int64_t g = 0; g < s->groups; g++)
        if (s->group[g].window == window && s->group[g].chunk == chunk) return &s->group[g];
    return NULL;
}

static void add_group(struct state *s, int64_t window, int64_t chunk) {
    if (group_of(s, window, chunk)) return;
    int64_t cells = s->plan.sequences * s->width;
    struct page_group *g = &s->group[s->groups++];
    *g = (struct page_group){.window = window, .chunk = chunk};
    pages_open(&g->pages, group_pages(&s->plan, window, chunk));
    g->first = mem_array((size_t)s->plan.sequences, sizeof *g->first);
    g->table = mem_array((size_t)cells, sizeof *g->table);
    for (int64_t i = 0; i < cells; i++) g->table[i] = -1;
    g->device_table = tensor_2d(DT_I32, s->plan.sequences, s->width, NULL);
}

static void add_groups(struct state *s) {
    for (int64_t i = 0; i < s->plan.layers; i++) {
        for (int k = 0; k < LAYER_PAGED; k++) {
            const struct paged_decl *d = &s->plan.layer[i].paged[k];
            if (d->heads) add_group(s, d->window, d->chunk);
        }
    }
    // A model of fixed state alone gets pages that no layer stores anything in: what was seen is
    // known by their names.
    if (!s->groups) add_group(s, 0, 0);
}

static struct tensor cache_shape(enum dtype type, const struct paged_decl *d, int64_t pages,
                                 int64_t width) {
    return tensor_nd(type, 4, (int64_t[]){pages, d->heads, PAGE_TOKENS, width}, NULL);
}

static struct kv shape_of(const struct state_plan *p, int64_t layer, int k, int64_t pages) {
    const struct paged_decl *d = &p->layer[layer].paged[k];
    enum dtype type = k_type(p, k);
    struct kv kv = {.k = cache_shape(type, d, pages, d->k_width),
                    .v = cache_shape(p->v_type, d, pages, d->v_width),
                    .table = tensor_2d(DT_I32, p->sequences, pages_for(p->context), NULL)};
    if (scales(type, d->k_width))
        kv.k_scale = cache_shape(DT_BF16, d, pages, scales(type, d->k_width));
    if (scales(p->v_type, d->v_width))
        kv.v_scale = cache_shape(DT_BF16, d, pages, scales(p->v_type, d->v_width));
    return kv;
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
            if (p->layer[i].paged[k].heads) layer[i].kv[k] = shape_of(p, i, k, 1);
    place_fixed(p, layer, NULL);
    share(p, layer);
}

static void open_paged(struct state *s, int64_t layer, int k, struct error *e) {
    const struct paged_decl *d = &s->plan.layer[layer].paged[k];
    if (!d->heads || e->set) return;
    const struct page_group *g = group_of(s, d->window, d->chunk);
    struct kv *kv = &s->layer[layer].kv[k];
    *kv = shape_of(&s->plan, layer, k, g->pages.count);
    struct tensor *all[] = {&kv->k, &kv->v, &kv->k_scale, &kv->v_scale};
    for (size_t i = 0; i < sizeof all / sizeof *all && !e->set; i++)
        if (all[i]->dims)
            all[i]->data = device_alloc(s->dev, tensor_bytes(*all[i]), "the cache", e);
    kv->table = g->device_table;
}

static void open_memory(struct state *s, struct error *e) {
    const struct state_plan *p = &s->plan;
    for (int64_t g = 0; g < s->groups && !e->set; g++) {
        struct tensor *t = &s->group[g].device_table;
        t->data = device_alloc(s->dev, tensor_bytes(*t), "page tables", e);
    }
    for (int64_t i = 0; i < p->layers; i++)
        for (int k = 0; k < LAYER_PAGED; k++) open_paged(s, i, k, e);
    s->fixed_width = fixed_width(p);
    if (!e->set) s->fixed = device_alloc(s->dev, state_fixed_bytes(p), "recurrent state", e);
    if (e->set) return;
    place_fixed(p, s->layer, s->fixed);
    share(p, s->layer);
}

bool state_open(struct state *s, struct device *dev, const struct state_plan *p, struct error *e) {
    size_t sequences = (size_t)p->sequences;
    *s = (struct state){.plan = *p, .width = pages_for(p->context), .dev = dev};
    s->group = mem_array((size_t)p->layers * LAYER_PAGED + 1, sizeof *s->group);
    s->layer = mem_array((size_t)p->layers, sizeof *s->layer);
    s->dirty = mem_array(sequences, sizeof *s->dirty);
    s->high = mem_array(sequences, sizeof *s->high);
    s->goal = mem_array(sequences, sizeof *s->goal);
    s->passing = mem_array(sequences, sizeof *s->passing);
    for (size_t i = 0; i < sequences; i++) s->passing[i].slot = -1;
    s->able = mem_array((size_t)s->width, sizeof *s->able);
    pages_open(&s->snapshots, fixed_width(p) ? p->snapshots : 0);
    add_groups(s);
    open_memory(s, e);
    if (e->set) state_close(s);
    return !e->set;
}

void state_close(struct state *s) {
    for (int64_t i = 0; s->dev && i < s->plan.layers; i++) {
        for (int k = 0; k < LAYER_PAGED && !s->plan.layer[i].shared; k++) {
            device_free(s->dev, s->layer[i].kv[k].k.data);
            device_free(s->dev, s->layer[i].kv[k].v.data);
            device_free(s->dev, s->layer[i].kv[k].k_scale.data);
            device_free(s->dev, s->layer[i].kv[k].v_scale.data);
        }
    }
    if (s->dev) device_free(s->dev, s->fixed);
    for (int64_t g = 0; g < s->groups; g++) {
        if (s->dev) device_free(s->dev, s->group[g].device_table.data);
        pages_close(&s->group[g].pages);
        free(s->group[g].first);
        free(s->group[g].table);
    }
    pages_close(&s->snapshots);
    free(s->group);
    free(s->layer);
    free(s->dirty);
    free(s->high);
    free(s->goal);
    free(s->passing);
    free(s->able);
    *s = (struct state){0};
}
