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
    case FINISH_STOP: return "stop";
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
    return sched_fork(&e->sched, t, sampler_open(s, e->info.vocab));
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

struct engine_stats engine_stats(const struct engine *e) {
    struct engine_stats s = e->stats;
    s.cached_tokens = e->sched.cached;
    s.preempted = e->sched.preempted;
    return s;
}

static struct tensor upload(struct engine *e, struct tensor device, const int32_t *host,
                            int64_t n) {
    device_upload(e->dev, device.data, host, (size_t)n * sizeof *host);
    return tensor_slice(device, 0, 0, n);
}

static bool forward(struct engine *e, struct error *err) {
    const struct step_rows *host = &e->sched.rows;
    const struct rows *device = &e->rows;
    struct rows rows = {.n = host->n, .runs = host->runs};
    rows.ids = upload(e, device->ids, host->ids, host->n);
    rows.pos = upload(e, device->pos, host->index, host->n);
    rows.index = upload(e, device->index, host->index, host->n);
    rows.seq = upload(e, device->seq, host->seq, host->n);
    rows.length = upload(e, device->length, host->length, host->n);
    rows.run = upload(e, device->run, host->run, host->runs + 1);
    struct tensor wanted = upload(e, e->rows_wanted, host->want, host->wanted);
    state_upload(&e->state);
    struct context *c = &e->ctx;
    size_t mark = scratch_mark(c);
    struct tensor logits = decoder_forward(c, e->decoder, &rows, e->state.layer, wanted);
    read_f32(c, logits, e->logits);
    scratch_release(c, mark);
    return !c->err.set || fail(err, "a step failed: %s", c->err.text);
}

// Damaged weights make NaN of everything, which would else look like an odd answer.
static void check_numbers(struct engine *e, const float *logits) {
    if (e->nan_told || !isnan(logits[0])) return;
    log_say(LOG_WARN, "the model's logits are NaN: its weights are damaged, or overflow "
                      "(try --precision f32)");
    e->nan_told = true;
}

// Takes a turn's rows of logits, the first of which is *logits: those that the caller asked for,
// and tokens as long as the next row is of the token chosen.
static void take(struct engine *e, struct turn *turn, float **logits) {
    struct task *t = turn->task;
    size_t vocab = (size_t)e->info.vocab, n = t->n;
    bool stands = n < t->end;
    for (size_t row = turn->from; row < turn->from + turn->rows; row++) {
        bool prompt = t->prompt_logits && row >= t->logits_done && row < t->prompt;
        bool next = row + 1 >= n && n < t->end;
        if (prompt) memcpy(t->prompt_logits + row * vocab, *logits, vocab * sizeof **logits);
        if (next && stands) {
            check_numbers(e, *logits);
            int32_t id = sampler_next(t->sampler, *logits, t->ids, t->n);
            stands = sched_token(&e->sched, turn, id);
        }
        if (prompt || next) *logits += vocab;
    }
}

static void account(struct engine *e, double seconds) {
    int64_t prompt = 0, decode = 0;
    for (size_t i = 0; i < e->sched.turns; i++) {
        const struct turn *t = &e->sched.turn[i];
        *(t->prompt ? &prompt : &decode) += (int64_t)t->rows;
    }
    *(prompt ? &e->stats.prompt_seconds : &e->stats.decode_seconds) += seconds;
    e->stats.prompt_tokens += prompt;
    e->stats.decode_tokens += decode;
    e->stats.steps++;
}

bool engine_step(struct engine *e, struct error *err) {
    double began = clock_now();
    if (!sched_plan(&e->sched)) return true;
    if (!forward(e, err)) return false;
    float *logits = e->logits;
    for (size_t i = 0; i < e->sched.turns; i++) take(e, &e->sched.turn[i], &logits);
    account(e, clock_now() - began);
    sched_finish(&e->sched);
    return true;
}
