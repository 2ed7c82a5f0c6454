#include "server/ask_sampling.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/random.h"
#include "engine/breakers.h"
#include "server/body.h"

// Where the checkpoint says nothing either, it is what lablup/mlxcel's server and llama-server
// have.
struct sampling ask_sampling_default(const struct text_model *m, const struct defaults *d) {
    const struct generation_config *g = &m->defaults;
    struct sampling s = d ? d->sampling : sampling_greedy();
    bool greedy = g->has_do_sample && !g->do_sample;
    if (!d || !d->temperature)
        s.temperature = greedy ? 0 : g->has_temperature ? (float)g->temperature : 0.8f;
    if (!d || !d->top_k) s.top_k = g->has_top_k ? g->top_k : 40;
    if (!d || !d->top_p) s.top_p = g->has_top_p ? (float)g->top_p : 0.95f;
    if (!d || !d->min_p) s.min_p = g->has_min_p ? (float)g->min_p : 0.05f;
    if (!d || !d->repetition_penalty)
        s.repetition_penalty = g->has_repetition_penalty ? (float)g->repetition_penalty : 1;
    if (!d) s.penalty_window = s.dry_window = 64;
    s.bias = NULL;
    s.biases = 0;
    return s;
}

// Answers tell it, also to those whose numbers have 53 bits.
static uint64_t random_seed(void) {
    uint64_t seed;
    random_fill(&seed, sizeof seed);
    return seed >> 11;
}

static bool read_common(struct sampling *s, struct json_object *o, const struct defaults *d,
                        struct refusal *r) {
    int64_t seed = d ? d->seed : -1;
    bool ok = body_number(o, "temperature", 0, 100, &s->temperature, r) &&
              body_whole(o, "top_k", -1, ASK_MOST, &s->top_k, r) &&
              body_number(o, "top_p", 0, 1, &s->top_p, r) &&
              body_number(o, "min_p", 0, 1, &s->min_p, r) &&
              body_number(o, "repeat_penalty", 0.01, 100, &s->repetition_penalty, r) &&
              body_number(o, "repetition_penalty", 0.01, 100, &s->repetition_penalty, r) &&
              body_number(o, "presence_penalty", -2, 2, &s->presence_penalty, r) &&
              body_number(o, "frequency_penalty", -2, 2, &s->frequency_penalty, r) &&
              body_whole(o, "repeat_last_n", -1, ASK_MOST, &s->penalty_window, r) &&
              body_whole(o, "seed", INT64_MIN, INT64_MAX, &seed, r);
    if (s->top_k < 0) s->top_k = 0; // vLLM's word for all is -1, the engine's is 0
    s->seed = seed == -1 ? random_seed() : (uint64_t)seed;
    return ok;
}

static bool read_rare(struct sampling *s, struct json_object *o, struct refusal *r) {
    return body_number(o, "dynatemp_range", 0, 100, &s->dynatemp_range, r) &&
           body_number(o, "dynatemp_exponent", 0, 100, &s->dynatemp_exponent, r) &&
           body_number(o, "typical_p", 0, 1, &s->typical_p, r) &&
           body_number(o, "top_n_sigma", -1, 1000, &s->top_n_sigma, r) &&
           body_number(o, "xtc_probability", 0, 1, &s->xtc_probability, r) &&
           body_number(o, "xtc_threshold", 0, 1, &s->xtc_threshold, r) &&
           body_whole(o, "min_keep", 0, ASK_MOST, &s->min_keep, r) &&
           body_whole(o, "mirostat", 0, 2, &s->mirostat, r) &&
           body_number(o, "mirostat_tau", 0, 1000, &s->mirostat_tau, r) &&
           body_number(o, "mirostat_eta", 0, 1000, &s->mirostat_eta, r) &&
           body_number(o, "dry_multiplier", 0, 1000, &s->dry_multiplier, r) &&
           body_number(o, "dry_base", 0, 1000, &s->dry_base, r) &&
           body_whole(o, "dry_allowed_length", 0, 1000000, &s->dry_allowed_length, r) &&
           body_whole(o, "dry_penalty_last_n", -1, ASK_MOST, &s->dry_window, r) &&
           body_whole(o, "min_tokens", 0, ASK_MOST, &s->min_tokens, r);
}

// A list of names, or a string of letters.
static bool read_chain(struct sampling *s, struct json_object *o, struct refusal *r) {
    struct json_object *v = json_at(o, "samplers");
    struct error e = {0};
    if (!v) return true;
    if (json_object_is_type(v, json_type_string))
        return sampling_chain_letters(s, json_text(v), &e) ||
               refuse(r, 400, "samplers", "\"samplers\": %s", e.text);
    if (!json_object_is_type(v, json_type_array))
        return body_wrong_kind(r, "samplers", "a list of names or a string of letters", v);
    s->filters = 0;
    for (size_t i = 0; i < json_object_array_length(v); i++) {
        struct json_object *name = json_object_array_get_idx(v, i);
        if (!json_object_is_type(name, json_type_string))
            return body_wrong_kind(r, "samplers", "a list of names", name);
        if (!sampling_chain_add(s, json_text(name), &e))
            return refuse(r, 400, "samplers", "\"samplers\": %s", e.text);
    }
    return true;
}

static bool read_breakers(struct sampling *s, struct json_object *o, const struct text_model *m,
                          const struct defaults *d, struct refusal *r) {
    static const char name[] = "dry_sequence_breakers";
    struct sv text[BREAKERS_MOST];
    bool own = d && d->own_breakers;
    const struct sv *otherwise = own ? d->breaker : breakers_default;
    size_t n = own ? d->breakers : sizeof breakers_default / sizeof *breakers_default;
    struct json_object *v = json_at(o, name);
    struct error e = {0};
    if (v && !json_object_is_type(v, json_type_array))
        return body_wrong_kind(r, name, "a list of strings", v);
    if (v) n = json_object_array_length(v);
    if (n > BREAKERS_MOST)
        return refuse(r, 400, name, "\"%s\" has %zu texts; it may have %d", name, n, BREAKERS_MOST);
    for (size_t i = 0; i < n; i++) {
        struct json_object *one = v ? json_object_array_get_idx(v, i) : NULL;
        if (v && !json_object_is_type(one, json_type_string))
            return body_wrong_kind(r, name, "a list of strings", one);
        text[i] = v ? json_text(one) : otherwise[i];
    }
    if (s->dry_multiplier == 0) return true;
    s->breakers = breakers_open(m->tokenizer, text, n, &e);
    return s->breakers || refuse(r, 400, name, "%s", e.text);
}

// --- logit biases --------------------------------------------------------------------------------

static bool wrong_bias(struct refusal *r) {
    return refuse(r, 400, "logit_bias",
                  "\"logit_bias\" must be an object {\"15043\": 1.5} or a list [[15043, 1.5], "
                  "[\"text\", false]], with ids of the vocabulary");
}

static bool add_bias(struct sampling *s, size_t *cap, int64_t id, float add,
                     const struct text_model *m, struct refusal *r) {
    if (id < 0 || id >= engine_info(m->engine)->vocab) return wrong_bias(r);
    if (s->biases == ASK_BIASES)
        return refuse(r, 400, "logit_bias", "\"logit_bias\" has more than %d tokens", ASK_BIASES);
    s->bias = mem_grow(s->bias, cap, s->biases + 1, sizeof *s->bias);
    s->bias[s->biases++] = (struct bias){(int32_t)id, add};
    return true;
}

// To every token of a text.
static bool add_biases(struct sampling *s, size_t *cap, struct sv text, float add,
                       const struct text_model *m, struct refusal *r) {
    struct ids ids = {0};
    struct error e = {0};
    bool ok = tok_encode(m->tokenizer, text, false, &ids, &e) ||
              refuse(r, 400, "logit_bias", "%s", e.text);
    for (size_t i = 0; i < ids.n && ok; i++) ok = add_bias(s, cap, ids.id[i], add, m, r);
    ids_free(&ids);
    return ok;
}

// A number, or false: never.
static bool read_add(struct json_object *v, float *add, struct refusal *r) {
    double d = json_object_get_double(v);
    *add = -INFINITY;
    if (json_object_is_type(v, json_type_boolean) && !json_object_get_boolean(v)) return true;
    bool number = json_object_is_type(v, json_type_int) || json_object_is_type(v, json_type_double);
    if (!number || !(d >= -1e9 && d <= 1e9)) return wrong_bias(r);
    *add = (float)d;
    return true;
}

// A key is an id in digits, or text.
static bool read_bias_member(struct sampling *s, size_t *cap, struct sv key, struct json_object *v,
                             const struct text_model *m, struct refusal *r) {
    int64_t id = key.n ? 0 : -1;
    float add;
    for (size_t i = 0; i < key.n && id >= 0; i++)
        id = key.p[i] >= '0' && key.p[i] <= '9' && id < ASK_MOST ? id * 10 + key.p[i] - '0' : -1;
    if (!read_add(v, &add, r)) return false;
    return id >= 0 ? add_bias(s, cap, id, add, m, r) : add_biases(s, cap, key, add, m, r);
}

static bool read_bias_pair(struct sampling *s, size_t *cap, struct json_object *pair,
                           const struct text_model *m, struct refusal *r) {
    float add;
    if (!json_object_is_type(pair, json_type_array) || json_object_array_length(pair) != 2)
        return wrong_bias(r);
    struct json_object *who = json_object_array_get_idx(pair, 0);
    if (!read_add(json_object_array_get_idx(pair, 1), &add, r)) return false;
    if (json_object_is_type(who, json_type_string))
        return add_biases(s, cap, json_text(who), add, m, r);
    if (!json_object_is_type(who, json_type_int)) return wrong_bias(r);
    return add_bias(s, cap, json_object_get_int64(who), add, m, r);
}

static bool read_biases(struct sampling *s, struct json_object *o, const struct text_model *m,
                        const struct defaults *d, struct refusal *r) {
    struct json_object *v = json_at(o, "logit_bias");
    size_t cap = 0;
    for (size_t i = 0; !v && d && i < d->sampling.biases; i++)
        if (!add_bias(s, &cap, d->sampling.bias[i].id, d->sampling.bias[i].add, m, r)) return false;
    if (!v) return true;
    if (json_object_is_type(v, json_type_object)) {
        json_object_object_foreach(v, key, value) {
            if (!read_bias_member(s, &cap, sv(key), value, m, r)) return false;
        }
        return true;
    }
    if (!json_object_is_type(v, json_type_array)) return wrong_bias(r);
    for (size_t i = 0; i < json_object_array_length(v); i++)
        if (!read_bias_pair(s, &cap, json_object_array_get_idx(v, i), m, r)) return false;
    return true;
}

// --- ends ----------------------------------------------------------------------------------------

static bool read_stop_ids(struct ask *a, struct json_object *o, const struct text_model *m,
                          struct refusal *r) {
    struct json_object *v = json_at(o, "stop_token_ids");
    bool ignore_eos = a->defaults && a->defaults->ignore_eos;
    if (!body_flag(o, "ignore_eos", &ignore_eos, r)) return false;
    if (!ignore_eos) ids_add(&a->stop_ids, m->defaults.eos, m->defaults.eos_count);
    if (!v) return true;
    if (!json_object_is_type(v, json_type_array))
        return body_wrong_kind(r, "stop_token_ids", "a list of token ids", v);
    size_t n = json_object_array_length(v);
    if (n > ASK_STOP_IDS)
        return refuse(r, 400, "stop_token_ids", "\"stop_token_ids\" has %zu ids; it may have %d", n,
                      ASK_STOP_IDS);
    for (size_t i = 0; i < n; i++) {
        struct json_object *one = json_object_array_get_idx(v, i);
        int64_t id = json_object_is_type(one, json_type_int) ? json_object_get_int64(one) : -1;
        if (id < 0 || id >= engine_info(m->engine)->vocab)
            return refuse(r, 400, "stop_token_ids",
                          "element %zu of \"stop_token_ids\" is no token id: those are 0 to %lld",
                          i, (long long)engine_info(m->engine)->vocab - 1);
        ids_push(&a->stop_ids, (int32_t)id);
    }
    return true;
}

// vLLM has these in an object of their own, lablup/mlxcel in the request.
static bool read_loop(struct loop *l, struct json_object *o, struct refusal *r) {
    static const char name[] = "repetition_detection";
    struct json_object *own = json_at(o, name);
    struct loop l2 = *l;
    if (!l2.most) l2 = (struct loop){.least = 1, .count = 12};
    struct error e = {0};
    if (own && !json_object_is_type(own, json_type_object))
        return body_wrong_kind(r, name, "an object", own);
    if (!own) own = o;
    if (!body_whole(own, "max_pattern_size", 0, LOOP_SIZE_MOST, &l2.most, r) ||
        !body_whole(own, "min_pattern_size", 0, LOOP_SIZE_MOST, &l2.least, r) ||
        !body_whole(own, "min_count", 0, LOOP_COUNT_MOST, &l2.count, r))
        return false;
    if (l2.most && l2.least < 1) l2.least = 1;
    if (l2.most && !loop_check(&l2, &e))
        return refuse(r, 400, own == o ? "max_pattern_size" : name, "%s", e.text);
    *l = l2.most ? l2 : (struct loop){0};
    return true;
}

bool ask_sampling(struct ask *a, struct json_object *o, const struct text_model *m,
                  struct refusal *r) {
    const struct defaults *d = a->defaults;
    struct sampling *s = &a->sampling;
    *s = ask_sampling_default(m, d);
    if (d) a->loop = d->loop;
    bool ok = read_common(s, o, d, r) && read_rare(s, o, r) && read_chain(s, o, r) &&
              read_breakers(s, o, m, d, r) && read_biases(s, o, m, d, r) &&
              read_stop_ids(a, o, m, r) && read_loop(&a->loop, o, r);
    s->late = a->stop_ids.id;
    s->lates = a->stop_ids.n;
    return ok;
}
