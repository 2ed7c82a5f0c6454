#include "server/report.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

static void add_member(struct str *s, const char *name, struct sv text) {
    if (s->n) str_addc(s, ',');
    str_printf(s, "\"%s\":", name);
    json_quote(s, text);
}

static double between(double from, double to) { return from > 0 && to > from ? to - from : 0; }

static void tell_completion(const struct completion *c, struct str *text, struct str *members) {
    double first = between(c->began, c->first);
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
    str_printf(text, ", %lld cached", cached);
    if (first > 0) str_printf(text, ", first %.3f s", first);
    if (first > 0) str_printf(members, ",\"first_token_seconds\":%.4f", first);
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
