// Anthropic's Messages API: the answers.
#include "server/api.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/random.h"
#include "server/ask_anthropic.h"
#include "server/completion.h"
#include "server/routes.h"

// What a stream has open: blocks come one after the other, each with a number.
struct blocks {
    const char *open; // the type of the block that is open; NULL: none
    size_t n;         // blocks so far
    bool begun;       // the first event was written
};

// --- a message -----------------------------------------------------------------------------------

// What was found in the caches counts apart from the rest of the prompt.
static void add_usage(struct str *s, const struct completion *c) {
    size_t cached = (size_t)completion_cached(c);
    str_printf(s,
               "\"usage\":{\"input_tokens\":%zu,\"cache_creation_input_tokens\":0,"
               "\"cache_read_input_tokens\":%zu,\"output_tokens\":%zu,"
               "\"output_tokens_details\":{\"thinking_tokens\":%zu}}",
               c->prompt - cached, cached, c->tokens, c->thought);
}

static const char *stop_reason(const struct choice *ch) {
    switch (ch->finish) {
    case FINISH_LENGTH: return "max_tokens";
    case FINISH_CONTEXT: return "model_context_window_exceeded";
    case FINISH_NOT:
    case FINISH_STOP:
    case FINISH_LOOP:
    case FINISH_CANCELLED: break;
    }
    if (ch->calls) return "tool_use";
    return completion_stop(ch).n ? "stop_sequence" : "end_turn";
}

static void add_stop(struct str *s, const struct choice *ch) {
    struct sv reason = sv(stop_reason(ch));
    json_member(s, "stop_reason", reason);
    str_puts(s, ",\"stop_sequence\":");
    if (sv_is(reason, "stop_sequence"))
        json_quote(s, completion_stop(ch));
    else
        str_puts(s, "null");
}

static void add_head(struct str *s, const struct completion *c) {
    str_printf(s, "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", c->id);
    json_quote(s, sv(c->model));
    str_puts(s, ",\"content\":[");
}

// A call without its end brace, up to its input. An id is the model's, or ours.
static void add_call(struct str *s, const struct reply_call *call) {
    struct str own = {0};
    str_puts(&own, "toolu_");
    random_letters(&own);
    str_puts(s, "{\"type\":\"tool_use\",");
    json_member(s, "id", call->id.n ? str_sv(&call->id) : str_sv(&own));
    str_addc(s, ',');
    json_member(s, "name", str_sv(&call->name));
    str_puts(s, ",\"input\":");
    str_free(&own);
}

static struct sv arguments(const struct reply_call *call) {
    return call->arguments.n ? str_sv(&call->arguments) : sv("{}");
}

static void add_content(struct str *s, const struct reply_message *m) {
    const char *between = "";
    if (m->reasoning.n) {
        str_puts(s, "{\"type\":\"thinking\",");
        json_member(s, "thinking", str_sv(&m->reasoning));
        str_puts(s, ",\"signature\":\"\"}");
        between = ",";
    }
    if (m->content.n) {
        str_printf(s, "%s{\"type\":\"text\",", between);
        json_member(s, "text", str_sv(&m->content));
        str_addc(s, '}');
        between = ",";
    }
    for (size_t i = 0; i < m->calls; i++) {
        str_puts(s, between);
        add_call(s, &m->call[i]);
        str_add(s, arguments(&m->call[i]));
        str_addc(s, '}');
        between = ",";
    }
}

static void add_whole(struct str *out, struct completion *c) {
    add_head(out, c);
    add_content(out, &c->choice->said);
    str_puts(out, "],");
    add_stop(out, c->choice);
    str_addc(out, ',');
    add_usage(out, c);
    str_addc(out, '}');
}

// --- events --------------------------------------------------------------------------------------

static void begin_event(struct str *s, const char *type) {
    str_printf(s, "event: %s\ndata: {\"type\":\"%s\"", type, type);
}

static void end_event(struct str *s) { str_puts(s, "}\n\n"); }

// Written with the first part, not at once: only then is known what the caches held.
static void begin(struct str *s, const struct completion *c, struct blocks *b) {
    if (b->begun) return;
    b->begun = true;
    begin_event(s, "message_start");
    str_puts(s, ",\"message\":");
    add_head(s, c);
    str_puts(s, "],\"stop_reason\":null,\"stop_sequence\":null,");
    add_usage(s, c);
    str_addc(s, '}');
    end_event(s);
    begin_event(s, "ping");
    end_event(s);
}

static void begin_delta(struct str *s, const struct blocks *b, const char *type) {
    begin_event(s, "content_block_delta");
    str_printf(s, ",\"index\":%zu,\"delta\":{\"type\":\"%s\",", b->n - 1, type);
}

static void end_delta(struct str *s) {
    str_addc(s, '}');
    end_event(s);
}

static void close_block(struct str *s, struct blocks *b) {
    if (!b->open) return;
    if (sv_is(sv(b->open), "thinking")) {
        begin_delta(s, b, "signature_delta");
        str_puts(s, "\"signature\":\"\"");
        end_delta(s);
    }
    begin_event(s, "content_block_stop");
    str_printf(s, ",\"index\":%zu", b->n - 1);
    end_event(s);
    b->open = NULL;
}

static void open_block(struct str *s, struct blocks *b, const char *type) {
    close_block(s, b);
    b->open = type;
    begin_event(s, "content_block_start");
    str_printf(s, ",\"index\":%zu,\"content_block\":", b->n++);
}

static void add_text_part(struct str *s, struct blocks *b, bool thinking, struct sv text) {
    const char *type = thinking ? "thinking" : "text";
    if (!b->open || !sv_is(sv(b->open), type)) {
        open_block(s, b, type);
        str_printf(s, "{\"type\":\"%s\",\"%s\":\"\"%s}", type, type,
                   thinking ? ",\"signature\":\"\"" : "");
        end_event(s);
    }
    begin_delta(s, b, thinking ? "thinking_delta" : "text_delta");
    json_member(s, type, text);
    end_delta(s);
}

static void add_call_part(struct str *s, struct blocks *b, const struct reply_call *call) {
    open_block(s, b, "tool_use");
    add_call(s, call);
    str_puts(s, "{}}");
    end_event(s);
    begin_delta(s, b, "input_json_delta");
    json_member(s, "partial_json", arguments(call));
    end_delta(s);
    close_block(s, b);
}

static void add_open(struct str *s, struct completion *c) {
    (void)s;
    c->own = mem_alloc(sizeof(struct blocks));
}

// A block can't be taken back, so a call is told when it is whole.
static void add_part(struct str *s, struct completion *c, struct choice *ch,
                     const struct reply_event *e) {
    struct blocks *b = c->own;
    begin(s, c, b);
    if (e->kind == REPLY_CONTENT || e->kind == REPLY_REASONING) {
        add_text_part(s, b, e->kind == REPLY_REASONING, e->text);
        return;
    }
    reply_message_add(&ch->said, e);
    if (e->kind == REPLY_CALL_END) add_call_part(s, b, &ch->said.call[ch->said.calls - 1]);
}

static void add_finish(struct str *s, struct completion *c, struct choice *ch) {
    struct blocks *b = c->own;
    begin(s, c, b);
    close_block(s, b);
    begin_event(s, "message_delta");
    str_puts(s, ",\"delta\":{");
    add_stop(s, ch);
    str_puts(s, "},");
    add_usage(s, c);
    end_event(s);
}

static void add_end(struct str *s, struct completion *c) {
    (void)c;
    begin_event(s, "message_stop");
    end_event(s);
}

// --- errors --------------------------------------------------------------------------------------

static const char *error_type(unsigned status) {
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 500: return "api_error";
    case 503: return "overloaded_error";
    case 504: return "timeout_error";
    default: return "invalid_request_error";
    }
}

static void add_refusal(struct str *s, const struct refusal *r) {
    str_puts(s, "{\"type\":\"error\",\"error\":{");
    json_member(s, "type", sv(error_type(r->status)));
    str_addc(s, ',');
    json_member(s, "message", sv(r->why.text));
    str_puts(s, "},");
    json_member(s, "request_id", sv(r->request));
    str_addc(s, '}');
}

static void add_lost(struct str *s, struct completion *c, const struct refusal *why) {
    (void)c;
    str_puts(s, "event: error\ndata: ");
    add_refusal(s, why);
    str_puts(s, "\n\n");
}

static void free_blocks(struct completion *c) { free(c->own); }

const struct api api_messages = {
    .id = "msg_",
    .chat = true,
    .read = ask_messages,
    .whole = add_whole,
    .open = add_open,
    .part = add_part,
    .finish = add_finish,
    .end = add_end,
    .lost = add_lost,
    .close = free_blocks,
    .refusal = add_refusal,
};

// --- counting ------------------------------------------------------------------------------------

bool route_count_tokens(struct exchange *x) {
    struct json_object *o = exchange_read_json(x);
    struct ask a = {0};
    struct str json = {0};
    if (!o) return exchange_refuse(x);
    bool ok = ask_count(&a, o, worker_model(x->service->worker), x->service->o, &x->refusal);
    str_printf(&json, "{\"input_tokens\":%zu}", a.prompt.ids.n);
    ask_free(&a);
    json_object_put(o);
    exchange_drop_json(x);
    bool sent = ok ? exchange_json(x, 200, &json) : exchange_refuse(x);
    str_free(&json);
    return sent;
}
