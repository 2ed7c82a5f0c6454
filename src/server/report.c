#include "server/report.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

static void add_member(struct str *s, const char *name, struct sv text) {
    if (s->n) str_addc(s, ',');
    str_printf(s, "\"%s\":", name);
    json_quote(s, text);
}

// Seconds; those of what has not happened are left out.
static void add_seconds(struct str *s, const char *name, double seconds) {
    if (seconds > 0) str_printf(s, ",\"%s\":%.4f", name, seconds);
}

struct times {
    double queued, prompt, first, generation; // seconds; 0: it did not come to it
    double rate;                              // tokens a second, after the first
};

static double between(double from, double to) { return from > 0 && to > from ? to - from : 0; }

static struct times times_of(const struct completion *c) {
    struct job_facts f = completion_facts(c, c->choice);
    struct times t = {
        .queued = between(c->began, f.began),
        .prompt = between(f.began, f.prompted),
        .first = between(c->began, c->first),
        .generation = between(f.prompted, f.last),
    };
    if (t.generation > 0) t.rate = (double)(f.made - 1) / t.generation;
    return t;
}

static void tell_completion(const struct completion *c, struct str *text, struct str *members) {
    struct times t = times_of(c);
    const struct choice *ch = c->choice;
    long long cached = (long long)completion_cached(c);
    add_member(members, "answer", sv(c->id));
    str_printf(text, " %s %zu+%zu tokens", c->id, c->prompt, c->tokens);
    str_printf(members, ",\"prompt_tokens\":%zu,\"cached_tokens\":%lld,\"completion_tokens\":%zu",
               c->prompt, cached, c->tokens);
    if (ch->finish != FINISH_NOT) {
        str_printf(text, " %s", finish_name(ch->finish));
        add_member(members, "finish_reason", sv(finish_name(ch->finish)));
    }
    str_printf(text, ", %lld cached, queued %.3f s, prompt %.3f s", cached, t.queued, t.prompt);
    if (t.first > 0) str_printf(text, ", first %.3f s", t.first);
    if (t.rate > 0) str_printf(text, ", %.1f tok/s", t.rate);
    add_seconds(members, "queue_seconds", t.queued);
    add_seconds(members, "prompt_seconds", t.prompt);
    add_seconds(members, "first_token_seconds", t.first);
    add_seconds(members, "generation_seconds", t.generation);
    if (t.rate > 0) str_printf(members, ",\"tokens_per_second\":%.2f", t.rate);
}

void report_request(const struct exchange *x, const struct str *client, bool whole) {
    enum log_level level = x->route && x->route->open ? LOG_DEBUG : LOG_INFO; // probes are many
    struct str text = {0}, members = {0};
    double seconds = clock_now() - x->began;
    if (!log_shows(level)) return;
    str_printf(&text, "%s %s %s %s %u", str_c(client), x->id, x->method, x->path, x->status);
    add_member(&members, "client", str_sv(client));
    add_member(&members, "id", sv(x->id));
    add_member(&members, "method", sv(x->method));
    add_member(&members, "path", sv(x->path));
    str_printf(&members, ",\"status\":%u", x->status);
    if (x->completion) tell_completion(x->completion, &text, &members);
    str_printf(&text, ", %.3f s%s", seconds, whole ? "" : ", cut off");
    str_printf(&members, ",\"seconds\":%.4f,\"whole\":%s", seconds, whole ? "true" : "false");
    log_event(level, "request", str_sv(&text), str_sv(&members));
    str_free(&text);
    str_free(&members);
}

void report_body(const struct exchange *x) {
    struct str text = {0}, members = {0};
    str_printf(&text, "%s body ", x->id);
    str_add(&text, str_sv(&x->body));
    add_member(&members, "id", sv(x->id));
    add_member(&members, "body", str_sv(&x->body));
    log_event(LOG_INFO, "body", str_sv(&text), str_sv(&members));
    str_free(&text);
    str_free(&members);
}

static double rate(int64_t from, int64_t to, double seconds) {
    return (double)(to - from) / seconds;
}

void report_figures(struct figures *last, struct worker *w, unsigned interval) {
    double now = clock_now(), seconds = now - last->at;
    if (!interval || seconds < interval) return;
    struct figures f = {now, worker_stats(w)}, before = *last;
    const struct engine_stats *a = &before.stats.engine, *b = &f.stats.engine;
    struct str text = {0}, members = {0};
    *last = f;
    if (a->steps == b->steps) return;
    double prompt = rate(a->prompt_tokens, b->prompt_tokens, seconds);
    double made = rate(a->decode_tokens, b->decode_tokens, seconds);
    long long running = (long long)f.stats.running, waiting = (long long)f.stats.waiting;
    long long found = (long long)(b->cached_tokens - a->cached_tokens);
    long long stopped = (long long)(b->preempted - a->preempted);
    str_printf(&text,
               "%lld running, %lld waiting; %.1f tok/s of prompts, %.1f tok/s of answers; %lld of "
               "%lld pages in use; %lld tokens found, %lld answers had to wait again",
               running, waiting, prompt, made, (long long)b->pages_used, (long long)b->pages, found,
               stopped);
    str_printf(&members,
               "\"running\":%lld,\"waiting\":%lld,\"prompt_tokens_per_second\":%.1f,"
               "\"tokens_per_second\":%.1f,\"pages_used\":%lld,\"pages\":%lld,"
               "\"cached_tokens\":%lld,\"preempted\":%lld",
               running, waiting, prompt, made, (long long)b->pages_used, (long long)b->pages, found,
               stopped);
    log_event(LOG_INFO, "figures", str_sv(&text), str_sv(&members));
    str_free(&text);
    str_free(&members);
}
