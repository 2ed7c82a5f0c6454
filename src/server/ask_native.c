#include "server/ask_native.h"

#include <math.h>
#include <stdint.h>

#include "base/mem.h"
#include "server/ask_grammar.h"
#include "server/ask_prompt.h"
#include "server/body.h"
#include "server/fim.h"
#include "server/settings.h"

enum { CHOICES_MOST = 128, PROBS_MOST = 100 };

// Fields that say how to use the caches, or how to move a context that is full; none of them
// changes an answer here.
static bool read_caching(struct json_object *o, const struct text_model *m, struct refusal *r) {
    int64_t ignored, places = engine_info(m->engine)->sequences;
    return body_whole(o, "id_slot", -1, places - 1, &ignored, r) &&
           body_whole(o, "n_keep", -1, ASK_MOST, &ignored, r) &&
           body_whole(o, "n_discard", 0, ASK_MOST, &ignored, r) &&
           body_whole(o, "n_cache_reuse", 0, ASK_MOST, &ignored, r);
}

static bool read_answers(struct ask *a, struct json_object *o, struct refusal *r) {
    int64_t n = 1;
    bool ok = body_whole(o, "n", 1, CHOICES_MOST, &n, r) &&
              body_whole(o, "n_cmpl", 1, CHOICES_MOST, &n, r) &&
              body_whole(o, "logprobs", 0, PROBS_MOST, &a->tops, r) &&
              body_whole(o, "n_probs", 0, PROBS_MOST, &a->tops, r) &&
              body_flag(o, "post_sampling_probs", &a->drawn, r) &&
              body_flag(o, "return_tokens", &a->keep_ids, r) &&
              body_whole(o, "n_indent", 0, ASK_MOST, &a->indent, r) &&
              body_whole(o, "t_max_predict_ms", -1, INT64_MAX, &a->most_ms, r);
    a->choices = (size_t)n;
    a->logprobs = a->end_chances = a->tops > 0;
    a->keep_ids |= a->stream;
    return ok;
}

// The fields of the answer that are wanted; what is no list of names asks for all.
static void read_fields(struct ask *a, struct json_object *o) {
    struct json_object *list = json_at(o, "response_fields");
    if (!json_object_is_type(list, json_type_array) || !json_object_array_length(list)) return;
    for (size_t i = 0; i < json_object_array_length(list); i++)
        if (!json_object_is_type(json_object_array_get_idx(list, i), json_type_string)) return;
    a->fields = json_object_get(list);
}

// An end that is ignored never comes, as llama-server has it.
static bool ban_ends(struct ask *a, struct json_object *o, const struct text_model *m,
                     struct refusal *r) {
    struct sampling *s = &a->sampling;
    bool ignored = a->defaults && a->defaults->ignore_eos;
    if (!body_flag(o, "ignore_eos", &ignored, r) || !ignored) return !r->status;
    size_t n = s->biases + m->defaults.eos_count;
    s->bias = mem_resize(s->bias, n, sizeof *s->bias);
    for (size_t i = 0; i < m->defaults.eos_count; i++)
        s->bias[s->biases++] = (struct bias){m->defaults.eos[i], -INFINITY};
    return true;
}

static bool read_common(struct ask *a, struct json_object *o, const struct text_model *m,
                        struct refusal *r) {
    if (!ask_common(a, o, m, r) || !read_answers(a, o, r) || !read_caching(o, m, r) ||
        !ban_ends(a, o, m, r))
        return false;
    read_fields(a, o);
    return true;
}

bool ask_native(struct ask *a, struct json_object *o, const struct text_model *m,
                const struct server_options *opt, struct refusal *r) {
    (void)opt;
    if (!read_common(a, o, m, r) || !ask_prompts(a, o, m, r) || !ask_grammar(a, o, false, m, r))
        return false;
    settings_write(&a->settings, a, o);
    return true;
}

// Editors name a sampler that joins tokens of one beginning; it is left out.
static void drop_infill_sampler(struct json_object *o) {
    struct json_object *list = json_at(o, "samplers");
    if (!json_object_is_type(list, json_type_array)) return;
    for (size_t i = json_object_array_length(list); i-- > 0;)
        if (sv_is(json_text(json_object_array_get_idx(list, i)), "infill"))
            json_object_array_del_idx(list, i, 1);
}

// What the model writes after the middle that begins another file, or fills up, ends the answer.
static void add_ends(struct ask *a, const struct text_model *m) {
    struct fim f = fim_of(m);
    const int32_t ends[] = {f.repo, f.file, f.pad};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends[i] >= 0) ids_push(&a->stop_ids, ends[i]);
    a->sampling.late = a->stop_ids.id;
    a->sampling.lates = a->stop_ids.n;
}

bool ask_infill(struct ask *a, struct json_object *o, const struct text_model *m,
                const struct server_options *opt, struct refusal *r) {
    drop_infill_sampler(o);
    if (!read_common(a, o, m, r) ||
        !fim_prompt(o, opt->suffix_first, a->max_new, m, &a->prompt.ids, r) ||
        !ask_check_length(a->prompt.ids.n, "input_prefix", m, r))
        return false;
    add_ends(a, m);
    if (!ask_grammar(a, o, false, m, r)) return false;
    settings_write(&a->settings, a, o);
    return true;
}
