#include "engine/sample.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

struct candidate {
    float logit;
    int32_t id;
};

struct sampler {
    struct sampling s;
    int64_t vocab;
    uint64_t state;         // of splitmix64
    struct candidate *pick; // [vocab]
    int32_t *count;         // [vocab] times seen, zero between calls
};

struct sampling sampling_greedy(void) {
    return (struct sampling){.top_p = 1, .repetition_penalty = 1, .penalty_window = -1};
}

static bool in_range(double v, double low, double high) { return v >= low && v <= high; }

bool sampling_check(const struct sampling *s, struct error *e) {
    const struct {
        const char *name;
        double value, low, high;
    } facts[] = {
        {"temperature", s->temperature, 0, 100},
        {"top_k", (double)s->top_k, 0, 1e9},
        {"top_p", s->top_p, 0, 1},
        {"min_p", s->min_p, 0, 1},
        {"repetition_penalty", s->repetition_penalty, 0.01, 100},
        {"presence_penalty", s->presence_penalty, -100, 100},
        {"frequency_penalty", s->frequency_penalty, -100, 100},
        {"penalty_window", (double)s->penalty_window, -1, 1e9},
    };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (!in_range(facts[i].value, facts[i].low, facts[i].high))
            return fail(e, "%s is %g; it must be from %g to %g", facts[i].name, facts[i].value,
                        facts[i].low, facts[i].high);
    return true;
}

struct sampler *sampler_open(const struct sampling *s, int64_t vocab) {
    struct sampler *p = mem_alloc(sizeof *p);
    p->s = *s;
    p->vocab = vocab;
    p->state = s->seed;
    p->pick = mem_array((size_t)vocab, sizeof *p->pick);
    p->count = mem_array((size_t)vocab, sizeof *p->count);
    return p;
}

static bool penalizes(const struct sampling *p) {
    bool any = p->repetition_penalty != 1 || p->presence_penalty != 0 || p->frequency_penalty != 0;
    return any && p->penalty_window != 0;
}

bool sampler_greedy(const struct sampler *s) { return s->s.temperature <= 0 && !penalizes(&s->s); }

void sampler_close(struct sampler *s) {
    if (!s) return;
    free(s->pick);
    free(s->count);
    free(s);
}

// splitmix64 (Steele, Lea, Flood 2014), its top 53 bits as a number in [0, 1).
static double uniform(struct sampler *s) {
    uint64_t z = s->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static void penalize(struct sampler *s, float *logits, const int32_t *history, size_t n) {
    const struct sampling *p = &s->s;
    if (!penalizes(p)) return;
    if (p->penalty_window > 0 && (size_t)p->penalty_window < n) {
        history += n - (size_t)p->penalty_window;
        n = (size_t)p->penalty_window;
    }
    for (size_t i = 0; i < n; i++) s->count[history[i]]++;
    for (size_t i = 0; i < n; i++) {
        int32_t id = history[i], seen = s->count[id];
        if (!seen) continue; // a repeat: done already
        s->count[id] = 0;
        logits[id] = logits[id] > 0 ? logits[id] / p->repetition_penalty
                                    : logits[id] * p->repetition_penalty;
        logits[id] -= p->presence_penalty + p->frequency_penalty * (float)seen;
    }
}

static int32_t best(const float *logits, int64_t n) {
    int64_t at = 0;
    for (int64_t i = 1; i < n; i++)
        if (logits[i] > logits[at]) at = i;
    return (int32_t)at;
}

static int by_logit(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

// Moves the k greatest (in by_logit's order) to the front, unordered: Hoare's selection.
static void select_top(struct candidate *c, int64_t n, int64_t k) {
    int64_t low = 0, high = n - 1;
    while (low < high) {
        struct candidate pivot = c[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (by_logit(&c[i], &pivot) < 0) i++;
            while (by_logit(&c[j], &pivot) > 0) j--;
            if (i > j) break;
            struct candidate t = c[i];
            c[i++] = c[j];
            c[j--] = t;
        }
        if (k - 1 <= j)
            high = j;
        else if (k - 1 >= i)
            low = i;
        else
            return;
    }
}

// Keeps the fewest of n candidates, best first, whose probabilities reach p of the whole. Sorts
// only as many as it takes.
static int64_t keep_top_p(struct candidate *c, int64_t n, double p, double top) {
    double sum = 0, upto = 0;
    for (int64_t i = 0; i < n; i++) sum += exp(c[i].logit - top);
    int64_t keep = 0;
    for (int64_t sorted = 0, next; keep < n && (keep == 0 || upto < p * sum); keep++) {
        if (keep == sorted) {
            next = sorted ? sorted * 4 : 64;
            next = next < n ? next : n;
            select_top(c + sorted, n - sorted, next - sorted);
            qsort(c + sorted, (size_t)(next - sorted), sizeof *c, by_logit);
            sorted = next;
        }
        upto += exp(c[keep].logit - top);
    }
    return keep;
}

static int64_t keep_least(struct candidate *c, int64_t n, double least) {
    int64_t keep = 0;
    for (int64_t i = 0; i < n; i++)
        if (c[i].logit >= least) c[keep++] = c[i];
    return keep;
}

// Leaves the candidates that pass at the front of s->pick and returns how many.
static int64_t filter(struct sampler *s, double top) {
    struct candidate *c = s->pick;
    const struct sampling *p = &s->s;
    int64_t n = s->vocab;
    if (p->top_k > 0 && p->top_k < n) {
        select_top(c, n, p->top_k);
        n = p->top_k;
        qsort(c, (size_t)n, sizeof *c, by_logit); // so that the draw does not see selection's order
    }
    if (p->top_p < 1) n = keep_top_p(c, n, p->top_p, top);
    if (p->min_p > 0) n = keep_least(c, n, top + log((double)p->min_p));
    return n;
}

int32_t sampler_next(struct sampler *s, float *logits, const int32_t *history, size_t n) {
    for (int64_t i = 0; i < s->vocab; i++)
        if (isnan(logits[i])) logits[i] = -INFINITY;
    penalize(s, logits, history, n);
    int32_t first = best(logits, s->vocab);
    double top = logits[first], sum = 0;
    if (s->s.temperature <= 0 || !isfinite(top)) return first;
    for (int64_t i = 0; i < s->vocab; i++) s->pick[i] = (struct candidate){logits[i], (int32_t)i};
    int64_t left = filter(s, top);
    for (int64_t i = 0; i < left; i++) sum += exp((s->pick[i].logit - top) / s->s.temperature);
    double at = uniform(s) * sum;
    for (int64_t i = 0; i < left; i++) {
        at -= exp((s->pick[i].logit - top) / s->s.temperature);
        if (at < 0) return s->pick[i].id;
    }
    return s->pick[left - 1].id;
}
