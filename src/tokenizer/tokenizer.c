#include "tokenizer/tokenizer.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "tokenizer/parts.h"
#include "tokenizer/unicode.h"

enum {
    KEEP_WORK = 1 << 20, // working memory of a longer text isn't kept for the next
    BLOCK_MOST = 400000, // characters; see cut_run
    RUN_MOST = 25000,
};

// What one tok_encode works with.
struct work {
    struct work *next; // in the list of idle ones
    struct model_work model;
    struct str clean, norm;
    struct added_parts raw, normal;
    struct pieces pieces, spare;
    struct ids ids;
};

// Idle working memory, with its caches of words.
struct work_list {
    pthread_mutex_t lock;
    struct work *idle;
};

static void work_close(struct work *w) {
    model_work_close(&w->model);
    str_free(&w->clean);
    str_free(&w->norm);
    free(w->raw.p);
    free(w->normal.p);
    pieces_free(&w->pieces);
    pieces_free(&w->spare);
    ids_free(&w->ids);
    free(w);
}

static struct work *work_take(const struct tokenizer *t) {
    pthread_mutex_lock(&t->work->lock);
    struct work *w = t->work->idle;
    if (w) t->work->idle = w->next;
    pthread_mutex_unlock(&t->work->lock);
    if (w) return w;
    w = mem_alloc(sizeof *w);
    model_work_open(&w->model, &t->model);
    return w;
}

static void work_give(const struct tokenizer *t, struct work *w) {
    pthread_mutex_lock(&t->work->lock);
    w->next = t->work->idle;
    t->work->idle = w;
    pthread_mutex_unlock(&t->work->lock);
}

struct tokenizer *tok_new(void) {
    unicode_init();
    struct tokenizer *t = mem_alloc(sizeof *t);
    t->bos = t->eos = -1;
    t->work = mem_alloc(sizeof *t->work);
    pthread_mutex_init(&t->work->lock, NULL);
    return t;
}

void tok_close(struct tokenizer *t) {
    if (!t) return;
    norm_free(&t->normalizer);
    pre_free(&t->pretokenizer);
    model_free(&t->model);
    post_free(&t->postprocessor);
    decode_free(&t->decoder);
    added_free(&t->added);
    for (struct work *w = t->work->idle, *next; w; w = next) {
        next = w->next;
        work_close(w);
    }
    pthread_mutex_destroy(&t->work->lock);
    free(t->work);
    free(t);
}

// Text without added tokens, normalized: pieces, then ids.
static bool encode_text(const struct tokenizer *t, struct work *w, struct sv text, bool first,
                        struct error *e) {
    if (!t->pretokenizer.n) return model_encode(&t->model, &w->model, text, &w->ids, e);
    if (!pre_run(&t->pretokenizer, text, first, &w->pieces, &w->spare, e)) return false;
    for (size_t i = 0; i < w->pieces.spans.n; i++) {
        struct span x = w->pieces.spans.p[i];
        struct sv piece = sv_cut(str_sv(&w->pieces.text), x.from, x.to);
        if (!model_encode(&t->model, &w->model, piece, &w->ids, e)) return false;
    }
    return true;
}

static bool normalize(const struct tokenizer *t, struct work *w, struct sv raw, bool first,
                      struct sv *text, struct error *e) {
    *text = raw;
    if (!t->normalizer.n) return true;
    bool ok = norm_run(&t->normalizer, raw, first, &w->norm, e);
    *text = str_sv(&w->norm);
    return ok;
}

// As Python's str.isspace
static bool is_space(int32_t c) { return unicode_space(c) || (c >= 0x1c && c <= 0x1f); }

// Kimi's class cuts text before tiktoken sees it: into blocks, and where more than RUN_MOST
// characters in a row are white space, or are none. Returns the end of the part at text[at], and
// counts the characters of the block.
static size_t cut_run(struct sv text, size_t at, size_t *block) {
    size_t run = 0;
    bool space = false;
    for (size_t i = at, next = at; i < text.n; i = next) {
        bool now = is_space(unicode_next(text, &next));
        if (*block == BLOCK_MOST) return *block = 0, i;
        run = i > at && now == space ? run + 1 : 1;
        space = now;
        if (run > RUN_MOST) return i;
        ++*block;
    }
    return text.n;
}

static bool encode_cut(const struct tokenizer *t, struct work *w, struct sv text, bool first,
                       struct error *e) {
    bool ok = true;
    for (size_t at = 0, end, block = 0; ok && at < text.n; at = end) {
        end = t->cut_runs ? cut_run(text, at, &block) : text.n;
        ok = encode_text(t, w, sv_cut(text, at, end), first && at == 0, e);
    }
    return ok;
}

// Text without the added tokens that are looked for in raw text.
static bool encode_raw(const struct tokenizer *t, struct work *w, struct sv raw, bool first,
                       struct error *e) {
    struct sv text;
    if (!normalize(t, w, raw, first, &text, e)) return false;
    w->normal.n = 0;
    added_split(&t->added, &t->added.normal, text, &w->normal);
    for (size_t i = 0; i < w->normal.n; i++) {
        struct added_part p = w->normal.p[i];
        if (p.id >= 0)
            ids_push(&w->ids, p.id);
        else if (!encode_cut(t, w, sv_cut(text, p.from, p.to), first && p.from == 0, e))
            return false;
    }
    return true;
}

// The text as UTF-8, to working memory that has no ids yet.
static struct sv begin(struct work *w, struct sv text) {
    w->ids.n = w->raw.n = 0;
    if (utf8_valid(text)) return text;
    str_clear(&w->clean);
    unicode_lossy(&w->clean, text, false);
    return str_sv(&w->clean);
}

// Hands over the ids of `text`, and the working memory back.
static bool end(const struct tokenizer *t, struct work *w, struct sv text, bool ok,
                struct ids *out) {
    if (ok) ids_add(out, w->ids.id, w->ids.n);
    if (text.n <= KEEP_WORK)
        work_give(t, w);
    else
        work_close(w);
    return ok;
}

bool tok_encode_plain(const struct tokenizer *t, struct sv text, bool special, struct ids *out,
                      struct error *e) {
    struct work *w = work_take(t);
    struct sv clean = begin(w, text), norm;
    bool ok =
        !clean.n || (normalize(t, w, clean, true, &norm, e) && encode_cut(t, w, norm, true, e));
    if (ok && special) post_run(&t->postprocessor, true, &w->ids);
    return end(t, w, clean, ok, out);
}

bool tok_encode(const struct tokenizer *t, struct sv text, bool special, struct ids *out,
                struct error *e) {
    struct work *w = work_take(t);
    bool ok = true;
    text = begin(w, text);
    added_split(&t->added, &t->added.raw, text, &w->raw);
    for (size_t i = 0; i < w->raw.n && ok; i++) {
        struct added_part p = w->raw.p[i];
        if (p.id >= 0)
            ids_push(&w->ids, p.id);
        else
            ok = encode_raw(t, w, sv_cut(text, p.from, p.to), p.from == 0, e);
    }
    if (ok) post_run(&t->postprocessor, special, &w->ids);
    return end(t, w, text, ok, out);
}

int64_t tok_size(const struct tokenizer *t) {
    int64_t size = (int64_t)t->model.vocab.size;
    for (size_t i = 0; i < t->added.n; i++)
        if (t->added.token[i].id >= size) size = t->added.token[i].id + 1;
    return size;
}

int32_t tok_id(const struct tokenizer *t, struct sv token) {
    const struct added_token *a = added_by_text(&t->added, token);
    return a ? a->id : vocab_id(&t->model.vocab, token);
}

// The text of an id, added or of the model; false when there is none.
static bool token_of(const struct tokenizer *t, int32_t id, struct sv *token) {
    const struct added_token *a = added_by_id(&t->added, id);
    if (a) *token = str_sv(&a->shown);
    return a || vocab_token(&t->model.vocab, id, token);
}

struct sv tok_token(const struct tokenizer *t, int32_t id) {
    struct sv token = sv("");
    token_of(t, id, &token);
    return token;
}

bool tok_is_special(const struct tokenizer *t, int32_t id) { return added_skipped(&t->added, id); }

int32_t tok_bos(const struct tokenizer *t) { return t->bos; }
int32_t tok_eos(const struct tokenizer *t) { return t->eos; }

struct tok_stream {
    const struct tokenizer *t;
    bool skip_special;
    struct decode_stream decode;
};

static void stream_start(struct tok_stream *s, const struct tokenizer *t, bool skip_special,
                         bool eager) {
    *s = (struct tok_stream){.t = t, .skip_special = skip_special};
    decode_open(&s->decode, &t->decoder, eager);
}

struct tok_stream *tok_stream_open(const struct tokenizer *t, bool skip_special) {
    struct tok_stream *s = mem_alloc(sizeof *s);
    stream_start(s, t, skip_special, true);
    return s;
}

void tok_stream_push(struct tok_stream *s, int32_t id, struct str *out) {
    struct sv token;
    if (s->skip_special && added_skipped(&s->t->added, id)) return;
    const struct spm *spm = &s->t->model.spm;
    if (spm->piece && id == spm->unk)
        decode_push(&s->decode, str_sv(&spm->unk_text), out);
    else if (token_of(s->t, id, &token))
        decode_push(&s->decode, token, out);
}

void tok_stream_finish(struct tok_stream *s, struct str *out) { decode_finish(&s->decode, out); }

void tok_stream_close(struct tok_stream *s) {
    if (!s) return;
    decode_close(&s->decode);
    free(s);
}

void tok_decode(const struct tokenizer *t, const int32_t *id, size_t n, bool skip_special,
                struct str *out) {
    struct tok_stream s;
    stream_start(&s, t, skip_special, false);
    for (size_t i = 0; i < n; i++) tok_stream_push(&s, id[i], out);
    tok_stream_finish(&s, out);
    decode_close(&s.decode);
}
