#include "server/completion.h"

#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"

enum { WAIT_MS = 50 };

static void make_id(char *id, size_t room, const char *kind) {
    struct str s = {0};
    str_puts(&s, kind);
    random_letters(&s);
    for (size_t i = 0; i < room; i++) id[i] = i < s.n && i + 1 < room ? s.p[i] : 0;
    str_free(&s);
}

static void submit(struct completion *c, struct refusal *r) {
    struct worker *w = c->service->worker;
    bool full;
    if (c->ask.choices > worker_most(w)) {
        refuse(r, 400, "n",
               "\"n\" is %zu; this server makes and queues %zu answers at most "
               "(--parallel, --max-queue-depth)",
               c->ask.choices, worker_most(w));
        return;
    }
    struct request request = {
        .prompt = c->ask.prompt.ids.id,
        .n = c->ask.prompt.ids.n,
        .max_new = c->ask.max_new,
        .sampling = c->ask.sampling,
        .loop = c->ask.loop,
        .chances = c->ask.logprobs ? CHANCES_LOGITS : CHANCES_NONE,
        .tops = c->ask.tops,
        .stop_ids = c->ask.stop_ids.id,
        .stop_count = c->ask.stop_ids.n,
        .common = c->ask.prompt.common,
        .uncached = c->service->o->uncached,
    };
    c->job = worker_submit(w, &request, c->ask.choices, &full);
    if (!c->job && full)
        refuse(r, 429, NULL,
               "the queue is full: try again (--parallel and --max-queue-depth set its length)");
    else if (!c->job)
        refuse(r, 503, NULL, "the server is stopping");
}

// Reasoning that stays inside the content has no marks.
static struct reply *open_reply(const struct completion *c) {
    const struct text_prompt *p = &c->ask.prompt;
    struct reply_format f = *p->reply;
    struct reply_options opt = {.opened = p->opened, .tools = c->ask.tools};
    if (c->service->o->reasoning == REASONING_INSIDE) {
        f.think_open = f.think_close = sv("");
        opt.opened = false;
    }
    return reply_open(&f, &opt);
}

static void open_choices(struct completion *c, const struct text_model *m) {
    struct sv stop[ASK_STOPS];
    for (size_t i = 0; i < c->ask.stops; i++) stop[i] = str_sv(&c->ask.stop[i]);
    c->open = c->ask.choices;
    c->choice = mem_array(c->open, sizeof *c->choice);
    for (size_t i = 0; i < c->open; i++) {
        struct choice *ch = &c->choice[i];
        ch->index = i;
        ch->text = text_stream_open(m, c->ask.prompt.reply, stop, c->ask.stops);
        if (c->api->chat) ch->reply = open_reply(c);
    }
}

struct completion *completion_start(const struct service *s, const struct api *api,
                                    struct json_object *body, struct refusal *r) {
    const struct text_model *m = worker_model(s->worker);
    struct completion *c = mem_alloc(sizeof *c);
    c->service = s;
    c->api = api;
    c->tokenizer = m->tokenizer;
    c->created = (int64_t)time(NULL);
    c->began = c->told = clock_now();
    make_id(c->id, sizeof c->id, api->id);
    if (api->read(&c->ask, body, m, s->o, r)) submit(c, r);
    if (r->status) {
        completion_close(c);
        return NULL;
    }
    c->prompt = c->ask.prompt.ids.n;
    open_choices(c, m);
    return c;
}

void completion_close(struct completion *c) {
    if (!c) return;
    if (c->api->close) c->api->close(c);
    job_close(c->job);
    for (size_t i = 0; c->choice && i < c->ask.choices; i++) {
        struct choice *ch = &c->choice[i];
        text_stream_close(ch->text);
        reply_close(ch->reply);
        str_free(&ch->piece);
        reply_message_free(&ch->said);
        logprobs_free(&ch->logprobs);
    }
    free(c->choice);
    ask_free(&c->ask);
    job_news_free(&c->news);
    free(c);
}

bool completion_keeps(const struct completion *c) { return c->ask.tools != NULL; }
int64_t completion_cached(const struct completion *c) { return job_cached(c->job); }
size_t completion_shown(const struct choice *ch) { return text_stream_out(ch->text); }
struct sv completion_stop(const struct choice *ch) {
    return text_stream_stop(ch->text);
}

const char *completion_finish(const struct choice *ch) {
    return ch->calls && ch->finish == FINISH_STOP ? "tool_calls" : finish_name(ch->finish);
}

// --- tokens to text ------------------------------------------------------------------------------

// A client that only closed its sending side counts as gone too, as for nginx: who has left can't
// be told from it before something is sent.
static bool client_gone(int client) {
    struct pollfd p = {.fd = client, .events = POLLRDHUP};
    return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

// Takes an answer's news. The text before a stop string or a stop id is the answer's.
static void take(struct completion *c, struct choice *ch) {
    const struct job_news *news = &c->news;
    size_t from = 0;
    for (size_t i = 0; i < news->ids.n && ch->finish == FINISH_NOT; i++) {
        bool stop_id = news->finish == FINISH_STOP && i + 1 == news->ids.n;
        c->moved = clock_now();
        if (c->tokens++ == 0) c->first = c->moved;
        if (stop_id) continue;
        if (c->ask.logprobs)
            logprobs_add(&ch->logprobs, news->ids.id[i], text_stream_size(ch->text), news, &from);
        if (!text_stream_push(ch->text, news->ids.id[i], &ch->piece)) continue;
        ch->finish = FINISH_STOP;
        job_cancel(c->job, ch->index);
    }
    if (ch->finish == FINISH_NOT) ch->finish = news->finish;
    if (ch->finish != FINISH_NOT) text_stream_finish(ch->text, &ch->piece);
    if (!ch->reply) return;
    reply_push(ch->reply, str_sv(&ch->piece));
    if (ch->finish != FINISH_NOT) reply_finish(ch->reply);
}

// The next part of an answer. Where one call is wanted, nothing comes after it.
static bool next_part(struct completion *c, struct choice *ch, struct reply_event *e) {
    if (!ch->reply) {
        *e = (struct reply_event){.kind = REPLY_CONTENT, .text = str_sv(&ch->piece)};
        ch->piece.n = 0; // its bytes stay until the next wait
        return e->text.n > 0;
    }
    if (ch->calls && c->ask.one_call) return false;
    if (!reply_next(ch->reply, e)) return false;
    if (e->kind == REPLY_CALL_END) ch->calls++;
    if (!ch->calls || !c->ask.one_call) return true;
    if (ch->finish == FINISH_NOT) job_cancel(c->job, ch->index);
    // The answer ends here, though the model may have gone on to the limit in the meantime.
    ch->finish = FINISH_STOP;
    return true;
}

static bool late(const struct completion *c) {
    const struct server_options *o = c->service->o;
    double now = clock_now();
    return (o->request_timeout && now - c->began > o->request_timeout) ||
           (o->token_timeout && c->first > 0 && now - c->moved > o->token_timeout);
}

// The next piece of text, of *out. COMPLETION_MORE may come without any: *out is NULL then.
static enum completion_news advance(struct completion *c, int client, struct choice **out) {
    *out = NULL;
    if (!c->open) return COMPLETION_END;
    bool any = job_wait(c->job, WAIT_MS, &c->news);
    struct choice *ch = &c->choice[any ? c->news.choice : 0];
    str_clear(&ch->piece);
    if (any && ch->finish == FINISH_NOT) { // else what it was cut off from
        if (c->news.finish == FINISH_CANCELLED) return COMPLETION_LOST;
        take(c, ch);
        *out = ch;
    }
    bool gone = client_gone(client);
    if (!gone && !late(c)) return COMPLETION_MORE;
    job_cancel_all(c->job);
    if (ch->finish == FINISH_NOT) ch->finish = FINISH_CANCELLED;
    return gone ? COMPLETION_GONE : COMPLETION_LATE;
}

// --- the whole answer ----------------------------------------------------------------------------

enum completion_news completion_whole(struct completion *c, int client, struct str *out) {
    enum completion_news news;
    struct reply_event e;
    struct choice *ch;
    for (size_t i = 0; i < c->ask.choices && c->ask.echo; i++)
        str_add(&c->choice[i].said.content, str_sv(&c->ask.echoed));
    while ((news = advance(c, client, &ch)) == COMPLETION_MORE) {
        if (!ch) continue;
        while (next_part(c, ch, &e)) reply_message_add(&ch->said, &e);
        c->open -= ch->finish != FINISH_NOT;
    }
    if (news == COMPLETION_END) c->api->whole(out, c);
    return news;
}

// --- events --------------------------------------------------------------------------------------

static void add_parts(struct str *out, struct completion *c, struct choice *ch) {
    struct reply_event e;
    while (next_part(c, ch, &e)) c->api->part(out, c, ch, &e);
    if (ch->finish == FINISH_NOT) return;
    c->api->finish(out, c, ch);
    c->open--;
}

// Something that no reader of events sees, so that proxies know that the stream goes on.
static void add_ping(struct str *out, const struct completion *c) {
    unsigned after = c->service->o->ping;
    if (after && clock_now() - c->told >= after) str_puts(out, ":\n\n");
}

enum completion_news completion_events(struct completion *c, int client, struct str *out) {
    if (c->ended) return COMPLETION_END;
    if (!c->opened) c->api->open(out, c);
    c->opened = true;
    enum completion_news news = COMPLETION_MORE;
    struct choice *ch;
    while (news == COMPLETION_MORE && !out->n) {
        news = advance(c, client, &ch);
        if (ch) add_parts(out, c, ch);
        if (news == COMPLETION_MORE && !out->n) add_ping(out, c);
    }
    c->told = clock_now();
    if (news != COMPLETION_END) return news;
    c->api->end(out, c);
    c->ended = true;
    return COMPLETION_MORE;
}
