#include "engine/constraint.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"

enum { LOOK_MS = 10 }; // who waits for a place asks so often whether to go on

// A grammar by all that it was made of.
struct kept {
    struct str key;
    struct grammar *grammar;
    uint64_t used; // when, in requests
};

struct vocabulary {
    pthread_mutex_t lock;
    pthread_cond_t left;     // a place
    size_t makers;           // places that are taken
    struct lexicon *lexicon; // NULL until it is needed; constant then
    struct grammar_room room;
    struct kept kept[GRAMMARS_MOST];
    size_t n;
    uint64_t requests;
};

struct vocabulary *vocabulary_open(void) {
    struct vocabulary *v = mem_alloc(sizeof *v);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&v->left, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&v->lock, NULL);
    v->room.most = GRAMMARS_ROOM;
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
    pthread_cond_destroy(&v->left);
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

// Keeps a grammar that was just made, by key, and takes both; the lock is held. Returns it, or the
// one that another thread has made of the same meanwhile; NULL when there is no room for it.
static struct grammar *keep(struct vocabulary *v, struct str key, struct grammar *g) {
    struct grammar *other = find(v, &key);
    while (!other && v->n &&
           (v->n == GRAMMARS_MOST || bytes_kept(v) + key.n > GRAMMARS_BYTES ||
            v->room.bytes > v->room.most))
        drop_oldest(v);
    if (other || v->room.bytes > v->room.most) {
        str_free(&key);
        grammar_close(g);
        return other;
    }
    v->kept[v->n++] = (struct kept){key, grammar_share(g), v->requests};
    return g;
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
                                    struct effort *effort, struct error *e) {
    struct syntax s = {.e = e, .effort = effort};
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

// Waits until the grammar is there, which is returned, or one of the places is free, which is taken
// then; the lock is held. NULL without an error: it is taken. The first one there has all to itself
// until it has made the lexicon.
static struct grammar *wait_place(struct vocabulary *v, const struct str *key, struct effort *f,
                                  struct error *e) {
    struct grammar *g;
    while (!(g = find(v, key)) && v->makers >= (v->lexicon ? GRAMMARS_MAKERS : 1)) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += LOOK_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&v->left, &v->lock, &until);
        if (!effort_goes_on(f, e)) return NULL;
    }
    if (!g) v->makers++;
    return g;
}

// Gives the place back, with what was made in it.
static struct grammar *leave_place(struct vocabulary *v, struct lexicon *l, struct str key,
                                   struct grammar *g) {
    pthread_mutex_lock(&v->lock);
    if (!v->lexicon) v->lexicon = l;
    v->makers--;
    if (g)
        g = keep(v, key, g);
    else
        str_free(&key);
    pthread_cond_broadcast(&v->left);
    pthread_mutex_unlock(&v->lock);
    return g;
}

struct grammar *constraint_grammar(const struct text_model *m, const struct constraint *c,
                                   const struct text_prompt *p, struct effort *f, struct error *e) {
    struct vocabulary *v = m->vocabulary;
    struct str key = key_of(c, m, p);
    pthread_mutex_lock(&v->lock);
    struct grammar *g = wait_place(v, &key, f, e);
    struct lexicon *l = v->lexicon;
    pthread_mutex_unlock(&v->lock);
    if (g || e->set) {
        str_free(&key);
        return g;
    }
    if (!l) l = make_lexicon(m);
    f->room = &v->room;
    g = leave_place(v, l, key, make_grammar(m, l, c, p, f, e));
    f->full = !g && !e->set;
    if (f->full)
        fail(e, "the grammars of all requests take more than %d MiB: try again later",
             GRAMMARS_ROOM >> 20);
    return g;
}
