#include "engine/constraint.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"

// A grammar by all that it was made of.
struct kept {
    struct str key;
    struct grammar *grammar;
    uint64_t used; // when, in requests
};

struct vocabulary {
    pthread_mutex_t lock;
    struct lexicon *lexicon; // NULL until it is needed; constant then
    struct kept kept[GRAMMARS_MOST];
    size_t n;
    uint64_t requests;
};

struct vocabulary *vocabulary_open(void) {
    struct vocabulary *v = mem_alloc(sizeof *v);
    pthread_mutex_init(&v->lock, NULL);
    return v;
}

static void drop(struct vocabulary *v, size_t i) {
    grammar_close(v->kept[i].grammar);
    str_free(&v->kept[i].key);
    v->kept[i] = v->kept[--v->n];
}

void vocabulary_close(struct vocabulary *v) {
    if (!v) return;
    while (v->n) drop(v, v->n - 1);
    lex_close(v->lexicon);
    pthread_mutex_destroy(&v->lock);
    free(v);
}

// Special tokens have no text but those that mark the parts of a reply. A token of the byte that
// stands before those, which no character has, is never allowed.
static void add_bytes_of(const struct text_model *m, int32_t id, struct str *out) {
    struct sv token = tok_token(m->tokenizer, id);
    if (!tok_is_special(m->tokenizer, id)) {
        size_t n = out->n;
        tok_bytes(m->tokenizer, id, out);
        if (sv_find(str_sv(out), sv(LEX_SPECIAL), n) >= 0) out->n = n;
    } else if (reply_format_shows(&m->reply[0], token) || reply_format_shows(&m->reply[1], token)) {
        str_puts(out, LEX_SPECIAL);
        str_add(out, token);
    }
}

static struct lexicon *make_lexicon(const struct text_model *m) {
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

// An answer may begin with reasoning, which is free: it must when the prompt has begun it, and may
// where the template knows of it.
static struct grammar_frame frame_of(const struct text_model *m, const struct text_prompt *p) {
    const struct reply_format *f = p ? p->reply : NULL;
    if (!f) return (struct grammar_frame){0};
    if (f->harmony) return (struct grammar_frame){.after = sv("<|channel|>final<|message|>")};
    if (p->opened) return (struct grammar_frame){.after = f->think_close};
    bool knows =
        f->think_open.n && sv_find(chat_source(m->chat, f == &m->reply[1]), f->think_open, 0) >= 0;
    if (!knows) return (struct grammar_frame){0};
    return (struct grammar_frame){.open = f->think_open, .after = f->think_close};
}

// --- grammars that are kept ----------------------------------------------------------------------

static void add_json(struct str *key, struct json_object *v) {
    str_puts(key, v ? json_object_to_json_string_ext(v, JSON_C_TO_STRING_PLAIN) : "");
    str_addc(key, 0);
}

static struct str key_of(const struct constraint *c, const struct text_model *m,
                         const struct text_prompt *p) {
    struct str key = {0};
    int format = !p ? -1 : p->reply == &m->reply[1];
    str_printf(&key, "%d %d %d %d %d ", c->kind, format, p && p->opened, c->calls_required,
               c->one_call);
    add_json(&key, c->tools);
    add_json(&key, c->schema);
    str_add(&key, c->text);
    return key;
}

static struct grammar *find(struct vocabulary *v, const struct str *key) {
    v->requests++;
    for (size_t i = 0; i < v->n; i++) {
        if (!sv_eq(str_sv(&v->kept[i].key), str_sv(key))) continue;
        v->kept[i].used = v->requests;
        return grammar_share(v->kept[i].grammar);
    }
    return NULL;
}

static void drop_oldest(struct vocabulary *v) {
    size_t oldest = 0;
    for (size_t i = 1; i < v->n; i++)
        if (v->kept[i].used < v->kept[oldest].used) oldest = i;
    drop(v, oldest);
}

static size_t bytes_kept(const struct vocabulary *v) {
    size_t bytes = 0;
    for (size_t i = 0; i < v->n; i++) bytes += v->kept[i].key.n + grammar_bytes(v->kept[i].grammar);
    return bytes;
}

// Takes key. Others may have asked for the same at the same time: one of them serves for all.
static struct grammar *keep(struct vocabulary *v, struct str key, struct grammar *g) {
    pthread_mutex_lock(&v->lock);
    struct grammar *other = find(v, &key);
    if (other) {
        str_free(&key);
    } else {
        while (v->n == GRAMMARS_MOST || (v->n && bytes_kept(v) + key.n > GRAMMARS_BYTES))
            drop_oldest(v);
        v->kept[v->n++] = (struct kept){key, grammar_share(g), v->requests};
    }
    pthread_mutex_unlock(&v->lock);
    if (!other) return g;
    grammar_close(g);
    return other;
}

// --- making --------------------------------------------------------------------------------------

static int32_t read_rules(struct syntax *s, const struct constraint *c) {
    switch (c->kind) {
    case CONSTRAINT_GBNF: return gbnf_read(s, c->text);
    case CONSTRAINT_REGEX: return regex_read(s, c->text);
    case CONSTRAINT_SCHEMA: return schema_read(s, c->schema);
    case CONSTRAINT_NONE: break;
    }
    return -1;
}

static struct grammar *make_grammar(const struct text_model *m, const struct lexicon *l,
                                    const struct constraint *c, const struct text_prompt *p,
                                    struct error *e) {
    struct syntax s = {.e = e};
    struct grammar_frame f = frame_of(m, p);
    if (c->text.n > GRAMMAR_BYTES) {
        fail(e, "it has %zu bytes; it may have %d", c->text.n, GRAMMAR_BYTES);
        return NULL;
    }
    int32_t root = read_rules(&s, c);
    if (c->tools) {
        struct call_rules rules = {c->tools, c->calls_required, c->one_call, root};
        root = call_grammar(&s, p->reply, &rules);
        if (p->reply->harmony) f = (struct grammar_frame){0}; // the rules have reasoning too
    }
    return grammar_rules(l, &s, root, &f);
}

struct grammar *constraint_grammar(const struct text_model *m, const struct constraint *c,
                                   const struct text_prompt *p, struct error *e) {
    struct vocabulary *v = m->vocabulary;
    struct str key = key_of(c, m, p);
    pthread_mutex_lock(&v->lock);
    if (!v->lexicon) v->lexicon = make_lexicon(m);
    struct grammar *g = find(v, &key);
    pthread_mutex_unlock(&v->lock);
    struct grammar *made = g ? NULL : make_grammar(m, v->lexicon, c, p, e);
    if (made) return keep(v, key, made);
    str_free(&key);
    return g;
}
