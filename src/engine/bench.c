#include "engine/bench.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/parts.h"

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// Rows of each sequence in a step that begins with `done` tokens and may go to `end`. All sequences
// move together, so none generates while another's prompt is read.
static int64_t step_rows(const struct engine *e, const struct pass *p, int64_t done, int64_t end) {
    bool one = p->generate && done >= p->depth;
    return one ? 1 : least(e->opt.batch / p->sequences, end - done);
}

static bool run_to(struct engine *e, const struct pass *p, int64_t done, int64_t end,
                   struct error *err) {
    while (done < end) {
        e->sched.limits.chunk = step_rows(e, p, done, end);
        done += e->sched.limits.chunk;
        if (!engine_step(e, err)) return false;
        for (struct event ignored; engine_event(e, &ignored);) {}
    }
    return true;
}

static bool submit(struct engine *e, const struct pass *p, struct error *err) {
    struct request r = {
        .n = (size_t)(p->depth + (p->generate ? 1 : p->tokens)),
        .max_new = p->generate ? p->tokens : 1,
        .sampling = p->sampling ? *p->sampling : sampling_greedy(),
        .uncached = true,
    };
    int32_t *ids = mem_array(r.n, sizeof *ids);
    uint32_t random = 1;
    r.prompt = ids;
    for (int64_t s = 0; s < p->sequences && !err->set; s++) {
        for (size_t i = 0; i < r.n; i++) {
            random = random * 1664525u + 1013904223u;
            ids[i] = (int32_t)((random >> 8) % (uint64_t)e->info.vocab);
        }
        engine_submit(e, &r, err);
    }
    free(ids);
    return !err->set;
}

static bool check(const struct engine *e, const struct pass *p, struct error *err) {
    int64_t most = least(e->opt.sequences, e->opt.batch);
    if (p->sequences < 1 || p->sequences > most)
        return fail(err, "%lld sequences in a pass; the engine was opened for %lld",
                    (long long)p->sequences, (long long)most);
    if (p->tokens < 1 || p->depth < 0 || p->depth >= e->info.context - p->tokens)
        return fail(err, "a pass of %lld tokens after %lld; the context holds %lld",
                    (long long)p->tokens, (long long)p->depth, (long long)e->info.context);
    return true;
}

bool engine_time(struct engine *e, const struct pass *p, double *seconds, struct error *err) {
    if (!check(e, p, err) || !submit(e, p, err)) return false;
    bool ok = run_to(e, p, 0, p->depth, err);
    double began = clock_now();
    ok = ok && run_to(e, p, p->depth, p->depth + p->tokens, err);
    *seconds = clock_now() - began;
    e->sched.limits.chunk = e->opt.chunk;
    return ok;
}

// Keys and values of a layer for rows [at, at + rows) of a sequence: which of them are seen by some
// row, and the sum over the rows of how many each sees.
static void count_seen(int64_t window, int64_t at, int64_t rows, double *seen, double *sum) {
    int64_t all = at + rows;
    *seen = (double)(window ? least(all, window + rows - 1) : all);
    for (int64_t i = at + 1; i <= all; i++) *sum += (double)(window ? least(i, window) : i);
}

// Of all layers, for one sequence: the keys and values that are seen, and fixed state read and
// written.
static struct pass_cost state_cost(const struct engine *e, int64_t at, int64_t rows) {
    struct pass_cost c = {0};
    for (int64_t l = 0; l < e->info.layers; l++) {
        const struct state_decl *own = &e->decl[l];
        int64_t owner = own->shared ? own->owner : l;
        const struct paged_decl *d = e->decl[owner].paged;
        for (int k = 0; k < LAYER_FIXED; k++) c.bytes += 2 * sizeof(float) * (double)own->fixed[k];
        for (int k = 0; k < LAYER_PAGED && d[k].heads; k++) {
            double seen = 0, sum = 0;
            count_seen(d[k].window, at, rows, &seen, &sum);
            c.bytes += seen * (double)state_token_bytes(&e->state.plan, owner, k);
            if (k == 0) c.ops += sum * 2 * (double)decoder_attended(e->decoder, l);
        }
    }
    return c;
}

struct pass_cost engine_cost(const struct engine *e, const struct pass *p) {
    struct pass_cost c = {0};
    double sequences = (double)p->sequences;
    int64_t end = p->depth + p->tokens;
    for (int64_t at = p->depth, rows; at < end; at += rows) {
        rows = step_rows(e, p, at, end);
        bool head = p->generate || at + rows == end;
        struct decoder_cost model = decoder_cost(e->decoder, rows * p->sequences);
        struct pass_cost state = state_cost(e, at, rows);
        c.bytes += (double)model.layer_bytes + sequences * state.bytes;
        c.ops += sequences * (2.0 * (double)model.layer_elements * (double)rows + state.ops);
        if (!head) continue;
        c.bytes += (double)model.head_bytes;
        c.ops += sequences * 2 * (double)model.head_elements;
    }
    return c;
}

bool engine_measure(struct engine *e, struct device_speed *out, struct error *err) {
    return device_measure(e->dev, out, err);
}
