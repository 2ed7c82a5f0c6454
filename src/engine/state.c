// Which pages a sequence has, and what is kept of those that are gone.
#include "engine/state_parts.h"

#include <string.h>

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static bool windowed(const struct page_group *g) { return look_back(g->window, g->chunk) >= 0; }

// The first token that the token at `index` sees, which no later one looks behind.
static int64_t first_seen(const struct page_group *g, int64_t index) {
    int64_t first = g->window > 0 ? most(index - g->window + 1, 0) : 0;
    return g->chunk > 0 ? most(first, index / g->chunk * g->chunk) : first;
}

static int32_t *table_of(const struct state *s, const struct page_group *g, int64_t seq) {
    return g->table + seq * s->width;
}

// --- finding what was computed before ------------------------------------------------------------

// Which beginnings of the chain a group has the pages for: able[i] stays only if those are there
// that the token after page i sees. Returns how many of them there may be at most.
static int64_t find_pages(const struct page_group *g, const struct digest *chain, int64_t blocks,
                          bool *able) {
    int64_t run = 0;
    for (int64_t i = 0; i < blocks; i++) {
        run = pages_find(&g->pages, chain[i]) >= 0 ? run + 1 : 0;
        if (run < i + 1 - first_seen(g, (i + 1) * PAGE_TOKENS) / PAGE_TOKENS) able[i] = false;
        if (!run && !windowed(g)) return i;
    }
    return blocks;
}

static int64_t last_able(const bool *able, int64_t blocks) {
    while (blocks > 0 && !able[blocks - 1]) blocks--;
    return blocks;
}

// The most pages of tokens that all groups, and a snapshot, are there for.
static int64_t find(const struct state *s, const struct digest *chain, int64_t blocks,
                    int64_t *known) {
    for (int64_t i = 0; i < blocks; i++) s->able[i] = true;
    for (int64_t g = 0; g < s->groups; g++) {
        blocks = find_pages(&s->group[g], chain, blocks, s->able);
        blocks = last_able(s->able, blocks);
    }
    *known = blocks * PAGE_TOKENS;
    while (s->fixed_width && blocks > 0 &&
           (!s->able[blocks - 1] || pages_find(&s->snapshots, chain[blocks - 1]) < 0))
        blocks--;
    return blocks;
}

// --- pages ---------------------------------------------------------------------------------------

// Pages that a sequence is still to get for its goal, or its next token.
static int64_t owed(const struct state *s, const struct page_group *g, int64_t seq) {
    if (!s->goal[seq]) return 0;
    int64_t tokens = least(most(s->goal[seq], s->high[seq] + 1), s->plan.context);
    int64_t live = live_pages(&s->plan, look_back(g->window, g->chunk), tokens);
    return most(live - (pages_for(s->high[seq]) - g->first[seq]), 0);
}

static bool all_fit(const struct state *s) {
    for (int64_t i = 0; i < s->groups; i++) {
        int64_t left = pages_left(&s->group[i].pages);
        for (int64_t seq = 0; seq < s->plan.sequences; seq++) left -= owed(s, &s->group[i], seq);
        if (left < 0) return false;
    }
    return true;
}

static float *fixed_row(const struct state *s, int64_t row) {
    return s->fixed + row * s->fixed_width;
}

static size_t fixed_size(const struct state *s) {
    return (size_t)s->fixed_width * sizeof *s->fixed;
}

int64_t state_begin(struct state *s, int64_t seq, const struct digest *chain, int64_t blocks,
                    int64_t tokens, int64_t *known) {
    int64_t found = find(s, chain, blocks, known), held = found * PAGE_TOKENS;
    for (int64_t i = 0; i < s->groups; i++) {
        struct page_group *g = &s->group[i];
        g->first[seq] = first_seen(g, held) / PAGE_TOKENS;
        for (int64_t p = g->first[seq]; p < found; p++) {
            int32_t id = pages_find(&g->pages, chain[p]);
            pages_keep(&g->pages, id);
            table_of(s, g, seq)[p] = id;
        }
    }
    s->high[seq] = held;
    s->goal[seq] = tokens;
    s->dirty[seq] = true;
    if (!all_fit(s)) {
        state_release(s, seq);
        return -1;
    }
    if (!s->fixed_width) return held;
    if (found) {
        int32_t slot = pages_find(&s->snapshots, chain[found - 1]);
        pages_keep(&s->snapshots, slot); // it is the latest used
        state_unhold(s, seq, slot, true);
    } else {
        device_clear(s->dev, fixed_row(s, seq), fixed_size(s));
    }
    return held;
}

// Lets the pages of a sequence's table from `from` to `to` go, the last first: of what is idle, the
// ends go before the beginnings that they need.
static void drop_pages(const struct state *s, struct page_group *g, int64_t seq, int64_t from,
                       int64_t to) {
    int32_t *table = table_of(s, g, seq);
    for (int64_t p = to; p-- > from;) {
        pages_drop(&g->pages, table[p]);
        table[p] = -1;
    }
}

bool state_advance(struct state *s, int64_t seq, int64_t begin, int64_t end) {
    int64_t from = pages_for(s->high[seq]), to = pages_for(end);
    s->dirty[seq] = true;
    for (int64_t i = 0; i < s->groups; i++) {
        struct page_group *g = &s->group[i];
        int64_t first = first_seen(g, begin) / PAGE_TOKENS;
        if (first <= g->first[seq]) continue;
        drop_pages(s, g, seq, g->first[seq], first);
        g->first[seq] = first;
    }
    for (int64_t i = 0; i < s->groups; i++)
        if (pages_left(&s->group[i].pages) < to - from) return false;
    for (int64_t i = 0; i < s->groups; i++) {
        struct page_group *g = &s->group[i];
        for (int64_t p = from; p < to; p++) table_of(s, g, seq)[p] = pages_take(&g->pages);
    }
    s->high[seq] = end;
    return true;
}

void state_truncate(struct state *s, int64_t seq, int64_t to) {
    for (int64_t i = 0; i < s->groups; i++)
        drop_pages(s, &s->group[i], seq, pages_for(to), pages_for(s->high[seq]));
    s->high[seq] = to;
    s->dirty[seq] = true;
}

void state_release(struct state *s, int64_t seq) {
    for (int64_t i = 0; i < s->groups; i++) {
        struct page_group *g = &s->group[i];
        drop_pages(s, g, seq, g->first[seq], pages_for(s->high[seq]));
        g->first[seq] = 0;
    }
    s->high[seq] = s->goal[seq] = 0;
    s->passing[seq].slot = -1;
    s->dirty[seq] = true;
}

void state_pages(const struct state *s, int64_t *all, int64_t *used) {
    *all = *used = 0;
    for (int64_t i = 0; i < s->groups; i++) {
        const struct pages *p = &s->group[i].pages;
        *all += p->count;
        *used += p->count - pages_left(p);
    }
}

void state_upload(struct state *s) {
    size_t row = (size_t)s->width * sizeof(int32_t);
    for (int64_t seq = 0; seq < s->plan.sequences; seq++) {
        if (!s->dirty[seq]) continue;
        for (int64_t i = 0; i < s->groups; i++) {
            struct page_group *g = &s->group[i];
            device_upload(s->dev, (char *)g->device_table.data + (size_t)seq * row,
                          table_of(s, g, seq), row);
        }
        s->dirty[seq] = false;
    }
}

void state_name(struct state *s, int64_t seq, const struct digest *chain, int64_t from,
                int64_t to) {
    for (int64_t i = 0; i < s->groups; i++) {
        struct page_group *g = &s->group[i];
        int64_t p = most(from / PAGE_TOKENS, g->first[seq]);
        for (; p < to / PAGE_TOKENS; p++) pages_name(&g->pages, table_of(s, g, seq)[p], chain[p]);
    }
}

// --- snapshots -----------------------------------------------------------------------------------

int32_t state_hold(struct state *s, int64_t seq) {
    int32_t slot = pages_take(&s->snapshots);
    if (slot >= 0)
        device_copy(s->dev, fixed_row(s, s->plan.sequences + slot), fixed_row(s, seq),
                    fixed_size(s));
    return slot;
}

void state_unhold(struct state *s, int64_t seq, int32_t slot, bool restore) {
    if (restore)
        device_copy(s->dev, fixed_row(s, seq), fixed_row(s, s->plan.sequences + slot),
                    fixed_size(s));
    pages_drop(&s->snapshots, slot);
}

// Unless it has another name by now, or someone reads it.
static void forget_passing(struct state *s, int64_t seq) {
    const struct passing *p = &s->passing[seq];
    if (p->slot >= 0 && pages_find(&s->snapshots, p->name) == p->slot)
        pages_forget(&s->snapshots, p->slot);
}

void state_save(struct state *s, int64_t seq, struct digest name, bool passing) {
    int32_t slot = pages_find(&s->snapshots, name);
    if (slot >= 0) { // it is the latest used
        pages_keep(&s->snapshots, slot);
        pages_drop(&s->snapshots, slot);
        return;
    }
    forget_passing(s, seq);
    s->passing[seq].slot = -1;
    slot = state_hold(s, seq);
    if (slot < 0) return;
    pages_name(&s->snapshots, slot, name);
    pages_drop(&s->snapshots, slot);
    if (passing) s->passing[seq] = (struct passing){slot, name};
}
