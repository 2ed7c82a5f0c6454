#include "server/api_responses.h"

#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "server/responses_items.h"

enum kind { NOTHING, REASONING, MESSAGE, CALL };

struct response {
    struct responses_ask ask;
    int64_t sequence;  // of the next event
    struct str output; // the items that are whole, with commas between
    size_t items;      // how many
    const char *status;

    // The item that is being made.
    enum kind kind;
    struct str id, call_id, name, text, chances;
};

void api_responses_begin(struct completion *c, struct responses_ask *q) {
    struct response *r = mem_alloc(sizeof *r);
    c->own = r;
    r->ask = *q;
    r->status = "in_progress";
}

static void close_response(struct completion *c) {
    struct response *r = c->own;
    if (!r) return;
    responses_ask_free(&r->ask);
    str_free(&r->output);
    str_free(&r->id);
    str_free(&r->call_id);
    str_free(&r->name);
    str_free(&r->text);
    str_free(&r->chances);
    free(r);
}

// --- JSON ----------------------------------------------------------------------------------------

static void add_usage(struct str *s, const struct completion *c) {
    str_printf(s,
               ",\"usage\":{\"input_tokens\":%zu,\"input_tokens_details\":{\"cached_tokens\":%lld,"
               "\"cache_write_tokens\":0},\"output_tokens\":%zu,\"output_tokens_details\":{"
               "\"reasoning_tokens\":%zu},\"total_tokens\":%zu}",
               c->prompt, (long long)completion_cached(c), c->tokens, c->thought,
               c->prompt + c->tokens);
}

// The whole response. why: of one that failed.
static void add_response(struct str *s, const struct completion *c, const struct refusal *why) {
    const struct response *r = c->own;
    bool over = !sv_is(sv(r->status), "in_progress");
    str_printf(s,
               "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\","
               "\"background\":false,\"completed_at\":",
               c->id, (long long)c->created, r->status);
    if (sv_is(sv(r->status), "completed"))
        str_printf(s, "%lld", (long long)time(NULL));
    else
        str_puts(s, "null");
    str_puts(s, ",\"error\":");
    if (why) {
        str_puts(s, "{\"code\":\"server_error\",");
        json_member(s, "message", sv(why->why.text));
        str_addc(s, '}');
    } else {
        str_puts(s, "null");
    }
    str_printf(s, ",\"incomplete_details\":%s,",
               sv_is(sv(r->status), "incomplete") ? "{\"reason\":\"max_output_tokens\"}" : "null");
    json_member(s, "model", sv(c->model));
    str_puts(s, ",\"output\":[");
    str_add(s, str_sv(&r->output));
    str_puts(s, "]");
    if (over)
        add_usage(s, c);
    else
        str_puts(s, ",\"usage\":null");
    str_printf(s, ",\"temperature\":%g,\"top_p\":%g", (double)c->ask.sampling.temperature,
               (double)c->ask.sampling.top_p);
    str_add(s, str_sv(&r->ask.echo));
    str_addc(s, '}');
}

// The one part of a message's or reasoning's content.
static void add_part(struct str *s, const struct response *r) {
    if (r->kind == MESSAGE) {
        str_puts(s, "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[");
        str_add(s, str_sv(&r->chances));
        str_puts(s, "],");
    } else {
        str_puts(s, "{\"type\":\"reasoning_text\",");
    }
    json_member(s, "text", str_sv(&r->text));
    str_addc(s, '}');
}

static void add_content(struct str *s, const struct response *r, bool whole) {
    str_puts(s, ",\"content\":[");
    if (whole) add_part(s, r);
    str_addc(s, ']');
}

static void add_item(struct str *s, const struct response *r, const char *status, bool whole) {
    static const char *const types[] = {"", "reasoning", "message", "function_call"};
    str_printf(s, "{\"id\":\"%s\",\"type\":\"%s\",\"status\":\"%s\"", r->id.p, types[r->kind],
               status);
    switch (r->kind) {
    case NOTHING: break;
    case REASONING:
        str_puts(s, ",\"summary\":[]");
        add_content(s, r, whole);
        break;
    case MESSAGE:
        add_content(s, r, whole);
        str_puts(s, ",\"role\":\"assistant\"");
        break;
    case CALL:
        str_addc(s, ',');
        json_member(s, "arguments", whole ? str_sv(&r->text) : sv(""));
        str_addc(s, ',');
        json_member(s, "call_id", str_sv(&r->call_id));
        str_addc(s, ',');
        json_member(s, "name", str_sv(&r->name));
    }
    str_addc(s, '}');
}

// --- events --------------------------------------------------------------------------------------

static void begin_event(struct str *s, struct response *r, const char *type) {
    str_printf(s, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%lld", type, type,
               (long long)r->sequence++);
}

static void end_event(struct str *s) { str_puts(s, "}\n\n"); }

// Of the item that is being made; what follows in it begins with a comma.
static void begin_item_event(struct str *s, struct response *r, const char *type) {
    begin_event(s, r, type);
    str_printf(s, ",\"item_id\":\"%s\",\"output_index\":%zu", r->id.p, r->items);
    if (r->kind != CALL) str_puts(s, ",\"content_index\":0");
}

static void add_part_event(struct str *s, struct response *r, const char *type) {
    begin_item_event(s, r, type);
    str_puts(s, ",\"part\":");
    add_part(s, r);
    end_event(s);
}

static void add_item_event(struct str *s, struct response *r, const char *type, const char *status,
                           bool whole) {
    begin_event(s, r, type);
    str_printf(s, ",\"output_index\":%zu,\"item\":", r->items);
    add_item(s, r, status, whole);
    end_event(s);
}

static void add_response_event(struct str *s, const struct completion *c, const char *type,
                               const struct refusal *why) {
    begin_event(s, c->own, type);
    str_puts(s, ",\"response\":");
    add_response(s, c, why);
    end_event(s);
}

// --- items ---------------------------------------------------------------------------------------

static void close_item(struct str *s, struct completion *c, const char *status) {
    static const char *const done[] = {"", "response.reasoning_text.done",
                                       "response.output_text.done",
                                       "response.function_call_arguments.done"};
    struct response *r = c->own;
    if (r->kind == NOTHING) return;
    begin_item_event(s, r, done[r->kind]);
    str_addc(s, ',');
    json_member(s, r->kind == CALL ? "arguments" : "text", str_sv(&r->text));
    if (r->kind == MESSAGE) str_printf(s, ",\"logprobs\":[%s]", str_c(&r->chances));
    end_event(s);
    if (r->kind != CALL) add_part_event(s, r, "response.content_part.done");
    add_item_event(s, r, "response.output_item.done", status, true);
    if (r->items++) str_addc(&r->output, ',');
    add_item(&r->output, r, status, true);
    r->kind = NOTHING;
}

static void open_item(struct str *s, struct completion *c, enum kind kind) {
    static const char *const ids[] = {"", "rs", "msg", "fc"};
    struct response *r = c->own;
    close_item(s, c, "completed");
    r->kind = kind;
    str_clear(&r->id);
    str_clear(&r->text);
    str_clear(&r->chances);
    items_new_id(&r->id, ids[kind]);
    add_item_event(s, r, "response.output_item.added", "in_progress", false);
    if (kind != CALL) add_part_event(s, r, "response.content_part.added");
}

static void open_call(struct str *s, struct completion *c, const struct reply_event *e) {
    struct response *r = c->own;
    close_item(s, c, "completed");
    str_clear(&r->call_id);
    str_clear(&r->name);
    str_add(&r->name, e->text);
    str_add(&r->call_id, e->id);
    if (!e->id.n) items_new_id(&r->call_id, "call");
    open_item(s, c, CALL);
}

// The chances that are known by now go along with a text.
static void add_chances(struct str *s, struct completion *c, struct choice *ch) {
    struct response *r = c->own;
    struct str now = {0};
    logprobs_write_list(&now, &ch->logprobs, c->tokenizer, completion_shown(ch));
    str_printf(s, ",\"logprobs\":[%s]", str_c(&now));
    if (r->chances.n && now.n) str_addc(&r->chances, ',');
    str_add(&r->chances, str_sv(&now));
    str_free(&now);
}

static void add_delta(struct str *s, struct completion *c, struct choice *ch, enum kind kind,
                      struct sv text) {
    static const char *const deltas[] = {"", "response.reasoning_text.delta",
                                         "response.output_text.delta",
                                         "response.function_call_arguments.delta"};
    struct response *r = c->own;
    if (r->kind != kind) open_item(s, c, kind);
    begin_item_event(s, r, deltas[kind]);
    str_addc(s, ',');
    json_member(s, "delta", text);
    if (kind == MESSAGE) add_chances(s, c, ch);
    end_event(s);
    str_add(&r->text, text);
}

// A lost call's text follows as content; the client was told of the call, so it stays, incomplete.
static void add_reply(struct str *s, struct completion *c, struct choice *ch,
                      const struct reply_event *e) {
    switch (e->kind) {
    case REPLY_REASONING: add_delta(s, c, ch, REASONING, e->text); break;
    case REPLY_CONTENT: add_delta(s, c, ch, MESSAGE, e->text); break;
    case REPLY_CALL: open_call(s, c, e); break;
    case REPLY_ARGUMENTS: add_delta(s, c, ch, CALL, e->text); break;
    case REPLY_CALL_END: close_item(s, c, "completed"); break;
    case REPLY_CALL_LOST: close_item(s, c, "incomplete"); break;
    }
}

// An answer without anything is a message without text.
static void add_last(struct str *s, struct completion *c, struct choice *ch) {
    struct response *r = c->own;
    bool cut = ch->finish == FINISH_LENGTH || ch->finish == FINISH_CONTEXT;
    r->status = cut ? "incomplete" : "completed";
    if (!r->items && r->kind == NOTHING) open_item(s, c, MESSAGE);
    close_item(s, c, r->status);
}

// --- the end -------------------------------------------------------------------------------------

// Writes the response, once it is stored. False when it can't be, with c->failed.
static bool keep(struct str *s, struct completion *c) {
    struct response *r = c->own;
    struct str body = {0};
    struct error e = {0};
    add_response(&body, c, NULL);
    bool ok = !r->ask.store || responses_store_put(c->service->responses, c->id, c->created,
                                                   str_sv(&r->ask.items), str_sv(&body), &e);
    if (ok) {
        str_add(s, str_sv(&body));
    } else {
        log_say(LOG_ERROR, "%s is not stored (--responses-store-file): %s", c->id, e.text);
        refuse(&c->failed, 500, NULL, "the response can't be stored: %s", e.text);
        r->status = "failed";
    }
    str_free(&body);
    return ok;
}

static void add_whole(struct str *out, struct completion *c) {
    struct choice *ch = &c->choice[0];
    const struct reply_message *said = &ch->said;
    struct str events = {0}; // that nobody gets
    struct reply_event e = {.kind = REPLY_REASONING, .text = str_sv(&said->reasoning)};
    if (e.text.n) add_reply(&events, c, ch, &e);
    e = (struct reply_event){.kind = REPLY_CONTENT, .text = str_sv(&said->content)};
    if (e.text.n) add_reply(&events, c, ch, &e);
    for (size_t i = 0; i < said->calls; i++) {
        const struct reply_call *call = &said->call[i];
        e = (struct reply_event){
            .kind = REPLY_CALL, .text = str_sv(&call->name), .id = str_sv(&call->id)};
        add_reply(&events, c, ch, &e);
        e = (struct reply_event){.kind = REPLY_ARGUMENTS, .text = str_sv(&call->arguments)};
        add_reply(&events, c, ch, &e);
        e.kind = REPLY_CALL_END;
        add_reply(&events, c, ch, &e);
    }
    add_last(&events, c, ch);
    str_free(&events);
    keep(out, c);
}

static void add_open(struct str *s, struct completion *c) {
    add_response_event(s, c, "response.created", NULL);
    add_response_event(s, c, "response.in_progress", NULL);
}

static void add_failed(struct str *s, struct completion *c, const struct refusal *why) {
    struct response *r = c->own;
    r->status = "failed";
    add_response_event(s, c, "response.failed", why);
}

static void add_end(struct str *s, struct completion *c) {
    struct response *r = c->own;
    struct str body = {0};
    if (keep(&body, c)) {
        begin_event(
            s, r, sv_is(sv(r->status), "completed") ? "response.completed" : "response.incomplete");
        str_puts(s, ",\"response\":");
        str_add(s, str_sv(&body));
        end_event(s);
    } else {
        add_failed(s, c, &c->failed);
    }
    str_free(&body);
}

const struct api api_responses = {
    .id = "resp_",
    .chat = true,
    .read = ask_chat,
    .whole = add_whole,
    .open = add_open,
    .part = add_reply,
    .finish = add_last,
    .end = add_end,
    .lost = add_failed,
    .close = close_response,
    .refusal = refusal_json,
};
