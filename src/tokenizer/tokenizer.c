#include "tokenizer/tokenizer.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "tokenizer/added.h"
#include "tokenizer/decoder.h"
#include "tokenizer/model.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/postprocessor.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/unicode.h"

enum {
    FILE_LIMIT = 256 << 20, // bytes of a tokenizer.json
    KEEP_WORK = 1 << 20,    // working memory of a longer text isn't kept for the next
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

struct tokenizer {
    struct normalizer normalizer;
    struct pretokenizer pretokenizer;
    struct model model;
    struct postprocessor postprocessor;
    struct decoder decoder;
    struct added added;
    int32_t bos, eos;
    struct work_list *work;
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

static bool read_stages(struct tokenizer *t, const struct document *d, struct error *e) {
    struct json_object *j = d->rest;
    return model_read(&t->model, d, e) && norm_read(&t->normalizer, json_at(j, "normalizer"), e) &&
           pre_read(&t->pretokenizer, json_at(j, "pre_tokenizer"), e) &&
           post_read(&t->postprocessor, json_at(j, "post_processor"), e) &&
           decode_read(&t->decoder, json_at(j, "decoder"), e) &&
           added_read(&t->added, json_at(j, "added_tokens"), &t->model.vocab, &t->normalizer, e);
}

// "bos_token" is the token's text or an object with its "content".
static bool read_config_token(const struct tokenizer *t, struct json_object *config,
                              const char *key, int32_t *id, struct error *e) {
    struct json_object *j = json_at(config, key);
    if (json_object_is_type(j, json_type_object)) j = json_at(j, "content");
    if (!j) return true;
    if (!json_object_is_type(j, json_type_string))
        return fail(e, "key \"%s\" is %.60s, not a token", key, json_object_to_json_string(j));
    *id = tok_id(t, json_text(j));
    return true;
}

static bool read_config(struct tokenizer *t, const char *json_path, struct error *e) {
    char *dir = mem_textn(path_dir(json_path).p, path_dir(json_path).n);
    char *path = path_join(dir, "tokenizer_config.json");
    bool ok = true;
    if (file_named(path)) {
        struct json_object *config = json_read_file(path, FILE_LIMIT, e);
        ok = config && ((read_config_token(t, config, "bos_token", &t->bos, e) &&
                         read_config_token(t, config, "eos_token", &t->eos, e)) ||
                        fail_in(e, "%s", path));
        json_object_put(config);
    }
    free(path);
    free(dir);
    return ok;
}

struct tokenizer *tok_read(struct sv json, const char *name, struct error *e) {
    unicode_init();
    struct tokenizer *t = mem_alloc(sizeof *t);
    t->bos = t->eos = -1;
    t->work = mem_alloc(sizeof *t->work);
    pthread_mutex_init(&t->work->lock, NULL);
    struct document d;
    bool ok = document_read(&d, json, name, e) && (read_stages(t, &d, e) || fail_in(e, "%s", name));
    document_free(&d);
    if (ok) return t;
    tok_close(t);
    return NULL;
}

struct tokenizer *tok_open(const char *path, struct error *e) {
    char *file = dir_exists(path) ? path_join(path, "tokenizer.json") : mem_text(path);
    struct str json = {0};
    struct tokenizer *t = NULL;
    if (file_read(file, FILE_LIMIT, &json, e)) t = tok_read(str_sv(&json), file, e);
    str_free(&json);
    if (t && !read_config(t, file, e)) {
        tok_close(t);
        t = NULL;
    }
    free(file);
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

// Text without the added tokens that are looked for in raw text.
static bool encode_raw(const struct tokenizer *t, struct work *w, struct sv raw, bool first,
                       struct error *e) {
    struct sv text = raw;
    if (t->normalizer.n) {
        if (!norm_run(&t->normalizer, raw, &w->norm, e)) return false;
        text = str_sv(&w->norm);
    }
    w->normal.n = 0;
    added_split(&t->added, &t->added.normal, text, &w->normal);
    for (size_t i = 0; i < w->normal.n; i++) {
        struct added_part p = w->normal.p[i];
        if (p.id >= 0)
            ids_push(&w->ids, p.id);
        else if (!encode_text(t, w, sv_cut(text, p.from, p.to), first && p.from == 0, e))
            return false;
    }
    return true;
}

bool tok_encode(const struct tokenizer *t, struct sv text, bool special, struct ids *out,
                struct error *e) {
    struct work *w = work_take(t);
    if (!utf8_valid(text)) {
        str_clear(&w->clean);
        unicode_lossy(&w->clean, text, false);
        text = str_sv(&w->clean);
    }
    bool ok = true;
    w->ids.n = w->raw.n = 0;
    added_split(&t->added, &t->added.raw, text, &w->raw);
    for (size_t i = 0; i < w->raw.n && ok; i++) {
        struct added_part p = w->raw.p[i];
        if (p.id >= 0)
            ids_push(&w->ids, p.id);
        else
            ok = encode_raw(t, w, sv_cut(text, p.from, p.to), p.from == 0, e);
    }
    if (ok) {
        post_run(&t->postprocessor, special, &w->ids);
        ids_add(out, w->ids.id, w->ids.n);
    }
    if (text.n <= KEEP_WORK)
        work_give(t, w);
    else
        work_close(w);
    return ok;
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

bool tok_is_special(const struct tokenizer *t, int32_t id) {
    const struct added_token *a = added_by_id(&t->added, id);
    return a && a->special;
}

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
    if (token_of(s->t, id, &token)) decode_push(&s->decode, token, out);
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
