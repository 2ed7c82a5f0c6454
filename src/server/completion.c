#include "server/completion.h"

#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "server/ask_prompt.h"
#include "server/settings.h"

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
    const struct ask *a = &c->ask;
    bool full;
    if (c->choices > worker_most(w)) {
        refuse(r, 400, a->mores ? "prompt" : "n",
               "%zu answers are asked for; this server makes and queues %zu at most (--parallel, "
               "--max-queue-depth)",
               c->choices, worker_most(w));
        return;
    }
    struct str about = {0};
    if (c->service->o->slots) settings_write(&about, a, NULL);
    struct ids *prompt = mem_array(1 + a->mores, sizeof *prompt);
    for (size_t i = 0; i <= a->mores; i++) prompt[i] = *ask_prompt(a, i);
    struct order order = {
        .request =
            {
                .max_new = a->max_new,
                .sampling = a->sampling,
                .loop = a->loop,
                .chances = !a->logprobs ? CHANCES_NONE
                           : a->drawn   ? CHANCES_DRAWN
                                        : CHANCES_LOGITS,
                .tops = a->tops,
                .stop_ids = a->stop_ids.id,
                .stop_count = a->stop_ids.n,
                .common = a->prompt.common,
                .uncached = a->uncached || c->service->o->uncached,
                .priority = a->priority,
            },
        .prompt = prompt,
        .prompts = 1 + a->mores,
        .choices = a->choices,
        .about = about.p,
        .steps = a->progress,
    };
    c->job = worker_submit(w, &order, &full);
    free(prompt);
    str_free(&about);
    if (!c->job && full)
        refuse(r, 429, NULL,
               "the queue is full: try again (--parallel and --max-queue-depth set its length)");
    else if (!c->job)
        refuse(r, 503, NULL, "the server is stopping");
}

// Reasoning that stays inside the content has no marks.
static struct reply *open_reply(const struct completion *c, const struct sv *stop) {
    const struct text_prompt *p = &c->ask.prompt;
    struct reply_format f = *p->reply;
    struct reply_options opt = {
        .opened = p->opened,
        .tools = c->ask.tools,
        .formed = c->ask.formed,
        .stop = stop,
        .stops = c->ask.stops,
    };
    if (c->service->o->reasoning == REASONING_INSIDE) {
        f.think_open = f.think_close = sv("");
        opt.opened = false;
    }
    return reply_open(&f, &opt);
}

static void open_choices(struct completion *c, const struct text_model *m) {
    struct sv stop[ASK_STOPS];
    for (size_t i = 0; i < c->ask.stops; i++) stop[i] = str_sv(&c->ask.stop[i]);
    c->open = c->choices;
    c->choice = mem_array(c->open, sizeof *c->choice);
    for (size_t i = 0; i < c->open; i++) {
        struct choice *ch = &c->choice[i];
        ch->index = i;
        ch->indent = -1;
        // In a chat stop strings are looked for in what the client sees as text.
        ch->text = text_stream_open(m, c->ask.prompt.reply, stop, c->api->chat ? 0 : c->ask.stops);
        if (c->api->chat) ch->reply = open_reply(c, stop);
    }
}

// --- who waits for it ----------------------------------------------------------------------------

// A client that only closed its sending side counts as gone too, as for nginx: who has left can't
// be told from it before something is sent.
bool completion_client_gone(int client) {
    struct pollfd p = {.fd = client, .events = POLLRDHUP};
    return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

static bool late(const struct completion *c) {
    const struct server_options *o = c->service->o;
    double now = clock_now();
    return (o->request_timeout && now - c->began > o->request_timeout) ||
           (o->token_timeout && c->first > 0 && now - c->moved > o->token_timeout);
}

static bool stops(const struct completion *c) {
    enum worker_state state = worker_state(c->service->worker, NULL);
    return state == WORKER_FAILED || state == WORKER_STOPPED;
}

// For struct ask.
static bool unwanted(void *waiting) {
    const struct completion *c = waiting;
    return completion_client_gone(c->client) || late(c) || stops(c);
}

// Why its reading was ended.
static void refuse_unwanted(const struct completion *c, struct refusal *r) {
    if (late(c))
        refuse(r, 504, NULL, "the answer takes too long (--request-timeout)");
    else
        refuse(r, 503, NULL, stops(c) ? "the server is stopping" : "the client has left");
}

// --- the beginning -------------------------------------------------------------------------------

struct completion *completion_start(const struct service *s, const struct api *api,
                                    struct json_object *body, int client, struct refusal *r) {
    const struct text_model *m = worker_model(s->worker);
    struct completion *c = mem_alloc(sizeof *c);
    c->service = s;
    c->api = api;
    c->tokenizer = m->tokenizer;
    c->model = server_options_name(s->o, json_text_at(body, "model"));
    c->created = (int64_t)time(NULL);
    c->began = c->told = clock_now();
    make_id(c->id, sizeof c->id, api->id);
    c->client = client;
    c->ask.defaults = &s->o->defaults;
    c->ask.unwanted = unwanted;
    c->ask.waiting = c;
    if (api->read(&c->ask, body, m, s->o, r)) {
        c->choices = (1 + c->ask.mores) * c->ask.choices;
        submit(c, r);
    } else if (!r->status) {
        refuse_unwanted(c, r);
    }
    if (r->status) {
        completion_close(c);
        return NULL;
    }
    for (size_t i = 0; i <= c->ask.mores; i++) c->prompt += ask_prompt(&c->ask, i)->n;
    open_choices(c, m);
    return c;
}

void completion_close(struct completion *c) {
    if (!c) return;
    if (c->api->close) c->api->close(c);
    job_close(c->job);
    for (size_t i = 0; c->choice && i < c->choices; i++) {
        struct choice *ch = &c->choice[i];
        ids_free(&ch->ids);
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

struct job_facts completion_facts(const struct completion *c, const struct choice *ch) {
    return job_facts(c->job, ch->index);
}

bool completion_progress(const struct completion *c, struct choice *ch, struct job_facts *f) {
    if (!c->ask.progress) return false;
    *f = completion_facts(c, ch);
    bool more = f->done != ch->told;
    ch->told = f->done;
    return more;
}

size_t completion_prompt(const struct completion *c, const struct choice *ch) {
    return ch->index / c->ask.choices;
}

size_t completion_shown(const struct choice *ch) {
    size_t out = text_stream_out(ch->text), unsaid = ch->reply ? reply_unsaid(ch->reply) : 0;
    if (ch->reply && reply_wrapped(ch->reply)) return reply_place(ch->reply).shown;
    return out > unsaid ? out - unsaid : 0;
}

struct sv completion_stop(const struct choice *ch) {
    return ch->reply ? reply_stop(ch->reply) : text_stream_stop(ch->text);
}

const char *completion_finish(const struct choice *ch) {
    return ch->calls && ch->finish == FINISH_STOP ? "tool_calls" : finish_name(ch->finish);
}

// --- tokens to text ------------------------------------------------------------------------------

// Looks at the lines of a piece from byte `from` on. True when the answer ends there: before a line
// that begins with too little white space, which goes, or because its time is over.
static bool cut_off(const struct completion *c, struct choice *ch, size_t from) {
    bool line = false;
    for (size_t i = from; i < ch->piece.n; i++) {
        char byte = ch->piece.p[i];
        bool white = byte == ' ' || byte == '\t';
        if (ch->indent >= 0 && !white && ch->indent < c->ask.indent) {
            ch->piece.n = i;
            return true;
        }
        if (ch->indent >= 0) ch->indent = white ? ch->indent + 1 : -1;
        if (byte != '\n') continue;
        ch->indent = 0;
        ch->lines = line = true;
    }
    return line && c->ask.most_ms > 0 && (clock_now() - c->first) * 1000 > (double)c->ask.most_ms;
}

// Where the next token begins, in characters of the answer.
static size_t place_of(const struct choice *ch) {
    bool wrapped = ch->reply && reply_wrapped(ch->reply);
    return wrapped ? reply_place(ch->reply).said : text_stream_size(ch->text);
}

// Takes a token. True when the answer ends with it.
static bool take_token(struct completion *c, struct choice *ch, int32_t id, bool end,
                       size_t *chance) {
    size_t before = ch->piece.n;
    c->moved = clock_now();
    if (c->tokens++ == 0) c->first = c->moved;
    ch->tokens++;
    if (c->ask.keep_ids) ids_push(&ch->ids, id);
    if (c->ask.logprobs && (!end || c->ask.end_chances))
        logprobs_add(&ch->logprobs, id, place_of(ch), &c->news, chance);
    if (end) return false;
    if (text_stream_push(ch->text, id, &ch->piece))
        ch->finish = FINISH_STOP;
    else if (cut_off(c, ch, before))
        ch->finish = FINISH_LENGTH;
    return ch->finish != FINISH_NOT;
}

// Hands on what came of a token. Of one that ends the reasoning some may be text; one that is no
// part of an answer in an object has no chances. True when the answer ends with it.
static bool push_token(struct completion *c, struct choice *ch, size_t from, size_t logged) {
    if (!ch->reply) return false;
    bool thinks = reply_thinks(ch->reply);
    struct reply_place was = reply_place(ch->reply), is;
    reply_push(ch->reply, sv_cut(str_sv(&ch->piece), from, ch->piece.n));
    c->thought += thinks || reply_thinks(ch->reply);
    is = reply_place(ch->reply);
    if (reply_wrapped(ch->reply) && ch->logprobs.n > logged && is.said == was.said &&
        !(was.inside && is.inside))
        logprobs_drop(&ch->logprobs);
    if (reply_stop(ch->reply).n) ch->finish = FINISH_STOP;
    return ch->finish != FINISH_NOT;
}

// Takes an answer's news. The text before a stop string or a stop id is the answer's.
static void take(struct completion *c, struct choice *ch) {
    const struct job_news *news = &c->news;
    size_t chance = 0;
    bool ended = false;
    for (size_t i = 0; i < news->ids.n && !ended; i++) {
        bool end = news->finish == FINISH_STOP && i + 1 == news->ids.n;
        size_t from = ch->piece.n, logged = ch->logprobs.n;
        ended = take_token(c, ch, news->ids.id[i], end, &chance);
        ended |= push_token(c, ch, from, logged);
    }
    if (ended) job_cancel(c->job, ch->index);
    size_t before = ch->piece.n;
    if (!ended && news->finish != FINISH_NOT) text_stream_finish(ch->text, &ch->piece);
    cut_off(c, ch, before);
    if (!ended) ch->finish = news->finish;
    if (!ch->reply) return;
    reply_push(ch->reply, sv_cut(str_sv(&ch->piece), before, ch->piece.n));
    if (ch->finish == FINISH_NOT) return;
    reply_finish(ch->reply);
    if (reply_stop(ch->reply).n) ch->finish = FINISH_STOP;
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
    bool gone = completion_client_gone(client);
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
    for (size_t i = 0; i < c->choices && c->ask.echo; i++)
        str_add(&c->choice[i].said.content,
                ask_echoed(&c->ask, completion_prompt(c, &c->choice[i])));
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
        if (!ch && c->ask.progress && c->api->progress) c->api->progress(out, c);
        if (ch) add_parts(out, c, ch);
        if (news == COMPLETION_MORE && !out->n) add_ping(out, c);
    }
    c->told = clock_now();
    if (news != COMPLETION_END) return news;
    c->api->end(out, c);
    c->ended = true;
    return out->n ? COMPLETION_MORE : COMPLETION_END;
}
