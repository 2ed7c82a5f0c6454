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

static void sort(struct candidate *c, int64_t n) { qsort(c, (size_t)n, sizeof *c, by_logit); }

void chain_sort(struct sampler *s) {
    if (!s->sorted) sort(s->pick, s->n);
    s->sorted = true;
}

int64_t chain_best(const struct sampler *s) {
    int64_t at = 0;
    for (int64_t i = 1; i < s->n && !s->sorted; i++)
        if (by_logit(&s->pick[i], &s->pick[at]) < 0) at = i;
    return at;
}

static double top_logit(const struct sampler *s) { return s->pick[chain_best(s)].logit; }

double chain_sum(const struct sampler *s, double top) {
    double sum = 0;
    for (int64_t i = 0; i < s->n; i++) sum += exp(s->pick[i].logit - top);
    return sum;
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

// Candidates that a filter leaves, whatever it would.
static int64_t at_least(const struct sampler *s) {
    int64_t least = s->s.min_keep > 1 ? s->s.min_keep : 1;
    return least < s->n ? least : s->n;
}

// Keeps the candidates of at least this logit, in their order.
static void keep_from(struct sampler *s, double logit) {
    int64_t keep = 0;
    for (int64_t i = 0; i < s->n; i++)
        if (s->pick[i].logit >= logit) s->pick[keep++] = s->pick[i];
    s->n = keep;
}

// Tang et al. 2024: those within n standard deviations of the greatest.
void chain_top_n_sigma(struct sampler *s) {
    double sum = 0, squares = 0, top = top_logit(s);
    int64_t n = 0;
    if (!(s->s.top_n_sigma > 0) || s->n <= 1) return;
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
    if (k <= 0 || k >= s->n) return;
    if (!s->sorted) select_top(s->pick, s->n, k);
    s->n = k;
    chain_sort(s); // so that the draw does not see selection's order
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
    if (s->s.typical_p >= 1 || s->n <= 1) return;
    chain_sort(s);
    double top = s->pick[0].logit, sum = chain_sum(s, top), log_sum = log(sum), upto = 0;
    double entropy = entropy_of(s, top, log_sum);
    struct distance *d = mem_array((size_t)s->n, sizeof *d);
    struct candidate *kept = mem_array((size_t)s->n, sizeof *kept);
    for (int64_t i = 0; i < s->n; i++)
        d[i] = (struct distance){fabs(-(s->pick[i].logit - top - log_sum) - entropy), i};
    qsort(d, (size_t)s->n, sizeof *d, by_distance);
    int64_t keep = 0;
    while (keep < s->n && (keep < at_least(s) || upto <= s->s.typical_p * sum)) {
        kept[keep] = s->pick[d[keep].at];
        upto += exp(kept[keep++].logit - top);
    }
    for (int64_t i = 0; i < keep; i++) s->pick[i] = kept[i];
    s->n = keep;
    s->sorted = false;
    chain_sort(s);
    free(kept);
    free(d);
}

// Holtzman et al. 2020: the fewest, best first, whose probabilities reach p. Sorts only as many as
// it takes.
void chain_top_p(struct sampler *s) {
    struct candidate *c = s->pick;
    if (s->s.top_p >= 1 || s->n <= 1) return;
    double top = top_logit(s), sum = chain_sum(s, top), upto = 0;
    int64_t keep = 0;
    for (int64_t ordered = s->sorted ? s->n : 0; keep < s->n; keep++) {
        if (keep >= at_least(s) && upto >= s->s.top_p * sum) break;
        if (keep == ordered) {
            int64_t next = ordered ? ordered * 4 : 64;
            next = next < s->n ? next : s->n;
            select_top(c + ordered, s->n - ordered, next - ordered);
            sort(c + ordered, next - ordered);
            ordered = next;
        }
        upto += exp(c[keep].logit - top);
    }
    s->n = keep;
    s->sorted = true;
}

// Nguyen et al. 2024: those at least p times as likely as the likeliest.
void chain_min_p(struct sampler *s) {
    if (s->s.min_p <= 0 || s->n <= 1) return;
    double least = top_logit(s) + log((double)s->s.min_p);
    int64_t pass = 0, keep = at_least(s);
    for (int64_t i = 0; i < s->n; i++) pass += s->pick[i].logit >= least;
    if (pass < keep)
        chain_top_k(s, keep);
    else
        keep_from(s, least);
}

// XTC (p-e-w, text-generation-webui pull request 6335): now and then, of all above the threshold
// only the least likely stays.
void chain_xtc(struct sampler *s) {
    if (s->s.xtc_probability <= 0 || s->s.xtc_threshold > 0.5f || s->n <= 1) return;
    if (sampler_uniform(s) >= s->s.xtc_probability) return;
    chain_sort(s);
    double top = s->pick[0].logit, sum = chain_sum(s, top);
    int64_t above = 0;
    while (above < s->n && exp(s->pick[above].logit - top) >= s->s.xtc_threshold * sum) above++;
    if (above < 2 || s->n - above + 1 < at_least(s)) return;
    for (int64_t i = above - 1; i < s->n; i++) s->pick[i - above + 1] = s->pick[i];
    s->n -= above - 1;
}

static void cool(struct sampler *s, double temperature) {
    if (temperature > 0) {
        for (int64_t i = 0; i < s->n; i++)
            s->pick[i].logit = (float)(s->pick[i].logit / temperature);
        return;
    }
    s->pick[0] = s->pick[chain_best(s)];
    s->n = 1;
    s->sorted = true;
}

// Zhu et al. 2024, as llama.cpp has it: the temperature follows the entropy, which is taken as a
// part of what it would be if all candidates were as likely.
void chain_temperature(struct sampler *s) {
    double range = s->s.dynatemp_range, least = fmax(s->s.temperature - range, 0);
    if (range <= 0) {
        cool(s, s->s.temperature);
        return;
    }
    if (s->n <= 1) return;
    double top = top_logit(s), entropy = entropy_of(s, top, log(chain_sum(s, top)));
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
    chain_sort(s);
    if (s->s.mirostat == 1) {
        chain_top_k(s, zipf_k(s));
        return;
    }
    double top = s->pick[0].logit, sum = chain_sum(s, top);
    int64_t keep = 1;
    while (keep < s->n && -log2(exp(s->pick[keep].logit - top) / sum) <= s->mu) keep++;
    s->n = keep;
}
