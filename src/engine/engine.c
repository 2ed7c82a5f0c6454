// Opening: what the model needs is known, and compared with what there is, before it is loaded.
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/parts.h"

enum {
    LEAST_CONTEXT = 256,
    DEFAULT_BATCH = 512, // on the CPU; on a GPU:
    DEFAULT_GPU_BATCH = 4096,
    MOST_BATCH = 1 << 16,
    MOST_SEQUENCES = 4096,
    MOST_SNAPSHOTS = 1 << 16
};
static const int64_t MOST_CONTEXT = (int64_t)1 << 32;

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static bool check_options(struct engine_options *o, const struct device *dev, struct error *err) {
    if (!o->sequences) o->sequences = 1;
    if (!o->batch) o->batch = most(dev->host ? DEFAULT_BATCH : DEFAULT_GPU_BATCH, o->sequences);
    if (!o->chunk) o->chunk = o->batch;
    if (o->chunk > o->batch) o->chunk = o->batch;
    if (o->context < 0 || o->context > MOST_CONTEXT)
        return fail(err, "context is %lld tokens; it must be from 1 to %lld", (long long)o->context,
                    (long long)MOST_CONTEXT);
    if (o->batch < 1 || o->batch > MOST_BATCH)
        return fail(err, "batch is %lld rows; it must be from 1 to %d", (long long)o->batch,
                    MOST_BATCH);
    if (o->chunk < 1) return fail(err, "chunk is %lld rows", (long long)o->chunk);
    if (o->sequences < 1 || o->sequences > MOST_SEQUENCES)
        return fail(err, "sequences is %lld; it must be from 1 to %d", (long long)o->sequences,
                    MOST_SEQUENCES);
    if (o->tokens < 0 || o->tokens > MOST_CONTEXT)
        return fail(err, "tokens is %lld; it must be from 0 to %lld", (long long)o->tokens,
                    (long long)MOST_CONTEXT);
    if (!o->snapshots) o->snapshots = 2 * o->sequences + 2;
    if (o->snapshots < 0 || o->snapshots > MOST_SNAPSHOTS)
        return fail(err, "snapshots is %lld; it must be from 0 to %d", (long long)o->snapshots,
                    MOST_SNAPSHOTS);
    if (o->drafts < 0 || o->drafts >= o->chunk)
        return fail(err, "drafts is %lld; it must be from 0 to less than the chunk of %lld rows",
                    (long long)o->drafts, (long long)o->chunk);
    return true;
}

// Learned positions end with their table.
static bool check_positions(const struct engine *e, struct error *err) {
    int64_t most = decoder_spec(e->decoder)->positions;
    return !most || e->opt.context <= most ||
           fail(err, "context is %lld tokens, but the model has only %lld positions (--ctx-size)",
                (long long)e->opt.context, (long long)most);
}

static bool open_model(struct engine *e, const char *path, struct error *err) {
    e->config = config_open(path, err);
    if (!e->config) return false;
    struct decoder_spec spec = {0};
    const struct family *f = family_read(e->config, &spec, err);
    if (!f) return false;
    e->info.family = f->id;
    e->info.family_name = f->name;
    e->weights =
        e->opt.load_dummy ? weights_open_dummy(e->config, err) : weights_open(path, e->config, err);
    if (!e->weights) {
        decoder_spec_free(&spec);
        return false;
    }
    for (const struct name_move *m = f->moves; m && m->from; m++)
        weights_move(e->weights, m->from, m->to, err);
    e->decoder = decoder_bind(spec, f->layouts, e->weights, err);
    return e->decoder && check_positions(e, err) &&
           weights_check_unused(e->weights, decoder_layout(e->decoder)->ignored, err);
}

struct cache_name {
    const char *name;
    enum dtype type;
};
// The first name of a type is what it is called.
static const struct cache_name cache_names[] = {
    {"f16", DT_F16}, {"bf16", DT_BF16}, {"f32", DT_F32},
    {"q8_0", DT_I8}, {"fp16", DT_F16},  {"int8", DT_I8},
};
enum { CACHE_NAMES = sizeof cache_names / sizeof *cache_names };

static const char *cache_name(enum dtype type) {
    int i = 0;
    while (cache_names[i].type != type) i++;
    return cache_names[i].name;
}

static bool read_cache_type(const char *name, enum precision p, enum dtype *out, struct error *e) {
    *out = p == PRECISION_F32 ? DT_F32 : DT_F16;
    if (!name) return true;
    for (int i = 0; i < CACHE_NAMES; i++) {
        if (strcmp(name, cache_names[i].name) != 0) continue;
        *out = cache_names[i].type;
        return true;
    }
    return fail(e,
                "a cache of type \"%s\" is not known; it can be f16 or fp16, bf16, f32, q8_0 or "
                "int8 (--cache-type-k, --cache-type-v)",
                name);
}

static bool read_cache_types(struct engine *e, struct error *err) {
    if (!read_cache_type(e->opt.cache_k, e->opt.precision, &e->cache_k, err) ||
        !read_cache_type(e->opt.cache_v, e->opt.precision, &e->cache_v, err))
        return false;
    e->info.cache_k = cache_name(e->cache_k);
    e->info.cache_v = cache_name(e->cache_v);
    return true;
}

static struct state_plan plan(const struct engine *e, int64_t context) {
    return (struct state_plan){
        .layer = e->decl,
        .layers = e->info.layers,
        .context = context,
        .sequences = e->opt.sequences,
        .tokens = e->opt.tokens ? most(e->opt.tokens, context) : e->opt.sequences * context,
        .chunk = e->opt.chunk,
        .snapshots = e->opt.snapshots,
        .k_type = e->cache_k,
        .v_type = e->cache_v,
    };
}

static void describe(struct engine *e) {
    const struct decoder_spec *s = decoder_spec(e->decoder);
    struct engine_info *i = &e->info;
    i->layers = s->layers;
    i->hidden = s->hidden;
    i->vocab = s->vocab;
    i->model_context = s->context;
    i->sequences = e->opt.sequences;
    i->batch = e->opt.batch;
    i->parameters = weights_parameters(e->weights);
    i->weight_bytes = weights_bytes(e->weights);
    i->bits_per_weight = i->parameters ? 8.0 * (double)i->weight_bytes / (double)i->parameters : 0;
    e->decl = mem_array((size_t)s->layers, sizeof *e->decl);
    for (int64_t l = 0; l < s->layers; l++) e->decl[l] = decoder_state(e->decoder, l);
    struct state_plan p = plan(e, s->context);
    i->state_bytes_per_token = state_bytes_per_token(&p);
}

// The scratch memory of a step with page tables for `context` tokens, measured by a dry run, which
// checks every shape on the way.
static bool measure_scratch(struct engine *e, int64_t wanted, int64_t context, size_t *bytes,
                            struct error *err) {
    struct state_plan p = plan(e, context);
    struct layer_state *state = mem_array((size_t)p.layers, sizeof *state);
    state_shapes(&p, state);
    struct context dry;
    context_open(&dry, e->dev, e->opt.precision, 0, true, err);
    int64_t n = e->opt.batch, runs = n < p.sequences ? n : p.sequences;
    struct tensor list = tensor_1d(DT_I32, n, NULL), run = tensor_1d(DT_I32, runs + 1, NULL);
    struct rows rows = {n, runs, list, list, list, list, run, list};
    struct choices c = {.back = BACK_BEST, .best = 1};
    c.logits = decoder_forward(&dry, e->decoder, &rows, state, tensor_1d(DT_I32, wanted, NULL));
    choices_compute(&c, &dry, tensor_1d(DT_F32, wanted, NULL));
    *bytes = dry.peak;
    bool ok = !dry.err.set;
    if (!ok) fail(err, "%s: the model does not fit together: %s", e->info.family, dry.err.text);
    context_close(&dry);
    free(state);
    return ok;
}

static bool fits(const struct engine *e, const struct state_plan *p) {
    size_t need = state_bytes(p);
    return size_add(need, e->info.weight_bytes, &need) &&
           size_add(need, e->info.scratch_bytes, &need) && need <= e->info.available_bytes;
}

// The asked context, or the longest up to the model's own that fits one sequence.
static int64_t choose_context(const struct engine *e) {
    if (e->opt.context > e->info.model_context && !e->opt.load_dummy)
        log_say(LOG_WARN,
                "context is %lld tokens, but the model was made for %lld: what it says beyond them "
                "may be nonsense (--ctx-size)",
                (long long)e->opt.context, (long long)e->info.model_context);
    if (e->opt.context) return e->opt.context;
    int64_t context = e->info.model_context;
    for (; context > LEAST_CONTEXT; context = most(context / 2, LEAST_CONTEXT)) {
        struct state_plan p = plan(e, context);
        p.tokens = context;
        if (fits(e, &p)) break;
    }
    if (context < e->info.model_context)
        log_say(LOG_WARN,
                "context is cut from %lld to %lld tokens, which is what memory holds (--ctx-size)",
                (long long)e->info.model_context, (long long)context);
    return context;
}

// Tokens that the caches hold: of every sequence at its longest, or fewer, as many as fit. Then
// requests wait for each other.
static int64_t choose_tokens(const struct engine *e, int64_t context) {
    struct state_plan p = plan(e, context);
    if (e->opt.tokens && e->opt.tokens < p.tokens)
        log_say(LOG_WARN,
                "the cache is raised from %lld to %lld tokens, a context (--cache-tokens)",
                (long long)e->opt.tokens, (long long)p.tokens);
    if (e->opt.tokens || e->opt.dry) return p.tokens;
    int64_t all = p.tokens;
    while (p.tokens > context && !fits(e, &p)) p.tokens = most(p.tokens / 2, context);
    if (p.tokens < all)
        log_say(LOG_WARN,
                "the cache is cut from %lld to %lld tokens, which is what memory holds: %lld "
                "sequences share it (--cache-tokens, --ctx-size)",
                (long long)all, (long long)p.tokens, (long long)p.sequences);
    return p.tokens;
}

static double mib(size_t bytes) { return (double)bytes / 0x1p20; }

// The longest context that fits one sequence, in whole pages; 0: none.
static int64_t longest_fit(const struct engine *e) {
    int64_t fit = 0, over = (e->info.context + PAGE_TOKENS - 1) / PAGE_TOKENS;
    while (over - fit > 1) {
        int64_t middle = fit + (over - fit) / 2;
        struct state_plan p = plan(e, middle * PAGE_TOKENS);
        p.tokens = p.context;
        *(fits(e, &p) ? &fit : &over) = middle;
    }
    return fit * PAGE_TOKENS;
}

static bool refuse(const struct engine *e, const char *path, struct error *err) {
    const struct engine_info *i = &e->info;
    int64_t fit = longest_fit(e);
    bool halves = device_mixed_cache(e->dev) && e->cache_k != DT_I8 && i->state_bytes_per_token;
    char remedy[256];
    if (fit)
        snprintf(remedy, sizeof remedy,
                 "one of %lld tokens fits: --ctx-size%s; in bench -d, -p, -n, -b", (long long)fit,
                 halves ? ", or more with --cache-type-k q8_0 --cache-type-v q8_0" : "");
    else
        snprintf(remedy, sizeof remedy, "no context fits: take weights of fewer bits%s",
                 e->dev->host ? "" : ", or --device cpu");
    return fail(err,
                "%s: does not fit: weights %.0f MiB, cache %.0f MiB (%lld tokens in %lld sequences "
                "of up to %lld; %.0f MiB are recurrent state and its snapshots), scratch %.0f MiB; "
                "%.0f MiB are available on %s (%s)",
                path, mib(i->weight_bytes), mib(i->state_bytes), (long long)i->cache_tokens,
                (long long)i->sequences, (long long)i->context, mib(i->fixed_bytes),
                mib(i->scratch_bytes), mib(i->available_bytes), e->dev->name, remedy);
}

static bool preflight(struct engine *e, const char *path, struct error *err) {
    struct engine_info *i = &e->info;
    size_t total;
    device_memory(e->dev, &i->available_bytes, &total);
    int64_t longest = e->opt.context ? e->opt.context : i->model_context;
    if (!measure_scratch(e, e->max_wanted, longest, &i->scratch_bytes, err)) return false;
    i->context = choose_context(e);
    e->opt.tokens = i->cache_tokens = choose_tokens(e, i->context);
    struct state_plan p = plan(e, i->context);
    i->state_bytes = state_bytes(&p);
    i->fixed_bytes = state_fixed_bytes(&p);
    return e->opt.dry || fits(e, &p) || refuse(e, path, err);
}

bool engine_fit(struct engine *e, int64_t wanted, struct error *err) {
    if (e->ctx.scratch && wanted <= e->max_wanted) return true;
    size_t bytes;
    if (e->dev->pool) pool_use(e->dev->pool, true); // each thread has scratch of its own
    if (!measure_scratch(e, wanted, e->info.context, &bytes, err)) return false;
    struct context bigger;
    if (!context_open(&bigger, e->dev, e->opt.precision, bytes, false, err)) return false;
    context_close(&e->ctx);
    e->ctx = bigger;
    e->info.scratch_bytes = bytes;
    e->max_wanted = wanted;
    return true;
}

static bool open_lists(struct engine *e, struct error *err) {
    int64_t each = e->opt.batch + STEP_ALIGN, all = STEP_LISTS * each;
    e->inputs = tensor_1d(DT_I32, all, NULL);
    e->inputs.data = device_alloc(e->dev, tensor_bytes(e->inputs), "a step's inputs", err);
    e->staged = mem_array((size_t)all, sizeof *e->staged);
    return !err->set && choices_open(&e->choices, e->dev, e->info.vocab, e->max_wanted, err);
}

static bool open_schedule(struct engine *e) {
    struct limits limits = {
        .context = e->info.context,
        .sequences = e->opt.sequences,
        .batch = e->opt.batch,
        .chunk = e->opt.chunk,
        .drafts = e->opt.drafts,
        .short_context = decoder_short_context(e->decoder),
    };
    sched_open(&e->sched, &limits, &e->state);
    return true;
}

// MLXCEL_WEIGHT_MATERIALIZATION=lazy leaves reading the weights to the steps that need them, but
// for those that are converted. A dummy's are not there before they are written.
static bool populate(struct engine *e, struct error *err) {
    const char *when = e->opt.load_dummy ? NULL : getenv("MLXCEL_WEIGHT_MATERIALIZATION");
    bool lazy = when && !strcmp(when, "lazy");
    if (when && !lazy && strcmp(when, "eager") != 0)
        return fail(err, "MLXCEL_WEIGHT_MATERIALIZATION is \"%s\"; it can be eager or lazy", when);
    if (!lazy && (e->dev->host || e->opt.load_dummy))
        return weights_populate(e->weights, e->opt.progress, e->opt.progress_arg, err);
    if (!lazy && !weights_check_scales(e->weights, false, err)) return false;
    weights_convert(e->weights);
    return true;
}

// Where the device has memory of its own, copying the weights there is what reads their files.
static bool place(struct engine *e, struct error *err) {
    double began = clock_now();
    if (!e->opt.load_dummy) e->store.progress = e->opt.progress;
    e->store.progress_arg = e->opt.progress_arg;
    e->store.total = e->info.weight_bytes;
    if (!decoder_store(e->decoder, &e->store, err) || !device_loaded(e->dev, err)) return false;
    double seconds = clock_now() - began;
    if (!e->dev->host)
        log_say(LOG_INFO, "%.2f GB of weights went to %s in %.2f s: %.1f GB/s",
                (double)e->store.bytes / 1e9, e->dev->name, seconds,
                (double)e->store.bytes / 1e9 / seconds);
    return true;
}

static bool load(struct engine *e, struct error *err) {
    store_open(&e->store, e->dev);
    struct state_plan p = plan(e, e->info.context);
    return populate(e, err) && place(e, err) && state_open(&e->state, e->dev, &p, err) &&
           open_lists(e, err) && open_schedule(e) && engine_fit(e, e->max_wanted, err);
}

struct engine *engine_open(const char *path, const struct engine_options *opt, struct error *err) {
    struct engine *e = mem_alloc(sizeof *e);
    e->opt = *opt;
    struct device_options dev = {.pool = opt->pool, .isa = opt->isa};
    if (!e->opt.device) e->opt.device = "auto";
    e->dev = device_open(e->opt.device, &dev, err);
    if (e->dev && check_options(&e->opt, e->dev, err) && read_cache_types(e, err) &&
        open_model(e, path, err)) {
        snprintf(e->info.device, sizeof e->info.device, "%s", e->dev->name);
        describe(e);
        e->max_wanted = e->opt.sequences * (1 + e->opt.drafts);
        if (e->max_wanted > e->opt.batch) e->max_wanted = e->opt.batch;
        if (preflight(e, path, err) && (e->opt.dry || load(e, err))) return e;
    }
    engine_close(e);
    return NULL;
}

void engine_close(struct engine *e) {
    if (!e) return;
    sched_close(&e->sched);
    free(e->staged);
    if (e->dev) {
        device_free(e->dev, e->inputs.data);
        choices_close(&e->choices, e->dev);
        context_close(&e->ctx);
        state_close(&e->state);
        store_close(&e->store);
        device_close(e->dev);
    }
    free(e->decl); // the state's plan
    decoder_close(e->decoder);
    weights_close(e->weights);
    config_close(e->config);
    free(e);
}

const struct engine_info *engine_info(const struct engine *e) { return &e->info; }
