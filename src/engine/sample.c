#include "engine/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/breakers.h"
#include "engine/sample_parts.h"
#include "grammar/grammar.h"

static const unsigned char default_chain[FILTERS] = {
    FILTER_PENALTIES, FILTER_DRY,   FILTER_TOP_N_SIGMA, FILTER_TOP_K,       FILTER_TYPICAL_P,
    FILTER_TOP_P,     FILTER_MIN_P, FILTER_XTC,         FILTER_TEMPERATURE,
};

struct sampling sampling_greedy(void) {
    struct sampling s = {
        .dynatemp_exponent = 1,
        .top_p = 1,
        .typical_p = 1,
        .top_n_sigma = -1,
        .xtc_threshold = 0.1f,
        .mirostat_tau = 5,
        .mirostat_eta = 0.1f,
        .repetition_penalty = 1,
        .penalty_window = -1,
        .dry_base = 1.75f,
        .dry_allowed_length = 2,
        .dry_window = -1,
        .filters = FILTERS,
    };
    memcpy(s.chain, default_chain, sizeof default_chain);
    return s;
}

static bool in_range(double v, double low, double high) { return v >= low && v <= high; }

bool sampling_check(const struct sampling *s, struct error *e) {
    const struct {
        const char *name;
        double value, low, high;
    } facts[] = {
        {"temperature", s->temperature, 0, 100},
        {"dynatemp_range", s->dynatemp_range, 0, 100},
        {"dynatemp_exponent", s->dynatemp_exponent, 0, 100},
        {"top_k", (double)s->top_k, 0, 1e9},
        {"top_p", s->top_p, 0, 1},
        {"min_p", s->min_p, 0, 1},
        {"typical_p", s->typical_p, 0, 1},
        {"top_n_sigma", s->top_n_sigma, -1, 1000},
        {"xtc_probability", s->xtc_probability, 0, 1},
        {"xtc_threshold", s->xtc_threshold, 0, 1},
        {"min_keep", (double)s->min_keep, 0, 1e9},
        {"mirostat", (double)s->mirostat, 0, 2},
        {"mirostat_tau", s->mirostat_tau, 0, 1000},
        {"mirostat_eta", s->mirostat_eta, 0, 1000},
        {"repetition_penalty", s->repetition_penalty, 0.01, 100},
        {"presence_penalty", s->presence_penalty, -100, 100},
        {"frequency_penalty", s->frequency_penalty, -100, 100},
        {"penalty_window", (double)s->penalty_window, -1, 1e9},
        {"dry_multiplier", s->dry_multiplier, 0, 1000},
        {"dry_base", s->dry_base, 0, 1000},
        {"dry_allowed_length", (double)s->dry_allowed_length, 0, 1e6},
        {"dry_window", (double)s->dry_window, -1, 1e9},
        {"min_tokens", (double)s->min_tokens, 0, 1e9},
    };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (!in_range(facts[i].value, facts[i].low, facts[i].high))
            return fail(e, "%s is %g; it must be from %g to %g", facts[i].name, facts[i].value,
                        facts[i].low, facts[i].high);
    return true;
}

// --- the chain's names ---------------------------------------------------------------------------

// The first name of a filter is what it is called.
static const struct {
    const char *name;
    enum filter filter;
    char letter;
} filter_names[] = {
    {"penalties", FILTER_PENALTIES, 'e'},
    {"dry", FILTER_DRY, 'd'},
    {"top_n_sigma", FILTER_TOP_N_SIGMA, 's'},
    {"top_k", FILTER_TOP_K, 'k'},
    {"typ_p", FILTER_TYPICAL_P, 'y'},
    {"top_p", FILTER_TOP_P, 'p'},
    {"min_p", FILTER_MIN_P, 'm'},
    {"xtc", FILTER_XTC, 'x'},
    {"temperature", FILTER_TEMPERATURE, 't'},
    {"top-n-sigma", FILTER_TOP_N_SIGMA, 0},
    {"top-k", FILTER_TOP_K, 0},
    {"typical_p", FILTER_TYPICAL_P, 0},
    {"typical-p", FILTER_TYPICAL_P, 0},
    {"typical", FILTER_TYPICAL_P, 0},
    {"typ-p", FILTER_TYPICAL_P, 0},
    {"typ", FILTER_TYPICAL_P, 0},
    {"top-p", FILTER_TOP_P, 0},
    {"nucleus", FILTER_TOP_P, 0},
    {"min-p", FILTER_MIN_P, 0},
    {"temp", FILTER_TEMPERATURE, 0},
};
enum { FILTER_NAMES = sizeof filter_names / sizeof *filter_names };

const char *filter_name(enum filter f) { return filter_names[f].name; }

static bool add_filter(struct sampling *s, enum filter f, struct error *e) {
    if (s->filters == FILTERS_MOST)
        return fail(e, "there are more than %d samplers in the list", FILTERS_MOST);
    s->chain[s->filters++] = (unsigned char)f;
    return true;
}

bool sampling_chain_add(struct sampling *s, struct sv name, struct error *e) {
    for (int i = 0; i < FILTER_NAMES; i++)
        if (sv_is(name, filter_names[i].name)) return add_filter(s, filter_names[i].filter, e);
    return fail(e,
                "there is no sampler \"%.*s\"; there are penalties, dry, top_n_sigma, top_k, "
                "typ_p, top_p, min_p, xtc and temperature",
                (int)(name.n < 40 ? name.n : 40), name.p);
}

bool sampling_chain(struct sampling *s, struct sv names, struct error *e) {
    s->filters = 0;
    while (names.n) {
        ptrdiff_t end = sv_find(names, sv(";"), 0);
        struct sv name = sv_cut(names, 0, end < 0 ? names.n : (size_t)end);
        names = sv_cut(names, name.n + 1, names.n);
        if (name.n && !sampling_chain_add(s, name, e)) return false;
    }
    return true;
}

static bool add_letter(struct sampling *s, char letter, struct error *e) {
    for (int i = 0; i < FILTERS; i++)
        if (filter_names[i].letter == letter) return add_filter(s, filter_names[i].filter, e);
    return fail(e, "there is no sampler with the letter '%c'; there are edskypmxt", letter);
}

bool sampling_chain_letters(struct sampling *s, struct sv letters, struct error *e) {
    s->filters = 0;
    for (size_t i = 0; i < letters.n; i++)
        if (!add_letter(s, letters.p[i], e)) return false;
    return true;
}

static bool in_chain(const struct sampling *s, enum filter f) {
    for (size_t i = 0; i < s->filters; i++)
        if (s->chain[i] == f) return true;
    return false;
}

// --- a sampler -----------------------------------------------------------------------------------

struct sampler *sampler_open(const struct sampling *s, int64_t vocab) {
    struct sampler *p = mem_alloc(sizeof *p);
    p->s = *s;
    p->vocab = vocab;
    p->state = s->seed;
    p->mu = 2 * (double)s->mirostat_tau;
    p->s.bias = mem_array(s->biases, sizeof *s->bias);
    if (s->biases) memcpy(p->s.bias, s->bias, s->biases * sizeof *s->bias);
    p->s.late = mem_array(s->lates, sizeof *s->late);
    if (s->lates) memcpy(p->s.late, s->late, s->lates * sizeof *s->late);
    p->s.breakers = breakers_share(s->breakers);
    if (s->grammar) p->matcher = matcher_open(s->grammar);
    return p;
}

void sampler_close(struct sampler *s) {
    if (!s) return;
    breakers_close(s->s.breakers);
    matcher_close(s->matcher);
    free(s->s.bias);
    free(s->s.late);
    free(s->pick);
    free(s->count);
    free(s->match);
    free(s);
}

void sampler_go_on(struct sampler *s, const struct sampler *from) {
    matcher_close(s->matcher);
    s->matcher = from->matcher ? matcher_copy(from->matcher) : NULL;
}

bool sampler_lost(const struct sampler *s) { return s->lost; }

// Whether the likeliest is taken, and no filter but the penalties changes which that is.
static bool takes_best(const struct sampling *s) {
    bool moves = (s->typical_p < 1 && in_chain(s, FILTER_TYPICAL_P)) ||
                 (s->xtc_probability > 0 && in_chain(s, FILTER_XTC));
    return s->temperature <= 0 && s->dynatemp_range <= 0 && !moves && !s->mirostat &&
           in_chain(s, FILTER_TEMPERATURE);
}

bool sampler_greedy(const struct sampler *s) {
    const struct sampling *p = &s->s;
    return takes_best(p) && !(penalties_apply(p) && in_chain(p, FILTER_PENALTIES)) &&
           !(dry_applies(p) && in_chain(p, FILTER_DRY)) && !p->biases &&
           !(p->lates && s->made < p->min_tokens) && !s->matcher;
}

// splitmix64 (Steele, Lea, Flood 2014), its top 53 bits.
double sampler_uniform(struct sampler *s) {
    uint64_t z = s->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

int32_t *sampler_count(struct sampler *s) {
    if (!s->count) s->count = mem_array((size_t)s->vocab, sizeof *s->count);
    return s->count;
}

float sampler_cooling(const struct sampler *s) {
    return s->s.temperature > 0 ? 1 / s->s.temperature : 1;
}

static void add_candidate(struct sampler *s, int32_t id, float logit) {
    s->pick[s->n++] = (struct candidate){isnan(logit) ? -INFINITY : logit, id};
}

static void begin(struct sampler *s, int64_t n) {
    s->pick = mem_grow(s->pick, &s->room, (size_t)n, sizeof *s->pick);
    s->n = s->ordered = 0;
    s->others = (struct others){0};
    s->unsure = false;
}

static void fill(struct sampler *s, const float *logits) {
    begin(s, s->vocab);
    for (int64_t i = 0; i < s->vocab; i++) add_candidate(s, (int32_t)i, logits[i]);
}

static void fill_best(struct sampler *s, const struct best_logits *best) {
    begin(s, best->n);
    for (int64_t i = 0; i < best->n; i++) add_candidate(s, best->id[i], best->logit[i]);
    s->ordered = s->n;
    if (best->n == s->vocab) return;
    chain_others(s, best->others, best->cooled);
}

// Adds to the logit of one token. by_id: all stand in the order of their ids.
static void change(struct sampler *s, int32_t id, float add, bool by_id) {
    int64_t i = by_id ? id : 0;
    if (id < 0 || id >= s->vocab) return;
    while (i < s->n && s->pick[i].id != id) i++;
    if (i == s->n)
        others_changed(s, 1, add <= 0);
    else
        s->pick[i].logit = add == -INFINITY ? add : s->pick[i].logit + add;
}

static void change_some(struct sampler *s) {
    const struct sampling *p = &s->s;
    bool by_id = !s->ordered;
    size_t lates = s->made < p->min_tokens ? p->lates : 0;
    for (size_t i = 0; i < p->biases; i++) change(s, p->bias[i].id, p->bias[i].add, by_id);
    for (size_t i = 0; i < lates; i++) change(s, p->late[i], -INFINITY, by_id);
    if (p->biases || lates) s->ordered = 0;
}

static void leave_allowed(struct sampler *s) {
    const uint64_t *mask = matcher_mask(s->matcher);
    int64_t tokens = (int64_t)matcher_tokens(s->matcher);
    for (int64_t i = 0; i < s->n; i++) {
        int32_t id = s->pick[i].id;
        bool allowed = mask && id < tokens && mask[id / 64] >> (id % 64) & 1;
        if (!allowed) s->pick[i].logit = -INFINITY;
    }
    others_changed(s, s->others.n, true);
    s->ordered = 0;
}

static void apply(struct sampler *s, enum filter f, const int32_t *history, size_t n) {
    switch (f) {
    case FILTER_PENALTIES: chain_penalties(s, history, n); break;
    case FILTER_DRY: chain_dry(s, history, n); break;
    case FILTER_TOP_N_SIGMA: chain_top_n_sigma(s); break;
    case FILTER_TOP_K: chain_top_k(s, s->s.top_k); break;
    case FILTER_TYPICAL_P: chain_typical_p(s); break;
    case FILTER_TOP_P: chain_top_p(s); break;
    case FILTER_MIN_P: chain_min_p(s); break;
    case FILTER_XTC: chain_xtc(s); break;
    case FILTER_TEMPERATURE: chain_temperature(s); break;
    }
}

static void run_chain(struct sampler *s, const int32_t *history, size_t n) {
    const struct sampling *p = &s->s;
    bool best = takes_best(p);
    for (size_t i = 0; i < p->filters && !p->mirostat; i++) {
        enum filter f = p->chain[i];
        bool by_history = f == FILTER_PENALTIES || f == FILTER_DRY;
        if (!by_history) chain_order(s, best ? 1 : ORDERED);
        if (s->unsure) return;
        if (!best || by_history || f == FILTER_TEMPERATURE) apply(s, f, history, n);
    }
    chain_order(s, best ? 1 : ORDERED);
    if (s->unsure || !p->mirostat) return;
    chain_temperature(s);
    chain_mirostat(s);
}

// Returns where in s->pick the token is: it goes through the best in order, then through the rest
// as they stand. Where the greatest logit is infinite there is nothing to draw from: it is taken.
static int64_t draw(struct sampler *s) {
    if (!isfinite(s->pick[0].logit)) {
        s->unsure = s->others.n > 0;
        s->pick[0].logit = 0;
        s->n = 1;
    }
    s->top = s->pick[0].logit;
    struct range sum = chain_sum(s, s->top);
    s->sum = sum.low;
    double at = sampler_uniform(s), upto = 0;
    int64_t last = 0; // that has a chance: rounding may leave a rest
    for (int64_t i = 0; i < s->n; i++) {
        double p = exp(s->pick[i].logit - s->top);
        if (p > 0) last = i;
        upto += p;
        if (upto > at * sum.high) return i;
        if (upto > at * sum.low) break;
    }
    s->unsure = s->unsure || s->others.n > 0;
    return last;
}

static double chance_of(const struct sampler *s, int64_t i) {
    return exp(s->pick[i].logit - s->top) / s->sum;
}

// The token from s->pick as it was filled, or -1.
static int32_t choose(struct sampler *s, const int32_t *history, size_t n) {
    uint64_t state = s->state;
    change_some(s);
    if (s->matcher) leave_allowed(s);
    if (!s->unsure) run_chain(s, history, n);
    int64_t at = s->unsure ? 0 : draw(s);
    if (s->unsure) {
        s->state = state;
        return -1;
    }
    if (s->s.mirostat) s->mu -= s->s.mirostat_eta * (-log2(chance_of(s, at)) - s->s.mirostat_tau);
    s->made++;
    if (s->matcher && !matcher_token(s->matcher, s->pick[at].id)) s->lost = true;
    return s->pick[at].id;
}

int32_t sampler_next(struct sampler *s, const float *logits, const int32_t *history, size_t n) {
    fill(s, logits);
    return choose(s, history, n);
}

int32_t sampler_next_best(struct sampler *s, const struct best_logits *best, const int32_t *history,
                          size_t n) {
    fill_best(s, best);
    return choose(s, history, n);
}

size_t sampler_chances(struct sampler *s, struct chance *out, size_t most) {
    chain_order(s, (int64_t)most);
    size_t n = 0;
    for (; n < most && n < (size_t)s->n && isfinite(s->pick[n].logit); n++)
        out[n] = (struct chance){s->pick[n].id, (float)chance_of(s, (int64_t)n)};
    return n;
}

float sampler_chance(const struct sampler *s, int32_t id) {
    for (int64_t i = 0; i < s->n; i++)
        if (s->pick[i].id == id) return (float)chance_of(s, i);
    return 0;
}

size_t logits_top(const float *logits, int64_t vocab, struct chance *out, size_t most,
                  double *sum) {
    size_t n = 0;
    double top = -INFINITY, total = 0;
    for (int64_t i = 0; i < vocab; i++)
        if (logits[i] > top) top = logits[i];
    for (int64_t i = 0; i < vocab; i++) {
        float x = logits[i];
        if (isnan(x)) continue;
        total += exp(x - top);
        if (!most || (n == most && x <= out[n - 1].p)) continue;
        size_t at = n < most ? n++ : n - 1;
        for (; at > 0 && out[at - 1].p < x; at--) out[at] = out[at - 1];
        out[at] = (struct chance){(int32_t)i, x};
    }
    *sum = total > 0 ? top + log(total) : 0; // no logit is a number
    for (size_t i = 0; i < n; i++) out[i].p = (float)(out[i].p - *sum);
    return n;
}

size_t best_logits_top(const struct best_logits *best, struct chance *out, size_t most,
                       double *sum) {
    double top = best->logit[0], last = best->logit[best->n - 1], total = 0;
    for (int64_t i = 0; i < best->n; i++)
        if (best->logit[i] > -INFINITY) total += exp(best->logit[i] - top);
    if (best->others > 0) total += best->others * exp(last - top);
    *sum = total > 0 ? top + log(total) : 0; // no logit is a number
    for (size_t i = 0; i < most; i++)
        out[i] = (struct chance){best->id[i], (float)(best->logit[i] - *sum)};
    return most;
}
