#include "engine/constraint.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"

struct vocabulary {
    pthread_mutex_t lock;
    struct lexicon *lexicon; // NULL until it is needed; constant then
};

struct vocabulary *vocabulary_open(void) {
    struct vocabulary *v = mem_alloc(sizeof *v);
    pthread_mutex_init(&v->lock, NULL);
    return v;
}

void vocabulary_close(struct vocabulary *v) {
    if (!v) return;
    lex_close(v->lexicon);
    pthread_mutex_destroy(&v->lock);
    free(v);
}

// Special tokens have no text but those that mark the parts of a reply.
static void add_bytes_of(const struct text_model *m, int32_t id, struct str *out) {
    struct sv token = tok_token(m->tokenizer, id);
    if (!tok_is_special(m->tokenizer, id)) {
        tok_bytes(m->tokenizer, id, out);
    } else if (reply_format_shows(&m->reply[0], token) || reply_format_shows(&m->reply[1], token)) {
        str_puts(out, LEX_SPECIAL);
        str_add(out, token);
    }
}

static struct lexicon *make(const struct text_model *m) {
    size_t n = (size_t)tok_size(m->tokenizer), *at = mem_array(n + 1, sizeof *at);
    struct sv *text = mem_array(n, sizeof *text);
    struct str all = {0};
    for (size_t i = 0; i < n; i++) {
        add_bytes_of(m, (int32_t)i, &all);
        at[i + 1] = all.n;
    }
    for (size_t i = 0; i < n; i++) text[i] = sv_cut(str_sv(&all), at[i], at[i + 1]);
    struct lexicon *l = lex_open(text, n, m->defaults.eos, m->defaults.eos_count);
    str_free(&all);
    free(text);
    free(at);
    return l;
}

static const struct lexicon *lexicon_of(const struct text_model *m) {
    struct vocabulary *v = m->vocabulary;
    pthread_mutex_lock(&v->lock);
    if (!v->lexicon) v->lexicon = make(m);
    pthread_mutex_unlock(&v->lock);
    return v->lexicon;
}

// An answer may begin with reasoning, which is free: it must when the prompt has begun it, and may
// where the template knows of it.
static struct grammar_frame frame_of(const struct text_model *m, const struct text_prompt *p) {
    const struct reply_format *f = p ? p->reply : NULL;
    if (!f) return (struct grammar_frame){0};
    if (f->harmony)
        return (struct grammar_frame){
            .after = sv(LEX_SPECIAL "<|channel|>final" LEX_SPECIAL "<|message|>")};
    if (p->opened) return (struct grammar_frame){.after = f->think_close};
    bool knows =
        f->think_open.n && sv_find(chat_source(m->chat, f == &m->reply[1]), f->think_open, 0) >= 0;
    if (!knows) return (struct grammar_frame){0};
    return (struct grammar_frame){.open = f->think_open, .after = f->think_close};
}

struct grammar *constraint_grammar(const struct text_model *m, const struct constraint *c,
                                   const struct text_prompt *p, struct error *e) {
    const struct lexicon *l = lexicon_of(m);
    struct grammar_frame f = frame_of(m, p);
    switch (c->kind) {
    case CONSTRAINT_GBNF: return grammar_gbnf(l, c->text, &f, e);
    case CONSTRAINT_REGEX: return grammar_regex(l, c->text, &f, e);
    case CONSTRAINT_SCHEMA: return grammar_schema(l, c->schema, &f, e);
    case CONSTRAINT_NONE: break;
    }
    return NULL;
}
