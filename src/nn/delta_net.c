#include "nn/delta_net.h"

#include <math.h>
#include <string.h>

static int64_t key_channels(const struct delta *d) { return d->key_heads * d->k_width; }
static int64_t value_channels(const struct delta *d) { return d->heads * d->v_width; }

// Channels of the queries, the keys and the values.
static void channels_of(const struct delta *d, int64_t n[3]) {
    n[0] = n[1] = key_channels(d);
    n[2] = value_channels(d);
}

// The convolution over all channels as three: taps side by side in each.
static void split_conv(struct delta_net *m, const char *name, struct binder *b) {
    int64_t n[3], taps = m->spec.taps, from = 0;
    channels_of(&m->spec.delta, n);
    struct conv all = {0};
    conv_bind(&all, name, n[0] + n[1] + n[2], taps, false, b);
    for (int i = 0; i < 3 && !b->err->set; from += n[i++]) {
        m->conv[i].w = weights_make(b->weights, taps, n[i]);
        for (int64_t t = 0; t < taps; t++)
            memcpy((float *)m->conv[i].w.data + t * n[i],
                   (const float *)all.w.data + t * all.w.n[1] + from, (size_t)n[i] * sizeof(float));
    }
}

static void bind_decays(struct delta_net *m, const struct delta_net_names *names,
                        struct binder *b) {
    const struct delta *d = &m->spec.delta;
    int64_t each = m->spec.channels ? d->k_width : 1;
    struct tensor log;
    bind_table(b, names->a_log, 1, d->heads, &log);
    bind_bare(b, names->dt_bias, d->heads * each, &m->bias);
    if (b->err->set) return;
    m->rate = tensor_1d(DT_F32, d->heads * each, weights_make(b->weights, 1, d->heads * each).data);
    for (int64_t i = 0; i < d->heads * each; i++)
        ((float *)m->rate.data)[i] = -expf(((const float *)log.data)[i / each]);
}

// What the input is multiplied with, but queries, keys and values, is out of a rank.
static void bind_apart(struct delta_net *m, int64_t hidden, const struct delta_net_names *names,
                       struct binder *b) {
    const struct delta *d = &m->spec.delta;
    int64_t n[3], rank = m->spec.rank, decays = d->heads * (m->spec.channels ? d->k_width : 1);
    channels_of(d, n);
    bind_matrix(b, names->q, n[0], hidden, false, &m->q);
    bind_matrix(b, names->k, n[1], hidden, false, &m->k);
    bind_matrix(b, names->v, n[2], hidden, false, &m->v);
    bind_matrix(b, names->beta, d->heads, hidden, false, &m->beta);
    bind_matrix(b, names->decay[0], rank, hidden, false, &m->decay[0]);
    bind_matrix(b, names->decay[1], decays, rank, false, &m->decay[1]);
    bind_matrix(b, names->gate[0], rank, hidden, false, &m->gate[0]);
    bind_matrix(b, names->gate[1], n[2], rank, false, &m->gate[1]);
    conv_bind(&m->conv[0], names->q_conv, n[0], m->spec.taps, false, b);
    conv_bind(&m->conv[1], names->k_conv, n[1], m->spec.taps, false, b);
    conv_bind(&m->conv[2], names->v_conv, n[2], m->spec.taps, false, b);
}

void delta_net_bind(struct delta_net *m, const struct delta_net_spec *spec, float eps,
                    int64_t hidden, const struct delta_net_names *names, struct binder *b) {
    const struct delta *d = &spec->delta;
    m->spec = *spec;
    if (spec->rank) {
        bind_apart(m, hidden, names, b);
    } else {
        bind_matrix(b, names->qkvz, 2 * (key_channels(d) + value_channels(d)), hidden, false,
                    &m->qkvz);
        bind_matrix(b, names->ba, 2 * d->heads, hidden, false, &m->ba);
        split_conv(m, names->conv, b);
    }
    bind_decays(m, names, b);
    norm_bind(&m->norm, (struct norm_spec){NORM_RMS, eps}, d->v_width, names->norm, b);
    bind_matrix(b, names->out, hidden, value_channels(d), false, &m->out);
}

int delta_net_weights(struct delta_net *m, struct weight *w[DELTA_NET_WEIGHTS]) {
    struct weight *all[] = {&m->out,  &m->qkvz,     &m->ba,       &m->q,       &m->k,      &m->v,
                            &m->beta, &m->decay[0], &m->decay[1], &m->gate[0], &m->gate[1]};
    int n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->layout != WEIGHT_NONE) w[n++] = all[i];
    return n;
}

bool delta_net_store(struct delta_net *m, struct store *s, const char *what, struct error *e) {
    struct weight *w[DELTA_NET_WEIGHTS];
    int n = delta_net_weights(m, w);
    for (int i = 0; i < n; i++)
        if (!store_weight(s, w[i], what, e)) return false;
    for (int i = 0; i < 3; i++)
        if (!conv_store(&m->conv[i], s, what, e)) return false;
    return store_tensor(s, &m->rate, what, e) && store_tensor(s, &m->bias, what, e) &&
           norm_store(&m->norm, s, what, e);
}

void delta_net_state(const struct delta_net_spec *s, int64_t fixed[4]) {
    channels_of(&s->delta, fixed);
    for (int i = 0; i < 3; i++) fixed[i] = convolve_state(fixed[i], s->taps);
    fixed[3] = delta_state(&s->delta, 1);
}

// How a row of qkvz has its columns: for each key head its query, its key, its values, their gates.
struct layout {
    int64_t period, from, count; // as take_bands has them; period 0: a part is a matrix of its own
};

static struct layout part_of(const struct delta_net *m, int i) {
    const struct delta *d = &m->spec.delta;
    int64_t key = d->k_width, value = d->heads / d->key_heads * d->v_width;
    if (m->spec.rank) return (struct layout){0};
    return (struct layout){2 * (key + value), i < 3 ? i * key : 2 * key + value,
                           i < 2 ? key : value};
}

struct projected {
    struct tensor in[4]; // queries, keys, values, gates, with the columns of part_of
    struct tensor beta, g;
};

static struct projected project(struct context *c, const struct delta_net *m, struct input input) {
    const struct delta *d = &m->spec.delta;
    struct projected p;
    struct tensor y[4];
    if (m->spec.rank) {
        struct tensor x = input_forward(c, input);
        linear_many(c, x, 4, (const struct weight *const[]){&m->q, &m->k, &m->v, &m->beta}, y);
        memcpy(p.in, y, 3 * sizeof *y);
        p.in[3] = linear(c, linear(c, x, &m->gate[0]), &m->gate[1]);
        p.beta = activate(c, y[3], ACT_SIGMOID);
        p.g = log_decay(c, linear(c, linear(c, x, &m->decay[0]), &m->decay[1]), m->rate, m->bias);
        return p;
    }
    input_linear(c, input, 2, (const struct weight *const[]){&m->qkvz, &m->ba}, y);
    for (int i = 0; i < 4; i++) p.in[i] = y[0];
    delta_gates(c, y[1], d->heads / d->key_heads, m->rate, m->bias, &p.beta, &p.g);
    return p;
}

struct tensor delta_net_forward(struct context *c, const struct delta_net *m, struct input input,
                                const struct rows *rows, const struct tensor state[4],
                                struct tensor to) {
    const struct delta *d = &m->spec.delta;
    struct projected p = project(c, m, input);
    struct convolution conv[3];
    struct tensor in[3];
    for (int i = 0; i < 3; i++) {
        struct layout l = part_of(m, i);
        conv[i] = (struct convolution){p.in[i], m->conv[i].w, m->conv[i].b, state[i], l.period,
                                       l.from,  l.count,      ACT_SILU,     0,        0};
    }
    conv[0].head = conv[1].head = d->k_width;
    conv[0].length = 1 / sqrtf((float)d->k_width), conv[1].length = 1;
    convolve_many(c, 3, conv, rows, in);
    struct delta_inputs inputs = {
        .r = in[0], .k = in[1], .v = in[2], .g = p.g, .beta = p.beta, .a = {0}};
    struct tensor y = delta_rule(c, &inputs, d, rows, state[3]);
    struct layout l = part_of(m, 3);
    struct norm_gate gate = {p.in[3], l.period, l.from, l.count, m->spec.act};
    struct rms norm = {m->norm.w, m->norm.spec.eps};
    y = gated_norm(c, tensor_split_heads(y, d->heads), &norm, &gate, &m->out);
    return output_linear(c, to, y, &m->out);
}
