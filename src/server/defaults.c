// Names and variables are those of llama-server.
#include "server/defaults.h"

#include "engine/breakers.h"
#include "engine/sampling_args.h"

static const struct arg args[] = {
    {"-n --predict --n-predict --max-tokens", ARG_INT, "N", "LLAMA_ARG_N_PREDICT", "-1", -1, 1e9,
     "tokens of an answer at most; -1: until the model ends or the context is full"},
    {"--temp --temperature", ARG_NUMBER, "T", "LLAMA_ARG_TEMPERATURE", NULL, 0, 100,
     "without it generation_config.json's, else 0.8"},
    {"--top-k", ARG_INT, "N", "LLAMA_ARG_TOP_K", NULL, 0, 1e9,
     "without it generation_config.json's, else 40; 0: all"},
    {"--top-p", ARG_NUMBER, "P", "LLAMA_ARG_TOP_P", NULL, 0, 1,
     "without it generation_config.json's, else 0.95; 1: all"},
    {"--min-p", ARG_NUMBER, "P", "LLAMA_ARG_MIN_P", NULL, 0, 1,
     "without it generation_config.json's, else 0.05; 0: all"},
    {"--repeat-penalty --repetition-penalty", ARG_NUMBER, "R", "LLAMA_ARG_REPEAT_PENALTY", NULL,
     0.01, 100, "without it generation_config.json's, else 1: off"},
    {"--repeat-last-n", ARG_INT, "N", NULL, "64", -1, 1e9,
     "how many tokens back the penalties look; -1: all, 0: none"},
    {"-s --seed", ARG_INT, "N", NULL, "-1", -1, 0x1p53 - 1,
     "the same seed gives the same answer; -1: another one each time"},
    {"--ignore-eos", ARG_FLAG, NULL, NULL, NULL, 0, 0,
     "go on after the model's end-of-sequence tokens"},
};
const struct arg_group defaults_arg_group = {"Where requests say nothing", args,
                                             sizeof args / sizeof *args};

static bool read_breakers(struct defaults *d, const struct args *a, struct error *e) {
    d->own_breakers = args_given(a, "dry-sequence-breaker");
    if (!d->own_breakers) return true;
    d->breakers = args_texts(a, "dry-sequence-breaker", &d->breaker);
    if (d->breakers && sv_is(d->breaker[d->breakers - 1], "none")) d->breakers = 0;
    return d->breakers <= BREAKERS_MOST ||
           fail(e, "--dry-sequence-breaker is given %zu times; it may be %d", d->breakers,
                BREAKERS_MOST);
}

bool defaults_read(struct defaults *d, const struct args *a, struct error *e) {
    struct sampling *s = &d->sampling;
    *d = (struct defaults){
        .sampling = sampling_greedy(),
        .temperature = args_given(a, "temp"),
        .top_k = args_given(a, "top-k"),
        .top_p = args_given(a, "top-p"),
        .min_p = args_given(a, "min-p"),
        .repetition_penalty = args_given(a, "repeat-penalty"),
        .seed = args_int(a, "seed"),
        .max_new = args_int(a, "predict"),
        .ignore_eos = args_flag(a, "ignore-eos"),
    };
    s->penalty_window = args_int(a, "repeat-last-n");
    if (d->temperature) s->temperature = (float)args_number(a, "temp");
    if (d->top_k) s->top_k = args_int(a, "top-k");
    if (d->top_p) s->top_p = (float)args_number(a, "top-p");
    if (d->min_p) s->min_p = (float)args_number(a, "min-p");
    if (d->repetition_penalty) s->repetition_penalty = (float)args_number(a, "repeat-penalty");
    return sampling_args_read(a, s, e) && sampling_args_loop(a, &d->loop, e) &&
           read_breakers(d, a, e) && constraint_args_read(a, &d->form, e);
}

void defaults_free(struct defaults *d) {
    sampling_args_free(&d->sampling);
    constraint_args_free(&d->form);
    *d = (struct defaults){0};
}
