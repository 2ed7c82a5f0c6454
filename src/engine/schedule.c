// Requests, and the steps that move them on together.
#include <math.h>
#include <stdlib.h>
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

void task_free(struct task *t) {
    if (!t) return;
    sampler_close(t->sampler);
    free(t->ids);
    free(t->stop);
    free(t);
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
    for (size_t i = 0; i < r->n; i++)
        if (r->prompt[i] < 0 || r->prompt[i] >= e->info.vocab)
            return fail(err, "token %zu of the prompt is %d; the vocabulary has ids 0 to %lld", i,
                        r->prompt[i], (long long)e->info.vocab - 1);
    return sampling_check(&r->sampling, err);
}

// Rows of logits that a step can give once a prompt of n tokens wants all of its own.
static int64_t logits_rows(const struct engine *e, size_t n) {
    size_t chunk = (size_t)e->opt.chunk, batch = (size_t)e->opt.batch;
    size_t rows = (size_t)e->opt.sequences + (n < chunk ? n : chunk);
    for (size_t i = 0; i < e->tasks; i++)
        if (e->task[i]->prompt_logits)
            rows += e->task[i]->prompt < chunk ? e->task[i]->prompt : chunk;
    return (int64_t)(rows < batch ? rows : batch);
}

int64_t engine_submit(struct engine *e, const struct request *r, struct error *err) {
    if (!check_request(e, r, err)) return 0;
    if (r->prompt_logits && !engine_fit(e, logits_rows(e, r->n), err)) return 0;
    struct task *t = mem_alloc(sizeof *t);
    size_t room = (size_t)e->info.context - r->n;
    bool all = r->max_new < 0 || (size_t)r->max_new > room;
    *t = (struct task){.number = ++e->last_number,
                       .n = r->n,
                       .prompt = r->n,
                       .end = r->n + (all ? room : (size_t)r->max_new),
                       .at_end = all ? FINISH_CONTEXT : FINISH_LENGTH,
                       .stops = r->stop_count,
                       .prompt_logits = r->prompt_logits,
                       .seq = -1};
    t->ids = mem_grow(NULL, &t->cap, r->n, sizeof *t->ids);
    memcpy(t->ids, r->prompt, r->n * sizeof *t->ids);
    t->stop = mem_array(r->stop_count, sizeof *t->stop);
    if (r->stop_count) memcpy(t->stop, r->stop_ids, r->stop_count * sizeof *t->stop);
    t->sampler = sampler_open(&r->sampling, e->info.vocab);
    e->task = mem_grow(e->task, &e->task_cap, e->tasks + 1, sizeof *e->task);
    e->task[e->tasks++] = t;
    return t->number;
}

static void report(struct engine *e, const struct task *t, int32_t id, enum finish finish) {
    if (e->event_at == e->events) e->event_at = e->events = 0;
    e->event = mem_grow(e->event, &e->event_cap, e->events + 1, sizeof *e->event);
    e->event[e->events++] = (struct event){t->number, id, finish};
}

bool engine_event(struct engine *e, struct event *out) {
    if (e->event_at == e->events) return false;
    *out = e->event[e->event_at++];
    return true;
}

bool engine_busy(const struct engine *e) { return e->tasks > 0 || e->event_at < e->events; }

static void remove_task(struct engine *e, size_t at) {
    struct task *t = e->task[at];
    if (t->seq >= 0) {
        state_release(&e->state, t->seq);
        e->seq_used[t->seq] = false;
    }
    task_free(t);
    memmove(e->task + at, e->task + at + 1, (--e->tasks - at) * sizeof *e->task);
}

void engine_cancel(struct engine *e, int64_t request) {
    for (size_t i = 0; i < e->tasks; i++) {
        if (e->task[i]->number != request) continue;
        report(e, e->task[i], -1, FINISH_CANCELLED);
        remove_task(e, i);
        return;
    }
}

static int64_t free_seq(const struct engine *e) {
    for (int64_t s = 0; s < e->opt.sequences; s++)
        if (!e->seq_used[s]) return s;
    return -1;
}

// In the order they came: one that does not fit yet is not overtaken.
static void admit(struct engine *e) {
    for (size_t i = 0; i < e->tasks; i++) {
        struct task *t = e->task[i];
        if (t->seq >= 0) continue;
        int64_t seq = free_seq(e);
        if (seq < 0 || !state_reserve(&e->state, seq, (int64_t)t->end)) return;
        t->seq = seq;
        e->seq_used[seq] = true;
    }
}

// Whether the logits of row `at` of the task are used: for the caller, or for the next token.
static bool row_wanted(const struct task *t, size_t at) {
    return (t->prompt_logits && at < t->prompt) || (at + 1 == t->n && t->n < t->end);
}

static void add_rows(struct engine *e, const struct task *t, size_t count) {
    struct inputs *in = &e->in;
    in->run[in->runs++] = (int32_t)in->n;
    for (size_t at = t->done; at < t->done + count; at++, in->n++) {
        in->ids[in->n] = t->ids[at];
        in->pos[in->n] = in->index[in->n] = (int32_t)at;
        in->seq[in->n] = (int32_t)t->seq;
        in->length[in->n] = (int32_t)t->n;
        if (row_wanted(t, at)) in->want[in->wanted++] = (int32_t)in->n;
    }
    state_advance(&e->state, t->seq, (int64_t)t->done, (int64_t)(t->done + count));
}

// Rows of the task in this step: all that is not computed yet, as far as the budget goes.
static size_t share(const struct engine *e, const struct task *t) {
    size_t left = (size_t)(e->opt.batch - e->in.n), chunk = (size_t)e->opt.chunk;
    size_t todo = t->seq < 0 ? 0 : t->n - t->done;
    if (todo > chunk) todo = chunk;
    return todo < left ? todo : left;
}

// Decode rows first, so that a long prompt does not hold up those who are being answered; then
// chunks of prompts.
static void gather(struct engine *e) {
    e->in.n = e->in.runs = e->in.wanted = 0;
    e->turns = 0;
    e->turn = mem_grow(e->turn, &e->turn_cap, e->tasks, sizeof *e->turn);
    for (int prompts = 0; prompts <= 1; prompts++) {
        for (size_t i = 0; i < e->tasks; i++) {
            struct task *t = e->task[i];
            size_t rows = (t->done < t->prompt) == prompts ? share(e, t) : 0;
            if (!rows) continue;
            e->turn[e->turns++] = (struct turn){t, rows, prompts};
            add_rows(e, t, rows);
        }
    }
    e->in.run[e->in.runs] = (int32_t)e->in.n;
}

static bool forward(struct engine *e, struct error *err) {
    struct inputs *in = &e->in;
    const int32_t *host[] = {in->ids, in->pos, in->index, in->seq, in->length};
    struct tensor *device[] = {&in->rows.ids, &in->rows.pos, &in->rows.index, &in->rows.seq,
                               &in->rows.length};
    struct rows rows = {.n = in->n, .runs = in->runs};
    struct tensor *view[] = {&rows.ids, &rows.pos, &rows.index, &rows.seq, &rows.length};
    for (size_t i = 0; i < sizeof host / sizeof *host; i++) {
        device_upload(e->dev, device[i]->data, host[i], (size_t)in->n * sizeof(int32_t));
        *view[i] = tensor_slice(*device[i], 0, 0, in->n);
    }
    rows.run = tensor_slice(in->rows.run, 0, 0, in->runs + 1);
    device_upload(e->dev, rows.run.data, in->run, (size_t)(in->runs + 1) * sizeof(int32_t));
    device_upload(e->dev, in->rows_wanted.data, in->want, (size_t)in->wanted * sizeof(int32_t));
    state_upload(&e->state);
    struct context *c = &e->ctx;
    size_t mark = scratch_mark(c);
    struct tensor wanted = tensor_slice(in->rows_wanted, 0, 0, in->wanted);
    struct tensor logits = decoder_forward(c, e->decoder, &rows, e->state.layer, wanted);
    read_f32(c, logits, e->logits);
    scratch_release(c, mark);
    return !c->err.set || fail(err, "a step failed: %s", c->err.text);
}

static bool is_stop(const struct task *t, int32_t id) {
    for (size_t i = 0; i < t->stops; i++)
        if (t->stop[i] == id) return true;
    return false;
}

// Damaged weights make NaN of everything, which would else look like an odd answer.
static void check_numbers(struct engine *e, const float *logits) {
    if (e->nan_told || !isnan(logits[0])) return;
    log_say(LOG_WARN, "the model's logits are NaN: its weights are damaged, or overflow "
                      "(try --precision f32)");
    e->nan_told = true;
}

static void next_token(struct engine *e, struct task *t, float *logits) {
    check_numbers(e, logits);
    int32_t id = sampler_next(t->sampler, logits, t->ids, t->n);
    t->ids = mem_grow(t->ids, &t->cap, t->n + 1, sizeof *t->ids);
    t->ids[t->n++] = id;
    enum finish f = is_stop(t, id) ? FINISH_STOP : t->n == t->end ? t->at_end : FINISH_NOT;
    report(e, t, id, f);
    t->over = f != FINISH_NOT;
}

// Takes a turn's rows of logits, the first of which is *logits, and its next token from the last.
static void take(struct engine *e, const struct turn *turn, float **logits) {
    struct task *t = turn->task;
    size_t vocab = (size_t)e->info.vocab, from = t->done, to = from + turn->rows, n = t->n;
    t->done = to;
    for (size_t row = from; row < to; row++) {
        bool last = row + 1 == n && n < t->end;
        bool prompt = t->prompt_logits && row < t->prompt;
        if (prompt) memcpy(t->prompt_logits + row * vocab, *logits, vocab * sizeof **logits);
        if (last) next_token(e, t, *logits);
        if (last || prompt) *logits += vocab;
    }
    if (to < n || n < t->end) return;
    report(e, t, -1, FINISH_LENGTH); // only the prompt was asked for
    t->over = true;
}

static void account(struct engine *e, double seconds) {
    int64_t prompt = 0, decode = 0;
    for (size_t i = 0; i < e->turns; i++)
        *(e->turn[i].prompt ? &prompt : &decode) += (int64_t)e->turn[i].rows;
    *(prompt ? &e->stats.prompt_seconds : &e->stats.decode_seconds) += seconds;
    e->stats.prompt_tokens += prompt;
    e->stats.decode_tokens += decode;
    e->stats.steps++;
}

bool engine_step(struct engine *e, struct error *err) {
    double began = clock_now();
    admit(e);
    gather(e);
    if (!e->turns) return true;
    if (!forward(e, err)) return false;
    float *logits = e->logits;
    for (size_t i = 0; i < e->turns; i++) take(e, &e->turn[i], &logits);
    account(e, clock_now() - began);
    for (size_t i = e->tasks; i-- > 0;)
        if (e->task[i]->over) remove_task(e, i);
    return true;
}
