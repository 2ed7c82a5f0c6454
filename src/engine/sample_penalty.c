// Filters that look at the tokens so far.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/breakers.h"
#include "engine/sample_parts.h"

bool penalties_apply(const struct sampling *s) {
    bool any = s->repetition_penalty != 1 || s->presence_penalty != 0 || s->frequency_penalty != 0;
    return any && s->penalty_window != 0;
}

bool dry_applies(const struct sampling *s) {
    return s->dry_multiplier != 0 && s->dry_base >= 1 && s->dry_window != 0;
}

// Cuts what is further back than the window.
static void look_back(int64_t window, const int32_t **history, size_t *n) {
    if (window < 0 || (size_t)window >= *n) return;
    *history += *n - (size_t)window;
    *n = (size_t)window;
}

static float penalized(const struct sampling *p, float logit, int32_t seen) {
    logit = logit > 0 ? logit / p->repetition_penalty : logit * p->repetition_penalty;
    return logit - (p->presence_penalty + p->frequency_penalty * (float)seen);
}

static bool lowers(const struct sampling *p) {
    return p->repetition_penalty >= 1 && p->presence_penalty >= 0 && p->frequency_penalty >= 0;
}

void chain_penalties(struct sampler *s, const int32_t *history, size_t n) {
    if (!penalties_apply(&s->s)) return;
    look_back(s->s.penalty_window, &history, &n);
    int32_t *count = sampler_count(s);
    int64_t seen = 0;
    for (size_t i = 0; i < n; i++) seen += !count[history[i]]++;
    for (int64_t i = 0; i < s->n; i++) {
        struct candidate *c = &s->pick[i];
        if (!count[c->id]) continue;
        c->logit = penalized(&s->s, c->logit, count[c->id]);
        seen--;
    }
    for (size_t i = 0; i < n; i++) count[history[i]] = 0;
    others_changed(s, seen, lowers(&s->s));
    s->ordered = 0;
}

// DRY (p-e-w, text-generation-webui pull request 5677): a token that would go on repeating what
// stood before costs multiplier * base^(length of what is repeated so far - allowed length).

// match[i]: of how many tokens the end of history is the same as what ends i tokens before it, as
// far as `most` tokens; the Z function (Gusfield 1997) of the reversed history.
static void find_matches(int32_t *match, const int32_t *history, size_t n, size_t most) {
    const int32_t *last = history + n - 1;
    for (size_t i = 1, from = 0, to = 0; i < n; i++) {
        size_t z = 0;
        if (i < to) {
            z = (size_t)match[i - from];
            if (z > to - i) z = to - i;
        }
        while (i + z < n && *(last - z) == *(last - i - z)) z++;
        match[i] = (int32_t)z;
        if (i + z > to) from = i, to = i + z;
    }
    for (size_t i = 1; i < n; i++)
        if ((size_t)match[i] > most) match[i] = (int32_t)most;
}

static float dry_cost(const struct sampling *p, int32_t length) {
    double cost = p->dry_multiplier * pow(p->dry_base, (double)(length - p->dry_allowed_length));
    return (float)fmin(cost, 1e30); // finite, but beyond any logit
}

void chain_dry(struct sampler *s, const int32_t *history, size_t n) {
    const struct sampling *p = &s->s;
    if (!dry_applies(p)) return;
    look_back(p->dry_window, &history, &n);
    size_t most = p->breakers ? breakers_after(p->breakers, history, n) : n;
    if (n <= (size_t)p->dry_allowed_length || !most) return;
    if (n > s->matches) {
        s->matches = n + n / 2;
        s->match = mem_resize(s->match, s->matches, sizeof *s->match);
    }
    find_matches(s->match, history, n, most);
    int32_t *count = sampler_count(s);
    int64_t costs = 0;
    for (size_t i = 1; i < n; i++) {
        int32_t next = history[n - i]; // what came after it there
        bool breaks = p->breakers && breakers_token(p->breakers, next);
        if (s->match[i] < p->dry_allowed_length || s->match[i] == 0 || breaks) continue;
        costs += !count[next];
        if (s->match[i] > count[next]) count[next] = s->match[i];
    }
    for (int64_t i = 0; i < s->n; i++) {
        struct candidate *c = &s->pick[i];
        if (!count[c->id]) continue;
        c->logit -= dry_cost(p, count[c->id]);
        costs--;
    }
    for (size_t i = 1; i < n; i++) count[history[n - i]] = 0;
    others_changed(s, costs, true);
    s->ordered = 0;
}
