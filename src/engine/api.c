// The public library (include/mlxcel.h), over engine/answer.h.
#include "mlxcel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/answer.h"

struct mlxcel {
    struct text_model text;
    bool answering;
};

struct mlxcel_generation {
    struct mlxcel *model;
    struct answer answer;
    size_t prompt_size;
};

enum { DEFAULT_PENALTY_WINDOW = 64 };

const char *mlxcel_version(void) { return MLXCEL_VERSION; }

static void tell(struct mlxcel_error *out, const struct error *e) {
    if (out && e->set) snprintf(out->text, sizeof out->text, "%s", e->text);
}

struct mlxcel *mlxcel_open(const char *path, const struct mlxcel_options *opt,
                           struct mlxcel_error *e) {
    static const struct mlxcel_options defaults;
    struct error why = {0};
    if (!opt) opt = &defaults;
    struct engine_options o = {
        .device = opt->device,
        .pool.threads = opt->threads,
        .isa = ISA_BEST,
        .precision = opt->f32 ? PRECISION_F32 : PRECISION_NATIVE,
        .cache_k = opt->cache_k,
        .cache_v = opt->cache_v,
        .context = opt->context,
    };
    struct mlxcel *m = mem_alloc(sizeof *m);
    if (text_open(&m->text, path, &o, &why)) return m;
    tell(e, &why);
    free(m);
    return NULL;
}

void mlxcel_close(struct mlxcel *m) {
    if (m) text_close(&m->text);
    free(m);
}

struct mlxcel_info mlxcel_get_info(const struct mlxcel *m) {
    const struct engine_info *i = engine_info(m->text.engine);
    return (struct mlxcel_info){
        .family = i->family,
        .device = i->device,
        .parameters = i->parameters,
        .layers = i->layers,
        .vocabulary = i->vocab,
        .context = i->context,
        .model_context = i->model_context,
        .weight_bytes = i->weight_bytes,
        .cache_bytes = i->state_bytes,
        .scratch_bytes = i->scratch_bytes,
    };
}

int64_t mlxcel_tokenize(const struct mlxcel *m, const char *text, size_t size, bool special,
                        int32_t *ids, size_t room, struct mlxcel_error *e) {
    struct error why = {0};
    struct ids all = {0};
    bool ok = tok_encode(m->text.tokenizer, sv_n(text, size), special, &all, &why);
    size_t n = all.n < room ? all.n : room;
    if (ok && n) memcpy(ids, all.id, n * sizeof *ids);
    int64_t count = ok ? (int64_t)all.n : -1;
    ids_free(&all);
    tell(e, &why);
    return count;
}

int64_t mlxcel_detokenize(const struct mlxcel *m, const int32_t *ids, size_t count, char *text,
                          size_t room, struct mlxcel_error *e) {
    struct error why = {0};
    struct str all = {0};
    int64_t vocab = engine_info(m->text.engine)->vocab;
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            fail(&why, "token %zu is %d; the vocabulary has ids 0 to %lld", i, ids[i],
                 (long long)vocab - 1);
    if (!why.set) tok_decode(m->text.tokenizer, ids, count, false, &all);
    size_t n = all.n < room ? all.n : room;
    if (n) memcpy(text, all.p, n);
    int64_t size = why.set ? -1 : (int64_t)all.n;
    str_free(&all);
    tell(e, &why);
    return size;
}

// --- answers -------------------------------------------------------------------------------------

static bool chat_ids(const struct text_model *m, const struct mlxcel_request *r, struct ids *out,
                     struct error *e) {
    struct json_object *list = json_object_new_array();
    for (size_t i = 0; i < r->message_count; i++) {
        const struct mlxcel_message *from = &r->messages[i];
        struct json_object *to = json_object_new_object();
        if (!from->role || !from->content)
            fail(e, "message %zu has no %s", i, from->role ? "content" : "role");
        json_object_object_add(to, "role", json_object_new_string(from->role ? from->role : ""));
        json_object_object_add(to, "content",
                               json_object_new_string(from->content ? from->content : ""));
        json_object_array_add(list, to);
    }
    struct chat_options opt = {.add_generation_prompt = true};
    struct text_prompt prompt = {0};
    bool ok = !e->set && text_chat_prompt(m, list, &opt, &prompt, e);
    if (ok) ids_add(out, prompt.ids.id, prompt.ids.n);
    ids_free(&prompt.ids);
    json_object_put(list);
    return ok;
}

static bool prompt_ids(const struct text_model *m, const struct mlxcel_request *r, struct ids *out,
                       struct error *e) {
    int ways = (r->messages != NULL) + (r->prompt != NULL) + (r->ids != NULL);
    if (ways != 1)
        return fail(e, "a request needs one of messages, prompt and ids; this has %d", ways);
    if (r->messages) return chat_ids(m, r, out, e);
    if (r->prompt) return tok_encode(m->tokenizer, sv(r->prompt), true, out, e);
    ids_add(out, r->ids, r->id_count);
    return true;
}

static struct sampling sampling_of(const struct mlxcel_request *r) {
    struct sampling s = sampling_greedy();
    s.temperature = r->temperature;
    s.top_k = r->top_k;
    s.top_p = r->top_p == 0 ? 1 : r->top_p;
    s.min_p = r->min_p;
    s.repetition_penalty = r->repetition_penalty == 0 ? 1 : r->repetition_penalty;
    s.presence_penalty = r->presence_penalty;
    s.frequency_penalty = r->frequency_penalty;
    s.penalty_window = r->penalty_window ? r->penalty_window : DEFAULT_PENALTY_WINDOW;
    s.seed = r->seed;
    return s;
}

static bool start(struct mlxcel_generation *g, const struct mlxcel_request *r, struct error *e) {
    struct text_model *m = &g->model->text;
    struct ids prompt = {0};
    struct sv *stop = mem_array(r->stop_count, sizeof *stop);
    for (size_t i = 0; i < r->stop_count; i++) stop[i] = sv(r->stop[i]);
    bool ok = prompt_ids(m, r, &prompt, e);
    struct request request = {
        .prompt = prompt.id,
        .n = prompt.n,
        .max_new = r->max_tokens > 0 ? r->max_tokens : -1,
        .sampling = sampling_of(r),
        .stop_ids = m->defaults.eos,
        .stop_count = r->ignore_eos ? 0 : m->defaults.eos_count,
    };
    ok = ok && answer_start(&g->answer, m, &request, NULL, stop, r->stop_count, e);
    g->prompt_size = prompt.n;
    ids_free(&prompt);
    free(stop);
    return ok;
}

struct mlxcel_generation *mlxcel_generate_start(struct mlxcel *m, const struct mlxcel_request *r,
                                                struct mlxcel_error *e) {
    struct error why = {0};
    struct mlxcel_generation *g = mem_alloc(sizeof *g);
    g->model = m;
    bool ok = m->answering ? fail(&why, "the model is making another answer: close that first")
                           : start(g, r, &why);
    if (ok) {
        m->answering = true;
        return g;
    }
    free(g);
    tell(e, &why);
    return NULL;
}

bool mlxcel_generate_next(struct mlxcel_generation *g, struct mlxcel_piece *piece,
                          struct mlxcel_error *e) {
    struct error why = {0};
    struct sv text;
    bool more = answer_next(&g->answer, &text, &why);
    *piece = (struct mlxcel_piece){text.p, text.n};
    tell(e, &why);
    return more;
}

void mlxcel_generate_cancel(struct mlxcel_generation *g) { answer_cancel(&g->answer); }

enum mlxcel_finish mlxcel_generate_finish(const struct mlxcel_generation *g) {
    switch (g->answer.finish) {
    case FINISH_NOT: return MLXCEL_RUNNING;
    case FINISH_STOP:
    case FINISH_LOOP: return MLXCEL_STOP;
    case FINISH_LENGTH:
    case FINISH_CONTEXT: return MLXCEL_LENGTH;
    case FINISH_CANCELLED: return MLXCEL_CANCELLED;
    }
    return MLXCEL_RUNNING;
}

const int32_t *mlxcel_generate_ids(const struct mlxcel_generation *g, size_t *count) {
    *count = g->answer.ids.n;
    return g->answer.ids.id;
}

size_t mlxcel_generate_prompt_size(const struct mlxcel_generation *g) { return g->prompt_size; }

void mlxcel_generate_close(struct mlxcel_generation *g) {
    if (!g) return;
    answer_close(&g->answer);
    g->model->answering = false;
    free(g);
}
