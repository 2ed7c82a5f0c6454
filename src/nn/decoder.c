#include "nn/decoder.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "nn/bind.h"

struct layer {
    struct tensor attention_norm, mlp_norm; // [hidden]
    struct attention attention;
    struct mlp mlp;
};

struct decoder {
    struct decoder_spec spec;
    struct weight embed, head; // head is embed itself when they are tied
    struct tensor norm;        // [hidden]
    struct layer *layer;
    struct rope rope;
    float *inv_freq; // host: what rope's device copy is made from
};

void decoder_spec_free(struct decoder_spec *s) {
    free(s->layer);
    *s = (struct decoder_spec){0};
}

enum { PREFIX = 128 };

static void layer_prefix(char out[PREFIX], const struct decoder_names *names, int64_t layer) {
    snprintf(out, PREFIX, "%s%lld.", names->layer, (long long)layer);
}

static void bind_layer(struct decoder *d, int64_t i, const struct decoder_names *names,
                       struct weights *w, struct error *e) {
    char prefix[PREFIX];
    layer_prefix(prefix, names, i);
    struct layer *l = &d->layer[i];
    const struct layer_spec *spec = &d->spec.layer[i];
    struct binder b = {w, prefix, e};
    bind_vector(&b, names->attention_norm, d->spec.hidden, &l->attention_norm);
    bind_vector(&b, names->mlp_norm, d->spec.hidden, &l->mlp_norm);
    attention_bind(&l->attention, &spec->attention, d->spec.hidden, &names->attention, prefix, w,
                   e);
    mlp_bind(&l->mlp, &spec->mlp, d->spec.hidden, &names->mlp, prefix, w, e);
}

// A head of its own, or the embedding's. A checkpoint that ties them may still ship a head: like
// the reference, the tie wins.
static void bind_head(struct decoder *d, const struct decoder_names *names, struct weights *w,
                      struct error *e) {
    char full[PREFIX];
    snprintf(full, sizeof full, "%s.weight", names->head);
    bool present = weights_has(w, sv(full));
    bool own = d->spec.head == HEAD_OWN || (d->spec.head == HEAD_IF_PRESENT && present);
    struct binder b = {w, "", e};
    if (own || present)
        bind_matrix(&b, names->head, d->spec.vocab, d->spec.hidden, false, &d->head);
    if (own) return;
    if (present) log_say(LOG_INFO, "%s is ignored: the config ties it to the embedding", full);
    d->head = d->embed;
}

struct decoder *decoder_bind(struct decoder_spec spec, const struct decoder_names *names,
                             struct weights *w, struct error *e) {
    struct decoder *d = mem_alloc(sizeof *d);
    d->spec = spec;
    d->layer = mem_array((size_t)spec.layers, sizeof *d->layer);
    int64_t width = spec.layer[0].attention.width;
    d->inv_freq = mem_array((size_t)width / 2, sizeof *d->inv_freq);
    rope_frequencies(&spec.rope, width, d->inv_freq, &d->rope.scale);
    d->rope.inv_freq = tensor_1d(DT_F32, width / 2, d->inv_freq);

    struct binder b = {w, "", e};
    bind_matrix(&b, names->embed, spec.vocab, spec.hidden, false, &d->embed);
    for (int64_t i = 0; i < spec.layers && !e->set; i++) bind_layer(d, i, names, w, e);
    bind_vector(&b, names->norm, spec.hidden, &d->norm);
    if (!e->set) bind_head(d, names, w, e);
    if (!e->set) return d;
    decoder_close(d);
    return NULL;
}

void decoder_close(struct decoder *d) {
    if (!d) return;
    decoder_spec_free(&d->spec);
    free(d->layer);
    free(d->inv_freq);
    free(d);
}

bool decoder_store(struct decoder *d, struct store *s, struct error *e) {
    bool tied = d->head.data.data == d->embed.data.data;
    if (!store_weight(s, &d->embed, "the embedding", e)) return false;
    if (tied) d->head = d->embed;
    if (!tied && !store_weight(s, &d->head, "the head", e)) return false;
    if (!store_tensor(s, &d->norm, "the final norm", e)) return false;
    if (!store_tensor(s, &d->rope.inv_freq, "rotary frequencies", e)) return false;
    for (int64_t i = 0; i < d->spec.layers; i++) {
        struct layer *l = &d->layer[i];
        char what[PREFIX];
        snprintf(what, sizeof what, "layer %lld", (long long)i);
        if (!store_tensor(s, &l->attention_norm, what, e) ||
            !store_tensor(s, &l->mlp_norm, what, e) ||
            !attention_store(&l->attention, s, what, e) || !mlp_store(&l->mlp, s, what, e))
            return false;
    }
    return true;
}

const struct decoder_spec *decoder_spec(const struct decoder *d) { return &d->spec; }

struct state_decl decoder_state(const struct decoder *d, int64_t layer) {
    const struct attention_spec *a = &d->spec.layer[layer].attention;
    return (struct state_decl){
        .paged = {
            {.heads = a->kv_heads, .k_width = a->width, .v_width = a->width, .window = a->window}}};
}

struct decoder_cost decoder_cost(const struct decoder *d) {
    struct decoder_cost c = {.head_bytes = weight_bytes(&d->head),
                             .head_elements = d->head.out * d->head.in};
    for (int64_t i = 0; i < d->spec.layers; i++) {
        const struct attention *a = &d->layer[i].attention;
        const struct mlp *m = &d->layer[i].mlp;
        const struct weight *w[] = {&a->q, &a->k, &a->v, &a->o, &m->gate, &m->up, &m->down};
        for (size_t k = 0; k < sizeof w / sizeof *w; k++) {
            c.layer_bytes += weight_bytes(w[k]);
            c.layer_elements += w[k]->out * w[k]->in;
        }
    }
    return c;
}

struct tensor decoder_forward(struct context *c, const struct decoder *d, const struct rows *rows,
                              const struct layer_state *state, struct tensor wanted) {
    float eps = d->spec.eps;
    struct tensor x = embed(c, &d->embed, rows->ids);
    for (int64_t i = 0; i < d->spec.layers; i++) {
        const struct layer *l = &d->layer[i];
        size_t mark = scratch_mark(c);
        struct tensor h = rms_norm(c, x, l->attention_norm, eps);
        add_to(c, x, attention_forward(c, &l->attention, h, rows, state[i].kv, &d->rope, eps));
        scratch_release(c, mark);
        h = rms_norm(c, x, l->mlp_norm, eps);
        add_to(c, x, mlp_forward(c, &l->mlp, h));
        scratch_release(c, mark);
    }
    x = gather_rows(c, x, wanted);
    return linear(c, rms_norm(c, x, d->norm, eps), &d->head);
}
