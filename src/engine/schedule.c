#include "engine/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { P = PAGE_TOKENS };

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

void sched_open(struct schedule *s, const struct limits *l, struct state *state) {
    size_t rows = (size_t)l->batch;
    *s = (struct schedule){.limits = *l, .state = state, .seed = digest_seed()};
    s->seq_used = mem_array((size_t)l->sequences, sizeof *s->seq_used);
    s->rows.ids = mem_array(rows, sizeof *s->rows.ids);
    s->rows.index = mem_array(rows, sizeof *s->rows.index);
    s->rows.seq = mem_array(rows, sizeof *s->rows.seq);
    s->rows.length = mem_array(rows, sizeof *s->rows.length);
    s->rows.want = mem_array(rows, sizeof *s->rows.want);
    s->rows.run = mem_array(rows + 1, sizeof *s->rows.run);
}

static void task_free(struct task *t) {
    sampler_close(t->sampler);
    free(t->ids);
    free(t->stop);
    free(t->chain);
    free(t->draft);
    free(t);
}

void sched_close(struct schedule *s) {
    for (size_t i = 0; i < s->tasks; i++) task_free(s->task[i]);
    free(s->task);
    free(s->turn);
    free(s->event);
    free(s->chance);
    free(s->seq_used);
    free(s->rows.ids);
    free(s->rows.index);
    free(s->rows.seq);
    free(s->rows.length);
    free(s->rows.want);
    free(s->rows.run);
    *s = (struct schedule){0};
}

// --- requests ------------------------------------------------------------------------------------

// What a state holds of a request depends on which side of the short context its length is. True
// when it has just grown beyond.
static bool outgrows(const struct schedule *s, struct task *t) {
    static const int32_t grown = 1;
    if (t->grown || !s->limits.short_context || (int64_t)t->n <= s->limits.short_context)
        return false;
    t->grown = true;
    t->links = 0;
    t->before = digest_next(t->before, &grown, 1);
    return true;
}

static int64_t add_task(struct schedule *s, struct task task) {
    struct task *t = mem_alloc(sizeof *t);
    *t = task;
    outgrows(s, t);
    t->number = ++s->last_number;
    t->order = t->number + ENGINE_OVERTAKES * t->priority;
    t->seq = -1;
    t->draft = mem_array((size_t)s->limits.drafts, sizeof *t->draft);
    s->task = mem_grow(s->task, &s->task_cap, s->tasks + 1, sizeof *s->task);
    size_t at = s->tasks++;
    for (; at && s->task[at - 1]->order > t->order; at--) s->task[at] = s->task[at - 1];
    s->task[at] = t;
    return t->number;
}

static void copy_ids(struct task *t, const int32_t *ids, const int32_t *stop) {
    t->ids = mem_grow(NULL, &t->cap, t->n, sizeof *t->ids);
    memcpy(t->ids, ids, t->n * sizeof *t->ids);
    t->stop = mem_array(t->stops, sizeof *t->stop);
    if (t->stops) memcpy(t->stop, stop, t->stops * sizeof *t->stop);
}

int64_t sched_submit(struct schedule *s, const struct request *r, struct sampler *sampler) {
    size_t room = (size_t)s->limits.context - r->n;
    bool all = r->max_new < 0 || (size_t)r->max_new > room;
    int32_t salt[2] = {(int32_t)r->salt, (int32_t)(r->salt >> 32)};
    struct task t = {
        .n = r->n,
        .prompt = r->n,
        .end = r->n + (all ? room : (size_t)r->max_new),
        .at_end = all ? FINISH_CONTEXT : FINISH_LENGTH,
        .stops = r->stop_count,
        .sampler = sampler,
        .loop = r->loop,
        .chances = r->chances,
        .tops = r->tops,
        .prompt_logits = r->prompt_logits,
        .uncached = r->uncached,
        .common = r->common / P * P,
        .priority = r->priority,
        .before = digest_next(s->seed, salt, 2),
    };
    copy_ids(&t, r->prompt, r->stop_ids);
    return add_task(s, t);
}

int64_t sched_fork(struct schedule *s, const struct task *from, struct sampler *sampler) {
    struct task t = {
        .n = from->n,
        .prompt = from->prompt,
        .end = from->end,
        .at_end = from->at_end,
        .stops = from->stops,
        .sampler = sampler,
        .loop = from->loop,
        .chances = from->chances,
        .tops = from->tops,
        .uncached = from->uncached,
        .priority = from->priority,
        .before = from->before,
        .grown = from->grown,
        .origin = from->number,
    };
    copy_ids(&t, from->ids, from->stop);
    return add_task(s, t);
}

static void report(struct schedule *s, const struct task *t, int32_t id, enum finish finish) {
    if (s->event_at == s->events) s->event_at = s->events = s->chance_at = s->chances = 0;
    s->event = mem_grow(s->event, &s->event_cap, s->events + 1, sizeof *s->event);
    s->event[s->events++] = (struct event){
        .request = t->number, .place = t->seq, .id = id, .finish = finish, .cached = t->cached};
}

bool sched_event(struct schedule *s, struct event *out) {
    if (s->event_at == s->events) return false;
    *out = s->event[s->event_at++];
    if (out->tops) out->top = s->chance + s->chance_at;
    s->chance_at += out->tops;
    return true;
}

bool sched_busy(const struct schedule *s) { return s->tasks > 0 || s->event_at < s->events; }

// Takes a task's place and pages from it.
static void leave(struct schedule *s, struct task *t) {
    if (t->seq < 0) return;
    state_release(s->state, t->seq);
    s->seq_used[t->seq] = false;
    t->seq = -1;
    t->done = t->rows = t->tries = 0;
}

static void remove_task(struct schedule *s, size_t at) {
    leave(s, s->task[at]);
    task_free(s->task[at]);
    memmove(s->task + at, s->task + at + 1, (--s->tasks - at) * sizeof *s->task);
}

void sched_cancel(struct schedule *s, int64_t request) {
    for (size_t i = 0; i < s->tasks; i++) {
        if (s->task[i]->number != request) continue;
        report(s, s->task[i], -1, FINISH_CANCELLED);
        remove_task(s, i);
        return;
    }
}

struct task *sched_task(const struct schedule *s, int64_t request) {
    for (size_t i = 0; i < s->tasks; i++)
        if (s->task[i]->number == request) return s->task[i];
    return NULL;
}

void sched_draft(struct schedule *s, struct task *t, const int32_t *ids, size_t n) {
    t->drafts = least(n, (size_t)s->limits.drafts);
    if (t->drafts) memcpy(t->draft, ids, t->drafts * sizeof *ids);
}

// --- admission -----------------------------------------------------------------------------------

// Names of the pages that the first `tokens` tokens fill.
static const struct digest *chain_to(struct task *t, size_t tokens) {
    t->chain = mem_grow(t->chain, &t->link_cap, tokens / P, sizeof *t->chain);
    for (; t->links < tokens / P; t->links++)
        t->chain[t->links] =
            digest_next(t->links ? t->chain[t->links - 1] : t->before, t->ids + t->links * P, P);
    return t->chain;
}

// A fork waits for what it shares with its origin.
static bool waits_for_origin(const struct schedule *s, const struct task *t) {
    const struct task *origin = t->origin && !t->uncached ? sched_task(s, t->origin) : NULL;
    return origin && origin->done < (t->n - 1) / P * P;
}

// Gives the task a place, and what there is of its beginning. At least one token is left to
// compute, and the rows whose logits are asked for.
static bool begin(struct schedule *s, struct task *t, int64_t seq) {
    size_t most = t->logits_done < t->prompt && t->prompt_logits ? t->logits_done : t->n - 1;
    if (t->uncached) most = 0;
    int64_t known;
    int64_t found =
        state_begin(s->state, seq, chain_to(t, most), (int64_t)(most / P), (int64_t)t->n, &known);
    if (found < 0) return false;
    t->done = (size_t)found;
    t->known = (size_t)known;
    t->seq = seq;
    s->seq_used[seq] = true;
    if (t->begun) return true;
    t->begun = true;
    t->cached = (int64_t)least((size_t)found, t->prompt);
    s->cached += found;
    return true;
}

static int64_t free_seq(const struct schedule *s) {
    for (int64_t i = 0; i < s->limits.sequences; i++)
        if (!s->seq_used[i]) return i;
    return -1;
}

// The last of those behind task i gives up its place.
static bool preempt(struct schedule *s, size_t i) {
    for (size_t j = s->tasks; --j > i;) {
        if (s->task[j]->seq < 0) continue;
        leave(s, s->task[j]);
        s->preempted++;
        return true;
    }
    return false;
}

static bool find_place(struct schedule *s, struct task *t) {
    int64_t seq = free_seq(s);
    return seq >= 0 && begin(s, t, seq);
}

// In their order: one that does not fit yet is not overtaken by those behind it. The first of all,
// and one that is to begin anew, need not wait for those.
static void admit(struct schedule *s) {
    for (size_t i = 0; i < s->tasks; i++) {
        struct task *t = s->task[i];
        if (t->seq >= 0 || waits_for_origin(s, t)) continue;
        while (!find_place(s, t))
            if ((i && !t->begun) || !preempt(s, i)) return;
    }
}

// --- a step's rows -------------------------------------------------------------------------------

// Fixed state can be kept only as it is between steps, so rows end at a page's end where it may be
// of use: where the prompt's last page ends, where others left the same beginning or are expected
// to part from it, and else where a chunk ends anyway.
static size_t cut(const struct schedule *s, const struct task *t, size_t rows) {
    if (!s->state->fixed_width || t->uncached) return rows;
    size_t end = t->done + rows, last = (t->n - 1) / P * P;
    if (end < t->n && end / P * P > t->done) end = end / P * P;
    if (t->done < last && last < end) end = last;
    if (t->done < t->known && t->known < end) end = t->known;
    if (t->done < t->common && t->common < end) end = t->common;
    return end - t->done;
}

// The task's rows, of at most `left`: all that is not computed yet, as far as chunk and budget go,
// and after those its drafted tokens but for the last that it may have.
static void share(const struct schedule *s, struct task *t, size_t left) {
    size_t most = least((size_t)s->limits.chunk, left), todo = t->n - t->done;
    t->rows = cut(s, t, least(todo, most));
    t->tries = 0;
    if (t->rows < todo || t->n >= t->end) return;
    size_t end = t->grown || !s->limits.short_context
                     ? t->end
                     : least(t->end, (size_t)s->limits.short_context + 1);
    t->tries = least(t->drafts, least(most - t->rows, end - t->n - 1));
    t->rows += t->tries;
}

static bool in_prompt(const struct schedule *s, const struct task *t) {
    return t->done < t->prompt || t->n - t->done > 1 + (size_t)s->limits.drafts;
}

// Rows that are being answered first, so that a long prompt does not hold them up.
static void share_out(struct schedule *s) {
    size_t left = (size_t)s->limits.batch;
    for (int prompts = 0; prompts <= 1; prompts++) {
        for (size_t i = 0; i < s->tasks; i++) {
            struct task *t = s->task[i];
            if (in_prompt(s, t) != prompts) continue;
            t->rows = t->tries = 0;
            if (t->seq >= 0) share(s, t, left);
            left -= t->rows;
        }
    }
}

static bool get_pages(struct schedule *s, size_t i) {
    struct task *t = s->task[i];
    while (!state_advance(s->state, t->seq, (int64_t)t->done, (int64_t)(t->done + t->rows))) {
        if (!t->tries && !preempt(s, i)) return false;
        t->rows -= t->tries;
        t->tries = 0;
    }
    return true;
}

// Whether the logits of row `at` of the task are used: for the caller, or for the next token.
static bool row_wanted(const struct task *t, size_t at) {
    bool prompt = t->prompt_logits && at >= t->logits_done && at < t->prompt;
    return prompt || (at + 1 >= t->n && t->n < t->end);
}

static void add_rows(struct schedule *s, const struct task *t) {
    struct step_rows *r = &s->rows;
    r->run[r->runs++] = (int32_t)r->n;
    for (size_t at = t->done; at < t->done + t->rows; at++, r->n++) {
        r->ids[r->n] = at < t->n ? t->ids[at] : t->draft[at - t->n];
        r->index[r->n] = (int32_t)at;
        r->seq[r->n] = (int32_t)t->seq;
        r->length[r->n] = (int32_t)(at < t->n ? t->n : at + 1);
        if (row_wanted(t, at)) r->want[r->wanted++] = (int32_t)r->n;
    }
    r->run[r->runs] = (int32_t)r->n;
}

static void add_turn(struct schedule *s, struct task *t) {
    struct turn turn = {.task = t, .from = t->done, .prompt = in_prompt(s, t), .held = -1};
    if (t->tries && s->state->fixed_width && (turn.held = state_hold(s->state, t->seq)) < 0) {
        t->rows -= t->tries; // no drafted row without a way back
        t->tries = 0;
        state_truncate(s->state, t->seq, (int64_t)(t->done + t->rows));
    }
    turn.rows = t->rows;
    turn.drafts = t->tries;
    s->turn[s->turns++] = turn;
    add_rows(s, t);
}

bool sched_plan(struct schedule *s) {
    admit(s);
    share_out(s);
    for (size_t i = 0; i < s->tasks; i++)
        if (s->task[i]->rows && !get_pages(s, i)) s->task[i]->rows = 0;
    s->rows.n = s->rows.runs = s->rows.wanted = 0;
    s->turns = 0;
    s->turn = mem_grow(s->turn, &s->turn_cap, s->tasks, sizeof *s->turn);
    for (int prompts = 0; prompts <= 1; prompts++)
        for (size_t i = 0; i < s->tasks; i++)
            if (s->task[i]->rows && in_prompt(s, s->task[i]) == prompts) add_turn(s, s->task[i]);
    return s->turns > 0;
}

// --- what came of it -----------------------------------------------------------------------------

static bool is_stop(const struct task *t, int32_t id) {
    for (size_t i = 0; i < t->stops; i++)
        if (t->stop[i] == id) return true;
    return false;
}

// Why the task ends with the token that it just got.
static enum finish ends(const struct task *t, int32_t id) {
    if (is_stop(t, id)) return FINISH_STOP;
    if (loop_ends(&t->loop, t->ids + t->prompt, t->n - t->prompt)) return FINISH_LOOP;
    return t->n == t->end ? t->at_end : FINISH_NOT;
}

bool sched_token(struct schedule *s, struct turn *turn, int32_t id) {
    struct task *t = turn->task;
    t->ids = mem_grow(t->ids, &t->cap, t->n + 1, sizeof *t->ids);
    t->ids[t->n++] = id;
    enum finish f = ends(t, id);
    report(s, t, id, f);
    t->over = f != FINISH_NOT;
    bool stands = turn->accepted < turn->drafts && t->draft[turn->accepted] == id;
    turn->accepted += stands;
    if (stands && !t->over) return true;
    t->drafts = 0;
    return false;
}

void sched_chances(struct schedule *s, float own, const struct chance *top, size_t n) {
    struct event *event = &s->event[s->events - 1];
    event->chance = own;
    event->tops = n;
    s->chance = mem_grow(s->chance, &s->chance_cap, s->chances + n, sizeof *s->chance);
    if (n) memcpy(s->chance + s->chances, top, n * sizeof *top);
    s->chances += n;
}

// Takes drafted rows back that do not stand. Fixed state goes back to before the step.
static void roll_back(struct schedule *s, struct turn *turn) {
    struct task *t = turn->task;
    bool back = turn->accepted < turn->drafts;
    if (turn->held >= 0) state_unhold(s->state, t->seq, turn->held, back);
    if (!back) return;
    t->done -= turn->held >= 0 ? t->done - turn->from : turn->drafts - turn->accepted;
    state_truncate(s->state, t->seq, (int64_t)t->done);
}

// Leaves what was computed for others to find.
static void keep(struct schedule *s, struct task *t, size_t from) {
    if (t->uncached) return;
    const struct digest *chain = chain_to(t, t->done);
    state_name(s->state, t->seq, chain, (int64_t)from, (int64_t)t->done);
    if (!s->state->fixed_width || t->done % P || t->done <= from) return;
    bool passing =
        t->done != t->known && t->done != t->common && t->done != (t->prompt - 1) / P * P;
    state_save(s->state, t->seq, chain[t->done / P - 1], passing);
}

static void end_turn(struct schedule *s, struct turn *turn) {
    struct task *t = turn->task;
    t->done = turn->from + turn->rows;
    roll_back(s, turn);
    keep(s, t, turn->from);
    size_t in_prompt = least(t->done, t->prompt);
    if (t->logits_done < in_prompt) t->logits_done = in_prompt;
    if (t->done >= t->n && t->n >= t->end) {
        report(s, t, -1, FINISH_LENGTH); // only the prompt was asked for
        t->over = true;
    }
    if (!t->over && outgrows(s, t)) leave(s, t);
}

void sched_finish(struct schedule *s) {
    for (size_t i = 0; i < s->turns; i++) end_turn(s, &s->turn[i]);
    s->turns = 0;
    for (size_t i = s->tasks; i-- > 0;)
        if (s->task[i]->over) remove_task(s, i);
}
