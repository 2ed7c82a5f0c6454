#include "grammar/machine.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "grammar/lexicon.h"

enum { ITEM_STEPS = 8, MEMBER_STEPS = 4 }; // of work

// --- frames and sets, each kept once -------------------------------------------------------------

static uint32_t mix(uint32_t h, int32_t v) {
    h = (h ^ (uint32_t)v) * 0x85ebca6bu;
    return h ^ h >> 15;
}

static uint32_t frame_hash(const struct frame *f) {
    return mix(mix(mix(1, f->node), f->count), f->up);
}

static uint32_t set_hash(const int32_t *frame, int32_t n) {
    uint32_t h = 2;
    for (int32_t i = 0; i < n; i++) h = mix(h, frame[i]);
    return h;
}

// Room for one more; true: the chains must be made anew.
static bool table_grow(struct table *t) {
    if (t->n++ < t->slots) return false;
    t->slots = t->slots ? t->slots * 2 : 256;
    t->slot = mem_resize(t->slot, t->slots, sizeof *t->slot);
    for (size_t i = 0; i < t->slots; i++) t->slot[i] = -1;
    return true;
}

static void chain_frame(struct machine *m, int32_t i) {
    int32_t *slot = &m->frame_table.slot[frame_hash(&m->frame[i]) & (m->frame_table.slots - 1)];
    m->frame[i].chain = *slot;
    *slot = i;
}

static void chain_set(struct machine *m, int32_t i) {
    struct frame_set *s = &m->set[i];
    uint32_t h = set_hash(m->member + s->first, s->n);
    int32_t *slot = &m->set_table.slot[h & (m->set_table.slots - 1)];
    s->chain = *slot;
    *slot = i;
}

// The least count that no text of `reach` bytes tells from this one.
static int32_t like_count(const struct machine *m, int32_t node, int32_t count, int32_t reach) {
    if (node < 0 || m->a->node[node].loop < 0) return 0;
    const struct pda_loop *l = &m->a->loop[m->a->node[node].loop];
    if (count <= l->min - reach) return 0;
    return count >= l->min && (l->max < 0 || count <= l->max - reach) ? l->min : count;
}

static int32_t frame_of(struct machine *m, int32_t node, int32_t count, int32_t up) {
    struct frame f = {.node = node, .count = count, .up = up};
    if (m->frame_table.slots) {
        int32_t i = m->frame_table.slot[frame_hash(&f) & (m->frame_table.slots - 1)];
        for (; i >= 0; i = m->frame[i].chain)
            if (m->frame[i].node == node && m->frame[i].count == count && m->frame[i].up == up)
                return i;
    }
    for (int k = LIKE; k <= NEAR; k++) {
        int32_t likely = like_count(m, node, count, m->reach[k]);
        int32_t up_like = up < 0 ? up : m->set[up].like[k];
        bool same = likely == count && up_like == up;
        f.like[k] = same ? -1 : frame_of(m, node, likely, up_like);
    }
    int32_t id = (int32_t)m->frames;
    for (int k = LIKE; k <= NEAR; k++)
        if (f.like[k] < 0) f.like[k] = id;
    m->frame = mem_grow(m->frame, &m->frame_cap, m->frames + 1, sizeof *m->frame);
    m->frame[m->frames++] = f;
    m->bytes += sizeof f + sizeof *m->frame_table.slot;
    if (!table_grow(&m->frame_table))
        chain_frame(m, id);
    else
        for (int32_t i = 0; i <= id; i++) chain_frame(m, i);
    return id;
}

static int by_number(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static int32_t find_set(const struct machine *m, const int32_t *frame, int32_t n) {
    if (!m->set_table.slots) return -1;
    int32_t i = m->set_table.slot[set_hash(frame, n) & (m->set_table.slots - 1)];
    for (; i >= 0; i = m->set[i].chain)
        if (m->set[i].n == n &&
            !memcmp(m->member + m->set[i].first, frame, (size_t)n * sizeof *frame))
            return i;
    return -1;
}

// Sorts the frames and leaves each once.
static int32_t tidy(int32_t *frame, int32_t n) {
    int32_t kept = 0;
    if (n > 1) qsort(frame, (size_t)n, sizeof *frame, by_number);
    for (int32_t i = 0; i < n; i++)
        if (!kept || frame[i] != frame[kept - 1]) frame[kept++] = frame[i];
    return kept;
}

static int32_t new_set(struct machine *m, const int32_t *frame, int32_t n) {
    int32_t id = (int32_t)m->sets;
    struct frame_set s = {.first = (int32_t)m->members,
                          .n = n,
                          .like = {id, id},
                          .then = {MACHINE_UNKNOWN, MACHINE_UNKNOWN}};
    m->member = mem_grow(m->member, &m->member_cap, m->members + (size_t)n, sizeof *m->member);
    memcpy(m->member + m->members, frame, (size_t)n * sizeof *frame);
    m->members += (size_t)n;
    for (int32_t i = 0; i < n; i++) s.done |= m->frame[frame[i]].node < 0;
    m->set = mem_grow(m->set, &m->set_cap, m->sets + 1, sizeof *m->set);
    m->set[m->sets++] = s;
    m->bytes += sizeof s + sizeof *m->set_table.slot + (size_t)n * sizeof *frame;
    if (!table_grow(&m->set_table))
        chain_set(m, id);
    else
        for (int32_t i = 0; i <= id; i++) chain_set(m, i);
    return id;
}

// frame: changed. A set's like has members that are only like themselves, so this goes no deeper
// than twice.
static int32_t set_of(struct machine *m, int32_t *frame, int32_t n) {
    n = tidy(frame, n);
    int32_t found = find_set(m, frame, n);
    if (found >= 0) return found;
    int32_t id = new_set(m, frame, n);
    int32_t *own = mem_array((size_t)n, sizeof *own);
    for (int k = LIKE; k <= NEAR; k++) {
        bool same = true;
        for (int32_t i = 0; i < n; i++) {
            own[i] = m->frame[frame[i]].like[k];
            same &= own[i] == frame[i];
        }
        if (same) continue;
        int32_t like = set_of(m, own, n);
        m->set[id].like[k] = like;
    }
    free(own);
    return id;
}

// --- walks ---------------------------------------------------------------------------------------

static void begin_walk(struct machine *m) {
    m->items = m->pendings = 0;
    m->stamp++;
}

static void too_wide(struct machine *m) {
    fail(m->e,
         "a text can be read in more than %d ways at once (alternatives that begin alike "
         "should be one)",
         MACHINE_WIDE);
}

static void add_item(struct machine *m, int32_t node, int32_t count, int32_t up) {
    if (m->items >= MACHINE_WIDE) too_wide(m);
    if (m->e->set || !effort_work(m->effort, ITEM_STEPS, m->e)) return;
    int32_t f = frame_of(m, node, count, up);
    if (m->frame[f].stamp == m->stamp) return;
    m->frame[f].stamp = m->stamp;
    m->item = mem_grow(m->item, &m->item_cap, m->items + 1, sizeof *m->item);
    m->item[m->items++] = f;
}

static void go_up(struct machine *m, int32_t up) {
    for (int32_t i = 0; i < m->set[up].n; i++) {
        struct frame f = m->frame[m->member[m->set[up].first + i]];
        add_item(m, f.node, f.count, f.up);
    }
}

// Pending calls are a heap: the first is of a rule that no other pending one may begin with.
static bool before(const struct machine *m, size_t a, size_t b) {
    const struct pda_call *x = &m->pending[a], *y = &m->pending[b];
    int32_t u = m->a->rule[x->rule].rank, v = m->a->rule[y->rule].rank;
    return u < v || (u == v && x->to < y->to);
}

static void swap(struct machine *m, size_t a, size_t b) {
    struct pda_call c = m->pending[a];
    m->pending[a] = m->pending[b];
    m->pending[b] = c;
}

static void add_pending(struct machine *m, int32_t rule, int32_t frame) {
    if (m->pendings >= 4 * MACHINE_WIDE) too_wide(m);
    if (m->e->set || !effort_work(m->effort, ITEM_STEPS, m->e)) return;
    m->pending = mem_grow(m->pending, &m->pending_cap, m->pendings + 1, sizeof *m->pending);
    m->pending[m->pendings] = (struct pda_call){rule, frame};
    for (size_t i = m->pendings++; i && before(m, i, (i - 1) / 2); i = (i - 1) / 2)
        swap(m, i, (i - 1) / 2);
}

static struct pda_call take_pending(struct machine *m) {
    struct pda_call first = m->pending[0];
    m->pending[0] = m->pending[--m->pendings];
    for (size_t i = 0, k; (k = 2 * i + 1) < m->pendings; i = k) {
        if (k + 1 < m->pendings && before(m, k + 1, k)) k++;
        if (!before(m, k, i)) break;
        swap(m, k, i);
    }
    return first;
}

// The set that a call in a frame with `up` returns to when it goes on at node `to`. A call at the
// very end leaves no trace, so that a list may be a rule that ends with itself.
static int32_t return_set(struct machine *m, int32_t to, int32_t up) {
    if (m->a->node[to].last) return up;
    int32_t frame = frame_of(m, to, 0, up);
    return set_of(m, &frame, 1);
}

static void call(struct machine *m, const struct pda_call *c, int32_t up) {
    if (c->rule < 0) {
        int32_t loop = m->a->loop[-1 - c->rule].node;
        add_item(m, loop, 0, return_set(m, c->to, up));
    } else if (m->a->node[c->to].last) {
        for (int32_t i = 0; i < m->set[up].n; i++)
            add_pending(m, c->rule, m->member[m->set[up].first + i]);
    } else {
        add_pending(m, c->rule, frame_of(m, c->to, 0, up));
    }
}

static void loop(struct machine *m, const struct pda_loop *l, struct frame f) {
    if (f.count >= l->min) go_up(m, f.up);
    if (l->max >= 0 && f.count >= l->max) return;
    int32_t next = l->max < 0 && f.count >= l->min ? l->min : f.count + 1;
    add_pending(m, l->body, frame_of(m, f.node, next, f.up));
}

static void expand(struct machine *m, struct frame f) {
    if (f.node < 0) return;
    const struct pda_node *n = &m->a->node[f.node];
    if (n->loop >= 0) {
        loop(m, &m->a->loop[n->loop], f);
        return;
    }
    if (n->final) go_up(m, f.up);
    for (int32_t i = n->call; i < n->call + n->calls; i++) call(m, &m->a->call[i], f.up);
}

// Begins the pending rule that no other pending one may begin with, once for all its callers.
static void begin_rule(struct machine *m) {
    int32_t rule = m->pending[0].rule, callers = 0;
    while (m->pendings && m->pending[0].rule == rule) {
        m->caller = mem_grow(m->caller, &m->caller_cap, (size_t)callers + 1, sizeof *m->caller);
        m->caller[callers++] = take_pending(m).to;
    }
    effort_work(m->effort, MEMBER_STEPS * (size_t)callers, m->e);
    add_item(m, m->a->rule[rule].start, 0, set_of(m, m->caller, callers));
}

// All places that the items lead to without reading; those that read make the set.
static int32_t end_walk(struct machine *m) {
    for (size_t i = 0; (i < m->items || m->pendings) && !m->e->set;) {
        if (i < m->items)
            expand(m, m->frame[m->item[i++]]);
        else
            begin_rule(m);
    }
    int32_t kept = 0;
    effort_work(m->effort, MEMBER_STEPS * m->items, m->e);
    for (size_t i = 0; i < m->items && !m->e->set; i++) {
        int32_t node = m->frame[m->item[i]].node;
        if (node < 0 || m->a->node[node].edges) m->item[kept++] = m->item[i];
    }
    return kept ? set_of(m, m->item, kept) : MACHINE_DEAD;
}

static int32_t find_step(struct machine *m, int32_t set, unsigned char byte) {
    begin_walk(m);
    for (int32_t i = 0; i < m->set[set].n; i++) {
        struct frame f = m->frame[m->member[m->set[set].first + i]];
        if (f.node < 0) continue;
        const struct pda_node *n = &m->a->node[f.node];
        for (int32_t k = n->edge; k < n->edge + n->edges; k++) {
            const struct pda_edge *edge = &m->a->edge[k];
            if (byte >= edge->lo && byte <= edge->hi) add_item(m, edge->to, 0, f.up);
        }
    }
    return end_walk(m);
}

int32_t machine_step(struct machine *m, int32_t set, unsigned char byte) {
    size_t classes = (size_t)m->a->classes;
    unsigned char class = m->a->class[byte];
    if (!m->set[set].next) {
        int32_t *next = mem_array(classes, sizeof *next);
        for (size_t i = 0; i < classes; i++) next[i] = MACHINE_UNKNOWN;
        m->set[set].next = next;
        m->bytes += classes * sizeof *next;
    }
    int32_t to = m->set[set].next[class];
    if (to != MACHINE_UNKNOWN) return to;
    if (m->sets >= MACHINE_SETS) fail(m->e, "the grammar is read in too many ways");
    if (m->e->set) return MACHINE_DEAD;
    to = find_step(m, set, m->a->sample[class]);
    if (m->e->set) return MACHINE_DEAD;
    return m->set[set].next[class] = to;
}

static void start(struct machine *m) {
    int32_t end = frame_of(m, -1, 0, -1);
    int32_t bottom = set_of(m, &end, 1);
    begin_walk(m);
    add_item(m, m->a->rule[m->a->root].start, 0, bottom);
    m->first = end_walk(m);
}

void machine_open(struct machine *m, const struct automaton *a, size_t longest, struct effort *f,
                  struct error *e) {
    size_t near = longest < LEX_SHORT ? longest : LEX_SHORT;
    *m = (struct machine){
        .a = a, .reach = {(int32_t)longest + 1, (int32_t)near + 1}, .effort = f, .e = e};
    start(m);
}

void machine_begin(struct machine *m) {
    m->why = (struct error){0};
    m->own = (struct effort){.steps = MACHINE_STEPS};
    m->effort = &m->own;
    m->e = &m->why;
}

void machine_close(struct machine *m) {
    for (size_t i = 0; i < m->sets; i++) {
        free(m->set[i].next);
        free(m->set[i].mask[LIKE]);
        free(m->set[i].mask[NEAR]);
    }
    free(m->frame);
    free(m->set);
    free(m->member);
    free(m->frame_table.slot);
    free(m->set_table.slot);
    free(m->item);
    free(m->pending);
    free(m->caller);
    *m = (struct machine){0};
}

// A set's frames return to sets with lower numbers.
static void mark_used(const struct machine *m, bool *used) {
    for (size_t s = m->sets; s-- > 0;) {
        if (!used[s]) continue;
        for (int32_t i = 0; i < m->set[s].n; i++) {
            int32_t up = m->frame[m->member[m->set[s].first + i]].up;
            if (up >= 0) used[up] = true;
        }
    }
}

bool machine_full(const struct machine *m, size_t less) {
    return m->bytes > m->kept_bytes + MACHINE_BYTES / less ||
           m->sets > m->kept_sets + MACHINE_SETS / 4;
}

void machine_clean(struct machine *m, int32_t *const *root, size_t n) {
    struct machine old = *m;
    bool *used = mem_array(old.sets, sizeof *used);
    int32_t *now = mem_array(old.sets, sizeof *now);
    for (size_t i = 0; i < n; i++)
        if (*root[i] >= 0) used[*root[i]] = true;
    mark_used(&old, used);
    *m = (struct machine){.a = old.a, .reach = {old.reach[LIKE], old.reach[NEAR]}, .e = &m->why};
    start(m);
    for (size_t s = 0; s < old.sets; s++) {
        if (!used[s]) continue;
        int32_t *list = mem_array((size_t)old.set[s].n, sizeof *list);
        for (int32_t i = 0; i < old.set[s].n; i++) {
            struct frame f = old.frame[old.member[old.set[s].first + i]];
            list[i] = frame_of(m, f.node, f.count, f.up < 0 ? f.up : now[f.up]);
        }
        now[s] = set_of(m, list, old.set[s].n);
        free(list);
    }
    for (size_t i = 0; i < n; i++)
        if (*root[i] >= 0) *root[i] = now[*root[i]];
    m->kept_bytes = m->bytes;
    m->kept_sets = m->sets;
    machine_begin(m);
    free(used);
    free(now);
    machine_close(&old);
}
