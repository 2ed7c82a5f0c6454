// Requests are checked, and steps computed.
#include <string.h>

#include "base/clock.h"
#include "engine/parts.h"

const char *finish_name(enum finish f) {
    switch (f) {
    case FINISH_NOT: return "";
    case FINISH_STOP:
    case FINISH_LOOP: return "stop";
    case FINISH_LENGTH:
    case FINISH_CONTEXT: return "length";
    case FINISH_CANCELLED: return "cancelled";
    }
    return "";
}

static bool check_ids(const struct engine *e, const int32_t *ids, size_t n, const char *what,
                      struct error *err) {
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= e->info.vocab)
            return fail(err, "token %zu of the %s is %d; the vocabulary has ids 0 to %lld", i, what,
                        ids[i], (long long)e->info.vocab - 1);
    return true;
}

static bool check_request(const struct engine *e, const struct request *r, struct error *err) {
    int64_t context = e->info.context;
    if (e->opt.dry) return fail(err, "the engine was opened dry: it has loaded no model");
    if (!r->n) return fail(err, "the prompt is empty");
    if (r->n > (size_t)context)
        return fail(err, "the prompt has %zu tokens; the context holds %lld (--ctx-size)", r->n,
                    (long long)context);
    if (r->max_new && r->n == (size_t)context)
        return fail(err, "the prompt fills the context of %lld tokens (--ctx-size)",
                    (long long)context);
    if (r->priority < -ENGINE_PRIORITY_MOST || r->priority > ENGINE_PRIORITY_MOST)
        return fail(err, "the priority is %lld; it may be from %d to %d", (long long)r->priority,
                    -ENGINE_PRIORITY_MOST, ENGINE_PRIORITY_MOST);
    if (r->loop.most && !loop_check(&r->loop, err)) return false;
    return check_ids(e, r->prompt, r->n, "prompt", err) && sampling_check(&r->sampling, err);
}

// Rows of logits that a step can give once a prompt of n tokens wants all of its own.
static int64_t logits_rows(const struct engine *e, size_t n) {
    size_t chunk = (size_t)e->sched.limits.chunk, batch = (size_t)e->opt.batch;
    size_t rows = (size_t)(e->opt.sequences * (1 + e->opt.drafts)) + (n < chunk ? n : chunk);
    for (size_t i = 0; i < e->sched.tasks; i++) {
        const struct task *t = e->sched.task[i];
        if (t->prompt_logits) rows += t->prompt < chunk ? t->prompt : chunk;
    }
    return (int64_t)(rows < batch ? rows : batch);
}

int64_t engine_submit(struct engine *e, const struct request *r, struct error *err) {
    if (!check_request(e, r, err)) return 0;
    if (r->prompt_logits && !engine_fit(e, logits_rows(e, r->n), err)) return 0;
    return sched_submit(&e->sched, r, sampler_open(&r->sampling, e->info.vocab));
}

int64_t engine_fork(struct engine *e, int64_t request, const struct sampling *s,
                    struct error *err) {
    const struct task *t = sched_task(&e->sched, request);
    if (!t) {
        fail(err, "request %lld is over: there is nothing to fork", (long long)request);
        return 0;
    }
    if (!sampling_check(s, err)) return 0;
    struct sampler *sampler = sampler_open(s, e->info.vocab);
    if (t->sampler) sampler_go_on(sampler, t->sampler);
    return sched_fork(&e->sched, t, sampler);
}

bool engine_draft(struct engine *e, int64_t request, const int32_t *ids, size_t n,
                  struct error *err) {
    struct task *t = sched_task(&e->sched, request);
    if (!check_ids(e, ids, n, "draft", err)) return false;
    if (t) sched_draft(&e->sched, t, ids, n);
    return true;
}

void engine_cancel(struct engine *e, int64_t request) { sched_cancel(&e->sched, request); }
bool engine_busy(const struct engine *e) { return sched_busy(&e->sched); }
bool engine_event(struct engine *e, struct event *out) { return sched_event(&e->sched, out); }

bool engine_progress(const struct engine *e, int64_t request, struct progress *out) {
    const struct task *t = sched_task(&e->sched, request);
    if (t) *out = (struct progress){t->seq, t->done, (size_t)t->cached};
    return t != NULL;
}

struct engine_stats engine_stats(const struct engine *e) {
    struct engine_stats s = e->stats;
    s.cached_tokens = e->sched.cached;
    s.preempted = e->sched.preempted;
    state_pages(&e->state, &s.pages, &s.pages_used);
    return s;
}

// Puts a list at *at of what goes to the device. Where it is depends on the lists' lengths alone.
static struct tensor stage(struct engine *e, int64_t *at, enum dtype type, const void *list,
                           int64_t n) {
    struct tensor t = tensor_slice(e->inputs, 0, *at, n);
    memcpy(e->staged + *at, list, (size_t)n * sizeof *e->staged);
    *at += (n + STEP_ALIGN - 1) / STEP_ALIGN * STEP_ALIGN;
    t.type = type;
    return t;
}

struct step_input {
    struct rows rows;
    struct tensor wanted, cooling;
};

static struct step_input upload(struct engine *e) {
    const struct step_rows *host = &e->sched.rows;
    struct step_input in = {.rows = {.n = host->n, .runs = host->runs}};
    struct rows *rows = &in.rows;
    int64_t at = 0;
    rows->ids = stage(e, &at, DT_I32, host->ids, host->n);
    rows->index = stage(e, &at, DT_I32, host->index, host->n);
    rows->pos = rows->index;
    rows->seq = stage(e, &at, DT_I32, host->seq, host->n);
    rows->length = stage(e, &at, DT_I32, host->length, host->n);
    rows->run = stage(e, &at, DT_I32, host->run, host->runs + 1);
    in.wanted = stage(e, &at, DT_I32, host->want, host->wanted);
    if (e->choices.back == BACK_BEST)
        in.cooling = stage(e, &at, DT_F32, e->choices.cooling, host->wanted);
    device_upload(e->dev, e->inputs.data, e->staged, (size_t)at * sizeof *e->staged);
    state_upload(&e->state);
    return in;
}

static void compute(struct engine *e, const struct step_input *in) {
    struct context *c = &e->ctx;
    size_t mark = scratch_mark(c);
    e->choices.logits = decoder_forward(c, e->decoder, &in->rows, e->state.layer, in->wanted);
    choices_compute(&e->choices, c, in->cooling);
    scratch_release(c, mark);
}

// A step of one row of each of n sequences, of which something comes back: all that differs from
// one to the next is in the lists and page tables.
static void compute_steady(struct engine *e, const struct step_input *in) {
    struct context *c = &e->ctx;
    int64_t n = in->rows.n;
    int back = e->choices.back;
    struct tensor *logits = &e->steady[back][n];
    bool record = logits->dims > 0;
    e->choices.logits = *logits;
    if (step_replay(c, n, back)) return;
    if (record) step_record(c, n);
    compute(e, in);
    if (record && !step_recorded(c, n, back)) compute(e, in);
    *logits = e->choices.logits;
}

static bool forward(struct engine *e, struct error *err) {
    struct step_input in = upload(e);
    struct context *c = &e->ctx;
    int64_t n = in.rows.n, wanted = in.wanted.n[0];
    if (e->dev->pool) pool_use(e->dev->pool, n > 1);
    if (e->choices.back != BACK_ASKED && n <= STEADY_MOST && in.rows.runs == n && wanted == n)
        compute_steady(e, &in);
    else
        compute(e, &in);
    choices_read(&e->choices, c);
    return !c->err.set || fail(err, "a step failed: %s", c->err.text);
}

static void account(struct engine *e, double seconds) {
    int64_t prompt = 0, decode = 0;
    for (size_t i = 0; i < e->sched.turns; i++) {
        const struct turn *t = &e->sched.turn[i];
        *(t->prompt ? &prompt : &decode) += (int64_t)t->rows;
        if ((int64_t)t->task->n > e->stats.longest) e->stats.longest = (int64_t)t->task->n;
    }
    *(prompt ? &e->stats.prompt_seconds : &e->stats.decode_seconds) += seconds;
    e->stats.prompt_tokens += prompt;
    e->stats.decode_tokens += decode;
    e->stats.turns += (int64_t)e->sched.turns;
    e->stats.steps++;
}

bool engine_step(struct engine *e, struct error *err) {
    double began = clock_now();
    if (!sched_plan(&e->sched)) return true;
    size_t at = 0;
    choices_plan(&e->choices, &e->sched);
    if (!forward(e, err)) return false;
    for (size_t i = 0; i < e->sched.turns; i++) choices_take(e, &e->sched.turn[i], &at);
    if (e->ctx.err.set) return fail(err, "a step failed: %s", e->ctx.err.text);
    account(e, clock_now() - began);
    sched_finish(&e->sched);
    return true;
}
