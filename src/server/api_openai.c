// OpenAI's chat completions and completions.
#include "server/api.h"
#include "server/ask.h"
#include "server/completion.h"
#include "server/ask_prompt.h"
#include "server/timings.h"
#include "base/random.h"

// --- JSON ----------------------------------------------------------------------------------------

static void add_head(struct str *s, const struct completion *c, const char *object) {
    str_printf(s, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", c->id, object,
               (long long)c->created);
    json_quote(s, sv(c->model));
    str_puts(s, ",\"system_fingerprint\":\"mlxcel-" MLXCEL_VERSION "\"");
}

static void add_finish(struct str *s, const struct choice *ch) {
    str_printf(s, "\"finish_reason\":\"%s\"", completion_finish(ch));
}

// What of the chances belongs to the text that was given out.
static void add_logprobs(struct str *s, const struct completion *c, struct choice *ch) {
    str_puts(s, "\"logprobs\":");
    logprobs_write(s, &ch->logprobs, c->tokenizer, c->api->chat, completion_shown(ch));
}

static void add_usage(struct str *s, const struct completion *c) {
    str_printf(s,
               ",\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu,"
               "\"prompt_tokens_details\":{\"cached_tokens\":%lld,\"audio_tokens\":0},"
               "\"completion_tokens_details\":{\"reasoning_tokens\":%zu,\"audio_tokens\":0,"
               "\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}}",
               c->prompt, c->tokens, c->prompt + c->tokens, (long long)completion_cached(c),
               c->thought);
}

static void add_timings(struct str *s, const struct completion *c, const struct choice *ch) {
    struct job_facts f = completion_facts(c, ch);
    str_addc(s, ',');
    timings_write(s, &f, ch->tokens);
}

static void add_reasoning(struct str *s, const struct completion *c, struct sv text) {
    json_member(s, "reasoning_content", text);
    if (c->service->o->reasoning != REASONING_AND_ALIAS) return;
    str_addc(s, ',');
    json_member(s, "reasoning", text);
}

// An id is the model's, or ours.
static void add_call(struct str *s, struct sv id, struct sv name, struct sv arguments) {
    struct str own = {0};
    if (!id.n) {
        str_puts(&own, "call_");
        random_letters(&own);
        id = str_sv(&own);
    }
    json_member(s, "id", id);
    str_puts(s, ",\"type\":\"function\",\"function\":{");
    json_member(s, "name", name);
    str_addc(s, ',');
    json_member(s, "arguments", arguments);
    str_addc(s, '}');
    str_free(&own);
}

// --- the whole answer ----------------------------------------------------------------------------

static void add_message(struct str *s, const struct completion *c, const struct reply_message *m) {
    str_puts(s, "\"message\":{\"role\":\"assistant\",");
    if (m->calls && !m->content.n)
        str_puts(s, "\"content\":null");
    else
        json_member(s, "content", str_sv(&m->content));
    str_puts(s, ",\"refusal\":null,\"annotations\":[]");
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

static void add_choice(struct str *s, const struct completion *c, struct choice *ch) {
    str_printf(s, "{\"index\":%zu,", ch->index);
    if (c->api->chat)
        add_message(s, c, &ch->said);
    else
        json_member(s, "text", str_sv(&ch->said.content));
    str_addc(s, ',');
    add_logprobs(s, c, ch);
    str_addc(s, ',');
    add_finish(s, ch);
    str_addc(s, '}');
}

static void add_whole(struct str *out, struct completion *c) {
    add_head(out, c, c->api->chat ? "chat.completion" : "text_completion");
    str_puts(out, ",\"choices\":[");
    for (size_t i = 0; i < c->choices; i++) {
        if (i) str_addc(out, ',');
        add_choice(out, c, &c->choice[i]);
    }
    str_addc(out, ']');
    add_usage(out, c);
    add_timings(out, c, c->choice);
    str_addc(out, '}');
}

// --- events --------------------------------------------------------------------------------------

static void begin_event(struct str *s, const struct completion *c, const struct choice *ch) {
    str_puts(s, "data: ");
    add_head(s, c, c->api->chat ? "chat.completion.chunk" : "text_completion");
    str_printf(s, ",\"choices\":[{\"index\":%zu,", ch->index);
    if (c->api->chat) str_puts(s, "\"delta\":{");
}

static void end_event(struct str *s, const struct completion *c, struct choice *ch, bool last) {
    str_puts(s, c->api->chat ? "}," : ",");
    add_logprobs(s, c, ch);
    str_addc(s, ',');
    if (last)
        add_finish(s, ch);
    else
        str_puts(s, "\"finish_reason\":null");
    str_puts(s, c->ask.include_usage ? "}],\"usage\":null" : "}]");
    // Where there is one, the chunk of the usage has them instead of the last one.
    if (last ? !c->ask.include_usage : c->ask.timings && ch->tokens) add_timings(s, c, ch);
    str_puts(s, "}\n\n");
}

// How far a prompt is, in an event without text.
static void add_progress(struct str *s, struct completion *c, struct choice *ch,
                         const struct job_facts *f) {
    begin_event(s, c, ch);
    str_puts(s, c->api->chat ? "\"role\":\"assistant\",\"content\":null}," : "\"text\":\"\",");
    str_puts(s, "\"logprobs\":null,\"finish_reason\":null}],");
    if (c->ask.include_usage) str_puts(s, "\"usage\":null,");
    if (c->ask.timings) {
        timings_write(s, f, ch->tokens);
        str_addc(s, ',');
    }
    timings_progress(s, f, ask_prompt(&c->ask, completion_prompt(c, ch))->n);
    str_puts(s, "}\n\n");
}

static void add_step(struct str *s, struct completion *c, struct choice *ch) {
    struct job_facts f;
    if (completion_progress(c, ch, &f)) add_progress(s, c, ch, &f);
}

static void add_steps(struct str *s, struct completion *c) {
    for (size_t i = 0; i < c->choices; i++) add_step(s, c, &c->choice[i]);
}

// First of all, that nothing is computed yet.
static void open_progress(struct str *s, struct completion *c) {
    static const struct job_facts nothing = {.place = -1};
    for (size_t i = 0; i < c->choices && c->ask.progress; i++)
        add_progress(s, c, &c->choice[i], &nothing);
}

// A lost call's text follows as content; the part of it that the client has can't be taken back.
static void add_chat_part(struct str *s, struct completion *c, struct choice *ch,
                          const struct reply_event *e) {
    if (e->kind == REPLY_CALL_END || e->kind == REPLY_CALL_LOST) return;
    add_step(s, c, ch);
    begin_event(s, c, ch);
    if (e->kind == REPLY_CONTENT) {
        json_member(s, "content", e->text);
    } else if (e->kind == REPLY_REASONING) {
        add_reasoning(s, c, e->text);
    } else {
        str_printf(s, "\"tool_calls\":[{\"index\":%zu,", e->call);
        if (e->kind == REPLY_CALL) {
            add_call(s, e->id, e->text, sv(""));
        } else {
            str_puts(s, "\"function\":{");
            json_member(s, "arguments", e->text);
            str_addc(s, '}');
        }
        str_puts(s, "}]");
    }
    end_event(s, c, ch, false);
}

static void add_text_part(struct str *s, struct completion *c, struct choice *ch,
                          const struct reply_event *e) {
    add_step(s, c, ch);
    begin_event(s, c, ch);
    json_member(s, "text", e->text);
    end_event(s, c, ch, false);
}

static void add_last(struct str *s, struct completion *c, struct choice *ch) {
    add_step(s, c, ch);
    begin_event(s, c, ch);
    if (!c->api->chat) json_member(s, "text", sv(""));
    end_event(s, c, ch, true);
}

static void add_end(struct str *s, struct completion *c) {
    if (c->ask.include_usage) {
        str_puts(s, "data: ");
        add_head(s, c, c->api->chat ? "chat.completion.chunk" : "text_completion");
        str_puts(s, ",\"choices\":[]");
        add_usage(s, c);
        add_timings(s, c, c->choice);
        str_puts(s, "}\n\n");
    }
    str_puts(s, "data: [DONE]\n\n");
}

static void add_lost(struct str *s, struct completion *c, const struct refusal *why) {
    (void)c;
    str_puts(s, "data: ");
    refusal_json(s, why);
    str_puts(s, "\n\n");
}

static void open_chats(struct str *s, struct completion *c) {
    for (size_t i = 0; i < c->choices; i++) {
        begin_event(s, c, &c->choice[i]);
        str_puts(s, "\"role\":\"assistant\",\"content\":\"\",\"refusal\":null");
        end_event(s, c, &c->choice[i], false);
    }
    open_progress(s, c);
}

static void open_texts(struct str *s, struct completion *c) {
    for (size_t i = 0; i < c->choices && c->ask.echo; i++) {
        struct choice *ch = &c->choice[i];
        const struct reply_event echoed = {.kind = REPLY_CONTENT,
                                           .text = ask_echoed(&c->ask, completion_prompt(c, ch))};
        add_text_part(s, c, ch, &echoed);
    }
    open_progress(s, c);
}

const struct api api_chat = {
    .id = "chatcmpl-",
    .chat = true,
    .read = ask_chat,
    .whole = add_whole,
    .open = open_chats,
    .part = add_chat_part,
    .finish = add_last,
    .end = add_end,
    .progress = add_steps,
    .lost = add_lost,
    .refusal = refusal_json,
};

const struct api api_completions = {
    .id = "cmpl-",
    .read = ask_text,
    .whole = add_whole,
    .open = open_texts,
    .part = add_text_part,
    .finish = add_last,
    .end = add_end,
    .progress = add_steps,
    .lost = add_lost,
    .refusal = refusal_json,
};
