#include "nn/decoder.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "nn/bind.h"

struct layer {
    struct norm norm[LAYER_NORMS]; // those of the spec
    struct attention attention;
    struct mamba mamba;
    struct mamba2 mamba2;
    struct short_conv short_conv;
    struct rglru rglru;
    struct mla mla;
    struct delta_net delta_net;
    struct rwkv7 rwkv7;
    struct rwkv7_ffn rwkv7_ffn;
    struct mlp mlp;
    struct moe moe;
    struct altup_layer altup;
    struct laurel laurel;
    struct ple_layer ple;
};

struct decoder {
    struct decoder_spec spec;
    const struct decoder_names *names;
    struct weight embed, head; // head is embed itself when they are tied
    struct weight positions;
    struct norm embed_norm, norm;
    struct altup altup;
    struct ple ple;
    struct layer *layer;
    struct rope rope[ROPES];
    float *frequencies; // host: what the ropes' device copies are made from
};

void decoder_spec_free(struct decoder_spec *s) {
    free(s->layer);
    *s = (struct decoder_spec){0};
}

enum { PREFIX = 128 };

static void bind_mixer(struct decoder *d, int64_t i, struct binder *b) {
    struct layer *l = &d->layer[i];
    const struct layer_spec *s = &d->spec.layer[i];
    const struct decoder_names *names = d->names;
    struct norm_spec norm = d->spec.norm;
    int64_t hidden = d->spec.hidden;
    switch (s->mixer) {
    case MIXER_ATTENTION:
        attention_bind(&l->attention, &s->attention, norm, hidden, &names->attention, b);
        break;
    case MIXER_MAMBA: mamba_bind(&l->mamba, &s->mamba, norm, hidden, &names->mamba, b); break;
    case MIXER_MAMBA2: mamba2_bind(&l->mamba2, &s->mamba2, norm, hidden, &names->mamba2, b); break;
    case MIXER_SHORT_CONV:
        short_conv_bind(&l->short_conv, &s->short_conv, hidden, &names->short_conv, b);
        break;
    case MIXER_RGLRU: rglru_bind(&l->rglru, &s->rglru, hidden, &names->rglru, b); break;
    case MIXER_MLA: mla_bind(&l->mla, &s->mla, hidden, &names->mla, b); break;
    case MIXER_DELTA_NET:
        delta_net_bind(&l->delta_net, &s->delta_net, norm.eps, hidden, &names->delta_net, b);
        break;
    case MIXER_RWKV7: rwkv7_bind(&l->rwkv7, &s->rwkv7, &names->rwkv7, b); break;
    }
}

static void bind_layer(struct decoder *d, int64_t i, struct weights *w, struct error *e) {
    char prefix[PREFIX];
    const struct decoder_names *names = d->names;
    snprintf(prefix, PREFIX, "%s%lld.", names->layer, (long long)i);
    struct layer *l = &d->layer[i];
    const struct layer_spec *spec = &d->spec.layer[i];
    int64_t hidden = d->spec.hidden;
    struct binder b = {w, prefix, names->transposed, e};
    for (int n = 0; n < LAYER_NORMS; n++)
        if (spec->norms & 1 << n)
            norm_bind(&l->norm[n], d->spec.norm, hidden, names->layer_norm[n], &b);
    bind_mixer(d, i, &b);
    if (spec->laurel)
        laurel_bind(&l->laurel, spec->laurel, d->spec.norm, hidden, &names->laurel, &b);
    if (d->spec.altup.streams)
        altup_layer_bind(&l->altup, &d->spec.altup, d->spec.norm, hidden, &names->altup, &b);
    if (d->spec.ple.width)
        ple_layer_bind(&l->ple, &d->spec.ple, d->spec.norm, hidden, &names->ple, &b);
    switch (spec->ffn) {
    case FFN_MLP: mlp_bind(&l->mlp, &spec->mlp, hidden, &names->mlp, &b); break;
    case FFN_MOE: moe_bind(&l->moe, &spec->moe, hidden, &names->moe, &b); break;
    case FFN_RWKV7:
        rwkv7_ffn_bind(&l->rwkv7_ffn, &spec->mlp, hidden, names->rwkv7_mix, &names->mlp, &b);
        break;
    case FFN_NONE: break;
    }
}

static void ignore_layer(struct decoder *d, int64_t i, struct weights *w) {
    char prefix[PREFIX];
    snprintf(prefix, PREFIX, "%s%lld.", d->names->layer, (long long)i);
    weights_ignore(w, prefix);
}

// A head of its own, or the embedding's. A checkpoint that ties them may still ship a head: like
// the reference, the tie wins.
static void bind_head(struct decoder *d, struct binder *b) {
    const char *name = d->names->head;
    bool present = name && bind_has(b, name);
    bool own = d->spec.head == HEAD_OWN || (d->spec.head == HEAD_IF_PRESENT && present);
    if (own || present) bind_matrix(b, name, d->spec.vocab, d->spec.hidden, false, &d->head);
    if (own) return;
    if (present)
        log_say(LOG_INFO, "%s.weight is ignored: the config ties it to the embedding", name);
    d->head = d->embed;
}

static void make_ropes(struct decoder *d) {
    int64_t total = 0;
    for (int i = 0; i < d->spec.ropes; i++) total += d->spec.rope[i].dim;
    float *at = d->frequencies = mem_array((size_t)total, sizeof *at);
    for (int i = 0; i < d->spec.ropes; i++) {
        const struct rope_spec *spec = &d->spec.rope[i];
        struct rope *r = &d->rope[i];
        int64_t pairs = spec->dim / 2;
        r->interleaved = spec->interleaved;
        r->inv_freq = tensor_1d(DT_F32, pairs, at);
        rope_frequencies(&spec->config, spec->dim, at, &r->scale);
        at += pairs;
        if (spec->config.kind != ROPE_LONG) continue;
        r->long_freq = tensor_1d(DT_F32, pairs, at);
        r->longest = spec->config.original_context;
        rope_long_frequencies(&spec->config, spec->dim, at);
        at += pairs;
    }
}

static bool has_sign(const struct decoder_names *names, int64_t layers, const struct binder *b) {
    for (int64_t i = 0; i < layers && names->sign; i++) {
        char name[PREFIX];
        snprintf(name, PREFIX, "%s%lld.%s", names->layer, (long long)i, names->sign);
        if (bind_has(b, name)) return true;
    }
    return !names->sign;
}

static const struct decoder_names *find_layout(const struct decoder_names *const *layouts,
                                               int64_t layers, const struct binder *b) {
    for (const struct decoder_names *const *l = layouts; *l; l++)
        if (bind_has(b, (*l)->embed) && has_sign(*l, layers, b)) return *l;
    return layouts[0]; // whose embedding is then reported missing
}

// Whether the 1 of norms of 1 + weight is in them.
static bool adds_one(const struct decoder *d, struct weights *w) {
    bool added = false;
    for (int64_t i = 0; i < d->spec.layers && d->names->mlx_adds_one && !added; i++) {
        if (d->spec.layer[i].mixer != MIXER_DELTA_NET) continue;
        char name[PREFIX];
        snprintf(name, PREFIX, "%s%lld.%s.weight", d->names->layer, (long long)i,
                 d->names->delta_net.conv);
        const struct st_tensor *conv = weights_find(w, sv(name));
        added = conv && conv->t.dims == 3 && conv->t.n[2] == 1;
    }
    return added;
}

struct decoder *decoder_bind(struct decoder_spec spec, const struct decoder_names *const *layouts,
                             struct weights *w, struct error *e) {
    struct decoder *d = mem_alloc(sizeof *d);
    struct binder b = {w, "", false, e};
    d->spec = spec;
    d->names = find_layout(layouts, spec.layers, &b);
    d->layer = mem_array((size_t)spec.layers, sizeof *d->layer);
    make_ropes(d);
    if (adds_one(d, w)) d->spec.norm.kind = NORM_RMS;
    bind_matrix(&b, d->names->embed, spec.vocab, spec.hidden, false, &d->embed);
    if (spec.positions)
        bind_matrix(&b, d->names->positions, spec.positions, spec.hidden, false, &d->positions);
    if (spec.embed_norm)
        norm_bind(&d->embed_norm, d->spec.norm, spec.hidden, d->names->embed_norm, &b);
    if (spec.altup.streams) altup_bind(&d->altup, &spec.altup, spec.hidden, &d->names->altup, &b);
    if (spec.ple.width)
        ple_bind(&d->ple, &spec.ple, spec.layers, d->spec.norm, spec.hidden, &d->names->ple, &b);
    for (int64_t i = 0; i < spec.layers && !e->set; i++) bind_layer(d, i, w, e);
    for (int64_t i = 0; i < spec.drafters; i++) ignore_layer(d, spec.layers + i, w);
    norm_bind(&d->norm, d->spec.norm, spec.hidden, d->names->norm, &b);
    if (!e->set) bind_head(d, &b);
    if (!e->set) return d;
    decoder_close(d);
    return NULL;
}

void decoder_close(struct decoder *d) {
    if (!d) return;
    for (int64_t i = 0; i < d->spec.layers; i++) {
        mla_close(&d->layer[i].mla);
        moe_close(&d->layer[i].moe);
        rglru_close(&d->layer[i].rglru);
        rwkv7_close(&d->layer[i].rwkv7);
    }
    decoder_spec_free(&d->spec);
    free(d->layer);
    free(d->frequencies);
    free(d);
}

static bool store_mixer(struct layer *l, enum mixer mixer, struct store *s, const char *what,
                        struct error *e) {
    switch (mixer) {
    case MIXER_ATTENTION: return attention_store(&l->attention, s, what, e);
    case MIXER_MAMBA: return mamba_store(&l->mamba, s, what, e);
    case MIXER_MAMBA2: return mamba2_store(&l->mamba2, s, what, e);
    case MIXER_SHORT_CONV: return short_conv_store(&l->short_conv, s, what, e);
    case MIXER_RGLRU: return rglru_store(&l->rglru, s, what, e);
    case MIXER_MLA: return mla_store(&l->mla, s, what, e);
    case MIXER_DELTA_NET: return delta_net_store(&l->delta_net, s, what, e);
    case MIXER_RWKV7: return rwkv7_store(&l->rwkv7, s, what, e);
    }
    return true;
}

static bool store_layer(struct layer *l, const struct layer_spec *spec, struct store *s,
                        const char *what, struct error *e) {
    for (int n = 0; n < LAYER_NORMS; n++)
        if (!norm_store(&l->norm[n], s, what, e)) return false;
    if (!store_mixer(l, spec->mixer, s, what, e)) return false;
    if (!laurel_store(&l->laurel, s, what, e) || !altup_layer_store(&l->altup, s, what, e) ||
        !ple_layer_store(&l->ple, s, what, e))
        return false;
    switch (spec->ffn) {
    case FFN_MLP: return mlp_store(&l->mlp, s, what, e);
    case FFN_MOE: return moe_store(&l->moe, s, what, e);
    case FFN_RWKV7: return rwkv7_ffn_store(&l->rwkv7_ffn, s, what, e);
    case FFN_NONE: return true;
    }
    return true;
}

bool decoder_store(struct decoder *d, struct store *s, struct error *e) {
    bool tied = d->head.data.data == d->embed.data.data;
    if (!store_weight(s, &d->embed, "the embedding", e)) return false;
    if (!store_weight(s, &d->positions, "the positions", e)) return false;
    if (tied) d->head = d->embed;
    if (!tied && !store_weight(s, &d->head, "the head", e)) return false;
    if (!norm_store(&d->embed_norm, s, "the embedding's norm", e)) return false;
    if (!norm_store(&d->norm, s, "the final norm", e)) return false;
    if (!altup_store(&d->altup, s, e) || !ple_store(&d->ple, s, e)) return false;
    for (int i = 0; i < d->spec.ropes; i++) {
        struct rope *r = &d->rope[i];
        if (!store_tensor(s, &r->inv_freq, "rotary frequencies", e)) return false;
        if (r->long_freq.dims && !store_tensor(s, &r->long_freq, "rotary frequencies", e))
            return false;
    }
    for (int64_t i = 0; i < d->spec.layers; i++) {
        char what[PREFIX];
        snprintf(what, sizeof what, "layer %lld", (long long)i);
        if (!store_layer(&d->layer[i], &d->spec.layer[i], s, what, e)) return false;
    }
    return true;
}

const struct decoder_spec *decoder_spec(const struct decoder *d) { return &d->spec; }

const struct decoder_names *decoder_layout(const struct decoder *d) { return d->names; }

static struct paged_decl attention_state(const struct attention_spec *a) {
    return (struct paged_decl){.heads = a->kv_heads,
                               .k_width = a->width,
                               .v_width = a->width,
                               .window = a->window,
                               .chunk = a->chunk};
}

struct state_decl decoder_state(const struct decoder *d, int64_t layer) {
    const struct layer_spec *s = &d->spec.layer[layer];
    struct state_decl decl = {0};
    switch (s->mixer) {
    case MIXER_ATTENTION:
        decl.shared = s->attention.shared;
        decl.owner = s->attention.owner;
        if (!decl.shared) decl.paged[0] = attention_state(&s->attention);
        break;
    case MIXER_MAMBA: mamba_state(&s->mamba, decl.fixed); break;
    case MIXER_MAMBA2: mamba2_state(&s->mamba2, decl.fixed); break;
    case MIXER_SHORT_CONV:
        decl.fixed[0] = convolve_state(d->spec.hidden, s->short_conv.taps);
        break;
    case MIXER_RGLRU: rglru_state(&s->rglru, decl.fixed); break;
    case MIXER_DELTA_NET: delta_net_state(&s->delta_net, decl.fixed); break;
    case MIXER_RWKV7: rwkv7_state(&s->rwkv7, decl.fixed); break;
    case MIXER_MLA:
        decl.paged[0] = (struct paged_decl){1, .k_width = s->mla.latent + s->mla.rotary};
        if (s->mla.indexer.top && !s->mla.indexer.borrows)
            decl.paged[1] = (struct paged_decl){1, .k_width = s->mla.indexer.width};
        break;
    }
    return decl;
}

int64_t decoder_attended(const struct decoder *d, int64_t layer) {
    const struct layer_spec *s = &d->spec.layer[layer];
    switch (s->mixer) {
    case MIXER_ATTENTION: return s->attention.heads * 2 * s->attention.width;
    case MIXER_MLA: return s->mla.heads * (2 * s->mla.latent + s->mla.rotary);
    default: return 0;
    }
}

int64_t decoder_short_context(const struct decoder *d) {
    for (int i = 0; i < d->spec.ropes; i++)
        if (d->rope[i].long_freq.dims) return d->rope[i].longest;
    return 0;
}

enum { MIXER_WEIGHTS = 12 }; // at most

static int mixer_weights(struct layer *l, enum mixer mixer, struct weight *w[MIXER_WEIGHTS]) {
    switch (mixer) {
    case MIXER_ATTENTION: return attention_weights(&l->attention, w);
    case MIXER_MAMBA: return mamba_weights(&l->mamba, w);
    case MIXER_MAMBA2: return mamba2_weights(&l->mamba2, w);
    case MIXER_SHORT_CONV: return short_conv_weights(&l->short_conv, w);
    case MIXER_RGLRU: return rglru_weights(&l->rglru, w);
    case MIXER_MLA: return mla_weights(&l->mla, w);
    case MIXER_DELTA_NET: return delta_net_weights(&l->delta_net, w);
    case MIXER_RWKV7: return rwkv7_weights(&l->rwkv7, w);
    }
    return 0;
}

enum {
    LAYER_WEIGHTS =
        MIXER_WEIGHTS + MLP_WEIGHTS + LAUREL_WEIGHTS + ALTUP_LAYER_WEIGHTS + PLE_LAYER_WEIGHTS
};

// All but those of experts; returns how many.
static int layer_weights(const struct decoder *d, int64_t i, struct weight *w[LAYER_WEIGHTS]) {
    struct layer *l = &d->layer[i];
    const struct layer_spec *spec = &d->spec.layer[i];
    int n = mixer_weights(l, spec->mixer, w);
    if (spec->ffn == FFN_MLP) n += mlp_weights(&l->mlp, w + n);
    if (spec->ffn == FFN_RWKV7) n += mlp_weights(&l->rwkv7_ffn.mlp, w + n);
    if (spec->laurel) n += laurel_weights(&l->laurel, w + n);
    if (d->spec.altup.streams) n += altup_layer_weights(&l->altup, w + n);
    if (d->spec.ple.width) n += ple_layer_weights(&l->ple, w + n);
    return n;
}

static void count_weight(const struct weight *w, size_t *bytes, int64_t *elements) {
    *bytes += weight_bytes(w);
    *elements += w->out * w->in;
}

struct decoder_cost decoder_cost(const struct decoder *d, int64_t rows) {
    struct decoder_cost c = {0};
    count_weight(&d->head, &c.head_bytes, &c.head_elements);
    for (int64_t i = 0; i + 1 < d->spec.altup.streams; i++) {
        count_weight(&d->altup.split[i], &c.layer_bytes, &c.layer_elements);
        count_weight(&d->altup.merge[i], &c.head_bytes, &c.head_elements);
    }
    if (d->spec.ple.width) count_weight(&d->ple.project, &c.layer_bytes, &c.layer_elements);
    for (int64_t i = 0; i < d->spec.layers; i++) {
        struct weight *w[LAYER_WEIGHTS];
        int n = layer_weights(d, i, w);
        for (int k = 0; k < n; k++) count_weight(w[k], &c.layer_bytes, &c.layer_elements);
        if (d->spec.layer[i].ffn == FFN_MOE)
            moe_cost(&d->layer[i].moe, rows, &c.layer_bytes, &c.layer_elements);
    }
    return c;
}

static struct tensor norm_if(struct context *c, const struct layer_spec *spec,
                             const struct layer *l, enum layer_norm n, struct tensor x) {
    return spec->norms & 1 << n ? norm_forward(c, &l->norm[n], x) : x;
}

static const struct rope *rope_of(const struct decoder *d, int i) {
    return i < 0 ? NULL : &d->rope[i];
}

static struct tensor mix(struct context *c, const struct decoder *d, int64_t i, struct tensor h,
                         const struct rows *rows, const struct layer_state *state,
                         const struct tensor lent[2]) {
    const struct layer_spec *spec = &d->spec.layer[i];
    const struct layer *l = &d->layer[i];
    switch (spec->mixer) {
    case MIXER_ATTENTION:
        return attention_forward(c, &l->attention, (struct input){.x = h}, rows, state->kv,
                                 rope_of(d, spec->attention.rope), lent, (struct tensor){0});
    case MIXER_MLA:
        return mla_forward(c, &l->mla, h, rows, state->kv, rope_of(d, spec->mla.rope),
                           rope_of(d, spec->mla.indexer.rope), lent[0]);
    case MIXER_MAMBA: return mamba_forward(c, &l->mamba, h, rows, state->fixed);
    case MIXER_MAMBA2: return mamba2_forward(c, &l->mamba2, h, rows, state->fixed);
    case MIXER_SHORT_CONV: return short_conv_forward(c, &l->short_conv, h, rows, state->fixed[0]);
    case MIXER_RGLRU: return rglru_forward(c, &l->rglru, h, rows, state->fixed);
    case MIXER_DELTA_NET:
        return delta_net_forward(c, &l->delta_net, (struct input){.x = h}, rows, state->fixed,
                                 (struct tensor){0});
    case MIXER_RWKV7: return rwkv7_forward(c, &l->rwkv7, h, rows, state->fixed, lent[0]);
    }
    return h;
}

static struct tensor feed(struct context *c, const struct layer_spec *spec, const struct layer *l,
                          struct tensor h, const struct rows *rows,
                          const struct layer_state *state) {
    switch (spec->ffn) {
    case FFN_MLP: return mlp_forward(c, &l->mlp, (struct input){.x = h}, (struct tensor){0});
    case FFN_RWKV7: return rwkv7_ffn_forward(c, &l->rwkv7_ffn, h, rows, state->fixed[2]);
    case FFN_MOE: return moe_forward(c, &l->moe, (struct input){.x = h}, (struct tensor){0});
    case FFN_NONE: break;
    }
    return h;
}

static void add_branch(struct context *c, const struct layer_spec *spec, struct tensor x,
                       struct tensor y) {
    if (spec->residual != 0) scale(c, y, spec->residual);
    add_to(c, x, y);
}

// Whether a branch of the layer may norm its input itself, and add its result to the residual
// stream: nothing else needs either.
static bool is_plain(const struct layer_spec *spec, enum layer_norm out) {
    return !spec->parallel && !spec->laurel && spec->residual == 0 && !(spec->norms & 1 << out);
}

static struct input input_of(const struct layer_spec *spec, const struct layer *l,
                             enum layer_norm n, struct tensor x) {
    return (struct input){x, spec->norms & 1 << n ? &l->norm[n] : NULL};
}

// x [n, hidden], the residual stream, takes in a mixer, or a feed-forward block, that does so by
// itself. False: it does not.
static bool mix_into(struct context *c, const struct decoder *d, int64_t i, struct tensor x,
                     const struct rows *rows, const struct layer_state *state,
                     const struct tensor lent[2]) {
    const struct layer_spec *spec = &d->spec.layer[i];
    const struct layer *l = &d->layer[i];
    struct input in = input_of(spec, l, NORM_MIXER, x);
    if (!is_plain(spec, NORM_MIXER_OUT)) return false;
    if (spec->mixer == MIXER_ATTENTION)
        attention_forward(c, &l->attention, in, rows, state->kv, rope_of(d, spec->attention.rope),
                          lent, x);
    if (spec->mixer == MIXER_DELTA_NET)
        delta_net_forward(c, &l->delta_net, in, rows, state->fixed, x);
    return spec->mixer == MIXER_ATTENTION || spec->mixer == MIXER_DELTA_NET;
}

static bool feed_into(struct context *c, const struct layer_spec *spec, const struct layer *l,
                      struct tensor x) {
    struct input in = input_of(spec, l, NORM_FFN, x);
    if (!is_plain(spec, NORM_FFN_OUT)) return false;
    if (spec->ffn == FFN_MLP) mlp_forward(c, &l->mlp, in, x);
    if (spec->ffn == FFN_MOE) moe_forward(c, &l->moe, in, x);
    return spec->ffn == FFN_MLP || spec->ffn == FFN_MOE;
}

// x [n, hidden], the residual stream, takes layer i in.
static void layer_forward(struct context *c, const struct decoder *d, int64_t i, struct tensor x,
                          const struct rows *rows, const struct layer_state *state,
                          const struct tensor lent[2]) {
    const struct layer_spec *spec = &d->spec.layer[i];
    const struct layer *l = &d->layer[i];
    size_t mark = scratch_mark(c);
    if (!mix_into(c, d, i, x, rows, state, lent)) {
        struct tensor h = norm_if(c, spec, l, NORM_MIXER, x);
        struct tensor y = mix(c, d, i, h, rows, state, lent);
        y = norm_if(c, spec, l, NORM_MIXER_OUT, y);
        if (spec->parallel) {
            if (spec->norms & 1 << NORM_FFN) h = norm_forward(c, &l->norm[NORM_FFN], x);
            struct tensor z = norm_if(c, spec, l, NORM_FFN_OUT, feed(c, spec, l, h, rows, state));
            add_branch(c, spec, x, y);
            add_branch(c, spec, x, z);
            scratch_release(c, mark);
            return;
        }
        add_branch(c, spec, x, y);
        if (spec->laurel) laurel_forward(c, &l->laurel, x, h);
    }
    scratch_release(c, mark);
    if (spec->ffn != FFN_NONE && !feed_into(c, spec, l, x)) {
        struct tensor y = feed(c, spec, l, norm_if(c, spec, l, NORM_FFN, x), rows, state);
        add_branch(c, spec, x, norm_if(c, spec, l, NORM_FFN_OUT, y));
    }
    scratch_release(c, mark);
}

// What a layer lends to later ones, if anything; where an earlier layer has made room for it,
// there.
static void make_room(struct context *c, const struct layer_spec *l, int64_t n,
                      struct tensor lent[2]) {
    if (lent[0].dims) return;
    if (l->mixer == MIXER_ATTENTION && l->attention.lends)
        for (int k = 0; k < 2; k++)
            lent[k] = scratch_tensor(c, DT_F32, 2,
                                     (int64_t[]){n, l->attention.kv_heads * l->attention.width});
    if (l->mixer == MIXER_MLA && l->mla.indexer.lends)
        lent[0] = scratch_tensor(c, DT_I32, 2, (int64_t[]){n, l->mla.indexer.top});
    if (l->mixer == MIXER_RWKV7 && l->rwkv7.first)
        lent[0] = scratch_tensor(c, DT_F32, 2, (int64_t[]){n, l->rwkv7.heads * l->rwkv7.width});
}

// What layers pass on.
struct flow {
    struct tensor x;       // [n, hidden], the residual stream, or with AltUp ...
    struct tensor streams; // ... [n, streams * hidden]; dims 0: one stream
    struct tensor inputs;  // per-layer embeddings, of all layers; dims 0: none
    struct tensor lent[2];
};

static struct flow begin(struct context *c, const struct decoder *d, const struct rows *rows) {
    const struct decoder_spec *s = &d->spec;
    struct flow f = {.x = embed(c, &d->embed, rows->ids)};
    if (s->embed_scale != 0) scale(c, f.x, s->embed_scale);
    if (s->embed_norm) f.x = norm_forward(c, &d->embed_norm, f.x);
    if (s->positions) add_to(c, f.x, embed(c, &d->positions, rows->pos));
    if (s->ple.width) f.inputs = ple_inputs(c, &d->ple, rows->ids, f.x);
    if (s->altup.streams) f.streams = altup_split(c, &d->altup, f.x);
    return f;
}

// Layer i, with what is around it in some models.
static void step(struct context *c, const struct decoder *d, int64_t i, struct flow *f,
                 const struct rows *rows, const struct layer_state *state) {
    const struct layer *l = &d->layer[i];
    size_t mark = scratch_mark(c);
    bool many = f->streams.dims > 0;
    struct tensor x = many ? altup_predict(c, &l->altup, f->streams) : f->x;
    layer_forward(c, d, i, x, rows, state, f->lent);
    if (many) altup_correct(c, &l->altup, f->streams, x);
    if (f->inputs.dims) {
        if (many) x = altup_active(c, &l->altup, f->streams);
        struct tensor y = ple_layer_forward(c, &l->ple, x, f->inputs, i);
        if (many)
            altup_add(c, &l->altup, f->streams, y);
        else
            add_to(c, x, y);
    }
    scratch_release(c, mark);
}

struct tensor decoder_forward(struct context *c, const struct decoder *d, const struct rows *rows,
                              const struct layer_state *state, struct tensor wanted) {
    const struct decoder_spec *s = &d->spec;
    struct flow f = begin(c, d, rows);
    for (int64_t i = 0; i < s->layers; i++) {
        make_room(c, &s->layer[i], rows->n, f.lent);
        step(c, d, i, &f, rows, &state[i]);
    }
    struct tensor x = gather_rows(c, f.streams.dims ? f.streams : f.x, wanted);
    if (f.streams.dims) x = altup_merge(c, &d->altup, x);
    struct tensor logits;
    input_linear(c, (struct input){x, &d->norm}, 1, (const struct weight *const[]){&d->head},
                 &logits);
    if (s->logit_scale != 0) scale(c, logits, s->logit_scale);
    return s->logit_cap != 0 ? soft_cap(c, logits, s->logit_cap) : logits;
}
