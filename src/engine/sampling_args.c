// Names, defaults and variables are those of llama.cpp.
#include "engine/sampling_args.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/breakers.h"

static const struct arg args[] = {
    {"--samplers", ARG_TEXT, "NAMES", NULL,
     "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature", 0, 0,
     "the samplers and their order, with ; between; one that is not named does nothing"},
    {"--sampling-seq --sampler-seq", ARG_TEXT, "LETTERS", NULL, NULL, 0, 0,
     "the same in letters: edskypmxt is the default; --samplers wins"},
    {"--dynatemp-range", ARG_NUMBER, "R", NULL, "0", 0, 100,
     "the temperature moves by up to this, up where many tokens are likely and down where few are; "
     "0: off"},
    {"--dynatemp-exp", ARG_NUMBER, "X", NULL, "1", 0, 100,
     "how it moves: with this power of the entropy"},
    {"--typical --typical-p", ARG_NUMBER, "P", NULL, "1", 0, 1,
     "only the tokens whose surprise is nearest to the expected, that together have this "
     "probability; 1: all"},
    {"--top-n-sigma --top-nsigma", ARG_NUMBER, "N", NULL, "-1", -1, 1000,
     "only tokens whose logit is within N standard deviations of the greatest; -1: all"},
    {"--xtc-probability", ARG_NUMBER, "P", NULL, "0", 0, 1,
     "how often the likeliest tokens are dropped, all but the last above the threshold; 0: never"},
    {"--xtc-threshold", ARG_NUMBER, "P", NULL, "0.1", 0, 1, "of XTC; above 0.5: off"},
    {"--mirostat", ARG_INT, "N", NULL, "0", 0, 2,
     "1 or 2: keep the text as surprising as --mirostat-ent says, with temperature and no other "
     "sampler; 0: off"},
    {"--mirostat-ent", ARG_NUMBER, "TAU", NULL, "5", 0, 1000,
     "the surprise of a token aimed at, in bits"},
    {"--mirostat-lr", ARG_NUMBER, "ETA", NULL, "0.1", 0, 1000, "how fast it is approached"},
    {"--dry-multiplier", ARG_NUMBER, "M", NULL, "0", 0, 1000,
     "taken from the logit of a token that would go on with a repetition, times a power of its "
     "length; 0: off"},
    {"--dry-base", ARG_NUMBER, "B", NULL, "1.75", 0, 1000, "of that power"},
    {"--dry-allowed-length", ARG_INT, "N", NULL, "2", 0, 1e6,
     "repetitions of fewer tokens cost nothing"},
    {"--dry-penalty-last-n", ARG_INT, "N", NULL, "64", -1, 1e9,
     "how many tokens back DRY looks; -1: all, 0: none"},
    {"--dry-sequence-breaker", ARG_TEXTS, "TEXT", NULL, NULL, 0, 0,
     "a text that no repetition goes beyond, instead of the line break, \":\", the double quote and "
     "\"*\"; may be given several times; none: there is no such text"},
    {"--presence-penalty", ARG_NUMBER, "R", "LLAMA_ARG_PRESENCE_PENALTY", "0", -100, 100,
     "taken from the logit of a token that was there; 0: off"},
    {"--frequency-penalty", ARG_NUMBER, "R", "LLAMA_ARG_FREQUENCY_PENALTY", "0", -100, 100,
     "taken from the logit of a token for each time it was there; 0: off"},
    {"-l --logit-bias", ARG_TEXTS, "ID(+|-)BIAS", NULL, NULL, 0, 0,
     "added to a token's logit, as 15043+1 or 15043-inf; may be given several times"},
    {"--loop-detection", ARG_TEXT, "on|off|LEAST,MOST,COUNT", "MLXCEL_LOOP_DETECTION", "off", 0, 0,
     "end an answer whose last tokens are one pattern of LEAST to MOST tokens, COUNT times in a "
     "row; on: 1,20,12"},
};
const struct arg_group sampling_arg_group = {"Samplers", args, sizeof args / sizeof *args};

// "15043-1.5"
static bool read_bias(struct bias *out, struct sv text, struct error *e) {
    char copy[64], *end = copy;
    snprintf(copy, sizeof copy, "%.*s", (int)text.n, text.p);
    long long id = copy[0] >= '0' && copy[0] <= '9' ? strtoll(copy, &end, 10) : -1;
    bool sign = *end == '+' || *end == '-';
    double add = strtod(end, &end);
    if (id < 0 || id > INT32_MAX || !sign || *end || text.n >= sizeof copy || isnan(add) ||
        add > 1e9)
        return fail(e,
                    "--logit-bias \"%s\" must be a token id, + or -, and a number, as 15043+1 or "
                    "15043-inf",
                    copy);
    *out = (struct bias){(int32_t)id, (float)add};
    return true;
}

static bool read_biases(const struct args *a, struct sampling *s, struct error *e) {
    const struct sv *text;
    size_t n = args_texts(a, "logit-bias", &text);
    s->bias = mem_array(n, sizeof *s->bias);
    for (; s->biases < n; s->biases++)
        if (!read_bias(&s->bias[s->biases], text[s->biases], e)) return false;
    return true;
}

static bool read_chain(const struct args *a, struct sampling *s, struct error *e) {
    const char *letters = args_text(a, "sampling-seq");
    if (letters && !args_given(a, "samplers"))
        return sampling_chain_letters(s, sv(letters), e) || fail_in(e, "--sampling-seq");
    return sampling_chain(s, sv(args_text(a, "samplers")), e) || fail_in(e, "--samplers");
}

bool sampling_args_read(const struct args *a, struct sampling *s, struct error *e) {
    s->dynatemp_range = (float)args_number(a, "dynatemp-range");
    s->dynatemp_exponent = (float)args_number(a, "dynatemp-exp");
    s->typical_p = (float)args_number(a, "typical");
    s->top_n_sigma = (float)args_number(a, "top-n-sigma");
    s->xtc_probability = (float)args_number(a, "xtc-probability");
    s->xtc_threshold = (float)args_number(a, "xtc-threshold");
    s->mirostat = args_int(a, "mirostat");
    s->mirostat_tau = (float)args_number(a, "mirostat-ent");
    s->mirostat_eta = (float)args_number(a, "mirostat-lr");
    s->dry_multiplier = (float)args_number(a, "dry-multiplier");
    s->dry_base = (float)args_number(a, "dry-base");
    s->dry_allowed_length = args_int(a, "dry-allowed-length");
    s->dry_window = args_int(a, "dry-penalty-last-n");
    s->presence_penalty = (float)args_number(a, "presence-penalty");
    s->frequency_penalty = (float)args_number(a, "frequency-penalty");
    return read_biases(a, s, e) && read_chain(a, s, e);
}

bool sampling_args_breakers(const struct args *a, const struct tokenizer *t, struct sampling *s,
                            struct error *e) {
    const struct sv *text = breakers_default;
    size_t n = sizeof breakers_default / sizeof *breakers_default;
    if (s->dry_multiplier == 0) return true;
    if (args_given(a, "dry-sequence-breaker")) n = args_texts(a, "dry-sequence-breaker", &text);
    if (n > BREAKERS_MOST)
        return fail(e, "--dry-sequence-breaker is given %zu times; it may be %d", n, BREAKERS_MOST);
    if (n && sv_is(text[n - 1], "none")) n = 0;
    s->breakers = breakers_open(t, text, n, e);
    return s->breakers != NULL;
}

bool sampling_args_loop(const struct args *a, struct loop *l, struct error *e) {
    const char *text = args_text(a, "loop-detection");
    long long least = 1, most = 20, count = 12;
    int end = 0;
    *l = (struct loop){0};
    if (!strcmp(text, "off")) return true;
    if (strcmp(text, "on") != 0 &&
        (sscanf(text, "%9lld,%9lld,%9lld%n", &least, &most, &count, &end) != 3 || text[end]))
        return fail(e, "--loop-detection is \"%s\"; it can be on, off, or three numbers as 1,20,12",
                    text);
    *l = (struct loop){least, most, count};
    return !most || loop_check(l, e) || fail_in(e, "--loop-detection");
}

void sampling_args_free(struct sampling *s) {
    breakers_close(s->breakers);
    free(s->bias);
    s->breakers = NULL;
    s->bias = NULL;
    s->biases = 0;
}
