// Requests are checked, steps computed, and tokens chosen.
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
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
static struct tensor stage(struct engine *e, int64_t *at, const int32_t *list, int64_t n) {
    struct tensor t = tensor_slice(e->inputs, 0, *at, n);
    memcpy(e->staged + *at, list, (size_t)n * sizeof *list);
    *at += (n + STEP_ALIGN - 1) / STEP_ALIGN * STEP_ALIGN;
    return t;
}

struct step_input {
    struct rows rows;
    struct tensor wanted;
};

static struct step_input upload(struct engine *e) {
    const struct step_rows *host = &e->sched.rows;
    struct step_input in = {.rows = {.n = host->n, .runs = host->runs}};
    struct rows *rows = &in.rows;
    int64_t at = 0;
    rows->ids = stage(e, &at, host->ids, host->n);
    rows->index = stage(e, &at, host->index, host->n);
    rows->pos = rows->index;
    rows->seq = stage(e, &at, host->seq, host->n);
    rows->length = stage(e, &at, host->length, host->n);
    rows->run = stage(e, &at, host->run, host->runs + 1);
    in.wanted = stage(e, &at, host->want, host->wanted);
    device_upload(e->dev, e->inputs.data, e->staged, (size_t)at * sizeof *e->staged);
    state_upload(&e->state);
    return in;
}

// Whether of every wanted row only the greatest logit matters, so that no logits need come back.
static bool all_greedy(const struct engine *e) {
    for (size_t i = 0; i < e->sched.turns; i++) {
        const struct task *t = e->sched.turn[i].task;
        if (t->prompt_logits || t->chances || !t->sampler || !sampler_greedy(t->sampler))
            return false;
    }
    return true;
}

static void compute(struct engine *e, const struct step_input *in, bool greedy) {
    struct context *c = &e->ctx;
    size_t mark = scratch_mark(c);
    struct tensor logits = decoder_forward(c, e->decoder, &in->rows, e->state.layer, in->wanted);
    if (greedy)
        argmax(c, tensor_slice(e->chosen, 0, 0, in->wanted.n[0]), logits);
    else
        read_f32(c, logits, e->logits);
    scratch_release(c, mark);
}

// A step of one greedy row of each of n sequences: all that differs from one to the next is in the
// lists and page tables.
static void compute_steady(struct engine *e, const struct step_input *in) {
    struct context *c = &e->ctx;
    int64_t n = in->rows.n;
    if (step_replay(c, n)) return;
    bool record = e->met[n];
    if (record) step_record(c, n);
    compute(e, in, true);
    if (record) step_recorded(c, n);
    e->met[n] = true;
}

static bool forward(struct engine *e, bool greedy, struct error *err) {
    struct step_input in = upload(e);
    struct context *c = &e->ctx;
    int64_t n = in.rows.n, wanted = in.wanted.n[0];
    if (e->dev->pool) pool_use(e->dev->pool, n > 1);
    if (greedy && n <= STEADY_MOST && in.rows.runs == n && wanted == n)
        compute_steady(e, &in);
    else
        compute(e, &in, greedy);
    if (greedy) read_i32(c, tensor_slice(e->chosen, 0, 0, wanted), e->choice);
    return !c->err.set || fail(err, "a step failed: %s", c->err.text);
}

// Damaged weights make NaN of everything, which would else look like an odd answer.
static void check_numbers(struct engine *e, bool bad) {
    if (e->nan_told || !bad) return;
    struct error why = {0};
    weights_check_scales(e->weights, true, &why);
    log_say(LOG_WARN, "the model's logits are NaN: %s",
            why.set ? why.text : "its weights are damaged, or overflow (try --precision f32)");
    e->nan_told = true;
}

// A grammar that the vocabulary can't go on with ends the answer, as unfinished.
static int32_t give_up(struct task *t, int32_t id) {
    log_say(LOG_WARN, "an answer ends early: no token goes on with what its grammar asks for");
    t->end = t->n + 1;
    t->at_end = FINISH_LENGTH;
    if (t->stops) id = t->stop[0];
    t->stops = 0;
    return id;
}

// The token after wanted row `at`.
static int32_t choose(struct engine *e, struct task *t, size_t at, bool greedy) {
    float *logits = e->logits + at * (size_t)e->info.vocab;
    int32_t id = greedy ? e->choice[at] : 0;
    check_numbers(e, greedy ? id < 0 : isnan(logits[0]));
    if (!greedy) {
        id = sampler_next(t->sampler, logits, t->ids, t->n);
        return sampler_lost(t->sampler) ? give_up(t, id) : id;
    }
    return id < 0 ? -1 - id : id;
}

// Tells of the chances in row `at`, from which token `id` was chosen.
static void tell_chances(struct engine *e, struct task *t, size_t at, int32_t id) {
    const float *logits = e->logits + at * (size_t)e->info.vocab;
    size_t most = (size_t)(t->tops < e->info.vocab ? t->tops : e->info.vocab);
    e->top = mem_grow(e->top, &e->top_cap, most, sizeof *e->top);
    if (t->chances == CHANCES_DRAWN) {
        size_t n = sampler_chances(t->sampler, e->top, most);
        sched_chances(&e->sched, sampler_chance(t->sampler, id), e->top, n);
        return;
    }
    double sum;
    size_t n = logits_top(logits, e->info.vocab, e->top, most, &sum);
    sched_chances(&e->sched, (float)(logits[id] - sum), e->top, n);
}

// Takes a turn's wanted rows, the first of which is *at: logits that the caller asked for, and
// tokens as long as the next row is of the token chosen.
static void take(struct engine *e, struct turn *turn, size_t *at, bool greedy) {
    struct task *t = turn->task;
    size_t vocab = (size_t)e->info.vocab, n = t->n;
    bool stands = n < t->end;
    for (size_t row = turn->from; row < turn->from + turn->rows; row++) {
        bool prompt = t->prompt_logits && row >= t->logits_done && row < t->prompt;
        bool next = row + 1 >= n && n < t->end;
        if (prompt)
            memcpy(t->prompt_logits + row * vocab, e->logits + *at * vocab,
                   vocab * sizeof *e->logits);
        if (next && stands) {
            int32_t id = choose(e, t, *at, greedy);
            stands = sched_token(&e->sched, turn, id);
            if (t->chances) tell_chances(e, t, *at, id);
        }
        if (prompt || next) ++*at;
    }
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
    bool greedy = all_greedy(e);
    size_t at = 0;
    if (!forward(e, greedy, err)) return false;
    for (size_t i = 0; i < e->sched.turns; i++) take(e, &e->sched.turn[i], &at, greedy);
    account(e, clock_now() - began);
    sched_finish(&e->sched);
    return true;
}
