#include "server/settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/breakers.h"
#include "server/ask_sampling.h"

// The shortest decimal number that reads as this float again; null for what JSON can't say.
static void write_number(struct str *out, float f) {
    char text[32] = "null";
    for (int digits = 1; isfinite(f) && digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)f);
        if (strtof(text, NULL) == f) break;
    }
    str_puts(out, text);
}

static void add_number(struct str *s, const char *name, float f) {
    str_printf(s, "\"%s\":", name);
    write_number(s, f);
    str_addc(s, ',');
}

static void add_whole(struct str *s, const char *name, int64_t n) {
    str_printf(s, "\"%s\":%lld,", name, (long long)n);
}

static void add_flag(struct str *s, const char *name, bool on) {
    str_printf(s, "\"%s\":%s,", name, on ? "true" : "false");
}

static void add_sampling(struct str *s, const struct sampling *p) {
    add_whole(s, "seed", (int64_t)p->seed);
    add_number(s, "temperature", p->temperature);
    add_number(s, "dynatemp_range", p->dynatemp_range);
    add_number(s, "dynatemp_exponent", p->dynatemp_exponent);
    add_whole(s, "top_k", p->top_k);
    add_number(s, "top_p", p->top_p);
    add_number(s, "min_p", p->min_p);
    add_number(s, "top_n_sigma", p->top_n_sigma);
    add_number(s, "xtc_probability", p->xtc_probability);
    add_number(s, "xtc_threshold", p->xtc_threshold);
    add_number(s, "typical_p", p->typical_p);
    add_whole(s, "repeat_last_n", p->penalty_window);
    add_number(s, "repeat_penalty", p->repetition_penalty);
    add_number(s, "presence_penalty", p->presence_penalty);
    add_number(s, "frequency_penalty", p->frequency_penalty);
    add_number(s, "dry_multiplier", p->dry_multiplier);
    add_number(s, "dry_base", p->dry_base);
    add_whole(s, "dry_allowed_length", p->dry_allowed_length);
    add_whole(s, "dry_penalty_last_n", p->dry_window);
    add_whole(s, "mirostat", p->mirostat);
    add_number(s, "mirostat_tau", p->mirostat_tau);
    add_number(s, "mirostat_eta", p->mirostat_eta);
    str_puts(s, "\"adaptive_target\":-1.0,\"adaptive_decay\":0.9,"); // a sampler that is not here
    add_whole(s, "min_keep", p->min_keep);
    str_puts(s, "\"samplers\":[");
    for (size_t i = 0; i < p->filters; i++)
        str_printf(s, i ? ",\"%s\"" : "\"%s\"", filter_name(p->chain[i]));
    str_puts(s, "],");
}

static void add_limits(struct str *s, const struct ask *a, bool ignore_eos) {
    add_whole(s, "max_tokens", a->max_new);
    add_whole(s, "n_predict", a->max_new);
    str_puts(s, "\"n_keep\":0,\"n_discard\":0,"); // a context that is full is not shifted
    add_flag(s, "ignore_eos", ignore_eos);
    add_flag(s, "stream", a->stream);
    add_whole(s, "n_probs", a->logprobs ? a->tops : 0);
    add_flag(s, "timings_per_token", a->timings);
    add_flag(s, "post_sampling_probs", a->drawn);
    str_puts(s, "\"backend_sampling\":false,\"speculative.types\":\"none\",");
}

static void add_texts(struct str *s, const struct ask *a, struct json_object *body) {
    struct json_object *breakers = json_at(body, "dry_sequence_breakers");
    bool own = a->defaults && a->defaults->own_breakers;
    const struct sv *otherwise = own ? a->defaults->breaker : breakers_default;
    size_t n = own ? a->defaults->breakers : sizeof breakers_default / sizeof *breakers_default;
    if (breakers) n = json_object_array_length(breakers);
    str_puts(s, "\"dry_sequence_breakers\":[");
    for (size_t i = 0; i < n; i++) {
        if (i) str_addc(s, ',');
        json_quote(s, breakers ? json_text(json_object_array_get_idx(breakers, i)) : otherwise[i]);
    }
    str_puts(s, "],\"stop\":[");
    for (size_t i = 0; i < a->stops; i++) {
        if (i) str_addc(s, ',');
        json_quote(s, str_sv(&a->stop[i]));
    }
    str_puts(s, "],\"logit_bias\":[");
    for (size_t i = 0; i < a->sampling.biases; i++) {
        str_puts(s, i ? ",{\"bias\":" : "{\"bias\":");
        write_number(s, a->sampling.bias[i].add);
        str_printf(s, ",\"token\":%d}", a->sampling.bias[i].id);
    }
    str_puts(s, "],\"grammar\":");
    json_quote(s, json_text_at(body, "grammar"));
    str_puts(s, ",\"grammar_lazy\":false,\"grammar_triggers\":[],\"preserved_tokens\":[],"
                "\"chat_format\":\"Content-only\",\"reasoning_format\":\"none\","
                "\"reasoning_in_content\":false,\"generation_prompt\":\"\",");
}

void settings_write(struct str *out, const struct ask *a, struct json_object *body) {
    str_addc(out, '{');
    add_sampling(out, &a->sampling);
    add_limits(out, a, body ? json_bool_at(body, "ignore_eos", false) : !a->stop_ids.n);
    if (body) add_texts(out, a, body);
    str_puts(out, "\"lora\":[]}");
}

void settings_default(struct str *out, const struct text_model *m, const struct defaults *d) {
    struct ask a = {.max_new = d->max_new, .sampling = ask_sampling_default(m, d)};
    // llama-server's word for another one each time
    a.sampling.seed = d->seed == -1 ? UINT32_MAX : (uint64_t)d->seed;
    if (!d->ignore_eos) ids_add(&a.stop_ids, m->defaults.eos, m->defaults.eos_count);
    settings_write(out, &a, NULL);
    ids_free(&a.stop_ids);
}
