// Opening: what the model needs is known, and compared with what there is, before it is loaded.
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "engine/parts.h"

enum { LEAST_CONTEXT = 256, DEFAULT_BATCH = 512, MOST_BATCH = 1 << 16, MOST_SEQUENCES = 4096 };
static const int64_t MOST_CONTEXT = (int64_t)1 << 32;

static bool check_options(struct engine_options *o, struct error *err) {
    if (!o->device) o->device = "auto";
    if (!o->sequences) o->sequences = 1;
    if (!o->batch) o->batch = DEFAULT_BATCH;
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
    e->weights = e->opt.load_dummy ? weights_open_dummy(e->config, err) : weights_open(path, err);
    if (!e->weights) {
        decoder_spec_free(&spec);
        return false;
    }
    e->decoder = decoder_bind(spec, f->layouts, e->weights, err);
    return e->decoder && check_positions(e, err) &&
           weights_check_unused(e->weights, decoder_layout(e->decoder)->ignored, err);
}

static struct state_plan plan(const struct engine *e, int64_t context) {
    return (struct state_plan){
        .layer = e->decl,
        .layers = e->info.layers,
        .context = context,
        .sequences = e->opt.sequences,
        .chunk = e->opt.chunk,
        .type = e->opt.precision == PRECISION_F32 ? DT_F32 : DT_F16,
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
    decoder_forward(&dry, e->decoder, &rows, state, tensor_1d(DT_I32, wanted, NULL));
    *bytes = dry.peak;
    bool ok = !dry.err.set;
    if (!ok) fail(err, "%s: the model does not fit together: %s", e->info.family, dry.err.text);
    context_close(&dry);
    free(state);
    return ok;
}

// The asked context, or the longest up to the model's own that fits.
static int64_t choose_context(const struct engine *e) {
    if (e->opt.context > e->info.model_context)
        log_say(LOG_WARN,
                "context is %lld tokens, but the model was made for %lld: what it says beyond them "
                "may be nonsense (--ctx-size)",
                (long long)e->opt.context, (long long)e->info.model_context);
    if (e->opt.context) return e->opt.context;
    int64_t context = e->info.model_context;
    size_t fixed = e->info.weight_bytes + e->info.scratch_bytes;
    while (context > LEAST_CONTEXT) {
        struct state_plan p = plan(e, context);
        size_t state = state_bytes(&p);
        if (state < e->info.available_bytes && fixed < e->info.available_bytes - state) break;
        context = context / 2 > LEAST_CONTEXT ? context / 2 : LEAST_CONTEXT;
    }
    if (context < e->info.model_context)
        log_say(LOG_WARN,
                "context is cut from %lld to %lld tokens, which is what memory holds (--ctx-size)",
                (long long)e->info.model_context, (long long)context);
    return context;
}

static double mib(size_t bytes) { return (double)bytes / 0x1p20; }

static bool preflight(struct engine *e, const char *path, struct error *err) {
    struct engine_info *i = &e->info;
    size_t total;
    device_memory(e->dev, &i->available_bytes, &total);
    int64_t longest = e->opt.context ? e->opt.context : i->model_context;
    if (!measure_scratch(e, e->max_wanted, longest, &i->scratch_bytes, err)) return false;
    i->context = choose_context(e);
    struct state_plan p = plan(e, i->context);
    i->state_bytes = state_bytes(&p);
    size_t need;
    bool fits = size_add(i->weight_bytes, i->state_bytes, &need) &&
                size_add(need, i->scratch_bytes, &need) && need <= i->available_bytes;
    if (fits || e->opt.dry) return true;
    return fail(err,
                "%s: does not fit: weights %.0f MiB, cache %.0f MiB (%lld sequences of %lld "
                "tokens), scratch %.0f MiB; %.0f MiB are available on %s (lower --ctx-size)",
                path, mib(i->weight_bytes), mib(i->state_bytes), (long long)i->sequences,
                (long long)i->context, mib(i->scratch_bytes), mib(i->available_bytes),
                e->dev->name);
}

bool engine_fit(struct engine *e, int64_t wanted, struct error *err) {
    if (e->ctx.scratch && wanted <= e->max_wanted) return true;
    size_t bytes;
    if (!measure_scratch(e, wanted, e->info.context, &bytes, err)) return false;
    struct context bigger;
    if (!context_open(&bigger, e->dev, e->opt.precision, bytes, false, err)) return false;
    context_close(&e->ctx);
    e->ctx = bigger;
    e->info.scratch_bytes = bytes;
    e->max_wanted = wanted;
    e->logits = mem_resize(e->logits, (size_t)(wanted * e->info.vocab), sizeof *e->logits);
    return true;
}

static int32_t *input_list(struct engine *e, struct tensor *device, int64_t n, struct error *err) {
    *device = tensor_1d(DT_I32, n, NULL);
    device->data = device_alloc(e->dev, tensor_bytes(*device), "a step's inputs", err);
    return mem_array((size_t)n, sizeof(int32_t));
}

static bool open_inputs(struct engine *e, struct error *err) {
    struct inputs *in = &e->in;
    int64_t n = e->opt.batch;
    in->ids = input_list(e, &in->rows.ids, n, err);
    in->pos = input_list(e, &in->rows.pos, n, err);
    in->index = input_list(e, &in->rows.index, n, err);
    in->seq = input_list(e, &in->rows.seq, n, err);
    in->run = input_list(e, &in->rows.run, n + 1, err);
    in->length = input_list(e, &in->rows.length, n, err);
    in->want = input_list(e, &in->rows_wanted, n, err);
    e->seq_used = mem_array((size_t)e->opt.sequences, sizeof *e->seq_used);
    return !err->set;
}

// MLXCEL_WEIGHT_MATERIALIZATION=lazy leaves reading the weights to the steps that need them. A
// dummy's are not there before they are written.
static bool populate(struct engine *e, struct error *err) {
    const char *when = e->opt.load_dummy ? NULL : getenv("MLXCEL_WEIGHT_MATERIALIZATION");
    if (when && !strcmp(when, "lazy")) return true;
    if (when && strcmp(when, "eager") != 0)
        return fail(err, "MLXCEL_WEIGHT_MATERIALIZATION is \"%s\"; it can be eager or lazy", when);
    return weights_populate(e->weights, e->opt.progress, e->opt.progress_arg, err);
}

static bool load(struct engine *e, struct error *err) {
    store_open(&e->store, e->dev);
    struct state_plan p = plan(e, e->info.context);
    return populate(e, err) && decoder_store(e->decoder, &e->store, err) &&
           state_open(&e->state, e->dev, &p, err) && open_inputs(e, err) &&
           engine_fit(e, e->max_wanted, err);
}

struct engine *engine_open(const char *path, const struct engine_options *opt, struct error *err) {
    struct engine *e = mem_alloc(sizeof *e);
    e->opt = *opt;
    struct device_options dev = {.threads = opt->threads, .isa = opt->isa};
    if (check_options(&e->opt, err) && open_model(e, path, err) &&
        (e->dev = device_open(e->opt.device, &dev, err)) != NULL) {
        snprintf(e->info.device, sizeof e->info.device, "%s", e->dev->name);
        describe(e);
        e->max_wanted = e->opt.sequences < e->opt.batch ? e->opt.sequences : e->opt.batch;
        if (preflight(e, path, err) && (e->opt.dry || load(e, err))) return e;
    }
    engine_close(e);
    return NULL;
}

static void close_inputs(struct engine *e) {
    struct inputs *in = &e->in;
    struct tensor device[] = {in->rows.ids, in->rows.pos,    in->rows.index, in->rows.seq,
                              in->rows.run, in->rows.length, in->rows_wanted};
    for (size_t i = 0; i < sizeof device / sizeof *device; i++) device_free(e->dev, device[i].data);
    free(in->ids);
    free(in->pos);
    free(in->index);
    free(in->seq);
    free(in->run);
    free(in->length);
    free(in->want);
}

void engine_close(struct engine *e) {
    if (!e) return;
    for (size_t i = 0; i < e->tasks; i++) task_free(e->task[i]);
    free(e->task);
    free(e->turn);
    free(e->event);
    free(e->seq_used);
    free(e->logits);
    free(e->decl);
    if (e->dev) {
        close_inputs(e);
        context_close(&e->ctx);
        state_close(&e->state);
        store_close(&e->store);
        device_close(e->dev);
    }
    decoder_close(e->decoder);
    weights_close(e->weights);
    config_close(e->config);
    free(e);
}

const struct engine_info *engine_info(const struct engine *e) { return &e->info; }

struct engine_stats engine_stats(const struct engine *e) {
    return e->stats;
}
