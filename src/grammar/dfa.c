#include "grammar/dfa.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

enum { PAIR_STEPS = 8 };

static size_t cell_bytes(const struct dfa *d) {
    return d->states * (d->classes * sizeof *d->next + sizeof *d->final);
}

void dfa_free(struct dfa *d) {
    effort_drop(d->effort, cell_bytes(d));
    free(d->low);
    free(d->next);
    free(d->final);
    *d = (struct dfa){0};
}

int32_t dfa_add(struct dfa *d, bool final, struct error *e) {
    if (d->states >= DFA_STATES || (d->states + 1) * d->classes > DFA_STEPS) {
        fail(e, "a regular expression needs more than %d states", (int)d->states);
        return -1;
    }
    if (!effort_work(d->effort, d->classes, e) ||
        !effort_hold(d->effort, d->classes * sizeof *d->next + sizeof *d->final, e))
        return -1;
    size_t n = d->states * d->classes;
    d->next = mem_grow(d->next, &d->next_cap, n + d->classes, sizeof *d->next);
    for (size_t i = 0; i < d->classes; i++) d->next[n + i] = -1;
    d->final = mem_grow(d->final, &d->final_cap, d->states + 1, sizeof *d->final);
    d->final[d->states] = final;
    return (int32_t)d->states++;
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void dfa_classes(struct dfa *d, uint32_t *low, size_t n) {
    size_t kept = 0;
    low[n++] = 0;
    qsort(low, n, sizeof *low, by_value);
    for (size_t i = 0; i < n; i++)
        if (low[i] <= CHAR_LAST && (!kept || low[kept - 1] != low[i])) low[kept++] = low[i];
    d->low = low;
    d->classes = kept;
}

size_t dfa_class(const struct dfa *d, uint32_t c) {
    size_t from = 0, to = d->classes;
    while (to - from > 1) {
        size_t mid = (from + to) / 2;
        if (d->low[mid] <= c)
            from = mid;
        else
            to = mid;
    }
    return from;
}

bool dfa_length(struct dfa *d, struct effort *f, int64_t least, int64_t most, struct error *e) {
    *d = (struct dfa){.effort = f};
    dfa_classes(d, mem_array(1, sizeof *d->low), 0);
    int64_t last = most < 0 ? least : most;
    for (int64_t i = 0; i <= last; i++) {
        int32_t state = dfa_add(d, i >= least, e);
        if (state < 0) return false;
        d->next[state] = i < last ? state + 1 : most < 0 ? state : -1;
    }
    return true;
}

static uint32_t char_at(struct sv text, size_t i, size_t *len) {
    int32_t c = utf8_decode(text, i, len);
    return c < 0 ? 0xfffd : (uint32_t)c;
}

static bool add_word(struct dfa *d, struct sv word, struct error *e) {
    size_t at = 0, len;
    for (size_t i = 0; i < word.n; i += len) {
        size_t cell = at * d->classes + dfa_class(d, char_at(word, i, &len));
        int32_t to = d->next[cell] >= 0 ? d->next[cell] : dfa_add(d, false, e);
        if (to < 0) return false;
        d->next[cell] = to;
        at = (size_t)to;
    }
    d->final[at] = true;
    return true;
}

bool dfa_words(struct dfa *d, struct effort *f, const struct sv *word, size_t n, struct error *e) {
    size_t bytes = 0, chars = 0, len;
    *d = (struct dfa){.effort = f};
    for (size_t k = 0; k < n; k++) bytes += word[k].n;
    uint32_t *low = mem_array(2 * bytes + 1, sizeof *low);
    for (size_t k = 0; k < n; k++) {
        for (size_t i = 0; i < word[k].n; i += len) {
            low[chars++] = char_at(word[k], i, &len);
            low[chars] = low[chars - 1] + 1;
            chars++;
        }
    }
    dfa_classes(d, low, chars);
    bool ok = effort_work(f, bytes, e) && dfa_add(d, false, e) >= 0;
    for (size_t k = 0; k < n && ok; k++) ok = add_word(d, word[k], e);
    return ok;
}

// Pairs of states of two automata, each with the number of the state that it is.
struct pairs {
    int32_t (*pair)[2];
    size_t cap;
    struct map number;
};

static int32_t pair_state(struct pairs *p, struct dfa *d, const struct dfa *a, const struct dfa *b,
                          int32_t x, int32_t y, struct error *e) {
    char key[2 * sizeof x];
    memcpy(key, &x, sizeof x);
    memcpy(key + sizeof x, &y, sizeof y);
    int64_t found = map_get(&p->number, sv_n(key, sizeof key));
    if (found >= 0) return (int32_t)found;
    int32_t state = dfa_add(d, a->final[x] && b->final[y], e);
    if (state < 0) return -1;
    p->pair = mem_grow(p->pair, &p->cap, (size_t)state + 1, sizeof *p->pair);
    p->pair[state][0] = x;
    p->pair[state][1] = y;
    map_put(&p->number, sv_n(key, sizeof key), state);
    return state;
}

bool dfa_and(struct dfa *d, const struct dfa *b, struct error *e) {
    struct dfa a = *d, made = {.effort = d->effort};
    struct pairs p = {0};
    uint32_t *low = mem_array(a.classes + b->classes + 1, sizeof *low);
    memcpy(low, a.low, a.classes * sizeof *low);
    memcpy(low + a.classes, b->low, b->classes * sizeof *low);
    dfa_classes(&made, low, a.classes + b->classes);
    pair_state(&p, &made, &a, b, 0, 0, e);
    for (size_t s = 0;
         p.pair && s < made.states && effort_work(made.effort, PAIR_STEPS * made.classes, e); s++) {
        int32_t from[2] = {p.pair[s][0], p.pair[s][1]};
        for (size_t c = 0, i = 0, k = 0; c < made.classes && !e->set; c++) {
            while (i + 1 < a.classes && a.low[i + 1] <= made.low[c]) i++;
            while (k + 1 < b->classes && b->low[k + 1] <= made.low[c]) k++;
            int32_t x = a.next[(size_t)from[0] * a.classes + i];
            int32_t y = b->next[(size_t)from[1] * b->classes + k];
            if (x < 0 || y < 0) continue;
            int32_t to = pair_state(&p, &made, &a, b, x, y, e);
            made.next[s * made.classes + c] = to;
        }
    }
    free(p.pair);
    map_free(&p.number);
    dfa_free(&a);
    *d = made;
    return !e->set;
}

bool dfa_not(struct dfa *d, struct error *e) {
    int32_t sink = dfa_add(d, false, e);
    if (sink < 0) return false;
    for (size_t i = 0; i < d->states * d->classes; i++)
        if (d->next[i] < 0) d->next[i] = sink;
    for (size_t i = 0; i < d->states; i++) d->final[i] = !d->final[i];
    return true;
}

bool dfa_has(const struct dfa *d, struct sv text) {
    int32_t state = 0;
    size_t len;
    for (size_t i = 0; i < text.n && state >= 0; i += len) {
        int32_t c = utf8_decode(text, i, &len);
        state = c < 0 ? -1 : d->next[(size_t)state * d->classes + dfa_class(d, (uint32_t)c)];
    }
    return state >= 0 && d->final[state];
}

// All states of d are reached from the first.
bool dfa_empty(const struct dfa *d) {
    for (size_t i = 0; i < d->states; i++)
        if (d->final[i]) return false;
    return true;
}

// --- as rules ------------------------------------------------------------------------------------

static void add_quoted(struct syntax *s, int32_t alt, uint32_t lo, uint32_t hi, char quote) {
    const char named[] = {'\b', '\t', '\n', '\f', '\r', '\\', quote, 0}, *letters = "btnfr\\";
    for (uint32_t c = lo; c <= hi && c <= '\\'; c++) {
        const char *at = c ? strchr(named, (int)c) : NULL;
        bool escaped = c < 0x20 || at;
        if (!escaped) {
            syn_add_chars(s, alt, c, c);
            continue;
        }
        struct str spelled = {0};
        if (at)
            str_printf(&spelled, "\\%c", *at == quote ? quote : letters[at - named]);
        else
            str_printf(&spelled, "\\u%04x", (unsigned)c);
        syn_add(s, alt, syn_text(s, str_sv(&spelled)));
        str_free(&spelled);
    }
    if (hi > '\\') syn_add_chars(s, alt, lo > '\\' ? lo : '\\' + 1, hi);
}

// A call of the rule for a set of characters; the same set is the same rule.
static int32_t set_call(struct syntax *s, struct map *known, const struct chars *set, char quote) {
    struct sv key = sv_n((const char *)set->range, set->n * sizeof *set->range);
    int64_t rule = map_get(known, key);
    if (rule < 0) {
        int32_t alt = syn_alt(s);
        for (size_t i = 0; i < set->n; i++) {
            if (quote)
                add_quoted(s, alt, set->range[i].lo, set->range[i].hi, quote);
            else
                syn_add_chars(s, alt, set->range[i].lo, set->range[i].hi);
        }
        rule = syn_rule(s, sv("character"));
        syn_define(s, (int32_t)rule, alt);
        map_put(known, key, rule);
    }
    return syn_call(s, (int32_t)rule);
}

// The classes of a state by where they lead, in the order of the first of each.
struct targets {
    int32_t *to; // [n] states
    size_t n;
    size_t *first; // [states] the first class that leads there
    size_t *last;  // [states] so far
    size_t *next;  // [classes] the next one that leads to the same, 0: none
    size_t *seen;  // [states] by which state (+ 1) they were set
};

static struct targets targets_open(const struct dfa *d) {
    return (struct targets){.to = mem_array(d->classes, sizeof(int32_t)),
                            .first = mem_array(d->states, sizeof(size_t)),
                            .last = mem_array(d->states, sizeof(size_t)),
                            .next = mem_array(d->classes, sizeof(size_t)),
                            .seen = mem_array(d->states, sizeof(size_t))};
}

static void targets_close(struct targets *t) {
    free(t->to);
    free(t->first);
    free(t->last);
    free(t->next);
    free(t->seen);
}

static void find_targets(struct targets *t, const struct dfa *d, size_t state) {
    t->n = 0;
    for (size_t c = 0; c < d->classes; c++) {
        int32_t to = d->next[state * d->classes + c];
        t->next[c] = 0;
        if (to < 0) continue;
        if (t->seen[to] == state + 1) {
            t->next[t->last[to]] = c;
        } else {
            t->seen[to] = state + 1;
            t->first[to] = c;
            t->to[t->n++] = to;
        }
        t->last[to] = c;
    }
}

static void set_to(const struct dfa *d, const struct targets *t, int32_t to, struct chars *set) {
    size_t c = t->first[to];
    set->n = 0;
    do {
        chars_add(set, d->low[c], c + 1 < d->classes ? d->low[c + 1] - 1 : CHAR_LAST);
        c = t->next[c];
    } while (c);
    chars_tidy(set, false);
}

int32_t dfa_rule(struct syntax *s, const struct dfa *d, char quote, const char *name) {
    int32_t first = (int32_t)s->rules;
    struct map known = {0};
    struct chars set = {0};
    struct targets t = targets_open(d);
    for (size_t i = 0; i < d->states; i++) syn_rule(s, sv(name));
    for (size_t i = 0; i < d->states && effort_work(s->effort, d->classes, s->e); i++) {
        int32_t alt = syn_alt(s);
        if (d->final[i]) syn_add(s, alt, syn_seq(s));
        find_targets(&t, d, i);
        for (size_t k = 0; k < t.n && !s->e->set; k++) {
            int32_t seq = syn_seq(s);
            set_to(d, &t, t.to[k], &set);
            syn_add(s, seq, set_call(s, &known, &set, quote));
            syn_add(s, seq, syn_call(s, first + t.to[k]));
            syn_add(s, alt, seq);
        }
        syn_define(s, first + (int32_t)i, alt);
    }
    targets_close(&t);
    map_free(&known);
    chars_free(&set);
    return first;
}
