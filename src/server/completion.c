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
    const char *model; // its name
    bool chat;
    char id[40];
    int64_t created; // seconds since 1970
    double began, first;
    struct ask ask;
    struct job *job;
    struct text_stream *text;
    struct ids ids;   // of one wait
    struct str piece; // of the text
    size_t tokens;
    enum finish finish;
    bool opened, ended; // the first and the last event were written
};

static void make_id(char *id, size_t room, bool chat) {
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    unsigned char random[ID_RANDOM] = {0};
    struct str s = {0};
    str_puts(&s, chat ? "chatcmpl-" : "cmpl-");
    if (getrandom(random, sizeof random, 0) < 0) random[0] = (unsigned char)clock_now();
    for (int i = 0; i < ID_RANDOM; i++) str_addc(&s, digits[random[i] % (sizeof digits - 1)]);
    for (size_t i = 0; i < room; i++) id[i] = i < s.n && i + 1 < room ? s.p[i] : 0;
    str_free(&s);
}

static void submit(struct completion *c, struct worker *w, struct refusal *r) {
    const struct text_model *m = worker_model(w);
    bool full;
    struct request request = {
        .prompt = c->ask.prompt.id,
        .n = c->ask.prompt.n,
        .max_new = c->ask.max_new,
        .sampling = c->ask.sampling,
        .stop_ids = m->defaults.eos,
        .stop_count = c->ask.ignore_eos ? 0 : m->defaults.eos_count,
    };
    c->job = worker_submit(w, &request, &full);
    if (!c->job && full)
        refuse(r, 429, NULL,
               "the queue is full: try again (--parallel and --max-queue-depth set its length)");
    else if (!c->job)
        refuse(r, 503, NULL, "the server is stopping");
}

struct completion *completion_start(struct worker *w, bool chat, struct sv body, const char *model,
                                    struct refusal *r) {
    const struct text_model *m = worker_model(w);
    struct completion *c = mem_alloc(sizeof *c);
    c->model = model;
    c->chat = chat;
    c->created = (int64_t)time(NULL);
    c->began = clock_now();
    make_id(c->id, sizeof c->id, chat);
    if (ask_read(&c->ask, chat, body, m, r)) submit(c, w, r);
    if (r->status) {
        completion_close(c);
        return NULL;
    }
    struct sv stop[ASK_STOPS];
    for (size_t i = 0; i < c->ask.stops; i++) stop[i] = str_sv(&c->ask.stop[i]);
    c->text = text_stream_open(m, stop, c->ask.stops);
    return c;
}

void completion_close(struct completion *c) {
    if (!c) return;
    job_close(c->job);
    text_stream_close(c->text);
    ask_free(&c->ask);
    ids_free(&c->ids);
    str_free(&c->piece);
    free(c);
}

bool completion_streams(const struct completion *c) { return c->ask.stream; }

struct completion_facts completion_facts(const struct completion *c) {
    return (struct completion_facts){
        .id = c->id,
        .prompt = c->ask.prompt.n,
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
    json_quote(s, sv(c->model));
    str_puts(s, ",\"system_fingerprint\":\"mlxcel-" MLXCEL_VERSION "\"");
}

static void add_finish(struct str *s, enum finish f) {
    if (f == FINISH_NOT)
        str_puts(s, "\"finish_reason\":null");
    else
        str_printf(s, "\"finish_reason\":\"%s\"", finish_name(f));
}

static void add_usage(struct str *s, const struct completion *c) {
    str_printf(s,
               ",\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu}",
               c->ask.prompt.n, c->tokens, c->ask.prompt.n + c->tokens);
}

enum completion_news completion_whole(struct completion *c, int client, struct str *out) {
    struct str text = {0};
    enum completion_news news;
    while ((news = advance(c, client)) == COMPLETION_MORE) str_add(&text, str_sv(&c->piece));
    add_head(out, c, c->chat ? "chat.completion" : "text_completion");
    str_puts(out, c->chat ? ",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
                            "\"content\":"
                          : ",\"choices\":[{\"index\":0,\"text\":");
    json_quote(out, str_sv(&text));
    str_puts(out, c->chat ? "},\"logprobs\":null," : ",\"logprobs\":null,");
    add_finish(out, c->finish);
    str_puts(out, "}]");
    add_usage(out, c);
    str_addc(out, '}');
    str_free(&text);
    return news;
}

// What an event of a chat says besides text.
enum delta { DELTA_ROLE, DELTA_TEXT, DELTA_END };

static void add_event(struct str *s, const struct completion *c, enum delta d, struct sv text) {
    str_puts(s, "data: ");
    add_head(s, c, c->chat ? "chat.completion.chunk" : "text_completion");
    str_puts(s, ",\"choices\":[{\"index\":0,");
    if (!c->chat)
        str_puts(s, "\"text\":");
    else if (d == DELTA_ROLE)
        str_puts(s, "\"delta\":{\"role\":\"assistant\",\"content\":");
    else if (d == DELTA_TEXT)
        str_puts(s, "\"delta\":{\"content\":");
    else
        str_puts(s, "\"delta\":{");
    if (!c->chat || d != DELTA_END) json_quote(s, text);
    str_puts(s, c->chat ? "},\"logprobs\":null," : ",\"logprobs\":null,");
    add_finish(s, d == DELTA_END ? c->finish : FINISH_NOT);
    str_puts(s, c->ask.include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n");
}

static void add_end(struct str *s, struct completion *c) {
    add_event(s, c, DELTA_END, sv(""));
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
        add_event(out, c, DELTA_ROLE, sv(""));
        return COMPLETION_MORE;
    }
    enum completion_news news;
    do { news = advance(c, client); } while (news == COMPLETION_MORE && !c->piece.n);
    if (news == COMPLETION_END)
        add_end(out, c);
    else if (news == COMPLETION_MORE)
        add_event(out, c, DELTA_TEXT, str_sv(&c->piece));
    return news == COMPLETION_END ? COMPLETION_MORE : news;
}
