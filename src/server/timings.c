#include "server/timings.h"

#include "base/clock.h"

static double per(double amount, double of) { return of > 0 ? amount / of : 0; }

// The first token comes with the prompt's last step, so it is none of the steps that are counted.
static void add_part(struct str *s, const char *name, int64_t n, int64_t steps, double ms) {
    str_printf(s,
               ",\"%s_n\":%lld,\"%s_ms\":%.15g,\"%s_per_token_ms\":%.15g,"
               "\"%s_per_second\":%.15g",
               name, (long long)n, name, ms, name, per(ms, (double)steps), name,
               per(1e3 * (double)steps, ms));
}

void timings_write(struct str *out, const struct job_facts *f, size_t made) {
    int64_t prompt = f->done > f->cached ? f->done - f->cached : 0, n = (int64_t)made;
    str_printf(out, "\"timings\":{\"cache_n\":%lld", (long long)f->cached);
    add_part(out, "prompt", prompt, prompt, prompt ? (f->prompted - f->began) * 1e3 : 0);
    add_part(out, "predicted", n, n > 1 ? n - 1 : 0, n > 1 ? (f->last - f->prompted) * 1e3 : 0);
    str_addc(out, '}');
}

void timings_progress(struct str *out, const struct job_facts *f, size_t total) {
    double ms = f->began > 0 ? (clock_now() - f->began) * 1e3 : 0;
    str_printf(out,
               "\"prompt_progress\":{\"total\":%zu,\"cache\":%lld,\"processed\":%lld,"
               "\"time_ms\":%lld}",
               total, (long long)f->cached, (long long)f->done, (long long)ms);
}
