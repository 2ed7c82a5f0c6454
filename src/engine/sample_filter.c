// Filters that look at the candidates alone.
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "engine/sample_parts.h"

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

// Few are nearly in order.
static void sort(struct candidate *c, int64_t n) {
    if (n > ORDERED) {
        qsort(c, (size_t)n, sizeof *c, by_logit);
        return;
    }
    for (int64_t i = 1; i < n; i++) {
        struct candidate moved = c[i];
        int64_t at = i;
        for (; at > 0 && by_logit(&moved, &c[at - 1]) < 0; at--) c[at] = c[at - 1];
        c[at] = moved;
    }
}

// --- the others ----------------------------------------------------------------------------------

// The sums are of floats: each term is within 2^-20 of what it should be, and so is the order of
// adding; but where the chain divides by the temperature it rounds, to 2^-24 of the logit. A term
// may have been too small for a float.
void chain_others(struct sampler *s, float sum, float cooled) {
    struct others *o = &s->others;
    *o = (struct others){.n = s->vocab - s->n, .bound = s->pick[s->n - 1]};
    double most = fabs((double)o->bound.logit) * fmax(1, sampler_cooling(s));
    double off = 0x1p-16 + 0x1p-22 * most, little = 1e-30;
    for (int i = 0; i < 2; i++) {
        double as_told = i ? cooled : sum;
        o->low[i] = fmax(as_told * (1 - off), 0);
        o->high[i] = as_told * (1 + off) + little;
    }
    s->unsure = !isfinite(o->bound.logit) || !isfinite(sum) || !isfinite(cooled);
}

void others_changed(struct sampler *s, int64_t n, bool lowered) {
    struct others *o = &s->others;
    if (!o->n || !n) return;
    for (int i = 0; i < 2; i++) o->low[i] = fmax(o->low[i] - (double)n, 0);
    s->unsure = s->unsure || !lowered;
}

// Those in pick from n on, whose order among the others is not known.
static void join_others(struct sampler *s, int64_t n) {
    struct others *o = &s->others;
    for (int64_t i = n; i < s->n; i++) {
        double below = (double)s->pick[i].logit - o->bound.logit;
        double term[2] = {exp(below), exp(below * sampler_cooling(s))};
        for (int k = 0; k < 2; k++) {
            o->low[k] += term[k] * (1 - 0x1p-16);
            o->high[k] += term[k] * (1 + 0x1p-16);
        }
    }
    o->n += s->n - n;
    s->n = n;
    s->unsure = n == 0;
}

static void best_first(struct sampler *s) {
    int64_t at = 0;
    for (int64_t i = 1; i < s->n; i++)
        if (by_logit(&s->pick[i], &s->pick[at]) < 0) at = i;
    struct candidate best = s->pick[at];
    s->pick[at] = s->pick[0];
    s->pick[0] = best;
}

void chain_order(struct sampler *s, int64_t k) {
    if (k > s->n) k = s->n;
    if (s->ordered >= k || s->unsure) return;
    if (s->others.n) {
        sort(s->pick, s->n);
        int64_t sure = s->n;
        while (sure > 0 && by_logit(&s->pick[sure - 1], &s->others.bound) > 0) sure--;
        join_others(s, sure);
        s->ordered = s->n;
        return;
    }
    if (k == 1)
        best_first(s);
    else
        select_top(s->pick + s->ordered, s->n - s->ordered, k - s->ordered);
    sort(s->pick + s->ordered, k - s->ordered);
    s->ordered = k;
}

static bool needs_others(struct sampler *s) {
    s->unsure = s->unsure || s->others.n > 0;
    return s->unsure;
}

// --- filters -------------------------------------------------------------------------------------

static double top_logit(const struct sampler *s) { return s->pick[0].logit; }

struct range chain_sum(const struct sampler *s, double top) {
    const struct others *o = &s->others;
    double sum = 0, by = 1, off = 0x1p-40; // of sums in another order
    for (int64_t i = 0; i < s->n; i++) sum += exp(s->pick[i].logit - top);
    if (!o->n) return (struct range){sum, sum};
    by = exp(o->bound.logit - top);
    return (struct range){(sum + o->low[0] * by) * (1 - off), (sum + o->high[0] * by) * (1 + off)};
}

// Of the candidates, whose chain_sum is e^log_sum.
static double entropy_of(const struct sampler *s, double top, double log_sum) {
    double entropy = 0;
    for (int64_t i = 0; i < s->n; i++) {
        double log_p = s->pick[i].logit - top - log_sum, p = exp(log_p);
        if (p > 0) entropy -= p * log_p;
    }
    return entropy;
}

// All that are left.
static int64_t left(const struct sampler *s) { return s->n + s->others.n; }

// Candidates that a filter leaves, whatever it would.
static int64_t at_least(const struct sampler *s) {
    int64_t least = s->s.min_keep > 1 ? s->s.min_keep : 1;
    return least < left(s) ? least : left(s);
}

// Leaves only the first n, which are in order.
static void keep(struct sampler *s, int64_t n) {
    s->n = s->ordered = n;
    s->others.n = 0;
}

// Keeps the candidates of at least this logit, in their order.
static void keep_from(struct sampler *s, double logit) {
    int64_t kept = 0;
    for (int64_t i = 0; i < s->n; i++)
        if (s->pick[i].logit >= logit) s->pick[kept++] = s->pick[i];
    s->n = kept;
    if (s->ordered > kept) s->ordered = kept;
}

// Tang et al. 2024: those within n standard deviations of the greatest.
void chain_top_n_sigma(struct sampler *s) {
    double sum = 0, squares = 0, top = top_logit(s);
    int64_t n = 0;
    if (!(s->s.top_n_sigma > 0) || left(s) <= 1 || needs_others(s)) return;
    for (int64_t i = 0; i < s->n; i++)
        if (isfinite(s->pick[i].logit)) sum += s->pick[i].logit, n++;
    if (!n) return;
    for (int64_t i = 0; i < s->n; i++) {
        double d = s->pick[i].logit - sum / (double)n;
        if (isfinite(d)) squares += d * d;
    }
    keep_from(s, top - s->s.top_n_sigma * sqrt(squares / (double)n));
}

void chain_top_k(struct sampler *s, int64_t k) {
    struct others *o = &s->others;
    if (k <= 0 || k >= left(s)) return;
    if (k <= s->n || !o->n) {
        chain_order(s, k);
        keep(s, k);
        return;
    }
    o->n = k - s->n; // whichever they are
    for (int i = 0; i < 2; i++) {
        o->low[i] = 0;
        o->high[i] = fmin(o->high[i], (double)o->n);
    }
}

struct distance {
    double far; // of the surprise from the entropy
    int64_t at; // in s->pick
};

static int by_distance(const void *a, const void *b) {
    const struct distance *x = a, *y = b;
    if (x->far != y->far) return x->far < y->far ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

// Meister et al. 2022: those whose surprise is nearest to the entropy, until they have p together.
void chain_typical_p(struct sampler *s) {
    if (s->s.typical_p >= 1 || left(s) <= 1 || needs_others(s)) return;
    chain_order(s, s->n);
    double top = top_logit(s), sum = chain_sum(s, top).low, log_sum = log(sum), upto = 0;
    double entropy = entropy_of(s, top, log_sum);
    struct distance *d = mem_array((size_t)s->n, sizeof *d);
    struct candidate *kept = mem_array((size_t)s->n, sizeof *kept);
    for (int64_t i = 0; i < s->n; i++)
        d[i] = (struct distance){fabs(-(s->pick[i].logit - top - log_sum) - entropy), i};
    qsort(d, (size_t)s->n, sizeof *d, by_distance);
    int64_t n = 0;
    while (n < s->n && (n < at_least(s) || upto <= s->s.typical_p * sum)) {
        kept[n] = s->pick[d[n].at];
        upto += exp(kept[n++].logit - top);
    }
    for (int64_t i = 0; i < n; i++) s->pick[i] = kept[i];
    sort(s->pick, n);
    keep(s, n);
    free(kept);
    free(d);
}

// Holtzman et al. 2020: the fewest, best first, whose probabilities reach p. Sorts only as many as
// it takes.
void chain_top_p(struct sampler *s) {
    if (s->s.top_p >= 1 || left(s) <= 1) return;
    double top = top_logit(s), upto = 0;
    struct range sum = chain_sum(s, top);
    int64_t n = 0;
    for (; n < s->n; n++) {
        bool enough = n >= at_least(s);
        if (enough && upto >= s->s.top_p * sum.high) break;
        if (enough && upto >= s->s.top_p * sum.low) needs_others(s);
        if (n == s->ordered) chain_order(s, n ? n * 4 : 64);
        upto += exp(s->pick[n].logit - top);
    }
    if (n < s->n || !needs_others(s)) keep(s, n);
}

// Nguyen et al. 2024: those at least p times as likely as the likeliest.
void chain_min_p(struct sampler *s) {
    if (s->s.min_p <= 0 || left(s) <= 1) return;
    double least = top_logit(s) + log((double)s->s.min_p);
    int64_t pass = 0;
    for (int64_t i = 0; i < s->n; i++) pass += s->pick[i].logit >= least;
    if (s->others.n && s->others.bound.logit >= least) needs_others(s);
    if (pass < at_least(s)) {
        chain_top_k(s, at_least(s));
        return;
    }
    keep_from(s, least);
    s->others.n = 0;
}

// XTC (p-e-w, text-generation-webui pull request 6335): now and then, of all above the threshold
// only the least likely stays.
void chain_xtc(struct sampler *s) {
    if (s->s.xtc_probability <= 0 || s->s.xtc_threshold > 0.5f || left(s) <= 1) return;
    if (sampler_uniform(s) >= s->s.xtc_probability || needs_others(s)) return;
    chain_order(s, s->n);
    double top = top_logit(s), sum = chain_sum(s, top).low;
    int64_t above = 0;
    while (above < s->n && exp(s->pick[above].logit - top) >= s->s.xtc_threshold * sum) above++;
    if (above < 2 || s->n - above + 1 < at_least(s)) return;
    for (int64_t i = above - 1; i < s->n; i++) s->pick[i - above + 1] = s->pick[i];
    keep(s, s->n - above + 1);
}

static float divided(float logit, double by) { return (float)(logit / by); }

static void cool(struct sampler *s, double temperature) {
    struct others *o = &s->others;
    if (temperature <= 0) {
        keep(s, 1);
        return;
    }
    for (int64_t i = 0; i < s->n; i++) s->pick[i].logit = divided(s->pick[i].logit, temperature);
    o->bound = (struct candidate){divided(o->bound.logit, temperature), -1}; // rounding makes ties
    if (o->cool && temperature != 1) needs_others(s);
    o->cool = true;
    o->low[0] = o->low[1];
    o->high[0] = o->high[1];
}

// Zhu et al. 2024, as llama.cpp has it: the temperature follows the entropy, which is taken as a
// part of what it would be if all candidates were as likely.
void chain_temperature(struct sampler *s) {
    double range = s->s.dynatemp_range, least = fmax(s->s.temperature - range, 0);
    if (range <= 0) {
        cool(s, s->s.temperature);
        return;
    }
    if (left(s) <= 1 || needs_others(s)) return;
    double top = top_logit(s), entropy = entropy_of(s, top, log(chain_sum(s, top).low));
    double part = fmin(entropy / log((double)s->n), 1);
    cool(s, least + (s->s.temperature + range - least) * pow(part, s->s.dynatemp_exponent));
}

// Basu et al. 2021. Version 1 takes the exponent of a Zipf distribution from the likeliest, and
// from that how many tokens have the surprise aimed at; version 2 cuts by surprise itself.
static int64_t zipf_k(const struct sampler *s) {
    enum { LIKELIEST = 100 };
    double tb = 0, tt = 0;
    for (int64_t i = 0; i < LIKELIEST - 1 && i + 1 < s->n; i++) {
        double t = log((double)(i + 2) / (double)(i + 1));
        double b = (double)s->pick[i].logit - s->pick[i + 1].logit;
        if (!isfinite(b)) break;
        tb += t * b;
        tt += t * t;
    }
    double exponent = tt > 0 ? tb / tt : 0, over = exponent - 1;
    double k = pow(over * pow(2, s->mu) / (1 - pow((double)s->vocab, -over)), 1 / exponent);
    if (!(k > 1)) return 1; // also when it is no number
    return k < (double)s->n ? (int64_t)k : s->n;
}

void chain_mirostat(struct sampler *s) {
    if (needs_others(s)) return;
    chain_order(s, s->n);
    if (s->s.mirostat == 1) {
        chain_top_k(s, zipf_k(s));
        return;
    }
    double top = top_logit(s), sum = chain_sum(s, top).low;
    int64_t n = 1;
    while (n < s->n && -log2(exp(s->pick[n].logit - top) / sum) <= s->mu) n++;
    keep(s, n);
}
