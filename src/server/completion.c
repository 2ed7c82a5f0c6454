#include "server/completion.h"

#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "server/logprobs.h"
#include "base/random.h"

enum { WAIT_MS = 50 };

// One of the answers.
struct choice {
    size_t index;
    struct text_stream *text;
    struct reply *reply;       // of a chat
    struct str piece;          // of the text, of one wait
    struct reply_message said; // of a whole answer
    struct logprobs logprobs;
    size_t calls; // of tools, whole ones
    enum finish finish;
};

struct completion {
    const struct server_options *o;
    const struct tokenizer *tokenizer;
    bool chat;
    char id[40];
    int64_t created; // seconds since 1970
    double began, first;
    struct ask ask;
    struct job *job;
    struct choice *choice; // [ask.choices]
    size_t open;           // of them, that are not finished
    struct job_news news;
    size_t tokens;
    bool opened, ended; // the first and the last event were written
};

static void make_id(char *id, size_t room, bool chat) {
    struct str s = {0};
    str_puts(&s, chat ? "chatcmpl-" : "cmpl-");
    random_letters(&s);
    for (size_t i = 0; i < room; i++) id[i] = i < s.n && i + 1 < room ? s.p[i] : 0;
    str_free(&s);
}

static void submit(struct completion *c, struct worker *w, struct refusal *r) {
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
    if (c->o->reasoning == REASONING_INSIDE) {
        f.think_open = f.think_close = sv("");
        opt.opened = false;
    }
    return reply_open(&f, &opt);
}

struct completion *completion_start(struct worker *w, bool chat, struct sv body,
                                    const struct server_options *o, struct refusal *r) {
    const struct text_model *m = worker_model(w);
    struct completion *c = mem_alloc(sizeof *c);
    c->o = o;
    c->tokenizer = m->tokenizer;
    c->chat = chat;
    c->created = (int64_t)time(NULL);
    c->began = clock_now();
    make_id(c->id, sizeof c->id, chat);
    if (ask_read(&c->ask, chat, body, m, o->kwargs, r)) submit(c, w, r);
    if (r->status) {
        completion_close(c);
        return NULL;
    }
    struct sv stop[ASK_STOPS];
    for (size_t i = 0; i < c->ask.stops; i++) stop[i] = str_sv(&c->ask.stop[i]);
    c->open = c->ask.choices;
    c->choice = mem_array(c->open, sizeof *c->choice);
    for (size_t i = 0; i < c->open; i++) {
        struct choice *ch = &c->choice[i];
        ch->index = i;
        ch->text = text_stream_open(m, c->ask.prompt.reply, stop, c->ask.stops);
        if (chat) ch->reply = open_reply(c);
    }
    return c;
}

void completion_close(struct completion *c) {
    if (!c) return;
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
bool completion_streams(const struct completion *c) { return c->ask.stream; }

struct completion_facts completion_facts(const struct completion *c) {
    return (struct completion_facts){
        .id = c->id,
        .prompt = c->ask.prompt.ids.n,
        .tokens = c->tokens,
        .first = c->first > 0 ? c->first - c->began : 0,
        .finish = c->choice[0].finish,
    };
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
        if (c->tokens++ == 0) c->first = clock_now();
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

// The next part of a chat's answer. Where one call is wanted, nothing comes after it.
static bool next_part(struct completion *c, struct choice *ch, struct reply_event *e) {
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
    if (!client_gone(client)) return COMPLETION_MORE;
    job_cancel_all(c->job);
    if (ch->finish == FINISH_NOT) ch->finish = FINISH_CANCELLED;
    return COMPLETION_GONE;
}

// --- JSON ----------------------------------------------------------------------------------------

static void add_head(struct str *s, const struct completion *c, const char *object) {
    str_printf(s, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", c->id, object,
               (long long)c->created);
    json_quote(s, sv(c->o->name));
    str_puts(s, ",\"system_fingerprint\":\"mlxcel-" MLXCEL_VERSION "\"");
}

static void add_finish(struct str *s, const struct choice *ch) {
    bool called = ch->calls && ch->finish == FINISH_STOP;
    str_printf(s, "\"finish_reason\":\"%s\"", called ? "tool_calls" : finish_name(ch->finish));
}

// What of the chances belongs to the text that was given out.
static void add_logprobs(struct str *s, const struct completion *c, struct choice *ch) {
    str_puts(s, "\"logprobs\":");
    logprobs_write(s, &ch->logprobs, c->tokenizer, c->chat, text_stream_out(ch->text));
}

static void add_usage(struct str *s, const struct completion *c) {
    str_printf(s,
               ",\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu,"
               "\"prompt_tokens_details\":{\"cached_tokens\":%lld}}",
               c->ask.prompt.ids.n, c->tokens, c->ask.prompt.ids.n + c->tokens,
               (long long)job_cached(c->job));
}

// "name":"text"
static void add_text(struct str *s, const char *name, struct sv text) {
    str_printf(s, "\"%s\":", name);
    json_quote(s, text);
}

static void add_reasoning(struct str *s, const struct completion *c, struct sv text) {
    add_text(s, "reasoning_content", text);
    if (c->o->reasoning != REASONING_AND_ALIAS) return;
    str_addc(s, ',');
    add_text(s, "reasoning", text);
}

// An id is the model's, or ours.
static void add_call(struct str *s, struct sv id, struct sv name, struct sv arguments) {
    struct str own = {0};
    if (!id.n) {
        str_puts(&own, "call_");
        random_letters(&own);
        id = str_sv(&own);
    }
    add_text(s, "id", id);
    str_puts(s, ",\"type\":\"function\",\"function\":{");
    add_text(s, "name", name);
    str_addc(s, ',');
    add_text(s, "arguments", arguments);
    str_addc(s, '}');
    str_free(&own);
}

// --- the whole answer ----------------------------------------------------------------------------

static void add_message(struct str *s, const struct completion *c, const struct reply_message *m) {
    str_puts(s, "\"message\":{\"role\":\"assistant\",");
    if (m->calls && !m->content.n)
        str_puts(s, "\"content\":null");
    else
        add_text(s, "content", str_sv(&m->content));
    if (m->reasoning.n) {
        str_addc(s, ',');
        add_reasoning(s, c, str_sv(&m->reasoning));
    }
    for (size_t i = 0; i < m->calls; i++) {
        const struct reply_call *call = &m->call[i];
        str_puts(s, i ? ",{" : ",\"tool_calls\":[{");
        add_call(s, str_sv(&call->id), str_sv(&call->name), str_sv(&call->arguments));
        str_addc(s, '}');
    }
    str_puts(s, m->calls ? "]}" : "}");
}

static void gather(struct completion *c, struct choice *ch) {
    struct reply_event e;
    if (!ch->reply) str_add(&ch->said.content, str_sv(&ch->piece));
    while (ch->reply && next_part(c, ch, &e)) reply_message_add(&ch->said, &e);
    c->open -= ch->finish != FINISH_NOT;
}

static void add_choice(struct str *s, const struct completion *c, struct choice *ch) {
    str_printf(s, "{\"index\":%zu,", ch->index);
    if (c->chat)
        add_message(s, c, &ch->said);
    else
        add_text(s, "text", str_sv(&ch->said.content));
    str_addc(s, ',');
    add_logprobs(s, c, ch);
    str_addc(s, ',');
    add_finish(s, ch);
    str_addc(s, '}');
}

enum completion_news completion_whole(struct completion *c, int client, struct str *out) {
    enum completion_news news;
    struct choice *ch;
    for (size_t i = 0; i < c->ask.choices && c->ask.echo; i++)
        str_add(&c->choice[i].said.content, str_sv(&c->ask.echoed));
    while ((news = advance(c, client, &ch)) == COMPLETION_MORE)
        if (ch) gather(c, ch);
    add_head(out, c, c->chat ? "chat.completion" : "text_completion");
    str_puts(out, ",\"choices\":[");
    for (size_t i = 0; i < c->ask.choices; i++) {
        if (i) str_addc(out, ',');
        add_choice(out, c, &c->choice[i]);
    }
    str_addc(out, ']');
    add_usage(out, c);
    str_addc(out, '}');
    return news;
}

// --- events --------------------------------------------------------------------------------------

static void begin_event(struct str *s, const struct completion *c, const struct choice *ch) {
    str_puts(s, "data: ");
    add_head(s, c, c->chat ? "chat.completion.chunk" : "text_completion");
    str_printf(s, ",\"choices\":[{\"index\":%zu,", ch->index);
    if (c->chat) str_puts(s, "\"delta\":{");
}

static void end_event(struct str *s, const struct completion *c, struct choice *ch, bool last) {
    str_puts(s, c->chat ? "}," : ",");
    add_logprobs(s, c, ch);
    str_addc(s, ',');
    if (last)
        add_finish(s, ch);
    else
        str_puts(s, "\"finish_reason\":null");
    str_puts(s, c->ask.include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n");
}

// A lost call's text follows as content; the part of it that the client has can't be taken back.
static void add_part(struct str *s, const struct completion *c, struct choice *ch,
                     const struct reply_event *e) {
    if (e->kind == REPLY_CALL_END || e->kind == REPLY_CALL_LOST) return;
    begin_event(s, c, ch);
    if (e->kind == REPLY_CONTENT) {
        add_text(s, "content", e->text);
    } else if (e->kind == REPLY_REASONING) {
        add_reasoning(s, c, e->text);
    } else {
        str_printf(s, "\"tool_calls\":[{\"index\":%zu,", e->call);
        if (e->kind == REPLY_CALL) {
            add_call(s, e->id, e->text, sv(""));
        } else {
            str_puts(s, "\"function\":{");
            add_text(s, "arguments", e->text);
            str_addc(s, '}');
        }
        str_puts(s, "}]");
    }
    end_event(s, c, ch, false);
}

static void add_text_event(struct str *s, const struct completion *c, struct choice *ch,
                           struct sv text) {
    begin_event(s, c, ch);
    add_text(s, "text", text);
    end_event(s, c, ch, false);
}

static void add_parts(struct str *s, struct completion *c, struct choice *ch) {
    struct reply_event e;
    while (ch->reply && next_part(c, ch, &e)) add_part(s, c, ch, &e);
    if (!ch->reply && ch->piece.n) add_text_event(s, c, ch, str_sv(&ch->piece));
    if (ch->finish == FINISH_NOT) return;
    begin_event(s, c, ch);
    if (!c->chat) add_text(s, "text", sv(""));
    end_event(s, c, ch, true);
    c->open--;
}

static void add_end(struct str *s, struct completion *c) {
    if (c->ask.include_usage) {
        str_puts(s, "data: ");
        add_head(s, c, c->chat ? "chat.completion.chunk" : "text_completion");
        str_puts(s, ",\"choices\":[]");
        add_usage(s, c);
        str_puts(s, "}\n\n");
    }
    str_puts(s, "data: [DONE]\n\n");
    c->ended = true;
}

static void add_openings(struct str *s, struct completion *c) {
    for (size_t i = 0; i < c->ask.choices; i++) {
        struct choice *ch = &c->choice[i];
        if (c->chat) {
            begin_event(s, c, ch);
            str_puts(s, "\"role\":\"assistant\",\"content\":\"\"");
            end_event(s, c, ch, false);
        } else if (c->ask.echo) {
            add_text_event(s, c, ch, str_sv(&c->ask.echoed));
        }
    }
    c->opened = true;
}

enum completion_news completion_events(struct completion *c, int client, struct str *out) {
    if (c->ended) return COMPLETION_END;
    if (!c->opened) add_openings(out, c);
    enum completion_news news = COMPLETION_MORE;
    struct choice *ch;
    while (news == COMPLETION_MORE && !out->n) {
        news = advance(c, client, &ch);
        if (ch) add_parts(out, c, ch);
    }
    if (news == COMPLETION_END) add_end(out, c);
    return news == COMPLETION_END ? COMPLETION_MORE : news;
}
