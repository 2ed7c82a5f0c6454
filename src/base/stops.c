#include "base/stops.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void stops_set(struct stops *s, const struct sv *texts, size_t n) {
    *s = (struct stops){.stop = mem_array(n, sizeof *s->stop)};
    for (size_t i = 0; i < n; i++)
        if (texts[i].n) str_add(&s->stop[s->n++], texts[i]);
}

void stops_free(struct stops *s) {
    for (size_t i = 0; i < s->n; i++) str_free(&s->stop[i]);
    free(s->stop);
    str_free(&s->held);
    *s = (struct stops){0};
}

// Where the first stop string begins in the held text, or -1; *by says which.
static ptrdiff_t find(const struct stops *s, size_t *by) {
    ptrdiff_t first = -1;
    for (size_t i = 0; i < s->n; i++) {
        ptrdiff_t at = sv_find(str_sv(&s->held), str_sv(&s->stop[i]), 0);
        if (at < 0 || (first >= 0 && at >= first)) continue;
        first = at;
        *by = i;
    }
    return first;
}

// Bytes at the end of the held text that a stop string may go on from.
static size_t undecided(const struct stops *s) {
    struct sv held = str_sv(&s->held);
    size_t most = 0;
    for (size_t i = 0; i < s->n; i++) {
        struct sv stop = str_sv(&s->stop[i]);
        size_t n = stop.n - 1 < held.n ? stop.n - 1 : held.n;
        while (n > most && !sv_ends(held, sv_cut(stop, 0, n))) n--;
        if (n > most) most = n;
    }
    return most;
}

static void give(struct stops *s, size_t n, struct str *out) {
    str_add(out, sv_n(s->held.p, n));
    s->held.n -= n;
    if (s->held.n) memmove(s->held.p, s->held.p + n, s->held.n);
}

bool stops_settle(struct stops *s, struct str *out) {
    if (s->found) return true;
    ptrdiff_t at = find(s, &s->by);
    s->found = at >= 0;
    give(s, s->found ? (size_t)at : s->held.n - undecided(s), out);
    return s->found;
}

void stops_finish(struct stops *s, struct str *out) {
    if (!stops_settle(s, out)) give(s, s->held.n, out);
}

struct sv stops_by(const struct stops *s) {
    return s->found ? str_sv(&s->stop[s->by]) : sv("");
}
