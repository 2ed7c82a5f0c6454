#include "nn/mla.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

static void bind_queries(struct mla *m, int64_t hidden, const struct mla_names *names,
                         struct binder *b) {
    const struct mla_spec *s = &m->spec;
    int64_t out = s->heads * (s->plain_width + s->rotary);
    if (!s->q_rank) {
        bind_matrix(b, names->q, out, hidden, false, &m->q);
        return;
    }
    bind_matrix(b, names->q_a, s->q_rank, hidden, s->bias, &m->q_a);
    norm_bind(&m->q_norm, (struct norm_spec){NORM_RMS, s->eps}, s->q_rank, names->q_norm, b);
    bind_matrix(b, names->q_b, out, s->q_rank, false, &m->q_b);
}

static void bind_latents(struct mla *m, const struct mla_names *names, struct binder *b) {
    const struct mla_spec *s = &m->spec;
    m->in = mem_array((size_t)s->heads, sizeof *m->in);
    m->out = mem_array((size_t)s->heads, sizeof *m->out);
    if (names->embed && bind_has(b, names->embed)) {
        struct stack_shape in = {s->heads, s->latent, s->plain_width, false};
        struct stack_shape out = {s->heads, s->v_width, s->latent, false};
        bind_stack(b, names->embed, &in, &m->whole[0], m->in);
        bind_stack(b, names->unembed, &out, &m->whole[1], m->out);
        return;
    }
    int64_t each = s->plain_width + s->v_width;
    m->columns = true;
    bind_matrix(b, names->kv_b, s->heads * each, s->latent, false, &m->whole[0]);
    if (!b->err->set && m->whole[0].order.dims)
        fail(b->err,
             "\"%s%s\": its columns are sorted by group (desc_act), and those of this one "
             "must not be (use a version without)",
             b->prefix, names->kv_b);
    for (int64_t h = 0; h < s->heads && !b->err->set; h++) {
        m->in[h] = weight_rows(&m->whole[0], h * each, s->plain_width, 1);
        m->out[h] = weight_rows(&m->whole[0], h * each + s->plain_width, s->v_width, 1);
    }
}

static void bind_indexer(struct mla *m, int64_t hidden, const struct mla_names *names,
                         struct binder *b) {
    const struct indexer_spec *s = &m->spec.indexer;
    if (!s->top || s->borrows) return;
    bind_matrix(b, names->index_q, s->heads * s->width, m->spec.q_rank, false, &m->index_q);
    bind_matrix(b, names->index_k, s->width, hidden, false, &m->index_k);
    norm_bind(&m->index_norm, (struct norm_spec){NORM_LAYER_BIAS, s->eps}, s->width,
              names->index_norm, b);
    bind_matrix(b, names->index_weights, s->heads, hidden, false, &m->index_weights);
}

void mla_bind(struct mla *m, const struct mla_spec *spec, int64_t hidden,
              const struct mla_names *names, struct binder *b) {
    m->spec = *spec;
    bind_queries(m, hidden, names, b);
    bind_matrix(b, names->kv_a, spec->latent + spec->rotary, hidden, spec->bias, &m->kv_a);
    norm_bind(&m->kv_norm, (struct norm_spec){NORM_RMS, spec->eps}, spec->latent, names->kv_norm,
              b);
    bind_latents(m, names, b);
    bind_indexer(m, hidden, names, b);
    bind_matrix(b, names->o, hidden, spec->heads * spec->v_width, spec->bias, &m->o);
}

void mla_close(struct mla *m) {
    free(m->in);
    free(m->out);
}

bool mla_store(struct mla *m, struct store *s, const char *what, struct error *e) {
    struct weight *w[MLA_WEIGHTS];
    int n = mla_weights(m, w);
    for (int i = 0; i < n; i++)
        if (!store_weight(s, w[i], what, e)) return false;
    return store_list(s, m->in, m->spec.heads, &m->in_on_device, what, e) &&
           store_list(s, m->out, m->spec.heads, &m->out_on_device, what, e) &&
           norm_store(&m->q_norm, s, what, e) && norm_store(&m->kv_norm, s, what, e) &&
           norm_store(&m->index_norm, s, what, e);
}

int mla_weights(struct mla *m, struct weight *w[MLA_WEIGHTS]) {
    int n = 0;
    w[n++] = &m->kv_a, w[n++] = &m->o, w[n++] = &m->whole[0];
    if (!m->columns) w[n++] = &m->whole[1];
    if (!m->spec.q_rank) w[n++] = &m->q;
    if (m->spec.q_rank) w[n++] = &m->q_a, w[n++] = &m->q_b;
    if (m->spec.indexer.top && !m->spec.indexer.borrows)
        w[n++] = &m->index_q, w[n++] = &m->index_k, w[n++] = &m->index_weights;
    return n;
}

// One head of the columns [from, from + count) of each `period`.
static struct tensor part(struct context *c, struct tensor x, int64_t heads, int64_t from,
                          int64_t count) {
    return tensor_split_heads(take_bands(c, x, x.n[1] / heads, from, count), heads);
}

// q [n, q_rank], the normed queries. In f32, so that the choice does not depend on the precision.
static struct tensor choose(struct context *c, const struct mla *m, struct tensor x,
                            struct tensor q, const struct rows *rows, const struct kv *kv,
                            const struct rope *r, struct tensor lent) {
    const struct indexer_spec *s = &m->spec.indexer;
    struct tensor key = norm_forward(c, &m->index_norm, linear_f32(c, x, &m->index_k));
    struct tensor query = tensor_split_heads(linear_f32(c, q, &m->index_q), s->heads);
    key = rope(c, tensor_split_heads(key, 1), rows, r);
    query = rope(c, query, rows, r);
    kv_write(c, kv, rows, key, (struct tensor){0});
    struct tensor weights = linear_f32(c, x, &m->index_weights);
    weights = scale(c, weights, 1 / sqrtf((float)(s->heads * s->width)));
    struct tensor chosen = lent;
    if (!s->lends) chosen = scratch_tensor(c, DT_I32, 2, (int64_t[]){rows->n, s->top});
    return select_keys(c, query, weights, kv, rows, chosen);
}

struct tensor mla_forward(struct context *c, const struct mla *m, struct tensor x,
                          const struct rows *rows, const struct kv *kv, const struct rope *r,
                          const struct rope *index_rope, struct tensor lent) {
    const struct mla_spec *s = &m->spec;
    struct tensor first[2]; // of [latent + rotary], of [heads * (plain + rotary)] or [q_rank]
    linear_many(c, x, 2, (const struct weight *const[]){&m->kv_a, s->q_rank ? &m->q_a : &m->q},
                first);
    struct tensor kept = first[0], q = first[1];
    struct attention_options opt = {.scale = s->scale, .v_width = s->latent};
    if (s->q_rank) q = norm_forward(c, &m->q_norm, q);
    if (s->indexer.borrows)
        opt.selected = lent;
    else if (s->indexer.top)
        opt.selected = choose(c, m, x, q, rows, &kv[1], index_rope, lent);
    if (s->q_rank) q = linear(c, q, &m->q_b);
    struct tensor latent = norm_forward(c, &m->kv_norm, part(c, kept, 1, 0, s->latent));
    struct tensor key = part(c, kept, 1, s->latent, s->rotary);
    struct tensor turned = part(c, q, s->heads, s->plain_width, s->rotary);
    if (r) {
        key = rope(c, key, rows, r);
        turned = rope(c, turned, rows, r);
    }
    kv_write(c, kv, rows, join(c, latent, key), (struct tensor){0});
    struct matrices in = {s->heads, m->in, m->in_on_device};
    struct matrices out = {s->heads, m->out, m->out_on_device};
    struct tensor plain = part(c, q, s->heads, 0, s->plain_width);
    q = join(c, head_linear(c, plain, &in, m->columns), turned);
    struct tensor y = tensor_split_heads(attention(c, q, kv, rows, &opt), s->heads);
    y = head_linear(c, y, &out, false);
    return linear(c, tensor_2d(DT_F32, y.n[0], s->heads * s->v_width, y.data), &m->o);
}
