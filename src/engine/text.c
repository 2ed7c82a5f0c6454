#include "engine/text.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/stops.h"
#include "checkpoint/config.h"
#include "engine/constraint.h"

bool text_open(struct text_model *m, const char *path, const struct engine_options *opt,
               struct error *e) {
    *m = (struct text_model){0};
    struct sv in = dir_exists(path) ? sv(path) : path_dir(path);
    char *dir = mem_textn(in.p, in.n);
    // The small files first: what is wrong with them is known before a large model is read.
    struct config *config = config_open(path, e);
    bool ok = config && generation_config_read(path, config, &m->defaults, e) &&
              (m->tokenizer = tok_open(dir, e)) != NULL &&
              (m->chat = chat_open(dir, config_text(config, "model_type", ""), e)) != NULL &&
              (m->engine = engine_open(path, opt, e)) != NULL;
    config_close(config);
    free(dir);
    for (int tools = 0; tools < 2 && ok; tools++)
        reply_format_of(chat_source(m->chat, tools), &m->reply[tools]);
    m->vocabulary = vocabulary_open();
    if (!ok) text_close(m);
    return ok;
}

void text_close(struct text_model *m) {
    engine_close(m->engine);
    chat_close(m->chat);
    tok_close(m->tokenizer);
    vocabulary_close(m->vocabulary);
    *m = (struct text_model){0};
}

static bool encode(const struct tokenizer *t, struct sv text, struct ids *out, struct error *e) {
    return !text.n || tok_encode(t, text, false, out, e);
}

bool text_prompt_ids(const struct tokenizer *t, const struct chat_prompt *p, struct ids *out,
                     struct error *e) {
    struct sv text = str_sv(&p->text);
    size_t at = 0;
    for (size_t i = 0; i < p->spans; i++) {
        struct chat_span plain = p->plain[i];
        if (!encode(t, sv_cut(text, at, plain.from), out, e) ||
            !tok_encode_plain(t, sv_cut(text, plain.from, plain.to), false, out, e))
            return false;
        at = plain.to;
    }
    return encode(t, sv_cut(text, at, text.n), out, e);
}

static bool render(const struct text_model *m, struct json_object *messages,
                   const struct chat_options *opt, struct text_prompt *out, struct error *e) {
    struct chat_prompt prompt = {0};
    bool ok = chat_render(m->chat, messages, opt, &prompt, e) &&
              text_prompt_ids(m->tokenizer, &prompt, &out->ids, e);
    out->opened = reply_opened_by(out->reply, str_sv(&prompt.text));
    chat_prompt_free(&prompt);
    return ok;
}

// The conversation as another user would begin it.
static struct json_object *as_other_user(struct json_object *messages) {
    struct json_object *other = json_object_new_array();
    size_t n = json_object_array_length(messages);
    for (size_t i = 0; i < n; i++) {
        struct json_object *m = json_object_array_get_idx(messages, i);
        bool user = sv_is(json_text_at(m, "role"), "user");
        struct json_object *copy = user ? json_object_new_object() : json_object_get(m);
        json_object_array_add(other, copy);
        if (!user) continue;
        json_add_members(copy, m);
        json_object_object_add(copy, "content", json_object_new_string("?"));
        break;
    }
    return other;
}

// Where the prompts of other users with the same system message and tools part from this one.
// Recurrent state must be told, since it can be taken up only where it was kept.
static size_t find_common(const struct text_model *m, struct json_object *messages,
                          const struct chat_options *opt, const struct ids *ids) {
    struct text_prompt other = {.reply = &m->reply[opt->tools != NULL]};
    struct json_object *begun = as_other_user(messages);
    struct error e = {0};
    size_t n = 0;
    if (render(m, begun, opt, &other, &e))
        while (n < ids->n && n < other.ids.n && ids->id[n] == other.ids.id[n]) n++;
    ids_free(&other.ids);
    json_object_put(begun);
    return n;
}

bool text_chat_prompt(const struct text_model *m, struct json_object *messages,
                      const struct chat_options *opt, struct text_prompt *out, struct error *e) {
    *out = (struct text_prompt){.reply = &m->reply[opt->tools != NULL]};
    if (!chat_check_contents(messages, e) || !render(m, messages, opt, out, e)) return false;
    if (engine_info(m->engine)->fixed_bytes) out->common = find_common(m, messages, opt, &out->ids);
    return true;
}

struct text_stream {
    const struct tokenizer *tokenizer;
    const struct reply_format *marks;
    struct tok_stream *tokens;
    struct stops stops;
    size_t out; // characters given out
};

struct text_stream *text_stream_open(const struct text_model *m, const struct reply_format *marks,
                                     const struct sv *stops, size_t count) {
    struct text_stream *s = mem_alloc(sizeof *s);
    s->tokenizer = m->tokenizer;
    s->marks = marks;
    s->tokens = tok_stream_open(m->tokenizer, false);
    stops_set(&s->stops, stops, count);
    return s;
}

void text_stream_close(struct text_stream *s) {
    if (!s) return;
    tok_stream_close(s->tokens);
    stops_free(&s->stops);
    free(s);
}

struct sv text_stream_stop(const struct text_stream *s) {
    return stops_by(&s->stops);
}
size_t text_stream_out(const struct text_stream *s) { return s->out; }

size_t text_stream_size(const struct text_stream *s) {
    return s->out + utf8_count(str_sv(&s->stops.held));
}

static bool shows(const struct text_stream *s, int32_t id) {
    if (!tok_is_special(s->tokenizer, id)) return true;
    return s->marks && reply_format_shows(s->marks, tok_token(s->tokenizer, id));
}

bool text_stream_push(struct text_stream *s, int32_t id, struct str *out) {
    size_t before = out->n;
    if (s->stops.found) return true;
    if (shows(s, id)) tok_stream_push(s->tokens, id, &s->stops.held);
    stops_settle(&s->stops, out);
    s->out += utf8_count(sv_cut(str_sv(out), before, out->n));
    return s->stops.found;
}

void text_stream_finish(struct text_stream *s, struct str *out) {
    size_t before = out->n;
    if (s->stops.found) return;
    tok_stream_finish(s->tokens, &s->stops.held);
    stops_finish(&s->stops, out);
    s->out += utf8_count(sv_cut(str_sv(out), before, out->n));
}
