// llama-server's own completions: /completion, /completions and /infill.
#include "server/api_native.h"

#include "base/json.h"
#include "server/ask_native.h"
#include "server/ask_prompt.h"
#include "server/completion.h"
#include "server/timings.h"

// --- JSON ----------------------------------------------------------------------------------------

// Takes the ids that were not told yet.
static void add_ids(struct str *s, struct choice *ch) {
    str_puts(s, "\"tokens\":[");
    for (size_t i = 0; i < ch->ids.n; i++) str_printf(s, i ? ",%d" : "%d", ch->ids.id[i]);
    str_addc(s, ']');
    ch->ids.n = 0;
}

static size_t prompt_tokens(const struct completion *c, const struct choice *ch) {
    return ask_prompt(&c->ask, completion_prompt(c, ch))->n;
}

static void add_counts(struct str *s, const struct completion *c, const struct choice *ch,
                       const struct job_facts *f) {
    str_printf(s, ",\"id_slot\":%lld,\"tokens_predicted\":%zu,\"tokens_evaluated\":%zu",
               (long long)f->place, ch->tokens, prompt_tokens(c, ch));
}

static void add_probabilities(struct str *s, const struct completion *c, struct choice *ch,
                              size_t end) {
    if (!c->ask.logprobs) return;
    str_puts(s, ",\"completion_probabilities\":");
    logprobs_write_native(s, &ch->logprobs, c->tokenizer, c->ask.drawn, end);
}

static const char *stop_type(const struct choice *ch) {
    if (completion_stop(ch).n) return "word";
    return ch->finish == FINISH_STOP ? "eos" : "limit";
}

// The prompt as the model saw it.
static void add_prompt(struct str *s, const struct completion *c, const struct choice *ch) {
    const struct ids *ids = ask_prompt(&c->ask, completion_prompt(c, ch));
    struct str text = {0};
    tok_decode(c->tokenizer, ids->id, ids->n, false, &text);
    json_quote(s, str_sv(&text));
    str_free(&text);
}

static void add_final(struct str *s, const struct completion *c, struct choice *ch) {
    bool stream = c->ask.stream;
    struct job_facts f = completion_facts(c, ch);
    size_t in_cache = prompt_tokens(c, ch) + ch->tokens - (ch->tokens > 0);
    str_printf(s, "{\"index\":%zu,\"content\":", ch->index);
    json_quote(s, stream ? sv("") : str_sv(&ch->said.content));
    str_addc(s, ',');
    add_ids(s, ch);
    add_counts(s, c, ch, &f);
    str_puts(s, ",\"stop\":true,\"model\":");
    json_quote(s, sv(c->model));
    str_printf(s, ",\"generation_settings\":%s,\"prompt\":", str_c(&c->ask.settings));
    add_prompt(s, c, ch);
    str_printf(s, ",\"has_new_line\":%s,\"truncated\":%s,\"stop_type\":\"%s\",\"stopping_word\":",
               ch->lines ? "true" : "false", ch->finish == FINISH_CONTEXT ? "true" : "false",
               stop_type(ch));
    json_quote(s, completion_stop(ch));
    str_printf(s, ",\"tokens_cached\":%zu,", in_cache);
    timings_write(s, &f, ch->tokens);
    if (!stream) add_probabilities(s, c, ch, SIZE_MAX);
    str_addc(s, '}');
}

// --- response_fields -----------------------------------------------------------------------------

// What stands at "generation_settings/n_predict"; NULL: nothing.
static struct json_object *walk(struct json_object *o, struct sv path) {
    while (path.n && o) {
        ptrdiff_t slash = sv_find(path, sv("/"), 0);
        struct str key = {0};
        str_add(&key, sv_cut(path, 0, slash < 0 ? path.n : (size_t)slash));
        path = sv_cut(path, key.n + 1, path.n);
        struct json_object *in = json_object_is_type(o, json_type_object) ? o : NULL;
        if (!json_object_object_get_ex(in, str_c(&key), &o)) o = NULL;
        str_free(&key);
    }
    return o;
}

// The final answer, or of it the fields that are wanted, by their whole paths.
static void add_wanted(struct str *out, const struct completion *c, struct choice *ch) {
    struct str all = {0};
    struct error e = {0};
    add_final(&all, c, ch);
    struct json_object *o = c->ask.fields ? json_read(str_sv(&all), "answer", &e) : NULL;
    size_t n = o ? json_object_array_length(c->ask.fields) : 0;
    if (!o) str_add(out, str_sv(&all));
    if (o) str_addc(out, '{');
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        struct sv path = json_text(json_object_array_get_idx(c->ask.fields, i));
        struct json_object *v = path.n ? walk(o, path) : NULL;
        if (!v) continue;
        if (any) str_addc(out, ',');
        any = true;
        json_quote(out, path);
        str_addc(out, ':');
        str_puts(out, json_object_to_json_string_ext(v, JSON_C_TO_STRING_PLAIN |
                                                            JSON_C_TO_STRING_NOSLASHESCAPE));
    }
    if (o) str_addc(out, '}');
    json_object_put(o);
    str_free(&all);
}

// --- whole answers and events --------------------------------------------------------------------

// One answer is an object, several are a list.
static void add_whole(struct str *out, struct completion *c) {
    if (c->choices > 1) str_addc(out, '[');
    for (size_t i = 0; i < c->choices; i++) {
        if (i) str_addc(out, ',');
        add_wanted(out, c, &c->choice[i]);
    }
    if (c->choices > 1) str_addc(out, ']');
}

static void begin_event(struct str *s, const struct completion *c, struct choice *ch,
                        const struct job_facts *f, struct sv text) {
    str_printf(s, "data: {\"index\":%zu,\"content\":", ch->index);
    json_quote(s, text);
    str_addc(s, ',');
    add_ids(s, ch);
    str_puts(s, ",\"stop\":false");
    add_counts(s, c, ch, f);
    if (!c->ask.timings) return;
    str_addc(s, ',');
    timings_write(s, f, ch->tokens);
}

static void add_progress(struct str *s, struct completion *c, struct choice *ch,
                         const struct job_facts *f) {
    struct ids later = ch->ids; // the tokens come with the text
    ch->ids = (struct ids){0};
    begin_event(s, c, ch, f, sv(""));
    str_addc(s, ',');
    timings_progress(s, f, prompt_tokens(c, ch));
    str_puts(s, "}\n\n");
    ch->ids = later;
}

// First of all, that nothing is computed yet.
static void open_stream(struct str *s, struct completion *c) {
    static const struct job_facts nothing = {.place = -1};
    for (size_t i = 0; i < c->choices && c->ask.progress; i++)
        add_progress(s, c, &c->choice[i], &nothing);
}

static void add_step(struct str *s, struct completion *c, struct choice *ch) {
    struct job_facts f;
    if (completion_progress(c, ch, &f)) add_progress(s, c, ch, &f);
}

static void add_steps(struct str *s, struct completion *c) {
    for (size_t i = 0; i < c->choices; i++) add_step(s, c, &c->choice[i]);
}

static void add_text(struct str *s, struct completion *c, struct choice *ch, struct sv text,
                     size_t chances) {
    struct job_facts f = completion_facts(c, ch);
    add_step(s, c, ch); // the rest of the prompt
    begin_event(s, c, ch, &f, text);
    add_probabilities(s, c, ch, chances);
    str_puts(s, "}\n\n");
}

static void add_part(struct str *s, struct completion *c, struct choice *ch,
                     const struct reply_event *e) {
    add_text(s, c, ch, e->text, completion_shown(ch));
}

// What has no text of its own, as the end's token, comes before the final event.
static void add_finish(struct str *s, struct completion *c, struct choice *ch) {
    if (ch->ids.n) add_text(s, c, ch, sv(""), SIZE_MAX);
    str_puts(s, "data: ");
    add_wanted(s, c, ch);
    str_puts(s, "\n\n");
}

static void add_end(struct str *s, struct completion *c) {
    (void)s;
    (void)c;
}

static void add_lost(struct str *s, struct completion *c, const struct refusal *why) {
    (void)c;
    str_puts(s, "data: ");
    refusal_native(s, why);
    str_puts(s, "\n\n");
}

// Both differ in what they read alone.
#define NATIVE(reader)                                                                             \
    {                                                                                              \
        .id = "cmpl-", .read = (reader), .whole = add_whole, .open = open_stream,                  \
        .part = add_part, .finish = add_finish, .end = add_end, .progress = add_steps,             \
        .lost = add_lost, .refusal = refusal_native                                                \
    }
const struct api api_native = NATIVE(ask_native), api_infill = NATIVE(ask_infill);
