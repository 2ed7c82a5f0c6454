// What comes back of a step's logits, and the tokens that are chosen from it: where the greatest
// is, or the best with sums over the others. Whole rows come only where these don't tell.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "engine/parts.h"

// Of a row in `told`: logits and ids of the best, and about the others.
static size_t told_floats(const struct choices *c, int64_t rows) {
    return (size_t)(rows * (2 * c->best + 3));
}

bool choices_open(struct choices *c, struct device *d, int64_t vocab, int64_t rows,
                  struct error *err) {
    c->vocab = vocab;
    c->best = vocab < SAMPLER_BEST ? vocab : SAMPLER_BEST;
    c->told = mem_array(told_floats(c, rows), sizeof *c->told);
    c->greatest = mem_array((size_t)rows, sizeof *c->greatest);
    c->cooling = mem_array((size_t)rows, sizeof *c->cooling);
    c->id = mem_array((size_t)c->best, sizeof *c->id);
    c->row = mem_array((size_t)vocab, sizeof *c->row);
    c->on_device = device_alloc(d, told_floats(c, rows) * sizeof *c->told, "chosen tokens", err);
    return !err->set;
}

void choices_close(struct choices *c, struct device *d) {
    device_free(d, c->on_device);
    free(c->told);
    free(c->greatest);
    free(c->cooling);
    free(c->id);
    free(c->row);
    free(c->top);
}

// Rows of a turn whose logits the caller asked for, from *first on.
static size_t asked_rows(const struct turn *turn, size_t *first) {
    const struct task *t = turn->task;
    size_t to = turn->from + turn->rows < t->prompt ? turn->from + turn->rows : t->prompt;
    *first = turn->from > t->logits_done ? turn->from : t->logits_done;
    return t->prompt_logits && *first < to ? to - *first : 0;
}

void choices_plan(struct choices *c, const struct schedule *s) {
    size_t rows = 0, first;
    c->back = BACK_GREATEST;
    c->read = -1;
    for (size_t i = 0; i < s->turns && c->back != BACK_ASKED; i++) {
        const struct turn *turn = &s->turn[i];
        const struct task *t = turn->task;
        if (asked_rows(turn, &first)) c->back = BACK_ASKED;
        for (size_t row = turn->from; row < turn->from + turn->rows; row++) {
            if (row + 1 < t->n || t->n >= t->end || c->back == BACK_ASKED) continue;
            if (t->chances || !sampler_greedy(t->sampler)) c->back = BACK_BEST;
            c->cooling[rows++] = sampler_cooling(t->sampler);
        }
    }
}

// --- on the device -------------------------------------------------------------------------------

void choices_compute(struct choices *c, struct context *ctx, struct tensor cooling) {
    int64_t n = c->logits.n[0], k = c->best;
    float *at = c->on_device;
    if (c->back == BACK_GREATEST) argmax(ctx, tensor_1d(DT_I32, n, at), c->logits);
    if (c->back != BACK_BEST) return;
    struct top_logits to = {.value = tensor_2d(DT_F32, n, k, at),
                            .index = tensor_2d(DT_I32, n, k, at ? at + n * k : NULL),
                            .others = tensor_2d(DT_F32, n, 3, at ? at + 2 * n * k : NULL)};
    top_logits(ctx, &to, c->logits, cooling);
}

void choices_read(struct choices *c, struct context *ctx) {
    int64_t n = c->logits.n[0];
    if (c->back == BACK_GREATEST) read_i32(ctx, tensor_1d(DT_I32, n, c->on_device), c->greatest);
    if (c->back == BACK_BEST)
        read_f32(ctx, tensor_1d(DT_F32, (int64_t)told_floats(c, n), c->on_device), c->told);
}

// --- on the host ---------------------------------------------------------------------------------

// Damaged weights make NaN of everything, which would else look like an odd answer.
static void check_numbers(struct engine *e, bool bad) {
    if (e->nan_told || !bad) return;
    struct error why = {0};
    weights_check_scales(e->weights, true, &why);
    log_say(LOG_WARN, "the model's logits are NaN: %s",
            why.set ? why.text : "its weights are damaged, or overflow (try --precision f32)");
    e->nan_told = true;
}

// Row `at` of the wanted ones.
static const float *whole_row(struct engine *e, size_t at) {
    struct choices *c = &e->choices;
    if (c->read == (int64_t)at) return c->row;
    read_f32(&e->ctx, tensor_slice(c->logits, 0, (int64_t)at, 1), c->row);
    c->read = (int64_t)at;
    e->stats.whole_rows++;
    check_numbers(e, isnan(c->row[0]));
    return c->row;
}

// What was told of row `at`; valid until that of the next.
static struct best_logits best_of(struct engine *e, size_t at) {
    struct choices *c = &e->choices;
    size_t n = (size_t)c->logits.n[0], k = (size_t)c->best;
    const float *others = c->told + 2 * n * k + 3 * at;
    memcpy(c->id, c->told + n * k + at * k, k * sizeof *c->id);
    check_numbers(e, others[2] > 0);
    return (struct best_logits){c->best, c->told + at * k, c->id, others[0], others[1]};
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
static int32_t choose(struct engine *e, struct task *t, size_t at) {
    int32_t id = -1;
    if (e->choices.back == BACK_GREATEST) {
        id = e->choices.greatest[at];
        check_numbers(e, id < 0);
        return id < 0 ? -1 - id : id;
    }
    // Chances that the token was drawn with are of all that are left.
    if (e->choices.back == BACK_BEST && t->chances != CHANCES_DRAWN) {
        struct best_logits best = best_of(e, at);
        id = sampler_next_best(t->sampler, &best, t->ids, t->n);
    }
    if (id < 0) id = sampler_next(t->sampler, whole_row(e, at), t->ids, t->n);
    return sampler_lost(t->sampler) ? give_up(t, id) : id;
}

static float logit_of(struct engine *e, const struct best_logits *best, size_t at, int32_t id) {
    for (int64_t i = 0; i < best->n; i++)
        if (best->id[i] == id) return best->logit[i];
    return whole_row(e, at)[id];
}

// Tells of the chances in row `at`, from which token `id` was chosen.
static void tell_chances(struct engine *e, struct task *t, size_t at, int32_t id) {
    struct choices *c = &e->choices;
    size_t most = (size_t)(t->tops < c->vocab ? t->tops : c->vocab), n;
    float chance;
    double sum;
    c->top = mem_grow(c->top, &c->top_cap, most, sizeof *c->top);
    if (t->chances == CHANCES_DRAWN) {
        n = sampler_chances(t->sampler, c->top, most);
        chance = sampler_chance(t->sampler, id);
    } else if (c->back == BACK_BEST && most <= (size_t)c->best) {
        struct best_logits best = best_of(e, at);
        n = best_logits_top(&best, c->top, most, &sum);
        chance = (float)(logit_of(e, &best, at, id) - sum);
    } else {
        n = logits_top(whole_row(e, at), c->vocab, c->top, most, &sum);
        chance = (float)(whole_row(e, at)[id] - sum);
    }
    sched_chances(&e->sched, chance, c->top, n);
}

void choices_take(struct engine *e, struct turn *turn, size_t *at) {
    struct task *t = turn->task;
    size_t n = t->n, first, asked = asked_rows(turn, &first);
    bool stands = n < t->end;
    if (asked)
        read_f32(&e->ctx, tensor_slice(e->choices.logits, 0, (int64_t)*at, (int64_t)asked),
                 t->prompt_logits + first * (size_t)e->info.vocab);
    for (size_t row = turn->from; row < turn->from + turn->rows; row++) {
        bool next = row + 1 >= n && n < t->end;
        if (next && stands) {
            int32_t id = choose(e, t, *at);
            stands = sched_token(&e->sched, turn, id);
            if (t->chances) tell_chances(e, t, *at, id);
        }
        if (next || (row >= first && row < first + asked)) ++*at;
    }
}
