// The allocator and the scheduler without a model: thousands of random requests, with beginnings in
// common, that are cancelled, forked, speculated on and preempted. A stand-in for the model writes
// into every state what must be found there later, so a page or a snapshot that is anyone else's,
// stale or freed is seen at the first row that reads it.
//
//   MLXCEL_SIMULATE=N test_scheduler   N requests a plan instead of some thousands
#include "check.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "engine/schedule.h"
#include "engine/state_parts.h"

enum { VOCAB = 50, MOST_REQUESTS = 24, BEGINNINGS = 6, CONTEXT = 230 };

struct request_seen {
    int64_t number; // 0: free
    int32_t ids[CONTEXT];
    size_t n, prompt, end;
    int64_t age;
};

struct world {
    struct schedule s;
    struct state state;
    const struct state_plan *plan;
    uint64_t random;
    struct request_seen seen[MOST_REQUESTS];
    int32_t beginning[BEGINNINGS][CONTEXT];
    int64_t steps, finished, forks, drafted, stood;
};

static uint64_t mix(uint64_t x) {
    x ^= x >> 31;
    x *= 0x9e3779b97f4a7c15u;
    return x ^ x >> 29;
}

static uint64_t pick(struct world *w, uint64_t below) {
    w->random = mix(w->random + 0x632be59bd9b4e019u);
    return (w->random >> 8) % below;
}

// What a state holds after `id`, when it held `before`: it is of all the tokens so far.
static uint64_t after(uint64_t before, int32_t id) { return mix(before * 3 + (uint64_t)id + 1); }

static int32_t next_of(uint64_t all) { return (int32_t)(mix(all) % VOCAB); }

// Longer than the short context, everything is another.
static uint64_t beginning_of(const struct world *w, size_t n) {
    return w->s.limits.short_context && (int64_t)n > w->s.limits.short_context ? 77 : 0;
}

static uint64_t of_ids(const struct world *w, const int32_t *ids, size_t n) {
    uint64_t h = beginning_of(w, n);
    for (size_t i = 0; i < n; i++) h = after(h, ids[i]);
    return h;
}

// --- the stand-in for a model --------------------------------------------------------------------

static void *cell(const struct kv *kv, int64_t seq, int64_t index) {
    int64_t page = ((const int32_t *)kv->table.data)[seq * kv->table.n[1] + index / PAGE_TOKENS];
    assert_in_range(page, 0, kv->k.n[0] - 1);
    return (float *)kv->k.data + (page * PAGE_TOKENS + index % PAGE_TOKENS) * kv->k.n[3];
}

static void check_cell(const struct kv *kv, int64_t seq, int64_t index, uint64_t want) {
    uint64_t got;
    memcpy(&got, cell(kv, seq, index), sizeof got);
    if (got != want) fail_msg("sequence %" PRId64 " finds another's token %" PRId64, seq, index);
}

// Rows of one layer: each is written, then all that it sees is checked. all [n + 1]: what a state
// holds after so many tokens of the sequence.
static void compute_layer(const struct world *w, int64_t layer, const struct turn *turn,
                          const uint64_t *all) {
    const struct state_decl *d = &w->plan->layer[layer];
    const struct layer_state *l = &w->state.layer[layer];
    int64_t seq = turn->task->seq, end = (int64_t)(turn->from + turn->rows);
    const struct paged_decl *paged = w->plan->layer[d->shared ? d->owner : layer].paged;
    for (int k = 0; k < LAYER_PAGED && paged[k].heads; k++) {
        for (int64_t i = (int64_t)turn->from; i < end; i++) {
            if (!d->shared) memcpy(cell(&l->kv[k], seq, i), &all[i + 1], sizeof *all);
            int64_t back = look_back(paged[k].window, paged[k].chunk);
            int64_t t = back < 0 || paged[k].chunk || i < back ? 0 : i - back;
            if (paged[k].chunk) t = i / paged[k].chunk * paged[k].chunk;
            int64_t stride = i == end - 1 ? 1 : 13; // the last row looks at everything
            for (; t <= i; t += stride) check_cell(&l->kv[k], seq, t, all[t + 1]);
        }
    }
    for (int k = 0; k < LAYER_FIXED && d->fixed[k]; k++) {
        float *row = (float *)l->fixed[k].data + seq * l->fixed[k].stride[0];
        uint64_t got;
        memcpy(&got, row, sizeof got);
        if (got != (turn->from ? all[turn->from] : 0))
            fail_msg("fixed state of sequence %" PRId64 " is not that of its %zu tokens", seq,
                     turn->from);
        memcpy(row, &all[end], sizeof *all);
    }
}

static void compute(struct world *w) {
    const int32_t *ids = w->s.rows.ids;
    for (size_t i = 0; i < w->s.turns; i++) {
        struct turn *turn = &w->s.turn[i];
        const struct task *t = turn->task;
        uint64_t all[CONTEXT + 1] = {beginning_of(w, t->n)};
        size_t end = turn->from + turn->rows;
        assert_int_equal(w->s.rows.run[i], ids - w->s.rows.ids);
        for (size_t k = 0; k < turn->from; k++) all[k + 1] = after(all[k], t->ids[k]);
        for (size_t k = turn->from; k < end; k++) {
            assert_int_equal(w->s.rows.seq[ids - w->s.rows.ids], t->seq);
            assert_int_equal(w->s.rows.index[ids - w->s.rows.ids], k);
            size_t length = (size_t)w->s.rows.length[ids - w->s.rows.ids];
            assert_true(length > k && beginning_of(w, length) == all[0]);
            all[k + 1] = after(all[k], *ids++);
        }
        for (int64_t l = 0; l < w->plan->layers; l++) compute_layer(w, l, turn, all);
        size_t row = t->n;
        if (end >= row && t->n < t->end)
            while (sched_token(&w->s, turn, next_of(all[row]))) row++;
        w->drafted += (int64_t)turn->drafts;
        w->stood += (int64_t)turn->accepted;
    }
    assert_int_equal(ids - w->s.rows.ids, w->s.rows.n);
    assert_int_equal(w->s.rows.run[w->s.rows.runs], w->s.rows.n);
}

// --- invariants ----------------------------------------------------------------------------------

static int64_t list_length(const struct pages *p, int32_t at) {
    int64_t n = 0;
    for (; at >= 0; at = p->page[at].newer) n++;
    return n;
}

static void check_pages(const struct pages *p, const int64_t *uses) {
    int64_t used = 0;
    for (int64_t i = 0; i < p->count; i++) {
        assert_int_equal(p->page[i].uses, uses[i]);
        used += uses[i] > 0;
        if (p->page[i].named) assert_int_equal(pages_find(p, p->page[i].name), i);
    }
    assert_int_equal(used + p->free + p->idle, p->count);
    assert_int_equal(list_length(p, p->first_free), p->free);
    assert_int_equal(list_length(p, p->oldest), p->idle);
}

// Each page has as many users as tables that hold it, a table holds only pages of live tokens, and
// a windowed one no more than a window and a step need.
static void check_invariants(const struct world *w) {
    const struct state *s = &w->state;
    for (int64_t i = 0; i < s->groups; i++) {
        const struct page_group *g = &s->group[i];
        int64_t *uses = mem_array((size_t)g->pages.count, sizeof *uses);
        for (int64_t seq = 0; seq < s->plan.sequences; seq++) {
            int64_t held = 0;
            for (int64_t p = 0; p < s->width; p++) {
                int32_t id = g->table[seq * s->width + p];
                bool live = p >= g->first[seq] && p < pages_for(s->high[seq]);
                assert_int_equal(id >= 0, live);
                if (live) uses[id]++, held++;
            }
            int64_t back = look_back(g->window, g->chunk);
            assert_true(held <= live_pages(&s->plan, back, s->plan.context));
            if (!w->s.seq_used[seq]) assert_int_equal(held, 0);
        }
        check_pages(&g->pages, uses);
        free(uses);
    }
    int64_t *none = mem_array((size_t)s->snapshots.count + 1, sizeof *none);
    check_pages(&s->snapshots, none); // between steps no one holds a snapshot
    free(none);
}

// --- requests ------------------------------------------------------------------------------------

static struct request_seen *seen_of(struct world *w, int64_t number) {
    for (int i = 0; i < MOST_REQUESTS; i++)
        if (w->seen[i].number == number) return &w->seen[i];
    return NULL;
}

static void submit(struct world *w) {
    struct request_seen *q = seen_of(w, 0);
    if (!q) return;
    const int32_t *beginning = w->beginning[pick(w, BEGINNINGS)];
    size_t common = pick(w, 4) ? pick(w, CONTEXT - 60) : 0, own = pick(w, 3) ? pick(w, 50) : 0;
    memcpy(q->ids, beginning, common * sizeof *beginning);
    q->n = common;
    for (size_t i = 0; i < own || !q->n; i++) q->ids[q->n++] = (int32_t)pick(w, VOCAB);
    int64_t new = pick(w, 8) ? (int64_t)pick(w, 60) : -1;
    size_t room = CONTEXT - q->n;
    q->prompt = q->n;
    q->end = q->n + (new < 0 || (size_t) new > room ? room : (size_t) new);
    q->age = 0;
    struct request r = {.prompt = q->ids,
                        .n = q->n,
                        .max_new = new,
                        .salt = pick(w, 10) == 0,
                        .uncached = pick(w, 20) == 0,
                        .priority = pick(w, 5) ? 0 : (int64_t)pick(w, 5) - 2};
    q->number = sched_submit(&w->s, &r, NULL);
}

static void fork_one(struct world *w) {
    struct request_seen *q = seen_of(w, 0), *from = &w->seen[pick(w, MOST_REQUESTS)];
    const struct task *t = from->number ? sched_task(&w->s, from->number) : NULL;
    if (!q || !t) return;
    *q = *from;
    q->age = 0;
    q->number = sched_fork(&w->s, t, NULL);
    w->forks++;
}

// A draft of which the first tokens are right, often none or all.
static void draft(struct world *w, struct request_seen *q) {
    struct task *t = sched_task(&w->s, q->number);
    int32_t ids[8];
    uint64_t all = of_ids(w, q->ids, q->n), right = pick(w, 10), n = 1 + pick(w, 8);
    for (uint64_t i = 0; i < n; i++) {
        ids[i] = next_of(all);
        if (i >= right) ids[i] = (ids[i] + 1) % VOCAB;
        all = after(all, ids[i]);
    }
    sched_draft(&w->s, t, ids, n);
}

static void take_events(struct world *w) {
    for (struct event ev; sched_event(&w->s, &ev);) {
        struct request_seen *q = seen_of(w, ev.request);
        assert_non_null(q);
        assert_in_range(ev.cached, 0, q->prompt);
        if (ev.id >= 0) {
            assert_int_equal(ev.id, next_of(of_ids(w, q->ids, q->n)));
            q->ids[q->n++] = ev.id;
        }
        if (ev.finish == FINISH_NOT) continue;
        if (ev.finish != FINISH_CANCELLED) assert_int_equal(q->n, q->end);
        w->finished++;
        q->number = 0;
    }
}

// They go by priority and then as they came; the first always has a place, and none waits for ever.
static void check_progress(struct world *w) {
    for (size_t i = 1; i < w->s.tasks; i++) {
        const struct task *a = w->s.task[i - 1], *b = w->s.task[i];
        int64_t behind = (b->priority - a->priority) * ENGINE_OVERTAKES + b->number - a->number;
        assert_true(behind > 0 || (behind == 0 && a->number < b->number));
    }
    if (w->s.tasks) assert_true(w->s.turns > 0 && w->s.task[0]->seq >= 0);
    for (int i = 0; i < MOST_REQUESTS; i++)
        if (w->seen[i].number && ++w->seen[i].age > 20000) fail_msg("a request starves");
}

static void step(struct world *w) {
    if (w->plan->layers && w->s.limits.drafts)
        for (int i = 0; i < MOST_REQUESTS; i++)
            if (w->seen[i].number && !pick(w, 3)) draft(w, &w->seen[i]);
    sched_plan(&w->s);
    check_progress(w);
    state_upload(&w->state);
    compute(w);
    sched_finish(&w->s);
    take_events(w);
    if (w->steps++ % 8 == 0) check_invariants(w);
}

static void open_world(struct world *w, struct device *dev, const struct state_plan *plan,
                       const struct limits *limits) {
    struct error e = {0};
    *w = (struct world){.plan = plan, .random = 1};
    if (!state_open(&w->state, dev, plan, &e)) fail_msg("%s", e.text);
    sched_open(&w->s, limits, &w->state);
    for (int i = 0; i < BEGINNINGS; i++)
        for (int k = 0; k < CONTEXT; k++) w->beginning[i][k] = (int32_t)pick(w, VOCAB);
    for (int i = 0; i < 2; i++) // two that differ late
        memcpy(w->beginning[i + 1], w->beginning[i], (100 - 50 * (size_t)i) * sizeof(int32_t));
}

static void simulate(struct device *dev, const struct state_plan *plan, struct limits limits,
                     int64_t requests) {
    struct world w;
    open_world(&w, dev, plan, &limits);
    while (w.finished < requests) {
        uint64_t action = pick(&w, 32);
        if (action < 14) submit(&w);
        if (action == 14) fork_one(&w);
        if (action == 15) {
            sched_cancel(&w.s, w.seen[pick(&w, MOST_REQUESTS)].number);
            take_events(&w);
        }
        step(&w);
    }
    while (sched_busy(&w.s)) step(&w);
    check_invariants(&w);
    assert_int_equal(w.s.tasks, 0);
    for (int64_t g = 0; g < w.state.groups; g++)
        assert_int_equal(pages_left(&w.state.group[g].pages), w.state.group[g].pages.count);
    bool windows = true; // alone: what they need is always there
    for (int64_t g = 0; g < w.state.groups; g++)
        windows = windows && look_back(w.state.group[g].window, w.state.group[g].chunk) >= 0;
    bool tight = !windows && plan->tokens < plan->sequences * CONTEXT;
    assert_true(w.s.cached > 0 && w.forks > 0 && (w.s.preempted > 0 || !tight));
    assert_true(w.stood > 0 || !limits.drafts);
    if (getenv("MLXCEL_SIMULATE"))
        print_message("%" PRId64 " requests in %" PRId64 " steps: %" PRId64
                      " tokens cached, %" PRId64 " preempted, %" PRId64 " forked, %" PRId64
                      " of %" PRId64 " drafts stood\n",
                      w.finished, w.steps, w.s.cached, w.s.preempted, w.forks, w.stood, w.drafted);
    sched_close(&w.s);
    state_close(&w.state);
}

#define PAGED(...)                                                                                 \
    { .heads = 1, .k_width = 2, __VA_ARGS__ }

static const struct state_decl full = {.paged = {PAGED(.v_width = 1)}},
                               indexed = {.paged = {PAGED(), PAGED()}},
                               window = {.paged = {PAGED(.window = 48)}},
                               narrow = {.paged = {PAGED(.window = 1)}},
                               chunked = {.paged = {PAGED(.chunk = 64)}}, fixed = {.fixed = {2}},
                               pieces = {.fixed = {3, 17, 2}},
                               shared = {.shared = true, .owner = 0};

static void test_random_requests(void **unused) {
    (void)unused;
    const struct state_decl kinds[][4] = {
        {full, indexed, shared},         // attention alone
        {full, window, chunked, narrow}, // windows
        {window, shared, chunked},       // windows alone
        {pieces, full, fixed},           // hybrid
        {fixed, pieces},                 // fixed state alone
        {window, fixed, chunked},        // what goes on for ever
    };
    static const int64_t layers[] = {3, 4, 3, 3, 2, 3};
    const char *asked = getenv("MLXCEL_SIMULATE");
    int64_t requests = asked ? atoll(asked) : 1500;
    struct error e = {0};
    struct device *dev = device_open("cpu", &(struct device_options){.pool.threads = 1}, &e);
    assert_non_null(dev);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        for (int64_t k = 0; k < 3; k++) {
            struct limits limits = {.context = CONTEXT,
                                    .sequences = 6,
                                    .batch = 64 - 12 * k,
                                    .chunk = k == 2 ? 9 : 40,
                                    .drafts = 4 * (k > 0),
                                    .short_context = k == 2 ? 110 : 0};
            struct state_plan plan = {.layer = kinds[i],
                                      .layers = layers[i],
                                      .context = CONTEXT,
                                      .sequences = limits.sequences,
                                      .tokens = k == 1 ? 6 * CONTEXT : CONTEXT + 130,
                                      .chunk = limits.chunk,
                                      .snapshots = 5,
                                      .k_type = DT_F32,
                                      .v_type = DT_F32};
            simulate(dev, &plan, limits, requests);
        }
    }
    device_close(dev);
}

// With one place: a lower priority stops even what runs, a higher one waits, others go as they
// came; what many came before is not overtaken.
static void test_priorities(void **unused) {
    (void)unused;
    static const int64_t priority[] = {0, 0, -1, 1, 0}, finish[] = {3, 1, 2, 5, 4};
    enum { REQUESTS = sizeof priority / sizeof *priority };
    const struct limits limits = {.context = CONTEXT, .sequences = 1, .batch = 64, .chunk = 40};
    const struct state_plan plan = {.layer = &full,
                                    .layers = 1,
                                    .context = CONTEXT,
                                    .sequences = 1,
                                    .tokens = CONTEXT,
                                    .chunk = 40,
                                    .k_type = DT_F32,
                                    .v_type = DT_F32};
    struct error e = {0};
    struct device *dev = device_open("cpu", &(struct device_options){.pool.threads = 1}, &e);
    assert_non_null(dev);
    static const int32_t ids[] = {1, 2, 3};
    struct world w;
    open_world(&w, dev, &plan, &limits);
    for (int round = 0; round < 2; round++) {
        // In the second, the last is of a better priority, but comes too late.
        int64_t over[REQUESTS], n = 0, first = w.s.last_number + 1;
        for (int i = 0; i < REQUESTS; i++) {
            struct request_seen *q = seen_of(&w, 0);
            *q = (struct request_seen){.n = 3, .prompt = 3, .end = 23};
            memcpy(q->ids, ids, sizeof ids);
            bool late = round && i == REQUESTS - 1;
            if (late) w.s.last_number += ENGINE_OVERTAKES;
            struct request r = {.prompt = ids, .n = 3, .max_new = 20};
            r.priority = round ? -late : priority[i];
            q->number = sched_submit(&w.s, &r, NULL);
            step(&w);
        }
        while (sched_busy(&w.s)) {
            step(&w);
            for (int i = 0; i < REQUESTS && n < w.finished - round * REQUESTS; i++) {
                int64_t number = first + i + (round && i == REQUESTS - 1 ? ENGINE_OVERTAKES : 0);
                bool told = false;
                for (int64_t k = 0; k < n; k++) told |= over[k] == i + 1;
                if (!told && !sched_task(&w.s, number)) over[n++] = i + 1;
            }
        }
        assert_int_equal(n, REQUESTS);
        for (int i = 0; i < REQUESTS; i++) assert_int_equal(over[i], round ? i + 1 : finish[i]);
    }
    sched_close(&w.s);
    state_close(&w.state);
    device_close(dev);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_requests),
                                       cmocka_unit_test(test_priorities)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
