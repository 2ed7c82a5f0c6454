#include "server/completion.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

enum { ID_RANDOM = 24, WAIT_MS = 50 };

struct completion {
    const struct server_options *o;
    bool chat;
    char id[40];
    int64_t created; // seconds since 1970
    double began, first;
    struct ask ask;
    struct job *job;
    struct text_stream *text;
    struct reply *reply; // of a chat
    struct ids ids;      // of one wait
    struct str piece;    // of the text
    size_t tokens;
    size_t calls; // of tools, whole ones
    enum finish finish;
    bool opened, ended; // the first and the last event were written
};

static void add_random(struct str *s) {
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    unsigned char random[ID_RANDOM] = {0};
    if (getrandom(random, sizeof random, 0) < 0) random[0] = (unsigned char)clock_now();
    for (int i = 0; i < ID_RANDOM; i++) str_addc(s, digits[random[i] % (sizeof digits - 1)]);
}

static void make_id(char *id, size_t room, bool chat) {
    struct str s = {0};
    str_puts(&s, chat ? "chatcmpl-" : "cmpl-");
    add_random(&s);
    for (size_t i = 0; i < room; i++) id[i] = i < s.n && i + 1 < room ? s.p[i] : 0;
    str_free(&s);
}

static void submit(struct completion *c, struct worker *w, struct refusal *r) {
    bool full;
    struct request request = {
        .prompt = c->ask.prompt.ids.id,
        .n = c->ask.prompt.ids.n,
        .max_new = c->ask.max_new,
        .sampling = c->ask.sampling,
        .loop = c->ask.loop,
        .stop_ids = c->ask.stop_ids.id,
        .stop_count = c->ask.stop_ids.n,
    };
    c->job = worker_submit(w, &request, &full);
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
    c->text = text_stream_open(m, c->ask.prompt.reply, stop, c->ask.stops);
    if (chat) c->reply = open_reply(c);
    return c;
}

void completion_close(struct completion *c) {
    if (!c) return;
    job_close(c->job);
    text_stream_close(c->text);
    reply_close(c->reply);
    ask_free(&c->ask);
    ids_free(&c->ids);
    str_free(&c->piece);
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
        .finish = c->finish,
    };
}

// --- tokens to text ------------------------------------------------------------------------------

// A client that only closed its sending side counts as gone too, as for nginx: who has left can't
// be told from it before something is sent.
static bool client_gone(int client) {
    struct pollfd p = {.fd = client, .events = POLLRDHUP};
    return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

// Takes the ids of one wait. The text before a stop string or a stop id is the answer's.
static void take(struct completion *c, enum finish f) {
    for (size_t i = 0; i < c->ids.n && c->finish == FINISH_NOT; i++) {
        bool stop_id = f == FINISH_STOP && i + 1 == c->ids.n;
        if (c->tokens++ == 0) c->first = clock_now();
        if (stop_id || !text_stream_push(c->text, c->ids.id[i], &c->piece)) continue;
        c->finish = FINISH_STOP;
        job_cancel(c->job);
    }
    if (c->finish == FINISH_NOT) c->finish = f;
    if (c->finish != FINISH_NOT) text_stream_finish(c->text, &c->piece);
    if (!c->reply) return;
    reply_push(c->reply, str_sv(&c->piece));
    if (c->finish != FINISH_NOT) reply_finish(c->reply);
}

// The next part of a chat's answer. Where one call is wanted, nothing comes after it.
static bool next_part(struct completion *c, struct reply_event *e) {
    if (c->calls && c->ask.one_call) return false;
    if (!reply_next(c->reply, e)) return false;
    if (e->kind == REPLY_CALL_END) c->calls++;
    if (!c->calls || !c->ask.one_call) return true;
    if (c->finish == FINISH_NOT) job_cancel(c->job);
    // The answer ends here, though the model may have gone on to the limit in the meantime.
    c->finish = FINISH_STOP;
    return true;
}

// The next piece of text. COMPLETION_MORE may come without any.
static enum completion_news advance(struct completion *c, int client) {
    str_clear(&c->piece);
    if (c->finish != FINISH_NOT) return COMPLETION_END;
    c->ids.n = 0;
    enum finish f = job_wait(c->job, WAIT_MS, &c->ids);
    if (f == FINISH_CANCELLED) return COMPLETION_LOST;
    take(c, f);
    if (!client_gone(client)) return COMPLETION_MORE;
    job_cancel(c->job);
    if (c->finish == FINISH_NOT) c->finish = FINISH_CANCELLED;
    return COMPLETION_GONE;
}

// --- JSON ----------------------------------------------------------------------------------------

static void add_head(struct str *s, const struct completion *c, const char *object) {
    str_printf(s, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", c->id, object,
               (long long)c->created);
    json_quote(s, sv(c->o->name));
    str_puts(s, ",\"system_fingerprint\":\"mlxcel-" MLXCEL_VERSION "\"");
}

static void add_finish(struct str *s, const struct completion *c) {
    bool called = c->calls && c->finish == FINISH_STOP;
    str_printf(s, "\"finish_reason\":\"%s\"", called ? "tool_calls" : finish_name(c->finish));
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
        add_random(&own);
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

static void gather(struct completion *c, struct reply_message *m) {
    struct reply_event e;
    if (!c->reply) str_add(&m->content, str_sv(&c->piece));
    while (c->reply && next_part(c, &e)) reply_message_add(m, &e);
}

enum completion_news completion_whole(struct completion *c, int client, struct str *out) {
    struct reply_message m = {0};
    enum completion_news news;
    while ((news = advance(c, client)) == COMPLETION_MORE) gather(c, &m);
    add_head(out, c, c->chat ? "chat.completion" : "text_completion");
    str_puts(out, ",\"choices\":[{\"index\":0,");
    if (c->chat)
        add_message(out, c, &m);
    else
        add_text(out, "text", str_sv(&m.content));
    str_puts(out, ",\"logprobs\":null,");
    add_finish(out, c);
    str_puts(out, "}]");
    add_usage(out, c);
    str_addc(out, '}');
    reply_message_free(&m);
    return news;
}

// --- events --------------------------------------------------------------------------------------

static void begin_event(struct str *s, const struct completion *c) {
    str_puts(s, "data: ");
    add_head(s, c, c->chat ? "chat.completion.chunk" : "text_completion");
    str_puts(s, ",\"choices\":[{\"index\":0,");
    if (c->chat) str_puts(s, "\"delta\":{");
}

static void end_event(struct str *s, const struct completion *c, bool last) {
    str_puts(s, c->chat ? "},\"logprobs\":null," : ",\"logprobs\":null,");
    if (last)
        add_finish(s, c);
    else
        str_puts(s, "\"finish_reason\":null");
    str_puts(s, c->ask.include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n");
}

// A lost call's text follows as content; the part of it that the client has can't be taken back.
static void add_part(struct str *s, const struct completion *c, const struct reply_event *e) {
    if (e->kind == REPLY_CALL_END || e->kind == REPLY_CALL_LOST) return;
    begin_event(s, c);
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
    end_event(s, c, false);
}

static void add_parts(struct str *s, struct completion *c) {
    struct reply_event e;
    while (c->reply && next_part(c, &e)) add_part(s, c, &e);
    if (c->reply || !c->piece.n) return;
    begin_event(s, c);
    add_text(s, "text", str_sv(&c->piece));
    end_event(s, c, false);
}

static void add_end(struct str *s, struct completion *c) {
    begin_event(s, c);
    if (!c->chat) add_text(s, "text", sv(""));
    end_event(s, c, true);
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

enum completion_news completion_events(struct completion *c, int client, struct str *out) {
    if (c->ended) return COMPLETION_END;
    if (!c->opened && c->chat) {
        c->opened = true;
        begin_event(out, c);
        str_puts(out, "\"role\":\"assistant\",\"content\":\"\"");
        end_event(out, c, false);
        return COMPLETION_MORE;
    }
    enum completion_news news;
    do {
        news = advance(c, client);
        if (news == COMPLETION_MORE) add_parts(out, c);
    } while (news == COMPLETION_MORE && !out->n);
    if (news == COMPLETION_END) add_end(out, c);
    return news == COMPLETION_END ? COMPLETION_MORE : news;
}
