#include "server/metrics.h"

struct metric {
    const char *name, *help;
    double value;
};

void metrics_open(struct metrics *m) {
    *m = (struct metrics){0};
    pthread_mutex_init(&m->lock, NULL);
}

void metrics_close(struct metrics *m) { pthread_mutex_destroy(&m->lock); }

static void add(struct str *s, const char *kind, const struct metric *m, size_t n) {
    for (size_t i = 0; i < n; i++)
        str_printf(s, "# HELP %s %s\n# TYPE %s %s\n%s %.15g\n", m[i].name, m[i].help, m[i].name,
                   kind, m[i].name, m[i].value);
}

static void add_counters(struct str *s, const struct worker_stats *now) {
    const struct engine_stats *e = &now->engine;
    const struct metric m[] = {
        {"llamacpp:prompt_tokens_total", "Tokens of prompts that were computed.",
         (double)e->prompt_tokens},
        {"llamacpp:prompt_tokens_cached_total", "Tokens of prompts that were found in the caches.",
         (double)e->cached_tokens},
        {"llamacpp:prompt_seconds_total", "Seconds of steps that computed prompts.",
         e->prompt_seconds},
        {"llamacpp:tokens_predicted_total", "Tokens of answers.", (double)now->made},
        {"llamacpp:tokens_predicted_seconds_total", "Seconds of steps that computed answers alone.",
         e->decode_seconds},
        {"llamacpp:n_decode_total", "Steps of the model.", (double)e->steps},
        {"llamacpp:n_tokens_max", "Tokens of the longest prompt with its answer.",
         (double)e->longest},
        {"llamacpp:spec_decode_num_draft_tokens_total", "Drafted tokens; there is no drafter.", 0},
        {"llamacpp:spec_decode_num_accepted_tokens_total",
         "Drafted tokens that stood; there is no drafter.", 0},
        {"llamacpp:spec_decode_num_drafts_total", "Drafts; there is no drafter.", 0},
        {"mlxcel_batch_prefill_tokens_total", "Rows of prompts in the model's steps.",
         (double)e->prompt_tokens},
        {"mlxcel_batch_decode_tokens_total", "Rows of answers in the model's steps.",
         (double)e->decode_tokens},
        {"mlxcel_batch_sequences_completed", "Answers that are over.", (double)now->ended},
        {"mlxcel_batch_preemptions_total",
         "Answers that gave their place back for want of cache, and went on later.",
         (double)e->preempted},
    };
    add(s, "counter", m, sizeof m / sizeof *m);
}

static double rate(int64_t n, double seconds) { return seconds > 0 ? (double)n / seconds : 0; }

static void add_gauges(struct str *s, const struct worker_stats *now,
                       const struct worker_stats *before, int64_t places) {
    const struct engine_stats *e = &now->engine, *b = &before->engine;
    const struct metric m[] = {
        {"llamacpp:prompt_tokens_seconds", "Tokens of prompts a second, since the last scrape.",
         rate(e->prompt_tokens - b->prompt_tokens, e->prompt_seconds - b->prompt_seconds)},
        {"llamacpp:predicted_tokens_seconds", "Tokens of answers a second, since the last scrape.",
         rate(e->decode_tokens - b->decode_tokens, e->decode_seconds - b->decode_seconds)},
        {"llamacpp:requests_processing", "Answers that are made now.", (double)now->running},
        {"llamacpp:requests_deferred", "Answers that wait.", (double)now->waiting},
        {"llamacpp:n_busy_slots_per_decode", "Answers and prompts in a step, on average.",
         e->steps ? (double)e->turns / (double)e->steps : 0},
        {"mlxcel_slots_total", "Answers that can be made at once.", (double)places},
        {"mlxcel_slots_available", "Answers more that could be made now.",
         (double)(places - now->running)},
        {"mlxcel_queue_depth", "Answers that wait.", (double)now->waiting},
    };
    add(s, "gauge", m, sizeof m / sizeof *m);
}

void metrics_write(struct str *out, struct metrics *m, const struct worker_stats *now,
                   int64_t places) {
    pthread_mutex_lock(&m->lock);
    struct worker_stats before = m->before;
    m->before = *now;
    pthread_mutex_unlock(&m->lock);
    add_counters(out, now);
    add_gauges(out, now, &before, places);
}
